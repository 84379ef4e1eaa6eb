"""Ordered Memory (Shen, Tan, Hosseini, Lin, Sordoni and Courville 2019): a soft stack that is read by attention.

Slots i = 0 .. N-1 hold finished constituents, the outermost on top. M_t is the memory, M'_t the candidate memory: its
slot i has the token t composed with everything in the slots up to i. At token t, whose vector is x_t = LN(W e_t + b):

    b_i = w . relu(LN(Wq x_t) + LN(Wk M'_(t-1),i)) / sqrt(D)              how well the token continues slot i
    p_i ~ exp(b_i) C_(t-1),i+1,      C_(t-1),N = 1                        stick-breaking: one slot deeper at most
    C_i = p_0 + ... + p_i,           R_i = p_i + ... + p_(N-1)
    M_i = (1 - R_i) M_(t-1),i + R_i M'_(t-1),i                            what is finished is written down
    M'_i = (1 - C_i) x_t + C_i cell(M'_(i-1), M_i)                        `layers.slot_chain`

The last slot of the last M' is the sentence, which a linear layer classifies. With `tied`, which is not in the paper,
it is compared with the vectors of the words instead, which are x (`layers.tied_words`). The first token has no slot to
attend to: p = 0, R = 1. A share C below 1e-5 counts as 0, as in the authors' code, which also has one LN for words and
cell.

Where C is 0, M' is x_t, and M is overwritten before it is read. So only a window of upper slots is kept, one more than
before at most, and cells are computed only where C is above 0: the numbers are those of all N slots. Words are few, so
x and the query are rows of a table. Sentences are ordered from long to short, and nothing is computed behind their end.

The tree is that of the authors' code: token t stands in the slot of its largest p; from slot j to slot i the
constituents of i - j + 1 slots are merged. No gold tree is used, and there is no dropout (theirs: 0.1 to 0.3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled
from pomona.base.errors import SpecError
from pomona.models.inputs.sentences import Batch
from pomona.models.layers.slot_chain import SlotChain
from pomona.models.layers.tied_words import Words
from pomona.models.model import MODELS, Model, Output, Shape

SMALLEST = 1e-5  # a smaller share C is 0


@MODELS.add("ordered_memory")
@dataclass(frozen=True)
class OrderedMemoryModel(Model):
    """A memory of ordered slots, read by stick-breaking attention and composed by a gated cell (Ordered Memory)."""

    gpu = False
    answer_positions = 1 << 16  # little is kept of each, and more sentences take no more steps

    width: int = 128  # of the vectors
    slots: int = 21  # of the memory
    tied: bool = False  # an answer that is a word has the word's vector

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise SpecError(f"slots = {self.slots}: a memory needs at least 1")

    def build(self, shape: Shape) -> nn.Module:
        return OrderedMemoryModule(self, shape)


class Memory(NamedTuple):
    """The state of some sentences after a token: the upper slots, as many as may matter."""

    share: Tensor  # [rows, slots]: C
    memory: Tensor  # [rows, slots, width]: M
    candidate: Tensor  # [rows, slots, width]: M'

    def of(self, rows: int) -> Memory:
        """The first sentences alone."""
        return Memory(self.share[:rows], self.memory[:rows], self.candidate[:rows])


class OrderedMemoryModule(nn.Module):
    def __init__(self, settings: OrderedMemoryModel, shape: Shape) -> None:
        super().__init__()
        width = settings.width
        self.slots = settings.slots
        self.words: Words | None = Words(settings, shape) if settings.tied else None
        if self.words is None:
            self.leaf = nn.Parameter(torch.randn(shape.vocabulary, width))
            self.project = nn.Linear(width, width)
        self.query, self.query_norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.key, self.key_norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.attention = nn.Linear(width, 1, bias=False)
        self.cell = SlotChain(width)
        if self.words is None:
            self.answer = nn.Linear(width, shape.classes)

    def forward(self, batch: Batch, random: torch.Generator | None = None) -> Output:
        order = batch.lengths.argsort(descending=True, stable=True)
        tokens, lengths = batch.tokens[order].t(), batch.lengths[order]  # [length, batch], long sentences first
        words = self.words() if self.words else self.cell.norm(self.project(self.leaf))  # [vocabulary, width]: every x
        queries = self.query_norm(self.query(words))
        x = words[tokens[0]]
        state = Memory(x.new_zeros(len(x), 0), x.new_zeros(len(x), 0, x.shape[1]), x.new_zeros(len(x), 0, x.shape[1]))
        ended, merges = [], Merges(self.slots, len(x))
        for t in range(1, len(tokens)):
            alive = int((lengths > t).sum())
            ended.append(self._last(x, state)[alive:])
            previous, x = x[:alive], words[tokens[t, :alive]]
            after, p = self.step(x, queries[tokens[t, :alive]], previous, state.of(alive))
            if not self.training:
                merges.add(state.candidate, p)
            state = after
        ended.append(self._last(x, state))
        sentences = torch.cat(ended[::-1])[order.argsort()]
        logits = self.words.logits(sentences, words) if self.words else self.answer(sentences)
        if self.training:
            return Output(logits)
        steps, vectors = merges.trees(batch, order, state.candidate)
        nodes = words.new_empty(len(steps), words.shape[1])
        nodes[torch.from_numpy(steps == 0)] = words[torch.from_numpy(batch.flat)]
        nodes[torch.from_numpy(steps == 1)] = vectors
        nodes[torch.from_numpy(batch.step_start[1:] - 1)] = sentences
        return Output(logits, batch.trees(steps), nodes)

    def step(self, x: Tensor, query: Tensor, previous: Tensor, state: Memory) -> tuple[Memory, Tensor]:
        """Read a token [rows, width] of which this is the query, after `previous`; the new state, and p."""
        share = torch.where(state.share < SMALLEST, 0.0, state.share)
        mask = torch.cat([share, share.new_ones(len(x), 1)], 1)  # of slot i: C_(i+1); the window has one slot more
        candidate = torch.cat([previous[:, None], state.candidate], 1)  # below the window M' is x
        memory = torch.cat([torch.zeros_like(previous)[:, None], state.memory], 1)  # multiplied by 1 - R = 0
        unused = int((mask.detach() == 0).all(0).sum())  # they are the lowest
        low = max(unused, mask.shape[1] - self.slots)
        mask, candidate, memory = mask[:, low:], candidate[:, low:], memory[:, low:]
        key = self.key_norm(self.key(candidate))  # [rows, slots, width]
        score = self.attention(torch.relu(query[:, None] + key))[:, :, 0] / math.sqrt(x.shape[1])
        score = score.masked_fill(mask == 0, -math.inf)
        p = mask * torch.exp(score - score.detach().amax(1, keepdim=True))
        p = p / p.sum(1, keepdim=True)
        share = p.cumsum(1)  # C
        above = (1 - share + p)[:, :, None]  # R
        memory = torch.lerp(memory, candidate, above)
        composed = self.cell(x, memory, share, (mask.detach() > 0).sum(1))
        return Memory(share, memory, composed), p

    @staticmethod
    def _last(x: Tensor, state: Memory) -> Tensor:
        """The last slot of M', which is x after the first token."""
        return state.candidate[:, -1] if state.candidate.shape[1] else x


