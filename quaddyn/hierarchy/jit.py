"""`jit`: numba, cached on disk where a cache can be written.  Importing this module imports numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def jit(function: Callable[..., Any]) -> Any:
    """`function` compiled, sums in any order (they are vectorized), NaN and infinities as they are.

    Without a place to write its cache numba refuses to cache at all; then it compiles again in every process.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:
        return numba.njit(**options)(function)
