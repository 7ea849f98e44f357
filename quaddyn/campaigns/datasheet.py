"""`DataSheet`: measures the limits of robots by searches, with a confidence for each bound and replayable trials.

A `Bound` is a quantity with its levels from easy to hard and the trials at each level.
"""

from __future__ import annotations

import functools
import math
import platform
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, fields, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..errors import ArgumentError, UnknownNameError
from ..kinematics import LegKinematics, survey_leg
from ..locomotion import FEET, GAITS, LocomotionController, Morphology
from ..robot import CATALOGUE
from ..version import __version__
from . import walking_campaigns
from .binomial_bounds import Search, Threshold, TrialRequest, search
from .campaign import Failure, campaign_option, case_rng, count_option, encode, load_cached_robot
from .campaign_runner import Progress, run
from .store import MEMORY, Store, StoredCase
from .trial import ALL_PLANTS, Trial
from .trial_campaign import DEFAULT_COMMAND_SPEED, TrialCampaign, period_option
from .walking_campaigns import (
    CONTACT_DETECTION_OPTIONS,
    FRICTION_OPTIONS,
    SLOPE_DIRECTIONS,
    START_TIME,
    TRANSITION_CYCLES,
    FrictionDrop,
    ObstacleCourse,
    run_time,
    starts_as_trot,
)

#: Gaits whose speed is measured.
MOVING_GAITS = tuple(name for name, gait in GAITS.items() if gait.has_swing_phase)
#: Size of a push in trials of speed and slope, which makes trials with different seeds differ [sqrt(g l)].
SMALL_PUSH = 0.05
#: Minimum ratio of reached to commanded speed in trials of speed.
MIN_SPEED_RATIO = 0.9
#: Duration of a run after a push, and evaluated time at its end [sqrt(l/g)].
TIME_AFTER_PUSH, EVALUATED_AFTER_PUSH = 14.0, 6.0
#: Duration of a run with a lasting disturbance, and evaluated time at its end [sqrt(l/g)].
RUN_TIME, EVALUATED_TIME = 20.0, 11.0
#: Obstacles whose size is measured: name, title and kind; the sign of the size means up or down.
OBSTACLES = (
    ("stairs up", "highest stairs up, with terrain map", ObstacleCourse(1.0, tread=0.5)),
    ("stairs down", "highest stairs down, with terrain map", ObstacleCourse(-1.0, tread=0.5)),
    ("rubble", "highest rubble, with terrain map", ObstacleCourse(1.0, kind="rubble")),
    ("relief", "highest relief, blind", ObstacleCourse(1.0, kind="relief", terrain_known=False)),
)
#: Decimals of the numbers of a case: its text identifies its result, and rounding differs between processors.
CASE_DECIMALS = 9
#: Friction of the ground in trials straight up, down or across a slope.
SLOPE_FRICTION = 0.8
#: Drops of the friction: name, title and duration [s]; 0: until the end.
FRICTION_DROPS = (
    ("slip", "lowest friction after a sudden drop", 0.0),
    ("short slip", "lowest friction after a sudden drop, for 1 s", 1.0),
)


@dataclass(frozen=True)
class BoundSpec:
    """Definition of one bound of a data sheet."""

    name: str  # unique name on the sheet of a robot, such as "push 45" or "speed trot"
    title: str  # title in tables
    unit: str  # unit of `values`
    values: tuple[float, ...]  # value by level, from easy to hard
    harder: str  # "larger" or "smaller" values are harder
    trial: Callable[[int, int], Trial]  # function that returns the case of a level and a trial number


#: Function that draws the fields of a trial from the value of its level and random numbers.
LevelDraw = Callable[[float, np.random.Generator], dict[str, Any]]


