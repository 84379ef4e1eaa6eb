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
LINE = "---- torch begins ----"


def listing() -> tuple[list[str], set[str], int]:
    """Rooms in order, those whose files may import each other, and how many stand above the torch line."""
    block = re.search(r"## The listing.*?```\n(.*?)```", (ROOT / "docs" / "architecture.md").read_text(), re.S)
    assert block is not None
    rows = block.group(1).splitlines()
    above = rows.index(LINE)
    rooms = [row.split()[0] for row in rows if row != LINE]
    return rooms, {row.split()[0] for row in rows if row.split()[1] == "+"}, above


ROOMS, OPEN, ABOVE = listing()


def modules() -> Iterator[tuple[str, str, Path]]:
    """Room, name inside the room, and file of every module but the package's own face."""
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if parts != ("__init__",):
            yield parts[0], ".".join(parts[1:]), path


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Every imported module, in full, and whether the import stands inside a function."""
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
                whole = f"{node.module}.{alias.name}"
                yield (whole if node.module == "pomona" else str(node.module)), id(node) in inside


def test_every_room_is_on_the_map() -> None:
    assert {room for room, _, _ in modules()} == set(ROOMS)


@pytest.mark.parametrize("path", [path for _, _, path in modules()], ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_upwards(path: Path) -> None:
    room = path.relative_to(SOURCE).with_suffix("").parts[0]
    here = ROOMS.index(room)
    for name, inside in imports(path):
        if not name.startswith("pomona."):
            continue
        other = name.split(".")[1]
        if other not in ROOMS:
            continue  # a name of the package's face
        if other == room:
            own = name == f"pomona.{path.stem}" or path.name == "__init__.py" or name == f"pomona.{room}"
            assert own or room in OPEN or (inside and room == "commands"), f"{path.name} imports its sibling {name}"
        else:
            assert ROOMS.index(other) < here, f"{path} imports {name}, which stands below it on the map"


@pytest.mark.parametrize("path", [path for _, _, path in modules()], ids=lambda path: str(path.relative_to(SOURCE)))
def test_torch_stays_below_the_line(path: Path) -> None:
    room = path.relative_to(SOURCE).with_suffix("").parts[0]
    if ROOMS.index(room) >= ABOVE and room not in ("commands", "cli"):
        return
    for name, inside in imports(path):
        outside = name.split(".")[0]
        assert outside not in ("pickle", "dill", "joblib"), f"{path} reads pickles"
        if outside == "torch":
            assert room in ("commands", "measures", "reconstruction"), f"{path} imports torch"
            assert inside or not imported_at_once(path), f"{path} imports torch, and is imported before it is needed"


def imported_at_once(path: Path) -> bool:
    """Whether any module imports this one outside a function."""
    own = ".".join(("pomona", *path.relative_to(SOURCE).with_suffix("").parts))
    return any(name == own and not inside for _, _, other in modules() for name, inside in imports(other))


def test_the_face_of_the_package_is_pinned() -> None:
    assert sorted(pomona.__all__) == sorted((ROOT / "tests" / "golden" / "public_names.txt").read_text().split())
    for name in pomona.__all__:
        assert getattr(pomona, name) is not None
    with pytest.raises(AttributeError, match="pomona has no 'generat'"):
        _ = pomona.generat


def test_help_starts_light() -> None:
    code = (
        "import sys; sys.argv = ['pomona', '--help']\n"
        "from pomona.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'scipy', 'matplotlib', 'numba', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert shown.returncode == 0, shown.stderr
