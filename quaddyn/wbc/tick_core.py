"""One tick of whole-body control, from a state's rigid-body terms to torques.

    assemble -> reduce -> solve -> recover -> certify

The equations of motion ``M a + h + r = S^T tau + J^T f``, r the friction of joints if an element counts it, and the
contacts that hold are solved beforehand, which leaves fewer unknowns (`reduction`); each element writes its rows over
them (`problem_rows`); the hierarchy of levels is solved (`quaddyn.hierarchy`); torques, accelerations and forces
follow.  If level 0 cannot be met with contacts held exactly, the contacts become rows of level 0 like all others, so
that the violation is as small as possible.
"""

from __future__ import annotations

import math

from ..compiler import IntVector, Matrix, Vector, compiled, entry, matrix
from ..compiler.lanes import clear, gemv_transposed
from ..hierarchy.core import solve_until_verified
from ..hierarchy.problem import INFEASIBLE as SUMMARY_INFEASIBLE
from ..hierarchy.problem import (
    WORST_KKT,
    HierarchyProblem,
    SolutionBuffers,
    SolverSettings,
    has_converged,
    is_infeasible,
)
from .contact_points import locate_contacts
from .data import FORCE, MOTION, Answer, Contacts, Instant, Maps, TickData, answer_views
from .problem_rows import build_problem, expect_velocities, hold_references, joint_friction
from .ramps import ContactRamps, advance_contacts
from .reduction import eliminate, leftover_rows, null_space, project_rows, reduce

# What became of a tick: see `quaddyn.wbc.certificate.Status`; then, what cannot be solved at all.
SOLVED, INFEASIBLE, INACCURATE, FALLBACK, OVERFLOW, NOT_A_NUMBER = range(6)

#: Violation of level 0 [m/s^2] up to which contacts may be held exactly, and up to which level 0 counts as met.
KEPT, MET = 1e-9, 1e-6
#: Rounds of the active set per level, for each unknown and inequality: a level 0 that asks for far too much of a large
#: robot takes some.
ROUNDS = 10


@entry("whole-body control")
def tick(q: Vector, v: Vector, data: TickData, values: Vector) -> int:
    """One tick; what became of it.

    Args:
        q: (nq,).
        v: (nv,).
        data: all the rest; its terms belong to (q, v).
        values: takes the answer, see `answer_views`.
    """
    model, memory = data.model, data.memory
    answer = answer_views(values, len(model.actuated), len(v), len(data.contacts.size), model.levels)
    total = 0.0
    for i in range(len(v)):
        total += abs(data.terms.h[i]) + data.terms.M[i, i]
    if not math.isfinite(total):
        return OVERFLOW
    t = instant(q, v, data, 0)
    locate_contacts(model, data.terms, data.contacts, data.points, data.inputs, data.work)
    hold_references(t)
    unset = False
    for i in range(len(data.inputs.numbers)):
        x = data.inputs.numbers[i]
        answer.numbers[i] = x
        unset |= x != x
    if unset or not sound_rows(data):
        return NOT_A_NUMBER
    joint_friction(t)
    total = 0.0
    for i in range(len(v)):
        total += abs(data.work.bias[i])
    if not math.isfinite(total):
        return OVERFLOW
    for i in range(len(model.actuated)):
        j = model.actuated[i]
        answer.friction[i] = data.work.bias[j] - data.terms.h[j]
    outcome = INFEASIBLE
    memory.warm[2] = 1 if not model.strict or memory.good[1] == 2 else 0
    if memory.warm[2] == 0:
        outcome = solve_way(q, v, data, answer, False)
    if outcome != SOLVED:
        outcome = solve_way(q, v, data, answer, True)
        memory.good[1] = 1 if outcome == SOLVED or not model.strict else 2
    if outcome == FALLBACK:
        stand_in(data, answer)
    expect_velocities(t, answer.acceleration)
    return outcome


@entry("whole-body control")
def switch(
    ramps: ContactRamps, contacts: Contacts, wanted: IntVector, step: float, weight: float, values: Vector, first: int
) -> int:
    """`advance_contacts`, for Python; forces of the tick before begin at `first` in `values`."""
    return advance_contacts(ramps, contacts, wanted, step, weight, matrix(values, first, len(contacts.size), 6))


@compiled(inline=False)
def stand_in(data: TickData, answer: Answer) -> None:
    """The answer of least norm, no joint accelerating and no contact pushing, where the solver found no finite one."""
    n = reduce(data.model, data.terms, data.contacts, data.points, data.work, True)
    for j in range(max(n, 0)):
        data.work.u[j] = 0.0
    if n < 0 or not math.isfinite(recover(data, answer, n)):
        for j in range(len(answer.acceleration)):
            answer.acceleration[j] = 0.0
        for i in range(len(answer.torque)):
            answer.torque[i] = 0.0
            answer.friction[i] = 0.0
        for c in range(answer.force.shape[0]):
            for i in range(6):
                answer.force[c, i] = 0.0
    answer.violation[0] = math.inf
    answer.kkt[0] = math.inf
    for k in range(len(answer.ranks)):
        answer.ranks[k] = 0.0
    data.memory.good[0] = 0
    data.memory.good[1] = 0


