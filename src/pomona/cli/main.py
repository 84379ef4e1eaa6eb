"""The command `pomona`: runs a verb, and turns what went wrong into one clear line and an exit status."""

from __future__ import annotations

import atexit
import gc
import os
import sys

import typer

from pomona.base.errors import PomonaError
from pomona.cli import terminal
from pomona.cli.verbs import CONTEXT, Program

app = typer.Typer(
    name="pomona",
    cls=Program,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings=CONTEXT,
)


@app.callback()
def _root() -> None:
    """A laboratory for compositional generalisation: data you can prove things about, and measures you can trust.

    Start with [bold]pomona ls[/bold], then [bold]pomona show listops/d20s[/bold].
    """


INTERRUPTED = 130


def main() -> None:
    """Run the command; an error of ours is one clear line and exit status 3."""
    for library in ("OMP", "OPENBLAS"):  # one thread a process: starting more costs most commands more than it saves
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    gc.set_threshold(100_000)  # imports create many objects that stay; searching them for garbage takes 0.1 s,
    atexit.register(gc.freeze)  # and 0.2 s at the end of the process, which frees all of them anyway
    try:
        app()
    except PomonaError as error:
        terminal.err.print(f"[bold red]{type(error).__name__}[/]: {terminal.plain(error)}")
        sys.exit(terminal.BAD_INPUT)
    except SystemExit as ending:  # typer also ends interrupted commands and those with a closed pipe in this way
        if isinstance(ending.__context__, BrokenPipeError):  # the reader of a pipe, such as `head`, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        if ending.code == INTERRUPTED:
            terminal.err.print("Interrupted; nothing half-written was left behind.")
        raise
