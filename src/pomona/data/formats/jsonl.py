"""JSONL: one object a line, trees as nested objects. Any trees with labelled nodes can be read.

    {"id": "7f0c...", "tokens": ["[MAX", "2", "9", "]"], "target": [9],
     "tree": {"type": "MAX", "value": 9, "children": [{"type": "2", "value": 2}, {"type": "9", "value": 9}]},
     "length": 4, "nesting": 1, "dependency": 1}

| field | needed | what |
|---|---|---|
| tree, or trees | yes | a NODE, or a list of NODEs for tasks with several trees |
| NODE: type | yes, but not at a leaf with a value | a string; by default the leaf's value as text |
| NODE: value | no | true, false, a number, a string, null, or a list of these (a tuple) |
| NODE: children, link | no | a list of NODEs, absent at leaves; how many nodes back the quoted node is |
| id | no | a string, different on every line; else the content key |
| tokens, or text | no | the sequence a model reads; else the tree in brackets, each leaf by its value: `[MAX 2 9 ]` |
| target | no | a list; else the values of the roots |
| anything else | no | numbers, strings and lists of them become columns of the corpus |

`length`, `nesting` and `dependency` are written for readers of the file and ignored by `read`, which computes them.

Lines are written and read in blocks by compiled loops: memory is that of a block and, when reading, twice the corpus.
Lines that are unusual (`pomona.data.json_scan`) are read one by one, ten times slower, with the same result.
"""

from __future__ import annotations

from pathlib import Path

from pomona.base.errors import FormatError
from pomona.base.files import line_blocks
from pomona.data import json_text
from pomona.data.corpus import Corpus
from pomona.data.formats import FORMATS, Format
from pomona.data.json_blocks import Blocks
from pomona.data.json_rows import Rows

SUFFIX = ".jsonl"


def recognises(path: Path, head: bytes) -> bool:
    line = head.lstrip().split(b"\n", 1)[0]
    return line.startswith(b"{") and (b'"sentence1"' not in line or b'"tree"' in line)  # else it is SNLI


class Writer:
    """Lines of JSON, chunk after chunk."""

    def __init__(self, path: Path, shown: Path) -> None:
        self._file, self._shown = path.open("wb"), shown

    def write(self, corpus: Corpus) -> None:
        try:
            for lines in json_text.lines(corpus):
                self._file.write(lines)
        except (TypeError, ValueError) as error:  # a NaN, half a character, or a column of objects
            raise FormatError(
                f"JSON cannot hold this: {error}; leave it out or write parquet", path=self._shown
            ) from error

    def close(self) -> None:
        self._file.close()


def read(path: Path) -> Corpus:
    """Read and check every line; an error names line and node."""
    rows = Rows(path)
    blocks = Blocks(rows)
    for block in line_blocks(path):
        blocks.add(block)
    blocks.finish()
    return rows.corpus()


FORMATS.add(Format("jsonl", SUFFIX, recognises, read, Writer, holds_everything=True))
