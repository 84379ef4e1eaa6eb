"""Shortcut ladders: laws by enumeration, recorded constants, ceilings, and the extension point."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import oracles_orchard as oracle
import pomona as pm
from pomona.base.errors import MeasureError
from pomona.data.task import TASKS
from pomona.shortcuts import ladder as shortcuts
from pomona.shortcuts import truncation
from pomona.shortcuts.lessons import Counted, FromCorpus
from pomona.tasks.orchard.task import answered
from pomona.trees.links import copy_arguments
from pomona.trees.operators import OPERATORS

SMALL: dict[str, Any] = {"train": 3000, "dev": 50, "test": 600, "iid": 50}


def orchard(split: str, **settings: Any) -> pm.Corpus:
    return pm.generate(TASKS.build("orchard", {**SMALL, **settings}), split=split, seed=4)


# -- the slow twin: laws by enumerating all combinations of values ----------------------------------------------------

Law = dict[int, float]


def enumerated(operator: str, laws: list[Law]) -> Law:
    found: Law = {}
    for combination in itertools.product(*(law.items() for law in laws)):
        value = int(oracle.RULES[operator]([one for one, _ in combination]))
        found[value] = found.get(value, 0.0) + float(np.prod([chance for _, chance in combination]))
    return found


def law_of(tree: Any, levels: int, prior: dict[str, Any], first: Any = None) -> Law:
    """The law of a tree's value when `levels` levels may be opened."""
    if isinstance(tree, str):
        return {int(tree): 1.0}
    if tree[0] == "COPY":
        return law_of(oracle.level_order(first)[tree[1]], levels, prior)
    if levels == 0:
        return dict(enumerate(prior[tree[0]]))
    return enumerated(tree[0], [law_of(child, levels - 1, prior, first) for child in tree[1:]])


def by_hand(tree: Any, levels: int, first: Any = None) -> int | None:
    """The stated heuristics by recursion."""
    if isinstance(tree, str):
        return int(tree)
    if tree[0] == "COPY":
        return by_hand(oracle.level_order(first)[tree[1]], levels)
    if levels == 0:
        return None
    if tree[0] in ("FIRST", "LAST"):
        side = 1 if tree[0] == "FIRST" else -1
        found = by_hand(tree[side], levels - 1, first)
        return edge(tree[side], side, first) if found is None else found
    seen = [one for child in tree[1:] if (one := by_hand(child, levels - 1, first)) is not None]
    return int(oracle.RULES[tree[0]](seen)) if seen else 5


def edge(tree: Any, side: int, first: Any) -> int:
    if isinstance(tree, str):
        return int(tree)
    return edge(oracle.level_order(first)[tree[1]] if tree[0] == "COPY" else tree[side], side, first)


@given(
    st.sampled_from(sorted(oracle.RULES)),
    st.lists(st.lists(st.integers(0, 4), min_size=10, max_size=10).filter(any), min_size=1, max_size=4),
)
def test_laws_of_operators(operator: str, weights: list[list[int]]) -> None:
    laws = np.array([[one / sum(row) for one in row] for row in weights])
    out = np.empty(10)
    truncation.combine(OPERATORS[operator].number, laws, 0, len(laws), out)
    few = [{value: chance for value, chance in enumerate(row) if chance} for row in laws.tolist()]
    exact = enumerated(operator, few)
    np.testing.assert_allclose(out, [exact.get(value, 0.0) for value in range(10)], atol=1e-9)


@pytest.mark.parametrize("operators", [("MIN", "MAX"), ("FIRST", "LAST"), ("MED", "SM", "MIN", "LAST"), ("PM", "MAX")])
def test_truncation_is_exact(operators: tuple[str, ...]) -> None:
    """Answers are modes of the enumerated law, through COPYs too; enough levels give the right answers."""
    corpus = orchard("test-4", operators=operators, copying=0.5)[:30]
    prior = FromCorpus(orchard("train", operators=operators, copying=0.5), {}).prior(digits=True)
    answers = truncation.truncated(corpus, 9, prior).reshape(len(corpus), 2, -1)
    handed = truncation.heuristic(corpus, 9, prior).reshape(len(corpus), 2, -1)
    for row, text in enumerate(corpus.texts):
        trees = oracle.parse(text)
        for place, tree in enumerate(trees):
            for levels in (0, 1, 2, 3):
                law = law_of(tree, levels, prior, trees[0])
                chances = sorted(law.values())
                if len(chances) > 1 and chances[-1] - chances[-2] < 1e-9:
                    continue  # a tie
                assert answers[row, place, levels] == max(law, key=lambda value: law[value])
                if levels:
                    assert handed[row, place, levels] == by_hand(tree, levels, trees[0])
    np.testing.assert_array_equal(answers[:, :, 8], corpus.targets)
    np.testing.assert_array_equal(handed[:, :, 8], corpus.targets)


