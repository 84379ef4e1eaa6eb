"""The public names: each is there, loaded only when used, and what has moved says where it went."""

from __future__ import annotations

import subprocess
import sys
import types
import warnings
from pathlib import Path

import pytest

import pomona as pm

ROOMS = ("data", "fairness", "representations", "shortcuts", "trees")


def test_importing_pomona_loads_nothing() -> None:
    path = str(Path(pm.__file__).parents[1])
    code = (
        f"import sys; sys.path.insert(0, {path!r}); before = set(sys.modules); import pomona as pm; dir(pm)\n"
        "ours = {name for name in sys.modules if name.startswith('pomona.')}\n"
        "assert ours == {'pomona.base', 'pomona.base.errors', 'pomona.base.lazy_names'}, ours\n"
        "assert not {'numpy', 'numba', 'torch', 'pydantic'} & set(sys.modules)\n"
        "pm.trees.draw, pm.Forest, pm.generate, pm.fairness.fold, pm.representations.posdis\n"
        "assert 'numpy' in sys.modules and not {'numba', 'torch', 'pydantic'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_of_a_room_is_there(room: str) -> None:
    package = getattr(pm, room)
    assert isinstance(package, types.ModuleType)
    for name in package.__all__:
        assert not isinstance(getattr(package, name), types.ModuleType), name
        assert name in dir(package)
    with pytest.raises(AttributeError, match=f"'?pomona.{room}'? has no"):
        _ = package.nothing_of_the_kind


@pytest.mark.parametrize("name", sorted(pm._MOVED))
def test_what_has_moved_still_works_and_says_where_it_is(name: str) -> None:
    assert name not in pm.__all__
    with pytest.warns(DeprecationWarning, match=rf"^pomona\.{name} is deprecated: use pomona\.([\w.]+)$") as caught:
        value = getattr(pm, name)
    assert Path(caught[0].filename) == Path(__file__), "the warning points at the caller"
    module, _, last = str(caught[0].message).rpartition("use ")[2].rpartition(".")
    __import__(module)
    assert getattr(sys.modules[module], last) is value


def test_what_has_not_moved_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in pm.__all__:
            assert getattr(pm, name) is not None


def test_a_slip_is_answered_with_a_public_name() -> None:
    for package, slip, name in ((pm, "generat", "generate"), (pm.trees, "drow", "draw"), (pm, "Tsk", "Task")):
        with pytest.raises(AttributeError, match=rf"{package.__name__} has no '{slip}'\. Did you mean '{name}'\?"):
            getattr(package, slip)


def test_decorators_are_those_of_the_registries() -> None:
    for decorator, registry in ((pm.task, pm.TASKS), (pm.model, pm.MODELS), (pm.paper, pm.PAPERS)):
        assert decorator == registry.add
