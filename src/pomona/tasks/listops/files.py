"""Two formats of ListOps files. Both have one example a line, with the binary tree in round brackets.

9<TAB>( ( ( [MAX 2 ) 9 ) ] )            tsv: the original, answer first, no header
( ( ( [MAX 2 ) 9 ) ] )<TAB>9            lra: Long Range Arena's, below a header line `Source<TAB>Target`
"""

from __future__ import annotations

from pathlib import Path

from pomona.base.errors import FormatError
from pomona.base.files import read_lines
from pomona.data.corpus import Corpus
from pomona.data.formats import FORMATS, Format
from pomona.tasks.listops import text as listops_text

HEADER = b"Source\tTarget\n"


def is_original(path: Path, head: bytes) -> bool:
    """A number and a tab. Any other .tsv file counts too, so that its error names line and column."""
    start, tab, _ = head.partition(b"\t")
    return path.suffix == ".tsv" or bool(tab and start.isdigit())


def is_long_range_arena(path: Path, head: bytes) -> bool:
    """The header line of Long Range Arena."""
    return head.startswith(HEADER[:-1])


def read_original(path: Path) -> Corpus:
    """The corpus of an original ListOps file."""
    return listops_text.parse(read_lines(path), source_first=False, path=path)


def read_long_range_arena(path: Path) -> Corpus:
    """The corpus of a Long Range Arena file."""
    data = read_lines(path)
    if data.startswith(HEADER):
        return listops_text.parse(data[len(HEADER) :], source_first=True, path=path, first_line=2)
    raise FormatError("the first line must be Source, a tab and Target, nothing else", path=path, line=1, column=1)


class OriginalWriter:
    """Lines of text, chunk after chunk."""

    source_first = False
    header = b""

    def __init__(self, path: Path, shown: Path) -> None:
        self._file, self._shown = path.open("wb"), shown
        self._file.write(self.header)

    def write(self, corpus: Corpus) -> None:
        for piece in listops_text.lines(corpus, source_first=self.source_first, path=self._shown):
            self._file.write(piece)

    def close(self) -> None:
        self._file.close()


class LongRangeArenaWriter(OriginalWriter):
    """The same lines with the source first, below the header."""

    source_first = True
    header = HEADER


FORMATS.add(Format("tsv", ".tsv", is_original, read_original, OriginalWriter))
FORMATS.add(Format("lra", ".lra.tsv", is_long_range_arena, read_long_range_arena, LongRangeArenaWriter))
