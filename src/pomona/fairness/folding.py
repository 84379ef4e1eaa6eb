"""Folding: write each list of ListOps as a chain of transitions, of which there are far fewer than lists.

    [MAX 2 9 4 ]     MAX·next(MAX·next(MAX·first(2), 9), 4)     first(2) = 2, next(2, 9) = 9, next(9, 4) = 9
    [MED 2 9 4 ]     MED·last(MED·next(MED·next(MED·first(2), 9), 4))          states are {2}, {2,9}, {2,4,9}

As one table, an operator on 2 to 5 digits has 10^2 + ... + 10^5 = 111,100 inputs. No data set of the field shows them
all. Read from left to right, MIN, MAX, SM, PM, FIRST and LAST need to remember one digit, so 10 inputs of `first` and
100 of `next` determine each of them. MED remembers the multiset of its arguments so far and needs a `last` step.
`fold(corpus)` returns the corpus of folded trees, which can be certified. `fair_for(train, test)` adds to a training
set the flat lists that its test set needs: generalisation to greater depth is then fair, although no deep example was
added.
"""

from __future__ import annotations

import dataclasses
from typing import Final, overload

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Bools, Ints
from pomona.base.compiled import compiled
from pomona.base.errors import FairnessError, SplitError
from pomona.data.corpus import Corpus, Outcome
from pomona.data.shards.folder import Shards
from pomona.data.task import corpus_of_trees
from pomona.fairness.certificates import Certificate, certify
from pomona.fairness.facts import Inputs
from pomona.trees import brackets
from pomona.trees.forest import Forest
from pomona.trees.operators import OPERATORS
from pomona.trees.rules import FIRST, LAST, MAX, MED, MIN, PM, SM, counted

BEGIN, STEP, END = "first", "next", "last"
_SEPARATOR: Final = "·"
_DIGITS = 10
_MOST = 63  # arguments of a list: a multiset is stored as ten counts of six bits


@overload
def fold(corpus: Corpus) -> Corpus: ...
@overload
def fold(corpus: Shards) -> Shards: ...
def fold(corpus: Corpus | Shards) -> Corpus | Shards:
    """The same examples with every list as a chain of transitions; tokens, targets and ids stay.

    >>> brackets.write(fold(corpus_of_trees(brackets.read("[MAX 2 9 4 ]"))).forest)
    ['[MAX·next [MAX·next [MAX·first 2 ] 9 ] 4 ]']

    Shards are folded when they are read.
    """
    return corpus.through(fold_corpus) if isinstance(corpus, Shards) else fold_corpus(corpus)


def fold_corpus(corpus: Corpus) -> Corpus:
    """`fold` of a corpus."""
    forest = corpus.forest
    if forest.link is not None:
        raise FairnessError(
            "examples that quote their own nodes cannot be folded; certify whole lists, or take operators as given"
        )
    if forest.arity.max(initial=0) > _MOST:
        raise FairnessError(f"a list has {forest.arity.max()} arguments; lists of at most {_MOST} can be folded")
    inner = np.unique(forest.symbol[~forest.leaf]).tolist()
    number = np.full(len(forest.names), -1, np.int64)
    for symbol in inner:
        operator = OPERATORS.get(forest.names[symbol])
        if operator is None or operator.number not in (MIN, MAX, MED, SM, FIRST, LAST, PM):
            raise FairnessError(f"{forest.names[symbol]!r} has no folded form; certify whole lists instead")
        number[symbol] = operator.number
    digit = np.array([out if type(out) is int and 0 <= out < _DIGITS else -1 for out in (*corpus.outcomes, -1)])
    value = digit[corpus.values]
    if (value < 0).any():
        node = int(np.argmin(value))
        raise FairnessError(f"tree {forest.tree[node]}, node {node - forest.start[forest.tree[node]]}: not a digit")
    names = (*forest.names, *(f"{forest.names[s]}{_SEPARATOR}{part}" for s in inner for part in (BEGIN, STEP, END)))
    first = np.zeros(len(forest.names), np.int64)
    first[inner] = len(forest.names) + 3 * np.arange(len(inner))
    counts = _sizes(forest.symbol, forest.parent, forest.arity, number)
    start = np.zeros(len(forest) + 1, np.int64)
    start[1:] = np.cumsum(counts)[forest.root]
    symbol, parent, state, is_set = _fold(
        forest.symbol, forest.parent, forest.arity, forest.start, value, number, first, start
    )
    # Each multiset becomes an outcome, after the digits.
    sets, set_number = np.unique(state[is_set], return_inverse=True)
    outcomes: tuple[Outcome, ...] = (*range(_DIGITS), *map(_set_name, sets.tolist()))
    if len(outcomes) > np.iinfo(np.int16).max:
        raise FairnessError(f"MED goes through {len(sets):,} multisets here, more than a corpus can number")
    values = state.astype(np.int64)
    values[is_set] = _DIGITS + set_number
    return dataclasses.replace(
        corpus,
        forest=Forest(symbol, parent, start, names),
        values=values.astype(np.int16),
        outcomes=outcomes,
        targets=digit[corpus.targets].astype(np.int16),
        origin={**corpus.origin, "folded": True},
    )


