"""`LocomotionRun`: one run of a quadruped, tick by tick, with its measured figures."""

from __future__ import annotations

import time
from collections import deque

import numpy as np

from ..contact.contact_kinematics import cross_matrix
from ..dynamics import Dynamics, State
from ..locomotion import FEET, GAIT_LIMIT_MESSAGE, LocomotionCommand, LocomotionController, LocomotionMode, heading_axes
from ..simulation import Plant
from ..urdf.tree import Array
from .jump_request import MAX_LANDING_ERROR, MAX_RISE_ERROR, JumpMonitor, JumpRequest
from .report import DemoCheck, DemoReport, RequestedValue, cpu_name, round_trip_error, torque_ranges
from .time_series import DemoTimeSeries

#: Duration of a push [s].
PUSH_TIME = 0.1
#: Time after a push during which velocities are not judged [sqrt(l/g)].
PUSH_RECOVERY_TIME = 12.0
#: Maximum relative error of the velocity, and maximum fraction of ticks without a certified solution.
MAX_VELOCITY_ERROR, MAX_UNCERTIFIED_FRACTION = 0.15, 0.01
#: Deviation of the reference from the command up to which a tick is judged [sqrt(g l)].
STEADY_VELOCITY_TOLERANCE = 1e-3
#: Number of ticks between states stored for `round_trip_error`, and maximum number of these.
SAMPLE_INTERVAL, MAX_SAMPLES = 50, 500
#: Number of ticks between the points of a swing trace.
SWING_TRACE_INTERVAL = 5
#: Normal of level ground.
UP = np.array([0.0, 0.0, 1.0])
STANDING = (LocomotionMode.STANDING, LocomotionMode.MOVING, LocomotionMode.RECOVERING)


