"""What every file format must do: one that a module adds to FORMATS is tested here without a line more."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import pomona as pm
from pomona.base.errors import FormatError, SpecError
from pomona.data.corpus import Corpus
from pomona.data.formats import FORMATS, Format, FormatRegistry, csv, ptb, recognise
from pomona.data.task import generate

NAMES = list(FORMATS.entries())
TASKS = [  # each format must be able to hold at least one of these
    ("listops/d20s", {"train": 40, "dev": 0, "test": 20}),
    ("orchard/medium/min-max", {"train": 40, "dev": 10, "test": 10, "iid": 10}),
    ("fair_nli/easiest", {"train": 2_400, "dev": 10, "test": 40}),
    ("propositional/deep", {"train": 600, "dev": 10, "test": 10}),
]
ROWS = 40


def own_files() -> tuple[Corpus, ...]:
    """What people bring: labelled trees without values, trees labelled by numbers, and attributes with an answer."""
    words = [f"w{row} ({'NN' * (row % 3 + 1)} the cat) (VP (V sat) -LRB- [ ])" for row in range(ROWS)]
    scores = [f"({row % 5} ({row % 3} w{row}) (1 [MAX good))" for row in range(ROWS)]
    cells = [f'{row},c{row % 7},"a, ""b"" {row}",{row % 2}' for row in range(ROWS)]
    return (
        ptb.parse("\n".join(f"(S {tree})" for tree in words), Path("own.ptb")),
        ptb.parse("\n".join(scores), Path("own.ptb")),
        csv.parse("id,colour,shape,target\n" + "\n".join(cells), Path("own.csv")),
    )


@cache
def rows() -> tuple[Corpus, ...]:
    made = tuple(generate(name, "train", seed=5, **settings)[:ROWS] for name, settings in TASKS)
    return (*made, *own_files())


def held_by(name: str, folder: Path) -> list[Corpus]:
    """The corpora that a format can hold: all of them, or those it does not refuse."""
    held = []
    for corpus in rows():
        try:
            pm.write(corpus, file(name, folder), name)
        except FormatError:
            assert not FORMATS.named(name).holds_everything
        else:
            held.append(corpus)
    assert held
    return held


def file(name: str, folder: Path, stem: str = "rows") -> Path:
    return folder / f"{stem}{FORMATS.named(name).suffix}"


@pytest.mark.parametrize("name", NAMES)
def test_reading_undoes_writing(name: str, tmp_path: Path) -> None:
    for corpus in held_by(name, tmp_path):
        path = pm.write(corpus, file(name, tmp_path))  # by its suffix
        assert recognise(path).name == name
        assert pm.read(path).fingerprint == corpus.fingerprint


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_recognised_under_any_name(name: str, tmp_path: Path) -> None:
    entry = FORMATS.named(name)
    if entry.also:
        pytest.skip("a format of several files finds them by their names")
    for corpus in held_by(name, tmp_path):
        path = pm.write(corpus, file(name, tmp_path), name)
        for suffix in ("", ".txt", ".json", ".tsv", ".jsonl", ".parquet"):
            other = path.rename(tmp_path / f"other{suffix}")
            assert recognise(other).name == name, suffix
            assert pm.read(other).fingerprint == corpus.fingerprint
            path = other


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("chunk", [1, 7, ROWS])
def test_chunks_change_nothing(name: str, chunk: int, tmp_path: Path) -> None:
    for corpus in held_by(name, tmp_path):
        parts = [corpus[first : first + chunk] for first in range(0, len(corpus), chunk)]
        pm.write(parts, file(name, tmp_path), name)
        assert pm.read(file(name, tmp_path)).fingerprint == corpus.fingerprint


@pytest.mark.parametrize("name", NAMES)
def test_a_failure_leaves_the_old_file_and_nothing_else(name: str, tmp_path: Path) -> None:
    corpus = held_by(name, tmp_path)[0]
    pm.write(corpus, file(name, tmp_path), name)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(RuntimeError, match="halfway"):
        pm.write(stopping(corpus), file(name, tmp_path), name)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def stopping(corpus: Corpus) -> Iterator[Corpus]:
    yield corpus[:5]
    raise RuntimeError("halfway")


@pytest.mark.parametrize("name", NAMES)
def test_no_rows_are_no_file(name: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="there are no rows to write"):
        pm.write([], file(name, tmp_path), name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", NAMES)
def test_truncated_files_are_refused_with_a_place(name: str, tmp_path: Path) -> None:
    """What happens to be cut behind a whole example is a shorter file, and no reader can tell."""
    for corpus in held_by(name, tmp_path):
        path = pm.write(corpus, file(name, tmp_path), name)
        whole = path.read_bytes()
        errors = [error_of(path, whole[:end]) for end in range(len(whole) // 3, len(whole) - 2, len(whole) // 20)]
        refused = [error for error in errors if error]
        assert len(refused) >= len(errors) - 2
        assert all(error.startswith(str(tmp_path)) for error in refused)


def error_of(path: Path, data: bytes) -> str:
    """What reading these bytes says, if they cannot be read."""
    path.write_bytes(data)
    try:
        pm.read(path)
    except FormatError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(8))
def test_garbage_is_refused_with_a_place(name: str, seed: int, tmp_path: Path) -> None:
    """A run of random bytes in the middle of a file: an error that names the file, and never another exception."""
    corpus = held_by(name, tmp_path)[0]
    path = pm.write(corpus, file(name, tmp_path), name)
    random = np.random.default_rng(seed)
    data = bytearray(path.read_bytes())
    first = int(random.integers(len(data) // 4, 3 * len(data) // 4))
    data[first : first + 64] = random.integers(128, 256, 64, dtype=np.uint8).tobytes()
    path.write_bytes(bytes(data))
    with pytest.raises(FormatError) as caught:
        pm.read(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_of_its_files_verifies(name: str, tmp_path: Path) -> None:
    for corpus in held_by(name, tmp_path):
        for path in tmp_path.iterdir():
            path.unlink()
        pm.write(corpus[:20], file(name, tmp_path, "train"), name)
        pm.write(corpus[20:], file(name, tmp_path, "test"), name)
        result = pm.verify(tmp_path)
        assert result.holds
        assert sorted((kind, count) for _, kind, count, _ in result.files) == [(name, 20), (name, 20)]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "parquet"])
def test_text_from_windows_is_read_as_text_from_unix(name: str, tmp_path: Path) -> None:
    """Lines that end in CR LF and a byte order mark change neither rows, nor line numbers, nor what errors say."""
    for corpus in held_by(name, tmp_path):
        path = pm.write(corpus, file(name, tmp_path), name)
        unix = {file: file.read_bytes() for file in tmp_path.iterdir()}
        before = pm.read(path)
        for file_, data in unix.items():
            file_.write_bytes(from_windows(data))
        after = pm.read(path)
        assert after.fingerprint == before.fingerprint == corpus.fingerprint
        assert (after.lines is None) == (before.lines is None)
        assert after.lines is None or after.lines.tolist() == before.lines.tolist()
        for end in range(1, len(unix[path]), max(1, len(unix[path]) // 25)):
            cut = unix[path][:end] + b"~\n" + unix[path][end:]
            assert error_of(path, from_windows(cut)) == error_of(path, cut)
        for file_ in unix:
            file_.unlink()


def from_windows(data: bytes) -> bytes:
    """Text as many programs on Windows save it."""
    return b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n")


def test_names_and_suffixes_tell_formats_apart() -> None:
    entries = FORMATS.entries().values()
    assert len({entry.suffix for entry in entries}) == len(entries)
    assert all(entry.suffix.startswith(".") for entry in entries)
    assert sum(entry.holds_everything for entry in entries) >= 2
    one = FORMATS.named("tsv")
    registry = FormatRegistry("pomona.data.formats", "pomona.tasks")
    registry.add(one)
    with pytest.raises(SpecError, match=r"two formats are called 'mine' or end in '\.tsv'"):
        registry.add(Format("mine", ".tsv", one.recognises, FORMATS.named("lra").read, one.writer))


@pytest.mark.parametrize(
    ("call", "spared"),
    [
        ("FORMATS.named('parquet')", ["pomona.tasks.listops", "pomona.tasks.fair_nli", "pomona.tasks.orchard"]),
        ("FORMATS.by_suffix(Path('a.jsonl'))", ["pyarrow", "pomona.tasks.listops", "pomona.tasks.fair_nli"]),
        ("FORMATS.by_content(Path('a.jsonl'), b'{}')", ["pyarrow", "pomona.tasks.fair_nli"]),
        ("[__import__('pomona.tasks.listops'), FORMATS.named('tsv')]", ["pyarrow", "pomona.tasks.fair_nli"]),
    ],
)
def test_only_what_is_needed_is_imported(call: str, spared: list[str]) -> None:
    code = f"""
import sys
from pathlib import Path
from pomona.data.formats import FORMATS
assert {call}
found = set({spared}) & set(sys.modules)
assert not found, found
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert done.returncode == 0, done.stderr
