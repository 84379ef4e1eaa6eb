"""Names: what is registered is found, what is not is answered with the nearest, and a new task is one file."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pomona as pm
from pomona.base.errors import SpecError, did_you_mean
from pomona.base.registry import Registry, parse_settings, settings_of, validated
from pomona.data.task import TASKS, Task

# -- words -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.text("abcde", min_size=4, max_size=9), min_size=1, unique=True), st.data())
@settings(max_examples=50)
def test_a_slip_is_answered_with_a_known_name(names: list[str], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(names))
    assert did_you_mean(name, names) == f"Did you mean {name!r}?"
    slip = name + "x"
    assert did_you_mean(slip, names).removeprefix("Did you mean ").strip("'?") in names


def test_far_from_everything_all_names_are_listed() -> None:
    assert did_you_mean("zzz", ["b", "a"]) == "Known: a, b."
    assert did_you_mean("zzz", []) == "There are none."


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("listop", r"no task is called 'listop'\. Did you mean 'listops'\?"),
        ("listop/d20s", r"no task is called 'listop/d20s'\. Did you mean 'listops/d20s'\?"),
        ("listops/d20", r"listops has no preset 'd20'\. Did you mean 'd20s'\?"),
        ("", r"no task is called ''\. Known: .*listops"),
        ("../listops", r"no task is called '\.\./listops'\. Did you mean"),
        ("__init__", r"no task is called '__init__'"),
    ],
)
def test_unknown_names(name: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        TASKS.build(name)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"braching": 0.3}, r"listops has no setting 'braching'\. Did you mean 'branching'\?"),
        ({"branching": "many"}, r"listops: branching = 'many': Input should be a valid number"),
        ({"train": 1.5}, r"listops: train = 1\.5: Input should be a valid integer"),
        ({"operators": [1]}, r"listops: operators\.0 = 1: Input should be a valid string"),
        ({"operators": ["MXA"]}, r"no operator is called 'MXA'\. Did you mean 'MAX'\?"),
        ({"length": [1, 2, 3]}, r"listops: length"),
    ],
)
def test_wrong_settings(setting: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        TASKS.build("listops/d20s", setting)


@dataclass(frozen=True)
class Measured:
    """Settings of every plain type."""

    width: float = 1.0
    count: int = 1
    name: str = ""
    warm: bool = False
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError("a count is not negative")


@pytest.mark.parametrize(
    "settings",
    [
        {"width": 3, "count": 4, "name": "a", "warm": True},  # plain values, taken as they are
        {"width": 3, "count": 4, "name": "a", "warm": True, "sizes": [1, 2]},  # a list, converted
        {"count": True},  # a truth value is also a number, but not of that type
        {"width": "3", "sizes": ["1"]},  # texts that can be read as numbers
    ],
)
def test_plain_settings_are_as_if_converted(settings: dict[str, object]) -> None:
    import pydantic

    built = validated(Measured, settings, "measured")
    assert built == pydantic.TypeAdapter(Measured).validate_python(settings)
    assert [type(value) for value in vars(built).values()] == [float, int, str, bool, tuple]


@pytest.mark.parametrize("settings", [{"count": -1}, {"count": -1, "sizes": [1]}])
def test_a_class_that_refuses_a_value_is_heard(settings: dict[str, object]) -> None:
    with pytest.raises(SpecError, match=r"measured: settings = .*: a count is not negative"):
        validated(Measured, settings, "measured")


# -- entries ---------------------------------------------------------------------------------------------------------


def test_every_entry_builds_under_each_of_its_names_and_comes_back_from_its_settings() -> None:
    entries = list(TASKS.entries())
    assert "listops" in [entry.name for entry in entries]
    assert [entry.name for entry in entries] == sorted(entry.name for entry in entries)
    for entry in entries:
        assert entry.about
        for name in entry.names:
            built = TASKS.build(name)
            assert built.name == entry.name
            again = TASKS.build(entry.name, settings_of(built))
            assert settings_of(again) == settings_of(built)
            assert [again.distribution(split) for split in again.sizes] == [
                built.distribution(split) for split in built.sizes
            ]


def test_given_settings_win_over_the_preset_and_the_preset_over_the_defaults() -> None:
    plain, preset = settings_of(TASKS.build("listops")), settings_of(TASKS.build("listops/lra"))
    assert plain["arguments"] != preset["arguments"]
    given_too = settings_of(TASKS.build("listops/lra", {"arguments": 7}))
    assert given_too == {**preset, "arguments": 7}


def test_one_name_one_class() -> None:
    registry: Registry[object] = Registry("thing", "pomona.tasks")

    @dataclass(frozen=True)
    class One:
        """The first."""

    @dataclass(frozen=True)
    class Two:
        """The second."""

    class Loose:
        """Not a dataclass."""

    registry.add("thing")(One)
    registry.add("thing")(One)  # a module that is loaded again
    with pytest.raises(SpecError, match=r"two things are called 'thing': .*One, .*Two"):
        registry.add("thing")(Two)
    with pytest.raises(SpecError, match="Loose must be a frozen dataclass to be a thing"):
        registry.add("loose")(Loose)
    with pytest.raises(SpecError, match="must be a frozen dataclass"):
        registry.add("thawed")(dataclasses.make_dataclass("Thawed", []))


def test_settings_are_plain_values() -> None:
    assert parse_settings(["a=0.3", "b=MIN,MAX", "c=[1, null]", "d=word", "e=", "f=a=b"]) == {
        "a": 0.3, "b": ["MIN", "MAX"], "c": [1, None], "d": "word", "e": "", "f": "a=b",
    }  # fmt: skip
    assert parse_settings(["a=" + "[" * 100_000])["a"].startswith("[[[")
    for wrong in ("branching", "=3", ""):
        with pytest.raises(SpecError, match=f"a setting is written name=value; got '{wrong}'"):
            parse_settings([wrong])
    with pytest.raises(SpecError, match=r"a setting holds numbers, strings and lists of them; got <object"):
        settings_of(dataclasses.make_dataclass("Odd", [("x", object, object())], frozen=True)())


# -- a task of the user's own ----------------------------------------------------------------------------------------

ONE_FILE = '''
"""Sums of sums."""

from dataclasses import dataclass

import numpy as np

import pomona as pm


@pm.task("sums", presets={"short": {"most": 3}})
@dataclass(frozen=True)
class Sums(pm.Task):
    """Lists of digits to be added up modulo ten."""

    train: int = 30
    dev: int = 5
    test: int = 5
    most: int = 6

    def example(self, random: np.random.Generator):
        digits = random.integers(0, 10, random.integers(1, self.most + 1)).tolist()
        return None if digits == [0] else "[SM " + " ".join(map(str, digits)) + " ]"
'''


def test_a_task_in_one_file_works_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_sums.py").write_text(ONE_FILE)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        __import__("my_sums")
        splits = {split: pm.generate("sums/short", split=split, seed=3) for split in ("train", "dev", "test")}
        assert {split: len(corpus) for split, corpus in splits.items()} == {"train": 30, "dev": 5, "test": 5}
        for split, corpus in splits.items():
            assert max(corpus.lengths) <= 5
            for suffix in ("parquet", "jsonl", "tsv"):
                path = pm.write(corpus, tmp_path / "data" / f"{split}.{suffix}")
                assert pm.read(path).fingerprint == corpus.fingerprint
        result = pm.verify(tmp_path / "data")
        assert result.holds
        assert len(result.files) == 9
        assert pm.generate("sums/short", seed=3, workers=2, chunk=7).fingerprint == splits["train"].fingerprint
        assert pm.generate("sums/short", seed=4).fingerprint != splits["train"].fingerprint
        with pytest.raises(SpecError, match=r"sums has no setting 'mots'\. Did you mean 'most'\?"):
            pm.generate("sums", mots=3)
        assert "sums" in [entry.name for entry in TASKS.entries()]
    finally:
        TASKS._entries.pop("sums", None)
        sys.modules.pop("my_sums", None)


def test_a_task_that_says_nothing_of_its_draws_is_told_so() -> None:
    @dataclass(frozen=True)
    class Silent(Task):
        """No draws."""

    Silent.name = "silent"
    with pytest.raises(NotImplementedError, match=r"Silent must define example\(random\), or scan and build"):
        pm.generate(Silent())


def test_no_name_is_listed_twice() -> None:
    from pomona.papers.reproduce import PAPERS

    with pytest.raises(SpecError) as error:
        PAPERS.entry("")
    names = str(error.value).partition("Known: ")[2].rstrip(".").split(", ")
    assert len(names) == len(set(names)) > 1
