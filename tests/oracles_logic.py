"""Slow twins of `fair_nli.logic`: explicit sets, explicit models, nothing shared with the code under test but names.

A cell set is a set of pairs (in premise?, in hypothesis?). A model of a quantified sentence is a list of entities, and
a sentence is evaluated by reading its definition.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

Cell = tuple[bool, bool]

CELLS: dict[str, frozenset[Cell]] = {
    "≡": frozenset({(True, True), (False, False)}),
    "⊏": frozenset({(True, True), (False, True), (False, False)}),
    "⊐": frozenset({(True, True), (True, False), (False, False)}),
    "^": frozenset({(True, False), (False, True)}),
    "|": frozenset({(True, False), (False, True), (False, False)}),
    "⌣": frozenset({(True, True), (True, False), (False, True)}),
    "#": frozenset(product((True, False), repeat=2)),
}
SYMBOL = {cells: symbol for symbol, cells in CELLS.items()}


def quantify(word: str, members: Iterable[tuple[bool, bool]]) -> bool:
    """Truth of `word A B` when the entities are the given (in A, in B)."""
    members = list(members)
    some = any(a and b for a, b in members)
    every = all(b for a, b in members if a)
    return {"some": some, "no": not some, "every": every, "notevery": not every}[word]


def quantifier_relation(
    premise: str, hypothesis: str, restrictor: str, scope: str, *, size: int = 2, proper: bool = False
) -> str:
    """Relation of Q(A, B) to Q'(A', B'), over every list of 1 .. size entities.

    `proper` demands besides that restrictors are not universal and scopes neither empty nor universal.
    """
    seen: set[Cell] = set()
    kinds = [(a, b) for a in CELLS[restrictor] for b in CELLS[scope]]
    for count in range(1, size + 1):
        for model in product(kinds, repeat=count):
            columns = [[entity[which][side] for entity in model] for which in (0, 1) for side in (0, 1)]
            a, a2, b, b2 = columns
            if not (any(a) and any(a2)):
                continue
            if proper and (all(a) or all(a2) or all(b) or all(b2) or not any(b) or not any(b2)):
                continue
            seen.add((quantify(premise, zip(a, b, strict=True)), quantify(hypothesis, zip(a2, b2, strict=True))))
    return SYMBOL[frozenset(seen)]


def sentence_relation(
    subject: tuple[str, str],
    negated: tuple[bool, bool],
    obj: tuple[str, str],
    subject_phrase: str,
    verb_phrase: str,
    object_phrase: str,
    *,
    objects: int = 3,
) -> str:
    """Root relation of a sentence pair by brute force over models with 2 subjects and 1 .. `objects` objects.

    Given the objects, the row of verb-phrase cells of each subject entity is free, so each subject takes any pair of
    inner truth values that some row reaches; then all choices for two subjects are tried.
    """
    seen: set[Cell] = set()
    for count in range(1, objects + 1):
        for things in product(CELLS[object_phrase], repeat=count):
            if not (any(p for p, _ in things) and any(h for _, h in things)):
                continue
            inner: set[Cell] = set()
            for row in product(CELLS[verb_phrase], repeat=count):
                p = quantify(obj[0], [(o[0], r[0]) for o, r in zip(things, row, strict=True)]) != negated[0]
                h = quantify(obj[1], [(o[1], r[1]) for o, r in zip(things, row, strict=True)]) != negated[1]
                inner.add((p, h))
            kinds = list(product(CELLS[subject_phrase], inner))
            for people in product(kinds, repeat=2):
                if not (any(s[0] for s, _ in people) and any(s[1] for s, _ in people)):
                    continue
                seen.add(
                    (
                        quantify(subject[0], [(s[0], i[0]) for s, i in people]),
                        quantify(subject[1], [(s[1], i[1]) for s, i in people]),
                    )
                )
    return SYMBOL[frozenset(seen)]


class TableLearner:
    """Algorithms 1 and 2 of the paper on the aligned tree, one dictionary a node, one example at a time.

    `nodes` are (name, children) in post-order; an example is a dictionary with a value for every leaf and node.
    """

    def __init__(self, nodes: list[tuple[str, tuple[str, ...]]]) -> None:
        self.nodes = nodes
        self.functions: dict[str, dict[tuple[int, ...], int]] = {name: {} for name, _ in nodes}

    def learn(self, example: dict[str, int]) -> None:
        for name, children in self.nodes:
            key = tuple(example[child] for child in children)
            assert self.functions[name].setdefault(key, example[name]) == example[name], "conflicting labels"

    def predict(self, leaves: dict[str, int]) -> int | None:
        """The root's value, or None where some function was never shown its input."""
        values: dict[str, int | None] = dict(leaves)
        for name, children in self.nodes:
            values[name] = self.functions[name].get(tuple(values[child] for child in children))  # type: ignore[arg-type]
        return values[self.nodes[-1][0]]
