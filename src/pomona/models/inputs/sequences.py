"""Whole texts in the numbers of a model, with one or more answers: what models without structure read.

    feed = Sequences.of(corpus, vocabulary, outcomes)
    batch = feed.batch(rows)
    batch.tokens, batch.lengths, batch.targets       [batch, length], [batch], [batch, answers]
    batch.lists, batch.values                        [lists, 2], [lists]: row and first token of every list, its value

The vocabulary begins with four words of its own: `<pad>` fills up behind the end, `<bos>` and `<eos>` stand
for beginning and end, `<unk>` for a word that did not occur in training (in ORCHARD, a COPY argument that is too
large). Every sequence ends in `<eos>`. The outcomes end in MALFORMED, which is never right: a model that writes its
answer may write something that is none.
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
from pomona.data.task import declared_first
from pomona.models.inputs.batches import padded, refuse_empty
from pomona.trees.forest import gather
from pomona.trees.values import renumber

SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")
PAD, BOS, EOS, UNKNOWN = range(len(SPECIAL))
MALFORMED = "malformed"
LONGEST = 4_000  # tokens; the memory of attention grows with the square of it


def words_of(corpus: Corpus) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Vocabulary and outcomes of a model that is trained on this corpus: what its task declares, then what occurs.

    Values of leaves are no outcomes, unless they are also asked for: a leaf of a user's own trees may have any word.
    """
    used = [corpus.vocabulary[token] for token in np.unique(corpus.tokens).tolist()]
    computed = (corpus.forest.arity > 0) | (corpus.forest.links != 0)
    positions = np.union1d(corpus.values[computed], corpus.targets).tolist()
    words, answers = declared_first(corpus, used, [corpus.outcomes[answer] for answer in positions if answer >= 0])
    malformed = MALFORMED
    while malformed in answers:  # it must not be an answer of the data
        malformed = f"<{malformed}>"
    return (*SPECIAL, *(word for word in words if word not in SPECIAL)), (*answers, malformed)


@dataclass(frozen=True, eq=False)
class Sequences:
    """The tokens of every example, and its answers as positions among the outcomes."""

    tokens: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]  # [examples, answers]
    heads: npt.NDArray[np.int64]  # [examples, answers]: the token with which the tree that is asked about begins
    nesting: npt.NDArray[np.int64]  # [examples]: the most brackets that are open at once
    list_start: npt.NDArray[np.int64]  # [examples + 1]: where the lists of each example begin
    opened: npt.NDArray[np.int64]  # [lists]: the token that opens each, in the order in which they close
    values: npt.NDArray[np.int64]  # [lists]: positions among the outcomes, -1 where there is none

    @classmethod
    def of(cls, corpus: Corpus, vocabulary: tuple[str, ...], outcomes: tuple[Any, ...]) -> Sequences:
        refuse_empty(corpus)
        longest = int(np.argmax(corpus.lengths))
        if corpus.lengths[longest] >= LONGEST:
            raise RunError(
                f"row {longest} has {corpus.lengths[longest]:,} tokens; models of sequences read at most "
                f"{LONGEST - 1:,}, since the memory of attention grows with the square. Leave longer examples out."
            )
        words = renumber(corpus.tokens, corpus.vocabulary, vocabulary)
        names = corpus.vocabulary
        step = np.array([-1 if name == "]" else int(name.startswith("[")) for name in names], np.int64)
        tokens, heads, nesting, list_start, opened = _laid_out(
            np.where(words < 0, UNKNOWN, words), step[corpus.tokens], corpus.token_start, corpus.width, EOS
        )
        start = corpus.token_start + np.arange(len(corpus.token_start))
        bracketed = (corpus.forest.arity > 0) | (corpus.forest.links != 0)  # post-order is the order of closing
        values = renumber(corpus.values[bracketed], corpus.outcomes, outcomes)
        nodes = np.concatenate([[0], np.cumsum(bracketed)])[corpus.forest.start[:: corpus.width]]
        if not np.array_equal(nodes, list_start):  # in a user's text, brackets need not be those of the trees
            list_start, opened, values = np.zeros_like(list_start), opened[:0], values[:0]
        targets = renumber(corpus.targets, corpus.outcomes, outcomes)
        if targets.shape[1] != corpus.width:  # not one answer for each tree: all are read from the first token
            heads = np.zeros(targets.shape, np.int64)
            list_start, opened, values = np.zeros_like(list_start), opened[:0], values[:0]
        return cls(tokens, start, targets, heads, nesting, list_start, opened, values)

    def __len__(self) -> int:
        return len(self.targets)

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        return np.diff(self.start)

    def batch(self, rows: Ints, device: torch.device | str = "cpu") -> SequenceBatch:
        taken = np.asarray(rows, np.int64)
        lengths = self.lengths[taken]
        start, positions = gather(self.start, taken)
        tokens = padded(self.tokens, self.start, taken, int(lengths.max(initial=0)))
        list_start, lists = gather(self.list_start, taken)
        opened = np.stack([np.repeat(np.arange(len(taken)), np.diff(list_start)), self.opened[lists]], 1)
        arrays = (
            tokens, lengths, self.targets[taken], self.heads[taken], self.nesting[taken], opened, self.values[lists]
        )  # fmt: skip
        return SequenceBatch(
            taken, self.tokens[positions], start, *(torch.from_numpy(array).to(device) for array in arrays)
        )


