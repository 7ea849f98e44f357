"""Time stepping of the plant from commanded torques to the next state; compiled.

A step is first taken as a whole, by the semi-implicit Euler method. If its energy balance does not hold, it is repeated
by the midpoint rule in substeps, halved repeatedly (see `Simulation`). `run_steps` takes any number of steps. It
returns early when the caller must provide something (`StepResult`): larger contact buffers, contact impulses that the
compiled solver did not find, or a Runge-Kutta step. The caller provides it and calls again, and the function continues
where it stopped, as recorded in `StepMemory.progress`. Arguments are not validated.

`integrate_substep` computes the state at the end of a substep from the state at its start: a full step, or a part of
one by the midpoint rule, with its energy balance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..compiler import Matrix, Vector, compiled, entry
from ..contact.solvers.frictional_core import MAX_MULTIPLICATIONS, solve_contact_problem
from ..dynamics.joint_placements import closure_functions, integrate_configuration, place_joints
from ..dynamics.kinematic_tree import KinematicTree, PointForces
from .actuators import advance_motors, begin_motor_step, finish_motor_step, write_motor_torques
from .contact_step import TOLERANCE, complete_step, compute_position_correction, solve_contact_step
from .plant_data import (
    ContactLaw,
    ContactStatus,
    PlantData,
    SphereContacts,
    StepDynamics,
    StepMemory,
    StepModel,
    StepPhase,
    StepResult,
    StepState,
    accumulate_contacts,
    add_work,
    clear_totals,
    publish_step,
)
from .terms import (
    FLIGHT_RISE_SPEED,
    GROUND_RISE_SPEED,
    INACCURATE_HEIGHT,
    INACCURATE_KINETIC_FRACTION,
    KINETIC_ERROR_FRACTION,
    Energies,
    StepTerms,
    compute_bias,
    compute_inertia,
    compute_mechanical_energy,
    compute_push_forces,
)

#: Maximum number of midpoint iterations, and the velocity change at which they end, relative to the largest velocity.
MAX_MIDPOINT_ITERATIONS, MIDPOINT_TOLERANCE = 4, 1e-7


@compiled(inline=False)
def evaluate_dynamics(
    bodies: KinematicTree, q: Vector, v: Vector, terms: StepTerms, motion: StepDynamics, energies: Energies
) -> None:
    """Computes poses, Jacobian and inertia at a configuration, and the energies there at velocity v."""
    place_joints(bodies, q, terms.joints)
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
    rise = GROUND_RISE_SPEED if memory.progress.n_contacts > 0 else FLIGHT_RISE_SPEED
    allowed: float = model.law.dt * (
        KINETIC_ERROR_FRACTION * max(memory.at_start.kinetic, memory.at_end.kinetic) + rise * model.weight
    )
    return allowed


@compiled(inline=False)
def integrate_substep(plant: PlantData, h: float, max_iterations: int) -> int:
    """Integrates a substep of length h [s], from ``memory.q_start``, ``v_start`` to ``memory.q_end``, ``v_end``.

    With `max_iterations` > 0 the midpoint rule is iterated. It evaluates the rigid-body terms at the configuration that
    is reached in h / 2 with ``v_start``, and at the mean of the velocities at start and end. With `max_iterations` = 0
    the substep is a full step by the semi-implicit Euler method: the configuration advances with the velocity at the
    end, and the terms are those at the start, which have been evaluated before.

    Args:
        plant: data and memory of the plant.
        h: length of the substep [s].
        max_iterations: maximum number of midpoint iterations, 0 for a full step.

    Returns:
        `StepResult.DONE`, or what the caller must provide before the next call.
    """
    model, terms, memory, motion, contacts = plant.model, plant.terms, plant.memory, plant.motion, plant.contacts
    progress, v, report, closing_time = memory.progress, memory.v_start, motion.report, 0.5 * h
    law = scale_contact_law(model.law, h) if max_iterations > 0 else model.law
    q = memory.q_middle if max_iterations > 0 else memory.q_start
    state = StepState(q, v, memory.v_mirrored, memory.tau, memory.external, memory.drives)
    while True:
        if not progress.has_help:
            if progress.iteration == 0:
                begin_substep(model, plant.pushes, terms, memory, closing_time, max_iterations > 0)
            compute_bias(model.bodies, memory.v_middle, terms)
            n_contacts: int = solve_contact_step(model, law, terms, state, motion, contacts, memory.v_end)
            if n_contacts < 0:
                progress.required_capacity = -n_contacts
                return StepResult.NEEDS_CAPACITY
            progress.n_contacts = n_contacts
            progress.status = (
                ContactStatus.FREE
                if n_contacts == 0
                else ContactStatus.PASSIVE
                if report.has_rebound
                else ContactStatus.SOLVED
            )
            if n_contacts > 0 and not report.residual <= law.tolerance:
                return StepResult.NEEDS_CONTACT_SOLVER
        else:
            progress.has_help = False
            compute_position_correction(progress.n_contacts, model, TOLERANCE, motion, contacts)
            report.max_speed = complete_step(progress.n_contacts, model, h, state, motion, contacts, memory.v_end)
        if (
            progress.iteration >= max_iterations - 1
            or progress.status >= ContactStatus.RETRIED
            or contacts.solver.effort.multiplications > MAX_MULTIPLICATIONS
            or has_converged(memory, report.max_speed)
        ):
            break
        for j in range(len(v)):
            memory.v_middle[j] = 0.5 * (v[j] + memory.v_end[j])
            memory.v_mirrored[j] = 2.0 * v[j] - memory.v_end[j]
            memory.v_last_iteration[j] = memory.v_end[j]
        progress.iteration += 1
    progress.iteration = 0
    in_free_fall = model.has_free_root and progress.n_contacts == 0
    if not progress.has_rk4_step:
        if model.rk4_in_flight and progress.n_contacts == 0:
            return StepResult.NEEDS_RK4_STEP
        advance_time = closing_time if max_iterations > 0 else h
        for j in range(len(v)):
            memory.displacement[j] = advance_time * memory.v_end[j] + h * motion.correction[j]
        if in_free_fall and max_iterations == 0:
            correct_free_fall(model.bodies, terms.joints.poses[1], h, memory.displacement)
        integrate_configuration(model.bodies, q, memory.displacement, 1.0, memory.q_end)
    update_energy_balance(
        model, terms, memory, motion, h, max_iterations == 0 and not progress.has_rk4_step and not in_free_fall
    )
    progress.has_rk4_step = False
    return StepResult.DONE


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
        place_joints(model.bodies, memory.q_middle, terms.joints)
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

    With `is_staggered` (a full step by the semi-implicit Euler method) the positions are half a step ahead of the
    velocities, as in the leapfrog method. The energy therefore oscillates without growing, and this oscillation is
    subtracted from the error.
    """
    substep, done, at_start, at_end, work, v, v_end = (
        memory.substep, memory.substep.work, memory.at_start, memory.at_end, motion.work, memory.v_start, memory.v_end,
    )  # fmt: skip
    clear_totals(substep)
    substep.max_speed, substep.residual = motion.report.max_speed, motion.report.residual
    if not substep.max_speed < model.divergence_speed:  # also true of NaN
        substep.energy_error, at_end.kinetic = math.inf, math.inf
        return
    evaluate_dynamics(model.bodies, memory.q_end, v_end, terms, motion, at_end)
    for j in range(len(v)):
        done.pushes += 0.5 * h * memory.external[j] * (v[j] + v_end[j])
    done.actuators, done.joints, done.contacts = work[0], work[1], work[2]
    done.corrections = h * at_end.correction_power
    energy_gain = at_end.kinetic + at_end.potential - at_start.kinetic - at_start.potential
    energy_gain -= done.actuators
    energy_gain -= done.joints
    energy_gain -= done.contacts
    energy_gain -= done.pushes
    energy_gain -= done.corrections
    done.energy_gain, substep.energy_error = energy_gain, energy_gain
    if is_staggered:
        substep.energy_error = energy_gain - 0.5 * h * (at_end.rise_power - at_start.rise_power)


