"""`StepMemory`: state of a plant and of a step in progress, so that an interrupted step can be continued."""

from __future__ import annotations

import enum
from typing import NamedTuple

import numpy as np

from ..compiler import Record, Vector, compiled
from .drives import Drives
from .terms import Energies


class StepResult(enum.IntEnum):
    """Result of `run_steps`: all steps are taken, the motion diverged, or what the caller must provide to continue."""

    DONE = 0
    NEEDS_CONTACT_SOLVER = 1  # impulses of `StepProgress.n_contacts` contacts
    NEEDS_CAPACITY = 2  # buffers for `StepProgress.required_capacity` contacts
    NEEDS_RK4_STEP = 3  # result of a Runge-Kutta step
    DIVERGED = 4
    NEEDS_LANE_CAPACITY = 5  # memory of lanes for `LaneCursor.required_contacts` contacts


class ContactStatus(enum.IntEnum):
    """Status of a contact solve, from best to worst; see `Simulation.status`."""

    FREE = 0
    SOLVED = 1
    PASSIVE = 2
    RETRIED = 3
    INACCURATE = 4


class StepPhase(enum.IntEnum):
    """Phase of a step."""

    NOT_STARTED = 0
    FLIGHT_STEP = 1  # in flight: by the midpoint rule first
    FULL_STEP = 2  # by the semi-implicit Euler method
    SUBSTEPS = 3


class StepProgress(Record):
    """Progress of a step, so that it can be continued after `run_steps` returned early."""

    phase: StepPhase
    terms_are_current: bool  # whether the rigid-body terms are those of the present state
    was_in_flight: bool  # whether the last step was in flight
    iteration: int  # midpoint iteration
    has_help: bool  # whether the caller has provided the contact impulses or the Runge-Kutta step
    has_rk4_step: bool  # whether the caller has provided a Runge-Kutta step
    n_contacts: int  # contacts of the substep, at the end of the step those of the step
    status: ContactStatus  # likewise
    n_pending: int  # substeps pending
    n_tried: int  # substeps tried
    n_taken: int  # substeps taken
    has_pending_contacts: bool  # whether contacts of a substep are not accumulated yet
    required_capacity: int  # required capacity of the contact buffers
    n_steps: int  # steps taken
    n_inaccurate: int  # inaccurate steps among them


class StepWork(Record):
    """Work [J], of a substep, a step, or all steps since the last reset."""

    actuators: float
    joints: float
    contacts: float
    pushes: float
    corrections: float  # of penetrations
    energy_gain: float  # gain of mechanical energy that no work explains


class StepTotals(Record):
    """Results of a substep or step."""

    work: StepWork
    energy_error: float  # part of the unexplained energy gain that is an error [J]
    residual: float  # largest violation of the contact law [m/s]
    max_speed: float  # largest velocity of a joint [rad/s or m/s]


@compiled()
def add_work(total: StepWork, part: StepWork) -> None:
    """Adds the work of a part of the time to a total."""
    total.actuators += part.actuators
    total.joints += part.joints
    total.contacts += part.contacts
    total.pushes += part.pushes
    total.corrections += part.corrections
    total.energy_gain += part.energy_gain


@compiled()
def clear_totals(totals: StepTotals) -> None:
    """Sets all results to zero."""
    work = totals.work
    work.actuators, work.joints, work.contacts, work.pushes, work.corrections, work.energy_gain = (
        0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
    )  # fmt: skip
    totals.energy_error, totals.residual, totals.max_speed = 0.0, 0.0, 0.0


class StepMemory(NamedTuple):
    """State of a plant, and of a step in progress.

    A step consists of one or several substeps; "start" and "end" below are those of the present substep.

    Attributes:
        q: (nq,) configuration at the start of the step.
        v: (nv,) velocity there.
        v_previous: (nv,) velocity one step earlier.
        work: work since the last reset.
        progress: progress of the step.
        tau: (nu,) motor torques of the step [N m or N].
        external: (nv,) generalized forces of pushes.
        step_start: energies and powers at the start of the step.
        at_start: energies and powers at the start of the substep.
        at_end: energies and powers at its end.
        substep: work, energy error, residual and speed of the substep.
        total: work, energy error, residual and speed of the step.
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
    work: StepWork
    progress: StepProgress
    tau: Vector
    external: Vector
    step_start: Energies
    at_start: Energies
    at_end: Energies
    substep: StepTotals
    total: StepTotals
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
        zeros(nq), zeros(nv), zeros(nv), StepWork.allocate(), StepProgress.allocate(), zeros(len(drives.actuated)),
        zeros(nv), Energies.allocate(), Energies.allocate(), Energies.allocate(), StepTotals.allocate(),
        StepTotals.allocate(), zeros(16), zeros(nq), zeros(nv), zeros(nv), zeros(nq), zeros(nv), zeros(nv), zeros(nv),
        zeros(nv), zeros(nq), zeros(nv), drives,
    )  # fmt: skip
