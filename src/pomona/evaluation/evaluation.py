"""Everything that is measured of one model's answers to one corpus, wherever the answers came from.

    evaluation = Evaluation.of(corpus, answers, Baselines(corpus, train))
    evaluation.accuracy              a Score with Wilson's interval: all questions of an example answered right
    evaluation.by("nesting")         the same in groups; also length, chain, operator, arity, any column
    evaluation.chains                for each question: does accuracy fall with the operators that decide the answer?
    evaluation.unparsed              answers that are none of the outcomes, counted apart from the wrong ones
    evaluation.ladder, .depths       baselines that see only part of the input; the model's effective depth
    evaluation.trees["f1_gold"]      parse F1, where the answers came with trees
    evaluation.measures              what was measured besides (`pomona.evaluation.measure`), by name
    evaluation.as_dict()             all of this as JSON values: what scores.json keeps and `evaluate --json` prints

What does not apply to a corpus (effective depth needs digits and operators) is left out, and `notes` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base import notebook
from pomona.base.arrays import Bools
from pomona.base.errors import MeasureError
from pomona.data.answers import Answers, all_asked
from pomona.data.corpus import Corpus
from pomona.data.groups import groups_of
from pomona.evaluation.accuracy import Group, check_shape, share_of
from pomona.evaluation.baselines import Baselines
from pomona.evaluation.chains import Chains, chains_of
from pomona.evaluation.parse_f1 import TreeScore, average_depth, list_recall, parse_f1
from pomona.evaluation.score import Score
from pomona.shortcuts.effective_depth import EffectiveDepth
from pomona.shortcuts.ladder import Ladder
from pomona.trees.binary import binarise, branching
from pomona.trees.forest import Forest

GROUPINGS = ("length", "nesting", "dependency", "chain", "operator", "arity")
SHOWN_GROUPINGS = ("length", "nesting", "chain", "operator", "arity")  # dependency is the same as chain


@dataclass(frozen=True, eq=False)
class Inside:
    """What is known of a model beside its answers: the words it knows, and a vector for each example on demand."""

    vocabulary: tuple[str, ...] = ()
    represent: Callable[[], npt.NDArray[np.float32]] | None = None


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What was answered and what was wanted, [examples, questions], and all that follows from it."""

    name: str
    corpus: Corpus
    answers: Answers
    wanted: npt.NDArray[np.int64]
    trees: Mapping[str, TreeScore] = field(default_factory=dict)
    baselines: Baselines | None = None
    depths: tuple[EffectiveDepth, ...] = ()
    inside: Inside = field(default_factory=Inside)
    measures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, corpus: Corpus, answers: Answers, baselines: Baselines | None = None, inside: Inside | None = None
    ) -> Evaluation:
        """Evaluate answers; without `baselines` there is neither a ladder nor an effective depth."""
        if not len(corpus):
            raise MeasureError(f"{corpus!r} is empty: there is nothing to evaluate on")
        wanted = all_asked(corpus)
        check_shape(answers, wanted)
        notes: list[str] = []
        depths: tuple[EffectiveDepth, ...] = ()
        if baselines is not None:
            notes += baselines.notes
            try:
                depths = baselines.depths(answers.given)
            except MeasureError as error:
                notes.append(f"No effective depth: {error}.")
        trees: dict[str, TreeScore] = {}
        if answers.trees is not None:
            try:
                trees = tree_scores(corpus, answers.trees)
            except MeasureError as error:
                notes.append(f"No scores of trees: {error}.")
        return cls(
            answers.name, corpus, answers, wanted, trees, baselines, depths, inside or Inside(), notes=tuple(notes)
        )

    def __len__(self) -> int:
        return len(self.given)

    @property
    def given(self) -> npt.NDArray[np.int64]:
        """The answers as positions among the corpus's outcomes, [examples, questions]; -1 where unparsed."""
        return self.answers.given

    @cached_property
    def fingerprint(self) -> str:
        return self.corpus.fingerprint

    @property
    def ladder(self) -> Ladder | None:
        return None if self.baselines is None else self.baselines.ladder

    @cached_property
    def vectors(self) -> npt.NDArray[np.float32]:
        """The vector that the model gives to each example, [examples, width]."""
        if self.inside.represent is None:
            raise MeasureError(f"{self.name} has no sentence vectors: only a run of Pomona's own training gives them")
        return self.inside.represent()

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

    @cached_property
    def accuracy(self) -> Score:
        return share_of(self.right)

    @property
    def questions(self) -> tuple[Score, ...]:
        """Accuracy on each question by itself (ORCHARD: first tree, second tree)."""
        return tuple(share_of(column) for column in (self.given == self.wanted).T)

    def by(self, grouping: str, question: int | None = None) -> tuple[Group, ...]:
        """The examples in groups (`pomona.data.groups`), in their natural order.

        With `question`, only the answers to that question count, and trees are grouped by that question's tree.
        """
        if question is not None and not 0 <= question < self.given.shape[1]:
            raise MeasureError(f"question = {question}: an example here asks questions 0 to {self.given.shape[1] - 1}")
        columns = slice(None) if question is None else [question]
        names, numbers = groups_of(self.corpus, grouping, question)
        questions = (self.given == self.wanted).T[columns]
        counts, right, unparsed, *each = (
            np.bincount(numbers, weights, len(names)).astype(int).tolist()
            for weights in (None, questions.all(axis=0), (self.given < 0).T[columns].any(axis=0), *questions)
        )
        return tuple(
            Group(name, counts[at], right[at], unparsed[at], tuple(column[at] for column in each))
            for at, name in enumerate(names)
        )

    @cached_property
    def chains(self) -> tuple[Chains, ...]:
        """Accuracy by the operators that decide each question's answer; empty if trees and questions do not match."""
        if self.given.shape[1] != self.corpus.width or not self.corpus.outcomes:
            return ()
        return tuple(
            chains_of(self.corpus, self.given[:, question] == self.wanted[:, question], question,
                      self.by("chain", question))
            for question in range(self.corpus.width)
        )  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "name": self.name,
            "corpus": repr(self.corpus),
            "fingerprint": self.fingerprint,
            "rows": len(self),
            "right": int(self.right.sum()),
            "wrong": self.wrong,
            "unparsed": self.unparsed,
            "accuracy": self.accuracy.value,
            "interval": list(self.accuracy.interval),
            "questions": [{"accuracy": score.value, "interval": list(score.interval)} for score in self.questions],
            "by": {grouping: {group.name: group.as_dict() for group in self.by(grouping)} for grouping in GROUPINGS},
            "trees": {
                name: {"value": score.value, "interval": list(score.interval)} for name, score in self.trees.items()
            },
            "ladder": None if self.ladder is None else self.ladder.as_dict(),
            "effective_depth": [depth.as_dict() for depth in self.depths],
            "chains": [chains.as_dict() for chains in self.chains],
            "measures": {name: dict(values) for name, values in self.measures.items()},
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        return f"Evaluation({self.name} on {self.corpus!r}: {self._share}; print it for more)"

    @property
    def _share(self) -> str:
        low, high = self.accuracy.interval
        return f"{self.accuracy.value:.2%} right ({low:.2%} to {high:.2%})"

    def _repr_html_(self) -> str:
        groups = [
            [group.name, f"{group.accuracy:.1%}", notebook.bar(group.accuracy), f"{group.rows:,}"]
            for group in self.by("nesting")
        ]
        depths = [line for depth in self.depths for line in str(depth).splitlines()]
        counts = f"{self._share}; {self.wrong:,} wrong, {self.unparsed:,} unparsed of {len(self):,}"
        parts: list[str] = [
            notebook.heading(f"{self.name} on {self.corpus!r}", counts, *depths),
            notebook.table(["nesting", "right", "", "examples"], groups),
        ]
        measured = [
            [name, key.replace("_", " "), value]
            for name, values in self.measures.items()
            for key, value in values.items()
        ]
        parts += [notebook.table(["measure", "", "value"], measured)] if measured else []
        parts += [self.ladder._repr_html_()] if self.ladder is not None else []
        return notebook.page(*parts, notebook.heading("", *self.notes) if self.notes else "")

    def __str__(self) -> str:
        low, high = self.accuracy.interval
        lines = [
            f"{self.name} on {self.corpus!r}",
            f"{self.accuracy.value:.2%} right ({low:.2%} to {high:.2%}); {self.wrong:,} wrong, "
            f"{self.unparsed:,} unparsed",
        ]
        for grouping in SHOWN_GROUPINGS:
            groups = (f"{group.name}: {group.accuracy:.1%} of {group.rows:,}" for group in self.by(grouping))
            lines.append(f"by {grouping:<11}" + "  ".join(groups))
        lines += [f"{name:<14}{score.value:.4f}" for name, score in self.trees.items()]
        lines += [
            f"{name} {key.replace('_', ' ')}: {value}"
            for name, values in self.measures.items()
            for key, value in values.items()
        ]
        chains = [one.sentence for one in self.chains if one.slope is not None]
        return "\n".join([*lines, *map(str, self.depths), *chains, *self.notes])


