"""`DataSheet`: measures the limits of robots by searches, with a confidence for each bound and replayable trials."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..errors import ArgumentError, UnknownNameError
from ..kinematics import LegKinematics, survey_leg
from ..locomotion import FEET, Morphology
from ..robot import CATALOGUE
from ..version import __version__
from .campaign import Failure, campaign_option, count_option
from .campaign_runner import Progress, run
from .datasheet_bounds import BoundSpec, make_bound_specs, make_speed_trials
from .plain_values import encode
from .store import MEMORY, Store, StoredCase
from .threshold_search import Search, Threshold, TrialRequest, search
from .trial import ALL_PLANTS, Trial
from .trial_campaign import TrialCampaign
from .worker import load_cached_robot

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
    dt: float = campaign_option(2e-3, "period of controller and plant [s]")
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
    """Failed trial.

    Attributes:
        number: number in the store, for ``quaddyn replay STORE#number``.
        value: value of the quantity, in the unit of its bound.
        reason: reason of the failure.
        fell: time of the fall [s]; None without one.
        case: fields that differ from a trial without disturbance.
    """

    number: int
    value: float
    reason: str
    fell: float | None
    case: str


@dataclass(frozen=True)
class Bound:
    """Measured bound.

    Attributes:
        name, title, unit, harder: see `BoundSpec`.
        values: value by level, in `unit`.
        threshold: result of the search.
        failed: failed trials, in the order of the levels.
    """

    name: str
    title: str
    unit: str
    harder: str
    values: tuple[float, ...]
    threshold: Threshold
    failed: tuple[FailedCase, ...]

    @property
    def value(self) -> float | None:
        """Hardest claimed value, in `unit`; None if no level could be claimed."""
        return None if self.threshold.level is None else self.values[self.threshold.level]


@dataclass(frozen=True)
class Point:
    """Results of the runs at one speed: means over successful runs, maxima of peak values; None if none succeeded.

    Attributes:
        commanded: commanded speed [m/s].
        successes, trials: numbers of runs.
        reached: mean speed [m/s].
        error: velocity error relative to the commanded speed.
        cost: cost of transport.
        power, power_peak: mean and peak mechanical power [W].
        torque: largest ratio of a motor torque to its limit.
        torque_rms: rms torque [N m].
    """

    commanded: float
    successes: int
    trials: int
    reached: float | None
    error: float | None
    cost: float | None
    power: float | None
    power_peak: float | None
    torque: float | None
    torque_rms: float | None


@dataclass(frozen=True)
class RobotFacts:
    """Properties of a robot from its description.

    Attributes:
        source: source as given.
        name: name in the file.
        mass: mass [kg].
        degrees: degrees of freedom.
        length: length of the stretched legs [m].
        height: height of the center of mass in the home pose [m].
        speed: unit of speed ``sqrt(g l)`` for comparing robots of different size [m/s].
        reach: smallest and largest distance of each foot from its hip, by foot [m].
        joints: name, lower and upper limit [rad or m], velocity limit [rad/s or m/s], effort limit [N m or N].
    """

    source: str
    name: str
    mass: float
    degrees: int
    length: float
    height: float
    speed: float
    reach: dict[str, tuple[float, float]]
    joints: tuple[tuple[str, float, float, float, float], ...]

    @property
    def title(self) -> str:
        """Catalogue name of the robot, else its name in the file."""
        return self.source if self.source in CATALOGUE else self.name


@dataclass(frozen=True)
class RobotBounds:
    """Results of one robot on a sheet.

    Attributes:
        facts: properties of the robot.
        bounds: measured bounds.
        gaits: results by speed, for each gait.
    """

    facts: RobotFacts
    bounds: tuple[Bound, ...]
    gaits: dict[str, tuple[Point, ...]]


@dataclass(frozen=True)
class Sheet:
    """Results of a measurement and its conditions.

    Attributes:
        campaign: the campaign with its options.
        robots: results in the order of the campaign's robots.
        trials: number of simulated trials.
        seconds: CPU time of the trials [s].
        store: file of the trials; None: memory.
        versions: versions of the packages.
        processors: processors of the workers.
    """

    campaign: DataSheet
    robots: tuple[RobotBounds, ...]
    trials: int
    seconds: float
    store: str | None
    versions: dict[str, str]
    processors: tuple[str, ...]


class MeasurementProgress(NamedTuple):
    """Progress of a measurement.

    Attributes:
        found: number of bounds found.
        total: number of all bounds.
        trials: number of trials so far.
    """

    found: int
    total: int
    trials: int


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
