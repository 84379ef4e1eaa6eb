"""What COPY says and where it leads: the facts of quotations.

    [MAX 2 6 0 1 ] X [COPY 1 ]          COPY(1) = 1: the word 1 stands for the node at position 1 in level order

A COPY reads its argument as a position, then takes the value of the node that stands there. The second step is part of
the trees, which composition always takes as given; the first is a function of the argument alone, the same in all
examples. Where a number is one token, nothing tells what 137 stands for until it has been copied once: COPY(137) = 137
is a fact like MAX(2, 6) = 6, which training shows or does not. The input is what the text says and the output is where
the link of the tree leads, so data in which the two disagree contradict themselves.

Where numbers are spelled digit by digit there is no word that training could fail to show. Reading decimal numbers is
then taken as known and COPY has no facts; indices that training never copied are still counted, as new ones.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools
from pomona.base.errors import FairnessError
from pomona.data.corpus import Corpus
from pomona.trees.links import COPY, positions

Spelling: TypeAlias = Literal["words", "digits"]


class Addresses(NamedTuple):
    """The COPYs of a corpus in order: node, row, the number written there, the position that the link leads to."""

    node: npt.NDArray[np.int64]
    row: npt.NDArray[np.int64]
    argument: npt.NDArray[np.int64]
    position: npt.NDArray[np.int64]
    spelling: Spelling | None  # None where every argument has one digit: both spellings are the same


class Copies(NamedTuple):
    """Test examples of one depth: how many the memorising learner answers, and how many use indices new to it.

    `familiar` examples have no such index; `indices` are all that training never copies and these examples do.
    """

    depth: int
    examples: int
    answered: int
    familiar: int
    copies: int
    new: int
    indices: tuple[int, ...]


def addresses(corpus: Corpus) -> Addresses | None:
    """What stands at the COPYs of a corpus; None where nodes quote others without saying so in the text."""
    forest = corpus.forest
    if forest.link is None or f"[{COPY}" not in corpus.vocabulary:
        return None
    node = np.flatnonzero(forest.links)
    row = forest.tree[node].astype(np.int64) // corpus.width
    at = np.flatnonzero(corpus.tokens == corpus.vocabulary.index(f"[{COPY}"))
    written = np.searchsorted(corpus.token_start, at, side="right") - 1
    if not np.array_equal(written, row):
        shown, meant = (np.bincount(rows, minlength=len(corpus)) for rows in (written, row))
        wrong = int(np.argmax(shown != meant))
        line = f"line {corpus.lines[wrong]}" if corpus.lines is not None else f"example {wrong}"
        raise FairnessError(f"{line}: the text has {shown[wrong]} COPYs, and {meant[wrong]} nodes quote others")
    number = np.array([int(word) if word.isdecimal() else -1 for word in corpus.vocabulary], np.int64)
    tokens = np.append(number[corpus.tokens], [-1, -1])
    argument = tokens[at + 1]
    if argument.min(initial=0) < 0:
        raise FairnessError(f"example {written[np.argmin(argument)]}: a COPY without a number")
    spelling: Spelling | None = "words" if argument.max(initial=0) > 9 else None
    left, end = np.arange(len(at)), at + 2
    while len(left := left[longer := tokens[end] >= 0]):  # one more digit
        end = end[longer]
        argument[left], spelling = 10 * argument[left] + tokens[end], "digits"
        end = end + 1
    return Addresses(node, row, argument, positions(forest, corpus.width)[node - forest.links[node]], spelling)


def by_depth(train: Addresses | None, test: Addresses | None, corpus: Corpus, answered: Bools) -> tuple[Copies, ...]:
    """The COPYs of a test corpus by the depth of its examples, against those of training."""
    if test is None:
        return ()
    new = np.ones(len(test.row), np.bool_) if train is None else ~np.isin(test.argument, np.unique(train.argument))
    familiar = np.ones(len(corpus), np.bool_)
    familiar[test.row[new]] = False
    found = []
    for depth in np.unique(corpus.nesting).tolist():
        rows = corpus.nesting == depth
        here = rows[test.row]
        found.append(
            Copies(
                depth,
                int(rows.sum()),
                int(answered[rows].sum()),
                int(familiar[rows].sum()),
                int(here.sum()),
                int((here & new).sum()),
                tuple(np.unique(test.argument[here & new]).tolist()),
            )
        )
    return tuple(found)
