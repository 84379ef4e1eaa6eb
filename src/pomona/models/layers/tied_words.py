"""The vectors of words and of answers: an answer that is a word of the task has the word's vector.

    words = Words(settings, shape)        settings: width, tied
    leaves = words()                          LN(E), [words, width]
    words.logits(vectors, leaves)             (tau / D) <vector, e_y>; tied = False: a linear layer

So a vector whose value is 7 is to become the word 7. Answers that are no word have a vector of their own.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from pomona.models.model import Shape

FIRST_TAU = 4.0


class Settings(Protocol):
    """What a model says of its words."""

    @property
    def width(self) -> int: ...

    @property
    def tied(self) -> bool: ...


class Words(nn.Module):
    """The vectors of words and of answers, and what a vector says of the answers."""

    answer_rows: Tensor

    def __init__(self, settings: Settings, shape: Shape) -> None:
        super().__init__()
        self.settings = settings
        self.leaf = nn.Parameter(torch.randn(shape.vocabulary, settings.width))
        self.norm = nn.LayerNorm(settings.width)
        if not settings.tied:
            self.linear = nn.Linear(settings.width, shape.classes)
            return
        place = {word: row for row, word in enumerate(shape.words)}
        rows = [place.get(str(answer), -1) for answer in shape.answers or [None] * shape.classes]
        own = iter(range(shape.vocabulary, shape.vocabulary + shape.classes))
        places = torch.tensor([next(own) if row < 0 else row for row in rows])
        self.register_buffer("answer_rows", places, persistent=False)
        self.tau = nn.Parameter(torch.tensor(FIRST_TAU))
        self.answer = nn.Parameter(torch.randn(rows.count(-1), settings.width)) if -1 in rows else None

    def forward(self) -> Tensor:
        """The vectors of all words, [words, width]."""
        leaves: Tensor = self.norm(self.leaf)
        return leaves

    def logits(self, vectors: Tensor, leaves: Tensor) -> Tensor:
        """[..., width] to [..., classes]; `leaves` are the vectors of all words."""
        if self.settings.tied:
            return self.tau / self.settings.width * vectors @ self.answers(leaves).t()
        logits: Tensor = self.linear(vectors)
        return logits

    def answers(self, leaves: Tensor) -> Tensor:
        """The vectors of the answers, [classes, width]."""
        known = leaves if self.answer is None else torch.cat([leaves, self.norm(self.answer)])
        return known[self.answer_rows]
