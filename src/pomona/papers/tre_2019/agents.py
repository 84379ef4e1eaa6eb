"""Speaker-listener pairs of the reference game, all trained in one computation.

    pairs = AgentPairs.fresh(READINGS["code"], seed=0, numbers=range(100))
    pairs.step()                                  # one policy-gradient step of all hundred
    pairs.languages().messages                    # [100, 48, 4], greedy

Every weight has a leading axis for the pair. Two exact facts save most of the work. First, a state depends only on the
referent and the symbols so far, so samples of a pair that agree in these share a row. Second, the largest product of a
GRU step, state times recurrent weights, does not depend on the new symbol, so it is computed before the rows branch.
The loss uses the states computed while sampling, so nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from pomona.papers.tre_2019.game_rules import (
    ANSWERS,
    FEATURES,
    REFERENTS,
    TARGETS,
    Game,
    Languages,
    first_weights,
    trained_on,
    uniforms,
)

Parameters = dict[str, Tensor]
AVERAGE = 0.9  # the share of the running mean of the reward that is kept at each step
BETAS, EPSILON, DECAY = (0.9, 0.999), 1e-8, 0.99  # torch's defaults for Adam and RMSprop


# -- rows shared by samples -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rows:
    """Which rows belong to which pair. The rows of all pairs are in one table, those of a pair next to each other."""

    owner: Tensor  # [rows]
    first: tuple[int, ...]  # [pairs + 1]

    @classmethod
    def of(cls, owner: Tensor, pairs: int) -> Rows:
        counts = torch.bincount(owner, minlength=pairs).cumsum(0)
        return cls(owner, (0, *counts.tolist()))


class _Product(torch.autograd.Function):
    """rows @ weight[pair] + bias[pair], each row with the weights of its own pair.

    The backward pass adds to the weights' `.grad` in place; otherwise torch would allocate and add an array as large as
    all weights for every product. Pairs have different numbers of rows, so this is one product for each pair instead
    of a padded `bmm`.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, first: tuple[int, ...]) -> Tensor:
        out = inputs.new_empty(len(inputs), weight.shape[2])
        for pair, (low, high) in enumerate(pairwise(first)):
            torch.addmm(bias[pair], inputs[low:high], weight[pair], out=out[low:high])
        ctx.save_for_backward(inputs, weight, bias)
        ctx.first = first
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None, None]:
        inputs, weight, bias = ctx.saved_tensors
        below = torch.empty_like(inputs) if ctx.needs_input_grad[0] else None
        for pair, (low, high) in enumerate(pairwise(ctx.first)):
            part = grad[low:high]
            weight.grad[pair].addmm_(inputs[low:high].T, part)
            bias.grad[pair].add_(part.sum(0))
            if below is not None:
                torch.mm(part, weight[pair].T, out=below[low:high])
        return below, None, None, None


def product(weights: Parameters, name: str, inputs: Tensor, rows: Rows) -> Tensor:
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    result: Tensor = _Product.apply(inputs, weight, bias, rows.first)  # type: ignore[no-untyped-call]
    return result


def take(table: Tensor, index: Tensor) -> Tensor:
    """table[index], with a fast backward pass."""
    return table.index_select(0, index.ravel()).reshape(*index.shape, *table.shape[1:])


