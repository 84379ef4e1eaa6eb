"""What the tests of sweeps share: a small plan, and runs compared to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SIZES = {"train": 120, "dev": 40, "test": 30}
PLAN: dict[str, Any] = {
    "model": "lstm", "data": "listops/d20s", "set": SIZES, "seeds": 2,
    "model_set": {"width": 8}, "recipe": {"epochs": 2, "rate": [0.001, 0.01], "dev_rows": 40, "longest": 40},
}  # fmt: skip


def bits(folder: Path) -> dict[str, bytes]:
    """The last weights of every run in a folder."""
    return {path.parent.name: path.read_bytes() for path in sorted(folder.glob("*/last.safetensors"))}
