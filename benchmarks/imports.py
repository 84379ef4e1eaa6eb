"""How much processor time commands need before they do anything, and which packages they load.

    python -m benchmarks imports

Each command runs in a process of its own, three times after one run that fills the caches; printed are the least user
and system seconds, the same as a multiple of importing NumPy, and the targets of issue 16. The machine's load changes
the seconds, and hardly the multiples.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
REPEATS = 3
HEAVY = ("numpy", "numba", "scipy", "pyarrow", "pydantic", "vl_convert", "torch")
COMMANDS: dict[str, float | None] = {  # and the seconds that issue 16 allows
    "--help": 0.25,
    "generate --help": None,
    "ls papers": 1.0,
    "ls models": None,
    "ls": None,
    "show listops/d20s -n 1": None,
    "generate listops/d20s -f tsv --out OUT": 1.2,
}
PROGRAM = f"""
import sys
from pomona.cli.main import main
try: main()
finally: print("loaded", *sorted(set({HEAVY}) & set(sys.modules)), file=sys.stderr)
"""


def cost(code: str, *arguments: str) -> tuple[float, str]:
    """The least CPU seconds of several processes, and what the last one wrote to standard error."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-c", code, *arguments]
    seconds = []
    for _ in range(REPEATS + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(seconds[1:]), done.stderr


def main() -> None:
    unit = cost("import numpy")[0]
    print(f"{'import numpy':<42}{unit:6.2f} s")
    with tempfile.TemporaryDirectory() as folder:
        for line, target in COMMANDS.items():
            seconds, told = cost(PROGRAM, *line.replace("OUT", folder).split())
            loaded = told.splitlines()[-1].removeprefix("loaded").strip()
            allowed = "" if target is None else f"  (at most {target} s)"
            print(f"{'pomona ' + line:<42}{seconds:6.2f} s {seconds / unit:5.1f} x NumPy{allowed}  {loaded}")


if __name__ == "__main__":
    main()
