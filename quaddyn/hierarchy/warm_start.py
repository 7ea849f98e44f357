"""The warm start: working sets of the problem before are tried; where they are right again, nothing is looked for."""

from __future__ import annotations

from ..compiler import ByteMatrix, compiled
from ..compiler.lanes import gemv_add
from ..compiler.linalg import norm
from .equalities import reset_basis
from .level_completion import finish_level
from .level_solver import flag_infeasible, is_decided, project_level, propose
from .problem import PATH, REACH, WARM
from .working_set_changes import try_working_set
from .workspace import FIXED, KEPT, LATER, LIMIT, Hierarchy, restore, save, subproblem


@compiled()
def violated_side(h: Hierarchy, i: int, size: float) -> int:
    """The side on which the value `at_next` of inequality i is violated, 0 if it is kept."""
    value, lower, upper, terms = h.work.at_next[i], h.work.lower[i], h.work.upper[i], h.problem.C_length[i] * size
    if value > upper + KEPT * (terms + abs(upper)):
        return 1
    if value < lower - KEPT * (terms + abs(lower)):
        return -1
    return 0


@compiled()
def is_likely(h: Hierarchy, guess: ByteMatrix, reach: float) -> bool:
    """Whether of what the equalities alone violate at least half is held in the guess."""
    violated = 0
    held = 0
    for i in range(h.p):
        side = violated_side(h, i, reach)
        if side != 0 and h.work.equal[i] == 0:
            violated += 1
            for k in range(h.levels + 1):
                if guess[k, i] == side:
                    held += 1
                    break
    return 0 < violated <= 2 * held


@compiled(inline=False)
def try_level(h: Hierarchy, k: int, q: int, guess: ByteMatrix) -> tuple[bool, int]:
    """Level k with the working set guessed for it, while limits outside of it wait: (whether it fits, rank)."""
    sides, role, equal = guess[k], h.work.role, h.work.equal
    for i in range(h.problem.C_start[k]):
        if equal[i] != 0 or role[i] == FIXED:
            role[i] = FIXED
        else:
            role[i] = LIMIT if sides[i] != 0 else LATER
    size = max(h.solution.summary[REACH], norm(h.solution.x, h.n))
    m = project_level(h, k, q, 0.0, False)
    propose(h, sides, -1.0, h.solution.working[k])
    level = subproblem(h, k, h.n - q, m, 0, size)
    good, decided = try_working_set(level, h.work)
    if not good:
        return False, 0
    return True, finish_level(h, k, q, decided, level, level, False)


@compiled(inline=False)
def try_warm_start(h: Hierarchy, guess: ByteMatrix) -> bool:
    """Whether the working sets of `guess` are those of the optimum; if so, all is done, if not, all is as before.

    From the first level that held anything each holds what it held, while other limits wait.  If the last x keeps
    them all, it is the optimum: every level's, under weaker limits, which it reached without breaking the others.

    Args:
        h: the hierarchy, its x that of the equalities alone.
        guess: (levels + 1, p) working sets.
    """
    n, x, ranks, summary, Q = h.n, h.solution.x, h.solution.ranks, h.solution.summary, h.work.basis
    before, role, reach = h.work.basis_before, h.work.role, h.solution.summary[REACH]
    gemv_add(h.work.at_next, h.work.zero, x, h.work.C, n, h.p)
    if not is_likely(h, guess, reach):
        return False
    save(h, h.work.before)
    for i in range(n):
        for j in range(n):
            before[i, j] = Q[i, j]
    good = True
    started = False
    q = 0
    for k in range(h.levels + 1):
        for i in range(h.p):
            started |= guess[k, i] != 0
        if not started:
            q += int(ranks[k])
            continue
        if is_decided(h, k, q):
            continue
        if q == 0:
            reset_basis(h)
        good, r = try_level(h, k, q, guess)
        if not good:
            break
        ranks[k] = r
        q += r
    gemv_add(h.work.at_next, h.work.zero, x, h.work.C, n, h.p)
    size = max(reach, norm(x, n))
    for i in range(h.p):
        if role[i] != FIXED and violated_side(h, i, size) != 0:
            good = False
    if good:
        summary[PATH] = WARM
        flag_infeasible(h)
        return True
    restore(h, h.work.before)
    for i in range(n):
        for j in range(n):
            Q[i, j] = before[i, j]
    for i in range(h.p):
        role[i] = LATER
        h.work.lower[i] = h.work.lower_given[i]
        h.work.upper[i] = h.work.upper_given[i]
    return False
