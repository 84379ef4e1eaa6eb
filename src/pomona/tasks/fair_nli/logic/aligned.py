"""Premise and hypothesis as one aligned tree (Figure 3 of Geiger et al. 2019), for many pairs at once.

    corpus = aligned(tokens, vocabulary)       # [n, 18] token numbers -> a Corpus of trees with 33 nodes each
    corpus[0].values                           # relations and signatures of the 15 inner nodes; leaves are words
    figure_4(corpus)                           # [n, 12]: the paper's predictions, the last one the label
    codes_of(corpus)                           # [n]: encodings, from the words at the leaves

All trees have the same shape, so every array of the corpus repeats a template with the words filled in. A leaf has its
word as type and no value. The value of an inner node is a relation (≡ ⊏ ⊐ ^ | ⌣ #), or a pair of quantifiers or of
negations, which names a joint projectivity signature. The target is the label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.errors import FairnessError, FormatError
from pomona.data.corpus import Corpus
from pomona.tasks.fair_nli.logic.fragment import (
    LEAVES,
    NODE,
    NODES,
    PLACES,
    TARGETS,
    Codes,
    encode,
    labels,
    node_values,
)
from pomona.tasks.fair_nli.logic.projectivity import QUANTIFIERS
from pomona.tasks.fair_nli.logic.relations import Label, Relation
from pomona.tasks.fair_nli.logic.sentences import ADJECTIVES, EMPTY, NOT, STEMS, Pair, Sentence
from pomona.trees.forest import Forest

NEGATIONS: Final = ("ε/ε", "ε/not", "not/ε", "not/not")
OUTCOMES: Final = (
    *(relation.symbol for relation in Relation),
    *(label.text for label in Label),
    *(f"{premise}/{hypothesis}" for premise in QUANTIFIERS for hypothesis in QUANTIFIERS),
    *NEGATIONS,
)
"""All values of nodes and targets; a relation's position is its number."""

LEXICAL: Final = ("PROJ_AdjS", "REL_NS", "PROJ_Adv", "REL_V", "PROJ_AdjO", "REL_NO")
"""The nodes that compare two words; the paper takes them as known."""

_FIRST_LABEL = len(Relation)
_OFFSET = np.zeros(len(NODES), np.int16)
_OFFSET[[NODE["PROJ_QS"], NODE["PROJ_QO"]]] = OUTCOMES.index("every/every")
_OFFSET[NODE["PROJ_Neg"]] = OUTCOMES.index(NEGATIONS[0])
_OPEN = [place for place, name in enumerate(PLACES) if name in STEMS]


@cache
def generated_vocabulary(words: int) -> tuple[str, ...]:
    """Function words, then `words` words for each open class."""
    return (*QUANTIFIERS, EMPTY, NOT, *(f"{stem}{n + 1}" for stem in STEMS.values() for n in range(words)))


def generated_tokens(words: Ints, vocabulary: int) -> npt.NDArray[np.uint16]:
    """[n, 18] word numbers (see `fragment.encode`) -> token numbers in `generated_vocabulary(vocabulary)`."""
    tokens = np.asarray(words).astype(np.uint16)
    empty = generated_vocabulary(vocabulary).index(EMPTY)
    for column in range(18):
        place = PLACES[column % 9]
        if place == "Neg":
            tokens[:, column] += empty  # doesnot follows emptystring
        elif place in STEMS:
            base = empty + 1 + vocabulary * list(STEMS).index(place)
            tokens[:, column] = np.where(tokens[:, column], tokens[:, column] + base, empty)
    return tokens


