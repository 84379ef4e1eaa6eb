"""Predictors that see only part of an example and learn its answers: look-up tables and weighted counts.

    learn = Learner(corpus, train)
    learn.table("root operator", "the name at the top of each tree", "root operators").accuracy

An *information* is a function of a corpus that gives a key for each example. The answer to a key is the most frequent
answer among the training examples with that key or, if there are none, with a coarser key (`shortcuts.lessons`).
`shortcuts.ladder` makes ladders of such predictors. Without `train`, they learn from one half of the corpus and answer
the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Floats, Ints
from pomona.base.errors import MeasureError
from pomona.base.workers import HERE, Crew
from pomona.data.answers import asked
from pomona.data.corpus import Corpus, codes
from pomona.data.shards.folder import Shards
from pomona.data.task import Information
from pomona.shortcuts import enumeration, truncation
from pomona.shortcuts.enumeration import NOTHING
from pomona.shortcuts.lessons import Teaching, about, coded, keys_of, learn
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
    times: npt.NDArray[np.int64] | None = None  # how many examples each row of `right` stands for; None: one each

    def __repr__(self) -> str:
        return f"Rung({self.name!r}: {self.accuracy:.1%} right)"

    @property
    def per_question(self) -> tuple[float, ...]:
        """Accuracy on each question (ORCHARD: first tree, second tree)."""
        return tuple(self._mean(self.right).tolist())

    @property
    def accuracy(self) -> float:
        """How often all questions are answered right; NaN if the predictor does not apply to one of them."""
        return float(self._mean(self.right.prod(axis=1)))

    @property
    def error(self) -> float:
        """The standard error of `accuracy`."""
        spread = np.sqrt(self._mean((self.right.prod(axis=1) - self.accuracy) ** 2))
        return float(spread / np.sqrt(max(1, len(self.right) if self.times is None else int(self.times.sum()))))

    def _mean(self, values: Floats) -> Any:
        return values.mean(axis=0) if self.times is None else self.times @ values / self.times.sum()

    def counted(self) -> Rung:
        """The same accuracies with each different row of `right` once, without the answers."""
        times = np.ones(len(self.right), np.int64) if self.times is None else self.times
        told = np.where(np.isnan(self.right), -1.0, self.right)  # as rows, no two of NaN are equal
        rows, where = np.unique(told, axis=0, return_inverse=True)
        rows[rows < 0] = np.nan
        return Rung(self.name, self.sees, rows, None, np.bincount(where.ravel(), times, len(rows)).astype(np.int64))

    def join(self, other: Rung) -> Rung:
        """The rung of the examples of both."""
        one, more = self.counted(), other.counted()
        assert one.times is not None
        assert more.times is not None
        both = np.concatenate([one.right, more.right])
        return Rung(self.name, self.sees, both, None, np.concatenate([one.times, more.times])).counted()


def judged(corpus: Corpus, name: str, sees: str, answers: Positions) -> Rung:
    """The rung of a predictor with these answers."""
    return Rung(name, sees, (answers == asked(corpus)).astype(np.float64), answers)


class Learner:
    """Learns from `train`; without it, from each half of the corpus to answer the other.

    `informations` are those of the task, by name, beside those that every corpus has (OF_EVERY_TASK).
    """

    def __init__(
        self,
        corpus: Corpus,
        train: Corpus | Shards | Teaching | None,
        informations: Mapping[str, Information] | None = None,
        crew: Crew = HERE,
    ) -> None:
        self.corpus, self.informations = corpus, all_informations(informations or {})
        everything = np.arange(len(corpus))
        self.folds: list[tuple[Teaching, npt.NDArray[np.int64]]]  # what to learn from, which rows to answer
        if train is not None:
            lessons = train if isinstance(train, Teaching) else learn(train, self.informations, crew)
            mine, theirs = asked(corpus).shape[1], lessons.questions
            if mine != theirs:
                raise MeasureError(f"the training corpus asks {theirs} questions an example, this one {mine}")
            if not _teaches(lessons, corpus) and not _has_rules(corpus):
                raise MeasureError("the training corpus has none of these answers")
            self.folds, self.source = [(lessons, everything)], lessons.source
        else:
            half = (corpus.keys & np.uint64(1)).astype(bool)
            if half.all() or not half.any():
                half = everything % 2 == 1
            halves = (np.flatnonzero(half), np.flatnonzero(~half))
            if min(map(len, halves)) == 0:
                raise MeasureError(
                    "one example cannot be split into two halves to learn from; give a training corpus"
                )
            self.folds = [
                (learn(corpus.take(learnt), self.informations), answered)
                for answered, learnt in (halves, halves[::-1])
            ]
            self.source = "the other half of it"

    def table(self, name: str, sees: str, *informations: str) -> Rung:
        """The most frequent answer to a key; for an unseen key, to the next coarser key, at last of all examples."""
        questions = asked(self.corpus)
        answers = np.zeros_like(questions)
        for lessons, rows in self.folds:
            part = self.corpus.take(rows)
            for one in informations:  # what is wrong with an information is told about training first
                lessons.table(one)
            keys = [(one, keys_of(self.informations[one], part)) for one in reversed(informations)]
            for question in range(questions.shape[1]):
                looked_up = np.full(len(rows), _mode(lessons, question, self.corpus))
                for one, theirs in keys:
                    counts = lessons.counts(one, question, self.corpus.outcomes)
                    best, seen = counts.best(coded(about(theirs, question)))
                    looked_up = np.where(seen, best, looked_up)
                answers[rows, question] = looked_up
        return judged(self.corpus, name, sees, answers)

    def weighed(self, name: str, sees: str) -> Rung:
        """A linear softmax on the counts and the presence of tokens."""
        questions = asked(self.corpus)
        answers = np.zeros_like(questions)
        for lessons, rows in self.folds:
            if self.corpus.outcomes not in lessons.memory:
                lessons.memory[self.corpus.outcomes] = _fitted(lessons, self.corpus)
            words, softmaxes = lessons.memory[self.corpus.outcomes]
            theirs = _counts(self.corpus.take(rows), words) if softmaxes else None
            for question in range(questions.shape[1]):  # -1 where training has none of these answers
                answers[rows, question] = softmaxes[question].answers_to(theirs) if softmaxes else -1
        return judged(self.corpus, name, sees, answers)

    def evaluated(self, levels: int, *, by_hand: bool = False) -> npt.NDArray[np.int64]:
        """Answers [rows, trees, levels + 1] of truncated evaluators, with p(value | operator) from training."""
        if not by_hand and not truncation.applies(self.corpus):
            enumeration.check_evaluable(self.corpus)
        answers = np.zeros((len(self.corpus), self.corpus.width, levels + 1), np.int64)
        for lessons, rows in self.folds:
            evaluated = _from_the_top(self.corpus.take(rows), lessons, levels, by_hand)
            answers[rows] = evaluated.reshape(len(rows), self.corpus.width, -1)
        return answers


def _fitted(lessons: Teaching, corpus: Corpus) -> tuple[tuple[str, ...], list[_Softmax]]:
    """The words whose counts are seen, and the softmax of each question; none if there is nothing to learn from."""
    train = lessons.first(corpus.outcomes, FEATURES_FROM)
    if not len(train):
        return (), []
    wanted = _translated(train, asked(train), corpus)
    words = tuple(train.vocabulary[word] for word in np.unique(train.tokens).tolist())
    features = _counts(train, words)
    return words, [_Softmax(features, column) for column in wanted.T]


def _teaches(lessons: Teaching, corpus: Corpus) -> bool:
    """Whether some training example has all its answers among those of a corpus."""
    return lessons.complete and len(lessons.first(corpus.outcomes, 1)) > 0


def _has_rules(corpus: Corpus) -> bool:
    """Whether evaluators of the top levels apply, which can compute answers that training never showed."""
    try:
        enumeration.check_evaluable(corpus)
    except MeasureError:
        return truncation.applies(corpus)
    return True


def _from_the_top(corpus: Corpus, lessons: Teaching, levels: int, by_hand: bool) -> Ints:
    """Answers from the top levels, as positions in outcomes; `truncation` is the fast case."""
    if by_hand or (truncation.applies(corpus) and lessons.digits):
        evaluate = truncation.heuristic if by_hand else truncation.truncated
        digits = renumber(np.arange(truncation.VALUES), range(truncation.VALUES), corpus.outcomes)
        return np.asarray(digits[evaluate(corpus, levels, lessons.prior(digits=True))])
    return enumeration.truncated(corpus, levels, lessons.prior(digits=False))


def _translated(corpus: Corpus, answers: Positions, into: Corpus) -> Positions:
    """Positions in one corpus's outcomes as positions in another's, -1 where it has no such outcome."""
    return renumber(answers, corpus.outcomes, into.outcomes)


# -- look-ups ----------------------------------------------------------------------------------------------------------


def nothing(corpus: Corpus) -> Ints:
    return np.zeros(len(corpus), np.int64)


def _mode(lessons: Teaching, question: int, corpus: Corpus) -> int:
    """The most frequent answer of all, as a position in the outcomes of a corpus; -1, never right, if none is known."""
    counts = lessons.counts("nothing", question, corpus.outcomes)
    times = np.bincount(counts.answers, counts.times, minlength=1)
    return int(np.argmax(times)) if times.any() else -1


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


OF_EVERY_TASK: dict[str, Information] = {
    "nothing": nothing,
    "root operators": root_operators,
    "root list": root_list,
}


def all_informations(own: Mapping[str, Information]) -> dict[str, Information]:
    """The informations of every task, and those of one under their names with `own` before them."""
    return {**OF_EVERY_TASK, **{f"own {name}": information for name, information in own.items()}}


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


class _Softmax:
    """Multinomial logistic regression with slight regularisation, on standardised features.

    Standardised features are not sparse, so they are never built: (x - middle) / spread @ weights follows from
    x @ weights.
    """

    def __init__(self, features: Any, answers: Ints) -> None:
        from scipy.optimize import minimize

        labels, counts = np.unique(answers[answers >= 0], return_counts=True)
        self._labels = labels = np.sort(labels[np.argsort(-counts, kind="stable")[:MOST_ANSWERS]])
        known = np.isin(answers, labels)
        features, wanted = features[known], np.searchsorted(labels, answers[known])
        rows = features.shape[0]
        self._middle = features.mean(axis=0)
        spread = np.sqrt(np.maximum(0.0, features.power(2).mean(axis=0) - self._middle**2))
        # constant features are dropped
        self._scale = np.where(spread > 1e-6, 1.0 / np.maximum(spread, 1e-6), 0.0)
        turned = features.T.tocsr()
        truth = np.eye(len(labels))[wanted]

        def loss(flat: Floats) -> tuple[float, Floats]:
            scores = self._scores(features, flat)
            scores -= scores.max(axis=1, keepdims=True)
            powers = np.exp(scores)
            totals = powers.sum(axis=1, keepdims=True)
            value = float((np.log(totals[:, 0]) - (scores * truth).sum(axis=1)).mean() + 5e-5 * (flat @ flat))
            wrong = (powers / totals - truth) / rows
            slope = self._scale[:, None] * (turned @ wrong - np.outer(self._middle, wrong.sum(axis=0)))
            return value, np.concatenate([slope.ravel(), wrong.sum(axis=0)]) + 1e-4 * flat

        start = np.zeros((features.shape[1] + 1) * len(labels))
        self._weights = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 60}).x
        self._low, self._high = features.min(axis=0).toarray(), features.max(axis=0).toarray()

    def _scores(self, some: Any, flat: Floats) -> Floats:
        weights = flat.reshape(-1, len(self._labels))  # the last row is the bias
        scaled = self._scale[:, None] * weights[:-1]
        return np.asarray(some @ scaled - self._middle @ scaled + weights[-1])

    def answers_to(self, other: Any) -> npt.NDArray[np.int64]:
        """The most probable answer to each row of features."""
        answered = []
        for first in range(0, other.shape[0], 500):
            # Counts beyond the range of training (longer examples) are clipped to it.
            part = np.clip(other[first : first + 500].toarray(), self._low, self._high)
            answered.append(np.argmax(self._scores(part, self._weights), axis=1))
        return np.asarray(self._labels[np.concatenate(answered)], np.int64)
