"""Input and output of the compiled core: `HierarchyProblem`, `SolverSettings`, `SolutionBuffers`.

Levels are stacked: level k has the equalities from ``A_start[k]`` to ``A_start[k + 1]`` and the inequalities from
``C_start[k]`` to ``C_start[k + 1]``.  The length of `A_start` gives the number of levels; all other arrays, and rows,
may be longer than needed, and the workspace may have been made for a larger problem.
"""

from __future__ import annotations

import enum
import math
from typing import NamedTuple

import numpy as np

from ..compiler import ByteMatrix, IntVector, Matrix, Record, Vector, compiled
from ..compiler.lanes import dot

#: Largest residual of the optimality conditions of a verified solution, relative to the size of their terms.
KKT_TOLERANCE = 1e-9


class SolverPath(enum.IntEnum):
    """How a solution was found."""

    EQUALITIES = 0  # no inequality is active
    WARM_START = 1  # the working sets of the warm start are optimal
    ACTIVE_SET = 2  # by changes of the working sets


class SolutionSummary(Record):
    """Outcome of a solve, over all levels."""

    has_converged: bool  # whether every level's active set was found within the allowed iterations
    path: SolverPath
    iterations: int  # changes of active sets, summed over all levels
    max_kkt: float  # largest residual of a level's optimality conditions
    equalities_norm: float  # |x| of the equalities alone, which scales the rounding tolerances
    is_infeasible: bool  # whether level 0 is infeasible, with `feasible_only`; lower levels may then be unsolved


class HierarchyProblem(NamedTuple):
    """A strict hierarchy: minimize ``|A x - b|^2 + distance(C x, [lower, upper])^2``, level after level.

    A reference norm is the norm that a row had before its caller eliminated variables; except for rounding it is at
    least the norm of the row.  A row far below its reference norm is rounding and counts as zero; a row of reference
    norm 0 is left out.
    """

    n: int  # number of unknowns
    A: Matrix  # (m, n) equality rows of all levels
    b: Vector  # (m,) their target values
    A_norms: Vector  # (m,) their reference norms
    C: Matrix  # (p, n) inequality rows of all levels
    lower: Vector  # (p,) lower bounds, -inf for none; bounds that meet or cross make an equality at their middle
    upper: Vector  # (p,) upper bounds, inf for none
    C_norms: Vector  # (p,) reference norms
    A_start: IntVector  # (levels + 1,) where each level's equalities begin, and the last one's end
    C_start: IntVector  # (levels + 1,) where each level's inequalities begin, and the last one's end


class SolverSettings(NamedTuple):
    """Tolerances and limits of the solver."""

    rank_tolerance: float = 1e-9  # fraction of its reference norm above which the remainder of a row is independent
    damping: float = 0.0  # adds damping^2 |x|^2 to the objective of each level
    max_iterations: int = 500  # bound of the changes of the active set, per level
    feasible_only: bool = False  # whether to stop after an infeasible level 0; x is then only an estimate
    infeasibility_tolerance: float = 1e-9  # violation of a row of level 0, in its unit, above which it is infeasible


class SolutionBuffers(NamedTuple):
    """Output of the solver; every array is written.  Index ``[levels]`` is the final minimization of |x|."""

    x: Vector  # (n,) solution
    working_sets: ByteMatrix  # (levels + 1, p) sides (-1, 0, 1) on which each level holds each inequality
    multipliers: Matrix  # (levels + 1, p) multipliers of limits; slacks of the level's own inequalities
    ranks: Vector  # (levels + 1,) number of directions that each level determines
    kkt: Vector  # (levels + 1,) residual of each level's optimality conditions
    summary: SolutionSummary


class LevelBuffers(NamedTuple):
    """Rows of one level, or of all levels, to be written in place.

    Attributes:
        A: (m, n) equality rows, in any unit.
        b: (m,) target values of the equalities, in the units of the rows.
        weights: (m,) weights >= 0 of the squared residuals of the equalities.
        C: (p, n) inequality rows, in any unit.
        lower: (p,) lower bounds in the units of the rows; -inf for none.
        upper: (p,) upper bounds in the units of the rows; inf for none.
    """

    A: Matrix
    b: Vector
    weights: Vector
    C: Matrix
    lower: Vector
    upper: Vector


def make_solution_buffers(n: int, limits: int, levels: int) -> SolutionBuffers:
    """Allocates the output arrays of a problem with n unknowns."""
    sides = np.zeros((levels + 1, limits), dtype=np.int8)
    ranks, kkt = np.zeros(levels + 1), np.zeros(levels + 1)
    return SolutionBuffers(np.zeros(n), sides, np.zeros((levels + 1, limits)), ranks, kkt, SolutionSummary.allocate())


@compiled()
def is_finite(solution: SolutionBuffers, n: int) -> bool:
    """Returns whether all entries of x are finite."""
    size = 0.0
    for i in range(n):
        size += abs(solution.x[i])
    return math.isfinite(size)


@compiled()
def is_verified(solution: SolutionBuffers, n: int) -> bool:
    """Returns whether x is finite and the optimality conditions of every level hold."""
    return solution.summary.has_converged and is_finite(solution, n) and solution.summary.max_kkt <= KKT_TOLERANCE


@compiled(inline=False)
def max_level_0_violation(problem: HierarchyProblem, x: Vector) -> float:
    """Returns the largest ``|A x - b|`` and distance of ``C x`` from its bounds over the rows of level 0."""
    n, worst = problem.n, 0.0
    for i in range(problem.A_start[1]):
        if problem.A_norms[i] > 0.0:
            worst = max(worst, abs(dot(problem.A[i], x, n) - problem.b[i]))
    for i in range(problem.C_start[1]):
        y = dot(problem.C[i], x, n)
        worst = max(worst, y - problem.upper[i], problem.lower[i] - y)
    return worst