def make_bound_specs(source: str, *, plant: str, dt: float, seed: int, directions: int) -> list[BoundSpec]:
    """Returns all bounds that are measured on a robot.

    Args:
        source: catalogue name, path or URDF text of a quadruped.
        plant: "embedded" or "mujoco".
        dt: period of controller and plant [s].
        seed: seed of all trials.
        directions: number of push directions, evenly spread over the circle.

    Raises:
        ArgumentError: the robot cannot walk.
    """
    p = Morphology.from_robot(load_cached_robot(source))
    base = Trial(robot=source, plant=plant, dt=dt, seed=seed)
    forward = (DEFAULT_COMMAND_SPEED * p.speed_scale, 0.0, 0.0)
    specs: list[BoundSpec] = []

    def add(name: str, title: str, unit: str, values: Sequence[float], draw: LevelDraw) -> None:
        """Adds a bound; each has separate random numbers, by its name."""
        key = zlib.crc32(name.encode())

        def trial(level: int, number: int) -> Trial:
            return replace(base, number=number, **_rounded(draw(values[level], case_rng(seed, key, number))))

        harder = "larger" if values[-1] > values[0] else "smaller"
        specs.append(BoundSpec(name, title, unit, tuple(values), harder, trial))

    def lasting(draw: walking_campaigns.Draw, **other_fields: Any) -> LevelDraw:
        return lambda size, rng: {**draw(p, size, rng), **run_time(p, RUN_TIME, EVALUATED_TIME, dt), **other_fields}

    def pushed(angle: float) -> LevelDraw:
        return lambda size, rng: walking_campaigns.push(
            p, size, rng, direction=angle, speed=forward, after=TIME_AFTER_PUSH, late=EVALUATED_AFTER_PUSH
        )

    def on_slope(direction: float) -> LevelDraw:
        return lambda size, rng: {
            **run_time(p, RUN_TIME, EVALUATED_TIME, dt),
            "velocity": forward,
            "slope": size,
            "slope_direction": direction,
            "friction": SLOPE_FRICTION,
            **_small_push(p, rng),
        }

    def after_drop(duration: float) -> LevelDraw:
        return lambda size, rng: {
            **FrictionDrop(size, 0.0, duration).fields(p, rng, dt),
            "options": FRICTION_OPTIONS["estimated"],
            "min_velocity_ratio": Trial.min_velocity_ratio,
        }

    def over_obstacle(course: ObstacleCourse) -> LevelDraw:
        return lambda size, rng: {
            "velocity": forward,
            "options": CONTACT_DETECTION_OPTIONS["estimated"],
            **replace(course, size=math.copysign(size, course.size)).fields(p.length, forward[0], dt),
        }

    for k in range(directions):
        angle = 2.0 * math.pi * k / directions
        push_levels = even_levels(p.speed_scale / 32.0, 33)
        add(f"push {round(math.degrees(angle))}", "largest push", "m/s", push_levels, pushed(angle))
    friction_levels, slope_levels = even_levels(-0.02, 30, 0.6), even_levels(math.radians(1.0), 46)
    height_levels = even_levels(0.0125, 41)
    add("friction", "lowest friction", "", friction_levels, lasting(walking_campaigns.friction))
    add("slope", "steepest slope", "rad", slope_levels, lasting(walking_campaigns.slope))
    add("step", "highest step", "l", height_levels, lambda size, rng: walking_campaigns.step(p, size, rng))
    add("payload", "heaviest payload", "of the mass", even_levels(0.025, 41), lasting(walking_campaigns.payload))
    delayed = lasting(walking_campaigns.delay, use_state_estimate=True)
    add("delay", "longest delay", "s", even_levels(dt, 21), delayed)
    weak_motors = lasting(walking_campaigns.strength)
    add("strength", "weakest motors", "of the limits", even_levels(-0.025, 37, 1.0), weak_motors)
    for way, direction in SLOPE_DIRECTIONS.items():
        add(f"slope {way}", f"steepest slope {way}", "rad", slope_levels, on_slope(direction))
    for name, title, duration in FRICTION_DROPS:
        add(name, title, "", friction_levels, after_drop(duration))
    for name, title, course in OBSTACLES:
        add(name, title, "l", height_levels, over_obstacle(course))
    for gait, max_speed in top_speeds(source, dt).items():
        if max_speed > 0.0:
            speeds = [round(1.25 * max_speed * k / 32.0, CASE_DECIMALS) for k in range(1, 33)]
            add(f"speed {gait}", f"largest speed, {gait}", "m/s", speeds, make_speed_draw(p, gait, dt))
    return specs


