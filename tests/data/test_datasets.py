"""A folder is a dataset: read by its manifest, checked against it, and never one that is half of another draw."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import pomona as pm
from pomona.base.errors import FormatError, SpecError
from pomona.base.files import write_json
from pomona.data import datasets
from pomona.data.datasets import MANIFEST, Dataset, rewriting
from pomona.data.sources import corpus_from, splits_of

SIZE: dict[str, Any] = {"train": 30, "dev": 10, "test": 20, "nesting": [3, None]}  # no example by chance in two draws


def about(seed: int) -> dict[str, Any]:
    from pomona.base.registry import settings_of

    task = pm.TASKS.build("listops/d20s", SIZE)
    return {"name": "listops/d20s", "seed": seed, "settings": settings_of(task), "version": task.version}


def make(folder: Path, seed: int, splits: tuple[str, ...] = ("train", "dev", "test"), suffix: str = ".parquet") -> Path:
    """A dataset as `pomona generate` writes it."""
    with rewriting(folder, about(seed)) as manifest:
        for split in splits:
            corpus = pm.generate("listops/d20s", split, seed, **SIZE)
            pm.write(corpus, folder / f"{split}{suffix}")
            manifest["splits"][split] = {
                "rows": len(corpus), "files": [f"{split}{suffix}"], "labels": {}, "fingerprint": corpus.fingerprint
            }  # fmt: skip
    return folder


@pytest.mark.parametrize("suffix", [".parquet", ".tsv", ".jsonl"])
def test_a_split_of_a_folder_is_that_of_the_task_in_every_format(tmp_path: Path, suffix: str) -> None:
    folder = str(make(tmp_path / "data", 3, suffix=suffix))
    for split in ("train", "dev", "test"):
        expected = pm.generate("listops/d20s", split, 3, **SIZE)
        found = corpus_from(folder, split=split)
        assert found.fingerprint == expected.fingerprint
        assert {key: found.origin[key] for key in expected.origin} == dict(expected.origin)
    assert corpus_from(folder).fingerprint == corpus_from(folder, split="test").fingerprint
    assert len(corpus_from(folder, size=7)) == 7
    assert splits_of(folder) == {"train": 30, "dev": 10, "test": 20}
    assert pm.verify(folder).holds


def test_what_would_have_no_effect_is_refused(tmp_path: Path) -> None:
    folder = str(make(tmp_path / "data", 3))
    with pytest.raises(SpecError, match="is a folder; a seed"):
        corpus_from(folder, seed=3)
    with pytest.raises(SpecError, match="is a folder; settings"):
        corpus_from(folder, settings={"train": 3})
    with pytest.raises(SpecError, match="is one file; a split"):
        corpus_from(f"{folder}/test.parquet", split="dev")
    with pytest.raises(FormatError, match=r"has no split 'tset'\. Did you mean 'test'"):
        corpus_from(folder, split="tset")


def test_manifests_of_earlier_versions_are_read_wherever_the_folder_stands(tmp_path: Path) -> None:
    """They have the path as it was typed, from a folder that may be another one today."""
    folder = make(tmp_path / "data", 3)
    manifest = json.loads((folder / MANIFEST).read_text())
    for entry in manifest["splits"].values():
        entry["files"] = [f"some/where/{name}" for name in entry["files"]]
    (folder / MANIFEST).write_text(json.dumps(manifest))
    folder.rename(tmp_path / "moved")
    assert len(corpus_from(str(tmp_path / "moved"), split="dev")) == 10
    assert pm.verify(tmp_path / "moved").holds


def test_train_of_one_draw_beside_test_of_another_is_found(tmp_path: Path) -> None:
    folder, other = make(tmp_path / "data", 3), make(tmp_path / "other", 4)
    (other / "test.parquet").replace(folder / "test.parquet")
    problems = pm.verify(folder).problems
    assert [problem.kind for problem in problems] == ["not the dataset"]
    assert "test.parquet does not hold the examples" in problems[0].message
    assert "it is of data seed 4, manifest.json of 3" in problems[0].message
    with pytest.raises(FormatError, match="does not hold the examples"):
        corpus_from(str(folder))
    assert len(corpus_from(str(folder), split="train")) == 30


def test_files_that_are_missing_shorter_or_unlisted_are_found(tmp_path: Path) -> None:
    folder = make(tmp_path / "data", 3)
    pm.write(pm.read(folder / "train.parquet")[:29], folder / "train.parquet")
    (folder / "dev.parquet").unlink()
    pm.write(pm.generate("listops/d20s", "test", 5, **SIZE), folder / "test.tsv")
    told = " ".join(problem.message for problem in pm.verify(folder).problems)
    assert "train.parquet has 29 rows, and manifest.json lists 30 for train" in told
    assert "dev.parquet is listed for dev, and is not there" in told
    assert "manifest.json does not list this file" in told


def test_a_killed_generate_leaves_no_manifest_that_lies(tmp_path: Path) -> None:
    """The manifest is marked before the first file is replaced, and whole again when all are."""
    folder = make(tmp_path / "data", 3)
    with suppress(KeyboardInterrupt), rewriting(folder, about(4)):
        pm.write(pm.generate("listops/d20s", "train", 4, **SIZE), folder / "train.parquet")
        assert json.loads((folder / MANIFEST).read_text())["unfinished"]  # what a kill would leave
        raise KeyboardInterrupt
    with pytest.raises(FormatError, match="did not finish here"):
        corpus_from(str(folder))
    assert ["did not finish here" in problem.message for problem in pm.verify(folder).problems] == [True]
    make(folder, 4)
    assert pm.verify(folder).holds


def test_a_failure_that_changed_nothing_changes_nothing(tmp_path: Path) -> None:
    folder = make(tmp_path / "data", 3)
    before = (folder / MANIFEST).read_bytes()
    with pytest.raises(ZeroDivisionError), rewriting(folder, about(4)):
        raise ZeroDivisionError
    assert (folder / MANIFEST).read_bytes() == before
    with pytest.raises(ZeroDivisionError), rewriting(tmp_path / "new", about(4)):
        raise ZeroDivisionError
    assert not (tmp_path / "new" / MANIFEST).exists()


def test_an_interrupt_right_after_the_mark_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(path: Path, value: Any) -> None:
        write_json(path, value)
        raise KeyboardInterrupt

    monkeypatch.setattr(datasets, "write_json", interrupted)
    with pytest.raises(KeyboardInterrupt), rewriting(tmp_path, about(4)):
        raise AssertionError("the block must not begin")
    assert list(tmp_path.iterdir()) == []


def test_splits_that_are_made_later_join_the_dataset_if_they_are_of_the_same_draw(tmp_path: Path) -> None:
    folder = make(tmp_path / "data", 3, ("train", "test"))
    make(folder, 3, ("dev",))
    make(folder, 3, ("dev",), suffix=".tsv")
    assert Dataset.read(folder).files["dev"] == (folder / "dev.parquet", folder / "dev.tsv")
    assert Dataset.read(folder).splits == ("train", "test", "dev")
    assert pm.verify(folder).holds
    make(folder, 4, ("dev",))
    assert Dataset.read(folder).splits == ("dev",)
    assert not pm.verify(folder).holds  # train and test of seed 3 are still there


def test_a_folder_without_a_manifest_is_read_by_the_names_of_its_files(tmp_path: Path) -> None:
    folder = make(tmp_path / "data", 3, suffix=".jsonl")
    (folder / MANIFEST).unlink()
    assert Dataset.read(folder).splits == ("train", "dev", "test")
    assert len(corpus_from(str(folder))) == 20
    with pytest.raises(FormatError, match="this folder is no dataset"):
        corpus_from(str(tmp_path))


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"splits": 3}', '{"splits": {"train": {}}}', '{"splits": {"train": {"files": []}}}',
             '{"splits": {"train": {"files": [3]}}}', '{"splits": {"train": {"files": ["/"]}}}', "{",
             '{"splits": {}, "settings": "\u0000"}', '{"splits": {}, "settings": [0]}', '{"splits": {}, "seed": NaN}',
             '{"splits": {"train": {"files": ["train.jsonl"], "labels": {"2": 1e999}}}}'],
)  # fmt: skip
def test_a_damaged_manifest_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    folder = make(tmp_path / "data", 3)
    (folder / MANIFEST).write_text(text)
    with pytest.raises(FormatError, match=r"manifest\.json"):
        corpus_from(str(folder))
    assert not pm.verify(folder).holds


@pytest.mark.parametrize("change", [{"settings": 1}, {"settings": [0]}, {"rows": float("inf")}, {"y": float("nan")}])
def test_a_damaged_manifest_is_replaced_when_the_data_are_made_again(tmp_path: Path, change: dict[str, Any]) -> None:
    folder = make(tmp_path / "data", 3)
    whole = json.loads((folder / MANIFEST).read_text())
    dev = {"splits": {"dev": whole["splits"]["dev"] | change}}
    (folder / MANIFEST).write_text(json.dumps(whole | (change if "settings" in change else dev)))
    assert not pm.verify(folder).holds
    make(folder, 3, ("train", "test"))
    assert set(json.loads((folder / MANIFEST).read_text())["splits"]) == {"train", "test"}
