"""Group the examples of a corpus by length, depth, operator or any column, for scores by group and for clusters.

labels, numbers = groups_of(corpus, "nesting")      ("1", "2", "3"), and the number of each example's group

length       tokens, in buckets                     operator     the names at the roots
nesting      lists open at the deepest point        arity        how many arguments the roots have
chain        operators that decide the answer       derivation   operators and shape of the trees, digits left out
answer       the right answer                       any column   of a file of your own

Where an example has several trees, depths are those of its deepest tree; with `question`, those of that question's own
tree. `dependency` is another name of `chain`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.errors import MeasureError, did_you_mean
from pomona.data.corpus import Corpus, content_keys
from pomona.trees.values import labels_of

LENGTHS = (10, 20, 50, 100, 200, 500, 1000)
MANY = 16  # more different depths than this are put into buckets
DEPTHS = (*range(9), 10, 15, 20, 50, 100)

Groups = tuple[tuple[str, ...], npt.NDArray[np.int64]]


def groups_of(corpus: Corpus, field: str, question: int | None = None) -> Groups:
    """Names of the groups in their natural order, and the number of each example's group.

    With `question`, trees are grouped by the tree of that question alone, where there is one for each question.
    """
    if question is not None and field in TREE_FIELDS and 0 <= question < corpus.width:
        return TREE_FIELDS[field](corpus, question)
    if field in FIELDS:
        return FIELDS[field](corpus)
    if field in corpus.columns and corpus.columns[field].ndim == 1:
        return _plain(corpus.columns[field])
    known = [*FIELDS, *(name for name, column in corpus.columns.items() if column.ndim == 1)]
    raise MeasureError(f"examples cannot be grouped by {field!r}. {did_you_mean(field, known)}")


def _plain(values: npt.NDArray[Any]) -> Groups:
    kinds, numbers = np.unique(values, return_inverse=True)
    return tuple(str(kind) for kind in kinds.tolist()), numbers.astype(np.int64)


def _bucketed(amounts: Ints, bounds: Sequence[int]) -> Groups:
    names = [f"<{bounds[0]}"]
    for low, high in pairwise(bounds):
        names.append(str(low) if high == low + 1 else f"{low}-{high - 1}")
    names.append(f"{bounds[-1]}+")
    used, numbers = np.unique(np.searchsorted(np.asarray(bounds), amounts, side="right"), return_inverse=True)
    return tuple(names[bucket] for bucket in used.tolist()), numbers.astype(np.int64)


def _depths(amounts: Ints) -> Groups:
    return _bucketed(amounts, DEPTHS) if len(np.unique(amounts)) > MANY else _plain(np.asarray(amounts))


def _operators(corpus: Corpus, question: int | None = None) -> Groups:
    """The names at the roots; a tree of one token has no operator."""
    forest = corpus.forest
    names = np.array([*forest.names, "one token"], object)
    symbols = np.where(forest.leaf[forest.root] & (forest.links[forest.root] == 0), len(forest.names),
                       forest.symbol[forest.root])  # fmt: skip
    return _joined(_of_question(names[symbols].reshape(len(corpus), corpus.width), question))


def _arities(corpus: Corpus, question: int | None = None) -> Groups:
    arity = _of_question(corpus.forest.arity[corpus.forest.root].reshape(len(corpus), corpus.width), question)
    return _plain(arity[:, 0]) if arity.shape[1] == 1 else _joined(arity.astype(str).astype(object))


def _of_question(trees: npt.NDArray[Any], question: int | None) -> npt.NDArray[Any]:
    return trees if question is None else trees[:, [question]]


def _joined(names: npt.NDArray[Any]) -> Groups:
    return _plain(np.array([" and ".join(row) for row in names.tolist()], str))


def _derivations(corpus: Corpus) -> Groups:
    """Trees that differ only in their leaves form a group, named by a hash of operators and arities."""
    forest = corpus.forest
    names = np.where(forest.leaf, -1, forest.symbol)
    kinds, numbers = np.unique(np.column_stack([names, forest.arity]), axis=0, return_inverse=True)
    words = tuple("leaf" if arity == 0 else f"{arity} {forest.names[name]}" for name, arity in kinds.tolist())
    keys = content_keys(numbers.ravel(), forest.start[:: corpus.width], words)
    return _plain(np.array([f"{key:016x}" for key in keys.tolist()]))


def _answers(corpus: Corpus) -> Groups:
    names = np.array([*labels_of(corpus.outcomes), "unknown"], object)
    return _joined(names[corpus.targets])


FIELDS: dict[str, Callable[[Corpus], Groups]] = {
    "length": lambda corpus: _bucketed(corpus.lengths, LENGTHS),
    "nesting": lambda corpus: _depths(corpus.nesting),
    "dependency": lambda corpus: _depths(corpus.dependency),
    "chain": lambda corpus: _depths(corpus.dependency),
    "operator": _operators,
    "arity": _arities,
    "derivation": _derivations,
    "answer": _answers,
}

TREE_FIELDS: dict[str, Callable[[Corpus, int], Groups]] = {
    "nesting": lambda corpus, question: _depths(corpus.tree_nesting[:, question]),
    "dependency": lambda corpus, question: _depths(corpus.tree_dependency[:, question]),
    "chain": lambda corpus, question: _depths(corpus.tree_dependency[:, question]),
    "operator": _operators,
    "arity": _arities,
}
