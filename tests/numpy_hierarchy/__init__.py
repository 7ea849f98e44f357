"""A second opinion on strict hierarchies: active sets in NumPy, to be read; shares no line with the compiled core."""

from __future__ import annotations

from collections.abc import Sequence

from quaddyn.hierarchy import HierarchySolution, Level

from .descent import descend

__all__ = ["solve"]


def solve(
    levels: Sequence[Level],
    *,
    rank_tolerance: float = 1e-9,
    damping: float = 0.0,
    max_iterations: int = 500,
    warm_start: HierarchySolution | None = None,
) -> HierarchySolution:
    """As `quaddyn.hierarchy.solver`, whose arguments these are; nothing is checked."""
    guess = None if warm_start is None else warm_start.working_sets
    return descend(levels, rank_tolerance=rank_tolerance, damping=damping, max_iterations=max_iterations, guess=guess)
