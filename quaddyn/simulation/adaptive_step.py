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
    compute_mechanical_energy,
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
    """Sets all entries of a vector to zero."""
    for i in range(len(out)):
        out[i] = 0.0


@compiled(inline=False)
def evaluate_dynamics(
    bodies: KinematicTree, q: Vector, v: Vector, terms: StepTerms, motion: StepDynamics, energies: Vector
) -> None:
    """Computes poses, Jacobian and inertia at a configuration, and the energies there at velocity v."""
    place_joints(bodies, q, terms)
    compute_inertia(bodies, terms)
    compute_mechanical_energy(bodies, terms, v, motion.correction, energies)


@compiled()
def scale_contact_law(law: ContactLaw, h: float) -> ContactLaw:
    """Returns the contact law of a substep of length h [s].

    Positions advance with the new velocity from the middle of the substep on.
    """
    return ContactLaw(
        h, 0.5 * h, law.contact_distance * (h / law.dt), law.slop, law.recovery_fraction, law.recovery_speed,
        law.stiffness, law.damping, law.creep, law.stiction_speed, law.tolerance, law.allowed_work,
    )  # fmt: skip


@compiled()
def compute_energy_tolerance(model: StepModel, memory: StepMemory) -> float:
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
    max_iterations: int,
) -> int:
    """Integrates a substep of length h [s], from ``memory.q_start``, ``v_start`` to ``memory.q_end``, ``v_end``.

    With `max_iterations` > 0 the midpoint rule is iterated. It evaluates the terms at the middle: at the configuration
    that v alone would reach, and at the mean of the velocities. With `max_iterations` = 0 the substep is a full step,
    velocities first, with the terms at its start, which have been evaluated before.

    Args:
        model: constant data of the plant.
        pushes: external forces.
        terms: rigid-body terms, overwritten.
        memory: state of the step.
        motion: work of the step, overwritten.
        contacts: contacts of the substep, overwritten.
        h: length of the substep [s].
        max_iterations: maximum number of midpoint iterations, 0 for a full step.

    Returns:
        `DONE`, or the help that is needed: `NEEDS_CAPACITY`, `NEEDS_CONTACT_SOLVER` or `NEEDS_RK4_STEP`.
    """
    progress, v, report, closing_time = memory.progress, memory.v_start, motion.report, 0.5 * h
    law = scale_contact_law(model.law, h) if max_iterations > 0 else model.law
    q = memory.q_middle if max_iterations > 0 else memory.q_start
    state = StepState(q, v, memory.v_mirrored, memory.tau, memory.external, memory.drives)
    while True:
        if progress[HELP_GIVEN] == 0:
            if progress[ITERATION] == 0:
                begin_substep(model, pushes, terms, memory, closing_time, max_iterations > 0)
            compute_bias(model.bodies, memory.v_middle, terms)
            n_contacts: int = solve_contact_step(model, law, terms, state, motion, contacts, memory.v_end)
            if n_contacts < 0:
                progress[REQUIRED_CAPACITY] = -n_contacts
                return NEEDS_CAPACITY
            progress[CONTACTS] = n_contacts
            progress[STATUS] = FREE if n_contacts == 0 else PASSIVE if report[REBOUND] > 0.0 else SOLVED
            if n_contacts > 0 and not report[RESIDUAL] <= law.tolerance:
                return NEEDS_CONTACT_SOLVER
        else:
            progress[HELP_GIVEN] = 0
            report[CORRECTED] = compute_position_correction(progress[CONTACTS], model, TOLERANCE, motion, contacts)
            report[SPEED] = complete_step(progress[CONTACTS], model, h, state, motion, contacts, memory.v_end)
        if (
            progress[ITERATION] >= max_iterations - 1
            or progress[STATUS] >= RETRIED
            or has_converged(memory, report[SPEED])
        ):
            break
        for j in range(len(v)):
            memory.v_middle[j] = 0.5 * (v[j] + memory.v_end[j])
            memory.v_mirrored[j] = 2.0 * v[j] - memory.v_end[j]
            memory.v_last_iteration[j] = memory.v_end[j]
        progress[ITERATION] += 1
    progress[ITERATION] = 0
    in_free_fall = model.has_free_root and progress[CONTACTS] == 0
    if progress[RK4_STEP_DONE] == 0:
        if model.rk4_in_flight and progress[CONTACTS] == 0:
            return NEEDS_RK4_STEP
        advance_time = closing_time if max_iterations > 0 else h
        for j in range(len(v)):
            memory.displacement[j] = advance_time * memory.v_end[j] + h * motion.correction[j]
        if in_free_fall and max_iterations == 0:
            correct_free_fall(model.bodies, terms.poses[1], h, memory.displacement)
        integrate_configuration(model.bodies, q, memory.displacement, 1.0, memory.q_end)
    update_energy_balance(
        model, terms, memory, motion, h, max_iterations == 0 and progress[RK4_STEP_DONE] == 0 and not in_free_fall
    )
    progress[RK4_STEP_DONE] = 0
    return DONE


