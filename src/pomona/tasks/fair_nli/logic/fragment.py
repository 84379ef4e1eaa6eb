"""The fragment of fair NLI: sentences Q Adj N Neg Adv V Q Adj N, their encoding, and their exact labels in bulk.

    codes = encode(words)             [n, 18] word numbers -> [n] encodings, one of 524,288 each
    labels(codes), roots(codes)       entailment / neutral / contradiction; the root relation
    node_values(codes)                [n, 15], every inner node of the aligned composition tree (Figure 3 of the paper)

Section 4.2 of Geiger et al. 2019: different open-class words in the same place are independent. So twelve small
integers say all that matters about a pair: negation and both quantifiers of the two sentences, how the modifiers of
each phrase compare, and whether its heads are equal. They are the encoding of the pair. Two phrases are in one of four
relations, which leaves 4^4 quantifiers x 2^2 negations x 4^3 phrase relations = 65,536 relational classes. The tree
composes them with the tables of `projectivity`, and an array of 65,536 bytes holds the result for every class.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Ints
from pomona.base.errors import SpecError
from pomona.tasks.fair_nli.logic.projectivity import (
    MODIFIER_PATTERNS,
    modifier_tables,
    negation_tables,
    quantifier_tables,
)
from pomona.tasks.fair_nli.logic.relations import Relation, RelationTable, frozen
from pomona.tasks.fair_nli.logic.relations import labels as relation_labels

Codes = npt.NDArray[np.int32]

PLACES: Final = ("QS", "AdjS", "NS", "Neg", "Adv", "V", "QO", "AdjO", "NO")
"""The nine places of a sentence. A row of words is the premise's nine, then the hypothesis' nine."""

FIELDS: Final = (
    ("neg_premise", 2),
    ("subject_quantifier_premise", 4),
    ("object_quantifier_premise", 4),
    ("neg_hypothesis", 2),
    ("subject_quantifier_hypothesis", 4),
    ("object_quantifier_hypothesis", 4),
    ("subject_modifier", 4),
    ("object_modifier", 4),
    ("verb_modifier", 4),
    ("subject_equal", 2),
    ("verb_equal", 2),
    ("object_equal", 2),
)
"""The twelve integers of an encoding with their sizes; packed into one number, the first is the most significant."""

ENCODINGS: Final = 2**19
CLASSES: Final = 2**16

SAME, ONLY_HYPOTHESIS, ONLY_PREMISE, DIFFERENT = range(4)
"""Modifier codes: equal words (both may be missing), ε/w, w/ε, two different words."""

_SHIFT: Final = (18, 16, 14, 13, 11, 9, 7, 5, 3, 2, 1, 0)
_SIZE: Final = np.array([size for _, size in FIELDS])


@dataclass(frozen=True)
class Phrase:
    """The position of a phrase: the column of its modifier (its head follows), and its bits in an encoding.

    `how` and `equal` are shifts in an encoding (modifier code, equality of the heads), `place` is one in a class.
    """

    name: str
    modifier: int
    how: int
    equal: int
    place: int
    nodes: tuple[str, str, str]


PHRASES: Final = (
    Phrase("subject", modifier=1, how=7, equal=2, place=4, nodes=("PROJ_AdjS", "REL_NS", "NP_S")),
    Phrase("object", modifier=7, how=5, equal=0, place=2, nodes=("PROJ_AdjO", "REL_NO", "NP_O")),
    Phrase("verb", modifier=4, how=3, equal=1, place=0, nodes=("PROJ_Adv", "REL_V", "VP")),
)


@dataclass(frozen=True)
class Node:
    """An inner node of the aligned tree; a child is a node's name or a leaf such as 'AdjS_P'."""

    name: str
    children: tuple[str, ...]
    kind: str


NODES: Final = (
    Node("PROJ_QS", ("QS_P", "QS_H"), "PROJ"),
    Node("PROJ_AdjS", ("AdjS_P", "AdjS_H"), "PROJ"),
    Node("REL_NS", ("NS_P", "NS_H"), "REL"),
    Node("NP_S", ("PROJ_AdjS", "REL_NS"), "COMP"),
    Node("PROJ_Neg", ("Neg_P", "Neg_H"), "PROJ"),
    Node("PROJ_QO", ("QO_P", "QO_H"), "PROJ"),
    Node("PROJ_Adv", ("Adv_P", "Adv_H"), "PROJ"),
    Node("REL_V", ("V_P", "V_H"), "REL"),
    Node("VP", ("PROJ_Adv", "REL_V"), "COMP"),
    Node("PROJ_AdjO", ("AdjO_P", "AdjO_H"), "PROJ"),
    Node("REL_NO", ("NO_P", "NO_H"), "REL"),
    Node("NP_O", ("PROJ_AdjO", "REL_NO"), "COMP"),
    Node("OBJ", ("PROJ_QO", "VP", "NP_O"), "COMP"),
    Node("NEGVP", ("PROJ_Neg", "OBJ"), "COMP"),
    Node("ROOT", ("PROJ_QS", "NP_S", "NEGVP"), "COMP"),
)
"""The 15 inner nodes in post-order; column k of `node_values` belongs to NODES[k]."""

