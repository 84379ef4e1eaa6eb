"""The table of readers is complete: whatever in `src` reads a file or parses JSON is called by one of them.

Each reader refuses the smallest inputs that once broke it, and a few hundred mutated files, with an error of ours.
"""

from __future__ import annotations

import ast
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from campaign import fuzzing, material
from campaign.mutations import mutated
from campaign.readers import READERS

import pomona
from pomona.base.errors import PomonaError

SOURCE = Path(pomona.__file__).parent
READS = {
    "read_bytes", "read_text", "read_lines", "read_json", "parse_json", "json.loads", "deep_json.loads", "np.load",
    "open", "safe_open", "deserialize", "read_table", "ParquetFile", "GzipFile", "ZipFile", "read_magic",
    "tarfile.open",
}  # fmt: skip
# What is read there comes from Pomona itself, from the system, or from the command line.
OURS = {
    "base.machine_code": "machine code in a folder that only the user can write to, sealed by a digest",
    "base.registry": "the text of Pomona's own modules, and settings typed by the user",
    "base.workers": "what a worker of the same command said in a pipe, or the order to it",
    "data.shards.draws:_planned": "sizes that the same command wrote before it was killed, checked for their shape",
    "data.shards.generation:write_shard": "numbers of rows that the same command wrote for its workers",
    "data.statistics:Tally.from_plain": "what a worker of the same command counted",
    "fairness.evidence:_join": "what a worker of the same command found, in its own temporary folder",
    "shortcuts.ladder:ladder_of_shard": "lessons that the same command wrote for its workers",
    "shortcuts.lessons:_value": "the same lessons",
    "base.locks": "locks, which have no content",
    "cli.main": "the null device",
    "cli.verbs": "the text of Pomona's own commands",
    "cli.commands.demo:_representations": "the fit that was written in the line before",
    "reports.page:_asset": "the page's own template and scripts",
    "training.run:_processor": "/proc/cpuinfo",
    "papers.tre_2019.folders:Folder.open": "settings that were made into JSON in the line before",
    "base.files:replacing": "what was just written", "base.files:_Beside": "what was just written",
    "base.files:_sync_folder": "a folder", "base.files:_is_abandoned": "a lock", "base.files:_create": "a new file",
    "base.files:_through_copy": "what was just written",
    "data.datasets:rewriting": "the manifest that `Dataset.read` reads, kept to be put back",
    "evaluation.records:_digest": "bytes that are only hashed",
    "training.checkpoints:keep_trunk": "a state that is copied as it is; `load_state` reads it",
    "training.checkpoints:begin_from": "a state that is copied as it is; `load_state` reads it",
    "cli.commands.sweep": "the declaration that `Plan.read` reads, with what was typed",
    "sweeps.local": "what a worker of the same sweep said in a pipe", "sweeps.orders": "the order to such a worker",
    "sweeps.sweep": "the declaration that the sweep itself wrote", "sweeps.table": "the first line of a traceback",
    "sweeps.search": "a pass over what was declared",
}  # fmt: skip
# Read by experiments, which `make campaign` runs; too slow here.
SLOW = ("papers.tre_2019.",)


def reading_functions() -> Iterator[str]:
    """Every function in `src` that calls something that reads, as module:function."""
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        yield from (f"{module}:{name}" for name in _reading(ast.parse(path.read_text()), ""))


def _reading(tree: ast.AST, owner: str) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            name = f"{owner}.{node.name}" if owner else node.name
            yield from _reading(node, name)
        elif isinstance(node, ast.Call) and _reads(node):
            yield owner
            yield from _reading(node, owner)
        else:
            yield from _reading(node, owner)