def even_levels(step: float, count: int, first: float = 0.0) -> list[float]:
    """Returns the values of evenly spaced levels, rounded to `CASE_DECIMALS` decimals."""
    return [round(first + step * k, CASE_DECIMALS) for k in range(count)]


@functools.lru_cache(maxsize=64)
def top_speeds(source: str, dt: float) -> dict[str, float]:
    """Returns the largest forward speed of each gait [m/s]; see `LocomotionController.clamp_velocity`."""
    controller = LocomotionController(load_cached_robot(source), dt=dt)
    out = {}
    for name in MOVING_GAITS:
        try:
            controller.gait = GAITS[name]
        except ArgumentError:  # the motors are too weak to jump
            continue
        out[name] = float(controller.clamp_velocity((1e3, 0.0, 0.0))[0])
    return out


def _rounded(fields: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of a trial with numbers rounded to `CASE_DECIMALS` decimals."""

    def round_value(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(round_value(item) for item in value)
        return round(value, CASE_DECIMALS) if isinstance(value, float) else value

    return {name: round_value(value) for name, value in fields.items()}


def _small_push(p: Morphology, rng: np.random.Generator) -> dict[str, float]:
    """Draws a small push at a random time, which makes trials with different seeds differ."""
    return {
        "push": SMALL_PUSH * p.speed_scale,
        "push_direction": rng.uniform(-math.pi, math.pi),
        "push_time": (START_TIME + rng.uniform(0.0, 3.0)) * p.time_scale,
    }


def make_speed_draw(p: Morphology, gait: str, dt: float) -> LevelDraw:
    """Returns a function of a speed [m/s] and a random generator: the fields of a `Trial` that walks straight ahead.

    At least two gait cycles are evaluated.
    """
    period = GAITS[gait].period
    settling_time = START_TIME + 3.0 + period * (TRANSITION_CYCLES if starts_as_trot(GAITS[gait]) else 1.0)
    evaluated_time = max(2, math.ceil(EVALUATED_TIME / period)) * period
    return lambda size, rng: {
        **run_time(p, settling_time + evaluated_time, evaluated_time, dt),
        "gait": gait,
        "velocity": (size, 0.0, 0.0),
        "min_velocity_ratio": MIN_SPEED_RATIO,
        "unit_speed": size,
        "push": SMALL_PUSH * p.speed_scale,
        "push_direction": rng.uniform(-math.pi, math.pi),
        "push_time": (settling_time - rng.uniform(1.0, 3.0)) * p.time_scale,
    }


#: Speeds at which torque, power and cost of transport are measured, divided by the largest, and runs at each.
SPEED_FRACTIONS, RUNS_PER_SPEED = (1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1.0), 3


def make_speed_trials(source: str, *, plant: str, dt: float, seed: int) -> dict[str, list[list[Trial]]]:
    """Returns the trials of every gait at several speeds, by gait, speed and number."""
    p = Morphology.from_robot(load_cached_robot(source))
    base = Trial(robot=source, plant=plant, dt=dt, seed=seed)
    out: dict[str, list[list[Trial]]] = {}
    for gait_index, (gait, max_speed) in enumerate(top_speeds(source, dt).items()):
        draw = make_speed_draw(p, gait, dt)
        for speed_index, fraction in enumerate(SPEED_FRACTIONS if max_speed > 0.0 else ()):
            generators = [case_rng(seed, gait_index, speed_index, number) for number in range(RUNS_PER_SPEED)]
            trials = [_rounded(draw(fraction * max_speed, rng)) for rng in generators]
            out.setdefault(gait, []).append([replace(base, number=k, **fields) for k, fields in enumerate(trials)])
    return out


#: Packages whose versions are printed on a sheet.
PACKAGES = ("pin", "numpy", "llvmlite", "mujoco")


#: Reduced options of a quick sheet: claimed probability, push directions, trials in a row, easier levels.
QUICK: dict[str, Any] = {"probability": 0.8, "directions": 4, "pilot": 6, "checks": 1}


@dataclass(frozen=True, kw_only=True)
class DataSheet(TrialCampaign):
    """Campaign of a data sheet, whose bisections choose cases by earlier outcomes; see `measure`."""

    name: ClassVar[str] = "datasheet"

    robot: tuple[str, ...] = campaign_option(("go2",), "catalogue names or URDF files, shown side by side")
    plant: str = campaign_option("embedded", "embedded or mujoco", among=ALL_PLANTS)
    bounds: tuple[str, ...] = campaign_option(
        (), "beginnings of the names of bounds to measure, such as push, friction or speed; default: all"
    )
    probability: float = campaign_option(0.95, "claimed probability of success")
    confidence: float = campaign_option(0.95, "confidence of each claim")
    directions: int = count_option(8, "number of push directions")
    pilot: int = count_option(12, "trials in a row that a level must pass in the search")
    checks: int = count_option(2, "number of easier levels that are tested afterwards", minimum=0)
    dt: float = period_option()
    seed: int = campaign_option(0, "seed of all trials")

    def __post_init__(self) -> None:
        if not self.robot or len(set(self.robot)) < len(self.robot):
            raise ArgumentError(
                f"robot: expected at least one robot, each only once, got {', '.join(self.robot) or 'none'}"
            )
        super().__post_init__()
        search(1, probability=self.probability, confidence=self.confidence, pilot=self.pilot, checks=self.checks)

    def cases(self) -> Iterator[Trial]:
        """Yields the cases that do not depend on outcomes: every gait at several speeds."""
        for source in self.robot:
            for levels in self.curves(source).values():
                for trials in levels:
                    yield from trials

    def curves(self, source: str) -> dict[str, list[list[Trial]]]:
        """Returns the trials of each gait whose speed is measured, by gait, speed and number."""
        found = make_speed_trials(source, plant=self.plant, dt=self.dt, seed=self.seed)
        names = {spec.name for spec in self.cells(source)}
        return {gait: levels for gait, levels in found.items() if f"speed {gait}" in names}

    def cells(self, source: str) -> list[BoundSpec]:
        """Returns the bounds that are measured on one of the robots."""
        found = make_bound_specs(source, plant=self.plant, dt=self.dt, seed=self.seed, directions=self.directions)
        for name in self.bounds:
            if not any(spec.name.startswith(name) for spec in found):
                raise UnknownNameError("bound", name, [spec.name for spec in found])
        return [spec for spec in found if not self.bounds or spec.name.startswith(self.bounds)]


@dataclass(frozen=True)
class FailedCase:
    """Failed trial."""

    number: int  # number in the store, for ``quaddyn replay STORE#number``
    value: float  # value of the quantity, in the unit of its bound
    reason: str  # reason of the failure
    fell: float | None  # time of the fall [s]; None without one
    case: str  # fields that differ from a trial without disturbance


@dataclass(frozen=True)
class Bound:
    """Measured bound."""

    name: str  # see `BoundSpec`
    title: str  # likewise
    unit: str  # likewise
    harder: str  # likewise
    values: tuple[float, ...]  # value by level, in `unit`
    threshold: Threshold  # result of the search
    failed: tuple[FailedCase, ...]  # failed trials, in the order of the levels

    @property
    def value(self) -> float | None:
        """Hardest claimed value, in `unit`; None if no level could be claimed."""
        return None if self.threshold.level is None else self.values[self.threshold.level]


@dataclass(frozen=True)
class Point:
    """Results of the runs at one speed: means over successful runs, maxima of peak values; None if none succeeded."""

    commanded: float  # commanded speed [m/s]
    successes: int  # numbers of runs
    trials: int  # likewise
    reached: float | None  # mean speed [m/s]
    error: float | None  # velocity error relative to the commanded speed
    cost: float | None  # cost of transport
    power: float | None  # mean and peak mechanical power [W]
    power_peak: float | None  # likewise
    torque: float | None  # largest ratio of a motor torque to its limit
    torque_rms: float | None  # rms torque [N m]


@dataclass(frozen=True)
class RobotFacts:
    """Properties of a robot from its description."""

    source: str  # source as given
    name: str  # name in the file
    mass: float  # mass [kg]
    degrees: int  # degrees of freedom
    length: float  # length of the stretched legs [m]
    height: float  # height of the center of mass in the home pose [m]
    speed: float  # unit of speed ``sqrt(g l)`` for comparing robots of different size [m/s]
    reach: dict[str, tuple[float, float]]  # smallest and largest distance of each foot from its hip, by foot [m]
    # name, lower and upper limit [rad or m], velocity limit [rad/s or m/s], effort limit [N m or N]
    joints: tuple[tuple[str, float, float, float, float], ...]

    @property
    def title(self) -> str:
        """Catalogue name of the robot, else its name in the file."""
        return self.source if self.source in CATALOGUE else self.name


@dataclass(frozen=True)
class RobotBounds:
    """Results of one robot on a sheet."""

    facts: RobotFacts  # properties of the robot
    bounds: tuple[Bound, ...]  # measured bounds
    gaits: dict[str, tuple[Point, ...]]  # results by speed, for each gait


@dataclass(frozen=True)
class Sheet:
    """Results of a measurement and its conditions."""

    campaign: DataSheet  # the campaign with its options
    robots: tuple[RobotBounds, ...]  # results in the order of the campaign's robots
    trials: int  # number of simulated trials
    seconds: float  # CPU time of the trials [s]
    store: str | None  # file of the trials; None: memory
    versions: dict[str, str]  # versions of the packages
    processors: tuple[str, ...]  # processors of the workers


class MeasurementProgress(NamedTuple):
    """Progress of a measurement."""

    found: int  # number of bounds found
    total: int  # number of all bounds
    trials: int  # number of trials so far


def measure(
    campaign: DataSheet,
    executor: Executor | None = None,
    store: str | None = None,
    *,
    progress: Callable[[MeasurementProgress], object] | None = None,
) -> Sheet:
    """Measures all bounds of a data sheet.

    All searches run concurrently: each wave of trials has the next requests of all searches.  An interrupted
    measurement continues from its store.  The sheet depends on the campaign alone, not on the executor.

    Args:
        campaign: the bounds to measure.
        executor: `process_pool`, `dask_executor` or any other; None: this process.
        store: file for the trials; None: memory, and trials cannot be replayed by number.
        progress: called at most ten times per second; None: not called.

    Raises:
        ArgumentError: a robot that cannot walk.
        StoreError: the store cannot be used.
    """
    specs = {(source, spec.name): spec for source in campaign.robot for spec in campaign.cells(source)}
    searches: dict[tuple[str, str], Search] = {
        key: search(
            len(spec.values),
            probability=campaign.probability,
            confidence=campaign.confidence,
            pilot=campaign.pilot,
            checks=campaign.checks,
        )
        for key, spec in specs.items()
    }
    requests: dict[tuple[str, str], TrialRequest] = {key: next(each) for key, each in searches.items()}
    found: dict[tuple[str, str], Threshold] = {}
    failed: dict[tuple[str, str], list[FailedCase]] = {key: [] for key in specs}
    rows: dict[str, StoredCase] = {}
    with Store.open(MEMORY if store is None else store, campaign) as open_store:

        def run_trials(cases: Sequence[Trial]) -> None:
            before = len(rows)

            def on_progress(current: Progress) -> None:
                if progress is not None:
                    progress(MeasurementProgress(len(found), len(specs), before + current.done))

            run(campaign, executor, open_store, cases=cases, progress=on_progress)
            for text in map(encode, cases):
                row = open_store.find(text)
                assert row is not None
                rows[text] = row

        initial_cases = list(campaign.cases())
        while requests or initial_cases:
            wave = [
                (key, request, [specs[key].trial(request.level, k) for k in request.trials])
                for key, request in requests.items()
            ]
            run_trials([*initial_cases, *(case for _, _, trials in wave for case in trials)])
            initial_cases = []
            for key, request, trials in wave:
                trial_rows = [rows[encode(case)] for case in trials]
                value = specs[key].values[request.level]
                failed[key] += [_describe_failure(row, value) for row in trial_rows if not _succeeded(row)]
                try:
                    requests[key] = searches[key].send([_succeeded(row) for row in trial_rows])
                except StopIteration as end:
                    found[key] = end.value
                    del requests[key]
        robots = tuple(_collect_results(campaign, source, specs, found, failed, rows) for source in campaign.robot)
        processors = tuple(open_store.processors())
    seconds = sum(row.seconds for row in rows.values())
    return Sheet(campaign, robots, len(rows), seconds, store, versions(), processors)


def versions() -> dict[str, str]:
    """Returns the versions of this package and its main dependencies."""
    out = {"quaddyn": __version__, "Python": platform.python_version()}
    for name in PACKAGES:
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            continue
    return out


def _succeeded(row: StoredCase) -> bool:
    """Returns whether a trial succeeded; a trial that raised an error did not."""
    return not isinstance(row.result, Failure) and bool(row.result["success"])


def _describe_failure(row: StoredCase, value: float) -> FailedCase:
    """Returns the description of a failed trial at a value of its bound."""
    result, plain = row.result, Trial(robot=row.case.robot)
    own = {f.name: getattr(row.case, f.name) for f in fields(plain)}
    changed = ", ".join(
        f"{k} = {_format_value(v)}" for k, v in own.items() if v != getattr(plain, k) or k in ("seed", "number")
    )
    if isinstance(result, Failure):
        return FailedCase(row.number, value, result.error.splitlines()[0], None, changed)
    fell = result["fell"]
    return FailedCase(row.number, value, str(result["reason"]), None if fell is None else float(fell), changed)


def _format_value(value: Any) -> str:
    """Formats a value of a field with four significant digits."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_format_value, value))})"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _collect_results(
    campaign: DataSheet,
    source: str,
    specs: dict[tuple[str, str], BoundSpec],
    found: dict[tuple[str, str], Threshold],
    failed: dict[tuple[str, str], list[FailedCase]],
    rows: dict[str, StoredCase],
) -> RobotBounds:
    """Returns the results of one robot after all searches have ended."""
    bounds = []
    for key, cell in specs.items():
        if key[0] == source:
            order = {value: level for level, value in enumerate(cell.values)}
            failed_cases = tuple(sorted(failed[key], key=lambda f: (order[f.value], f.number)))
            bounds.append(Bound(cell.name, cell.title, cell.unit, cell.harder, cell.values, found[key], failed_cases))
    gaits = {}
    for gait, levels in campaign.curves(source).items():
        gaits[gait] = tuple(_summarize_runs([rows[encode(case)] for case in trials]) for trials in levels)
    return RobotBounds(facts(source), tuple(bounds), gaits)


def _summarize_runs(rows: list[StoredCase]) -> Point:
    """Returns means, and maxima of peak values, over the successful runs at one speed."""
    commanded = float(rows[0].case.velocity[0])
    records = [row.result for row in rows if _succeeded(row) and not isinstance(row.result, Failure)]

    def aggregate(name: str, reduce: Callable[[list[float]], Any] = np.mean) -> float | None:
        values = [float(record[name]) for record in records if record[name] is not None]  # type: ignore[arg-type]
        return float(reduce(values)) if values else None

    return Point(
        commanded, len(records), len(rows), aggregate("vx"), aggregate("velocity_error"), aggregate("cost"),
        aggregate("power"),        aggregate("power_peak", max), aggregate("torque", max), aggregate("torque_rms"),
    )  # fmt: skip


def facts(source: str) -> RobotFacts:
    """Returns the properties of a robot from its description."""
    robot = load_cached_robot(source)
    morphology = Morphology.from_robot(robot)
    reach = {}
    for foot in FEET:
        leg = survey_leg(LegKinematics(robot, foot), samples=1)
        min_reach, max_reach = (float(np.linalg.norm(end - leg.hip)) for end in (leg.nearest, leg.farthest))
        reach[foot] = (min_reach, max_reach)
    joints = []
    for i, name in enumerate(robot.actuated):
        index = robot.configuration_index(name)
        numbers = (robot.lower[index], robot.upper[index], robot.velocity_limits[i], robot.effort_limits[i])
        low, high, speed, effort = (float(x) for x in numbers)
        joints.append((name, low, high, speed, effort))
    return RobotFacts(
        source,
        robot.name,
        robot.mass,
        robot.nv,
        morphology.length,
        morphology.height,
        morphology.speed_scale,
        reach,
        tuple(joints),
    )