class Gru:
    """A GRU over rows that branch. `lift` is the large product before branching; `step` then feeds in a symbol."""

    def __init__(self, weights: Parameters, name: str) -> None:
        self.weights, self.name = weights, name
        table, bias = weights[f"{name}.input.weight"], weights[f"{name}.input.bias"][:, None]
        if f"{name}.embedding" in weights:
            table = torch.bmm(weights[f"{name}.embedding"], table)
        self.symbols = table.shape[1]
        self.seen = (table + bias).flatten(0, 1)  # [pairs * symbols, 3 * hidden]

    def lift(self, state: Tensor, rows: Rows) -> Tensor:
        return product(self.weights, f"{self.name}.state", state, rows)

    def step(self, state: Tensor, lifted: Tensor, symbol: Tensor, rows: Rows) -> Tensor:
        seen = take(self.seen, rows.owner * self.symbols + symbol)
        size = state.shape[1]
        (seen_gates, seen_new), (lifted_gates, lifted_new) = (
            torch.split(x, [2 * size, size], 1) for x in (seen, lifted)
        )
        reset, keep = torch.sigmoid(seen_gates + lifted_gates).chunk(2, 1)
        new = torch.tanh(torch.addcmul(seen_new, reset, lifted_new))
        return torch.lerp(new, state, keep)

    def branch(self, state: Tensor, rows: Rows, path: Tensor) -> tuple[Tensor, Rows, Tensor]:
        """One step for each distinct path, coded as row * symbols + symbol; also returns the new row of each path."""
        lifted = self.lift(state, rows)
        paths, where = torch.unique(path, return_inverse=True)
        parent = torch.div(paths, self.symbols, rounding_mode="floor")
        below = Rows.of(rows.owner[parent], len(rows.first) - 1)
        return self.step(take(state, parent), take(lifted, parent), paths % self.symbols, below), below, where


# -- one game -------------------------------------------------------------------------------------------------------


@dataclass
class Said:
    """One sequence produced for every sample, and what the loss needs from it, [pairs, samples]."""

    symbols: list[Tensor]
    surprise: Tensor  # mean over positions of -log p
    entropy: Tensor  # mean over positions


def choose(logits: Tensor, chance: Tensor | None) -> Tensor:
    """A symbol for each sample, [pairs, samples], from [pairs, samples, symbols]: sampled, or the most likely."""
    if chance is None:
        return logits.argmax(2)
    below = torch.softmax(logits, 2).cumsum(2)
    return (below < chance[..., None]).sum(2).clamp_(max=logits.shape[2] - 1)


