"""Long Range Arena's ListOps file: a header line `Source<TAB>Target`, then source, tab, answer."""

from __future__ import annotations

from pathlib import Path

from pomona import listops_text
from pomona.corpus import Corpus
from pomona.errors import FormatError
from pomona.files import read_bytes
from pomona.formats import tsv

SUFFIX = ".lra.tsv"
HEADER = b"Source\tTarget\n"


def recognises(path: Path, head: bytes) -> bool:
    return head.removeprefix(listops_text.MARK).startswith(HEADER[:-1])


def read(path: Path) -> Corpus:
    data = read_bytes(path)
    if data.startswith(HEADER):
        return listops_text.parse(data[len(HEADER) :], source_first=True, path=path, first_line=2)
    listops_text.refuse_mark(data, path)
    line = data.split(b"\n", 1)[0]
    if line == HEADER[:-1] + b"\r":
        raise FormatError(listops_text.CARRIAGE_RETURN, path=path, line=1, column=len(line))
    raise FormatError("the first line must be Source, a tab and Target, nothing else", path=path, line=1, column=1)


class Writer(tsv.Writer):
    """The same lines with the source first, below the header."""

    source_first = True
    header = HEADER
