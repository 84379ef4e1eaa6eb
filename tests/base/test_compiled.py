"""The cache of machine code: kept between processes, and never older than any file it was made from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pomona.base.compiled


def test_a_change_in_one_file_reaches_the_loops_of_another(tmp_path: Path) -> None:
    package = tmp_path / "pomona"
    (package / "base").mkdir(parents=True)
    shutil.copy(pomona.base.compiled.__file__, package / "base")
    for folder in (package, package / "base"):  # else an installed pomona would come first
        (folder / "__init__.py").touch()
    (package / "loop.py").write_text(
        "from pomona.base.compiled import compiled\nfrom pomona.rule import rule\n\n"
        "@compiled\ndef loop(n):\n    return rule(n) + 1\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("NUMBA_CACHE_DIR", None)

    def answer(factor: int) -> tuple[int, int]:
        """What the loop gives with this rule, and how often it came from the cache."""
        (package / "rule.py").write_text(
            f"from pomona.base.compiled import inlined\n\n@inlined\ndef rule(n):\n    return n * {factor}\n"
        )
        code = "from pomona.loop import loop; print(loop(3), sum(loop.stats.cache_hits.values()))"
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        value, hits = done.stdout.split()
        return int(value), int(hits)

    assert answer(2) == (7, 0)
    assert answer(2) == (7, 1)
    assert answer(5) == (16, 0)
    assert answer(2) == (7, 1)
    (package / "other.py").write_text("from pomona.base.compiled import compiled  # not imported by loop\n")
    assert answer(2) == (7, 1)
    assert len(list((package / "__pycache__").glob("loops-pomona.loop-*"))) == 2
