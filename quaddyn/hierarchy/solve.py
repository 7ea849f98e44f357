"""`solve`: a strict hierarchy of equalities and inequalities, with its certificate."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ArgumentError
from .descent import descend
from .level import Level, check_levels, check_options
from .null_space import RANK_TOLERANCE
from .solution import HierarchySolution


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
    it is the answer.  Otherwise level by level with active sets.

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
    check_levels(levels)
    check_options(rank_tolerance, damping, max_iterations)
    guess = None if warm is None else warm.working
    if guess is not None:
        size = sum(len(level.C) for level in levels)
        if len(guess) != len(levels) + 1 or any(len(sides) != size for sides in guess):
            raise ArgumentError("warm: expected the solution of a problem with as many levels and inequalities")
    return descend(levels, rank_tolerance=rank_tolerance, damping=damping, max_iterations=max_iterations, guess=guess)
