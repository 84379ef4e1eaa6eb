"""Premise and hypothesis as one tree of fixed shape, composed from word pairs to the sentence pair (Figure 3).

    words        h = cell(E[premise], E[hypothesis])                    nine pairs of words
    phrases      h = cell(modifier, head)                               subject, verb phrase, object
    object       h = cell(quantifier, verb phrase, object phrase)
    negated      h = cell(negation, object)
    label        h = cell(quantifier, subject phrase, negated)

All trees are alike, so each line is a product of matrices over the batch, and the three phrases are one. A model says
what a cell is, and what becomes of h (`rise`): what is classified, and what is handed up. `tying` says which nodes have
a cell in common: those of the same number of children (`arity`), of the same kind (`type`), or none (`node`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from pomona.base.errors import SpecError
from pomona.models.inputs.pairs import ASKED, CLASSES, WORDS, PairBatch, SentencePairs, WordPairs
from pomona.models.layers.pair_heads import Heads, Words
from pomona.models.model import Shape
from pomona.models.pair_model import PairModel, PairModule, Parts

Tying = Literal["arity", "type", "node"]
KINDS = {**{kind: (2, len(slots)) for kind, slots in WORDS.items()},
         "phrase": (2, 3), "object": (3, 1), "negated": (2, 1), "label": (3, 1)}  # fmt: skip
"""Children of a node of each kind, and how many such nodes there are."""


@dataclass(frozen=True)
class AlignedTreeModel(PairModel):
    """Settings of a model that composes along the aligned tree."""

    tying: Tying = "arity"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tying not in ("arity", "type", "node"):
            raise SpecError(f"tying = {self.tying!r}: 'arity', 'type' or 'node'")


class AlignedTree(PairModule):
    """The walk from words to the root; without more, h itself is classified and handed up."""

    def __init__(self, settings: AlignedTreeModel, shape: Shape, cell: Callable[[int], nn.Module]) -> None:
        super().__init__(settings)
        self.word = Words(settings, shape)
        self.tying = settings.tying
        cells: dict[str, nn.Module] = {}
        for kind, (arity, slots) in KINDS.items():
            for slot in range(slots):
                if self.key(kind, slot) not in cells:
                    cells[self.key(kind, slot)] = cell(arity)
        self.cells = nn.ModuleDict(cells)

    def key(self, kind: str, slot: int) -> str:
        """The name of the cell of a node."""
        if self.tying == "node":
            return f"{kind}_{slot}"
        return kind if self.tying == "type" else f"children_{KINDS[kind][0]}"

    def answers(self, batch: PairBatch, random: torch.Generator | None) -> Parts:
        return self.classify(self.walk(batch, random)[0], random)

    def walk(
        self, batch: PairBatch, random: torch.Generator | None, exchange: Mapping[str, Tensor] | None = None
    ) -> tuple[Parts, Parts]:
        """What is classified, by kind, and what every node hands up, [slots, batch, width].

        `exchange` has kinds whose nodes hand up the vectors of other nodes: those at these places of slots x batch.
        """
        classified: Parts = {}
        up: Parts = {}

        def reach(kind: str, h: Tensor) -> None:
            classified[kind], risen = self.rise(kind, h, batch, random)
            up[kind] = nn.functional.embedding(batch.words[kind].where, risen) if kind in batch.words else risen
            if exchange is not None and kind in exchange:
                up[kind] = up[kind].flatten(0, 1)[exchange[kind]].view_as(up[kind])

        for kind, pairs in batch.words.items():
            reach(kind, self._meet(kind, pairs))
        reach("phrase", self._compose("phrase", [up["modifier"], up["head"]]))
        subject, verb, thing = (up["phrase"][slot : slot + 1] for slot in range(3))
        outer, inner = up["quantifier"][:1], up["quantifier"][1:]
        reach("object", self._compose("object", [inner, verb, thing]))
        reach("negated", self._compose("negated", [up["negation"], up["object"]]))
        reach("label", self._compose("label", [outer, subject, up["negated"]]))
        return {kind: classified[kind] for kind in ASKED}, up

    def _meet(self, kind: str, pairs: WordPairs) -> Tensor:
        """[pairs, width]: two words become one vector."""
        words = [self.word(pairs.premise), self.word(pairs.hypothesis)]
        if self.tying != "node":
            h: Tensor = self._cell(kind, 0)(words)
            return h
        parts = [
            [word[first:last] for word in words] for first, last in zip(pairs.begin, pairs.begin[1:], strict=False)
        ]
        return torch.cat([self._cell(kind, slot)(some) for slot, some in enumerate(parts)])

    def _compose(self, kind: str, children: Sequence[Tensor]) -> Tensor:
        """[slots, batch, width] from children of that shape."""
        if self.tying != "node" or len(children[0]) == 1:
            h: Tensor = self._cell(kind, 0)(children)
            return h
        slots = range(len(children[0]))
        return torch.stack([self._cell(kind, slot)([child[slot] for child in children]) for slot in slots])

    def _cell(self, kind: str, slot: int) -> nn.Module:
        return self.cells[self.key(kind, slot)]

    def rise(self, kind: str, h: Tensor, batch: PairBatch, random: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """What is classified of a node of this kind, and what it hands up."""
        return h, h

    def classify(self, classified: Parts, random: torch.Generator | None) -> Parts:
        """Logits of the questions that are asked."""
        raise NotImplementedError


class ClassifiedTree(AlignedTree):
    """An aligned tree whose vectors go through two hidden layers to their answers."""

    def __init__(self, settings: AlignedTreeModel, shape: Shape, cell: Callable[[int], nn.Module]) -> None:
        super().__init__(settings, shape, cell)
        self.heads = Heads(settings, settings.width)

    def classify(self, classified: Parts, random: torch.Generator | None) -> Parts:
        answers: Parts = self.heads({kind: classified[kind] for kind in self.kinds()}, random)
        return answers


def handed_up(module: AlignedTree, feed: SentencePairs, *, seed: int = 0) -> dict[str, tuple[float, float]]:
    """How far the class of a node is all that it hands up, by kind: two shares between 0 and 1.

    The first is the part of the variance of the vectors handed up that is within classes: 0 if nodes of a class all
    hand up the same vector. The second is the share of labels that stay as they were when every node of the kind hands
    up the vector of another node of its class, drawn from all pairs (an interchange intervention, Geiger et al. 2021).
    """
    batch = feed.batch(np.arange(len(feed)))
    random = torch.Generator().manual_seed(seed)
    module.eval()
    found = {}
    with torch.no_grad():
        classified, up = module.walk(batch, None)
        before = module.classify(classified, None)["label"].argmax(-1)
        for kind in ("phrase", "object", "negated"):
            vectors, classes = up[kind].flatten(0, 1), batch.asked[kind].flatten()
            rest, others = vectors.clone(), torch.arange(len(classes))
            for one in range(CLASSES[kind]):
                own = (classes == one).nonzero()[:, 0]
                rest[own] -= vectors[own].mean(0)
                others[own] = own[torch.randperm(len(own), generator=random)]
            within = rest.pow(2).sum() / (vectors - vectors.mean(0)).pow(2).sum()
            after = module.classify(module.walk(batch, None, {kind: others})[0], None)["label"].argmax(-1)
            found[kind] = float(within), float((before == after).double().mean())
    return found
