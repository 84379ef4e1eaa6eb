"""The footer of a Parquet file: the numbers are Arrow's, damage is an error, and no footer ends the process."""

from __future__ import annotations

import io
import os
import re
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pomona.base.errors import FormatError
from pomona.data import formats
from pomona.data.formats.parquet import opened
from pomona.data.parquet_footer import announced
from pomona.data.task import generate


def file_of(rows: list[list[float]], names: list[str], group: int) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"name": names, "vector": rows}), out, row_group_size=group)
    return out.getvalue()


@given(st.lists(st.lists(st.floats(0, 1), max_size=4), min_size=1, max_size=40), st.integers(1, 40))
def test_the_numbers_are_those_of_arrow(rows: list[list[float]], group: int) -> None:
    content = file_of(rows, [f"é{at}" for at in range(len(rows))], group)
    arrow = pq.ParquetFile(pa.BufferReader(content)).metadata
    columns = [arrow.row_group(at).column(c) for at in range(arrow.num_row_groups) for c in range(arrow.num_columns)]
    values: Counter[str] = Counter()
    for column in columns:
        values[column.path_in_schema.partition(".")[0]] += column.num_values
    said = announced(pa.BufferReader(content))
    assert (said.rows, said.values) == (arrow.num_rows, values)
    assert said.size == sum(max(column.total_uncompressed_size, column.total_compressed_size) for column in columns)


@given(st.binary(max_size=200))
def test_any_footer_is_read_or_refused(footer: bytes) -> None:
    content = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    try:
        announced(pa.BufferReader(content))
    except ValueError:
        return


def test_no_changed_byte_of_a_footer_ends_the_process(tmp_path: Path) -> None:
    """With pyarrow 26, asking such a file for its columns ended the process: a histogram had another size."""
    content = file_of([[0.5, 1.0], [0.25]], ["a", "b"], 2)
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")

    def read_all() -> None:
        for at in range(start, len(content)):
            changed = bytearray(content)
            changed[at] ^= 0x20
            (tmp_path / "changed.parquet").write_bytes(changed)
            with suppress(FormatError, ValueError, OSError, pa.ArrowException, KeyError):
                opened(tmp_path / "changed.parquet").read()

    child = os.fork()
    if not child:
        read_all()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("part", [b"dependency", b"branching", b"source"])
def test_metadata_and_names_of_columns_are_sealed(tmp_path: Path, part: bytes) -> None:
    path = tmp_path / "lists.parquet"
    corpus = generate("listops/d20s", "test", 0, train=20, dev=4, test=6)
    formats.write(replace(corpus, columns={"source": np.array(list("abcdef"))}), path)
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    places = [place.start() for place in re.finditer(re.escape(part), content) if place.start() > footer]
    refused = 0
    for place in places:
        changed = bytearray(content)
        changed[place] ^= 1
        path.write_bytes(changed)
        try:
            found = formats.read(path)  # the second name of a column, which Arrow does not look at
        except FormatError as error:
            refused += error.path == path
        else:
            assert (list(found.columns), found.origin) == (["source"], {**corpus.origin, "path": str(path)})
    assert refused
