"""Time stepping of the plant from commanded torques to the next state; compiled.

A step is first taken as a whole, velocities first. If its energy balance does not hold, it is repeated by the midpoint
rule in substeps, halved repeatedly (see `Simulation`). `run_steps` takes any number of steps. It returns early when it
needs help: larger contact buffers, contact impulses that the compiled solver did not find, or a Runge-Kutta step. It is
called again with the help and continues where it stopped, as recorded in `StepMemory.progress`. Arguments are not
validated. One substep is integrated by `adaptive_step.integrate_substep`.
"""

from __future__ import annotations

from ..compiler import Matrix, Vector, compiled, entry
from .actuators import TorqueSpeedLimits
from .adaptive_step import (
    MAX_MIDPOINT_ITERATIONS,
    compute_energy_tolerance,
    evaluate_dynamics,
    integrate_substep,
)
from .contact_data import SphereContacts, StepDynamics, StepModel
from .drives import advance_motors, begin_motor_step, finish_motor_step, write_motor_torques
from .energy_balance import INACCURATE_HEIGHT, INACCURATE_KINETIC_FRACTION
from .kinematic_tree import KinematicTree, PointForces
from .step_memory import (
    ContactStatus,
    StepMemory,
    StepPhase,
    StepResult,
    add_work,
    clear_totals,
)
from .substeps import SubstepContacts, accumulate_contacts, publish_step
from .terms import StepTerms, compute_push_forces, place_joints

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
def step_in_substeps(
    model: StepModel,
    pushes: PointForces,
    terms: StepTerms,
    memory: StepMemory,
    motion: StepDynamics,
    contacts: SphereContacts,
    accumulated: SubstepContacts,
) -> int:
    """Takes the step by the midpoint rule, and halves each substep whose energy balance does not hold.

    Returns:
        `StepResult.DONE`, or the help that is needed.
    """
    progress, substep, total, lengths = memory.progress, memory.substep, memory.total, memory.pending_lengths
    while progress.n_pending > 0:
        last = progress.n_pending - 1
        h = lengths[last]
        if not progress.has_pending_contacts:
            result: int = integrate_substep(model, pushes, terms, memory, motion, contacts, h, MAX_MIDPOINT_ITERATIONS)
            if result != StepResult.DONE:
                return result
            progress.n_tried += 1
            is_inaccurate = (
                not abs(substep.energy_error) <= compute_energy_tolerance(model, memory)
                and progress.status != ContactStatus.INACCURATE
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
def advance_step(
    model: StepModel,
    pushes: PointForces,
    terms: StepTerms,
    memory: StepMemory,
    motion: StepDynamics,
    contacts: SphereContacts,
    accumulated: SubstepContacts,
) -> int:
    """Takes one step, or continues one that needed help.

    Returns:
        `StepResult.DONE`, `StepResult.DIVERGED`, or the help that is needed.
    """
    progress, total, dt = memory.progress, memory.total, model.law.dt
    if progress.phase == StepPhase.NOT_STARTED:
        if not progress.terms_are_current:
            evaluate_dynamics(model.bodies, memory.q, memory.v, terms, motion, memory.step_start)
        else:
            memory.step_start.copy_from(memory.at_end)
        progress.terms_are_current = False  # until the step is taken
        begin_step(memory)
        progress.phase = StepPhase.FLIGHT_STEP if model.is_adaptive and progress.was_in_flight else StepPhase.FULL_STEP
    if progress.phase == StepPhase.FLIGHT_STEP:
        result: int = integrate_substep(model, pushes, terms, memory, motion, contacts, dt, 1)
        if result == StepResult.NEEDS_CAPACITY:
            return result
        if progress.n_contacts > 0:
            progress.iteration = 0
            evaluate_dynamics(model.bodies, memory.q, memory.v, terms, motion, memory.step_start)
            progress.phase = StepPhase.FULL_STEP
    if progress.phase == StepPhase.FULL_STEP:
        result = integrate_substep(model, pushes, terms, memory, motion, contacts, dt, 0)
        if result != StepResult.DONE:
            return result
    if progress.phase != StepPhase.SUBSTEPS:
        if model.is_adaptive and not abs(memory.substep.energy_error) <= compute_energy_tolerance(model, memory):
            begin_step(memory)
            progress.phase, progress.was_in_flight = StepPhase.SUBSTEPS, True
            progress.n_pending, progress.n_tried, progress.n_taken = 1, 0, 0
            memory.pending_lengths[0] = dt
            accumulated.n_stored[0], accumulated.worst_status[0] = 0, ContactStatus.FREE
            clear_totals(total)
        else:
            total.copy_from(memory.substep)
            advance_motors(memory.drives, memory.v_end, dt)
    if progress.phase == StepPhase.SUBSTEPS:
        result = step_in_substeps(model, pushes, terms, memory, motion, contacts, accumulated)
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


@entry("the contact simulation", release=True)
def run_steps(
    model: StepModel,
    motors: TorqueSpeedLimits,
    pushes: PointForces,
    terms: StepTerms,
    memory: StepMemory,
    motion: StepDynamics,
    contacts: SphereContacts,
    accumulated: SubstepContacts,
    torques: Matrix,
    states: Matrix,
    resume: bool,
) -> int:
    """Takes a step under each row of `torques`.

    Args:
        model: constant data of the plant.
        motors: torque-speed limits of the motors.
        pushes: external forces, constant over all steps.
        terms: rigid-body terms, overwritten.
        memory: state of the plant and progress of the step.
        motion: work of a step, overwritten.
        contacts: contacts, overwritten.
        accumulated: contacts of the substeps of a step, overwritten.
        torques: (steps, nu) commanded torques [N m or N].
        states: (steps, nq + nv) receives q and v after each step; (0, ...) if they are not needed.
        resume: whether to continue where the last call needed help.

    Returns:
        `StepResult.DONE`, `StepResult.DIVERGED`, or the help that is needed.
    """
    progress = memory.progress
    if not resume:
        if progress.phase != StepPhase.NOT_STARTED:
            progress.terms_are_current = False
        progress.phase, progress.iteration = StepPhase.NOT_STARTED, 0
        progress.has_help, progress.has_rk4_step, progress.has_pending_contacts = False, False, False
        progress.n_steps, progress.n_inaccurate = 0, 0
    nq = len(memory.q)
    while progress.n_steps < len(torques):
        if progress.phase == StepPhase.NOT_STARTED:
            write_motor_torques(motors, memory.drives, torques[progress.n_steps], memory.v, memory.tau)
        result: int = advance_step(model, pushes, terms, memory, motion, contacts, accumulated)
        if result != StepResult.DONE:
            return result
        if progress.status == ContactStatus.INACCURATE:
            progress.n_inaccurate += 1
        if len(states) > 0:
            for i in range(nq):
                states[progress.n_steps, i] = memory.q[i]
            for i in range(len(memory.v)):
                states[progress.n_steps, nq + i] = memory.v[i]
        progress.n_steps += 1
    return StepResult.DONE


@entry("the contact simulation", release=True)
def compute_push_forces_at(
    bodies: KinematicTree, q: Vector, pushes: PointForces, terms: StepTerms, out: Vector
) -> None:
    """Computes the generalized forces of pushes at q into `out` (nv,)."""
    place_joints(bodies, q, terms)
    compute_push_forces(bodies, terms, pushes, out)
