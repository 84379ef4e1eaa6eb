"""Slow twins of the models that find trees: one sentence, one step at a time, on Python lists, by torch's autograd.

They take the fast module's own parameters, and share nothing with it: no equal pairs, no rounds, no derivative by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import Tensor, nn

Noise = Mapping[tuple, Tensor]  # of a tree, which is a pair of trees or tokens: what is added to its root


def grc(cell: nn.Module, left: Tensor, right: Tensor) -> Tensor:
    """The gated recursive cell on two vectors; what a vector has beyond the width of the cell are its counters."""
    width = cell.width
    left, counts, right = left[:width], left[width:], right[:width]
    inner = cell.first.weight @ torch.cat([left, right, torch.tanh(counts)]) + cell.first.bias
    gelu = 0.5 * inner * (1 + torch.erf(inner / 2**0.5))
    q = cell.second.weight @ gelu + cell.second.bias
    one, two, three, update = q[: 4 * width].chunk(4)
    mixed = one.sigmoid() * left + two.sigmoid() * right + three.sigmoid() * update
    return torch.cat([norm(cell.norm, mixed), counts + torch.tanh(q[4 * width :])])


def norm(layer: nn.Module, row: Tensor) -> Tensor:
    centred = row - row.mean()
    return centred / (centred.square().mean() + layer.eps).sqrt() * layer.weight + layer.bias


def score(module: nn.Module, left: Tensor, right: Tensor, blur: Tensor | float = 0.0) -> Tensor:
    """The bounded logit of P(reduce); no gradient goes to the two vectors. Of counters it sees tanh, not blurred."""
    width = module.settings.width
    seen = torch.cat([left[:width], right[:width]]).detach() + blur
    seen = torch.cat([seen, torch.tanh(torch.cat([left[width:], right[width:]])).detach()])
    inner = module.policy.weight @ seen + module.policy.bias
    gelu = 0.5 * inner * (1 + torch.erf(inner / 2**0.5))
    return 4 * torch.tanh((module.policy_out.weight[0] @ gelu + module.policy_out.bias[0]) / 4)


def shift_reduce(
    module: nn.Module,
    tokens: list[int],
    draws: list[float] | None,
    noise: Noise | None = None,
    blur: Noise | None = None,
) -> tuple[Tensor, list[int], list[tuple[Tensor, int, Tensor]]]:
    """The root of one sentence, its steps, and of each choice the logit, the action, and the logit of a blurred look;
    greedy without draws. The policy sees vectors as they were before their noise."""
    stack: list[Tensor] = []
    quiet: list[Tensor] = []
    trees: list = []  # the tree of each vector of the stack
    none = torch.zeros(module.settings.counters, dtype=module.words.leaf.dtype)
    waiting = [torch.cat([norm(module.words.norm, module.words.leaf[token]), none]) for token in tokens]
    steps: list[int] = []
    choices: list[tuple[Tensor, int, Tensor]] = []
    for step in range(2 * len(tokens) - 1):
        action = len(stack) > 1
        if action and waiting:
            z = score(module, *quiet[-2:])
            p = float(z.detach().sigmoid())
            action = p > 0.5 if draws is None else draws[step] < p
            off = z if blur is None else score(module, *quiet[-2:], blur[tuple(trees[-2:])])
            choices.append((z, int(action), off))
        if action:
            right, left = stack.pop(), stack.pop()
            trees[-2:] = [(trees[-2], trees[-1])]
            parent = grc(module.cell, left, right)
            quiet[-2:] = [parent]
            if noise is not None:
                parent = parent + torch.cat([noise[trees[-1]], none])
            stack.append(parent)
        else:
            trees.append(tokens[-len(waiting)])
            quiet.append(waiting[0])
            stack.append(waiting.pop(0))
        steps.append(int(action))
    return stack[0][: module.settings.width], steps, choices


def logits(module: nn.Module, root: Tensor) -> Tensor:
    words = module.words
    if words is None:
        return module.answer.weight @ root + module.answer.bias
    if not words.settings.tied:
        return words.linear.weight @ root + words.linear.bias
    vectors = [norm(words.norm, row) for row in words.leaf]
    vectors += [] if words.answer is None else [norm(words.norm, row) for row in words.answer]
    answers = torch.stack([vectors[row] for row in words.answer_rows.tolist()])
    return words.tau / len(root) * (answers @ root)


def answer_vector(module: nn.Module, answer: int) -> Tensor:
    words = module.words
    row = int(words.answer_rows[answer])
    known = words.leaf if row < len(words.leaf) else words.answer
    return norm(words.norm, known[row if row < len(words.leaf) else row - len(words.leaf)]).detach()


def cell_loss(module: nn.Module, root: Tensor, target: int) -> tuple[Tensor, Tensor]:
    """The loss of one tree, and log p of the right answer."""
    log_p = logits(module, root).log_softmax(0)[target]
    loss = -log_p
    if module.settings.tied:
        loss = loss + module.settings.pull * (root - answer_vector(module, target)).square().mean()
    return loss, log_p


def shift_reduce_loss(
    module: nn.Module,
    sentences: list[list[int]],
    targets: list[int],
    draws: list[list[list[float] | None]],
    noise: Noise | None = None,
    blur: Noise | None = None,
) -> tuple[Tensor, Tensor, list[list[int]]]:
    """The losses of the cell and of the policy, with trees `draws[tree][sentence]`; the steps of every tree."""
    told, trees = module.learning, len(draws)
    built = [
        [shift_reduce(module, words, u, noise, blur) for words, u in zip(sentences, row, strict=True)] for row in draws
    ]
    cell = torch.zeros((), dtype=torch.double)
    rewards = torch.zeros(trees, len(sentences), dtype=torch.double)
    for b, target in enumerate(targets):
        pairs = [cell_loss(module, built[k][b][0], target) for k in range(trees)]
        share = torch.stack([log_p.detach() for _, log_p in pairs]).softmax(0)
        cell = cell + sum(share[k] * pairs[k][0] for k in range(trees)) / len(sentences)
        rewards[:, b] = torch.stack([log_p.detach().clamp(min=-4) for _, log_p in pairs])
    advantage = torch.zeros_like(rewards)
    for k in range(trees) if trees > 1 else ():
        others = [rewards[other] for other in range(trees) if other != k]
        advantage[k] = rewards[k] - sum(others) / len(others)
    if trees > 1:
        advantage = advantage / max(1.0, float(advantage.std()))
    policy = torch.zeros((), dtype=torch.double)
    pairs = [(k, b) for k in range(trees) for b in range(len(targets))]
    every = [(*choice, advantage[k, b]) for k, b in pairs for choice in built[k][b][2]]
    for z, action, blurred, gain in every:
        p = z.sigmoid()
        chosen = p.log() if action else (1 - p).log()
        kl = p * (p / told.prior).log() + (1 - p) * ((1 - p) / (1 - told.prior)).log()
        likelier = (blurred if z > 0 else -blurred).sigmoid().log()
        policy = policy - told.policy * gain * chosen / (trees * len(targets))
        policy = policy + told.prior_weight * kl / (trees * len(targets)) - told.own * likelier / len(every)
    return cell, policy, [steps for row in built for _, steps, _ in row]


def shift_reduce_by_steps(module: nn.Module, sentences: list[list[int]], targets: Tensor) -> tuple[Tensor, Tensor]:
    """The losses of greedy trees as a reader of the paper would compute them: a Python stack for each sentence, and one
    call of the scorer and one of the cell for each step of the whole batch. The benchmarks race against it."""
    leaves = module.words.norm(module.words.leaf)
    buffers = [list(leaves[words].split(1))[::-1] for words in sentences]
    stacks: list[list[Tensor]] = [[] for _ in sentences]
    own = []
    for _ in range(2 * max(map(len, sentences)) - 1):
        pairs = [row for row in range(len(stacks)) if len(stacks[row]) > 1]
        asked = [row for row in pairs if buffers[row]]
        reducing = {row for row in pairs if not buffers[row]}
        if asked:
            tops = torch.cat([torch.cat(stacks[row][-2:], 1) for row in asked]).detach()
            s = module.policy_out(nn.functional.gelu(module.policy(tops)))[:, 0]
            z = 4 * torch.tanh(s / 4)
            own.append(nn.functional.logsigmoid(z.abs()))
            reducing |= {row for row, chosen in zip(asked, (z > 0).tolist(), strict=True) if chosen}
        for row in range(len(stacks)):
            if buffers[row] and row not in reducing:
                stacks[row].append(buffers[row].pop())
        if reducing:
            rows = sorted(reducing)
            children = torch.cat([torch.cat(stacks[row][-2:], 1) for row in rows])
            one, two, three, update = module.cell.second(nn.functional.gelu(module.cell.first(children))).chunk(4, 1)
            left, right = children.chunk(2, 1)
            mixed = module.cell.norm(one.sigmoid() * left + two.sigmoid() * right + three.sigmoid() * update)
            for row, parent in zip(rows, mixed.split(1), strict=True):
                stacks[row][-2:] = [parent]
    roots, answers = torch.cat([stack[0] for stack in stacks]), leaves[module.words.answer_rows]
    loss = nn.functional.cross_entropy(module.words.tau / roots.shape[1] * roots @ answers.t(), targets)
    loss = loss + module.settings.pull * (roots - answers[targets].detach()).square().mean()
    return loss, -module.learning.own * torch.cat(own).mean()


def ordered_memory(module: nn.Module, tokens: list[int]) -> tuple[Tensor, list[Tensor], list[list[Tensor]]]:
    """Ordered Memory on one sentence with all of its slots: the sentence, p and the candidate memory of each token."""
    slots, cell = module.slots, module.cell
    width = cell.norm.weight.numel()
    zero = torch.zeros_like(cell.norm.weight)
    memory, candidate = [zero] * slots, [zero] * slots
    p = None
    attended, candidates = [], []
    for token in tokens:
        if module.words is None:
            x = norm(cell.norm, module.project.weight @ module.leaf[token] + module.project.bias)
        else:
            x = norm(module.words.norm, module.words.leaf[token])
        if p is None:
            p = torch.zeros(slots, dtype=x.dtype)
            below, above = [torch.zeros_like(p[0])] * slots, [torch.ones_like(p[0])] * slots
        else:
            query = norm(module.query_norm, module.query.weight @ x + module.query.bias)
            raw = []
            for slot in range(slots):
                key = norm(module.key_norm, module.key.weight @ candidate[slot] + module.key.bias)
                score = module.attention.weight[0] @ (query + key).clamp(min=0) / width**0.5
                last = slot == slots - 1
                allowed = torch.ones_like(score) if last else sum(p[: slot + 2])
                raw.append(score.exp() * (allowed if allowed >= 1e-5 else 0.0))
            p = torch.stack(raw) / sum(raw)
            below, above = [sum(p[: slot + 1]) for slot in range(slots)], [sum(p[slot:]) for slot in range(slots)]
        memory = [(1 - above[i]) * memory[i] + above[i] * candidate[i] for i in range(slots)]
        candidate, o = [], x
        for slot in range(slots):
            inner = cell.first.weight @ torch.cat([o, memory[slot]]) + cell.first.bias
            one, two, three, update = (cell.second.weight @ inner.clamp(min=0) + cell.second.bias).chunk(4)
            mixed = one.sigmoid() * o + two.sigmoid() * memory[slot] + three.sigmoid() * update
            o = (1 - below[slot]) * x + below[slot] * norm(cell.norm, mixed)
            candidate.append(o)
        attended.append(p)
        candidates.append(candidate)
    return candidate[-1], attended, candidates


def tree_of_slots(stands: list[int], slots: int) -> tuple[object, list[tuple[int, int]]]:
    """The tree of tokens that stand in these slots, as nested pairs of positions, and its merges from left to right:
    the token behind which each is made, and the slot of the candidate memory that holds it."""
    stack: list[object] = []
    merges: list[tuple[int, int]] = []

    def merge(token: int, times: int) -> None:
        for number in range(times):
            right, left = stack.pop(), stack.pop()
            stack.append((left, right))
            merges.append((token, min(stands[token] + number, slots - 1)))

    for token in range(len(stands)):
        if token:
            merge(token - 1, min(len(stack) - 1, max(0, stands[token] - stands[token - 1] + 1)))
        stack.append(token)
    merge(len(stands) - 1, len(stack) - 1)
    return stack[0], merges


def beam_tree(module: nn.Module, tokens: list[int], noise: list[float] | None) -> list[tuple[Tensor, Tensor, object]]:
    """The beams of one sentence: the sum of log p, the root's vector, and the tree as nested pairs of positions."""

    def word(token: int) -> Tensor:
        if module.words is not None:
            return norm(module.words.norm, module.words.leaf[token])
        return norm(module.norm, module.project.weight @ module.leaf[token] + module.project.bias)

    def pair_score(left: Tensor, right: Tensor) -> Tensor:
        seen = torch.cat([left[: module.slice], right[: module.slice]])
        inner = module.scorer.weight @ seen + module.scorer.bias
        return module.scorer_out.weight[0] @ (0.5 * inner * (1 + torch.erf(inner / 2**0.5)))

    def best(values: list[float]) -> list[int]:
        return sorted(range(len(values)), key=lambda place: -values[place])[: module.beam]

    draw = iter(noise or [])
    start = [(word(token), place) for place, token in enumerate(tokens)]
    beams = [(torch.zeros((), dtype=start[0][0].dtype), start)]
    while len(beams[0][1]) > 1:
        proposals = []
        for total, row in beams:
            scores = torch.stack([pair_score(a[0], b[0]) for a, b in pairwise(row)])
            log_p = scores.log_softmax(0)
            choice = len(scores) > 1 and noise is not None
            noisy = [float(value) + (next(draw) if choice else 0.0) for value in log_p.detach()]
            proposals += [(total + log_p[place], row, place) for place in best(noisy)]
        chosen = list(range(len(proposals)))
        if len(proposals) > module.beam:
            totals = [float(total.detach()) for total, *_ in proposals]
            chosen = best(totals if noise is None else [total + next(draw) for total in totals])
        beams = []
        for total, row, place in (proposals[number] for number in chosen):
            (left, one), (right, two) = row[place : place + 2]
            beams.append((total, [*row[:place], (grc(module.cell, left, right), (one, two)), *row[place + 2 :]]))
    return [(total, *row[0]) for total, row in beams]


def mixed_root(beams: list[tuple[Tensor, Tensor, object]]) -> Tensor:
    """The roots of the beams, weighted by the softmax of their sums of log p."""
    share = torch.stack([total for total, *_ in beams]).softmax(0)
    return sum(weight * root for weight, (_, root, _) in zip(share, beams, strict=True))
