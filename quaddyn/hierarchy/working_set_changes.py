"""One level by a primal active set (Nocedal and Wright, *Numerical Optimization*, 2nd edition, section 16.5).

Each round solves for the working set exactly, walks there until an inequality outside the set blocks (it joins), and on
arrival drops the entry whose multiplier (of own rows: whose slack) has most the wrong sign; where none has, this is the
optimum.  Every step keeps the limits and decreases the objective: even an interrupted solve disturbs no level above.
"""

from __future__ import annotations

import math

from ..compiler import compiled
from ..compiler.lanes import gemv, gemv_add
from ..compiler.linalg import norm
from .fixed_working_set import solve_working_set
from .workspace import KEPT, LIMIT, OWN, VIOLATED, Subproblem, Workspace

#: A multiplier has the wrong sign beyond this share of the size of the gradient's terms, a slack beyond that of its
#: row's: where a level is nearly flat, what passes for rounding may hold x far from its optimum.
SIGN = 1e-14
#: Limits held must be reached to this share of the size of their terms: more than that says that they cannot be.
HELD = 1e-9
#: Multipliers below SIGN are examined once more if they exceed this share of what the gradient's terms do sum up to;
#: without them the level's rows must move by more than this share of their own terms for that to count.
FINE, MOVED = 1e-15, 1e-14
#: How often a row may be let go on that account, in one level.
OFTEN = 3
#: Steps of length 0 in a row after which the first row with a wrong sign leaves (Bland's rule: it ends cycles).
STUCK = 20


@compiled()
def held_bound(s: Subproblem, i: int) -> float:
    """The bound at which inequality i of the working set is held."""
    return float(s.upper[i] if s.sides[i] > 0 else s.lower[i])


@compiled()
def first_block(s: Subproblem, work: Workspace) -> tuple[float, int, int]:
    """How far the way from z to z_next is open: (share, inequality that blocks or -1, its side); fills `at_next`."""
    z, at_z, at_next, sides, role = work.z, work.at_z, work.at_next, s.sides, s.role
    lower, upper, c_norm, size = s.lower, s.upper, s.c_norm, s.size + norm(work.z_next, s.d)
    gemv_add(at_next, s.at_start, work.z_next, s.C_z, s.d, s.p)
    blocking = -1
    blocking_side = 0
    open_share = 2.0
    started = False
    for i in range(s.p):
        if (role[i] == LIMIT or role[i] == OWN) and sides[i] == 0:
            if at_next[i] > upper[i] + KEPT * (c_norm[i] * size + abs(upper[i])):
                side = 1
                bound = upper[i]
            elif at_next[i] < lower[i] - KEPT * (c_norm[i] * size + abs(lower[i])):
                side = -1
                bound = lower[i]
            else:
                continue
            if not started:
                gemv_add(at_z, s.at_start, z, s.C_z, s.d, s.p)
                started = True
            move = at_next[i] - at_z[i]
            share = 0.0
            if move * side > 0.0:
                share = min(max((bound - at_z[i]) / move, 0.0), 1.0)
            if share < open_share:
                open_share = share
                blocking = i
                blocking_side = side
    return open_share, blocking, blocking_side


@compiled()
def reaches_held(s: Subproblem, work: Workspace, share: float, size: float) -> bool:
    """Whether held limits are where they are held, in `at_next`, to a share of the size of their terms."""
    for i in range(s.p):
        if s.role[i] == LIMIT and s.sides[i] != 0:
            bound = held_bound(s, i)
            if not abs(work.at_next[i] - bound) <= share * (s.c_norm[i] * size + abs(bound)):
                return False
    return True


@compiled()
def gradient_scale(s: Subproblem, size: float) -> float:
    """What the terms of the objective's gradient can sum up to at an x of this size."""
    scale = 1e-300
    for i in range(s.m):
        scale += s.j_norm[i] * (abs(s.target[i]) + s.j_norm[i] * size)
    for i in range(s.p):
        if s.role[i] == OWN and s.sides[i] != 0:
            scale += s.c_norm[i] * (abs(held_bound(s, i)) + s.c_norm[i] * size)
    return scale


@compiled()
def worst_sign(s: Subproblem, size: float, scale: float, lowest: bool) -> int:
    """The row whose multiplier or slack has most the wrong sign, or the first such row if `lowest`; -1 if none."""
    role, sides, multipliers, c_norm = s.role, s.sides, s.multipliers, s.c_norm
    worst = -1
    most = 0.0
    for i in range(s.p):
        if sides[i] == 0:
            continue
        wrong = -multipliers[i] * sides[i]
        if role[i] == LIMIT:
            if wrong * c_norm[i] <= SIGN * scale:
                continue
        elif role[i] == OWN:
            if wrong <= SIGN * (c_norm[i] * size + abs(held_bound(s, i))):
                continue
        else:
            continue
        if wrong * c_norm[i] > most:
            most = wrong * c_norm[i]
            worst = i
            if lowest:
                break
    return worst


@compiled()
def measure_signs(s: Subproblem, work: Workspace, size: float) -> float:
    """By how much multipliers have the wrong sign, in `wrong_sign`, and where rounding ends; inf if all is rounding."""
    target, j_norm, left, wrong, role, sides = s.target, s.j_norm, work.row_values, work.wrong_sign, s.role, s.sides
    fine = 0.0
    lacking = False
    for i in range(s.m):
        fine += j_norm[i] * abs(left[i])
        lacking |= abs(left[i]) > MOVED * (j_norm[i] * size + abs(target[i]))
    most = 0.0
    for i in range(s.p):
        wrong[i] = 0.0
        if sides[i] == 0 or not (role[i] == LIMIT or role[i] == OWN):
            continue
        slack, length = s.multipliers[i], s.c_norm[i]
        wrong[i] = -slack * sides[i] * length
        most = max(most, wrong[i])
        if role[i] == OWN:
            fine += length * abs(slack)
            lacking |= abs(slack) > MOVED * (length * size + abs(held_bound(s, i)))
    return FINE * fine if lacking and most > 0.0 else math.inf


