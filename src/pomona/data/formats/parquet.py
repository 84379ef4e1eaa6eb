"""Parquet: columns of lists, zstd; settings, version and fingerprint are in the metadata.

| column | type | what |
|---|---|---|
| id | string | the user's id, else the content key as 16 hex digits |
| tokens | list of strings | |
| target | list of whole numbers or strings | always a list |
| symbols, values | lists, one entry a node | the trees in post-order |
| to_parent | list, one entry a node | how many nodes further on the parent is, 0 at the root |
| trees | list of numbers | nodes of each tree, where an example has more than one |
| links | list of numbers | nodes back to the quoted node, where the task has quotations |
| length, nesting, dependency | numbers | as on the Example |

Any reader of Parquet sees plain lists of strings and numbers. Columns that a task adds come last. Values and
targets are whole numbers, or strings, where all outcomes are; otherwise each is written as JSON, in which 1, 1.0, true
and "1" differ and a list is a tuple. Files of format 1 have `parents` (counted inside the tree, -1 at the root) instead
of `to_parent`, which takes less than half the space; they are read as before.

A row group has at most 32,768 rows and about four million tokens or nodes; a larger chunk is cut into several. Writing
needs the memory of one row group beside the chunk. `parts` reads a row group, or half of one, at a time; `read` needs
that and the corpus. Both check the fingerprint of all rows, the checksum of every page, and a digest of the metadata
and of the names of columns.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pomona.base.errors import FormatError
from pomona.base.files import read_bytes
from pomona.data.arrow_tables import corpus_of, joined_kind, kind_of_outcomes, table_of
from pomona.data.collecting import Room, collected
from pomona.data.corpus import Corpus, Fingerprint
from pomona.data.formats import FORMATS, Format, plain_origin
from pomona.data.parquet_footer import Announced, announced
from pomona.trees.values import distinct, from_json

SUFFIX = ".parquet"
_FORMATS = (1, 2)  # that are read; the last is written
_META, _SEAL = b"pomona", b"pomona.digest"
_MOST_ROWS, _MOST_ENTRIES = 1 << 15, 1 << 22  # of a row group; a single row may have more entries
_MOST_PACKED, _FEW = 10_000, 10_000_000  # values that one byte of a file can hold, and values that any file may hold


def recognises(path: Path, head: bytes) -> bool:
    return head.startswith(b"PAR1")


class Writer:
    """Writes a row group for each chunk, and the fingerprint at the end."""

    def __init__(self, path: Path, shown: Path) -> None:
        self._path, self._shown = path, shown
        self._file: Any = None
        self._sink: Any = None
        self.fingerprint = Fingerprint()
        self._rows = 0
        self._kind = ""
        self._about: dict[str, Any] = {}

    def write(self, corpus: Corpus) -> None:
        kind = kind_of_outcomes(corpus.outcomes)
        if self._file is None:
            self._kind = kind
            self._about = {"format": _FORMATS[-1], "width": corpus.width, "origin": plain_origin(corpus.origin)}
            self._about |= {"own_ids": corpus.ids is not None, "kind": kind}
        elif kind != self._kind and joined_kind(kind, self._kind) != self._kind:
            self._widen(joined_kind(kind, self._kind))
        for rows in _row_groups(corpus):
            self._write_group(corpus[rows])
        for name, words in (("vocabulary", corpus.vocabulary), ("names", corpus.forest.names)):
            self._about[name] = list(dict.fromkeys([*self._about.get(name, []), *words]))
        self._about["outcomes"] = list(distinct([*self._about.get("outcomes", []), *corpus.outcomes]))

    def _write_group(self, part: Corpus) -> None:
        table = table_of(part, self._kind)
        if self._file is None:
            self._open(table.schema)
        if table.schema != self._file.schema:
            raise FormatError("the chunks of one file must have the same columns", path=self._shown)
        self._file.write_table(table)
        self.fingerprint.update(part)
        self._rows += len(part)

    def _widen(self, kind: str) -> None:
        """Rewrite the rows so far with a type of values that can also hold those of the next chunk."""
        self._close()
        before = self._path.with_name(self._path.name + ".before")
        shutil.copyfile(self._path, before)  # the file itself stays the same one, since it is locked
        self._file = None
        try:
            for batch in _batches(opened(before)):
                part = table_of(corpus_of(batch, self._about, self._shown, 0), kind)
                if self._file is None:
                    self._open(part.schema)
                self._file.write_table(part)
        finally:
            before.unlink()
        self._kind = self._about["kind"] = kind

    def close(self) -> None:
        if self._file is not None:
            if kind_of_outcomes(tuple(self._about["outcomes"])) == self._kind:
                del self._about["kind"]  # it follows from the outcomes
            self._about |= {"rows": self._rows, "fingerprint": self.fingerprint.hexdigest()}
            about = json.dumps(self._about, ensure_ascii=False).encode()
            self._file.add_key_value_metadata({_META: about, _SEAL: _seal(about, self._file.schema)})
            self._close()

    def _open(self, schema: Any) -> None:
        self._sink = self._path.open("wb")  # Arrow itself takes only names in UTF-8
        self._file = new_writer(self._sink, schema)

    def _close(self) -> None:
        self._file.close()
        self._sink.close()


def _row_groups(corpus: Corpus) -> Iterator[slice]:
    """The rows of each row group; a corpus without rows has one."""
    entries = np.maximum(corpus.token_start, corpus.forest.start[:: corpus.width])
    first = 0
    while True:
        fitting = int(np.searchsorted(entries, entries[first] + _MOST_ENTRIES, "right")) - 1
        last = min(len(corpus), first + _MOST_ROWS, max(fitting, first + 1))
        yield slice(first, last)
        first = last
        if first >= len(corpus):
            break


def new_writer(sink: Any, schema: Any) -> Any:
    """Arrow's writer of a file with these columns, with our encodings."""
    words = ["tokens", "symbols", *(name for name in ("values", "target") if not _is_number(schema, name))]
    numbers = ["to_parent", *(name for name in ("values", "target") if _is_number(schema, name))]
    return pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        write_page_checksum=True,
        use_dictionary=[f"{name}.list.element" for name in words],
        column_encoding={f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in numbers},  # small for small numbers
        write_statistics=False,
        write_batch_size=1 << 20,  # of entries that Arrow encodes at a time; its 1024 take a tenth longer
        dictionary_pagesize_limit=1 << 30,  # Arrow cannot read lists whose words are only partly in a dictionary
    )


