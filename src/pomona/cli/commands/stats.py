"""`pomona stats`: a corpus in numbers, with a histogram of its tree depths."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pomona.cli import terminal
from pomona.cli.commands import task_names


def stats(
    source: Annotated[str, typer.Argument(help="A file, or a task's name.", autocompletion=task_names)],
    split: Annotated[str, typer.Option(help="Which split of a task.")] = "test",
    seed: Annotated[int, typer.Option(help="Random seed of a task's data.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Also plot the depths to this PNG, SVG or PDF file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")] = False,
) -> None:
    """Count lengths, labels, operators, arities, nesting and tree depths of a corpus (Figure 3 of the ListOps paper).

    Example: [bold]pomona stats data/test.parquet --plot depths.svg[/bold]
    """
    from pomona.data.sources import corpus_from
    from pomona.data.statistics import describe, token_depths

    corpus = corpus_from(source, split=split, seed=seed)
    found = describe(corpus)
    depths, _ = token_depths(corpus)
    if plot is not None:
        _draw(depths, plot, source)
    if as_json:
        terminal.emit_json(found.as_dict())
        return
    counts = [
        ("rows", f"{found.rows:,}"),
        ("distinct", f"{found.distinct:,}"),
        ("single tokens", f"{found.single_tokens:,}"),
        ("tokens", f"{found.tokens:,}"),
        *(
            ("answers" if len(found.targets) == 1 else f"answers {place + 1}", _row(one))
            for place, one in enumerate(found.targets)
        ),
        ("most frequent answer", f"{found.majority:.1%}"),
        ("operators", _row(found.operators)),
        ("arguments", _row(found.arities)),
        ("nesting depth", _row(found.nesting_counts)),
        ("dependency depth", _row(found.dependency_counts)),
        ("lengths", _row(found.length_buckets)),
        ("share of at most", "  ".join(f"{bound}: {share:.1%}" for bound, share in found.share_up_to.items())),
        ("fingerprint", found.fingerprint),
    ]
    terminal.out.print(terminal.table(terminal.plain(repr(corpus)), ["", ""], counts, left=2))
    spreads = {
        "length": found.length,
        "lists": found.lists,
        "nesting depth": found.nesting,
        "dependency depth": found.dependency,
        "binary tree depth": found.binary_depth,
        "average token depth": found.token_depth,
    }
    marks = [mark for mark in found.length.percentiles if mark not in ("90", "99.9")]
    rows = [
        (name, f"{one.mean:.2f}", f"{one.deviation:.2f}", *(f"{one.percentiles[mark]:.3g}" for mark in marks))
        for name, one in spreads.items()
    ]
    titles = ["", "mean", "sd", *(f"{mark} %" if mark != "100" else "max" for mark in marks)]
    terminal.out.print(terminal.table("\nspread, with percentiles", titles, rows))
    terminal.out.print("\n[bold]average token depth[/bold] (examples at each depth)")
    for line in terminal.bars(depths):
        terminal.out.print(line)
    if plot is not None:
        terminal.out.print(f"\nWrote {terminal.plain(plot)}")


def _row(counts: dict[str, int]) -> str:
    return "  ".join(f"{name}: {count:,}" for name, count in counts.items())


def _draw(depths: object, path: Path, source: str) -> None:
    import numpy as np

    from pomona.cli.plot_files import plot_file

    values = np.asarray(depths)
    bins = np.arange(0, np.ceil(values.max(initial=1)) + 1)
    with plot_file(path, 6, 3.2) as axes:
        axes.hist(values, bins=bins, color="#4c78a8", edgecolor="white", lw=0.4)
        axes.axvline(float(values.mean()), color="#e45756", lw=1.2, label=f"mean {values.mean():.1f}")
        axes.set(xlabel="average depth of a token in the tree", ylabel="examples", title=source.replace("$", r"\$"))
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
