"""Smallest fair training sets (`minimal`), and training sets that lack exactly one fact (`mirror`).

    minimal(corpus)                        # FairSet(4 of 8 examples, the fewest possible)
    minimal(pool, test)                    # the fewest rows of the pool that are fair for a test set
    mirror(train, ("MAX", (3, 7)))         # the rows that never show MAX(3, 7); all other facts stay

Which rows to keep is a set cover problem: some row must show each needed fact. Two counts bound the answer. A greedy
cover, which always takes the row with the most new facts, is an upper bound. If no row shows two of a set of facts,
each of them needs its own row, so their number is a lower bound (for fair NLI 152 + 6 x 64 = 536). If the two bounds
are equal, the answer is exact. If not, small problems go to an exact solver (HiGHS branch and bound). It has a time
limit and reports the best bound that it has proved by then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools, Ints
from pomona.base.compiled import compiled
from pomona.base.errors import FairnessError
from pomona.data.corpus import Corpus
from pomona.fairness.evidence import Evidence
from pomona.fairness.facts import By, FactTable, Inputs
from pomona.fairness.learner import conflicts_of, told

EXACT_CELLS = 2_000_000  # largest incidence matrix, in entries, that is passed to the exact solver


@dataclass(frozen=True, eq=False)
class FairSet:
    """Rows of a corpus that show every needed fact, and a proven lower bound on the size of such a set."""

    rows: npt.NDArray[np.int64]
    lower_bound: int
    apart: tuple[tuple[str, Inputs], ...]  # facts of which no row shows two: they prove a bound, maybe a weaker one
    of: int

    @property
    def exact(self) -> bool:
        """Whether this set is proven to be a smallest one."""
        return len(self.rows) == self.lower_bound

    def __repr__(self) -> str:
        proven = "the fewest possible" if self.exact else f"at least {self.lower_bound:,} are needed"
        return f"FairSet({len(self.rows):,} of {self.of:,} examples, {proven})"


def minimal(
    corpus: Corpus, test: Corpus | None = None, *, by: By = "type", given: Sequence[str] = (), seconds: float = 10.0
) -> FairSet:
    """The fewest rows that show every fact of the corpus or, with a test set, every fact that the test set needs."""
    facts = FactTable(by, given)
    shown = facts.add(corpus)
    evidence = Evidence.of(shown)
    clashing = conflicts_of(facts, evidence, "train", evidence)
    if clashing:
        raise FairnessError(told(clashing[0], {"train": corpus}))
    wanted = np.ones(len(facts), np.bool_)
    if test is not None:
        known = len(facts)
        asked = facts.add(test, facts=False)
        if len(facts) > known:
            function, inputs, _ = next(facts.rows([known]))
            raise FairnessError(
                f"no row shows {function}({', '.join(map(str, inputs))}), which the test set needs; "
                f"{len(facts) - known:,} facts are missing in all, so no choice of rows is fair"
            )
        wanted = asked.first >= 0
    start, members = _incidence(corpus, shown.fact, wanted)
    rows, apart, bound = cover(start, members, len(facts), seconds)
    return FairSet(rows, bound, tuple(row[:2] for row in facts.rows(apart.tolist())), len(corpus))


def mirror(
    train: Corpus,
    fact: tuple[str, Inputs],
    pool: Corpus | None = None,
    *,
    by: By = "type",
    given: Sequence[str] = (),
) -> Corpus:
    """Training data without one fact: rows that show it are dropped, and every other fact stays.

    Dropping rows may lose other facts. These are restored with rows of `pool` that do not show the dropped fact. If
    that is impossible, the error names the facts that would be lost.
    """
    whole = train if pool is None else Corpus.concatenate([train, pool])
    facts = FactTable(by, given)
    shown = facts.add(train)
    known = len(facts)
    (lost,) = facts.numbered([(fact[0], tuple(fact[1]))])
    everything = shown.fact if pool is None else np.concatenate([shown.fact, facts.add(pool).fact])
    with_it = np.zeros(len(whole), np.bool_)
    with_it[whole.forest.tree[everything == lost] // whole.width] = True
    kept = ~with_it
    kept[len(train) :] = False
    start, members = _incidence(whole, everything, np.arange(len(facts)) < known)
    lacking = np.ones(known, np.bool_)
    lacking[lost] = False
    for row in np.flatnonzero(kept).tolist():
        lacking[members[start[row] : start[row + 1]]] = False
    helping = np.flatnonzero(~with_it & ~kept)
    for row in helping.tolist():
        row_facts = members[start[row] : start[row + 1]]
        if lacking[row_facts].any():
            kept[row] = True
            lacking[row_facts] = False
    if lacking.any():
        others = [
            "{}({})".format(f, ", ".join(map(str, i))) for f, i, _ in facts.rows(np.flatnonzero(lacking).tolist())
        ]
        more = f" and {len(others) - 3:,} more" if len(others) > 3 else ""
        raise FairnessError(
            f"without {fact[0]}({', '.join(map(str, fact[1]))}) training would lose {', '.join(others[:3])}{more} as "
            "well; give a larger training set, or a pool of examples to restore them from"
        )
    return whole.take(np.flatnonzero(kept))


def _incidence(
    corpus: Corpus, fact: npt.NDArray[np.int32], wanted: Bools
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The wanted facts of each row, sorted and without repetition: offsets, then facts."""
    nodes = np.flatnonzero(fact >= 0)
    nodes = nodes[wanted[fact[nodes]]]
    row, width = corpus.forest.tree[nodes] // corpus.width, np.int64(max(1, len(wanted)))
    pairs = np.unique(row * width + fact[nodes])
    return np.searchsorted(pairs, np.arange(len(corpus) + 1) * width), pairs % width


