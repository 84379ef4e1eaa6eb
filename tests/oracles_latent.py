"""Slow twins of the models that find trees: one sentence, one step at a time, on Python lists, by torch's autograd.

They take the fast module's own parameters, and share nothing with it: no equal pairs, no rounds, no derivative by hand.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def grc(cell: nn.Module, left: Tensor, right: Tensor) -> Tensor:
    """The gated recursive cell on two vectors."""
    inner = cell.first.weight @ torch.cat([left, right]) + cell.first.bias
    gelu = 0.5 * inner * (1 + torch.erf(inner / 2**0.5))
    one, two, three, update = (cell.second.weight @ gelu + cell.second.bias).chunk(4)
    mixed = one.sigmoid() * left + two.sigmoid() * right + three.sigmoid() * update
    return norm(cell.norm, mixed)


def norm(layer: nn.Module, row: Tensor) -> Tensor:
    centred = row - row.mean()
    return centred / (centred.square().mean() + layer.eps).sqrt() * layer.weight + layer.bias


def score(module: nn.Module, left: Tensor, right: Tensor) -> Tensor:
    """The bounded logit of P(reduce); no gradient goes to the two vectors."""
    inner = module.policy.weight @ torch.cat([left, right]).detach() + module.policy.bias
    gelu = 0.5 * inner * (1 + torch.erf(inner / 2**0.5))
    return 4 * torch.tanh((module.policy_out.weight[0] @ gelu + module.policy_out.bias[0]) / 4)


def shift_reduce(
    module: nn.Module, tokens: list[int], draws: list[float] | None
) -> tuple[Tensor, list[int], list[tuple[Tensor, int]]]:
    """The root of one sentence, its steps, and the logit and action of each choice; greedy without draws."""
    stack: list[Tensor] = []
    waiting = [norm(module.words.norm, module.words.leaf[token]) for token in tokens]
    steps: list[int] = []
    choices: list[tuple[Tensor, int]] = []
    for step in range(2 * len(tokens) - 1):
        action = len(stack) > 1
        if action and waiting:
            z = score(module, stack[-2], stack[-1])
            p = float(z.detach().sigmoid())
            action = p > 0.5 if draws is None else draws[step] < p
            choices.append((z, int(action)))
        if action:
            right, left = stack.pop(), stack.pop()
            stack.append(grc(module.cell, left, right))
        else:
            stack.append(waiting.pop(0))
        steps.append(int(action))
    return stack[0], steps, choices


def logits(module: nn.Module, root: Tensor) -> Tensor:
    words = module.words
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
    module: nn.Module, sentences: list[list[int]], targets: list[int], draws: list[list[list[float] | None]]
) -> tuple[Tensor, Tensor, list[list[int]]]:
    """The losses of the cell and of the policy, with trees `draws[tree][sentence]`; the steps of every tree."""
    told, trees = module.learning, len(draws)
    built = [[shift_reduce(module, words, u) for words, u in zip(sentences, row, strict=True)] for row in draws]
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
    every = [(z, action, advantage[k, b]) for k, b in pairs for z, action in built[k][b][2]]
    for z, action, gain in every:
        p = z.sigmoid()
        chosen = p.log() if action else (1 - p).log()
        kl = p * (p / told.prior).log() + (1 - p) * ((1 - p) / (1 - told.prior)).log()
        likelier = torch.maximum(p, 1 - p).log()
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
