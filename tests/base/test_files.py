"""Files are whole or not there: whatever happens on the way, the old content stands or the new one does."""

from __future__ import annotations

import errno
import fcntl
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
from pomona.base.files import is_left_over, read_bytes, read_json, replacing, write_json
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

    errors: list[Exception] = []

    def write(content: bytes) -> None:
        while time.monotonic() < stop:
            try:
                with replacing(target) as beside:
                    beside.write_bytes(content)
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    seen = set()
    while time.monotonic() < stop:
        if target.exists():
            seen.add(target.read_bytes())
    for thread in threads:
        thread.join()
    assert errors == []
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


# -- what is in the way stays as it is ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755])
def test_a_replaced_file_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    target = tmp_path / "file"
    target.touch()
    target.chmod(mode)
    seen = []
    with replacing(target) as beside:
        seen.append(beside.stat().st_mode & 0o077)  # nobody looks into a secret while it is written
        beside.write_text("new")
    assert (target.read_text(), target.stat().st_mode & 0o777, seen) == ("new", mode, [mode & 0o077])


def test_a_new_file_has_the_permissions_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_json(tmp_path / "file", 1)
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    for name in ("there", "not yet"):
        link = tmp_path / f"link to {name}"
        link.symlink_to(Path("real") / name)
        write_json(link, name)
        write_json(link, name)
        assert link.is_symlink()
        assert (tmp_path / "real" / name).read_text() == f'"{name}"\n'
    assert listing(tmp_path / "real") == ["not yet", "there"]
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(FormatError, match="cannot be written: Too many levels of symbolic links"):
        write_json(tmp_path / "round", 1)


def test_a_pipe_or_device_is_written_to(tmp_path: Path, corpus: Corpus) -> None:
    pipe = tmp_path / "rows.parquet"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    pm.write(corpus, pipe)
    reader.join()
    assert pipe.is_fifo()
    (tmp_path / "copy.parquet").write_bytes(received[0])
    assert pm.read(tmp_path / "copy.parquet").fingerprint == corpus.fingerprint
    write_json("/dev/null", 1)
    assert Path("/dev/null").is_char_device()
    with pytest.raises(FormatError, match="/dev/full: cannot be written: No space left on device"):
        write_json("/dev/full", 1)


def test_the_folder_is_flushed_after_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this a crash of the machine may forget that the file was renamed."""
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda number: flushed.append(str(Path(f"/proc/self/fd/{number}").readlink())))
    write_json(tmp_path / "new" / "file", 1)
    assert flushed[0] == str(tmp_path)  # which holds a new folder
    assert flushed[1].endswith(".part")
    assert flushed[2] == str(tmp_path / "new")


@pytest.mark.parametrize("length", [240, 255])
def test_the_longest_names_can_be_written(tmp_path: Path, length: int) -> None:
    write_json(tmp_path / ("é" * 100 + "x" * (length - 200)), 1)
    assert len(listing(tmp_path)) == 1


def test_names_that_cannot_be_written_say_so(tmp_path: Path) -> None:
    for path in (tmp_path / ("x" * 300), tmp_path / ("x/" * 2500)):
        with pytest.raises(FormatError, match="cannot be written: File name too long"):
            write_json(path, 1)


def test_names_that_are_not_utf_8_are_names(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9")
    write_json(path, {"path": str(path)})
    assert read_json(path) == {"path": str(path)}


# -- what killed processes leave ---------------------------------------------------------------------------------------


def test_left_overs_are_removed_unless_they_are_in_use_or_not_ours(tmp_path: Path) -> None:
    dead = [".file.00000000.part", ".file.11111111.part", ".file.11111111.part.label", ".file.22222222.part.before"]
    others = [".file.0000000.part", ".other.00000000.part", "file.00000000.part", ".file.00000000.part2"]
    for name in [*dead, *others]:
        (tmp_path / name).touch()
    with replacing(tmp_path / "file") as first:
        (first.with_name(first.name + ".label")).touch()
        first.write_text("first")
        write_json(tmp_path / "file", 1)
        assert set(listing(tmp_path)) == {"file", first.name, f"{first.name}.label", *others}
        first.with_name(first.name + ".label").unlink()
    assert (tmp_path / "file").read_text() == "first"
    assert set(listing(tmp_path)) == {"file", *others}
    assert [is_left_over(Path(name)) for name in (*dead, "file", ".lock", ".part")] == [True] * 4 + [False] * 3


def test_a_system_without_locks_writes_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unlocked(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unlocked)
    (tmp_path / ".file.00000000.part").touch()
    write_json(tmp_path / "file", 1)
    assert listing(tmp_path) == [".file.00000000.part", "file"], "without locks nobody knows who still writes"


# -- JSON --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[1,\n 2", "line 2, column 3: this is not JSON: Expecting ',' delimiter"),
        (b"[" * 100_000, ": this JSON is nested too deeply"),
        (b"1" * 5_000, ": this JSON holds a number that is too long"),
        (b'"\xff"', "line 1: this is not UTF-8"),
        (b"", "line 1, column 1: this is not JSON: Expecting value"),
    ],
)
def test_json_that_cannot_be_read_says_where(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "file.json").write_bytes(content)
    with pytest.raises(FormatError) as caught:
        read_json(tmp_path / "file.json")
    assert str(caught.value).startswith(f"{tmp_path / 'file.json'}")
    assert str(caught.value).endswith(message)
