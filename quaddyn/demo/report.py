"""`DemoRun`: run of a demo; `DemoReport`: its measured figures, and the result of each check.

`DemoTimeSeries`: samples of a run over time, with a limited number of samples.

`draw` plots a run: torques with their limits, contact forces, velocity, height of the center of mass.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..deprecation import renamed_attributes, renamed_fields
from ..dynamics import Dynamics, State
from ..errors import ArgumentError
from ..extras import import_extra
from ..operating_system import cpu_name
from ..robot import Robot
from ..robot.validation import effective_effort_limits
from ..safe_files import check_ending
from ..simulation import Plant
from ..urdf.tree import Array
from .motion import gravity_magnitude

if TYPE_CHECKING:
    from ..viewer import Viewer

#: Maximum fraction of a requested value that limits may remove without a separate exit code.
MAX_REDUCTION_FRACTION = 0.1
#: Name of the check that a robot with locomotion stands up.
STAND_UP_CHECK = "time to stand up"
FRAMES_PER_SECOND = 30.0
#: Tolerance of the start of a frame for rounding, divided by the frame time.
FRAME_TOLERANCE = 1e-6
#: Number of steps between states stored for `round_trip_error`, and maximum number of stored states.
STORED_INTERVAL, MAX_STORED_STATES = 50, 500


@renamed_attributes(bound="limit")
class DemoCheck(NamedTuple):
    """Measured figure and its limit.

    Attributes:
        value: measured value [`unit`].
        limit: maximum permitted value [`unit`].
        passed: whether the value does not exceed the limit; False for NaN.
        unit: unit of both; "1" for dimensionless.
    """

    value: float
    limit: float
    passed: bool
    unit: str


class RequestedValue(NamedTuple):
    """Value that the caller requested, and the value that was commanded or planned.

    Attributes:
        name: name of the quantity.
        requested: requested value [`unit`].
        planned: commanded or planned value [`unit`].
        unit: unit of both.
        limit_reason: limit that reduced the value, such as "torque of FL_calf_joint"; "" for none.
    """

    name: str
    requested: float
    planned: float
    unit: str
    limit_reason: str

    @property
    def is_reduced(self) -> bool:
        """Whether requested and planned value differ by more than `MAX_REDUCTION_FRACTION` of the requested value."""
        return abs(self.requested - self.planned) > MAX_REDUCTION_FRACTION * abs(self.requested)


class TorqueRange(NamedTuple):
    """Torques of the joints of one kind over a run.

    Attributes:
        lowest: minimum over time and joints [N m or N].
        highest: maximum over time and joints [N m or N].
        limit: smallest effort limit of these joints [N m or N]; inf if the file has none, or none that has an effect.
    """

    lowest: float
    highest: float
    limit: float


@renamed_fields(
    asked="requested_velocity",
    jump="jump_summary",
    limit="limit_reason",
    measured="measured_velocity",
    velocity="clamped_velocity",
)
@renamed_attributes(cut="reduced_requests", unmeasured="unmeasured_checks")
@dataclass(frozen=True)
class DemoReport:
    """Measured figures of a demo run.

    Attributes:
        robot: name of the robot.
        motion: "squat" (on the ground), "swing" (no feet on the ground), "jump", or the name of the gait.
        seconds: simulated time [s].
        steps: number of steps.
        cpu: name of the processor.
        steps_per_second: speed of controller and plant, without viewer and waiting [1/s].
        plant_steps_per_second: speed of the plant alone [1/s].
        torques: `TorqueRange` by kind of joint.
        normal_force: minimum and maximum normal force on any foot [N]; None without contact.
        weight: weight m g [N].
        weight_mean: mean sum of vertical contact forces divided by m g; None without contact.
        weight_deviation: maximum deviation of that sum from m g, divided by m g; None without contact.
        base_height: minimum and maximum height of the base frame [m]; None without contact.
        energy_change: change of mechanical energy over the run [J].
        work: work done on the robot by "actuators", "joints" (friction) and "contacts" [J].
        checks: result of each check by name.
        requested_velocity: requested forward and leftward velocity [m/s] and yaw rate [rad/s]; None for a
            motion without locomotion.
        clamped_velocity: commanded velocity, within the limits of the gait [m/s, rad/s]; None for a motion without
            locomotion.
        limit_reason: limit that reduced the velocity, such as "stride of the gait"; "" for none.
        measured_velocity: mean velocity over whole gait cycles at the full command [m/s, rad/s]; None if there were
            none.
        mean_velocity: mean velocity while the robot walked, also at times at which the reference differs from
            the command, as on stairs [m/s, rad/s]; None if the robot walked for less than a gait cycle.
        interrupted: whether an interrupt ended the run early.
        jump_summary: description of the planned jump and its limits; "" for none.
        requests: nonzero values that the caller requested.
    """

    robot: str
    motion: str
    seconds: float
    steps: int
    cpu: str
    steps_per_second: float
    plant_steps_per_second: float
    torques: Mapping[str, TorqueRange]
    normal_force: tuple[float, float] | None
    weight: float
    weight_mean: float | None
    weight_deviation: float | None
    base_height: tuple[float, float] | None
    energy_change: float
    work: Mapping[str, float]
    checks: Mapping[str, DemoCheck]
    requested_velocity: tuple[float, ...] | None = None
    clamped_velocity: tuple[float, ...] | None = None
    limit_reason: str = ""
    measured_velocity: tuple[float, ...] | None = None
    interrupted: bool = False
    jump_summary: str = ""
    requests: tuple[RequestedValue, ...] = ()
    mean_velocity: tuple[float, ...] | None = None

    @property
    def reduced_requests(self) -> tuple[str, ...]:
        """Names of the requests that limits reduced by more than `MAX_REDUCTION_FRACTION`."""
        return tuple(request.name for request in self.requests if request.is_reduced)

    @property
    def unmeasured_checks(self) -> tuple[str, ...]:
        """Names of the checks for which the run was too short.

        These are the time to stand up, and the velocity of a robot that did not walk at the full command for two gait
        cycles.
        """
        if self.clamped_velocity is None:
            return ()
        out = () if STAND_UP_CHECK in self.checks else (STAND_UP_CHECK,)
        return (*out, "velocity") if any(self.clamped_velocity) and self.measured_velocity is None else out

    @property
    def failed_checks(self) -> tuple[str, ...]:
        """Names of the checks that failed."""
        return tuple(name for name, check in self.checks.items() if not check.passed)

    @property
    def passed(self) -> bool:
        """Whether all checks passed."""
        return not self.failed_checks


def frame_number(seconds: float) -> int:
    """Returns the number of the frame at a time [s]."""
    return int(seconds * FRAMES_PER_SECOND + FRAME_TOLERANCE)


class DemoRun:
    """Run of a demo, step by step, with the figures that all reports contain as running values in bounded memory.

    Args:
        plant: plant of the robot.
        feet: feet that carry the robot; () for none.
        viewer: viewer that shows the run; None for none.

    Attributes:
        dynamics: dynamics of the robot.
        weight: weight m g [N].
        time_series: samples for a plot.
        checks: result of each check by name.
        ticks: number of observed steps.
        control_time: time spent by the controller [s].
        plant_time: time spent by the plant [s].
        interrupted: whether an interrupt ended the run early.
    """

    def __init__(self, plant: Plant, feet: tuple[str, ...], viewer: Viewer | None = None) -> None:
        self.plant = plant
        self.robot = robot = plant.robot
        self.feet = feet
        self.viewer = viewer
        self.dynamics = Dynamics(robot)
        self.weight = robot.mass * gravity_magnitude(robot)
        self.time_series = DemoTimeSeries(robot, feet)
        self.checks: dict[str, DemoCheck] = {}
        self.ticks = 0
        self.control_time = self.plant_time = 0.0
        self.interrupted = False
        self._initial_energy = plant.energy
        self._min_torques, self._max_torques = np.full(robot.nu, np.inf), np.full(robot.nu, -np.inf)
        self._normal_forces = self._base_heights = (np.inf, -np.inf)
        self._relative_force_sum = self._max_force_deviation = 0.0
        self._stored_states: deque[tuple[Array, Array, Array, dict[str, Array]]] = deque(maxlen=MAX_STORED_STATES)

    def execute(
        self,
        duration: float,
        dt: float,
        *,
        step: Callable[[float], object],
        show: Callable[[Viewer], object],
        realtime: bool,
        progress: Callable[[float], None] | None,
    ) -> None:
        """Calls `step` with the time of each step [s], and `show` for each frame, until the end or an interrupt."""
        last_frame, start = -1, time.perf_counter()
        try:
            for k in range(round(duration / dt)):
                if self.viewer is not None:
                    start += self.viewer.wait_while_paused()
                t = k * dt
                step(t)
                frame = frame_number(t)
                if frame == last_frame and not (self.viewer is not None and self.viewer.is_paused):
                    continue
                last_frame = frame
                if self.viewer is not None:
                    show(self.viewer)
                if progress is not None:
                    progress(t / duration)
                if realtime:
                    time.sleep(max(0.0, start + t - time.perf_counter()))
        except KeyboardInterrupt:
            if not self.plant.time:
                raise
            self.interrupted = True

    def finish(
        self,
        title: str,
        record: str | os.PathLike[str] | None,
        plot: str | os.PathLike[str] | None,
        progress: Callable[[float], None] | None,
        **shown: Any,
    ) -> None:
        """Shows the end of the run with the arguments `shown` of the viewer, and writes the recording and the plot."""
        if progress is not None:
            progress(1.0)
        if self.viewer is not None:
            self.viewer.show_plant(self.plant, friction=self.plant.friction, **shown)
            if record is not None:
                self.viewer.record(Path(record))
        if plot is not None:
            draw(self.time_series, plot, title=f"{self.robot.name}: {title}")

    def observe(self, s: State, desired_velocity: Array | None = None, velocity: Array | None = None) -> Array:
        """Updates the figures by a state and by the torques and contact forces of the plant.

        Args:
            s: state of the robot.
            desired_velocity: velocity of the reference, see `DemoTimeSeries.add`.
            velocity: measured velocity.

        Returns:
            (m, 3) contact forces on the feet, world axes [N].
        """
        tau, forces = self.plant.tau, self.plant.contact_forces
        if self.ticks % STORED_INTERVAL == 0:
            self._stored_states.append((s.q.copy(), s.v.copy(), tau, forces))
        self.ticks += 1
        np.minimum(self._min_torques, tau, out=self._min_torques)
        np.maximum(self._max_torques, tau, out=self._max_torques)
        foot_forces = np.array([forces[foot] for foot in self.feet]).reshape(-1, 3)
        self.time_series.add(self.plant.time, tau, foot_forces, float(s.com[2]), desired_velocity, velocity)
        if self.feet:
            normal_forces = foot_forces[:, 2]
            height = s.placement(self.robot.bodies[0].name).translation[2:]
            self._normal_forces = _extend_range(self._normal_forces, normal_forces)
            self._base_heights = _extend_range(self._base_heights, height)
            relative_force = float(normal_forces.sum()) / self.weight
            self._relative_force_sum += relative_force
            self._max_force_deviation = max(self._max_force_deviation, abs(relative_force - 1.0))
        return foot_forces

    @property
    def mean_relative_force(self) -> float:
        """Mean sum of the vertical contact forces, divided by the weight."""
        return self._relative_force_sum / self.ticks

    def check(self, name: str, value: float, limit: float, unit: str) -> None:
        """Adds the result of a check; `value` and `limit` are in `unit`."""
        self.checks[name] = DemoCheck(float(value), float(limit), bool(value <= limit), unit)

    def check_round_trip(self) -> None:
        """Checks inverse dynamics against forward dynamics in the stored states."""
        self.check("RNEA(ABA(tau)) relative error", *round_trip_error(self.dynamics, self._stored_states), "1")

    def make_report(self, motion: str, **values: Any) -> DemoReport:
        """Returns the measured figures and the result of each check; `values` are further fields of the report."""
        plant, cpu_time = self.plant, self.control_time + self.plant_time
        return DemoReport(
            robot=self.robot.name,
            motion=motion,
            seconds=plant.time,
            steps=self.ticks,
            cpu=cpu_name(),
            steps_per_second=self.ticks / cpu_time,
            plant_steps_per_second=round(plant.time / plant.dt) / self.plant_time,
            torques=torque_ranges(self.robot, self._min_torques, self._max_torques),
            normal_force=self._normal_forces if self.feet else None,
            weight=self.weight,
            weight_mean=self.mean_relative_force if self.feet else None,
            weight_deviation=self._max_force_deviation if self.feet else None,
            base_height=self._base_heights if self.feet else None,
            energy_change=float(plant.energy - self._initial_energy),
            checks=self.checks,
            interrupted=self.interrupted,
            **values,
        )


def _extend_range(bounds: tuple[float, float], values: Array) -> tuple[float, float]:
    """Returns the range (minimum, maximum), extended to include `values`."""
    return min(bounds[0], float(values.min())), max(bounds[1], float(values.max()))


def round_trip_error(
    dyn: Dynamics, samples: Iterable[tuple[Array, Array, Array, Mapping[str, Array]]]
) -> tuple[float, float]:
    """Returns the maximum relative error of rnea(aba(tau)), and its limit by rounding: ten eps cond(M)."""
    error, condition = 0.0, 1.0
    for q, v, tau, forces in samples:
        generalized_tau = dyn.robot.generalized_torques(tau)
        round_trip = dyn.rnea(q, v, dyn.aba(q, v, generalized_tau, fext=forces), fext=forces)
        scale = max(np.abs(generalized_tau).max(initial=0.0), np.abs(dyn.nle(q, v)).max(initial=0.0), 1e-300)
        error = max(error, float(np.abs(round_trip - generalized_tau).max(initial=0.0) / scale))
        condition = max(condition, float(np.linalg.cond(dyn.crba(q))))
    return error, 10.0 * float(np.finfo(float).eps) * condition


def joint_kinds(robot: Robot) -> tuple[str, ...]:
    """Returns the kind of each actuated joint: its number in its leg, or its name if it is not in a leg."""
    kinds = {name: name for name in robot.actuated}
    for leg in robot.legs.values():
        for i, name in enumerate(leg.joints):
            kinds[name] = f"leg joint {i + 1}" + (" (knee)" if name == leg.knee else "")
    return tuple(kinds[name] for name in robot.actuated)


def torque_ranges(robot: Robot, lowest: Array, highest: Array) -> dict[str, TorqueRange]:
    """Returns the torque range by kind of joint, from the minimum and maximum (nu,) of each joint [N m or N]."""
    columns: dict[str, list[int]] = {}
    effective = effective_effort_limits(robot)
    limits = [effective.get(name, np.inf) for name in robot.actuated]
    for i, kind in enumerate(joint_kinds(robot)):
        columns.setdefault(kind, []).append(i)
    return {
        kind: TorqueRange(float(lowest[c].min()), float(highest[c].max()), min(limits[i] for i in c))
        for kind, c in columns.items()
    }


#: Minimum number of samples of a long run; the maximum is twice as many.
MIN_STORED_SAMPLES = 5000


class DemoTimeSeries:
    """Samples of a run at a constant interval, which doubles whenever twice `MIN_STORED_SAMPLES` are stored.

    Args:
        robot: robot of the run.
        feet: feet whose contact forces are stored.

    Attributes:
        robot: robot of the run.
        feet: feet whose contact forces are stored.
        events: times [s] of events by name, such as "push".
    """

    def __init__(self, robot: Robot, feet: tuple[str, ...]) -> None:
        self.robot, self.feet = robot, feet
        self.events: dict[str, list[float]] = {}
        self._dtype = np.dtype(
            [
                ("time", float),
                ("height", float),
                ("tau", float, (robot.nu,)),
                ("forces", float, (len(feet), 3)),
                ("desired_velocity", float, (3,)),
                ("velocity", float, (3,)),
            ]
        )
        self._rows: list[tuple[float | Array, ...]] = []
        self._stride, self._count = 1, 0

    def add(
        self,
        time: float,
        tau: Array,
        forces: Array,
        height: float,
        desired_velocity: Array | None,
        velocity: Array | None,
    ) -> None:
        """Adds a step; must be called at every step.

        Args:
            time: time [s].
            tau: (nu,) torques [N m or N].
            forces: (m, 3) contact forces on the feet, world axes [N].
            height: height of the center of mass [m].
            desired_velocity: (3,) forward and leftward velocity [m/s] and yaw rate [rad/s] of the reference; None for
                none, which is stored as NaN.
            velocity: (3,) measured velocity; None for none, which is stored as NaN.
        """
        self._count += 1
        if (self._count - 1) % self._stride:
            return
        missing = np.full(3, np.nan)
        desired_velocity = missing if desired_velocity is None else desired_velocity
        self._rows.append((time, height, tau, forces, desired_velocity, missing if velocity is None else velocity))
        if len(self._rows) >= 2 * MIN_STORED_SAMPLES:
            self._rows = self._rows[::2]
            self._stride *= 2

    @property
    def samples(self) -> np.ndarray[tuple[int], np.dtype[np.void]]:
        """Samples (N,) as an array with one field for each argument of `add`."""
        return np.array(self._rows, dtype=self._dtype)


KINDS = (".png", ".pdf", ".svg")
#: Limits up to this multiple of the largest torque are drawn as lines, others written as text.
LIMIT_IN_VIEW = 5.0
#: Maximum number of torque panels by kind of joint; more kinds are drawn in one panel, in percent of their limits.
MAX_PANELS = 4
#: Number of characters that fit above a panel; a line and the spaces of an entry take those of 6 characters.
LEGEND_CHARACTERS = 84
_COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#17becf")


def check_plot(path: str | os.PathLike[str] | None) -> None:
    """Raises an error if a plot cannot be written; called before the run.

    Args:
        path: file to write; None is accepted.

    Raises:
        QuaddynError: matplotlib is not installed.
        ArgumentError: the suffix of the file is not in `KINDS`.
    """
    if path is None:
        return
    _figure_class()
    check_ending(path, KINDS)
    check_output("plot", path)


def check_output(argument: str, path: str | os.PathLike[str] | None) -> None:
    """Raises an error if a file cannot be written; called before any work is done for it.

    Args:
        argument: name of the argument for the message.
        path: file to write; None is accepted.

    Raises:
        ArgumentError: the folder does not exist, is not writable, or `path` is a folder.
    """
    if path is None:
        return
    file = Path(path)
    if file.is_dir() or not file.parent.is_dir() or not os.access(file.parent, os.W_OK):
        raise ArgumentError(
            f"{argument}: {file} cannot be written: its folder does not exist, permission is missing, or the path is "
            "a folder"
        )


def _figure_class() -> Any:
    """Returns matplotlib's figure class, or raises an error if matplotlib is not installed."""
    return import_extra("matplotlib.figure", "plot").Figure


