"""The two reference pages: every command with its options, and the public names of Python by topic.

Both are made when the site is built (`<!-- made: commands -->`, `<!-- made: api -->`), so they are never out of date.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable
from typing import Any

import pomona
from pomona.cli.verbs import Verbs
from tables import table

TOPICS: dict[str, tuple[str, ...]] = {  # every public name stands under one topic; a test checks that
    "Data": ("generate", "read", "write", "verify", "describe", "draw", "Corpus", "Example", "Forest"),
    "Is the test fair, and what do shortcuts score?": ("certify", "Certificate", "ladder"),
    "Models and runs": ("train", "Recipe", "Run", "sweep", "predict", "represent"),
    "What a model's answers show": ("evaluate", "Evaluation", "compare", "measure", "Score", "report"),
    "What vectors show": ("tre", "TreFit"),
    "Papers": ("reproduce",),
    "Adding your own": (
        "task", "Task", "model", "Model", "Shape", "Output", "Measure", "ItemMeasure", "paper", "Paper",
        "TASKS", "MODELS", "MEASURES", "PAPERS",
    ),
    "Errors": ("PomonaError",),
}  # fmt: skip
ROOMS = ("trees", "data", "fairness", "shortcuts", "representations")
MARKUP = re.compile(r"\[(bold|cyan|dim)\](.*?)\[/\1\]")


def api() -> str:
    """A directive for each public name, classes with their members; then what the rooms hold, a line each."""
    topics = (f"## {topic}\n\n{_directives(names)}" for topic, names in TOPICS.items())
    return "\n".join([*topics, "## More, by room\n", *map(_room, ROOMS)])


def _directives(names: Iterable[str]) -> str:
    return "\n".join(_directive(name, getattr(pomona, name)) for name in names)


def _directive(name: str, thing: Any) -> str:
    if inspect.isfunction(thing):
        return f"```{{eval-rst}}\n.. autofunction:: pomona.{name}\n```\n"
    if not isinstance(thing, type):  # a registry, or the decorator that adds to one
        return f"**`pm.{name}`**: {_first_sentence(thing)}\n"
    members = "" if issubclass(thing, Exception) else "   :members:\n"
    return f"```{{eval-rst}}\n.. autoclass:: pomona.{name}\n{members}```\n"


def _room(room: str) -> str:
    """The names of a room that `pm` itself does not have, with the first sentence of each."""
    module = importlib.import_module(f"pomona.{room}")
    names = [name for name in module.__all__ if name not in pomona.__all__]
    rows = [(f"`pm.{room}.{name}`", _first_sentence(getattr(module, name))) for name in names]
    return f"### pm.{room}\n\n{table(['name', 'what it is'], rows)}\n"


def _first_sentence(thing: Any) -> str:
    paragraph = (inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=[.!?])\s", paragraph)[0]


def commands() -> str:
    """Every command: what it does, its example, and a table of its arguments and options."""
    verbs = Verbs()
    return "\n".join(_command(verb, verbs[verb]) for verb in verbs)


def _command(verb: str, command: Any) -> str:
    rows = [_parameter(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
    about = MARKUP.sub(r"`\2`", command.help or "")
    return f"## pomona {verb}\n\n{about}\n\n{table(['option', 'default', 'what it does'], rows)}\n"


def _parameter(parameter: Any) -> tuple[str, str, str]:
    option = parameter.opts[0].startswith("-")
    names = parameter.opts + parameter.secondary_opts if option else [parameter.name.upper()]
    default = parameter.default
    shown = "required" if parameter.required else "" if default in (None, False, "", ()) else f"`{default}`"
    return ", ".join(f"`{name}`" for name in names), shown, MARKUP.sub(r"`\2`", parameter.help or "")
