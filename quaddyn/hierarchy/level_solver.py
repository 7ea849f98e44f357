"""One level after the other, each in the freedom that those above it leave."""

from __future__ import annotations

import math

from ..compiler import ByteMatrix, ByteVector, compiled
from ..compiler.lanes import gemv_add
from ..compiler.linalg import norm
from .equalities import load_level, project, reset_basis, subtract_from
from .level_completion import finish_level
from .problem import ACTIVE_SET, ENDED, INFEASIBLE, ITERATIONS, PATH, REACH, WARM, WORST_KKT, level_0_violation
from .working_set_changes import iterate_active_set, try_working_set
from .workspace import FIXED, KEPT, LATER, LIMIT, OWN, Hierarchy, Subproblem, Workspace, row_scaled, subproblem

#: Share of the largest multiplier beyond which a row of the guess is taken to press on the guess's first level.
HEAVY = 1e-4


@compiled(inline=False)
def project_objective(h: Hierarchy, k: int, q: int, damping: float) -> int:
    """Objective of level k from x in the freedom from q on: ``|J_z z + residual|^2``; the number of its rows."""
    J, given_target, given_length = h.work.J[k], h.work.J_target[k], h.work.J_length[k]
    Q, J_z, x = h.work.basis, h.work.J_z, h.solution.x
    residual, target, j_norm = h.work.residual, h.work.target, h.work.j_norm
    n, m = h.n, int(h.work.J_count[k])
    for i in range(m):
        target[i] = given_target[i]
        j_norm[i] = given_length[i]
    project(J, m, n, Q, q, J_z)
    subtract_from(target, J, m, n, x, residual)
    for i in range(m):
        residual[i] = -residual[i]
    if not damping > 0.0:
        return m
    for i in range(n):
        for j in range(n - q):
            J_z[j, m + i] = damping * Q[q + j, i]
        target[m + i] = 0.0
        j_norm[m + i] = damping
        residual[m + i] = damping * x[i]
    return m + n


@compiled(inline=False)
def project_level(h: Hierarchy, k: int, q: int, damping: float, projected: bool) -> int:
    """Level k from x in the freedom from q on: objective, inequalities, z = 0; the number of objective rows.

    `projected` says that `C_z` is there already.
    """
    role, equal, z, C_z, at_start = h.work.role, h.work.equal, h.work.z, h.work.C_z, h.work.at_start
    load_level(h, k)
    m = project_objective(h, k, q, damping)
    if k < h.levels:
        for i in range(h.problem.C_start[k], h.problem.C_start[k + 1]):
            role[i] = FIXED if equal[i] != 0 else OWN
    if not projected:
        project(h.work.C, h.p, h.n, h.work.basis, q, C_z[q:])
    gemv_add(at_start, h.work.zero, h.solution.x, h.work.C, h.n, h.p)
    for j in range(h.n - q):
        z[j] = 0.0
    return m


@compiled()
def propose(h: Hierarchy, guess: ByteVector, heaviest: float, sides: ByteVector) -> None:
    """The working set to try: what is guessed of the level's inequalities; light rows not, if there is a heaviest.

    `guess` may be `sides`.
    """
    role, lower, upper = h.work.role, h.work.lower, h.work.upper
    weight, length = h.work.guess.multipliers, h.problem.C_length
    for i in range(h.p):
        side = guess[i]
        sides[i] = 0
        if role[i] == LIMIT or role[i] == OWN:
            if (side > 0 and upper[i] < math.inf) or (side < 0 and lower[i] > -math.inf):
                if heaviest < 0.0 or weight[i] * length[i] > HEAVY * heaviest:
                    sides[i] = side


@compiled()
def start_from_reached(h: Hierarchy, k: int, s: Subproblem, guessed: bool) -> None:
    """The working set to start rounds from: the level's above, or what of the guess is reached at the start."""
    sides, passed_on = s.sides, h.work.guess.sides
    for i in range(h.p):
        sides[i] = 0
        if s.role[i] == LIMIT:
            if guessed:
                bound = s.upper[i] if passed_on[i] > 0 else s.lower[i]
                near = abs(s.at_start[i] - bound) <= KEPT * (s.c_norm[i] * s.size + abs(bound))
                if passed_on[i] != 0 and near:
                    sides[i] = passed_on[i]
            elif k > 0:
                sides[i] = h.solution.working[k - 1, i]


