"""The cache of machine code: kept between processes, never older than any file it was made from, and nobody else's."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pomona.base.compiled
from pomona.base import machine_code

PACKAGE = Path(pomona.__file__).parent
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.parent != PACKAGE]


def small_package(folder: Path, **files: str) -> dict[str, str]:
    """A package `pomona` with compiled loops and these files; the environment of processes that import it."""
    package = folder / "pomona"
    (package / "base").mkdir(parents=True)
    for module in (pomona.base.compiled, machine_code):
        shutil.copy(str(module.__file__), package / "base")
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
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (1_000_000 - age, 1_000_000 - age))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"loops-{module}-{9:016x}").symlink_to(tmp_path / "elsewhere")
    machine_code._folder.cache_clear()
    folder = machine_code._folder(str(tmp_path), module)
    assert not folder.exists()  # Numba makes it when there is something to keep
    assert states(tmp_path) == {*ours[:3], *others, "elsewhere", f"loops-{module}-{9:016x}"}
    folder.mkdir()
    os.utime(folder, (1, 1))
    machine_code._folder.cache_clear()
    assert machine_code._folder(str(tmp_path), module) == folder
    assert folder.stat().st_mtime > 1_000_000, "a state that is used counts as new"
    machine_code._folder.cache_clear()
