"""The figures of the TRE paper's experiments, drawn from what was judged. SVG, or whatever the file's name asks for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from pomona.base.files import replacing
from pomona.papers.tre_2019.dynamics import CHOICES, selections

WORDS = {"exact": "TRE, exact", "legacy": "TRE, as published"}


@contextmanager
def canvas(path: Path, rows: int, columns: int) -> Iterator[Any]:
    """Axes, [rows, columns], that become a file when the block ends; the same bytes for the same numbers."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with matplotlib.rc_context({"svg.hashsalt": "pomona", "svg.fonttype": "none"}):
        figure, axes = plt.subplots(
            rows, columns, figsize=(4.2 * columns, 3.4 * rows), layout="constrained", squeeze=False
        )
        try:
            yield axes
            with replacing(path) as beside:
                figure.savefig(beside, format=path.suffix[1:], dpi=150, metadata={"Date": None})
        finally:
            plt.close(figure)


def draw_dynamics(path: Path, curves: list[list[dict[str, Any]]]) -> None:
    """Figure 3: one run's path, and all runs over the paper's two choices of epochs."""
    chosen = selections(curves)
    with canvas(path, 1, 3) as axes:
        path_axes, early, late = axes[0]
        entropy, height = ([entry[name] for entry in curves[0]] for name in ("entropy", "exact"))
        path_axes.plot(entropy, height, color="0.8", zorder=0)
        path_axes.scatter(entropy, height, c=np.arange(len(height)), cmap="viridis", s=18)
        path_axes.set(title="(a) one run, dark to light")
        for place, choice, letter in ((early, CHOICES[0], "b"), (late, CHOICES[1], "c")):
            for run in range(len(curves)):
                rows = [curves[run][epoch] for which, epoch in chosen[choice] if which == run]
                place.scatter([row["entropy"] for row in rows], [row["exact"] for row in rows], s=10)
            place.set(title=f"({letter}) {choice}")
        for place in axes[0]:
            place.set(xlabel="entropy of theta, the paper's estimate", ylabel=WORDS["exact"])


def draw_games(path: Path, readings: dict[str, list[dict[str, Any]]]) -> None:
    """Figure 5, by both solvers: TRE against generalisation error and against reward on held-out referents."""
    with canvas(path, 2, 2) as axes:
        for row, kind in enumerate(WORDS):
            for column, (name, label) in enumerate((("error", "train - test reward"), ("test", "test reward"))):
                place = axes[row, column]
                for reading, scores in readings.items():
                    x, y = ([score[key] for score in scores] for key in (kind, name))
                    place.scatter(x, y, s=12, label=reading, alpha=0.7)
                place.axvline(4.0, color="0.8", linewidth=0.8, zorder=0)  # what predicting nothing costs
                place.set(xlabel=WORDS[kind], ylabel=label)
        axes[0, 0].legend(frameon=False)


def draw_compounds(path: Path, sources: dict[str, dict[str, Any]]) -> None:
    """Each compound's TRE against what people said, a panel for each source of vectors."""
    with canvas(path, 1, len(sources)) as axes:
        for place, (source, found) in zip(axes[0], sources.items(), strict=True):
            items = found["items"]
            place.scatter([score for _, _, score in items], [value for _, value, _ in items], s=10)
            for end in ("most compositional", "least compositional"):
                for name, value, score in items:
                    if name in found[end]:
                        place.annotate(name.replace("$", r"\$"), (score, value), fontsize=6)
            place.set(xlabel="people's score, 5 is literal", ylabel=WORDS["exact"], title=source.replace("$", r"\$"))


def draw_similarity(path: Path, readings: dict[str, list[dict[str, Any]]]) -> None:
    """Topographic similarity against TRE, a point for each language."""
    with canvas(path, 1, 1) as axes:
        for reading, scores in readings.items():
            known = [score for score in scores if score["topsim"] is not None]
            axes[0, 0].scatter(
                [row["exact"] for row in known], [row["topsim"] for row in known], s=12, label=reading, alpha=0.7
            )
        axes[0, 0].set(xlabel=WORDS["exact"], ylabel="topographic similarity")
        axes[0, 0].legend(frameon=False)