@compiled()
def lengths_differ(s: Subproblem, spread: float) -> bool:
    """Whether a level with inequalities of its own has rows whose lengths differ by more than a ratio."""
    shortest = math.inf
    longest = 0.0
    own = False
    for i in range(s.m):
        shortest = min(shortest, s.j_norm[i])
        longest = max(longest, s.j_norm[i])
    for i in range(s.p):
        if s.role[i] == OWN and s.c_norm[i] > 0.0:
            own = True
            shortest = min(shortest, s.c_norm[i])
            longest = max(longest, s.c_norm[i])
    return own and longest > spread * shortest


@compiled(inline=False)
def scale_rows(level: Subproblem, s: Subproblem) -> None:
    """Rows of `level` at reference length 1 in s; objective rows in place."""
    for i in range(s.m):
        f = 1.0 / s.j_norm[i]
        for j in range(s.d):
            s.J_z[j, i] *= f
        s.residual[i] *= f
        s.target[i] *= f
        s.j_norm[i] = 1.0
    for i in range(s.p):
        f = 1.0 / level.c_norm[i] if level.c_norm[i] > 0.0 else 1.0
        for j in range(s.d):
            s.C_z[j, i] = level.C_z[j, i] * f
        s.at_start[i] = level.at_start[i] * f
        s.lower[i] = level.lower[i] * f
        s.upper[i] = level.upper[i] * f
        s.c_norm[i] = level.c_norm[i] * f


@compiled(inline=False)
def solve_row_scaled(level: Subproblem, s: Subproblem, work: Workspace, most: int) -> tuple[bool, int, int]:
    """Rounds of the active set with rows of equal length: (whether everything can be kept, changes, decided).

    If all can be kept the lengths of the rows mean nothing, and no digits are lost to long ones.
    """
    scale_rows(level, s)
    done, changes, decided = iterate_active_set(s, work, most)
    z, at = work.z, work.at_next
    size = s.size + norm(z, s.d)
    gemv_add(work.row_values, s.residual, z, s.J_z, s.d, s.m)
    for i in range(s.m):
        if abs(work.row_values[i]) > KEPT * (size + abs(s.target[i])):
            done = False
    gemv_add(at, s.at_start, z, s.C_z, s.d, s.p)
    for i in range(s.p):
        if s.role[i] == OWN:
            room = KEPT * s.c_norm[i] * size
            above, below = s.upper[i] + KEPT * abs(s.upper[i]), s.lower[i] - KEPT * abs(s.lower[i])
            if at[i] > above + room or at[i] < below - room:
                done = False
    for i in range(s.p if done else 0):
        s.multipliers[i] = 0.0
    return done, changes, decided


@compiled(inline=False)
def solve_level(
    h: Hierarchy,
    k: int,
    q: int,
    found: bool,
    projected: bool,
    heaviest: float,
    guess: ByteMatrix,
    guessed: bool,
    most: int,
) -> int:
    """Solve level k from x in the freedom from q on; the rank of the level.

    A working set is tried first; where it is not the optimum's, or where there is none, the active set iterates.

    Args:
        h: the hierarchy.
        k: which level.
        q: where its freedom begins in the basis.
        found: whether `guess_active_set` has a working set; if the active set does not end then, ENDED says so and
            nothing else is done.
        projected: whether it has left `C_z` there.
        heaviest: rows that press much less than this are no part of it; negative: all are.
        guess: (levels + 1, p) other working sets to try,
        guessed: if there are any.
        most: changes of the working set allowed.
    """
    n, p, summary, sides = h.n, h.p, h.solution.summary, h.solution.working[k]
    damping = h.settings.damping if k < h.levels else 0.0
    size = max(summary[REACH], norm(h.solution.x, n))
    m = project_level(h, k, q, damping, projected)
    level = subproblem(h, k, n - q, m, n if damping > 0.0 else 0, size)
    scaled = row_scaled(h, level)
    done = False
    rows_scaled = False
    decided = 0
    if found:
        for i in range(p):
            sides[i] = h.work.guess.sides[i]
        propose(h, sides, heaviest, sides)
        done, decided = try_working_set(level, h.work)
    elif guessed:
        propose(h, guess[k], -1.0, sides)
        done, decided = try_working_set(level, h.work)
    if not done:
        summary[PATH] = ACTIVE_SET
        start_from_reached(h, k, level, found)
        if damping == 0.0 and lengths_differ(level, h.spread):
            done, changes, decided = solve_row_scaled(level, scaled, h.work, h.settings.max_iterations)
            summary[ITERATIONS] += changes
            rows_scaled = done
            if not done:
                project_objective(h, k, q, 0.0)
    if not done:
        done, changes, decided = iterate_active_set(level, h.work, most)
        summary[ITERATIONS] += changes
        if not done:
            summary[ENDED] = 0.0
            if found:
                return 0
    return finish_level(h, k, q, decided, scaled if rows_scaled else level, level, rows_scaled)


