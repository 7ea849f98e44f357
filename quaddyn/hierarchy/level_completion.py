"""The end of a level: x moved to its optimum, the certificate, and the basis of what is still free.

The certificate is the residual of the level's optimality conditions, from its own rows, with no factor of theirs.
"""

from __future__ import annotations

import math

from ..compiler import Vector, compiled
from ..compiler.lanes import copy_columns, gemv_add, gemv_transposed
from ..compiler.linalg import EPS, apply_reflectors, factor_rows, norm, row_multipliers
from .equalities import step_along
from .problem import REACH, VERIFIED, WORST_KKT
from .working_set_changes import SIGN, gradient_scale, held_bound
from .workspace import FIXED, FLOOR, LIMIT, OWN, VIOLATED, Hierarchy, Subproblem, Workspace

#: A limit is held for good where its multiplier exceeds this share of the gradient's scale.
TIED = 1e-8
#: A limit pressed on lightly is none for the levels below if what is decided already implies it, to within this.
IMPLIED, ROUNDING = 1e-7, 1e-12
#: Share of the terms of the multipliers' pull that is rounding.
LAST_DIGIT = 4.0 * EPS


@compiled(inline=False)
def turn_gradient(gradient: Vector, d: int, decided: int, work: Workspace) -> None:
    """Turn a gradient into the basis of the decided directions, which come first, and of the others."""
    V = work.factor.reflectors
    for k in range(decided):
        v, rest = V[k, k:], gradient[k:]
        s = 0.0
        for j in range(d - k):
            s += v[j] * rest[j]
        s *= 2.0
        for j in range(d - k):
            rest[j] -= s * v[j]


@compiled()
def square_between(x: Vector, first: int, last: int) -> float:
    """Squared length of ``x[first:last]``."""
    s = 0.0
    for k in range(first, last):
        s += x[k] * x[k]
    return s


@compiled(inline=False)
def sum_gradient(s: Subproblem, work: Workspace, pressing: Vector) -> None:
    """In `gradient`, that of the residuals in `row_values` and of inequalities that press so much."""
    gradient, pull = work.gradient, work.pull
    gemv_transposed(gradient, s.J_z, work.row_values, s.d, s.m)
    gemv_transposed(pull, s.C_z, pressing, s.d, s.p)
    for j in range(s.d):
        gradient[j] += pull[j]


@compiled(inline=False)
def left_beneath_multipliers(s: Subproblem, work: Workspace, decided: int) -> float:
    """What is left of the gradient where the multipliers' last digits are as large as that, or more.

    In the directions of the limits held, the first ones of `gradient`, what is left corrects the multipliers: counted
    is by how much one has the wrong sign then.  In the others that are decided limits have no share: counted is the
    gradient without them.
    """
    pressing, correction, wrong = work.at_z, work.H_rhs, 0.0
    count = 0
    for i in range(s.p):
        if s.role[i] == LIMIT:
            pressing[i] = 0.0
            if s.sides[i] != 0:
                correction[count] = 0.0
                count += 1
    row_multipliers(work.H, work.fixed[0], work.factor, work.gradient, correction)
    for k in range(count):
        i = work.held[k]
        wrong = max(wrong, -(s.multipliers[i] + correction[k]) * s.sides[i] * s.c_norm[i])
    sum_gradient(s, work, pressing)
    turn_gradient(work.gradient, s.d, decided, work)
    return max(wrong, math.sqrt(square_between(work.gradient, work.fixed[0], decided)))


