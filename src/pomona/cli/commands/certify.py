"""`pomona certify`: does the training set determine the answers of the test set?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pomona.cli import terminal
from pomona.cli.options import AsJson, DataSeed, Import, Most, Settings, Size, Source, Workers

if TYPE_CHECKING:
    from pomona.data.corpus import Corpus
    from pomona.data.shards.folder import Shards
    from pomona.fairness import Certificate, Violation

GROUP = "proofs"


def certify(
    train: Source,
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
    data_seed: DataSeed = None,
    size: Size = 10_000,
    settings: Settings = None,
    most: Most = 5,
    workers: Workers = None,
    imports: Import = None,
    as_json: AsJson = False,
) -> None:
    """Certify that a split is fair: every local fact that the test set needs occurs in the training set.

    A local fact is what one operator gives for the values of its arguments. Prints FAIR or UNFAIR, the coverage of each
    function and the first missing facts; for ORCHARD also the COPY indices that training never shows, by depth. Exit
    status 0 if fair, 1 if not, 3 if the data cannot be used.

    Example: [bold]pomona certify train.jsonl --test test.jsonl --out certificate.json[/bold]

    Example: [bold]pomona certify orchard/hard/min-max --given MIN --given MAX[/bold]
    """
    from pomona.base.registry import parse_settings
    from pomona.base.workers import workers as crew_of
    from pomona.data.shards.folder import Shards
    from pomona.fairness import certify as certified
    from pomona.fairness import fold

    corpora = _corpora(train, test, data_seed, size, parse_settings(settings or []))
    if folded:
        corpora = {split: fold(corpus) for split, corpus in corpora.items()}
    with crew_of("local", workers if isinstance(corpora["train"], Shards) else 1, modules=imports or []) as crew:
        certificate = certified(
            corpora["train"], corpora.get("test"), by="node" if by_node else "type", given=tuple(given or ()), crew=crew
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


def _corpora(
    train: str, test: str, seed: int | None, size: int | None, settings: dict[str, Any]
) -> dict[str, Corpus | Shards]:
    """The training set and, if there is one, the test set: files, tasks, or splits of the training task or folder."""
    from pomona.data.corpus import Corpus
    from pomona.data.sources import corpus_from, shards_of, source_kind, splits_of

    sizes = splits_of(train, settings)
    tested = [split for split in sizes if (split == test if test else split.startswith("test"))]
    apart = bool(test) and not tested  # a test set of its own, which may be a task where training is a file
    test_seed = seed if apart and source_kind(test) == "task" else None
    train_seed = seed if test_seed is None or source_kind(train) == "task" else None
    known: dict[str, Any] = {"seed": train_seed, "settings": settings}
    whole = None if settings or train_seed is not None else shards_of(train, "train")
    corpora: dict[str, Corpus | Shards] = {
        "train": corpus_from(train, split="train" if sizes else "", **known) if whole is None else whole
    }
    if tested:
        most = {split: min(size or rows or 0, rows or 0) or size for split, rows in sizes.items()}
        parts = [corpus_from(train, split=split, size=most[split], **known) for split in tested]
        corpora["test"] = Corpus.concatenate(parts)
        cut = [split for split in tested if size is not None and (sizes[split] or 0) > size]
        if cut:
            terminal.err.print(f"Of {', '.join(cut)} the first {size:,} examples each (--size).")
    elif apart:
        rows = splits_of(test).get("test")  # none of a file, which is read whole
        first = None if source_kind(test) == "file" else min(size or rows or 0, rows or 0) or size
        corpora["test"] = corpus_from(test, seed=test_seed, size=first)
    return corpora


def _print(certificate: Certificate, corpora: dict[str, Corpus | Shards], most: int) -> None:
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


def _print_problems(certificate: Certificate, corpora: dict[str, Corpus | Shards], most: int) -> None:
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


def _drawn(violation: Violation, test: Corpus | Shards | None) -> str:
    """A missing fact as a small tree, and the node of the test set that needs it."""
    from pomona.fairness.learner import located
    from pomona.trees.drawing import draw
    from pomona.trees.forest import Forest

    function, inputs, example, node = violation
    # Inputs may be equal to each other or to the function's name; a tree of one level allows any names.
    tree = draw(Forest.from_nested([(str(function), *map(str, inputs))]), [*map(str, inputs), "?"])
    if test is None or example is None or node is None:
        return f"Never shown:\n{tree}"
    return f"Never shown, needed at {located(test, example, node)}:\n{tree}"
