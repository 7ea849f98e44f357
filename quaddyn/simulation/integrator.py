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
    fill_zeros,
    integrate_substep,
)
from .contact_data import SphereContacts, StepDynamics, StepModel
from .drives import advance_motors, begin_motor_step, finish_motor_step, write_motor_torques
from .energy_balance import INACCURATE_HEIGHT, INACCURATE_KINETIC_FRACTION, KINETIC
from .kinematic_tree import KinematicTree, PointForces
from .step_memory import (
    CONTACTS,
    DIVERGED,
    DONE,
    ENERGY_ERROR,
    EVALUATED,
    FLIGHT_STEP,
    FREE,
    FULL_STEP,
    HELP_GIVEN,
    IN_FLIGHT,
    INACCURATE,
    ITERATION,
    MAX_RESIDUAL,
    MAX_SPEED,
    N_INACCURATE,
    N_PENDING,
    N_STEPS,
    N_TAKEN,
    N_TRIED,
    NEEDS_CAPACITY,
    NOT_STARTED,
    PHASE,
    REQUIRED_CAPACITY,
    RK4_STEP_DONE,
    STATUS,
    SUBSTEPS,
    UNCOLLECTED,
    StepMemory,
)
from .substeps import SubstepContacts, accumulate_contacts, publish_step
from .terms import StepTerms, compute_push_forces, place_joints

#: Length of the shortest substep divided by that of the step, and the maximum number of trials per step.
MIN_SUBSTEP_FRACTION, MAX_SUBSTEP_TRIALS = 1.0 / 32.0, 24


@compiled()
def _copy(x: Vector, out: Vector) -> None:
    """Copies all entries: ``out = x``."""
    for i in range(len(out)):
        out[i] = x[i]


