"""One tick of whole-body control, from a state's rigid-body terms to torques.

    eliminate equations -> write rows -> solve the levels -> recover the result -> certify it

The equations of motion ``M a + h + r = S^T tau + J^T f`` (r the joint friction, if an element compensates it) and the
closed contacts are solved beforehand, which leaves fewer unknowns (`reduction`).  Each element writes its rows over
them (`write_all_rows`); the hierarchy of levels is solved (`quaddyn.hierarchy`); torques, accelerations and forces are
recovered from the solution.  If level 0 is infeasible with contacts held exactly, the contacts become rows of level 0
like all others, so that the violation is minimal.

Rows are written level by level and element by element; loops over `ELEMENT_KINDS` are unrolled by the compiler.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..compiler import IntVector, Matrix, Vector, compiled, entry, matrix
from ..compiler.lanes import clear, gemv_transposed
from ..hierarchy.core import solve_until_verified
from ..hierarchy.workspace import HierarchyProblem, SolutionBuffers, SolverSettings
from .constraints.contact_constraints import ContactMotion, write_ramped_contact_rows
from .contact_points import locate_contacts
from .contact_ramps import ContactRamps, advance_contacts
from .elements import ELEMENT_CLASSES, ELEMENT_KINDS
from .reduction import (
    collect_leftover_equations,
    eliminate_equations,
    factor_null_space,
    project_rows,
    solve_by_elimination,
)
from .row_writing import Item, add_force_equality, add_joint_equality, get_item
from .tasks.motion_parameters import has_reference, motion_parameters
from .tick_data import (
    MAX_STEADINESS,
    MIN_STEADINESS,
    AffineMaps,
    ContactStateData,
    ControllerModel,
    FormulationMemory,
    StrictQuantity,
    TickContext,
    TickData,
    TickOutcome,
    TickResult,
    WorkingSetMemory,
    result_views,
    write_certificate,
)


def element_functions(data: TickData) -> list[Callable[..., Any]]:
    """Returns the functions that write the rows of a controller's elements; rare kinds are compiled separately."""
    return [ELEMENT_CLASSES[code].kind.write_rows for code in sorted(set(data.model.elements.code.tolist()))]


@compiled(inline=False)
def capture_missing_references(t: TickContext) -> None:
    """Sets the current position as the reference of motion tasks without one, except of feet with a closed contact."""
    for i in range(len(t.model.elements.code)):
        item = get_item(t.model, t.inputs, i)
        if len(item.parameters) > 0 and not has_reference(motion_parameters(item.parameters, item.size)):
            for kind in ELEMENT_KINDS:
                if t.model.elements.code[i] == kind.code:
                    kind.capture_reference(item, t)


@compiled(inline=False)
def write_bias_forces(t: TickContext) -> None:
    """Computes the bias forces of the equations of motion: h plus the joint friction that is compensated."""
    bias = t.work.bias
    bias[: len(t.v)] = t.terms.h[: len(t.v)]
    for i in range(len(t.model.elements.code)):
        for kind in ELEMENT_KINDS:
            if t.model.elements.code[i] == kind.code:
                kind.add_bias_forces(get_item(t.model, t.inputs, i), t, bias)


@compiled(inline=False)
def finish_elements(t: TickContext, acceleration: Vector) -> None:
    """Stores what the elements read at the next tick, such as the velocities predicted from the accelerations."""
    for i in range(len(t.model.elements.code)):
        for kind in ELEMENT_KINDS:
            if t.model.elements.code[i] == kind.code:
                kind.finish_tick(get_item(t.model, t.inputs, i), t, acceleration)


@compiled()
def write_element_rows(code: int, item: Item, t: TickContext) -> None:
    """Writes the rows of one element."""
    for kind in ELEMENT_KINDS:
        if code == kind.code:
            kind.write_rows(item, t)


@compiled()
def write_min_norm_rows(t: TickContext) -> None:
    """Writes the rows ``a_j = 0``, ``f / m = 0``, which determine the remaining freedom by minimum norm."""
    for i in range(len(t.model.actuated)):
        add_joint_equality(t, t.model.actuated[i], 0.0, 1.0, -1, i)
    for c in range(len(t.contacts.size)):
        if t.points.first_force[c] >= 0:
            for i in range(t.contacts.size[c]):
                add_force_equality(t, c, i, 0.0, 1.0 / t.model.mass, -1, i)


