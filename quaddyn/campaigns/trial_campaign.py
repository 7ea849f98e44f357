"""`TrialCampaign`: base class of all campaigns whose cases are of type `Trial`; `GridCampaign`: trials on a grid.

A `GridCampaign` declares its options, the options whose values span the grid, and the random values of a trial.

`run_trials` runs trials of equal robots as lanes of one batch of plants and one of controllers.
"""

from __future__ import annotations

import dataclasses
import itertools
from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..compiler import silence_messages
from ..errors import ArgumentError
from ..locomotion import LocomotionMode, Morphology
from ..robot import Robot
from ..simulation import Simulation
from ..simulation.plant import MAX_TIME_STEP
from ..urdf.tree import Array
from .campaign import (
    Campaign,
    Record,
    as_tuple,
    campaign_option,
    case_rng,
    count_option,
    hash_robot,
    hash_texts,
    load_cached_robot,
    singular,
)
from .trial import ALL_PLANTS, PLANTS, TERRAIN_FIELDS, Trial
from .trial_runner import RunEvaluation, friction_at, gc_disabled, make_trial_setup, run_trial, velocity_at

if TYPE_CHECKING:
    from ..locomotion import LocomotionCommand
    from ..simulation import Plant
    from ..viewer import Viewer


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


#: Default commanded speed [sqrt(g l)].
DEFAULT_COMMAND_SPEED = 0.25
FRAMES_PER_SECOND = 30.0


def robot_option() -> Any:
    """Returns the option of a campaign with one robot."""
    return campaign_option("go2", "catalogue name or URDF file")


def period_option() -> Any:
    """Returns the option of a campaign for the period of controller and plant."""
    return campaign_option(
        2e-3,
        "period of controller and plant [s]",
        expected=f"more than 0 and at most {MAX_TIME_STEP:g} s",
        valid=lambda value: 0.0 < value <= MAX_TIME_STEP,
    )


#: Units of the fields of `Trial` and of the entries of records of `run_trial`.
TRIAL_UNITS = MappingProxyType(
    {
        name: unit
        for unit, names in {
            "s": "dt seconds averaging_time push_time push_duration slip_time slip_duration delay fell",
            "m": "com_offset step step_distance strips boxes stairs tread rubble relief ahead",
            "m/s": "push unit_speed vx vy",
            "rad/s": "unit_turn wz",
            "rad": "push_direction com_offset_direction slope slope_direction",
            "kg": "payload",
            "N m": "torque_rms",
            "W": "power power_peak",
        }.items()
        for name in names.split()
    }
)


def error_option(default: float) -> Any:
    """Returns the option with the largest velocity error of a successful trial."""
    return campaign_option(default, "largest velocity error that is a success, relative to the command")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrialCampaign(Campaign[Trial]):
    """Base class of campaigns whose cases are runs of quadrupeds; subclasses define the cases."""

    Case: ClassVar[type[Trial]] = Trial
    renamed_entries: ClassVar[Mapping[str, str]] = {
        "burst": "peak_motor_power",
        "foreseen": "predicted_slope_limit",
        "allowed": "allowed_fraction",
        "limit": "limit_reason",
        "miss": "velocity_error",
        "progress": "velocity_ratio",
    }

    units: ClassVar[Mapping[str, str]] = TRIAL_UNITS

    def run(self, case: Trial) -> Record:
        """Runs one trial; see `run_trial`."""
        return run_trial(case)

    def run_batch(self, cases: Sequence[Trial]) -> Sequence[Record]:
        """Runs several trials, those that can be lanes of one batch together; see `run_trials`."""
        return run_trials(cases)

    @property
    def robots(self) -> tuple[str, ...]:
        """Sources of all robots of the cases, from the option "robot"."""
        return as_tuple(getattr(self, "robot"))  # noqa: B009  # a field of the subclasses

    def model_hash(self) -> str:
        """Returns a hash of the robots: more trials, or other disturbances, may be added to a store."""
        return hash_texts(*(hash_robot(source) for source in sorted(set(self.robots))))

    def case_robot(self, case: Trial) -> Robot:
        """Returns the robot model of the controller; a payload is not shown."""
        return load_cached_robot(case.robot)

    def replay(self, case: Trial, viewer: Viewer) -> Record:
        """Runs a case again and shows robot and terrain; returns the same record, equal to the bit.

        The last frame shows the outcome.
        """
        last_frame = -1
        last_plant: Plant | None = None

        def show(plant: Plant, text: str, time: float | None) -> None:
            viewer.show(
                plant.q,
                v=plant.v,
                contacts=plant.contacts,
                show_support_polygon=True,
                friction=case.friction,
                caption=f"{plant.time:.2f} s, {text}",
                time=time,
            )

        def on_tick(plant: Plant, command: LocomotionCommand) -> None:
            nonlocal last_frame, last_plant
            if last_plant is None:
                last_plant = plant
                viewer.show_terrain(plant.terrain)
            frame = int(plant.time * FRAMES_PER_SECOND + 1e-6)
            if frame == last_frame:
                return
            last_frame = frame
            is_pushed = case.push and case.push_time <= plant.time < case.push_time + case.push_duration
            show(plant, command.mode.value + (", pushed" if is_pushed else ""), plant.time)

        record = run_trial(case, on_tick)
        if last_plant is not None:
            show(last_plant, self.failure_reason(record) or "success", None)  # always a separate frame
        return record