@compiled(inline=False)
def certify(s: Subproblem, work: Workspace, decided: int, size: float, scale: float) -> float:
    """The largest violation of a level's optimality conditions at its z, relative to the size of their terms.

    Stationarity of the gradient with the multipliers, in the directions that the level decided; limits that are said
    to press and are not reached; limits that are violated.  The unit is what the gradient's terms are, not how large
    they might be: an error must not hide behind a large x alone.  Nor behind large multipliers: limits that nearly
    depend on each other balance the gradient by multipliers many times its size; where what is left is less than their
    last digits, it is taken apart (`left_beneath_multipliers`).  Where the level decided nothing, a slope beyond what
    the tolerance of rank explains counts as what it could save, over a way as long as x, of what the level lacks: what
    is nearly flat goes far.

    Args:
        s: the level.
        work: memory; `at_next` takes the inequalities' values at z.
        decided: directions, the first ones in the basis of the reflectors.
        size: of x at z.
        scale: what the gradient's terms can sum up to, `gradient_scale`.
    """
    z, at, left, pressing = work.z, work.at_next, work.row_values, work.at_z
    j_norm, c_norm, multipliers, sides = s.j_norm, s.c_norm, s.multipliers, s.sides
    unit = FLOOR * scale
    # Squared residual; longest row; residuals times lengths, and as they are; multipliers of limits times lengths, of
    # all and of those that are not reached; violation of limits.
    lack, longest, small, tall, pushed, false, trespass = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    gemv_add(left, s.residual, z, s.J_z, s.d, s.m)
    for i in range(s.m):
        unit += j_norm[i] * (2.0 * abs(s.target[i]) + abs(left[i]))
        longest = max(longest, j_norm[i])
        lack += left[i] * left[i]
        small += j_norm[i] * abs(left[i])
        tall += abs(left[i])
    gemv_add(at, s.at_start, z, s.C_z, s.d, s.p)
    for i in range(s.p):
        pressing[i] = multipliers[i]
        if s.role[i] == LIMIT:
            terms = c_norm[i] * size
            pushed += abs(multipliers[i]) * c_norm[i]
            bound = s.upper[i] if at[i] > s.upper[i] else s.lower[i]
            over = max(at[i] - s.upper[i], s.lower[i] - at[i])
            if over > VIOLATED * terms and over > VIOLATED * (terms + abs(bound)):
                trespass = max(trespass, over / max(terms, 1e-300))
            if sides[i] != 0 and multipliers[i] != 0.0:
                bound = held_bound(s, i)
                if abs(at[i] - bound) > VIOLATED * (terms + abs(bound)):
                    false = max(false, abs(multipliers[i]) * c_norm[i])
        elif s.role[i] == OWN and sides[i] != 0:
            slack = abs(multipliers[i])
            unit += c_norm[i] * (2.0 * abs(held_bound(s, i)) + slack)
            longest = max(longest, c_norm[i])
            lack += slack * slack
            small += c_norm[i] * slack
            tall += slack
    sum_gradient(s, work, pressing)
    turn_gradient(work.gradient, s.d, decided, work)
    inside, outside = square_between(work.gradient, 0, decided), square_between(work.gradient, decided, s.d)
    explained = 2.0 * (max(s.tolerance, 8.0 * EPS) * small + 16.0 * EPS * longest * tall)
    slope = math.sqrt(outside) - explained
    missed = 2.0 * size * slope / max(lack, 1e-300) if slope > 0.0 else 0.0
    uneven = math.sqrt(inside)
    if VERIFIED * unit < uneven <= LAST_DIGIT * pushed:
        uneven = left_beneath_multipliers(s, work, decided)
    return max(max(uneven, false) / unit, trespass, missed)


@compiled()
def is_implied(h: Hierarchy, s: Subproblem, i: int, q: int, scale: float) -> bool:
    """Whether limit i, which a level presses on lightly, has no choice left in the freedom from q on.

    ``sum_i multiplier_i C_i`` balances a gradient that no step there changes: a single light row among heavy ones does
    not change either.  Rounding over a small multiplier leaves it a remainder that must not count as a direction.
    """
    Q, C, length = h.work.basis, h.work.C, s.c_norm[i]
    press = s.multipliers[i] * s.sides[i]
    if not press * length > SIGN * scale:
        return False
    square = 0.0
    for j in range(q, h.n):
        y = 0.0
        for c in range(h.n):
            y += Q[j, c] * C[c, i]
        square += y * y
    left = math.sqrt(square)
    return left <= IMPLIED * float(length) and float(press) * left <= ROUNDING * scale


@compiled()
def relax_to_roundoff(s: Subproblem, i: int, value: float, size: float) -> None:
    """Move a bound of limit i to its value where that is beyond it by rounding: levels below start within limits."""
    room = VIOLATED * s.c_norm[i] * size
    if value > s.upper[i]:
        if value - s.upper[i] <= room + VIOLATED * abs(s.upper[i]):
            s.upper[i] = value
    elif value < s.lower[i]:
        if s.lower[i] - value <= room + VIOLATED * abs(s.lower[i]):
            s.lower[i] = value


