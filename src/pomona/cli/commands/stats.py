"""`pomona stats`: a corpus in numbers, with a histogram of its tree depths."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pomona.cli import terminal
from pomona.cli.options import AsJson, DataSeed, Import, Plot, Settings, Size, Source, Split

if TYPE_CHECKING:
    from pomona.data.statistics import Description

GROUP = "data"


def stats(
    source: Source,
    split: Split = "",
    data_seed: DataSeed = None,
    settings: Settings = None,
    size: Size = None,
    plot: Plot = None,
    imports: Import = None,
    as_json: AsJson = False,
) -> None:
    """Count lengths, labels, operators, arities, nesting and tree depths of a corpus (Figure 3 of the ListOps paper).

    Example: [bold]pomona stats data/test.parquet --plot depths.svg[/bold]
    """
    from pomona.base.registry import parse_settings
    from pomona.data.sources import corpus_from
    from pomona.data.statistics import describe, token_depths

    corpus = corpus_from(source, split=split, seed=data_seed, size=size, settings=parse_settings(settings or []))
    statistics = describe(corpus)
    depths, _ = token_depths(corpus)
    if plot is not None:
        _draw(depths, plot, source)
    if as_json:
        terminal.emit_json(statistics.as_dict())
        return
    terminal.out.print(terminal.table(terminal.plain(repr(corpus)), ["", ""], _counts(statistics), left=2))
    _print_spreads(statistics)
    terminal.out.print("\n[bold]average token depth[/bold] (examples at each depth)")
    for line in terminal.bars(depths):
        terminal.out.print(line)
    if plot is not None:
        terminal.out.print(f"\nWrote {terminal.plain(plot)}")


def _counts(statistics: Description) -> list[tuple[str, str]]:
    answers = statistics.targets
    names = ["answers"] if len(answers) == 1 else [f"answers {number + 1}" for number in range(len(answers))]
    return [
        ("rows", f"{statistics.rows:,}"),
        ("distinct", f"{statistics.distinct:,}"),
        ("single tokens", f"{statistics.single_tokens:,}"),
        ("tokens", f"{statistics.tokens:,}"),
        *((name, _row(counts)) for name, counts in zip(names, answers, strict=True)),
        ("most frequent answer", f"{statistics.majority:.1%}"),
        ("operators", _row(statistics.operators)),
        ("arguments", _row(statistics.arities)),
        ("nesting depth", _row(statistics.nesting_counts)),
        ("dependency depth", _row(statistics.dependency_counts)),
        ("lengths", _row(statistics.length_buckets)),
        ("share of at most", "  ".join(f"{bound}: {share:.1%}" for bound, share in statistics.share_up_to.items())),
        ("fingerprint", statistics.fingerprint),
    ]


def _print_spreads(statistics: Description) -> None:
    """Mean, deviation and percentiles of what has a value for each example."""
    spreads = {
        "length": statistics.length,
        "lists": statistics.lists,
        "nesting depth": statistics.nesting,
        "dependency depth": statistics.dependency,
        "binary tree depth": statistics.binary_depth,
        "average token depth": statistics.token_depth,
    }
    marks = [mark for mark in statistics.length.percentiles if mark not in ("90", "99.9")]
    rows = [
        (name, f"{spread.mean:.2f}", f"{spread.deviation:.2f}", *(f"{spread.percentiles[mark]:.3g}" for mark in marks))
        for name, spread in spreads.items()
    ]
    titles = ["", "mean", "sd", *(f"{mark} %" if mark != "100" else "max" for mark in marks)]
    terminal.out.print(terminal.table("\nspread, with percentiles", titles, rows))


def _row(counts: dict[str, int]) -> str:
    return "  ".join(f"{name}: {count:,}" for name, count in counts.items())


def _draw(depths: object, path: Path, source: str) -> None:
    import numpy as np

    from pomona.base.plots import Drawing, histogram, marked

    values = np.asarray(depths)
    edges = np.arange(0, np.ceil(values.max(initial=1)) + 1)
    title = "average depth of a token in the tree"
    bars = histogram(np.histogram(values, edges)[0], edges, title, "examples")
    mean = marked({f"mean {values.mean():.1f}": values.mean()}, title)
    Drawing({"title": source, "height": 220, "layer": [bars, mean]}).save(path)
