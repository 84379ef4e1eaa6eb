"""`pomona show`: examples with their trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pomona.cli import terminal
from pomona.cli.options import AsJson, DataSeed, Import, Settings, Source, Split

if TYPE_CHECKING:
    from pomona.data.corpus import Example

GROUP = "data"


def show(
    source: Source,
    n: Annotated[int, typer.Option("-n", help="How many examples.", min=1)] = 3,
    split: Split = "",
    data_seed: DataSeed = None,
    settings: Settings = None,
    svg: Annotated[str, typer.Option(help="Also write the first tree to this SVG file.", show_default=False)] = "",
    imports: Import = None,
    as_json: AsJson = False,
) -> None:
    """Show examples: the sequence, the answer, and the tree with the value of every node.

    Example: [bold]pomona show listops/d20s --data-seed 1 -n 3[/bold]
    """
    from pomona.base.files import write_text
    from pomona.base.registry import parse_settings
    from pomona.data.sources import corpus_from
    from pomona.trees import drawing

    corpus = corpus_from(source, split=split, seed=data_seed, size=n, settings=parse_settings(settings or []))
    examples = list(corpus)
    if svg and examples:
        write_text(svg, drawing.svg(examples[0].trees, examples[0].values))
    if as_json:
        terminal.emit_json([_plain(example) for example in examples])
        return
    for example in examples:
        answer = ", ".join(str(part) for part in example.target)
        terminal.out.print(f"{terminal.plain(example.text)}  [bold]->  {terminal.plain(answer)}[/bold]")
        terminal.out.print(
            f"[dim]{example.length} tokens, nesting {example.nesting}, dependency depth {example.dependency}, "
            f"id {terminal.plain(example.id)}[/dim]"
        )
        drawn = drawing.draw(example.trees, example.values, width=terminal.out.width)
        terminal.out.print(terminal.plain(drawn, lines=True) + "\n")
    if svg:
        terminal.out.print(f"Wrote {terminal.plain(svg)}")


def _plain(example: Example) -> dict[str, Any]:
    """An example as plain JSON values."""
    return {
        "id": example.id,
        "tokens": example.tokens,
        "target": example.target,
        "symbols": [example.trees.names[symbol] for symbol in example.trees.symbol.tolist()],
        "parents": example.trees.parent.tolist(),
        "values": example.values,
        "length": example.length,
        "nesting": example.nesting,
        "dependency": example.dependency,
    }