def test_listops_constants(data_folder: Path) -> None:
    """Recorded on the paper's test set; the evaluators here are exact, the recorded ones sampled, hence the room."""
    test = pm.read(data_folder / "listops" / "test_d20s.tsv")
    made = shortcuts.ladder(test, pm.generate("listops/d20s", seed=1), levels=8)
    recorded = {
        "root operator": 23.4, "look-up table": 58.7, "top 0 levels": 23.2, "top 1 level": 62.7, "top 2 levels": 84.8,
        "top 3 levels": 93.3, "top 4 levels": 97.1, "top 5 levels": 98.6, "top 6 levels": 99.4, "top 8 levels": 99.9,
    }  # fmt: skip
    for name, value in recorded.items():
        room = 100 * 2.5 * made[name].error + 0.06  # the error of one sample of 10,000, and rounding
        assert 100 * made[name].accuracy == pytest.approx(value, abs=room), name
    scores = [made[f"top {level} level{'s' * (level != 1)}"].accuracy for level in range(9)]
    assert scores == sorted(scores)


def test_orchard_constants() -> None:
    """First tree, one to four levels by hand, at each recorded depth; every figure from 1,500 examples."""
    recorded = {
        ("FIRST", "LAST"): {
            3: (0.631, 0.901), 6: (0.538, 0.735, 0.843, 0.930), 9: (0.543, 0.716, 0.830, 0.910),
            12: (0.519, 0.691, 0.825, 0.891),
        },
        ("MIN", "MAX"): {
            3: (0.429, 0.653), 6: (0.379, 0.602, 0.764, 0.883), 9: (0.374, 0.565, 0.738, 0.847),
            12: (0.380, 0.580, 0.737, 0.845),
        },
    }  # fmt: skip
    rows = 4000
    for operators, table in recorded.items():
        train, misfit, figures = orchard("train", operators=operators), 0.0, 0
        for depth, scores in table.items():
            corpus = orchard(f"test-{depth}", operators=operators, test=rows)
            answers = shortcuts.evaluations(corpus, train, 4, by_hand=True)
            own = (answers[:, 0, 1 : len(scores) + 1] == corpus.targets[:, :1]).mean(axis=0)
            there = np.array(scores)
            misfit += float(((own - there) ** 2 / (there * (1 - there) * (1 / 1500 + 1 / rows))).sum())
            figures += len(scores)
        assert stats.chi2.sf(misfit, figures) > 1e-3, operators
    repeated = shortcuts.ladder(corpus[:500], orchard("train")[:500], levels=1)["repeat the first answer"]
    assert repeated.per_question[1] == pytest.approx(0.15, abs=0.05)
    assert np.isnan(repeated.accuracy)


def test_copy_ceiling() -> None:
    """With every argument known it is 1; recorded .90 for 75 known ones, .72 / .71 for 45 (depth 12, hard)."""
    for operators, recorded in {("FIRST", "LAST"): (0.90, 0.72), ("MIN", "MAX"): (0.90, 0.71)}.items():
        corpus = orchard("test-12", operators=operators, test=2000)
        assert shortcuts.copy_ceiling(corpus, range(5000)).accuracy == 1
        for known, value in zip((75, 45), recorded, strict=True):
            ceiling = shortcuts.copy_ceiling(corpus, range(known))
            assert ceiling.per_question[0] == 1
            assert ceiling.per_question[1] == pytest.approx(value, abs=0.025)


def test_copy_ceiling_by_enumeration() -> None:
    """One unknown argument: the chance of the commonest answer over all positions it may stand for."""
    corpus = orchard("test-3", operators=("MIN", "MAX"), copying=0.4)
    seen = {0, 1, 2, 3}
    chance = shortcuts.copy_ceiling(corpus, seen).right[:, 1]
    rows, arguments = copy_arguments(corpus.forest, corpus.width)
    checked = 0
    for row in range(len(corpus)):
        strange = [one for one in arguments[rows == row].tolist() if one not in seen]
        if len(strange) != 1:
            continue
        first, second = oracle.parse(corpus.texts[row])
        found: dict[int, int] = {}
        for position in range(4, len(oracle.level_order(first))):
            text = oracle.text_of(second).replace(f"[COPY {strange[0]} ]", f"[COPY {position} ]")
            value = oracle.value(oracle.parse(text)[0], [first])
            found[value] = found.get(value, 0) + 1
        assert chance[row] == pytest.approx(max(found.values()) / sum(found.values()))
        checked += 1
    assert checked > 50