@compiled()
def find_contact_motion(model: ControllerModel) -> int:
    """Returns the index of the element that keeps contacts at rest, -1 without one."""
    for i in range(len(model.elements.code)):
        if model.elements.code[i] == ContactMotion.kind.code:
            return i
    return -1


@compiled(inline=False)
def write_all_rows(t: TickContext, add_min_norm_level: bool) -> None:
    """Writes the rows of all levels.

    Args:
        t: the tick.
        add_min_norm_level: whether to add a level with the minimum-norm rows.
    """
    rows, elements, contact_motion = t.rows, t.model.elements, find_contact_motion(t.model)
    rows.n_equalities = 0
    rows.n_limits = 0
    for level in range(t.model.levels):
        rows.A_start[level] = rows.n_equalities
        rows.C_start[level] = rows.n_limits
        for i in range(len(elements.level)):
            if elements.level[i] == level:
                write_element_rows(elements.code[i], get_item(t.model, t.inputs, i), t)
        if contact_motion >= 0:
            write_ramped_contact_rows(get_item(t.model, t.inputs, contact_motion), t, level)
    rows.A_start[t.model.levels] = rows.n_equalities
    rows.C_start[t.model.levels] = rows.n_limits
    if add_min_norm_level:
        write_min_norm_rows(t)
    rows.A_start[t.model.levels + 1] = rows.n_equalities
    rows.C_start[t.model.levels + 1] = rows.n_limits


#: Largest violation of level 0 [m/s^2] with which contacts stay eliminated, and with which level 0 is satisfied.
CONTACT_VIOLATION_TOLERANCE, LEVEL0_VIOLATION_TOLERANCE = 1e-9, 1e-6
#: Largest number of iterations of the active-set solver per level, for each unknown and inequality; an infeasible
#: level 0 of a large robot takes several.
ITERATIONS_PER_ROW = 10


@entry("whole-body control", callees=element_functions)
def tick(q: Vector, v: Vector, data: TickData, values: Vector) -> TickOutcome:
    """Computes one tick and returns its outcome.

    Args:
        q: (nq,) configuration.
        v: (nv,) velocity.
        data: all other inputs and buffers; the rigid-body terms must belong to (q, v).
        values: takes the result, see `result_views`; may end before the parameters.
    """
    model, memory = data.model, data.memory
    references = data.inputs.force_references
    result = result_views(
        values, len(model.actuated), len(v), len(data.contacts.size), model.levels, references.shape[0]
    )
    checksum = 0.0
    for i in range(len(v)):
        checksum += abs(data.terms.h[i]) + data.terms.M[i, i]
    if not math.isfinite(checksum):
        return TickOutcome.OVERFLOW
    t = make_tick_context(q, v, data, 0, True)
    locate_contacts(model, data.terms, data.contacts, data.points, data.inputs, data.work)
    capture_missing_references(t)
    has_nan = False
    for i in range(len(data.inputs.parameters)):
        x = data.inputs.parameters[i]
        if i < len(result.parameters):
            result.parameters[i] = x
        has_nan |= x != x
    for c in range(len(data.contacts.size)):
        result.activation[c], result.cap[c] = data.contacts.activation[c], data.contacts.cap[c]
        for task in range(references.shape[0]):
            for k in range(8):
                result.force_references[8 * (len(data.contacts.size) * task + c) + k] = references[task, c, k]
    if has_nan or not custom_rows_are_valid(data):
        return TickOutcome.NOT_A_NUMBER
    write_bias_forces(t)
    checksum = 0.0
    for i in range(len(v)):
        checksum += abs(data.work.bias[i])
    if not math.isfinite(checksum):
        return TickOutcome.OVERFLOW
    for i in range(len(model.actuated)):
        j = model.actuated[i]
        result.friction[i] = data.work.bias[j] - data.terms.h[j]
    outcome = TickOutcome.INFEASIBLE
    memory.skipped_elimination = memory.skips_elimination or not model.has_strict_contacts
    if not memory.skipped_elimination:
        outcome = solve_formulation(q, v, data, result, False)
    if outcome != TickOutcome.SOLVED:
        outcome = solve_formulation(q, v, data, result, True)
        memory.skips_elimination = outcome != TickOutcome.SOLVED and model.has_strict_contacts
    if outcome == TickOutcome.FALLBACK:
        write_fallback_result(data, result)
    finish_elements(t, result.acceleration)
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
def write_fallback_result(data: TickData, result: TickResult) -> None:
    """Writes the fallback result: zero joint accelerations and contact forces, or all zeros if not finite."""
    n = eliminate_equations(data.model, data.terms, data.contacts, data.points, data.work, True)
    for j in range(max(n, 0)):
        data.work.full_unknowns[j] = 0.0
    if n < 0 or not math.isfinite(recover_result(data, result, n)):
        result.acceleration[:] = 0.0
        for i in range(len(result.torque)):
            result.torque[i] = 0.0
            result.friction[i] = 0.0
        for c in range(result.force.shape[0]):
            for i in range(6):
                result.force[c, i] = 0.0
    write_certificate(result, math.inf, math.inf)
    result.ranks[:] = 0.0
    clear_working_sets(data.memory)


