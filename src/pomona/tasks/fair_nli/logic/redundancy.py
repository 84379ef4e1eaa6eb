"""The redundancy dial: choose training encodings so that the task is fair and as hard as requested.

    train = redundancy_split(0, seed=1)             [524288] booleans: 536 encodings, the fewest that are fair
    train = redundancy_split(Fraction(1, 4), 1)     about 14,500: every fact is shown in several contexts
    test = held_out(train)                          the rest; with whole_classes=True no relational class is shared

In section 4.4 of Geiger et al. 2019 training must show every local function each of its inputs; the hardest task shows
no more than that. A larger ratio rho (their appendix C) makes the task easier. The inputs of a node are distributed
over the contexts above it. First the 256 inputs of the object node, grouped by their output relation, go to the 4 pairs
of negations; then the results go to the 64 subject contexts. A share rho of each group goes to *every* context. The
rest is divided so that each item is in as few contexts as possible. Last, the five ways in which a phrase can be # are
distributed over the contexts of the phrases. At rho = 0 this gives 152 + 6 x 64 = 536 encodings, the minimum; at rho =
1 it gives all of them.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools, Ints
from pomona.base.errors import SpecError
from pomona.base.randomness import random_order, stream_key
from pomona.tasks.fair_nli.logic.fragment import (
    CLASSES,
    DIFFERENT,
    ENCODINGS,
    NODE,
    PHRASES,
    Codes,
    classes,
    node_values,
    phrase_relations,
)
from pomona.tasks.fair_nli.logic.projectivity import negation_tables, quantifier_tables
from pomona.tasks.fair_nli.logic.relations import Relation

RATIOS: Final = tuple(Fraction(n, 16) for n in (0, 1, 2, 4, 6, 8, 10, 12, 16))
"""The settings of the paper's Figure 5, from hardest to easiest."""

PATTERNS: Final = 5
"""Ways for a phrase to be #: unequal heads under each of the four modifier codes, or equal heads under DIFFERENT."""

_SUBJECTS: Final = 64


def redundancy_split(rho: Fraction | float, seed: int) -> Bools:
    """[524288]: which encodings make up the training space; a pure function of (rho, seed)."""
    ratio = Fraction(rho)
    if not 0 <= ratio <= 1:
        raise SpecError(f"rho={rho} is not a share; it must be between 0 (hardest) and 1 (nothing is held out).")
    purpose = ("fair_nli", "redundancy", str(ratio), seed)
    shown = np.zeros(CLASSES, np.bool_)
    shown[_relational_items(ratio, purpose)] = True
    columns = _columns()
    train = shown[columns.relational]
    for phrase, context in columns.context.items():
        pattern = columns.pattern[phrase]
        allowed = _deal_patterns(int(context.max()) + 1, ratio, (*purpose, phrase))
        train &= (pattern < 0) | allowed[context, pattern]
    return train


def held_out(train: Bools, *, whole_classes: bool = False) -> Bools:
    """[524288]: the test space of a training space: its complement, or all of it where nothing is held out.

    With `whole_classes` no relational class is in both spaces. Without it, train may have the class of a test encoding
    with another pattern for #.
    """
    if not whole_classes:
        return np.ones_like(train) if train.all() else ~train
    seen = np.zeros(CLASSES, np.bool_)
    relational = _columns().relational
    seen[relational[train]] = True
    test: Bools = ~seen[relational]
    if not test.any():
        raise SpecError("every relational class is in the training space, so none can be held out; lower rho.")
    return test


def minimal_items(seed: int) -> Codes:
    """The relational classes of the hardest split: the fewest that show every input of the composing nodes."""
    return np.sort(_relational_items(Fraction(0), ("fair_nli", "redundancy", "0", seed)))


