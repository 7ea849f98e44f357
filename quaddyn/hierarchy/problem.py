"""What the compiled core is asked and what it answers: `Problem`, `Settings`, `Solution`.

Levels are stacked: level k has the equalities from ``A_start[k]`` to ``A_start[k + 1]`` and the inequalities from
``C_start[k]`` to ``C_start[k + 1]``.  The length of `A_start` says how many levels there are; all other arrays,
and rows, may be longer than needed, and the memory may have been made for a larger problem.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..compiler import ByteMatrix, IntVector, Matrix, Vector, compiled
from ..compiler.lanes import dot

#: An answer is verified up to this residual of the optimality conditions, relative to the size of their terms.
VERIFIED = 1e-9

# Entries of `Solution.summary`: whether all active sets were found within the iterations allowed; how (below); changes
# of active sets; the largest `kkt`; |x| of the equalities alone, which rounding is measured by; whether level 0 could
# not be met (`Settings.feasible_only`).
ENDED, PATH, ITERATIONS, WORST_KKT, REACH, INFEASIBLE, SUMMARY = range(7)

# Values of PATH: no limit matters; the guessed working sets are right; they were looked for.
EQUALITIES, WARM, ACTIVE_SET = 0.0, 1.0, 2.0


class Problem(NamedTuple):
    """A strict hierarchy: minimize ``|A x - b|^2 + distance(C x, [lower, upper])^2``, level after level.

    A reference length is the norm that a row had before its caller eliminated variables, and at least the norm that it
    has, but for rounding: of a row of which only rounding is left nothing is.  A row of length 0 is left out.
    """

    n: int  # number of unknowns
    A: Matrix  # (m, n) equality rows of all levels
    b: Vector  # (m,) their wanted values
    A_length: Vector  # (m,) their reference lengths
    C: Matrix  # (p, n) inequality rows of all levels
    lower: Vector  # (p,) lower bounds, -inf for none; bounds that meet or cross make an equality at their middle
    upper: Vector  # (p,) upper bounds, inf for none
    C_length: Vector  # (p,) reference lengths
    A_start: IntVector  # (levels + 1,) where each level's equalities begin, and the last one's end
    C_start: IntVector  # (levels + 1,) where each level's inequalities begin, and the last one's end


class Settings(NamedTuple):
    """How to solve it."""

    rank_tolerance: float = 1e-9  # share of its reference length beyond which a row's remainder is independent
    damping: float = 0.0  # adds damping^2 |x|^2 to what each level minimizes
    max_iterations: int = 500  # changes of the active set, per level
    feasible_only: bool = False  # whether to stop after level 0 if it cannot be met; x is then no more than an estimate
    infeasible_above: float = 1e-9  # violation of a row of level 0, in its unit, up to which it counts as met


class Solution(NamedTuple):
    """What came of it; every array is written.  ``[levels]`` is the minimum of |x| in the freedom that is left."""

    x: Vector  # (n,)
    working: ByteMatrix  # (levels + 1, p) sides (-1, 0, 1) on which each level holds each inequality
    multipliers: Matrix  # (levels + 1, p) of limits; slacks of the level's own inequalities
    ranks: Vector  # (levels + 1,) directions that each level has decided
    kkt: Vector  # (levels + 1,) residual of each level's optimality conditions
    summary: Vector  # (SUMMARY,) see ENDED to INFEASIBLE, or ask the functions below


class Buffers(NamedTuple):
    """Rows to be written in place: of one level, or of all of them."""

    A: Matrix  # (m, n) equalities
    b: Vector  # (m,) their wanted values
    weights: Vector  # (m,) >= 0, of their squared residuals
    C: Matrix  # (p, n) inequalities
    lower: Vector  # (p,) lower bounds
    upper: Vector  # (p,) upper bounds


def empty_solution(n: int, limits: int, levels: int) -> Solution:
    """Memory for a solution."""
    sides = np.zeros((levels + 1, limits), dtype=np.int8)
    ranks, kkt = np.zeros(levels + 1), np.zeros(levels + 1)
    return Solution(np.zeros(n), sides, np.zeros((levels + 1, limits)), ranks, kkt, np.zeros(SUMMARY))


@compiled()
def has_ended(solution: Solution) -> bool:
    """Whether every level's active set was found within the iterations allowed."""
    return float(solution.summary[ENDED]) == 1.0


@compiled()
def worst_kkt(solution: Solution) -> float:
    """The largest residual of a level's optimality conditions."""
    return float(solution.summary[WORST_KKT])


@compiled()
def iterations(solution: Solution) -> int:
    """Changes of active sets, over all levels."""
    return int(solution.summary[ITERATIONS])


@compiled()
def is_infeasible(solution: Solution) -> bool:
    """Whether level 0 could not be met, only with `Settings.feasible_only`; levels below it may be left unsolved."""
    return float(solution.summary[INFEASIBLE]) == 1.0


@compiled()
def is_finite(solution: Solution, n: int) -> bool:
    """Whether x is."""
    size = 0.0
    for i in range(n):
        size += abs(solution.x[i])
    return math.isfinite(size)


@compiled()
def is_verified(solution: Solution, n: int) -> bool:
    """Whether the optimality conditions of every level hold, at a finite x."""
    return has_ended(solution) and is_finite(solution, n) and worst_kkt(solution) <= VERIFIED


@compiled(inline=False)
def level_0_violation(problem: Problem, x: Vector) -> float:
    """The largest ``|A x - b|`` and distance of ``C x`` from its bounds over the rows of level 0."""
    n, worst = problem.n, 0.0
    for i in range(problem.A_start[1]):
        if problem.A_length[i] > 0.0:
            worst = max(worst, abs(dot(problem.A[i], x, n) - problem.b[i]))
    for i in range(problem.C_start[1]):
        y = dot(problem.C[i], x, n)
        worst = max(worst, y - problem.upper[i], problem.lower[i] - y)
    return worst
