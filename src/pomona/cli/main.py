"""The command `pomona`: every file in `pomona.cli.commands` is one verb, its function's signature is its interface."""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import sys

import typer

from pomona.base.errors import PomonaError
from pomona.cli import commands, terminal

app = typer.Typer(
    name="pomona",
    help="A laboratory for compositional generalisation: data you can prove things about, and measures you can trust.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _root() -> None:
    """A laboratory for compositional generalisation: data you can prove things about, measures you can trust.

    Start with [bold]pomona ls[/bold], then [bold]pomona show listops/d20s[/bold].
    """


for _module in sorted(module.name for module in pkgutil.iter_modules(commands.__path__)):
    _verb = getattr(importlib.import_module(f"pomona.cli.commands.{_module}"), _module)
    app.command(_module.removesuffix("_").replace("_", "-"))(_verb)


INTERRUPTED = 130


def main() -> None:
    """Run the command; an error of ours is one clear line and exit status 3."""
    for library in ("OMP", "OPENBLAS"):  # one thread a process: starting more costs most commands more than it saves
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    gc.set_threshold(
        100_000
    )  # imports make much that lives on; looking for garbage in it would cost a tenth of a second
    try:
        app()
    except PomonaError as error:
        terminal.err.print(f"[bold red]{type(error).__name__}[/]: {terminal.plain(error)}")
        sys.exit(terminal.BAD_INPUT)
    except SystemExit as ending:  # as which typer also ends what was interrupted and what nobody reads to the end
        if isinstance(ending.__context__, BrokenPipeError):  # the reader of a pipe, such as `head`, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        if ending.code == INTERRUPTED:
            terminal.err.print("Interrupted; nothing half-written was left behind.")
        raise
