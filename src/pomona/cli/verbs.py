"""The verbs of the command: every file in `pomona.cli.commands` is one, and its function's signature is its interface.

A verb's file is imported when the verb runs, completes or explains itself. The list that `pomona --help` prints is read
from the text of the files, so that it needs none of them.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from pomona.cli import commands, terminal
from pomona.cli.options import todays

if TYPE_CHECKING:
    from rich.table import Table

CONTEXT = {"help_option_names": ["-h", "--help"]}
GROUPS = {  # what a command's file calls its GROUP, and the heading of the list
    "start": "Start",
    "data": "Data",
    "proofs": "Proofs",
    "models": "Models",
    "measures": "Measures",
    "papers": "Papers",
}


@cache
def modules() -> dict[str, str]:
    """Each verb and the module that defines it; a trailing underscore is left out, one inside becomes a hyphen."""
    names = sorted(module.name for module in pkgutil.iter_modules(commands.__path__))
    return {name.removesuffix("_").replace("_", "-"): name for name in names}


def first_line(verb: str) -> str:
    """What a verb does: the first line of its function's docstring, read without importing its file.

    >>> first_line("ls")
    'List the tasks, models, measures or papers; or describe one of them, with all its settings and their defaults.'
    """
    module, text = modules()[verb], _text(verb)
    return text.partition(f"\ndef {module}(")[2].partition('"""')[2].partition("\n")[0].removesuffix('"""')


def group_of(verb: str) -> str:
    """The group that a verb is listed in, one of GROUPS, from the text of its file.

    >>> group_of("verify")
    'data'
    """
    found = re.search(r'^GROUP = "(\w+)"$', _text(verb), re.M)
    return found[1] if found else "start"


@cache
def _text(verb: str) -> str:
    return (Path(commands.__path__[0]) / f"{modules()[verb]}.py").read_text(encoding="utf-8")


class Verb(TyperCommand):
    """One command; the names that options had in earlier versions are read as well."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, todays(str(self.name), args))


class Verbs(Mapping[str, Any]):
    """The commands by name; each is loaded when it is asked for, and once."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, verb: str) -> Any:
        if verb not in self._loaded:
            name = modules()[verb]
            function = getattr(importlib.import_module(f"pomona.cli.commands.{name}"), name)
            alone = typer.Typer(add_completion=False, rich_markup_mode="rich", context_settings=CONTEXT)
            alone.command(verb, cls=Verb)(function)
            self._loaded[verb] = typer.main.get_command(alone)
        return self._loaded[verb]

    def __iter__(self) -> Iterator[str]:
        return iter(modules())

    def __len__(self) -> int:
        return len(modules())

    def __contains__(self, verb: object) -> bool:
        return verb in modules()


class Program(TyperGroup):
    """The whole command: a group of verbs that are loaded one by one."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = cast(MutableMapping[str, Any], Verbs())

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        with _plain_words():
            return super().make_context(*arguments, **more)

    def invoke(self, ctx: Any) -> Any:
        with _plain_words():
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The list of all verbs. Typer's own would import every one of them."""
        terminal.out.print(f"\n[bold]Usage:[/bold] {terminal.plain(ctx.command_path)} VERB [OPTIONS] ...\n")
        terminal.out.print(f"{self.help}\n", soft_wrap=False)
        for group, title in GROUPS.items():
            _print_list(title, [(verb, first_line(verb)) for verb in self.commands if group_of(verb) == group])
        options = [(", ".join(option.opts), getattr(option, "help", "")) for option in self.get_params(ctx)]
        _print_list("Options", options)
        terminal.out.print("[bold]pomona VERB --help[/bold] explains a verb, with an example.")


@contextmanager
def _plain_words() -> Iterator[None]:
    """Errors of usage quote what was typed: as text, never as control sequences. An EOFError is no wish to leave."""
    try:
        yield
    except EOFError as error:
        raise RuntimeError("a file ended early") from error  # typer would say "Aborted."
    except Exception as error:
        for name in ("message", "option_name", "param_hint"):
            if isinstance(text := getattr(error, name, None), str):
                setattr(error, name, "\n".join(map(terminal.visible, text.split("\n"))))
        raise


def _print_list(title: str, rows: list[tuple[str, str]]) -> None:
    table: Table = terminal.table(None, [title, ""], rows, left=2)
    table.columns[0].style = "bold cyan"
    table.columns[0].no_wrap = True
    terminal.out.print(table)
    terminal.out.print()
