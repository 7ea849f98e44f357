"""Integration of one substep of the plant: a full step, or a part of one by the midpoint rule, with its energy balance.

`integrate_substep` computes the state at the end of a substep from the state at its start. Compiled; called by
`integrator`.
"""

from __future__ import annotations

import math

from ..compiler import Vector, compiled
from .contact_data import ContactLaw, SphereContacts, StepDynamics, StepModel, StepState
from .contact_step import (
    CORRECTED,
    REBOUND,
    RESIDUAL,
    SPEED,
    TOLERANCE,
    complete_step,
    compute_position_correction,
    solve_contact_step,
)
from .energy_balance import (
    CORRECTION_POWER,
    FLIGHT_RISE_SPEED,
    GROUND_RISE_SPEED,
    KINETIC,
    KINETIC_ERROR_FRACTION,
    POTENTIAL,
    RISE_POWER,
    mechanical_energy,
)
from .kinematic_tree import KinematicTree, PointForces
from .motions import integrate_configuration
from .step_memory import (
    ACTUATORS,
    CONTACTS,
    CORRECTIONS,
    DONE,
    ENERGY_ERROR,
    ENERGY_GAIN,
    FREE,
    GROUND,
    HELP_GIVEN,
    ITERATION,
    JOINTS,
    MAX_RESIDUAL,
    MAX_SPEED,
    NEEDS_CAPACITY,
    NEEDS_CONTACT_SOLVER,
    NEEDS_RK4_STEP,
    PASSIVE,
    PUSHES,
    REQUIRED_CAPACITY,
    RETRIED,
    RK4_STEP_DONE,
    SOLVED,
    STATUS,
    StepMemory,
)
from .terms import StepTerms, compute_bias, compute_inertia, compute_push_forces, place_joints

#: Maximum number of midpoint iterations, and the velocity change at which they end, relative to the largest velocity.
MAX_MIDPOINT_ITERATIONS, MIDPOINT_TOLERANCE = 4, 1e-7


@compiled()
def fill_zeros(out: Vector) -> None:
    """Sets all entries to zero."""
    for i in range(len(out)):
        out[i] = 0.0


@compiled(inline=False)
def evaluate_dynamics(
    bodies: KinematicTree, q: Vector, v: Vector, terms: StepTerms, motion: StepDynamics, energies: Vector
) -> None:
    """Computes poses, Jacobian and inertia at a configuration, and the energies there at velocity v."""
    place_joints(bodies, q, terms)
    compute_inertia(bodies, terms)
    mechanical_energy(bodies, terms, v, motion.correction, energies)


@compiled()
def contact_law_at(law: ContactLaw, h: float) -> ContactLaw:
    """Returns the contact law of a substep of length h [s].

    Positions advance with the new velocity from the middle of the substep on.
    """
    return ContactLaw(
        h, 0.5 * h, law.contact_distance * (h / law.dt), law.slop, law.recovery_fraction, law.recovery_speed,
        law.stiffness, law.damping, law.creep, law.stiction_speed, law.tolerance, law.allowed_work,
    )  # fmt: skip


@compiled()
def energy_tolerance(model: StepModel, memory: StepMemory) -> float:
    """Returns the energy error of the last substep above which it is refined [J]."""
    rise = GROUND_RISE_SPEED if memory.progress[CONTACTS] > 0 else FLIGHT_RISE_SPEED
    allowed: float = model.law.dt * (
        KINETIC_ERROR_FRACTION * max(memory.at_start[KINETIC], memory.at_end[KINETIC]) + rise * model.weight
    )
    return allowed


