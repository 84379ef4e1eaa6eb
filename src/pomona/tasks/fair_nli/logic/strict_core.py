"""A strict core: the fewest examples from which a table learner without any knowledge of words learns everything.

    core = strict_core(vocabulary=100, seed=1)       10,375 pairs = 475 + 100 x 99, the minimum
    space = redundancy_split(0, seed=1)
    space[core.codes] = True                         do not hold out encodings of the core
    rest = draw(BalancedPairs(space), 500_000 - len(core), key=key, before=core.labels)

The paper's recipe shows every input of the six composing nodes, but of the 10,201 pairs of modifiers and 10,000 pairs
of heads in each phrase only those that happen to be drawn. By Definition 2 for all 15 inner nodes, it is not quite
fair.

Counting gives a lower bound, because four disjoint sets of examples are needed: 384 for root inputs whose scope is not
#; 88 for object inputs whose object phrase is not # but whose result is; 3 for unequal heads under modifiers that are
not different; and V(V-1) for the pairs of different modifiers. The construction reaches this bound. It takes the 536
classes of the hardest split, and repeats those with # in all three phrases until every pair of words has been used.
"""

from __future__ import annotations

import numpy as np

from pomona.base.arrays import Ints
from pomona.tasks.fair_nli.logic.fragment import DIFFERENT, ONLY_HYPOTHESIS, ONLY_PREMISE, PHRASES, SAME
from pomona.tasks.fair_nli.logic.pairs import DrawnPairs, check_vocabulary, of_words
from pomona.tasks.fair_nli.logic.redundancy import minimal_items, shuffled


def strict_minimum(vocabulary: int) -> int:
    """A lower bound on strictly fair training sets; up to 100 words `strict_core` has this size, then a bit more."""
    check_vocabulary(vocabulary)
    different = vocabulary * (vocabulary - 1)
    # Few words: the 64 object inputs with a # phrase need more. Many: the pairs of equal or missing modifiers do.
    return max(472 + max(64, 3 + different), (vocabulary + 1) ** 2)


def strict_core(vocabulary: int, seed: int) -> DrawnPairs:
    """Pairs that show every input of all 15 inner nodes; a pure function of its arguments."""
    check_vocabulary(vocabulary)
    purpose = ("fair_nli", "strict core", vocabulary, seed)
    items = _with_extras(_classes(vocabulary, seed), vocabulary)
    items = shuffled(items, *purpose, "order")
    words = np.zeros((len(items), 18), np.int32)
    for column, place in ((3, 15), (12, 10)):
        words[:, column] = items >> place & 1
    for column, place in ((0, 13), (6, 11), (9, 8), (15, 6)):
        words[:, column] = items >> place & 3

    pairs = np.argwhere(~np.eye(vocabulary, dtype=np.bool_)) + 1
    word = np.arange(1, vocabulary + 1)
    none, same = np.zeros_like(word), np.stack([word, word], axis=1)
    for phrase in PHRASES:
        modifier = phrase.modifier
        how = items >> phrase.place & 3
        equal = np.ones(len(items), np.bool_)
        independent = np.flatnonzero(how == DIFFERENT)
        # A phrase is # by unequal heads under each other modifier code once, by different modifiers alone three times
        # (so that heads have as many turns left as there are pairs of them), and by both for all the rest.
        how[independent[:3]] = SAME, ONLY_HYPOTHESIS, ONLY_PREMISE
        equal[independent] = False
        equal[independent[3:6]] = True
        for rows, choices, what in (
            (how == SAME, np.concatenate([[[0, 0]], same]), "same modifier"),
            (how == ONLY_HYPOTHESIS, np.stack([none, word], axis=1), "modifier of the hypothesis"),
            (how == ONLY_PREMISE, np.stack([word, none], axis=1), "modifier of the premise"),
            (how == DIFFERENT, pairs, "different modifiers"),
        ):
            _take_turns(words, np.flatnonzero(rows), modifier, shuffled(choices, *purpose, modifier, what))
        _take_turns(words, np.flatnonzero(equal), modifier + 1, shuffled(same, *purpose, modifier, "same head"))
        _take_turns(words, np.flatnonzero(~equal), modifier + 1, shuffled(pairs, *purpose, modifier, "different heads"))
    return of_words(words)


def _classes(vocabulary: int, seed: int) -> Ints:
    """Relational classes: those of the hardest split, then repetitions of those with # in all three phrases."""
    items = minimal_items(seed)
    independent = items[(items >> 2 & 3 == DIFFERENT) & (items & 3 == DIFFERENT)] | DIFFERENT << 4
    more = max(0, 3 + vocabulary * (vocabulary - 1) - 64)
    return np.concatenate([items, np.resize(independent, more)])


def _with_extras(items: Ints, vocabulary: int) -> Ints:
    """Add classes if there are too few phrases to show every word; up to 100 words none are needed."""
    lacking: list[list[int]] = []
    for phrase in PHRASES:
        how = items >> phrase.place & 3
        # One # phrase also shows an equal or missing modifier (see `strict_core`).
        needs = ((SAME, vocabulary), (ONLY_HYPOTHESIS, vocabulary - 1), (ONLY_PREMISE, vocabulary - 1))
        lacking.append([code for code, need in needs for _ in range(need - int((how == code).sum()))])
    extra = np.zeros(max(len(codes) for codes in lacking), items.dtype)
    for codes, phrase in zip(lacking, PHRASES, strict=True):
        extra[: len(codes)] |= np.array(codes, items.dtype) << phrase.place
    return np.concatenate([items, extra])


def _take_turns(words: Ints, rows: Ints, column: int, choices: Ints) -> None:
    """Fill one column of the rows with the choices in turn, for premise and hypothesis."""
    turn = choices[np.arange(len(rows)) % len(choices)]
    words[rows, column], words[rows, column + 9] = turn[:, 0], turn[:, 1]
