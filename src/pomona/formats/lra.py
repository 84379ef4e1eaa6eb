"""Long Range Arena's ListOps file: a header line `Source<TAB>Target`, then source, tab, answer."""

from __future__ import annotations

from pathlib import Path

from pomona import listops_text
from pomona.corpus import Corpus
from pomona.files import read_bytes
from pomona.formats import tsv

SUFFIX = ".lra.tsv"
HEADER = b"Source\tTarget\n"


def recognises(path: Path, head: bytes) -> bool:
    return head.startswith((HEADER[:-1], b"\xef\xbb\xbf" + HEADER[:-1]))


def read(path: Path) -> Corpus:
    data = read_bytes(path)
    if data.startswith(b"\xef\xbb\xbf") or not data.startswith(HEADER):
        data = data if data.startswith(b"\xef\xbb\xbf") else b"\r" + data[len(HEADER) :]
        return listops_text.parse(data, source_first=True, path=path)  # which says what is wrong with the first line
    return listops_text.parse(data[len(HEADER) :], source_first=True, path=path, first_line=2)


class Writer(tsv.Writer):
    """The same lines with the source first, below the header."""

    source_first = True
    header = HEADER
