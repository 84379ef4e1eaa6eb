"""How many levels of a tree does a predictor use? The k whose truncated evaluator explains its answers.

    >>> test, train = pm.generate("listops/d20s", split="test"), pm.generate("listops/d20s")
    >>> print(effective_depth(test, predictions, train=train))
    acts like an evaluator that opens 2 levels: 82 % of its answers; the others look random

T_k(x) is the answer of the evaluator that opens the top k levels (`shortcuts.truncation`, and `shortcuts.enumeration`
for operators of your own); T_inf is the right answer. Accuracy alone cannot tell which of them a model resembles,
because on most examples they all agree. So they are compared where they differ. A predictor is modelled as T_k with a
share of answers replaced at random. The likelihood grows with the number of answers equal to T_k, so the best k is the
one that agrees most often. Another k' stays in the interval unless an exact sign test rejects it. The test asks, over
the examples where T_k and T_k' differ, which of the two the predictor followed.

The best k need not be an exact match. `unlike` gives the reasons, if one of three things holds:

    few       the best evaluator gives no more than half of the answers
    rival     a shortcut (most frequent answer, root operator, root list, a task's own) agrees with more of them
    pattern   whether the predictor follows T_k depends on the example: on T_k's answer, its root operator, its depth,
              or on how many of the other evaluators say the same. Random noise does not depend on the example.

`sentence` says what that means in plain words (`shortcuts.verdicts`), `details` gives the numbers and tests behind it,
and `mixture` describes what no single depth does (`shortcuts.mixture`).

Accuracy beyond the training depth counts as generalisation over depth only if it exceeds that of T_k with k = that
depth on the same examples (`train_depth`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools, Ints
from pomona.base.errors import MeasureError
from pomona.data.answers import answers_given, asked
from pomona.data.corpus import Corpus
from pomona.shortcuts import ladder as shortcuts
from pomona.shortcuts.mixture import Mixture, mixture
from pomona.shortcuts.verdicts import ENOUGH, percent, sentence
from pomona.trees.values import labels_of

EVERYTHING = float("inf")
LEVELS = 12
LEVEL = 0.05  # significance level of the sign tests behind the interval
ALONE = 0.99  # a mixture in which one component has more than this says nothing new
STRANGE = 1e-4  # significance level of the four tests for a pattern; low, so that false alarms are rare


@dataclass(frozen=True, eq=False)
class Beyond:
    """Accuracy on examples deeper than training, compared with the evaluator that stops at the training depth."""

    train_depth: int
    examples: int
    accuracy: float
    truncated: float
    interval: tuple[float, float]  # of the difference

    @property
    def exceeds(self) -> bool:
        return bool(self.interval[0] > 0)

    def __str__(self) -> str:
        low, high = (100 * bound for bound in self.interval)
        verdict = "it generalises over depth" if self.exceeds else "no sign of generalisation over depth"
        return (
            f"On the {self.examples:,} examples deeper than {self.train_depth}, the depth of training, it is right on "
            f"{percent(self.accuracy)}, an evaluator that stops at that depth on {percent(self.truncated)} (difference "
            f"{low:+.1f} to {high:+.1f} points): {verdict}"
        )


@dataclass(frozen=True, eq=False)
class EffectiveDepth:
    """The best k, its interval and how well it fits; `inf` is the evaluator that opens everything."""

    depth: float
    interval: tuple[float, float]
    agreement: npt.NDArray[np.float64]  # share of answers equal to T_0, T_1 .. T_levels, T_inf
    contested: int  # examples on which the evaluators differ
    explained: float  # share of the contested answers that the best evaluator gives
    rival: str
    margin: float  # share of answers of the best evaluator minus that of the rival
    unlike: tuple[str, ...]  # why no evaluator is an exact match; empty if one is
    beyond: Beyond | None
    rows: int
    unparsed: int  # answers that cannot be read
    chance: float  # agreement with the best evaluator if the answers did not depend on the examples
    constant: str | None  # the answer, if it is the same for every example
    mixture: Mixture

    @property
    def fits(self) -> bool:
        return not self.unlike

    @property
    def noise(self) -> float:
        """The share of answers that the best evaluator does not give."""
        return float(1 - self.agreement.max())

    @cached_property
    def sentence(self) -> str:
        """What the model acts like, in plain words."""
        return sentence(self._numbers())

    @property
    def details(self) -> str:
        """The numbers and tests behind the sentence."""
        low, high = (_named(bound) for bound in self.interval)
        words = (
            f"effective depth {_named(self.depth)} (95 % interval {low} to {high}): the evaluator gives "
            f"{self.agreement.max():.1%} of the answers, {self.explained:.1%} of the {self.contested:,} on which "
            f"evaluators differ; {self.margin:+.1%} against the best shortcut, {self.rival}"
        )
        return words if self.fits else f"{words}. Not an exact match: {'; '.join(self.unlike)}"

    def __repr__(self) -> str:
        return f"EffectiveDepth({self.sentence})"

    def __str__(self) -> str:
        lines = [self.sentence]
        if max(share.share for share in self.mixture.shares) < ALONE:
            lines.append(f"As a mixture: {self.mixture}")
        return "\n".join([*lines, *([str(self.beyond)] if self.beyond else [])])

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; infinity is the word "everything"."""
        return {"sentence": self.sentence, **self._numbers(), "mixture": self.mixture.as_dict()}

    def _numbers(self) -> dict[str, Any]:
        beyond = self.beyond
        return {
            "depth": _plain(self.depth),
            "interval": [_plain(bound) for bound in self.interval],
            "fits": self.fits,
            "unlike": list(self.unlike),
            "noise": round(self.noise, 6),
            "agreement": [round(share, 6) for share in self.agreement.tolist()],
            "contested": self.contested,
            "explained": round(self.explained, 6),
            "rival": self.rival,
            "margin": round(self.margin, 6),
            "rows": self.rows,
            "unparsed": self.unparsed,
            "chance": round(self.chance, 6),
            "constant": self.constant,
            "beyond": None
            if beyond is None
            else {
                "train_depth": beyond.train_depth,
                "examples": beyond.examples,
                "accuracy": round(beyond.accuracy, 6),
                "truncated": round(beyond.truncated, 6),
                "interval": [round(bound, 6) for bound in beyond.interval],
                "exceeds": beyond.exceeds,
            },
        }