def draw(time_series: DemoTimeSeries, path: str | os.PathLike[str], *, title: str) -> None:
    """Writes the plot of a run.

    Args:
        time_series: samples of the run.
        path: PNG, PDF or SVG file to write.
        title: title of the plot.

    Raises:
        QuaddynError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    robot, samples = time_series.robot, time_series.samples
    t = samples["time"]
    kinds: dict[str, list[int]] = {}
    for i, kind in enumerate(joint_kinds(robot)):
        kinds.setdefault(kind, []).append(i)
    has_velocity = bool(np.isfinite(samples["desired_velocity"]).any())
    limits = effective_effort_limits(robot)
    limited = [c for c, joint in enumerate(robot.actuated) if joint in limits]
    unlimited = [c for c in range(robot.nu) if c not in limited]
    columns_by_label = {"torque / limit [%]": limited, "torque [N m]": unlimited}
    columns_by_label = {label: columns for label, columns in columns_by_label.items() if columns}
    left = len(kinds) if len(kinds) <= MAX_PANELS else len(columns_by_label)
    right = 1 + bool(time_series.feet) + has_velocity
    rows = int(np.lcm(left, right))
    figure = _figure_class()(figsize=(14.0, 8.0), layout="constrained")
    grid = figure.add_gridspec(rows, 2)
    figure.suptitle(title)
    first = None

    def add_panel(column: int, row: int, count: int, label: str) -> Any:
        nonlocal first
        height = rows // count
        axes = figure.add_subplot(grid[row * height : (row + 1) * height, column], sharex=first)
        first = first or axes
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
        axes.margins(x=0.0)
        for word, times in time_series.events.items():
            for k, event_time in enumerate(times):
                axes.axvline(event_time, color="0.3", linestyle=":", label=word if k == 0 else None)
        if row == count - 1:
            axes.set_xlabel("time [s]")
        else:
            axes.tick_params(labelbottom=False)
        return axes

    legs = {joint: name for name, leg in robot.legs.items() for joint in leg.joints}
    colors = {name: _COLORS[i % len(_COLORS)] for i, name in enumerate((*robot.legs, *robot.actuated))}
    if len(kinds) <= MAX_PANELS:
        for row, (kind, columns) in enumerate(kinds.items()):
            axes = add_panel(0, row, left, f"{kind}\ntorque [N m]")
            for c in columns:
                name = legs.get(robot.actuated[c], robot.actuated[c])
                axes.plot(t, samples["tau"][:, c], color=colors[name], linewidth=0.8, label=name)
            limit, largest = float(robot.effort_limits[columns].min()), float(np.abs(samples["tau"][:, columns]).max())
            if limit <= LIMIT_IN_VIEW * largest:
                for k, bound in enumerate((limit, -limit)):
                    axes.axhline(bound, color="black", linestyle="--", label="limit" if k == 0 else None)
            elif np.isfinite(limit):  # lines far away would flatten the torques
                axes.set_title(f"limit: {limit:g} N m", fontsize="small", loc="right")
            if row == 0:
                _legend(axes)
    else:
        for row, (label, columns) in enumerate(columns_by_label.items()):
            axes = add_panel(0, row, left, label)
            for c in columns:
                joint = robot.actuated[c]
                scale = 100.0 / limits[joint] if joint in limits else 1.0
                axes.plot(t, scale * samples["tau"][:, c], linewidth=0.8, label=joint)
            _legend(axes)

    row = 0
    if time_series.feet:
        axes, row = add_panel(1, row, right, "normal force [N]"), row + 1
        for i, foot in enumerate(time_series.feet):
            axes.plot(t, samples["forces"][:, i, 2], color=colors.get(foot), linewidth=0.8, label=foot)
        _legend(axes)
    if has_velocity:
        axes, row = add_panel(1, row, right, "velocity [m/s, rad/s]"), row + 1
        for i, (word, color) in enumerate(zip(("forward", "leftward", "turning"), _COLORS, strict=False)):
            axes.plot(t, _smooth(samples["velocity"][:, i], t), color=color, linewidth=1.2, label=word)
            axes.plot(t, samples["desired_velocity"][:, i], color=color, linestyle="--", linewidth=1.2)
        axes.plot([], [], color="black", linestyle="--", label="commanded")
        _legend(axes)
    axes = add_panel(1, row, right, "height of the\ncenter of mass [m]")
    axes.plot(t, samples["height"], color=_COLORS[0])
    figure.savefig(Path(path), dpi=110)


def _legend(axes: Any) -> None:
    """Adds a legend above the panel, which is not wider than the panel."""
    longest = max(len(text) for text in axes.get_legend_handles_labels()[1])
    columns = min(8, max(1, LEGEND_CHARACTERS // (longest + 6)))
    options = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.2}
    axes.legend(**options, ncols=columns, fontsize="small", frameon=False)


def _smooth(values: Array, times: Array, window: float = 0.1) -> Array:
    """Returns the moving average of values (N,) over `window` [s], which removes the oscillation within a step."""
    if len(times) < 3:
        return values
    half_width = max(1, round(0.5 * window / float(times[1] - times[0])))
    total = np.concatenate(([0.0], np.cumsum(np.nan_to_num(values))))
    indices = np.arange(len(values))
    low, high = np.maximum(indices - half_width, 0), np.minimum(indices + half_width + 1, len(values))
    return np.asarray((total[high] - total[low]) / (high - low))
