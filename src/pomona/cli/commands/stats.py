"""`pomona stats`: a corpus in numbers, with a histogram of its tree depths."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pomona.cli import terminal
from pomona.cli.options import AsJson, DataSeed, Import, Plot, Settings, Size, Source, Split, Workers

if TYPE_CHECKING:
    from pomona.data.statistics import Counts, Description

GROUP = "data"


def stats(
    source: Source,
    split: Split = "",
    data_seed: DataSeed = None,
    settings: Settings = None,
    size: Size = None,
    plot: Plot = None,
    workers: Workers = None,
    imports: Import = None,
    as_json: AsJson = False,
) -> None:
    """Count lengths, labels, operators, arities, nesting and tree depths of a corpus (Figure 3 of the ListOps paper).

    Example: [bold]pomona stats data/test.parquet --plot depths.svg[/bold]
    """
    from pomona.base.registry import parse_settings
    from pomona.base.workers import workers as crew_of
    from pomona.data.sources import corpus_from, shards_of
    from pomona.data.statistics import describe_and_tally

    chosen = parse_settings(settings or [])
    shards = shards_of(source, split) if size is None and data_seed is None and not chosen else None
    corpus = corpus_from(source, split=split, seed=data_seed, size=size, settings=chosen) if shards is None else shards
    with crew_of("local", 1 if shards is None else workers, modules=imports or []) as crew:
        statistics, tally = describe_and_tally(corpus, crew)
    depths = tally.token_depth
    if plot is not None:
        _draw(depths, plot, source)
    if as_json:
        terminal.emit_json(statistics.as_dict())
        return
    terminal.out.print(terminal.table(terminal.plain(repr(corpus)), ["", ""], _counts(statistics), left=2))
    _print_spreads(statistics)
    terminal.out.print("\n[bold]average token depth[/bold] (examples at each depth)")
    for line in terminal.bars(*depths):
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


def _draw(depths: Counts, path: Path, source: str) -> None:
    import numpy as np

    from pomona.base.plots import Drawing, histogram, marked
    from pomona.data.statistics import Spread

    edges = np.arange(0, np.ceil(depths.amounts.max(initial=1)) + 1)
    title = "average depth of a token in the tree"
    bars = histogram(np.histogram(depths.amounts, edges, weights=depths.times)[0], edges, title, "examples")
    middle = Spread.from_counts(depths).mean
    mean = marked({f"mean {middle:.1f}": middle}, title)
    Drawing({"title": source, "height": 220, "layer": [bars, mean]}).save(path)
