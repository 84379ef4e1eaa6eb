"""Slow twins of the models: one sentence, one node, one step at a time, in torch that can be believed at a glance.

They take the fast module's own parameters, so that outputs and gradients can be compared number by number. They are
also what the benchmarks race against. Nothing here knows of plans, shared subtrees or compiled loops.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def pair(cell: nn.Module, left: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The TreeLSTM cell (Tai et al. 2015, equations 9-14) on the concatenated children."""
    weight = torch.cat([cell.left, cell.right], 1)
    i, f_l, f_r, o, u = nn.functional.linear(torch.cat([left[0], right[0]], -1), weight, cell.bias).chunk(5, -1)
    c = f_l.sigmoid() * left[1] + f_r.sigmoid() * right[1] + i.sigmoid() * u.tanh()
    return o.sigmoid() * c.tanh(), c


def treelstm_by_stack(module: nn.Module, tokens: list[list[int]], steps: list[list[int]]) -> Tensor:
    """Roots of many sentences by shift and reduce: a step of the whole batch at a time, a Python stack a sentence.

    Reductions of one step are one call of the cell, as in the SPINN code this stands for.
    """
    h, c = module.leaf.chunk(2, 1)
    buffers = [list(zip(h[row].split(1), c[row].split(1), strict=True)) for row in tokens]
    for buffer in buffers:
        buffer.reverse()
    stacks: list[list[tuple[Tensor, Tensor]]] = [[] for _ in tokens]
    for step in range(max(map(len, steps))):
        reducing = [row for row in range(len(tokens)) if step < len(steps[row]) and steps[row][step] == 1]
        for row in range(len(tokens)):
            if step < len(steps[row]) and steps[row][step] == 0:
                stacks[row].append(buffers[row].pop())
        if reducing:
            reduce_stacks(module.cell, stacks, reducing)
    return torch.cat([stack[0][0] for stack in stacks])


def reduce_stacks(cell: nn.Module, stacks: list[list[tuple[Tensor, Tensor]]], rows: list[int]) -> None:
    """Replace the two top states of these stacks by the state of their parent."""
    rights = [stacks[row].pop() for row in rows]
    lefts = [stacks[row].pop() for row in rows]
    h, c = pair(
        cell,
        (torch.cat([state[0] for state in lefts]), torch.cat([state[1] for state in lefts])),
        (torch.cat([state[0] for state in rights]), torch.cat([state[1] for state in rights])),
    )
    for row, state in zip(rows, zip(h.split(1), c.split(1), strict=True), strict=True):
        stacks[row].append(state)


def st_gumbel_naive(
    cell: nn.Module, h: Tensor, c: Tensor, q: Tensor, tau: Tensor, noise: Tensor | None
) -> tuple[Tensor, list[int]]:
    """One sentence, every candidate of every round computed anew, straight-through by autograd (Choi et al. 2018).

    h and c are [tokens, H]; noise holds the candidates of round 1, then of round 2, ... Gives the root's h and the
    positions that were merged.
    """
    merged, at = [], 0
    while len(h) > 1:
        new_h, new_c = pair(cell, (h[:-1], c[:-1]), (h[1:], c[1:]))
        scores = new_h @ q
        count = len(scores)
        if noise is not None:
            scores = (scores + noise[at : at + count]) / tau
            at += count
        soft = scores.softmax(0)
        k = int(soft.argmax())
        hard = nn.functional.one_hot(torch.tensor(k), count).to(soft)
        y = hard + soft - soft.detach() if noise is not None else hard
        stay, move = (1 - y.cumsum(0))[:, None], (y.cumsum(0) - y)[:, None]
        h = y[:, None] * new_h + stay * h[:-1] + move * h[1:]
        c = y[:, None] * new_c + stay * c[:-1] + move * c[1:]
        merged.append(k)
    return h[0], merged


