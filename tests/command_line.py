"""The command as tests call it: in this process, or as a program."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pomona as pm

SMALL = ["--set", "train=60", "--set", "dev=10", "--set", "test=20"]
PROGRAM = [sys.executable, "-c", "from pomona.cli.main import main; main()"]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(pm.__file__).parents[1])}


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]