class Merges:
    """Where each token stands, and the vectors of what is merged behind it: M' from its slot to that of the next."""

    def __init__(self, slots: int, rows: int) -> None:
        self.slots = slots
        self.stands = [torch.full((rows,), slots)]  # of each token: the slot of every sentence, long ones first
        self.count: list[Tensor] = []  # of each token: how many vectors of every sentence are kept
        self.vectors: list[Tensor] = []

    def add(self, candidate: Tensor, p: Tensor) -> None:
        """A token with attention p, and M' of the token before it."""
        stands = self.slots - p.shape[1] + p.argmax(1)
        self._keep(candidate, stands)
        self.stands.append(stands)

    def trees(self, batch: Batch, order: Tensor, candidate: Tensor) -> tuple[npt.NDArray[np.uint8], Tensor]:
        """The shift-reduce steps of all sentences, and the vector of every merge; `candidate` is the last M'."""
        self._keep(candidate, self.stands[-1][:0])
        place = np.concatenate([[0], np.cumsum([len(part) for part in self.stands])])  # of each token's first sentence
        stands, count = torch.cat(self.stands).numpy(), torch.cat(self.count).numpy()
        first = np.cumsum(count) - count
        rank = order.argsort().numpy()
        steps, kept = _steps_of_slots(stands, first, count, place, batch.start, rank)
        return steps, torch.cat(self.vectors)[torch.from_numpy(kept)]

    def _keep(self, candidate: Tensor, after: Tensor) -> None:
        """Keep M' of the newest token from its slot to the next token's, or to the top where there is none."""
        rows, window = candidate.shape[:2]
        until = torch.cat([after, torch.full((rows - len(after),), self.slots - 1)])
        slot = torch.arange(self.slots - window, self.slots)
        kept = (slot >= self.stands[-1][:, None]) & (slot <= until[:, None])  # [rows, window]
        self.count.append(kept.sum(1))
        self.vectors.append(candidate[kept])


@compiled
def _steps_of_slots(
    stands: Ints, first: Ints, count: Ints, place: Ints, start: Ints, rank: Ints
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Shift-reduce steps of every sentence, and the kept vector of each merge.

    Token t of the sentence with rank r has its slot, and its first vector and their number, at `place[t] + r`.
    """
    words = start[-1]
    steps = np.zeros(2 * words - len(rank), np.uint8)
    kept = np.empty(words - len(rank), np.int64)
    at = merged = 0
    for row in range(len(rank)):
        high = 0
        for t in range(start[row + 1] - start[row]):
            at, high = at + 1, high + 1  # shift
            here = place[t] + rank[row]
            merges = high - 1
            if start[row] + t + 1 < start[row + 1]:
                merges = min(merges, stands[place[t + 1] + rank[row]] - stands[here] + 1)
            for merge in range(merges):
                kept[merged] = first[here] + min(merge, count[here] - 1)
                steps[at] = 1
                at, merged, high = at + 1, merged + 1, high - 1
    return steps, kept
