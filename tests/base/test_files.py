"""Files are whole or not there: whatever happens on the way, the old content stands or the new one does."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pomona as pm
from pomona.base.errors import FormatError
from pomona.base.files import read_bytes, replacing, write_json
from pomona.data import formats
from pomona.data.corpus import Corpus

NAMES = ["parquet", "jsonl", "tsv", "lra"]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(pm.__file__).parents[1])}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return pm.generate("listops/d20s", split="test", seed=3, train=60, dev=20, test=20)


def suffixed(folder: Path, name: str) -> Path:
    return folder / f"rows{formats.FORMATS.named(name).suffix}"


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- the law: old or new, and no litter ------------------------------------------------------------------------------


@given(old=st.one_of(st.none(), st.binary(max_size=20)), new=st.binary(max_size=20), fails=st.booleans())
def test_the_old_file_or_the_new_one_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, old: bytes | None, new: bytes, fails: bool
) -> None:
    folder = tmp_path_factory.mktemp("files")
    target = folder / "file"
    if old is not None:
        target.write_bytes(old)
    try:
        with replacing(target) as beside:
            beside.write_bytes(new)
            assert (target.read_bytes() if target.exists() else None) == old  # nothing shows before the end
            if fails:
                raise RuntimeError("on the way")
    except RuntimeError:
        assert fails
    expected = old if fails else new
    assert (target.read_bytes() if target.exists() else None) == expected
    assert listing(folder) == ([] if expected is None else ["file"])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wrong", [RuntimeError("a bug"), KeyboardInterrupt(), MemoryError()])
def test_a_stream_that_breaks_leaves_the_old_rows(
    tmp_path: Path, corpus: Corpus, name: str, wrong: BaseException
) -> None:
    path = suffixed(tmp_path, name)
    pm.write(corpus[:3], path, name)

    def broken() -> Any:
        yield corpus[3:10]
        raise wrong

    with pytest.raises(type(wrong)):
        pm.write(broken(), path, name)
    assert pm.read(path).fingerprint == corpus[:3].fingerprint
    assert listing(tmp_path) == [path.name]


@pytest.mark.parametrize("name", NAMES)
def test_a_close_that_fails_too_does_not_hide_what_went_wrong(
    tmp_path: Path, corpus: Corpus, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(self: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(formats.FORMATS.named(name).writer, "close", cannot)
    with pytest.raises(RuntimeError, match="the first thing"), formats.writing(tmp_path / "rows", name):
        raise RuntimeError("the first thing")
    assert listing(tmp_path) == []


KILLED = """
import sys
import pomona as pm
small, large = (pm.generate("listops/d20s", split="test", seed=seed, train=600, dev=20, test=200) for seed in (1, 2))
print("ready", flush=True)
while True:
    pm.write(large, sys.argv[1])
    pm.write(small, sys.argv[1])
"""


@pytest.mark.parametrize("name", ["parquet", "tsv"])
def test_a_writer_killed_at_any_moment_leaves_a_whole_file(tmp_path: Path, name: str) -> None:
    path = suffixed(tmp_path, name)
    whole = {pm.generate("listops/d20s", split="test", seed=s, train=600, dev=20, test=200).fingerprint for s in (1, 2)}
    for moment in (0.011, 0.047):
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, env=ENVIRONMENT)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            while not path.exists():
                time.sleep(0.001)
            time.sleep(moment)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        assert pm.read(path).fingerprint in whole
    rest = [one for one in listing(tmp_path) if one != path.name]
    assert all(one.startswith(".") and one.endswith(".part") for one in rest)
    assert pm.verify(tmp_path).holds  # what a killed writer leaves behind is not taken for data


def test_two_writers_of_one_file_leave_one_of_the_two(tmp_path: Path) -> None:
    target = tmp_path / "file"
    contents = [bytes([letter]) * 50_000 for letter in b"ab"]
    stop = time.monotonic() + 0.5

    def write(content: bytes) -> None:
        while time.monotonic() < stop:
            with replacing(target) as beside:
                beside.write_bytes(content)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    seen = set()
    while time.monotonic() < stop:
        if target.exists():
            seen.add(target.read_bytes())
    for thread in threads:
        thread.join()
    assert seen <= set(contents)
    assert listing(tmp_path) == ["file"]


# -- what cannot be written ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_is_an_error_with_the_name_of_the_file(
    tmp_path: Path, corpus: Corpus, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = suffixed(tmp_path, name)
    pm.write(corpus[:3], path, name)

    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FormatError, match="cannot be written: No space left on device") as caught:
        pm.write(corpus, path, name)
    assert str(caught.value).startswith(f"{path}: ")
    assert pm.read(path).fingerprint == corpus[:3].fingerprint
    assert listing(tmp_path) == [path.name]


def test_a_device_that_is_full_is_an_error_while_writing(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """/dev/full takes nothing: here the write itself fails, not the flush at the end."""
    from contextlib import contextmanager

    @contextmanager
    def onto_full(path: str | Path) -> Any:
        try:
            yield Path("/dev/full")
        except OSError as error:
            raise FormatError(f"cannot be written: {error.strerror}", path=path) from error

    monkeypatch.setattr(formats, "replacing", onto_full)
    for name in ("jsonl", "tsv", "lra"):
        with pytest.raises(FormatError, match="No space left on device"):
            pm.write(corpus, f"rows.{name}", name)


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("in the way")
    with pytest.raises(FormatError, match=r"data/file: cannot be written: (File exists|Not a directory)"):
        write_json(tmp_path / "data" / "file", {})
    with pytest.raises(FormatError, match="cannot be written: Not a directory"):
        write_json(tmp_path / "data" / "deep" / "file", {})
    assert (tmp_path / "data").read_text() == "in the way"


@pytest.mark.parametrize("path", ["", ".", "/", "folder"])
def test_a_folder_is_not_overwritten(tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    with pytest.raises(FormatError, match="this is a folder; name a file in it"):
        write_json(path, {})
    assert listing(tmp_path) == ["folder"]


def test_a_pipe_or_device_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(FormatError, match="this is a device or a pipe; name a file"):
        write_json(pipe, {})
    assert pipe.is_fifo()


def test_missing_folders_are_made(tmp_path: Path) -> None:
    write_json(tmp_path / "a" / "b" / "c.json", {"é": [1, 2.5, None]})
    assert (tmp_path / "a" / "b" / "c.json").read_text("utf-8") == '{\n  "é": [\n    1,\n    2.5,\n    null\n  ]\n}\n'


def test_a_value_that_is_not_json_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "file", float("nan"))
    assert listing(tmp_path) == []


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"nowhere: cannot be read: No such file or directory"):
        read_bytes(tmp_path / "nowhere")
    with pytest.raises(FormatError, match="cannot be read: Is a directory"):
        read_bytes(tmp_path)
