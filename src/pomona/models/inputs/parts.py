"""Texts of one part or more, with one question about each part: what models read that go from word to word.

    feed = Parts.of(corpus, vocabulary, outcomes)
    batch = feed.batch(rows)
    batch.flat, batch.start          the words of all parts, one after the other; where each part begins
    batch.number                     the number that each word spells, -1 if it spells none
    batch.targets                    [batch, parts]

Parts are written with the word X between them, as ORCHARD does; a text without it is one part. A word that the model
does not know is `<unk>`, or `<number>` if it spells one, which is known all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pomona.base.arrays import Ints
from pomona.base.errors import RunError
from pomona.data.corpus import Corpus
from pomona.models.inputs.batches import refuse_empty
from pomona.trees.forest import gather
from pomona.trees.values import renumber

BETWEEN = "X"
UNKNOWN, UNKNOWN_NUMBER = "<unk>", "<number>"


def number_of(word: str) -> int:
    """The number that a word spells, -1 if it spells none."""
    return int(word) if word.isascii() and word.isdigit() and len(word) < 10 else -1


def is_number(word: str) -> bool:
    """Whether a word of a vocabulary spells a number."""
    return word == UNKNOWN_NUMBER or number_of(word) >= 0


def with_unknown(words: Sequence[str]) -> tuple[str, ...]:
    """A vocabulary for `Parts`: these words, and those for what is not among them."""
    return (UNKNOWN, UNKNOWN_NUMBER, *(word for word in words if word not in (UNKNOWN, UNKNOWN_NUMBER)))


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of every example, and its answers as positions among the outcomes."""

    words: npt.NDArray[np.int64]  # of all parts
    number: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]  # [examples * parts + 1]
    targets: npt.NDArray[np.int64]  # [examples, parts]

    @classmethod
    def of(cls, corpus: Corpus, vocabulary: tuple[str, ...], outcomes: tuple[Any, ...]) -> Parts:
        refuse_empty(corpus)
        count = corpus.targets.shape[1]
        between = np.array([word == BETWEEN for word in corpus.vocabulary]) & (count > 1)
        cut = between[corpus.tokens]
        example = np.repeat(np.arange(len(corpus)), corpus.lengths)
        found = np.bincount(example[cut], minlength=len(corpus)) + 1
        if np.any(found != count):
            row = int(np.argmax(found != count))
            raise RunError(
                f"row {row} of {corpus!r} has {found[row]} part{'s' if found[row] > 1 else ''} between {BETWEEN!r} and "
                f"{count} answers; this model answers one question about each part"
            )
        part = example * count + np.cumsum(cut) - example * (count - 1)  # every example has count - 1 cuts
        start = np.concatenate([[0], np.cumsum(np.bincount(part[~cut], minlength=len(corpus) * count))])
        if np.any(np.diff(start) == 0):
            row = int(np.argmax(np.diff(start) == 0)) // count
            raise RunError(f"row {row} of {corpus!r} has an empty part; every part needs at least one word")
        words = renumber(corpus.tokens, corpus.vocabulary, vocabulary)
        number = np.array([number_of(word) for word in corpus.vocabulary], np.int64)[corpus.tokens]
        unknown = [vocabulary.index(word) for word in (UNKNOWN, UNKNOWN_NUMBER)]
        words = np.where(words < 0, np.where(number < 0, *unknown), words)
        targets = renumber(corpus.targets, corpus.outcomes, outcomes)
        return cls(words[~cut], number[~cut], start, targets)

    def __len__(self) -> int:
        return len(self.targets)

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The words of each example."""
        return np.diff(self.start[:: self.targets.shape[1]])

    def batch(self, rows: Ints, device: torch.device | str = "cpu") -> PartsBatch:
        taken = np.asarray(rows, np.int64)
        count = self.targets.shape[1]
        start, places = gather(self.start, (taken[:, None] * count + np.arange(count)).ravel())
        targets = torch.from_numpy(self.targets[taken]).to(device)
        return PartsBatch(taken, self.words[places], self.number[places], start, targets)


@dataclass(frozen=True, eq=False)
class PartsBatch:
    """The parts of some examples, one after the other."""

    rows: npt.NDArray[np.int64]
    flat: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]  # [batch * parts + 1]
    targets: Tensor  # [batch, parts]

    def __len__(self) -> int:
        return len(self.rows)
