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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pomona.base.errors import RunError, SpecError
from pomona.data.corpus import Corpus
from pomona.fairness import certify
from pomona.models.model import Model, Output, Shape
from pomona.tasks.fair_nli.logic.aligned import LEXICAL, check_shape, codes_of, figure_4
from pomona.tasks.fair_nli.logic.fragment import TARGETS
from pomona.tasks.fair_nli.logic.relations import Label, Relation
from pomona.trees.values import renumber

Activation = Literal["relu", "tanh"]
Inner = Literal["hidden", "softmax"]
Parts = dict[str, Tensor]  # by kind of part

WORDS: Final = {"modifier": (1, 4, 7), "head": (2, 5, 8), "quantifier": (0, 6), "negation": (3,)}
"""Kinds of words and where they stand among the nine of a sentence: in subject, verb phrase, object."""

SPANS: Final = {
    "modifier": ((1, 2), (4, 5), (7, 8)),
    "head": ((2, 3), (5, 6), (8, 9)),
    "phrase": ((1, 3), (4, 6), (7, 9)),
    "object": ((4, 9),),
    "negated": ((3, 9),),
    "label": ((0, 9),),
}
"""The twelve parts that questions are asked of, by kind, as columns of either sentence."""

ASKED: Final = {
    "modifier": ("PROJ_AdjS", "PROJ_Adv", "PROJ_AdjO"),
    "head": ("REL_NS", "REL_V", "REL_NO"),
    "phrase": ("NP_S", "VP", "NP_O"),
    "object": ("OBJ",),
    "negated": ("NEGVP",),
    "label": ("ROOT",),
}
"""The nodes of the aligned tree that these questions are about."""

_FOUR = (Relation.EQ, Relation.FWD, Relation.REV, Relation.IND)
_ANSWERS: Final[dict[str, tuple[str, ...]]] = {
    "modifier": tuple(relation.symbol for relation in _FOUR),
    "head": (Relation.EQ.symbol, Relation.IND.symbol),
    "phrase": tuple(relation.symbol for relation in _FOUR),
    "object": tuple(relation.symbol for relation in Relation),
    "negated": tuple(relation.symbol for relation in Relation),
    "label": tuple(label.text for label in Label),
}
CLASSES: Final = {kind: len(answers) for kind, answers in _ANSWERS.items()}

WEIGHTS: Final = (1 / 6, 1 / 6, 1 / 3, 0.8, 0.8, 1.0)
"""How much an error counts, by kind: that of the authors' later code; the paper gives no numbers."""


# -- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class WordPairs:
    """The word pairs of one kind in a batch, each once for each slot, slot after slot."""

    premise: Tensor  # [pairs]
    hypothesis: Tensor  # [pairs]
    where: Tensor  # [slots, batch]: which of them stands there
    count: Tensor  # [pairs]: how often each occurs
    begin: tuple[int, ...]  # where each slot's pairs begin, and the end


@dataclass(frozen=True, eq=False)
class PairBatch:
    """Some pairs side by side."""

    rows: npt.NDArray[np.int64]
    tokens: Tensor  # [batch, 2, 9]
    targets: Tensor  # [batch]; -1 where the label is not known
    words: Mapping[str, WordPairs]
    asked: Mapping[str, Tensor]  # classes: [pairs] for kinds of words, else [slots, batch]

    def __len__(self) -> int:
        return len(self.rows)

    def classes(self, kind: str, logits: Tensor) -> Tensor:
        """The true classes in the shape of the logits: one for each word pair, or one for each slot and pair."""
        asked = self.asked[kind]
        return asked[self.words[kind].where] if kind in self.words and logits.ndim == 3 else asked