NODE: Final = {node.name: column for column, node in enumerate(NODES)}

LEAVES: Final = tuple(
    (f"{place}_{side}", PLACES.index(place) + 9 * (side == "H"))
    for place in ("QS", "AdjS", "NS", "Neg", "QO", "Adv", "V", "AdjO", "NO")
    for side in "PH"
)
"""The 18 leaves from left to right with their columns in a row of words; the tree takes QO before Adv and V."""

_WORD_TARGETS: Final = ("PROJ_AdjS", "REL_NS", "PROJ_Adv", "REL_V", "PROJ_AdjO", "REL_NO")
TARGETS: Final = (*_WORD_TARGETS, "NP_S", "VP", "NP_O", "OBJ", "NEGVP", "ROOT")
"""The 12 predictions of Figure 4; the last is a label, the others are relations."""


def pack(fields: Ints) -> Codes:
    """[n, 12] encodings -> [n] numbers below 524,288."""
    fields = np.asarray(fields)
    if fields.ndim != 2 or fields.shape[1] != len(FIELDS):
        raise SpecError(f"an encoding has {len(FIELDS)} integers; the array given has shape {fields.shape}.")
    wrong = (fields < 0) | (fields >= _SIZE)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        name, size = FIELDS[column]
        raise SpecError(f"row {row}: {name} is {fields[row, column]}; it must be 0 to {size - 1}.")
    codes = np.zeros(len(fields), np.int32)
    for column, shift in enumerate(_SHIFT):
        codes |= fields[:, column].astype(np.int32) << shift
    return codes


def unpack(codes: Ints) -> npt.NDArray[np.int8]:
    """[n] numbers -> [n, 12] encodings; undoes `pack`."""
    codes = _checked(codes, ENCODINGS)
    columns = [codes >> shift & (size - 1) for shift, (_, size) in zip(_SHIFT, FIELDS, strict=True)]
    return np.stack(columns, axis=1).astype(np.int8)


def encode(words: Ints) -> Codes:
    """[n, 18] word numbers -> [n] encodings.

    Quantifiers are numbered as in `QUANTIFIERS`, Neg is 0 or 1, open-class words count from 1, and 0 is the empty
    modifier. The vocabulary may have any size.
    """
    words = np.asarray(words)
    if words.ndim != 2 or words.shape[1] != 18:
        raise SpecError(f"a pair has 18 words (nine a sentence); the array given has shape {words.shape}.")
    if not len(words):
        return np.zeros(0, np.int32)
    least, most = words.min(axis=0), words.max(axis=0)
    for column in range(18):
        place = PLACES[column % 9]
        low, high = (0, 3) if place[0] == "Q" else (0, 1) if place == "Neg" else (int(place in ("NS", "V", "NO")), None)
        if least[column] < low or (high is not None and most[column] > high):
            row = int(np.argmax((words[:, column] < low) | (words[:, column] > (high or most[column]))))
            allowed = f"{low} to {high}" if high is not None else f"{low} or more"
            word = words[row, column]
            raise SpecError(f"row {row}, column {column} ({place}): {word} is not a word; allowed: {allowed}.")
    codes = np.zeros(len(words), np.int32)
    for column, shift in ((3, 18), (0, 16), (6, 14), (12, 13), (9, 11), (15, 9)):
        codes |= words[:, column].astype(np.int32) << shift
    for phrase in PHRASES:
        p, h = words[:, phrase.modifier], words[:, phrase.modifier + 9]
        code = np.where(p == h, SAME, np.where(p == 0, ONLY_HYPOTHESIS, np.where(h == 0, ONLY_PREMISE, DIFFERENT)))
        codes |= code.astype(np.int32) << phrase.how
        codes |= (words[:, phrase.modifier + 1] == words[:, phrase.modifier + 10]).astype(np.int32) << phrase.equal
    return codes


@cache
def phrase_relations() -> RelationTable:
    """[4]: the relation that names each modifier code, and so each of the four relations of a phrase: ≡ ⊐ ⊏ #."""
    return frozen(_phrases()[:, 1].copy())