#: Length of the shortest substep divided by that of the step, and the maximum number of trials per step.
MIN_SUBSTEP_FRACTION, MAX_SUBSTEP_TRIALS = 1.0 / 32.0, 24


@compiled()
def begin_step(memory: StepMemory) -> None:
    """Sets the start of the first substep to the start of the step."""
    memory.q_start[:] = memory.q
    memory.v_start[:] = memory.v
    memory.v_previous_substep[:] = memory.v_previous
    memory.at_start.copy_from(memory.step_start)
    begin_motor_step(memory.drives)


@compiled(inline=False)
def step_in_substeps(plant: PlantData) -> int:
    """Integrates the pending substeps by the midpoint rule; halves a substep whose energy balance does not hold.

    Returns:
        `StepResult.DONE`, or what the caller must provide before the next call.
    """
    model, memory, contacts, accumulated = plant.model, plant.memory, plant.contacts, plant.accumulated
    progress, substep, total, lengths = memory.progress, memory.substep, memory.total, memory.pending_lengths
    while progress.n_pending > 0:
        last = progress.n_pending - 1
        h = lengths[last]
        if not progress.has_pending_contacts:
            result: int = integrate_substep(plant, h, MAX_MIDPOINT_ITERATIONS)
            if result != StepResult.DONE:
                return result
            progress.n_tried += 1
            is_inaccurate = (
                not abs(substep.energy_error) <= compute_energy_tolerance(model, memory)
                and progress.status != ContactStatus.INACCURATE
                and contacts.solver.effort.multiplications <= MAX_MULTIPLICATIONS
            )
            if is_inaccurate and h > MIN_SUBSTEP_FRACTION * model.law.dt and progress.n_tried < MAX_SUBSTEP_TRIALS:
                lengths[last], lengths[last + 1] = 0.5 * h, 0.5 * h
                progress.n_pending += 1
                continue
            add_work(total.work, substep.work)
            total.energy_error += substep.energy_error
            total.residual, total.max_speed = max(total.residual, substep.residual), substep.max_speed
            if not substep.max_speed < model.divergence_speed:
                return StepResult.DONE
            progress.has_pending_contacts = True
        if not accumulate_contacts(progress.n_contacts, progress.status, contacts, accumulated):
            progress.required_capacity = len(accumulated.keys)
            return StepResult.NEEDS_CAPACITY
        progress.has_pending_contacts, progress.n_pending, progress.n_taken = False, last, progress.n_taken + 1
        length_ratio = 1.0 if last == 0 else lengths[last - 1] / h
        for j in range(len(memory.v)):
            memory.v_previous_substep[j] = memory.v_end[j] - length_ratio * (memory.v_end[j] - memory.v_start[j])
        memory.v_start[:] = memory.v_end
        memory.q_start[:] = memory.q_end
        memory.at_start.copy_from(memory.at_end)
        advance_motors(memory.drives, memory.v_start, h)
    if progress.n_taken > 1:
        progress.n_contacts, progress.status = publish_step(accumulated, contacts)
    return StepResult.DONE


