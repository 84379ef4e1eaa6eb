"""The ladder: baselines that see only part of the input, from nothing to everything. Compare a model with them.

    >>> test = pm.generate("listops/d20s", split="test")
    >>> print(ladder(test, train=pm.generate("listops/d20s")))

A *rung* is a predictor that sees only part of an example. There are two kinds, the same for every task:

    look-up      the most frequent answer of training to the same *information* about an example (`shortcuts.lookups`)
    truncation   the top k levels of the trees, evaluated (`shortcuts.truncation` for the built-in operators on digits,
                 `shortcuts.enumeration` for operators and values of any kind)

Where the distribution of the data is known, the best accuracy that any predictor can reach with the information is
computed exactly: `best_accuracy` for a finite distribution (NLI: enumerate the pairs), `copy_ceiling` for COPY
arguments that do not occur in training. A task adds rungs with the class attribute `shortcuts`, a mapping from names to
informations, and with the method `ceilings`, exact accuracies on its distribution.

Without `train`, predictors learn from one half of the corpus and answer the other, so none answers an example it saw.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base import notebook
from pomona.base.arrays import Floats
from pomona.base.errors import MeasureError
from pomona.base.files import read_json, write_json
from pomona.base.workers import HERE, Crew
from pomona.data.answers import all_asked, asked
from pomona.data.corpus import Corpus
from pomona.data.formats import read, write
from pomona.data.shards.folder import Shard, Shards
from pomona.data.task import Information, task_class
from pomona.shortcuts import enumeration, truncation
from pomona.shortcuts.lessons import Lessons, Teaching, coded, learn, name_of, resolved
from pomona.shortcuts.lookups import FEATURES_FROM, Learner, Rung, all_informations, judged, root_list, root_operators
from pomona.trees.links import positions
from pomona.trees.values import to_json

__all__ = [
    "Information",
    "Ladder",
    "Rung",
    "best_accuracy",
    "copy_ceiling",
    "evaluations",
    "ladder",
    "lookups",
    "root_list",
    "root_operators",
]

LEVELS = 8
NOTHING = "nothing"


@dataclass(frozen=True, eq=False)
class Ladder:
    """The rungs in order; `ladder["top 2 levels"]` is one of them."""

    corpus: str
    learnt_from: str
    rungs: tuple[Rung, ...]
    notes: tuple[str, ...] = ()  # which rungs do not apply, and why

    def __getitem__(self, name: str) -> Rung:
        for rung in self.rungs:
            if rung.name == name:
                return rung
        raise KeyError(f"no rung is called {name!r}; there are {', '.join(rung.name for rung in self.rungs)}")

    def __repr__(self) -> str:
        best = max(self.rungs, key=lambda rung: -1.0 if np.isnan(rung.accuracy) else rung.accuracy)
        return f"Ladder({self.corpus}: {len(self.rungs)} rungs, the best is {best.name!r} with {best.accuracy:.1%})"

    def _repr_html_(self) -> str:
        rows = [[rung.name, _percent(rung), notebook.bar(rung.accuracy), rung.sees] for rung in self.rungs]
        heading = notebook.heading(f"Baselines on {self.corpus}", f"learnt from {self.learnt_from}")
        return notebook.page(heading, notebook.table(["baseline", "right, %", "", "what it sees"], rows))

    def __str__(self) -> str:
        width = max(len(rung.name) for rung in self.rungs)
        lines = [f"{rung.name:{width}}  {_percent(rung)}  {rung.sees}" for rung in self.rungs]
        return f"{self.corpus}, learnt from {self.learnt_from}\n" + "\n".join([*lines, *self.notes])

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        rows = [
            {
                "name": rung.name,
                "sees": rung.sees,
                "accuracy": _number(rung.accuracy),
                "error": _number(rung.error),
                "per_question": [_number(accuracy) for accuracy in rung.per_question],
            }
            for rung in self.rungs
        ]
        return {"corpus": self.corpus, "learnt_from": self.learnt_from, "rungs": rows, "notes": list(self.notes)}


def _number(value: float) -> float | None:
    return None if np.isnan(value) else round(value, 6)


def _percent(rung: Rung) -> str:
    shown = [*rung.per_question, rung.accuracy] if rung.right.shape[1] > 1 else [rung.accuracy]
    return "  ".join("    -" if np.isnan(accuracy) else f"{100 * accuracy:5.1f}" for accuracy in shown)


# -- the ladder ------------------------------------------------------------------------------------------------------


def ladder(
    corpus: Corpus | Shards,
    train: Corpus | Shards | None = None,
    *,
    levels: int = LEVELS,
    more: Mapping[str, Information] | None = None,
    crew: Crew = HERE,
) -> Ladder:
    """Every rung that applies to a corpus; `more` adds look-ups by informations of your own.

    Shards (`pomona.data.Shards`) of training are counted by the workers of `crew`, and those of the corpus answered by
    them; all rungs are those of the whole. Shards are answered only from a training set, not one half from the other.
    """
    if not len(corpus):
        raise MeasureError("a ladder needs at least one example")
    if isinstance(corpus, Shards):
        return _ladder_of_shards(corpus, train, levels, dict(more or {}), crew)
    informations: dict[str, Information] = {**task_class(corpus).shortcuts, **dict(more or {})}
    learner = Learner(corpus, train, informations, crew)
    reason = learner.folds[0][0].not_evaluable if train is not None else ""
    return _ladder(corpus, learner, levels, informations, reason)


def _ladder(
    corpus: Corpus, learn: Learner, levels: int, informations: Mapping[str, Information], not_evaluable: str
) -> Ladder:
    """The ladder of a corpus; `not_evaluable` says why training has no values that rules give."""
    questions = all_asked(corpus)
    chance = np.full(questions.shape, 1.0 / max(1, len(np.unique(questions))))
    rungs = [
        Rung(NOTHING, "a guess among the answers there are", chance),
        learn.table("most frequent answer", "the answers of training", "nothing"),
        learn.table("root operator", "the name at the top of each tree", "root operators"),
        learn.weighed("surface counts", "how often each token occurs"),
    ]
    rungs += [
        learn.table(name, _first_line(keys), f"own {name}", "root operators") for name, keys in informations.items()
    ]
    rungs += [
        Rung(name, "the best possible with this information, exactly", np.full(questions.shape, best))
        for name, best in task_class(corpus).ceilings(corpus).items()
    ]
    if questions.shape[1] != corpus.width:
        asked_for = f"an example asks {questions.shape[1]} questions and has {corpus.width} trees"
        return Ladder(repr(corpus), learn.source, tuple(rungs), (_left_out(asked_for),))
    reasons = [reason for reason in (_not_evaluable(corpus), not_evaluable) if reason]
    if not reasons:
        rungs += _evaluators(corpus, learn, levels)
    worded = any(word.isdigit() and len(word) > 1 for word in corpus.vocabulary)
    copies = corpus.forest.link is not None and truncation.applies(corpus)
    if copies and len(learn.folds) == 1 and worded:  # with digits there are no unknown arguments
        rungs.append(copy_ceiling(corpus, learn.folds[0][0].copied))
    return Ladder(repr(corpus), learn.source, tuple(rungs), tuple(map(_left_out, reasons[:1])))


def evaluations(corpus: Corpus, train: Corpus | None, levels: int, *, by_hand: bool = False) -> npt.NDArray[np.int64]:
    """Answers from the top 0 .. `levels` levels: [examples, trees, levels + 1], as positions in outcomes."""
    return Learner(corpus, train).evaluated(levels, by_hand=by_hand)


def _not_evaluable(corpus: Corpus) -> str:
    """Why the rules of a corpus's operators do not give its values; empty if they do."""
    if truncation.applies(corpus):
        return ""
    try:
        enumeration.check_evaluable(corpus)
    except MeasureError as error:
        return str(error)
    return ""


