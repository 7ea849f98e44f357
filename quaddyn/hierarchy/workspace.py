"""`HierarchyWorkspace`: preallocated arrays of a solve, and the records that the solver functions pass on.

Matrices of rows are stored by columns, ``M[j, i]`` being entry j of row i: entries of the same column are contiguous,
and inner loops run along them.  Row strides are an odd number of cache lines.  "(n, p)" means at least that size,
padded to the SIMD width.

`HierarchyProblem`, `SolverSettings` and `SolutionBuffers` are input and output of the compiled core.  Levels are
stacked: level k has the equalities from ``A_start[k]`` to ``A_start[k + 1]`` and the inequalities from ``C_start[k]``
to ``C_start[k + 1]``.  The length of `A_start` gives the number of levels; all other arrays, and rows, may be longer
than needed, and the workspace may have been made for a larger problem.
"""

from __future__ import annotations

import enum
import math
from typing import NamedTuple

import numpy as np

from ..compiler import ByteMatrix, ByteVector, IntVector, Matrix, Record, Vector, compiled, matrix
from ..compiler.kinds import LANE_WIDTH
from ..compiler.lane_memory import share_memory
from ..compiler.lanes import dot
from ..compiler.linalg import RowFactor, aligned, odd_stride, padded, row_factor

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
    # Whether the working sets of the warm start are tried before others, which pays off if they seldom change.
    expects_same_sets: bool = True


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


class LimitRole(enum.IntEnum):
    """Role of an inequality for the level being solved."""

    LOWER_LEVEL = 0  # it belongs to a level below
    LIMIT = 1  # it is a constraint of a level above
    OWN = 2  # it belongs to the level, which violates it as little as possible
    FIXED = 3  # it is an equality, or fixed by a level above


#: An inequality is satisfied up to this fraction of the size of its terms, ``|C_i| |x| + |bound|``.
FEASIBILITY_TOLERANCE = 1e-12
#: An inequality is clearly violated, or a bound clearly not reached, beyond this fraction of the size of its terms.
VIOLATION_TOLERANCE = 1e-10

#: Lower bound of the scale of KKT residuals, as a fraction of the upper bound of the gradient.
KKT_SCALE_FLOOR = 1e-4


class PredictionWorkspace(NamedTuple):
    """Workspace of `predict_active_set`: minimize ``|u|^2``, ``lower <= C_at_start + G u <= upper``, for ``u = W y``.

    Its matrices share the memory of the factorizations (`make_workspace`); `find_least_violation` uses it as scratch,
    too.
    """

    W: Matrix  # (n, n) triangle, level by level, of the weighted levels in the coordinates y of the basis
    G: Matrix  # (n, p) normals, C Q = G W
    G_norms_squared: Vector  # (p,) squared norms of the normals
    free_norms_squared: Vector  # (p,) squared norms of the rows in the null space of the levels not yet added
    J: Matrix  # (n, n) orthonormal rows, the first of which span the active normals
    R: Matrix  # (n, n) columns of an upper triangle, active normals = J^T R
    sides: IntVector  # (p,) active set; predicted sides for the following levels
    active_rows: IntVector  # (n,) rows of the active set in the order of R
    multipliers: Vector  # (p,) multipliers of the active rows, >= 0
    lower: Vector  # (p,) bounds, relaxed so that rounding errors are not violations
    upper: Vector  # (p,)
    candidate_weights: Vector  # (p,) 1 / squared norm of a normal that may be added, else 0
    new_normal: Vector  # (n,) normal of the row to be added
    normal_coordinates: Vector  # (n,) the same in the basis J
    multiplier_rates: Vector  # (n,) rates of the multipliers, and step


class WorkingSetOptimum(Record):
    """Rank of the optimum for a fixed working set."""

    active_rank: int  # number of directions that the active limits determine, the first ones of the reflectors


