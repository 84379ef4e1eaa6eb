"""What is wrong with the rows of a corpus, each on its own: answers, values of nodes, tokens, labels.

    faults, rules, checked = faults_of(path, corpus, None)

Every answer is worked out again, by the rules of the task or of the operators. `verification` adds what needs several
rows or files: duplicates, leaks, and the manifest.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pomona.base.arrays import Ints
from pomona.base.errors import FairnessError, FormatError, SpecError, TreeError
from pomona.data.corpus import Corpus, codes
from pomona.data.label_report import LabelReport
from pomona.data.task import TASKS, Task, task_class
from pomona.trees import links
from pomona.trees.forest import gather
from pomona.trees.operators import OPERATORS, evaluate
from pomona.trees.rules import INTERPRETED
from pomona.trees.values import Value, renumber, value_of_text


@dataclass(frozen=True)
class Fault:
    """Something wrong at a line of a file (for Parquet: a row)."""

    path: str
    line: int | None
    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line if self.line is not None else 0}: {self.kind}: {self.message}"


@dataclass(frozen=True)
class Proof:
    """What to ask a prover: its name, how many rows of each file (None: all), and the seed of that sample."""

    prover: str
    sample: int | None
    seed: int


class Found(NamedTuple):
    """What is wrong, the rules that rows were checked by, and whether there were any for their values."""

    faults: list[Fault]
    rules: set[str]
    checked: bool


def faults_of(path: Path, corpus: Corpus, proof: Proof | None) -> Found:
    """What is wrong with the rows of a corpus, each on its own."""
    rules: set[str] = set()
    expected, by = worked_out(corpus)
    problems: list[Fault] = []
    if expected is not None:
        rules.add(by)
        problems += _wrong_answers(path, corpus, expected)
    problems += _wrong_tokens(path, corpus)
    if proof is not None:
        problems += contradicted(path, corpus, proof, rules)
    return Found(problems, rules, expected is not None)


def message_of(error: FormatError) -> str:
    """The message without file and line, which a Fault adds itself."""
    rest = str(error).partition(f"line {error.line}")[2].lstrip(",: ") if error.line is not None else ""
    return rest or str(error).removeprefix(f"{error.path}: ")


def line_of(corpus: Corpus, row: int) -> int:
    """The line of a row in its file, or the number of the row counted from 1."""
    return int(corpus.lines[row]) if corpus.lines is not None else row + 1


def worked_out(corpus: Corpus) -> tuple[Ints | None, str]:
    """Every node's value by the rules of the corpus's task or of its operators, and the name of these rules.

    The values are None where no rules are known.
    """
    task = task_class(corpus)
    values = task.node_values(corpus)
    if values is not None:
        return values, f"the rules of {corpus.origin.get('task')}"
    leaf_values: Callable[[str], Value] | None = None if task is Task else task.leaf_value
    if leaf_values is None and _own_operators(corpus):
        leaf_values = _given_leaves(corpus)
    try:
        positions, table = evaluate(corpus.forest, leaf_values=leaf_values)
    except (SpecError, TreeError):
        return None, "no rules"
    expected = renumber(positions, table, corpus.outcomes)
    return np.where(expected < 0, -2, expected), _rules_of(corpus)


def _rules_of(corpus: Corpus) -> str:
    added = _own_operators(corpus)
    return f"the operators {', '.join(added)}" if added else "the operators of ListOps and ORCHARD"


def _own_operators(corpus: Corpus) -> list[str]:
    """The operators in use that are not built-in, in order of name."""
    used = {corpus.forest.names[symbol] for symbol in np.unique(corpus.forest.symbol[~corpus.forest.leaf]).tolist()}
    return sorted(name for name in used & set(OPERATORS) if OPERATORS[name].number == INTERPRETED)


def _given_leaves(corpus: Corpus) -> Callable[[str], Value]:
    """For an unknown task: the value that the corpus records for each leaf's text, where it is always the same."""
    forest = corpus.forest
    leaves = np.flatnonzero(forest.leaf & (forest.links == 0))
    pairs = np.unique(np.column_stack([forest.symbol[leaves], corpus.values[leaves]]), axis=0)
    symbols, first, counts = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    values = pairs[first, 1]
    known = (counts == 1) & (values >= 0)
    values_by_text = {
        forest.names[symbol]: corpus.outcomes[value]
        for symbol, value in zip(symbols[known].tolist(), values[known].tolist(), strict=True)
    }
    return lambda text: values_by_text.get(text, value_of_text(text))


