"""Word vectors and classifiers of the models of sentence pairs.

    word = Words(settings, shape);     word(batch.tokens)                  [batch, 2, 9, width]
    heads = Heads(settings, width);    heads(vectors, random)["label"]     [1, batch, 3]: logits

Questions with the same number of answers share a softmax, and all share two hidden layers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from pomona.models.inputs.pairs import CLASSES, WordPairs
from pomona.models.layers.dropout import bernoulli_dropped
from pomona.models.model import Shape
from pomona.models.pair_model import Activation, PairModel, Parts


class Words(nn.Module):
    """A vector for each word."""

    def __init__(self, settings: PairModel, shape: Shape) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.randn(shape.vocabulary, settings.width) * settings.start)

    def forward(self, tokens: Tensor) -> Tensor:
        return nn.functional.embedding(tokens, self.vectors)

    def side_by_side(self, pairs: WordPairs) -> Tensor:
        """[pairs, 2 width]: premise and hypothesis."""
        return torch.cat([self(pairs.premise), self(pairs.hypothesis)], 1)


def use_of_width(words: Words) -> dict[str, float]:
    """The root mean square of the numbers in the words' vectors, and the share of their width that they use.

    The share is the participation ratio of the variances along their principal axes, over the width: 1 if all axes have
    the same variance, 1 / width if there is but one.
    """
    vectors = words.vectors.detach().double()
    variances = torch.linalg.svdvals(vectors - vectors.mean(0)) ** 2
    used = variances.sum() ** 2 / variances.pow(2).sum().clamp_min(1e-300)
    return {"size": float(vectors.pow(2).mean().sqrt()), "width": float(used) / vectors.shape[1]}


class Heads(nn.Module):
    """Two hidden layers, then a softmax for each number of classes; with `inner = "softmax"` only the label has layers.

    The second way is that of Socher et al. (2013), which the paper follows for models that compose along the aligned
    tree. The difference matters: a softmax alone can tell classes apart only if the vectors that are passed to the
    parent do.
    """

    def __init__(self, settings: PairModel, inputs: int) -> None:
        super().__init__()
        hidden = settings.hidden
        self.settings = settings
        self.first, self.second = (
            DenseLayer(inputs, hidden, settings.activation),
            DenseLayer(hidden, hidden, settings.activation),
        )
        sizes = {classes: hidden if self.layered(kind) else inputs for kind, classes in CLASSES.items()}
        self.softmax = nn.ModuleDict({str(count): nn.Linear(sizes[count], count) for count in sorted(sizes)})

    def layered(self, kind: str) -> bool:
        """Whether vectors of this kind go through the hidden layers."""
        return kind == "label" or self.settings.inner == "hidden"

    def forward(self, vectors: Parts, random: torch.Generator | None) -> Parts:
        """The logits of all parts, computed with one matrix product for each layer."""
        share, logits = self.settings.dropout, {}
        deep = [kind for kind in vectors if self.layered(kind)]
        flat = bernoulli_dropped(torch.cat([vectors[kind].flatten(0, -2) for kind in deep]), share, random)
        flat = bernoulli_dropped(self.second(bernoulli_dropped(self.first(flat), share, random)), share, random)
        parts = torch.split(flat, [math.prod(vectors[kind].shape[:-1]) for kind in deep])
        for kind, part in zip(deep, parts, strict=True):
            logits[kind] = self.softmax[str(CLASSES[kind])](part).view(*vectors[kind].shape[:-1], -1)
        for kind in vectors:
            if kind not in logits:
                logits[kind] = self.softmax[str(CLASSES[kind])](bernoulli_dropped(vectors[kind], share, random))
        return {kind: logits[kind] for kind in vectors}


class DenseLayer(nn.Module):
    """f(W x + b)."""

    def __init__(self, inputs: int, outputs: int, activation: Activation) -> None:
        super().__init__()
        self.weight = nn.Parameter(first_weights(outputs, inputs, activation))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return activated(nn.functional.linear(x, self.weight, self.bias), self.activation)


def first_weights(outputs: int, inputs: int, activation: Activation) -> Tensor:
    """Normally distributed first weights that keep the size of the vectors (He et al. 2015, Glorot and Bengio 2010)."""
    gain = 2.0 if activation == "relu" else 1.0
    return torch.randn(outputs, inputs) * math.sqrt(gain / inputs)


def activated(x: Tensor, activation: Activation) -> Tensor:
    return x.relu() if activation == "relu" else x.tanh()
