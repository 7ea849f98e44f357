"""`Steering`: motion of the path reference toward the velocity command, with limits for a robot that lags behind."""

from __future__ import annotations

import math

import numpy as np

from ..urdf.tree import Array
from .friction_model import PYRAMID_FACE_RATIO
from .gait import Gait
from .ground_plane import GroundPlane
from .morphology import Morphology
from .path_reference import PathReference
from .velocity_limits import VelocityLimits

#: Maximum distance of the path reference from the robot [l], and time constant with which a larger one is reduced
#: [sqrt(l/g)].
MAX_REFERENCE_LEAD, REFERENCE_WAIT_TIME = 0.08, 0.3
#: Lag of the robot that persists is compensated by a faster path reference: time constant [sqrt(l/g)]; fraction of the
#: commanded speed below which a lag is ignored (from twice that on, it is compensated completely); maximum compensation
#: as a fraction of the commanded speed; the same for gaits with flight phases, in which heavy legs push the robot back
#: in every cycle.
LAG_COMPENSATION_TIME, LAG_DEADBAND_FRACTION, MAX_LAG_COMPENSATION, MAX_FLIGHT_LAG_COMPENSATION = 4.0, 0.05, 0.5, 1.0
MAX_YAW_LEAD = 0.2
#: Fraction of the reference speed below which the robot is blocked, time constant of both speeds [sqrt(l/g)], and
#: minimum reference speed for which this is evaluated [sqrt(g l)].
MIN_PROGRESS_FRACTION, PROGRESS_TIME, MIN_MEASURED_SPEED = 0.5, 4.0, 0.05
#: Fraction of the command that is followed during the transition to a gait with end support.
TRANSITION_SPEED_FRACTION = 0.6
#: Acceleration [g] and yaw acceleration [g/l] of the path reference.
ACCELERATION, YAW_ACCELERATION = 0.12, 0.1
#: Fraction of the friction limit that the acceleration may use.
TURN_FRICTION_FRACTION = 0.45