class HierarchyWorkspace(NamedTuple):
    """Workspace of a solve: n unknowns, p inequalities, m rows of one level, including inequalities and damping."""

    # The null space.
    basis: Matrix  # (n, n) orthonormal rows Q: those from q on span the null space of the levels above
    saved_basis: Matrix  # (n, n) the same before a warm start was tried
    x_equalities: Vector  # (n,) x of the equalities alone, the starting point of the levels
    # The levels as given.
    J: Vector  # objective rows of all levels, or of one level at a time, see `level_objective`
    J_target: Vector  # their target values
    J_norms: Vector  # their reference norms
    J_start: IntVector  # (levels + 1,) first of these values of each level
    J_end: IntVector  # (levels + 1,) where these values end
    J_count: IntVector  # (levels + 1,) number of loaded rows, -1 if they are not loaded
    C: Matrix  # (n, p) inequality rows
    lower: Vector  # (p,) bounds; a level that violates its own by rounding moves them
    upper: Vector  # (p,)
    lower_given: Vector  # (p,) bounds before that
    upper_given: Vector  # (p,)
    is_equality: IntVector  # (p,) whether the bounds meet
    role: IntVector  # (p,) one of `LimitRole`
    zeros: Vector  # (p,) zeros
    # The level being solved, in the coordinates z of the null space.
    J_z: Matrix  # (n, m) objective rows J Z
    residual: Vector  # (m,) J x - target at z = 0
    target: Vector  # (m,)
    objective_norms: Vector  # (m,) reference norms
    C_z: Matrix  # (n, p) inequality rows C Q^T, of which those from the level's first free column on are C Z
    C_at_start: Vector  # (p,) C x at z = 0
    z: Vector  # (n,) current point of the active-set method
    z_next: Vector  # (n,) optimum for its working set
    C_unit: Matrix  # (n, p) C_z with rows of reference norm 1; the same for the following
    C_at_start_unit: Vector  # (p,)
    lower_unit: Vector  # (p,)
    upper_unit: Vector  # (p,)
    C_unit_norms: Vector  # (p,) reference norms: 1, or 0
    # One iteration of the active-set method.
    H: Matrix  # (n, p) active limits, factored
    H_norms: Vector  # (p,)
    H_rhs: Vector  # (p,)
    R: Matrix  # (n, m) objective rows and own active inequalities, factored
    R_norms: Vector  # (m,)
    R_rhs: Vector  # (m,)
    active_limits: IntVector  # (p,) indices of the inequalities that are the rows of H
    optimum: WorkingSetOptimum
    own_rows: IntVector  # (p,) indices of the inequalities that are the last rows of R
    factor: RowFactor  # reflectors, pivots and scratch
    y: Vector  # (n,) solution in the basis of the reflectors
    gradient: Vector  # (n,) of the objective; also a step
    multiplier_gradient: Vector  # (n,) forces of the multipliers; also scratch
    row_values: Vector  # (m,) residuals of rows
    C_at_z: Vector  # (p,) inequalities at z; also their change and multipliers
    C_at_next: Vector  # (p,) inequalities at z_next, and at the optimum in the end
    wrong_sign_sizes: Vector  # (p,) sizes of multipliers with the wrong sign
    release_counts: IntVector  # (p,) number of removals of each row for a small multiplier of the wrong sign
    prediction: PredictionWorkspace
    # Saved solutions.
    saved_solution: SolutionBuffers  # while a warm start or a refinement is tried
    best_solution: SolutionBuffers  # of `solve_until_verified`


class Hierarchy(NamedTuple):
    """Problem, settings, solution and workspace of one solve."""

    problem: HierarchyProblem
    settings: SolverSettings
    solution: SolutionBuffers
    work: HierarchyWorkspace
    n: int  # number of unknowns
    p: int  # number of inequalities
    levels: int  # number of levels
    row_scaling_ratio: float  # ratio of reference norms above which a level is first solved with rows of unit norm


class Subproblem(NamedTuple):
    """One level in the null space of the levels above, ``x = x_start + Z z``, and its working set, `sides`.

    Minimize ``|J_z z + residual|^2 + distance(own inequalities)^2`` within ``lower <= C_at_start + C_z z <= upper`` for
    the inequalities that are limits.
    """

    d: int  # number of unknowns z
    m: int  # number of objective rows
    p: int  # number of inequalities
    damping_rows: int  # number of objective rows, the last ones, that are damping
    tolerance: float  # rank tolerance
    x_norm: float  # norm of x at the start, which scales rounding tolerances
    J_z: Matrix  # (d, m)
    residual: Vector  # (m,) at z = 0
    target: Vector  # (m,)
    objective_norms: Vector  # (m,) reference norms
    C_z: Matrix  # (d, p)
    C_at_start: Vector  # (p,) C x at z = 0
    lower: Vector  # (p,)
    upper: Vector  # (p,)
    C_norms: Vector  # (p,) reference norms
    role: IntVector  # (p,)
    sides: ByteVector  # (p,) -1, 0, 1: active at the lower bound, not active, active at the upper bound
    multipliers: Vector  # (p,) multipliers of active limits, slacks of own active inequalities, else 0


class LevelObjective(NamedTuple):
    """Objective of a level, ``|J x - target|^2``: its equalities, and its inequalities with equal bounds."""

    J: Matrix  # (n, m) rows
    target: Vector  # (m,) target values
    norms: Vector  # (m,) reference norms


