"""The original ListOps file: answer, tab, the binary tree in round brackets; no header."""

from __future__ import annotations

from pathlib import Path

from pomona import listops_text
from pomona.corpus import Corpus
from pomona.files import read_bytes

SUFFIX = ".tsv"


def recognises(path: Path, head: bytes) -> bool:
    """A first line of a number and a tab; a .tsv without any tab is ours too, to be refused with a place."""
    start, tab, _ = head.removeprefix(b"\xef\xbb\xbf").partition(b"\t")
    return start.isdigit() if tab else path.suffix == SUFFIX


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
        listops_text.check_writable(corpus, self._shown)
        self._file.write(listops_text.lines(corpus, source_first=self.source_first))

    def close(self) -> None:
        self._file.close()
