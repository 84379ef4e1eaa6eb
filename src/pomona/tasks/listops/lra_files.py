"""Long Range Arena's ListOps file: a header line `Source<TAB>Target`, then source, tab, answer."""

from __future__ import annotations

from pathlib import Path

from pomona.base.errors import FormatError
from pomona.base.files import read_bytes
from pomona.data.corpus import Corpus
from pomona.tasks.listops import files as tsv
from pomona.tasks.listops import text as listops_text

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
