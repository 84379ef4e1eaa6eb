"""A model's answers to a corpus: write the inputs, read the answers back, matched by the ids of the examples.

    write_inputs(corpus, "inputs.jsonl")             {"id": "7f0c...", "input": "[MAX 2 9 [MIN 4 7 ] 0 ]"}
    answers = read_answers("answers.jsonl", corpus)  {"id": "7f0c...", "prediction": "9"}
                                                     {"id": "...", "prediction": 9, "tree": "( ( ( [MAX 2 ) 9 ) ] )"}

An answer is an outcome of the corpus or its text; blanks around the text are ignored. A tuple is a list in JSON:
("a", "b") may also be written '("a", "b")' or '["a", "b"]', and inside it a text stands for its value, too: ["a", "1"]
is ("a", 1). Any other answer is *unparsed*. It is not right, and it is
counted separately from wrong answers. `null` means that the model gave no answer. Where an example asks several
questions (ORCHARD: one for each tree), the answer is [6, 2], "6,2" or "6 2". With too few parts the last questions are
unparsed, with too many all of them. Nothing else is corrected: "The answer is 4" is unparsed.

A tree is written in brackets over the tokens of the example, as lists or as groups (`trees.brackets`). Give trees for
all examples or for none. The id of an example comes from its file or is its content key. When an id occurs several
times, its second and third examples have "-2" and "-3" appended.
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
from pomona.base.files import read_text, replacing
from pomona.data.corpus import Corpus
from pomona.data.task import task_class
from pomona.trees import brackets
from pomona.trees.binary import binarise
from pomona.trees.forest import Forest
from pomona.trees.values import Interner, from_json, to_json

UNPARSED = -1
SHOWN = 10  # ids that an error lists before it only counts


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of a model: positions in the corpus's outcomes, [examples, questions], -1 where unparsed."""

    name: str
    given: npt.NDArray[np.int64]
    trees: Forest | None = None

    def __repr__(self) -> str:
        unread = int((self.given < 0).any(axis=1).sum())
        return f"Answers({self.name}: {len(self.given):,} examples, {unread:,} unparsed)"


def asked(corpus: Corpus) -> npt.NDArray[np.int64]:
    """The right answers, one column a question; a target that joins the values of the roots ("6,2") is split."""
    if corpus.targets.shape[1] == 1 and corpus.width > 1 and _paired(corpus):
        roots = corpus.values[corpus.forest.root].reshape(len(corpus), corpus.width)
        return np.asarray(roots, np.int64)
    return corpus.targets.astype(np.int64)


def _paired(corpus: Corpus) -> bool:
    used = [corpus.outcomes[value] for value in np.unique(corpus.targets).tolist() if value >= 0]
    if not used or not all(isinstance(outcome, str) and "," in outcome for outcome in used):
        return False  # early, because the rest goes through all examples
    roots = corpus.values[corpus.forest.root].reshape(len(corpus), corpus.width)
    cases = np.unique(np.column_stack([corpus.targets, roots]), axis=0)  # "Paris, France" is one answer, not two
    return cases.min() >= 0 and all(
        corpus.outcomes[target] == ",".join(str(corpus.outcomes[value]) for value in values)
        for target, *values in cases.tolist()
    )


def all_asked(corpus: Corpus) -> npt.NDArray[np.int64]:
    """The right answers; an error if some are unknown."""
    wanted = asked(corpus)
    if not wanted.shape[1]:
        raise MeasureError(f"{corpus!r} asks no questions: its targets are empty; leave them out to ask for the roots")
    unknown = np.flatnonzero((wanted < 0).any(axis=1))
    if len(unknown):
        first = corpus[int(unknown[0])].id
        raise MeasureError(f"{len(unknown):,} of {len(corpus):,} examples have no known answer (first: {first!r})")
    return wanted


def ids_of(corpus: Corpus) -> list[str]:
    """A different id for every example."""
    names = list(corpus.ids) if corpus.ids is not None else [f"{key:016x}" for key in corpus.keys.tolist()]
    seen: Counter[str] = Counter()
    ids = []
    for name in names:
        seen[name] += 1
        ids.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return ids


def write_inputs(corpus: Corpus, path: str | Path, *, answers: bool = False) -> Path:
    """Write `id` and `input` of each example, one a line, for a model outside Pomona; with `answers`, also `answer`.

    An input whose task names its parts has a field for each as well: `premise` and `hypothesis` of fair NLI.
    """
    parts = task_class(corpus).parts(corpus)
    with replacing(path) as beside, beside.open("w", encoding="utf-8", newline="\n") as file:
        for number, (name, text) in enumerate(zip(ids_of(corpus), corpus.texts, strict=True)):
            line: dict[str, Any] = {"id": name, "input": text}
            line |= {part: texts[number] for part, texts in parts.items()}
            if answers:
                line["answer"] = said(corpus, corpus.targets[number])
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return Path(path)