@compiled()
def fix_rows(s: Subproblem, work: Workspace, size: float, scale: float) -> tuple[int, int, bool]:
    """Decide what the levels below must hold: the level's violated inequalities, and limits that it presses on.

    All others of its own become limits.  Which rows are fixed is in `held`.

    Returns:
        How many; how many of them were held as equations; whether they are just those of the working set.
    """
    role, sides, multipliers, fixed_rows, passed_on = s.role, s.sides, s.multipliers, work.held, work.guess.sides
    fixed, limits = 0, 0
    same = True
    for i in range(s.p):
        fix = False
        if role[i] == LIMIT and sides[i] != 0:
            fix = abs(multipliers[i]) * s.c_norm[i] > TIED * scale
            same = same and fix
            limits += 1
        elif role[i] == OWN:
            if sides[i] != 0:
                fix = multipliers[i] * sides[i] > VIOLATED * (s.c_norm[i] * size + abs(held_bound(s, i)))
                same = same and fix
            role[i] = LIMIT
        if fix:
            role[i] = FIXED
            fixed_rows[fixed] = i
            fixed += 1
        elif role[i] == LIMIT:
            relax_to_roundoff(s, i, work.at_next[i], size)
        if sides[i] != 0:
            passed_on[i] = sides[i]
    return fixed, limits, same


@compiled()
def are_independent(count: int, tolerance: float, work: Workspace) -> bool:
    """Whether the limits that `solve_working_set` held, every one a pivot, are so by the tolerance of rank."""
    for k in range(count):
        i = work.factor.pivots[k]
        if not abs(work.H[k, i]) > tolerance * work.H_length[i]:
            return False
    return True


@compiled(inline=False)
def update_null_space(h: Hierarchy, s: Subproblem, q: int, decided: int, size: float, scale: float) -> int:
    """Fix what the level leaves no choice to, and turn the basis so that what follows the level's rank is still free.

    Args:
        h: the hierarchy.
        s: the level, solved.
        q: where its freedom begins in the basis.
        decided: directions, if the reflectors are a basis of those that its own rows decide, else -1.
        size: of x.
        scale: `gradient_scale`.

    Returns:
        The rank of the level.
    """
    R, length, C_z, fixed_rows = h.work.R, h.work.R_length, s.C_z, h.work.held
    m = s.m - s.damping_rows
    fixed, limits, same = fix_rows(s, h.work, size, scale)
    r = decided
    if decided < 0 or not same or not are_independent(limits, s.tolerance, h.work):
        for i in range(m):
            length[i] = s.j_norm[i]
        for i in range(fixed):
            length[m + i] = s.c_norm[fixed_rows[i]]
        copy_columns(R, s.J_z, s.d, m)
        for j in range(s.d):
            for i in range(fixed):
                R[j, m + i] = C_z[j, fixed_rows[i]]
        r = factor_rows(R, m + fixed, 0, s.d, length, s.tolerance, h.work.factor)
    if r < s.d:  # else nothing of the basis is left to levels below
        apply_reflectors(h.work.basis[q:], h.n, 0, r, s.d, h.work.factor.reflectors)
    for i in range(s.p):
        if s.role[i] == LIMIT and s.sides[i] != 0 and s.multipliers[i] != 0.0:
            if is_implied(h, s, i, q + r, scale):
                s.role[i] = FIXED
    return r


@compiled(inline=False)
def finish_level(
    h: Hierarchy, k: int, q: int, decided: int, solved: Subproblem, level: Subproblem, scaled: bool
) -> int:
    """Move x to the optimum z of level k, certify it, and update the null space; the rank of the level.

    Args:
        h: the hierarchy.
        k: which level; its freedom begins at row q of the basis.
        q: see there.
        decided: directions that it decides, the first ones in the basis of the reflectors.
        solved: the level as it was solved.
        level: the same with the inequalities as they are; the two differ if rows were
        scaled: to equal length.
    """
    x, z, summary = h.solution.x, h.work.z, h.solution.summary
    step_along(h, q, solved.d, z)
    size = max(summary[REACH], norm(x, h.n))
    scale = gradient_scale(solved, size)
    kkt = certify(solved, h.work, decided, size, scale)
    h.solution.kkt[k] = kkt
    summary[WORST_KKT] = max(summary[WORST_KKT], kkt)
    if scaled:
        gemv_add(h.work.at_next, level.at_start, z, level.C_z, level.d, level.p)
    if scaled or level.damping_rows > 0:
        decided = -1  # by other rows than the level's own
    return update_null_space(h, level, q, decided, size, scale)
