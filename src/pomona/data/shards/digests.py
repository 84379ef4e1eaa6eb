"""The fingerprint of many shards as one corpus: each column of all shards is digested on its own.

    whole_fingerprint(paths, crew)          that of `Corpus.fingerprint` for the rows of all files together

SHA-256 goes through its input from beginning to end, so the digests of shards do not add up to that of the whole. But a
fingerprint is made of one digest for each column, so that there is one task for each, which reads this column alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pomona.base.workers import Crew
from pomona.data.arrow_tables import kind_of_outcomes
from pomona.data.corpus import Fingerprint, codes
from pomona.data.formats import parquet
from pomona.trees.values import from_json

COLUMNS = {  # of a fingerprint: the columns of a file that it needs
    "rows": ("length",),
    "tokens": ("tokens",),
    "targets": ("target",),
    "trees": ("to_parent", "trees"),
    "symbols": ("symbols",),
    "values": ("values",),
    "links": ("links",),
}


def whole_fingerprint(paths: Sequence[Path], crew: Crew) -> str:
    """The fingerprint of the rows of all files, in this order."""
    orders = [{"paths": list(map(str, paths)), "column": column} for column in COLUMNS]
    digests = {list(COLUMNS)[number]: digest for number, digest in crew.run(column_digest, orders)}
    return Fingerprint.joined({name: bytes.fromhex(digest) for name, digest in digests.items() if digest})


def column_digest(paths: Sequence[str], column: str) -> str:
    """The digest of one column over all files, in hex; nothing for links where there are none."""
    digest, nodes, any_links = hashlib.sha256(), 0, False
    for path in map(Path, paths):
        about = parquet.said(path)
        width = int(about["width"])
        kind = about.get("kind") or kind_of_outcomes(about["outcomes"])
        for batch in parquet.columns(path, COLUMNS[column]):
            if column == "rows":
                lengths = np.asarray(batch.column("length"), "<i8")
                digest.update(np.column_stack([lengths, np.full(len(lengths), width, "<i8")]).data)
            elif column == "trees":
                digest.update(_parents(batch, width).astype("<i4", copy=False).data)
            elif column == "links":
                if "links" not in batch.schema.names:
                    break
                link = np.asarray(batch.column("links").flatten(), np.int64)
                quoting = np.flatnonzero(link)
                any_links |= bool(len(quoting))
                digest.update(np.stack([nodes + quoting, link[quoting]], axis=1).astype("<i8").data)
                nodes += len(link)
            else:
                name = "target" if column == "targets" else column
                entries = batch.column(name).flatten()
                digest.update(_codes(entries, kind if name in ("target", "values") else "").data)
    return "" if column == "links" and not any_links else digest.hexdigest()


def _parents(batch: Any, width: int) -> npt.NDArray[np.int64]:
    """The parent of each node inside its tree, from the steps to it."""
    steps = np.asarray(batch.column("to_parent").flatten(), np.int64)
    if width > 1:
        sizes = np.asarray(batch.column("trees").flatten(), np.int64)
    else:
        offsets: npt.NDArray[np.int64] = np.asarray(batch.column("to_parent").offsets, np.int64)
        sizes = offsets[1:] - offsets[:-1]
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.where(steps > 0, np.arange(len(steps)) - first + steps, -1)


def _codes(entries: Any, kind: str) -> npt.NDArray[np.uint64]:
    """The code of each entry: of a word, or (`kind`) of an outcome as this kind is written; 0 for none."""
    if pa.types.is_integer(entries.type):
        numbers = np.asarray(entries.fill_null(0) if entries.null_count else entries)
        low = int(numbers.min(initial=0))
        if int(numbers.max(initial=0)) - low < 1 << 16:  # a table of all there can be
            table, index = codes(tuple(map(repr, range(low, int(numbers.max(initial=0)) + 1)))), numbers - low
        else:
            used, index = np.unique(numbers, return_inverse=True)
            table = codes(tuple(map(repr, used.tolist())))
        found = table[index]
    else:
        if not pa.types.is_dictionary(entries.type):
            entries = entries.dictionary_encode()
        words = entries.dictionary.to_pylist()
        if kind:
            words = [repr(word if kind == "string" else from_json(json.loads(word))) for word in words]
        indices = entries.indices
        found = codes((*words, ""))[np.asarray(indices.fill_null(len(words)) if indices.null_count else indices)]
    if entries.null_count:
        found = np.where(np.asarray(entries.is_null()), np.uint64(0), found)
    return np.asarray(found, "<u8")
