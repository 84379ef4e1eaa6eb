"""Evaluations that are kept: in a run's folder (scores.json), or beside a file of answers.

    keep(run, "test", predictions, evaluation)     predictions/test.safetensors, and the entry "test" of scores.json
    kept_evaluations(run)["test"]["accuracy"]      every entry that is an evaluation, as `Evaluation.as_dict` gives it
    keep_beside("answers.jsonl", record)           answers.jsonl.evaluation.json, with the hash of the answers

A record is `Evaluation.as_dict()` and, under "data", what the user named (`data.sources.Named`), so that a report finds
the examples again.

Runs of earlier versions kept other keys (`by_length`, `f1_gold`, `by_depth`, ...). `as_evaluation` turns such an entry
into the shape of today; what was not kept then is empty. Other things that papers keep in scores.json, such as the
accuracy at every node, are no evaluations and are passed over.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from pomona.base.errors import FormatError
from pomona.base.files import kind_of, read_bytes, write_json
from pomona.base.shapes import ANYTHING, COUNT, NUMBER, SHARE, TEXT, TRUTH, Each, Either, Maybe, fault
from pomona.data.sources import Named
from pomona.evaluation.accuracy import wilson
from pomona.evaluation.evaluation import Evaluation
from pomona.training.predictions import Predictions
from pomona.training.run import Run

ORDINALS = ("first", "second", "third", "fourth")  # what earlier versions called the questions of an example
TREES = ("f1_gold", "f1_left", "f1_right", "list_recall", "depth", "f1_gold_without_root")

Record = dict[str, Any]


BESIDE = ".evaluation.json"  # what the evaluation of a file of answers is called: answers.jsonl.evaluation.json


def keep(run: Run, name: str, predictions: Predictions, evaluation: Evaluation | Record) -> None:
    """Keep predictions and their evaluation in the run's folder, under a name."""
    run.add_predictions(name, predictions)
    run.add_scores(name, evaluation.as_dict() if isinstance(evaluation, Evaluation) else evaluation)


def record_of(evaluation: Evaluation, named: Named | None = None) -> Record:
    """What is kept of an evaluation: its values, and the examples as the user named them."""
    return {**evaluation.as_dict(), **({} if named is None else {"data": named.plain})}


def free_name(run: Run, label: str, fingerprint: str) -> str:
    """The name under which scores on these examples are kept: the label or, if other examples have it, the label with
    the beginning of the fingerprint. Scores on the same examples are replaced."""
    known = run.scores.get(label)
    same = not isinstance(known, dict) or known.get("fingerprint", fingerprint) == fingerprint
    return label if same else f"{label}-{fingerprint[:6]}"


def keep_beside(answers: str | Path, record: Record) -> Path:
    """Keep the evaluation of a file of answers beside it."""
    path = Path(answers)
    kept = path.with_name(path.name + BESIDE)
    write_json(kept, {**record, "answers": {"file": path.name, "sha256": _digest(path)}})
    return kept


def answers_beside(kept: Path, record: Record) -> tuple[Path | None, str]:
    """The file of answers that a record was kept beside, if it is there and unchanged; else why not."""
    about = record.get("answers")
    if not isinstance(about, dict) or not isinstance(about.get("file"), str):
        return None, ""
    path = kept.with_name(Path(about["file"]).name)
    if kind_of(path) != "file":
        return None, f"the answers {path} are not there any more"
    if _digest(path) != about.get("sha256"):
        return None, f"{path} was changed after it was evaluated; evaluate it again"
    return path, ""


def _digest(path: Path) -> str:
    return hashlib.sha256(read_bytes(path)).hexdigest()


def kept_evaluations(run: Run) -> dict[str, Record]:
    """The evaluations that a run has kept, by name."""
    path = run.folder / "scores.json"
    return {
        name: as_evaluation(entry, path)
        for name, entry in run.scores.items()
        if isinstance(entry, dict) and "accuracy" in entry
    }


def as_evaluation(entry: Record, path: str | Path | None = None) -> Record:
    """An entry of scores.json in the shape of today; an error if its numbers are not numbers."""
    wrong = _fault(entry)
    if wrong:
        raise FormatError(f"the scores kept here cannot be used: {wrong}; evaluate the run again", path=path)
    return entry if "by" in entry else _converted(entry)


# -- entries of earlier versions -------------------------------------------------------------------------------------


