"""Numbers: the same bits for any number of workers, hash seed, chunk size and shard, and on every Python that is here.

    differences(pythons())                 # [] if all agree

Each process prints a digest of the rows of small corpora, of a ladder, of TRE scores and of a certificate; floats are
printed in full. Only what needs no torch is compared, because torch is not there for every Python.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

PROGRAM = """
import hashlib, json, sys
import numpy as np
import pomona as pm
from pomona.data.task import TASKS, chunks
from pomona.data.corpus import Fingerprint
workers = int(sys.argv[1])
said = {}
sizes = {"train": 3000, "dev": 200, "test": 300}
for split in ("train", "test"):
    whole = pm.generate("listops/d20s", split, 3, **sizes)
    said[f"listops {split}"] = whole.fingerprint
    parts = Fingerprint()
    for part in chunks(TASKS.build("listops/d20s", sizes), split, 3, workers=workers):
        parts.update(part)
    said[f"listops {split} in chunks"] = parts.hexdigest() == whole.fingerprint
    shards = pm.Corpus.concatenate([whole[:70], whole[70:]])
    said[f"listops {split} in shards"] = shards.fingerprint == whole.fingerprint
said["orchard"] = pm.generate("orchard/easy/first-last", "test-3", 1)[:200].fingerprint
said["fair nli"] = pm.generate("fair_nli", "test", 1)[:100].fingerprint
draw = np.random.default_rng(0)
trees = [(a, (b, c)) for a in "uvw" for b in "xyz" for c in "mno"]
for distance in ("sql2", "cosine", "l1"):
    said[f"tre {distance}"] = float(pm.tre(draw.normal(size=(27, 5)), trees, "add", distance).score).hex()
print(json.dumps(said, sort_keys=True))
"""


def pythons() -> dict[str, Path]:
    """This Python, and the others of POMONA_PYTHONS (paths with colons between), which have Pomona's dependencies."""
    found = {f"{sys.version_info.major}.{sys.version_info.minor}": Path(sys.executable)}
    for name in filter(None, os.environ.get("POMONA_PYTHONS", "").split(":")):
        version = subprocess.run([name, "-V"], capture_output=True, text=True, check=True).stdout.split()[1]
        found[".".join(version.split(".")[:2])] = Path(name)
    return found


def said(python: Path, *, workers: int, hash_seed: int) -> str:
    """What one process prints."""
    source = Path(__file__).parents[1] / "src"
    place = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    command = [str(python), "-c", PROGRAM, str(workers)]
    ran = subprocess.run(command, env=place, capture_output=True, text=True, check=False)
    return ran.stdout.strip() or f"status {ran.returncode}: {ran.stderr[-300:]}"


def differences(
    found: dict[str, Path], settings: Iterable[tuple[int, int]] = ((1, 0), (2, 1), (8, 2))
) -> tuple[int, list[str]]:
    """How many processes were compared, and where one printed something else than the first."""
    first, count, wrong = "", 0, []
    for version, python in found.items():
        for workers, hash_seed in settings:
            words = said(python, workers=workers, hash_seed=hash_seed)
            first, count = first or words, count + 1
            if words != first or "status" in words or "false" in words:
                wrong.append(f"Python {version}, {workers} workers, hash seed {hash_seed}: {words[:500]}")
    return count, wrong
