"""Representations and derivations from files.

Representations: `.npy`, `.npz` (one array, or the one named), Parquet (a column of lists, or numeric columns) and
word2vec text. The last two may name their rows, and derivations can then refer to rows by name.

Derivations, `.jsonl`, one line for each item:

    ["red", ["dark", "square"]]                                   nested lists
    {"derivation": ["gravy", "train"], "item": "gravy_train"}     the same, for a named row
    {"shape": "square", "colour": "red"}                          attributes

A corpus in any format that `pomona.data.formats` reads is read as well, in the order of its rows: trees in brackets,
JSONL with a "tree" in every line, Parquet, a table of attributes (CSV). A leaf is a primitive, called by its value, or
"shape=square" in a table; a node with one child stands for that child.
"""

from __future__ import annotations

import io
import lzma
import math
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.errors import FormatError, MeasureError
from pomona.base.files import parse_json, read_bytes, read_text, unix_lines
from pomona.data import formats
from pomona.data.corpus import Corpus
from pomona.data.formats import FORMATS, HEAD
from pomona.data.formats.csv import ROW
from pomona.representations.tre.derivations import Derivations
from pomona.trees import links
from pomona.trees.forest import Forest

_MOST_PACKED = 1_100  # bytes that one byte of a zip file can hold
_NO_ZIP = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError, EOFError, OSError, ValueError,
    KeyError, OverflowError,
)  # fmt: skip
ARRAY_SUFFIXES = (".npy", ".npz", ".parquet", ".vec", ".txt", ".w2v")


class MissingArrayError(FormatError):
    """A file that has arrays, but none of this name."""


@dataclass(frozen=True, eq=False)
class Vectors:
    """Representations, with a name for each row where the file has one."""

    values: npt.NDArray[Any]
    names: tuple[str, ...] | None = None


def read_representations(path: str | Path, key: str | None = None) -> Vectors:
    """Read one array of representations. Pickled objects are refused, since loading them could run code."""
    path = Path(path)
    if not path.is_file():
        raise FormatError("no such file.", path=path)
    if path.suffix in (".npy", ".npz"):
        return Vectors(read_array(path, key))
    if path.suffix == ".parquet":
        return _parquet(path, key)
    if path.suffix in (".vec", ".txt", ".w2v"):
        return _word_vectors(path)
    raise FormatError(f"representations are read from {', '.join(ARRAY_SUFFIXES)}; got {path.suffix!r}.", path=path)


def read_array(path: Path, key: str | None = None) -> npt.NDArray[Any]:
    """An array of numbers. Its size is compared with that of the file before memory is asked for."""
    content = read_bytes(path)
    if content[:2] != b"PK":
        return _array(io.BytesIO(content), len(content), path)
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        if key is None and len(names) != 1:
            raise FormatError(f"holds {len(names)} arrays ({_shortened(names)}); choose one with --key.", path=path)
        chosen = key if key is not None else names[0]
        if chosen not in names:
            raise MissingArrayError(f"has no array called {chosen!r}; it holds {_shortened(names)}.", path=path)
        member = archive.getinfo(archive.namelist()[names.index(chosen)])
        if member.file_size > len(content) * _MOST_PACKED:
            raise FormatError(f"announces an array of {member.file_size:,} bytes, more than it can hold.", path=path)
        with archive.open(member) as file:
            unpacked = file.read(member.file_size + 1)
    except _NO_ZIP as error:
        raise FormatError(f"not a whole .npz file ({error}).", path=path) from None
    return _array(io.BytesIO(unpacked), len(unpacked), path)


