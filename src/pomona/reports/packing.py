"""Pack examples and answers into few bytes: typed columns, compressed, as text inside the page.

    block = pack({"targets": np.array([3, 1], np.uint8)}, rows=2)
    block["arrays"], block["bytes"]         {"targets": ["uint8", 0, 2]}, "H4sIAAAA..."

A block is a JSON object. Words, names and outcomes are lists in it; values of every node or row are columns of the
narrowest integer type, concatenated, gzipped and written in base64. A tree is the number of children of each node in
post-order. `assets/blocks.js` reads a block; `unpack` does the same for the tests.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.data.corpus import Corpus
from pomona.reports.collect import Entry
from pomona.training.predictions import Predictions
from pomona.trees.drawing import shortened, visible

ALIGNED = 8  # typed arrays begin at multiples of their width


def pack(arrays: Mapping[str, npt.NDArray[Any]], **more: Any) -> dict[str, Any]:
    """One block of these columns; the entries of `more` are added unchanged."""
    places: dict[str, list[Any]] = {}
    parts: list[bytes] = []
    at = 0
    for name, array in arrays.items():
        column = narrow(array)
        content = column.astype(column.dtype.newbyteorder("<"), copy=False).tobytes()
        places[name] = [column.dtype.name, at, len(column)]
        content += bytes(-len(content) % ALIGNED)
        parts.append(content)
        at += len(content)
    squeezed = gzip.compress(b"".join(parts), 6, mtime=0)
    return {**more, "arrays": places, "bytes": base64.b64encode(squeezed).decode()}


def unpack(block: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """The columns of a block."""
    content = gzip.decompress(base64.b64decode(block["bytes"]))
    return {
        name: np.frombuffer(content, np.dtype(kind).newbyteorder("<"), count, at)
        for name, (kind, at, count) in block["arrays"].items()
    }


def narrow(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same whole numbers in as few bytes as they need; -1 ("nothing") becomes the largest number of the type.

    >>> narrow(np.array([3, -1, 0])).tolist(), narrow(np.array([300])).dtype.name
    ([3, 255, 0], 'uint16')
    """
    most = int(array.max(initial=0)) + 1  # room for the number that stands for nothing
    kind = np.uint8 if most <= 0xFF else np.uint16 if most <= 0xFFFF else np.uint32
    return np.asarray(array).astype(np.int64).astype(kind)


def corpus_block(corpus: Corpus, rows: int) -> dict[str, Any]:
    """The first rows of a corpus: tokens, trees, the value of every node, target and depths."""
    part = corpus[:rows]
    forest = part.forest
    targets, answers = answered(part.targets, part.outcomes)
    arrays = {
        "tokens": part.tokens,
        "lengths": part.lengths,
        "nodes": np.diff(forest.start),
        "symbols": forest.symbol,
        "arities": forest.arity,
        "values": part.values,
        "targets": targets,
        "nesting": part.nesting,
        "dependency": part.dependency,
    }
    if forest.link is not None:
        arrays["links"] = forest.link
    return pack(
        arrays,
        rows=len(part),
        total=len(corpus),
        width=part.width,
        bracketed=bracketed(part),
        vocabulary=[visible(word) for word in part.vocabulary],
        names=[visible(name) for name in forest.names],
        outcomes=[visible(str(outcome)) for outcome in part.outcomes],
        answers=answers,
        ids=None if part.ids is None else [shortened(name) for name in part.ids],
    )


def bracketed(corpus: Corpus) -> bool:
    """Whether sentences are their trees in brackets, operator first and `]` last: nodes plus one `]` for each list."""
    if corpus.width != 1 or "]" not in corpus.vocabulary:
        return False
    forest = corpus.forest
    inner = np.bincount(forest.tree[~forest.leaf], minlength=len(forest))
    return bool(np.array_equal(np.diff(forest.start) + inner, corpus.lengths))


def answered(places: Ints, outcomes: Sequence[Any]) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Answers as numbers of texts, and the texts; several answers to one example are one text.

    >>> answered(np.array([[0, 1], [1, 1], [0, 1]]), ["a", "b"])
    (array([0, 1, 0]), ['a, b', 'b, b'])
    """
    kinds, numbers = np.unique(places.reshape(len(places), -1), axis=0, return_inverse=True)
    named = [*(visible(str(outcome)) for outcome in outcomes), "unknown"]  # -1 reads the last one
    return numbers.reshape(-1).astype(np.int64), [", ".join(named[number] for number in row) for row in kinds.tolist()]


def answers_block(entry: Entry, name: str, rows: int) -> dict[str, Any]:
    """The first rows of one run: its answers, which of them are right, and its trees if it built any."""
    assert entry.evaluation is not None
    if isinstance(entry.predictions, Predictions):
        numbers, texts = answered(entry.predictions.answers[:rows], entry.predictions.outcomes)
        built = entry.predictions.trees
    else:
        numbers, texts = answered(entry.evaluation.given[:rows], entry.evaluation.corpus.outcomes)
        built = entry.evaluation.answers.trees
    arrays: dict[str, npt.NDArray[Any]] = {
        "answers": numbers,
        "right": entry.evaluation.right[:rows].astype(np.uint8),
    }
    if built is not None:
        trees = built[:rows]
        arrays |= {"nodes": np.diff(trees.start), "arities": trees.arity}
    return pack(arrays, name=visible(name), texts=texts)
