"""What a model said of a corpus: questions out, answers back in, each under the id of its example.

    write_inputs(corpus, "inputs.jsonl")             {"id": "7f0c...", "input": "[MAX 2 9 [MIN 4 7 ] 0 ]"}
    answers = read_answers("answers.jsonl", corpus)  {"id": "7f0c...", "prediction": "9"}
                                                     {"id": "...", "prediction": 9, "tree": "( ( ( [MAX 2 ) 9 ) ] )"}

An answer is an outcome of the corpus, or reads like one but for blanks around it: a tuple is a list in JSON, and
("a", "b") may also be written '("a", "b")' or '["a", "b"]'. Any other answer is *unparsed*: it is not right, and it is
counted apart from the answers that are wrong. `null` says that the model gave no answer. Where an example asks several
questions (ORCHARD: one for each tree) the answer is [6, 2], "6,2" or "6 2"; too few leave the last questions unparsed,
too many leave all of them so. Nothing else is tidied up: "The answer is 4" is unparsed, not 4.

A tree is written in brackets over the example's own tokens, as lists or as groups (`trees.brackets`), for all examples
or for none. An example's id is its own, or its content key; an example that stands in a corpus several times has its
key first and then the key with "-2", "-3" behind it.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.errors import FormatError, MeasureError, TreeError
from pomona.base.files import read_bytes, replacing
from pomona.data.corpus import Corpus
from pomona.trees import brackets
from pomona.trees.binary import binarise
from pomona.trees.forest import Forest
from pomona.trees.values import Interner, from_json, to_json

UNPARSED = -1
SHOWN = 10  # ids that an error lists before it only counts


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of one model: positions in the corpus's outcomes, [examples, questions], -1 for none of them."""

    name: str
    given: npt.NDArray[np.int64]
    trees: Forest | None = None


def asked(corpus: Corpus) -> npt.NDArray[np.int64]:
    """The answers wanted, one column a question; where every target is its roots' values, as "6,2", a root is one."""
    if corpus.targets.shape[1] == 1 and corpus.width > 1 and _paired(corpus):
        roots = corpus.values[corpus.forest.root].reshape(len(corpus), corpus.width)
        return np.asarray(roots, np.int64)
    return corpus.targets.astype(np.int64)


def _paired(corpus: Corpus) -> bool:
    used = [corpus.outcomes[value] for value in np.unique(corpus.targets).tolist() if value >= 0]
    if not used or not all(isinstance(outcome, str) and "," in outcome for outcome in used):
        return False  # at once, since the rest goes through all the examples
    roots = corpus.values[corpus.forest.root].reshape(len(corpus), corpus.width)
    cases = np.unique(np.column_stack([corpus.targets, roots]), axis=0)  # "Paris, France" is one answer, not two
    return cases.min() >= 0 and all(
        corpus.outcomes[target] == ",".join(str(corpus.outcomes[value]) for value in values)
        for target, *values in cases.tolist()
    )


def all_asked(corpus: Corpus) -> npt.NDArray[np.int64]:
    """The answers wanted, of a corpus in which all of them are known; else an error."""
    wanted = asked(corpus)
    if not wanted.shape[1]:
        raise MeasureError(f"{corpus!r} asks for nothing: its targets are empty; leave them out to ask for the roots")
    unknown = np.flatnonzero((wanted < 0).any(axis=1))
    if len(unknown):
        first = corpus[int(unknown[0])].id
        raise MeasureError(f"{len(unknown):,} of {len(corpus):,} examples have no known answer (first: {first!r})")
    return wanted


def ids_of(corpus: Corpus) -> list[str]:
    """An id for every example, no two alike."""
    names = list(corpus.ids) if corpus.ids is not None else [f"{key:016x}" for key in corpus.keys.tolist()]
    seen: Counter[str] = Counter()
    ids = []
    for name in names:
        seen[name] += 1
        ids.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return ids


def write_inputs(corpus: Corpus, path: str | Path, *, answers: bool = False) -> Path:
    """One line an example, `id` and `input`, for a model that lives elsewhere; with `answers`, the right ones too."""
    with replacing(path) as beside, beside.open("w", encoding="utf-8", newline="\n") as file:
        for number, (name, text) in enumerate(zip(ids_of(corpus), corpus.texts, strict=True)):
            line: dict[str, Any] = {"id": name, "input": text}
            if answers:
                line["answer"] = said(corpus, corpus.targets[number])
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return Path(path)


def write_answers(corpus: Corpus, answers: Answers, path: str | Path) -> Path:
    """A file that `read_answers` reads: an id and a prediction a line, and a tree where there are trees."""
    trees = None if answers.trees is None else brackets.write(answers.trees)
    with replacing(path) as beside, beside.open("w", encoding="utf-8", newline="\n") as file:
        for number, name in enumerate(ids_of(corpus)):
            line: dict[str, Any] = {"id": name, "prediction": said(corpus, answers.given[number])}
            if trees is not None:
                line["tree"] = trees[number]
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return Path(path)


