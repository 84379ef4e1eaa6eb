"""LSTM with word-by-word attention (Rocktaeschel et al. 2015, equations 11 to 14; Geiger et al. 2019, section 5).

    M_t = tanh(W_y Y + (W_h h_t + W_r r_{t-1}) e)        Y: the premise's states, h_t: the hypothesis at word t
    a_t = softmax(w M_t)       r_t = Y a_t + tanh(W_t r_{t-1})       pair = tanh(W_p r_L + W_x h_L)

The hypothesis is read by a second LSTM that begins with the last cell state of the premise. All twelve parts are read
at once, the longest first, so a step is one product over the parts that have not ended. With a premise of one word,
attention has no choice: a_1 = 1 and r_1 = Y.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pomona.models.inputs.pairs import SPANS, PairBatch
from pomona.models.layers.dropout import bernoulli_dropped
from pomona.models.layers.pair_heads import Heads, Words
from pomona.models.model import MODELS, Shape
from pomona.models.pair_model import PairModel, PairModule, Parts


@MODELS.add("attention_lstm")
@dataclass(frozen=True)
class AttentionLSTM(PairModel):
    """An LSTM over the hypothesis that attends to the premise at every word."""

    def build(self, shape: Shape) -> nn.Module:
        return AttentionModule(self, shape)


class Reader(nn.Module):
    """An LSTM over parts, from the longest to the shortest; forget gates start open."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.input = nn.Parameter(torch.empty(4 * width, width).uniform_(-1, 1) / math.sqrt(width))
        self.state = nn.Parameter(torch.empty(4 * width, width).uniform_(-1, 1) / math.sqrt(width))
        self.bias = nn.Parameter(torch.zeros(4 * width))
        with torch.no_grad():
            self.bias[width : 2 * width] = 1

    def forward(
        self, table: Tensor, steps: Sequence[Tensor], c: Tensor | None, dropout: float, random: torch.Generator | None
    ) -> tuple[list[Tensor], Tensor]:
        """The states after each step, and the last cell state of every part.

        `steps` has the words of each step, and c the first cell states.
        """
        gates = table @ self.input.t() + self.bias  # [words, 4 width]: what a word adds
        states, ended = [], []
        h: Tensor | None = None
        for number, words in enumerate(steps):
            z = nn.functional.embedding(words, gates)
            z = z if h is None else z + bernoulli_dropped(h[: len(words)], dropout, random) @ self.state.t()
            i, f, o, u = z.chunk(4, 1)
            c = i.sigmoid() * u.tanh() if c is None else f.sigmoid() * c[: len(words)] + i.sigmoid() * u.tanh()
            h = o.sigmoid() * c.tanh()
            states.append(h)
            longer = len(steps[number + 1]) if number + 1 < len(steps) else 0
            ended.append(c[longer:])  # of the parts that end with this word
        return states, torch.cat(ended[::-1])


class AttentionModule(PairModule):
    def __init__(self, settings: AttentionLSTM, shape: Shape) -> None:
        super().__init__(settings)
        width = settings.width
        self.word = Words(settings, shape)
        self.premise, self.hypothesis = Reader(width), Reader(width)
        self.w_y, self.w_h, self.w_r, self.w_t, self.w_p, self.w_x = (
            nn.Parameter(torch.randn(width, width) / math.sqrt(width)) for _ in range(6)
        )
        self.w = nn.Parameter(torch.randn(width) / math.sqrt(width))
        self.heads = Heads(settings, width)

    def answers(self, batch: PairBatch, random: torch.Generator | None) -> Parts:
        kinds = self.kinds()[::-1]  # from the sentence to the words, so from long to short
        parts = {kind: _tokens(batch, kind) for kind in kinds}  # each [2, rows, length]
        lengths = [part.shape[2] for part in parts.values()]
        sides = [
            [
                torch.cat([part[side, :, step] for part in parts.values() if part.shape[2] > step])
                for step in range(max(lengths))
            ]
            for side in (0, 1)
        ]
        dropout, table = self.settings.dropout, self.word.vectors
        premises, cell = self.premise(table, sides[0], None, dropout, random)
        hypotheses, _ = self.hypothesis(table, sides[1], cell, dropout, random)
        vectors: Parts = {}
        first = 0
        for kind, part in parts.items():
            rows, length = part.shape[1:]
            Y, H = (
                torch.stack([state[first : first + rows] for state in states[:length]], 1)
                for states in (premises, hypotheses)
            )
            vectors[kind] = self._attended(Y, H)
            if kind not in batch.words:
                vectors[kind] = vectors[kind].view(len(SPANS[kind]), len(batch), -1)
            first += rows
        answers: Parts = self.heads(vectors, random)
        return answers

    def _attended(self, Y: Tensor, H: Tensor) -> Tensor:
        """[rows, width] from the states of premise and hypothesis, [rows, length, width] each."""
        length = Y.shape[1]
        r = Y[:, 0]
        if length > 1:
            from_y, from_h = Y @ self.w_y.t(), H @ self.w_h.t()
            r = torch.zeros_like(r)
            for step in range(length):
                M = (from_y + (from_h[:, step] + r @ self.w_r.t())[:, None]).tanh()
                share = (M @ self.w).softmax(1)  # [rows, length]
                r = (share[:, None] @ Y)[:, 0] + (r @ self.w_t.t()).tanh()
        return (r @ self.w_p.t() + H[:, -1] @ self.w_x.t()).tanh()


def _tokens(batch: PairBatch, kind: str) -> Tensor:
    """[2, rows, length]: the words of the parts of one kind, in premises and in hypotheses."""
    if kind in batch.words:
        return torch.stack([batch.words[kind].premise, batch.words[kind].hypothesis])[:, :, None]
    return torch.cat([batch.tokens[:, :, first:last] for first, last in SPANS[kind]]).transpose(0, 1)
