"""The chain of operators that decides an answer: what is counted is what the definition says, found by nudging leaves.

A leaf decides the answer if the answer moves when the leaf is moved by a hair. To nudge a leaf, its digit becomes a
pair of the digit and a hair; pairs are compared digit first, so hairs settle only what digits leave open. MIN, MAX,
MED, FIRST and LAST pass on the hair of what they choose (MED of an even number the mean of two), SM the sum of all.
Where equal digits compete, any of them may be called the one that decides; the chain is that of the choice that needs
the fewest operators. So every order of the hairs is tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import pomona as pm
from pomona.data.corpus import Corpus
from pomona.data.groups import groups_of
from pomona.data.task import TASKS
from pomona.trees.forest import Forest
from strategies import trees

NAMES = ["MIN", "MAX", "MED", "SM", "FIRST", "LAST"]
small_trees = trees(st.sampled_from("0123"), st.sampled_from(NAMES), arity=(1, 4), most=5)
Nudged = tuple[int, Fraction]


def leaf_depths(tree: Any, above: int = 0) -> Iterator[int]:
    """How many operators stand above each leaf, from left to right."""
    if isinstance(tree, str):
        yield above
    else:
        for child in tree[1:]:
            yield from leaf_depths(child, above + 1)


def value(tree: Any, hairs: Iterator[Fraction]) -> Nudged:
    """Digit and hair of a tree, where each leaf takes the next hair."""
    if isinstance(tree, str):
        return int(tree), next(hairs)
    parts = [value(child, hairs) for child in tree[1:]]
    ranked, middle = sorted(parts), len(parts) // 2
    if tree[0] == "SM":
        return sum(digit for digit, _ in parts) % 10, sum((hair for _, hair in parts), Fraction(0))
    if tree[0] == "MED" and len(parts) % 2 == 0:
        (low, first), (high, second) = ranked[middle - 1 : middle + 1]
        return (low + high) // 2, (first + second) / 2
    chosen = {"MIN": ranked[0], "MAX": ranked[-1], "MED": ranked[middle], "FIRST": parts[0], "LAST": parts[-1]}
    return chosen[tree[0]]


def chain(tree: Any) -> int:
    """The fewest operators above the deepest leaf that decides, over all ways to settle ties."""
    depths = list(leaf_depths(tree))
    found = []
    for order in permutations(range(len(depths))):
        hairs = [Fraction(rank) for rank in order]
        before = value(tree, iter(hairs))
        deciding = []
        for leaf, depth in enumerate(depths):
            moved = [hair + Fraction(1, 100) * (number == leaf) for number, hair in enumerate(hairs)]
            if value(tree, iter(moved)) != before:
                deciding.append(depth)
        found.append(max(deciding))
    return min(found)


@given(small_trees)
@settings(max_examples=150, deadline=None)
def test_the_chain_is_the_way_to_the_leaves_whose_nudge_moves_the_answer(tree: Any) -> None:
    corpus = Corpus.of_trees(Forest.from_nested([tree]))
    assert corpus.tree_dependency.tolist() == [[chain(tree)]]
    assert groups_of(corpus, "chain")[0] == (str(chain(tree)),)


def test_examples_that_a_reader_can_follow() -> None:
    for tree, length in (
        (("MAX", "2", "9", ("MIN", "4", "7"), "0"), 1),  # 9 stands in the root's own list
        (("MAX", "2", ("MIN", "4", ("MAX", "3", "5"))), 2),  # 4 is two operators down
        (("SM", "1", ("MAX", "2", ("MIN", "3", "4"))), 3),  # everything decides a sum
        (("FIRST", ("LAST", "1", ("MIN", "5", "6")), "9"), 3),
        (("MAX", ("MIN", "7", "8"), "7"), 1),  # either 7 would do: the shorter chain counts
        ("5", 0),
    ):
        assert chain(tree) == length
        assert Corpus.of_trees(Forest.from_nested([tree])).dependency.tolist() == [length]


def test_a_copy_leads_on_into_the_tree_that_it_quotes() -> None:
    """With FIRST and LAST one leaf decides; the way to it is walked by hand, through every COPY."""
    task = TASKS.build("orchard", {"train": 200, "dev": 10, "test": 10, "iid": 10, "operators": ("FIRST", "LAST")})
    corpus = pm.generate(task, seed=1)
    forest = corpus.forest
    offsets, children = forest.children
    copies = 0
    for row in range(len(corpus)):
        for question in range(corpus.width):
            node, count = int(forest.root[row * corpus.width + question]), 0
            while forest.links[node] or forest.arity[node]:
                if forest.links[node]:
                    node -= int(forest.links[node])
                    copies += 1
                    continue
                inside = children[offsets[node] : offsets[node + 1]]
                node = int(inside[0] if forest.names[forest.symbol[node]] == "FIRST" else inside[-1])
                count += 1
            assert corpus.tree_dependency[row, question] == count
    assert copies > 20
    labels, numbers = groups_of(corpus, "chain", 1)
    assert [labels[number] for number in numbers.tolist()] == list(map(str, corpus.tree_dependency[:, 1].tolist()))
    labels, numbers = groups_of(corpus, "chain")
    assert [labels[number] for number in numbers.tolist()] == list(
        map(str, corpus.tree_dependency.max(axis=1).tolist())
    )
