"""The local facts of COPY: the number in its argument, and the position of the node that it leads to.

    [MAX 2 6 0 1 ] X [COPY 1 ]          COPY(1) = 1: the word 1 means the node at position 1 in level order

A COPY does two things. It reads its argument as a position; then it takes the value of the node at that position. The
links of the tree give the second step. The first step is a function of the argument alone, the same in all examples.
Where a number is one token, a learner cannot know what 137 means before it has seen it copied: COPY(137) = 137 is a
fact like MAX(2, 6) = 6, and training may lack it. Its input comes from the text and its output from the link, so data
where text and link disagree have a conflict.

Where numbers are spelled by digits, no number is an unseen word. Reading decimal numbers is then taken as known, and
COPY has no facts. Indices that training never copied are still counted, as new ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools
from pomona.base.errors import FairnessError
from pomona.data.corpus import Corpus
from pomona.trees.links import COPY, positions

Spelling: TypeAlias = Literal["words", "digits"]


class Addresses(NamedTuple):
    """The COPYs of a corpus in order: node, row, the number in the text, the position that the link leads to."""

    node: npt.NDArray[np.int64]
    row: npt.NDArray[np.int64]
    argument: npt.NDArray[np.int64]
    position: npt.NDArray[np.int64]
    spelling: Spelling | None  # None if every argument has one digit, so that both spellings are the same


class Copies(NamedTuple):
    """Counts of the test examples of one depth: how many the memorising learner answers, how many use new indices.

    An index is new if training never copies it. `familiar` examples have no new index; `indices` lists the new ones.
    """

    depth: int
    examples: int
    answered: int
    familiar: int
    copies: int
    new: int
    indices: tuple[int, ...]


def addresses(corpus: Corpus) -> Addresses | None:
    """The COPYs of a corpus; None if its text has none, or its nodes never quote others."""
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


def spelling_of(parts: Iterable[Corpus]) -> Spelling | None:
    """How the parts of a split write the arguments of COPY: None if every one has one digit."""
    found = {copies.spelling for part in parts if (copies := addresses(part)) is not None}
    return "digits" if "digits" in found else "words" if "words" in found else None


def by_depth(copied: Collection[int] | None, corpus: Corpus, answered: Bools) -> tuple[Copies, ...]:
    """Count the COPYs of a test corpus by the depth of its examples, and those of arguments that are not `copied`."""
    test = addresses(corpus)
    if test is None:
        return ()
    new = ~np.isin(test.argument, np.array(sorted(copied or ()), np.int64))
    familiar = np.ones(len(corpus), np.bool_)
    familiar[test.row[new]] = False
    groups = []
    for depth in np.unique(corpus.nesting).tolist():
        rows = corpus.nesting == depth
        here = rows[test.row]
        groups.append(
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
    return tuple(groups)


def added_up(some: Sequence[Copies], more: Sequence[Copies]) -> tuple[Copies, ...]:
    """The counts of two parts of a test set, together."""
    groups = {copies.depth: copies for copies in some}
    for copies in more:
        if (known := groups.get(copies.depth)) is None:
            groups[copies.depth] = copies
            continue
        groups[copies.depth] = Copies(
            copies.depth,
            known.examples + copies.examples,
            known.answered + copies.answered,
            known.familiar + copies.familiar,
            known.copies + copies.copies,
            known.new + copies.new,
            tuple(sorted({*known.indices, *copies.indices})),
        )
    return tuple(groups[depth] for depth in sorted(groups))
