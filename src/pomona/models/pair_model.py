"""What the models of sentence pairs share: their settings, and the loss over the twelve questions.

A model of pairs is a PairModel, and its module a PairModule that defines `answers`: logits for every kind of question
that `pomona.models.inputs.pairs` describes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import torch
from torch import Tensor, nn

from pomona.base.errors import SpecError
from pomona.data.corpus import Corpus
from pomona.models.inputs.pairs import ANSWERS, ASKED, PairBatch, SentencePairs, evidence_of_split
from pomona.models.model import Model, Output
from pomona.tasks.fair_nli.logic.fragment import TARGETS

Activation = Literal["relu", "tanh"]
Inner = Literal["hidden", "softmax"]
Parts = dict[str, Tensor]  # by kind of part

WEIGHTS: Final = (1 / 6, 1 / 6, 1 / 3, 0.8, 0.8, 1.0)
"""How much an error counts, by kind, as in the authors' later code; the paper gives no numbers."""


@dataclass(frozen=True)
class PairModel(Model):
    """Settings that all models of pairs have."""

    example = "fair_nli/hardest"

    width: int = 100  # of the word vectors and of the vectors computed from them
    hidden: int = 100  # units of each of the two hidden layers before the softmax
    activation: Activation = "relu"  # between layers
    dropout: float = 0.0  # share of the units left out in training
    intermediate: bool = True  # train on all twelve questions, or on the label alone
    inner: Inner = "hidden"  # what answers the eleven other questions: the hidden layers too, or a softmax alone
    start: float = 0.3  # standard deviation of the first word vectors
    weights: tuple[float, ...] = WEIGHTS  # in the loss: of modifiers, heads, phrases, object, negated, label

    def __post_init__(self) -> None:
        if len(self.weights) != len(ASKED) or min(self.weights) < 0 or self.weights[-1] <= 0:
            raise SpecError(
                f"weights = {self.weights}: must be one number, 0 or more, for each of {', '.join(ASKED)}; the last "
                "must be above 0"
            )
        if not 0 <= self.dropout < 1:
            raise SpecError(f"dropout = {self.dropout}: must be at least 0 and below 1")
        if not 0 < self.start < math.inf:
            raise SpecError(f"start = {self.start}: must be a standard deviation above 0")
        if self.activation not in ("relu", "tanh"):
            raise SpecError(f"activation = {self.activation!r}: must be 'relu' or 'tanh'")
        if self.inner not in ("hidden", "softmax"):
            raise SpecError(f"inner = {self.inner!r}: must be 'hidden' or 'softmax'")

    def words(self, corpus: Corpus) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        return corpus.vocabulary, ANSWERS["label"]

    def read(self, corpus: Corpus, vocabulary: tuple[str, ...], outcomes: tuple[Any, ...]) -> SentencePairs:
        return SentencePairs.of(corpus, vocabulary, outcomes)

    def evidence(self, train: Corpus, dev: Corpus) -> dict[str, Any]:
        return evidence_of_split(train, dev)


class PairModule(nn.Module):
    """A module that reads pairs. A model adds `answers`, the logits of every kind of question."""

    def __init__(self, settings: PairModel) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, batch: PairBatch, random: torch.Generator | None = None) -> Output:
        answers = self.answers(batch, random if self.training else None)
        return Output(answers["label"][0], loss=self.loss(batch, answers) if self.training else None)

    def answers(self, batch: PairBatch, random: torch.Generator | None) -> Parts:
        """The logits of the questions that are asked, [slots, batch, classes].

        For kinds of words, whose answers do not depend on the slot, [pairs, classes] is enough.
        """
        raise NotImplementedError

    def loss(self, batch: PairBatch, answers: Parts) -> Tensor:
        """The weighted sum of the twelve cross entropies, averaged over pairs and questions."""
        total = answers["label"].new_zeros(())
        for kind in self.kinds():
            logits, classes = answers[kind], batch.classes(kind, answers[kind])
            each = nn.functional.cross_entropy(
                logits.flatten(0, -2), classes.flatten(), ignore_index=-1, reduction="none"
            )
            if logits.ndim == 2:
                each = each * batch.words[kind].count
            total = total + self.settings.weights[list(ASKED).index(kind)] * each.sum()
        return total / (len(batch) * len(TARGETS))

    def kinds(self) -> tuple[str, ...]:
        """The kinds of questions that are asked: in training only those that count."""
        if self.training and not self.settings.intermediate:
            return ("label",)
        weights = zip(ASKED, self.settings.weights, strict=True)
        return tuple(kind for kind, weight in weights if weight or not self.training)


def node_accuracy(module: PairModule, feed: SentencePairs, *, size: int = 1024) -> dict[str, float]:
    """The accuracy on each of the twelve questions, by the name of the node; `size` pairs are answered at a time."""
    module.eval()
    right = dict.fromkeys(TARGETS, 0)
    with torch.no_grad():
        for first in range(0, len(feed), size):
            batch = feed.batch(np.arange(first, min(first + size, len(feed))))
            for kind, logits in module.answers(batch, None).items():
                equal = logits.argmax(-1) == batch.classes(kind, logits)
                equal = equal[batch.words[kind].where] if logits.ndim == 2 else equal
                for node, number in zip(ASKED[kind], equal.sum(1).tolist(), strict=True):
                    right[node] += number
    return {node: number / len(feed) for node, number in right.items()}
