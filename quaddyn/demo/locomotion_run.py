"""`LocomotionRun`: one run of a quadruped, tick by tick, with its measured figures.

A `JumpRequest` is a jump requested in the demo; a `JumpMonitor` compares it with its plan.

`parse_terrain` makes a terrain, a slope, stairs or waves, from text.  Teleoperation takes velocity commands from keys
and a gamepad on the page of the viewer, and gains from sliders.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pinocchio as pin

from ..contact.contact_set import cross_matrix
from ..dynamics import State
from ..errors import ArgumentError, UnknownNameError
from ..locomotion import (
    FEET,
    LIMIT_MESSAGE,
    JumpPlan,
    LocomotionCommand,
    LocomotionController,
    LocomotionMode,
    Morphology,
    heading_axes,
)
from ..robot import Robot
from ..simulation import Plant
from ..simulation.terrain import Box, HeightField, Plane, Terrain, stairs
from ..urdf.tree import Array, frozen
from .report import STAND_UP_CHECK, DemoReport, DemoRun, RequestedValue

if TYPE_CHECKING:
    from ..viewer import Viewer


#: Format of each kind of terrain.
KINDS = {
    "slope": "slope=DEGREES[,DIRECTION]: a plane that rises ahead of the robot, or DIRECTION degrees to its left",
    "stairs": "stairs=RISE,TREAD [m]: five steps up to a platform",
    "waves": "waves=HEIGHT,LENGTH [m]: smooth waves, level where the robot starts",
}
#: Number of steps of the stairs, and length of the platform at their top [m].
N_STAIR_STEPS, PLATFORM_LENGTH = 5, 20.0
#: Half the side length of the field of waves [m], and samples per wave length.
WAVES_HALF_SIZE, SAMPLES_PER_WAVE = 8.0, 12


class DemoTerrain(NamedTuple):
    """Terrain of a demo."""

    terrain: Terrain  # surfaces
    tilt: Array  # (3, 3) rotation from level ground to a slope; identity for other terrains


def parse_terrain(text: str, robot: Robot) -> DemoTerrain:
    """Returns the terrain of a specification, ahead of a robot in its home configuration.

    Args:
        text: specification as in `KINDS`, such as "slope=10", "slope=10,180" (downhill), "stairs=0.05,0.3" or
            "waves=0.05,0.6".
        robot: quadruped with a free root.

    Raises:
        UnknownNameError: an unknown kind of terrain.
        ArgumentError: wrong number of values, or a value out of range.
    """
    kind, _, values = text.partition("=")
    if kind not in KINDS:
        raise UnknownNameError("terrain", kind, KINDS)
    try:
        numbers = [float(part) for part in values.split(",")]
    except ValueError:
        numbers = []
    min_count, max_count = (1, 2) if kind == "slope" else (2, 2)
    if not (min_count <= len(numbers) <= max_count and all(map(math.isfinite, numbers))):
        raise ArgumentError(f"terrain: expected {KINDS[kind]}; got {text!r}")
    scales = Morphology.from_robot(robot)
    yaw = scales.yaw(robot.q_home)
    if kind == "slope":
        angle, direction = math.radians(numbers[0]), math.radians(sum(numbers[1:]))
        if not abs(angle) <= math.radians(45.0):
            raise ArgumentError(f"terrain: expected a slope of at most 45 degrees, got {text!r}")
        plane = Plane.slope(angle, heading=yaw + direction)
        return DemoTerrain(Terrain.from_surfaces(plane), plane.tilt)
    height, length = numbers
    if not (0.0 < height <= 2.0 * scales.length and 0.2 * height <= length <= 100.0 * scales.length):
        raise ArgumentError(
            f"terrain: expected {KINDS[kind]}, with HEIGHT at most twice the leg length {scales.length:.2f} m; "
            f"got {text!r}"
        )
    start_distance = float(np.abs(scales.nominal_stance[:, 0]).max()) + 0.5 * scales.length
    if kind == "stairs":
        stairs_end = start_distance + N_STAIR_STEPS * length
        platform_center = stairs_end + 0.5 * PLATFORM_LENGTH
        R = pin.exp3(np.array([0.0, 0.0, yaw]))
        platform = Box(
            R @ (platform_center, 0.0, 0.5 * N_STAIR_STEPS * height),
            np.array([PLATFORM_LENGTH, 4.0, N_STAIR_STEPS * height]),
            R,
        )
        stair_boxes = stairs(N_STAIR_STEPS, rise=height, tread=length, distance=start_distance, heading=yaw)
        return DemoTerrain(Terrain.from_surfaces([Plane.floor(), *stair_boxes, platform]), frozen(np.eye(3)))

    def waves(x: Array, y: Array) -> Array:
        amplitude_scale = np.clip((np.hypot(x, y) - start_distance) / length, 0.0, 1.0)
        wave_number = 2.0 * math.pi / length
        return np.asarray(0.5 * height * amplitude_scale * np.sin(wave_number * x) * np.cos(wave_number * y))

    half_size = max(WAVES_HALF_SIZE, 10.0 * scales.length)
    field = HeightField.from_function(
        waves,
        (-half_size, half_size),
        (-half_size, half_size),
        spacing=max(length / SAMPLES_PER_WAVE, half_size / 500.0),
    )
    return DemoTerrain(Terrain.from_surfaces(field), frozen(np.eye(3)))


#: Direction of each key: forward, leftward, turning left.
DIRECTIONS = {
    "KeyW": (1.0, 0.0, 0.0),
    "ArrowUp": (1.0, 0.0, 0.0),
    "KeyS": (-1.0, 0.0, 0.0),
    "ArrowDown": (-1.0, 0.0, 0.0),
    "KeyQ": (0.0, 1.0, 0.0),
    "KeyE": (0.0, -1.0, 0.0),
    "KeyA": (0.0, 0.0, 1.0),
    "ArrowLeft": (0.0, 0.0, 1.0),
    "KeyD": (0.0, 0.0, -1.0),
    "ArrowRight": (0.0, 0.0, -1.0),
}
#: Forward and lateral speed [sqrt(g l)] and yaw rate [sqrt(g / l)] of a key, and their factor with shift.
KEY_SPEEDS, SHIFT_FACTOR = (0.25, 0.2, 0.12), 1.5
HELP = "W S or up down: along; A D or left right: turn; Q E: sideways; shift: faster; or a gamepad"
#: Tasks of whole-body control by their title on the page, and limits of the scales of stiffness and damping.
TASKS = {"height": ("com",), "attitude of the trunk": ("base",), "feet in the air": FEET}
MIN_STIFFNESS_SCALE, MAX_STIFFNESS_SCALE, MIN_DAMPING_SCALE, MAX_DAMPING_SCALE = 0.25, 4.0, 0.3, 2.0


def velocity_from_keys(
    keys: Collection[str], proportions: Morphology, axes: tuple[float, float, float] = (0.0, 0.0, 0.0)
) -> Array | None:
    """Returns the velocity command (3,) of pressed keys and gamepad sticks; None without either.

    Opposite keys cancel, and two keys for the same direction count once. A stick at its end counts as a key with shift;
    sticks add to keys.

    Args:
        keys: pressed keys.
        proportions: scales of the robot.
        axes: gamepad stick deflections forward, leftward and turning left, -1 to 1.

    Returns:
        Forward and leftward velocity [m/s] and yaw rate [rad/s], or None.
    """
    directions = [DIRECTIONS[key] for key in keys if key in DIRECTIONS]
    if not directions and not any(axes):
        return None
    pressed = np.array(directions, dtype=np.float64).reshape(-1, 3).sum(axis=0)
    fraction = np.clip(pressed, -1.0, 1.0) * (SHIFT_FACTOR if "ShiftLeft" in keys else 1.0)
    fraction = np.clip(fraction + SHIFT_FACTOR * np.array(axes), -SHIFT_FACTOR, SHIFT_FACTOR)
    p = proportions
    return np.asarray(
        fraction
        * np.array([KEY_SPEEDS[0] * p.speed_scale, KEY_SPEEDS[1] * p.speed_scale, KEY_SPEEDS[2] / p.time_scale])
    )


class GainSliders:
    """Sliders for the gains of whole-body control.

    Args:
        controller: controller whose gains are scaled, from their present values on.
        viewer: viewer whose page has the sliders.
    """

    def __init__(self, controller: LocomotionController, viewer: Viewer) -> None:
        self._tasks = controller.wbc.tasks
        names = [name for group in TASKS.values() for name in group]
        self._initial_gains = {name: (self._tasks[name].stiffness, self._tasks[name].damping) for name in names}
        for task_group in TASKS:
            viewer.add_slider(
                _stiffness_slider(task_group), MIN_STIFFNESS_SCALE, MAX_STIFFNESS_SCALE, 1.0, unit="x", group="gains"
            )
            viewer.add_slider(
                _damping_slider(task_group), MIN_DAMPING_SCALE, MAX_DAMPING_SCALE, 1.0, unit="x critical", group="gains"
            )
        self._last_values = viewer.sliders

    def apply(self, sliders: Mapping[str, float]) -> None:
        """Sets the gains of all tasks if a slider has changed.

        Args:
            sliders: scale of stiffness or damping by slider name, dimensionless.
        """
        if sliders == self._last_values:
            return
        self._last_values = dict(sliders)
        for group, names in TASKS.items():
            stiffness_scale, damping_scale = sliders[_stiffness_slider(group)], sliders[_damping_slider(group)]
            for name in names:
                kp, kd = self._initial_gains[name]
                self._tasks[name].gains(stiffness_scale * kp, damping_scale * np.sqrt(stiffness_scale) * kd)


def _stiffness_slider(group: str) -> str:
    """Returns the name of the stiffness slider of a group of tasks."""
    return f"{group}: stiffness"


def _damping_slider(group: str) -> str:
    """Returns the name of the damping slider of a group of tasks."""
    return f"{group}: damping"


#: Maximum landing error of the feet [leg lengths], and maximum relative error of the rise.
MAX_LANDING_ERROR, MAX_RISE_ERROR = 0.1, 0.15


class JumpRequest(NamedTuple):
    """Requested jump.

    Attributes:
        height: rise of the center of mass [m]; None: chosen by the plan.
        forward: distance forward [m].
        turn: turn to the left [rad].
    """

    height: float | None
    forward: float
    turn: float

    @staticmethod
    def parse(text: str) -> JumpRequest:
        """Returns the jump of ``HEIGHT[,FORWARD[,DEGREES]]``, such as ``0.15`` or ``0,0.3,45``.

        Args:
            text: specification [m, m, degrees]; with height 0 the plan chooses the height.

        Raises:
            ArgumentError: the text has another format.
        """
        try:
            numbers = [float(part) for part in text.split(",")]
        except ValueError:
            numbers = []
        if not (1 <= len(numbers) <= 3 and all(map(math.isfinite, numbers)) and numbers[0] >= 0.0):
            raise ArgumentError(
                "jump: expected HEIGHT[,FORWARD[,DEGREES]], such as 0.15 or 0,0.3,45 (height 0: the plan chooses the "
                f"height), got {text!r}"
            )
        height, forward, degrees = (*numbers, 0.0, 0.0)[:3]
        return JumpRequest(height or None, forward, math.radians(degrees))

    def plan(self, controller: LocomotionController) -> JumpPlan:
        """Returns the jump plan of a controller."""
        return controller.plan_jump(height=self.height, distance=(self.forward, 0.0), turn=self.turn)


class JumpMonitor:
    """Measurement of a jump, from the tick that starts it, for comparison with its plan.

    Raises:
        ArgumentError: the jump is infeasible in the present state.
    """

    def __init__(self, request: JumpRequest, controller: LocomotionController) -> None:
        ground, path = controller.ground, controller.path_reference
        self.plan = controller.jump(height=request.height, distance=(request.forward, 0.0), turn=request.turn)
        assert ground is not None
        self._morphology, self._start_position, self._start_yaw = (
            controller.morphology,
            ground.points[:, :2].mean(axis=0),
            path.yaw,
        )
        self._liftoff_height: float | None = None
        self._max_height = -math.inf

    def update(self, state: State, mode: LocomotionMode, in_contact: bool) -> None:
        """Records the height of the center of mass at one tick.

        Args:
            state: measured state.
            mode: mode of the controller.
            in_contact: whether any foot is in contact.
        """
        if mode in (LocomotionMode.JUMPING, LocomotionMode.AIRBORNE):
            height = float(state.com[2])
            if self._liftoff_height is None or (in_contact and mode is LocomotionMode.JUMPING):
                self._liftoff_height = self._max_height = height
            self._max_height = max(self._max_height, height)

    def landing_error(self, feet: Array) -> tuple[float, float]:
        """Returns the landing error of the center of the feet (4, 2) [leg lengths] and the relative rise error."""
        c, s = math.cos(self._start_yaw), math.sin(self._start_yaw)
        goal = self._start_position + np.array([[c, -s], [s, c]]) @ self.plan.distance
        rise = 0.0 if self._liftoff_height is None else self._max_height - self._liftoff_height
        distance = float(np.linalg.norm(feet[: len(FEET)].mean(axis=0) - goal))
        return distance / self._morphology.length, abs(rise / self.plan.height - 1.0)


#: Duration of a push [s].
PUSH_TIME = 0.1
#: Time after a push during which the velocity is not averaged [sqrt(l/g)].
PUSH_RECOVERY_TIME = 12.0
#: Maximum relative error of the velocity, and maximum fraction of ticks without a certified solution.
MAX_VELOCITY_ERROR, MAX_UNCERTIFIED_FRACTION = 0.15, 0.01
#: Maximum time to stand up [sqrt(l/g)], of which the planned motion takes 6; and fraction of the distance from the
#: initial height of the base to that at home above which the robot stands.
MAX_RISE_TIME, MIN_RISE_FRACTION = 12.0, 0.5
#: Time for which a velocity is commanded before the covered distance is checked [sqrt(l/g)], and minimum fraction of
#: the commanded distance; a robot that accelerates covers less than all of it.
MIN_COMMANDED_TIME, MIN_DISTANCE_FRACTION = 12.0, 0.4
#: Maximum deviation of the reference from the command in ticks whose velocity is averaged [sqrt(g l)].
STEADY_VELOCITY_TOLERANCE = 1e-3
#: Number of ticks between the points of a swing trace.
SWING_TRACE_INTERVAL = 5
#: Normal of level ground.
UP = np.array([0.0, 0.0, 1.0])
STANDING = (LocomotionMode.STANDING, LocomotionMode.MOVING, LocomotionMode.RECOVERING)


class LocomotionRun(DemoRun):
    """Control loop of a quadruped that measures its figures as running values, with bounded memory.

    Args:
        controller: controller of the robot.
        plant: plant of the robot; the period of the controller is a multiple of its time step.
        requested: (3,) requested velocity [m/s, rad/s]. The measured velocity is compared with its clamped
            value, over ticks in which that is the reference.
        viewer: viewer that shows the run; None for none.
        up: (3,) normal of the ground, to which velocities are tangential.

    Attributes:
        command: last command of the controller.
        rise_time: time at which the robot stood for the first time, with its base raised [s]; None before.
        swing_traces: path of each swing foot since lift-off, points (3,) by foot [m].
        heading: (3, 3) `heading_axes` of the trunk on this ground.
    """

    def __init__(
        self,
        controller: LocomotionController,
        plant: Plant,
        requested: Array,
        viewer: Viewer | None = None,
        up: Array = UP,
    ) -> None:
        super().__init__(plant, controller.robot.feet, viewer)
        self.controller = controller
        self.requested = requested
        self.up = up
        self.clamped = controller.clamp_velocity(requested)
        self.limit_reason = controller.velocity_limit_reason(requested)
        self.command: LocomotionCommand
        self.heading = np.eye(3)
        self.rise_time: float | None = None
        self.swing_traces: dict[str, list[Array]] = {}
        self._base = self.robot.bodies[0].name
        self._uncertified_ticks = self._fallen_ticks = self._inaccurate_steps = 0
        self._max_base_residual, self._max_cone_violation = 0.0, -np.inf
        home, start = (
            self._base_height(self.dynamics.update(np.array(q), np.zeros(self.robot.nv)))
            for q in (self.robot.q_home, plant.q)
        )
        self._min_stand_height = start + MIN_RISE_FRACTION * max(home - start, 0.0)
        self._recent_velocities: deque[Array] = deque()
        self._cycle_velocity_sum, self._cycle_ticks = np.zeros(3), 0
        self._cycle_velocities: list[Array] = []
        self._walking_velocity_sum, self._walking_ticks = np.zeros(3), 0
        self._commanded_velocity_sum, self._commanded_ticks = np.zeros(3), 0
        self._averaging_start = 0.0
        self._jump_monitor: JumpMonitor | None = None
        self._foot_positions = np.zeros((len(FEET), 2))

    def start_jump(self, jump: JumpRequest) -> None:
        """Starts a jump from standing."""
        self._jump_monitor = JumpMonitor(jump, self.controller)
        self.time_series.events.setdefault("jump", []).append(self.plant.time)

    def push(self, force: float) -> None:
        """Pushes the base to the left with a force [N], and suspends the averaging of velocities for a while."""
        self.plant.push(self._base, force * self.heading[:, 1], duration=PUSH_TIME)
        self._averaging_start = self.plant.time + PUSH_RECOVERY_TIME * self.controller.morphology.time_scale
        self.time_series.events.setdefault("push", []).append(self.plant.time)

    def tick(self, velocity: Array, external: Mapping[str, Array] | None = None) -> LocomotionCommand:
        """Computes a command, updates the measured figures, and advances the plant by one control period.

        Args:
            velocity: (3,) velocity command; zero is used until the robot stands.
            external: forces on the robot during the tick, see `Plant.step`.
        """
        plant, controller = self.plant, self.controller
        control_start = time.perf_counter()
        s = self.dynamics.update(np.array(plant.q), np.array(plant.v))
        is_commanded = self.rise_time is not None and np.array_equal(velocity, self.requested)
        self.command = command = controller.compute(s, velocity if self.rise_time is not None else np.zeros(3))
        control_end = time.perf_counter()
        if self.rise_time is None and command.mode in STANDING and self._base_height(s) >= self._min_stand_height:
            self.rise_time = plant.time
        self._observe(s, command, is_commanded)
        plant_start = time.perf_counter()
        for _ in range(round(controller.dt / plant.dt)):
            plant.step(command.tau, external=external)
        self.plant_time += time.perf_counter() - plant_start
        self.control_time += control_end - control_start
        return command

    def _observe(self, s: State, command: LocomotionCommand, is_commanded: bool) -> None:
        """Updates the measured figures by the state before a step and the command for it.

        Args:
            s: state before the step.
            command: command for the step.
            is_commanded: whether the command follows the requested velocity.
        """
        plant, robot = self.plant, self.robot
        x, y, z = self.up.tolist()
        self.heading = heading_axes(self.controller.morphology.yaw(s.q), -x / z, -y / z)
        velocity = np.array([*(self.heading.T @ s.com_velocity)[:2], s.velocity(self._base)[5]])
        foot_forces = self.observe(s, command.reference_velocity, velocity)
        if is_commanded:
            self._commanded_velocity_sum, self._commanded_ticks = (
                self._commanded_velocity_sum + velocity,
                self._commanded_ticks + 1,
            )
        self._foot_positions = s.origins(FEET)[:, :2].copy()
        self._fallen_ticks += command.mode is LocomotionMode.FALLEN
        self._uncertified_ticks += not command.ok
        self._inaccurate_steps += plant.status == "inaccurate"
        for contact in plant.contacts:
            normal = float(contact.force @ contact.normal)
            tangential = float(np.linalg.norm(contact.force - normal * contact.normal))
            self._max_cone_violation = max(self._max_cone_violation, tangential - contact.friction * normal)
        self._average_velocity(command, velocity)
        if self._jump_monitor is not None:
            self._jump_monitor.update(s, command.mode, bool((foot_forces[:, 2] > 0.0).any()))
        if self.ticks % SWING_TRACE_INTERVAL == 1:  # the swings of every tick would take as long as the tick itself
            self.swing_traces = {foot: self.swing_traces.get(foot, []) for foot in command.swings}
            for foot, swing in command.swings.items():
                self.swing_traces[foot].append(swing.position.copy())
        wbc_command = command.wbc_command
        if wbc_command is not None:
            force_balance = s.M @ wbc_command.acceleration + s.h
            for name, force in wbc_command.forces.items():
                J = s.jacobian(name)
                contact_offset = -robot.legs[name].foot.radius * self.controller.wbc.contacts[name].normal
                force_balance -= J[:3].T @ force + J[3:].T @ (cross_matrix(contact_offset) @ force)
            self._max_base_residual = max(self._max_base_residual, float(np.abs(force_balance[:6]).max()))

    def _average_velocity(self, command: LocomotionCommand, velocity: Array) -> None:
        """Averages the velocity over whole gait cycles, since the trunk sways within a cycle."""
        scheduler, controller = self.controller.gait_scheduler, self.controller
        ticks_per_cycle = max(1, round(scheduler.period / controller.dt))
        self._recent_velocities.append(velocity)
        while len(self._recent_velocities) > ticks_per_cycle:
            self._recent_velocities.popleft()
        is_steady = (
            command.mode is LocomotionMode.MOVING and scheduler.phase > 2.0 and self.plant.time >= self._averaging_start
        )
        if is_steady:
            self._walking_velocity_sum += velocity
            self._walking_ticks += 1
        if not (
            is_steady
            and np.abs(command.reference_velocity - self._clamped_on_ground()).max()
            < STEADY_VELOCITY_TOLERANCE * controller.morphology.speed_scale
        ):
            self._cycle_velocity_sum, self._cycle_ticks = np.zeros(3), 0
            return
        self._cycle_velocity_sum, self._cycle_ticks = self._cycle_velocity_sum + velocity, self._cycle_ticks + 1
        if self._cycle_ticks == ticks_per_cycle:
            self._cycle_velocities.append(self._cycle_velocity_sum / ticks_per_cycle)
            self._cycle_velocity_sum, self._cycle_ticks = np.zeros(3), 0

    def _clamped_on_ground(self) -> Array:
        """Returns the clamped velocity as its horizontal components, which are smaller on slopes."""
        ground = self.controller.ground
        if ground is None:
            return self.clamped
        return np.array(
            [*(ground.compute_projection(self.controller.path_reference.yaw) @ self.clamped[:2]), self.clamped[2]]
        )

    def _base_height(self, s: State) -> float:
        """Returns the height of the base along the normal of the ground [m]."""
        return float(self.up @ s.placement(self._base).translation)

    def _stand_up_time(self) -> float | None:
        """Returns the time to stand up, or that of the run if the robot did not [s]; None if the run was too short."""
        is_short = self.plant.time <= MAX_RISE_TIME * self.controller.morphology.time_scale
        return self.plant.time if self.rise_time is None and not is_short else self.rise_time

    def _missing_distance(self) -> float | None:
        """Returns the fraction of the commanded distance, or of the turn on the spot, that the robot did not cover.

        None without a command, with a jump, or if the time of the command was too short.
        """
        which = slice(0, 2) if self.clamped[:2].any() else slice(2, 3)
        commanded, time = self._clamped_on_ground()[which], self._commanded_ticks * self.controller.dt
        min_time = MIN_COMMANDED_TIME * self.controller.morphology.time_scale
        if not commanded.any() or self._jump_monitor is not None or time < min_time:
            return None
        mean = (self._commanded_velocity_sum / self._commanded_ticks)[which]
        return 1.0 - float(mean @ commanded) / float(commanded @ commanded)

    def caption(self, command: LocomotionCommand) -> str:
        """Returns the caption of the viewer page: mode, contacts, velocities, and active limits."""
        scheduler, wbc_command = self.controller.gait_scheduler, command.wbc_command
        phase = f", phase {scheduler.phase % 1.0:.2f}" if scheduler.is_running else ""
        gait = f"{scheduler.gait.name}: " if scheduler.is_running else ""
        mean_velocity = np.mean(self._recent_velocities, axis=0).tolist()
        velocity_format = "{:+.2f} m/s forward, {:+.2f} to the left, {:+.2f} rad/s"
        contacts = dict.fromkeys(c.sphere if c.link is None else c.link for c in self.plant.contacts)
        lines = [
            f"{gait}{command.mode.value}{phase}; on the ground: {' '.join(contacts) or 'none'}",
            "commanded (blue): " + velocity_format.format(*command.reference_velocity.tolist()),
            "measured (green): " + velocity_format.format(*mean_velocity),
        ]
        if command.jump_plan is not None:
            lines.insert(1, str(command.jump_plan))
        elif command.is_limited:
            lines.insert(
                1,
                "requested: "
                + velocity_format.format(*command.requested_velocity.tolist())
                + f" ({LIMIT_MESSAGE}: {command.limit_reason})",
            )
        if wbc_command is not None:
            active = wbc_command.levels[0].active
            more = f" and {len(active) - 3} more" if len(active) > 3 else ""
            lines.append("at its limit: " + (", ".join(active[:3]) + more if active else "nothing"))
        return "\n".join(lines)

    def requested_values(self, plan: JumpPlan | None, *, velocity: bool) -> tuple[RequestedValue, ...]:
        """Returns the nonzero requested values.

        Args:
            plan: plan of the jump; None without a jump.
            velocity: whether the caller requested a velocity.
        """
        rows: list[tuple[str, float, float, str, str]] = []
        if velocity:
            for name, unit, requested, planned in zip(
                ("forward velocity", "leftward velocity", "yaw rate"), ("m/s", "m/s", "rad/s"),
                self.requested.tolist(), self.clamped.tolist(), strict=True,
            ):  # fmt: skip
                rows.append((name, requested, planned, unit, self.limit_reason))
        if plan is not None:
            height, x, y, turn = plan.requested
            rows += [
                ("height of the jump", height, plan.height, "m", plan.limit_reason),
                ("jump forward", x, float(plan.distance[0]), "m", plan.limit_reason),
                ("jump to the left", y, float(plan.distance[1]), "m", plan.limit_reason),
                ("turn of the jump", turn, plan.turn, "rad", plan.limit_reason),
            ]
        return tuple(RequestedValue(*row) for row in rows if abs(row[1]) > 0.0)  # a height chosen by the plan is NaN

    def report(self, gait: str, *, velocity: bool) -> DemoReport:
        """Returns the measured figures and the result of each check.

        Args:
            gait: name of the gait or motion.
            velocity: whether the caller requested a velocity.
        """
        morphology, check = self.controller.morphology, self.check
        plan = None if self._jump_monitor is None else self._jump_monitor.plan
        self.check_round_trip()
        check("ticks fallen", self._fallen_ticks, 0, "1")
        check("equations of motion, base rows", self._max_base_residual / self.weight, 1e-8, "m g")
        check(
            "fraction of ticks without certificate", self._uncertified_ticks / self.ticks, MAX_UNCERTIFIED_FRACTION, "1"
        )
        check("force outside the friction cone", max(self._max_cone_violation, 0.0) / self.weight, 1e-3, "m g")
        check("inaccurate steps of the plant", self._inaccurate_steps, 0, "1")
        if (stand_up_time := self._stand_up_time()) is not None:
            check(STAND_UP_CHECK, stand_up_time, MAX_RISE_TIME * morphology.time_scale, "s")
        if (missing := self._missing_distance()) is not None:
            check("missing fraction of the commanded distance", missing, 1.0 - MIN_DISTANCE_FRACTION, "1")
        if self._jump_monitor is not None:
            landing_error, rise_error = self._jump_monitor.landing_error(self._foot_positions)
            check("landing error of the feet", landing_error, MAX_LANDING_ERROR, "l")
            check("relative error of the jump's rise", rise_error, MAX_RISE_ERROR, "1")
        measured = None
        if len(self._cycle_velocities) >= 2:
            measured = np.mean(self._cycle_velocities, axis=0)
            scale = (
                max(float(np.hypot(*self.clamped[:2])), 0.1 * morphology.speed_scale),
                max(abs(float(self.clamped[2])), 0.1 / morphology.time_scale),
            )
            relative_error = np.abs(measured - self.clamped) / [scale[0], scale[0], scale[1]]
            check("relative error of the velocity", relative_error.max(), MAX_VELOCITY_ERROR, "1")
        return self.make_report(
            gait,
            work={},
            requested_velocity=tuple(self.requested.tolist()),
            clamped_velocity=tuple(self.clamped.tolist()),
            limit_reason=self.limit_reason,
            measured_velocity=None if measured is None else tuple(measured.tolist()),
            mean_velocity=tuple((self._walking_velocity_sum / self._walking_ticks).tolist())
            if self._walking_ticks * self.controller.dt >= self.controller.gait_scheduler.period
            else None,
            jump_summary="" if plan is None else str(plan),
            requests=self.requested_values(plan, velocity=velocity),
        )