@compiled()
def begin_step(memory: StepMemory) -> None:
    """Sets the start of the first substep to the start of the step."""
    _copy(memory.q, memory.q_start)
    _copy(memory.v, memory.v_start)
    _copy(memory.v_previous, memory.v_previous_substep)
    _copy(memory.step_start, memory.at_start)
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
        `DONE`, or the help that is needed.
    """
    progress, substep, total, lengths = memory.progress, memory.substep, memory.total, memory.pending_lengths
    while progress[N_PENDING] > 0:
        last = progress[N_PENDING] - 1
        h = lengths[last]
        if progress[UNCOLLECTED] == 0:
            result: int = integrate_substep(model, pushes, terms, memory, motion, contacts, h, MAX_MIDPOINT_ITERATIONS)
            if result != DONE:
                return result
            progress[N_TRIED] += 1
            is_inaccurate = (
                not abs(substep[ENERGY_ERROR]) <= compute_energy_tolerance(model, memory)
                and progress[STATUS] != INACCURATE
            )
            if is_inaccurate and h > MIN_SUBSTEP_FRACTION * model.law.dt and progress[N_TRIED] < MAX_SUBSTEP_TRIALS:
                lengths[last], lengths[last + 1] = 0.5 * h, 0.5 * h
                progress[N_PENDING] += 1
                continue
            for slot in range(MAX_RESIDUAL):
                total[slot] += substep[slot]
            total[MAX_RESIDUAL], total[MAX_SPEED] = max(total[MAX_RESIDUAL], substep[MAX_RESIDUAL]), substep[MAX_SPEED]
            if not substep[MAX_SPEED] < model.divergence_speed:
                return DONE
            progress[UNCOLLECTED] = 1
        if not accumulate_contacts(progress[CONTACTS], progress[STATUS], contacts, accumulated):
            progress[REQUIRED_CAPACITY] = len(accumulated.keys)
            return NEEDS_CAPACITY
        progress[UNCOLLECTED], progress[N_PENDING], progress[N_TAKEN] = 0, last, progress[N_TAKEN] + 1
        length_ratio = 1.0 if last == 0 else lengths[last - 1] / h
        for j in range(len(memory.v)):
            memory.v_previous_substep[j] = memory.v_end[j] - length_ratio * (memory.v_end[j] - memory.v_start[j])
        _copy(memory.v_end, memory.v_start)
        _copy(memory.q_end, memory.q_start)
        _copy(memory.at_end, memory.at_start)
        advance_motors(memory.drives, memory.v_start, h)
    if progress[N_TAKEN] > 1:
        progress[CONTACTS], progress[STATUS] = publish_step(accumulated, contacts)
    return DONE


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
        `DONE`, `DIVERGED`, or the help that is needed.
    """
    progress, total, dt = memory.progress, memory.total, model.law.dt
    if progress[PHASE] == NOT_STARTED:
        if progress[EVALUATED] == 0:
            evaluate_dynamics(model.bodies, memory.q, memory.v, terms, motion, memory.step_start)
        else:
            _copy(memory.at_end, memory.step_start)
        progress[EVALUATED] = 0  # until the step is taken
        begin_step(memory)
        progress[PHASE] = FLIGHT_STEP if model.is_adaptive and progress[IN_FLIGHT] == 1 else FULL_STEP
    if progress[PHASE] == FLIGHT_STEP:
        result: int = integrate_substep(model, pushes, terms, memory, motion, contacts, dt, 1)
        if result == NEEDS_CAPACITY:
            return result
        if progress[CONTACTS] > 0:
            progress[ITERATION] = 0
            evaluate_dynamics(model.bodies, memory.q, memory.v, terms, motion, memory.step_start)
            progress[PHASE] = FULL_STEP
    if progress[PHASE] == FULL_STEP:
        result = integrate_substep(model, pushes, terms, memory, motion, contacts, dt, 0)
        if result != DONE:
            return result
    if progress[PHASE] != SUBSTEPS:
        if model.is_adaptive and not abs(memory.substep[ENERGY_ERROR]) <= compute_energy_tolerance(model, memory):
            begin_step(memory)
            progress[PHASE], progress[N_PENDING], progress[N_TRIED], progress[N_TAKEN], progress[IN_FLIGHT] = (
                SUBSTEPS,
                1,
                0,
                0,
                1,
            )
            memory.pending_lengths[0] = dt
            accumulated.n_stored[0], accumulated.worst_status[0] = 0, FREE
            fill_zeros(total)
        else:
            _copy(memory.substep, total)
            advance_motors(memory.drives, memory.v_end, dt)
    if progress[PHASE] == SUBSTEPS:
        result = step_in_substeps(model, pushes, terms, memory, motion, contacts, accumulated)
        if result != DONE:
            return result
    progress[PHASE] = NOT_STARTED
    if not total[MAX_SPEED] < model.divergence_speed:  # also true of NaN
        return DIVERGED
    kinetic = max(memory.step_start[KINETIC], memory.at_end[KINETIC])
    if abs(total[ENERGY_ERROR]) > INACCURATE_KINETIC_FRACTION * kinetic + INACCURATE_HEIGHT * model.weight:
        progress[STATUS] = INACCURATE
    if progress[CONTACTS] > 0:
        progress[IN_FLIGHT] = 0
    for slot in range(len(memory.work)):
        memory.work[slot] += total[slot]
    _copy(memory.v, memory.v_previous)
    _copy(memory.v_end, memory.v)
    _copy(memory.q_end, memory.q)
    finish_motor_step(memory.drives, memory.tau)
    progress[EVALUATED] = 1
    return DONE


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
        `DONE`, `DIVERGED`, or the help that is needed.
    """
    progress = memory.progress
    if not resume:
        if progress[PHASE] != NOT_STARTED:
            progress[EVALUATED] = 0
        (
            progress[PHASE],
            progress[ITERATION],
            progress[HELP_GIVEN],
            progress[RK4_STEP_DONE],
            progress[UNCOLLECTED],
            progress[N_STEPS],
            progress[N_INACCURATE],
        ) = (
            NOT_STARTED,
            0,
            0,
            0,
            0,
            0,
            0,
        )
    nq = len(memory.q)
    while progress[N_STEPS] < len(torques):
        if progress[PHASE] == NOT_STARTED:
            write_motor_torques(motors, memory.drives, torques[progress[N_STEPS]], memory.v, memory.tau)
        result: int = advance_step(model, pushes, terms, memory, motion, contacts, accumulated)
        if result != DONE:
            return result
        if progress[STATUS] == INACCURATE:
            progress[N_INACCURATE] += 1
        if len(states) > 0:
            for i in range(nq):
                states[progress[N_STEPS], i] = memory.q[i]
            for i in range(len(memory.v)):
                states[progress[N_STEPS], nq + i] = memory.v[i]
        progress[N_STEPS] += 1
    return DONE


@entry("the contact simulation", release=True)
def compute_push_forces_at(
    bodies: KinematicTree, q: Vector, pushes: PointForces, terms: StepTerms, out: Vector
) -> None:
    """Computes the generalized forces of pushes at q into `out` (nv,)."""
    place_joints(bodies, q, terms)
    compute_push_forces(bodies, terms, pushes, out)
