"""The command `pomona`: runs a verb, and turns what went wrong into one clear line and an exit status."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from typing import Annotated, Any, NoReturn

import typer

from pomona.base.errors import PomonaError
from pomona.base.extras import extras_named
from pomona.base.progress import silence
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


def _version(wanted: bool) -> None:
    if wanted:
        import pomona

        terminal.out.print(f"pomona {pomona.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A laboratory for compositional generalisation: data you can prove things about, and measures you can trust.

    Start with [bold]pomona ls[/bold], then [bold]pomona show listops/d20s[/bold].
    """


def main() -> None:
    """Run the command; an error of ours, or of the system, is one clear line and exit status 3."""
    for library in ("OMP", "OPENBLAS"):  # one thread a process: starting more costs most commands more than it saves
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    gc.set_threshold(100_000)  # imports create many objects that stay; searching them for garbage takes 0.1 s,
    atexit.register(gc.freeze)  # and 0.2 s at the end of the process, which frees all of them anyway
    terminal.show_what_can_be_shown()
    silence()  # commands show their own progress
    signal.signal(signal.SIGTERM, _terminate)
    try:
        with extras_named():
            app()
    except PomonaError as error:
        place = _place_of(error) if error.__cause__ is not None else ""  # of a rule or module of the user's
        where = f" ({terminal.plain(place)})" if place and place not in str(error) else ""
        said = terminal.plain(str(error).removesuffix(error.lines)) + "".join(
            f"\n    {terminal.plain(line)}" for line in error.code
        )
        terminal.err.print(f"[bold red]{type(error).__name__}[/]: {said}{where}")
        sys.exit(terminal.BAD_INPUT)
    except (OSError, MemoryError) as error:  # a path that is too long, a disk or a memory that is full
        if _place_of(error):
            _report_users_error(error)
        terminal.err.print(f"[bold red]{type(error).__name__}[/]: {terminal.plain(_what_the_system_said(error))}")
        sys.exit(terminal.BAD_INPUT)
    except SystemExit as ending:  # typer also ends interrupted commands and those with a closed pipe in this way
        if isinstance(ending.__context__, BrokenPipeError):  # the reader of a pipe, such as `head`, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        words = {terminal.INTERRUPTED: "Interrupted", terminal.TERMINATED: "Terminated"}
        if ending.code in words:
            terminal.err.print(f"{words[ending.code]}; nothing half-written was left behind.")
        raise
    except Exception as error:
        if _place_of(error):
            _report_users_error(error)
        _report_bug(error)


def _place_of(error: BaseException) -> str:
    from pomona.cli.user_code import place_of  # only when something went wrong

    return place_of(error)


def _report_users_error(error: Exception) -> NoReturn:
    """A task, model, measure or function of the user's own failed: one line with its file and line."""
    words = " ".join(str(error).split())[:300]
    path = _kept_traceback(error, "pomona-error-")
    terminal.err.print(
        f"[bold red]Your own code failed[/] at {terminal.plain(_place_of(error))}: {type(error).__name__}: "
        f"{terminal.plain(words)} [dim](traceback: {terminal.plain(path)})[/]"
    )
    sys.exit(terminal.BAD_INPUT)


def _terminate(*_: Any) -> NoReturn:
    """End as after Ctrl-C: files that are being written are removed on the way out."""
    sys.exit(terminal.TERMINATED)


def _what_the_system_said(error: OSError | MemoryError) -> str:
    if isinstance(error, MemoryError):
        return f"there is not enough memory. {error}".strip()
    path = error.filename
    shown = f"{os.fsdecode(path) if isinstance(path, (bytes, os.PathLike)) else path}: " if path is not None else ""
    return f"{shown if len(shown) < 300 else shown[:200] + '...: '}{error.strerror or error}"


def _report_bug(error: Exception) -> NoReturn:
    """What nobody foresaw: one line with the file that was at hand, and the traceback in a file."""
    kept = _kept_traceback(error, "pomona-bug-")
    path = _file_at_hand(error)
    reading = f" with {terminal.plain(path)}" if path else ""
    terminal.err.print(
        f"[bold red]A bug in Pomona[/]{reading}: {type(error).__name__}: {terminal.plain(error)}\n"
        f"The traceback is in {terminal.plain(kept)}; please report it, with what you did and the file."
    )
    sys.exit(terminal.BUG)


def _kept_traceback(error: Exception, prefix: str) -> str:
    """The file to which the command and the traceback were written."""
    import tempfile
    import traceback

    lines = [f"pomona {' '.join(map(ascii, sys.argv[1:]))}\n", *traceback.format_exception(error)]
    with tempfile.NamedTemporaryFile(
        "w", prefix=prefix, suffix=".txt", encoding="utf-8", errors="replace", delete=False
    ) as file:
        file.writelines(lines)
    return file.name


def _file_at_hand(error: BaseException) -> str:
    """The path that the innermost function worked on, if one had a path."""
    while error.__cause__ is not None:
        error = error.__cause__
    trace, path = error.__traceback__, ""
    while trace is not None:
        value = trace.tb_frame.f_locals.get("path")
        path = str(value) if isinstance(value, (str, os.PathLike)) else path
        trace = trace.tb_next
    return path
