"""Composition along the aligned tree: premise and hypothesis as one tree of fixed shape (Geiger et al. 2019, Figure 3).

    words        h = cell(E[premise], E[hypothesis])                    nine pairs of words
    phrases      h = cell(modifier, head)                               subject, verb phrase, object
    object       h = cell(quantifier, verb phrase, object phrase)
    negated      h = cell(negation, object)
    label        h = cell(quantifier, subject phrase, negated)

All trees have the same shape, so each line is a product of matrices over the batch, and the three phrases are one
product. A model defines the cell, and what becomes of h (`node_output`): what is classified, and what is passed to the
parent. `tying` says which nodes share a cell: those with the same number of children (`arity`), those of the same kind
(`type`), or none (`node`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
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
"""The number of children of a node of each kind, and the number of such nodes."""


@dataclass(frozen=True)
class AlignedTreeModel(PairModel):
    """Settings of a model that composes along the aligned tree."""

    tying: Tying = "arity"  # which nodes share a cell

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tying not in ("arity", "type", "node"):
            raise SpecError(f"tying = {self.tying!r}: must be 'arity', 'type' or 'node'")


class AlignedTree(PairModule):
    """The computation from words to the root. By default h itself is classified and passed to the parent."""

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
        """What is classified, by kind, and what every node passes to its parent, [slots, batch, width].

        `exchange` names kinds whose nodes pass on the vectors of other nodes: at these positions of slots * batch.
        """
        classified: Parts = {}
        passed: Parts = {}

        def add(kind: str, h: Tensor) -> None:
            classified[kind], output = self.node_output(kind, h, batch, random)
            passed[kind] = nn.functional.embedding(batch.words[kind].where, output) if kind in batch.words else output
            if exchange is not None and kind in exchange:
                passed[kind] = passed[kind].flatten(0, 1)[exchange[kind]].view_as(passed[kind])

        for kind, pairs in batch.words.items():
            add(kind, self._combine_words(kind, pairs))
        add("phrase", self._combine("phrase", [passed["modifier"], passed["head"]]))
        subject, verb, thing = (passed["phrase"][slot : slot + 1] for slot in range(3))
        outer, inner = passed["quantifier"][:1], passed["quantifier"][1:]
        add("object", self._combine("object", [inner, verb, thing]))
        add("negated", self._combine("negated", [passed["negation"], passed["object"]]))
        add("label", self._combine("label", [outer, subject, passed["negated"]]))
        return {kind: classified[kind] for kind in ASKED}, passed

    def _combine_words(self, kind: str, pairs: WordPairs) -> Tensor:
        """[pairs, width]: one vector for two words."""
        words = [self.word(pairs.premise), self.word(pairs.hypothesis)]
        if self.tying != "node":
            h: Tensor = self._cell(kind, 0)(words)
            return h
        slots = [[word[first:last] for word in words] for first, last in pairwise(pairs.begin)]
        return torch.cat([self._cell(kind, slot)(some) for slot, some in enumerate(slots)])

    def _combine(self, kind: str, children: Sequence[Tensor]) -> Tensor:
        """[slots, batch, width] from children of that shape."""
        if self.tying != "node" or len(children[0]) == 1:
            h: Tensor = self._cell(kind, 0)(children)
            return h
        slots = range(len(children[0]))
        return torch.stack([self._cell(kind, slot)([child[slot] for child in children]) for slot in slots])

    def _cell(self, kind: str, slot: int) -> nn.Module:
        return self.cells[self.key(kind, slot)]

    def node_output(
        self, kind: str, h: Tensor, batch: PairBatch, random: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """What is classified of a node of this kind, and what it passes to its parent."""
        return h, h

    def classify(self, classified: Parts, random: torch.Generator | None) -> Parts:
        """The logits of the questions that are asked."""
        raise NotImplementedError


class ClassifiedTree(AlignedTree):
    """An aligned tree whose vectors are classified by two hidden layers and a softmax."""

    def __init__(self, settings: AlignedTreeModel, shape: Shape, cell: Callable[[int], nn.Module]) -> None:
        super().__init__(settings, shape, cell)
        self.heads = Heads(settings, settings.width)

    def classify(self, classified: Parts, random: torch.Generator | None) -> Parts:
        answers: Parts = self.heads({kind: classified[kind] for kind in self.kinds()}, random)
        return answers


def passed_to_parents(module: AlignedTree, feed: SentencePairs, *, seed: int = 0) -> dict[str, tuple[float, float]]:
    """How far nodes pass nothing but their class to their parents, by kind: two shares between 0 and 1.

    The first is the part of the variance of the vectors passed on that is within classes: 0 if all nodes of a class
    pass on the same vector. The second is the share of labels that stay the same when every node of the kind passes on
    the vector of another node of its class, drawn from all pairs (an interchange intervention, Geiger et al. 2021).
    """
    batch = feed.batch(np.arange(len(feed)))
    random = torch.Generator().manual_seed(seed)
    module.eval()
    shares = {}
    with torch.no_grad():
        classified, passed = module.walk(batch, None)
        before = module.classify(classified, None)["label"].argmax(-1)
        for kind in ("phrase", "object", "negated"):
            vectors, classes = passed[kind].flatten(0, 1), batch.asked[kind].flatten()
            rest, others = vectors.clone(), torch.arange(len(classes))
            for number in range(CLASSES[kind]):
                members = (classes == number).nonzero()[:, 0]
                rest[members] -= vectors[members].mean(0)
                others[members] = members[torch.randperm(len(members), generator=random)]
            within = rest.pow(2).sum() / (vectors - vectors.mean(0)).pow(2).sum()
            after = module.classify(module.walk(batch, None, {kind: others})[0], None)["label"].argmax(-1)
            shares[kind] = float(within), float((before == after).double().mean())
    return shares