class Player:
    """The agents of all pairs, with their present weights."""

    def __init__(self, game: Game, weights: Parameters) -> None:
        self.game, self.weights = game, weights
        names = ("speaker", *ANSWERS) if game.reads == "flat" else ("speaker", "reader", *ANSWERS)
        self.gru = {name: Gru(weights, name) for name in names}
        self.like = weights["speaker.first.bias"]

    def say(
        self,
        name: str,
        state: Tensor,
        rows: Rows,
        where: Tensor,
        positions: int,
        chance: Sequence[Tensor] | None,
        taught: Sequence[Tensor] | None = None,
    ) -> Said:
        """Let a decoder produce `positions` symbols. With `taught`, the loss is about those, and they are fed back.

        `state` holds the distinct rows and `where` the row of each sample, [pairs, samples].
        """
        gru = self.gru[name]
        free = gru.symbols - 2  # start and padding come last and are never produced
        said: list[Tensor] = []
        surprise, entropy = torch.zeros_like(where, dtype=state.dtype), torch.zeros_like(where, dtype=state.dtype)
        state = gru.step(state, gru.lift(state, rows), torch.full_like(rows.owner, free), rows)  # the start symbol
        sampled = where  # the row of each sample's own symbols; `where` is the row of what it was taught
        for position in range(positions):
            logits = product(self.weights, f"{name}.says", state, rows)
            with torch.no_grad():
                said.append(choose(take(logits, sampled)[..., :free], None if chance is None else chance[position]))
            target = said[position] if taught is None else taught[position]
            log = torch.log_softmax(logits if self.game.loose else logits[:, :free], 1)
            surprise = surprise - take(log, where).gather(2, target[..., None])[..., 0]
            entropy = entropy - take((log.exp() * log).sum(1), where)
            if position + 1 < positions:
                paths = torch.stack([where * gru.symbols + target, sampled * gru.symbols + said[position]])
                state, rows, (where, sampled) = gru.branch(state, rows, paths)
        return Said(said, surprise / positions, entropy / positions)

    def speak(self, referent: Tensor, chance: Sequence[Tensor] | None) -> Said:
        """Messages about referents, [pairs, samples]."""
        rows, (which,), where = self._distinct([referent], len(REFERENTS))
        features = torch.as_tensor(FEATURES).to(self.like)[which]
        state = product(self.weights, "speaker.first", features, rows)
        return self.say("speaker", state, rows, where, self.game.length, chance)

    def hear(self, message: Sequence[Tensor]) -> tuple[Tensor, Rows, Tensor]:
        """The input of the listener's decoders for every distinct message, its rows, and each sample's row."""
        rows, symbols, where = self._distinct(message, self.game.symbols)
        return (self._flat if self.game.reads == "flat" else self._recurrent)(symbols, rows), rows, where

    def _distinct(self, columns: Sequence[Tensor], most: int) -> tuple[Rows, list[Tensor], Tensor]:
        """The distinct rows of each pair's samples (column values below `most`), their columns, each sample's row."""
        pairs = len(columns[0])
        key = torch.arange(pairs, device=self.like.device)[:, None]
        for column in columns:
            key = key * most + column
        keys, where = torch.unique(key, return_inverse=True)
        values = [keys // most**position % most for position in reversed(range(len(columns)))]
        return Rows.of(keys // most ** len(columns), pairs), values, where

    def _flat(self, symbols: Sequence[Tensor], rows: Rows) -> Tensor:
        hot = torch.nn.functional.one_hot(torch.stack(list(symbols), 1), self.game.width)
        return hot.flatten(1).to(self.like.dtype)

    def _recurrent(self, symbols: Sequence[Tensor], rows: Rows) -> Tensor:
        """The last state of a GRU that starts at zero; messages with a common prefix share rows."""
        gru, pairs = self.gru["reader"], len(rows.first) - 1
        state = self.like.new_zeros(pairs, self.game.hidden)
        here, where = Rows.of(torch.arange(pairs, device=self.like.device), pairs), rows.owner
        for symbol in symbols:
            state, here, where = gru.branch(state, here, where * gru.symbols + symbol)
        return take(state, where)

    def play(self, referent: Tensor, chance: Tensor | None) -> tuple[Said, dict[str, Said], Tensor]:
        """Play one game for every sample: message, answers and reward. `chance` is [pairs, draws, samples]."""
        length = self.game.length
        drawn = None if chance is None else list(chance.unbind(1))
        message = self.speak(referent, None if drawn is None else drawn[:length])
        heard, rows, where = self.hear(message.symbols)
        answers, reward = {}, torch.zeros_like(message.surprise)
        for number, name in enumerate(ANSWERS):
            right = [torch.as_tensor(column, device=referent.device)[referent] for column in TARGETS[name].T]
            draws = None if drawn is None else drawn[length + 2 * number : length + 2 * number + 2]
            taught = right if self.game.listener == "supervised" else None
            state = product(self.weights, f"{name}.first", heard, rows)
            answers[name] = self.say(name, state, rows, where, 2, draws, taught)
            for answer, wanted in zip(answers[name].symbols, right, strict=True):
                reward = reward + 0.25 * (answer == wanted)
        return message, answers, reward

    def losses(self, referent: Tensor, chance: Tensor, average: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of each pair, [pairs], and its rewards, [pairs, samples].

        The speaker's loss is the surrogate of the policy gradient (REINFORCE, Williams 1992) with a baseline.
        """
        message, answers, reward = self.play(referent, chance)
        reward = reward.detach()
        expected, lost = average[:, None], torch.zeros_like(average)
        if self.game.baseline == "learned":
            features = torch.as_tensor(FEATURES).to(self.like)[referent]
            expected = torch.baddbmm(
                self.weights["speaker.expects.bias"][:, None], features, self.weights["speaker.expects.weight"]
            )[..., 0]
            lost = ((expected - reward) ** 2).mean(1)
        gain = reward - expected.detach()
        lost = lost + (message.surprise * gain - self.game.entropy * message.entropy).mean(1)
        for answer in answers.values():
            pushed = answer.surprise if self.game.listener == "supervised" else answer.surprise * gain
            lost = lost + (pushed - self.game.entropy * answer.entropy).mean(1)
        return lost, reward


# -- training -------------------------------------------------------------------------------------------------------


class AgentPairs:
    """Pairs in training: weights, the optimiser's state, and the number of steps done."""

    def __init__(
        self,
        game: Game,
        seed: int,
        numbers: Sequence[int],
        weights: Parameters,
        memory: Parameters,
        average: Tensor,
        done: int = 0,
    ) -> None:
        self.game, self.seed, self.numbers, self.done = game, seed, list(numbers), done
        self.weights, self.memory, self.average = weights, memory, average
        for weight in weights.values():
            weight.requires_grad_()
        self.trained = torch.as_tensor(trained_on(seed, self.numbers), device=average.device)

    @classmethod
    def fresh(
        cls,
        game: Game,
        seed: int,
        numbers: Sequence[int],
        *,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> AgentPairs:
        """Pairs before their first step. A pair's number and the seed determine all its random numbers."""
        drawn = first_weights(game, seed, list(numbers))
        weights = {name: torch.as_tensor(value).to(device, dtype) for name, value in drawn.items()}
        moments = ("square",) if game.optimiser == "rmsprop" else ("mean", "square")
        memory = {f"{name}/{moment}": torch.zeros_like(weights[name]) for name in weights for moment in moments}
        return cls(
            game, seed, numbers, weights, memory, torch.zeros(len(drawn["speaker.first.bias"])).to(device, dtype)
        )

    def step(self) -> Tensor:
        """Train every pair on one batch of its own training referents; returns the mean rewards."""
        referent, chance = self.draw()
        lost, reward = Player(self.game, self.weights).losses(referent, chance, self.average)
        for weight in self.weights.values():
            weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad.zero_()
        lost.sum().backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for name, weight in self.weights.items():
                self._move(name, weight, cast(Tensor, weight.grad))
            mean = reward.mean(1)
            self.average = mean if self.done == 0 else AVERAGE * self.average + (1 - AVERAGE) * mean
        self.done += 1
        return mean

    def draw(self) -> tuple[Tensor, Tensor]:
        """The referents of the next batch, [pairs, batch], and its random numbers, [pairs, draws, batch]."""
        draws = 1 + self.game.length + 2 * len(ANSWERS)
        drawn = uniforms(("step", self.seed, self.done), self.numbers, draws * self.game.batch)
        table = torch.as_tensor(drawn.reshape(len(self.numbers), draws, self.game.batch), device=self.average.device)
        index = (table[:, 0] * self.trained.shape[1]).long()
        return self.trained.gather(1, index), table[:, 1:].to(self.average.dtype)

    def _move(self, name: str, weight: Tensor, gradient: Tensor) -> None:
        """One step of torch's RMSprop or Adam, in place."""
        square = self.memory[f"{name}/square"]
        if self.game.optimiser == "rmsprop":
            square.mul_(DECAY).addcmul_(gradient, gradient, value=1 - DECAY)
            weight.addcdiv_(gradient, square.sqrt().add_(EPSILON), value=-self.game.rate)
            return
        mean, count = self.memory[f"{name}/mean"], self.done + 1
        mean.lerp_(gradient, 1 - BETAS[0])
        square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        size = (square / (1 - BETAS[1] ** count)).sqrt_().add_(EPSILON)
        weight.addcdiv_(mean, size, value=-self.game.rate / (1 - BETAS[0] ** count))

    @torch.no_grad()
    def languages(self) -> Languages:
        """Greedy messages and rewards for all 48 referents."""
        pairs = len(self.numbers)
        everything = torch.arange(len(REFERENTS), device=self.average.device).expand(pairs, -1)
        message, _, reward = Player(self.game, self.weights).play(everything, None)
        trained = np.zeros((pairs, len(REFERENTS)), bool)
        np.put_along_axis(trained, self.trained.cpu().numpy(), True, 1)
        return Languages(torch.stack(message.symbols, 2).cpu().numpy(), reward.double().cpu().numpy(), trained)
