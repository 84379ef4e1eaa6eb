"""A score: a number, the value of each example behind it, and the 95 % interval of the number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class Score:
    """The mean of `per_example` and its interval."""

    value: float
    per_example: npt.NDArray[np.float64]
    interval: tuple[float, float]

    def __repr__(self) -> str:
        low, high = self.interval
        return f"Score({self.value:.4f}, {low:.4f} to {high:.4f}, {len(self.per_example):,} examples)"
