"""A stack that words push on, stay on or pop from, and a list of what was read that numbers may point into.

Every word has one action. A frame of the stack holds a node.

    push     a new frame, whose node is the word
    stay     the topmost frame's node becomes cell(node, word)
    pop      the same, and then the frame is taken off and given to the one below: cell(node below, node)

A word on an empty stack is pushed; the last frame is never taken off. The answer of a part is its topmost frame at the
end.

A *constituent* is a frame, or a word that stayed. The constituents of the parts before can be quoted: in a frame whose
first word quotes, a word that spells n and stays is replaced by the node of constituent n. They are counted in one of
six ways (`ORDERS`): level by level, as they begin, or as they end; from 0, or from 1.

`nodes_of` runs the machine over texts with given tables, and gives the nodes that a cell has to compute. What is equal
is one node. `soft_tops` is the machine with probabilities in the place of actions, which has a gradient: every
place of the stack is the mean of what the three actions would put there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from pomona.base.arrays import Bytes, Ints
from pomona.base.compiled import compiled
from pomona.models.inputs.schedule import node_of

PUSH, STAY, POP = range(3)
ORDERS: Final = tuple((order, first) for order in ("level", "begin", "end") for first in (0, 1))


@compiled
def nodes_of(
    words: Ints, number: Ints, start: Ints, parts: int, example: Ints, action: Bytes, quotes: Bytes, order: Ints,
    leaves: int,
) -> tuple[Any, ...]:  # fmt: skip
    """Run machine k over example[k] with the actions action[k], quoting words quotes[k] and order[k].

    `start` says where each part begins, `parts` of them for each example. The nodes (left, right, height), and the
    topmost node at the end of each part, [machines * parts].
    """
    most, longest = 0, 0
    for text in example:
        size = start[(text + 1) * parts] - start[text * parts]
        most += 2 * size
        longest = max(longest, size)
    left, right, height = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int32)
    size = 16
    while size < 2 * most:
        size *= 2
    table = np.full(size, -1, np.int32)
    tops = np.empty(len(example) * parts, np.int64)
    stack = np.empty((longest + 1, 3), np.int64)  # node, first word, constituent
    found = np.empty((longest, 3), np.int64)  # constituents of a part as they begin: node, level, turn of its end
    listed = np.empty(longest, np.int64)  # the nodes of the parts before, in the order in which they are counted
    nodes = 0
    for machine in range(len(example)):
        many = 0
        for part in range(parts):
            high, begun, ended = 0, 0, 0
            place = example[machine] * parts + part
            for at in range(start[place], start[place + 1]):
                word = words[at]
                act = action[machine, word] if high else PUSH
                if act == PUSH:
                    stack[high, 0], stack[high, 1], stack[high, 2] = word, word, begun
                    found[begun, 0], found[begun, 1], found[begun, 2] = word, high, -1
                    begun, high = begun + 1, high + 1
                    continue
                other = word
                if act == STAY:
                    if number[at] >= 0 and quotes[machine, stack[high - 1, 1]]:
                        index = number[at] - order[machine] % 2
                        if 0 <= index < many:
                            other = listed[index]
                    found[begun, 0], found[begun, 1], found[begun, 2] = other, high, ended
                    begun, ended = begun + 1, ended + 1
                made = node_of(stack[high - 1, 0], other, leaves, left, right, height, table, nodes)
                nodes = max(nodes, made + 1)
                stack[high - 1, 0] = leaves + made
                if act == POP and high > 1:
                    closed = stack[high - 1, 2]
                    found[closed, 0], found[closed, 2] = stack[high - 1, 0], ended
                    ended, high = ended + 1, high - 1
                    made = node_of(stack[high - 1, 0], stack[high, 0], leaves, left, right, height, table, nodes)
                    nodes = max(nodes, made + 1)
                    stack[high - 1, 0] = leaves + made
            tops[machine * parts + part] = stack[high - 1, 0]
            while high:  # what was never taken off ends here, the topmost first
                high -= 1
                found[stack[high, 2], 0], found[stack[high, 2], 2] = stack[high, 0], ended
                ended += 1
            many = _list(found[:begun], order[machine] // 2, listed, many)
    return left[:nodes], right[:nodes], height[:nodes], tops


@compiled
def _list(found: Ints, order: int, listed: Ints, many: int) -> int:
    """Add the nodes of a part to the list in their order; how many there are now."""
    if order == 0:
        deepest = 0
        for item in range(len(found)):
            deepest = max(deepest, found[item, 1])
        at = np.zeros(deepest + 2, np.int64)
        for item in range(len(found)):
            at[found[item, 1] + 1] += 1
        for level in range(deepest + 1):
            at[level + 1] += at[level]
        for item in range(len(found)):
            listed[many + at[found[item, 1]]] = found[item, 0]
            at[found[item, 1]] += 1
    elif order == 1:
        listed[many : many + len(found)] = found[:, 0]
    else:
        for item in range(len(found)):
            listed[many + found[item, 2]] = found[item, 0]
    return many + len(found)


def soft_tops(
    cell: Callable[[Tensor], Tensor], words: Tensor, action: Tensor, inside: Tensor, depth: int
) -> Tensor:  # fmt: skip
    """The topmost places at the end of texts: words [batch, length, width], action [batch, length, 3], the probability
    of each, inside [batch, length], 1 where there is a word. The stack has `depth` places. [batch, width]
    """
    batch, length, width = words.shape
    stack, filled = words.new_zeros(batch, depth, width), words.new_zeros(batch, depth, 1)
    for at in range(length):
        word = words[:, at]
        first, second = filled[:, 0], filled[:, 1]  # [batch, 1]: how far these places are filled
        stayed = torch.lerp(word, cell(torch.cat([stack[:, 0], word], 1)), first)
        popped = torch.lerp(stayed, cell(torch.cat([stack[:, 1], stayed], 1)), second)
        new = action[:, at, :, None] * torch.stack([word, stayed, popped], 1)  # [batch, 3, width]
        push, stay, pop = action[:, at, :, None, None].unbind(1)  # [batch, 1, 1]
        below = push * stack[:, :-1] + stay * stack[:, 1:] + pop * _up(stack)
        full = push * filled[:, :-1] + stay * filled[:, 1:] + pop * _up(filled)
        here = inside[:, at, None, None]
        stack = torch.lerp(stack, torch.cat([new.sum(1, keepdim=True), below], 1), here)
        filled = torch.lerp(filled, torch.cat([torch.ones_like(filled[:, :1]), full], 1), here)
    return stack[:, 0]


def _up(places: Tensor) -> Tensor:
    """The places from the third on, with an empty one at the end."""
    return torch.cat([places[:, 2:], torch.zeros_like(places[:, :1])], 1)
