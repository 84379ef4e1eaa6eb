"""What a sweep varies: every combination once, names that file systems take, repeatable draws, clear errors."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pomona.base.errors import FormatError, SpecError
from pomona.sweeps.plan import LONGEST_NAME, Plan, Range

GRID = {
    "model": ["treelstm", "lstm"], "seeds": 2, "data": "listops/d20s", "set": {"train": 100},
    "model_set": {"width": [8, 16]}, "recipe": {"rate": [0.001, 0.01], "epochs": 3},
}  # fmt: skip


def test_a_grid_has_every_combination_once() -> None:
    jobs = Plan.of(GRID).jobs()
    found = {(job.recipe.model, job.recipe.settings["width"], job.recipe.rate, job.recipe.seed) for job in jobs}
    assert found == set(itertools.product(("treelstm", "lstm"), (8, 16), (0.001, 0.01), (0, 1)))
    assert len(jobs) == len({job.name for job in jobs}) == 16
    assert all(job.recipe.data_settings == {"train": 100} and job.recipe.epochs == 3 for job in jobs)
    assert jobs[0].name == "treelstm-width=8-rate=0.001-seed=0"


def test_more_values_keep_the_names_of_what_was_there() -> None:
    larger = {**GRID, "seeds": 3, "model_set": {"width": [8, 16, 32]}}
    before, after = ({job.name: job.recipe for job in Plan.of(plan).jobs()} for plan in (GRID, larger))
    assert before.items() <= after.items()


def test_random_draws_lie_in_their_ranges_and_can_be_repeated() -> None:
    plan = Plan.of(
        {**GRID, "recipe": {"rate": {"low": 1e-4, "high": 1e-2}, "batch": {"low": 8, "high": 16}}, "random": 40}
    )
    jobs = plan.jobs(seed=1)
    assert [job.recipe for job in jobs] == [job.recipe for job in plan.jobs(seed=1)]
    assert [job.recipe for job in jobs] != [job.recipe for job in plan.jobs(seed=2)]
    assert all(1e-4 <= job.recipe.rate <= 1e-2 and 8 <= job.recipe.batch <= 16 for job in jobs)
    low = sum(job.recipe.rate < 1e-3 for job in jobs) / len(jobs)
    assert 0.2 < low < 0.8  # evenly in the logarithm; evenly in the rate would be about 0.09


def test_more_draws_keep_those_that_were_drawn() -> None:
    few, many = (Plan.of({**GRID, "recipe": {"rate": {"low": 1e-4, "high": 1e-2}}, "random": n}).jobs() for n in (3, 6))
    assert {job.recipe.key for job in few} <= {job.recipe.key for job in many}


def test_a_list_of_runs_has_settings_of_its_own(tmp_path: Path) -> None:
    text = """
    data = "listops/d20s"
    [recipe]
    epochs = 2
    [[runs]]
    model = "lstm"
    seed = 4
    [[runs]]
    model = "treelstm"
    model_set.width = 8
    recipe.rate = 0.1
    """
    (tmp_path / "plan.toml").write_text(text)
    first, second = (job.recipe for job in Plan.read(tmp_path / "plan.toml").jobs())
    assert (first.model, first.seed, first.epochs, dict(first.settings)) == ("lstm", 4, 2, {})
    assert (second.model, second.seed, second.rate, second.settings) == ("treelstm", 0, 0.1, {"width": 8})


@given(st.lists(st.text(min_size=1, max_size=200), min_size=1, max_size=5, unique=True))
def test_names_are_distinct_and_plain_whatever_the_values_are(values: list[str]) -> None:
    jobs = Plan.of({"model": "lstm", "data": values}).jobs()
    names = [job.name for job in jobs]
    assert len({name.lower() for name in names}) == len(values)
    for name in names:
        assert name.isascii()
        assert not name.startswith((".", "-"))
        assert "/" not in name
        assert len(name) <= LONGEST_NAME + 17


@given(st.floats(1e-6, 1e3), st.floats(1e-6, 1e3), st.integers(0, 2**32))
def test_a_draw_is_inside_its_range(one: float, other: float, seed: int) -> None:
    import numpy as np

    low, high = sorted((one, other))
    if low < high:
        assert low <= Range(low, high).draw(np.random.default_rng(seed)) <= high


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"modle": 1}, "a sweep has no 'modle'. Did you mean 'model'?"),
        ({"seeds": 0}, "seeds = 0: a number of seeds, or a list"),
        ({"seeds": [0.5]}, "a number of seeds, or a list"),
        ({"recipe": {"epoch": 3}}, "recipe.epoch: a recipe has no such setting. Did you mean 'epochs'?"),
        ({"recipe": {"epochs": []}}, "recipe.epochs: the list of values is empty"),
        ({"recipe": {"rate": {"low": 1, "high": 0}}}, "from a lower to a higher number"),
        ({"recipe": {"rate": {"low": 1, "hihg": 2}}}, "a range is {low = 0.001, high = 0.1}"),
        ({"recipe": {"rate": {"low": 0.1, "high": 0.2}}}, "say how many combinations to draw"),
        ({"recipe": {"rate": -1}}, "rate = -1"),
        ({"recipe": 3}, "recipe: settings are name = value"),
        ({"runs": [{"modle": "lstm"}]}, "run 1 of the list has no 'modle'. Did you mean 'model'?"),
        ({"runs": [{"model": "lstm"}], "random": 3}, "a list of runs stands alone"),
        ({"random": -1}, "random = -1"),
        ({"random": 10**30}, "at most 100,000"),
        ({"seeds": 10**30}, "such as [0, 1, 2]; at most 100,000"),
        ({"seeds": 60_000}, "the sweep has"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError) as caught:
        Plan.of({**GRID, **change}).jobs()
    assert words in str(caught.value)


def test_a_file_that_is_no_plan_is_named(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text("model = ")
    with pytest.raises(FormatError, match=r"plan\.toml: this is not TOML"):
        Plan.read(tmp_path / "plan.toml")
    (tmp_path / "plan.toml").write_text("seeds = " + "9" * 5_000)
    with pytest.raises(FormatError, match=r"plan\.toml: this TOML holds a number or a date that cannot be"):
        Plan.read(tmp_path / "plan.toml")
    (tmp_path / "plan.toml").write_text("modle = 1")
    with pytest.raises(SpecError, match=r"plan\.toml: a sweep has no 'modle'"):
        Plan.read(tmp_path / "plan.toml")
