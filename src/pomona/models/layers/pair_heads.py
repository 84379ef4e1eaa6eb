"""What the models of sentence pairs share: how they read pairs, the twelve questions, the heads, the loss.

    feed = Pairs.of(corpus, vocabulary, outcomes)      # aligned trees of `fair_nli`, as token numbers and classes
    batch = feed.batch(rows)
    batch.tokens                                       # [batch, 2, 9]: premise and hypothesis
    batch.words["modifier"].premise, .where            # each word pair once; which stands where: [slots, batch]
    batch.asked["phrase"]                              # [3, batch]: classes of the three phrases

Figure 4 of Geiger et al. 2019 asks twelve questions of a pair: six of words, three of phrases, two of longer parts, one
of the sentences. Questions with the same answers share a softmax, all share two hidden layers. A pair of words means
the same wherever it stands, so what concerns words alone is computed once for each pair of words in the batch and
counted as often as it occurs; what is drawn at random for it (dropout, noise) is drawn once, too.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from pomona.models.inputs.pairs import CLASSES, WordPairs
from pomona.models.model import Shape
from pomona.models.pair_model import Activation, PairModel, Parts

# -- reading ----------------------------------------------------------------------------------------------------------


# -- what every model of pairs is -------------------------------------------------------------------------------------


class Words(nn.Module):
    """A vector for each word."""

    def __init__(self, settings: PairModel, shape: Shape) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.randn(shape.vocabulary, settings.width) * 0.3)

    def forward(self, tokens: Tensor) -> Tensor:
        return nn.functional.embedding(tokens, self.vectors)

    def side_by_side(self, pairs: WordPairs) -> Tensor:
        """[pairs, 2 width]: premise and hypothesis."""
        return torch.cat([self(pairs.premise), self(pairs.hypothesis)], 1)


class Heads(nn.Module):
    """Two hidden layers, then a softmax for each number of classes; with `inner = "softmax"` only the label has layers.

    That is what Socher et al. (2013) do, whose way the paper takes for models that compose along the aligned tree. It
    is no small matter: a softmax alone can tell classes apart only if the vectors that are handed up do.
    """

    def __init__(self, settings: PairModel, inputs: int) -> None:
        super().__init__()
        hidden = settings.hidden
        self.settings = settings
        self.first, self.second = Layer(inputs, hidden, settings.activation), Layer(hidden, hidden, settings.activation)
        sizes = {classes: hidden if self.layered(kind) else inputs for kind, classes in CLASSES.items()}
        self.softmax = nn.ModuleDict({str(count): nn.Linear(sizes[count], count) for count in sorted(sizes)})

    def layered(self, kind: str) -> bool:
        return kind == "label" or self.settings.inner == "hidden"

    def forward(self, vectors: Parts, random: torch.Generator | None) -> Parts:
        """Logits of all parts, in one product for each layer."""
        share, found = self.settings.dropout, {}
        deep = [kind for kind in vectors if self.layered(kind)]
        flat = dropped(torch.cat([vectors[kind].flatten(0, -2) for kind in deep]), share, random)
        flat = dropped(self.second(dropped(self.first(flat), share, random)), share, random)
        parts = torch.split(flat, [math.prod(vectors[kind].shape[:-1]) for kind in deep])
        for kind, part in zip(deep, parts, strict=True):
            found[kind] = self.softmax[str(CLASSES[kind])](part).view(*vectors[kind].shape[:-1], -1)
        for kind in vectors:
            if kind not in found:
                found[kind] = self.softmax[str(CLASSES[kind])](dropped(vectors[kind], share, random))
        return {kind: found[kind] for kind in vectors}


class Layer(nn.Module):
    """f(W x + b)."""

    def __init__(self, inputs: int, outputs: int, activation: Activation) -> None:
        super().__init__()
        self.weight = nn.Parameter(first_weights(outputs, inputs, activation))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return activated(nn.functional.linear(x, self.weight, self.bias), self.activation)


def first_weights(outputs: int, inputs: int, activation: Activation) -> Tensor:
    """Normal, of a deviation that keeps the size of what passes through (He et al. 2015, Glorot and Bengio 2010)."""
    gain = 2.0 if activation == "relu" else 1.0
    return torch.randn(outputs, inputs) * math.sqrt(gain / inputs)


def activated(x: Tensor, activation: Activation) -> Tensor:
    return x.relu() if activation == "relu" else x.tanh()


def dropped(x: Tensor, share: float, random: torch.Generator | None) -> Tensor:
    """Dropout from the generator that is handed in; nothing without one."""
    if not share or random is None:
        return x
    kept = torch.empty_like(x, requires_grad=False).bernoulli_(1 - share, generator=random)
    return x * kept / (1 - share)
