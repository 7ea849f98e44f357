"""`HierarchySolution`: what a hierarchy came to, with what it takes to check it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .level import Array

#: Entry of `LevelSolution.active` where both bounds, which are equal, hold.
BOTH = 2


@dataclass(frozen=True, slots=True, eq=False)
class LevelSolution:
    """What one level came to.

    Attributes:
        residual: (m,) ``b - A x``, unweighted.
        violation: (p,) how far ``C x`` is above its upper bound (> 0) or below its lower one (< 0); 0 where kept.
        rank: in how many independent directions this level fixed x.
        active: (p,) of this level's inequalities, at the end of the whole hierarchy: -1 held at or beyond the lower
            bound, +1 the upper, 2 both (equal bounds), 0 free.
        multipliers: per level above and this one, (p_j,) what the bounds of level j cost *this* level: the derivative
            of half its least-squares sum, > 0 where an upper bound, < 0 where a lower bound presses.  The last entry
            is the level's own violation.
        kkt: largest violation of this level's optimality conditions (stationarity in the freedom that the levels
            above leave, signs of the multipliers), relative to the size of its terms.
        feasible: all its inequalities are kept, and no bounds cross.
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


@dataclass(frozen=True, slots=True, eq=False)
class HierarchySolution:
    """What a hierarchy came to.

    Attributes:
        x: (n,) the vector asked for; what freedom is left after the last level goes to the shortest x.
        levels: per level, its `LevelSolution`.
        status: "optimal"; "infeasible": optimal, but the first level's inequalities cannot all be kept and x violates
            them least; "inaccurate": the best x found within the iterations allowed, not verified.
        kkt: the largest of the levels' `kkt`.
        iterations: changes of the active set, over all levels.
        path: "equalities" if no inequality had to be looked after, "warm" if the given active set was the right one,
            otherwise "active set".
        working: per level and for the final shortest x, side (-1, 0, 1) of every inequality of all levels in its
            working set: what a warm start needs.
    """

    x: Array
    levels: tuple[LevelSolution, ...]
    status: str
    kkt: float
    iterations: int
    path: str
    working: tuple[NDArray[np.int8], ...]

    @property
    def verified(self) -> bool:
        """Whether the optimality conditions of every level hold (to 1e-9, relative)."""
        return self.status != "inaccurate" and self.kkt <= 1e-9


def signed_violation(y: Array, lower: Array, upper: Array, allowed: Array) -> Array:
    """How far each y is above its upper (> 0) or below its lower bound (< 0); 0 within `allowed`.

    Between bounds that cross, y violates both; the lower counts unless the upper is violated more.
    """
    over, under = y - upper, lower - y
    return np.where(over > np.maximum(under, 0.0) + allowed, over, np.where(under > allowed, -under, 0.0))
