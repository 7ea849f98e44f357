"""`LocomotionRun`: one run of a quadruped, tick by tick, and what is measured of it."""

from __future__ import annotations

import time
from collections import deque

import numpy as np

from ..contact.contact_kinematics import cross_matrix
from ..dynamics import Dynamics, State
from ..locomotion import FEET, GAIT_LIMIT_MESSAGE, LocomotionCommand, LocomotionController, LocomotionMode, heading_axes
from ..simulation import Plant
from ..urdf.tree import Array
from .jump_request import LANDING, RISE, JumpMonitor, JumpRequest
from .report import DemoCheck, DemoReport, RequestedValue, cpu_name, round_trip, torque_ranges
from .time_series import DemoTimeSeries

#: How long a push lasts [s].
PUSH_TIME = 0.1
#: After a push velocities do not count for so long [sqrt(l/g)].
PUSH_RECOVERY_TIME = 12.0
#: Largest miss of the commanded velocity, and share of ticks whose command may lack its certificate.
MISS, FLAGGED = 0.15, 0.01
#: Distance from the velocity that is steered for up to which a tick counts [sqrt(g l)].
SETTLED = 1e-3
#: Every so many ticks a state is kept for `round_trip`; of those the last so many.
EVERY, SAMPLES = 50, 500
#: Every so many ticks a foot's place in the air is kept.
SWING_TRACE_INTERVAL = 5
#: Normal of level ground.
UP = np.array([0.0, 0.0, 1.0])
STANDING = (LocomotionMode.STANDING, LocomotionMode.MOVING, LocomotionMode.RECOVERING)