def _relational_items(ratio: Fraction, purpose: tuple[Any, ...]) -> Codes:
    """Relational classes (see `fragment.classes`) distributed over the object, negation and subject nodes."""
    phrase = phrase_relations()
    # An object item: quantifier pair, relation of the object phrase, relation of the verb phrase.
    pair, obj, verb = (axis.ravel() for axis in np.indices((16, 4, 4)))
    out = quantifier_tables()[pair >> 2, pair & 3, phrase[obj], phrase[verb]]
    dealt: list[tuple[int, Ints]] = []
    for relation in Relation:
        group = shuffled(np.flatnonzero(out == relation), *purpose, "object", relation)
        shared, rest = _cut(group, ratio)
        for negated in range(4):
            quarter = rest[len(rest) * negated // 4 : len(rest) * (negated + 1) // 4]
            dealt.append((negated, np.concatenate([quarter, shared])))

    # The same items under negation, with the bits that they set in the number of a relational class.
    item = np.concatenate([chosen for _, chosen in dealt])
    negation = np.concatenate([np.full(len(chosen), negated) for negated, chosen in dealt])
    inner = (negation >> 1) << 15 | (pair[item] >> 2) << 11 | (negation & 1) << 10 | (pair[item] & 3) << 6
    inner |= obj[item] << 2 | verb[item]
    out = negation_tables()[negation >> 1, negation & 1, out[item]]

    items: list[Ints] = []
    for relation in Relation:
        group = shuffled(np.flatnonzero(out == relation), *purpose, "subject", relation)
        shared, rest = _cut(group, ratio)
        turn = rest
        for subject in range(_SUBJECTS):  # quantifier pair and relation of the subject phrase
            if len(rest) > _SUBJECTS:
                share = rest[len(rest) * subject // _SUBJECTS : len(rest) * (subject + 1) // _SUBJECTS]
            elif len(rest):
                position = subject % len(rest)
                if subject and not position:
                    turn = shuffled(rest, *purpose, "subject again", relation, subject)
                share = turn[position : position + 1]
            else:
                share = rest
            outer = (subject >> 4) << 13 | (subject >> 2 & 3) << 8 | (subject & 3) << 4
            items.append(inner[np.concatenate([share, shared])] | outer)
    return np.concatenate(items).astype(np.int32)


def _cut(group: Ints, ratio: Fraction) -> tuple[Ints, Ints]:
    """Cut a shuffled group in two: the part that every context gets, and the part that is divided among them."""
    count = len(group) * ratio.numerator // ratio.denominator
    return group[:count], group[count:]


def _deal_patterns(contexts: int, ratio: Fraction, purpose: tuple[Any, ...]) -> Bools:
    """[contexts, 5]: the patterns for # allowed in each context: the shared ones and, in turn, one of the others."""
    shared, rest = _cut(shuffled(np.arange(PATTERNS), *purpose, "patterns"), ratio)
    allowed = np.zeros((contexts, PATTERNS), np.bool_)
    allowed[:, shared] = True
    turn = rest
    for context in range(contexts if len(rest) else 0):
        position = context % len(rest)
        if context and not position:
            turn = shuffled(rest, *purpose, "patterns again", context)
        allowed[context, turn[position]] = True
    return allowed


class _Columns:
    """Columns over all 524,288 encodings: the relational class, and the context and pattern of each phrase."""

    def __init__(self) -> None:
        codes = np.arange(ENCODINGS, dtype=np.int32)
        self.relational = classes(codes)
        values = node_values(codes)
        code_of = np.zeros(7, np.int64)
        code_of[phrase_relations()] = np.arange(4)
        objects, verbs = code_of[values[:, NODE["NP_O"]]], code_of[values[:, NODE["VP"]]]
        pair = values[:, NODE["PROJ_QO"]].astype(np.int64)
        subject_pair = values[:, NODE["PROJ_QS"]].astype(np.int64)
        self.context = {
            "object": pair * 4 + verbs,
            "verb": pair * 4 + objects,
            "subject": subject_pair * 7 + values[:, NODE["NEGVP"]],
        }
        self.pattern = {p.name: _pattern(codes >> p.how & 3, codes >> p.equal & 1) for p in PHRASES}
        for array in (self.relational, *self.context.values(), *self.pattern.values()):
            array.setflags(write=False)


@cache
def _columns() -> _Columns:
    return _Columns()


def _pattern(modifier: Ints, equal: Ints) -> npt.NDArray[np.int64]:
    """Which of the five patterns makes a phrase #, -1 where it is not #."""
    return np.where(equal == 0, modifier, np.where(modifier == DIFFERENT, PATTERNS - 1, -1))


def shuffled(items: Ints, *purpose: Any) -> Ints:
    """The items in a random order that depends only on the purpose."""
    return items[random_order(stream_key(*purpose), len(items))]
