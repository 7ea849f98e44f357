"""`Steering`: the course follows the command, and waits for a robot that lags behind."""

from __future__ import annotations

import math

import numpy as np

from ..urdf.tree import Array
from .course import Course
from .gait import Gait
from .grip import FACE
from .ground import GroundPlane
from .leg_limits import LegLimits
from .proportions import Proportions

#: How far the robot may lag behind its course before the course waits [l], and how fast the course then gives way
#: [sqrt(l/g)].
LEASH, LEASH_TIME = 0.08, 0.3
#: Time constant in which the course's velocity makes up for a leash that keeps giving way [sqrt(l/g)], the share of the
#: wanted speed that it lets pass (from twice that on, it makes up for all), and the largest that it makes up for; the
#: same of gaits with flight phases: heavy legs that gallop push a robot back in every cycle.
DRIFT_TIME, LEAST_DRIFT, MOST_DRIFT, MOST_OF_FLYING = 4.0, 0.05, 0.5, 1.0
YAW_LEASH = 0.2
#: Fraction of the course's speed below which something holds the robot up, the time constant of both speeds
#: [sqrt(l/g)], and the speed of the course from which on it is measured [sqrt(g l)].
MIN_PROGRESS_FRACTION, PROGRESS_TIME, MIN_MEASURED_SPEED = 0.5, 4.0, 0.05
#: Share of the command that is followed on the way to a gait that rocks the trunk.
CAREFUL = 0.6
#: How fast the course changes its velocity [g] and its yaw rate [g/l].
ACCELERATION, YAW_ACCELERATION = 0.12, 0.1
#: How much of what friction allows is used for that.
GENTLE = 0.45


class Steering:
    """Moves the course as the command wants and the robot can.

    A robot that cannot keep up holds its course back by a leash.  Where the leash gives way all the time, as under a
    load or on soft ground, the course is led ahead of the command so that the robot has the commanded velocity.  Where
    an obstacle or slipping feet hold the robot up, or where it gets less than half of the course's speed for whatever
    reason, the course never goes faster than the command.

    Args:
        proportions: of the robot.
        legs: what of a velocity they can do.
        dt: [s].
    """

    __slots__ = ("_drift", "_dt", "_legs", "_p", "_speeds")

    def __init__(self, proportions: Proportions, legs: LegLimits, dt: float) -> None:
        self._p, self._legs, self._dt = proportions, legs, dt
        self.reset()

    def reset(self) -> None:
        """Forget how the robot follows."""
        self._drift = 0.0, 0.0
        self._speeds = 0.0, 0.0

    def measure(self, course: Course, velocity: tuple[float, float, float]) -> None:
        """One tick of the averages of the course's speed and of the robot's along it.

        Args:
            course: of the robot.
            velocity: of the centre of mass, world [m/s].
        """
        x, y, _ = course.velocity.tolist()
        speed = math.hypot(x, y)
        c, s, (u, v, _) = math.cos(course.yaw), math.sin(course.yaw), velocity
        along = ((c * u + s * v) * x + (c * v - s * u) * y) / speed if speed else 0.0
        alpha, (led, had) = min(1.0, self._dt / (PROGRESS_TIME * self._p.time)), self._speeds
        self._speeds = led + alpha * (speed - led), had + alpha * (along - had)

    @property
    def is_held_up(self) -> bool:
        """Whether the robot gets much less than the course's speed."""
        led, had = self._speeds
        return led > MIN_MEASURED_SPEED * self._p.speed and had < MIN_PROGRESS_FRACTION * led

    def steer(
        self,
        course: Course,
        ground: GroundPlane,
        gait: Gait,
        wanted: Array,
        friction: float,
        *,
        changing: bool = False,
        obstructed: bool = False,
    ) -> None:
        """The course's velocity follows the command for one tick, as fast as the robot can accelerate.

        Args:
            course: of the robot.
            ground: along which velocities are commanded.
            gait: to move with.
            wanted: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame; within reach.
            friction: Coulomb's coefficient that is counted on.
            changing: whether the robot is still on its way to the gait: what it lags behind then is no matter of either
                gait.
            obstructed: whether an obstacle or slipping feet hold the robot up.
        """
        p, dt = self._p, self._dt
        if changing:
            self._drift = 0.0, 0.0
            wanted = (CAREFUL if gait.rocks else 1.0) * wanted
        if obstructed or (gait.thrust.steady and self.is_held_up):
            self._drift = 0.0, 0.0
        (ahead, across), (_, aside) = ground.level(course.yaw).tolist()
        x, y, turn = self._made_up(gait, wanted)
        goal = ahead * x + across * y, aside * y, turn
        rush = min(ACCELERATION, GENTLE * FACE * friction) * p.gravity
        steps = rush, rush, YAW_ACCELERATION / p.time**2
        now = course.velocity
        now[:] = [
            value + min(max(to - value, -step * dt), step * dt)
            for value, to, step in zip(now.tolist(), goal, steps, strict=True)
        ]

    def _made_up(self, gait: Gait, wanted: Array) -> list[float]:
        """The velocity for the course whose leash gives way all the time, so that the robot's is the wanted one."""
        u, v = self._drift
        x, y, turn = wanted.tolist()
        speed, fast = self._legs.speed(x, y, turn), math.hypot(u, v)
        if fast <= LEAST_DRIFT * speed or not speed:
            return [x, y, turn]
        most = MOST_DRIFT if gait.thrust.steady else MOST_OF_FLYING
        share = min(1.0, fast / (LEAST_DRIFT * speed) - 1.0, most * speed / fast)
        made_up: list[float]
        made_up = self._legs.within(gait, np.array([x - share * u, y - share * v, turn]), led=True)[0].tolist()
        return made_up

    def keep_leash(self, course: Course, error: tuple[float, float], yaw: float) -> None:
        """The course waits if the robot cannot follow.

        Args:
            course: of the robot.
            error: of the divergent component, world [m].
            yaw: of the robot's heading [rad].
        """
        p, dt = self._p, self._dt
        away, slack = math.hypot(*error), LEASH * p.length
        share = max(0.0, 1.0 - slack / max(away, 1e-12)) * min(1.0, dt / (LEASH_TIME * p.time))
        x, y = share * error[0], share * error[1]
        if share:
            course.position += (x, y)
        # In the heading frame: who turns drifts in a direction of his own.
        u, v = self._drift
        c, s, fresh = math.cos(course.yaw) / dt, math.sin(course.yaw) / dt, dt / (DRIFT_TIME * p.time)
        self._drift = u + (c * x + s * y - u) * fresh, v + (c * y - s * x - v) * fresh
        turn = math.remainder(course.yaw - yaw, 2.0 * math.pi)
        course.yaw -= turn - min(max(turn, -YAW_LEASH), YAW_LEASH)
