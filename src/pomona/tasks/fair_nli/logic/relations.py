"""The seven basic semantic relations, each as the set of cells that it leaves possible.

    Relation.FWD.symbol, Relation.FWD.cells          '⊏', 0b1011: the cells 11, 01 and 00, but never 10
    relation_of(0b1011) is Relation.FWD
    join()[Relation.FWD, Relation.ALT]               crow ⊏ bird, bird | fish: so crow | fish

Two expressions P and H cut a domain in four cells: 11 (in both), 10 (only in P), 01 (only in H), 00 (in neither).
A relation says which cells may be inhabited. Of the 16 sets of cells exactly 7 leave both P and H neither empty nor
universal, and these are the relations of MacCartney and Manning (Table 2 of Geiger et al. 2019). All other tables
of `logic` are computed from cells and the meanings of words. At the root, P and H are sentences and cells are
pairs of truth values: entailment means that 10 is impossible, contradiction that 11 is, anything else is neutral.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from pomona.base.errors import SpecError

RelationTable = npt.NDArray[np.uint8]
"""An array whose entries are numbers of `Relation`."""

CELL_11: Final = 0b1000
CELL_10: Final = 0b0100
CELL_01: Final = 0b0010
CELL_00: Final = 0b0001


def cell(in_premise: int, in_hypothesis: int) -> int:
    """The bit of one cell: `cell(1, 0)` is `CELL_10`."""
    return 1 << (2 * in_premise + in_hypothesis)


class Label(IntEnum):
    """The three answers of natural language inference, in the order of SNLI."""

    ENTAILMENT = 0
    NEUTRAL = 1
    CONTRADICTION = 2

    @property
    def text(self) -> str:
        """The label as SNLI files spell it."""
        return self.name.lower()


def label_of_cells(cells: int) -> Label:
    """The label of a sentence pair of which exactly these truth-value cells are possible."""
    if not cells & CELL_10:
        return Label.ENTAILMENT
    return Label.NEUTRAL if cells & CELL_11 else Label.CONTRADICTION


class Relation(IntEnum):
    """One of the seven relations; its number is its index in every table of `logic`."""

    EQ = 0
    FWD = 1
    REV = 2
    NEG = 3
    ALT = 4
    COV = 5
    IND = 6

    @property
    def cells(self) -> int:
        """The cells that may be inhabited, as a bit mask over 11, 10, 01, 00 (11 is the highest bit)."""
        return _CELLS[self]

    @property
    def symbol(self) -> str:
        """The symbol in Table 2 of the paper."""
        return "≡⊏⊐^|⌣#"[self]

    @property
    def code(self) -> str:
        """Three ASCII letters: eq fwd rev neg alt cov ind."""
        return self.name.lower()

    @property
    def title(self) -> str:
        """The name in words."""
        return _TITLES[self]

    @property
    def label(self) -> Label:
        """What the relation means for inference when it holds between two sentences."""
        return label_of_cells(self.cells)

    @property
    def converse(self) -> Relation:
        """The relation of H to P."""
        return relation_of(_swap_bits(self.cells, 1, 2))

    def negated(self, *, premise: bool = False, hypothesis: bool = False) -> Relation:
        """The relation after negating either side: P ⊏ H gives not-P ⌣ H."""
        cells = self.cells
        if premise:
            cells = (cells >> 2) | (cells & 0b0011) << 2
        if hypothesis:
            cells = (cells & 0b1010) >> 1 | (cells & 0b0101) << 1
        return relation_of(cells)


_CELLS: Final = (
    CELL_11 | CELL_00,
    CELL_11 | CELL_01 | CELL_00,
    CELL_11 | CELL_10 | CELL_00,
    CELL_10 | CELL_01,
    CELL_10 | CELL_01 | CELL_00,
    CELL_11 | CELL_10 | CELL_01,
    CELL_11 | CELL_10 | CELL_01 | CELL_00,
)
_TITLES: Final = (
    "equivalence",
    "forward entailment",
    "reverse entailment",
    "negation",
    "alternation",
    "cover",
    "independence",
)
_OF_CELLS: Final = {relation.cells: relation for relation in Relation}


def _swap_bits(mask: int, first: int, second: int) -> int:
    """Exchange the bits at these two positions."""
    differ = (mask >> first ^ mask >> second) & 1
    return mask ^ (differ << first | differ << second)


def relation_of(cells: int) -> Relation:
    """The relation that leaves exactly these cells possible."""
    relation = _OF_CELLS.get(cells)
    if relation is None:
        raise SpecError(
            f"the cells {cells_text(cells)} make an expression empty or universal; "
            "a relation needs cells on both sides of premise and hypothesis, such as 11 and 00."
        )
    return relation


def cells_text(cells: int) -> str:
    """Cells for a reader: `cells_text(0b1001)` is '11 00'."""
    return " ".join(f"{bit:02b}" for bit in (3, 2, 1, 0) if cells >> bit & 1) or "(none)"


def frozen(table: RelationTable) -> RelationTable:
    """The same array, made read-only because callers share it."""
    table.setflags(write=False)
    return table


@cache
def join() -> RelationTable:
    """[7, 7]: the strongest relation of x to z that x r y and y s z guarantee.

    A cell (x, z) stays possible when some value of y is allowed by both relations.
    """
    table = np.empty((7, 7), np.uint8)
    for r in Relation:
        for s in Relation:
            cells = 0
            for x, y, z in np.ndindex(2, 2, 2):
                if r.cells & cell(x, y) and s.cells & cell(y, z):
                    cells |= cell(x, z)
            table[r, s] = relation_of(cells)
    return frozen(table)


@cache
def labels() -> RelationTable:
    """[7]: the `Label` of each relation, as an array for look-up."""
    return frozen(np.array([relation.label for relation in Relation], np.uint8))


@cache
def relations_by_cells() -> RelationTable:
    """[16]: the relation of each cell mask, 255 where it is degenerate."""
    table = np.full(16, 255, np.uint8)
    for cells, relation in _OF_CELLS.items():
        table[cells] = relation
    return frozen(table)