@pytest.mark.parametrize("references", ["earlier", "previous", "first"])
def test_copy_ceiling_of_later_trees(references: str) -> None:
    """Three trees, one unknown argument in the last: all positions it may stand for, earlier values being right."""
    settings: dict[str, Any] = {"operators": ("MIN", "MAX"), "trees": 3, "references": references, "copying": 0.3}
    corpus = orchard("test-3", **settings)
    seen = {0, 1, 2, 3, 12, 13, 14, 15}
    chance = shortcuts.copy_ceiling(corpus, seen).right
    checked = 0
    for row, text in enumerate(corpus.texts):
        trees = oracle.parse(text)
        strange = [n[1] for n in oracle.level_order(trees[2]) if n[0] == "COPY" and n[1] not in seen]
        if len(strange) != 1:
            continue
        ends = np.cumsum([len(oracle.level_order(tree)) for tree in trees])
        low, high = {"earlier": (0, ends[1]), "previous": (ends[0], ends[1]), "first": (0, ends[0])}[references]
        found = np.zeros(10)
        for position in set(range(low, high)) - seen:
            other = oracle.text_of(trees[2]).replace(f"[COPY {strange[0]} ]", f"[COPY {position} ]")
            found[oracle.value(oracle.parse(other)[0], trees[:2])] += 1
        assert chance[row, 2] == pytest.approx(found.max() / found.sum())
        checked += 1
    assert checked > 30
    with pytest.raises(MeasureError, match="references = 'next'"):
        shortcuts.copy_ceiling(corpus, seen, "next")


# -- look-ups ----------------------------------------------------------------------------------------------------------


def test_best_accuracy_of_a_finite_law() -> None:
    assert shortcuts.best_accuracy(["even", "even", "odd"], ["yes", "no", "no"]) == pytest.approx(2 / 3)
    assert shortcuts.best_accuracy(np.array([0, 0, 1]), np.array([1, 0, 0]), np.array([3.0, 1, 4])) == pytest.approx(
        7 / 8
    )
    assert shortcuts.best_accuracy(np.zeros((4, 2), int), [1, 1, 2, 3]) == 0.5
    with pytest.raises(MeasureError, match="a key, an answer and a weight"):
        shortcuts.best_accuracy([], [])


def test_informations_of_the_users_own() -> None:
    """A look-up that sees the answer is always right; one that sees nothing is the most frequent answer."""
    corpus = pm.generate("listops/d20s", split="test", train=2000, dev=10, test=500)
    train = pm.generate("listops/d20s", train=2000, dev=10, test=500)

    def answer(some: pm.Corpus) -> Any:
        """the answer itself"""
        return some.targets[:, 0]

    made = shortcuts.ladder(corpus, train, levels=1, more={"oracle": answer, "blind": lambda some: ["?"] * len(some)})
    assert made["oracle"].accuracy == 1
    assert made["oracle"].sees == "the answer itself"
    assert made["blind"].accuracy == made["most frequent answer"].accuracy
    counts = np.bincount(train.targets[:, 0])
    assert made["most frequent answer"].accuracy == pytest.approx((corpus.targets[:, 0] == counts.argmax()).mean())
    with pytest.raises(KeyError, match="there are nothing, most frequent answer"):
        made["parity"]
    with pytest.raises(MeasureError, match="one key an example; got 1 for 2000"):
        shortcuts.ladder(corpus, train, more={"short": lambda some: [0]})


def test_unseen_keys_fall_back_to_coarser_ones() -> None:
    keys, answers = np.array([0, 0, 0, 1], np.uint64), np.array([2, 2, 1, 3])
    best, seen = Counted.of(keys, answers, np.ones(4, np.int64)).best(np.array([1, 0, 2], np.uint64))
    assert best[:2].tolist() == [3, 2]
    assert seen.tolist() == [True, True, False]


def test_without_training_no_example_answers_itself() -> None:
    """With keys that are all different, a look-up may not do better than the most frequent answer."""
    corpus = pm.generate("listops/d20s", split="test", train=100, dev=10, test=800)
    made = shortcuts.ladder(corpus, levels=0, more={"identity": lambda some: some.keys.astype(np.int64)})
    assert made.learnt_from == "the other half of it"
    assert made["identity"].accuracy == made["root operator"].accuracy < 0.35


def test_pairs_and_two_answers_have_one_ladder() -> None:
    def paired(corpus: pm.Corpus) -> pm.Corpus:
        outcomes, targets = answered(corpus.targets, corpus.outcomes, True)
        return dataclasses.replace(corpus, outcomes=outcomes, targets=targets)

    test, train = orchard("test-3")[:300], orchard("train")[:600]
    two, pair = shortcuts.ladder(test, train, levels=2), shortcuts.ladder(paired(test), paired(train), levels=2)
    for one in two.rungs:
        assert one.per_question == pytest.approx(pair[one.name].per_question, nan_ok=True), one.name


def test_trees_that_cannot_be_evaluated_have_a_shorter_ladder(tmp_path: Path) -> None:
    path = tmp_path / "nli.jsonl"
    rows = [
        {"trees": [{"type": "not"}, {"type": one}], "text": f"not {one}", "target": ["yes" if number % 3 else "no"]}
        for number, one in enumerate(["some", "all", "no"] * 10)
    ]
    path.write_text("".join(json.dumps({**row, "id": str(number)}) + "\n" for number, row in enumerate(rows)))
    made = shortcuts.ladder(pm.read(path), pm.read(path))
    assert [rung.name for rung in made.rungs] == ["nothing", "most frequent answer", "root operator", "surface counts"]
    assert made["root operator"].accuracy == 1