@compiled(inline=False)
def advance_step(plant: PlantData) -> int:
    """Takes one step, or continues one for which the caller had to provide something.

    Returns:
        `StepResult.DONE`, `StepResult.DIVERGED`, or what the caller must provide before the next call.
    """
    model, terms, memory, motion = plant.model, plant.terms, plant.memory, plant.motion
    progress, total, dt = memory.progress, memory.total, model.law.dt
    if progress.phase == StepPhase.NOT_STARTED:
        if not progress.terms_are_current:
            evaluate_dynamics(model.bodies, memory.q, memory.v, terms, motion, memory.step_start)
        else:
            memory.step_start.copy_from(memory.at_end)
        progress.terms_are_current = False  # until the step is taken
        begin_step(memory)
        plant.contacts.solver.effort.multiplications = 0.0
        progress.phase = StepPhase.FLIGHT_STEP if model.is_adaptive and progress.was_in_flight else StepPhase.FULL_STEP
    if progress.phase == StepPhase.FLIGHT_STEP:
        result: int = integrate_substep(plant, dt, 1)
        if result == StepResult.NEEDS_CAPACITY:
            return result
        if progress.n_contacts > 0:
            progress.iteration = 0
            evaluate_dynamics(model.bodies, memory.q, memory.v, terms, motion, memory.step_start)
            progress.phase = StepPhase.FULL_STEP
    if progress.phase == StepPhase.FULL_STEP:
        result = integrate_substep(plant, dt, 0)
        if result != StepResult.DONE:
            return result
    if progress.phase != StepPhase.SUBSTEPS:
        if model.is_adaptive and not abs(memory.substep.energy_error) <= compute_energy_tolerance(model, memory):
            begin_step(memory)
            progress.phase, progress.was_in_flight = StepPhase.SUBSTEPS, True
            progress.n_pending, progress.n_tried, progress.n_taken = 1, 0, 0
            memory.pending_lengths[0] = dt
            plant.accumulated.summary.n_contacts, plant.accumulated.summary.worst_status = 0, ContactStatus.FREE
            clear_totals(total)
        else:
            total.copy_from(memory.substep)
            advance_motors(memory.drives, memory.v_end, dt)
    if progress.phase == StepPhase.SUBSTEPS:
        result = step_in_substeps(plant)
        if result != StepResult.DONE:
            return result
    progress.phase = StepPhase.NOT_STARTED
    if not total.max_speed < model.divergence_speed:  # also true of NaN
        return StepResult.DIVERGED
    kinetic = max(memory.step_start.kinetic, memory.at_end.kinetic)
    if abs(total.energy_error) > INACCURATE_KINETIC_FRACTION * kinetic + INACCURATE_HEIGHT * model.weight:
        progress.status = ContactStatus.INACCURATE
    if progress.n_contacts > 0:
        progress.was_in_flight = False
    add_work(memory.work, total.work)
    memory.v_previous[:] = memory.v
    memory.v[:] = memory.v_end
    memory.q[:] = memory.q_end
    finish_motor_step(memory.drives, memory.tau)
    progress.terms_are_current = True
    return StepResult.DONE