class Steering:
    """Motion of the path reference according to the command and to the motion of the robot.

    The distance of the path reference from a robot that cannot keep up is limited.  If the robot lags behind all the
    time, for example under a load or on soft ground, the path reference moves faster than the command so that the robot
    reaches the commanded velocity.  If an obstacle or slipping feet block the robot, or if it has less than half of the
    reference speed for any reason, the path reference never moves faster than the command.

    Args:
        morphology: lengths and units of the robot.
        legs: velocity limits of the legs.
        dt: control period [s].
    """

    __slots__ = ("_dt", "_legs", "_mean_lag", "_mean_speeds", "_morphology")

    def __init__(self, morphology: Morphology, legs: VelocityLimits, dt: float) -> None:
        self._morphology, self._legs, self._dt = morphology, legs, dt
        self.reset()

    def reset(self) -> None:
        """Resets all averages."""
        self._mean_lag = 0.0, 0.0
        self._mean_speeds = 0.0, 0.0

    def update_speed_averages(self, path: PathReference, velocity: tuple[float, float, float]) -> None:
        """Updates the averages of the reference speed and of the robot's speed along it by one tick.

        Args:
            path: path reference.
            velocity: (3,) velocity of the center of mass, world [m/s].
        """
        x, y, _ = path.velocity.tolist()
        speed = math.hypot(x, y)
        c, s, (u, v, _) = math.cos(path.yaw), math.sin(path.yaw), velocity
        progress = ((c * u + s * v) * x + (c * v - s * u) * y) / speed if speed else 0.0
        alpha, (reference_speed, robot_speed) = (
            min(1.0, self._dt / (PROGRESS_TIME * self._morphology.time_scale)),
            self._mean_speeds,
        )
        self._mean_speeds = (
            reference_speed + alpha * (speed - reference_speed),
            robot_speed + alpha * (progress - robot_speed),
        )

    @property
    def is_blocked(self) -> bool:
        """Whether the robot is much slower than the path reference."""
        reference_speed, robot_speed = self._mean_speeds
        return (
            reference_speed > MIN_MEASURED_SPEED * self._morphology.speed_scale
            and robot_speed < MIN_PROGRESS_FRACTION * reference_speed
        )

    def update_velocity(
        self,
        path: PathReference,
        ground: GroundPlane,
        gait: Gait,
        command: Array,
        friction: float,
        *,
        is_transitioning: bool = False,
        is_obstructed: bool = False,
    ) -> None:
        """Moves the velocity of the path reference toward the command, within the acceleration limits.

        Args:
            path: path reference.
            ground: plane of the feet, along which velocities are commanded.
            gait: gait to move with.
            command: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame, clamped.
            friction: friction coefficient that the contact constraints assume, dimensionless.
            is_transitioning: whether a gait transition is in progress; the lag of the robot is then ignored.
            is_obstructed: whether an obstacle or slipping feet block the robot.
        """
        p, dt = self._morphology, self._dt
        if is_transitioning:
            self._mean_lag = 0.0, 0.0
            command = (TRANSITION_SPEED_FRACTION if gait.has_end_support else 1.0) * command
        if is_obstructed or (gait.vertical_force_profile.is_constant and self.is_blocked):
            self._mean_lag = 0.0, 0.0
        (forward_x, forward_y), (_, leftward_y) = ground.compute_projection(path.yaw).tolist()
        x, y, yaw_rate = self._compensate_lag(gait, command)
        target = forward_x * x + forward_y * y, leftward_y * y, yaw_rate
        max_acceleration = min(ACCELERATION, TURN_FRICTION_FRACTION * PYRAMID_FACE_RATIO * friction) * p.gravity
        rates = max_acceleration, max_acceleration, YAW_ACCELERATION / p.time_scale**2
        present = path.velocity
        present[:] = [
            value + min(max(target_value - value, -rate * dt), rate * dt)
            for value, target_value, rate in zip(present.tolist(), target, rates, strict=True)
        ]

    def _compensate_lag(self, gait: Gait, command: Array) -> list[float]:
        """Returns the velocity of the path reference with which a robot that lags behind reaches the command.

        Args:
            gait: gait to move with.
            command: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame.
        """
        u, v = self._mean_lag
        x, y, yaw_rate = command.tolist()
        speed, lag = self._legs.max_hip_speed(x, y, yaw_rate), math.hypot(u, v)
        if lag <= LAG_DEADBAND_FRACTION * speed or not speed:
            return [x, y, yaw_rate]
        max_compensation = (
            MAX_LAG_COMPENSATION if gait.vertical_force_profile.is_constant else MAX_FLIGHT_LAG_COMPENSATION
        )
        fraction = min(1.0, lag / (LAG_DEADBAND_FRACTION * speed) - 1.0, max_compensation * speed / lag)
        compensated: list[float]
        compensated = self._legs.clamp_velocity(
            gait, np.array([x - fraction * u, y - fraction * v, yaw_rate]), for_reference=True
        )[0].tolist()
        return compensated

    def limit_reference_lead(self, path: PathReference, error: tuple[float, float], yaw: float) -> None:
        """Limits position and heading of the path reference relative to the robot.

        Args:
            path: path reference.
            error: (2,) error of the divergent component, world x and y [m].
            yaw: yaw angle of the robot's heading [rad].
        """
        p, dt = self._morphology, self._dt
        lead, max_lead = math.hypot(*error), MAX_REFERENCE_LEAD * p.length
        fraction = max(0.0, 1.0 - max_lead / max(lead, 1e-12)) * min(1.0, dt / (REFERENCE_WAIT_TIME * p.time_scale))
        x, y = fraction * error[0], fraction * error[1]
        if fraction:
            path.position += (x, y)
        # In the heading frame: the direction of the lag turns with the robot.
        u, v = self._mean_lag
        c, s, alpha = math.cos(path.yaw) / dt, math.sin(path.yaw) / dt, dt / (LAG_COMPENSATION_TIME * p.time_scale)
        self._mean_lag = u + (c * x + s * y - u) * alpha, v + (c * y - s * x - v) * alpha
        yaw_lead = math.remainder(path.yaw - yaw, 2.0 * math.pi)
        path.yaw -= yaw_lead - min(max(yaw_lead, -MAX_YAW_LEAD), MAX_YAW_LEAD)
