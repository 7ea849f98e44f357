"""Measured figures of a demo run, and the result of each check.

`DemoTimeSeries`: samples of a run over time, with a limited number of samples.

`draw` plots a run: torques with their limits, contact forces, velocity, height of the center of mass.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..contact import contact_jacobian
from ..deprecation import renamed_attributes, renamed_fields
from ..dynamics import Dynamics, State
from ..errors import ArgumentError
from ..extras import import_extra
from ..operating_system import cpu_name
from ..robot import Robot
from ..robot.validation import effective_effort_limits
from ..safe_files import check_ending
from ..simulation import Simulation
from ..urdf.tree import Array
from .motion import DemoMotion, DesiredState, JointSwingMotion, SquatMotion, gravity_magnitude

#: Maximum fraction of a requested value that limits may remove without a separate exit code.
MAX_REDUCTION_FRACTION = 0.1
#: Name of the check that a robot with locomotion stands up.
STAND_UP_CHECK = "time to stand up"


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


class DemoRecorder:
    """Recorder of a squat demo, which computes its figures."""

    def __init__(self, robot: Robot, feet: tuple[str, ...], friction: float) -> None:
        self.robot, self.feet, self.friction = robot, feet, friction
        self._base = robot.bodies[0].name
        self._tau: list[Array] = []
        self._forces: list[Array] = []
        self._heights: list[tuple[float, float]] = []
        self._energy: list[float] = []
        self._work: list[float] = []
        self._contact_work: list[float] = []
        self._stored_states: list[tuple[Array, Array, Array, dict[str, Array]]] = []
        self._slip_distances = np.zeros(len(feet))
        self._max_power = self._max_residual = self._max_joint_error = self._control_time = self._plant_time = 0.0
        self._saturated_steps = self._inaccurate_steps = 0

    def add(
        self,
        s: State,
        sim: Simulation,
        desired: DesiredState,
        saturated: tuple[str, ...],
        control_time: float,
        plant_time: float,
    ) -> None:
        """Records one step: the state before it and the plant after it."""
        contact_forces = sim.contact_forces
        self._tau.append(sim.tau)
        if self.feet:
            self._forces.append(np.array([contact_forces[foot] for foot in self.feet]))
            self._heights.append((desired.height, float(s.placement(self._base).translation[2])))
            for i, foot in enumerate(self.feet):  # contact velocities as in the contact law: J(q) v+
                self._slip_distances[i] += sim.dt * float(np.hypot(*(contact_jacobian(s, foot)[:2] @ sim.v)))
        else:
            error = self.robot.algorithms.difference(self.robot.model, s.q, desired.q)
            self._max_joint_error = max(self._max_joint_error, float(np.abs(error).max(initial=0.0)))
        self._energy.append(s.energy.total)
        self._work.append(sim.work.total)
        self._contact_work.append(sim.work.contacts)
        power = abs(float(s.v @ s.gravity)) + 3.0 * float(np.abs(s.v) @ np.abs(s.h - s.gravity))
        self._max_power = max(self._max_power, power)
        self._max_residual = max(self._max_residual, sim.residual)
        self._saturated_steps += bool(saturated)
        self._inaccurate_steps += sim.status == "inaccurate"
        self._control_time += control_time
        self._plant_time += plant_time
        if len(self._tau) % 50 == 1:
            self._stored_states.append((s.q.copy(), s.v.copy(), sim.tau, contact_forces))

    def report(self, dyn: Dynamics, sim: Simulation, motion: DemoMotion) -> DemoReport:
        """Returns the measured figures and the result of each check."""
        robot = self.robot
        weight = robot.mass * gravity_magnitude(robot)
        tau = np.array(self._tau)
        # Work is known after each step, the energy before it: shift by one, and end on the final state.
        energy = np.array([*self._energy[1:], sim.energy]) - self._energy[0]
        checks: dict[str, DemoCheck] = {}

        def check(name: str, value: float, limit: float, unit: str) -> None:
            checks[name] = DemoCheck(float(value), float(limit), bool(value <= limit), unit)

        error, limit = round_trip_error(dyn, self._stored_states)
        check("RNEA(ABA(tau)) relative error", error, limit, "1")
        # The velocities come first, then the positions: this conserves a neighbor of the energy (Hairer, Lubich,
        # Wanner 2006, sec. IX.3).  With work taken at mid-step velocities the difference is dt/2 times the power of
        # gravity, which is doubled here, and dt times a small multiple, 3 here, of the power of the Coriolis terms.
        rounding = 1e-12 * max(weight, abs(self._energy[0]))
        check("energy balance", np.abs(energy - self._work).max(), sim.dt * self._max_power + rounding, "J")
        check("steps with a saturated joint", self._saturated_steps, 0, "1")
        normal_range = mean = deviation = height_range = None
        if isinstance(motion, SquatMotion):
            forces, heights = np.array(self._forces), np.array(self._heights)
            relative_force = forces[:, :, 2].sum(axis=1) / weight
            n_standing_steps = max(1, round(0.5 * motion.pause / sim.dt))
            cone_violation = np.hypot(forces[..., 0], forces[..., 1]) - self.friction * forces[..., 2]
            mean, deviation = float(relative_force.mean()), float(np.abs(relative_force - 1.0).max())
            normal_range = float(forces[..., 2].min()), float(forces[..., 2].max())
            height_range = float(heights[:, 1].min()), float(heights[:, 1].max())
            check("mean vertical force against m g", abs(mean - 1.0), 1e-3, "m g")
            check(
                "vertical force against m g, standing",
                np.abs(relative_force[-n_standing_steps:] - 1.0).max(),
                1e-3,
                "m g",
            )
            check("force outside the friction cone", max(cone_violation.max(), 0.0) / weight, 1e-6, "m g")
            check("steps with a stance foot in the air", (forces[..., 2] <= 0.0).any(axis=1).sum(), 0, "1")
            check("slip of a foot", self._slip_distances.max(initial=0.0), 1e-3, "m")
            check("contact law residual", self._max_residual, 1e-8, "m/s")
            check("energy out of the floor", max(self._contact_work), 1e-5 * weight * motion.depth + rounding, "J")
            check("base height error", np.abs(heights[:, 0] - heights[:, 1]).max(), max(0.02 * motion.depth, 1e-4), "m")
            depth_reduction = max(motion.desired_depth - motion.depth, 0.0)
            check("reduction of the squat by limits", depth_reduction, 0.5 * motion.desired_depth, "m")
        elif isinstance(motion, JointSwingMotion):
            limit = max(0.1 * motion.amplitude.max(initial=0.0), 1e-2)
            check("joint tracking error", self._max_joint_error, limit, "rad or m")
        return DemoReport(
            robot=robot.name,
            motion=motion.name,
            seconds=sim.time,
            steps=len(tau),
            cpu=cpu_name(),
            steps_per_second=len(tau) / (self._control_time + self._plant_time),
            plant_steps_per_second=len(tau) / self._plant_time,
            torques=torque_ranges(robot, tau.min(axis=0), tau.max(axis=0)),
            normal_force=normal_range,
            weight=weight,
            weight_mean=mean,
            weight_deviation=deviation,
            base_height=height_range,
            energy_change=float(energy[-1]),
            work={"actuators": sim.work.actuators, "joints": sim.work.joints, "contacts": sim.work.contacts},
            checks=checks,
        )


def round_trip_error(dyn: Dynamics, samples: list[tuple[Array, Array, Array, dict[str, Array]]]) -> tuple[float, float]:
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
        self._rows: list[Array] = []
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
                none.
            velocity: (3,) measured velocity; None for none.
        """
        self._count += 1
        if (self._count - 1) % self._stride:
            return
        missing = np.full(3, np.nan)
        values = (
            tau,
            forces.ravel(),
            missing if desired_velocity is None else desired_velocity,
            missing if velocity is None else velocity,
        )
        self._rows.append(np.concatenate(([time, height], *values)))
        if len(self._rows) >= 2 * MIN_STORED_SAMPLES:
            self._rows = self._rows[::2]
            self._stride *= 2

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def times(self) -> Array:
        """Times of the samples (N,) [s]."""
        return self._columns(0, 1)[:, 0]

    @property
    def height(self) -> Array:
        """Height of the center of mass (N,) [m]."""
        return self._columns(1, 1)[:, 0]

    @property
    def tau(self) -> Array:
        """Torques (N, nu) [N m or N]."""
        return self._columns(2, self.robot.nu)

    @property
    def forces(self) -> Array:
        """Contact forces on the feet (N, m, 3), world axes [N]."""
        return self._columns(2 + self.robot.nu, 3 * len(self.feet)).reshape(-1, len(self.feet), 3)

    @property
    def desired_velocity(self) -> Array:
        """Velocity of the reference (N, 3) [m/s, rad/s]; NaN for none."""
        return self._columns(2 + self.robot.nu + 3 * len(self.feet), 3)

    @property
    def velocity(self) -> Array:
        """Measured velocity (N, 3) [m/s, rad/s]; NaN for none."""
        return self._columns(5 + self.robot.nu + 3 * len(self.feet), 3)

    def _columns(self, start: int, count: int) -> Array:
        """Returns `count` columns of the stored samples, from column `start` on."""
        rows = np.array(self._rows).reshape(len(self._rows), 8 + self.robot.nu + 3 * len(self.feet))
        return rows[:, start : start + count]


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
    robot, t = time_series.robot, time_series.times
    kinds: dict[str, list[int]] = {}
    for i, kind in enumerate(joint_kinds(robot)):
        kinds.setdefault(kind, []).append(i)
    has_velocity = bool(np.isfinite(time_series.desired_velocity).any())
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
            for k, time in enumerate(times):
                axes.axvline(time, color="0.3", linestyle=":", label=word if k == 0 else None)
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
                axes.plot(t, time_series.tau[:, c], color=colors[name], linewidth=0.8, label=name)
            limit, largest = float(robot.effort_limits[columns].min()), float(np.abs(time_series.tau[:, columns]).max())
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
                axes.plot(t, scale * time_series.tau[:, c], linewidth=0.8, label=joint)
            _legend(axes)

    row = 0
    if time_series.feet:
        axes, row = add_panel(1, row, right, "normal force [N]"), row + 1
        for i, foot in enumerate(time_series.feet):
            axes.plot(t, time_series.forces[:, i, 2], color=colors.get(foot), linewidth=0.8, label=foot)
        _legend(axes)
    if has_velocity:
        axes, row = add_panel(1, row, right, "velocity [m/s, rad/s]"), row + 1
        for i, (word, color) in enumerate(zip(("forward", "leftward", "turning"), _COLORS, strict=False)):
            axes.plot(t, _smooth(time_series.velocity[:, i], t), color=color, linewidth=1.2, label=word)
            axes.plot(t, time_series.desired_velocity[:, i], color=color, linestyle="--", linewidth=1.2)
        axes.plot([], [], color="black", linestyle="--", label="commanded")
        _legend(axes)
    axes = add_panel(1, row, right, "height of the\ncenter of mass [m]")
    axes.plot(t, time_series.height, color=_COLORS[0])
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
