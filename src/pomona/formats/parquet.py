"""Parquet: every column as lists, zstd, with spec, version and fingerprint in the metadata.

| column | type | what |
|---|---|---|
| id | string | the user's id, else the content key as 16 hex digits |
| tokens | list of strings | |
| target | list of numbers or strings | always a list |
| symbols, parents, values | lists, one entry a node | the trees in post-order; parents count inside the tree, -1 root |
| trees | list of numbers | nodes of each tree, where an example has more than one |
| links | list of numbers | nodes back to the node that is quoted, where the task has such |
| length, nesting, dependency | numbers | as on the Example |

Any reader of Parquet sees plain lists of strings and numbers; the names of columns that a task adds follow these.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from pomona.compiled import Ints, compiled
from pomona.corpus import Corpus, Fingerprint, Outcome
from pomona.errors import FormatError, PomonaError
from pomona.formats import plain_origin
from pomona.trees import Forest

SUFFIX = ".parquet"
_META = b"pomona"
_OWN = {"id", "tokens", "target", "symbols", "parents", "values", "trees", "links", "length", "nesting", "dependency"}


def recognises(path: Path, head: bytes) -> bool:
    return head.startswith(b"PAR1")


class Writer:
    """Row groups, chunk after chunk; the fingerprint is known, and written, at the end."""

    def __init__(self, path: Path, shown: Path) -> None:
        self._path, self._shown = path, shown
        self._file: Any = None
        self.fingerprint = Fingerprint()
        self._rows = 0
        self._about: dict[str, Any] = {}

    def write(self, corpus: Corpus) -> None:
        table = _table(corpus)
        if self._file is None:
            worded = [f"{name}.list.element" for name in ("tokens", "symbols", "values", "target")]
            self._file = pq.ParquetWriter(
                self._path, table.schema, compression="zstd", use_dictionary=worded, write_statistics=False
            )
            self._about = {"format": 1, "width": corpus.width, "origin": plain_origin(corpus.origin)}
            self._about["own_ids"] = corpus.ids is not None
        if table.schema != self._file.schema:
            raise FormatError(
                "the chunks of one file must have the same columns and kinds of outcome", path=self._shown
            )
        self._file.write_table(table)
        self.fingerprint.update(corpus)
        self._rows += len(corpus)
        tables = {"vocabulary": corpus.vocabulary, "names": corpus.forest.names, "outcomes": corpus.outcomes}
        for name, words in tables.items():
            self._about[name] = list(dict.fromkeys([*self._about.get(name, []), *words]))

    def close(self) -> None:
        if self._file is not None:
            self._about |= {"rows": self._rows, "fingerprint": self.fingerprint.hexdigest()}
            self._file.add_key_value_metadata({_META: json.dumps(self._about, ensure_ascii=False).encode()})
            self._file.close()


def _table(corpus: Corpus) -> Any:
    starts = corpus.forest.start[:: corpus.width]
    columns: dict[str, Any] = {
        "id": pa.array(corpus.ids, pa.string()) if corpus.ids is not None else _hex(corpus.keys),
        "tokens": _lists(corpus.token_start, _words(corpus.tokens, corpus.vocabulary)),
        "target": _lists(
            np.arange(len(corpus) + 1) * corpus.targets.shape[1], _outcomes(corpus.targets.ravel(), corpus.outcomes)
        ),
        "symbols": _lists(starts, _words(corpus.forest.symbol, corpus.forest.names)),
        "parents": _lists(starts, pa.array(corpus.forest.parent)),
        "values": _lists(starts, _outcomes(corpus.values, corpus.outcomes)),
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
        if name in _OWN:
            raise FormatError(f"a task's own column cannot be called {name!r}")
        columns[name] = pa.array(list(column)) if column.ndim > 1 else pa.array(column)
    return pa.table(columns)


def _lists(start: Ints, flat: Any) -> Any:
    # 64-bit offsets only where 32 bits do not reach: more readers understand the short ones.
    if start[-1] < 2**31:
        return pa.ListArray.from_arrays(pa.array(np.asarray(start, np.int32)), flat)
    return pa.LargeListArray.from_arrays(pa.array(np.asarray(start, np.int64)), flat)


def _words(column: Ints, names: tuple[str, ...]) -> Any:
    indices = pa.array(np.asarray(column, np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string()))


def _outcomes(column: Ints, outcomes: tuple[Outcome, ...]) -> Any:
    missing = column < 0
    mask = missing if missing.any() else None
    if all(isinstance(outcome, int) for outcome in outcomes):
        table = np.array([*outcomes, 0], np.int16)
        return pa.array(table[column], mask=mask)
    indices = pa.array(np.asarray(np.where(missing, 0, column), np.int32), mask=mask)
    return pa.DictionaryArray.from_arrays(indices, pa.array([str(outcome) for outcome in outcomes], pa.string()))


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
        file = pq.ParquetFile(path)
        about = json.loads((file.metadata.metadata or {}).get(_META) or b"null")
        if not isinstance(about, dict) or about.get("format") != 1:
            raise FormatError("this Parquet file was not written by Pomona (no metadata 'pomona')", path=path)
        parts = [_corpus(batch, about, path) for batch in file.iter_batches(batch_size=1 << 17)]
        if not parts:
            raise FormatError("the file holds no rows", path=path)
        corpus = Corpus.concatenate(parts)
    except PomonaError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise FormatError(f"not a whole Parquet file of ours: {str(error).splitlines()[0]}", path=path) from error
    if corpus.fingerprint != about.get("fingerprint"):
        raise FormatError(
            f"the rows are not those that were written: their fingerprint is {corpus.fingerprint[:16]}..., "
            f"the file says {str(about.get('fingerprint'))[:16]}...; generate or copy it again",
            path=path,
        )
    return corpus


def _corpus(batch: Any, about: dict[str, Any], path: Path) -> Corpus:
    width = int(about["width"])
    outcomes: tuple[Outcome, ...] = tuple(about["outcomes"])
    token_start, tokens = _flat(batch.column("tokens"))
    node_start, symbols = _flat(batch.column("symbols"))
    _, parents = _flat(batch.column("parents"))
    _, values = _flat(batch.column("values"))
    _, targets = _flat(batch.column("target"))
    start = node_start
    if width > 1:
        sizes = np.asarray(_flat(batch.column("trees"))[1], np.int64)
        start = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=start[1:])
    link = None
    if "links" in batch.schema.names:
        link = np.asarray(_flat(batch.column("links"))[1], np.int32)
    names = tuple(about["names"])
    symbol = _positions(symbols, names).astype(np.int16)
    forest = Forest(symbol, np.asarray(parents, np.int32), start, names, link).checked()
    wide = np.uint8 if len(about["vocabulary"]) < 256 else np.uint16
    rows = len(batch)
    return Corpus(
        _positions(tokens, tuple(about["vocabulary"])).astype(wide),
        token_start,
        tuple(about["vocabulary"]),
        forest,
        _positions(values, outcomes).astype(np.int16),
        outcomes,
        _positions(targets, outcomes).astype(np.int16).reshape(rows, -1) if rows else np.zeros((0, 1), np.int16),
        width=width,
        origin={**about["origin"], "path": str(path)},
        ids=tuple(batch.column("id").to_pylist()) if about["own_ids"] else None,
        columns={name: np.array(batch.column(name).to_pylist()) for name in batch.schema.names if name not in _OWN},
    )


def _flat(column: Any) -> tuple[npt.NDArray[np.int64], Any]:
    offsets = np.asarray(column.offsets, np.int64)
    return offsets - offsets[0], column.flatten()


def _positions(column: Any, names: tuple[Any, ...]) -> npt.NDArray[np.int64]:
    """Where each entry stands in `names`, -1 for null."""
    place = {name: position for position, name in enumerate(names)}
    if pa.types.is_dictionary(column.type):
        table = np.array([*(place[word] for word in column.dictionary.to_pylist()), -1], np.int64)
        return table[np.asarray(column.indices.fill_null(len(table) - 1), np.int64)]
    if pa.types.is_integer(column.type):
        present = np.array([name if isinstance(name, int) else -1 for name in names], np.int64)
        numbers = np.asarray(column.fill_null(-1), np.int64)
        if np.array_equal(present, np.arange(len(names))):
            return np.where(numbers < len(names), numbers, -1)
        return np.array([place.get(number, -1) for number in numbers.tolist()], np.int64)
    return np.array([-1 if word is None else place[word] for word in column.to_pylist()], np.int64)
