"""`run_trial`: simulates one `Trial` under its controller and evaluates the run."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from ..compiler import silence_messages
from ..deprecation import renamed_names
from ..dynamics import Dynamics, State
from ..errors import DivergenceError
from ..locomotion import LocomotionCommand, LocomotionController, LocomotionMode, heading_axes
from ..simulation import Plant
from ..urdf.tree import Array
from .campaign import Record
from .trial import Trial
from .trial_setup import TrialSetup, make_trial_setup
from .worker_memory import case_rng, load_cached_robot

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
        - "predicted_slope_limit": what `LocomotionController.slope_limit_reason` returns for the slope and its friction
          before the run, "" for no limit (None on other terrain).
        - "peak_motor_power": largest power of one motor over a control period after a drop of the friction, a fall
          included [m g sqrt(g l)] (None without such a drop).
        - "allowed_fraction": mean fraction of the commanded velocity that the controller admitted (None without a
          command); "limit_reason": the last reason that the controller gave for admitting less, "" for none.
    """
    made = make_trial_setup(case, load_cached_robot(case.robot), case_rng(case.seed, case.number))
    figures = _RunEvaluation(case, made)
    if case.slope:
        way = case.slope, case.slope_direction, case.velocity
        figures.foreseen = made.controller.slope_limit_reason(*way, friction=case.friction)
    with silence_messages(), _gc_disabled():
        try:
            return _simulate(case, made, figures, watch)
        except DivergenceError:
            return figures.record(made.plant.time, "the plant diverged")