def _left_out(reason: str) -> str:
    return f"Left out are the look-up table and the top k levels, which compute values of trees: {reason}."


def lookups(corpus: Corpus, train: Corpus | None = None, *, own: bool = False) -> list[Rung]:
    """The rungs that only look answers up: the most frequent answer, by root operator, and by the root's list.

    With `own`, those of the corpus's task as well.
    """
    informations = task_class(corpus).shortcuts if own else {}
    learn = Learner(corpus, train, informations)
    more = [
        learn.table(name, _first_line(keys), f"own {name}", "root operators") for name, keys in informations.items()
    ]
    return [*_lookups(learn), *more]


def _lookups(learn: Learner) -> Iterable[Rung]:
    yield learn.table("most frequent answer", "the answers of training", "nothing")
    yield learn.table("root operator", "the name at the top of each tree", "root operators")
    yield learn.table(
        "look-up table", "root operator, what it makes of its own leaves, their number, operators of its lists",
        "root list", "root operators",
    )  # fmt: skip


def _evaluators(corpus: Corpus, learn: Learner, levels: int) -> Iterable[Rung]:
    """The look-up table over the root's list, the truncated evaluators and, for ORCHARD, its heuristics."""
    yield list(_lookups(learn))[-1]
    if corpus.width > 1:
        right = np.full((len(corpus), corpus.width), np.nan)
        wanted = asked(corpus)
        right[:, 1:] = wanted[:, 1:] == wanted[:, :1]
        yield Rung("repeat the first answer", "the right answer to the first tree", right)
    positional = {"FIRST", "LAST"} & {corpus.forest.names[symbol] for symbol in np.unique(corpus.forest.symbol)}
    heuristics = (corpus.width > 1 or positional) and truncation.applies(corpus)
    for by_hand in (False, True) if heuristics else (False,):
        answers = learn.evaluated(levels, by_hand=by_hand)
        filled = "cut lists by their edge, or left out" if by_hand else "cut lists by p(value | operator)"
        for level in range(levels + 1):
            if level or not by_hand:
                label = f"{'by hand, ' if by_hand else ''}top {level} level{'s' if level != 1 else ''}"
                sees = f"lists nested {level} deep; {filled}" if level else "root operators; p(value | operator)"
                yield judged(corpus, label, sees, answers[:, :, level])


