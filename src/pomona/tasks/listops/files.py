"""The original ListOps file: answer, tab, the binary tree in round brackets; no header."""

from __future__ import annotations

from pathlib import Path

from pomona.base.files import read_bytes
from pomona.data.corpus import Corpus
from pomona.tasks.listops import text as listops_text

SUFFIX = ".tsv"


def recognises(path: Path, head: bytes) -> bool:
    """A number and a tab; what is called .tsv and is nothing else is ours too, to be refused with a place."""
    start, tab, _ = head.removeprefix(listops_text.MARK).partition(b"\t")
    return path.suffix == SUFFIX or bool(tab and start.isdigit())


def read(path: Path) -> Corpus:
    return listops_text.parse(read_bytes(path), source_first=False, path=path)


class Writer:
    """Lines of text, chunk after chunk."""

    source_first = False
    header = b""

    def __init__(self, path: Path, shown: Path) -> None:
        self._file, self._shown = path.open("wb"), shown
        self._file.write(self.header)

    def write(self, corpus: Corpus) -> None:
        self._file.write(listops_text.lines(corpus, source_first=self.source_first, path=self._shown))

    def close(self) -> None:
        self._file.close()
