"""Trees: many of them as flat arrays, the texts they are written as, and the operators that give them values.

    forest      Forest: symbol, parent and start of every node of many trees, in post-order
    brackets    bracketed text to trees and back                 binary    binary trees and transitions
    operators   what a node's value is, from its children's      links     nodes that quote other nodes
    drawing     trees as text and as SVG                         growing   trees of a random shape

For users: `pm.trees.read`, `write`, `draw`, `svg`, `denote`, `steps`, `define_operator`, `Operator`, `copy_arguments`
and `Forest`. Modules of Pomona import from the files themselves. This room imports only `base`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pomona.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from pomona.trees.brackets import read, write
    from pomona.trees.drawing import draw, svg
    from pomona.trees.forest import Forest
    from pomona.trees.links import copy_arguments
    from pomona.trees.operators import Operator, define_operator, denote, steps

__all__ = [
    "Forest", "Operator", "copy_arguments", "define_operator", "denote", "draw", "read", "steps", "svg", "write",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Forest": "forest",
        "Operator": "operators",
        "copy_arguments": "links",
        "define_operator": "operators",
        "denote": "operators",
        "draw": "drawing",
        "read": "brackets",
        "steps": "operators",
        "svg": "drawing",
        "write": "brackets",
    },
)
