"""`pomona demo`: from nothing to verified data in a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pomona import terminal


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for what the demo makes.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Which draw.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="For machines: the facts at the end; the story goes to standard error.")
    ] = False,
) -> None:
    """Generate listops/d20s, draw a few trees, verify every row, and print what is known of the data.

    Example: [bold]pomona demo[/bold]
    """
    with terminal.aside(really=as_json):
        facts = _tell(out, seed)
    if as_json:
        terminal.emit_json({"folder": str(out), "facts": facts})


def _tell(out: Path, seed: int) -> dict[str, str]:
    import numpy as np

    from pomona import binary, formats
    from pomona.commands.generate import generate
    from pomona.commands.show import show
    from pomona.commands.stats import stats
    from pomona.commands.verify import verify
    from pomona.measures.parse_f1 import average_depth, expected_branching_f1, expected_depth, expected_f1, parse_f1

    def heading(text: str) -> None:
        terminal.out.print(f"\n[bold cyan]{text}[/bold cyan]")

    name = "listops/d20s"
    heading(f"1. Generate {name}: 110,000 distinct expressions as train, dev and test")
    generate(name, out=out, seed=seed, formats="parquet,tsv")
    heading("2. Look at three of them")
    show(str(out / "test.parquet"), n=3)
    heading("3. Verify: read every row again, work every answer out again, look for duplicates and leaks")
    verify([out])
    heading("4. The test set in numbers")
    stats(str(out / "test.parquet"), plot=out / "depths.svg")

    heading("5. What needs no learning at all")
    corpora = {split: formats.read(out / f"{split}.parquet") for split in ("train", "dev", "test")}
    train, test = corpora["train"], corpora["test"]
    gold = binary.binarise(test.forest)
    lengths = np.asarray(test.lengths)
    branching = {style: binary.branching(lengths, style) for style in ("left", "right")}
    several = lengths > 1
    keys = [corpus.keys for corpus in corpora.values()]
    shared = sum(len(one) for one in keys) - len(np.unique(np.concatenate(keys)))
    majority = np.bincount(train.targets[:, 0]).argmax()
    rows = [
        ("examples that train, dev and test share", f"{shared}"),
        ("always answer the most frequent digit of train", f"{(test.targets[:, 0] == majority).mean():.1%}"),
        ("answer by the root operator alone (table from train)", f"{_root_operator(train, test):.1%}"),
        ("answers that rest on one operator only, whatever the depth", f"{(test.dependency <= 1).mean():.1%}"),
        ("parse F1 of left-branching trees", f"{100 * parse_f1(branching['left'], gold).value:.1f}"),
        ("parse F1 of right-branching trees", f"{100 * parse_f1(branching['right'], gold).value:.1f}"),
        ("parse F1 of random trees, exact expectation", f"{100 * expected_f1(gold).value:.1f}"),
        ("the same against left-branching trees", f"{100 * expected_branching_f1(lengths[several]).mean():.1f}"),
        ("average depth of a token in the gold trees", f"{average_depth(gold).value:.1f}"),
        ("the same in random trees, exact expectation", f"{expected_depth(lengths[several]).mean():.1f}"),
    ]
    terminal.out.print(terminal.table(None, ["fact", "test set"], rows))
    terminal.out.print(
        f"\nEverything is in [bold]{terminal.plain(out)}/[/bold]. No model was trained here; the next thing to try:\n"
        f"  pomona show {name} -n 5        pomona ls        pomona stats {terminal.plain(out)}/train.tsv"
    )
    return dict(rows)


def _root_operator(train: object, test: object) -> float:
    """Accuracy on test of the most frequent answer of train for each root symbol."""
    import numpy as np

    from pomona.corpus import Corpus

    assert isinstance(train, Corpus)
    assert isinstance(test, Corpus)
    names = train.forest.names
    counts = np.zeros((len(names), len(train.outcomes)), np.int64)
    np.add.at(counts, (train.forest.symbol[train.forest.root], train.targets[:, 0]), 1)
    roots = test.forest.renamed(names).symbol[test.forest.root]
    return float((counts.argmax(axis=1)[roots] == test.targets[:, 0]).mean())
