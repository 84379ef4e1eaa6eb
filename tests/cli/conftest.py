"""Fixtures of the command's tests: `run` calls it, `data` is a small folder that it made."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pomona.cli import main as cli

from command_line import SMALL, Ran, Run  # isort: skip


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command as the shell would see it, without the price of a process."""

    def command(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["pomona", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        shown = capsys.readouterr()
        code = ended.value.code
        return Ran(code if isinstance(code, int) else 0, shown.out, shown.err)

    return command


@pytest.fixture
def data(tmp_path: Path, run: Run) -> Path:
    folder = tmp_path / "data"
    assert run("generate", "listops/d20s", "--data-seed", 7, "--out", folder, "-f", "parquet,tsv", *SMALL).status == 0
    return folder