def _shortened(names: Iterable[str]) -> str:
    """Names for a message, as many as a line has room for."""
    text = ", ".join(names)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _array(file: io.BytesIO, size: int, path: Path) -> npt.NDArray[Any]:
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, kind = read(file)
        if kind.hasobject or kind.kind not in "fiubcSU":
            raise ValueError(f"its entries are {kind}")
        if math.prod(shape) * kind.itemsize > size or min(shape, default=0) < 0:
            raise ValueError(f"its header announces {' x '.join(map(str, shape))} entries, more than the file has")
        file.seek(0)
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))
    except (ValueError, OSError, EOFError, SyntaxError, TypeError, OverflowError, RecursionError, TokenError) as error:
        raise FormatError(f"not a NumPy array of numbers ({str(error)[:200]}).", path=path) from None


def _parquet(path: Path, key: str | None) -> Vectors:
    from pomona.data.formats.parquet import opened

    try:
        table = opened(path).read()
        columns = {field.name: field.type for field in table.schema}
        return _vectors_of(table, columns, key, path)
    except FormatError:
        raise
    except Exception as error:  # damage shows itself in any way: Arrow's errors, wrong types, text that is no text
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise FormatError(f"not a Parquet file of vectors ({why[:200]}).", path=path) from None


def _vectors_of(table: Any, columns: dict[str, Any], key: str | None, path: Path) -> Vectors:
    import pyarrow as pa

    text = [name for name, kind in columns.items() if pa.types.is_string(kind) or pa.types.is_large_string(kind)]
    names = tuple(str(value) for value in table[text[0]].to_pylist()) if text else None
    lists = [name for name, kind in columns.items() if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind)]
    if key is not None or lists:
        chosen = key or lists[0]
        if chosen not in columns:
            raise FormatError(f"has no column called {chosen!r}; it has {_shortened(columns)}.", path=path)
        rows = table[chosen].to_pylist()
        length = len(rows[0]) if rows and rows[0] is not None else 0
        for number, row in enumerate(rows):
            if row is None or len(row) != length:
                raise FormatError(f"row {number} of column {chosen!r} has another length than row 0.", path=path)
        return Vectors(np.array(rows, np.float64), names)
    numeric = [name for name, kind in columns.items() if pa.types.is_floating(kind) or pa.types.is_integer(kind)]
    if not numeric:
        raise FormatError("has neither a column of lists nor numeric columns.", path=path)
    return Vectors(np.column_stack([table[name].to_numpy() for name in numeric]).astype(np.float64), names)


def _word_vectors(path: Path) -> Vectors:
    """Each line holds a word and its numbers; a first line of two counts is optional."""
    names: list[str] = []
    rows: list[npt.NDArray[np.float64]] = []
    for number, line in _lines(path):
        fields = line.rstrip().split(" ")
        if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
            continue
        try:
            values = np.array(fields[1:], np.float64)
        except ValueError:
            raise FormatError(
                "expected a word and its numbers, separated by single spaces.", path=path, line=number
            ) from None
        if rows and len(values) != len(rows[0]):
            raise FormatError(
                f"{len(values)} numbers where the lines before have {len(rows[0])}.", path=path, line=number
            )
        names.append(fields[0])
        rows.append(values)
    if not rows or len(rows[0]) == 0:
        raise FormatError("holds no word vectors.", path=path)
    return Vectors(np.stack(rows), tuple(names))


def read_derivations(path: str | Path) -> tuple[Derivations, tuple[str, ...] | None]:
    """Derivations, and the names of the rows they belong to where the file gives them."""
    path = Path(path)
    if not path.is_file():
        raise FormatError("no such file.", path=path)
    corpus = _corpus(path)
    if corpus is not None:
        attributes = _attributes(corpus)
        return Derivations.of(_branching(_shown(corpus, path)) if attributes is None else attributes), None
    lines = list(_lines(path))
    if path.suffix == ".txt" and lines and lines[0][1].lstrip()[0] not in '[{"':
        try:
            return Derivations.of([line.strip() for _, line in lines]), None  # "dark red square": split at spaces
        except MeasureError as error:
            raise FormatError(str(error), path=path) from None
    trees: list[Any] = []
    items: list[str] = []
    for number, line in lines:
        value = parse_json(line, path, number)
        if isinstance(value, dict):
            if "item" in value:
                items.append(str(value.pop("item")))
            value = value["derivation"] if "derivation" in value else [f"{name}={part}" for name, part in value.items()]
        trees.append(value)
    if not trees:
        raise FormatError("holds no derivations.", path=path)
    if items and len(items) != len(trees):
        raise FormatError(f"{len(items)} of {len(trees)} lines name their item; either all do or none.", path=path)
    try:
        return Derivations.from_trees(trees), tuple(items) if items else None
    except MeasureError as error:
        raise FormatError(str(error), path=path) from None


