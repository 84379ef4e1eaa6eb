"""Joint projectivity: the relation of f(X) to g(Y) from the relation of X to Y, computed over finite models.

    table = quantifier_tables()                       [premise Q, hypothesis Q, restrictor relation, scope relation]
    table[EVERY, SOME, Relation.REV, Relation.EQ]     ⊏: every animal moves / some dog moves (Figure 2 of the paper)

For words f, g and arguments in relation R, the joint projectivity signature of Geiger et al. 2019 (section 4.1) maps R
to the relation of f(X) to g(Y). Their appendix derives the tables by hand from one-place signatures. Here they are
computed: all small models whose entities are in cells of the argument relations are enumerated, and both sides are
evaluated in each. The pairs of truth values that occur are the cells of the resulting relation. Quantifiers have
existential import: no restrictor is empty ("no expression is empty or universal", section 4.2). Models of two entities
are enough; larger ones change nothing (a test goes up to five).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations_with_replacement
from typing import Final

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools, Ints
from pomona.tasks.fair_nli.logic.relations import Relation, RelationTable, cell, frozen, relation_of, relations_by_cells

EVERY, NOT_EVERY, SOME, NO = range(4)
QUANTIFIERS: Final = ("every", "notevery", "some", "no")
"""Words in the order of their codes; `code ^ 1` is the contradictory quantifier."""

Quantifier = Callable[[Ints, Ints], Bools]

# A conservative quantifier depends on two numbers only: how many members of the restrictor are inside the scope, and
# how many are outside.
MEANINGS: Final[tuple[Quantifier, ...]] = (
    lambda inside, outside: outside == 0,
    lambda inside, outside: outside > 0,
    lambda inside, outside: inside > 0,
    lambda inside, outside: inside == 0,
)

NEGATION: Final = ("", "not")
MODIFIER_PATTERNS: Final = ("ε/ε", "a/a", "ε/a", "a/ε", "a/b")
"""Aligned intersective modifiers: none, the same word, only in the hypothesis, only in the premise, two words."""
CONNECTIVES: Final = ("or", "and", "then")


def project_quantifiers(
    meanings: tuple[Quantifier, ...], *, entities: int = 3, existential_import: bool = True
) -> RelationTable:
    """[Q, Q, 7, 7]: joint projectivity of any conservative quantifiers, over all models of 1 .. `entities` members.

    >>> most = lambda inside, outside: inside > outside
    >>> Relation(project_quantifiers((most,), entities=4)[0, 0, Relation.EQ, Relation.FWD]).symbol
    '⊏'
    """
    # An entity is a restrictor cell and a scope cell: 16 kinds. A model is a multiset of entities.
    models = [m for size in range(1, entities + 1) for m in combinations_with_replacement(range(16), size)]
    members = np.zeros((len(models), 16), np.int64)
    for row, model in enumerate(models):
        for kind in model:
            members[row, kind] += 1
    kinds = np.arange(16)
    restrictor, scope = kinds >> 2, kinds & 3
    truth: list[list[Bools]] = []
    has_restrictor: list[Bools] = []
    for side in (1, 0):  # the premise is the high bit of a cell, the hypothesis the low one
        a, b = restrictor >> side & 1, scope >> side & 1
        inside, outside = members @ (a & b), members @ (a & ~b & 1)
        truth.append([meaning(inside, outside) for meaning in meanings])
        has_restrictor.append(inside + outside > 0)
    admitted = has_restrictor[0] & has_restrictor[1] if existential_import else np.ones(len(models), np.bool_)

    # A model counts for relations (r, s) if none of its members is in a cell that r or s excludes.
    masks = np.array([relation.cells for relation in Relation])
    r_excludes = (masks[:, None] >> restrictor & 1) == 0
    s_excludes = (masks[:, None] >> scope & 1) == 0
    excluded = r_excludes[:, None, :] | s_excludes[None, :, :]
    within = (members @ excluded.reshape(49, 16).T == 0) & admitted[:, None]

    count = len(meanings)
    table = np.empty((count, count, 7, 7), np.uint8)
    for p, h in np.ndindex(count, count):
        seen = 1 << (2 * truth[0][p].astype(np.int64) + truth[1][h])
        cells = np.bitwise_or.reduce(np.where(within, seen[:, None], 0), axis=0)
        table[p, h] = _relations(cells).reshape(7, 7)
    return frozen(table)


@cache
def quantifier_tables(*, entities: int = 3, existential_import: bool = True) -> RelationTable:
    """[4, 4, 7, 7]: the 16 joint signatures of every, not every, some and no.

    Axes: premise quantifier, hypothesis quantifier, restrictor relation, scope relation.
    """
    return project_quantifiers(MEANINGS, entities=entities, existential_import=existential_import)


@cache
def negation_tables() -> RelationTable:
    """[2, 2, 7]: premise negated, hypothesis negated, relation of the bare expressions."""
    table = np.empty((2, 2, 7), np.uint8)
    for p, h in np.ndindex(2, 2):
        for relation in Relation:
            table[p, h, relation] = relation.negated(premise=bool(p), hypothesis=bool(h))
    return frozen(table)


@cache
def modifier_tables() -> RelationTable:
    """[5, 7]: pattern of `MODIFIER_PATTERNS`, relation of the heads. Words a and b are independent of all else."""
    table = np.empty((len(MODIFIER_PATTERNS), 7), np.uint8)
    for row, pattern in enumerate(MODIFIER_PATTERNS):
        premise, hypothesis = pattern.split("/")
        for relation in Relation:
            cells = 0
            for x, y, a, b in np.ndindex(2, 2, 2, 2):
                if relation.cells & cell(x, y):
                    holds = {"ε": 1, "a": a, "b": b}
                    cells |= cell(x & holds[premise], y & holds[hypothesis])
            table[row, relation] = relation_of(cells)
    return frozen(table)


def modifier_signature(pattern: str) -> Relation:
    """The relation that names a modifier pattern: what it makes of equivalent heads (the paper's set 𝒜)."""
    return Relation(modifier_tables()[MODIFIER_PATTERNS.index(pattern), Relation.EQ])


@cache
def connective_tables() -> RelationTable:
    """[3, 3, 7, 7]: connectives of `CONNECTIVES` on both sides, relation of the first parts, of the second parts."""
    meanings: tuple[Callable[[int, int], int], ...] = (
        lambda first, second: first | second,
        lambda first, second: first & second,
        lambda first, second: (1 - first) | second,
    )
    table = np.empty((3, 3, 7, 7), np.uint8)
    for p, h in np.ndindex(3, 3):
        # Truth values of (first premise part, first hypothesis part, second premise part, second hypothesis part).
        reached = {
            (x1, y1, x2, y2): cell(meanings[p](x1, x2), meanings[h](y1, y2))
            for x1, y1, x2, y2 in np.ndindex(2, 2, 2, 2)
        }
        for r in Relation:
            for s in Relation:
                cells = 0
                for (x1, y1, x2, y2), result in reached.items():
                    if r.cells & cell(x1, y1) and s.cells & cell(x2, y2):
                        cells |= result
                table[p, h, r, s] = relation_of(cells)
    return frozen(table)


def _relations(cells: npt.NDArray[np.int64]) -> RelationTable:
    """Relations of many cell masks; a degenerate one raises the error of `relation_of`."""
    relations = relations_by_cells()[cells]
    if (relations == 255).any():
        relation_of(int(cells[relations == 255].flat[0]))
    return relations