@dataclasses.dataclass(frozen=True, kw_only=True)
class GridCampaign(TrialCampaign):
    """Base class of campaigns with the same number of trials of every combination of options.

    The fields of a trial are those drawn by `draw`, the values of its grid cell, and the options of the campaign that
    have the name of a field of `Trial`, in this order of precedence.
    """

    # names of the options that span the grid, in order.  One value of an option has its name without a final "s".
    grid: ClassVar[tuple[str, ...]]

    @abstractmethod
    def draw(self, cell: SimpleNamespace, p: Morphology, rng: np.random.Generator) -> dict[str, Any]:
        """Draws the fields of a trial.

        Args:
            cell: a value of each option of the grid, such as `gait` of "gaits", and the `number` of the trial.
            p: proportions of the robot.
            rng: random generator of the trial, see `generator`.
        """

    def generator(self, cell: SimpleNamespace) -> np.random.Generator:
        """Returns the random generator of a trial: a number has the same random numbers in the whole grid."""
        return case_rng(getattr(self, "seed", 0), cell.number)

    def cells(self) -> list[tuple[Any, ...]]:
        """Returns all combinations of the options of the grid."""
        return list(itertools.product(*(as_tuple(getattr(self, name)) for name in self.grid)))

    def count(self) -> int:
        """Returns the number of cases."""
        return len(self.cells()) * getattr(self, "trials", 1)

    def cases(self) -> Iterator[Trial]:
        """Yields the cases by trial number, so that the first part of a campaign is a smaller campaign."""
        for number in range(getattr(self, "trials", 1)):
            for cell in self.cells():
                yield self.case(*cell, number)

    def case(self, *cell_and_number: Any) -> Trial:
        """Returns one case, from a value of each option of the grid in order and the trial number."""
        names = (*map(singular, self.grid), "number")
        cell = SimpleNamespace(**dict(zip(names, cell_and_number, strict=True)))
        options = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        constants = {name: value for name, value in options.items() if name not in self.grid}
        known = {name: value for name, value in (constants | vars(cell)).items() if name in _TRIAL_FIELDS}
        drawn = self.draw(cell, robot_proportions(known["robot"]), self.generator(cell))
        return Trial(**known | drawn)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RobotGridCampaign(GridCampaign):
    """Base class of grid campaigns with several robots and plants."""

    robot: tuple[str, ...] = campaign_option(("go2",), "catalogue names or URDF files")
    plants: tuple[str, ...] = campaign_option(PLANTS, among=ALL_PLANTS)
    dt: float = period_option()


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeededGridCampaign(RobotGridCampaign):
    """Base class of grid campaigns with several robots and plants whose trials have random numbers."""

    trials: int = count_option(10, "trials of each combination")
    seed: int = campaign_option(0, "seed of the campaign")


_TRIAL_FIELDS = {field.name for field in dataclasses.fields(Trial)}


def robot_proportions(source: str) -> Morphology:
    """Returns the proportions of a robot given by its source."""
    return Morphology.from_robot(load_cached_robot(source))


def draw_velocity(p: Morphology, rng: np.random.Generator) -> tuple[float, float, float]:
    """Draws a direction at random; returns the velocity command at the default speed (forward, leftward, yaw rate)."""
    angle = rng.uniform(-np.pi, np.pi)
    return (
        DEFAULT_COMMAND_SPEED * p.speed_scale * float(np.cos(angle)),
        DEFAULT_COMMAND_SPEED * p.speed_scale * float(np.sin(angle)),
        0.0,
    )
