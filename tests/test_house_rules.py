"""Rules that keep the code readable: no cycles, no borrowed private names, sizes, tests in the rooms of the code."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis.internal.conjecture import providers

from test_architecture import PATHS, ROOMS, ROOT, SOURCE, imports, name_of

LONGEST_FILE = 400
MOST_PARAMETERS = 7
OTHERS = {"torch._foreach_mul_", "dispatcher._cache"}  # private names of torch and Numba, which have no public twin
COMPILED = {"compiled", "inlined", "fused", "summed"}
FOLDERS = ("src", "tests", "benchmarks", "campaign", "docs")
OURS = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
MODULES = {f"pomona.{name_of(path)}" for path in PATHS}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree_of(path)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def module_of(name: str) -> str | None:
    """The module that an imported thing comes from: itself, if it is one."""
    return name if name in MODULES else name.rpartition(".")[0] if name.rpartition(".")[0] in MODULES else None


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = {
        f"pomona.{name_of(path)}": {module for name, _ in imports(path) if (module := module_of(name)) is not None}
        for path in PATHS
    }
    finished: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, " -> ".join((*way[way.index(module) :], module))
        if module in finished:
            return
        for other in sorted(graph[module] - {module}):
            visit(other, (*way, module))
        finished.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.parametrize("path", PATHS, ids=name_of)
def test_private_names_stay_in_their_module(path: Path) -> None:
    own = {node.name for node in ast.walk(tree_of(path)) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    own |= {node.attr for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute) and of_self(node)}
    own |= {node.id for node in ast.walk(tree_of(path)) if isinstance(node, ast.Name)}
    for name, _ in imports(path):
        if name.startswith("pomona."):
            assert not is_private(name.rpartition(".")[2]), f"{name_of(path)} imports {name}"
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and not of_self(node):
            outside = ast.unparse(node) in OTHERS
            named_tuple = node.attr in ("_asdict", "_replace", "_fields")
            assert node.attr in own or outside or named_tuple, f"{name_of(path)}: {ast.unparse(node)}"


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


@pytest.mark.parametrize("path", OURS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_can_be_read_in_one_go(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE


@pytest.mark.parametrize("path", PATHS, ids=name_of)
def test_functions_take_few_parameters(path: Path) -> None:
    """Compiled loops take arrays one by one, and the parameters of a command are its options: both may have more."""
    if path.parent == SOURCE / "cli" / "commands":
        return
    for function in functions(path):
        decorators = {ast.unparse(one).split("(")[0].split(".")[-1] for one in function.decorator_list}
        if decorators & COMPILED:
            continue
        parameters = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        names = [one.arg for one in parameters if one.arg not in ("self", "cls")]
        assert len(names) <= MOST_PARAMETERS, f"{name_of(path)}.{function.name} has {len(names)}: {', '.join(names)}"


def test_functions_are_short() -> None:
    lengths = sorted((one.end_lineno or 0) - one.lineno + 1 for path in PATHS for one in functions(path))
    assert statistics.median(lengths) <= 7
    assert lengths[int(0.9 * len(lengths))] <= 26


def test_examples_do_not_depend_on_what_else_is_loaded() -> None:
    assert len(providers.HypothesisProvider(None)._local_constants) == 0


def test_tests_stand_in_the_rooms_of_what_they_test() -> None:
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    assert folders == {*ROOMS, "contracts"} - {"measures"} | (folders & {"measures"})


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_what_lives_there(room: str) -> None:
    text = ast.get_docstring(tree_of(SOURCE / room / "__init__.py")) or ""
    assert len(text.splitlines()) >= 5, f"pomona.{room} does not say what lives there"
