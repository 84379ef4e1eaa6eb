"""RL-SPINN (Yogatama et al. 2017; Bowman et al. 2016): a shift-reduce parser that learns from reward alone.

At each step a policy sees the next word b and the two topmost states s1, s2 of the stack, and shifts or reduces:

    pi = softmax((W [b; s1; s2] + w) / T)       where both are possible; otherwise there is no choice and no loss
    loss = cross entropy - weight * mean over choices of (R - V) log pi(action),       R = 1 if the answer is right

as in the ListOps paper, which uses no tracking LSTM. V is a learned value of the sentence, a moving average of the
reward, or the reward of the greedy parse (self-critical). All sentences are parsed at once, on stacks of state numbers:
each step is one compiled loop, and one matrix product for the new states. The sampled trees are then computed height by
height with the TreeLSTM of `pomona.models.layers.tree_lstm`, and all log-probabilities come from the states of that
pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pomona.base.arrays import Bytes, Floats, Ints
from pomona.base.compiled import compiled, fused
from pomona.models.inputs.sentences import Batch
from pomona.models.layers.lstm import LSTM
from pomona.models.layers.tree_lstm import TreeLSTM, node_forward
from pomona.models.model import MODELS, Output, Shape
from pomona.models.sentence_model import SentenceTreeModel

VALUE_WIDTH = 100  # width of the learned baseline, as in the paper's code


@MODELS.add("rl_spinn")
@dataclass(frozen=True)
class RLSPINNModel(SentenceTreeModel):
    """A TreeLSTM over trees sampled from a shift-reduce policy, trained by REINFORCE."""

    gpu = False

    leaf_deviation: float = 0.1  # of the first leaf vectors
    baseline: Literal["learned", "moving_average", "self_critical"] = "learned"  # what the reward is compared with
    momentum: float = 0.1  # of the moving average
    weight: float = 1.0  # of the loss of the policy
    temperature: float = 1.0  # of the policy

    def build(self, shape: Shape) -> nn.Module:
        return RLSPINNModule(self, shape)


@fused
def _step(
    step: int, states: int, start: Ints, tokens: Ints, uniform: Floats, temperature: float, bias: Floats, size: Ints,
    stack: Ints, steps: Bytes, state_at: Ints, projected: Floats, h: Floats, c: Floats, gates: Floats, t: Floats,
) -> int:  # fmt: skip
    """One action of every unfinished sentence; the number of states afterwards. Sentence b has `stack[start[b]:]`."""
    H = h.shape[1]
    for b in range(len(start) - 1):
        length = start[b + 1] - start[b]
        if step >= 2 * length - 1:
            continue
        at = 2 * start[b] - b + step
        mine, high = stack[start[b] : start[b + 1]], size[b, 0]
        action = high > 1
        if action and size[b, 1] < length:
            word = tokens[start[b] + size[b, 1]]
            gain = bias[1] - bias[0]  # of the logit of REDUCE over that of SHIFT
            for part, state in enumerate((word, mine[high - 1], mine[high - 2])):
                gain += projected[state, 10 * H + 2 * part + 1] - projected[state, 10 * H + 2 * part]
            action = uniform[at] * (1 + np.exp(-gain / temperature)) < 1 if len(uniform) else gain > 0
        if action:
            left, right = mine[high - 2], mine[high - 1]
            node_forward(
                projected[left, : 5 * H], projected[right, 5 * H : 10 * H], c[left], c[right],
                gates, h[states], c[states], t,
            )  # fmt: skip
            size[b, 0] = high - 1
            mine[high - 2] = state_at[at] = states
            states += 1
        else:
            mine[high] = state_at[at] = tokens[start[b] + size[b, 1]]
            size[b, 0], size[b, 1] = high + 1, size[b, 1] + 1
        steps[at] = action
    return states


@compiled
def _choices(steps: Bytes, node_at: Ints, tokens: Ints, start: Ints) -> tuple[Any, ...]:
    """The steps with a choice: word, s1 and s2 (nodes of the schedule); the action; the sentence."""
    choices = np.empty((len(steps), 5), np.int64)
    stack = np.empty(len(tokens) + 1, np.int64)
    count = at = 0
    for b in range(len(start) - 1):
        high, token = 0, start[b]
        for _ in range(2 * (start[b + 1] - start[b]) - 1):
            if high > 1 and token < start[b + 1]:
                choices[count, 0], choices[count, 1], choices[count, 2] = (
                    tokens[token],
                    stack[high - 1],
                    stack[high - 2],
                )
                choices[count, 3], choices[count, 4] = steps[at], b
                count += 1
            if steps[at]:
                high -= 2
            else:
                token += 1
            stack[high] = node_at[at]
            high, at = high + 1, at + 1
    return choices[:count, :3].copy(), choices[:count, 3].copy(), choices[:count, 4].copy()


class RLSPINNModule(nn.Module):
    average: Tensor

    def __init__(self, settings: RLSPINNModel, shape: Shape) -> None:
        super().__init__()
        width = settings.size
        self.settings = settings
        self.leaf = nn.Parameter(torch.randn(shape.vocabulary, 2 * width) * settings.leaf_deviation)
        self.cell = TreeLSTM(width)
        self.policy = nn.Parameter(torch.randn(6, width) / (3 * width) ** 0.5)  # two rows each for b, s1, s2
        self.policy_bias = nn.Parameter(torch.zeros(2))
        self.classifier = settings.classifier(width, shape)
        if settings.baseline == "learned":
            self.value = LSTM(shape.vocabulary, width, VALUE_WIDTH)
            self.value_head = nn.Sequential(nn.Linear(VALUE_WIDTH, VALUE_WIDTH), nn.ReLU(), nn.Linear(VALUE_WIDTH, 1))
        elif settings.baseline == "moving_average":
            self.register_buffer("average", torch.zeros(()))

    def forward(self, batch: Batch, random: torch.Generator | None = None) -> Output:
        if not self.training:
            h, steps, state_at, root = self.parse(batch, None)
            return Output(self.classifier(h[root]), batch.trees(steps), h[state_at])
        uniform = torch.rand(len(batch.flat) * 2 - len(batch), generator=random, dtype=self.leaf.dtype)
        _, steps, _, _ = self.parse(batch, uniform)
        schedule = batch.schedule_of(steps)
        nodes = self.cell(schedule, *self.leaf.chunk(2, 1))  # [words + distinct inner nodes, H]
        logits = self.classifier(nodes[schedule.root])
        reward = (logits.detach().argmax(1) == batch.targets).to(logits.dtype)
        expected, penalty = self.expected_reward(batch, reward)
        states, action, sentence = _choices(steps, schedule.node_at, batch.flat, batch.start)
        if len(action):
            chosen = self.log_policy(nodes, torch.from_numpy(states))[torch.arange(len(action)), action]
            penalty = penalty - self.settings.weight * ((reward - expected)[sentence] * chosen).mean()
        return Output(logits, penalty=penalty)

    def log_policy(self, nodes: Tensor, states: Tensor) -> Tensor:
        """log pi of SHIFT and of REDUCE, for rows of (b, s1, s2)."""
        parts = (nodes @ self.policy.t()).view(-1, 3, 2)
        gains = sum((parts[states[:, part], part] for part in range(3)), self.policy_bias)
        return (gains / self.settings.temperature).log_softmax(1)

    def expected_reward(self, batch: Batch, reward: Tensor) -> tuple[Tensor, Tensor]:
        """The baseline V, the reward expected of each sentence, and the loss of learning it."""
        if self.settings.baseline == "learned":
            guess = self.value_head(self.value(batch.flat, batch.start)[batch.start[1:] - 1])[:, 0]
            return guess.detach().sigmoid(), nn.functional.binary_cross_entropy_with_logits(guess, reward)
        if self.settings.baseline == "moving_average":
            expected = self.average.expand(len(batch)).clone()
            self.average += self.settings.momentum * (reward.mean() - self.average)
            return expected, reward.new_zeros(())
        h, _, _, root = self.parse(batch, None)
        with torch.no_grad():
            greedy = self.classifier(h[root]).argmax(1)
        return (greedy == batch.targets).to(reward), reward.new_zeros(())

    @torch.no_grad()
    def parse(
        self, batch: Batch, uniform: Tensor | None
    ) -> tuple[Tensor, Bytes, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Sample a tree for each sentence with the random numbers `uniform`; without them, take the greedy one.

        Returns h of all states, the actions of all sentences, the state that each action made, and the last state of
        each sentence.
        """
        leaf, H, V, start = self.leaf.cpu(), self.cell.width, len(self.leaf), batch.start
        total, inner = 2 * len(batch.flat) - len(batch), len(batch.flat) - len(batch)
        h, c = leaf.new_empty(V + inner, H), leaf.new_empty(V + inner, H)
        projected = leaf.new_empty(V + inner, 10 * H + 6)
        h[:V], c[:V] = leaf.chunk(2, 1)
        weight = torch.cat([self.cell.left, self.cell.right, self.policy]).cpu().t()
        offset = torch.cat([self.cell.bias.cpu(), leaf.new_zeros(5 * H + 6)])
        torch.addmm(offset, h[:V], weight, out=projected[:V])
        draws = (leaf.new_empty(0) if uniform is None else uniform).numpy()
        gates, t = leaf.new_empty(5 * H), leaf.new_empty(H)
        arrays = [x.numpy() for x in (projected, h, c, gates, t)]
        size, stack = np.zeros((len(batch), 2), np.int64), np.empty(len(batch.flat), np.int64)
        steps, state_at = np.zeros(total, np.uint8), np.empty(total, np.int64)
        bias, temperature = self.policy_bias.detach().cpu().numpy(), self.settings.temperature
        states = V
        for step in range(2 * int(np.diff(start).max()) - 1):
            before = states
            states = _step(
                step, states, start, batch.flat, draws, temperature, bias, size, stack, steps, state_at, *arrays
            )
            if states > before:
                torch.addmm(offset, h[before:states], weight, out=projected[before:states])
        return h.to(self.leaf.device), steps, state_at, stack[start[:-1]]
