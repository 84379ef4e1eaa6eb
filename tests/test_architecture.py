"""The house itself: imports follow the map, the torch line holds, the public names are the ones we mean."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pomona

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "pomona"
ENTRIES = ("tasks", "models.sentence", "models.pair", "models.sequence", "measures", "papers", "training.trackers")
TORCH = ("models", "training", "papers", "representations", "evaluation", "cli")  # where torch may be imported
SHARED = tuple(f"papers.{name}" for name in ("reproduce", "claims", "records", "results", "side_by_side"))
TO_CUT: set[tuple[str, str]] = set()  # edges that still point the wrong way


def rooms() -> dict[str, int]:
    """The rooms and their height on the map; rooms on one line have the same."""
    block = re.search(r"## The rooms.*?```\n(.*?)```", (ROOT / "docs" / "architecture.md").read_text(), re.S)
    assert block is not None
    lines = [re.split(r"  +", line)[0] for line in block.group(1).splitlines()]
    return {room: height for height, line in enumerate(lines) for room in line.split(" | ")}


ROOMS = rooms()
PATHS = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE)


def name_of(path: Path) -> str:
    """The dotted name of a module without `pomona.`; that of a folder for its `__init__`."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Every imported thing, in full, and whether the import stands inside a function."""
    tree = ast.parse(path.read_text())
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) in inside
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written in full"
            for alias in node.names:
                yield f"{node.module}.{alias.name}", id(node) in inside


def entry_of(name: str) -> str | None:
    """The entry of an extension folder that a module belongs to, as `tasks.listops`; None for all other modules."""
    for folder in ENTRIES:
        if name.startswith(f"{folder}."):
            return ".".join(name.split(".")[: folder.count(".") + 2])
    return None


def test_every_room_is_on_the_map() -> None:
    assert {name_of(path).split(".")[0] for path in PATHS} == set(ROOMS)


@pytest.mark.parametrize("path", PATHS, ids=name_of)
def test_imports_point_upwards(path: Path) -> None:
    here = name_of(path)
    room = here.split(".")[0]
    for name, _ in imports(path):
        other = name.removeprefix("pomona.").split(".")[0]
        if not name.startswith("pomona.") or other == room or other not in ROOMS:
            continue
        if (str(path.relative_to(SOURCE)), name) not in TO_CUT:
            assert ROOMS[other] < ROOMS[room], f"{here} imports {name}, which stands below it or beside it on the map"


@pytest.mark.parametrize("path", [path for path in PATHS if entry_of(name_of(path))], ids=name_of)
def test_an_entry_imports_no_other_entry(path: Path) -> None:
    own = entry_of(name_of(path))
    for name, _ in imports(path):
        other = entry_of(name.removeprefix("pomona."))
        if other in (None, own, *SHARED):
            continue
        assert other.split(".")[0] != own.split(".")[0], f"{name_of(path)} imports {name}, an entry beside it"


@pytest.mark.parametrize("path", PATHS, ids=name_of)
def test_torch_stays_where_it_is_needed(path: Path) -> None:
    room = name_of(path).split(".")[0]
    for name, inside in imports(path):
        outside = name.split(".")[0]
        assert outside not in ("pickle", "dill", "joblib"), f"{path} reads pickles"
        if outside == "torch":
            assert room in TORCH, f"{path} imports torch"
            if room not in ("models", "training", "papers"):
                assert inside or not imported_at_once(path), f"{path} imports torch before it is needed"


def imported_at_once(path: Path) -> bool:
    """Whether any module imports this one outside a function."""
    own = f"pomona.{name_of(path)}"
    return any(
        (name == own or name.startswith(f"{own}.")) and not inside for other in PATHS for name, inside in imports(other)
    )


def test_the_face_of_the_package_is_pinned() -> None:
    assert sorted(pomona.__all__) == sorted((ROOT / "tests" / "golden" / "public_names.txt").read_text().split())
    for name in pomona.__all__:
        assert getattr(pomona, name) is not None
    with pytest.raises(AttributeError, match="pomona has no 'generat'"):
        _ = pomona.generat


def test_help_starts_light() -> None:
    code = (
        "import sys; sys.argv = ['pomona', '--help']\n"
        "from pomona.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'scipy', 'vl_convert', 'numba', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert shown.returncode == 0, shown.stderr
