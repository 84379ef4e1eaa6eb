"""The one door between NumPy and torch: rows of a corpus as tensors, with a schedule for their trees.

    sentences = Sentences.of(corpus, vocabulary, outcomes)     # the corpus in a model's own numbers, once
    for rows in bucketed(sentences.lengths, 64, key):          # batches of like length, in random order
        batch = Batch.of(sentences, rows)
        batch.tokens, batch.lengths, batch.targets             # [batch, length], [batch], [batch]
        batch.schedule                                             # a level schedule over all trees, built when touched

A TreeSchedule computes the trees of a whole batch height by height. Subtrees that are equal (the same children, by number) are
one node, wherever they stand in the batch: values and gradients are those of computing each by itself, for a sixth less
work at 64 examples and half at all. Leaves are the rows of the vocabulary. Nodes of a height are consecutive, and so
are, for each side, those that are some node's child on that side: a projection of a height is one product of matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pomona.base.arrays import Bytes, Ints
from pomona.base.errors import FormatError, RunError
from pomona.data.corpus import Corpus
from pomona.models.inputs.batches import padded
from pomona.models.inputs.schedule import TreeSchedule
from pomona.trees.binary import binarise, from_transitions, transitions
from pomona.trees.forest import Forest, gather


@dataclass(frozen=True, eq=False)
class Sentences:
    """A corpus in the numbers of one model: tokens, answers (-1 where there is none) and binary trees."""

    tokens: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]
    steps: npt.NDArray[np.uint8]  # shift-reduce steps of the gold binary trees, 2n-1 a sentence
    vocabulary: tuple[str, ...]

    @classmethod
    def of(cls, corpus: Corpus, vocabulary: tuple[str, ...], outcomes: Sequence[Any]) -> Sentences:
        """The corpus, which must be classified sentences with one tree each over words the model knows."""
        if not len(corpus):
            raise RunError(f"{corpus!r} is empty: there is nothing to train on or to answer")
        if corpus.width != 1 or corpus.targets.shape[1] != 1:
            raise RunError(f"{corpus!r} has {corpus.width} trees an example; these models read one, with one answer")
        place = {word: number for number, word in enumerate(vocabulary)}
        table = np.array([place.get(word, -1) for word in corpus.vocabulary], np.int64)
        tokens = table[corpus.tokens]
        if tokens.min(initial=0) < 0:
            first = int(np.argmax(tokens < 0))
            row = int(np.searchsorted(corpus.token_start, first, side="right")) - 1
            word = corpus.vocabulary[int(corpus.tokens[first])]
            raise RunError(
                f"row {row} has the token {word!r}, which the model has never seen; it knows {' '.join(vocabulary)}"
            )
        known = {outcome: number for number, outcome in enumerate(outcomes)}
        answers = np.array([*(known.get(outcome, -1) for outcome in corpus.outcomes), -1], np.int64)
        return cls(tokens, corpus.token_start, answers[corpus.targets[:, 0]], cls._binary(corpus), vocabulary)

    @staticmethod
    def _binary(corpus: Corpus) -> npt.NDArray[np.uint8]:
        """Steps of trees whose leaves are the tokens: with brackets as in ListOps, or without."""
        for tokens in (True, False):
            steps, start = transitions(binarise(corpus.forest, tokens=tokens))
            if np.array_equal((np.diff(start) + 1) // 2, corpus.lengths):
                return steps
        raise FormatError("the trees of this corpus do not stand over its tokens")

    def __len__(self) -> int:
        return len(self.targets)

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        return np.diff(self.start)

    @cached_property
    def step_start(self) -> npt.NDArray[np.int64]:
        return 2 * self.start - np.arange(len(self.start))  # 2n-1 steps for n tokens

    def batch(self, rows: Ints, device: torch.device | str = "cpu") -> Batch:
        return Batch.of(self, rows, device)

    def take(self, rows: Ints) -> Sentences:
        start, tokens = gather(self.start, rows)
        _, steps = gather(self.step_start, rows)
        return Sentences(self.tokens[tokens], start, self.targets[rows], self.steps[steps], self.vocabulary)


@dataclass(frozen=True, eq=False)
class Batch:
    """Some sentences side by side; positions behind a sentence's end hold token 0 and must not matter."""

    sentences: Sentences
    rows: npt.NDArray[np.int64]
    tokens: torch.Tensor  # [batch, length], int64
    lengths: torch.Tensor  # [batch], int64
    targets: torch.Tensor  # [batch], int64; -1 where there is no answer

    @classmethod
    def of(cls, sentences: Sentences, rows: Ints, device: torch.device | str = "cpu") -> Batch:
        taken = np.asarray(rows, np.int64)
        lengths = sentences.lengths[taken]
        tokens = padded(sentences.tokens, sentences.start, taken, int(lengths.max(initial=0)))
        return cls(
            sentences,
            taken,
            torch.from_numpy(tokens).to(device),
            torch.from_numpy(lengths).to(device),
            torch.from_numpy(sentences.targets[taken]).to(device),
        )

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        return self.sentences.vocabulary

    @cached_property
    def schedule(self) -> TreeSchedule:
        """The schedule of the gold trees."""
        some = self.sentences
        return TreeSchedule.of(some.steps, some.step_start, some.tokens, some.start, self.rows, len(some.vocabulary))

    @cached_property
    def gold(self) -> Forest:
        """The gold binary trees."""
        _, steps = gather(self.sentences.step_start, self.rows)
        return self.trees(self.sentences.steps[steps])

    @cached_property
    def flat(self) -> npt.NDArray[np.int64]:
        """All tokens, sentence after sentence."""
        return self.sentences.tokens[gather(self.sentences.start, self.rows)[1]]

    @cached_property
    def start(self) -> npt.NDArray[np.int64]:
        """Where each sentence begins in `flat`."""
        return np.concatenate([[0], np.cumsum(self.sentences.lengths[self.rows])])

    def trees(self, steps: Bytes) -> Forest:
        """Trees over these sentences from shift-reduce steps, sentence after sentence."""
        start = 2 * self.start - np.arange(len(self.start))
        return from_transitions(steps, start, self.flat, self.vocabulary)

    def schedule_of(self, steps: Bytes) -> TreeSchedule:
        """The schedule of other trees over the same sentences."""
        start = 2 * self.start - np.arange(len(self.start))
        return TreeSchedule.of(steps, start, self.flat, self.start, np.arange(len(self)), len(self.vocabulary))


# -- which rows together ----------------------------------------------------------------------------------------------


# -- the schedule of many trees ---------------------------------------------------------------------------------------
