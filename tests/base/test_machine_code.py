"""The cache of machine code: kept between processes, never older than any file it was made from, and nobody else's."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pomona
from pomona.base import machine_code

PACKAGE = Path(pomona.__file__).parent
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.parent != PACKAGE]


def small_package(folder: Path, **files: str) -> dict[str, str]:
    """A package `pomona` with compiled loops and these files; the environment of processes that import it."""
    package = folder / "pomona"
    (package / "base").mkdir(parents=True)
    for name in ("compiled", "machine_code", "files", "locks", "errors"):
        shutil.copy(PACKAGE / "base" / f"{name}.py", package / "base")
    for init in (package, package / "base"):  # else an installed pomona would come first
        (init / "__init__.py").touch()
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("NUMBA_CACHE_DIR", None)
    return environment


def run(code: str, environment: dict[str, str], folder: Path) -> list[str]:
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


LOOP = (
    "from pomona.base.compiled import compiled\nfrom pomona.rule import rule\n\n"
    "@compiled\ndef loop(n):\n    return rule(n) + 1\n"
)


def test_a_change_in_one_file_reaches_the_loops_of_another(tmp_path: Path) -> None:
    environment = small_package(tmp_path, loop=LOOP)
    package = tmp_path / "pomona"

    def answer(factor: int) -> tuple[int, int]:
        """What the loop gives with this rule, and how often it came from the cache."""
        (package / "rule.py").write_text(
            f"from pomona.base.compiled import inlined\n\n@inlined\ndef rule(n):\n    return n * {factor}\n"
        )
        code = "from pomona.loop import loop; print(loop(3), sum(loop.stats.cache_hits.values()))"
        value, hits = run(code, environment, tmp_path)
        return int(value), int(hits)

    assert answer(2) == (7, 0)
    assert answer(2) == (7, 1)
    assert answer(5) == (16, 0)
    assert answer(2) == (7, 1)
    (package / "other.py").write_text("from pomona.base.compiled import compiled  # not imported by loop\n")
    assert answer(2) == (7, 1)
    assert len(list((package / "__pycache__").glob("loops-pomona.loop-*"))) == 2


TABLE = """
from pomona.base.compiled import compiled

@compiled
def table(words):
    places = {}
    for place, word in enumerate(words):
        places[word] = place
    return places["b"]

@compiled
def total(n):
    return n + 1
"""


def test_stored_code_runs_without_the_compilers_tables(tmp_path: Path) -> None:
    """Even where it hashes texts, with secrets that Numba adds to the symbols of the process."""
    environment = small_package(tmp_path, table=TABLE)
    call = "from pomona.table import total, table; import sys; print(total(1), 'scipy.linalg' in sys.modules)\n"
    words = "print(table(('a', 'b', 'c')), sum(table.stats.cache_hits.values()))"
    assert run(call + words, environment, tmp_path) == ["2", "True", "1", "0"]  # compiled
    assert run(call + words, environment, tmp_path) == ["2", "False", "1", "1"]  # loaded


def test_a_users_own_loops_are_compiled_again_when_what_they_take_from_pomona_changes(tmp_path: Path) -> None:
    environment = small_package(tmp_path, rule="SCALE = 2\n")
    (tmp_path / "mine.py").write_text(
        "from pomona.base.compiled import compiled\nfrom pomona.rule import SCALE\n\n"
        "@compiled\ndef scaled(n):\n    return n * SCALE\n"
    )
    code = "from mine import scaled; print(scaled(3))"
    assert run(code, environment, tmp_path) == ["6"]
    (tmp_path / "pomona" / "rule.py").write_text("SCALE = 5\n")
    assert run(code, environment, tmp_path) == ["15"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_are_read_as_python_reads_them(path: Path) -> None:
    """The cache finds imports by a pattern, which is quick; here by Python's own parser."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    module = ".".join(["pomona", *(parts[:-1] if parts[-1] == "__init__" else parts)])
    expected = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            expected |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            expected |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    files = {name for name in expected if is_module(name)}
    assert set(machine_code.imports_of(module)) == files


def is_module(name: str) -> bool:
    path = PACKAGE.parent.joinpath(*name.split("."))
    return name.split(".")[0] == "pomona" and (path.with_suffix(".py").is_file() or (path / "__init__.py").is_file())


def states(home: Path) -> set[str]:
    return {path.name for path in home.iterdir()}


def test_the_states_used_last_are_kept_and_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    module = "pomona.trees.forest"
    ours = [f"loops-{module}-{number:016x}" for number in range(6)]
    others = [f"loops-{module}-notes", f"loops-{module}-{0:016X}Z", f"loops-{module}.x-{1:016x}", "loops-mine", "x"]
    for age, name in enumerate([*ours, *others]):
        (tmp_path / name).mkdir(mode=0o700)
        os.utime(tmp_path / name, (1_000_000 - age, 1_000_000 - age))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"loops-{module}-{9:016x}").symlink_to(tmp_path / "elsewhere")
    machine_code._folder.cache_clear()
    folder = machine_code._folder(str(tmp_path), module)
    assert folder is not None
    assert folder.stat().st_mode & 0o777 == 0o700
    assert states(tmp_path) == {folder.name, *ours[:3], *others, "elsewhere", f"loops-{module}-{9:016x}"}
    os.utime(folder, (1, 1))
    machine_code._folder.cache_clear()
    assert machine_code._folder(str(tmp_path), module) == folder
    assert folder.stat().st_mtime > 1_000_000, "a state that is used counts as new"
    machine_code._folder.cache_clear()


