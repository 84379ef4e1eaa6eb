"""`pomona export`: the inputs of a corpus with their ids, for a model outside Pomona."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pomona.cli import terminal
from pomona.cli.commands import task_names


def export(
    source: Annotated[
        str, typer.Argument(help="A file, or a task's name, for example listops/d20s.", autocompletion=task_names)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write, JSON lines.")] = Path("inputs.jsonl"),
    split: Annotated[str, typer.Option(help="Which split of a task.")] = "test",
    seed: Annotated[int, typer.Option(help="Random seed of a task's data.")] = 0,
    size: Annotated[int | None, typer.Option(help="Use only this many examples, the first ones.", min=1)] = None,
    answers: Annotated[
        bool, typer.Option("--answers", help="Also write the correct answers, for example for few-shot prompts.")
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the task, for example branching=0.3; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON what was written.")] = False,
) -> None:
    """Write the inputs of a corpus as JSON lines, for a model outside Pomona to answer.

    Each line is {"id", "input"}. Let your model write a line {"id", "prediction"} for each, then run pomona evaluate.

    Example: [bold]pomona export listops/d20s --split test --size 500 --out inputs.jsonl[/bold]
    """
    import shlex

    from pomona.base.registry import parse_settings
    from pomona.data.answers import write_inputs
    from pomona.data.sources import corpus_from

    corpus = corpus_from(source, split=split, seed=seed, settings=parse_settings(settings or []))[:size]
    write_inputs(corpus, out, answers=answers)
    from_task = not Path(source).is_file()
    words = ["pomona", "evaluate", "predictions.jsonl", "--data", source]
    words += ["--split", split] if from_task else []
    words += ["--seed", str(seed)] if from_task and seed else []
    words += ["--size", str(size)] if size is not None else []
    words += [word for pair in settings or [] for word in ("--set", pair)]
    if as_json:
        fingerprint = corpus.fingerprint
        terminal.emit_json({"file": str(out), "rows": len(corpus), "fingerprint": fingerprint, "next": words})
        return
    written = f"Wrote {len(corpus):,} inputs to {terminal.plain(out)}."
    if (corpus.targets < 0).all():
        terminal.out.print(f"{written} There are no answers in this corpus, so nothing can be scored on it.")
        return
    wanted = ", ".join(str(outcome) for outcome in corpus.outcomes[:12])
    more = ", ..." if len(corpus.outcomes) > 12 else ""
    terminal.out.print(f"{written} Answers are {terminal.plain(wanted + more)}.")
    terminal.out.print('Write a line {"id": ..., "prediction": ...} for each of them, then:')
    terminal.out.print(f"  [bold]{terminal.plain(shlex.join(words))}[/bold]")