@compiled()
def is_decided(h: Hierarchy, k: int, q: int) -> bool:
    """Whether level k has no freedom left and no inequality of its own to account for; if so, it is done."""
    sides = h.solution.working
    if q < h.n or (k < h.levels and h.problem.C_start[k] < h.problem.C_start[k + 1]):
        return False
    for i in range(h.p):
        sides[k, i] = sides[k - 1, i] if k > 0 else 0
        h.solution.multipliers[k, i] = 0.0
    h.solution.ranks[k] = 0.0
    h.solution.kkt[k] = 0.0
    return True


@compiled(inline=False)
def sweep_from(h: Hierarchy, first: int, found: bool, guess: ByteMatrix, guessed: bool) -> bool:
    """Solve level by level from the first one that limits touch; whether a guess that was `found` led to the end.

    Args:
        h: the hierarchy; x keeps the limits of all levels down to the first; the basis is that of the levels above it,
            if they decide anything.
        first: level.
        found: whether `guess_active_set` found working sets to try.
        guess: (levels + 1, p) else, working sets to try,
        guessed: if there are any.
    """
    ranks, summary, n, most = h.solution.ranks, h.solution.summary, h.n, h.settings.max_iterations
    weight, length = h.work.guess.multipliers, h.problem.C_length
    summary[ENDED] = 1.0
    summary[PATH] = WARM if guessed and not found else ACTIVE_SET
    patience = min(most, 2 * n + 10) if found else most
    heaviest = 0.0
    for i in range(h.p if found else 0):
        heaviest = max(heaviest, weight[i] * length[i])
    q = 0
    for k in range(first):
        q += int(ranks[k])
    if q == 0:
        reset_basis(h)
    for k in range(first, h.levels + 1):
        if is_decided(h, k, q):
            continue
        foremost = found and 0 < k == first and k < h.levels - 1
        mine = found and (k == 0 or first > 0 or not guessed)  # what level 0 violates says little of levels below
        projected = found and k == first and q > 0
        r = solve_level(h, k, q, mine, projected, heaviest if foremost else -1.0, guess, guessed, patience)
        if found and summary[ENDED] == 0.0:
            return False
        ranks[k] = r
        q += r
        if k == 0 and flag_infeasible(h):
            for j in range(1, h.levels + 1):
                ranks[j] = 0.0
                h.solution.kkt[j] = 0.0
            return True
    return True


@compiled()
def flag_infeasible(h: Hierarchy) -> bool:
    """Whether x does not meet level 0, if that is asked for: the summary then says so."""
    if not h.settings.feasible_only:
        return False
    if level_0_violation(h.problem, h.solution.x) <= h.settings.infeasible_above:
        return False
    h.solution.summary[INFEASIBLE] = 1.0
    return True


@compiled()
def start_over(h: Hierarchy) -> None:
    """Back to x of the equalities alone and the bounds as given."""
    role, work_lower, work_upper = h.work.role, h.work.lower, h.work.upper
    h.solution.summary[WORST_KKT] = 0.0
    for i in range(h.n):
        h.solution.x[i] = h.work.x_equalities[i]
    for i in range(h.p):
        role[i] = LATER
        work_lower[i] = h.work.lower_given[i]
        work_upper[i] = h.work.upper_given[i]