@compiled()
def begin_substep(
    model: StepModel, pushes: PointForces, terms: StepTerms, memory: StepMemory, closing_time: float, midpoint: bool
) -> None:
    """Sets configuration and velocity of the first iteration, and the generalized forces of pushes there."""
    v, v_before = memory.v_start, memory.v_previous_substep
    for j in range(len(v)):
        memory.v_middle[j] = v[j] + 0.5 * (v[j] - v_before[j]) if midpoint else v[j]
        memory.v_mirrored[j], memory.v_last_iteration[j] = v_before[j], v[j]
    if midpoint:
        integrate_configuration(model.bodies, memory.q_start, v, closing_time, memory.q_middle)
        place_joints(model.bodies, memory.q_middle, terms)
        compute_inertia(model.bodies, terms)
    compute_push_forces(model.bodies, terms, pushes, memory.external)


@compiled()
def correct_free_fall(bodies: KinematicTree, root_pose: Vector, h: float, displacement: Vector) -> None:
    """Subtracts ``h^2 g / 2``: a free root that moves with the velocity at the end of a step falls too far by that."""
    for axis in range(3):
        for component in range(3):
            displacement[axis] -= 0.5 * h * h * bodies.gravity[component] * root_pose[3 * axis + component]


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
    model: StepModel, terms: StepTerms, memory: StepMemory, motion: StepDynamics, h: float, is_staggered: bool
) -> None:
    """Evaluates terms and energies at the end of the substep, and writes the work and energy error of the substep.

    With `is_staggered` (a full step, velocities first) the positions are half a step ahead of the velocities, as in the
    leapfrog method. The energy therefore oscillates without growing, and this oscillation is subtracted from the error.
    """
    substep, at_start, at_end, work, v, v_end = (
        memory.substep, memory.at_start, memory.at_end, motion.work, memory.v_start, memory.v_end,
    )  # fmt: skip
    fill_zeros(substep)
    substep[MAX_SPEED], substep[MAX_RESIDUAL] = motion.report[SPEED], motion.report[RESIDUAL]
    if not substep[MAX_SPEED] < model.divergence_speed:  # true also for NaN
        substep[ENERGY_ERROR], at_end[KINETIC] = math.inf, math.inf
        return
    evaluate_dynamics(model.bodies, memory.q_end, v_end, terms, motion, at_end)
    for j in range(len(v)):
        substep[PUSHES] += 0.5 * h * memory.external[j] * (v[j] + v_end[j])
    substep[ACTUATORS], substep[JOINTS], substep[GROUND] = work[0], work[1], work[2]
    substep[CORRECTIONS] = h * at_end[CORRECTION_POWER]
    energy_gain = at_end[KINETIC] + at_end[POTENTIAL] - at_start[KINETIC] - at_start[POTENTIAL]
    for slot in range(ACTUATORS, ENERGY_GAIN):
        energy_gain -= substep[slot]
    substep[ENERGY_GAIN], substep[ENERGY_ERROR] = energy_gain, energy_gain
    if is_staggered:
        substep[ENERGY_ERROR] = energy_gain - 0.5 * h * (at_end[RISE_POWER] - at_start[RISE_POWER])
