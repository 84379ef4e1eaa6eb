"""Forests: what is cut, gathered and put together stays the same trees; every derived array equals its slow twin."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from pomona.base.errors import TreeError
from pomona.trees import brackets
from pomona.trees.binary import binarise
from pomona.trees.forest import Forest, gather
from strategies import groves, word_trees


@given(groves)
def test_nested_tuples_come_back(trees: list[Any]) -> None:
    forest = Forest.from_nested(trees).checked()
    assert forest.nested() == trees
    assert Forest.from_nested(forest.nested()) == forest


@given(groves)
def test_derived_arrays_equal_their_slow_twins(trees: list[Any]) -> None:
    forest = Forest.from_nested(trees)
    nodes = [node for tree in trees for node in oracles.subtrees(tree)]
    assert [forest.names[symbol] for symbol in forest.symbol] == [n if isinstance(n, str) else n[0] for n in nodes]
    assert forest.parent.tolist() == [up for tree in trees for up in oracles.parents(tree)]
    assert forest.start.tolist() == [0, *np.cumsum([oracles.size(tree) for tree in trees]).tolist()]
    assert forest.tree.tolist() == [number for number, tree in enumerate(trees) for _ in oracles.subtrees(tree)]
    assert [nodes[root] for root in forest.root] == trees
    assert forest.arity.tolist() == [len(oracles.children(node)) for node in nodes]
    assert forest.leaf.tolist() == [isinstance(node, str) for node in nodes]
    assert forest.size.tolist() == [oracles.size(node) for node in nodes]
    assert forest.height.tolist() == [oracles.height(node) for node in nodes]
    assert forest.depth.tolist() == [depth for tree in trees for depth in oracles.depths(tree)]
    low, high = forest.span
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == [s for tree in trees for s in oracles.spans(tree)]
    offsets, children = forest.children
    for node, subtree in enumerate(nodes):
        below = children[offsets[node] : offsets[node + 1]]
        assert tuple(nodes[child] for child in below) == oracles.children(subtree)


@given(groves)
def test_levels_are_a_schedule(trees: list[Any]) -> None:
    forest = Forest.from_nested(trees)
    offsets, order = forest.levels
    assert sorted(order.tolist()) == list(range(len(forest.symbol)))
    assert offsets[0] == 0
    assert offsets[-1] == len(forest.symbol)
    when = np.empty(len(forest.symbol), int)
    for level in range(len(offsets) - 1):
        assert offsets[level] < offsets[level + 1], "an empty level is a wasted step"
        when[order[offsets[level] : offsets[level + 1]]] = level
    kids, children = forest.children
    for node in range(len(forest.symbol)):
        below = when[children[kids[node] : kids[node + 1]]]
        assert when[node] == max(below, default=-1) + 1


@given(groves, st.data())
def test_slices_and_gathers_are_those_of_a_list(trees: list[Any], data: st.DataObject) -> None:
    forest = Forest.from_nested(trees)
    part = data.draw(st.slices(len(trees)))
    assert forest[part].checked().nested() == trees[part]
    assert [tree.nested()[0] for tree in forest] == trees
    mask = data.draw(st.lists(st.booleans(), min_size=len(trees), max_size=len(trees)))
    assert forest[np.array(mask, bool)].nested() == [tree for tree, kept in zip(trees, mask, strict=True) if kept]
    if trees:
        rows = data.draw(st.lists(st.integers(-len(trees), len(trees) - 1)))
        assert forest[rows].checked().nested() == [trees[row] for row in rows]
        row = data.draw(st.integers(-len(trees), len(trees) - 1))
        assert forest[row].nested() == [trees[row]]


@settings(max_examples=40)
@given(st.lists(groves, max_size=3))
def test_concatenation_is_that_of_lists(several: list[list[Any]]) -> None:
    together = Forest.concatenate([Forest.from_nested(trees) for trees in several]).checked()
    assert together.nested() == [tree for trees in several for tree in trees]


def test_equality_ignores_the_table_of_names_and_nothing_else() -> None:
    forest = Forest.from_nested([("A", "b", "c"), "b"])
    assert forest == Forest.from_nested([("A", "b", "c"), "b"], names=["z", "c", "b", "A"])
    assert forest != Forest.from_nested([("A", "b", "b"), "b"])
    assert forest != Forest.from_nested([("A", ("b", "c")), "b"])
    assert forest != Forest.from_nested(["b", ("A", "b", "c")])
    assert forest != Forest(forest.symbol, forest.parent, forest.start, forest.names, np.array([0, 1, 0, 0], np.int32))
    assert (forest == "forest") is False


def test_another_table_of_names() -> None:
    forest = Forest.from_nested([("A", "b")], names=["unused", "A", "b"])
    assert forest.renamed(("b", "A")).nested() == [("A", "b")]
    with pytest.raises(TreeError, match=r"^the table of names lacks 'b', which occurs in the trees$"):
        forest.renamed(("A", "c"))
    with pytest.raises(TreeError, match=r"^the table of names has 'A' twice$"):
        Forest.from_nested([("A", "b")], names=["A", "A", "b"])


def test_a_hundred_thousand_deep() -> None:
    tree: Any = "0"
    for _ in range(100_000):
        tree = ("A", tree)
    forest = Forest.from_nested([tree, "1"]).checked()
    assert int(forest.height.max()) == int(forest.depth.max()) == 100_000
    again = Forest.from_nested(forest.nested())
    assert again == forest
    offsets, _ = forest.levels
    assert len(offsets) == 100_002


def test_any_number_of_names() -> None:
    """Beyond 16 bits symbols are wider; nothing else changes."""
    nested = [("F", str(number), str(number + 1)) for number in range(0, 45_000, 2)]
    forest = Forest.from_nested(nested).checked()
    assert forest.symbol.dtype == np.int32
    assert forest.nested() == nested
    assert forest.renamed(tuple(reversed(forest.names))) == forest
    assert Forest.concatenate([Forest.from_nested(nested[:9]), Forest.from_nested(nested[9:])]) == forest
    assert brackets.read(brackets.write(forest)) == forest
    binary = binarise(forest)
    assert binary.nested()[-1] == ("", ("", ("", "[F", "44998"), "44999"), "]")
    assert Forest.from_nested(nested[:9]).symbol.dtype == np.int16


def test_things_that_are_no_trees() -> None:
    for thing in ((), 7, ("A", 7), (("A", "b"), "c"), ["A"]):
        with pytest.raises(TreeError, match=r"^a tree is a string or a tuple \(symbol, child, ...\); got "):
            Forest.from_nested([thing])  # type: ignore[list-item]
    deep: Any = "0"
    for _ in range(10_000):
        deep = (deep,)
    with pytest.raises(TreeError, match="got "):
        Forest.from_nested([deep])


@given(st.lists(word_trees, min_size=1, max_size=3), st.data())
def test_checked_finds_every_corrupted_parent(trees: list[Any], data: st.DataObject) -> None:
    forest = Forest.from_nested(trees)
    node = data.draw(st.integers(0, len(forest.symbol) - 1))
    parent = forest.parent.copy()
    parent[node] = data.draw(st.integers(-3, len(parent) + 2))
    damaged = Forest(forest.symbol, parent, forest.start, forest.names)
    if oracles.is_forest(parent.tolist(), forest.start.tolist()):
        damaged.checked()
    else:
        with pytest.raises(TreeError, match=r"^tree \d+, node \d+: symbol, parent or link is out of place"):
            damaged.checked()


def test_checked_names_the_node_that_crosses() -> None:
    # Nodes 0 and 1 wait for 3 and 2; node 1 covers 0, so 0 -> 2 and 1 -> 3 would cross.
    crossing = Forest(np.zeros(4, np.int16), np.array([2, 3, 3, -1], np.int32), np.array([0, 4]), ("x",))
    with pytest.raises(TreeError, match=r"^tree 0, node 1: "):
        crossing.checked()


def test_checked_finds_every_other_corrupted_array() -> None:
    good = Forest.from_nested([("A", "b", "c"), ("A", "b", ("B", "c"))])
    symbol, parent, start, names = good.symbol, good.parent, good.start, good.names
    no_link = np.zeros(7, np.int32)

    def changed(array: Any, place: int, value: int) -> Any:
        copy = array.copy()
        copy[place] = value
        return copy

    broken = {
        "node 4: symbol": Forest(changed(symbol, 4, 9), parent, start, names),
        "node 0: symbol": Forest(changed(symbol, 0, -1), parent, start, names),
        "tree 1, node 0: symbol, parent or link": Forest(symbol, parent, start, names, changed(no_link, 3, 4)),
        "tree 0, node 2: symbol, parent or link": Forest(symbol, parent, start, names, changed(no_link, 2, -1)),
        "7 symbols and 6 parents": Forest(symbol, parent[:-1], start, names),
        "6 symbols and 7 parents": Forest(symbol[:-1], parent, start, names),
        "7 symbols and 7 parents needs": Forest(symbol, parent, np.array([0, 3]), names),
        "start begins with 0": Forest(symbol, parent, np.array([1, 3, 7]), names),
        "every tree has at least one node": Forest(symbol, parent, np.array([0, 3, 3, 7]), names),
        "every tree has at least": Forest(symbol, parent, np.array([0, 8, 7]), names),
        "0 symbols and 0 parents": Forest(symbol[:0], parent[:0], np.zeros(0, np.int64), names),
        "7 symbols has 6 links": Forest(symbol, parent, start, names, no_link[:-1]),
        "has 'A' twice": Forest(symbol, parent, start, ("A", "b", "c", "A")),
    }
    good.checked()
    Forest(symbol, parent, start, names, changed(no_link, 3, 3)).checked()
    for message, forest in broken.items():
        with pytest.raises(TreeError) as caught:
            forest.checked()
        if "node 4" in message or message == "node 0: symbol":
            assert "symbol, parent or link is out of place" in str(caught.value)
        else:
            assert message in str(caught.value)


def quoting() -> Forest:
    """Two examples of two trees: the second tree of each quotes the root of the first."""
    forest = Forest.from_nested([("A", "b", "c"), ("B", "COPY", "c"), ("A", "c", "c"), ("B", "c", "COPY")])
    link = np.zeros(12, np.int32)
    link[3], link[10] = 1, 2
    return Forest(forest.symbol, forest.parent, forest.start, forest.names, link).checked()


def test_links_stay_with_their_trees() -> None:
    forest = quoting()
    assert forest[2:].links.tolist() == [0, 0, 0, 0, 2, 0]
    assert forest[[2, 3, 0, 1]].links.tolist() == [0, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0, 0]
    assert Forest.concatenate([forest[2:], Forest.from_nested(["c"]), forest[:2]]).links.tolist()[-3:] == [1, 0, 0]
    assert forest[[0, 2]].links.tolist() == [0] * 6


@pytest.mark.parametrize("rows", [slice(1, 3), [3], [3, 2], [0, 2, 1], [2, 1]])
def test_a_cut_that_loses_a_quoted_node_is_an_error(rows: Any) -> None:
    with pytest.raises(TreeError, match=r"^tree [13] quotes a node of tree [02], which is not selected at"):
        quoting()[rows]


def test_rows_outside_are_index_errors() -> None:
    forest = Forest.from_nested(["a", "b"])
    with pytest.raises(IndexError, match=r"^tree 2 of a forest of 2$"):
        forest[2]
    with pytest.raises(IndexError, match=r"^row -3 of 2$"):
        forest[[0, -3]]
    with pytest.raises(IndexError, match=r"^a mask of shape \(3,\) for a forest of 2$"):
        forest[np.array([True, False, True])]
    assert len(forest[5:]) == 0


@given(st.lists(st.integers(0, 4), min_size=1), st.data())
def test_gather_is_list_indexing(lengths: list[int], data: st.DataObject) -> None:
    start = np.concatenate([[0], np.cumsum(lengths)])
    pieces = [list(range(low, high)) for low, high in itertools.pairwise(start)]
    rows = data.draw(st.lists(st.integers(-len(lengths), len(lengths) - 1)))
    offsets, positions = gather(start, np.array(rows, np.int64))
    assert [positions[low:high].tolist() for low, high in itertools.pairwise(offsets)] == [pieces[row] for row in rows]
