"""`solve`: solution of one strict hierarchy of equalities and inequalities, with its certificate."""

from __future__ import annotations

from collections.abc import Sequence

from ..deprecation import renamed_parameters
from ..errors import ArgumentError
from .level import Level
from .null_space import RANK_TOLERANCE
from .solution import HierarchySolution
from .solver import SolverPool


@renamed_parameters(warm="warm_start")
def solve(
    levels: Sequence[Level],
    *,
    rank_tolerance: float = RANK_TOLERANCE,
    damping: float = 0.0,
    max_iterations: int = 500,
    warm_start: HierarchySolution | None = None,
) -> HierarchySolution:
    """Computes the x that is best for the first level, among those best for the second, and so on; then the shortest.

    The equalities are solved first, by projection; if that x satisfies every inequality, it is the solution.  Otherwise
    active-set methods solve level by level (`core`).  For a sequence of problems of the same shape, a `HierarchySolver`
    saves memory and time.

    Args:
        levels: in strict order of priority.  The first usually holds the constraints that must not be violated; if they
            are infeasible, x violates them least and the status reports it.
        rank_tolerance: a row is independent where its remainder in the null space of the levels above exceeds this
            fraction of its own norm; in [0, 1), dimensionless, whatever the units of the rows.
        damping: adds ``damping^2 |x|^2`` to the objective of every level, in the unit of its weighted rows (as in
            `solve_prioritized`); 0 for exact least squares.  Levels above stay undisturbed with damping, too.
        max_iterations: bound of the number of changes of the active set, per level.
        warm_start: solution of a problem of the same shape, such as the previous tick's; its active set is tried first.
            None for a cold start.

    Returns:
        A `HierarchySolution`; hard problems (rank deficient, infeasible, degenerate) are flagged there, not raised.

    Raises:
        ArgumentError: an option out of its range, levels of different widths, or a `warm_start` of another shape.
    """
    if warm_start is not None and [s.shape for s in warm_start.working_sets] != [(sum(len(v.C) for v in levels),)] * (
        len(levels) + 1
    ):
        raise ArgumentError(
            "warm_start: expected the solution of a problem with the same number of levels and inequality rows"
        )
    pool = SolverPool(size=1)
    return pool.solve(
        levels, rank_tolerance=rank_tolerance, damping=damping, max_iterations=max_iterations, warm_start=warm_start
    )