@contextmanager
def _gc_disabled() -> Iterator[None]:
    """Context without garbage collection, which takes a tenth of the time although a trial makes no cyclic garbage."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _simulate(case: Trial, made: TrialSetup, figures: _RunEvaluation, watch: Watch | None) -> Record:
    plant, controller, known = made.plant, made.controller, made.robot
    dynamics, load = Dynamics(known), CONTACT_WEIGHT_FRACTION * plant.robot.mass * controller.morphology.gravity
    standing: tuple[str, ...] = tuple(known.feet)
    pushed, slippery = not case.push, False
    fell: tuple[float, str] | None = None
    for k in range(round(case.seconds / case.dt)):
        t = k * case.dt
        if case.slip_friction:
            slippery = slippery or t >= case.slip_time - 1e-9
            passed = bool(case.slip_duration) and t >= case.slip_time + case.slip_duration - 1e-9
            plant.friction = case.slip_friction if slippery and not passed else case.friction
        if not pushed and t >= case.push_time - 1e-9:
            pushed = True
            way = controller.morphology.yaw(plant.q) + case.push_direction
            force = plant.robot.mass * case.push / case.push_duration * np.array([math.cos(way), math.sin(way), 0.0])
            plant.push(known.bodies[0].name, force, duration=case.push_duration)
        q, v = np.array(plant.q), np.array(plant.v)
        if made.sensors is not None and made.estimator is not None:
            m = made.sensors.read(plant)
            made.estimator.update(
                np.array(m.position), np.array(m.velocity), np.array(m.gyro), np.array(m.accelerometer), standing
            )
            q, v = made.estimator.odometry()
        touching = None
        if made.feels and k:
            forces = plant.contact_forces
            touching = [foot for foot in known.feet if forces[foot][2] > load]
        wanted = case.velocity if t > COMMAND_START_TIME else (0.0, 0.0, 0.0)
        command = controller.compute(dynamics.update(q, v), wanted, measured_contacts=touching)
        standing = command.contacts
        if watch is not None:
            watch(plant, command)
        if command.mode is LocomotionMode.FALLEN and fell is None:
            fell = t, figures.describe_fall(controller)
        if fell is not None and (not slippery or t >= fell[0] + FALL_OBSERVATION_TIME):
            break
        before = np.array(plant.v)
        plant.step(command.tau)
        if slippery:
            figures.burst(before)
        if fell is None:
            figures.add(t, command)
            if figures.passed:
                return figures.record(None, None)
    if fell is not None:
        return figures.record(*fell)
    return figures.record(None, None if case.course_interval is None else "did not reach the end in time")


class _RunEvaluation:
    """Evaluation of a run: running sums of velocities, torques, powers and limits."""

    def __init__(self, case: Trial, made: TrialSetup) -> None:
        self.case, self.plant, self.proportions = case, made.plant, made.controller.morphology
        self._truth = Dynamics(made.plant.robot)
        self._limits, self._index = made.plant.robot.effort_limits, made.plant.robot.actuated_index
        self._way, self._last = np.zeros(3), (np.zeros(3), 0.0)
        self._ticks = self._flagged = self._counted = 0
        self._share = self._squares = self._power = self._peak = self._burst = 0.0
        self._told, self._allowed, self._limit = 0, 0.0, ""
        self.foreseen: str | None = None
        self.passed, self._ahead = False, 0.0
        yaw = self.proportions.yaw(made.plant.q)
        self._forward, self._origin = np.array([math.cos(yaw), math.sin(yaw)]), self._com()
        climb, uphill = math.tan(case.slope), case.slope_direction + yaw
        if case.stairs:
            climb, uphill = case.stairs / case.tread, yaw
        self._slope = climb * math.cos(uphill), climb * math.sin(uphill)
        # Velocities are differences over the last `measured` seconds.
        self._from = round(case.seconds / case.dt) - round(case.averaging_time / case.dt)

    def add(self, t: float, command: LocomotionCommand) -> None:
        """Adds one tick, after the step of the plant."""
        self._ticks += 1
        self._flagged += not command.ok
        if command.requested_velocity.any():
            self._told += 1
            self._allowed += float(command.clamped_velocity @ command.requested_velocity) / float(
                command.requested_velocity @ command.requested_velocity
            )
            self._limit = command.limit_reason or self._limit
        if self.case.course_interval is None:
            if self._ticks < self._from:
                return
            com = self._com()
        else:
            com = self._com()
            self._ahead = float(self._forward @ (com - self._origin)[:2])
            begin, end = self.case.course_interval
            if self._ahead < begin and not self._counted:
                return
            if not self._counted:  # limits on the approach are not evaluated
                self._told, self._allowed = 0, 0.0
            self.passed = self._ahead >= end
        plant = self.plant
        yaw = self.proportions.yaw(plant.q)
        if self._counted:
            before, turned = self._last
            d, turn = com - before, math.remainder(yaw - turned, 2.0 * math.pi)
            rise, side = self._slope
            d[2] = rise * d[0] + side * d[1]  # along the ground, without the vertical motion of the trunk
            x, y, _ = heading_axes(turned, rise, side).T @ d
            self._way += [x, y, turn]
        self._last = com, yaw
        self._counted += 1
        tau = plant.tau
        power = float(np.maximum(tau * plant.v[self._index], 0.0).sum())
        self._share = max(self._share, float((np.abs(tau) / self._limits).max()))
        self._squares += float(tau @ tau) / len(tau)
        self._power += power
        self._peak = max(self._peak, power)

    def burst(self, before: Array) -> None:
        """Adds the mechanical work of each motor in one step; `before` is the velocity (nv,) at its start."""
        plant, p = self.plant, self.proportions
        work = plant.tau * 0.5 * (before + plant.v)[self._index]
        self._burst = max(self._burst, float(work.max()) / (plant.robot.mass * p.gravity * p.speed_scale))

    def _com(self) -> Array:
        return self._truth.center_of_mass(np.array(self.plant.q))

    def describe_fall(self, controller: LocomotionController) -> str:
        """Returns the cause of a fall in a few standard words, so that falls can be counted by cause."""
        s: State = self._truth.update(np.array(self.plant.q), np.array(self.plant.v))
        R = s.placement(controller.robot.bodies[0].name).rotation @ self.proportions.heading
        under = controller.ground.height(s.com[0], s.com[1]) if controller.ground is not None else 0.0
        low = s.com[2] - under < 0.5 * self.proportions.height
        lean = "rolled over" if abs(R[2, 1]) > abs(R[2, 0]) else "pitched over"
        return (
            "sank" if low and R[2, 2] > 0.8 else lean
        ) + f", {controller.gait_scheduler.stance_mask.sum()} feet due on the ground"

    def record(self, fell: float | None, reason: str | None) -> Record:
        """Returns the record of the run, with the verdict."""
        case, p = self.case, self.proportions
        wanted: Array = np.array(case.velocity)
        count = max(self._counted, 1)
        velocity = self._way / (max(self._counted - 1, 1) * case.dt)
        speed = math.hypot(velocity[0], velocity[1])
        progress = miss = None
        if fell is None and wanted.any():
            units = np.array([case.unit_speed, case.unit_speed, case.unit_turn])
            size = float((wanted / units) @ (wanted / units))
            progress = float((velocity / units) @ (wanted / units)) / size
            miss = float(np.abs((velocity - wanted) / units).max())
            if reason is None and progress < case.min_velocity_ratio:
                reason = f"slower than {100 * case.min_velocity_ratio:.0f} % of the command"
            elif reason is None and case.max_velocity_error is not None and miss > case.max_velocity_error:
                reason = f"misses the command by more than {100 * case.max_velocity_error:.0f} %"
        weight = self.plant.robot.mass * p.gravity
        power = self._power / count
        whole = fell is None
        return {
            "success": reason is None,
            "reason": reason,
            "fell": fell,
            "vx": float(velocity[0]) if whole else None,
            "vy": float(velocity[1]) if whole else None,
            "wz": float(velocity[2]) if whole else None,
            "ahead": None if case.course_interval is None else self._ahead,
            "velocity_ratio": progress,
            "velocity_error": miss,
            "flagged": self._flagged / max(self._ticks, 1),
            "torque": self._share if whole else None,
            "torque_rms": math.sqrt(self._squares / count) if whole else None,
            "power": power if whole else None,
            "power_peak": self._peak if whole else None,
            "cost": power / (weight * speed) if whole and speed > 0.02 * p.speed_scale else None,
            "predicted_slope_limit": self.foreseen,
            "peak_motor_power": self._burst if case.slip_friction else None,
            "allowed_fraction": self._allowed / self._told if self._told else None,
            "limit_reason": self._limit,
        }


__getattr__ = renamed_names(__name__, {"drive": "run_trial"})
