"""Verification: read every row again, work every answer out again, and say file and line of whatever does not hold.

Checked: the file can be read at all; every node value and every target is what the rules give; the tokens are those of
the tree; no example stands twice in a file; no example of one file stands in another (train, dev, test).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pomona.base.arrays import Ints
from pomona.base.errors import FormatError, PomonaError, SpecError, TreeError
from pomona.data import formats
from pomona.data.corpus import Corpus, codes
from pomona.data.task import TASKS
from pomona.trees import links
from pomona.trees.forest import gather
from pomona.trees.operators import OPERATORS, evaluate
from pomona.trees.rules import INTERPRETED
from pomona.trees.values import Value, renumber, value_of_text


@dataclass(frozen=True)
class Problem:
    """Something that does not hold, at a line (a row, for Parquet) of a file."""

    path: str
    line: int | None
    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line if self.line is not None else 0}: {self.kind}: {self.message}"


@dataclass(frozen=True)
class Verification:
    """What was read and what was wrong with it; `answers` says by which rules the answers were worked out.

    `unchecked` are the files for whose values no rules are known: that nothing is wrong there was not shown.
    """

    files: tuple[tuple[str, str, int, str], ...]  # path, format, rows, fingerprint
    problems: tuple[Problem, ...]
    answers: str
    unchecked: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.problems


def files_in(paths: Iterable[str | Path]) -> list[Path]:
    """The files named, and those of the folders named, in order of name."""
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            known = (".parquet", ".jsonl", ".tsv", ".input")
            inside = sorted(one for one in path.iterdir() if one.is_file() and one.suffix in known)
            if not inside:
                raise FormatError("the folder holds no .parquet, .jsonl, .tsv or .input file", path=path)
            found += inside
        elif not path.exists():
            raise FormatError("there is no such file or folder", path=path)
        else:
            found.append(path)
    return found


def verify(
    *paths: str | Path,
    prover: str | None = None,
    sample: int | None = 1000,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Verification:
    """Verify files or folders of files; several files are also checked against each other for leakage.

    With a `prover` (z3, eprover, prover9, table) the labels of a `sample` of sentence pairs of each file, None for all
    of them, are asked of it as well.

    Files that hold the same rows in another format (same stem, as train.parquet and train.tsv) must hold the same
    content; they do not count as leaking into each other.
    """
    problems: list[Problem] = []
    read: list[tuple[Path, str, Corpus]] = []
    rules: set[str] = set()
    unchecked: list[str] = []
    for path in files_in(paths):
        try:
            name, one = formats.recognise(path)
            corpus = one.read(path)
        except FormatError as error:
            problems.append(Problem(str(path), error.line, "unreadable", _without_place(error)))
        else:
            expected, by = worked_out(corpus)
            if expected is None:
                unchecked.append(str(path))
            else:
                rules.add(by)
                problems += list(_wrong_answers(path, corpus, expected))
            problems += list(_wrong_tokens(path, corpus))
            if prover is not None:
                problems += list(_contradicted(path, corpus, prover, sample, seed, rules))
            problems += list(_repeated(path, corpus))
            read.append((path, name, corpus))
        if progress:
            progress(1)
    problems += list(_leaks(read))
    listed = tuple((str(path), name, len(corpus), corpus.fingerprint) for path, name, corpus in read)
    return Verification(listed, tuple(problems), ", ".join(sorted(rules)) or "nothing", tuple(unchecked))


def _without_place(error: FormatError) -> str:
    """The message without file and line, which a Problem shows itself."""
    place = str(error).partition(f"line {error.line}")[2].lstrip(",: ") if error.line is not None else ""
    return place or str(error).removeprefix(f"{error.path}: ")


def line_of(corpus: Corpus, row: int) -> int:
    """The line a row stands on, or its number counted from 1."""
    return int(corpus.lines[row]) if corpus.lines is not None else row + 1


def worked_out(corpus: Corpus) -> tuple[Ints | None, str]:
    """Every node's value by the rules of the corpus's own task or of the algebra; None where no rules are known."""
    family = corpus.origin.get("task")
    leaf_values: Callable[[str], Value] | None = None
    if family:
        try:
            entry, _ = TASKS.entry(str(family))
        except PomonaError:
            entry = None
        answer = getattr(entry.kind, "answer", None) if entry else None
        if answer is not None:
            return answer(corpus), f"the rules of {family}"
        leaf_values = entry.kind.leaf_value if entry else None
    if leaf_values is None and _own_operators(corpus):
        leaf_values = _given_leaves(corpus)
    try:
        positions, table = evaluate(corpus.forest, leaf_values=leaf_values)
    except (SpecError, TreeError):
        return None, "no rules"
    expected = renumber(positions, table, corpus.outcomes)
    return np.where(expected < 0, -2, expected), _rules_of(corpus)


def _rules_of(corpus: Corpus) -> str:
    own = _own_operators(corpus)
    return f"the operators {', '.join(own)}" if own else "the operators of ListOps and ORCHARD"


def _own_operators(corpus: Corpus) -> list[str]:
    """The operators in use that are not built-in, in order of name."""
    used = {corpus.forest.names[symbol] for symbol in np.unique(corpus.forest.symbol[~corpus.forest.leaf]).tolist()}
    return sorted(name for name in used & set(OPERATORS) if OPERATORS[name].number == INTERPRETED)


def _given_leaves(corpus: Corpus) -> Callable[[str], Value]:
    """The value of each leaf's text as the corpus gives it, where it always gives the same; for an unknown task."""
    forest = corpus.forest
    leaves = np.flatnonzero(forest.leaf & (forest.links == 0))
    pairs = np.unique(np.column_stack([forest.symbol[leaves], corpus.values[leaves]]), axis=0)
    symbols, first, counts = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    values = pairs[first, 1]
    known = (counts == 1) & (values >= 0)
    given = {
        forest.names[symbol]: corpus.outcomes[value]
        for symbol, value in zip(symbols[known].tolist(), values[known].tolist(), strict=True)
    }
    return lambda text: given.get(text, value_of_text(text))


