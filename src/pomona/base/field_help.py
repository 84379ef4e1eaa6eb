"""What a setting means: the comment behind a field of a dataclass, which is where the code explains it.

    @dataclass(frozen=True)
    class ListOps(Task):
        branching: float = 0.25  # chance that an argument is a list

    fields_of(ListOps)["branching"]      Field("float", 0.25, "chance that an argument is a list")

The text of the class is read, so this works for a user's own entries as well, where their source can be found.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import textwrap
import tokenize
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints


class Field(NamedTuple):
    """A setting: its type as it is written, its default, and one line of help (empty if the code has none)."""

    type: str
    default: Any
    help: str


def fields_of(kind: type) -> dict[str, Field]:
    """The settings of a dataclass, in order, with what its own text and that of its parents say of them."""
    told: dict[str, str] = {}
    for parent in reversed(kind.__mro__):
        for name, text in _told(parent).items():
            told[name] = text or told.get(name, "")  # a field that is declared again without words keeps the old ones
    try:
        hints = get_type_hints(kind)
    except (NameError, TypeError):  # a type that is imported for type checkers only
        hints = {}
    fields = [item for item in dataclasses.fields(kind) if item.init]
    return {
        item.name: Field(type_text(hints.get(item.name, item.type)), _default(item), told.get(item.name, ""))
        for item in fields
    }


def _default(item: dataclasses.Field[Any]) -> Any:
    if item.default is not dataclasses.MISSING:
        return item.default
    return item.default_factory() if item.default_factory is not dataclasses.MISSING else None


def _told(kind: type) -> dict[str, str]:
    """The comment of each field that a class itself declares."""
    if not dataclasses.is_dataclass(kind):
        return {}
    try:
        text = textwrap.dedent(inspect.getsource(kind))
        declared = ast.parse(text).body[0]
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (OSError, TypeError, SyntaxError, tokenize.TokenError):  # no source, as in an interpreter
        return {}
    comments = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    fields = [node for node in getattr(declared, "body", []) if isinstance(node, ast.AnnAssign)]
    return {
        node.target.id: comments.get(node.end_lineno or node.lineno, "")
        for node in fields
        if isinstance(node.target, ast.Name)
    }


def type_text(hint: Any) -> str:
    """A type as a reader wants it: the choices of a Literal are listed.

    >>> type_text(Literal["left", "right"]), type_text(tuple[int, int | None]), type_text(float)
    ('left | right', 'tuple[int, int | None]', 'float')
    """
    if get_origin(hint) is Literal:
        return " | ".join(str(choice) or '""' for choice in get_args(hint))
    if isinstance(hint, type) and not get_args(hint):
        return hint.__name__
    return str(hint).replace("typing.", "")
