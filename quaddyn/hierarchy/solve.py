"""`solve`: a strict hierarchy of equalities and inequalities, with its certificate."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ArgumentError
from .level import Level
from .null_space import RANK_TOLERANCE
from .solution import HierarchySolution
from .solver import SolverPool


def solve(
    levels: Sequence[Level],
    *,
    rank_tolerance: float = RANK_TOLERANCE,
    damping: float = 0.0,
    max_iterations: int = 500,
    warm: HierarchySolution | None = None,
) -> HierarchySolution:
    """The x that is best for the first level, among those best for the second, and so on; the shortest if several are.

    Optimistic, yet exact: first the equalities alone, by pure projection; if that x happens to keep every inequality
    it is the answer.  Otherwise level by level with active sets (`core`).  For one problem after another of the same
    shape a `HierarchySolver` saves memory and time.

    Args:
        levels: in strict order of priority.  The first usually holds what must never be given up; if even that
            cannot be kept, x violates it least and the status says so.
        rank_tolerance: a row counts as free to act where what the levels above leave of it exceeds this share of its
            own length; in [0, 1).  Dimensionless: the rows' units do not matter.
        damping: adds ``damping^2 |x|^2`` to what every level minimizes, in the unit of its weighted rows (as
            `prioritized`); 0 for exact least squares.  Levels above stay undisturbed all the same.
        max_iterations: changes of the active set allowed per level.
        warm: the solution of a problem of the same shape, the last tick's; its active set is tried first.

    Returns:
        A `HierarchySolution`; hard problems (rank deficient, infeasible, degenerate) are flagged there, not raised.

    Raises:
        ArgumentError: an option out of its range, levels of different widths, or a `warm` of another shape.
    """
    if warm is not None and [s.shape for s in warm.working] != [(sum(len(v.C) for v in levels),)] * (len(levels) + 1):
        raise ArgumentError("warm: expected the solution of a problem with as many levels and inequalities")
    pool = SolverPool(size=1)
    return pool.solve(levels, rank_tolerance=rank_tolerance, damping=damping, max_iterations=max_iterations, warm=warm)