def _asked(corpus: Corpus) -> Ints | None:
    """The targets by the rules of a task that asks for something else than the values of the roots."""
    family = str(corpus.origin.get("task") or "")
    try:
        asked = getattr(TASKS.entry(family)[0].kind, "asked", None) if family else None
    except PomonaError:
        return None
    return None if asked is None else asked(corpus)


def _wrong_answers(path: Path, corpus: Corpus, expected: Ints) -> Iterable[Problem]:
    roots = _asked(corpus)
    if roots is None:
        roots = expected[corpus.forest.root].reshape(len(corpus), corpus.width)
    wrong = np.zeros(len(corpus), np.bool_)
    if corpus.targets.shape[1] == 1 < roots.shape[1] and _paired(corpus):
        joined = [*(str(outcome) for outcome in corpus.outcomes), "?"]
        for row in range(len(corpus)):
            given, right = joined[corpus.targets[row, 0]], ",".join(joined[value] for value in roots[row])
            if given != right:
                wrong[row] = True
                message = f"the file says {given}, the rules give {right}"
                yield Problem(str(path), line_of(corpus, row), "wrong answer", message)
    elif corpus.targets.shape == roots.shape:
        wrong = (roots != corpus.targets).any(axis=1)
        for row in np.flatnonzero(wrong).tolist():
            given = ", ".join(_shown(corpus, value, "nothing") for value in corpus.targets[row])
            right = ", ".join(_shown(corpus, value, "no known outcome") for value in roots[row])
            message = f"the file says {given}, the rules give {right}"
            yield Problem(str(path), line_of(corpus, row), "wrong answer", message)
    elif len(corpus):
        message = f"an example has {corpus.targets.shape[1]} targets, the rules give {roots.shape[1]}; none was checked"
        yield Problem(str(path), line_of(corpus, 0), "wrong answer", message)
    nodes = np.flatnonzero(expected != corpus.values)
    rows = np.unique(corpus.forest.tree[nodes] // corpus.width, return_index=True)
    for row, first in zip(rows[0].tolist(), rows[1].tolist(), strict=True):
        if wrong[row]:
            continue
        node = int(nodes[first])
        name = corpus.forest.names[corpus.forest.symbol[node]]
        given = _shown(corpus, corpus.values[node], "nothing")
        right = _shown(corpus, expected[node], "no known outcome")
        message = f"the value of {name} (node {node - int(corpus.forest.start[corpus.forest.tree[node]])}) is given as "
        yield Problem(str(path), line_of(corpus, row), "wrong node value", message + f"{given}, the rules give {right}")


def _paired(corpus: Corpus) -> bool:
    """Whether a target is one outcome for all the trees, as "6,2"."""
    used = [corpus.outcomes[value] for value in np.unique(corpus.targets).tolist() if value >= 0]
    return bool(used) and all(isinstance(one, str) and one.count(",") == corpus.width - 1 for one in used)


def _shown(corpus: Corpus, value: int, otherwise: str) -> str:
    return str(corpus.outcomes[value]) if value >= 0 else otherwise


def _contradicted(
    path: Path, corpus: Corpus, prover: str, sample: int | None, seed: int, rules: set[str]
) -> Iterable[Problem]:
    """Labels that a prover contradicts; what it could not decide is said with the rules, since it is no fault."""
    from pomona.tasks.fair_nli.logic.verification import verify_labels

    report = verify_labels(corpus, prover, sample, seed)
    undecided = f", {len(report.unknown):,} undecided" if report.unknown else ""
    rules.add(f"{report.prover} on {report.asked:,} pairs of {path.name}{undecided}")
    for one in report.disagreements:
        yield Problem(str(path), line_of(corpus, one.row), "wrong label", str(one))


def _wrong_tokens(path: Path, corpus: Corpus) -> Iterable[Problem]:
    """Where tokens are brackets at all, they must be those of the tree: a lost bracket changes the question."""
    bracketed = any(word.startswith("[") or word == "]" for word in corpus.vocabulary)
    several = corpus.width > 1 and "X" not in corpus.vocabulary  # trees that are not written one after the other
    if not bracketed or several or np.any(corpus.forest.links[~corpus.forest.leaf]):
        return
    given = codes(corpus.vocabulary)[corpus.tokens]
    wrong = np.ones(len(corpus), np.bool_)
    for digits in (False, True) if corpus.forest.link is not None else (False,):  # COPY's argument: a word, or digits
        tokens, start, vocabulary = links.spell(corpus.forest, corpus.width, digits=digits)
        expected = codes(vocabulary)[tokens]
        fits = corpus.lengths == np.diff(start)
        same = np.flatnonzero(fits)
        _, mine = gather(corpus.token_start, same)
        _, theirs = gather(start, same)
        differs = given[mine] != expected[theirs]
        fits[np.repeat(same, corpus.lengths[same])[differs]] = False
        wrong &= ~fits
    for row in np.flatnonzero(wrong).tolist():
        tree = links.texts(corpus[row].trees, corpus.width)[0]
        message = f"the tokens are not those of the tree {tree[:80]}"
        yield Problem(str(path), line_of(corpus, row), "wrong tokens", message)


def _repeated(path: Path, corpus: Corpus) -> Iterable[Problem]:
    _, first, inverse = np.unique(corpus.keys, return_index=True, return_inverse=True)
    for row in corpus.duplicates().tolist():
        before = line_of(corpus, int(first[inverse[row]]))
        yield Problem(str(path), line_of(corpus, row), "duplicate", f"the same example stands on line {before}")


def _stem(path: Path) -> str:
    """The path without the suffix of a format: train.lra.tsv and train.parquet are both train."""
    for suffix in sorted((one.SUFFIX for one in formats.formats().values()), key=len, reverse=True):
        if path.name.endswith(suffix):
            return str(path)[: -len(suffix)]
    return str(path)


def _leaks(read: Sequence[tuple[Path, str, Corpus]]) -> Iterable[Problem]:
    for place, (path, _, corpus) in enumerate(read):
        for other, _, earlier in read[:place]:
            if _stem(path) == _stem(other):
                if corpus.fingerprint != earlier.fingerprint:
                    message = f"the content is not that of {other.name}, though the names say it is the same split"
                    yield Problem(str(path), None, "different content", message)
                continue
            shared, mine, theirs = np.intersect1d(corpus.keys, earlier.keys, return_indices=True)
            if len(shared):
                row = int(mine.min())
                where = line_of(earlier, int(theirs[int(mine.argmin())]))
                yield Problem(
                    str(path), line_of(corpus, row), "leak",
                    f"{len(shared)} of {len(corpus)} examples also stand in {other} (this one on line {where})",
                )  # fmt: skip
