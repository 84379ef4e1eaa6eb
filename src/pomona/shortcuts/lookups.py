"""Predictors that see only part of an example and learn its answers: look-up tables and weighted counts.

    learn = Learner(corpus, train)
    learn.table("root operator", "the name at the top of each tree", root_operators).accuracy

An *information* is a function of a corpus that gives a key for each example. The answer to a key is the most frequent
answer among the training examples with that key or, if there are none, with a coarser key. `shortcuts.ladder` makes
ladders of such predictors. Without `train`, they learn from one half of the corpus and answer the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Floats, Ints
from pomona.base.errors import MeasureError
from pomona.data.answers import asked
from pomona.data.corpus import Corpus, codes
from pomona.data.task import Information
from pomona.shortcuts import enumeration, truncation
from pomona.shortcuts.enumeration import NOTHING
from pomona.trees.operators import OPERATORS
from pomona.trees.values import renumber

Positions: TypeAlias = "npt.NDArray[np.int64]"  # [examples, questions]: positions in the corpus's outcomes
FEATURES_FROM = 10_000  # training examples of the softmax; more do not change the first decimal of the accuracy
MOST_ANSWERS = 256  # the softmax decides between this many of the most frequent answers


@dataclass(frozen=True, eq=False)
class Rung:
    """A predictor: what it sees, its answers (None if only its accuracy is known) and how often each is right.

    `right` has one column a question, between 0 and 1, NaN where the predictor does not apply.
    """

    name: str
    sees: str
    right: npt.NDArray[np.float64]
    answers: Positions | None = None

    def __repr__(self) -> str:
        return f"Rung({self.name!r}: {self.accuracy:.1%} right)"

    @property
    def per_question(self) -> tuple[float, ...]:
        """Accuracy on each question (ORCHARD: first tree, second tree)."""
        return tuple(self.right.mean(axis=0).tolist())

    @property
    def accuracy(self) -> float:
        """How often all questions are answered right; NaN if the predictor does not apply to one of them."""
        return float(self.right.prod(axis=1).mean())

    @property
    def error(self) -> float:
        """The standard error of `accuracy`."""
        return float(self.right.prod(axis=1).std() / np.sqrt(max(1, len(self.right))))


def judged(corpus: Corpus, name: str, sees: str, answers: Positions) -> Rung:
    """The rung of a predictor with these answers."""
    return Rung(name, sees, (answers == asked(corpus)).astype(np.float64), answers)


class Learner:
    """Learns from `train`; without it, from each half of the corpus to answer the other."""

    def __init__(self, corpus: Corpus, train: Corpus | None) -> None:
        self.corpus = corpus
        everything = np.arange(len(corpus))
        self.folds: list[tuple[Corpus, npt.NDArray[np.int64]]]  # what to learn from, which rows to answer
        if train is not None:
            if not len(train):
                raise MeasureError("the training corpus is empty")
            wanted = asked(train)
            mine, theirs = asked(corpus).shape[1], wanted.shape[1]
            if mine != theirs:
                raise MeasureError(f"the training corpus asks {theirs} questions an example, this one {mine}")
            if not (_translated(train, wanted, corpus) >= 0).all(axis=1).any() and not _has_rules(corpus):
                raise MeasureError("the training corpus has none of these answers")
            self.folds, self.source = [(train, everything)], repr(train)
        else:
            half = (corpus.keys & np.uint64(1)).astype(bool)
            if half.all() or not half.any():
                half = everything % 2 == 1
            halves = (np.flatnonzero(half), np.flatnonzero(~half))
            if min(map(len, halves)) == 0:
                raise MeasureError(
                    "one example cannot be split into two halves to learn from; give a training corpus"
                )
            self.folds = [(corpus.take(halves[1]), halves[0]), (corpus.take(halves[0]), halves[1])]
            self.source = "the other half of it"

    def table(self, name: str, sees: str, *informations: Information) -> Rung:
        """The most frequent answer to a key; for an unseen key, to the next coarser key, at last of all examples."""
        questions = asked(self.corpus)
        answers = np.zeros_like(questions)
        for train, rows in self.folds:
            part = self.corpus.take(rows)
            wanted = _translated(train, asked(train), self.corpus)
            known = [(_keys(information, train), _keys(information, part)) for information in reversed(informations)]
            for question in range(questions.shape[1]):
                looked_up = np.full(len(rows), _mode(wanted[:, question]))
                for mine, theirs in known:
                    keys, other = numbered(_about(mine, question), _about(theirs, question))
                    best, seen = most_frequent(keys, wanted[:, question], other)
                    looked_up = np.where(seen, best, looked_up)
                answers[rows, question] = looked_up
        return judged(self.corpus, name, sees, answers)

    def weighed(self, name: str, sees: str) -> Rung:
        """A linear softmax on the counts and the presence of tokens."""
        questions = asked(self.corpus)
        answers = np.zeros_like(questions)
        for train, rows in self.folds:
            wanted = _translated(train, asked(train), self.corpus)
            usable = np.flatnonzero((wanted >= 0).all(axis=1))[:FEATURES_FROM]
            if not len(usable):  # training has none of these answers
                answers[rows] = -1
                continue
            train, wanted = train.take(usable), wanted[usable]
            words = tuple(train.vocabulary[word] for word in np.unique(train.tokens).tolist())
            mine, theirs = _counts(train, words), _counts(self.corpus.take(rows), words)
            for question in range(questions.shape[1]):
                answers[rows, question] = _softmax(mine, wanted[:, question], theirs)
        return judged(self.corpus, name, sees, answers)

    def evaluated(self, levels: int, *, by_hand: bool = False) -> npt.NDArray[np.int64]:
        """Answers [rows, trees, levels + 1] of truncated evaluators, with p(value | operator) from training."""
        if not by_hand and not truncation.applies(self.corpus):
            enumeration.check_evaluable(self.corpus)
        answers = np.zeros((len(self.corpus), self.corpus.width, levels + 1), np.int64)
        for train, rows in self.folds:
            evaluated = _from_the_top(self.corpus.take(rows), train, levels, by_hand)
            answers[rows] = evaluated.reshape(len(rows), self.corpus.width, -1)
        return answers


def _has_rules(corpus: Corpus) -> bool:
    """Whether evaluators of the top levels apply, which can compute answers that training never showed."""
    try:
        enumeration.check_evaluable(corpus)
    except MeasureError:
        return truncation.applies(corpus)
    return True


def _from_the_top(corpus: Corpus, train: Corpus, levels: int, by_hand: bool) -> Ints:
    """Answers from the top levels, as positions in outcomes; `truncation` is the fast case."""
    if by_hand or (truncation.applies(corpus) and truncation.applies(train)):
        evaluate = truncation.heuristic if by_hand else truncation.truncated
        digits = renumber(np.arange(truncation.VALUES), range(truncation.VALUES), corpus.outcomes)
        return np.asarray(digits[evaluate(corpus, levels, truncation.value_prior(train))])
    return enumeration.truncated(corpus, levels, enumeration.value_prior(train))


def _translated(corpus: Corpus, answers: Positions, into: Corpus) -> Positions:
    """Positions in one corpus's outcomes as positions in another's, -1 where it has no such outcome."""
    return renumber(answers, corpus.outcomes, into.outcomes)


# -- look-ups ----------------------------------------------------------------------------------------------------------


def _keys(information: Information, corpus: Corpus) -> Any:
    """The keys of a corpus: one for each example or, in an array of three dimensions, for each of its questions."""
    keys = information(corpus)
    if len(keys) != len(corpus):
        raise MeasureError(f"an information gives one key an example; got {len(keys)} for {len(corpus)}")
    return keys


def _about(keys: Any, question: int) -> Any:
    return keys[:, question] if isinstance(keys, np.ndarray) and keys.ndim == 3 else keys


def numbered(*parts: Any) -> tuple[Ints, ...]:
    """Number the keys of all parts together: equal keys get equal numbers."""
    if all(isinstance(part, np.ndarray) and np.issubdtype(part.dtype, np.integer) for part in parts):
        rows = np.concatenate([part.reshape(len(part), -1) for part in parts])
        folded = np.zeros(len(rows), np.uint64)  # a 64-bit hash of each row: numbers sort faster than rows
        for column in rows.T:
            folded = (folded ^ column.astype(np.int64).view(np.uint64)) * np.uint64(0x9FB21C651E98DF25)
            folded ^= folded >> np.uint64(29)
        _, numbers = np.unique(folded, return_inverse=True)
    else:
        index: dict[Any, int] = {}
        numbers = np.array([index.setdefault(key, len(index)) for part in parts for key in part], np.int64)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    return tuple(np.split(numbers, ends))


def most_frequent(keys: Ints, answers: Ints, other: Ints) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """For each key of `other`, the most frequent answer to the same key in `keys`, and whether there is one."""
    size = int(max(keys.max(initial=0), other.max(initial=0))) + 1
    labels = int(answers.max(initial=0)) + 1
    known = answers >= 0
    pairs, counts = np.unique(keys[known].astype(np.int64) * labels + answers[known], return_counts=True)
    best = np.zeros(size, np.int64)
    seen = np.zeros(size, np.bool_)
    order = np.argsort(counts, kind="stable")  # the last written is the most frequent
    best[pairs[order] // labels] = pairs[order] % labels
    seen[pairs // labels] = True
    return best[other], seen[other]


def nothing(corpus: Corpus) -> Ints:
    return np.zeros(len(corpus), np.int64)


def _mode(answers: Ints) -> int:
    """The most frequent answer; -1, which is never right, where none is known."""
    counts = np.bincount(answers[answers >= 0], minlength=1)
    return int(np.argmax(counts)) if counts.any() else -1


def _codes(corpus: Corpus) -> Ints:
    """A number for each name of the forest that is the same in every corpus."""
    return codes(corpus.forest.names).astype(np.int64)


def root_operators(corpus: Corpus) -> Ints:
    """The names at the roots: [examples, trees, 1], or [examples, trees] where there is one question about several."""
    names = _codes(corpus)[corpus.forest.symbol[corpus.forest.root]].reshape(len(corpus), corpus.width)
    return names[:, :, None] if asked(corpus).shape[1] == corpus.width else names


def root_list(corpus: Corpus) -> Ints:
    """Root operator, its value for the leaves directly under the root, their number, and the operators beside them."""
    forest = corpus.forest
    inside = np.flatnonzero(forest.depth == 1)
    tree = forest.tree[inside]
    leaf = forest.leaf[inside] & (forest.links[inside] == 0)
    root = forest.symbol[forest.root]
    lists = np.zeros((len(forest), len(OPERATORS) + 1), np.int64)  # how many of each operator, and COPYs
    column = renumber(forest.symbol[inside[~leaf]], forest.names, tuple(OPERATORS))  # -1, the last, for COPYs
    np.add.at(lists, (tree[~leaf], column), 1)
    keys = np.column_stack([_codes(corpus)[root], _own_leaves(corpus), lists])
    return keys.reshape(len(corpus), corpus.width, -1)


def _own_leaves(corpus: Corpus) -> Ints:
    if not truncation.applies(corpus):
        return enumeration.own_leaves(corpus)
    under_root = truncation.own_digits(corpus)
    code = np.array([*map(enumeration.value_code, range(truncation.VALUES)), NOTHING], np.int64)  # -1 reads the last
    return np.column_stack([code[under_root[:, 0]], under_root[:, 1]])


# -- counts ------------------------------------------------------------------------------------------------------------


def _counts(corpus: Corpus, words: tuple[str, ...]) -> Any:
    """Counts and presence of each word, and the length, as a sparse array: [examples, features]."""
    from scipy import sparse

    table = renumber(corpus.tokens, corpus.vocabulary, words)
    rows = np.repeat(np.arange(len(corpus)), corpus.lengths)[table >= 0]
    pairs, counts = np.unique(rows * len(words) + table[table >= 0], return_counts=True)
    at, shape = np.divmod(pairs, max(1, len(words))), (len(corpus), len(words))
    often = sparse.csr_array((np.log1p(counts), at), shape)
    present = sparse.csr_array((np.ones(len(counts)), at), shape)
    return sparse.hstack([often, present, np.log1p(corpus.lengths)[:, None]], format="csr")


def _softmax(features: Any, answers: Ints, other: Any) -> npt.NDArray[np.int64]:
    """Answers to `other` by multinomial logistic regression with slight regularisation, on standardised features.

    Standardised features are not sparse, so they are never built: (x - middle) / spread @ weights follows from
    x @ weights.
    """
    from scipy.optimize import minimize

    labels, counts = np.unique(answers[answers >= 0], return_counts=True)
    labels = np.sort(labels[np.argsort(-counts, kind="stable")[:MOST_ANSWERS]])
    known = np.isin(answers, labels)
    features, wanted = features[known], np.searchsorted(labels, answers[known])
    rows = features.shape[0]
    middle = features.mean(axis=0)
    spread = np.sqrt(np.maximum(0.0, features.power(2).mean(axis=0) - middle**2))
    scale = np.where(spread > 1e-6, 1.0 / np.maximum(spread, 1e-6), 0.0)  # constant features are dropped
    turned = features.T.tocsr()
    truth = np.eye(len(labels))[wanted]

    def scores_of(some: Any, flat: Floats) -> Floats:
        weights = flat.reshape(-1, len(labels))  # the last row is the bias
        scaled = scale[:, None] * weights[:-1]
        return np.asarray(some @ scaled - middle @ scaled + weights[-1])

    def loss(flat: Floats) -> tuple[float, Floats]:
        scores = scores_of(features, flat)
        scores -= scores.max(axis=1, keepdims=True)
        powers = np.exp(scores)
        totals = powers.sum(axis=1, keepdims=True)
        value = float((np.log(totals[:, 0]) - (scores * truth).sum(axis=1)).mean() + 5e-5 * (flat @ flat))
        wrong = (powers / totals - truth) / rows
        slope = scale[:, None] * (turned @ wrong - np.outer(middle, wrong.sum(axis=0)))
        return value, np.concatenate([slope.ravel(), wrong.sum(axis=0)]) + 1e-4 * flat

    start = np.zeros((features.shape[1] + 1) * len(labels))
    fitted = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 60}).x
    low, high = (features.min(axis=0).toarray(), features.max(axis=0).toarray())
    answered = []
    for first in range(0, other.shape[0], 500):
        # Counts beyond the range of training (longer examples) are clipped to it.
        part = np.clip(other[first : first + 500].toarray(), low, high)
        answered.append(np.argmax(scores_of(part, fitted), axis=1))
    return np.asarray(labels[np.concatenate(answered)], np.int64)