@dataclass(frozen=True, eq=False)
class Pairs:
    """A corpus of pairs in the numbers of one model."""

    tokens: npt.NDArray[np.int64]  # [rows, 2, 9]
    classes: npt.NDArray[np.int64]  # [rows, 12]: answers to the questions of TARGETS, within their kinds
    vocabulary: tuple[str, ...]

    @classmethod
    def of(cls, corpus: Corpus, vocabulary: tuple[str, ...], outcomes: Sequence[Any]) -> Pairs:
        """The corpus, which must be aligned trees of pairs over words that the model knows."""
        if not len(corpus):
            raise RunError(f"{corpus!r} is empty: there is nothing to train on or to answer")
        check_shape(corpus.forest)
        tokens = renumber(corpus.tokens, corpus.vocabulary, vocabulary).reshape(-1, 18)
        if tokens.min() < 0:
            row, column = np.argwhere(tokens < 0)[0]
            word = corpus.vocabulary[int(corpus.tokens.reshape(-1, 18)[row, column])]
            raise RunError(f"row {row} has the word {word!r}, which the model has never seen")
        answers = {**_ANSWERS, "label": tuple(outcomes)}
        classes = figure_4(corpus).astype(np.int64)
        for kind, nodes in ASKED.items():
            columns = [TARGETS.index(node) for node in nodes]
            classes[:, columns] = renumber(classes[:, columns], corpus.outcomes, answers[kind])
        return cls(tokens.reshape(-1, 2, 9), classes, vocabulary)

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        return np.full(len(self), 18)

    @property
    def targets(self) -> npt.NDArray[np.int64]:
        return self.classes[:, -1]

    def batch(self, rows: npt.NDArray[np.integer[Any]], device: torch.device | str = "cpu") -> PairBatch:
        taken = np.asarray(rows, np.int64)
        tokens, classes = self.tokens[taken], self.classes[taken]
        words, first = self._words(tokens, device)
        asked = {}
        for kind, nodes in ASKED.items():
            own = classes[:, [TARGETS.index(node) for node in nodes]].T
            asked[kind] = torch.from_numpy(own.ravel()[first[kind]] if kind in first else own.copy()).to(device)
        whole, labels = (torch.from_numpy(array).to(device) for array in (tokens, classes[:, -1].copy()))
        return PairBatch(taken, whole, labels, words, asked)

    def _words(
        self, tokens: npt.NDArray[np.int64], device: torch.device | str
    ) -> tuple[dict[str, WordPairs], dict[str, npt.NDArray[np.int64]]]:
        """The word pairs that differ, and where each is first found among [slots, batch]."""
        size, made, first = len(self.vocabulary), {}, {}
        for kind, columns in WORDS.items():
            premise, hypothesis = tokens[:, 0, columns].T, tokens[:, 1, columns].T  # [slots, batch]
            slot = np.arange(len(columns))[:, None]
            codes, found, where, count = np.unique(
                (slot * size + premise) * size + hypothesis, return_index=True, return_inverse=True, return_counts=True
            )
            begin = np.searchsorted(codes, np.arange(len(columns) + 1) * size * size)
            arrays = (codes // size % size, codes % size, where.reshape(premise.shape), count)
            tensors = [torch.from_numpy(array).to(device) for array in arrays]
            made[kind] = WordPairs(tensors[0], tensors[1], tensors[2], tensors[3], tuple(begin.tolist()))
            if kind in ASKED:
                first[kind] = found
        return made, first


def evidence_of_split(train: Corpus, held_out: Corpus) -> dict[str, Any]:
    """That no encoding of `held_out` is in `train`, and the fairness certificate: every input that it needs is there.

    An error if encodings are shared although the task holds them out.
    """
    ours, theirs = (np.unique(codes_of(corpus)) for corpus in (train, held_out))
    shared = np.intersect1d(ours, theirs)
    if len(shared) and train.origin.get("settings", {}).get("redundancy", 1) < 1:
        raise RunError(
            f"{len(shared)} encodings of the held-out pairs are in the training set (the first: {shared[0]}), though "
            "the task holds them out; the two corpora are not of one split"
        )
    strict = train.origin.get("settings", {}).get("lexical") == "strict"
    certificate = certify(train, held_out, given=() if strict else LEXICAL)
    encodings = {"train": len(ours), "held_out": len(theirs), "shared": len(shared)}
    return {"encodings": encodings, "certificate": certificate.plain()}


# -- what every model of pairs is -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PairModel(Model):
    """Settings that all models of pairs have."""

    example = "fair_nli/hardest"

    width: int = 100  # of word vectors, and of whatever is made of them
    hidden: int = 100  # of both hidden layers before the softmax
    activation: Activation = "relu"
    dropout: float = 0.0
    intermediate: bool = True  # all twelve questions, or the label alone
    inner: Inner = "hidden"  # what answers the eleven others: the hidden layers too, or the softmax alone
    weights: tuple[float, ...] = WEIGHTS  # of modifiers, heads, phrases, object, negated, label

    def __post_init__(self) -> None:
        if len(self.weights) != len(ASKED) or min(self.weights) < 0 or self.weights[-1] <= 0:
            raise SpecError(f"weights = {self.weights}: one number for each of {', '.join(ASKED)}, the last above 0")
        if not 0 <= self.dropout < 1:
            raise SpecError(f"dropout = {self.dropout}: a share from 0 to below 1")
        if self.activation not in ("relu", "tanh"):
            raise SpecError(f"activation = {self.activation!r}: 'relu' or 'tanh'")
        if self.inner not in ("hidden", "softmax"):
            raise SpecError(f"inner = {self.inner!r}: 'hidden' or 'softmax'")

    def words(self, corpus: Corpus) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        return corpus.vocabulary, _ANSWERS["label"]

    def read(self, corpus: Corpus, vocabulary: tuple[str, ...], outcomes: tuple[Any, ...]) -> Pairs:
        return Pairs.of(corpus, vocabulary, outcomes)

    def evidence(self, train: Corpus, dev: Corpus) -> dict[str, Any]:
        return evidence_of_split(train, dev)


class PairModule(nn.Module):
    """A module of pairs: what a model adds is `answers`, logits for every kind of question."""

    def __init__(self, settings: PairModel) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, batch: PairBatch, random: torch.Generator | None = None) -> Output:
        answers = self.answers(batch, random if self.training else None)
        return Output(answers["label"][0], loss=self.loss(batch, answers) if self.training else None)

    def answers(self, batch: PairBatch, random: torch.Generator | None) -> Parts:
        """Logits of the questions that are asked, [slots, batch, classes]; for kinds of words, which mean the same
        wherever they stand, [pairs, classes] will do."""
        raise NotImplementedError

    def loss(self, batch: PairBatch, answers: Parts) -> Tensor:
        """The weighted sum of the twelve cross entropies, averaged over pairs and questions."""
        total = answers["label"].new_zeros(())
        for kind in self.kinds():
            logits, classes = answers[kind], batch.classes(kind, answers[kind])
            each = nn.functional.cross_entropy(
                logits.flatten(0, -2), classes.flatten(), ignore_index=-1, reduction="none"
            )
            if logits.ndim == 2:
                each = each * batch.words[kind].count
            total = total + self.settings.weights[list(ASKED).index(kind)] * each.sum()
        return total / (len(batch) * len(TARGETS))

    def kinds(self) -> tuple[str, ...]:
        """The kinds of questions that are asked: in training only those that count."""
        if self.training and not self.settings.intermediate:
            return ("label",)
        weights = zip(ASKED, self.settings.weights, strict=True)
        return tuple(kind for kind, weight in weights if weight or not self.training)


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


def node_accuracy(module: PairModule, feed: Pairs, *, size: int = 1024) -> dict[str, float]:
    """The share of right answers to each of the twelve questions, by the name of the node."""
    module.eval()
    right = dict.fromkeys(TARGETS, 0)
    with torch.no_grad():
        for first in range(0, len(feed), size):
            batch = feed.batch(np.arange(first, min(first + size, len(feed))))
            for kind, logits in module.answers(batch, None).items():
                equal = logits.argmax(-1) == batch.classes(kind, logits)
                equal = equal[batch.words[kind].where] if logits.ndim == 2 else equal
                for node, number in zip(ASKED[kind], equal.sum(1).tolist(), strict=True):
                    right[node] += number
    return {node: number / len(feed) for node, number in right.items()}