def _set_name(tally: int) -> str:
    digits = [digit for digit in range(_DIGITS) for _ in range(tally >> 6 * digit & 63)]
    return "{" + ",".join(map(str, digits)) + "}"


@compiled
def _sizes(symbol: Ints, parent: Ints, arity: Ints, number: Ints) -> npt.NDArray[np.int64]:
    """How many nodes each node becomes: a digit itself, a MED its last step, and an argument one step of its list."""
    sizes = np.zeros(len(symbol), np.int64)
    for node in range(len(symbol)):
        sizes[node] = (arity[node] == 0 or number[symbol[node]] == MED) + (parent[node] >= 0)
    return sizes


@compiled
def _fold(
    symbol: Ints, parent: Ints, arity: Ints, start: Ints, value: Ints, number: Ints, first: Ints, new_start: Ints
) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int32], npt.NDArray[np.uint64], Bools]:
    total = new_start[-1]
    new_symbol, new_parent = np.empty(total, np.int16), np.full(total, -1, np.int32)
    state, is_set = np.zeros(total, np.uint64), np.zeros(total, np.bool_)
    last = np.full(len(symbol), -1, np.int64)  # the latest transition of each list
    for tree in range(len(start) - 1):
        base, made = new_start[tree], new_start[tree]
        for node in range(start[tree], start[tree + 1]):
            if arity[node] == 0 or number[symbol[node]] == MED:
                new_symbol[made] = symbol[node] if arity[node] == 0 else first[symbol[node]] + 2
                state[made] = np.uint64(value[node])
                if arity[node]:
                    new_parent[last[node]] = made - base
                root = made
                made += 1
            else:
                root = last[node]
            if parent[node] < 0:
                continue
            up = start[tree] + parent[node]
            operator, before = number[symbol[up]], last[up]
            new_symbol[made] = first[symbol[up]] + (0 if before < 0 else 1)
            new_parent[root] = made - base
            digit = np.uint64(value[node])
            if operator == MED:
                is_set[made] = True
                state[made] = counted(value[node]) + (state[before] if before >= 0 else np.uint64(0))
            elif before < 0 or operator == LAST:
                state[made] = digit
            elif operator == MIN:
                state[made] = min(state[before], digit)
            elif operator == MAX:
                state[made] = max(state[before], digit)
            elif operator == SM:
                state[made] = (state[before] + digit) % np.uint64(10)
            elif operator == PM:
                state[made] = (state[before] * digit) % np.uint64(10)
            else:
                state[made] = state[before]
            if before >= 0:
                new_parent[before] = made - base
            last[up] = made
            made += 1
    return new_symbol, new_parent, state, is_set


def demonstration(function: str, inputs: Inputs) -> str:
    """A flat list that shows a fact, of an operator or of one of its transitions.

    >>> demonstration("MAX·next", (2, 9)), demonstration("MED·next", ("{2,4}", 9)), demonstration("SM", (1, 2, 3))
    ('[MAX 2 9 ]', '[MED 2 4 9 ]', '[SM 1 2 3 ]')
    """
    operator = function.partition(_SEPARATOR)[0]
    digits = [
        digit for value in inputs for digit in (value.strip("{}").split(",") if isinstance(value, str) else [value])
    ]
    return " ".join([f"[{operator}", *map(str, digits), "]"])


def fair_for(train: Corpus, test: Corpus, *, folded: bool = True) -> tuple[Corpus, Certificate]:
    """Train with the flat lists that test needs and train lacks, and the certificate that the result is fair.

    The certificate is about `fold(train)` and `fold(test)`, or with `folded=False` about whole lists. A flat list has
    nesting depth 1, so train becomes no deeper.
    """
    certificate = _certified(train, test, folded)
    if certificate.conflicts:
        raise FairnessError(f"train and test contradict each other: {certificate.conflicts[0]}")
    texts = dict.fromkeys(demonstration(fact.function, fact.inputs) for fact in certificate.violations)
    if not texts:
        return train, certificate
    extra = corpus_of_trees(brackets.read(list(texts)))
    shared = np.flatnonzero(np.isin(extra.keys, test.keys))
    if len(shared):
        raise SplitError(
            f"{len(shared)} of the lists that train lacks are themselves test examples (first: "
            f"{extra.texts[int(shared[0])]}); they cannot be shown without a leak. Drop them from test."
        )
    plain = dataclasses.replace(train, ids=None, lines=None, columns={})
    whole = Corpus.concatenate([plain, extra])
    return whole, _certified(whole, test, folded)


def _certified(train: Corpus, test: Corpus, folded: bool) -> Certificate:
    return certify(fold(train), fold(test)) if folded else certify(train, test)
