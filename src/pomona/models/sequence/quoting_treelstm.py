"""TreeLSTM over the gold trees of ORCHARD in which a COPY *is* the node that it quotes.

It is given all structure, and so serves as the oracle that shows that the task can be learned. A list is folded from
the left, its closing bracket last: ((([MAX 2) 6) ]). A COPY leaf has no vector of its own; its parent takes that of the
quoted node in an earlier tree. So the trees of an example form one graph without cycles, which is computed height by
height like any forest (`inputs.schedule.TreeSchedule`), equal subtrees once. The root of each tree is classified. With
`node_weight` every other list is classified too while training, since the values of all nodes are known; an error deep
in a tree is then corrected where it is made. Training has depths 3 to 6 and test depth 12, where the same cell is
applied more often, so it must be exact and not only good.
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
from pomona.models.inputs.batches import refuse_empty
from pomona.models.inputs.schedule import TreeSchedule, node_of
from pomona.models.layers.classifier import Classifier
from pomona.models.layers.tree_lstm import TreeLSTM
from pomona.models.model import MODELS, Model, Output, Shape
from pomona.trees.forest import gather
from pomona.trees.values import renumber

CLOSING = "]"


@MODELS.add("quoting_treelstm")
@dataclass(frozen=True)
class QuotingTreeLSTMModel(Model):
    """A TreeLSTM that is given the gold trees and the node that each COPY quotes."""

    example = "orchard/hard/min-max"

    width: int = 64  # of the vectors
    hidden: int = 32  # units of the hidden layer before the answers
    leaf_deviation: float = 0.1  # of the first leaf vectors
    node_weight: float = 1.0  # weight in the loss of the values of all lists

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
    """A corpus in the numbers of the model: nodes in post-order, tree after tree, example after example."""

    symbol: npt.NDArray[np.int64]  # for each node, the leaf that stands for its name
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
        refuse_empty(corpus)
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
        """The number of nodes of each example."""
        return np.diff(self.start)

    def batch(self, rows: Ints, device: torch.device | str = "cpu") -> QuotingBatch:
        taken = np.asarray(rows, np.int64)
        start, nodes = gather(self.start, taken)
        root = (self.root[taken] + start[:-1, None]).ravel()
        left, right, height, node_at = _folded(self.symbol[nodes], self.arity[nodes], self.link[nodes], self.leaves)
        schedule = TreeSchedule.of_nodes(self.leaves, left, right, height, node_at[root], node_at)
        lists = np.flatnonzero(self.arity[nodes])
        return QuotingBatch(
            taken,
            schedule,
            torch.from_numpy(self.targets[taken]).to(device),
            torch.from_numpy(schedule.node_at[lists]).to(device),
            torch.from_numpy(self.values[nodes][lists]).to(device),
        )


@dataclass(frozen=True, eq=False)
class QuotingBatch:
    """Some examples as one graph: its schedule, the answers, and every list with its value."""

    rows: npt.NDArray[np.int64]
    schedule: TreeSchedule
    targets: Tensor  # [batch, trees]
    lists: Tensor  # [lists], nodes of the schedule
    values: Tensor  # [lists]


@compiled
def _folded(symbol: Ints, arity: Ints, link: Ints, leaves: int) -> tuple[Any, ...]:
    """Binary nodes for all lists, and the one that each node of the trees becomes; a COPY becomes the quoted node."""
    inner = 0
    for node in range(len(symbol)):
        if arity[node]:
            inner += arity[node] + 1
    left, right, height = np.empty(inner, np.int32), np.empty(inner, np.int32), np.empty(inner, np.int32)
    size = 16
    while size < 2 * inner:
        size *= 2
    table = np.full(size, -1, np.int32)
    node_at = np.empty(len(symbol), np.int64)
    stack = np.empty(len(symbol) + 1, np.int64)
    nodes, high = 0, 0
    for node in range(len(symbol)):
        if link[node]:
            node_at[node] = node_at[node - link[node]]
        elif arity[node] == 0:
            node_at[node] = symbol[node]
        else:
            folded = symbol[node]
            high -= arity[node]
            for argument in range(arity[node] + 1):
                other = stack[high + argument] if argument < arity[node] else leaves - 1
                number = node_of(folded, other, leaves, left, right, height, table, nodes)
                nodes = max(nodes, number + 1)
                folded = leaves + number
            node_at[node] = folded
        stack[high] = node_at[node]
        high += 1
    return left[:nodes], right[:nodes], height[:nodes], node_at


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
        nodes = self.cell(batch.schedule, h, c)  # [words + distinct inner nodes, H]
        roots = torch.from_numpy(batch.schedule.root).to(nodes.device)
        logits = self.classifier(nodes[roots]).unflatten(0, batch.targets.shape)  # [batch, trees, classes]
        if not self.training or not self.node_weight:
            return Output(logits)
        lists = nn.functional.cross_entropy(self.classifier(nodes[batch.lists]), batch.values, ignore_index=-1)
        return Output(logits, penalty=self.node_weight * lists)
