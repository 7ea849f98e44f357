"""`StepMemory`: state of a plant and of a step in progress, so that a step that needs help can be continued."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiler import IntVector, Vector
from .drives import Drives

#: Results of `run_steps`: all steps taken; impulses of `CONTACTS` contacts needed; buffers for `REQUIRED_CAPACITY`
#: contacts needed; result of a Runge-Kutta step needed; the motion diverged.
DONE, NEEDS_CONTACT_SOLVER, NEEDS_CAPACITY, NEEDS_RK4_STEP, DIVERGED = range(5)
#: Status of a contact solve, from best to worst.
STATUSES = ("free", "solved", "passive", "retried", "inaccurate")
FREE, SOLVED, PASSIVE, RETRIED, INACCURATE = range(5)
#: Phases of a step: not started; in flight, first by the midpoint rule; full step, velocities first; substeps.
NOT_STARTED, FLIGHT_STEP, FULL_STEP, SUBSTEPS = range(4)
#: Slots of `StepMemory.progress`: phase; whether the terms are those of the present state; whether the last step was in
#: flight; midpoint iteration; whether the requested help is available, and whether it is the result of a Runge-Kutta
#: step; number of contacts and status of the substep, at the end of the step those of the step; number of substeps
#: pending, tried and taken; whether contacts of a substep are not accumulated yet; required capacity of the contact
#: buffers; number of steps taken, and how many of them were inaccurate.
(
    PHASE, EVALUATED, IN_FLIGHT, ITERATION, HELP_GIVEN, RK4_STEP_DONE, CONTACTS, STATUS, N_PENDING, N_TRIED, N_TAKEN,
    UNCOLLECTED, REQUIRED_CAPACITY, N_STEPS, N_INACCURATE,
) = range(15)  # fmt: skip
#: Slots of the results of a substep or step: work of actuators, joints, contacts, pushes and position corrections, and
#: the unexplained gain of energy [J]; the part of it that is an error [J]; residual and largest speed.
ACTUATORS, JOINTS, GROUND, PUSHES, CORRECTIONS, ENERGY_GAIN, ENERGY_ERROR, MAX_RESIDUAL, MAX_SPEED = range(9)


class StepMemory(NamedTuple):
    """State of a plant, and of a step in progress.

    A step consists of one or several substeps; "start" and "end" below are those of the present substep.

    Attributes:
        q: (nq,) configuration at the start of the step.
        v: (nv,) velocity there.
        v_previous: (nv,) velocity one step earlier.
        work: (6,) work since the last reset by slot, from `ACTUATORS` to `ENERGY_GAIN` [J].
        progress: (15,) progress of the step by slot, see `PHASE`.
        tau: (nu,) motor torques of the step [N m or N].
        external: (nv,) generalized forces of pushes.
        step_start: (4,) energies and powers at the start of the step, see `energy_balance`.
        at_start: (4,) the same at the start of the substep.
        at_end: (4,) the same at its end.
        substep: (9,) work, energy error, residual and speed of the substep by slot, see `ACTUATORS`.
        total: (9,) the same of the step.
        pending_lengths: (16,) lengths of the substeps still to be taken, the next one last [s].
        q_start: (nq,) configuration at the start.
        v_start: (nv,) velocity at the start.
        v_previous_substep: (nv,) velocity one substep length before the start.
        q_middle: (nq,) configuration at the middle.
        v_middle: (nv,) velocity at the middle.
        v_mirrored: (nv,) velocity one substep length before the start for which the extrapolated velocity is that of
            the last iteration.
        v_last_iteration: (nv,) velocity at the end in the last iteration.
        displacement: (nv,) tangent vector from `q_start` or `q_middle` to the next configuration.
        q_end: (nq,) configuration at the end.
        v_end: (nv,) velocity at the end.
        drives: state of the motors.
    """

    q: Vector
    v: Vector
    v_previous: Vector
    work: Vector
    progress: IntVector
    tau: Vector
    external: Vector
    step_start: Vector
    at_start: Vector
    at_end: Vector
    substep: Vector
    total: Vector
    pending_lengths: Vector
    q_start: Vector
    v_start: Vector
    v_previous_substep: Vector
    q_middle: Vector
    v_middle: Vector
    v_mirrored: Vector
    v_last_iteration: Vector
    displacement: Vector
    q_end: Vector
    v_end: Vector
    drives: Drives


def make_step_memory(nq: int, nv: int, drives: Drives) -> StepMemory:
    """Returns the memory for a robot with nq, nv and these motors."""
    zeros = np.zeros
    return StepMemory(
        zeros(nq), zeros(nv), zeros(nv), zeros(6), zeros(15, dtype=np.int64), zeros(len(drives.actuated)), zeros(nv),
        zeros(4), zeros(4), zeros(4), zeros(9), zeros(9), zeros(16), zeros(nq), zeros(nv), zeros(nv), zeros(nq),
        zeros(nv), zeros(nv), zeros(nv), zeros(nv), zeros(nq), zeros(nv), drives,
    )  # fmt: skip
