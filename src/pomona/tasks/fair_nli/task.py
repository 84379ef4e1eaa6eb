"""Fair natural language inference (Geiger et al. 2019): provably fair splits, as hard as `redundancy` makes them.

    every sadj7 snoun3 emptystring emptystring verb12 some oadj1 onoun9
    no    sadj7 snoun3 doesnot     adv5        verb12 some oadj1 onoun9         ->   neutral

A pair of sentences has one of 524,288 encodings (`logic.fragment`), and a split is a set of encodings. At `redundancy`
0, train has the fewest encodings that are fair (536); at 1 nothing is held out. Otherwise test and dev have encodings
that train lacks. The three labels are equally frequent in every split, to within one row. Train begins with a core, a
small set of pairs that makes it fair, so every training set that holds the core is fair.

`lexical="given"` follows the paper. The core (536 pairs) shows every input of the nodes that compose, but only some
pairs of words occur in train. A learner that knows nothing of words fails on about 2 % of the test. With
`lexical="strict"` the core has 475 + V(V-1) pairs and shows every pair of words as well: no input of any of the 15
nodes is missing.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.errors import SpecError
from pomona.base.randomness import stream_key
from pomona.data.corpus import Corpus, content_keys
from pomona.data.label_report import LabelReport
from pomona.data.pool import Scan
from pomona.data.task import TASKS, Task
from pomona.fairness.covering import cover
from pomona.tasks.fair_nli.logic.aligned import (
    LEXICAL,
    OUTCOMES,
    aligned,
    codes_of,
    figure_4,
    generated_tokens,
    generated_vocabulary,
    is_aligned,
)
from pomona.tasks.fair_nli.logic.balance import BalancedPairs, ladder
from pomona.tasks.fair_nli.logic.fragment import NODE, NODES, node_values
from pomona.tasks.fair_nli.logic.pairs import DrawnPairs, draw_encodings, draw_numbers
from pomona.tasks.fair_nli.logic.redundancy import RATIOS, held_out, redundancy_split
from pomona.tasks.fair_nli.logic.relations import Label
from pomona.tasks.fair_nli.logic.strict_core import strict_core

__all__ = ["LEXICAL", "FairNLI", "figure_4"]

LARGEST_VOCABULARY = 5_000  # six open classes must fit in a 16-bit table of names
_NAMES = ("hardest", *(f"rho-{ratio.numerator}-{ratio.denominator}" for ratio in RATIOS[1:-1]), "easiest")

PRESETS: dict[str, dict[str, Any]] = {
    **{name: {"redundancy": float(ratio)} for name, ratio in zip(_NAMES, RATIOS, strict=True)},
    "hardest-strict": {"redundancy": 0.0, "lexical": "strict"},
}


@TASKS.add("fair_nli", presets=PRESETS)
@dataclass(frozen=True)
class FairNLI(Task):
    """Premise and hypothesis with two quantifiers each: entailment, neutral or contradiction (Geiger et al. 2019)."""

    train: int = 500_000
    dev: int = 10_000
    test: int = 10_000
    redundancy: float = 0.0  # rho in Figure 5 of the paper: 0 is hardest, at 1 nothing is held out
    lexical: str = "given"  # "given": train shows some pairs of words; "strict": all of them
    vocabulary: int = 100  # words in each of the six open classes
    whole_classes: bool = False  # hold out whole relational classes, not only encodings
    split_seed: int = 0  # which of the many splits of this redundancy
    part: str = ""  # the split that a distribution draws for; set by `distribution`

    def __post_init__(self) -> None:
        if not 0 <= self.redundancy <= 1:
            raise SpecError(f"redundancy = {self.redundancy}: a share between 0 (hardest) and 1 (nothing is held out)")
        if self.lexical not in ("given", "strict"):
            raise SpecError(f"lexical = {self.lexical!r}: 'given' or 'strict'")
        if not 2 <= self.vocabulary <= LARGEST_VOCABULARY:
            raise SpecError(f"vocabulary = {self.vocabulary}: 2 to {LARGEST_VOCABULARY:,} words in each open class")
        super().__post_init__()
        # An upper bound on the size of a core. If it fits, the core need not be built here.
        most = 760 if self.lexical == "given" else 600 + self.vocabulary * (self.vocabulary + 2)
        if not self.part and 0 < self.train < 3 * most:
            least = 3 * int(np.bincount(self.core.labels).max())
            if self.train < least:
                raise SpecError(
                    f"train = {self.train:,}: a fair training set holds a core of {len(self.core):,} pairs, and with "
                    f"labels in equal thirds that takes at least {least:,} rows"
                )

    @property
    def core(self) -> DrawnPairs:
        """The pairs that make train fair, whatever other pairs are drawn."""
        return _core(self.redundancy, self.lexical, self.vocabulary, self.split_seed)

    def distribution(self, split: str) -> FairNLI:
        distribution = super().distribution(split)
        assert isinstance(distribution, FairNLI)
        return dataclasses.replace(distribution, part=split)

    def disjoint_from(self, other: Task) -> bool:
        """Encodings of dev and test are never drawn for train, unless nothing is held out."""
        held_out = {"dev", "test"}
        return (
            isinstance(other, FairNLI)
            and self.redundancy == other.redundancy < 1
            and (self.part in held_out) != (other.part in held_out)
        )

    def bins(self) -> int:
        return len(Label)

    def scan(self, key: np.uint64, first: int, count: int) -> Scan:
        numbers = np.arange(first, first + count)
        pairs = self._pairs(key, numbers)
        tokens = generated_tokens(pairs.words, self.vocabulary)
        keys = content_keys(
            tokens.ravel(), np.arange(count + 1, dtype=np.int64) * 18, generated_vocabulary(self.vocabulary)
        )
        return Scan(numbers, keys, pairs.labels.astype(np.int64))

    def build(self, key: np.uint64, numbers: Ints) -> Corpus:
        pairs = self._pairs(key, np.asarray(numbers, np.int64))
        tokens = generated_tokens(pairs.words, self.vocabulary)
        return aligned(tokens, generated_vocabulary(self.vocabulary), pairs.codes)

    def _pairs(self, key: np.uint64, numbers: npt.NDArray[np.int64]) -> DrawnPairs:
        """The draws of these numbers; train begins with its core."""
        pairs = _balanced(dataclasses.replace(self, part="train" if self.part in ("train", "iid") else "test"))
        if self.part != "train":
            return draw_numbers(pairs, numbers, key=key, vocabulary=self.vocabulary)
        core = self.core
        inside = numbers < len(core)
        later = np.where(inside, 0, numbers - len(core))
        drawn = draw_numbers(pairs, later, key=key, vocabulary=self.vocabulary, before=core.labels)
        drawn.words[inside], drawn.codes[inside] = core.words[numbers[inside]], core.codes[numbers[inside]]
        return drawn

    # -- what the task declares --------------------------------------------------------------------------------------

    def words(self) -> tuple[str, ...]:
        """The function words, then the words of the six open classes."""
        return generated_vocabulary(self.vocabulary)

    def outcomes(self) -> tuple[str, ...]:
        """Relations, labels, pairs of quantifiers and pairs of negations."""
        return OUTCOMES

    @classmethod
    def node_values(cls, corpus: Corpus) -> npt.NDArray[np.int16]:
        """Every node's relation or signature, from the words alone."""
        return _renumbered(_realigned(corpus).values, corpus)

    @classmethod
    def targets(cls, corpus: Corpus) -> npt.NDArray[np.int16]:
        """The label of each pair, from the words alone; the value of the root is the relation."""
        return _renumbered(_realigned(corpus).targets, corpus)

    @classmethod
    def labels(cls) -> tuple[str, ...]:
        """Entailment, neutral and contradiction."""
        return tuple(label.text for label in Label)

    @classmethod
    def parts(cls, corpus: Corpus) -> dict[str, list[str]]:
        """Premise and hypothesis."""
        if (corpus.lengths != 18).any():
            return {}
        words = np.array(corpus.vocabulary, object)[corpus.tokens].reshape(-1, 2, 9)
        texts = [[" ".join(sentence) for sentence in pair] for pair in words.tolist()]
        return {"premise": [first for first, _ in texts], "hypothesis": [second for _, second in texts]}

    @classmethod
    def ceilings(cls, corpus: Corpus) -> dict[str, float]:
        """The best accuracies from function words, their parity and the relations of phrases.

        They are exact for the distribution that the corpus was drawn from. On average no predictor with the same
        information can do better.
        """
        if "settings" not in corpus.origin:
            return {}
        task = TASKS.build("fair_nli", corpus.origin["settings"])
        distribution = task.distribution("train" if corpus.origin.get("split") in ("train", "iid") else "test")
        assert isinstance(distribution, FairNLI)
        return {name: best for name, best in ladder(_balanced(distribution)).items() if name != "nothing"}

    @classmethod
    def prove(cls, corpus: Corpus, prover: str, sample: int | None, seed: int) -> LabelReport | None:
        """Check the labels of a sample of pairs with a prover; None if the trees are not those of sentence pairs."""
        from pomona.tasks.fair_nli.logic.verification import verify_labels

        return verify_labels(corpus, prover, sample, seed) if is_aligned(corpus.forest) else None


