"""Verification: read every row, compute every answer again, and report file and line of each fault.

    result = verify("data/train.parquet", "data/test.parquet")
    result.holds, result.problems

Six things are checked: the file can be read; the rules give every node value and every target; the tokens are those of
the tree; no example is twice in a file; no example is in two files (train, dev, test); and the files of a folder are
those that its manifest lists. The rules are those of the
task that generated the file (`Task.node_values`, `Task.targets`) or, if it defines none, those of the operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pomona.base.errors import FormatError
from pomona.base.workers import HERE, Crew
from pomona.data.corpus import Corpus
from pomona.data.datasets import compared
from pomona.data.formats import FORMATS, recognise
from pomona.data.row_checks import Fault, Proof, faults_of, line_of, message_of
from pomona.data.shards.checking import shards_among, verify_shards


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


def verify(
    *paths: str | Path,
    prover: str | None = None,
    sample: int | None = 1000,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
    crew: Crew = HERE,
) -> Verification:
    """Verify files or folders of files; several files are also checked against each other for leakage.

    A `prover` (z3, eprover, prover9 or table) also checks the labels of sentence pairs: `sample` rows of each file, or
    all for None.

    Files of the same stem, for example train.parquet and train.tsv, are one split in two formats: they must hold the
    same content, and rows that they share are no leak. Shards of a split are one file in pieces: the workers of `crew`
    share them, and none of them holds more than a part of the rows.
    """
    problems: list[Fault] = []
    corpora: list[tuple[Path, str, Corpus]] = []
    rules: set[str] = set()
    unchecked: list[str] = []
    proof = None if prover is None else Proof(prover, sample, seed)
    sharded = shards_among(paths)
    pieces = {shard.path for split in sharded for shard in split.files}
    for path in files_in(paths):
        if path.absolute() in pieces:
            continue
        try:
            format_ = recognise(path)
            corpus = format_.read(path)
        except FormatError as error:
            problems.append(Fault(str(path), error.line, "unreadable", message_of(error)))
        else:
            found = faults_of(path, corpus, proof)
            problems += [*found.faults, *_repeated(path, corpus)]
            rules |= found.rules
            unchecked += [] if found.checked else [str(path)]
            corpora.append((path, format_.name, corpus))
        if progress:
            progress(1)
    problems += _leaks(corpora)
    checked = verify_shards(sharded, [(path, corpus) for path, _, corpus in corpora], proof, crew, progress)
    problems += checked.problems
    rules.update(checked.rules)
    unchecked += checked.unchecked
    for folder in dict.fromkeys(path for path in map(Path, paths) if path.is_dir()):
        differences = compared(folder, [(path, corpus) for path, _, corpus in corpora])
        problems += [Fault(str(path), None, "not the dataset", message) for path, message in differences]
    files = [(str(path), name, len(corpus), corpus.fingerprint) for path, name, corpus in corpora]
    rules_told = ", ".join(sorted(rules)) or "nothing"
    return Verification((*files, *checked.files), tuple(problems), rules_told, tuple(unchecked))


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