@compiled(inline=False)
def sound_rows(data: TickData) -> bool:
    """Whether rows that elements computed in Python are finite, and their bounds can be met."""
    table, unsound = data.inputs.custom_rows, 0
    for i in range(table.shape[0]):
        z = table[i]
        if not (z[1] < math.inf and z[2] > -math.inf):
            unsound += 1
        for k in range(3, len(z)):
            if not math.isfinite(z[k]):
                unsound += 1
    return unsound == 0


@compiled()
def instant(q: Vector, v: Vector, data: TickData, n: int) -> Instant:
    """The instant as elements see it, of n unknowns."""
    work = data.work
    maps = Maps(n, work.acceleration, work.torque, work.acceleration_length, work.torque_length, work.force, work.joint)
    return Instant(q, v, data.model, data.terms, data.contacts, data.points, data.inputs, work, maps, data.rows)


@compiled(inline=False)
def solve_way(q: Vector, v: Vector, data: TickData, answer: Answer, full: bool) -> int:
    """Reduce, assemble, solve, recover, certify; contacts that hold are rows of level 0 if `full`."""
    model, points, work, memory = data.model, data.points, data.work, data.memory
    n = reduce(model, data.terms, data.contacts, points, work, full)
    if n < 0:
        return FALLBACK
    verified, d = False, n
    for _ in range(2):
        data.rows.weighted[0] = 1
        build_problem(instant(q, v, data, n), full, memory.free[0] != 0)
        d = n
        if not full:
            r = leftover_rows(model, data.contacts, points, work, n)
            if r > 0:
                d = null_space(r, n, model.rank_tolerance, work)
                project(data, n, d)
        verified = solve(data, d, full)
        if work.summary[SUMMARY_INFEASIBLE] != 0.0:
            return INFEASIBLE
        if memory.free[0] != 0 or work.ranks[model.levels] == 0.0:
            break
        memory.free[0] = 1  # once more, with the level that decides what others leave
    u = work.u
    for j in range(n):
        u[j] = work.unknowns[j]
    if d < n:
        gemv_u(work.null, work.unknowns, n, d, u)
    worst = recover(data, answer, n)
    worst = max(worst, row_violation(data, d))
    answer.violation[0] = worst
    answer.kkt[0] = work.summary[WORST_KKT]
    for k in range(model.levels):
        answer.ranks[k] = work.ranks[k]
    if not full:
        answer.ranks[0] += eliminated(data) - d
    if not math.isfinite(worst):
        return FALLBACK
    if not verified:
        return INACCURATE
    if not full:
        return SOLVED if worst <= KEPT else INFEASIBLE
    return SOLVED if worst <= MET else INFEASIBLE


@compiled()
def eliminated(data: TickData) -> int:
    """How many joint accelerations and forces there are."""
    n = len(data.model.actuated)
    for c in range(len(data.contacts.size)):
        if data.points.column[c] >= 0:
            n += data.contacts.size[c]
    return n


@compiled()
def project(data: TickData, n: int, d: int) -> None:
    """All rows over the directions that are left."""
    rows, spare, X = data.rows, data.work.spare, data.work.null
    m, p = rows.count[0], rows.count[1]
    project_rows(rows.A, m, n, d, X, spare)
    project_rows(rows.C, p, n, d, X, spare)
    for i in range(m):
        rows.b[i] -= rows.A[i, d]
    for i in range(p):
        rows.lower[i] -= rows.C[i, d]
        rows.upper[i] -= rows.C[i, d]


@compiled()
def gemv_u(X: Matrix, y: Vector, n: int, d: int, u: Vector) -> None:
    """``u = X[:, :d] y + X[:, d]``."""
    for i in range(n):
        s = X[i, d]
        for j in range(d):
            s += X[i, j] * y[j]
        u[i] = s


@compiled(inline=False)
def solve(data: TickData, d: int, full: bool) -> bool:
    """The hierarchy over d unknowns, from the working sets of the last tick; whether the answer is verified.

    Where contacts are held exactly it ends after level 0 if that cannot be met.
    """
    model, memory, work, rows = data.model, data.memory, data.work, data.rows
    way = 1 if full else 0
    K, p = model.levels + memory.free[0], rows.count[1]
    warm = memory.good[way] != 0
    for k in range(model.levels + 2):
        warm = warm and memory.starts[way, k] == rows.C_start[k]
        memory.starts[way, k] = rows.C_start[k]
    before, now = memory.before, memory.now
    if full:
        before, now = memory.before_full, memory.now_full
    if warm:
        for i in range((model.levels + 2) * p):
            before[i] = now[i]
    just_failed = model.strict and memory.warm[2] == 0 and work.summary[SUMMARY_INFEASIBLE] != 0.0
    if full and just_failed and memory.starts[0, K] == p:
        warm = True  # what was violated with contacts held exactly is likely to be violated now
        for i in range((K + 1) * p):
            before[i] = memory.now[i] if i < p else 0
    problem = HierarchyProblem(
        d, rows.A, rows.b, rows.A_length, rows.C, rows.lower, rows.upper, rows.C_length, rows.A_start[: K + 1],
        rows.C_start[: K + 1],
    )  # fmt: skip
    settings = SolverSettings(model.rank_tolerance, model.damping, ROUNDS * (d + p), not full, KEPT)
    solution = SolutionBuffers(
        work.unknowns, matrix(now, 0, K + 1, p), matrix(work.multipliers, 0, K + 1, p), work.ranks, work.kkt,
        work.summary,
    )  # fmt: skip
    verified = solve_until_verified(problem, settings, matrix(before, 0, K + 1, p), warm, solution, work.solver)
    memory.warm[way] = 1 if warm else 0
    memory.good[way] = 1 if has_converged(solution) and not is_infeasible(solution) else 0
    return verified