@cache
def _template() -> tuple[tuple[str, ...], npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Names and parents of the 33 nodes in post-order; which are the leaves (by column of words) and inner nodes."""
    inner = {node.name: node for node in NODES}
    names: list[str] = []
    parent: dict[str, str] = {}
    waiting = [(NODES[-1].name, False)]
    while waiting:
        name, opened = waiting.pop()
        if name in inner and not opened:
            waiting.append((name, True))
            waiting.extend((child, False) for child in reversed(inner[name].children))
            parent.update((child, name) for child in inner[name].children)
        else:
            names.append(name)
    up = np.array([names.index(parent[name]) if name in parent else -1 for name in names], np.int32)
    column = dict(LEAVES)
    leaves = sorted((column[name], node) for node, name in enumerate(names) if name in column)
    inner_nodes = [names.index(node.name) for node in NODES]
    return tuple(names), up, np.array([node for _, node in leaves]), np.array(inner_nodes)


def aligned(
    tokens: Ints, vocabulary: Sequence[str], codes: Codes | None = None, *, given: Ints | None = None
) -> Corpus:
    """A corpus of pairs from [n, 18] token numbers; `codes` are computed if absent, `given` labels are kept."""
    names, parent, leaves, inner = _template()
    symbols = (*(node.name for node in NODES), *vocabulary)
    if len(set(symbols)) < len(symbols):
        twice = next(word for word in vocabulary if word in NODE)
        raise FormatError(f"{twice!r} is the name of a node and cannot be a word")
    rows, size = len(tokens), len(names)
    symbol = np.empty((rows, size), np.int16)
    symbol[:, leaves] = np.asarray(tokens) + len(NODES)
    symbol[:, inner] = np.arange(len(NODES))
    start = np.arange(rows + 1, dtype=np.int64)
    forest = Forest(symbol.ravel(), np.tile(parent, rows), start * size, symbols)
    if codes is None:
        codes = codes_of_forest(forest)
    values = np.full((rows, size), -1, np.int16)
    values[:, inner] = node_values(codes) + _OFFSET
    targets = labels(codes) if given is None else given
    return Corpus(
        np.ascontiguousarray(tokens).ravel(),
        start * 18,
        tuple(vocabulary),
        forest,
        values.ravel(),
        OUTCOMES,
        (np.asarray(targets, np.int16) + _FIRST_LABEL)[:, None],
    )


def figure_4(corpus: Corpus) -> npt.NDArray[np.int16]:
    """[n, 12]: the predictions of Figure 4, as positions in `corpus.outcomes`: eleven relations, then the label."""
    names, _, _, inner = _template()
    check_shape(corpus.forest)
    values = corpus.values.reshape(len(corpus), len(names))
    picked = values[:, inner[[NODE[name] for name in TARGETS]]]
    picked[:, -1] = corpus.targets[:, 0]
    return picked


def answered(corpus: Corpus, given: Ints) -> Corpus:
    """The same pairs with these answers to the first eleven predictions of Figure 4: [n, 11] relations, -1 for ours."""
    names, _, _, inner = _template()
    values = corpus.values.reshape(len(corpus), len(names)).copy()
    asked = inner[[NODE[name] for name in TARGETS[:-1]]]
    values[:, asked] = np.where(given >= 0, given, values[:, asked])
    return replace(corpus, values=values.ravel())


def is_aligned(forest: Forest) -> bool:
    """Whether every tree is the aligned tree of a pair of sentences."""
    names, parent, _, inner = _template()
    rows = len(forest)
    if len(forest.parent) != rows * len(names) or not (np.diff(forest.start) == len(names)).all():
        return False
    table = {name: symbol for symbol, name in enumerate(forest.names)}
    symbol = forest.symbol.reshape(rows, len(names))
    expected = np.array([table.get(node.name, -1) for node in NODES])
    same_shape = (forest.parent.reshape(rows, len(names)) == parent).all()
    return bool(same_shape and (symbol[:, inner] == expected).all())


def check_shape(forest: Forest) -> None:
    """Raise an error if a tree is not the aligned tree."""
    if not is_aligned(forest):
        names = _template()[0]
        raise FairnessError(
            f"these are not aligned trees of sentence pairs: each has {len(names)} nodes, {len(NODES)} of them "
            f"inner ones called {', '.join(node.name for node in NODES)}"
        )


def codes_of(corpus: Corpus) -> Codes:
    """[n]: the encoding of each pair, from its words alone."""
    check_shape(corpus.forest)
    return codes_of_forest(corpus.forest)


def codes_of_forest(forest: Forest) -> Codes:
    """The same for trees known to be aligned ones."""
    names, _, leaves, _ = _template()
    symbol = forest.symbol.reshape(len(forest), len(names))[:, leaves].astype(np.int64)
    table = {name: number for number, name in enumerate(forest.names)}
    empty = table.get(EMPTY, -1)
    words = np.where(symbol == empty, 0, symbol + 1)
    for column in (0, 6, 9, 15):
        words[:, column] = _looked_up(forest, symbol[:, column], dict(zip(QUANTIFIERS, range(4), strict=True)), column)
    for column in (3, 12):
        words[:, column] = _looked_up(forest, symbol[:, column], {EMPTY: 0, NOT: 1}, column)
    for column in (2, 5, 8, 11, 14, 17):
        if (symbol[:, column] == empty).any():
            row = int(np.argmax(symbol[:, column] == empty))
            raise FormatError(f"pair {row}: {PLACES[column % 9]} is empty; only modifiers and negation may be")
    _check_places(forest, symbol)
    return encode(words)


def _looked_up(forest: Forest, symbol: Ints, numbers: dict[str, int], column: int) -> Ints:
    table = np.array([numbers.get(name, -1) for name in forest.names])
    words = table[symbol]
    if (words < 0).any():
        row = int(np.argmin(words))
        word, side = forest.names[symbol[row]], "hypothesis" if column >= 9 else "premise"
        raise FormatError(
            f"pair {row}: {word!r} cannot stand as {PLACES[column % 9]} of the {side}; allowed: {', '.join(numbers)}"
        )
    return words


def _check_places(forest: Forest, symbol: Ints) -> None:
    """In one pair, an open-class word keeps its place (see `sentences`); an adjective may stand in both its places."""
    used = [np.unique(symbol[:, [place, place + 9]]) for place in _OPEN]
    for number, first in enumerate(_OPEN):
        for earlier in range(number):
            second = _OPEN[earlier]
            if {first, second} == ADJECTIVES:
                continue
            shared = np.intersect1d(used[number], used[earlier])
            shared = shared[[forest.names[word] != EMPTY for word in shared.tolist()]]
            if not len(shared):
                continue
            for left in (first, first + 9):
                for right in (second, second + 9):
                    same = (symbol[:, left] == symbol[:, right]) & np.isin(symbol[:, left], shared)
                    if same.any():
                        row = int(np.argmax(same))
                        raise FormatError(
                            f"pair {row}: {forest.names[symbol[row, left]]!r} stands both as {PLACES[second]} and as "
                            f"{PLACES[first]}; in this fragment a word keeps its place. Rename one."
                        )


def sentences(corpus: Corpus, row: int) -> Pair:
    """Premise and hypothesis of a row."""
    tokens = corpus.tokens[corpus.token_start[row] : corpus.token_start[row + 1]].tolist()
    words = [corpus.vocabulary[token] for token in tokens]
    return Sentence.parse(" ".join(words[:9])), Sentence.parse(" ".join(words[9:]))
