"""Where the nodes of a tree stand on paper: the tidy drawing of Reingold and Tilford (1981), for n-ary trees.

    >>> tidy([[1, 2], [], []], [10.0, 10.0, 10.0], 4.0)            # a root over two leaves
    ([12.0, 5.0, 19.0], [0, 1, 1], 24.0)

A level is a line, siblings keep their order, a parent stands midway above its first and last child, a subtree looks the
same wherever it stands, and the mirror image of a tree is drawn as its mirror image. Subtrees are pushed together until
they would touch, so the drawing is narrow. Each subtree is known by its outline: at each level from its root downwards,
how far it reaches to the left and to the right.
"""

from __future__ import annotations

from typing import TypeAlias

Outline: TypeAlias = list[tuple[float, float]]  # left and right edge, level by level, measured from the root


def tidy(children: list[list[int]], wide: list[float], gap: float) -> tuple[list[float], list[int], float]:
    """The middle of each node, its level, and the width of the whole, which begins at 0.

    `children[v]` lists the children of node v, each of a higher number than v; node 0 is the root, `wide[v]` the width
    of a node, `gap` the least distance between neighbours on a level.
    """
    outline: list[Outline] = [[] for _ in children]
    shift = [0.0] * len(children)
    for node in range(len(children) - 1, -1, -1):
        kids = children[node]
        own = (-wide[node] / 2, wide[node] / 2)
        if not kids:
            outline[node] = [own]
            continue
        outlines = [outline[kid] for kid in kids]
        tight = _packed(outlines, gap)
        mirrored = _packed([[(-right, -left) for left, right in one] for one in reversed(outlines)], gap)
        # Packed from the left and from the right the children span the same; halfway between, gaps are even.
        spot = [(one + tight[-1] - other) / 2 for one, other in zip(tight, reversed(mirrored), strict=True)]
        middle = (spot[0] + spot[-1]) / 2
        merged: Outline = []
        for kid, at in zip(kids, spot, strict=True):
            shift[kid] = at - middle
            for down, (left, right) in enumerate(outline[kid]):
                left, right = left + shift[kid], right + shift[kid]
                if down == len(merged):
                    merged.append((left, right))
                else:
                    merged[down] = (min(merged[down][0], left), max(merged[down][1], right))
            outline[kid] = []
        outline[node] = [own, *merged]
    x, level = [0.0] * len(children), [0] * len(children)
    x[0] = -min(left for left, _ in outline[0])
    for node, kids in enumerate(children):
        for kid in kids:
            x[kid], level[kid] = x[node] + shift[kid], level[node] + 1
    return x, level, x[0] + max(right for _, right in outline[0])


def _packed(outlines: list[Outline], gap: float) -> list[float]:
    """Places from left to right, each as near to all before it as the gap allows."""
    reach: list[float] = []  # the right edge so far, by level
    places: list[float] = []
    for outline in outlines:
        at = max((edge + gap - left for edge, (left, _) in zip(reach, outline, strict=False)), default=0.0)
        at = max(at, places[-1]) if places else 0.0
        places.append(at)
        for down, (_, right) in enumerate(outline):
            if down == len(reach):
                reach.append(at + right)
            else:
                reach[down] = max(reach[down], at + right)
    return places
