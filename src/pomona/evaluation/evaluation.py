"""Everything that is measured of one model's answers to one corpus, wherever the answers came from.

    found = evaluated(corpus, answers, train=train)
    found.accuracy                       a Score with Wilson's interval: all questions of an example answered right
    found.by("nesting")                  the same in groups; also length, dependency, operator, arity, any column
    found.unparsed                       answers that are none of the outcomes, counted apart from the wrong ones
    found.ladder, found.depths           what cheap information scores here; the model's effective depth
    found.trees["f1_gold"]               parse F1, where the answers came with trees

What does not apply to a corpus (effective depth needs digits and operators) is left out, and `notes` says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools
from pomona.base.errors import MeasureError
from pomona.data.answers import Answers, all_asked
from pomona.data.corpus import Corpus
from pomona.data.groups import groups_of
from pomona.evaluation.accuracy import wilson
from pomona.evaluation.parse_f1 import TreeScore, average_depth, list_recall, parse_f1
from pomona.shortcuts.effective_depth import EffectiveDepth, effective_depth
from pomona.shortcuts.ladder import Ladder, ladder
from pomona.training.run import Score
from pomona.trees.binary import binarise, branching
from pomona.trees.forest import Forest

GROUPINGS = ("length", "nesting", "dependency", "operator", "arity")


@dataclass(frozen=True)
class Group:
    """Some of the examples: how many, how many answered right and how many unparsed, and Wilson's interval."""

    name: str
    rows: int
    right: int
    unparsed: int

    @property
    def accuracy(self) -> float:
        return self.right / self.rows

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.right, self.rows)

    def as_dict(self) -> dict[str, Any]:
        low, high = self.interval
        return {
            "rows": self.rows, "right": self.right, "unparsed": self.unparsed,
            "accuracy": round(self.accuracy, 6), "interval": [round(low, 6), round(high, 6)],
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What was answered and what was wanted, [examples, questions], and all that follows from it."""

    name: str
    corpus: Corpus
    fingerprint: str
    given: npt.NDArray[np.int64]
    wanted: npt.NDArray[np.int64]
    trees: Mapping[str, TreeScore] = field(default_factory=dict)
    ladder: Ladder | None = None
    depths: tuple[EffectiveDepth, ...] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.given)

    @cached_property
    def right(self) -> Bools:
        """Which examples are answered right, all questions of them."""
        return np.asarray((self.given == self.wanted).all(axis=1))

    @cached_property
    def unparsed_rows(self) -> Bools:
        """Which examples have an answer that is none of the outcomes."""
        return np.asarray((self.given < 0).any(axis=1))

    @property
    def unparsed(self) -> int:
        return int(self.unparsed_rows.sum())

    @property
    def wrong(self) -> int:
        """Examples whose answers can all be read and are not all right."""
        return int((~self.right & ~self.unparsed_rows).sum())

    @property
    def accuracy(self) -> Score:
        return _score(self.right)

    @property
    def questions(self) -> tuple[Score, ...]:
        """Accuracy on each question by itself (ORCHARD: first tree, second tree)."""
        return tuple(_score(column) for column in (self.given == self.wanted).T)

    def by(self, what: str) -> tuple[Group, ...]:
        """The examples in groups (`pomona.data.groups`), in their natural order."""
        names, numbers = groups_of(self.corpus, what)
        counts, right, unparsed = (
            np.bincount(numbers, weights, len(names)).astype(int).tolist()
            for weights in (None, self.right, self.unparsed_rows)
        )
        return tuple(Group(*one) for one in zip(names, counts, right, unparsed, strict=True))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        low, high = self.accuracy.interval
        found: dict[str, Any] = {
            "name": self.name,
            "corpus": repr(self.corpus),
            "fingerprint": self.fingerprint,
            "rows": len(self),
            "right": int(self.right.sum()),
            "wrong": self.wrong,
            "unparsed": self.unparsed,
            "accuracy": self.accuracy.value,
            "interval": [low, high],
            "questions": [{"accuracy": one.value, "interval": list(one.interval)} for one in self.questions],
            "by": {what: {one.name: one.as_dict() for one in self.by(what)} for what in GROUPINGS},
            "trees": {name: {"value": one.value, "interval": list(one.interval)} for name, one in self.trees.items()},
            "ladder": None if self.ladder is None else self.ladder.as_dict(),
            "effective_depth": [one.as_dict() for one in self.depths],
            "notes": list(self.notes),
        }
        return found

    def __str__(self) -> str:
        low, high = self.accuracy.interval
        lines = [
            f"{self.name} on {self.corpus!r}",
            f"{self.accuracy.value:.2%} right ({low:.2%} to {high:.2%}); {self.wrong:,} wrong, "
            f"{self.unparsed:,} unparsed",
        ]
        for what in GROUPINGS:
            groups = (f"{one.name}: {one.accuracy:.1%} of {one.rows:,}" for one in self.by(what))
            lines.append(f"by {what:<11}" + "  ".join(groups))
        lines += [f"{name:<14}{one.value:.4f}" for name, one in self.trees.items()]
        return "\n".join([*lines, *map(str, self.depths), *self.notes])


def evaluated(
    corpus: Corpus,
    answers: Answers,
    *,
    train: Corpus | None = None,
    ladders: bool = True,
    train_depth: int | None = None,
) -> Evaluation:
    """Everything there is to say; ladder and effective depth are learnt from `train`, else half by half."""
    if not len(corpus):
        raise MeasureError(f"{corpus!r} is empty: there is nothing to evaluate on")
    wanted = all_asked(corpus)
    if answers.given.shape != wanted.shape:
        raise MeasureError(f"answers of shape {answers.given.shape} to questions of shape {wanted.shape}")
    notes: list[str] = []
    rungs: Ladder | None = None
    depths: tuple[EffectiveDepth, ...] = ()
    if ladders:
        try:
            rungs = ladder(corpus, train)
        except MeasureError as error:
            notes.append(f"No ladder: {error}.")
        try:
            depths = _depths(corpus, answers, train, train_depth)
        except MeasureError as error:
            notes.append(f"No effective depth: {error}.")
    trees = {} if answers.trees is None else tree_scores(corpus, answers.trees)
    return Evaluation(
        answers.name, corpus, corpus.fingerprint, answers.given, wanted, trees, rungs, depths, tuple(notes)
    )


def _depths(
    corpus: Corpus, answers: Answers, train: Corpus | None, train_depth: int | None
) -> tuple[EffectiveDepth, ...]:
    outcomes = [*corpus.outcomes, None]  # -1 reads the last one
    said = [[outcomes[one] for one in row] for row in answers.given.tolist()]
    return tuple(
        effective_depth(corpus, said, train=train, question=question, train_depth=train_depth)
        for question in range(answers.given.shape[1])
    )


def tree_scores(corpus: Corpus, trees: Forest) -> dict[str, TreeScore]:
    """How a model's trees compare with the gold ones, and with trees that ask nothing of the sentence."""
    gold, tokens = gold_trees(corpus)
    found: dict[str, TreeScore] = {
        "f1_gold": parse_f1(trees, gold),
        "f1_left": parse_f1(trees, branching(corpus.lengths, "left")),
        "f1_right": parse_f1(trees, branching(corpus.lengths, "right")),
        "list_recall": list_recall(trees, corpus.forest, tokens=tokens),
        "depth": average_depth(trees),
    }
    if corpus.lengths.max() > 2:  # of two tokens nothing is left but the root
        found["f1_gold_without_root"] = parse_f1(trees, gold, root=False)
    return found


def gold_trees(corpus: Corpus) -> tuple[Forest, bool]:
    """The binary trees over a corpus's own tokens, and whether brackets are among these, as in ListOps."""
    if corpus.width == 1:
        for tokens in (True, False):
            forest = binarise(corpus.forest, tokens=tokens)
            leaves = np.add.reduceat(forest.leaf.astype(np.int64), forest.start[:-1])
            if np.array_equal(leaves, corpus.lengths):
                return forest, tokens
    raise MeasureError(f"the trees of {corpus!r} do not stand over its tokens, so no other trees compare with them")


def _score(right: Bools) -> Score:
    values = right.astype(np.float64)
    return Score(float(values.mean()), values, wilson(int(right.sum()), len(right)))
