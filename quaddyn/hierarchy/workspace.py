"""`Workspace`: the memory that one solve works in, array by array, and the records that functions hand on.

Matrices of rows are stored by columns, ``M[j, i]`` being entry j of row i: entries of the same column are contiguous,
and inner loops run along them.  Row strides are an odd number of cache lines.  "(n, p)" means: at least that large, and
padded to the SIMD width.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiler import ByteVector, IntVector, Matrix, Tensor, Vector, compiled
from ..compiler.kinds import LANE_WIDTH
from ..compiler.linalg import RowFactor, aligned, odd_stride, row_factor
from .problem import SUMMARY, Problem, Settings, Solution, empty_solution

# What an inequality is to the level being solved: of a level below; to be kept; its own, to be kept as well as
# possible; an equality, or held for good by a level above.
LATER, LIMIT, OWN, FIXED = 0, 1, 2, 3

#: Inequalities count as kept up to this share of the size of their terms, ``|C_i| |x| + |bound|``.
KEPT = 1e-12
#: And as violated for good, or as not reached, beyond this share.
VIOLATED = 1e-10

#: Share of the largest conceivable gradient that the unit of `kkt` does not fall below.
FLOOR = 1e-4


class GuessWork(NamedTuple):
    """Memory of `guess_active_set`: minimize ``|u|^2``, ``lower <= at_start + G u <= upper``, for ``u = W y``.

    Its matrices are, by other names, those that factorizations work in (`workspace`).
    """

    W: Matrix  # (n, n) triangle, level by level, of the weighted levels in the coordinates y of the basis
    G: Matrix  # (n, p) normals, C Q = G W
    G_square: Vector  # (p,) squared lengths of the normals
    reach: Vector  # (p,) squared lengths of the rows in the freedom looked at so far
    J: Matrix  # (n, n) orthonormal rows, the first of which span the active normals
    R: Matrix  # (n, n) columns of an upper triangle, active normals = J^T R
    sides: IntVector  # (p,) active set; also what the sweep takes over from level to level
    active: IntVector  # (n,) rows of the active set in the order of R
    multipliers: Vector  # (p,) of the active rows, >= 0
    lower: Vector  # (p,) bounds as far as rounding allows
    upper: Vector  # (p,)
    price: Vector  # (p,) 1 / squared length of a normal that may join, else 0
    normal: Vector  # (n,) of the row that joins
    along: Vector  # (n,) the same in the basis J
    rate: Vector  # (n,) change of the multipliers, and step


class Workspace(NamedTuple):
    """Memory of a solve: n unknowns, p inequalities, m rows of one level (inequalities and n for damping included)."""

    # The freedom.
    basis: Matrix  # (n, n) orthonormal rows Q: those from q on span what the levels above leave free
    basis_before: Matrix  # (n, n) the same before a warm start was tried
    x_equalities: Vector  # (n,) x of the equalities alone, where sweeps begin
    # The levels as given.
    J: Tensor  # (levels + 1, n, m) objective rows of each level, equalities among its inequalities included
    J_target: Matrix  # (levels + 1, m) their wanted values
    J_length: Matrix  # (levels + 1, m) their reference lengths
    J_count: IntVector  # (levels + 1,) how many there are, -1 if they have not been loaded
    C: Matrix  # (n, p) inequality rows
    lower: Vector  # (p,) bounds; a level that cannot keep its own to the last digit moves them
    upper: Vector  # (p,)
    lower_given: Vector  # (p,) bounds before that
    upper_given: Vector  # (p,)
    equal: IntVector  # (p,) whether bounds meet: an equality
    role: IntVector  # (p,) LATER, LIMIT, OWN or FIXED
    zero: Vector  # (p,) zeros
    # The level being solved, in the coordinates z of its freedom.
    J_z: Matrix  # (n, m) objective rows J Z
    residual: Vector  # (m,) J x - target at z = 0
    target: Vector  # (m,)
    j_norm: Vector  # (m,) reference lengths
    C_z: Matrix  # (n, p) inequality rows C Q^T, of which those from the level's first free column on are C Z
    at_start: Vector  # (p,) C x at z = 0
    z: Vector  # (n,) where the active set has come to
    z_next: Vector  # (n,) the optimum of its working set
    C_unit: Matrix  # (n, p) C_z with rows of reference length 1, and so on
    at_start_unit: Vector  # (p,)
    lower_unit: Vector  # (p,)
    upper_unit: Vector  # (p,)
    c_norm_unit: Vector  # (p,) reference lengths: 1, or 0
    # One round of the active set.
    H: Matrix  # (n, p) held limits, factored
    H_length: Vector  # (p,)
    H_rhs: Vector  # (p,)
    R: Matrix  # (n, m) objective rows and own inequalities held, factored
    R_length: Vector  # (m,)
    R_rhs: Vector  # (m,)
    held: IntVector  # (p,) which inequalities are the rows of H
    fixed: IntVector  # (1,) directions that they decide, the first ones of the reflectors
    own: IntVector  # (p,) which are the last rows of R
    factor: RowFactor  # reflectors, pivots and scratch
    y: Vector  # (n,) solution in the basis of the reflectors
    gradient: Vector  # (n,) of the objective; also a step
    pull: Vector  # (n,) forces of the multipliers
    row_values: Vector  # (m,) residuals of rows
    at_z: Vector  # (p,) inequalities at z; also their change
    at_next: Vector  # (p,) inequalities at z_next, and at the optimum in the end
    wrong_sign: Vector  # (p,) by how much multipliers have the wrong sign
    let_go: IntVector  # (p,) how often a row was let go for a multiplier of nearly the right sign
    guess: GuessWork
    # Answers put aside.
    before: Solution  # while a warm start or a refinement is tried
    best: Solution  # of `solve_verified`


class Hierarchy(NamedTuple):
    """A hierarchy being solved."""

    problem: Problem
    settings: Settings
    solution: Solution
    work: Workspace
    n: int  # unknowns
    p: int  # inequalities
    levels: int
    spread: float  # ratio of reference lengths beyond which a level is first tried with rows of equal length


class Subproblem(NamedTuple):
    """One level in its freedom ``x = x_start + Z z``, and its working set, `sides`.

    Minimize ``|J_z z + residual|^2 + distance(own inequalities)^2`` within ``lower <= at_start + C_z z <= upper``
    for the inequalities that are limits.
    """

    d: int  # unknowns z
    m: int  # objective rows
    p: int  # inequalities
    damping_rows: int  # how many objective rows, the last ones, are for damping
    tolerance: float  # of rank
    size: float  # of x at the start, for what rounding allows
    J_z: Matrix  # (d, m)
    residual: Vector  # (m,) at z = 0
    target: Vector  # (m,)
    j_norm: Vector  # (m,) reference lengths
    C_z: Matrix  # (d, p)
    at_start: Vector  # (p,) C x at z = 0
    lower: Vector  # (p,)
    upper: Vector  # (p,)
    c_norm: Vector  # (p,) reference lengths
    role: IntVector  # (p,)
    sides: ByteVector  # (p,) -1, 0, 1: held at the lower bound, not held, held at the upper one
    multipliers: Vector  # (p,) of limits held, slacks of own inequalities held, else 0


@compiled(inline=True)
def subproblem(h: Hierarchy, k: int, d: int, m: int, damping_rows: int, size: float) -> Subproblem:
    """Level k as it lies in the workspace."""
    return Subproblem(
        d, m, h.p, damping_rows, h.settings.rank_tolerance, size, h.work.J_z, h.work.residual, h.work.target,
        h.work.j_norm, h.work.C_z[h.n - d :], h.work.at_start, h.work.lower, h.work.upper, h.problem.C_length,
        h.work.role, h.solution.working[k], h.solution.multipliers[k],
    )  # fmt: skip


@compiled(inline=True)
def row_scaled(h: Hierarchy, s: Subproblem) -> Subproblem:
    """The same level with other memory for its inequalities: that for rows of length 1."""
    return Subproblem(
        s.d, s.m, s.p, s.damping_rows, s.tolerance, s.size, s.J_z, s.residual, s.target, s.j_norm, h.work.C_unit,
        h.work.at_start_unit, h.work.lower_unit, h.work.upper_unit, h.work.c_norm_unit, s.role, s.sides, s.multipliers,
    )  # fmt: skip


def workspace(n: int, rows: int, limits: int, levels: int) -> Workspace:
    """Memory for problems up to a size; smaller ones may be solved in it.

    Args:
        n: unknowns.
        rows: equality rows of one level.
        limits: inequalities of all levels.
        levels: number of levels.
    """
    p, m = limits, max(rows, n) + n + limits
    wide, tall, square = odd_stride(m + LANE_WIDTH), odd_stride(p + LANE_WIDTH), odd_stride(n + 2 * LANE_WIDTH)
    given = odd_stride(max(rows, n) + limits + LANE_WIDTH)

    def vectors(count: int, stride: int) -> list[Vector]:
        return list(aligned(count, stride))

    def integers(count: int) -> IntVector:
        return np.zeros(count + LANE_WIDTH, dtype=np.int64)

    x_equalities, z, z_next, y, gradient, pull, normal, along, rate = vectors(9, square)
    residual, target, j_norm, R_length, R_rhs, row_values = vectors(6, wide)
    lower, upper, lower_given, upper_given, zero, at_start = vectors(6, tall)
    at_start_unit, lower_unit, upper_unit, c_norm_unit = vectors(4, tall)
    H_length, H_rhs, at_z, at_next, wrong_sign = vectors(5, tall)
    G_square, reach, multipliers, guess_lower, guess_upper, price = vectors(6, tall)
    C, C_z, C_unit, H = (aligned(n + 1, tall) for _ in range(4))
    R, factor = aligned(n + 1, wide), row_factor(n + 1, m + LANE_WIDTH)
    # While a guess is made nothing is factored: what a solve has touched already costs no further lines of the cache.
    guess = GuessWork(
        factor.triangle, H, G_square, reach, factor.reflectors, R, integers(p), integers(n), multipliers, guess_lower,
        guess_upper, price, normal, along, rate,
    )  # fmt: skip
    return Workspace(
        basis=aligned(n + 1, square), basis_before=aligned(n + 1, square), x_equalities=x_equalities,
        J=aligned(levels + 1, n + 1, given), J_target=aligned(levels + 1, given), J_length=aligned(levels + 1, given),
        J_count=integers(levels + 1), C=C, lower=lower, upper=upper, lower_given=lower_given, upper_given=upper_given,
        equal=integers(p), role=integers(p), zero=zero, J_z=aligned(n + 1, wide), residual=residual, target=target,
        j_norm=j_norm, C_z=C_z, at_start=at_start, z=z, z_next=z_next, C_unit=C_unit, at_start_unit=at_start_unit,
        lower_unit=lower_unit, upper_unit=upper_unit, c_norm_unit=c_norm_unit, H=H, H_length=H_length, H_rhs=H_rhs,
        R=R, R_length=R_length, R_rhs=R_rhs, held=integers(p), fixed=integers(1), own=integers(p),
        factor=factor, y=y, gradient=gradient, pull=pull, row_values=row_values, at_z=at_z,
        at_next=at_next, wrong_sign=wrong_sign, let_go=integers(p), guess=guess, before=empty_solution(n, p, levels),
        best=empty_solution(n, p, levels),
    )  # fmt: skip


@compiled()
def copy_numbers(to: Vector, source: Vector, n: int) -> None:
    """``to[:n] = source[:n]``."""
    for i in range(n):
        to[i] = source[i]


@compiled(inline=False)
def copy_solution(h: Hierarchy, to: Solution, of: Solution) -> None:
    """``to = of``, entry by entry."""
    copy_numbers(to.x, of.x, h.n)
    copy_numbers(to.ranks, of.ranks, h.levels + 1)
    copy_numbers(to.kkt, of.kkt, h.levels + 1)
    copy_numbers(to.summary, of.summary, SUMMARY)
    for k in range(h.levels + 1):
        copy_numbers(to.multipliers[k], of.multipliers[k], h.p)
        for i in range(h.p):
            to.working[k, i] = of.working[k, i]


@compiled()
def save(h: Hierarchy, to: Solution) -> None:
    """Put the solution aside."""
    copy_solution(h, to, h.solution)


@compiled()
def restore(h: Hierarchy, saved: Solution) -> None:
    """Take back what was put aside."""
    copy_solution(h, h.solution, saved)
