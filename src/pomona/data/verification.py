"""Verification: read every row, compute every answer again, and report file and line of each fault.

    result = verify("data/train.parquet", "data/test.parquet")
    result.holds, result.problems

Six things are checked: the file can be read; the rules give every node value and every target; the tokens are those of
the tree; no example is twice in a file; no example is in two files (train, dev, test); and the files of a folder are
those that its manifest lists. The rules are those of the
task that generated the file (`Task.node_values`, `Task.targets`) or, if it defines none, those of the operators.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pomona.base.arrays import Ints
from pomona.base.errors import FairnessError, FormatError, SpecError, TreeError
from pomona.data.corpus import Corpus, codes
from pomona.data.datasets import compared
from pomona.data.formats import FORMATS, recognise
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
class Verification:
    """The files that were read and the faults in them; `answers` names the rules that the answers were checked by.

    `unchecked` lists the files whose values could not be checked, because no rules are known for them.
    """

    files: tuple[tuple[str, str, int, str], ...]  # path, format, rows, fingerprint
    problems: tuple[Fault, ...]
    answers: str
    unchecked: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.problems

    def __repr__(self) -> str:
        rows = sum(count for _, _, count, _ in self.files)
        first = f", first {str(self.problems[0])[:200]}" if self.problems else ""
        return f"Verification({len(self.files)} files, {rows:,} rows, {len(self.problems):,} problems{first})"


def files_in(paths: Iterable[str | Path]) -> list[Path]:
    """The named files, and the corpora in the named folders, in order of name."""
    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(file for file in path.iterdir() if file.is_file() and FORMATS.holds_corpora(file))
            if not inside:
                *suffixes, last = FORMATS.last_suffixes()
                raise FormatError(f"the folder holds no {', '.join(suffixes)} or {last} file", path=path)
            files += inside
        elif not path.exists():
            raise FormatError("there is no such file or folder", path=path)
        else:
            files.append(path)
    return files


@dataclass(frozen=True)
class Proof:
    """What to ask a prover: its name, how many rows of each file (None: all), and the seed of that sample."""

    prover: str
    sample: int | None
    seed: int


def verify(
    *paths: str | Path,
    prover: str | None = None,
    sample: int | None = 1000,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Verification:
    """Verify files or folders of files; several files are also checked against each other for leakage.

    A `prover` (z3, eprover, prover9 or table) also checks the labels of sentence pairs: `sample` rows of each file, or
    all for None.

    Files of the same stem, for example train.parquet and train.tsv, are one split in two formats: they must hold the
    same content, and rows that they share are no leak.
    """
    problems: list[Fault] = []
    corpora: list[tuple[Path, str, Corpus]] = []
    rules: set[str] = set()
    unchecked: list[str] = []
    for path in files_in(paths):
        try:
            format_ = recognise(path)
            corpus = format_.read(path)
        except FormatError as error:
            problems.append(Fault(str(path), error.line, "unreadable", _message(error)))
        else:
            expected, by = worked_out(corpus)
            if expected is None:
                unchecked.append(str(path))
            else:
                rules.add(by)
                problems += _wrong_answers(path, corpus, expected)
            problems += _wrong_tokens(path, corpus)
            if prover is not None:
                problems += _contradicted(path, corpus, Proof(prover, sample, seed), rules)
            problems += _repeated(path, corpus)
            corpora.append((path, format_.name, corpus))
        if progress:
            progress(1)
    problems += _leaks(corpora)
    for folder in dict.fromkeys(path for path in map(Path, paths) if path.is_dir()):
        differences = compared(folder, [(path, corpus) for path, _, corpus in corpora])
        problems += [Fault(str(path), None, "not the dataset", message) for path, message in differences]
    files = tuple((str(path), name, len(corpus), corpus.fingerprint) for path, name, corpus in corpora)
    return Verification(files, tuple(problems), ", ".join(sorted(rules)) or "nothing", tuple(unchecked))


def _message(error: FormatError) -> str:
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


def _wrong_values(
    path: Path, corpus: Corpus, expected: Ints, skipped: Container[int]
) -> Iterable[Fault]:
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


def _contradicted(path: Path, corpus: Corpus, proof: Proof, rules: set[str]) -> Iterable[Fault]:
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


def _repeated(path: Path, corpus: Corpus) -> Iterable[Fault]:
    _, first, inverse = np.unique(corpus.keys, return_index=True, return_inverse=True)
    for row in corpus.duplicates().tolist():
        before = line_of(corpus, int(first[inverse[row]]))
        yield Fault(str(path), line_of(corpus, row), "duplicate", f"the same example is on line {before}")


def _leaks(corpora: Sequence[tuple[Path, str, Corpus]]) -> Iterable[Fault]:
    """Examples that two files share, and files of one split whose contents differ."""
    for number, (path, _, corpus) in enumerate(corpora):
        for other, _, earlier in corpora[:number]:
            if FORMATS.stem(path) == FORMATS.stem(other):
                if corpus.fingerprint != earlier.fingerprint:
                    message = f"the content is not that of {other.name}, though the names say it is the same split"
                    yield Fault(str(path), None, "different content", message)
                continue
            shared, rows, other_rows = np.intersect1d(corpus.keys, earlier.keys, return_indices=True)
            if len(shared):
                line = line_of(earlier, int(other_rows[int(rows.argmin())]))
                message = f"{len(shared)} of {len(corpus)} examples are also in {other} (this one on line {line})"
                yield Fault(str(path), line_of(corpus, int(rows.min())), "leak", message)