@compiled(inline=False)
def recover(data: TickData, answer: Answer, n: int) -> float:
    """Torques, accelerations and forces of u; the largest residual of what was eliminated beforehand."""
    model, terms, contacts, points, work = data.model, data.terms, data.contacts, data.points, data.work
    a, u, M, nv = answer.acceleration, work.u, terms.M, len(answer.acceleration)
    u[n] = 1.0
    gemv_transposed(a, work.acceleration, u, nv, n + 1)
    for c in range(len(contacts.size)):
        for i in range(6):
            answer.force[c, i] = 0.0
        if points.column[c] >= 0:
            for i in range(contacts.size[c]):
                answer.force[c, i] = model.mass * u[work.force[c] + i]
    load, out = work.vectors[5], work.vectors[6]  # load: h - J^T f
    bare = len(model.passive)  # velocities without a motor
    for j in range(nv):
        load[j] = work.bias[j]
    for c in range(len(contacts.size)):
        if points.column[c] >= 0:
            chain, J = model.chains[contacts.frame[c]], points.jacobian[c]
            for i in range(contacts.size[c]):
                f = answer.force[c, i]
                for at in range(chain[0]):
                    load[chain[1 + at]] -= J[i, at] * f
    # The rows without a motor once more, on what rounding leaves; then the torques.
    B, G = work.base, work.right
    for i in range(bare):
        o = model.passive[i]
        gemv_transposed(out, M[o:], a, 1, nv)
        clear(G[i], 1)
        G[i, 0] = -load[o] - out[0]
        for k in range(bare):
            B[i, k] = M[o, model.passive[k]]
    if bare > 0:
        eliminate(B, G, 1)
    for i in range(bare):
        a[model.passive[i]] += G[i, 0]
    gemv_transposed(out, M, a, nv, nv)
    for i in range(len(model.actuated)):
        answer.torque[i] = load[model.actuated[i]] + out[model.actuated[i]]
    worst = 0.0
    for c in range(len(contacts.size)):
        if points.column[c] < 0 or points.strict[c] == 0 or not model.strict:
            continue
        chain, J = model.chains[contacts.frame[c]], points.jacobian[c]
        for i in range(contacts.size[c]):
            s = 0.0
            if points.strict[c] == MOTION:
                s = points.drift[c, i] - points.wanted[c, i]
                for at in range(chain[0]):
                    s += J[i, at] * a[chain[1 + at]]
            elif points.strict[c] == FORCE:
                s = (answer.force[c, i] - points.wanted[c, i]) / model.mass
            worst = max(worst, abs(s)) if math.isfinite(s) else math.inf
    total = 0.0
    for i in range(nv):
        total += abs(a[i])
    for i in range(len(model.actuated)):
        total += abs(answer.torque[i])
    return worst if math.isfinite(total) else math.inf


@compiled(inline=False)
def row_violation(data: TickData, d: int) -> float:
    """How far level 0's rows are violated at most."""
    rows, y, worst, at = data.rows, data.work.unknowns, 0.0, data.work.row_values
    m, p = rows.A_start[1], rows.C_start[1]
    gemv_transposed(at, rows.A, y, m, d)
    for i in range(m):
        worst = max(worst, abs(at[i] - rows.b[i]))
    gemv_transposed(at, rows.C, y, p, d)
    for i in range(p):
        worst = max(worst, at[i] - rows.upper[i], rows.lower[i] - at[i])
    return worst


@entry("whole-body control")
def describe(q: Vector, v: Vector, data: TickData) -> int:
    """The rows of a tick as elements gave them: over joint accelerations and forces per mass, without weights.

    How many unknowns there are; the rows stay in `data.rows`.
    """
    locate_contacts(data.model, data.terms, data.contacts, data.points, data.inputs, data.work)
    joint_friction(instant(q, v, data, 0))
    n = reduce(data.model, data.terms, data.contacts, data.points, data.work, True)
    data.rows.weighted[0] = 0
    build_problem(instant(q, v, data, n), True, False)
    return n
