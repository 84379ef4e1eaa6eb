"""Sentence pairs of `fair_nli` in the numbers of a model: tokens, and the answers to twelve questions about each pair.

    feed = SentencePairs.of(corpus, vocabulary, outcomes)
    batch = feed.batch(rows)
    batch.tokens                                       # [batch, 2, 9]: premise and hypothesis
    batch.words["modifier"].premise, .where            # each word pair once; which of them stands where
    batch.asked["phrase"]                              # [3, batch]: classes of the three phrases

Figure 4 of Geiger et al. 2019 asks twelve questions of a pair: six about words, three about phrases, two about longer
parts, and one about the whole sentences. Questions are of six kinds; those of one kind have the same possible answers.
The relation of two words does not depend on where they stand. So what concerns words alone is computed once for each
pair of words in the batch and counted as often as it occurs; random numbers (dropout, noise) are drawn once for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pomona.base.errors import RunError
from pomona.data.corpus import Corpus
from pomona.fairness import certify
from pomona.models.inputs.batches import refuse_empty
from pomona.tasks.fair_nli.logic.aligned import LEXICAL, check_shape, codes_of, figure_4
from pomona.tasks.fair_nli.logic.fragment import TARGETS
from pomona.tasks.fair_nli.logic.relations import Label, Relation
from pomona.trees.values import renumber

WORDS: Final = {"modifier": (1, 4, 7), "head": (2, 5, 8), "quantifier": (0, 6), "negation": (3,)}
"""Kinds of words, and where they stand among the nine of a sentence: in subject, verb phrase, object."""

SPANS: Final = {
    "modifier": ((1, 2), (4, 5), (7, 8)),
    "head": ((2, 3), (5, 6), (8, 9)),
    "phrase": ((1, 3), (4, 6), (7, 9)),
    "object": ((4, 9),),
    "negated": ((3, 9),),
    "label": ((0, 9),),
}
"""The twelve parts that questions are asked about, by kind, as columns of either sentence."""

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
ANSWERS: Final[dict[str, tuple[str, ...]]] = {
    "modifier": tuple(relation.symbol for relation in _FOUR),
    "head": (Relation.EQ.symbol, Relation.IND.symbol),
    "phrase": tuple(relation.symbol for relation in _FOUR),
    "object": tuple(relation.symbol for relation in Relation),
    "negated": tuple(relation.symbol for relation in Relation),
    "label": tuple(label.text for label in Label),
}
"""The possible answers to the questions of each kind."""

CLASSES: Final = {kind: len(answers) for kind, answers in ANSWERS.items()}
_COLUMNS: Final = {kind: [TARGETS.index(node) for node in nodes] for kind, nodes in ASKED.items()}


@dataclass(frozen=True, eq=False)
class WordPairs:
    """The word pairs of one kind in a batch. A pair occurs once for each slot; those of one slot are neighbours."""

    premise: Tensor  # [pairs]
    hypothesis: Tensor  # [pairs]
    where: Tensor  # [slots, batch]: which of them stands there
    count: Tensor  # [pairs]: how often each occurs
    begin: tuple[int, ...]  # where the pairs of each slot begin, and where the last ones end


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
class SentencePairs:
    """A corpus of pairs in the numbers of one model."""

    tokens: npt.NDArray[np.int64]  # [rows, 2, 9]
    classes: npt.NDArray[np.int64]  # [rows, 12]: answers to the questions of TARGETS, within their kinds
    vocabulary: tuple[str, ...]

    @classmethod
    def of(cls, corpus: Corpus, vocabulary: tuple[str, ...], outcomes: Sequence[Any]) -> SentencePairs:
        """The corpus, which must be aligned trees of pairs over words that the model knows."""
        refuse_empty(corpus)
        check_shape(corpus.forest)
        tokens = renumber(corpus.tokens, corpus.vocabulary, vocabulary).reshape(-1, 18)
        if tokens.min() < 0:
            row, column = np.argwhere(tokens < 0)[0]
            word = corpus.vocabulary[int(corpus.tokens.reshape(-1, 18)[row, column])]
            raise RunError(f"row {row} has the word {word!r}, which the model has never seen")
        answers = {**ANSWERS, "label": tuple(outcomes)}
        classes = figure_4(corpus).astype(np.int64)
        for kind, columns in _COLUMNS.items():
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
        for kind, columns in _COLUMNS.items():
            answers = classes[:, columns].T  # [slots, batch]
            answers = answers.ravel()[first[kind]] if kind in first else answers.copy()
            asked[kind] = torch.from_numpy(answers).to(device)
        whole, labels = (torch.from_numpy(array).to(device) for array in (tokens, classes[:, -1].copy()))
        return PairBatch(taken, whole, labels, words, asked)

    def _words(
        self, tokens: npt.NDArray[np.int64], device: torch.device | str
    ) -> tuple[dict[str, WordPairs], dict[str, npt.NDArray[np.int64]]]:
        """The distinct word pairs of each kind, and where each occurs first among [slots, batch]."""
        size = len(self.vocabulary)
        words, first = {}, {}
        for kind, columns in WORDS.items():
            premise, hypothesis = tokens[:, 0, columns].T, tokens[:, 1, columns].T  # [slots, batch]
            slot = np.arange(len(columns))[:, None]
            codes, first_at, where, count = np.unique(
                (slot * size + premise) * size + hypothesis, return_index=True, return_inverse=True, return_counts=True
            )
            begin = np.searchsorted(codes, np.arange(len(columns) + 1) * size * size)
            arrays = (codes // size % size, codes % size, where.reshape(premise.shape), count)
            tensors = [torch.from_numpy(array).to(device) for array in arrays]
            words[kind] = WordPairs(tensors[0], tensors[1], tensors[2], tensors[3], tuple(begin.tolist()))
            if kind in ASKED:
                first[kind] = first_at
        return words, first


def evidence_of_split(train: Corpus, held_out: Corpus) -> dict[str, Any]:
    """How many encodings the two corpora share, and the fairness certificate of the split.

    An error if they share encodings although the task holds them out.
    """
    of_train, of_held_out = (np.unique(codes_of(corpus)) for corpus in (train, held_out))
    shared = np.intersect1d(of_train, of_held_out)
    settings = train.origin.get("settings", {})
    if len(shared) and settings.get("redundancy", 1) < 1:
        raise RunError(
            f"{len(shared)} encodings of the held-out pairs are in the training set (the first: {shared[0]}), although "
            "the task holds them out; the two corpora are not of one split"
        )
    certificate = certify(train, held_out, given=() if settings.get("lexical") == "strict" else LEXICAL)
    encodings = {"train": len(of_train), "held_out": len(of_held_out), "shared": len(shared)}
    return {"encodings": encodings, "certificate": certificate.plain()}
