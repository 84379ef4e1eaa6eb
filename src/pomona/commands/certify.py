"""`pomona certify`: does training determine what the test asks for?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pomona import terminal

if TYPE_CHECKING:
    from pomona.corpus import Corpus
    from pomona.fairness import Certificate, Violation


def certify(
    train: Annotated[Path, typer.Argument(help="The training set: any file that pomona can read.")],
    test: Annotated[
        Path | None, typer.Option("--test", "-t", help="A test set; without one, all that the domains make possible.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the certificate here, as JSON.")] = None,
    by_node: Annotated[
        bool, typer.Option("--by-node", help="A function for each position of one fixed tree, not for each type.")
    ] = False,
    given: Annotated[
        list[str] | None, typer.Option("--given", help="A function taken as known, as 'REL_*'; may repeat.")
    ] = None,
    folded: Annotated[
        bool, typer.Option("--fold", help="ListOps: read lists as transitions, argument by argument.")
    ] = False,
    most: Annotated[int, typer.Option(help="Missing facts to draw; 0 for all.", min=0)] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="For machines: the certificate itself.")] = False,
) -> None:
    """Certify that a training set is fair: every local fact that the test needs is shown in training.

    Prints FAIR or UNFAIR, the coverage of each function and the first facts that are missing. Exit status 0 when fair,
    1 when not, 3 when the data cannot be used.

    Example: [bold]pomona certify train.jsonl --test test.jsonl --out certificate.json[/bold]
    """
    from pomona.fairness import certify as certified
    from pomona.fairness import fold
    from pomona.formats import read

    corpora = {"train": read(train)} | ({"test": read(test)} if test is not None else {})
    if folded:
        corpora = {split: fold(corpus) for split, corpus in corpora.items()}
    certificate = certified(
        corpora["train"], corpora.get("test"), by="node" if by_node else "type", given=tuple(given or ())
    )
    if out is not None:
        certificate.save(out)
    if as_json:
        terminal.emit_json(certificate.plain())
    else:
        _print(certificate, corpora, most)
        if out is not None:
            terminal.out.print(f"\nWrote {terminal.plain(out)}.")
    if not certificate.fair:
        raise typer.Exit(terminal.CHECK_FAILED)


def _print(certificate: Certificate, corpora: dict[str, Corpus], most: int) -> None:
    from pomona.fairness.composition import told

    verdict = "[bold green]FAIR[/]" if certificate.fair else "[bold red]UNFAIR[/]"
    against = (
        "all that its domains make possible" if certificate.test is None else f"{certificate.test:,} test examples"
    )
    terminal.out.print(f"{verdict}  {certificate.train:,} training examples, for {against}\n")
    rows = [
        (
            one.function,
            f"{one.needed:,}",
            f"{one.shown:,}",
            f"{one.needed - one.shown:,}",
            f"{one.shown / one.needed:.2%}",
        )
        for one in certificate.coverage
    ]
    terminal.out.print(terminal.table(None, ["function", "inputs needed", "shown", "missing", "coverage"], rows))
    if certificate.given:
        terminal.out.print(f"Taken as known: {terminal.plain(', '.join(certificate.given))}.")
    if certificate.answered is not None and certificate.test:
        share = certificate.answered / certificate.test
        terminal.out.print(
            f"\nA learner that only remembers (Algorithm 2) answers {certificate.answered:,} of {certificate.test:,} "
            f"test examples: {share:.2%}."
        )
    for conflict in certificate.conflicts[: most or None]:
        terminal.out.print(f"\n[bold]Conflict[/]: {terminal.plain(told(conflict, corpora))}.")
    if len(certificate.conflicts) > most > 0:
        terminal.out.print(f"... and {len(certificate.conflicts) - most:,} more conflicts (--most 0 prints all)")
    listed = certificate.violations[: most or None]
    for violation in listed:
        terminal.out.print("\n" + terminal.plain(_drawn(violation, corpora.get("test")), lines=True))
    if certificate.missing > len(listed):
        terminal.out.print(
            f"\n... and {certificate.missing - len(listed):,} more facts are missing (--most 0, or --out, lists them)"
        )


def _drawn(violation: Violation, test: Corpus | None) -> str:
    """A missing fact as a small tree, with the place that needs it."""
    from pomona.drawing import draw
    from pomona.fairness.facts import where
    from pomona.trees import Forest

    function, inputs, example, node = violation
    # Inputs may be alike, or called like the function; a tree of one level takes any names.
    tree = draw(Forest.from_nested([(str(function), *map(str, inputs))]), [*map(str, inputs), "?"])
    if test is None or example is None or node is None:
        return f"Never shown:\n{tree}"
    place = where(test, int(test.forest.start[example * test.width]) + node)
    return f"Never shown, needed at {place}:\n{tree}"