def _reads(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    last = name.rpartition(".")[2]
    if last == "open":
        words = [
            node.value
            for node in [*call.args, *(item.value for item in call.keywords)]
            if isinstance(node, ast.Constant)
        ]
        writes = any(isinstance(word, str) and set(word) <= set("wax+bt") and set(word) & set("wax") for word in words)
        return not writes and name not in ("Run.open", "Folder.open", "webbrowser.open", "Source(**source).open")
    return last in READS or name in READS


def excused(name: str) -> bool:
    module, _, function = name.partition(":")
    places = (module, name, f"{module}:{function.split('.')[0]}")
    return any(place in OURS for place in places) or name.startswith(SLOW)


# -- in another process, so that torch's threads do not come between ---------------------------------------------------


def in_child(work: Callable[[], Any]) -> Any:
    """What a function returns in a forked process."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        try:
            with os.fdopen(into, "w") as pipe:
                pipe.write(json.dumps(work()))
        finally:
            os._exit(0)
    os.close(into)
    with os.fdopen(out) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("campaign") / "home"
    in_child(lambda: str(material.make(folder, experiments=False)))
    return folder


def here(home: Path) -> list[str]:
    return [name for name, reader in READERS.items() if (home / reader.file).exists()]


def called(home: Path) -> list[str]:
    """The functions of `src` that the readers call when they read whole files."""
    seen: set[tuple[str, str]] = set()

    def watch(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            seen.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    sys.setprofile(watch)
    for read in {READERS[name].read: None for name in here(home)}:
        read(home)
    sys.setprofile(None)
    named = []
    for file, function in seen:
        if Path(file).is_relative_to(SOURCE):
            module = ".".join(Path(file).relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
            named.append(f"{module}:{function.replace('.<locals>', '').split('.<')[0]}")
    return named


def test_every_function_that_reads_is_called_by_a_reader_of_the_table(home: Path) -> None:
    known = set(in_child(lambda: called(home)))
    forgotten = sorted({name for name in reading_functions() if name not in known and not excused(name)})
    assert forgotten == []


def test_a_new_reader_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "new.py").write_text("class A:\n    def b(self, path):\n        return json.loads(path.read_text())\n")
    monkeypatch.setattr("test_campaign_readers.SOURCE", tmp_path)
    assert set(reading_functions()) == {"new:A.b"}


def npy(shape: str) -> bytes:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header


def tensors(**arrays: Any) -> bytes:
    header = json.dumps({**arrays, "__metadata__": {"about": "{}"}}).encode()
    return len(header).to_bytes(8, "little") + header + b"\0" * 8


SENTENCE = "a b c d e f g h i"
SMALLEST: list[tuple[str, bytes]] = [
    ("npz", b"PK\3\4"),
    ("npy", npy("(4,( 3)")),
    ("npy", npy("(1000000000000, 3)")),
    ("derivations", b'["d",' + b"1" * 5_000 + b"]\n"),
    ("meanings", b'[["x"]]\n'),
    ("meanings", b"null\n"),
    ("snli", b'{"gold_label": ' + b"[" * 3_000 + b', "sentence1": "a", "sentence2": "b"}\n'),
    ("snli", f'{{"gold_label": "neutral", "sentence1": "\\ud800{SENTENCE[1:]}", "sentence2": "{SENTENCE}"}}'.encode()),
    ("digits", bytes.fromhex("1f8b080000000000ffffff7f")),
    ("frequencies", b"\xff"),
    ("binary word2vec", b"2 99999999999999999999\n"),
    ("recipe", b"[" * 3_000),
    ("summary", b'{"best_epoch": 1, "dev": ""}'),
    ("summary", b"[" * 3_000),
    ("curve", b'{"epoch": 0, "loss": Infinity, "train": 1, "dev": 1, "rate": 1}\n'),
    ("scores", b'{"test": {"accuracy": 2, "by": {}}}'),
    ("scores", b'{"test": {"accuracy": 0.5, "rows": -1, "by": {}}}'),
    ("evaluation in a report", b'{"accuracy": 1e300, "by": {}, "fingerprint": "x"}'),
    ("weights", b"\x02\0\0\0\0\0\0\0{}"),
    ("certificate", b'{"format": "pomona certificate 1", "train": ""}'),
    ("recipe of weights", b"0"),
    ("results that are added to", b'{"paper": "A campaign", "cells": [], "runs": [{"row": "x", "recipe": "y"}]}'),
    ("fit in a report", b'{"per_item": [], "certificate": {}, "score": null}'),
    ("manifest", b'{"splits": {"test": {"files": ["test.parquet"], "rows": "x"}}}'),
    ("vectors with derivations", b"PK\3\4"),
    ("manifest", b'{"splits": {"test": {"files": ["a\\u0000b"], "rows": 6, "fingerprint": "x"}}}'),
    ("what was tracked", b'{"epochs": "x"}'),
    ("recipe in TOML", b"epochs = " + b"9" * 5_000),
    ("plan of a sweep", b'model = "lstm"\nseeds = 100000000000000000000\n'),
    ("recipe of weights", b'{"model": "lstm", "settings": {"width": ' + b"[" * 900 + b"]" * 900 + b"}}"),
    ("results that are added to", b'{"paper": "A campaign", "cells": [], "more": {"x": Infinity}}'),
    ("predictions", tensors(BF16={"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]})),
    ("predictions", tensors(logits={"dtype": "F32", "shape": [10**12, 2], "data_offsets": [0, 8 * 10**12]})),
]


def derived(home: Path) -> list[tuple[str, bytes]]:
    """Small changes of real files, with a right digest where there is one."""
    from pomona.training import tensors

    arrays, about = tensors.read(home / "paused/state.safetensors")
    states = ({"x": 1}, {"step": "x"}, {"step": -1}, {"step": None})
    changed = [tensors.to_bytes(arrays, {**about, "state": {**about["state"], **more}}) for more in states]
    vectors = (home / "vectors/vectors.parquet").read_bytes()
    fit = (home / "reports/fit.json").read_bytes()
    compared = json.loads((home / "reports/comparison.json").read_bytes())
    sides = ({"value": 1.0, "name": "x"}, {**compared["sides"][0], "accuracies": 5}, {"name": "x", "interval": None})
    comparisons = [json.dumps({**compared, "sides": [side]}).encode() for side in sides]
    return [
        *(("state", data) for data in changed),
        ("vectors in parquet", vectors.replace(b"red_square", b"\xffed_square")),
        ("fit in a report", fit.replace(b'"gap": 0.0', b'"gap": Infinity')),
        *(("comparison in a report", data) for data in comparisons),
    ]


def refused(home: Path, name: str, data: bytes) -> str:
    """What reading a file says, in a copy of the material."""
    with material_copy(home, name) as copy:
        (copy / READERS[name].file).write_bytes(data)
        try:
            READERS[name].read(copy)
        except PomonaError as error:
            return str(error)
        except BaseException as error:
            return f"RAW {type(error).__name__}: {error}"
        return "READ"


def material_copy(home: Path, name: str) -> Any:
    import contextlib
    import shutil
    import tempfile

    @contextlib.contextmanager
    def copied() -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as folder:
            top = READERS[name].file.split("/")[0]
            shutil.copytree(home / top, Path(folder) / top)
            yield Path(folder)

    return copied()


def test_the_smallest_inputs_that_once_broke_a_reader_are_refused(home: Path) -> None:
    inputs = [*SMALLEST, *derived(home)]
    assert all(data != (home / READERS[name].file).read_bytes() for name, data in inputs)
    said = in_child(lambda: [refused(home, name, data) for name, data in inputs])
    wrong = [(name, data[:60], words) for (name, data), words in zip(inputs, said, strict=True)
             if words == "READ" or words.startswith("RAW")]  # fmt: skip
    assert wrong == []


def outcomes(home: Path, cases: int) -> list[tuple[str, int, str, str]]:
    """Reader, case, what happened and what is wrong with it, for the first cases of every reader."""
    found = []
    fuzzing.limited()
    for name in here(home):
        reader = READERS[name]
        original = (home / reader.file).read_bytes()
        with material_copy(home, name) as copy:
            for number in range(cases if not reader.writes else 1):
                (copy / reader.file).write_bytes(fuzzing.case(reader, [original], 20, number))
                found.append((name, number, *fuzzing.outcome(reader, copy)))
    return found


def test_mutated_files_are_refused_or_read(home: Path) -> None:
    """A short form of `python -m campaign fuzz`: a few cases of every reader."""
    found = in_child(lambda: outcomes(home, 5))
    assert [one for one in found if one[3]] == []
    assert {what for _, _, what, _ in found} == {"refused", "read"}
    assert len(found) > 200


def test_a_case_depends_on_the_seed_alone_and_a_raw_exception_is_found(home: Path, tmp_path: Path) -> None:
    data = (home / "corpora/lists.jsonl").read_bytes()
    assert mutated(data, random.Random(3)) == mutated(data, random.Random(3)) != mutated(data, random.Random(4))

    def breaks(home: Path) -> None:
        raise KeyError("x")

    reader = fuzzing.Reader("broken", "corpora/lists.tsv", breaks)
    kept = tmp_path / "fuzz.json"
    findings = fuzzing.fuzz([reader], home, cases=2, kept=kept)
    assert findings.counts == {"raw exception": 2}
    assert all("KeyError" in what for _, _, what in findings.wrong)
    more = fuzzing.fuzz([reader], home, cases=3, kept=kept)  # goes on from there
    assert (more.counts["raw exception"], [number for _, number, _ in more.wrong]) == (3, [0, 1, 2])
