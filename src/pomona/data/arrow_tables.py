"""Corpora as Arrow tables and back: the columns that `pomona.data.formats.parquet` describes.

`table_of` makes the table of a corpus, `corpus_of` the corpus of a batch of rows. Both go over each column once, in
compiled loops; a Python object is made only for each distinct word.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled
from pomona.base.errors import FormatError, TreeError
from pomona.data.corpus import FIELDS, Corpus, Outcome, narrowest
from pomona.trees.forest import Forest
from pomona.trees.values import position_type, to_json


def table_of(corpus: Corpus, kind: str) -> Any:
    forest = corpus.forest
    starts = forest.start[:: corpus.width]
    columns: dict[str, Any] = {
        "id": pa.array(corpus.ids, pa.string()) if corpus.ids is not None else _hex(corpus.keys),
        "tokens": _lists(corpus.token_start, _words(corpus.tokens, corpus.vocabulary)),
        "target": _lists(
            np.arange(len(corpus) + 1) * corpus.targets.shape[1],
            _outcomes(corpus.targets.ravel(), corpus.outcomes, kind),
            nullable=True,
        ),
        "symbols": _lists(starts, _words(forest.symbol, forest.names)),
        "to_parent": _lists(starts, pa.array(_differences(forest.parent, forest.start))),
        "values": _lists(starts, _outcomes(corpus.values, corpus.outcomes, kind), nullable=True),
    }
    if corpus.width > 1:
        sizes = np.diff(forest.start).astype(np.int32)
        columns["trees"] = _lists(np.arange(len(corpus) + 1) * corpus.width, pa.array(sizes))
    if forest.link is not None:
        columns["links"] = _lists(starts, pa.array(forest.link))
    columns["length"] = pa.array(corpus.lengths.astype(np.int32))
    columns["nesting"] = pa.array(corpus.nesting.astype(np.int32))
    columns["dependency"] = pa.array(corpus.dependency.astype(np.int32))
    fields = [pa.field(name, column.type, nullable=False) for name, column in columns.items()]
    for name, column in corpus.columns.items():
        columns[name] = pa.array(column.tolist()) if column.ndim > 1 else pa.array(column)
        fields.append(pa.field(name, columns[name].type))
    return pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))


def _lists(start: Ints, flat: Any, *, nullable: bool = False) -> Any:
    """A column of lists. What is never null is declared so: it is read in half the time."""
    # 64-bit offsets only where 32 bits do not reach: more readers understand the short ones.
    short = start[-1] < 2**31
    offsets = pa.array(np.asarray(start, np.int32 if short else np.int64))
    element = pa.field("element", flat.type, nullable=nullable)
    if short:
        return pa.ListArray.from_arrays(offsets, flat, type=pa.list_(element))
    return pa.LargeListArray.from_arrays(offsets, flat, type=pa.large_list(element))


def _words(column: Ints, names: tuple[str, ...]) -> Any:
    indices = pa.array(np.ascontiguousarray(column))
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string()))


@compiled
def _differences(parent: Ints, start: Ints) -> npt.NDArray[np.int32]:
    """How many nodes after each node its parent is, 0 at roots."""
    steps = np.zeros(len(parent), np.int32)
    for tree in range(len(start) - 1):
        for node in range(start[tree], start[tree + 1] - 1):
            steps[node] = parent[node] - (node - start[tree])
    return steps


@compiled
def _from_differences(steps: Ints, start: Ints) -> npt.NDArray[np.int32]:
    """The parents of `_differences`; where there is no tree, some number that is no parent."""
    parent = np.full(len(steps), -1, np.int32)
    for tree in range(len(start) - 1):
        first = start[tree]
        for node in range(first, min(start[tree + 1], len(steps))):
            parent[node] = node - first + steps[node] if steps[node] > 0 else -1 if steps[node] == 0 else -2
    return parent


def kind_of_outcomes(outcomes: tuple[Outcome, ...]) -> str:
    """How values are written: as int16 or int64, as strings, or as JSON."""
    kinds = {type(outcome) for outcome in outcomes}
    if kinds <= {int}:
        return "int16" if all(-(2**15) <= int(outcome) < 2**15 for outcome in outcomes) else "int64"  # type: ignore[arg-type]
    return "string" if kinds == {str} else "json"


def joined_kind(one: str, other: str) -> str:
    """The kind that can hold values of both kinds."""
    return "int64" if {one, other} == {"int16", "int64"} else one if one == other else "json"


def _outcomes(column: Ints, outcomes: tuple[Outcome, ...], kind: str) -> Any:
    missing = column < 0
    mask = missing if missing.any() else None
    if kind.startswith("int"):
        own = mask is None and kind == "int16" and outcomes == tuple(range(len(outcomes)))
        numbers = np.asarray(column, np.int16) if own else np.array([*outcomes, 0], kind)[column]
        return pa.array(numbers, mask=mask)
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


def corpus_of(batch: Any, about: dict[str, Any], path: Path, first: int) -> Corpus:
    """The rows of a batch, which begins with row `first` of the file."""
    width, rows = int(about["width"]), len(batch)
    vocabulary, names, outcomes = tuple(about["vocabulary"]), tuple(about["names"]), about["outcomes"]
    token_start, tokens = _flat(batch, "tokens")
    start, symbols = _flat(batch, "symbols")
    if width > 1:
        sizes = np.asarray(_flat(batch, "trees")[1], np.int64)
        start = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=start[1:])
    link = np.asarray(_flat(batch, "links")[1], np.int32) if "links" in batch.schema.names else None
    if about["format"] == 1:
        parent = np.asarray(_flat(batch, "parents")[1], np.int32)
    else:
        parent = _from_differences(np.asarray(_flat(batch, "to_parent")[1], np.int32), start)
    symbol = _positions(symbols, names, position_type(len(names)))
    if tokens.null_count:
        raise FormatError("a token is missing", path=path)
    try:
        forest = Forest(symbol, parent, start, names, link).checked()
    except TreeError as error:
        raise FormatError(f"the trees from row {first + 1} on are invalid: {error}", path=path) from None
    kind, spelled = position_type(len(outcomes)), _spelled(outcomes, about.get("kind") or kind_of_outcomes(outcomes))
    targets = _positions(_flat(batch, "target")[1], outcomes, kind, spelled)
    return Corpus(
        _positions(tokens, vocabulary, narrowest(len(vocabulary))),
        token_start,
        vocabulary,
        forest,
        _positions(_flat(batch, "values")[1], outcomes, kind, spelled),
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


def _positions(
    column: Any, names: tuple[Any, ...], kind: np.dtype[Any], spelled: Sequence[str] | None = None
) -> npt.NDArray[Any]:
    """The position of each entry in `names`, as the column spells them; -1 for null."""
    if pa.types.is_integer(column.type):
        return _number_positions(column, names).astype(kind, copy=False)
    position = {word: number for number, word in enumerate(names if spelled is None else spelled)} | {None: -1}
    if pa.types.is_dictionary(column.type):
        table = np.array([*(position[word] for word in column.dictionary.to_pylist()), -1], np.int64).astype(kind)
        indices = column.indices.fill_null(len(table) - 1) if column.null_count else column.indices
        return _looked_up(table, np.asarray(indices))
    return np.array([position[word] for word in column.to_pylist()], np.int64).astype(kind)


def _number_positions(column: Any, names: tuple[int, ...]) -> npt.NDArray[Any]:
    missing = np.asarray(column.is_null()) if column.null_count else None
    numbers = np.asarray(column.fill_null(0) if column.null_count else column)
    if names == tuple(range(len(names))):
        if numbers.min(initial=0) < 0 or numbers.max(initial=0) >= max(len(names), 1):
            raise FormatError("a value or target is not among the outcomes")
        return numbers if missing is None else np.where(missing, -1, numbers)
    position = {name: number for number, name in enumerate(names)}
    used, inverse = np.unique(numbers if missing is None else numbers[~missing], return_inverse=True)
    positions = np.full(len(numbers), -1, np.int64)
    positions[slice(None) if missing is None else ~missing] = np.array(
        [position[number] for number in used.tolist()], np.int64
    )[inverse]
    return positions


@compiled
def _looked_up(table: Ints, indices: Ints) -> npt.NDArray[Any]:
    """`table[indices]`, in one pass."""
    found = np.empty(len(indices), table.dtype)
    for entry in range(len(indices)):
        index = indices[entry]
        if index < 0 or index >= len(table):
            raise IndexError("an entry is not in the dictionary of its column")
        found[entry] = table[index]
    return found
