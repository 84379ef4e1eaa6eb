"""TreeLSTM over the gold trees of ORCHARD, where a COPY *is* the node it quotes: what a model can do that is given the
structure (the oracle that shows the task to be learnable).

A list is folded from the left, its bracket last: ((([MAX 2) 6) ]). A COPY leaf has no vector of its own; its parent
takes that of the quoted node of the earlier tree. So the trees of an example are one graph without cycles, which is
computed height by height like any forest (`inputs.sentences.Plan`), equal subtrees once. The root of each tree is
classified, and with `node_weight` so is every other list while training, since the values of all nodes are known
(E7 of the specification): an error deep down is then seen where it is made. Depth of training: 3 to 6; the cell is
asked to do the same thing again at depth 12, so that it must be exact and not only good.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pomona.base.arrays import Ints
from pomona.base.compiled import compiled
from pomona.base.errors import RunError
from pomona.data.corpus import Corpus
from pomona.models.inputs.sentences import Plan, pair
from pomona.models.layers.tree_lstm import Classifier, TreeLSTM
from pomona.models.model import MODELS, Model, Output, Shape
from pomona.trees.forest import gather
from pomona.trees.values import renumber

CLOSING = "]"


@MODELS.add("quoting_treelstm")
@dataclass(frozen=True)
class QuotingTreeLSTMModel(Model):
    """A TreeLSTM that is given the gold trees and where each COPY leads."""

    example = "orchard/hard/min-max"

    width: int = 64
    hidden: int = 32
    leaf_deviation: float = 0.1  # of the first leaf vectors
    node_weight: float = 1.0  # of the values of all lists in the loss

    def words(self, corpus: Corpus) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        plain = [name for name in corpus.forest.names if name != "COPY"]
        return (*plain, CLOSING), corpus.outcomes

    def read(self, corpus: Corpus, vocabulary: tuple[str, ...], outcomes: tuple[Any, ...]) -> QuotingTrees:
        return QuotingTrees.of(corpus, vocabulary, outcomes)

    def build(self, shape: Shape) -> nn.Module:
        return QuotingTreeLSTMModule(self, shape)


# -- reading ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class QuotingTrees:
    """A corpus as a model of its trees reads it: nodes in post-order, tree after tree, example after example."""

    symbol: npt.NDArray[np.int64]  # the leaf that stands for each node's name
    arity: npt.NDArray[np.int32]
    link: npt.NDArray[np.int32]
    values: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]  # of each example
    root: npt.NDArray[np.int64]  # [examples, trees], counted from the start of the example
    targets: npt.NDArray[np.int64]  # [examples, trees]
    leaves: int

    @classmethod
    def of(cls, corpus: Corpus, vocabulary: tuple[str, ...], outcomes: tuple[Any, ...]) -> QuotingTrees:
        forest, width = corpus.forest, corpus.width
        if not len(corpus):
            raise RunError(f"{corpus!r} is empty: there is nothing to train on or to answer")
        if corpus.targets.shape[1] != width:
            raise RunError(
                f"{corpus!r} has {width} trees and {corpus.targets.shape[1]} answers an example; this model answers "
                "each tree by itself (ORCHARD with target = 'two')"
            )
        symbol = renumber(forest.symbol, forest.names, vocabulary)
        unknown = np.flatnonzero((symbol < 0) & (forest.links == 0))
        if len(unknown):
            name = forest.names[forest.symbol[unknown[0]]]
            raise RunError(f"the trees of {corpus!r} have {name!r}, which the model has never seen")
        start = forest.start[::width]
        return cls(
            symbol,
            forest.arity,
            forest.links,
            renumber(corpus.values, corpus.outcomes, outcomes),
            start,
            forest.root.reshape(-1, width) - start[:-1, None],
            renumber(corpus.targets, corpus.outcomes, outcomes),
            len(vocabulary),
        )

    def __len__(self) -> int:
        return len(self.targets)

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Nodes of each example: what it costs."""
        return np.diff(self.start)

    def batch(self, rows: Ints, device: torch.device | str = "cpu") -> QuotingBatch:
        taken = np.asarray(rows, np.int64)
        start, nodes = gather(self.start, taken)
        root = (self.root[taken] + start[:-1, None]).ravel()
        left, right, height, place = _pairs(self.symbol[nodes], self.arity[nodes], self.link[nodes], self.leaves)
        plan = Plan.of_pairs(self.leaves, left, right, height, place[root], place)
        lists = np.flatnonzero(self.arity[nodes])
        return QuotingBatch(
            taken,
            plan,
            torch.from_numpy(self.targets[taken]).to(device),
            torch.from_numpy(plan.place[lists]).to(device),
            torch.from_numpy(self.values[nodes][lists]).to(device),
        )


@dataclass(frozen=True, eq=False)
class QuotingBatch:
    """Some examples as one graph: its schedule, the answers, and every list with its value."""

    rows: npt.NDArray[np.int64]
    plan: Plan
    targets: Tensor  # [batch, trees]
    lists: Tensor  # [lists], nodes of the plan
    values: Tensor  # [lists]


@compiled
def _pairs(symbol: Ints, arity: Ints, link: Ints, leaves: int) -> tuple[Any, ...]:
    """Lists as pairs, with what each node of the trees has become; a node that quotes has become the quoted one."""
    inner = 0
    for node in range(len(symbol)):
        if arity[node]:
            inner += arity[node] + 1
    left, right, height = np.empty(inner, np.int32), np.empty(inner, np.int32), np.empty(inner, np.int32)
    size = 16
    while size < 2 * inner:
        size *= 2
    table = np.full(size, -1, np.int32)
    place = np.empty(len(symbol), np.int64)
    stack = np.empty(len(symbol) + 1, np.int64)
    nodes, high = 0, 0
    for node in range(len(symbol)):
        if link[node]:
            place[node] = place[node - link[node]]
        elif arity[node] == 0:
            place[node] = symbol[node]
        else:
            made = symbol[node]
            high -= arity[node]
            for argument in range(arity[node] + 1):
                other = stack[high + argument] if argument < arity[node] else leaves - 1
                found = pair(made, other, leaves, left, right, height, table, nodes)
                nodes = max(nodes, found + 1)
                made = leaves + found
            place[node] = made
        stack[high] = place[node]
        high += 1
    return left[:nodes], right[:nodes], height[:nodes], place


# -- the network -----------------------------------------------------------------------------------------------------


class QuotingTreeLSTMModule(nn.Module):
    def __init__(self, settings: QuotingTreeLSTMModel, shape: Shape) -> None:
        super().__init__()
        self.node_weight = settings.node_weight
        self.leaf = nn.Parameter(torch.randn(shape.vocabulary, 2 * settings.width) * settings.leaf_deviation)
        self.cell = TreeLSTM(settings.width)
        self.classifier = Classifier(settings.width, settings.hidden, shape.classes)

    def forward(self, batch: QuotingBatch, random: torch.Generator | None = None) -> Output:
        h, c = self.leaf.chunk(2, 1)  # [words, H] each
        nodes = self.cell(batch.plan, h, c)  # [words + distinct inner nodes, H]
        roots = torch.from_numpy(batch.plan.root).to(nodes.device)
        logits = self.classifier(nodes[roots]).unflatten(0, batch.targets.shape)  # [batch, trees, classes]
        if not self.training or not self.node_weight:
            return Output(logits)
        lists = nn.functional.cross_entropy(self.classifier(nodes[batch.lists]), batch.values, ignore_index=-1)
        return Output(logits, penalty=self.node_weight * lists)