@compiled()
def clear_working_sets(memory: WorkingSetMemory) -> None:
    """Makes the next tick start without working sets, as a first one."""
    memory.eliminated.steadiness = 0
    memory.as_rows.steadiness = 0
    memory.skips_elimination = False


@compiled(inline=False)
def custom_rows_are_valid(data: TickData) -> bool:
    """Returns whether rows that were computed in Python are finite and their bounds can be satisfied."""
    table, invalid_entries = data.inputs.custom_rows, 0
    for i in range(table.shape[0]):
        z = table[i]
        if not (z[1] < math.inf and z[2] > -math.inf):
            invalid_entries += 1
        for k in range(3, len(z)):
            if not math.isfinite(z[k]):
                invalid_entries += 1
    return invalid_entries == 0


@compiled()
def make_tick_context(q: Vector, v: Vector, data: TickData, n: int, contacts_as_rows: bool) -> TickContext:
    """Returns the data of a tick with n unknowns, as the functions that write rows use them."""
    work = data.work
    maps = AffineMaps(
        n, work.acceleration, work.torque, work.acceleration_length, work.torque_length, work.force, work.joint_unknown
    )
    return TickContext(
        q, v, data.model, data.terms, data.contacts, data.points, data.inputs, work, maps, data.rows, contacts_as_rows
    )  # fmt: skip