# -- trees -----------------------------------------------------------------------------------------------------------


def tree_scores(corpus: Corpus, trees: Forest) -> dict[str, TreeScore]:
    """How a model's trees compare with the gold ones, and with left- and right-branching trees."""
    gold, tokens = gold_trees(corpus)
    scores: dict[str, TreeScore] = {
        "f1_gold": parse_f1(trees, gold),
        "f1_left": parse_f1(trees, branching(corpus.lengths, "left")),
        "f1_right": parse_f1(trees, branching(corpus.lengths, "right")),
        "list_recall": list_recall(trees, corpus.forest, tokens=tokens),
        "depth": average_depth(trees),
    }
    if corpus.lengths.max() > 2:  # of two tokens nothing is left but the root
        scores["f1_gold_without_root"] = parse_f1(trees, gold, root=False)
    return scores


def gold_trees(corpus: Corpus) -> tuple[Forest, bool]:
    """The binary trees over a corpus's own tokens, and whether brackets are among these, as in ListOps."""
    if corpus.width == 1:
        for tokens in (True, False):
            forest = binarise(corpus.forest, tokens=tokens)
            leaves = np.add.reduceat(forest.leaf.astype(np.int64), forest.start[:-1])
            if np.array_equal(leaves, corpus.lengths):
                return forest, tokens
    raise MeasureError(f"the trees of {corpus!r} do not stand over its tokens, so no other trees compare with them")