def said(corpus: Corpus, positions: npt.NDArray[Any]) -> Any:
    """The answer to the question of one example as a JSON value; None where there is none.

    A list for several questions, and around a tuple, which is a list in JSON: [["a", "b"]] is one answer.
    """
    values = [None if position < 0 else corpus.outcomes[position] for position in positions.tolist()]
    return values[0] if len(values) == 1 and not isinstance(values[0], tuple) else values


def answers_given(corpus: Corpus, predictions: Sequence[Any] | npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Predictions as positions in the corpus's outcomes, [examples, questions]; -1 for what is none of them."""
    questions = asked(corpus).shape[1]
    known = _Outcomes(corpus.outcomes)
    listed = predictions.tolist() if isinstance(predictions, np.ndarray) else predictions
    rows = [_parsed(prediction, questions, known) for prediction in listed]
    if len(rows) != len(corpus):
        raise MeasureError(f"{len(rows):,} predictions for the {len(corpus):,} examples of the corpus")
    return np.array(rows, np.int64).reshape(len(corpus), questions)


class _Outcomes:
    """Outcomes by exact value and by the texts that read like them; of outcomes that read alike the first counts."""

    def __init__(self, outcomes: Sequence[Any]) -> None:
        self._exact = Interner(outcomes)
        self._texts: dict[str, int] = {}
        for position, outcome in enumerate(outcomes):
            self._texts.setdefault(str(outcome).strip(), position)
        for position, outcome in enumerate(outcomes):
            if isinstance(outcome, tuple):
                self._texts.setdefault(to_json(outcome), position)

    def find(self, answer: Any) -> int:
        """The outcome that is this very value, else the one that reads like it, else UNPARSED."""
        try:
            value = from_json(answer)
        except ValueError:
            return UNPARSED
        position = self._exact.find(value)
        if position < 0 and isinstance(value, float) and value.is_integer():  # tables with a gap write 7 as 7.0
            value = int(value)
            position = self._exact.find(value)
        if position < 0 and type(value) in (int, str):
            position = self._texts.get(str(value).strip(), UNPARSED)
        return position


def _parsed(prediction: Any, questions: int, outcomes: _Outcomes) -> list[int]:
    """The positions of the answers to one example's questions."""
    parts: Sequence[Any]
    if isinstance(prediction, str):
        parts = _split(prediction) if questions > 1 else [prediction]
    elif isinstance(prediction, tuple) and questions == 1 and (whole := outcomes.find(prediction)) >= 0:
        return [whole]
    else:
        parts = prediction if isinstance(prediction, (list, tuple)) else [prediction]
    found = [outcomes.find(part) for part in parts[:questions]]
    if questions == 1 and isinstance(prediction, list) and (len(parts) > 1 or found == [UNPARSED]):
        return [outcomes.find(prediction)]  # a tuple that was not put into a list of answers
    if len(parts) > questions:
        return [UNPARSED] * questions
    return found + [UNPARSED] * (questions - len(found))


def _split(text: str) -> list[str]:
    """The answers in "6,2" or "6 2"; an empty place between commas is an answer that is not there."""
    return text.split(",") if "," in text else text.split()


# -- reading -----------------------------------------------------------------------------------------------------------


def read_answers(path: str | Path, corpus: Corpus, name: str = "") -> Answers:
    """The answers in a file, in the order of the corpus: JSONL, or CSV or TSV with a line of headings.

    Ids that are missing, unknown or given twice are an error that lists them; nothing is left out of the counting.
    """
    path = Path(path)
    said: dict[str, tuple[Any, Any]] = {}
    twice: dict[str, list[int]] = {}
    lines: dict[str, int] = {}
    for line, row in _rows(path):
        key = row["id"]
        if key in said:
            twice.setdefault(key, [lines[key]]).append(line)
            continue
        lines[key] = line
        said[key] = row.get("prediction"), row.get("tree")
    wanted = ids_of(corpus)
    known = set(wanted)
    _complain(
        path, corpus, [key for key in wanted if key not in said], [key for key in said if key not in known], twice
    )
    given = answers_given(corpus, [said[key][0] for key in wanted])
    texts = [said[key][1] for key in wanted]
    with_tree = [text is not None for text in texts]
    trees = None
    if any(with_tree):
        if not all(with_tree):
            lacking = wanted[with_tree.index(False)]
            message = f"{sum(with_tree):,} of {len(wanted):,} predictions have a tree; the first without is {lacking!r}"
            raise FormatError(f"{message}. Give one to all or to none", path=path)
        trees = trees_over(corpus, texts, path)
    return Answers(name or path.stem, given, trees)


def _complain(
    path: Path, corpus: Corpus, missing: list[str], unknown: list[str], twice: Mapping[str, list[int]]
) -> None:
    """One error for everything that is wrong with the ids."""
    wrong = []
    if missing:
        wrong.append(f"{_examples(len(missing))} without a prediction: {_listed(missing)}")
    if twice:
        places = [f"{key} (lines {', '.join(map(str, lines))})" for key, lines in twice.items()]
        wrong.append(f"{_ids(len(twice))} given more than once: {_listed(places)}")
    if unknown:
        wrong.append(f"{_ids(len(unknown))} not in the corpus: {_listed(unknown)}")
    if wrong:
        raise FormatError(
            f"{'; '.join(wrong)}. {corpus!r} has {len(corpus):,} ids; `pomona export` writes them with their inputs",
            path=path,
        )


def _examples(count: int) -> str:
    return f"{count:,} example{'s' if count > 1 else ''}"


def _ids(count: int) -> str:
    return f"{count:,} id{'s' if count > 1 else ''}"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")


def text_of(path: Path) -> str:
    """The text of a file, without the mark that some programs put in front of it."""
    data = read_bytes(path).removeprefix(b"\xef\xbb\xbf")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise FormatError("this is not UTF-8", path=path, line=line) from None


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and fields of each line, `id` made text."""
    text = text_of(path)
    if not text.strip():
        raise FormatError("the file is empty; a line is an object with an id and a prediction", path=path)
    table = path.suffix.lower() in (".csv", ".tsv")
    for line, row in _table(text, path) if table else _objects(text, path):
        key = row.get("id")
        if isinstance(key, bool) or not isinstance(key, (str, int)):
            raise FormatError(f'"id" is a string; got {str(key)[:60]!r}', path=path, line=line)
        yield line, {**row, "id": str(key)}


def _objects(text: str, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, piece in enumerate(text.split("\n"), 1):
        if not piece.strip():
            continue
        try:
            row = json.loads(piece)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"this is not JSON: {error}", path=path, line=line) from None
        if not isinstance(row, dict) or "id" not in row or "prediction" not in row:
            shape = '{"id": "...", "prediction": "..."}'
            raise FormatError(f"a line is an object as {shape}; got {piece[:60]!r}", path=path, line=line)
        yield line, row


def _table(text: str, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
    try:
        names = list(reader.fieldnames or ())
        if names.count("id") != 1 or names.count("prediction") != 1:
            message = "the first line must name the columns id and prediction, once each; it names "
            raise FormatError(f"{message}{', '.join(names)[:80]!r}", path=path, line=1)
        for row in reader:
            if row["prediction"] is None or None in row:
                raise FormatError(
                    "this line has another number of columns than the first", path=path, line=reader.line_num
                )
            yield reader.line_num, dict(row)
    except csv.Error as error:
        raise FormatError(f"this is no table we can read: {error}", path=path, line=reader.line_num) from None


# -- trees -------------------------------------------------------------------------------------------------------------


def trees_over(corpus: Corpus, texts: Sequence[Any], path: str | Path | None = None) -> Forest:
    """Trees written in brackets, checked to stand over the tokens of their examples."""
    ids = ids_of(corpus)
    if corpus.width != 1:
        message = f'trees are compared where an example has one; here it has {corpus.width}. Leave out "tree"'
        raise FormatError(message, path=path)
    made = []
    for name, text in zip(ids, texts, strict=True):
        try:
            if not isinstance(text, str):
                raise TreeError(f"a tree is text in brackets; got {str(text)[:60]!r}")
            tree = brackets.read(text)
        except TreeError as error:
            raise FormatError(f"the tree of {name!r}: {error}", path=path) from None
        grouped = tree.names[int(tree.symbol[-1])] == brackets.UNNAMED
        made.append(_without_single_groups(tree) if grouped or len(tree.symbol) == 1 else binarise(tree))
    forest = Forest.concatenate(made)
    leaves = np.array(forest.names, object)[forest.symbol[forest.leaf]]
    counts = np.add.reduceat(forest.leaf.astype(np.int64), forest.start[:-1])
    words = np.array(corpus.vocabulary, object)[corpus.tokens]
    if np.array_equal(counts, corpus.lengths) and np.array_equal(leaves, words):
        return forest
    first = np.concatenate([[0], np.cumsum(counts)])
    for row, name in enumerate(ids):
        mine = leaves[first[row] : first[row + 1]].tolist()
        theirs = words[corpus.token_start[row] : corpus.token_start[row + 1]].tolist()
        if mine != theirs:
            raise FormatError(f"the tree of {name!r} {_difference(mine, theirs)}", path=path)
    raise AssertionError("trees were refused that have no fault")


def _without_single_groups(tree: Forest) -> Forest:
    """A tree in which no group holds a single thing: such brackets group nothing, and would count as depth."""
    kept = tree.arity != 1
    if kept.all():
        return tree
    parent = tree.parent.tolist()
    for node in reversed(range(len(parent))):  # a parent comes after its children, so its own parent is right already
        if parent[node] >= 0 and not kept[parent[node]]:
            parent[node] = parent[parent[node]]
    number = np.append(np.cumsum(kept) - 1, -1)  # -1, above the root, reads the last one
    lifted = number[np.array(parent, np.int64)[kept]].astype(np.int32)
    return Forest(tree.symbol[kept], lifted, np.array([0, len(lifted)], np.int64), tree.names)


def _difference(mine: list[str], theirs: list[str]) -> str:
    if len(mine) != len(theirs):
        return f"has {len(mine)} tokens, the example {len(theirs)}"
    place = next(place for place, (one, other) in enumerate(zip(mine, theirs, strict=True)) if one != other)
    return f"has {mine[place]!r} as token {place + 1}, the example {theirs[place]!r}"