def _realigned(corpus: Corpus) -> Corpus:
    """The same pairs with values and labels computed again."""
    tokens = corpus.tokens.reshape(len(corpus), 18)
    return aligned(tokens, corpus.vocabulary, codes_of(corpus))


def _renumbered(column: npt.NDArray[np.int16], corpus: Corpus) -> npt.NDArray[np.int16]:
    """Positions in OUTCOMES as positions in the outcomes of a corpus, which may come from a file."""
    position = {outcome: number for number, outcome in enumerate(corpus.outcomes)}
    return np.array([*(position.get(outcome, -2) for outcome in OUTCOMES), -1], np.int16)[column]


@lru_cache(maxsize=16)
def _core(redundancy: float, lexical: str, vocabulary: int, seed: int) -> DrawnPairs:
    if lexical == "strict":
        return strict_core(vocabulary, seed)
    codes = _composing_cover(redundancy, seed)
    key = stream_key("fair_nli", "core", redundancy, vocabulary, seed)
    return draw_encodings(codes, key=key, vocabulary=vocabulary)


@lru_cache(maxsize=16)
def _composing_cover(redundancy: float, seed: int) -> Ints:
    """Few encodings of the training space that show every input of the nodes that compose."""
    codes = np.flatnonzero(redundancy_split(Fraction(redundancy), seed))
    values = node_values(codes).astype(np.int64)
    inputs = []
    for node in NODES:
        if node.kind == "COMP":
            combined = np.zeros(len(codes), np.int64)
            for child in node.children:
                combined = combined * 16 + values[:, NODE[child]]
            inputs.append(np.unique(combined, return_inverse=True)[1])
    sizes = np.array([int(column.max()) + 1 for column in inputs])
    members = np.stack(inputs, axis=1).astype(np.int64) + (np.cumsum(sizes) - sizes)
    start = np.arange(len(codes) + 1) * len(inputs)
    return codes[cover(start, members.ravel(), int(sizes.sum()), seconds=0)[0]]


@lru_cache(maxsize=16)
def _balanced(task: FairNLI) -> BalancedPairs:
    """The balanced distribution on the training space or, for dev and test, on the encodings held out from train."""
    space = redundancy_split(Fraction(task.redundancy), task.split_seed)
    if task.part == "train":
        return BalancedPairs(space)
    space = space.copy()
    space[task.core.codes] = True
    return BalancedPairs(held_out(space, whole_classes=task.whole_classes))
