"""`run_trial`: simulates one `Trial` under its controller and evaluates the run."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from ..compiler import silence_messages
from ..deprecation import renamed_names
from ..dynamics import Dynamics, State
from ..errors import DivergenceError
from ..locomotion import LocomotionCommand, LocomotionController, LocomotionMode, Morphology, heading_axes
from ..robot import Robot
from ..simulation import Plant
from ..urdf.tree import Array
from .campaign import Record
from .trial import Trial
from .trial_setup import TrialSetup, make_trial_setup
from .worker import case_rng, load_cached_robot

#: Callback with the plant before each tick and the command of the controller.
Watch = Callable[[Plant, LocomotionCommand], object]
#: Force above which a foot is in contact, as a fraction of the weight.
CONTACT_WEIGHT_FRACTION = 0.02
#: Time from which the velocity is commanded [s].
COMMAND_START_TIME = 0.3
#: Time for which a run continues after a fall on slippery ground [s].
FALL_OBSERVATION_TIME = 1.0


def run_trial(case: Trial, watch: Watch | None = None) -> Record:
    """Runs one trial: simulates the robot of a case under its controller and evaluates the run.

    Args:
        case: the trial.
        watch: called before each control tick with the plant and the controller's command; None: not called.

    Returns:
        The record of the trial:

        - "success", and "reason" of a failure (None for a success); "fell", time of a fall [s] or None.
        - "vx", "vy" [m/s], "wz" [rad/s]: mean velocity in the heading frame, along the ground on slopes and stairs.
        - "ahead": distance covered, if the trial has a `course_interval` [m].
        - "velocity_ratio": velocity along the command divided by the commanded speed; "velocity_error": largest
          difference from the command in any component, in units of the trial (both None without a command or after a
          fall).
        - "flagged": fraction of ticks without a certified solution.
        - "torque": largest ratio of a motor torque to its limit; "torque_rms" [N m].
        - "power", "power_peak": mean and peak of the positive mechanical power of all motors [W]; "cost": cost of
          transport, mean power over weight times speed.
        - "predicted_slope_limit": result of `LocomotionController.slope_limit_reason` for the slope and its friction
          before the run, "" for no limit (None on other terrain).
        - "peak_motor_power": largest power of one motor over a control period after a drop of the friction, a fall
          included [m g sqrt(g l)] (None without such a drop).
        - "allowed_fraction": mean fraction of the commanded velocity that the controller admitted (None without a
          command); "limit_reason": the last reason of the controller for a reduction, "" for none.
    """
    setup = make_trial_setup(case, load_cached_robot(case.robot), case_rng(case.seed, case.number))
    evaluation = RunEvaluation(case, setup.plant, setup.controller.morphology)
    if case.slope:
        slope_arguments = case.slope, case.slope_direction, case.velocity
        evaluation.predicted_slope_limit = setup.controller.slope_limit_reason(*slope_arguments, friction=case.friction)
    with silence_messages(), gc_disabled():
        try:
            return _simulate(case, setup, evaluation, watch)
        except DivergenceError:
            return evaluation.record(setup.plant.time, "the plant diverged")


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Context without garbage collection, which takes 10 % of the time, while trials make no cyclic garbage."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _simulate(case: Trial, setup: TrialSetup, evaluation: RunEvaluation, watch: Watch | None) -> Record:
    """Simulates the run, evaluates it in `evaluation`, and returns its record."""
    plant, controller, robot = setup.plant, setup.controller, setup.robot
    dynamics, contact_threshold = (
        Dynamics(robot),
        CONTACT_WEIGHT_FRACTION * plant.robot.mass * controller.morphology.gravity,
    )
    stance_feet: tuple[str, ...] = tuple(robot.feet)
    was_pushed, has_dropped = not case.push, False
    fall: tuple[float, str] | None = None
    for k in range(round(case.seconds / case.dt)):
        t = k * case.dt
        if case.slip_friction:
            has_dropped, plant.friction = friction_at(case, t)
        if not was_pushed and t >= case.push_time - 1e-9:
            was_pushed = True
            push_angle = controller.morphology.yaw(plant.q) + case.push_direction
            force = (
                plant.robot.mass
                * case.push
                / case.push_duration
                * np.array([math.cos(push_angle), math.sin(push_angle), 0.0])
            )
            plant.push(robot.bodies[0].name, force, duration=case.push_duration)
        q, v = np.array(plant.q), np.array(plant.v)
        if setup.sensors is not None and setup.estimator is not None:
            reading = setup.sensors.read(plant)
            setup.estimator.update(
                np.array(reading.position),
                np.array(reading.velocity),
                np.array(reading.gyro),
                np.array(reading.accelerometer),
                stance_feet,
            )
            q, v = setup.estimator.odometry()
        measured_contacts = None
        if setup.has_foot_sensors and k:
            forces = plant.contact_forces
            measured_contacts = [foot for foot in robot.feet if forces[foot][2] > contact_threshold]
        command = controller.compute(dynamics.update(q, v), velocity_at(case, t), measured_contacts=measured_contacts)
        stance_feet = command.contacts
        if watch is not None:
            watch(plant, command)
        if command.mode is LocomotionMode.FALLEN and fall is None:
            fall = t, evaluation.describe_fall(controller)
        if fall is not None and (not has_dropped or t >= fall[0] + FALL_OBSERVATION_TIME):
            break
        previous_velocity = np.array(plant.v)
        plant.step(command.tau)
        if has_dropped:
            evaluation.add_motor_power(previous_velocity)
        if fall is None:
            evaluation.add(command)
            if evaluation.passed:
                return evaluation.record(None, None)
    if fall is not None:
        return evaluation.record(*fall)
    return evaluation.record(None, None if case.course_interval is None else "did not reach the end in time")


def friction_at(case: Trial, t: float) -> tuple[bool, float]:
    """Returns whether the friction of the ground has changed before time t [s], and the friction coefficient at t."""
    has_dropped = bool(case.slip_friction) and t >= case.slip_time - 1e-9
    is_over = bool(case.slip_duration) and t >= case.slip_time + case.slip_duration - 1e-9
    return has_dropped, case.slip_friction if has_dropped and not is_over else case.friction


def velocity_at(case: Trial, t: float) -> tuple[float, float, float]:
    """Returns the velocity that is commanded at time t [s]: forward, leftward [m/s], yaw rate [rad/s]."""
    return case.velocity if t > COMMAND_START_TIME else (0.0, 0.0, 0.0)


class EvaluatedPlant(Protocol):
    """Plant of a run: its robot, present state, and motor torques of the last step, see `Plant`."""

    @property
    def robot(self) -> Robot:
        """The simulated robot."""

    @property
    def q(self) -> Array:
        """Configuration (nq,)."""

    @property
    def v(self) -> Array:
        """Velocity (nv,)."""

    @property
    def tau(self) -> Array:
        """Motor torques (nu,) [N m or N]."""


class EvaluatedCommand(Protocol):
    """Command of a tick, see `LocomotionCommand`."""

    @property
    def ok(self) -> bool:
        """Whether all constraints are satisfied."""

    @property
    def requested_velocity(self) -> Array:
        """Velocity (3,) before clamping [m/s, rad/s]."""

    @property
    def clamped_velocity(self) -> Array:
        """Velocity (3,) after clamping [m/s, rad/s]."""

    @property
    def limit_reason(self) -> str:
        """Reason for the difference; "" without one."""


class RunEvaluation:
    """Evaluation of a run: running sums of velocities, torques, powers and limits.

    Args:
        case: the trial.
        plant: the plant in its initial state.
        morphology: proportions of the controller's robot.
    """

    def __init__(self, case: Trial, plant: EvaluatedPlant, morphology: Morphology) -> None:
        self.case, self.plant, self.proportions = case, plant, morphology
        self._dynamics = Dynamics(plant.robot)
        self._limits, self._index = plant.robot.effort_limits, plant.robot.actuated_index
        self._displacement, self._last_pose = np.zeros(3), (np.zeros(3), 0.0)
        self._ticks = self._uncertified_ticks = self._evaluated_ticks = 0
        self._max_torque_fraction = self._mean_square_sum = self._power_sum = self._peak_power = (
            self._peak_motor_power
        ) = 0.0
        self._commanded_ticks, self._allowed_sum, self._limit_reason = 0, 0.0, ""
        self.predicted_slope_limit: str | None = None
        self.passed, self._distance = False, 0.0
        yaw = self.proportions.yaw(plant.q)
        self._forward_direction, self._origin = np.array([math.cos(yaw), math.sin(yaw)]), self._com()
        gradient, uphill = math.tan(case.slope), case.slope_direction + yaw
        if case.stairs:
            gradient, uphill = case.stairs / case.tread, yaw
        self._ground_gradient = gradient * math.cos(uphill), gradient * math.sin(uphill)
        # Velocities are differences over the last `averaging_time` seconds.
        self._first_evaluated_tick = round(case.seconds / case.dt) - round(case.averaging_time / case.dt)

    def add(self, command: EvaluatedCommand) -> None:
        """Adds one tick, after the step of the plant."""
        self._ticks += 1
        self._uncertified_ticks += not command.ok
        if command.requested_velocity.any():
            self._commanded_ticks += 1
            self._allowed_sum += float(command.clamped_velocity @ command.requested_velocity) / float(
                command.requested_velocity @ command.requested_velocity
            )
            self._limit_reason = command.limit_reason or self._limit_reason
        if self.case.course_interval is None:
            if self._ticks < self._first_evaluated_tick:
                return
            com = self._com()
        else:
            com = self._com()
            self._distance = float(self._forward_direction @ (com - self._origin)[:2])
            begin, end = self.case.course_interval
            if self._distance < begin and not self._evaluated_ticks:
                return
            if not self._evaluated_ticks:  # limits on the approach are not evaluated
                self._commanded_ticks, self._allowed_sum = 0, 0.0
            self.passed = self._distance >= end
        plant = self.plant
        yaw = self.proportions.yaw(plant.q)
        if self._evaluated_ticks:
            last_com, last_yaw = self._last_pose
            displacement, turn = com - last_com, math.remainder(yaw - last_yaw, 2.0 * math.pi)
            gradient_x, gradient_y = self._ground_gradient
            displacement[2] = (
                gradient_x * displacement[0] + gradient_y * displacement[1]
            )  # along the ground, without the vertical motion of the trunk
            x, y, _ = heading_axes(last_yaw, gradient_x, gradient_y).T @ displacement
            self._displacement += [x, y, turn]
        self._last_pose = com, yaw
        self._evaluated_ticks += 1
        tau = plant.tau
        power = float(np.maximum(tau * plant.v[self._index], 0.0).sum())
        self._max_torque_fraction = max(self._max_torque_fraction, float((np.abs(tau) / self._limits).max()))
        self._mean_square_sum += float(tau @ tau) / len(tau)
        self._power_sum += power
        self._peak_power = max(self._peak_power, power)

    def add_motor_power(self, before: Array) -> None:
        """Adds the mechanical work of each motor in one step; `before` is the velocity (nv,) at its start."""
        plant, p = self.plant, self.proportions
        work = plant.tau * 0.5 * (before + plant.v)[self._index]
        self._peak_motor_power = max(
            self._peak_motor_power, float(work.max()) / (plant.robot.mass * p.gravity * p.speed_scale)
        )

    def _com(self) -> Array:
        """Returns the center of mass of the simulated robot, world frame (3,) [m]."""
        return self._dynamics.center_of_mass(np.array(self.plant.q))

    def describe_fall(self, controller: LocomotionController) -> str:
        """Returns the cause of a fall in standard phrases, so that falls can be counted by cause."""
        s: State = self._dynamics.update(np.array(self.plant.q), np.array(self.plant.v))
        R = s.placement(controller.robot.bodies[0].name).rotation @ self.proportions.heading
        ground_height = controller.ground.height(s.com[0], s.com[1]) if controller.ground is not None else 0.0
        is_low = s.com[2] - ground_height < 0.5 * self.proportions.height
        tilt = "rolled over" if abs(R[2, 1]) > abs(R[2, 0]) else "pitched over"
        return (
            "sank" if is_low and R[2, 2] > 0.8 else tilt
        ) + f", {controller.gait_scheduler.stance_mask.sum()} feet due on the ground"

    def record(self, fell: float | None, reason: str | None) -> Record:
        """Returns the record of the run.

        Args:
            fell: time of a fall [s]; None without one.
            reason: reason of a failure; None to evaluate the velocity.
        """
        case, p = self.case, self.proportions
        command: Array = np.array(case.velocity)
        count = max(self._evaluated_ticks, 1)
        velocity = self._displacement / (max(self._evaluated_ticks - 1, 1) * case.dt)
        speed = math.hypot(velocity[0], velocity[1])
        velocity_ratio = velocity_error = None
        if fell is None and command.any():
            units = np.array([case.unit_speed, case.unit_speed, case.unit_turn])
            command_norm_squared = float((command / units) @ (command / units))
            velocity_ratio = float((velocity / units) @ (command / units)) / command_norm_squared
            velocity_error = float(np.abs((velocity - command) / units).max())
            if reason is None and velocity_ratio < case.min_velocity_ratio:
                reason = f"slower than {100 * case.min_velocity_ratio:.0f} % of the command"
            elif reason is None and case.max_velocity_error is not None and velocity_error > case.max_velocity_error:
                reason = f"misses the command by more than {100 * case.max_velocity_error:.0f} %"
        weight = self.plant.robot.mass * p.gravity
        power = self._power_sum / count
        is_upright = fell is None
        return {
            "success": reason is None,
            "reason": reason,
            "fell": fell,
            "vx": float(velocity[0]) if is_upright else None,
            "vy": float(velocity[1]) if is_upright else None,
            "wz": float(velocity[2]) if is_upright else None,
            "ahead": None if case.course_interval is None else self._distance,
            "velocity_ratio": velocity_ratio,
            "velocity_error": velocity_error,
            "flagged": self._uncertified_ticks / max(self._ticks, 1),
            "torque": self._max_torque_fraction if is_upright else None,
            "torque_rms": math.sqrt(self._mean_square_sum / count) if is_upright else None,
            "power": power if is_upright else None,
            "power_peak": self._peak_power if is_upright else None,
            "cost": power / (weight * speed) if is_upright and speed > 0.02 * p.speed_scale else None,
            "predicted_slope_limit": self.predicted_slope_limit,
            "peak_motor_power": self._peak_motor_power if case.slip_friction else None,
            "allowed_fraction": self._allowed_sum / self._commanded_ticks if self._commanded_ticks else None,
            "limit_reason": self._limit_reason,
        }


__getattr__ = renamed_names(__name__, {"drive": "run_trial"})