@compiled()
def reserve_objectives(h: Hierarchy) -> None:
    """Reserves memory for the objective of each level, of which none is loaded; the same for all if it is scarce."""
    start, end, total = h.work.J_start, h.work.J_end, 0
    for k in range(h.levels + 1):
        rows = h.n
        if k < h.levels:
            rows = h.problem.A_start[k + 1] - h.problem.A_start[k] + h.problem.C_start[k + 1] - h.problem.C_start[k]
        start[k] = total
        total += LANE_WIDTH * ((rows + LANE_WIDTH - 1) // LANE_WIDTH)
        end[k] = total
    if total > len(h.work.J_target):
        for k in range(h.levels + 1):
            end[k] -= start[k]
            start[k] = 0
    forget_objectives(h)


@compiled()
def forget_objectives(h: Hierarchy) -> None:
    """Marks the objectives of all levels as not loaded."""
    for k in range(h.levels + 1):
        h.work.J_count[k] = -1


@compiled(inline=True)
def level_objective(h: Hierarchy, k: int) -> LevelObjective:
    """Returns the objective of level k in the workspace, which `load_level` loads."""
    start, end, n = h.work.J_start[k], h.work.J_end[k], h.n
    return LevelObjective(
        matrix(h.work.J, (n + 1) * start, n + 1, end - start), h.work.J_target[start:end], h.work.J_norms[start:end]
    )


@compiled(inline=True)
def make_subproblem(h: Hierarchy, k: int, d: int, m: int, damping_rows: int, x_norm: float) -> Subproblem:
    """Returns level k as it is stored in the workspace."""
    return Subproblem(
        d,
        m,
        h.p,
        damping_rows,
        h.settings.rank_tolerance,
        x_norm,
        h.work.J_z,
        h.work.residual,
        h.work.target,
        h.work.objective_norms,
        h.work.C_z[h.n - d :],
        h.work.C_at_start,
        h.work.lower,
        h.work.upper,
        h.problem.C_norms,
        h.work.role,
        h.solution.working_sets[k],
        h.solution.multipliers[k],
    )


@compiled(inline=True)
def make_unit_row_subproblem(h: Hierarchy, s: Subproblem) -> Subproblem:
    """Returns the same level with the arrays for rows of unit norm in place of those of its inequalities."""
    return Subproblem(
        s.d,
        s.m,
        s.p,
        s.damping_rows,
        s.tolerance,
        s.x_norm,
        s.J_z,
        s.residual,
        s.target,
        s.objective_norms,
        h.work.C_unit,
        h.work.C_at_start_unit,
        h.work.lower_unit,
        h.work.upper_unit,
        h.work.C_unit_norms,
        s.role,
        s.sides,
        s.multipliers,
    )


def make_workspace(
    n: int,
    max_level_rows: int,
    equalities: int,
    inequalities: int,
    levels: int,
    *,
    has_damping: bool = True,
    compact_rows: int = 0,
) -> HierarchyWorkspace:
    """Allocates the workspace for problems up to a size; smaller problems may be solved in it.

    Args:
        n: number of unknowns.
        max_level_rows: largest number of equality rows of one level.
        equalities: number of equality rows of all levels.
        inequalities: number of inequalities of all levels.
        levels: number of levels.
        has_damping: whether `SolverSettings.damping` may be positive.
        compact_rows: 0, or the largest number of rows of one level, with its inequalities and up to n of those of the
            levels above, to use little memory instead of arranging it for the caches of a processor: for a lane on a
            GPU.  Levels then load their objectives again, and some arrays share memory.
    """
    is_compact = compact_rows > 0
    p, m = inequalities, max(max_level_rows, n) + (n if has_damping else 0) + inequalities
    row_stride, inequality_stride, unknown_stride = (
        odd_stride(m + LANE_WIDTH),
        odd_stride(p + LANE_WIDTH),
        odd_stride(n + 2 * LANE_WIDTH),
    )
    # Below the last level are n rows.  The rows of each level are padded to the SIMD width.
    objective_rows = padded(equalities + p + n) + LANE_WIDTH * (levels + 1)
    if is_compact:
        objective_rows, row_stride = padded(max(compact_rows, n)), padded(max(compact_rows, n) + n * has_damping)
        inequality_stride, unknown_stride = padded(p), padded(n) + LANE_WIDTH

    def vectors(count: int, stride: int) -> list[Vector]:
        """Returns aligned vectors of zeros."""
        return list(aligned(count, stride))

    def integers(count: int) -> IntVector:
        """Returns a vector of integer zeros, padded to the SIMD width."""
        return np.zeros(count + LANE_WIDTH, dtype=np.int64)

    x_equalities, z, z_next, y, gradient, multiplier_gradient, new_normal, normal_coordinates, multiplier_rates = (
        vectors(9, unknown_stride)
    )
    residual, target, objective_norms, R_norms, R_rhs, row_values = vectors(6, row_stride)
    lower, upper, lower_given, upper_given, zeros, C_at_start = vectors(6, inequality_stride)
    C_at_start_unit, lower_unit, upper_unit, C_unit_norms = vectors(4, inequality_stride)
    H_norms, H_rhs, C_at_z, C_at_next, wrong_sign = vectors(5, inequality_stride)
    G_norms_squared, free_norms_squared, multipliers, prediction_lower, prediction_upper, candidate_weights = vectors(
        6, inequality_stride
    )
    C, C_z, C_unit, H = (aligned(n + 1, inequality_stride) for _ in range(4))
    J, J_z, R = aligned((n + 1) * objective_rows), aligned(n + 1, row_stride), aligned(n + 1, row_stride)
    factor = row_factor(n + 1, row_stride, unknown_stride if is_compact else odd_stride(n + 1 + LANE_WIDTH))
    # The prediction shares memory with the factorizations, which are not in use then, to need fewer cache lines.
    prediction = PredictionWorkspace(
        factor.triangle,
        H,
        G_norms_squared,
        free_norms_squared,
        factor.reflectors,
        R,
        integers(p),
        integers(n),
        multipliers,
        prediction_lower,
        prediction_upper,
        candidate_weights,
        new_normal,
        normal_coordinates,
        multiplier_rates,
    )
    work = HierarchyWorkspace(
        basis=aligned(n + 1, unknown_stride),
        saved_basis=aligned(n + 1, unknown_stride),
        x_equalities=x_equalities,
        J=J,
        J_target=aligned(objective_rows),
        J_norms=aligned(objective_rows),
        J_start=integers(levels + 1),
        J_end=integers(levels + 1),
        J_count=integers(levels + 1),
        C=C,
        lower=lower,
        upper=upper,
        lower_given=lower_given,
        upper_given=upper_given,
        is_equality=integers(p),
        role=integers(p),
        zeros=zeros,
        J_z=J_z,
        residual=residual,
        target=target,
        objective_norms=objective_norms,
        C_z=C_z,
        C_at_start=C_at_start,
        z=z,
        z_next=z_next,
        C_unit=C_unit,
        C_at_start_unit=C_at_start_unit,
        lower_unit=lower_unit,
        upper_unit=upper_unit,
        C_unit_norms=C_unit_norms,
        H=H,
        H_norms=H_norms,
        H_rhs=H_rhs,
        R=R,
        R_norms=R_norms,
        R_rhs=R_rhs,
        active_limits=integers(p),
        optimum=WorkingSetOptimum.allocate(),
        own_rows=integers(p),
        factor=factor,
        y=y,
        gradient=gradient,
        multiplier_gradient=multiplier_gradient,
        row_values=row_values,
        C_at_z=C_at_z,
        C_at_next=C_at_next,
        wrong_sign_sizes=wrong_sign,
        release_counts=integers(p),
        prediction=prediction,
        saved_solution=make_solution_buffers(n, p, levels),
        best_solution=make_solution_buffers(n, p, levels),
    )
    if not is_compact:
        return work
    # A level that is solved with rows of unit norm forgets its objective.
    return share_memory(work, [J], [C_unit, C_at_start_unit, lower_unit, upper_unit, C_unit_norms])


@compiled(inline=False)
def copy_solution(h: Hierarchy, target: SolutionBuffers, source: SolutionBuffers) -> None:
    """Copies a solution entry by entry."""
    target.x[: h.n] = source.x[: h.n]
    target.ranks[: h.levels + 1] = source.ranks[: h.levels + 1]
    target.kkt[: h.levels + 1] = source.kkt[: h.levels + 1]
    target.summary.copy_from(source.summary)
    for k in range(h.levels + 1):
        target.multipliers[k, : h.p] = source.multipliers[k, : h.p]
        target.working_sets[k, : h.p] = source.working_sets[k, : h.p]


@compiled()
def save_solution(h: Hierarchy, target: SolutionBuffers) -> None:
    """Copies the current solution to `target`."""
    copy_solution(h, target, h.solution)


@compiled()
def restore_solution(h: Hierarchy, saved: SolutionBuffers) -> None:
    """Copies a saved solution back to the current one."""
    copy_solution(h, h.solution, saved)