@compiled()
def objective_moved(s: Subproblem, work: Workspace, size: float, row: int, side: int) -> bool:
    """Whether the step from z to z_next, with `row` let go from its side, moves the objective's rows at all."""
    step, change, z, z_next, own_change = work.gradient, work.row_values, work.z, work.z_next, work.at_z
    moved = False
    for j in range(s.d):
        step[j] = z_next[j] - z[j]
    gemv(change, step, s.J_z, s.d, s.m)
    for i in range(s.m):
        moved |= abs(change[i]) > MOVED * (s.j_norm[i] * size + abs(s.target[i]))
    gemv(own_change, step, s.C_z, s.d, s.p)
    for i in range(s.p):
        if s.role[i] == OWN and (s.sides[i] != 0 or i == row):
            bound = s.upper[i] if s.sides[i] + (side if i == row else 0) > 0 else s.lower[i]
            moved |= abs(own_change[i]) > MOVED * (s.c_norm[i] * size + abs(bound))
    return moved


@compiled(inline=False)
def find_overlooked(s: Subproblem, work: Workspace, decided: int, size: float) -> tuple[int, int]:
    """A row whose multiplier has the wrong sign by little, and that keeps the level from what it could reach.

    Along a direction in which a level is nearly flat a slope of 1e-9 may go on for a long way.  What rounding leaves
    of a multiplier is told from it by what the level's rows do when the row is let go.

    Args:
        s: the level; z is the optimum for its working set.
        work: memory.
        decided: directions that the working set decides.
        size: of x.

    Returns:
        The row, -1 for none, -2 if one that was let go too `OFTEN` still is; and how many directions are decided.
    """
    wrong, sides, let_go = work.wrong_sign, s.sides, work.let_go
    least = measure_signs(s, work, size)
    tried = False
    found = -1
    while True:
        row = -1
        most = least
        for i in range(s.p):
            if wrong[i] > most:
                most = wrong[i]
                row = i
        if row < 0:
            break
        wrong[row] = 0.0
        side = sides[row]
        tried = True
        sides[row] = 0
        solve_working_set(s, work)
        moved = objective_moved(s, work, size, row, side)
        if moved and let_go[row] < OFTEN:
            let_go[row] += 1
            return row, decided
        sides[row] = side
        if moved:
            found = -2
            break
    if tried:
        decided = solve_working_set(s, work)
    return found, decided


@compiled()
def start_working_set(s: Subproblem, work: Workspace) -> None:
    """The working set at z: own inequalities that are violated, and of the limits in it those that are reached."""
    at_z, sides, role, size = work.at_z, s.sides, s.role, s.size
    for j in range(s.d):
        size += abs(work.z[j])
    gemv_add(at_z, s.at_start, work.z, s.C_z, s.d, s.p)
    for i in range(s.p):
        work.let_go[i] = 0
        terms = s.c_norm[i] * size
        if role[i] == OWN:
            sides[i] = 0
            if at_z[i] > s.upper[i] + KEPT * (terms + abs(s.upper[i])):
                sides[i] = 1
            elif at_z[i] < s.lower[i] - KEPT * (terms + abs(s.lower[i])):
                sides[i] = -1
        elif role[i] == LIMIT and sides[i] != 0:
            bound = held_bound(s, i)
            if abs(at_z[i] - bound) > VIOLATED * (terms + abs(bound)):
                sides[i] = 0


@compiled(inline=False)
def iterate_active_set(s: Subproblem, work: Workspace, most: int) -> tuple[bool, int, int]:
    """Rounds of the active set from a z that keeps the limits, at most so many; ends with the optimum in z.

    Returns:
        Whether the optimum was found; changes of the working set; directions that it decides.
    """
    z, z_next, sides = work.z, work.z_next, s.sides
    start_working_set(s, work)
    stuck = 0
    changes = 0
    decided = 0
    for _ in range(most):
        decided = solve_working_set(s, work)
        share, row, side = first_block(s, work)
        if row >= 0:
            changes += 1
            for j in range(s.d):
                z[j] += share * (z_next[j] - z[j])
            sides[row] = side
            stuck = stuck + 1 if share == 0.0 else 0
            continue
        for j in range(s.d):
            z[j] = z_next[j]
        size = s.size + norm(z, s.d)
        row = worst_sign(s, size, gradient_scale(s, size), stuck > STUCK)
        if row < 0:
            row, decided = find_overlooked(s, work, decided, size)
        if row < 0:
            return row == -1 and reaches_held(s, work, HELD, size), changes, decided
        changes += 1
        sides[row] = 0
    return False, changes, decided


@compiled(inline=False)
def try_working_set(s: Subproblem, work: Workspace) -> tuple[bool, int]:
    """Whether the working set is the optimum's, from z = 0; then z is the optimum: (accepted, directions decided)."""
    z = work.z
    decided = solve_working_set(s, work)
    size = s.size + norm(work.z_next, s.d)
    _share, row, _side = first_block(s, work)
    if row >= 0 or not reaches_held(s, work, KEPT, size):
        return False, decided
    if worst_sign(s, size, gradient_scale(s, size), False) >= 0:
        return False, decided
    for j in range(s.d):
        z[j] = work.z_next[j]
    for i in range(s.p):
        work.let_go[i] = 0
    row, decided = find_overlooked(s, work, decided, size)
    if row != -1:
        for j in range(s.d):
            z[j] = 0.0
    return row == -1, decided