class LocomotionRun:
    """Controller and plant in a loop, and every figure of it in running numbers: no run is too long.

    Args:
        controller: of the robot.
        plant: that it moves in, with a period of which the controller's is a multiple.
        asked: (3,) velocity that is wanted; the journey is judged by what of it the gait can do, and ticks at other
            velocities do not count.
        time_series: gets every tick.
        up: (3,) normal of the ground; velocities are measured along it.

    Attributes:
        ticks: how many there were.
        rise_time: when it first stood [s], None before.
        swing_traces: ways of the feet in the air from where they took off, (3,) points by foot [m].
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
        self.wanted, self.limit_reason = (
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
        self._samples: deque[tuple[Array, Array, Array, dict[str, Array]]] = deque(maxlen=SAMPLES)
        self._recent: deque[Array] = deque()
        self._cycle, self._cycles = np.zeros(3), 0
        self._steady: list[Array] = []
        self._control_time = self._plant_time = 0.0
        self._counts_from = 0.0
        self._jump_monitor: JumpMonitor | None = None
        self._feet = np.zeros((len(FEET), 2))

    def start_jump(self, leap: JumpRequest) -> None:
        """Let the robot jump from where it stands."""
        self._jump_monitor = JumpMonitor(leap, self.controller)
        if self.time_series is not None:
            self.time_series.events.setdefault("jump", []).append(self.plant.time)

    def push(self, force: float) -> None:
        """Push the base to the left from now on [N]; for a while velocities do not count."""
        self.plant.push(self._base, force * self.heading[:, 1], duration=PUSH_TIME)
        self._counts_from = self.plant.time + PUSH_RECOVERY_TIME * self.controller.morphology.time_scale
        if self.time_series is not None:
            self.time_series.events.setdefault("push", []).append(self.plant.time)

    def tick(self, velocity: Array) -> LocomotionCommand:
        """Control once, measure, and let the plant go on.

        Args:
            velocity: (3,) commanded now; nothing is commanded before it stands.
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
        self._keep_pace(command, velocity)
        if self._jump_monitor is not None:
            self._jump_monitor.see(s, command.mode, bool((felt[:, 2] > 0.0).any()))
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
        if self.ticks % EVERY == 0:
            self._samples.append((s.q.copy(), s.v.copy(), tau, forces))
        if self.time_series is not None:
            self.time_series.add(plant.time, tau, felt, float(s.com[2]), command.reference_velocity, velocity)
        self.ticks += 1

    def _keep_pace(self, command: LocomotionCommand, velocity: Array) -> None:
        """Means of the velocity over whole cycles of the gait: within one the trunk sways."""
        clock, controller = self.controller.gait_scheduler, self.controller
        ticks = max(1, round(clock.period / controller.dt))
        self._recent.append(velocity)
        while len(self._recent) > ticks:
            self._recent.popleft()
        steady = command.mode is LocomotionMode.MOVING and clock.phase > 2.0 and self.plant.time >= self._counts_from
        if not (
            steady
            and np.abs(command.reference_velocity - self._goal()).max() < SETTLED * controller.morphology.speed_scale
        ):
            self._cycle, self._cycles = np.zeros(3), 0
            return
        self._cycle, self._cycles = self._cycle + velocity, self._cycles + 1
        if self._cycles == ticks:
            self._steady.append(self._cycle / ticks)
            self._cycle, self._cycles = np.zeros(3), 0

    def _goal(self) -> Array:
        """The velocity that is wanted as it is steered for: horizontally, less where the ground rises or falls."""
        ground = self.controller.ground
        if ground is None:
            return self.wanted
        return np.array(
            [*(ground.compute_projection(self.controller.path_reference.yaw) @ self.wanted[:2]), self.wanted[2]]
        )

    def caption(self, command: LocomotionCommand) -> str:
        """For the page's corner: what it does, what touches the ground, how well it follows, and what holds it back."""
        clock, whole = self.controller.gait_scheduler, command.wbc_command
        phase = f", phase {clock.phase % 1.0:.2f}" if clock.is_running else ""
        gait = f"{clock.gait.name}: " if clock.is_running else ""
        is_now = np.mean(self._recent, axis=0).tolist()
        shown = "{:+.2f} m/s forward, {:+.2f} to the left, {:+.2f} rad/s"
        touching = dict.fromkeys(c.sphere if c.link is None else c.link for c in self.plant.contacts)
        lines = [
            f"{gait}{command.mode.value}{phase}; on the ground: {' '.join(touching) or 'nobody'}",
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
        """What was asked for, other than 0: of the velocity where the caller gave one, and of the jump."""
        rows: list[tuple[str, float, float, str, str]] = []
        if velocity:
            for name, unit, asked, planned in zip(
                ("forward velocity", "leftward velocity", "yaw rate"), ("m/s", "m/s", "rad/s"),
                self.requested.tolist(), self.wanted.tolist(), strict=True,
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
        """The figures, and the verdict on each.

        Args:
            gait: that it went with.
            velocity: whether the caller asked for one.
        """
        robot, plant, p, ticks = self.robot, self.plant, self.controller.morphology, self.ticks
        checks: dict[str, DemoCheck] = {}

        def check(name: str, value: float, bound: float, unit: str) -> None:
            checks[name] = DemoCheck(float(value), float(bound), bool(value <= bound), unit)

        error, bound = round_trip(self.dynamics, list(self._samples))
        check("RNEA(ABA(tau)) relative error", error, bound, "1")
        check("ticks fallen", self._fallen, 0, "1")
        check("equations of motion, base rows", self._physics / self._weight, 1e-8, "m g")
        check("share of ticks without certificate", self._flagged / ticks, FLAGGED, "1")
        check("force outside the friction cone", max(self._outside, 0.0) / self._weight, 1e-3, "m g")
        check("steps of the plant solved badly", self._bad, 0, "1")
        if self._jump_monitor is not None:
            landing, rise = self._jump_monitor.landing_error(self._feet)
            check("feet from where they were to land", landing, LANDING, "l")
            check("miss of the jump's rise", rise, RISE, "1")
        measured = None
        if len(self._steady) >= 2:
            measured = np.mean(self._steady, axis=0)
            scale = (
                max(float(np.hypot(*self.wanted[:2])), 0.1 * p.speed_scale),
                max(abs(float(self.wanted[2])), 0.1 / p.time_scale),
            )
            miss = np.abs(measured - self.wanted) / [scale[0], scale[0], scale[1]]
            check("miss of the commanded velocity", miss.max(), MISS, "1")
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
            clamped_velocity=tuple(self.wanted.tolist()),
            limit_reason=self.limit_reason,
            measured_velocity=None if measured is None else tuple(measured.tolist()),
            jump_summary="" if self._jump_monitor is None else str(self._jump_monitor.plan),
            requests=self._requests(velocity=velocity),
        )


def _widened(bounds: tuple[float, float], low: float, high: float) -> tuple[float, float]:
    return min(bounds[0], low), max(bounds[1], high)
