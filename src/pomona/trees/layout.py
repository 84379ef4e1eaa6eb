"""Coordinates for drawing a tree: the tidy layout of Reingold and Tilford (1981), for n-ary trees.

    >>> tidy([[1, 2], [], []], [10.0, 10.0, 10.0], 4.0)            # a root over two leaves
    ([12.0, 5.0, 19.0], [0, 1, 1], 24.0)

The nodes of a level stand on one line, and siblings keep their order. A parent is centred above its first and last
child. Equal subtrees are drawn alike, and the mirror image of a tree is drawn as the mirror image of its drawing. The
drawing is narrow, because subtrees are moved together until they almost touch. To do so, each subtree has an outline:
for each of its levels, how far it reaches to the left and to the right.
"""

from __future__ import annotations

from typing import TypeAlias

Outline: TypeAlias = list[tuple[float, float]]  # left and right edge, level by level, measured from the root


def tidy(children: list[list[int]], wide: list[float], gap: float) -> tuple[list[float], list[int], float]:
    """The centre of each node, its level, and the width of the drawing, whose left edge is 0.

    Node 0 is the root. `children[v]` lists the children of node v, whose numbers are higher than v. `wide[v]` is the
    width of node v, and `gap` the least distance between neighbours on a level.
    """
    outline: list[Outline] = [[] for _ in children]
    shift = [0.0] * len(children)
    for node in range(len(children) - 1, -1, -1):
        kids = children[node]
        extent = (-wide[node] / 2, wide[node] / 2)
        if not kids:
            outline[node] = [extent]
            continue
        outlines = [outline[kid] for kid in kids]
        tight = _packed(outlines, gap)
        mirrored = _packed([[(-right, -left) for left, right in shape] for shape in reversed(outlines)], gap)
        # Packing from the left and from the right gives the same total width; the mean of both makes the gaps even.
        spot = [(left + tight[-1] - right) / 2 for left, right in zip(tight, reversed(mirrored), strict=True)]
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
        outline[node] = [extent, *merged]
    x, level = [0.0] * len(children), [0] * len(children)
    x[0] = -min(left for left, _ in outline[0])
    for node, kids in enumerate(children):
        for kid in kids:
            x[kid], level[kid] = x[node] + shift[kid], level[node] + 1
    return x, level, x[0] + max(right for _, right in outline[0])


def _packed(outlines: list[Outline], gap: float) -> list[float]:
    """The position of each subtree's root, from left to right, as near to those before it as the gap allows."""
    reach: list[float] = []  # the right edge so far, by level
    positions: list[float] = []
    for outline in outlines:
        at = max((edge + gap - left for edge, (left, _) in zip(reach, outline, strict=False)), default=0.0)
        at = max(at, positions[-1]) if positions else 0.0
        positions.append(at)
        for down, (_, right) in enumerate(outline):
            if down == len(reach):
                reach.append(at + right)
            else:
                reach[down] = max(reach[down], at + right)
    return positions