def _first_line(information: Information) -> str:
    return str(getattr(information, "__doc__", None) or "information of a task's own").strip().split("\n")[0]


# -- shards ----------------------------------------------------------------------------------------------------------


def _ladder_of_shards(
    shards: Shards, train: Corpus | Shards | None, levels: int, more: Mapping[str, Information], crew: Crew
) -> Ladder:
    """Learn from training first; then the ladders of all parts of the shards, added up."""
    if train is None:
        raise MeasureError("shards are answered from a training set; give one, for example the shards of train")
    informations = {**task_class(next(shards.parts())).shortcuts, **more}
    named = {name: name_of(information) for name, information in informations.items()}
    if not all(named.values()):
        crew = HERE
    taught = learn(train, all_informations(informations), crew)
    lessons = taught.lessons()
    with tempfile.TemporaryDirectory(prefix="pomona-lessons-") as folder:
        path, sample = Path(folder) / "lessons.json", Path(folder) / "first.parquet"
        write_json(path, lessons.plain())
        write(_first_examples(lessons), sample)
        about = {"lessons": str(path), "sample": str(sample), "levels": levels}
        about["informations"] = informations if crew is HERE else named
        orders = [{**about, "shard": shard.plain()} for shard in shards.files]
        answers = dict(crew.run(ladder_of_shard, orders))
    parts = [answers[number] for number in range(len(orders))]
    rungs = _joined([part["rungs"] for part in parts], parts[0]["order"])
    guesses = {text for part in parts for text in part["answers"]}
    chance = 1.0 / max(1, len(guesses))
    rungs = [replace(rung, right=np.full(rung.right.shape, chance)) if rung.name == NOTHING else rung for rung in rungs]
    notes = next((tuple(part["notes"]) for part in parts if part["notes"]), ())
    return Ladder(repr(shards), taught.source, tuple(rungs), notes)


def _first_examples(lessons: Lessons) -> Corpus:
    """The first examples of training, for the softmax, whatever answers a part of the shards has."""
    return lessons.first(lessons.outcomes, FEATURES_FROM)


def _joined(parts: Sequence[Mapping[str, Any]], order: Sequence[str]) -> list[Rung]:
    """The rungs that all parts have, in this order; where evaluators do not apply to one part, they do not apply."""
    rungs = []
    for name in order:
        if all(name in part for part in parts):
            pieces = [_rung(name, part[name]) for part in parts]
            rungs.append(reduce(Rung.join, pieces))
    return rungs


def _rung(name: str, plain: Mapping[str, Any]) -> Rung:
    right = np.array([[np.nan if value is None else value for value in row] for row in plain["right"]])
    return Rung(name, plain["sees"], right, None, np.array(plain["times"], np.int64))


