"""`pomona generate`: write the splits of a task to files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pomona.cli import terminal
from pomona.cli.commands import task_names


def generate(
    name: Annotated[
        str, typer.Argument(help="A task's name, for example listops/d20s (see pomona ls).", autocompletion=task_names)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the files.")] = Path("data"),
    seed: Annotated[int, typer.Option(help="Random seed of the data.")] = 0,
    formats: Annotated[
        str, typer.Option("--format", "-f", help="parquet, jsonl, tsv, lra ..., separated by commas.")
    ] = "parquet",
    split: Annotated[str, typer.Option(help="Only these splits, separated by commas.", show_default="all")] = "",
    size: Annotated[
        int | None, typer.Option(help="Rows of each split; only train may be larger than the task says.", min=1)
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, for example branching=0.3; may be repeated.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Number of threads; the data do not depend on it.", min=1)] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress bar.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")] = False,
) -> None:
    """Generate the splits of a task and write them to files, with label counts and fingerprints.

    The same name, settings and seed give the same rows on every machine, for any number of workers.

    Example: [bold]pomona generate listops/d20s --seed 7 --out data --format parquet,tsv[/bold]
    """
    from collections import Counter
    from contextlib import ExitStack

    from pomona.base.errors import SpecError, did_you_mean
    from pomona.base.files import write_json
    from pomona.base.registry import parse_settings, settings_of
    from pomona.data import formats as known
    from pomona.data.corpus import Fingerprint
    from pomona.data.pool import Listeners
    from pomona.data.task import TASKS, chunks

    task = TASKS.build(name, parse_settings(settings or []))
    suffixes = {kind: known.FORMATS.named(kind).suffix for kind in formats.split(",")}
    chosen = split.split(",") if split else list(reversed(task.sizes))
    for one in chosen:
        if one not in task.sizes:
            raise SpecError(f"{name} has no split {one!r}. {did_you_mean(one, task.sizes)}")
    made: dict[str, dict[str, Any]] = {}
    for one in chosen:
        rows = task.sizes[one] if size is None else size if one == "train" else min(size, task.sizes[one])
        paths = {kind: out / f"{one}{suffix}" for kind, suffix in suffixes.items()}
        fingerprint, labels, written = Fingerprint(), Counter[str](), 0
        work = sum(task.shares(one).values()) + rows  # to draw the pool, then to build and write the split's own rows
        with ExitStack() as open_files, terminal.progress(f"{name} {one}", work, quiet=quiet or as_json) as advance:
            files = [open_files.enter_context(known.writing(path, kind)) for kind, path in paths.items()]
            for part in chunks(task, one, seed, rows, workers=workers, listeners=Listeners(advance, advance)):
                for file in files:
                    file.write(part)
                if not any(file.fingerprint for file in files):  # Parquet keeps one; the rows are digested once
                    fingerprint.update(part)
                labels.update(part.labels())
                written += len(part)
            fingerprint = next((file.fingerprint for file in files if file.fingerprint), fingerprint)
        made[one] = {
            "rows": written,
            "files": [str(path) for path in paths.values()],
            "labels": dict(labels),
            "fingerprint": fingerprint.hexdigest(),
        }
    manifest = {"name": name, "seed": seed, "settings": settings_of(task), "version": task.version, "splits": made}
    write_json(out / "manifest.json", manifest)
    if as_json:
        terminal.emit_json(manifest)
        return
    _print(manifest)
    terminal.out.print(f"\nWrote {terminal.plain(out / 'manifest.json')}. Next: pomona verify {terminal.plain(out)}")


def _print(manifest: dict[str, Any]) -> None:
    rows = [
        (split, "\n".join(about["files"]), about["fingerprint"][:16], f"{about['rows']:,}", _majority(about["labels"]))
        for split, about in manifest["splits"].items()
    ]
    columns = ["split", "files", "fingerprint", "rows", "most frequent answer"]
    title = f"{terminal.plain(manifest['name'])}, seed {manifest['seed']}"
    terminal.out.print(terminal.table(title, columns, rows, left=3))


def _majority(labels: dict[str, int]) -> str:
    total = sum(labels.values())
    best = max(labels, key=lambda label: labels[label], default="")
    return f"{best}: {labels[best] / total:.1%}" if total else "-"
