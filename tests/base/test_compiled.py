"""Compiled loops: made at the first call, by one thread, together with what they call."""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import pomona
from pomona.base import compiled as module
from pomona.base.compiled import Loop, compiled, inlined


@inlined
def square(n: int) -> int:
    """Small enough to be inlined."""
    return n * n


@compiled
def squares(values: np.ndarray) -> int:
    """A loop that calls another."""
    total = 0
    for value in values:
        total += square(value)
    return total


@compiled
def factorial(n: int) -> int:
    """A loop that calls itself."""
    return 1 if n < 2 else n * factorial(n - 1)


def test_loops_may_call_each_other_and_themselves() -> None:
    assert squares(np.arange(4)) == 14
    assert factorial(5) == 120
    assert square(7) == 49


def test_a_loop_still_looks_like_its_function() -> None:
    loop: Loop = compiled(lambda n: n)  # type: ignore[assignment]
    assert "<lambda>" in repr(loop)
    assert (squares.__name__, squares.__doc__) == ("squares", "A loop that calls another.")
    assert list(inspect.signature(squares).parameters) == ["values"]
    assert squares.py_func(np.arange(4)) == 14  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="has no attribute '__len__'"):
        loop.__len__()
    assert loop._dispatcher is None, "looking at a loop does not compile it"


def test_threads_that_call_at_once_make_one_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def slow_dispatcher(function: Callable[..., int], settings: dict[str, object]) -> Callable[..., int]:
        made.append(function)
        time.sleep(0.05)  # time for the others to come in
        return function

    monkeypatch.setattr(module, "_dispatcher", slow_dispatcher)
    loop = compiled(lambda n: n + 1)
    ready = threading.Barrier(4)

    def call(n: int) -> int:
        ready.wait()
        return loop(n)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(call, range(4))) == [1, 2, 3, 4]
    assert len(made) == 1


def test_loops_release_the_interpreter_lock() -> None:
    squares(np.arange(2))
    assert squares.targetoptions["nogil"] is True  # type: ignore[attr-defined]
    assert square.targetoptions["inline"] == "always"  # type: ignore[attr-defined]


def test_importing_loops_does_not_load_numba() -> None:
    code = """
        import sys
        import pomona.trees.forest, pomona.data.task, pomona.tasks.listops, pomona.fairness.tables
        pomona.data.task.TASKS.build("listops/d20s", {"branching": 0.3})
        heavy = {"numba", "scipy", "torch", "pydantic", "pyarrow"} & set(sys.modules)
        assert not heavy, heavy
        print(pomona.trees.forest.Forest.from_nested([("a", "b")]).arity.tolist())
        assert "numba" in sys.modules
    """
    path = str(Path(pomona.__file__).parents[1])
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {path!r})\n{textwrap.dedent(code)}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[0, 1]"