@cache
def _phrases() -> RelationTable:
    """[4, 2]: relation of a phrase from its modifier code and whether its heads are equal."""
    patterns = [MODIFIER_PATTERNS.index(pattern) for pattern in ("a/a", "ε/a", "a/ε", "a/b")]
    heads = [Relation.IND, Relation.EQ]
    # A pair without modifiers has its own row in the table, but for these two head relations the rows are equal.
    assert (modifier_tables()[0, heads] == modifier_tables()[patterns[0], heads]).all()
    return frozen(modifier_tables()[patterns][:, heads].copy())


def classes(codes: Ints) -> Codes:
    """[n] encodings -> [n] relational classes below 65,536: function words, then subject, object, verb phrase.

    Phrases are numbered like modifier codes (`phrase_relations`); unequal heads make any phrase #, number 3.
    """
    codes = _checked(codes, ENCODINGS)
    relational = codes >> 9 << 6
    for phrase in PHRASES:
        relational |= np.where(codes >> phrase.equal & 1, codes >> phrase.how & 3, DIFFERENT) << phrase.place
    return relational


@cache
def root_table() -> RelationTable:
    """[65536]: the root relation of each relational class."""
    return frozen(_compose(np.arange(CLASSES, dtype=np.int32))[2])


def _compose(relational: Codes) -> tuple[RelationTable, RelationTable, RelationTable]:
    """Relations at OBJ, NEGVP and ROOT for relational classes: one look-up for each node."""
    quantifier, negation = quantifier_tables(), negation_tables()
    subject, obj, verb = (phrase_relations()[relational >> phrase.place & 3] for phrase in PHRASES)
    neg_p, qs_p, qo_p, neg_h, qs_h, qo_h = (
        relational >> shift & mask for shift, mask in ((15, 1), (13, 3), (11, 3), (10, 1), (8, 3), (6, 3))
    )
    at_object = quantifier[qo_p, qo_h, obj, verb]
    at_negation = negation[neg_p, neg_h, at_object]
    return at_object, at_negation, quantifier[qs_p, qs_h, subject, at_negation]


def roots(codes: Ints) -> RelationTable:
    """[n]: the exact `Relation` of premise to hypothesis."""
    return root_table()[classes(codes)]


def labels(codes: Ints) -> RelationTable:
    """[n]: the exact `Label`."""
    return relation_labels()[roots(codes)]


def node_values(codes: Ints) -> RelationTable:
    """[n, 15]: what every inner node evaluates to, in the order of NODES.

    A pair of quantifiers is 4 x premise + hypothesis, a pair of negations 2 x premise + hypothesis; all other values
    are numbers of `Relation`, among them the signatures of modifiers, which are named by relations.
    """
    codes = _checked(codes, ENCODINGS)
    values = np.empty((len(codes), len(NODES)), np.uint8)
    relational = classes(codes)
    values[:, NODE["PROJ_QS"]] = (codes >> 16 & 3) * 4 + (codes >> 11 & 3)
    values[:, NODE["PROJ_QO"]] = (codes >> 14 & 3) * 4 + (codes >> 9 & 3)
    values[:, NODE["PROJ_Neg"]] = (codes >> 18) * 2 + (codes >> 13 & 1)
    for phrase in PHRASES:
        modifier, head, whole = (NODE[name] for name in phrase.nodes)
        values[:, modifier] = phrase_relations()[codes >> phrase.how & 3]
        values[:, head] = np.where(codes >> phrase.equal & 1, Relation.EQ, Relation.IND)
        values[:, whole] = phrase_relations()[relational >> phrase.place & 3]
    values[:, NODE["OBJ"]], values[:, NODE["NEGVP"]], values[:, NODE["ROOT"]] = _compose(relational)
    return values


def targets(values: RelationTable) -> RelationTable:
    """[n, 12]: the predictions of Figure 4 from `node_values`: eleven relations, then the label."""
    picked = values[:, [NODE[name] for name in TARGETS]]
    picked[:, -1] = relation_labels()[picked[:, -1]]
    return picked


def _checked(codes: Ints, limit: int) -> Codes:
    """The codes as 32-bit integers; an error if one is out of range."""
    codes = np.asarray(codes)
    if len(codes) and (codes.min() < 0 or codes.max() >= limit):
        row = int(np.argmax((codes < 0) | (codes >= limit)))
        raise SpecError(f"row {row}: {codes[row]} is not an encoding; it must be 0 to {limit - 1}.")
    return codes.astype(np.int32, copy=False)