@dataclass(frozen=True, eq=False)
class SequenceBatch:
    """Some sequences side by side, and the same one after the other (`flat`, each beginning at `start`)."""

    rows: npt.NDArray[np.int64]
    flat: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    tokens: Tensor  # [batch, length], PAD (0) behind the end
    lengths: Tensor  # [batch]
    targets: Tensor  # [batch, answers]
    heads: Tensor  # [batch, answers]
    nesting: Tensor  # [batch]
    lists: Tensor  # [lists, 2]: row, and the token that opens the list
    values: Tensor  # [lists]

    @cached_property
    def inside(self) -> Tensor:
        """[batch, length]: true where there is a token."""
        steps = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        return steps < self.lengths[:, None]

    def beside(self, states: Tensor) -> Tensor:
        """The states of the flat tokens, [tokens, width], as [batch, length, width] with zeros behind the end."""
        out = states.new_zeros(*self.tokens.shape, states.shape[1])
        out[self.inside] = states
        return out


@compiled
def _laid_out(tokens: Ints, step: Ints, start: Ints, width: int, end: int) -> tuple[Any, ...]:
    """Tokens with `end` behind each sequence; where its trees begin; its nesting; where its lists begin and open.

    A tree ends when as many brackets are closed as were opened; the next one begins behind the separator.
    """
    rows = len(start) - 1
    out = np.empty(len(tokens) + rows, np.int64)
    heads, nesting = np.zeros((rows, width), np.int64), np.zeros(rows, np.int64)
    list_start, opened = np.zeros(rows + 1, np.int64), np.empty((step > 0).sum(), np.int64)
    lists, opening = 0, np.empty(len(tokens) + 1, np.int64)
    for row in range(rows):
        level, tree = 0, 1
        for position in range(start[row], start[row + 1]):
            out[position + row] = tokens[position]
            if step[position] > 0 and level >= 0:
                opening[level] = position - start[row]
            level += step[position]
            if step[position] < 0 and level >= 0 and lists < len(opened):
                opened[lists] = opening[level]
                lists += 1
            nesting[row] = max(nesting[row], level)
            ends = (
                step[position] < 0 or position - start[row] == heads[row, tree - 1]
            )  # of a list, or of a tree of one token
            if level == 0 and ends and tree < width and position + 2 < start[row + 1]:
                heads[row, tree] = position + 2 - start[row]
                tree += 1
        out[start[row + 1] + row] = end
        list_start[row + 1] = lists
    return out, heads, nesting, list_start, opened
