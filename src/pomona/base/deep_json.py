"""JSON of any nesting depth. The standard reader recurses and stops near a thousand levels; this one keeps a stack.

It is many times slower, and therefore the second choice: call `json.loads` first, and this on RecursionError.
"""

from __future__ import annotations

import json
import re
from typing import Any

_SPACE = re.compile(r"[ \t\n\r]*")
_SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null")


def loads(text: str) -> Any:
    """The value of a JSON text of any depth.

    >>> loads('{"a": [1, {"b": null}]}')
    {'a': [1, {'b': None}]}
    """
    return _Reader(text).read()


class _Reader:
    """Reads a text from left to right. `expecting` is what may come next:

    value         a value                         first         a value, or the end of the list
    name          the name of a member            first name    a name, or the end of the object
    more          a comma, or the end of the container
    """

    def __init__(self, text: str) -> None:
        self.text, self.position = text, 0
        self.root: list[Any] = []
        self.open: list[Any] = [self.root]  # the containers that are not closed; the last receives the next value
        self.names: list[str | None] = [None]  # of each open container, the name that the next value belongs to
        self.expecting = "value"

    def read(self) -> Any:
        self._skip_space()
        while self.position < len(self.text):
            self._step(self.text[self.position])
            self._skip_space()
        if len(self.open) > 1 or not self.root:
            raise self._error("Expecting value")
        return self.root[0]

    def _step(self, character: str) -> None:
        """Read one value, name, bracket or comma, which begins with this character."""
        if self.expecting in ("value", "first") and character in '{["-0123456789tfn':
            if character in "{[":
                self._open({} if character == "{" else [])
            else:
                self._put(self._scalar(character))
                self.expecting = "more"
        elif self.expecting in ("name", "first name") and character == '"':
            self._name()
        elif self._closes(character):
            self.open.pop()
            self.names.pop()
            self.position += 1
            self.expecting = "more"
        elif character == "," and self.expecting == "more" and len(self.open) > 1:
            self.position += 1
            self.expecting = "name" if isinstance(self.open[-1], dict) else "value"
        else:
            raise self._error("Extra data" if len(self.open) == 1 and self.root else f"Expecting {self.expecting}")

    def _open(self, container: Any) -> None:
        self._put(container)
        self.open.append(container)
        self.names.append(None)
        self.position += 1
        self.expecting = "first" if isinstance(container, list) else "first name"

    def _closes(self, character: str) -> bool:
        """Whether this bracket closes the last open container, at a point where that may be closed."""
        if len(self.open) == 1:
            return False
        if isinstance(self.open[-1], list):
            return character == "]" and self.expecting in ("first", "more")
        return character == "}" and self.expecting in ("first name", "more")

    def _scalar(self, character: str) -> Any:
        if character == '"':
            return self._string()
        match = _SCALAR.match(self.text, self.position)
        if match is None:
            raise self._error("Expecting value")
        self.position = match.end()
        return json.loads(match.group())

    def _name(self) -> None:
        self.names[-1] = self._string()
        self._skip_space()
        if self.text[self.position : self.position + 1] != ":":
            raise self._error("Expecting ':' delimiter")
        self.position += 1
        self.expecting = "value"

    def _string(self) -> str:
        string: str
        string, self.position = json.decoder.scanstring(self.text, self.position + 1)  # type: ignore[attr-defined]
        return string

    def _put(self, value: Any) -> None:
        container = self.open[-1]
        if isinstance(container, list):
            container.append(value)
        else:
            container[self.names[-1]] = value

    def _skip_space(self) -> None:
        self.position = _SPACE.match(self.text, self.position).end()  # type: ignore[union-attr]

    def _error(self, message: str) -> json.JSONDecodeError:
        return json.JSONDecodeError(message, self.text, self.position)
