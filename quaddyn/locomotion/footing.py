"""`Footing`: which feet have ground under them, felt or estimated, and whether a robot that stands has lost it."""

from __future__ import annotations

import math

import numpy as np

from ..contact import ContactSet
from ..dynamics import State
from ..estimation import ContactForceEstimator, TouchdownDetector
from ..robot.robot import Robot
from ..urdf.tree import Array
from .proportions import FEET, Proportions

#: How many feet a robot can stand on.
ENOUGH = 3
#: How long the ground is missed before it counts as lost: by all feet, and by more than one [sqrt(l/g)].
LOST_ALL, LOST_SOME = 0.02, 0.25
#: Without sensors: time constant of what the ground pushes [sqrt(l/g)], the share of the weight below which the robot
#: falls, and the speed of a foot that has nothing under it [sqrt(g l)].
PUSH_TIME, FALLING, LOOSE = 0.05, 0.5, 0.1
#: Share of the weight below which the ground does not push at all.
FREE = 0.15
#: How long a robot stands before it steps to recover [sqrt(l/g)].
SURE = 0.1
#: Feet that stand are on one plane up to this [l].
EVEN = 0.01
#: Time constant of estimated forces, and how long they have to last [sqrt(l/g)].
FORCE_TIME, DWELL = 0.02, 0.01


class Footing:
    """Who touches the ground.

    *Lost*: with sensors, when nobody feels it, or fewer than three feet for some time.  Without, when the centre of
    mass accelerates downwards as in a fall while feet move that should stand: in the air legs give way to the forces
    that the controller counts on.

    *Found again*: who feels it, or whose estimated force is up (`quaddyn.estimation`).

    Args:
        robot: a quadruped.
        proportions: of the robot.
        dt: [s].
    """

    __slots__ = (
        "_before",
        "_detector",
        "_dt",
        "_estimator",
        "_missed",
        "_none",
        "_p",
        "_push",
        "_rate",
        "_robot",
        "_stood",
        "_time",
    )

    def __init__(self, robot: Robot, proportions: Proportions, dt: float) -> None:
        self._robot, self._p, self._dt = robot, proportions, dt
        unit = proportions.time
        self._estimator = ContactForceEstimator(ContactSet.of_feet(robot, FEET), dt=dt, gain=1.0 / (FORCE_TIME * unit))
        self._detector = TouchdownDetector(robot, dwell=DWELL * unit)
        self.reset()

    def reset(self) -> None:
        """Forget the motion; the robot is taken to stand."""
        self._before: tuple[float, Array] | None = None
        self._rate: float | None = None
        self._push: float | None = None
        self._none = self._missed = 0.0
        self._estimator.reset()
        self._detector.reset()
        self._time = self._stood = 0.0

    def even(self, feet: Array) -> bool:
        """Whether feet may all stand: four points far from one plane do not."""
        bottoms = feet - np.array([0.0, 0.0, 1.0]) * self._p.radii[:, None]
        away = np.linalg.svd(bottoms - bottoms.mean(axis=0), compute_uv=False)[2]
        return bool(away <= EVEN * self._p.length)

    def lost(self, rate: float, feet: Array, touching: tuple[str, ...] | None) -> bool:
        """Whether a robot that stands has too little ground under it; at every tick that it stands.

        Args:
            rate: vertical velocity of the centre of mass [m/s].
            feet: (4, 3) centres of the feet's spheres, world [m].
            touching: the feet that feel the ground; None without sensors.
        """
        p, dt, before = self._p, self._dt, self._before
        self._stood += dt
        self._before = rate, feet
        if touching is not None:
            self._none = 0.0 if touching else self._none + dt
            self._missed = 0.0 if len(touching) >= ENOUGH else self._missed + dt
            return self._none >= max(2.0 * dt, LOST_ALL * p.time) or self._missed >= LOST_SOME * p.time
        if before is None or self._stood <= 2.0 * dt:  # soft ground does not push before it is pressed
            return False
        if self._pushed(rate, before[0], PUSH_TIME) > FALLING * p.gravity:
            return False
        way = feet - before[1]
        return math.sqrt(float((way * way).sum(axis=1).max())) > LOOSE * p.speed * dt

    @property
    def carried(self) -> bool:
        """Whether the acceleration of the centre of mass shows that the ground carries more than half of the weight.

        It is measured by `lost`, from the third tick on, where no foot has a sensor.
        """
        return self._push is not None and self._push > FALLING * self._p.gravity

    @property
    def sure(self) -> bool:
        """Whether the robot has stood for as long as it takes to find out that it does not."""
        return self._stood >= SURE * self._p.time

    def search(self) -> None:
        """Nobody touches, as far as is known: begin to look for the ground."""
        self.reset()
        self._push = 0.0

    def found(self, state: State, tau: Array, touching: tuple[str, ...] | None) -> tuple[str, ...]:
        """The feet that touch.

        Args:
            state: now.
            tau: (nu,) torques since the last tick [N m].
            touching: the feet that feel the ground; None without sensors.
        """
        if touching is not None:
            return tuple(foot for foot in FEET if foot in touching)
        forces, rate = self._estimator.update(state, tau).forces, float(state.com_velocity[2])
        self._time += self._dt
        push = 0.0 if self._rate is None else self._pushed(rate, self._rate, FORCE_TIME)
        self._rate = rate
        if push < FREE * self._p.gravity:  # nothing holds the centre of mass: whatever the legs feel is their own
            self._detector.reset()
            return ()
        self._detector.update(self._time, forces)
        return tuple(foot for foot in FEET if foot in self._detector.touching)

    def _pushed(self, rate: float, before: float, time: float) -> float:
        """What the ground pushes, per mass [m/s^2]: filtered, but for what is measured first.

        Args:
            rate: vertical velocity of the centre of mass [m/s].
            before: one tick earlier [m/s].
            time: constant of the filter [sqrt(l/g)].
        """
        push = (rate - before) / self._dt + self._p.gravity
        share = self._dt / (time * self._p.time + self._dt)
        self._push = push if self._push is None else self._push + share * (push - self._push)
        return self._push