def _converted(old: Record) -> Record:
    rows = int(old.get("rows") or 0)
    right, unparsed = round((old["accuracy"] or 0) * rows), round((old.get("malformed") or 0) * rows)
    groups = {
        grouping: {name: _group(share, count) for name, (share, count) in (old.get(f"by_{grouping}") or {}).items()}
        for grouping in ("length", "nesting")
    }
    if old.get("by_depth"):
        groups["nesting"] = {depth: _questions(group) for depth, group in old["by_depth"].items()}
    copies = old.get("unknown_copies")
    return {
        "name": "",
        "corpus": "",
        "fingerprint": old.get("fingerprint", ""),
        "rows": rows,
        "right": right,
        "wrong": rows - right - unparsed,
        "unparsed": unparsed,
        "accuracy": old["accuracy"],
        "interval": old.get("interval"),
        "questions": [],
        "by": {grouping: kept for grouping, kept in groups.items() if kept},
        "trees": {name: {"value": old[name], "interval": None} for name in TREES if old.get(name) is not None},
        "ladder": None,
        "effective_depth": _depths(old),
        "chains": [],
        "measures": {} if copies is None else {"unknown-copies": {"value": copies}},
        "notes": [],
    }


def _depths(entry: Record) -> list[Any]:
    """The effective depths of an entry; earlier versions kept one, or one for each question by its name."""
    depths = entry.get("effective_depth") or []
    if isinstance(depths, dict):
        return [depths] if "depth" in depths else list(depths.values())
    return depths if isinstance(depths, list) else [depths]


def _group(share: float, rows: int, questions: list[int] | None = None) -> Record:
    right = round(share * rows)
    low, high = wilson(right, rows) if rows else (0.0, 1.0)
    return {
        "rows": rows, "right": right, "unparsed": 0, "questions": questions or [right], "accuracy": share,
        "interval": [low, high],
    }  # fmt: skip


def _questions(group: Record) -> Record:
    """A depth of `by_depth`: for each question and for both the share right, with its interval."""
    each = [round(group[name][0] * group["rows"]) for name in ORDINALS if name in group]
    return _group(group["both"][0], group["rows"], each)


# -- are the numbers numbers? ----------------------------------------------------------------------------------------

_PAIR = (NUMBER, NUMBER)
_SHARES = (SHARE, SHARE, SHARE)  # the share that is right, and its interval
_LEVEL = Either(COUNT, TEXT)
_PART = {"name": TEXT, "levels": [ANYTHING], "share": NUMBER, "low": NUMBER, "high": NUMBER}
_DEPTH = {
    "depth": _LEVEL, "interval": (_LEVEL, _LEVEL), "fits": TRUTH, "unlike": [TEXT], "rival": Maybe(TEXT),
    "contested": COUNT, "explained": NUMBER, "margin": NUMBER, "agreement": [SHARE], "chance?": Maybe(NUMBER),
    "rows?": Maybe(COUNT), "unparsed?": Maybe(NUMBER), "mixture?": Maybe({"shares": [_PART]}),
}  # fmt: skip
_GROUP = {"rows": COUNT, "right": COUNT, "accuracy": SHARE, "interval": _PAIR}
_COMMON = {
    "accuracy": Maybe(SHARE), "interval?": Maybe(_PAIR), "fingerprint?": TEXT, "rows?": Maybe(COUNT),
}  # fmt: skip
_TODAY = {
    **_COMMON, "by": Each(Each(_GROUP)), "trees?": Maybe(Each({"value": Maybe(NUMBER)})),
    "measures?": Maybe(Each(Each(ANYTHING))), "notes?": [TEXT],
    "chains?": Maybe([{"sentence": TEXT, "groups": Each(_GROUP)}]),
}  # fmt: skip
_BEFORE = {
    **_COMMON, **{f"by_{grouping}?": Maybe(Each((SHARE, COUNT))) for grouping in ("length", "nesting")},
    **{f"{name}?": Maybe(NUMBER) for name in TREES}, "malformed?": Maybe(SHARE), "unknown_copies?": Maybe(NUMBER),
    "by_depth?": Maybe(Each({
        "rows": COUNT, "both": _SHARES, **{f"{name}?": _SHARES for name in ORDINALS},
    })),
}  # fmt: skip


def _fault(entry: Record) -> str:
    """What is wrong with an entry of scores.json; empty if nothing is."""
    wrong = fault(entry, _TODAY if "by" in entry else _BEFORE)
    depths = [] if wrong else _depths(entry)
    wrong = wrong or fault(depths, [_DEPTH], "effective_depth")
    empty = next((at for at, depth in enumerate(depths) if not wrong and not depth["agreement"]), None)
    return wrong if empty is None else f"effective_depth[{empty}].agreement is empty"


def is_pair(value: Any) -> bool:
    """Two finite numbers."""
    return not fault(value, _PAIR)


def is_number(value: Any) -> bool:
    """A finite number, or null where nothing was measured."""
    return not fault(value, Maybe(NUMBER))
