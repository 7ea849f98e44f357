"""One tick of whole-body control, from a state's rigid-body terms to torques.

    assemble -> reduce -> solve -> recover -> certify

The equations of motion ``M a + h + r = S^T tau + J^T f`` (r the joint friction, if an element compensates it) and the
closed contacts are solved beforehand, which leaves fewer unknowns (`reduction`).  Each element writes its rows over
them (`problem_rows`); the hierarchy of levels is solved (`quaddyn.hierarchy`); torques, accelerations and forces are
recovered from the solution.  If level 0 is infeasible with contacts held exactly, the contacts become rows of level 0
like all others, so that the violation is minimal.
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
from .contact_ramps import ContactRamps, advance_contacts
from .problem_rows import capture_missing_references, predict_velocities, write_all_rows, write_bias_forces
from .reduction import collect_leftover_equations, factor_null_space, project_rows, reduce, solve_by_elimination
from .tick_data import FORCE, MOTION, AffineMaps, ContactStateData, TickContext, TickData, TickResult, result_views

# Outcomes of a tick: see `quaddyn.wbc.certificate.Status`; then those of inputs that cannot be solved.
SOLVED, INFEASIBLE, INACCURATE, FALLBACK, OVERFLOW, NOT_A_NUMBER = range(6)

#: Largest violation of level 0 [m/s^2] with which contacts are held exactly, and with which level 0 is satisfied.
CONTACT_VIOLATION_TOLERANCE, LEVEL0_VIOLATION_TOLERANCE = 1e-9, 1e-6
#: Iterations of the active-set solver per level, for each unknown and inequality; an infeasible level 0 of a large
#: robot takes several.
ITERATIONS_PER_ROW = 10


@entry("whole-body control")
def tick(q: Vector, v: Vector, data: TickData, values: Vector) -> int:
    """Computes one tick and returns its outcome.

    Args:
        q: (nq,) configuration.
        v: (nv,) velocity.
        data: all other inputs and buffers; the rigid-body terms must belong to (q, v).
        values: takes the result, see `result_views`.
    """
    model, memory = data.model, data.memory
    answer = result_views(values, len(model.actuated), len(v), len(data.contacts.size), model.levels)
    total = 0.0
    for i in range(len(v)):
        total += abs(data.terms.h[i]) + data.terms.M[i, i]
    if not math.isfinite(total):
        return OVERFLOW
    t = make_tick_context(q, v, data, 0)
    locate_contacts(model, data.terms, data.contacts, data.points, data.inputs, data.work)
    capture_missing_references(t)
    unset = False
    for i in range(len(data.inputs.parameters)):
        x = data.inputs.parameters[i]
        answer.numbers[i] = x
        unset |= x != x
    if unset or not custom_rows_are_valid(data):
        return NOT_A_NUMBER
    write_bias_forces(t)
    total = 0.0
    for i in range(len(v)):
        total += abs(data.work.bias[i])
    if not math.isfinite(total):
        return OVERFLOW
    for i in range(len(model.actuated)):
        j = model.actuated[i]
        answer.friction[i] = data.work.bias[j] - data.terms.h[j]
    outcome = INFEASIBLE
    memory.was_warm_started[2] = 1 if not model.has_strict_contacts or memory.is_valid[1] == 2 else 0
    if memory.was_warm_started[2] == 0:
        outcome = solve_formulation(q, v, data, answer, False)
    if outcome != SOLVED:
        outcome = solve_formulation(q, v, data, answer, True)
        memory.is_valid[1] = 1 if outcome == SOLVED or not model.has_strict_contacts else 2
    if outcome == FALLBACK:
        write_fallback_result(data, answer)
    predict_velocities(t, answer.acceleration)
    return outcome


@entry("whole-body control")
def advance_contacts_entry(
    ramps: ContactRamps,
    contacts: ContactStateData,
    requested: IntVector,
    step: float,
    weight: float,
    values: Vector,
    first: int,
) -> int:
    """Calls `advance_contacts` from Python; the contact forces of the tick before begin at `first` in `values`."""
    return advance_contacts(ramps, contacts, requested, step, weight, matrix(values, first, len(contacts.size), 6))


@compiled(inline=False)
def write_fallback_result(data: TickData, answer: TickResult) -> None:
    """Writes the minimum-norm result if the solver found no finite one: zero joint accelerations and contact forces."""
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
    data.memory.is_valid[0] = 0
    data.memory.is_valid[1] = 0


@compiled(inline=False)
def custom_rows_are_valid(data: TickData) -> bool:
    """Returns whether rows that elements computed in Python are finite and their bounds can be satisfied."""
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
def make_tick_context(q: Vector, v: Vector, data: TickData, n: int) -> TickContext:
    """Returns the data of a tick with n unknowns, as the functions that write rows use them."""
    work = data.work
    maps = AffineMaps(
        n, work.acceleration, work.torque, work.acceleration_length, work.torque_length, work.force, work.joint
    )
    return TickContext(q, v, data.model, data.terms, data.contacts, data.points, data.inputs, work, maps, data.rows)


@compiled(inline=False)
def solve_formulation(q: Vector, v: Vector, data: TickData, answer: TickResult, full: bool) -> int:
    """Reduces, assembles, solves, recovers and certifies; closed contacts are rows of level 0 if `full`."""
    model, points, work, memory = data.model, data.points, data.work, data.memory
    n = reduce(model, data.terms, data.contacts, points, work, full)
    if n < 0:
        return FALLBACK
    verified, d = False, n
    for _ in range(2):
        data.rows.weighted[0] = 1
        write_all_rows(make_tick_context(q, v, data, n), full, memory.needs_min_norm[0] != 0)
        d = n
        if not full:
            r = collect_leftover_equations(model, data.contacts, points, work, n)
            if r > 0:
                d = factor_null_space(r, n, model.rank_tolerance, work)
                project_problem(data, n, d)
        verified = solve(data, d, full)
        if work.summary[SUMMARY_INFEASIBLE] != 0.0:
            return INFEASIBLE
        if memory.needs_min_norm[0] != 0 or work.ranks[model.levels] == 0.0:
            break
        memory.needs_min_norm[0] = 1  # once more, with the level that decides what others leave
    u = work.u
    for j in range(n):
        u[j] = work.unknowns[j]
    if d < n:
        expand_directions(work.null, work.unknowns, n, d, u)
    worst = recover(data, answer, n)
    worst = max(worst, row_violation(data, d))
    answer.violation[0] = worst
    answer.kkt[0] = work.summary[WORST_KKT]
    for k in range(model.levels):
        answer.ranks[k] = work.ranks[k]
    if not full:
        answer.ranks[0] += count_unknowns(data) - d
    if not math.isfinite(worst):
        return FALLBACK
    if not verified:
        return INACCURATE
    if not full:
        return SOLVED if worst <= CONTACT_VIOLATION_TOLERANCE else INFEASIBLE
    return SOLVED if worst <= LEVEL0_VIOLATION_TOLERANCE else INFEASIBLE


@compiled()
def count_unknowns(data: TickData) -> int:
    """Returns the number of joint accelerations and force components."""
    n = len(data.model.actuated)
    for c in range(len(data.contacts.size)):
        if data.points.first_force[c] >= 0:
            n += data.contacts.size[c]
    return n


@compiled()
def project_problem(data: TickData, n: int, d: int) -> None:
    """Projects all rows to the d directions that strict contacts leave free."""
    rows, scratch, X = data.rows, data.work.scratch_rows, data.work.null
    m, p = rows.count[0], rows.count[1]
    project_rows(rows.A, m, n, d, X, scratch)
    project_rows(rows.C, p, n, d, X, scratch)
    for i in range(m):
        rows.b[i] -= rows.A[i, d]
    for i in range(p):
        rows.lower[i] -= rows.C[i, d]
        rows.upper[i] -= rows.C[i, d]


@compiled()
def expand_directions(X: Matrix, y: Vector, n: int, d: int, u: Vector) -> None:
    """Computes ``u = X[:, :d] y + X[:, d]``."""
    for i in range(n):
        s = X[i, d]
        for j in range(d):
            s += X[i, j] * y[j]
        u[i] = s


@compiled(inline=False)
def solve(data: TickData, d: int, full: bool) -> bool:
    """Solves the hierarchy over d unknowns, from the working sets of the last tick; returns whether it is verified.

    If contacts are held exactly, it stops after level 0 if that is infeasible.
    """
    model, memory, work, rows = data.model, data.memory, data.work, data.rows
    formulation = 1 if full else 0
    K, p = model.levels + memory.needs_min_norm[0], rows.count[1]
    warm = memory.is_valid[formulation] != 0
    for k in range(model.levels + 2):
        warm = warm and memory.limit_starts[formulation, k] == rows.C_start[k]
        memory.limit_starts[formulation, k] = rows.C_start[k]
    before, now = memory.previous, memory.current
    if full:
        before, now = memory.previous_full, memory.current_full
    if warm:
        for i in range((model.levels + 2) * p):
            before[i] = now[i]
    just_failed = (
        model.has_strict_contacts and memory.was_warm_started[2] == 0 and work.summary[SUMMARY_INFEASIBLE] != 0.0
    )
    if full and just_failed and memory.limit_starts[0, K] == p:
        warm = True  # what was violated with contacts held exactly is likely to be violated now
        for i in range((K + 1) * p):
            before[i] = memory.current[i] if i < p else 0
    problem = HierarchyProblem(
        d, rows.A, rows.b, rows.A_length, rows.C, rows.lower, rows.upper, rows.C_length, rows.A_start[: K + 1],
        rows.C_start[: K + 1],
    )  # fmt: skip
    settings = SolverSettings(
        model.rank_tolerance, model.damping, ITERATIONS_PER_ROW * (d + p), not full, CONTACT_VIOLATION_TOLERANCE
    )
    solution = SolutionBuffers(
        work.unknowns, matrix(now, 0, K + 1, p), matrix(work.multipliers, 0, K + 1, p), work.ranks, work.kkt,
        work.summary,
    )  # fmt: skip
    verified = solve_until_verified(problem, settings, matrix(before, 0, K + 1, p), warm, solution, work.solver)
    memory.was_warm_started[formulation] = 1 if warm else 0
    memory.is_valid[formulation] = 1 if has_converged(solution) and not is_infeasible(solution) else 0
    return verified


@compiled(inline=False)
def recover(data: TickData, answer: TickResult, n: int) -> float:
    """Computes torques, accelerations and forces from u; returns the largest residual of the eliminated equations."""
    model, terms, contacts, points, work = data.model, data.terms, data.contacts, data.points, data.work
    a, u, M, nv = answer.acceleration, work.u, terms.M, len(answer.acceleration)
    u[n] = 1.0
    gemv_transposed(a, work.acceleration, u, nv, n + 1)
    for c in range(len(contacts.size)):
        for i in range(6):
            answer.force[c, i] = 0.0
        if points.first_force[c] >= 0:
            for i in range(contacts.size[c]):
                answer.force[c, i] = model.mass * u[work.force[c] + i]
    load, out = work.vectors[5], work.vectors[6]  # load: h - J^T f
    bare = len(model.passive)  # velocities without a motor
    for j in range(nv):
        load[j] = work.bias[j]
    for c in range(len(contacts.size)):
        if points.first_force[c] >= 0:
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
        solve_by_elimination(B, G, 1)
    for i in range(bare):
        a[model.passive[i]] += G[i, 0]
    gemv_transposed(out, M, a, nv, nv)
    for i in range(len(model.actuated)):
        answer.torque[i] = load[model.actuated[i]] + out[model.actuated[i]]
    worst = 0.0
    for c in range(len(contacts.size)):
        if points.first_force[c] < 0 or points.strict_kind[c] == 0 or not model.has_strict_contacts:
            continue
        chain, J = model.chains[contacts.frame[c]], points.jacobian[c]
        for i in range(contacts.size[c]):
            s = 0.0
            if points.strict_kind[c] == MOTION:
                s = points.drift[c, i] - points.target[c, i]
                for at in range(chain[0]):
                    s += J[i, at] * a[chain[1 + at]]
            elif points.strict_kind[c] == FORCE:
                s = (answer.force[c, i] - points.target[c, i]) / model.mass
            worst = max(worst, abs(s)) if math.isfinite(s) else math.inf
    total = 0.0
    for i in range(nv):
        total += abs(a[i])
    for i in range(len(model.actuated)):
        total += abs(answer.torque[i])
    return worst if math.isfinite(total) else math.inf


@compiled(inline=False)
def row_violation(data: TickData, d: int) -> float:
    """Returns the largest violation of a row of level 0."""
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
def write_unweighted_rows(q: Vector, v: Vector, data: TickData) -> int:
    """Writes the rows of a tick without weights, over joint accelerations and forces per mass.

    Returns:
        The number of unknowns; the rows are in `data.rows`.
    """
    locate_contacts(data.model, data.terms, data.contacts, data.points, data.inputs, data.work)
    write_bias_forces(make_tick_context(q, v, data, 0))
    n = reduce(data.model, data.terms, data.contacts, data.points, data.work, True)
    data.rows.weighted[0] = 0
    write_all_rows(make_tick_context(q, v, data, n), True, False)
    return n
