"""`Steering`: the course follows the command, and waits for a robot that lags behind."""

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

#: How far the robot may lag behind its course before the course waits [l], and how fast the course then gives way
#: [sqrt(l/g)].
MAX_REFERENCE_LEAD, REFERENCE_WAIT_TIME = 0.08, 0.3
#: Time constant in which the course's velocity makes up for a leash that keeps giving way [sqrt(l/g)], the share of the
#: wanted speed that it lets pass (from twice that on, it makes up for all), and the largest that it makes up for; the
#: same of gaits with flight phases: heavy legs that gallop push a robot back in every cycle.
LAG_COMPENSATION_TIME, LAG_DEADBAND_FRACTION, MAX_LAG_COMPENSATION, MAX_FLIGHT_LAG_COMPENSATION = 4.0, 0.05, 0.5, 1.0
MAX_YAW_LEAD = 0.2
#: Fraction of the course's speed below which something holds the robot up, the time constant of both speeds
#: [sqrt(l/g)], and the speed of the course from which on it is measured [sqrt(g l)].
MIN_PROGRESS_FRACTION, PROGRESS_TIME, MIN_MEASURED_SPEED = 0.5, 4.0, 0.05
#: Share of the command that is followed on the way to a gait that rocks the trunk.
TRANSITION_SPEED_FRACTION = 0.6
#: How fast the course changes its velocity [g] and its yaw rate [g/l].
ACCELERATION, YAW_ACCELERATION = 0.12, 0.1
#: How much of what friction allows is used for that.
TURN_FRICTION_FRACTION = 0.45


class Steering:
    """Moves the course as the command wants and the robot can.

    A robot that cannot keep up holds its course back by a leash.  Where the leash gives way all the time, as under a
    load or on soft ground, the course is led ahead of the command so that the robot has the commanded velocity.  Where
    an obstacle or slipping feet hold the robot up, or where it gets less than half of the course's speed for whatever
    reason, the course never goes faster than the command.

    Args:
        morphology: of the robot.
        legs: what of a velocity they can do.
        dt: [s].
    """

    __slots__ = ("_dt", "_legs", "_mean_lag", "_mean_speeds", "_p")

    def __init__(self, morphology: Morphology, legs: VelocityLimits, dt: float) -> None:
        self._p, self._legs, self._dt = morphology, legs, dt
        self.reset()

    def reset(self) -> None:
        """Forget how the robot follows."""
        self._mean_lag = 0.0, 0.0
        self._mean_speeds = 0.0, 0.0

    def update_speed_averages(self, path: PathReference, velocity: tuple[float, float, float]) -> None:
        """One tick of the averages of the course's speed and of the robot's along it.

        Args:
            path: of the robot.
            velocity: of the centre of mass, world [m/s].
        """
        x, y, _ = path.velocity.tolist()
        speed = math.hypot(x, y)
        c, s, (u, v, _) = math.cos(path.yaw), math.sin(path.yaw), velocity
        along = ((c * u + s * v) * x + (c * v - s * u) * y) / speed if speed else 0.0
        alpha, (led, had) = min(1.0, self._dt / (PROGRESS_TIME * self._p.time_scale)), self._mean_speeds
        self._mean_speeds = led + alpha * (speed - led), had + alpha * (along - had)

    @property
    def is_blocked(self) -> bool:
        """Whether the robot gets much less than the course's speed."""
        led, had = self._mean_speeds
        return led > MIN_MEASURED_SPEED * self._p.speed_scale and had < MIN_PROGRESS_FRACTION * led

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
        """The course's velocity follows the command for one tick, as fast as the robot can accelerate.

        Args:
            path: of the robot.
            ground: along which velocities are commanded.
            gait: to move with.
            command: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame; within reach.
            friction: Coulomb's coefficient that is counted on.
            is_transitioning: whether the robot is still on its way to the gait: what it lags behind then is no matter
                of either gait.
            is_obstructed: whether an obstacle or slipping feet hold the robot up.
        """
        p, dt = self._p, self._dt
        if is_transitioning:
            self._mean_lag = 0.0, 0.0
            command = (TRANSITION_SPEED_FRACTION if gait.has_end_support else 1.0) * command
        if is_obstructed or (gait.vertical_force_profile.is_constant and self.is_blocked):
            self._mean_lag = 0.0, 0.0
        (ahead, across), (_, aside) = ground.compute_projection(path.yaw).tolist()
        x, y, turn = self._compensate_lag(gait, command)
        goal = ahead * x + across * y, aside * y, turn
        rush = min(ACCELERATION, TURN_FRICTION_FRACTION * PYRAMID_FACE_RATIO * friction) * p.gravity
        steps = rush, rush, YAW_ACCELERATION / p.time_scale**2
        now = path.velocity
        now[:] = [
            value + min(max(to - value, -step * dt), step * dt)
            for value, to, step in zip(now.tolist(), goal, steps, strict=True)
        ]

    def _compensate_lag(self, gait: Gait, command: Array) -> list[float]:
        """The velocity for the course whose leash gives way all the time, so that the robot's is the wanted one."""
        u, v = self._mean_lag
        x, y, turn = command.tolist()
        speed, fast = self._legs.max_hip_speed(x, y, turn), math.hypot(u, v)
        if fast <= LAG_DEADBAND_FRACTION * speed or not speed:
            return [x, y, turn]
        most = MAX_LAG_COMPENSATION if gait.vertical_force_profile.is_constant else MAX_FLIGHT_LAG_COMPENSATION
        share = min(1.0, fast / (LAG_DEADBAND_FRACTION * speed) - 1.0, most * speed / fast)
        made_up: list[float]
        made_up = self._legs.clamp_velocity(gait, np.array([x - share * u, y - share * v, turn]), for_reference=True)[
            0
        ].tolist()
        return made_up

    def limit_reference_lead(self, path: PathReference, error: tuple[float, float], yaw: float) -> None:
        """The course waits if the robot cannot follow.

        Args:
            path: of the robot.
            error: of the divergent component, world [m].
            yaw: of the robot's heading [rad].
        """
        p, dt = self._p, self._dt
        away, slack = math.hypot(*error), MAX_REFERENCE_LEAD * p.length
        share = max(0.0, 1.0 - slack / max(away, 1e-12)) * min(1.0, dt / (REFERENCE_WAIT_TIME * p.time_scale))
        x, y = share * error[0], share * error[1]
        if share:
            path.position += (x, y)
        # In the heading frame: who turns drifts in a direction of his own.
        u, v = self._mean_lag
        c, s, fresh = math.cos(path.yaw) / dt, math.sin(path.yaw) / dt, dt / (LAG_COMPENSATION_TIME * p.time_scale)
        self._mean_lag = u + (c * x + s * y - u) * fresh, v + (c * y - s * x - v) * fresh
        turn = math.remainder(path.yaw - yaw, 2.0 * math.pi)
        path.yaw -= turn - min(max(turn, -MAX_YAW_LEAD), MAX_YAW_LEAD)
