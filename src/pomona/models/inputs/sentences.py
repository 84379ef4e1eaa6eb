"""Classified sentences in the numbers of a model: tokens, answers and gold trees, and batches of them as tensors.

sentences = Sentences.of(corpus, vocabulary, outcomes)     # the whole corpus, once
for rows in bucketed(sentences.lengths, 64, key):          # `pomona.models.inputs.batches`
    batch = sentences.batch(rows)
    batch.tokens, batch.lengths, batch.targets             # [batch, length], [batch], [batch]
    batch.schedule                                         # the order of computing the gold trees, built if used
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
from pomona.models.inputs.batches import padded, refuse_empty
from pomona.models.inputs.schedule import ParsedSentences, TreeSchedule
from pomona.trees.binary import binarise, from_transitions, transitions
from pomona.trees.forest import Forest, gather
from pomona.trees.values import renumber


@dataclass(frozen=True, eq=False)
class Sentences:
    """A corpus in the numbers of one model: tokens, answers (-1 where there is none) and binary trees."""

    tokens: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]
    steps: npt.NDArray[np.uint8]  # shift-reduce steps of the gold binary trees, 2n-1 for n tokens
    vocabulary: tuple[str, ...]

    @classmethod
    def of(cls, corpus: Corpus, vocabulary: tuple[str, ...], outcomes: Sequence[Any]) -> Sentences:
        """The corpus, which must be classified sentences with one tree each over words that the model knows."""
        refuse_empty(corpus)
        if corpus.width != 1 or corpus.targets.shape[1] != 1:
            raise RunError(f"{corpus!r} has {corpus.width} trees an example; these models read one, with one answer")
        tokens = renumber(corpus.tokens, corpus.vocabulary, vocabulary)
        if tokens.min(initial=0) < 0:
            first = int(np.argmax(tokens < 0))
            row = int(np.searchsorted(corpus.token_start, first, side="right")) - 1
            word = corpus.vocabulary[int(corpus.tokens[first])]
            raise RunError(
                f"row {row} has the token {word!r}, which the model has never seen; it knows {' '.join(vocabulary)}. "
                "Train a model on a corpus that has this word"
            )
        targets = renumber(corpus.targets[:, 0], corpus.outcomes, outcomes)
        return cls(tokens, corpus.token_start, targets, cls._binary(corpus), vocabulary)

    @staticmethod
    def _binary(corpus: Corpus) -> npt.NDArray[np.uint8]:
        """The steps of binary trees whose leaves are the tokens, with brackets as in ListOps or without."""
        for tokens in (True, False):
            steps, start = transitions(binarise(corpus.forest, tokens=tokens))
            if np.array_equal((np.diff(start) + 1) // 2, corpus.lengths):
                return steps
        raise FormatError("the leaves of the trees of this corpus are not its tokens, with or without brackets")

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


@dataclass(frozen=True, eq=False)
class Batch:
    """Some sentences side by side; positions behind the end of a sentence hold token 0 and must have no effect."""

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
        whole = self.sentences
        parsed = ParsedSentences(whole.steps, whole.step_start, whole.tokens, whole.start)
        return TreeSchedule.of(parsed, self.rows, len(whole.vocabulary))

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

    @cached_property
    def step_start(self) -> npt.NDArray[np.int64]:
        """Where the steps of each sentence begin: 2n-1 for n tokens."""
        return 2 * self.start - np.arange(len(self.start))

    def trees(self, steps: Bytes) -> Forest:
        """The trees over these sentences that shift-reduce steps build, sentence after sentence."""
        return from_transitions(steps, self.step_start, self.flat, self.vocabulary)

    def schedule_of(self, steps: Bytes) -> TreeSchedule:
        """The schedule of other trees over the same sentences."""
        parsed = ParsedSentences(steps, self.step_start, self.flat, self.start)
        return TreeSchedule.of(parsed, np.arange(len(self)), len(self.vocabulary))
