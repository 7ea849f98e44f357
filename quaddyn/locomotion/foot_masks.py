"""Masks of feet, in which compiled functions hold what Python code holds as names."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from .morphology import FEET

_NAMES = {
    np.array(mask, dtype=np.int64).tobytes(): tuple(itertools.compress(FEET, mask))
    for mask in itertools.product((0, 1), repeat=len(FEET))
}


def find_feet(mask: NDArray[np.int64]) -> tuple[str, ...]:
    """Returns the names of the feet whose entry of a mask (4,) is 1."""
    return _NAMES[mask.tobytes()]
