"""`pomona certify`: does the training set determine the answers of the test set?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pomona.cli import terminal

if TYPE_CHECKING:
    from pomona.data.corpus import Corpus
    from pomona.fairness import Certificate, Violation


def certify(
    train: Annotated[str, typer.Argument(help="The training set: any file that pomona can read, or a task's name.")],
    test: Annotated[
        str,
        typer.Option(
            "--test",
            "-t",
            help="A test set: a file, a task's name or a split of the task, for example test-12. Default: all test "
            "splits of a task; for a file, every input that its values make possible.",
        ),
    ] = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the certificate here, as JSON.")] = None,
    by_node: Annotated[
        bool, typer.Option("--by-node", help="Learn a function for each position of one fixed tree, not for each type.")
    ] = False,
    given: Annotated[
        list[str] | None,
        typer.Option("--given", help="Assume that this function is known, for example 'REL_*'; may be repeated."),
    ] = None,
    folded: Annotated[
        bool, typer.Option("--fold", help="ListOps: read each list as a sequence of steps, one argument at a time.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Random seed of a task's data.")] = 0,
    size: Annotated[int, typer.Option(help="Use at most this many examples of each test split.", min=1)] = 10_000,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the task, for example copies=digits; may be repeated."),
    ] = None,
    most: Annotated[int, typer.Option(help="How many missing facts to print; 0 for all.", min=0)] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print the certificate as JSON.")] = False,
) -> None:
    """Certify that a split is fair: every local fact that the test set needs occurs in the training set.

    A local fact is what one operator gives for the values of its arguments. Prints FAIR or UNFAIR, the coverage of each
    function and the first missing facts; for ORCHARD also the COPY indices that training never shows, by depth. Exit
    status 0 if fair, 1 if not, 3 if the data cannot be used.

    Example: [bold]pomona certify train.jsonl --test test.jsonl --out certificate.json[/bold]

    Example: [bold]pomona certify orchard/hard/min-max --given MIN --given MAX[/bold]
    """
    from pomona.base.registry import parse_settings
    from pomona.fairness import certify as certified
    from pomona.fairness import fold

    corpora = _corpora(train, test, seed, size, parse_settings(settings or []))
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


def _corpora(train: str, test: str, seed: int, size: int, settings: dict[str, Any]) -> dict[str, Corpus]:
    """The training set and, if there is one, the test set: files, tasks, or splits of the training task."""
    from pomona.data.corpus import Corpus
    from pomona.data.sources import corpus_from
    from pomona.data.task import TASKS

    known: dict[str, Any] = {"seed": seed, "settings": settings}
    corpora = {"train": corpus_from(train, split="train", **known)}
    sizes = {} if Path(train).is_file() else TASKS.build(train, settings).sizes
    tested = [split for split in sizes if (split == test if test else split.startswith("test"))]
    if tested:
        parts = [corpus_from(train, split=split, size=min(size, sizes[split]), **known) for split in tested]
        corpora["test"] = Corpus.concatenate(parts)
        cut = [split for split in tested if sizes[split] > size]
        if cut:
            terminal.err.print(f"Of {', '.join(cut)} the first {size:,} examples each (--size).")
    elif test:
        corpora["test"] = corpus_from(test, split="test", seed=seed, size=None if Path(test).is_file() else size)
    return corpora


def _print(certificate: Certificate, corpora: dict[str, Corpus], most: int) -> None:
    verdict = "[bold green]FAIR[/]" if certificate.fair else "[bold red]UNFAIR[/]"
    against = (
        "all that its domains make possible" if certificate.test is None else f"{certificate.test:,} test examples"
    )
    terminal.out.print(f"{verdict}  {certificate.train:,} training examples, for {against}\n")
    rows = [
        (
            covered.function,
            f"{covered.needed:,}",
            f"{covered.shown:,}",
            f"{covered.needed - covered.shown:,}",
            f"{covered.shown / covered.needed:.2%}",
        )
        for covered in certificate.coverage
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
    if certificate.copies:
        _print_copies(certificate)
    _print_problems(certificate, corpora, most)


def _print_problems(certificate: Certificate, corpora: dict[str, Corpus], most: int) -> None:
    """The first facts that contradict each other, and the first that are missing."""
    from pomona.fairness.learner import told

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


def _print_copies(certificate: Certificate) -> None:
    """The COPYs of the test set by depth, and the indices that training never copies."""
    rows = [
        (
            str(level.depth),
            f"{level.examples:,}",
            f"{level.answered / level.examples:.2%}",
            f"{level.familiar / level.examples:.2%}",
            f"{level.copies:,}",
            f"{level.new / max(1, level.copies):.2%}",
            _few(level.indices, 8),
        )
        for level in certificate.copies
    ]
    headings = ["depth", "examples", "answered", "no new index", "COPYs", "new", "indices new to training"]
    terminal.out.print()
    terminal.out.print(terminal.table("COPY, by the depth of the test examples", headings, rows))
    new = certificate.new_indices
    if certificate.spelling == "digits":
        terminal.out.print(
            "\nCOPY indices are spelled by digits, and reading a number is taken as known: none is missing. Training "
            f"never copies {len(new):,} of the indices of the test{': ' + _few(new, 36) if new else ''}."
        )
    elif new:
        terminal.out.print(f"\nTraining never shows what {len(new):,} COPY indices of the test mean: {_few(new, 36)}.")


def _few(indices: tuple[int, ...], most: int) -> str:
    """The first of these numbers, and how many more there are.

    >>> _few((75, 80, 81), 2)
    '75 80 and 1 more'
    """
    more = f" and {len(indices) - most:,} more" if len(indices) > most else ""
    return " ".join(map(str, indices[:most])) + more


def _drawn(violation: Violation, test: Corpus | None) -> str:
    """A missing fact as a small tree, and the node of the test set that needs it."""
    from pomona.fairness.facts import where
    from pomona.trees.drawing import draw
    from pomona.trees.forest import Forest

    function, inputs, example, node = violation
    # Inputs may be equal to each other or to the function's name; a tree of one level allows any names.
    tree = draw(Forest.from_nested([(str(function), *map(str, inputs))]), [*map(str, inputs), "?"])
    if test is None or example is None or node is None:
        return f"Never shown:\n{tree}"
    place = where(test, int(test.forest.start[example * test.width]) + node)
    return f"Never shown, needed at {place}:\n{tree}"