@compiled(inline=False)
def solve_formulation(q: Vector, v: Vector, data: TickData, result: TickResult, contacts_as_rows: bool) -> TickOutcome:
    """Solves the optimization problem of a tick and writes its solution to `result`.

    Args:
        q: (nq,) configuration.
        v: (nv,) velocity.
        data: all other inputs and buffers; the rigid-body terms must belong to (q, v).
        result: takes the solution.
        contacts_as_rows: whether the equations that closed contacts impose on the accelerations are rows of level 0.
            Otherwise unknowns are eliminated by them first, and the levels determine the remaining unknowns.

    Returns:
        `TickOutcome.SOLVED`, `INFEASIBLE`, `INACCURATE` or `FALLBACK`, the last without a finite solution.
    """
    model, points, work, memory = data.model, data.points, data.work, data.memory
    n = eliminate_equations(model, data.terms, data.contacts, points, work, contacts_as_rows)
    if n < 0:
        return TickOutcome.FALLBACK
    verified, d = False, n
    for _ in range(2):
        data.rows.applies_weights = True
        write_all_rows(make_tick_context(q, v, data, n, contacts_as_rows), memory.needs_min_norm)
        d = n
        if not contacts_as_rows:
            r = collect_leftover_equations(model, data.contacts, points, work, n)
            if r > 0:
                d = factor_null_space(r, n, model.rank_tolerance, work)
                project_problem(data, n, d)
        verified = solve_levels(data, d, contacts_as_rows)
        if work.summary.is_infeasible:
            return TickOutcome.INFEASIBLE
        if memory.needs_min_norm or work.ranks[model.levels] == 0.0:  # no freedom remains below the levels
            break
        memory.needs_min_norm = True  # once more, with a minimum-norm level for the freedom that remains
    u = work.full_unknowns
    u[:n] = work.unknowns[:n]
    if d < n:
        expand_directions(work.null_space_map, work.unknowns, n, d, u)
    violation = recover_result(data, result, n)
    violation = max(violation, row_violation(data, d))
    write_certificate(result, violation, work.summary.max_kkt)
    result.ranks[: model.levels] = work.ranks[: model.levels]
    if not contacts_as_rows:
        result.ranks[0] += count_unknowns(data) - d
    if not math.isfinite(violation):
        return TickOutcome.FALLBACK
    if not verified:
        return TickOutcome.INACCURATE
    if not contacts_as_rows:
        return TickOutcome.SOLVED if violation <= CONTACT_VIOLATION_TOLERANCE else TickOutcome.INFEASIBLE
    return TickOutcome.SOLVED if violation <= LEVEL0_VIOLATION_TOLERANCE else TickOutcome.INFEASIBLE


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
    """Projects all rows to the d directions of the null space of strict contacts."""
    rows, scratch, X = data.rows, data.work.scratch_rows, data.work.null_space_map
    m, p = rows.n_equalities, rows.n_limits
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
def solve_levels(data: TickData, d: int, contacts_as_rows: bool) -> bool:
    """Solves the hierarchy over d unknowns, from the working sets of the last tick; returns whether it is verified.

    If contacts are eliminated, the solver stops after an infeasible level 0.
    """
    model, memory, work, rows = data.model, data.memory, data.work, data.rows
    own = memory.as_rows if contacts_as_rows else memory.eliminated
    K, p = model.levels + int(memory.needs_min_norm), rows.n_limits
    has_warm_start = own.steadiness > 0
    for k in range(model.levels + 2):
        has_warm_start = has_warm_start and own.limit_starts[k] == rows.C_start[k]
        own.limit_starts[k] = rows.C_start[k]
    if has_warm_start:
        own.previous[: (model.levels + 2) * p] = own.current[: (model.levels + 2) * p]
    was_infeasible = model.has_strict_contacts and not memory.skipped_elimination and work.summary.is_infeasible
    if contacts_as_rows and was_infeasible and memory.eliminated.limit_starts[K] == p:
        has_warm_start = True  # rows that were violated with eliminated contacts are likely to be violated now, too
        for i in range((K + 1) * p):
            own.previous[i] = memory.eliminated.current[i] if i < p else 0
    problem = HierarchyProblem(
        d, rows.A, rows.b, rows.A_length, rows.C, rows.lower, rows.upper, rows.C_length, rows.A_start[: K + 1],
        rows.C_start[: K + 1],
    )  # fmt: skip
    settings = SolverSettings(
        model.rank_tolerance,
        model.damping,
        ITERATIONS_PER_ROW * (d + p),
        not contacts_as_rows,
        CONTACT_VIOLATION_TOLERANCE,
        own.steadiness >= MIN_STEADINESS,
    )
    solution = SolutionBuffers(
        work.unknowns, matrix(own.current, 0, K + 1, p), matrix(work.multipliers, 0, K + 1, p), work.ranks, work.kkt,
        work.summary,
    )  # fmt: skip
    verified = solve_until_verified(
        problem, settings, matrix(own.previous, 0, K + 1, p), has_warm_start, solution, work.solver
    )
    own.start_steadiness = max(own.steadiness, 1) if has_warm_start else 0
    own.steadiness = 0
    if work.summary.has_converged and not work.summary.is_infeasible:
        own.steadiness = compute_steadiness(own, (K + 1) * p)
    return verified


@compiled()
def compute_steadiness(memory: FormulationMemory, n: int) -> int:
    """Returns the steadiness after a solve with working sets of n bytes."""
    if memory.start_steadiness == 0:
        return MIN_STEADINESS
    for i in range(n):
        if memory.current[i] != memory.previous[i]:
            return max(memory.start_steadiness - 1, 1)
    return MAX_STEADINESS


