"""LSTM encoder: one LSTM reads premise and hypothesis, and their last states side by side are classified.

The other eleven parts are read separately, each from its own first word. Parts that begin with the same word share a
reading: the state after `Adv V` is one of the states of `Adv V QO AdjO NO`. Single words are read once for each word in
the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pomona.models.inputs.pairs import PairBatch
from pomona.models.layers.lstm import LSTM
from pomona.models.layers.pair_heads import Heads
from pomona.models.model import MODELS, Shape
from pomona.models.pair_model import PairModel, PairModule, Parts

# What is read, as columns of a sentence, and which parts end in it: kind, slot, after how many words
READINGS = (
    ((1, 3), (("phrase", 0, 2),)),
    ((4, 9), (("phrase", 1, 2), ("object", 0, 5))),
    ((7, 9), (("phrase", 2, 2),)),
    ((3, 9), (("negated", 0, 6),)),
    ((0, 9), (("label", 0, 9),)),
)


@MODELS.add("lstm_pair")
@dataclass(frozen=True)
class LSTMPair(PairModel):
    """The last LSTM states of premise and hypothesis, side by side."""

    start: float = 1.0

    def build(self, shape: Shape) -> nn.Module:
        return LSTMPairModule(self, shape)


class LSTMPairModule(PairModule):
    def __init__(self, settings: LSTMPair, shape: Shape) -> None:
        super().__init__(settings)
        self.lstm = LSTM(shape.vocabulary, settings.width, settings.width)
        with torch.no_grad():
            self.lstm.word.mul_(settings.start)
        self.heads = Heads(settings, 2 * settings.width)

    def answers(self, batch: PairBatch, random: torch.Generator | None) -> Parts:
        kinds = self.kinds()
        readings = [reading for reading in READINGS if any(kind in kinds for kind, *_ in reading[1])]
        alone = [batch.words[kind] for kind in ("modifier", "head") if kind in kinds]
        words = [side.cpu().numpy() for pairs in alone for side in (pairs.premise, pairs.hypothesis)]
        single = np.unique(np.concatenate(words)) if words else np.zeros(0, np.int64)
        whole = batch.tokens.cpu().numpy().reshape(-1, 9)  # [2 batch, 9]: a premise, its hypothesis, ...
        tokens, lengths = [single], [np.ones(len(single), np.int64)]
        ends: dict[str, dict[int, npt.NDArray[np.int64]]] = {}  # the last token of each part in both sentences
        begin = len(single)
        for (first, last), parts in readings:
            tokens.append(whole[:, first:last].ravel())
            lengths.append(np.full(len(whole), last - first))
            for kind, slot, end in parts:
                ends.setdefault(kind, {})[slot] = begin + np.arange(len(whole)) * (last - first) + end - 1
            begin += len(tokens[-1])
        asked = {kind: [slots[slot] for slot in sorted(slots)] for kind, slots in ends.items()}
        states = self.lstm(
            np.concatenate(tokens),
            np.concatenate([[0], np.cumsum(np.concatenate(lengths))]),
            dropout=self.settings.dropout,
            random=random,
            wanted=np.concatenate([np.arange(len(single)), *(end for slots in asked.values() for end in slots)]),
        ).split([len(single), *(len(slots) * len(whole) for slots in asked.values())])
        vectors = {
            kind: ended.view(len(slots), len(batch), -1)  # [slots, batch, 2 width]
            for (kind, slots), ended in zip(asked.items(), states[1:], strict=True)
        }
        for kind in ("modifier", "head"):
            if kind in kinds:
                vectors[kind] = _looked_up(states[0], single, batch, kind)
        answers: Parts = self.heads({kind: vectors[kind] for kind in kinds}, random)
        return answers


def _looked_up(states: Tensor, words: npt.NDArray[np.int64], batch: PairBatch, kind: str) -> Tensor:
    """[pairs, 2 width]: the states of two words that were read by themselves."""
    sides = (batch.words[kind].premise, batch.words[kind].hypothesis)
    known = torch.from_numpy(words).to(states.device)
    return torch.cat([nn.functional.embedding(torch.searchsorted(known, side), states) for side in sides], 1)
