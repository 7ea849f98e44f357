"""`run_trials`: trials of equal robots as lanes of one batch of plants and one of controllers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..compiler import silence_messages
from ..errors import ArgumentError
from ..locomotion import LocomotionMode
from ..robot import Robot
from ..simulation import Simulation
from ..urdf.tree import Array
from .campaign import Record
from .trial import TERRAIN_FIELDS, Trial
from .trial_runner import RunEvaluation, friction_at, gc_disabled, make_trial_setup, run_trial, velocity_at
from .worker import case_rng, load_cached_robot

#: Fields of a trial that must be zero for it to be a lane of a batch.
SINGLE_RUN_FIELDS = (
    "push",
    *TERRAIN_FIELDS,
    "delay",
    "noise_scale",
    "use_state_estimate",
    "model_error",
    "course_interval",
)
#: Fields of a trial that must be equal in all lanes of a batch.
COMMON_FIELDS = (
    "robot", "plant", "gait", "options", "dt", "payload", "com_offset", "com_offset_direction", "torque_scale",
)  # fmt: skip


def run_trials(cases: Sequence[Trial]) -> list[Record]:
    """Runs several trials and returns the record of each, equal to that of `run_trial` to the bit.

    Trials on level ground of the embedded plant, without pushes, state estimates and model errors, run together if they
    have the same robot, load, gait and options; they may differ in velocity, friction, time and criteria of success.
    A trial whose robot falls or whose motion diverges runs again alone, as do all others.
    """
    groups: dict[Hashable, list[int]] = {}
    for i, case in enumerate(cases):
        if case.plant.partition(":")[0] == "embedded" and not any(getattr(case, name) for name in SINGLE_RUN_FIELDS):
            groups.setdefault(tuple(getattr(case, name) for name in COMMON_FIELDS), []).append(i)
    records: dict[int, Record | None] = {}
    for indices in groups.values():
        if len(indices) > 1:
            records.update(zip(indices, _run_lanes([cases[i] for i in indices]), strict=True))
    return [record if (record := records.get(i)) is not None else run_trial(case) for i, case in enumerate(cases)]


@dataclass(eq=False)
class _Lane:
    """A lane as the plant and the command that `RunEvaluation` reads, with its state after the last step."""

    robot: Robot  # the simulated robot
    q: Array  # state, and motor torques of the last step, see `Simulation`
    v: Array  # likewise
    tau: Array  # likewise
    ok: bool = True  # command of the last tick, see `LocomotionCommand`
    requested_velocity: Array = field(default_factory=lambda: np.zeros(3))  # likewise
    clamped_velocity: Array = field(default_factory=lambda: np.zeros(3))  # likewise
    limit_reason: str = ""  # likewise
    record: Record | None = None  # the record of the trial; None while it runs, and of a trial that must run alone
    is_running: bool = True  # whether the trial runs


def _run_lanes(cases: Sequence[Trial]) -> list[Record | None]:
    """Runs trials in one batch; returns None for a trial that must run alone."""
    first, n = cases[0], len(cases)
    setup = make_trial_setup(first, load_cached_robot(first.robot), case_rng(first.seed, first.number))
    assert isinstance(setup.plant, Simulation)
    try:
        plants, controllers = setup.plant.batch(n, threads=1), setup.controller.batch(n, threads=1)
    except ArgumentError:  # an option or a robot that has no batches
        return [None] * n
    morphology, robot = setup.controller.morphology, setup.plant.robot
    lanes = [_Lane(robot, plants.q[i], plants.v[i], plants.tau[i]) for i in range(n)]
    evaluations = [RunEvaluation(case, lane, morphology) for case, lane in zip(cases, lanes, strict=True)]
    periods = [round(case.seconds / case.dt) for case in cases]
    friction = np.zeros(n)
    with silence_messages(), gc_disabled():
        for k in range(max(periods)):
            t = k * first.dt
            new_friction = np.array([friction_at(case, t)[1] for case in cases])
            if not np.array_equal(new_friction, friction):
                plants.set_parameters(friction=new_friction)
                friction = new_friction
            requested = np.array([velocity_at(case, t) for case in cases])
            command = controllers.compute(plants.q, plants.v, requested)
            ok, modes, reasons = command.ok, command.mode, command.limit_reason
            v_before = plants.v.copy()
            plants.step(command.tau)
            q, v, tau, has_diverged = plants.q, plants.v, plants.tau, plants.has_diverged
            for i, (lane, evaluation) in enumerate(zip(lanes, evaluations, strict=True)):
                if not lane.is_running:
                    continue
                if has_diverged[i] or modes[i] == LocomotionMode.FALLEN.value:
                    lane.is_running = False
                    continue
                lane.q, lane.v, lane.tau, lane.ok = q[i], v[i], tau[i], bool(ok[i])
                lane.requested_velocity, lane.clamped_velocity = requested[i], command.clamped_velocity[i]
                lane.limit_reason = str(reasons[i])
                if friction_at(cases[i], t)[0]:
                    evaluation.add_motor_power(v_before[i])
                evaluation.add(lane)
                if k + 1 == periods[i]:
                    lane.is_running, lane.record = False, evaluation.record(None, None)
            if not any(lane.is_running for lane in lanes):
                break
    return [lane.record for lane in lanes]
