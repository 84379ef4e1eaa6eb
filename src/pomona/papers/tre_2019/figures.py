"""The figures of the TRE paper's experiments. The format follows the file name, for example SVG."""

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
    """Axes, [rows, columns], that are saved when the block ends; the same numbers give the same bytes."""
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
    """Figure 3: the path of one run, and all runs over the paper's two choices of epochs."""
    chosen = selections(curves)
    with canvas(path, 1, 3) as axes:
        path_axes, early, late = axes[0]
        entropy, height = ([entry[name] for entry in curves[0]] for name in ("entropy", "exact"))
        path_axes.plot(entropy, height, color="0.8", zorder=0)
        path_axes.scatter(entropy, height, c=np.arange(len(height)), cmap="viridis", s=18)
        path_axes.set(title="(a) one run, dark to light")
        for panel, choice, letter in ((early, CHOICES[0], "b"), (late, CHOICES[1], "c")):
            for run in range(len(curves)):
                rows = [curves[run][epoch] for which, epoch in chosen[choice] if which == run]
                panel.scatter([row["entropy"] for row in rows], [row["exact"] for row in rows], s=10)
            panel.set(title=f"({letter}) {choice}")
        for panel in axes[0]:
            panel.set(xlabel="entropy of theta, the paper's estimate", ylabel=WORDS["exact"])


def draw_games(path: Path, readings: dict[str, list[dict[str, Any]]]) -> None:
    """Figure 5 for both solvers: TRE against generalisation error and against reward on held-out referents."""
    with canvas(path, 2, 2) as axes:
        for row, kind in enumerate(WORDS):
            for column, (name, label) in enumerate((("error", "train - test reward"), ("test", "test reward"))):
                panel = axes[row, column]
                for reading, scores in readings.items():
                    x, y = ([score[key] for score in scores] for key in (kind, name))
                    panel.scatter(x, y, s=12, label=reading, alpha=0.7)
                panel.axvline(4.0, color="0.8", linewidth=0.8, zorder=0)  # the cost of predicting zero
                panel.set(xlabel=WORDS[kind], ylabel=label)
        axes[0, 0].legend(frameon=False)


def draw_compounds(path: Path, sources: dict[str, dict[str, Any]]) -> None:
    """The TRE of each compound against people's scores, one panel for each source of vectors."""
    with canvas(path, 1, len(sources)) as axes:
        for panel, (source, results) in zip(axes[0], sources.items(), strict=True):
            items = results["items"]
            panel.scatter([score for _, _, score in items], [value for _, value, _ in items], s=10)
            for end in ("most compositional", "least compositional"):
                for name, value, score in items:
                    if name in results[end]:
                        panel.annotate(name.replace("$", r"\$"), (score, value), fontsize=6)
            panel.set(xlabel="people's score, 5 is literal", ylabel=WORDS["exact"], title=source.replace("$", r"\$"))


def draw_similarity(path: Path, readings: dict[str, list[dict[str, Any]]]) -> None:
    """Topographic similarity against TRE, one point for each language."""
    with canvas(path, 1, 1) as axes:
        for reading, scores in readings.items():
            known = [score for score in scores if score["topsim"] is not None]
            axes[0, 0].scatter(
                [row["exact"] for row in known], [row["topsim"] for row in known], s=12, label=reading, alpha=0.7
            )
        axes[0, 0].set(xlabel=WORDS["exact"], ylabel="topographic similarity")
        axes[0, 0].legend(frameon=False)