@compiled(inline=False)
def recover_result(data: TickData, result: TickResult, n: int) -> float:
    """Computes torques, accelerations and forces from u; returns the largest residual of the eliminated equations."""
    model, terms, contacts, points, work = data.model, data.terms, data.contacts, data.points, data.work
    a, u, M, nv = result.acceleration, work.full_unknowns, terms.M, len(result.acceleration)
    u[n] = 1.0
    gemv_transposed(a, work.acceleration, u, nv, n + 1)
    for c in range(len(contacts.size)):
        for i in range(6):
            result.force[c, i] = 0.0
        if points.first_force[c] >= 0:
            for i in range(contacts.size[c]):
                result.force[c, i] = model.mass * u[work.force[c] + i]
    generalized_forces, inertial_forces = work.vectors[5], work.vectors[6]  # generalized_forces: h - J^T f
    n_passive = len(model.passive)  # velocities without a motor
    generalized_forces[:nv] = work.bias[:nv]
    for c in range(len(contacts.size)):
        if points.first_force[c] >= 0:
            chain, J = model.chains[contacts.frame[c]], points.jacobian[c]
            for i in range(contacts.size[c]):
                f = result.force[c, i]
                for entry in range(chain[0]):
                    generalized_forces[chain[1 + entry]] -= J[i, entry] * f
    # The unactuated rows are solved once more for the residual due to rounding; then the torques follow.
    B, G = work.passive_matrix, work.passive_rhs
    for i in range(n_passive):
        o = model.passive[i]
        gemv_transposed(inertial_forces, M[o:], a, 1, nv)
        clear(G[i], 1)
        G[i, 0] = -generalized_forces[o] - inertial_forces[0]
        for k in range(n_passive):
            B[i, k] = M[o, model.passive[k]]
    if n_passive > 0:
        solve_by_elimination(B, G, 1)
    for i in range(n_passive):
        a[model.passive[i]] += G[i, 0]
    gemv_transposed(inertial_forces, M, a, nv, nv)
    for i in range(len(model.actuated)):
        result.torque[i] = generalized_forces[model.actuated[i]] + inertial_forces[model.actuated[i]]
    max_residual = 0.0
    for c in range(len(contacts.size)):
        if (
            points.first_force[c] < 0
            or points.strict_kind[c] == StrictQuantity.NOTHING
            or not model.has_strict_contacts
        ):
            continue
        chain, J = model.chains[contacts.frame[c]], points.jacobian[c]
        for i in range(contacts.size[c]):
            s = 0.0
            if points.strict_kind[c] == StrictQuantity.MOTION:
                s = points.drift[c, i] - points.target[c, i]
                for entry in range(chain[0]):
                    s += J[i, entry] * a[chain[1 + entry]]
            elif points.strict_kind[c] == StrictQuantity.FORCE:
                s = (result.force[c, i] - points.target[c, i]) / model.mass
            max_residual = max(max_residual, abs(s)) if math.isfinite(s) else math.inf
    total = 0.0
    for i in range(nv):
        total += abs(a[i])
    for i in range(len(model.actuated)):
        total += abs(result.torque[i])
    return max_residual if math.isfinite(total) else math.inf


@compiled(inline=False)
def row_violation(data: TickData, d: int) -> float:
    """Returns the largest violation of a row of level 0."""
    rows, y, largest, row_values = data.rows, data.work.unknowns, 0.0, data.work.row_values
    m, p = rows.A_start[1], rows.C_start[1]
    gemv_transposed(row_values, rows.A, y, m, d)
    for i in range(m):
        largest = max(largest, abs(row_values[i] - rows.b[i]))
    gemv_transposed(row_values, rows.C, y, p, d)
    for i in range(p):
        largest = max(largest, row_values[i] - rows.upper[i], rows.lower[i] - row_values[i])
    return largest


@entry("whole-body control", callees=element_functions)
def write_unweighted_rows(q: Vector, v: Vector, data: TickData) -> int:
    """Writes the rows of a tick without weights, over joint accelerations and forces per mass.

    Returns:
        The number of unknowns; the rows are in `data.rows`.
    """
    locate_contacts(data.model, data.terms, data.contacts, data.points, data.inputs, data.work)
    write_bias_forces(make_tick_context(q, v, data, 0, True))
    n = eliminate_equations(data.model, data.terms, data.contacts, data.points, data.work, True)
    data.rows.applies_weights = False
    write_all_rows(make_tick_context(q, v, data, n, True), False)
    return n
