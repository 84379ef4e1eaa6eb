"""Shards by commands: killed with SIGKILL and run again; read by the other commands; what is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

import pomona as pm
from pomona.data.formats import parquet
from pomona.data.shards.generation import generate_shards

from command_line import ENVIRONMENT, PROGRAM, Run  # isort: skip

TASK = "listops/d20s"
SIZES = {"train": 900, "dev": 100, "test": 120}
SETTINGS = [word for name, rows in SIZES.items() for word in ("--set", f"{name}={rows}")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return generate_shards(TASK, tmp_path / "data", shards=3, rows=900, split="train,test", **SIZES)


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


def test_the_command_resumes_after_sigkill(tmp_path: Path, run: Run) -> None:
    """The real command with two processes, killed when some shards are there; they are not written again."""
    words = [*f"generate {TASK} --rows 30000 --shards 12 --workers 2 --split train --quiet --out".split(),
             str(tmp_path / "killed"), *SETTINGS]  # fmt: skip
    process = subprocess.Popen([*PROGRAM, *words], env=ENVIRONMENT, start_new_session=True)
    while process.poll() is None and len(list((tmp_path / "killed").glob("*.parquet"))) < 3:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    there = {path.name: path.stat().st_ino for path in (tmp_path / "killed/.shards/train").glob("*.parquet.json")}
    files = {name: (tmp_path / "killed" / name.removesuffix(".json")).stat().st_ino for name in there}
    assert len(files) >= 2
    assert run(*words).status == 0
    assert {name: (tmp_path / "killed" / name.removesuffix(".json")).stat().st_ino for name in there} == files
    whole = pm.generate(TASK, size=30_000, progress=False, **SIZES)
    assert pm.read(tmp_path / "killed").fingerprint == whole.fingerprint


def test_the_command_writes_what_the_function_writes(folder: Path, tmp_path: Path, run: Run) -> None:
    words = f"generate {TASK} --rows 900 --shards 3 --split train,test --workers 1 --out".split()
    result = run(*words, tmp_path / "by-command", *SETTINGS)
    assert result.status == 0
    assert "data seed 0" in result.out
    assert bytes_of(tmp_path / "by-command") == bytes_of(folder)
    assert parquet.said(folder / "train-00001-of-00003.parquet")["origin"]["split"] == "train"
    assert run(*words, tmp_path / "by-command", *SETTINGS, "--json").json["splits"]["test"]["rows"] == 120


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("--shards 2 --format tsv", "shards are Parquet files; leave --format out"),
        ("--shards 2 --rows 5 --size 6", "--rows 5 and --size 6 say the same thing"),
        ("--shards 2 --on moon", "on = 'moon': workers are on local or ray"),
        ("--shards 2 --address here:1", "address = 'here:1' is of a Ray cluster"),
        ("--on ray", "--on and --address go with --shards"),
    ],
)
def test_what_cannot_be_is_said(words: str, error: str, tmp_path: Path, run: Run) -> None:
    result = run("generate", TASK, "--out", tmp_path / "no", *words.split())
    assert result.status == 3
    assert error in " ".join(result.err.split())
    assert not (tmp_path / "no").exists()


def test_commands_say_the_same_of_shards_and_of_one_file(folder: Path, tmp_path: Path, run: Run) -> None:
    one = tmp_path / "one"
    words = ["generate", TASK, "--rows", 900, "--split", "train,test", "--quiet", "--out", one, *SETTINGS]
    assert run(*words).status == 0
    for split in ("train", "test"):
        found = [run("stats", where, "--split", split, "--workers", 1, "--json").json for where in (folder, one)]
        assert found[0] == found[1]
    assert "average token depth" in run("stats", folder, "--split", "train", "--workers", 1).out
    assert run("verify", folder, "--workers", 1).status == run("verify", one).status == 0
    certified = [run("certify", where, "--json", "--workers", 1).json for where in (folder, one)]
    assert certified[0] == certified[1]
    assert certified[0]["train"] == 900
    unfair = run("certify", folder, "--workers", 1, "--most", 2)
    assert unfair.status == 1
    assert "Never shown, needed at" in unfair.out
    ladders = [run("ladder", where, "--train", where, "--levels", 1, "--workers", 1, "--json").json
               for where in (folder, one)]  # fmt: skip
    assert ladders[0]["rungs"] == ladders[1]["rungs"]
    assert "3 files" in ladders[0]["learnt_from"]
    assert run("show", folder, "--split", "train").status == 0


def test_a_large_folder_is_laddered_by_parts(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    in_memory = run("ladder", folder, "--levels", 1, "--json").json
    monkeypatch.setattr("pomona.cli.commands.ladder.IN_MEMORY", 10)
    by_parts = run("ladder", folder, "--levels", 1, "--workers", 1, "--json").json
    assert by_parts["rungs"] == in_memory["rungs"]
    assert by_parts["corpus"] == "Shards(listops, test: 120 examples in 1 file)"


def test_a_missing_shard_is_an_error_of_every_command(folder: Path, run: Run) -> None:
    (folder / "train-00001-of-00003.parquet").unlink()
    for words in (["stats", folder, "--split", "train"], ["certify", folder], ["ladder", folder, "--train", folder]):
        result = run(*words, "--workers", 1)
        assert result.status == 3
        assert "train-00001-of-00003.parquet: the manifest lists this shard, and it is not there" in " ".join(
            result.err.split()
        )
    assert run("verify", folder, "--workers", 1).status == 1
