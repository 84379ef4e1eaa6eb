"""Parquet: columns of lists, zstd; settings, version and fingerprint are in the metadata.

| column | type | what |
|---|---|---|
| id | string | the user's id, else the content key as 16 hex digits |
| tokens | list of strings | |
| target | list of whole numbers or strings | always a list |
| symbols, parents, values | lists, one entry a node | the trees in post-order; parents count inside the tree, -1 root |
| trees | list of numbers | nodes of each tree, where an example has more than one |
| links | list of numbers | nodes back to the quoted node, where the task has quotations |
| length, nesting, dependency | numbers | as on the Example |

Any reader of Parquet sees plain lists of strings and numbers. Columns that a task adds come last. Values and
targets are whole numbers, or strings, where all outcomes are; otherwise each is written as JSON, in which 1, 1.0, true
and "1" differ and a list is a tuple.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled
from pomona.base.errors import FormatError, TreeError
from pomona.base.files import read_bytes
from pomona.data.corpus import FIELDS, Corpus, Fingerprint, Outcome, narrowest
from pomona.data.formats import FORMATS, Format, plain_origin
from pomona.trees.forest import Forest
from pomona.trees.values import distinct, from_json, position_type, to_json

SUFFIX = ".parquet"
_META = b"pomona"
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
        kind = _kind(corpus.outcomes)
        if self._file is None:
            self._kind = kind
            self._about = {"format": 1, "width": corpus.width, "origin": plain_origin(corpus.origin)}
            self._about |= {"own_ids": corpus.ids is not None, "kind": kind}
        elif kind != self._kind and _joined(kind, self._kind) != self._kind:
            self._widen(_joined(kind, self._kind))
        table = _table(corpus, self._kind)
        if self._file is None:
            self._open(table.schema)
        if table.schema != self._file.schema:
            raise FormatError("the chunks of one file must have the same columns", path=self._shown)
        self._file.write_table(table)
        self.fingerprint.update(corpus)
        self._rows += len(corpus)
        for name, words in (("vocabulary", corpus.vocabulary), ("names", corpus.forest.names)):
            self._about[name] = list(dict.fromkeys([*self._about.get(name, []), *words]))
        self._about["outcomes"] = list(distinct([*self._about.get("outcomes", []), *corpus.outcomes]))

    def _widen(self, kind: str) -> None:
        """Rewrite the rows so far with a type of values that can also hold those of the next chunk."""
        self._close()
        before = self._path.with_name(self._path.name + ".before")
        shutil.copyfile(self._path, before)  # the file itself stays the same one, since it is locked
        self._file = None
        try:
            for batch in _batches(opened(before)):
                part = _table(_corpus(batch, self._about, self._shown, 0), kind)
                if self._file is None:
                    self._open(part.schema)
                self._file.write_table(part)
        finally:
            before.unlink()
        self._kind = self._about["kind"] = kind

    def close(self) -> None:
        if self._file is not None:
            if _kind(tuple(self._about["outcomes"])) == self._kind:
                del self._about["kind"]  # it follows from the outcomes
            self._about |= {"rows": self._rows, "fingerprint": self.fingerprint.hexdigest()}
            self._file.add_key_value_metadata({_META: json.dumps(self._about, ensure_ascii=False).encode()})
            self._close()

    def _open(self, schema: Any) -> None:
        self._sink = self._path.open("wb")  # Arrow itself takes only names in UTF-8
        self._file = _writer(self._sink, schema)

    def _close(self) -> None:
        self._file.close()
        self._sink.close()


def _writer(sink: Any, schema: Any) -> Any:
    worded = [f"{name}.list.element" for name in ("tokens", "symbols", "values", "target")]
    return pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        write_page_checksum=True,
        use_dictionary=worded,
        write_statistics=False,
        dictionary_pagesize_limit=1 << 30,  # Arrow cannot read lists whose words are only partly in a dictionary
    )


def _table(corpus: Corpus, kind: str) -> Any:
    starts = corpus.forest.start[:: corpus.width]
    columns: dict[str, Any] = {
        "id": pa.array(corpus.ids, pa.string()) if corpus.ids is not None else _hex(corpus.keys),
        "tokens": _lists(corpus.token_start, _words(corpus.tokens, corpus.vocabulary)),
        "target": _lists(
            np.arange(len(corpus) + 1) * corpus.targets.shape[1],
            _outcomes(corpus.targets.ravel(), corpus.outcomes, kind),
        ),
        "symbols": _lists(starts, _words(corpus.forest.symbol, corpus.forest.names)),
        "parents": _lists(starts, pa.array(corpus.forest.parent)),
        "values": _lists(starts, _outcomes(corpus.values, corpus.outcomes, kind)),
    }
    if corpus.width > 1:
        sizes = np.diff(corpus.forest.start).astype(np.int32)
        columns["trees"] = _lists(np.arange(len(corpus) + 1) * corpus.width, pa.array(sizes))
    if corpus.forest.link is not None:
        columns["links"] = _lists(starts, pa.array(corpus.forest.link))
    columns["length"] = pa.array(corpus.lengths.astype(np.int32))
    columns["nesting"] = pa.array(corpus.nesting.astype(np.int32))
    columns["dependency"] = pa.array(corpus.dependency.astype(np.int32))
    for name, column in corpus.columns.items():
        columns[name] = pa.array(column.tolist()) if column.ndim > 1 else pa.array(column)
    return pa.table(columns)


def _lists(start: Ints, flat: Any) -> Any:
    # 64-bit offsets only where 32 bits do not reach: more readers understand the short ones.
    if start[-1] < 2**31:
        return pa.ListArray.from_arrays(pa.array(np.asarray(start, np.int32)), flat)
    return pa.LargeListArray.from_arrays(pa.array(np.asarray(start, np.int64)), flat)


def _words(column: Ints, names: tuple[str, ...]) -> Any:
    indices = pa.array(np.asarray(column, np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string()))


def _kind(outcomes: tuple[Outcome, ...]) -> str:
    """How values are written: as int16 or int64, as strings, or as JSON."""
    kinds = {type(outcome) for outcome in outcomes}
    if kinds <= {int}:
        return "int16" if all(-(2**15) <= int(outcome) < 2**15 for outcome in outcomes) else "int64"  # type: ignore[arg-type]
    return "string" if kinds == {str} else "json"


def _joined(one: str, other: str) -> str:
    """The kind that can hold values of both kinds."""
    return "int64" if {one, other} == {"int16", "int64"} else one if one == other else "json"


def _outcomes(column: Ints, outcomes: tuple[Outcome, ...], kind: str) -> Any:
    missing = column < 0
    mask = missing if missing.any() else None
    if kind.startswith("int"):
        table = np.array([*outcomes, 0], kind)
        return pa.array(table[column], mask=mask)
    indices = pa.array(np.asarray(np.where(missing, 0, column), np.int32), mask=mask)
    return pa.DictionaryArray.from_arrays(indices, pa.array(_spelled(outcomes, kind), pa.string()))


def _spelled(outcomes: tuple[Outcome, ...], kind: str) -> list[str]:
    """Outcomes as strings: themselves, or JSON where not all of them are strings."""
    return [str(outcome) if kind == "string" else to_json(outcome) for outcome in outcomes]


def _hex(keys: npt.NDArray[np.uint64]) -> Any:
    """Keys as strings of 16 hex digits, without a Python string for each."""
    letters = _hex_letters(keys, np.frombuffer(b"0123456789abcdef", np.uint8))
    offsets = np.arange(len(keys) + 1, dtype=np.int32) * 16
    return pa.StringArray.from_buffers(len(keys), pa.py_buffer(offsets), pa.py_buffer(letters))


@compiled
def _hex_letters(keys: Ints, digits: Ints) -> npt.NDArray[np.uint8]:
    letters = np.empty(16 * len(keys), np.uint8)
    for row in range(len(keys)):
        for place in range(16):
            letters[16 * row + place] = digits[(keys[row] >> np.uint64(60 - 4 * place)) & np.uint64(15)]
    return letters


def read(path: Path) -> Corpus:
    """The corpus of a file that `Writer` made; anything else in Parquet's clothes is refused."""
    try:
        file = opened(path)
        about = json.loads((file.metadata.metadata or {}).get(_META) or b"null")
        if not isinstance(about, dict) or about.get("format") != 1:
            raise FormatError("this Parquet file was not written by Pomona (no metadata 'pomona')", path=path)
        about["outcomes"] = list(map(from_json, about["outcomes"]))
        parts, row = [], 0
        for batch in _batches(file):
            parts.append(_corpus(batch, about, path, row))
            row += len(batch)
        if not parts:
            raise FormatError("the file holds no rows", path=path)
        corpus = Corpus.concatenate(parts)
        fingerprint = corpus.fingerprint
    except FormatError as error:
        if error.path is not None:
            raise
        raise FormatError(str(error), path=path) from error
    except Exception as error:  # damage shows itself in any way: Arrow's errors, wrong types, numbers out of range
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise FormatError(f"not a whole Parquet file of ours: {why}", path=path) from error
    if fingerprint != about.get("fingerprint"):
        raise FormatError(
            f"the rows are not those that were written: their fingerprint is {fingerprint[:16]}..., "
            f"the file says {str(about.get('fingerprint'))[:16]}...; generate or copy it again",
            path=path,
        )
    return corpus