def write_answers(corpus: Corpus, answers: Answers, path: str | Path) -> Path:
    """Write answers for `read_answers`: one line an example with id, prediction and, if there are trees, its tree."""
    trees = None if answers.trees is None else brackets.write(answers.trees)
    with replacing(path) as beside, beside.open("w", encoding="utf-8", newline="\n") as file:
        for number, name in enumerate(ids_of(corpus)):
            line: dict[str, Any] = {"id": name, "prediction": said(corpus, answers.given[number])}
            if trees is not None:
                line["tree"] = trees[number]
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return Path(path)


def said(corpus: Corpus, positions: npt.NDArray[Any]) -> Any:
    """The answer to an example as a JSON value; None where there is none.

    Several questions give a list. So does a tuple, which is itself a list in JSON: [["a", "b"]] is one answer.
    """
    values = [None if position < 0 else corpus.outcomes[position] for position in positions.tolist()]
    return values[0] if len(values) == 1 and not isinstance(values[0], tuple) else values


def answers_given(corpus: Corpus, predictions: Sequence[Any] | npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Predictions as positions in the corpus's outcomes, [examples, questions]; -1 where unparsed."""
    questions = asked(corpus).shape[1]
    known = _Outcomes(corpus.outcomes)
    listed = predictions.tolist() if isinstance(predictions, np.ndarray) else predictions
    rows = [_parsed(prediction, questions, known) for prediction in listed]
    if len(rows) != len(corpus):
        raise MeasureError(f"{len(rows):,} predictions for the {len(corpus):,} examples of the corpus")
    return np.array(rows, np.int64).reshape(len(corpus), questions)


class _Outcomes:
    """Outcomes by exact value and by text; of outcomes with the same text, the first counts."""

    def __init__(self, outcomes: Sequence[Any]) -> None:
        self._exact = Interner(outcomes)
        self._texts: dict[str, int] = {}
        for position, outcome in enumerate(outcomes):
            self._texts.setdefault(str(outcome).strip(), position)
        self._tuples: dict[Any, int] = {}  # tuples by the texts of their parts
        for position, outcome in enumerate(outcomes):
            if isinstance(outcome, tuple):
                self._texts.setdefault(to_json(outcome), position)
                self._tuples.setdefault(_in_texts(outcome), position)

    def find(self, answer: Any) -> int:
        """The outcome that equals this value, else the one with the same text, else UNPARSED."""
        try:
            value = from_json(answer)
        except ValueError:
            return UNPARSED
        position = self._exact.find(value)
        if position < 0 and isinstance(value, float) and value.is_integer():  # pandas writes 7 as 7.0 next to a gap
            value = int(value)
            position = self._exact.find(value)
        if position < 0 and type(value) in (int, str):
            position = self._texts.get(str(value).strip(), UNPARSED)
        if position < 0 and isinstance(value, tuple):
            position = self._tuples.get(_in_texts(value), UNPARSED)
        return position


def _in_texts(value: Any) -> Any:
    """A value with texts in place of its parts, so that "1" inside a tuple is 1."""
    return tuple(map(_in_texts, value)) if isinstance(value, tuple) else str(value).strip()


def _parsed(prediction: Any, questions: int, outcomes: _Outcomes) -> list[int]:
    """The positions of the answers to one example's questions."""
    parts: Sequence[Any]
    if isinstance(prediction, str):
        parts = _split(prediction) if questions > 1 else [prediction]
    elif isinstance(prediction, tuple) and questions == 1 and (whole := outcomes.find(prediction)) >= 0:
        return [whole]
    else:
        parts = prediction if isinstance(prediction, (list, tuple)) else [prediction]
    positions = [outcomes.find(part) for part in parts[:questions]]
    if questions == 1 and isinstance(prediction, list) and (len(parts) > 1 or positions == [UNPARSED]):
        return [outcomes.find(prediction)]  # a single tuple, without the list around it
    if len(parts) > questions:
        return [UNPARSED] * questions
    return positions + [UNPARSED] * (questions - len(positions))


def _split(text: str) -> list[str]:
    """The answers in "6,2" or "6 2"; nothing between two commas is a missing answer."""
    return text.split(",") if "," in text else text.split()


# -- reading -----------------------------------------------------------------------------------------------------------


def read_answers(path: str | Path, corpus: Corpus, name: str = "") -> Answers:
    """The answers in a file (JSONL, or CSV or TSV with a header line), in the order of the corpus.

    Missing, unknown or repeated ids are an error that lists them, so every example is counted.
    """
    path = Path(path)
    predictions: dict[str, tuple[Any, Any]] = {}
    twice: dict[str, list[int]] = {}
    lines: dict[str, int] = {}
    for line, row in _rows(path):
        key = row["id"]
        if key in predictions:
            twice.setdefault(key, [lines[key]]).append(line)
            continue
        lines[key] = line
        predictions[key] = row.get("prediction"), row.get("tree")
    wanted = ids_of(corpus)
    known = set(wanted)
    missing = [key for key in wanted if key not in predictions]
    unknown = [key for key in predictions if key not in known]
    _complain(path, corpus, missing, unknown, twice)
    positions = answers_given(corpus, [predictions[key][0] for key in wanted])
    texts = [predictions[key][1] for key in wanted]
    with_tree = [text is not None for text in texts]
    trees = None
    if any(with_tree):
        if not all(with_tree):
            lacking = wanted[with_tree.index(False)]
            message = f"{sum(with_tree):,} of {len(wanted):,} predictions have a tree; the first without is {lacking!r}"
            raise FormatError(f"{message}. Give one to all or to none", path=path)
        trees = trees_over(corpus, texts, path)
    return Answers(name or path.stem, positions, trees)


def _complain(
    path: Path, corpus: Corpus, missing: list[str], unknown: list[str], twice: Mapping[str, list[int]]
) -> None:
    """Raise one error that lists all faults of the ids, if there are any."""
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


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and fields of each line, with `id` as a string."""
    text = read_text(path)
    if not text.strip():
        raise FormatError("the file is empty; each line needs an id and a prediction", path=path)
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
            raise FormatError(f"a line is an object, for example {shape}; got {piece[:60]!r}", path=path, line=line)
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
                    "the number of columns differs from that of the first line", path=path, line=reader.line_num
                )
            yield reader.line_num, dict(row)
    except csv.Error as error:
        raise FormatError(f"this table cannot be read: {error}", path=path, line=reader.line_num) from None


# -- trees -------------------------------------------------------------------------------------------------------------


def trees_over(corpus: Corpus, texts: Sequence[Any], path: str | Path | None = None) -> Forest:
    """Read trees in brackets; an error if their leaves are not the tokens of their examples."""
    ids = ids_of(corpus)
    if corpus.width != 1:
        message = f'trees can be compared if an example has one; here it has {corpus.width}. Leave out "tree"'
        raise FormatError(message, path=path)
    trees = []
    for name, text in zip(ids, texts, strict=True):
        try:
            if not isinstance(text, str):
                raise TreeError(f"a tree is text in brackets; got {str(text)[:60]!r}")
            tree = brackets.read(text)
        except TreeError as error:
            raise FormatError(f"the tree of {name!r}: {error}", path=path) from None
        grouped = tree.names[int(tree.symbol[-1])] == brackets.UNNAMED
        trees.append(_without_single_groups(tree) if grouped or len(tree.symbol) == 1 else binarise(tree))
    forest = Forest.concatenate(trees)
    leaves = np.array(forest.names, object)[forest.symbol[forest.leaf]]
    counts = np.add.reduceat(forest.leaf.astype(np.int64), forest.start[:-1])
    words = np.array(corpus.vocabulary, object)[corpus.tokens]
    if np.array_equal(counts, corpus.lengths) and np.array_equal(leaves, words):
        return forest
    first = np.concatenate([[0], np.cumsum(counts)])
    for row, name in enumerate(ids):
        tree_tokens = leaves[first[row] : first[row + 1]].tolist()
        example_tokens = words[corpus.token_start[row] : corpus.token_start[row + 1]].tolist()
        if tree_tokens != example_tokens:
            raise FormatError(f"the tree of {name!r} {_difference(tree_tokens, example_tokens)}", path=path)
    raise AssertionError("trees without a fault were rejected")


def _without_single_groups(tree: Forest) -> Forest:
    """The tree without groups of a single part, which group nothing but would count as depth."""
    kept = tree.arity != 1
    if kept.all():
        return tree
    parent = tree.parent.tolist()
    for node in reversed(range(len(parent))):  # parents come after their children, so theirs are already right
        if parent[node] >= 0 and not kept[parent[node]]:
            parent[node] = parent[parent[node]]
    number = np.append(np.cumsum(kept) - 1, -1)  # the parent of the root, -1, reads the last entry
    lifted = number[np.array(parent, np.int64)[kept]].astype(np.int32)
    return Forest(tree.symbol[kept], lifted, np.array([0, len(lifted)], np.int64), tree.names)


def _difference(tree_tokens: list[str], example_tokens: list[str]) -> str:
    if len(tree_tokens) != len(example_tokens):
        return f"has {len(tree_tokens)} tokens, the example {len(example_tokens)}"
    pairs = enumerate(zip(tree_tokens, example_tokens, strict=True))
    position = next(position for position, (leaf, token) in pairs if leaf != token)
    return f"has {tree_tokens[position]!r} as token {position + 1}, the example {example_tokens[position]!r}"
