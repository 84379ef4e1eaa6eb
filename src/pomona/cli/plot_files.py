"""Plots that a command writes to a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pomona.base.errors import FormatError

KINDS = ("png", "svg", "pdf")


@contextmanager
def plot_file(path: Path, width: float, height: float) -> Iterator[Any]:
    """Matplotlib's axes to draw on; the plot is written when the block ends, in the format of the file's suffix."""
    kind = path.suffix.removeprefix(".").lower()
    if kind not in KINDS:
        raise FormatError("a plot ends in .png, .svg or .pdf", path=path)

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from pomona.base.files import replacing

    figure, axes = plt.subplots(figsize=(width, height), layout="constrained")
    try:
        yield axes
        with replacing(path) as beside:
            figure.savefig(beside, format=kind, dpi=160)
    finally:
        plt.close(figure)
