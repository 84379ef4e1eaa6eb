"""Numbers: the same bits for any number of workers, hash seed, chunk size and shard, and on every Python that is here.

    differences(pythons())                 # [] if all agree

Each process prints a digest of the rows of small corpora, of a ladder, of TRE scores and of a certificate; floats are
printed in full. Where there is torch, it also prints the weights of tiny runs, which need be the same only for the same
torch on the same NumPy and Python; where they differ, the count says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAM = """
import hashlib, importlib.util, json, sys, tempfile
import numpy as np
import pomona as pm
from pomona.data.task import TASKS, chunks
from pomona.data.corpus import Fingerprint
from pomona.tasks.propositional import every_sentence
workers = int(sys.argv[1])
said, floats = {}, {}
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
sentences = every_sentence()
certificate = pm.certify(sentences[[0, 1, 2]], sentences[[0, 2, 5, 7]])
said["certificate"] = hashlib.sha256(json.dumps(certificate.plain(), sort_keys=True).encode()).hexdigest()
said["ladder"] = hashlib.sha256(repr(pm.ladder(whole, whole)).encode()).hexdigest()
draw = np.random.default_rng(0)
trees = [(a, (b, c)) for a in "uvw" for b in "xyz" for c in "mno"]
for distance in ("sql2", "cosine", "l1"):
    score = pm.tre(draw.normal(size=(27, 5)), trees, "add", distance).score
    floats[f"tre {distance} on NumPy {np.__version__}"] = float(score).hex()
versions = f"Python {sys.version.split()[0]}, NumPy {np.__version__}"
if importlib.util.find_spec("torch"):
    import torch
    from pomona.training.loop import train
    from pomona.training.recipe import Recipe
    torch.set_num_threads(1)
    libraries = f"torch {torch.__version__} and NumPy {np.__version__}"
    versions += f", torch {torch.__version__}"
    small = {"train": 40, "dev": 8, "test": 12}
    for model in ("lstm", "treelstm", "st_gumbel"):
        recipe = Recipe(model, {"width": 6}, data_settings=small, longest=30, epochs=2, batch=16, dev_rows=8)
        with tempfile.TemporaryDirectory() as folder:
            run = train(recipe, folder + "/run")
            loss = run.curve[-1]["loss"]
            with open(folder + "/run/best.safetensors", "rb") as file:
                digest = hashlib.sha256(file.read()).hexdigest()[:16]
        floats[f"weights of {model} on {libraries}"] = digest
        floats[f"loss of {model} on {libraries}"] = float(loss).hex()
print(json.dumps({"bits": said, "floats": floats, "versions": versions}, sort_keys=True))
"""


@dataclass
class Compared:
    """What all processes printed, by name; another value for a name is wrong. Floats are named with their libraries."""

    processes: int = 0
    versions: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    bits: dict[str, Any] = field(default_factory=dict)
    floats: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        groups: dict[str, set[str]] = {}
        for name, value in self.floats.items():
            groups.setdefault(name.partition(" on ")[0], set()).add(value)
        other = ", ".join(name for name, values in groups.items() if len(values) > 1)
        floats = f"floats that differ between versions of libraries: {other}" if other else "the same floats everywhere"
        return f"{self.processes} processes ({' | '.join(self.versions)}), {len(self.wrong)} differences; {floats}"

    def add(self, said: Any, place: str) -> None:
        self.processes += 1
        if isinstance(said, str):
            self.wrong.append(f"{place}: {said}")
            return
        if said["versions"] not in self.versions:
            self.versions.append(said["versions"])
        for known, found in ((self.bits, said["bits"]), (self.floats, said["floats"])):
            for name, value in found.items():
                if value is False or known.setdefault(name, value) != value:
                    self.wrong.append(f"{place}: {name} is {value}, and was {known[name]}")


def pythons() -> list[Path]:
    """This Python, and the others of POMONA_PYTHONS (paths with colons between), which have Pomona's dependencies."""
    return [Path(sys.executable), *map(Path, filter(None, os.environ.get("POMONA_PYTHONS", "").split(":")))]


def said(python: Path, *, workers: int, hash_seed: int) -> Any:
    """What one process prints."""
    source = Path(__file__).parents[1] / "src"
    place = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    command = [str(python), "-c", PROGRAM, str(workers)]
    ran = subprocess.run(command, env=place, capture_output=True, text=True, check=False)
    try:
        return json.loads(ran.stdout)
    except ValueError:
        return f"status {ran.returncode}: {ran.stderr[-300:]}"


def differences(found: Iterable[Path], settings: Iterable[tuple[int, int]] = ((1, 0), (2, 1), (8, 2))) -> Compared:
    """What each Python prints for each number of workers and hash seed."""
    compared = Compared()
    for python in found:
        for workers, hash_seed in settings:
            words = said(python, workers=workers, hash_seed=hash_seed)
            compared.add(words, f"{python}, {workers} workers, hash seed {hash_seed}")
    return compared