def _wrong_answers(path: Path, corpus: Corpus, expected: Ints) -> Iterable[Fault]:
    """Wrong targets and, in the rows whose targets are right, wrong values of nodes."""
    targets = task_class(corpus).targets(corpus)
    if targets is None:
        targets = expected[corpus.forest.root].reshape(len(corpus), corpus.width)
    wrong: dict[int, tuple[str, str]] = {}  # by row: the target in the file, and the right one
    if corpus.targets.shape[1] == 1 < targets.shape[1] and _has_joint_targets(corpus):
        names = [*(str(outcome) for outcome in corpus.outcomes), "?"]
        rows = zip(corpus.targets[:, 0].tolist(), targets.tolist(), strict=True)
        joint = [(names[recorded], ",".join(names[max(value, -1)] for value in right)) for recorded, right in rows]
        wrong = {row: pair for row, pair in enumerate(joint) if pair[0] != pair[1]}
    elif corpus.targets.shape == targets.shape:
        for row in np.flatnonzero((targets != corpus.targets).any(axis=1)).tolist():
            wrong[row] = _names(corpus, corpus.targets[row], "nothing"), _names(corpus, targets[row])
    elif len(corpus):
        counts = corpus.targets.shape[1], targets.shape[1]
        message = f"an example has {counts[0]} targets, the rules give {counts[1]}; none was checked"
        yield Fault(str(path), line_of(corpus, 0), "wrong answer", message)
    for row, (recorded, right) in wrong.items():
        message = f"the file says {recorded}, the rules give {right}"
        yield Fault(str(path), line_of(corpus, row), "wrong answer", message)
    yield from _wrong_values(path, corpus, expected, wrong)


def _wrong_values(path: Path, corpus: Corpus, expected: Ints, skipped: Container[int]) -> Iterable[Fault]:
    """The first wrong node of every row, except the skipped rows."""
    nodes = np.flatnonzero(expected != corpus.values)
    rows, first = np.unique(corpus.forest.tree[nodes] // corpus.width, return_index=True)
    for row, node in zip(rows.tolist(), nodes[first].tolist(), strict=True):
        if row in skipped:
            continue
        name = corpus.forest.names[corpus.forest.symbol[node]]
        number = node - int(corpus.forest.start[corpus.forest.tree[node]])
        recorded, right = _names(corpus, corpus.values[[node]], "nothing"), _names(corpus, expected[[node]])
        message = f"the value of {name} (node {number}) is recorded as {recorded}, the rules give {right}"
        yield Fault(str(path), line_of(corpus, row), "wrong node value", message)


def _has_joint_targets(corpus: Corpus) -> bool:
    """Whether one target joins the values of all trees, for example "6,2"."""
    used = [corpus.outcomes[value] for value in np.unique(corpus.targets).tolist() if value >= 0]
    commas = corpus.width - 1
    return bool(used) and all(isinstance(outcome, str) and outcome.count(",") == commas for outcome in used)


def _names(corpus: Corpus, values: Ints, missing: str = "no known outcome") -> str:
    return ", ".join(str(corpus.outcomes[value]) if value >= 0 else missing for value in values.tolist())


def contradicted(path: Path, corpus: Corpus, proof: Proof, rules: set[str]) -> Iterable[Fault]:
    """Labels that a prover contradicts. Undecided labels are no faults; their number is reported with the rules."""
    report = _proved(corpus, proof)
    undecided = f", {len(report.unknown):,} undecided" if report.unknown else ""
    rules.add(f"{report.prover} on {report.asked:,} pairs of {path.name}{undecided}")
    for disagreement in report.disagreements:
        yield Fault(str(path), line_of(corpus, disagreement.row), "wrong label", str(disagreement))


def _proved(corpus: Corpus, proof: Proof) -> LabelReport:
    """The report of the corpus's task or, if the file names none, of the first task that can prove the labels."""
    named = task_class(corpus)
    for task in [entry.kind for entry in TASKS.entries()] if named is Task else [named]:
        report = task.prove(corpus, proof.prover, proof.sample, proof.seed)
        if report is not None:
            return report
    raise FairnessError("no prover knows what these trees mean; provers are asked about the sentence pairs of fair_nli")


def _wrong_tokens(path: Path, corpus: Corpus) -> Iterable[Fault]:
    """Rows whose tokens are not those of the tree, in files that write trees in brackets: `[MAX 2 9 ]`."""
    operators = np.unique(corpus.forest.symbol[~corpus.forest.leaf]).tolist()
    bracketed = not {f"[{corpus.forest.names[operator]}" for operator in operators}.isdisjoint(corpus.vocabulary)
    apart = corpus.width > 1 and "X" not in corpus.vocabulary  # the trees are not written one after the other
    if not bracketed or apart or np.any(corpus.forest.links[~corpus.forest.leaf]):
        return
    recorded = codes(corpus.vocabulary)[corpus.tokens]
    wrong = np.ones(len(corpus), np.bool_)
    shown = links.with_leaf_texts(corpus.forest, corpus.values, corpus.outcomes)
    spellings = itertools.product((corpus.forest, shown), (False, True) if corpus.forest.link is not None else (False,))
    for forest, digits in spellings:  # leaves by their types or values; COPY's argument as a word or as digits
        if not wrong.any():
            return
        tokens, start, vocabulary = links.spell(forest, corpus.width, digits=digits)
        expected = codes(vocabulary)[tokens]
        fits = corpus.lengths == np.diff(start)
        equally_long = np.flatnonzero(fits)
        _, positions = gather(corpus.token_start, equally_long)
        _, expected_positions = gather(start, equally_long)
        differs = recorded[positions] != expected[expected_positions]
        fits[np.repeat(equally_long, corpus.lengths[equally_long])[differs]] = False
        wrong &= ~fits
    for row in np.flatnonzero(wrong).tolist():
        trees = shown[row * corpus.width : (row + 1) * corpus.width]
        tree = links.texts(trees, corpus.width)[0]
        message = f"the tokens are not those of the tree {tree[:80]}"
        yield Fault(str(path), line_of(corpus, row), "wrong tokens", message)