def opened(path: Path) -> Any:
    """The file for reading: pages whose checksum is not that of their content are errors, and so is a file that
    announces far more than it can hold, before memory is asked for."""
    content = read_bytes(path)
    file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
    about, most = file.metadata, _MOST_PACKED * len(content) + _FEW
    groups = map(about.row_group, range(about.num_row_groups))
    parts = [group.column(at) for group in groups for at in range(about.num_columns)]
    values = max(about.num_rows, sum(part.num_values for part in parts))
    size = sum(max(part.total_uncompressed_size, part.total_compressed_size) for part in parts)
    if not 0 <= values <= most or not 0 <= size <= 8 * most:
        raise FormatError(
            f"it announces {values:,} values in {size:,} bytes, more than a file of {len(content):,} bytes can hold",
            path=path,
        )
    return file


def _batches(file: Any) -> Iterator[Any]:
    """The rows of a file in batches, by row group: Arrow cannot join lists with different dictionaries."""
    for group in range(file.num_row_groups):
        yield from file.iter_batches(batch_size=1 << 17, row_groups=[group])


def _corpus(batch: Any, about: dict[str, Any], path: Path, first: int) -> Corpus:
    """The rows of a batch, which begins with row `first` of the file."""
    width, rows = int(about["width"]), len(batch)
    vocabulary, names, outcomes = tuple(about["vocabulary"]), tuple(about["names"]), tuple(about["outcomes"])
    token_start, tokens = _flat(batch, "tokens")
    start, symbols = _flat(batch, "symbols")
    if width > 1:
        sizes = np.asarray(_flat(batch, "trees")[1], np.int64)
        start = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=start[1:])
    link = np.asarray(_flat(batch, "links")[1], np.int32) if "links" in batch.schema.names else None
    parent = np.asarray(_flat(batch, "parents")[1], np.int32)
    symbol = _positions(symbols, names).astype(position_type(len(names)))
    placed = _positions(tokens, vocabulary)
    if placed.min(initial=0) < 0:
        raise FormatError("a token is missing", path=path)
    try:
        forest = Forest(symbol, parent, start, names, link).checked()
    except TreeError as error:
        raise FormatError(f"the trees from row {first + 1} on are invalid: {error}", path=path) from None
    kind, spelled = position_type(len(outcomes)), _spelled(outcomes, about.get("kind") or _kind(outcomes))
    targets = _positions(_flat(batch, "target")[1], outcomes, spelled).astype(kind)
    return Corpus(
        placed.astype(narrowest(len(vocabulary))),
        token_start,
        vocabulary,
        forest,
        _positions(_flat(batch, "values")[1], outcomes, spelled).astype(kind),
        outcomes,
        targets.reshape(rows, -1) if rows else np.zeros((0, 1), kind),
        width=width,
        origin={**about["origin"], "path": str(path)},
        ids=tuple(str(name) for name in batch.column("id").to_pylist()) if about["own_ids"] else None,
        columns={name: np.array(batch.column(name).to_pylist()) for name in batch.schema.names if name not in FIELDS},
    )