def rl_spinn_by_lists(
    module: nn.Module, tokens: list[list[int]], uniform: list[Tensor] | None
) -> tuple[Tensor, list[list[int]], list[tuple[int, Tensor]]]:
    """RL-SPINN with a Python list for each stack: roots, actions, and for each choice its sentence and log pi.

    The choices of one step are one call of the policy, its reductions one call of the cell, as in the SPINN code.
    """
    h, c = module.leaf.chunk(2, 1)
    word, first, second = module.policy.view(3, 2, -1)
    stacks: list[list[tuple[Tensor, Tensor]]] = [[] for _ in tokens]
    actions: list[list[int]] = [[] for _ in tokens]
    position: list[int] = [0] * len(tokens)
    chosen: list[tuple[int, Tensor]] = []
    for step in range(2 * max(map(len, tokens)) - 1):
        going = [row for row in range(len(tokens)) if step < 2 * len(tokens[row]) - 1]
        now = {row: int(len(stacks[row]) > 1) for row in going}
        free = [row for row in going if now[row] and position[row] < len(tokens[row])]
        if free:
            words = h[[tokens[row][position[row]] for row in free]]
            tops, nexts = (torch.cat([stacks[row][-place][0] for row in free]) for place in (1, 2))
            gains = words @ word.t() + tops @ first.t() + nexts @ second.t() + module.policy_bias
            log_pi = (gains / module.settings.temperature).log_softmax(1)
            for place, row in enumerate(free):
                shown = log_pi[place, 1].exp() if uniform else gains[place, 1] - gains[place, 0]
                now[row] = int(shown > (uniform[row][step] if uniform else 0))
            actions_taken = torch.tensor([now[row] for row in free])
            chosen += zip(free, log_pi.gather(1, actions_taken[:, None])[:, 0].unbind(), strict=True)
        reducing = [row for row in going if now[row]]
        for row in going:
            actions[row].append(now[row])
            if not now[row]:
                number = tokens[row][position[row]]
                stacks[row].append((h[number : number + 1], c[number : number + 1]))
                position[row] += 1
        if reducing:
            reduce_stacks(module.cell, stacks, reducing)
    return torch.cat([stack[0][0] for stack in stacks]), actions, chosen


def st_gumbel_padded(
    cell: nn.Module, h: Tensor, c: Tensor, q: Tensor, lengths: Tensor, random: torch.Generator
) -> Tensor:
    """The same for a padded batch [batch, length, H], as Choi et al.'s code has it: for races, with its own noise."""
    for step in range(h.shape[1] - 1):
        new_h, new_c = pair(cell, (h[:, :-1], c[:, :-1]), (h[:, 1:], c[:, 1:]))
        alive = torch.arange(new_h.shape[1]) < (lengths - 1 - step)[:, None]
        noise = -torch.empty(new_h.shape[:2], dtype=h.dtype).exponential_(generator=random).log()
        soft = (new_h @ q + noise).masked_fill(~alive, -torch.inf)
        soft = torch.where(alive.any(1, keepdim=True), soft, torch.zeros_like(soft)).softmax(1)
        hard = nn.functional.one_hot(soft.argmax(1), soft.shape[1]).to(soft)
        y = (hard + soft - soft.detach())[..., None]
        stay, move = 1 - y.cumsum(1), y.cumsum(1) - y
        going = alive.any(1)[:, None, None]
        h = torch.where(going, y * new_h + stay * h[:, :-1] + move * h[:, 1:], h[:, :-1])
        c = torch.where(going, y * new_c + stay * c[:, :-1] + move * c[:, 1:], c[:, :-1])
    return h[:, 0]


def chart_naive(cell: nn.Module, h: Tensor, c: Tensor, q: Tensor, tau: float) -> Tensor:
    """The soft chart of sentences of one length, [batch, length, H]: the full cell for every cut of every span."""
    chart = {(i, 1): (h[:, i], c[:, i]) for i in range(h.shape[1])}
    for width in range(2, h.shape[1] + 1):
        starts = range(h.shape[1] - width + 1)
        made = []
        for s in range(1, width):  # all spans of this width at once: [spans, batch, H]
            left = tuple(torch.stack([chart[i, s][part] for i in starts]) for part in (0, 1))
            right = tuple(torch.stack([chart[i + s, width - s][part] for i in starts]) for part in (0, 1))
            made.append(pair(cell, left, right))
        cut_h, cut_c = (torch.stack([one[part] for one in made]) for part in (0, 1))  # [cuts, spans, batch, H]
        share = (torch.cosine_similarity(cut_h, q, -1) / tau).softmax(0)[..., None]
        new_h, new_c = (share * cut_h).sum(0), (share * cut_c).sum(0)
        for i in starts:
            chart[i, width] = new_h[i], new_c[i]
    return chart[0, h.shape[1]][0]