def match_rows(vectors: Vectors, items: tuple[str, ...] | None) -> npt.NDArray[Any]:
    """The representations in the order of the derivations: by name if the derivations name their items."""
    if items is None:
        return vectors.values
    if vectors.names is None:
        raise MeasureError("the derivations name their items, but the representations have no names to find them by.")
    row_of = {name: row for row, name in enumerate(vectors.names)}
    for number, item in enumerate(items):
        if item not in row_of:
            raise MeasureError(f"row {number}: no representation is named {item!r}.")
    return np.asarray(vectors.values[[row_of[item] for item in items]])


def read_items(path: str | Path) -> Any:
    """One meaning or message for each item: `.jsonl`, `.npy`, a corpus, or text with one message on each line."""
    path = Path(path)
    if not path.is_file():
        raise FormatError("no such file.", path=path)
    if path.suffix in (".npy", ".npz"):
        return read_array(path)
    corpus = _corpus(path)
    if corpus is not None:
        attributes = _attributes(corpus)
        return _shown(corpus, path).nested() if attributes is None else attributes
    if path.suffix != ".jsonl":
        return [line for _, line in _lines(path)]
    values = []
    for number, line in _lines(path):
        value = parse_json(line, path, number)
        values.append(list(value.values()) if isinstance(value, dict) else value)
    return values


def _corpus(path: Path) -> Corpus | None:
    """The corpus in a file of trees or a table; None for JSON lines and texts that are none."""
    with path.open("rb") as file:
        head = unix_lines(file.read(HEAD)).lstrip()
    if head.startswith(b"(") or (FORMATS.holds_corpora(path) and path.suffix != ".jsonl"):
        return formats.read(path)
    line = head.split(b"\n", 1)[0]
    return formats.read(path) if re.match(rb'\{.*"trees?"\s*:\s*[{[]', line) else None


def _shown(corpus: Corpus, path: Path) -> Forest:
    """The trees with their leaves called by their values."""
    if corpus.width != 1:
        raise FormatError(f"every row has {corpus.width} trees; a derivation is one tree.", path=path)
    return links.with_leaf_texts(corpus.forest, corpus.values, corpus.outcomes)


def _branching(forest: Forest) -> Forest:
    """The forest without the nodes that have one child, as (NN cat) in a parse."""
    kept = forest.arity != 1
    first = forest.start[:-1][forest.tree]
    up = np.where(forest.parent < 0, -1, forest.parent + first)
    while (left_out := (up >= 0) & ~kept[up]).any():
        up = np.where(left_out, up[up], up)
    before = np.concatenate([[0], np.cumsum(kept)])
    parent = np.where(up < 0, -1, before[up] - before[first])[kept].astype(np.int32)
    return Forest(forest.symbol[kept], parent, before[forest.start], forest.names)


def _attributes(corpus: Corpus) -> list[tuple[str, ...]] | None:
    """The rows of a table of attributes as "column=cell"; None for other corpora."""
    if corpus.forest.names[-1] != ROW or corpus.forest.height.max() > 1:
        return None
    names = corpus.forest.names[:-1]
    return [
        tuple(f"{name}={value}" for name, value in zip(names, example.values, strict=False)) for example in corpus
    ]


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines that are not blank."""
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if line.strip():
            yield number, line
