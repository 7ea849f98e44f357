"""`Course`: the commanded path of the robot; `Preview`: the motion of its centre of mass that follows from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import ArgumentError
from ..robot.arguments import number
from ..urdf.tree import Array
from .gait import Clock
from .preview_kernel import INSTANTS, Footfalls, Travel, landings, preview
from .proportions import Proportions
from .thrust import LOADING

#: How far the preview looks ahead, in time constants of the falling centre of mass; e^-5 of the rest is estimated.
HORIZON = 5.0

#: Place [m], velocity and acceleration of the centre of mass from where it goes to, along x and y.
Lean = tuple[tuple[float, float, float], tuple[float, float, float]]


def commanded_velocity(velocity: Sequence[float] | Array) -> Array:
    """(3,) forward, leftward [m/s] and yaw rate [rad/s] as floats.

    Raises:
        ArgumentError: not three, or not finite.
        ArgumentTypeError: something is no number.
    """
    if type(velocity) is tuple and len(velocity) == 3:  # the usual case, at every tick
        x, y, turn = velocity
        if type(x) is type(y) is type(turn) is float and math.isfinite(x + y + turn):
            return np.array(velocity)
    given = np.array(velocity, dtype=object)
    if given.shape == (3,):
        wanted = np.array([number("velocity", x) for x in given])
        if np.isfinite(wanted).all():
            return wanted
    raise ArgumentError(f"velocity: expected three finite numbers (forward, leftward, yaw rate), got {velocity}")


class Course:
    """A point that moves at the commanded velocity, and the heading there: the middle of the wanted footfalls.

    Its velocity is that of the *heading frame*, whose x axis is the robot's forward direction projected on the
    horizontal: forward and leftward speed [m/s] and yaw rate [rad/s].

    Attributes:
        position: (2,) in the world [m].
        yaw: of the heading frame [rad], not wrapped.
        velocity: (3,) forward, leftward [m/s] and yaw rate [rad/s].
    """

    __slots__ = ("position", "velocity", "yaw")

    def __init__(self, position: Array, yaw: float) -> None:
        self.position, self.yaw = np.array(position[:2]), float(yaw)
        self.velocity = np.zeros(3)

    def advance(self, dt: float) -> None:
        """Let `dt` pass [s]."""
        x, y, rate = self.velocity.tolist()
        half = 0.5 * rate * dt
        reach = dt * math.sin(half) / half if abs(half) > 1e-9 else dt  # the chord, see `ahead`
        c, s = math.cos(self.yaw + half) * reach, math.sin(self.yaw + half) * reach
        self.position = self.position + np.array([x * c - y * s, x * s + y * c])
        self.yaw += 2.0 * half

    def ahead(self, times: Array) -> tuple[Array, Array]:
        """Position (..., 2) and yaw (...) after `times` (...) [s] of the present command: an arc of a circle.

        The chord of an arc over the angle a has the direction of its middle and ``sinc(a / 2)`` of its length.
        """
        x, y, rate = self.velocity.tolist()
        turn = rate * times
        middle = self.yaw + 0.5 * turn
        reach = times * np.sinc(turn * (0.5 / np.pi))
        c, s = np.cos(middle) * reach, np.sin(middle) * reach
        way = np.stack((x * c - y * s, x * s + y * c), axis=-1)
        return self.position + way, self.yaw + turn

    def world_velocity(self, time: float = 0.0) -> Array:
        """(2,) of the point after `time` [s], world axes [m/s]."""
        yaw = self.yaw + time * float(self.velocity[2])
        c, s = math.cos(yaw), math.sin(yaw)
        x, y = self.velocity[:2].tolist()
        return np.array([x * c - y * s, x * s + y * c])


@dataclass(frozen=True, slots=True, eq=False)
class ComReference:
    """What the centre of mass is to do now.

    Attributes:
        pressure: (2,) the wanted centre of pressure, world [m].
        divergent: (2,) the wanted divergent component of motion ``c + cdot / omega``, world [m].
        shares: (4,) of the weight on each foot; 0 in flight.
        frequency: omega now [1/s].
        push: vertical force now, in weights.
        rise: height now over its mean [m], its rate [m/s].
        open: how far `divergent` would move if all footholds to come moved by 1: the part of the future's weight, in
            (0, 1], that does not rest on the feet that stand now; 0 for who stands for good.
    """

    pressure: Array
    divergent: Array
    shares: Array
    open: float
    frequency: float
    push: float = 1.0
    rise: tuple[float, float] = (0.0, 0.0)

    def error(self, position: tuple[float, float], velocity: tuple[float, float]) -> tuple[float, float]:
        """How far the divergent component is from the wanted one [m].

        Args:
            position: of the centre of mass along world x and y [m].
            velocity: of it [m/s].
        """
        (x, y), (u, v), (wanted_x, wanted_y) = position, velocity, self.divergent.tolist()
        return x + u / self.frequency - wanted_x, y + v / self.frequency - wanted_y


class Preview:
    """From footfalls to the motion of the centre of mass.

    At constant height over the ground, level or not, the centre of mass c obeys ``cddot = omega^2 (c - z)`` seen from
    above, with z the centre of pressure.  Its divergent component ``xi = c + cdot / omega`` runs away from z, ``xidot =
    omega (xi - z)``, and c follows xi by itself.  Only one xi stays bounded under the pressure to come,

        xi(t) = omega int_0^inf e^(-omega s) z(t + s) ds,

    (Englsberger, Ott, Albu-Schaeffer 2015, "Three-dimensional bipedal walking control based on divergent component of
    motion"; Lanari, Hutchinson 2014 call it the stable inversion).  The pressure to come is the mean of the footholds,
    weighted with the load that the gait gives to each; feet on the ground stay, later footholds follow the course.
    So a crawl leans away from the leg to be lifted next, a pace sways and a bound pitches its pressure to and fro,
    out of one formula.

    *With flight phases* (`Thrust`) the ground pushes with ``m (g + zddot)``, hence ``cddot = lambda (c - z)`` with
    ``lambda = (g + zddot) / (h + rise)``, zero in flight.  With the solution of ``omegadot = omega^2 - lambda``
    that stays positive, the divergent component still moves by itself, ``xidot = (lambda / omega) (xi - z)`` (Hopkins,
    Hong, Leonessa 2014, "Humanoid locomotion on uneven terrain using the time-varying divergent component of motion"),
    and the same condition decides it.

    The pressure to come is a polygon through `INSTANTS` samples; beyond them it follows the course.

    Args:
        proportions: of the robot.
    """

    def __init__(self, proportions: Proportions) -> None:
        self._gravity, self._height = proportions.gravity, proportions.height
        self.omega = proportions.frequency
        self._end = HORIZON / self.omega
        self._step = self._end / (INSTANTS - 1)
        self._steady = np.full(1, self.omega**2)
        self._out = np.empty(10)

    def reference(
        self, clock: Clock, course: Course, feet: Array, stance: Array, lean: Lean | None = None
    ) -> ComReference:
        """What the centre of mass is to do now.

        Args:
            clock: of the gait.
            course: of the formation.
            feet: (4, 2) where the feet are, those in the air where they took off, world [m].
            stance: (4, 2) of the feet about the course, see `footprint`.
            lean: of the centre of mass from the middle of the feet, of who stands.
        """
        omega = self.omega
        if not clock.running:
            middle = feet.mean(axis=0)
            if lean is not None:
                (x, u, a), (y, v, b) = lean
                pressure = middle + np.array([x - a / omega**2, y - b / omega**2])
                divergent = middle + np.array([x + u / omega, y + v / omega])
                return ComReference(pressure, divergent, np.full(4, 0.25), 0.0, omega)
            return ComReference(middle, middle, np.full(4, 0.25), 0.0, omega)
        out, stiffness, push, rise = self._out, self._steady, 1.0, (0.0, 0.0)
        thrust = clock.thrust
        if not thrust.steady:
            unit = self._gravity * clock.period
            push, rate, high = thrust.at(clock.phase)
            rise = unit * clock.period * high, unit * rate
            stiffness = self._gravity * thrust.push / (self._height + unit * clock.period * thrust.rise)
        falls = Footfalls(
            float(clock.phase), float(clock.period), float(clock.duty), LOADING, clock.offsets, clock.first, clock.last
        )
        travel = Travel(course.position, float(course.yaw), course.velocity, np.ascontiguousarray(stance))
        velocity = course.world_velocity(self._end)
        preview(falls, travel, np.ascontiguousarray(feet), self._step, omega, velocity, stiffness, out)
        return ComReference(out[0:2].copy(), out[2:4].copy(), out[4:8].copy(), float(out[8]), float(out[9]), push, rise)


def footholds(course: Course, times: Array, stance: Array) -> Array:
    """Where feet stand (4, 2) that are in the middle of their stance at `times` (4,) from now, world [m].

    In the middle of its stance a foot is where it would be if the robot stood there: the neutral point of Raibert
    (1986, *Legged Robots That Balance*, ch. 2), half a stance ahead of the hip at touchdown.
    """
    out = np.empty((4, 2))
    landings(Travel(course.position, course.yaw, course.velocity, stance), times, out)
    return out
