"""JSON nested without limit. The standard reader recurses and gives up near a thousand levels; this one keeps a stack.

It is many times slower and therefore the second choice: `json.loads` first, this on RecursionError.
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
    decode = json.JSONDecoder().decode
    scan = json.decoder.scanstring  # type: ignore[attr-defined]
    root: list[Any] = []
    stack: list[Any] = [root]  # containers still open; the last receives the next value
    names: list[str | None] = [None]  # the member name that the next value of each goes under
    place = _SPACE.match(text, 0).end()  # type: ignore[union-attr]
    expecting = "value"
    while True:
        if place >= len(text):
            break
        here = text[place]
        if expecting in ("value", "first") and here in '{["-0123456789tfn':
            if here in "{[":
                made: Any = {} if here == "{" else []
                _put(stack[-1], names[-1], made)
                stack.append(made)
                names.append(None)
                place += 1
                expecting = "first" if here == "[" else "first name"
            else:
                if here == '"':
                    value, place = scan(text, place + 1)
                else:
                    match = _SCALAR.match(text, place)
                    if match is None:
                        raise json.JSONDecodeError("Expecting value", text, place)
                    value, place = decode(match.group()), match.end()
                _put(stack[-1], names[-1], value)
                expecting = "more"
        elif expecting in ("name", "first name") and here == '"':
            name, place = scan(text, place + 1)
            place = _SPACE.match(text, place).end()  # type: ignore[union-attr]
            if text[place : place + 1] != ":":
                raise json.JSONDecodeError("Expecting ':' delimiter", text, place)
            names[-1] = name
            place += 1
            expecting = "value"
        elif len(stack) > 1 and (
            (here == "]" and isinstance(stack[-1], list) and expecting in ("first", "more"))
            or (here == "}" and isinstance(stack[-1], dict) and expecting in ("first name", "more"))
        ):
            stack.pop()
            names.pop()
            place += 1
            expecting = "more"
        elif here == "," and expecting == "more" and len(stack) > 1:
            place += 1
            expecting = "name" if isinstance(stack[-1], dict) else "value"
        else:
            raise json.JSONDecodeError(
                "Extra data" if len(stack) == 1 and root else f"Expecting {expecting}", text, place
            )
        place = _SPACE.match(text, place).end()  # type: ignore[union-attr]
    if len(stack) > 1 or not root:
        raise json.JSONDecodeError("Expecting value", text, len(text))
    return root[0]


def _put(container: Any, name: str | None, value: Any) -> None:
    if isinstance(container, list):
        container.append(value)
    else:
        container[name] = value
