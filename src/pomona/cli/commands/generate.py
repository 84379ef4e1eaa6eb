"""`pomona generate`: write the splits of a task to files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pomona.cli import terminal
from pomona.cli.options import (
    Address,
    AsJson,
    DataSeed,
    Import,
    On,
    Quiet,
    Settings,
    Size,
    Workers,
    task_names,
)

if TYPE_CHECKING:
    from pomona.data.corpus import Corpus

GROUP = "data"


def generate(
    name: Annotated[
        str, typer.Argument(help="A task's name, for example listops/d20s (see pomona ls).", autocompletion=task_names)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the files.")] = Path("data"),
    data_seed: DataSeed = None,
    formats: Annotated[
        str, typer.Option("--format", "-f", help="parquet, jsonl, tsv, lra ..., separated by commas.")
    ] = "parquet",
    split: Annotated[
        str,
        typer.Option(help="Which split of a task or of a dataset's folder.", show_default="all; several with commas"),
    ] = "",
    size: Size = None,
    settings: Settings = None,
    rows: Annotated[
        int, typer.Option("--rows", help="Training examples.", min=0, show_default="as the task says; also --size")
    ] = 0,
    shards: Annotated[
        int | None,
        typer.Option("--shards", help="Write the largest split as so many Parquet files, others as large.", min=1),
    ] = None,
    on: On = "local",
    address: Address = "",
    workers: Workers = None,
    quiet: Quiet = False,
    imports: Import = None,
    as_json: AsJson = False,
) -> None:
    """Generate the splits of a task and write them to files, with label counts and fingerprints.

    The same name, settings and seed give the same rows on every machine, for any number of workers. The folder is a
    dataset: commands take it in place of a file. Only train may have more rows than the task says (--rows, --size).

    With --shards, processes or Ray write many files of the same rows, in bounded memory. Killed, it resumes.

    Example: [bold]pomona generate listops/d20s --data-seed 7 --out data --format parquet,tsv[/bold]

    Example: [bold]pomona generate listops/d20s --rows 1_000_000 --shards 8 --on local --out large[/bold]
    """
    from pomona.base.errors import SpecError, did_you_mean
    from pomona.base.registry import parse_settings, settings_of
    from pomona.data.datasets import rewriting
    from pomona.data.formats import FORMATS
    from pomona.data.pool import Listeners
    from pomona.data.task import TASKS, chunks

    task = TASKS.build(name, parse_settings(settings or []))
    if rows:
        if size is not None:
            raise SpecError(f"--rows {rows} and --size {size} say the same thing; give one")
        size = rows
    if shards is not None:
        from pomona.base.workers import workers as crew_of
        from pomona.data.shards.generation import Plan, write_dataset  # loads pyarrow

        if formats != "parquet":
            raise SpecError(f"--format {formats}: shards are Parquet files; leave --format out, or --shards")
        plan = Plan.of(name, task, data_seed or 0, splits=split.split(",") if split else (), rows=size, shards=shards)
        with (
            terminal.progress(f"{name} in shards", plan.work, quiet=quiet or as_json) as advance,
            crew_of(on, workers, address=address, modules=imports or []) as crew,
        ):
            written = write_dataset(plan, out, crew, advance)
        _finish(written, out, as_json=as_json)
        return
    if on != "local" or address:
        raise SpecError("--on and --address go with --shards: without them, one process writes one file a split")
    suffixes = {kind: FORMATS.named(kind).suffix for kind in formats.split(",")}
    chosen = split.split(",") if split else list(reversed(task.sizes))
    for one in chosen:
        if one not in task.sizes:
            raise SpecError(f"{name} has no split {one!r}. {did_you_mean(one, task.sizes)}")
    about = {"name": name, "seed": data_seed or 0, "settings": settings_of(task), "version": task.version}
    with rewriting(out, about) as manifest:
        for one in chosen:
            rows = task.sizes[one] if size is None else size if one == "train" else min(size, task.sizes[one])
            work = sum(task.shares(one).values()) + rows  # to draw the pool, then to build and write the split's rows
            paths = {kind: out / f"{one}{suffix}" for kind, suffix in suffixes.items()}
            with terminal.progress(f"{name} {one}", work, quiet=quiet or as_json) as advance:
                told = Listeners(advance, advance)
                parts = chunks(task, one, data_seed or 0, rows, workers=workers or 1, listeners=told)
                manifest["splits"][one] = _write(paths, parts)
    _finish(manifest, out, as_json=as_json)


def _finish(manifest: dict[str, Any], out: Path, *, as_json: bool) -> None:
    """Say what was written."""
    if as_json:
        terminal.emit_json(manifest)
        return
    _print(manifest, out)
    terminal.out.print(f"\nWrote {terminal.plain(out / 'manifest.json')}. Next: pomona verify {terminal.plain(out)}")


def _write(paths: dict[str, Path], parts: Iterable[Corpus]) -> dict[str, Any]:
    """Write the parts of a split to files, by format; what the manifest says of the split."""
    from collections import Counter
    from contextlib import ExitStack

    from pomona.data.corpus import Fingerprint
    from pomona.data.formats import writing

    fingerprint, labels, written = Fingerprint(), Counter[str](), 0
    with ExitStack() as open_files:
        files = [open_files.enter_context(writing(path, kind)) for kind, path in paths.items()]
        for part in parts:
            for file in files:
                file.write(part)
            if not any(file.fingerprint for file in files):  # Parquet keeps one; the rows are digested once
                fingerprint.update(part)
            labels.update(part.labels())
            written += len(part)
        fingerprint = next((file.fingerprint for file in files if file.fingerprint), fingerprint)
    return {
        "rows": written,
        "files": [path.name for path in paths.values()],
        "labels": dict(labels),
        "fingerprint": fingerprint.hexdigest(),
    }


def _print(manifest: dict[str, Any], folder: Path) -> None:
    rows = [
        (split, "\n".join(str(folder / file) for file in _files(about)), about["fingerprint"][:16],
         f"{about['rows']:,}", _majority(about["labels"]))
        for split, about in manifest["splits"].items()
    ]  # fmt: skip
    columns = ["split", "files", "fingerprint", "rows", "most frequent answer"]
    title = f"{terminal.plain(manifest['name'])}, data seed {manifest['seed']}"
    terminal.out.print(terminal.table(title, columns, rows, left=3))


def _files(about: dict[str, Any]) -> list[str]:
    """The names of a split's files; of many shards the first and the last."""
    names = [shard["file"] for shard in about["shards"]] if "shards" in about else list(about["files"])
    return names if len(names) < 4 else [names[0], "...", names[-1]]


def _majority(labels: dict[str, int]) -> str:
    total = sum(labels.values())
    best = max(labels, key=lambda label: labels[label], default="")
    return f"{best}: {labels[best] / total:.1%}" if total else "-"