def _seal(about: bytes, schema: Any) -> bytes:
    """A digest of what the pages' checksums do not cover: the metadata, and the names and types of the columns."""
    kinds = [f"list of {kind.value_type}" if pa.types.is_list(kind) else str(kind) for kind in schema.types]
    columns = json.dumps([schema.names, kinds]).encode()
    return hashlib.sha256(about + b"\0" + columns).hexdigest().encode()


def _is_number(schema: Any, name: str) -> bool:
    return bool(pa.types.is_integer(schema.field(name).type.value_type))


def read(path: Path) -> Corpus:
    """The corpus of a file that `Writer` made; anything else in Parquet's clothes is refused."""
    with _reading(path) as reading:
        return reading.whole()


def parts(path: Path) -> Iterator[Corpus]:
    """The corpus of a file that `Writer` made, a row group at a time; damage that only the fingerprint of all rows
    shows is an error after the last."""
    with _reading(path) as reading:
        yield from reading.parts()


def said(path: Path) -> dict[str, Any]:
    """What a file says of itself, without its rows: format, width, origin, rows, fingerprint, words and outcomes."""
    with _reading(path) as reading:
        return reading.about


def columns(path: Path, names: Collection[str]) -> Iterator[Any]:
    """Arrow's batches of some columns, in order; their pages are checked, and the fingerprint is not."""
    with _reading(path) as reading:
        yield from reading.columns(names)


