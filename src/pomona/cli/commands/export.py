"""`pomona export`: the inputs of a corpus with their ids, for a model outside Pomona."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pomona.cli import terminal
from pomona.cli.options import AsJson, DataSeed, Import, Settings, Size, Source, Split

GROUP = "data"


def export(
    source: Source,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write, JSON lines.")] = Path("inputs.jsonl"),
    split: Split = "",
    data_seed: DataSeed = None,
    size: Size = None,
    answers: Annotated[
        bool, typer.Option("--answers", help="Also write the correct answers, for example for few-shot prompts.")
    ] = False,
    settings: Settings = None,
    imports: Import = None,
    as_json: AsJson = False,
) -> None:
    """Write the inputs of a corpus as JSON lines, for a model outside Pomona to answer.

    Each line is {"id", "input"}, in fair NLI with "premise" and "hypothesis"
    beside the input. Let your model write a line {"id", "prediction"} for each, then run pomona evaluate.

    Example: [bold]pomona export listops/d20s --split test --size 500 --out inputs.jsonl[/bold]
    """
    import shlex

    from pomona.base.registry import parse_settings
    from pomona.data.answers import write_inputs
    from pomona.data.sources import corpus_from
    from pomona.data.task import task_class

    corpus = corpus_from(source, split=split, seed=data_seed, settings=parse_settings(settings or []))[:size]
    write_inputs(corpus, out, answers=answers)
    words = ["pomona", "evaluate", "predictions.jsonl", "--data", source]
    words += ["--split", split] if split else []
    words += ["--data-seed", str(data_seed)] if data_seed else []
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
    possible = task_class(corpus).labels() or corpus.outcomes
    wanted = ", ".join(str(outcome) for outcome in possible[:12])
    more = ", ..." if len(possible) > 12 else ""
    terminal.out.print(f"{written} Answers are {terminal.plain(wanted + more)}.")
    terminal.out.print('Write a line {"id": ..., "prediction": ...} for each of them, then:')
    terminal.out.print(f"  [bold]{terminal.plain(shlex.join(words))}[/bold]")