# -- damage and strangers ----------------------------------------------------------------------------------------------

CALL = "from pomona.loop import loop; print(loop(3), sum(loop.stats.cache_hits.values()))"
RULE = "from pomona.base.compiled import inlined\n\n@inlined\ndef rule(n):\n    return n * 2\n"
MISS, HIT = ["7", "0"], ["7", "1"]


@pytest.fixture
def cached(tmp_path: Path) -> tuple[dict[str, str], Path]:
    """An environment with a folder for machine code of its own, and the folder with what was compiled."""
    environment = small_package(tmp_path, loop=LOOP, rule=RULE)
    environment["NUMBA_CACHE_DIR"] = str(tmp_path / "cache")
    environment["XDG_CACHE_HOME"] = str(tmp_path / "home")
    assert run(CALL, environment, tmp_path) == MISS
    assert run(CALL, environment, tmp_path) == HIT
    (state,) = (tmp_path / "cache").glob("loops-pomona.loop-*")
    return environment, state


@pytest.mark.parametrize("kind", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", ["emptied", "cut off", "one bit", "foreign"])
def test_a_damaged_file_is_compiled_and_written_again(
    cached: tuple[dict[str, str], Path], kind: str, damage: str
) -> None:
    environment, state = cached
    (file,) = (path for path in state.iterdir() if path.suffix == kind)
    content = bytearray(file.read_bytes())
    if damage == "one bit":
        content[len(content) // 2] ^= 4
    file.write_bytes({"emptied": b"", "cut off": content[:-9], "one bit": content, "foreign": b"\x80\x04."}[damage])
    assert run(CALL, environment, state.parent) == MISS
    assert run(CALL, environment, state.parent) == HIT


PLANTED = """
import pickle, sys
class Planted:
    def __reduce__(self):
        return (exec, ("import pathlib; pathlib.Path('ran').touch()",))
open(sys.argv[1], "wb").write(pickle.dumps("0.0") + pickle.dumps(Planted()))
"""


def test_nothing_that_others_could_have_written_is_loaded(cached: tuple[dict[str, str], Path]) -> None:
    environment, state = cached
    index = next(state.glob("*.nbi"))
    index.chmod(0o666)
    assert run(CALL, environment, state.parent) == MISS  # and written again, as ours
    assert run(CALL, environment, state.parent) == HIT
    state.chmod(0o777)
    assert run(CALL, environment, state.parent) == MISS
    assert list((state.parent.parent / "pomona" / "__pycache__").glob("loops-pomona.loop-*")), "kept elsewhere instead"
    state.chmod(0o700)
    subprocess.run([sys.executable, "-c", PLANTED, str(index)], check=True)
    assert run(CALL, environment, state.parent) == MISS
    assert not (state.parent / "ran").exists()


def test_a_folder_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "_PACKAGE", tmp_path / "package")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "package" / "__pycache__").mkdir(parents=True)
    monkeypatch.setattr(os, "getuid", lambda: 4321)  # the folders belong to whoever runs this test
    machine_code._folder.cache_clear()
    assert machine_code._folder("", "pomona.trees.forest") is None
    machine_code._folder.cache_clear()


@pytest.mark.parametrize("trouble", ["dangling link", "a file", "read-only", "others may write"])
def test_a_folder_that_cannot_be_used_costs_only_time(tmp_path: Path, trouble: str) -> None:
    environment = small_package(tmp_path, loop=LOOP, rule=RULE)
    cache = tmp_path / "cache"
    environment["NUMBA_CACHE_DIR"] = str(cache)
    environment["XDG_CACHE_HOME"] = str(tmp_path / "home")
    if trouble == "dangling link":
        cache.symlink_to(tmp_path / "nowhere")
    elif trouble == "a file":
        cache.touch()
    elif trouble == "read-only":
        environment["NUMBA_CACHE_DIR"] = "/proc/nowhere"
    else:
        cache.mkdir()
        cache.chmod(0o777)
    done = subprocess.run(
        [sys.executable, "-c", CALL], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == MISS
    assert "machine code is not kept in NUMBA_CACHE_DIR" in done.stderr or trouble == "dangling link"
    assert run(CALL, environment, tmp_path) == HIT, "it is kept in another folder"


def test_a_full_disk_costs_only_time(tmp_path: Path) -> None:
    environment = small_package(tmp_path, loop=LOOP, rule=RULE)
    full = "import os\ndef full(*_): raise OSError(28, 'No space left on device')\nos.fsync = full\n"
    assert run(full + CALL, environment, tmp_path) == MISS
    assert run(full + CALL, environment, tmp_path) == MISS
    assert run(CALL, environment, tmp_path) == MISS
    assert run(CALL, environment, tmp_path) == HIT