def _plain(depth: float) -> int | str:
    return "everything" if depth == EVERYTHING else int(depth)


def _named(depth: float) -> str:
    return str(_plain(depth))


def effective_depth(
    corpus: Corpus,
    predictions: Sequence[Any] | npt.NDArray[Any],
    *,
    train: Corpus | None = None,
    question: int = 0,
    levels: int = LEVELS,
    by_hand: bool = False,
    train_depth: int | None = None,
) -> EffectiveDepth:
    """The effective depth of predictions: for each example an answer (or one for each tree), in order of the corpus.

    `question` chooses the tree. `by_hand` uses heuristics for cut lists instead of priors (`shortcuts.truncation`).
    Priors and look-up tables are learnt from `train`.
    """
    evaluators = Evaluators.of(corpus, train, levels=levels, by_hand=by_hand)
    return evaluators.explain(answers_given(corpus, predictions)[:, question], question, train_depth)


@dataclass(frozen=True, eq=False)
class Evaluators:
    """What all truncated evaluators and the shortcuts answer to a corpus: computed once, to explain many models."""

    corpus: Corpus
    truth: Ints  # [examples, questions]
    truncated: Ints  # [examples, questions, levels + 1]
    rivals: Mapping[str, Ints]  # [examples, questions] each

    @classmethod
    def of(cls, corpus: Corpus, train: Corpus | None, *, levels: int = LEVELS, by_hand: bool = False) -> Evaluators:
        truth = asked(corpus)
        questions = truth.shape[1]
        if questions != corpus.width:
            raise MeasureError(
                f"effective depth needs one question for each tree; here are {questions} about {corpus.width} trees"
            )
        truncated = shortcuts.evaluations(corpus, train, levels, by_hand=by_hand)
        rungs = shortcuts.lookups(corpus, train, own=True)
        return cls(corpus, truth, truncated, {rung.name: rung.answers for rung in rungs if rung.answers is not None})

    def explain(self, given: Ints, question: int = 0, train_depth: int | None = None) -> EffectiveDepth:
        """The effective depth of answers to one question, as positions among the outcomes, -1 where unparsed."""
        answers, truth = self.truncated[:, question], self.truth[:, question]
        levels = answers.shape[1] - 1
        family = np.column_stack([answers, truth])  # [examples, levels + 2]
        follows = (family == given[:, None]) & (given[:, None] >= 0)  # an unparsed answer follows nothing
        agreement = follows.mean(axis=0)
        # On a tie with T_inf, this corpus cannot show that the predictor opens less than everything.
        best = levels + 1 if agreement[-1] == agreement.max() else int(np.argmax(agreement))
        kept = [other for other in range(family.shape[1]) if not _rejected(family, follows, best, other)]
        contested = (family != truth[:, None]).any(axis=1)
        agrees = {
            name: (looked_up[:, question] == given) & (looked_up[:, question] >= 0)
            for name, looked_up in self.rivals.items()
        }
        rival = max(agrees, key=lambda name: float(agrees[name].mean()))
        kinds, counts = np.unique(given, return_counts=True)
        labels = labels_of(self.corpus.outcomes)
        usual = int(kinds[np.argmax(counts)])
        shortcut, looked_up = rival, self.rivals[rival][:, question]
        if usual >= 0 and counts.max() > agrees[rival].sum():  # an answer that the model gives whatever the question
            shortcut, looked_up = f"always {labels[usual]}", np.full_like(given, usual)
        return EffectiveDepth(
            depth=_depth(best, levels),
            interval=(_depth(min(kept), levels), _depth(max(kept), levels)),
            agreement=agreement,
            contested=int(contested.sum()),
            explained=float(follows[contested, best].mean()) if contested.any() else 1.0,
            rival=rival,
            margin=float(agreement[best] - agrees[rival].mean()),
            unlike=tuple(_unlike(_sides(self.corpus, question, family, best), follows[:, best], agrees[rival], rival)),
            beyond=None if train_depth is None else self._beyond(question, given, train_depth),
            rows=len(given),
            unparsed=int((given < 0).sum()),
            chance=_chance(given, family[:, best]),
            constant=labels[usual] if len(kinds) == 1 and usual >= 0 else None,
            mixture=mixture(np.column_stack([family, looked_up]), given, shortcut, 1 / max(1, len(np.unique(truth)))),
        )

    def _beyond(self, question: int, given: Ints, train_depth: int) -> Beyond:
        levels = self.truncated.shape[2] - 1
        if not 0 <= train_depth <= levels:
            raise MeasureError(f"train_depth = {train_depth}: the evaluators stop at 0 to {levels} levels")
        deeper = self.corpus.tree_nesting[:, question] > train_depth
        count = int(deeper.sum())
        if not count:
            raise MeasureError(f"no example is deeper than the training depth {train_depth}")
        truth = self.truth[:, question]
        right = (given == truth)[deeper]
        stopped = (self.truncated[:, question, train_depth] == truth)[deeper]
        difference = right.astype(float) - stopped
        spread = 1.96 * float(difference.std() / np.sqrt(count))
        middle = float(difference.mean())
        bounds = (middle - spread, middle + spread)
        return Beyond(train_depth, count, float(right.mean()), float(stopped.mean()), bounds)