def _flat(batch: Any, name: str) -> tuple[npt.NDArray[np.int64], Any]:
    """Offsets and entries of a column of lists."""
    column = batch.column(name)
    offsets, entries = np.asarray(column.offsets, np.int64), column.flatten()
    if column.null_count or offsets[-1] - offsets[0] != len(entries):
        raise FormatError(f"the column {name!r} has rows without a list")
    return offsets - offsets[0], entries


def _positions(column: Any, names: tuple[Any, ...], spelled: Sequence[str] | None = None) -> npt.NDArray[np.int64]:
    """The position of each entry in `names`, as the column spells them; -1 for null."""
    if pa.types.is_integer(column.type):
        missing = np.asarray(column.is_null())
        numbers = np.asarray(column.fill_null(0), np.int64)
        if names == tuple(range(len(names))):
            if numbers.min(initial=0) < 0 or numbers.max(initial=0) >= max(len(names), 1):
                raise FormatError("a value or target is not among the outcomes")
            return np.where(missing, -1, numbers)
        position: dict[Any, int] = {name: number for number, name in enumerate(names)}
        used, inverse = np.unique(numbers[~missing], return_inverse=True)
        positions = np.full(len(numbers), -1, np.int64)
        positions[~missing] = np.array([position[number] for number in used.tolist()], np.int64)[inverse]
        return positions
    position = {word: number for number, word in enumerate(names if spelled is None else spelled)} | {None: -1}
    if pa.types.is_dictionary(column.type):
        table = np.array([*(position[word] for word in column.dictionary.to_pylist()), -1], np.int64)
        return table[np.asarray(column.indices.fill_null(len(table) - 1), np.int64)]
    return np.array([position[word] for word in column.to_pylist()], np.int64)


FORMATS.add(Format("parquet", SUFFIX, recognises, read, Writer, holds_everything=True))
