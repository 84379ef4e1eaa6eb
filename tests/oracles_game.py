"""The reference game of one pair, written plainly: torch's own layers, one row for each sample.

First a game is played without gradients, symbol by symbol. Then the loss is computed over whole sequences with torch's
GRU, and torch's optimiser updates the weights. Nothing is shared between samples or between pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pomona.papers.tre_2019.game_rules import ANSWERS, FEATURES, TARGETS, Game, first_weights


class Decoder(nn.Module):
    """A first state, a GRU over symbols, and a layer that produces symbols."""

    def __init__(self, game: Game, inputs: int, vocabulary: int) -> None:
        super().__init__()
        embedded = game.inputs == "embedded"
        self.vocabulary, self.loose = vocabulary, game.loose
        self.first = nn.Linear(inputs, game.hidden)
        self.embedding = nn.Embedding(vocabulary, game.hidden) if embedded else None
        self.gru = nn.GRU(game.hidden if embedded else vocabulary, game.hidden, batch_first=True)
        self.says = nn.Linear(game.hidden, vocabulary)

    def symbols(self, symbols: Tensor) -> Tensor:
        if self.embedding is not None:
            return self.embedding(symbols)
        return nn.functional.one_hot(symbols, self.vocabulary).to(self.first.weight.dtype)

    @torch.no_grad()
    def sample(self, seen: Tensor, chance: Tensor) -> Tensor:
        """Symbols [samples, positions] from random numbers [positions, samples]."""
        state = self.first(seen)[None]
        symbol = torch.full((len(seen),), self.vocabulary - 2)
        said = []
        for drawn in chance:
            output, state = self.gru(self.symbols(symbol)[:, None], state)
            below = torch.softmax(self.says(output[:, 0])[:, : self.vocabulary - 2], 1).cumsum(1)
            symbol = (below < drawn[:, None]).sum(1).clamp(max=self.vocabulary - 3)
            said.append(symbol)
        return torch.stack(said, 1)

    def judge(self, seen: Tensor, said: Tensor) -> tuple[Tensor, Tensor]:
        """The mean over positions of -log p and of the entropy, for each sample."""
        start = torch.full((len(said), 1), self.vocabulary - 2)
        output, _ = self.gru(self.symbols(torch.cat([start, said[:, :-1]], 1)), self.first(seen)[None])
        logits = self.says(output)
        log = torch.log_softmax(logits if self.loose else logits[..., : self.vocabulary - 2], 2)
        surprise = -log.gather(2, said[..., None])[..., 0]
        return surprise.mean(1), -(log.exp() * log).sum(2).mean(1)


class PlainPair(nn.Module):
    """A speaker and a listener, and their optimiser."""

    def __init__(self, game: Game, seed: int, number: int, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.game = game
        self.speaker = Decoder(game, FEATURES.shape[1], game.width)
        if game.baseline == "learned":
            self.expects = nn.Linear(FEATURES.shape[1], 1)
        flat = game.reads == "flat"
        if not flat:
            embedded = game.inputs == "embedded"
            self.embedding = nn.Embedding(game.width, game.hidden) if embedded else None
            self.reader = nn.GRU(game.hidden if embedded else game.width, game.hidden, batch_first=True)
        heard = game.length * game.width if flat else game.hidden
        self.answers = nn.ModuleDict({name: Decoder(game, heard, count + 2) for name, count in ANSWERS.items()})
        self.to(dtype)
        for name, value in first_weights(game, seed, [number]).items():
            with torch.no_grad():
                self.place(name)[:] = torch.as_tensor(value[0].T)
        self.average = 0.0
        self.done = 0
        maker = torch.optim.RMSprop if game.optimiser == "rmsprop" else torch.optim.Adam
        self.optimiser = maker(self.parameters(), lr=game.rate)

    def place(self, name: str) -> Tensor:
        """The torch weight that corresponds to one of ours, transposed to match it."""
        owner, *rest = name.split(".")
        which = ".".join(rest)
        if name.startswith("speaker.expects"):
            return getattr(self.expects, rest[-1])
        module: Any = self if owner == "reader" else self.speaker if owner == "speaker" else self.answers[owner]
        if which == "embedding":
            return module.embedding.weight.T
        if rest[0] in ("first", "says"):
            return getattr(getattr(module, rest[0]), rest[1])
        side = "ih" if rest[0] == "input" else "hh"
        return getattr(self.reader if owner == "reader" else module.gru, f"{rest[1]}_{side}_l0")

    def heard(self, message: Tensor) -> Tensor:
        hot = nn.functional.one_hot(message, self.game.width).to(self.speaker.first.weight.dtype)
        if self.game.reads == "flat":
            return hot.flatten(1)
        return self.reader(hot if self.embedding is None else self.embedding(message))[1][0]

    def step(self, referent: np.ndarray, chance: np.ndarray) -> float:
        """One step on these referents, [batch], with these random numbers, [draws, batch]; returns the mean reward."""
        game, dtype = self.game, self.speaker.first.weight.dtype
        drawn = torch.as_tensor(chance, dtype=dtype)
        features = torch.as_tensor(FEATURES[referent], dtype=dtype)
        message = self.speaker.sample(features, drawn[: game.length])
        with torch.no_grad():
            heard = self.heard(message)
        right = {name: torch.as_tensor(TARGETS[name][referent]) for name in ANSWERS}
        given, reward = {}, torch.zeros(len(referent), dtype=dtype)
        for number, name in enumerate(ANSWERS):
            first = game.length + 2 * number
            given[name] = self.answers[name].sample(heard, drawn[first : first + 2])
            reward += 0.5 * (given[name] == right[name]).to(dtype).mean(1)
        loss = torch.zeros((), dtype=dtype)
        expected: Any = self.average
        if game.baseline == "learned":
            value = self.expects(features)[:, 0]
            loss, expected = loss + nn.functional.mse_loss(value, reward), value.detach()
        surprise, entropy = self.speaker.judge(features, message)
        loss = loss + (surprise * (reward - expected) - game.entropy * entropy).mean()
        for name in ANSWERS:
            taught = right[name] if game.listener == "supervised" else given[name]
            surprise, entropy = self.answers[name].judge(self.heard(message), taught)
            pushed = surprise if game.listener == "supervised" else surprise * (reward - expected)
            loss = loss + (pushed - game.entropy * entropy).mean()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        mean = float(reward.mean())
        self.average = mean if self.done == 0 else 0.9 * self.average + 0.1 * mean
        self.done += 1
        return mean
