"""Short names for the NumPy arrays that signatures mention: Ints, Floats, Bools, Bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.floating[Any]]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