@compiled()
def begin_run(memory: StepMemory) -> None:
    """Ends a step that was not completed, and sets the number of steps to zero."""
    progress = memory.progress
    if progress.phase != StepPhase.NOT_STARTED:
        progress.terms_are_current = False
    progress.phase, progress.iteration = StepPhase.NOT_STARTED, 0
    progress.has_help, progress.has_rk4_step, progress.has_pending_contacts = False, False, False
    progress.n_steps, progress.n_inaccurate = 0, 0


@compiled()
def take_step(plant: PlantData, torque: Vector) -> int:
    """Takes one step under a commanded torque (nu,) [N m or N], or continues an interrupted one, and counts it.

    Returns:
        `StepResult.DONE`, `StepResult.DIVERGED`, or what the caller must provide before the next call.
    """
    memory, progress = plant.memory, plant.memory.progress
    if progress.phase == StepPhase.NOT_STARTED:
        write_motor_torques(plant.motors, memory.drives, torque, memory.v, memory.tau)
    result: int = advance_step(plant)
    if result == StepResult.DONE:
        if progress.status == ContactStatus.INACCURATE:
            progress.n_inaccurate += 1
        progress.n_steps += 1
    return result


@compiled()
def clear_last_step(memory: StepMemory, contacts: SphereContacts) -> None:
    """Removes contacts, status and residual of a step that was not completed."""
    progress = memory.progress
    progress.n_contacts, progress.status, progress.was_in_flight = 0, ContactStatus.FREE, False
    progress.terms_are_current = False
    memory.total.residual = 0.0
    contacts.stored.n_contacts = 0


def separate_functions(plant: PlantData) -> list[Callable[..., Any]]:
    """Returns the separately compiled functions that the steps of a plant can reach."""
    return [solve_contact_problem, *closure_functions(plant.terms.joints)]


@entry("the contact simulation", release=True, callees=separate_functions)
def run_steps(plant: PlantData, torques: Matrix, states: Matrix, resume: bool) -> int:
    """Takes a step under each row of `torques`.

    Args:
        plant: data and memory of the plant.
        torques: (steps, nu) commanded torques [N m or N].
        states: (steps, nq + nv) receives q and v after each step; (0, ...) if they are not needed.
        resume: whether to continue where the last call returned early.

    Returns:
        `StepResult.DONE`, `StepResult.DIVERGED`, or what the caller must provide before the next call.
    """
    memory, progress = plant.memory, plant.memory.progress
    if not resume:
        begin_run(memory)
    nq = len(memory.q)
    while progress.n_steps < len(torques):
        row = progress.n_steps
        result: int = take_step(plant, torques[row])
        if result != StepResult.DONE:
            return result
        if len(states) > 0:
            states[row, :nq] = memory.q
            states[row, nq:] = memory.v
    return StepResult.DONE


@entry("the contact simulation", release=True)
def compute_push_forces_at(
    bodies: KinematicTree, q: Vector, pushes: PointForces, terms: StepTerms, out: Vector
) -> None:
    """Computes the generalized forces of pushes at q into `out` (nv,)."""
    place_joints(bodies, q, terms.joints)
    compute_push_forces(bodies, terms, pushes, out)
