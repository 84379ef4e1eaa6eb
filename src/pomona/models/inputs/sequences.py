"""A corpus as sequences of tokens with one answer for each tree: what models without structure are given.

    feed = Sequences.of(corpus, vocabulary, outcomes)
    batch = feed.batch(rows)
    batch.tokens, batch.lengths, batch.targets       [batch, length], [batch], [batch, answers]
    batch.lists, batch.values                        [lists, 2], [lists]: row and first token of every list, its value

A vocabulary begins with four words of the model's own: `<pad>` behind the end, `<bos>` and `<eos>`, and `<unk>` for a
word that training never showed (in ORCHARD an argument of COPY that is too large). Every sequence ends in `<eos>`.
Outcomes end in MALFORMED, which is never right: a model that writes its answer may write something that is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled
from pomona.base.errors import RunError
from pomona.data.corpus import Corpus
from pomona.models.inputs.sentences import padded
from pomona.models.model import Model
from pomona.trees.forest import gather
from pomona.trees.values import renumber

SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")
PAD, BOS, EOS, UNKNOWN = range(len(SPECIAL))
MALFORMED = "malformed"
LONGEST = 4_000  # tokens; attention takes memory by the square of it


def words_of(corpus: Corpus) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """The vocabulary and the outcomes of a model that is trained on this corpus: the words that occur in it."""
    used = [corpus.vocabulary[token] for token in np.unique(corpus.tokens).tolist()]
    answers = [corpus.outcomes[answer] for answer in np.unique(corpus.values).tolist() if answer >= 0]
    return (*SPECIAL, *used), (*answers, MALFORMED)


@dataclass(frozen=True, eq=False)
class Sequences:
    """The tokens of every example, and its answers as positions among the outcomes."""

    tokens: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]  # [examples, trees]
    heads: npt.NDArray[np.int64]  # [examples, trees]: where each tree begins in its sequence
    nesting: npt.NDArray[np.int64]  # [examples]: the most brackets that are open at once
    list_start: npt.NDArray[np.int64]  # [examples + 1]: where the lists of each begin
    opened: npt.NDArray[np.int64]  # [lists]: where each opens in its sequence, in the order in which they close
    values: npt.NDArray[np.int64]  # [lists]: positions among the outcomes, -1 where there is none

    @classmethod
    def of(cls, corpus: Corpus, vocabulary: tuple[str, ...], outcomes: tuple[Any, ...]) -> Sequences:
        if not len(corpus):
            raise RunError(f"{corpus!r} is empty: there is nothing to train on or to answer")
        if corpus.targets.shape[1] != corpus.width:
            raise RunError(
                f"{corpus!r} has {corpus.width} trees and {corpus.targets.shape[1]} answers an example; sequence "
                "models want one answer a tree (ORCHARD with target = 'two'), and their own setting `target` says how "
                "they give it"
            )
        longest = int(np.argmax(corpus.lengths))
        if corpus.lengths[longest] >= LONGEST:
            raise RunError(
                f"row {longest} has {corpus.lengths[longest]:,} tokens; sequence models read at most {LONGEST - 1:,}, "
                "for attention takes memory by the square of that. Leave longer examples out."
            )
        place = {word: number for number, word in enumerate(vocabulary)}
        table = np.array([place.get(word, UNKNOWN) for word in corpus.vocabulary], np.int64)
        names = corpus.vocabulary
        step = np.array([-1 if name == "]" else int(name.startswith("[")) for name in names], np.int64)
        tokens, heads, nesting, list_start, opened = _laid_out(
            table[corpus.tokens], step[corpus.tokens], corpus.token_start, corpus.width, EOS
        )
        start = corpus.token_start + np.arange(len(corpus.token_start))
        bracketed = (corpus.forest.arity > 0) | (corpus.forest.links != 0)  # in post-order, which is that of closing
        values = renumber(corpus.values[bracketed], corpus.outcomes, outcomes)
        nodes = np.concatenate([[0], np.cumsum(bracketed)])[corpus.forest.start[:: corpus.width]]
        if not np.array_equal(nodes, list_start):  # brackets of a text of one's own need not be those of the trees
            list_start, opened, values = np.zeros_like(list_start), opened[:0], values[:0]
        targets = renumber(corpus.targets, corpus.outcomes, outcomes)
        return cls(tokens, start, targets, heads, nesting, list_start, opened, values)

    def __len__(self) -> int:
        return len(self.targets)

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        return np.diff(self.start)

    def batch(self, rows: Ints, device: torch.device | str = "cpu") -> SequenceBatch:
        taken = np.asarray(rows, np.int64)
        lengths = self.lengths[taken]
        start, places = gather(self.start, taken)
        tokens = padded(self.tokens, self.start, taken, int(lengths.max(initial=0)))
        list_start, lists = gather(self.list_start, taken)
        opened = np.stack([np.repeat(np.arange(len(taken)), np.diff(list_start)), self.opened[lists]], 1)
        arrays = (
            tokens, lengths, self.targets[taken], self.heads[taken], self.nesting[taken], opened, self.values[lists]
        )  # fmt: skip
        return SequenceBatch(
            taken, self.tokens[places], start, *(torch.from_numpy(array).to(device) for array in arrays)
        )


@dataclass(frozen=True, eq=False)
class SequenceBatch:
    """Some sequences side by side, and the same one after the other (`flat`, beginning at `start`)."""

    rows: npt.NDArray[np.int64]
    flat: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    tokens: Tensor  # [batch, length], PAD (0) behind the end
    lengths: Tensor  # [batch]
    targets: Tensor  # [batch, trees]
    heads: Tensor  # [batch, trees]
    nesting: Tensor  # [batch]
    lists: Tensor  # [lists, 2]: row, and where the list opens
    values: Tensor  # [lists]

    @cached_property
    def inside(self) -> Tensor:
        """[batch, length]: where there is a token."""
        steps = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        return steps < self.lengths[:, None]

    def beside(self, states: Tensor) -> Tensor:
        """States of the flat tokens, [tokens, width], as [batch, length, width] with zeros behind the end."""
        out = states.new_zeros(*self.tokens.shape, states.shape[1])
        out[self.inside] = states
        return out


@compiled
def _laid_out(tokens: Ints, step: Ints, start: Ints, width: int, end: int) -> tuple[Any, ...]:
    """Tokens with `end` behind each sequence, where its trees begin, its nesting, and where its lists open.

    A tree is over when as many brackets are closed as were opened; the next begins behind the mark between them.
    """
    rows = len(start) - 1
    out = np.empty(len(tokens) + rows, np.int64)
    heads, nesting = np.zeros((rows, width), np.int64), np.zeros(rows, np.int64)
    list_start, opened = np.zeros(rows + 1, np.int64), np.empty((step > 0).sum(), np.int64)
    lists, open_ones = 0, np.empty(len(tokens) + 1, np.int64)
    for row in range(rows):
        level, tree = 0, 1
        for place in range(start[row], start[row + 1]):
            out[place + row] = tokens[place]
            if step[place] > 0 and level >= 0:
                open_ones[level] = place - start[row]
            level += step[place]
            if step[place] < 0 and level >= 0 and lists < len(opened):
                opened[lists] = open_ones[level]
                lists += 1
            nesting[row] = max(nesting[row], level)
            ends = step[place] < 0 or place - start[row] == heads[row, tree - 1]  # of a list, or of a tree of one token
            if level == 0 and ends and tree < width and place + 2 < start[row + 1]:
                heads[row, tree] = place + 2 - start[row]
                tree += 1
        out[start[row + 1] + row] = end
        list_start[row + 1] = lists
    return out, heads, nesting, list_start, opened


@dataclass(frozen=True)
class SequenceModel(Model):
    """A model that reads whole sequences; it knows the words and answers of the corpus that it is trained on."""

    example = "orchard/hard/min-max"

    def words(self, corpus: Corpus) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        return words_of(corpus)

    def read(self, corpus: Corpus, vocabulary: tuple[str, ...], outcomes: tuple[Any, ...]) -> Sequences:
        return Sequences.of(corpus, vocabulary, outcomes)
