"""`HierarchySolution`: the solution of a hierarchy with its certificate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..deprecation import renamed_attributes
from .level import Array

#: Entry of `LevelSolution.active` where both bounds, which are equal, are active.
BOTH_BOUNDS = 2


@dataclass(frozen=True, slots=True, eq=False)
class LevelSolution:
    """Solution of one level of a hierarchy.

    Attributes:
        residual: (m,) ``b - A x``, unweighted, in the units of the rows.
        violation: (p,) by how much ``C x`` is above its upper bound (> 0) or below its lower one (< 0), in the units
            of the rows; 0 where satisfied.
        rank: number of independent directions in which this level determined x.
        active: (p,) of this level's inequalities, at the end of the whole hierarchy: -1 at or beyond the lower bound,
            +1 the upper, 2 both (equal bounds), 0 inactive.
        multipliers: per level above and this one, (p_j,) the cost of the bounds of level j for *this* level: the
            derivative of half its least-squares sum, > 0 for an active upper bound, < 0 for an active lower bound.  The
            last entry is the level's own violation.
        kkt: largest violation of this level's optimality conditions (stationarity in the null space of the levels
            above, signs of the multipliers), relative to the size of its terms.
        feasible: whether all its inequalities are satisfied and no bounds cross.
    """

    residual: Array
    violation: Array
    rank: int
    active: NDArray[np.int8]
    multipliers: tuple[Array, ...]
    kkt: float
    feasible: bool

    @property
    def error(self) -> float:
        """Squared unweighted residual plus squared violation."""
        return float(self.residual @ self.residual + self.violation @ self.violation)


@renamed_attributes(path="solver_path", working="working_sets")
@dataclass(frozen=True, slots=True, eq=False)
class HierarchySolution:
    """Solution of a hierarchy.

    Attributes:
        x: (n,) the solution; the shortest one in the null space that remains after the last level.
        levels: per level, its `LevelSolution`.
        status: "optimal"; "infeasible": optimal, but the first level's inequalities cannot all be satisfied and x
            violates them least; "inaccurate": the best x found within the allowed iterations, not verified.
        kkt: the largest `kkt` of the levels.
        iterations: number of changes of the active set, over all levels.
        solver_path: "equalities" if no inequality became active, "warm" if the given active set was optimal, otherwise
            "active set".
        working_sets: per level, and for the final minimization of ``|x|``, the side (-1, 0, 1) of every inequality of
            all levels in its working set; a warm start uses them.
    """

    x: Array
    levels: tuple[LevelSolution, ...]
    status: str
    kkt: float
    iterations: int
    solver_path: str
    working_sets: tuple[NDArray[np.int8], ...]

    @property
    def verified(self) -> bool:
        """Whether the optimality conditions of every level hold (to 1e-9, relative)."""
        return self.status != "inaccurate" and self.kkt <= 1e-9


def signed_violation(y: Array, lower: Array, upper: Array, allowed: Array) -> Array:
    """Returns the violation of the bounds by y: > 0 above the upper, < 0 below the lower, 0 up to `allowed`.

    Between bounds that cross, y violates both; the larger violation is returned.
    """
    above, below = y - upper, lower - y
    return np.where(above > np.maximum(below, 0.0) + allowed, above, np.where(below > allowed, -below, 0.0))