@compiled(inline=False)
def integrate_substep(
    model: StepModel,
    pushes: PointForces,
    terms: StepTerms,
    memory: StepMemory,
    motion: StepDynamics,
    contacts: SphereContacts,
    h: float,
    rounds: int,
) -> int:
    """Integrates a substep of length h [s], from ``memory.q_start``, ``v_start`` to ``memory.q_end``, ``v_end``.

    With `rounds` > 0 the midpoint rule is iterated at most so many times. It evaluates the terms at the middle: at the
    configuration that v alone would reach, and at the mean of the velocities. With `rounds` = 0 the substep is a full
    step, velocities first, with the terms at its start, which have been evaluated before.

    Args:
        model: constant data of the plant.
        pushes: external forces.
        terms: rigid-body terms, overwritten.
        memory: state of the step.
        motion: work of the step, overwritten.
        contacts: contacts of the substep, overwritten.
        h: length of the substep [s].
        rounds: maximum number of midpoint iterations, 0 for a full step.

    Returns:
        `DONE`, or the help that is needed: `NEEDS_CAPACITY`, `NEEDS_CONTACT_SOLVER` or `NEEDS_RK4_STEP`.
    """
    p, v, report, closing = memory.progress, memory.v_start, motion.report, 0.5 * h
    law = contact_law_at(model.law, h) if rounds > 0 else model.law
    q = memory.q_middle if rounds > 0 else memory.q_start
    state = StepState(q, v, memory.v_mirrored, memory.tau, memory.external, memory.drives)
    while True:
        if p[HELP_GIVEN] == 0:
            if p[ITERATION] == 0:
                begin_substep(model, pushes, terms, memory, closing, rounds > 0)
            compute_bias(model.bodies, memory.v_middle, terms)
            k: int = solve_contact_step(model, law, terms, state, motion, contacts, memory.v_end)
            if k < 0:
                p[REQUIRED_CAPACITY] = -k
                return NEEDS_CAPACITY
            p[CONTACTS] = k
            p[STATUS] = FREE if k == 0 else PASSIVE if report[REBOUND] > 0.0 else SOLVED
            if k > 0 and not report[RESIDUAL] <= law.tolerance:
                return NEEDS_CONTACT_SOLVER
        else:
            p[HELP_GIVEN] = 0
            report[CORRECTED] = compute_position_correction(p[CONTACTS], model, TOLERANCE, motion, contacts)
            report[SPEED] = complete_step(p[CONTACTS], model, h, state, motion, contacts, memory.v_end)
        if p[ITERATION] >= rounds - 1 or p[STATUS] >= RETRIED or has_converged(memory, report[SPEED]):
            break
        for j in range(len(v)):
            memory.v_middle[j] = 0.5 * (v[j] + memory.v_end[j])
            memory.v_mirrored[j] = 2.0 * v[j] - memory.v_end[j]
            memory.v_last_iteration[j] = memory.v_end[j]
        p[ITERATION] += 1
    p[ITERATION] = 0
    falls = model.has_free_root and p[CONTACTS] == 0
    if p[RK4_STEP_DONE] == 0:
        if model.rk4_in_flight and p[CONTACTS] == 0:
            return NEEDS_RK4_STEP
        share = closing if rounds > 0 else h
        for j in range(len(v)):
            memory.displacement[j] = share * memory.v_end[j] + h * motion.correction[j]
        if falls and rounds == 0:
            correct_free_fall(model.bodies, terms.poses[1], h, memory.displacement)
        integrate_configuration(model.bodies, q, memory.displacement, 1.0, memory.q_end)
    update_energy_balance(model, terms, memory, motion, h, rounds == 0 and p[RK4_STEP_DONE] == 0 and not falls)
    p[RK4_STEP_DONE] = 0
    return DONE


@compiled()
def begin_substep(
    model: StepModel, pushes: PointForces, terms: StepTerms, memory: StepMemory, closing: float, midpoint: bool
) -> None:
    """Sets configuration and velocity of the first iteration, and the generalized forces of pushes there."""
    v, before = memory.v_start, memory.v_previous_substep
    for j in range(len(v)):
        memory.v_middle[j] = v[j] + 0.5 * (v[j] - before[j]) if midpoint else v[j]
        memory.v_mirrored[j], memory.v_last_iteration[j] = before[j], v[j]
    if midpoint:
        integrate_configuration(model.bodies, memory.q_start, v, closing, memory.q_middle)
        place_joints(model.bodies, memory.q_middle, terms)
        compute_inertia(model.bodies, terms)
    compute_push_forces(model.bodies, terms, pushes, memory.external)


@compiled()
def correct_free_fall(bodies: KinematicTree, root: Vector, h: float, moving: Vector) -> None:
    """Subtracts by how far a free root falls too far with the velocity at the end of a step."""
    for axis in range(3):
        for each in range(3):
            moving[axis] -= 0.5 * h * h * bodies.gravity[each] * root[3 * axis + each]


@compiled()
def has_converged(memory: StepMemory, speed: float) -> bool:
    """Returns whether the last iteration changed no velocity by more than the tolerance, or one is not finite."""
    largest = 0.0
    for j in range(len(memory.v_last_iteration)):
        change = abs(memory.v_end[j] - memory.v_last_iteration[j])
        if not change <= largest:
            largest = change
    return not largest > MIDPOINT_TOLERANCE * speed


@compiled(inline=False)
def update_energy_balance(
    model: StepModel, terms: StepTerms, memory: StepMemory, motion: StepDynamics, h: float, leaps: bool
) -> None:
    """Evaluates terms and energies at the end of the substep, and writes its work and energy error.

    With `leaps` (a full step, velocities first) the positions are half a step ahead of the velocities. This moves
    energy back and forth without creating any, and is subtracted from the error.
    """
    piece, here, there, work, v, after = (
        memory.substep, memory.at_start, memory.at_end, motion.work, memory.v_start, memory.v_end,
    )  # fmt: skip
    fill_zeros(piece)
    piece[MAX_SPEED], piece[MAX_RESIDUAL] = motion.report[SPEED], motion.report[RESIDUAL]
    if not piece[MAX_SPEED] < model.divergence_speed:  # also true of NaN
        piece[ENERGY_ERROR], there[KINETIC] = math.inf, math.inf
        return
    evaluate_dynamics(model.bodies, memory.q_end, after, terms, motion, there)
    for j in range(len(v)):
        piece[PUSHES] += 0.5 * h * memory.external[j] * (v[j] + after[j])
    piece[ACTUATORS], piece[JOINTS], piece[GROUND] = work[0], work[1], work[2]
    piece[CORRECTIONS] = h * there[CORRECTION_POWER]
    made = there[KINETIC] + there[POTENTIAL] - here[KINETIC] - here[POTENTIAL]
    for each in range(ACTUATORS, ENERGY_GAIN):
        made -= piece[each]
    piece[ENERGY_GAIN], piece[ENERGY_ERROR] = made, made
    if leaps:
        piece[ENERGY_ERROR] = made - 0.5 * h * (there[RISE_POWER] - here[RISE_POWER])