def ladder_of_shard(
    shard: Mapping[str, Any], lessons: str, sample: str, informations: Mapping[str, Any], levels: int
) -> dict[str, Any]:
    """The ladder of a shard, a part at a time, as plain values: each rung as different rows and how often they are."""
    own = {name: resolved(information) for name, information in informations.items()}
    first = read(sample)
    taught: Teaching = Lessons.from_plain(read_json(lessons), lambda: [first])
    found: dict[str, Rung] = {}
    answers: set[str] = set()
    missing: set[str] = set()
    notes: tuple[str, ...] = ()
    for part in Shard.of(shard).parts():
        made = _ladder(part, Learner(part, taught, own), levels, own, taught.not_evaluable)
        rungs = {rung.name: rung.counted() for rung in made.rungs}
        missing |= (found.keys() ^ rungs.keys()) if found else set()
        found = {name: found[name].join(rung) if name in found else rung for name, rung in rungs.items()}
        answers |= {to_json(part.outcomes[answer]) for answer in np.unique(asked(part)).tolist()}
        notes = notes or made.notes
    return {
        "order": [name for name in found if name not in missing], "answers": sorted(answers), "notes": list(notes),
        "rungs": {name: {"sees": rung.sees, "right": _plain(rung.right), "times": _times(rung).tolist()}
                  for name, rung in found.items() if name not in missing},
    }  # fmt: skip


def _plain(right: Floats) -> list[list[float | None]]:
    return [[None if np.isnan(value) else value for value in row] for row in right.tolist()]


def _times(rung: Rung) -> npt.NDArray[np.int64]:
    return np.ones(len(rung.right), np.int64) if rung.times is None else rung.times


# -- ceilings ----------------------------------------------------------------------------------------------------------


def best_accuracy(
    information: Sequence[Any] | npt.NDArray[Any],
    answers: Sequence[Any] | npt.NDArray[Any],
    weights: Floats | None = None,
) -> float:
    """The accuracy of the best predictor that sees only the information, on a finite distribution of cases.

    Weights default to equal.

    >>> best_accuracy(["even", "even", "odd"], ["yes", "no", "no"])
    0.6666666666666666
    """
    keys, labels = (
        np.unique(coded(np.asarray(part)), return_inverse=True)[1] for part in (information, answers)
    )
    mass = np.ones(len(keys)) if weights is None else np.asarray(weights, np.float64)
    if not len(keys) == len(labels) == len(mass) or not len(keys) or mass.min() < 0 or mass.sum() <= 0:
        raise MeasureError("a finite distribution needs a key, an answer and a weight (0 or more) for each case")
    table = np.zeros((int(keys.max()) + 1, int(labels.max()) + 1))
    np.add.at(table, (keys, labels), mass)
    return float(table.max(axis=1).sum() / mass.sum())


def copy_ceiling(corpus: Corpus, seen: Collection[int], references: str | None = None) -> Rung:
    """The best possible accuracy if only these COPY arguments are known, and all others are the same unknown word.

    An unknown argument is equally likely to be any unknown position of the trees that may be quoted, as the generator
    draws them. `references` says which trees these are (default: the setting of the corpus's task, else all earlier
    trees). Leaves are independent, and the operators combine their distributions exactly. For each tree, the right
    values of the trees before it are taken as known. The first tree has no unknowns, so for two trees this is the Bayes
    ceiling. For more trees it is an upper bound, which can only be reached with the right values of earlier trees.
    """
    allowed = references or dict(corpus.origin.get("settings") or {}).get("references", "earlier")
    if allowed not in ("earlier", "previous", "first"):
        raise MeasureError(f"references = {allowed!r}: trees quote 'earlier' ones, the 'previous' or the 'first'")
    forest = corpus.forest
    copies = np.flatnonzero(forest.links)
    node_positions = positions(forest, corpus.width)
    strange = ~np.isin(node_positions, np.array(sorted(seen), np.int64))
    unknown = copies[strange[copies - forest.links[copies]]]
    leaves = np.full(len(forest.symbol), -1, np.int64)
    leaves[unknown] = np.arange(len(unknown))
    # Per tree: how often each value is at an unknown position; then the same for the trees that may be quoted.
    counts = np.zeros((len(corpus), corpus.width, truncation.VALUES))
    at = np.divmod(forest.tree[strange], corpus.width)
    np.add.at(counts, (*at, truncation.digits(corpus)[strange]), 1.0)
    quotable = {"earlier": counts.cumsum(axis=1), "previous": counts, "first": counts[:, [0] * corpus.width]}[allowed]
    row, tree = np.divmod(forest.tree[unknown], corpus.width)
    chances = quotable[row, tree - 1]
    chances = chances / np.maximum(1e-300, chances.sum(axis=1, keepdims=True))
    told = replace(corpus, forest=replace(forest, link=None))  # a COPY with a known argument is its value
    chance = truncation.root_distributions(told, leaves, chances).max(axis=1).reshape(len(corpus), corpus.width)
    return Rung("COPY ceiling", f"all but COPY arguments other than the {len(set(seen))} known ones", chance)
