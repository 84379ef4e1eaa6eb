"""Vectors with the derivations of their items in one file, as `pomona represent` writes and `pomona tre` reads it.

    write_bundle("vectors.npz", vectors, names, [("MAX", "2", ("MIN", "4", "7")), ...])
    bundle = read_bundle("vectors.npz")
    bundle.vectors, bundle.names, bundle.derivations

A Parquet file has the columns `id`, `derivation` (JSON: nested lists of texts) and `vector`, one row for each item. An
`.npz` file has the array `vectors`, and two texts in UTF-8 as bytes: `ids` and `derivations`, one line for each item.
Both are also plain files of vectors for anything else that reads them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pomona.base.errors import FormatError, MeasureError
from pomona.base.files import parse_json, replacing
from pomona.representations.tre.derivations import Derivations
from pomona.representations.tre.readers import MissingArrayError, read_array, read_representations

SUFFIXES = (".npz", ".parquet")
VECTORS = {".npz": "vectors", ".parquet": "vector"}


class Bundle(NamedTuple):
    """Vectors, the name of each item and how it is built."""

    vectors: npt.NDArray[Any]
    names: tuple[str, ...]
    derivations: Derivations


def check_name(path: Path) -> None:
    """An error if a bundle cannot be written under this name."""
    if path.suffix not in SUFFIXES:
        raise FormatError(f"vectors with derivations are written to .npz or .parquet; got {path.suffix!r}", path=path)


def write_bundle(path: str | Path, vectors: npt.NDArray[Any], names: Sequence[str], derivations: Sequence[Any]) -> None:
    """Write vectors [items, width] with a name and a derivation for each."""
    path = Path(path)
    check_name(path)
    if not len(vectors) == len(names) == len(derivations):
        raise MeasureError(
            f"{len(vectors)} vectors need as many names and derivations; got {len(names)}, {len(derivations)}"
        )
    texts = [json.dumps(derivation) for derivation in derivations]
    if path.suffix == ".npz":
        lines = {"ids": [json.dumps(name) for name in names], "derivations": texts}
        arrays = {key: np.frombuffer("\n".join(value).encode(), np.uint8) for key, value in lines.items()}
        with replacing(path) as beside, beside.open("wb") as file:
            np.savez(file, vectors=vectors, **arrays)  # type: ignore[arg-type]
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    flat = pa.array(np.ascontiguousarray(vectors).reshape(-1))
    column = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
    columns = {"id": pa.array(names, pa.string()), "derivation": pa.array(texts, pa.string()), "vector": column}
    with replacing(path) as beside:
        pq.write_table(pa.table(columns), beside, write_page_checksum=True)


def read_bundle(path: str | Path) -> Bundle:
    """Read vectors and their derivations from one file; an error if it holds only one of them."""
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise FormatError("this file holds no derivations; name a second file that does", path=path)
    try:
        texts = _lines(path, "derivation")
        names = tuple(_lines(path, "id"))
    except KeyError as missing:
        message = f"this file has no {missing.args[0]}s beside the vectors; name a second file with the derivations"
        raise FormatError(message, path=path) from None
    vectors = read_representations(path, VECTORS[path.suffix]).values
    if not len(vectors) == len(names) == len(texts):
        message = f"{len(vectors)} vectors, {len(names)} names and {len(texts)} derivations are not as many"
        raise FormatError(message, path=path)
    trees = []
    for number, text in enumerate(texts, 1):
        trees.append(parse_json(text, path, number))
    try:
        return Bundle(vectors, names, Derivations.from_trees(trees))
    except MeasureError as error:
        raise FormatError(str(error), path=path) from None


def _lines(path: Path, what: str) -> list[str]:
    """The ids or derivations of a bundle; a KeyError if it has none."""
    if path.suffix == ".npz":
        try:
            found = read_array(path, f"{what}s")
        except MissingArrayError:
            raise KeyError(what) from None
        if found.dtype != np.uint8 or found.ndim != 1:
            raise KeyError(what)
        try:
            lines = found.tobytes().decode().split("\n")
        except UnicodeDecodeError:
            raise FormatError(f"its {what}s are not UTF-8", path=path) from None
        return [str(parse_json(line, path)) for line in lines] if what == "id" else lines
    import pyarrow as pa

    from pomona.data.formats.parquet import opened

    try:
        file = opened(path)
        if what not in file.schema_arrow.names or not pa.types.is_string(file.schema_arrow.field(what).type):
            raise KeyError(what)
        return [str(value) for value in file.read(columns=[what])[what].to_pylist()]
    except (FormatError, KeyError):
        raise
    except Exception as error:  # damage shows itself in any way
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise FormatError(f"not a Parquet file ({why[:200]})", path=path) from None