def _chance(given: Ints, answers: Ints) -> float:
    """How often two columns of answers would agree if they were independent."""
    kinds = int(max(given.max(), answers.max())) + 2
    shares = [np.bincount(column + 1, minlength=kinds)[1:] / len(column) for column in (given, answers)]
    return float(shares[0] @ shares[1])


def contested(corpus: Corpus, *, train: Corpus | None = None, levels: int = LEVELS, question: int = 0) -> Bools:
    """The examples on which evaluators of different depth differ; few predictions on these tell most."""
    answers = shortcuts.evaluations(corpus, train, levels)[:, question, 1:]
    differ: Bools = (answers != asked(corpus)[:, [question]]).any(axis=1)
    return differ


def _depth(column: int, levels: int) -> float:
    return EVERYTHING if column > levels else float(column)


def _rejected(family: Ints, follows: Bools, best: int, other: int) -> bool:
    """Whether the predictor follows `best` significantly more often than `other` where the two differ."""
    differ = family[:, best] != family[:, other]
    wins, losses = int(follows[differ, best].sum()), int(follows[differ, other].sum())
    if wins + losses == 0:
        return False
    from scipy import stats  # here, because the import takes half a second

    return bool(stats.binomtest(wins, wins + losses, alternative="greater").pvalue < LEVEL)


def _sides(corpus: Corpus, question: int, family: Ints, best: int) -> dict[str, Ints]:
    """Properties of each example, of which random noise is independent."""
    trees = np.arange(len(corpus)) * corpus.width + min(question, corpus.width - 1)
    return {
        "its answer": family[:, best],
        "the root operator": corpus.forest.symbol[corpus.forest.root[trees]],
        "the nesting depth": corpus.forest.height[corpus.forest.root[trees]],
        "how many evaluators agree": (family == family[:, [best]]).sum(axis=1),
    }


def _unlike(sides: Mapping[str, Ints], followed: Bools, shortcut: Bools, rival: str) -> list[str]:
    """Why the best evaluator is no good description of the answers; empty if it is one."""
    reasons = []
    if followed.mean() <= ENOUGH:
        reasons.append(f"the best evaluator gives {followed.mean():.1%} of the answers, no more than half")
    if shortcut.sum() > followed.sum():
        reasons.append(f"the shortcut {rival!r} gives more of the answers")
    for side, groups in sides.items():
        chance = _homogeneous(groups, followed)
        if chance < STRANGE:
            reasons.append(f"whether the answers follow it depends on {side} (p = {chance:.1g})")
    return reasons


def _homogeneous(groups: Ints, followed: Bools) -> float:
    """The p-value of a chi-square test that all groups follow equally often; small groups are merged."""
    order, numbers = np.unique(groups, return_inverse=True)
    yes = np.bincount(numbers, followed, len(order))
    count = np.bincount(numbers, minlength=len(order))
    rate = followed.mean()
    if rate in (0.0, 1.0):
        return 1.0
    least = 5 / min(rate, 1 - rate)
    joined: list[list[float]] = [[0.0, 0.0]]
    for followers, size in zip(yes.tolist(), count.tolist(), strict=True):
        if joined[-1][1] >= least:
            joined.append([0.0, 0.0])
        joined[-1][0] += followers
        joined[-1][1] += size
    if len(joined) > 1 and joined[-1][1] < least:
        last = joined.pop()
        joined[-1] = [joined[-1][0] + last[0], joined[-1][1] + last[1]]
    if len(joined) < 2:
        return 1.0
    table = np.array([[followers, size - followers] for followers, size in joined])
    from scipy import stats

    return float(stats.chi2_contingency(table, correction=False).pvalue)
