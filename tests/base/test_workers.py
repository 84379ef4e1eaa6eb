"""Tasks in processes: answers as they end, errors in their own words, workers that die, and one short time on Ray."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pomona.base.errors import FormatError, RunError, SpecError
from pomona.base.workers import HERE, cores, workers
from pomona.data.shards.generation import generate_shards
from pomona.data.shards.repeats import distinct_in_partition

TASKS = '''
import os, signal
from pathlib import Path
from pomona.base.errors import FormatError

def double(number):
    print("this is no answer")
    return {"number": 2 * number, "process": os.getpid()}

def fails(how):
    if how == "ours":
        raise FormatError("this is not a tree", path="a.tsv", line=3)
    return 1 // 0

def dies(marks, times):
    """Kill this process so many times."""
    marks = Path(marks)
    done = len(list(marks.iterdir()))
    if done < times:
        (marks / str(done)).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return done
'''


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of tasks that other processes find as well."""
    (tmp_path / "tasks_of_a_test.py").write_text(TASKS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return importlib.import_module("tasks_of_a_test")


def test_answers_come_with_the_numbers_of_their_orders(tasks: Any) -> None:
    with workers("local", 2) as crew:
        assert crew.size == 2
        answers = dict(crew.run(tasks.double, ({"number": number} for number in range(7))))
        again = dict(crew.run(tasks.double, [{"number": 50}]))  # the same processes
    assert [answers[number]["number"] for number in range(7)] == [0, 2, 4, 6, 8, 10, 12]
    processes = {answer["process"] for answer in answers.values()}
    assert os.getpid() not in processes
    assert len(processes) <= 2
    assert again[0]["process"] in processes
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
    with workers("local", 1) as crew:
        assert crew is HERE
        assert next(crew.run(tasks.double, [{"number": 1}]))[1]["process"] == os.getpid()
    with workers() as crew:
        assert crew.size == cores()


def test_orders_wait_for_earlier_answers(tasks: Any) -> None:
    """Who gives orders until there is enough is asked no more often than there are free workers."""
    seen: list[int] = []

    def orders() -> Iterator[dict[str, int]]:
        number = 0
        while len(seen) < 3:
            yield {"number": number}
            number += 1

    with workers("local", 2) as crew:
        for _, answer in crew.run(tasks.double, orders()):
            seen.append(answer["number"])
    assert 3 <= len(seen) <= 5


def test_errors_are_raised_here_in_their_own_words(tasks: Any) -> None:
    with workers("local", 2) as crew:
        with pytest.raises(FormatError, match=r"^a\.tsv, line 3: this is not a tree$"):
            list(crew.run(tasks.fails, [{"how": "ours"}] * 4))
        with pytest.raises(RunError, match=r"(?s)a worker failed: .*division.*line \d+, in fails"):
            list(crew.run(tasks.fails, [{"how": "theirs"}]))
        assert next(crew.run(tasks.double, [{"number": 4}]))[1]["number"] == 8  # it goes on working


def test_a_worker_that_is_killed_is_replaced(tasks: Any, tmp_path: Path) -> None:
    for times in (1, 2, 3):
        marks = tmp_path / str(times)
        marks.mkdir()
        with workers("local", 2) as crew:
            order = [{"marks": str(marks), "times": times}]
            if times < 3:
                assert list(crew.run(tasks.dies, order)) == [(0, times)]
            else:
                with pytest.raises(RunError, match="a worker process ended by signal 9, 3 times at the same task"):
                    list(crew.run(tasks.dies, order))


def test_what_cannot_be_is_said() -> None:
    for how, words in (
        ({"on": "moon"}, "on = 'moon': workers are on local or ray"),
        ({"count": 0}, "workers = 0: at least 1 is needed"),
        ({"address": "a:1"}, "address = 'a:1' is of a Ray cluster; it goes with on='ray'"),
    ):
        with pytest.raises(SpecError, match=words), workers(**how):  # type: ignore[arg-type]
            pass


def test_a_module_of_the_users_own_is_imported_first(tmp_path: Path, tasks: Any) -> None:
    (tmp_path / "own_for_workers.py").write_text("import os\nos.environ['OWN_FOR_WORKERS'] = 'here'\n")
    (tmp_path / "asks_for_it.py").write_text("import os\ndef ask():\n    return os.environ.get('OWN_FOR_WORKERS')\n")
    ask = importlib.import_module("asks_for_it").ask
    with workers("local", 2, modules=["own_for_workers"]) as crew:
        assert list(crew.run(ask, [{}])) == [(0, "here")]


def test_ray_writes_the_same_shards(tmp_path: Path) -> None:
    sizes = {"train": 300, "dev": 20, "test": 20}
    generate_shards("listops/d20s", tmp_path / "here", shards=3, rows=900, split="train", **sizes)
    with workers("ray", 2) as crew:
        assert crew.size == 2
        generate_shards("listops/d20s", tmp_path / "ray", shards=3, rows=900, split="train", crew=crew, **sizes)
        with pytest.raises(FormatError, match="cannot be read"):
            list(crew.run(distinct_in_partition, [{"files": ["nowhere"], "partition": 0}]))
    for path in sorted((tmp_path / "here").glob("*.*")):
        assert (tmp_path / "ray" / path.name).read_bytes() == path.read_bytes(), path.name
