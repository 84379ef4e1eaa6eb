"""Every command where torch is not installed: it works, or says in one line how to install it.

`make test` blocks the import of torch in one process. `make conformance` runs each command in an environment of its own
that holds every installed package but torch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from test_commands import CALLS, VERBS, folder  # noqa: F401 - a fixture

import pomona as pm

NEEDS_TORCH = {"train", "parse", "represent", "demo"}
CALL = {**CALLS, "demo": ["demo", "--out", "demo", "--rows", "100"], "ls models": ["ls", "models"]}
SAME = {**os.environ, "PYTHONPATH": ":".join(sys.path)}  # the same source as here
LINE = "MissingPackageError: this needs torch: pip install 'pomona[train]'"
RUNNER = """
import contextlib, io, json, sys
class Blocked:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
if sys.argv[2] == "blocked":
    sys.meta_path.insert(0, Blocked)
from pomona.cli.main import main
told = {}
for name, words in json.loads(sys.argv[1]).items():
    sys.argv, out, err = ["pomona", *words], io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            status = 0
        except SystemExit as ending:
            status = ending.code
    told[name] = [status or 0, out.getvalue(), err.getvalue()]
print(json.dumps(told))
"""


def check(told: dict[str, list[Any]]) -> None:
    for name, (status, out, err) in told.items():
        if name in NEEDS_TORCH:
            assert (status, err.strip(), out.strip()) == (3, LINE, ""), (name, out, err)
        else:
            assert status in (0, 1), (name, out, err)  # 1: a check that did not hold
            assert "Traceback" not in err


@pytest.fixture(scope="module")
def home(folder: Path) -> Path:  # noqa: F811
    """The files that commands ask for, and a run that was trained where there is torch."""
    if not (folder / "run").exists():
        size = {"train": 20, "dev": 10, "test": 10}
        recipe = pm.Recipe("lstm", settings={"width": 4}, data_settings=size, dev_rows=10, epochs=1)
        pm.train(recipe, folder / "run")
    return folder


def test_every_command_without_torch(home: Path) -> None:
    assert set(VERBS) - set(CALL) <= {"reproduce"}
    command = [sys.executable, "-c", RUNNER, json.dumps(CALL), "blocked"]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False, env=SAME)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    check(told)
    assert "A TreeLSTM that is given the gold trees." in " ".join(told["ls models"][1].split())
    assert not (home / "demo").exists()


def test_python_says_it_too() -> None:
    code = "import sys; sys.modules['torch'] = None; import pomona as pm; pm.Recipe; pm.train"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=SAME)
    assert done.stderr.splitlines()[-1] == f"pomona.base.errors.{LINE}"


@pytest.mark.conformance
@pytest.mark.parametrize("name", CALL)
def test_every_command_in_an_environment_without_torch(name: str, home: Path, tmp_path: Path) -> None:
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if not package.name.startswith(("torch", "functorch", "pomona", "__editable__")):
            (tmp_path / package.name).symlink_to(package)
    source = Path(__file__).parents[2] / "src"
    path = f"import sys; sys.path += [{str(source)!r}, {str(tmp_path)!r}]"
    command = [sys.executable, "-S", "-I", "-c", f"{path}\n{RUNNER}", json.dumps({name: CALL[name]}), ""]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    check(json.loads(done.stdout))
