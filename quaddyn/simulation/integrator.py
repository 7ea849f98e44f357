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
from .adaptive_step import MAX_MIDPOINT_ITERATIONS, energy_tolerance, evaluate_dynamics, fill_zeros, integrate_substep
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
    p, piece, total, lengths = memory.progress, memory.substep, memory.total, memory.pending_lengths
    while p[N_PENDING] > 0:
        top = p[N_PENDING] - 1
        h = lengths[top]
        if p[UNCOLLECTED] == 0:
            said: int = integrate_substep(model, pushes, terms, memory, motion, contacts, h, MAX_MIDPOINT_ITERATIONS)
            if said != DONE:
                return said
            p[N_TRIED] += 1
            poor = not abs(piece[ENERGY_ERROR]) <= energy_tolerance(model, memory) and p[STATUS] != INACCURATE
            if poor and h > MIN_SUBSTEP_FRACTION * model.law.dt and p[N_TRIED] < MAX_SUBSTEP_TRIALS:
                lengths[top], lengths[top + 1] = 0.5 * h, 0.5 * h
                p[N_PENDING] += 1
                continue
            for each in range(MAX_RESIDUAL):
                total[each] += piece[each]
            total[MAX_RESIDUAL], total[MAX_SPEED] = max(total[MAX_RESIDUAL], piece[MAX_RESIDUAL]), piece[MAX_SPEED]
            if not piece[MAX_SPEED] < model.divergence_speed:
                return DONE
            p[UNCOLLECTED] = 1
        if not accumulate_contacts(p[CONTACTS], p[STATUS], contacts, accumulated):
            p[REQUIRED_CAPACITY] = len(accumulated.keys)
            return NEEDS_CAPACITY
        p[UNCOLLECTED], p[N_PENDING], p[N_TAKEN] = 0, top, p[N_TAKEN] + 1
        onward = 1.0 if top == 0 else lengths[top - 1] / h
        for j in range(len(memory.v)):
            memory.v_previous_substep[j] = memory.v_end[j] - onward * (memory.v_end[j] - memory.v_start[j])
        _copy(memory.v_end, memory.v_start)
        _copy(memory.q_end, memory.q_start)
        _copy(memory.at_end, memory.at_start)
        advance_motors(memory.drives, memory.v_start, h)
    if p[N_TAKEN] > 1:
        p[CONTACTS], p[STATUS] = publish_step(accumulated, contacts)
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
    p, total, dt = memory.progress, memory.total, model.law.dt
    if p[PHASE] == NOT_STARTED:
        if p[EVALUATED] == 0:
            evaluate_dynamics(model.bodies, memory.q, memory.v, terms, motion, memory.step_start)
        else:
            _copy(memory.at_end, memory.step_start)
        p[EVALUATED] = 0  # until the step is taken
        begin_step(memory)
        p[PHASE] = FLIGHT_STEP if model.is_adaptive and p[IN_FLIGHT] == 1 else FULL_STEP
    if p[PHASE] == FLIGHT_STEP:
        said: int = integrate_substep(model, pushes, terms, memory, motion, contacts, dt, 1)
        if said == NEEDS_CAPACITY:
            return said
        if p[CONTACTS] > 0:
            p[ITERATION] = 0
            evaluate_dynamics(model.bodies, memory.q, memory.v, terms, motion, memory.step_start)
            p[PHASE] = FULL_STEP
    if p[PHASE] == FULL_STEP:
        said = integrate_substep(model, pushes, terms, memory, motion, contacts, dt, 0)
        if said != DONE:
            return said
    if p[PHASE] != SUBSTEPS:
        if model.is_adaptive and not abs(memory.substep[ENERGY_ERROR]) <= energy_tolerance(model, memory):
            begin_step(memory)
            p[PHASE], p[N_PENDING], p[N_TRIED], p[N_TAKEN], p[IN_FLIGHT] = SUBSTEPS, 1, 0, 0, 1
            memory.pending_lengths[0] = dt
            accumulated.n_stored[0], accumulated.worst_status[0] = 0, FREE
            fill_zeros(total)
        else:
            _copy(memory.substep, total)
            advance_motors(memory.drives, memory.v_end, dt)
    if p[PHASE] == SUBSTEPS:
        said = step_in_substeps(model, pushes, terms, memory, motion, contacts, accumulated)
        if said != DONE:
            return said
    p[PHASE] = NOT_STARTED
    if not total[MAX_SPEED] < model.divergence_speed:  # also true of NaN
        return DIVERGED
    kinetic = max(memory.step_start[KINETIC], memory.at_end[KINETIC])
    if abs(total[ENERGY_ERROR]) > INACCURATE_KINETIC_FRACTION * kinetic + INACCURATE_HEIGHT * model.weight:
        p[STATUS] = INACCURATE
    if p[CONTACTS] > 0:
        p[IN_FLIGHT] = 0
    for each in range(len(memory.work)):
        memory.work[each] += total[each]
    _copy(memory.v, memory.v_previous)
    _copy(memory.v_end, memory.v)
    _copy(memory.q_end, memory.q)
    finish_motor_step(memory.drives, memory.tau)
    p[EVALUATED] = 1
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
    again: bool,
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
        again: whether to continue where the last call needed help.

    Returns:
        `DONE`, `DIVERGED`, or the help that is needed.
    """
    p = memory.progress
    if not again:
        if p[PHASE] != NOT_STARTED:
            p[EVALUATED] = 0
        p[PHASE], p[ITERATION], p[HELP_GIVEN], p[RK4_STEP_DONE], p[UNCOLLECTED], p[N_STEPS], p[N_INACCURATE] = (
            NOT_STARTED,
            0,
            0,
            0,
            0,
            0,
            0,
        )
    nq = len(memory.q)
    while p[N_STEPS] < len(torques):
        if p[PHASE] == NOT_STARTED:
            write_motor_torques(motors, memory.drives, torques[p[N_STEPS]], memory.v, memory.tau)
        said: int = advance_step(model, pushes, terms, memory, motion, contacts, accumulated)
        if said != DONE:
            return said
        if p[STATUS] == INACCURATE:
            p[N_INACCURATE] += 1
        if len(states) > 0:
            for i in range(nq):
                states[p[N_STEPS], i] = memory.q[i]
            for i in range(len(memory.v)):
                states[p[N_STEPS], nq + i] = memory.v[i]
        p[N_STEPS] += 1
    return DONE


@entry("the contact simulation", release=True)
def push_forces_at(bodies: KinematicTree, q: Vector, pushes: PointForces, terms: StepTerms, out: Vector) -> None:
    """Computes the generalized forces of pushes at q into `out` (nv,)."""
    place_joints(bodies, q, terms)
    compute_push_forces(bodies, terms, pushes, out)