class _Reading:
    """An open file whose rows are read and checked one after the other."""

    def __init__(self, file: Any, path: Path, announced: Announced) -> None:
        self._file, self._path, self._announced = file, path, announced
        metadata = file.metadata.metadata or {}
        about = json.loads(metadata.get(_META) or b"null")
        if not isinstance(about, dict) or about.get("format") not in _FORMATS:
            raise FormatError("this Parquet file was not written by Pomona (no metadata 'pomona')", path=path)
        if _SEAL in metadata and metadata[_SEAL] != _seal(metadata[_META], file.schema_arrow):  # none in older files
            raise FormatError("the file is damaged: its metadata or columns are not those that were written", path=path)
        about["outcomes"] = tuple(map(from_json, about["outcomes"]))
        self._about, self._fingerprint = about, ""

    @property
    def about(self) -> dict[str, Any]:
        return dict(self._about)

    def columns(self, names: Collection[str]) -> Iterator[Any]:
        return _batches(self._file, [name for name in self._file.schema_arrow.names if name in names])

    def parts(self) -> Iterator[Corpus]:
        fingerprint, row = Fingerprint(), 0
        for batch in _batches(self._file):
            part = corpus_of(batch, self._about, self._path, row)
            fingerprint.update(part)
            row += len(part)
            yield part
        if not row:
            raise FormatError("the file holds no rows", path=self._path)
        self._fingerprint, said = fingerprint.hexdigest(), self._about.get("fingerprint")
        if self._fingerprint != said:
            raise FormatError(
                f"the rows are not those that were written: their fingerprint is {self._fingerprint[:16]}..., "
                f"the file says {str(said)[:16]}...; generate or copy it again",
                path=self._path,
            )

    def whole(self) -> Corpus:
        """All rows as one corpus, which knows its fingerprint."""
        rows, entries, _ = self._announced
        corpus = collected(self.parts(), Room(rows, entries["tokens"], entries["symbols"]))
        vars(corpus)["fingerprint"] = self._fingerprint  # it was computed on the way
        return corpus


@contextmanager
def _reading(path: Path) -> Iterator[_Reading]:
    """A file of ours, open for reading; what goes wrong is an error that names it."""
    try:
        with path.open("rb") as handle:
            source = pa.PythonFile(handle, mode="r")
            said = _checked(source, path)
            yield _Reading(_open(source), path, said)
    except FormatError as error:
        if error.path is not None:
            raise
        raise FormatError(str(error), path=path) from error
    except Exception as error:  # damage shows itself in any way: Arrow's errors, wrong types, numbers out of range
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise FormatError(f"not a whole Parquet file of ours: {why}", path=path) from error


def opened(path: Path) -> Any:
    """The file for reading, its bytes in memory: pages whose checksum is not that of their content are errors."""
    source = pa.BufferReader(read_bytes(path))
    _checked(source, path)
    return _open(source)


def _open(source: Any) -> Any:
    source.seek(0)
    return pq.ParquetFile(source, page_checksum_verification=True)


def _checked(source: Any, path: Path) -> Announced:
    """What a Parquet file announces; one that announces far more than it can hold is refused before memory is asked
    for."""
    said, length = announced(source), source.size()
    values, most = max(said.rows, said.values.total()), _MOST_PACKED * length + _FEW
    if values > most or said.size > 8 * most:
        raise FormatError(
            f"it announces {values:,} values in {said.size:,} bytes, more than a file of {length:,} bytes can hold",
            path=path,
        )
    return said


def _batches(file: Any, names: list[str] | None = None) -> Iterator[Any]:
    """The rows of a file in batches, by row group: Arrow cannot join lists with different dictionaries."""
    for group in range(file.num_row_groups):
        yield from file.iter_batches(batch_size=1 << 14, row_groups=[group], columns=names, use_threads=False)


FORMATS.add(Format("parquet", SUFFIX, recognises, read, Writer, holds_everything=True))