def cover(
    start: Ints, members: Ints, facts: int, seconds: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Rows that cover every member, members of which no row has two, and a lower bound on the number of rows."""
    chosen = _greedy(start, members, facts)
    chosen = _pruned(start, members, facts, chosen)
    apart = _stand_apart(start, members, facts)
    bound = len(apart)
    if bound < len(chosen):
        solved, proven = _solved(start, members, facts, len(chosen), seconds)
        bound = max(bound, proven)
        if solved is not None and len(solved) < len(chosen):
            chosen = solved
    return np.sort(chosen), apart, bound


@compiled
def _greedy(start: Ints, members: Ints, facts: int) -> npt.NDArray[np.int64]:
    """Take the row with the most uncovered facts until none is left."""
    rows = len(start) - 1
    gain = np.zeros(rows, np.int64)
    most = 0
    for row in range(rows):
        gain[row] = start[row + 1] - start[row]
        most = max(most, gain[row])
    # Each row is in the bucket of its last known gain. Gains only fall, so the top bucket is checked first.
    head, after = np.full(most + 1, -1, np.int64), np.full(rows, -1, np.int64)
    for row in range(rows - 1, -1, -1):
        after[row], head[gain[row]] = head[gain[row]], row
    covered = np.zeros(facts, np.bool_)
    chosen = np.empty(rows, np.int64)
    count = 0
    while most > 0:
        row = head[most]
        if row < 0:
            most -= 1
            continue
        head[most] = after[row]
        left = 0
        for place in range(start[row], start[row + 1]):
            left += not covered[members[place]]
        if left == most:
            for place in range(start[row], start[row + 1]):
                covered[members[place]] = True
            chosen[count] = row
            count += 1
        elif left:
            after[row], head[left] = head[left], row
    return chosen[:count]


@compiled
def _pruned(start: Ints, members: Ints, facts: int, chosen: Ints) -> npt.NDArray[np.int64]:
    """Drop chosen rows whose facts the others cover, starting with the last one chosen."""
    times = np.zeros(facts, np.int64)
    for row in chosen:
        for place in range(start[row], start[row + 1]):
            times[members[place]] += 1
    keep = np.ones(len(chosen), np.bool_)
    for back in range(len(chosen) - 1, -1, -1):
        row = chosen[back]
        needed = False
        for place in range(start[row], start[row + 1]):
            needed |= times[members[place]] == 1
        if not needed:
            keep[back] = False
            for place in range(start[row], start[row + 1]):
                times[members[place]] -= 1
    return chosen[keep].astype(np.int64)


def _stand_apart(start: Ints, members: Ints, facts: int) -> npt.NDArray[np.int64]:
    """Facts of which no row shows two, chosen greedily: facts that few rows show come first."""
    order = np.argsort(members, kind="stable")
    rows = np.repeat(np.arange(len(start) - 1), np.diff(start))[order]
    where = np.searchsorted(members[order], np.arange(facts + 1))
    shown = np.diff(where)
    scarce = np.argsort(shown, kind="stable")
    return _independent(where, rows, scarce[shown[scarce] > 0], len(start) - 1)


@compiled
def _independent(where: Ints, rows: Ints, order: Ints, count_rows: int) -> npt.NDArray[np.int64]:
    taken = np.zeros(count_rows, np.bool_)  # rows that show a chosen fact
    chosen = np.empty(len(order), np.int64)
    count = 0
    for fact in order:
        free = True
        for at in range(where[fact], where[fact + 1]):
            free &= not taken[rows[at]]
        if free:
            chosen[count] = fact
            count += 1
            for at in range(where[fact], where[fact + 1]):
                taken[rows[at]] = True
    return np.sort(chosen[:count])


def _solved(
    start: Ints, members: Ints, facts: int, upper: int, seconds: float
) -> tuple[npt.NDArray[np.int64] | None, int]:
    """Rows found by branch and bound, and the bound it proved; (None, 0) if the problem is too large to try."""
    if seconds <= 0 or len(members) > EXACT_CELLS:
        return None, 0
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_matrix

    # Of rows with the same facts, one is enough.
    sets: dict[bytes, int] = {}
    for row in range(len(start) - 1):
        sets.setdefault(np.asarray(members[start[row] : start[row + 1]], np.int64).tobytes(), row)
    sets.pop(b"", None)
    distinct = np.array(list(sets.values()), np.int64)
    sizes = start[distinct + 1] - start[distinct]
    column = np.repeat(np.arange(len(distinct)), sizes)
    entry = np.concatenate([members[start[row] : start[row + 1]] for row in distinct.tolist()])
    used, fact = np.unique(entry, return_inverse=True)
    shows = csr_matrix((np.ones(len(entry)), (fact, column)), shape=(len(used), len(distinct)))
    solution = milp(
        np.ones(len(distinct)),
        constraints=LinearConstraint(shows, lb=1),
        integrality=np.ones(len(distinct)),
        bounds=Bounds(0, 1),
        options={"time_limit": float(seconds)},
    )
    proven = getattr(solution, "mip_dual_bound", None)
    bound = 0 if proven is None or not math.isfinite(proven) else math.ceil(proven - 1e-6)
    if solution.x is None:
        return None, min(bound, upper)
    rows = distinct[solution.x > 0.5]
    covered = np.zeros(facts, np.bool_)
    for row in rows.tolist():
        covered[members[start[row] : start[row + 1]]] = True
    return (rows if covered[used].all() else None), min(bound, upper)