class LocomotionRun:
    """Control loop of a quadruped that measures its figures as running values, for runs of any length.

    Args:
        controller: controller of the robot.
        plant: plant of the robot; the period of the controller is a multiple of its time step.
        requested: (3,) requested velocity [m/s, rad/s]. The run is judged by the part that the gait can follow, and
            only by ticks with that velocity.
        time_series: receives each tick; None for none.
        up: (3,) normal of the ground, to which velocities are tangential.

    Attributes:
        ticks: number of ticks.
        rise_time: time at which the robot stood for the first time [s]; None before.
        swing_traces: path of each swing foot since lift-off, points (3,) by foot [m].
        heading: (3, 3) `heading_axes` of the trunk on this ground.
    """

    def __init__(
        self,
        controller: LocomotionController,
        plant: Plant,
        requested: Array,
        time_series: DemoTimeSeries | None = None,
        up: Array = UP,
    ) -> None:
        self.controller, self.plant, self.requested, self.time_series, self.up = (
            controller,
            plant,
            requested,
            time_series,
            up,
        )
        self.clamped, self.limit_reason = (
            controller.clamp_velocity(requested),
            controller.velocity_limit_reason(requested),
        )
        self.robot = robot = controller.robot
        self.dynamics = Dynamics(robot)
        self.heading = np.eye(3)
        self.rise_time: float | None = None
        self.swing_traces: dict[str, list[Array]] = {}
        self._base = robot.bodies[0].name
        self._weight = controller.morphology.mass * controller.morphology.gravity
        self._energy = plant.energy
        self.ticks = self._flagged = self._fallen = self._bad = 0
        self._lowest, self._highest = np.full(robot.nu, np.inf), np.full(robot.nu, -np.inf)
        self._normal, self._height = (np.inf, -np.inf), (np.inf, -np.inf)
        self._carried = self._deviation = self._physics = 0.0
        self._outside = -np.inf
        self._samples: deque[tuple[Array, Array, Array, dict[str, Array]]] = deque(maxlen=MAX_SAMPLES)
        self._recent: deque[Array] = deque()
        self._cycle, self._cycles = np.zeros(3), 0
        self._steady: list[Array] = []
        self._control_time = self._plant_time = 0.0
        self._counts_from = 0.0
        self._jump_monitor: JumpMonitor | None = None
        self._feet = np.zeros((len(FEET), 2))

    def start_jump(self, jump: JumpRequest) -> None:
        """Starts a jump from standing."""
        self._jump_monitor = JumpMonitor(jump, self.controller)
        if self.time_series is not None:
            self.time_series.events.setdefault("jump", []).append(self.plant.time)

    def push(self, force: float) -> None:
        """Pushes the base to the left with a force [N]; velocities are not judged for some time."""
        self.plant.push(self._base, force * self.heading[:, 1], duration=PUSH_TIME)
        self._counts_from = self.plant.time + PUSH_RECOVERY_TIME * self.controller.morphology.time_scale
        if self.time_series is not None:
            self.time_series.events.setdefault("push", []).append(self.plant.time)

    def tick(self, velocity: Array) -> LocomotionCommand:
        """Computes a command, measures, and advances the plant by one control period.

        Args:
            velocity: (3,) velocity command; zero is used until the robot stands.
        """
        plant, controller = self.plant, self.controller
        begin = time.perf_counter()
        s = self.dynamics.update(np.array(plant.q), np.array(plant.v))
        command = controller.compute(s, velocity if self.rise_time is not None else np.zeros(3))
        middle = time.perf_counter()
        if self.rise_time is None and command.mode in STANDING:
            self.rise_time = plant.time
        self._observe(s, command)
        after = time.perf_counter()
        for _ in range(round(controller.dt / plant.dt)):
            plant.step(command.tau)
        self._plant_time += time.perf_counter() - after
        self._control_time += middle - begin
        return command

    def _observe(self, s: State, command: LocomotionCommand) -> None:
        """Updates the measured figures."""
        plant, robot = self.plant, self.robot
        forces, tau = plant.contact_forces, plant.tau
        felt = np.array([forces[foot] for foot in robot.feet])
        x, y, z = self.up.tolist()
        self.heading = heading_axes(self.controller.morphology.yaw(s.q), -x / z, -y / z)
        velocity = np.array([*(self.heading.T @ s.com_velocity)[:2], s.velocity(self._base)[5]])

        self._feet = s.origins(FEET)[:, :2].copy()
        self._fallen += command.mode is LocomotionMode.FALLEN
        self._flagged += not command.ok
        self._bad += plant.status == "inaccurate"
        np.minimum(self._lowest, tau, out=self._lowest)
        np.maximum(self._highest, tau, out=self._highest)
        self._normal = _widened(self._normal, float(felt[:, 2].min()), float(felt[:, 2].max()))
        height = float(s.placement(self._base).translation[2])
        self._height = _widened(self._height, height, height)
        carried = float(felt[:, 2].sum()) / self._weight
        self._carried += carried
        self._deviation = max(self._deviation, abs(carried - 1.0))
        for contact in plant.contacts:
            normal = float(contact.force @ contact.normal)
            tangential = float(np.linalg.norm(contact.force - normal * contact.normal))
            self._outside = max(self._outside, tangential - contact.friction * normal)
        self._average_velocity(command, velocity)
        if self._jump_monitor is not None:
            self._jump_monitor.update(s, command.mode, bool((felt[:, 2] > 0.0).any()))
        self.swing_traces = {foot: self.swing_traces.get(foot, []) for foot in command.swings}
        if self.ticks % SWING_TRACE_INTERVAL == 0:
            for foot, swing in command.swings.items():
                self.swing_traces[foot].append(swing.position.copy())
        whole = command.wbc_command
        if whole is not None:
            load = s.M @ whole.acceleration + s.h
            for name, force in whole.forces.items():
                J = s.jacobian(name)
                lever = -robot.legs[name].foot.radius * self.controller.wbc.contacts[name].normal
                load -= J[:3].T @ force + J[3:].T @ (cross_matrix(lever) @ force)
            self._physics = max(self._physics, float(np.abs(load[:6]).max()))
        if self.ticks % SAMPLE_INTERVAL == 0:
            self._samples.append((s.q.copy(), s.v.copy(), tau, forces))
        if self.time_series is not None:
            self.time_series.add(plant.time, tau, felt, float(s.com[2]), command.reference_velocity, velocity)
        self.ticks += 1

    def _average_velocity(self, command: LocomotionCommand, velocity: Array) -> None:
        """Averages the velocity over whole gait cycles, since the trunk sways within a cycle."""
        clock, controller = self.controller.gait_scheduler, self.controller
        ticks = max(1, round(clock.period / controller.dt))
        self._recent.append(velocity)
        while len(self._recent) > ticks:
            self._recent.popleft()
        steady = command.mode is LocomotionMode.MOVING and clock.phase > 2.0 and self.plant.time >= self._counts_from
        if not (
            steady
            and np.abs(command.reference_velocity - self._clamped_on_ground()).max()
            < STEADY_VELOCITY_TOLERANCE * controller.morphology.speed_scale
        ):
            self._cycle, self._cycles = np.zeros(3), 0
            return
        self._cycle, self._cycles = self._cycle + velocity, self._cycles + 1
        if self._cycles == ticks:
            self._steady.append(self._cycle / ticks)
            self._cycle, self._cycles = np.zeros(3), 0

    def _clamped_on_ground(self) -> Array:
        """Returns the clamped velocity as its horizontal components, which are smaller on slopes."""
        ground = self.controller.ground
        if ground is None:
            return self.clamped
        return np.array(
            [*(ground.compute_projection(self.controller.path_reference.yaw) @ self.clamped[:2]), self.clamped[2]]
        )

    def caption(self, command: LocomotionCommand) -> str:
        """Returns the caption of the page: mode, contacts, velocities, and active limits."""
        clock, whole = self.controller.gait_scheduler, command.wbc_command
        phase = f", phase {clock.phase % 1.0:.2f}" if clock.is_running else ""
        gait = f"{clock.gait.name}: " if clock.is_running else ""
        is_now = np.mean(self._recent, axis=0).tolist()
        shown = "{:+.2f} m/s forward, {:+.2f} to the left, {:+.2f} rad/s"
        touching = dict.fromkeys(c.sphere if c.link is None else c.link for c in self.plant.contacts)
        lines = [
            f"{gait}{command.mode.value}{phase}; on the ground: {' '.join(touching) or 'none'}",
            "commanded (blue): " + shown.format(*command.reference_velocity.tolist()),
            "measured (green): " + shown.format(*is_now),
        ]
        if command.jump_plan is not None:
            lines.insert(1, str(command.jump_plan))
        elif command.is_limited:
            lines.insert(
                1,
                "asked: "
                + shown.format(*command.requested_velocity.tolist())
                + f" ({GAIT_LIMIT_MESSAGE}: {command.limit_reason})",
            )
        if whole is not None:
            active = whole.levels[0].active
            more = f" and {len(active) - 3} more" if len(active) > 3 else ""
            lines.append("at its limit: " + (", ".join(active[:3]) + more if active else "nothing"))
        return "\n".join(lines)

    def _requests(self, *, velocity: bool) -> tuple[RequestedValue, ...]:
        """Returns the nonzero requested values of the velocity, if it was given, and of the jump."""
        rows: list[tuple[str, float, float, str, str]] = []
        if velocity:
            for name, unit, asked, planned in zip(
                ("forward velocity", "leftward velocity", "yaw rate"), ("m/s", "m/s", "rad/s"),
                self.requested.tolist(), self.clamped.tolist(), strict=True,
            ):  # fmt: skip
                rows.append((name, asked, planned, unit, self.limit_reason))
        if self._jump_monitor is not None:
            plan = self._jump_monitor.plan
            height, x, y, turn = plan.requested
            rows += [
                ("height of the jump", height, plan.height, "m", plan.limit_reason),
                ("jump forward", x, float(plan.distance[0]), "m", plan.limit_reason),
                ("jump to the left", y, float(plan.distance[1]), "m", plan.limit_reason),
                ("turn of the jump", turn, plan.turn, "rad", plan.limit_reason),
            ]
        return tuple(RequestedValue(*row) for row in rows if abs(row[1]) > 0.0)  # a height that the plan chose is NaN

    def report(self, gait: str, *, velocity: bool) -> DemoReport:
        """Returns the measured figures and the result of each check.

        Args:
            gait: name of the gait or motion.
            velocity: whether the caller requested a velocity.
        """
        robot, plant, p, ticks = self.robot, self.plant, self.controller.morphology, self.ticks
        checks: dict[str, DemoCheck] = {}

        def check(name: str, value: float, bound: float, unit: str) -> None:
            checks[name] = DemoCheck(float(value), float(bound), bool(value <= bound), unit)

        error, bound = round_trip_error(self.dynamics, list(self._samples))
        check("RNEA(ABA(tau)) relative error", error, bound, "1")
        check("ticks fallen", self._fallen, 0, "1")
        check("equations of motion, base rows", self._physics / self._weight, 1e-8, "m g")
        check("fraction of ticks without certificate", self._flagged / ticks, MAX_UNCERTIFIED_FRACTION, "1")
        check("force outside the friction cone", max(self._outside, 0.0) / self._weight, 1e-3, "m g")
        check("inaccurate steps of the plant", self._bad, 0, "1")
        if self._jump_monitor is not None:
            landing, rise = self._jump_monitor.landing_error(self._feet)
            check("landing error of the feet", landing, MAX_LANDING_ERROR, "l")
            check("relative error of the jump's rise", rise, MAX_RISE_ERROR, "1")
        measured = None
        if len(self._steady) >= 2:
            measured = np.mean(self._steady, axis=0)
            scale = (
                max(float(np.hypot(*self.clamped[:2])), 0.1 * p.speed_scale),
                max(abs(float(self.clamped[2])), 0.1 / p.time_scale),
            )
            miss = np.abs(measured - self.clamped) / [scale[0], scale[0], scale[1]]
            check("relative error of the velocity", miss.max(), MAX_VELOCITY_ERROR, "1")
        return DemoReport(
            robot=robot.name,
            motion=gait,
            seconds=plant.time,
            steps=ticks,
            cpu=cpu_name(),
            steps_per_second=ticks / (self._control_time + self._plant_time),
            plant_steps_per_second=round(self.controller.dt / plant.dt) * ticks / self._plant_time,
            torques=torque_ranges(robot, self._lowest, self._highest),
            normal_force=self._normal,
            weight=self._weight,
            weight_mean=self._carried / ticks,
            weight_deviation=self._deviation,
            base_height=self._height,
            energy_change=float(plant.energy - self._energy),
            work={},
            checks=checks,
            requested_velocity=tuple(self.requested.tolist()),
            clamped_velocity=tuple(self.clamped.tolist()),
            limit_reason=self.limit_reason,
            measured_velocity=None if measured is None else tuple(measured.tolist()),
            jump_summary="" if self._jump_monitor is None else str(self._jump_monitor.plan),
            requests=self._requests(velocity=velocity),
        )


def _widened(bounds: tuple[float, float], low: float, high: float) -> tuple[float, float]:
    """Returns bounds that include `low` and `high`."""
    return min(bounds[0], low), max(bounds[1], high)
