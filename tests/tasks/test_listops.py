"""ListOps: the compiled draws are the obvious ones, the law is the paper's, and the presets are what they say."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import oracles_listops as slow
from pomona.base.errors import SpecError, SplitError
from pomona.base.randomness import stream_key
from pomona.data import formats
from pomona.data.task import TASKS, generate, stream
from pomona.data.verification import verify
from pomona.tasks.listops.task import PRESETS, ListOps
from pomona.trees import brackets
from pomona.trees import operators as algebra

BUILT_IN = ("MIN", "MAX", "MED", "SM", "FIRST", "LAST", "PM")
SMALL = {"train": 300, "dev": 40, "test": 50}


@st.composite
def grammars(draw: st.DrawFn) -> ListOps:
    names = draw(st.lists(st.sampled_from(BUILT_IN), min_size=1, max_size=6, unique=True))
    low, width = draw(st.integers(0, 4)), draw(st.none() | st.integers(0, 6))
    arguments = draw(st.integers(2, 40))
    lists = 3.0  # at most as many lists in a list, on the mean: some 700 in the largest trees, not 8 ** 6
    return ListOps(
        branching=draw(st.floats(0.05, min(0.4, lists / (1 + arguments / 2)))),
        depth=draw(st.integers(1, 7)),
        arguments=arguments,
        operators=tuple(names),
        length=(draw(st.integers(1, 6)), 60),
        nesting=(low, None if width is None else low + width),
        dependency=draw(st.sampled_from([(0, None), (1, 3), (0, 2)])),
    )


@given(grammars(), st.integers(0, 2**63), st.integers(0, 10**12))
def test_compiled_draws_equal_the_recursive_twin(task: ListOps, seed: int, first: int) -> None:
    key = stream_key("test", seed)
    names = ("branching", "depth", "arguments", "operators")
    settings = {name: getattr(task, name) for name in names}
    expected = {}
    for number in range(first, first + 16):
        tree = slow.draw(int(key), number, **settings, no_digit=task._no_digit)
        shown = slow.text(tree)
        fits = [
            low <= found <= (2**40 if high is None else high)
            for found, (low, high) in (
                (len(shown.split()), task.length),
                (slow.nesting(tree), task.nesting),
                (slow.dependency(tree), task.dependency),
            )
        ]
        if all(fits) and (" " in shown or shown not in map(slow.text, expected.values())):  # a digit only once
            expected[number] = tree
    found = task.scan(key, first, 16)
    assert found.numbers.tolist() == list(expected)
    corpus = task.build(key, found.numbers)
    assert corpus.texts == [slow.text(tree) for tree in expected.values()]
    assert corpus.targets[:, 0].tolist() == [slow.evaluate(tree) for tree in expected.values()]
    assert corpus.nesting.tolist() == [slow.nesting(tree) for tree in expected.values()]
    assert corpus.dependency.tolist() == [slow.dependency(tree) for tree in expected.values()]
    assert np.array_equal(corpus.keys, found.keys)
    assert np.array_equal(algebra.denote(corpus.forest), corpus.values)
    assert brackets.write(corpus.forest.checked()) == corpus.texts


def raw_draws(count: int, **settings: object) -> tuple[ListOps, object]:
    task = TASKS.build("listops/d20s", settings)
    assert isinstance(task, ListOps)
    return task, task.build(stream_key("raw"), np.arange(count))


def test_nesting_follows_the_law_of_the_recursion() -> None:
    """P(nesting <= h) = p0 + p (mean over arities of P(nesting <= h-1)^k): exact, so a chi-square test applies."""
    _, corpus = raw_draws(200_000)
    below = [0.75]
    for _ in range(18):
        below.append(0.75 + 0.25 * np.mean([below[-1] ** arity for arity in (2, 3, 4, 5)]))
    chances = np.diff([0.0, *below, 1.0])
    counts = np.bincount(corpus.nesting, minlength=len(chances))  # type: ignore[attr-defined]
    assert len(counts) == len(chances)
    assert stats.chisquare(counts, chances * counts.sum()).pvalue > 1e-4


def test_operators_arities_and_digits_are_uniform() -> None:
    _, corpus = raw_draws(200_000)
    forest = corpus.forest  # type: ignore[attr-defined]
    inner = ~forest.leaf
    for values in (forest.symbol[inner], forest.arity[inner], forest.symbol[forest.leaf]):
        counts = np.unique(values, return_counts=True)[1]
        assert stats.chisquare(counts).pvalue > 1e-4
    joint = np.histogram2d(forest.symbol[inner], forest.arity[inner], bins=(4, 4))[0]
    assert stats.chi2_contingency(joint).pvalue > 1e-4


def test_regenerated_d20s_has_the_statistics_of_the_published_file(data_folder: Path) -> None:
    real = formats.read(data_folder / "listops" / "test_d20s.tsv")
    ours = generate("listops/d20s", split="test", seed=11)
    assert np.array_equal(real.values[real.forest.root], real.targets[:, 0]), "all 10,000 published labels recompute"
    assert stats.ttest_ind(real.lengths, ours.lengths, equal_var=False).pvalue > 1e-3
    assert stats.ks_2samp(real.lengths, ours.lengths).pvalue > 1e-3
    assert stats.ks_2samp(real.dependency, ours.dependency).pvalue > 1e-3
    for of in (
        lambda one: np.bincount(one.nesting, minlength=20)[1:],
        lambda one: np.bincount(one.targets[:, 0], minlength=10),
        # Operators and arities come in clusters (whole trees), so each tree counts once, by its root.
        lambda one: np.bincount(one.forest.symbol[one.forest.root], minlength=14)[10:],
        lambda one: np.bincount(one.forest.arity[one.forest.root], minlength=6)[2:],
    ):
        assert stats.chi2_contingency(np.stack([of(real), of(ours)])).pvalue > 1e-3
    shares = [abs((real.lengths <= bound).mean() - (ours.lengths <= bound).mean()) for bound in (50, 100, 200, 500)]
    assert max(shares) < 4 * np.sqrt(2 * 0.25 / 10_000)


def test_how_many_are_drawn_is_part_of_the_law() -> None:
    """Short expressions run out, so a larger pool is longer on average: 38.8 tokens of 10,000, 44.8 of 300,000."""
    few = generate("listops/d20s", seed=1, train=10_000, dev=0, test=0)
    many = generate("listops/d20s", seed=1, train=300_000, dev=0, test=0)
    assert many.lengths.mean() > few.lengths.mean() + 4


@pytest.mark.parametrize("preset", PRESETS)
def test_splits_of_every_preset_are_disjoint_and_obey_their_windows(preset: str) -> None:
    full = TASKS.build(f"listops/{preset}")
    assert isinstance(full, ListOps)
    small = {split: min(60 if split == "train" else 12, rows) for split, rows in full.sizes.items()}
    task = dataclasses.replace(full, **small, pool=0)
    keys = []
    for split in task.sizes:
        law, corpus = task.distribution(split), generate(task, split=split, seed=3)
        assert isinstance(law, ListOps)
        assert len(corpus) == task.sizes[split]
        for values, (low, high) in (
            (corpus.lengths, law.length),
            (corpus.nesting, law.nesting),
            (corpus.dependency, law.dependency),
        ):
            assert values.min() >= low
            assert high is None or values.max() <= high
        assert corpus.forest.arity.max() <= law.arguments
        assert corpus.nesting.max() < law.depth
        keys.append(corpus.keys)
    everything = np.concatenate(keys)
    assert len(np.unique(everything)) == len(everything)


def test_a_balanced_pool_fills_its_bins_equally() -> None:
    task = TASKS.build("listops/dependency-balanced", {"train": 540, "iid": 0, "dev": 60, "test": 12, "shift": []})
    pool = [generate(task, split=split, seed=1).dependency for split in task.sizes]
    assert np.bincount(np.concatenate(pool), minlength=7).tolist() == [0, *[102] * 6]


def test_expansions_hold_the_smaller_sets_and_the_same_test() -> None:
    base = {"train": 900, "dev": 50, "test": 50}
    larger = {**base, "train": 2_500, "pool": 1_000}
    for split in ("test", "dev"):
        small, large = (generate("listops/d20s", split=split, seed=2, **sizes) for sizes in (base, larger))
        assert small.fingerprint == large.fingerprint
    small, large = (generate("listops/d20s", seed=2, **sizes) for sizes in (base, larger))
    assert large[:900].fingerprint == small.fingerprint
    assert len(np.unique(large.keys)) == 2_500
    asked = generate("listops/d20s", seed=2, size=2_500, **base)
    assert asked.fingerprint == large.fingerprint
    assert PRESETS["d20s-990k"]["pool"] == sum(TASKS.build("listops/d20s").sizes.values())


def test_streaming_goes_on_past_the_split_without_repeating() -> None:
    seen = []
    for example, _ in zip(stream("listops/d20s", seed=4, **SMALL), range(9_000), strict=False):
        seen.append(example.key)
    assert len(set(seen)) == 9_000
    rows = generate("listops/d20s", seed=4, **SMALL)
    assert [f"{key:016x}" for key in rows.keys] == seen[:300]


def test_a_users_own_operator_serves_a_task() -> None:
    if "SPAN" not in algebra.OPERATORS:
        algebra.define_operator(algebra.Operator("SPAN", lambda xs: max(xs) - min(xs)))
    corpus = generate("listops/d20s", operators=("SPAN", "MIN"), **SMALL)
    assert corpus.vocabulary[-3:] == ("[SPAN", "[MIN", "]")
    example = next(one for one in corpus if one.tokens[0] == "[SPAN" and one.nesting == 1)
    digits = [int(token) for token in example.tokens[1:-1]]
    assert example.target == (max(digits) - min(digits),)


# -- the authors' files with products ----------------------------------------------------------------------------------

PRODUCTS = """6\t( ( ( ( ( ( [PM 9 ) 1 ) 3 ) 2 ) 9 ) ] )
0\t( ( ( ( ( ( ( [PM ( ( ( [MAX 5 ) 4 ) ] ) ) 2 ) 7 ) 7 ) 7 ) 3 ) ] )
4\t( ( ( [MIN ( ( ( [PM 2 ) 7 ) ] ) ) 8 ) ] )
5\t( ( ( [SM 2 ) 3 ) ] )
"""


def test_files_with_products_and_six_arguments_are_read_and_verified(tmp_path: Path) -> None:
    path = tmp_path / "test_d5p.tsv"
    path.write_text(PRODUCTS)
    corpus = formats.read(path)
    assert corpus.vocabulary == (*"0123456789", "[MIN", "[MAX", "[MED", "[SM", "[PM", "]")
    assert corpus.targets[:, 0].tolist() == [6, 0, 4, 5] == corpus.values[corpus.forest.root].tolist()
    assert corpus.forest.arity.max() == 6
    assert algebra.dependency(corpus.forest, corpus.values)[corpus.forest.root].tolist() == [1, 2, 2, 1]
    assert verify(path).holds
    path.write_text(PRODUCTS.replace("6\t", "7\t"))
    assert len(verify(path).problems) == 1  # a wrong answer is found
    again = tmp_path / "again.tsv"
    formats.write(corpus, again)
    assert again.read_text() == PRODUCTS


def test_a_task_with_products_has_the_words_of_such_files(tmp_path: Path) -> None:
    """So that a model which is trained on it can answer them."""
    five = ("MIN", "MAX", "MED", "SM", "PM")
    corpus = generate("listops/d20s", "test", 0, **SMALL, operators=five, arguments=6)
    path = tmp_path / "test_d5p.tsv"
    path.write_text(PRODUCTS)
    assert corpus.vocabulary == formats.read(path).vocabulary
    assert (algebra.denote(corpus.forest)[corpus.forest.root] == corpus.targets[:, 0]).all()
    assert generate("listops/d20s", "test", 0, **SMALL).vocabulary[10:] == ("[MIN", "[MAX", "[MED", "[SM", "]")


def test_asking_for_more_than_there_is_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pomona.data.pool.PATIENCE", 200_000)
    with pytest.raises(SplitError, match=r"110 different examples.*Ask for fewer rows"):
        generate("listops/d20s", operators=("MIN",), depth=2, arguments=2, train=111, dev=0, test=0)
    with pytest.raises(SplitError, match=r"50 rows of test; 51 were asked for. Set test=51"):
        generate("listops/d20s", split="test", size=51, **SMALL)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"branching": 1.5}, "between 0 and 1"),
        ({"branching": "much"}, "branching = 'much'"),
        ({"braching": 0.3}, "no setting 'braching'. Did you mean 'branching'"),
        ({"operators": ["MIN", "MAXX"]}, "no operator is called 'MAXX'. Did you mean 'MAX'"),
        ({"operators": ["MIN", "MIN"]}, "each once"),
        ({"length": [9, 3]}, "from a lower number to a higher"),
        ({"arguments": 1}, "at least 1 and 2"),
        ({"depth": 2**63}, "1,000,000 are the most"),  # of a damaged manifest: it was added up level by level
        ({"depth": 1_000_000, "arguments": 1_000_000}, "more than 100,000 nodes"),
        ({"branching": 0.6}, "set a length window"),
        ({"balanced": True}, "need a window of dependency depths"),
        ({"train": -1}, "0 or more rows"),
        ({"iid": 5}, "here it equals test"),
        ({"pool": 5}, "held-out rows"),
        ({"shift": [["tets", "depth", 3]]}, "no split is called 'tets'. Did you mean 'test'"),
        ({"shift": [["test", "dept", 3]]}, "'dept' is not a setting. Did you mean 'depth'"),
    ],
)
def test_wrong_settings_say_what_is_allowed(settings: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        generate("listops/d20s", size=1, **settings)


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(SpecError, match=r"no task is called 'listop'. Did you mean 'listops'"):
        generate("listop")
    with pytest.raises(SpecError, match=r"no preset 'd20'. Did you mean 'd20s'"):
        generate("listops/d20")
    with pytest.raises(SpecError, match="no split 'valid'"):
        generate("listops/d20s", split="valid", **SMALL)
