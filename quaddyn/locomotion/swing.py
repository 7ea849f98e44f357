"""`Swing`: the path of a foot through the air, smooth however often its target moves."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..compiler import Matrix, Vector, compiled, entry
from ..urdf.tree import Array

#: Share of the swing after which the target no longer moves: a shorter way would ask for too much acceleration.
SETTLED = 0.8
#: Where the foot is highest, as a share of the swing.
APEX = 0.45
#: How much faster a foot sinks for every share of the swing that it is late, and at most, as multiples.
HURRY, FASTEST = 20.0, 8.0
UPWARDS = (0.0, 0.0, 1.0)


class Path(NamedTuple):
    """Where a foot is on its way, and where that leads.

    Attributes:
        way: (3, 3) position, velocity and acceleration, a row each along x, y and z, without the lift.
        lift: (3,) the same of the lift.
        up: (3,) unit normal of the ground.
        position: (3,) of the path, world [m].
        velocity: (3,) [m/s].
        acceleration: (3,) [m/s^2].
        target: (3,) where it is to land, world [m].
    """

    way: Matrix
    lift: Vector
    up: Vector
    position: Vector
    velocity: Vector
    acceleration: Vector
    target: Vector


class Timing(NamedTuple):
    """When a foot goes its way, as shares of the swing: over the ground, and up or down to where it lands.

    Attributes:
        lift_off: when the way over the ground begins.
        over: when it ends; `SETTLED` or later.
        rise: when the foot begins to change its height to that of the target.
        level: when it has got there.
    """

    lift_off: float
    over: float
    rise: float
    level: float


#: Straight from foothold to foothold.
STRAIGHT = Timing(0.0, 1.0, 0.0, 1.0)
#: Up first and then over an edge, over an edge first and then down: a little, and as much as can be.
UPWARDS_FIRST = Timing(0.08, 1.0, 0.0, 0.75), Timing(0.15, 1.0, 0.0, 0.5)
ONWARDS_FIRST = Timing(0.0, 0.92, 0.2, 1.0), Timing(0.0, 0.85, 0.45, 1.0)


class Swing:
    """The path of one foot from lift-off to touchdown: the way over the ground, and the lift away from it.

    *Over the ground* the rest of the way is, at every instant, the shortest-jerk path (the quintic of Flash and Hogan
    1985, "The coordination of arm movements") from the present position, velocity *and acceleration* of the path to
    the target, to be reached at rest with zero acceleration.  So position, velocity and acceleration are continuous
    though the target may jump, and without jumps the path is one and the same quintic.  The *lift*, along the normal
    of the ground, is two quintics: to the apex, and from there to the ground, where the foot arrives sinking at a small
    speed.

    Where an edge is between, the way over the ground and the change of height take their own times (`Timing`).

    *Late*: past its time the foot sinks on, straight down and ever faster, until it meets the ground.  *Early*: whoever
    feels the ground ends the swing; on the way down that is a touchdown, before the apex a stumble.

    Args:
        position: (3,) of the foot at lift-off, world [m].
        velocity: (3,) at lift-off [m/s].
        duration: of the swing [s].
        clearance: height of the apex over the straight way from lift-off to target [m].
        sink: speed of the foot's descent at touchdown [m/s].
        up: (3,) unit normal of the ground.

    Attributes:
        position: (3,) of the path now, world [m].
        velocity: (3,) [m/s].
        acceleration: (3,) [m/s^2].
        clearance: as last given [m].
        progress: share of the duration that has passed; beyond 1 when late.
        start: (3,) where it began, world [m].
        target: (3,) as last given, world [m].
        timing: of the ways over the ground and up or down; may be set while both are yet to begin or go on.
    """

    __slots__ = (
        "_duration",
        "_onward",
        "_path",
        "_sink",
        "acceleration",
        "clearance",
        "position",
        "progress",
        "start",
        "target",
        "timing",
        "velocity",
    )

    def __init__(
        self,
        position: Array,
        velocity: Array,
        *,
        duration: float,
        clearance: float,
        sink: float,
        up: Array | tuple[float, float, float] = UPWARDS,
    ) -> None:
        self.position, self.velocity = np.array(position), np.array(velocity)
        self.acceleration = np.zeros(3)
        self.start, self.target = np.array(position), np.array(position)
        self._duration, self.clearance, self._sink = duration, clearance, sink
        way = np.column_stack((self.position, self.velocity, self.acceleration))
        normal = np.array(up, dtype=np.float64)
        self._path = Path(way, np.zeros(3), normal, self.position, self.velocity, self.acceleration, self.target)
        self._onward = onward.compile()
        self.progress = 0.0
        self.timing = STRAIGHT

    def advance(
        self,
        dt: float,
        target: Array | tuple[float, float, float],
        duration: float | None = None,
        clearance: float | None = None,
    ) -> None:
        """Let `dt` pass.

        Args:
            dt: [s].
            target: (3,) where to land, world [m]; ignored once `SETTLED`.
            duration: of the whole swing from now on [s], when it has changed.
            clearance: of the apex [m], when it has changed; ignored past the apex.
        """
        if duration is not None:
            self._duration = duration
        if clearance is not None:
            self.clearance = clearance
        if self.progress < SETTLED:
            self.target[:] = target
        now, duration, timing = self.progress, self._duration, self.timing
        left, rising = (1.0 - now) * duration, (APEX - now) * duration
        # A part of the way that has not begun goes nowhere: the foot is at rest there, and so is its target.
        over = (timing.over - now) * duration if now >= timing.lift_off else math.inf
        level = (timing.level - now) * duration if now >= timing.rise else math.inf
        sink = self._sink * min(1.0 + HURRY * max(0.0, now - 1.0), FASTEST)
        self._onward(self._path, self.clearance, sink, rising, left, over, level, dt)
        self.progress += dt / duration

    @property
    def sink(self) -> float:
        """Speed of the foot's descent at touchdown [m/s]."""
        return self._sink

    @property
    def up(self) -> Array:
        """(3,) unit normal of the ground."""
        return self._path.up

    def ahead(self, count: int = 12) -> Array:
        """(count + 1, 3) the rest of the way if the target stays [m]; (1, 3) here, when late."""
        copy = Swing(
            self.position,
            self.velocity,
            duration=self._duration,
            clearance=self.clearance,
            sink=self._sink,
            up=self._path.up,
        )
        for mine, its in zip(self._path, copy._path, strict=True):
            its[...] = mine
        copy.start, copy.progress, copy.timing = self.start, self.progress, self.timing
        points = [copy.position.copy()]
        left = (1.0 - self.progress) * self._duration
        for _ in range(count if left > 0.0 else 0):
            copy.advance(left / count, self.target)
            points.append(copy.position.copy())
        return np.array(points)


@compiled()
def quintic(
    x: float, v: float, a: float, goal: float, speed: float, time: float, dt: float
) -> tuple[float, float, float]:
    """Position, velocity and acceleration `dt` later on the shortest-jerk path to a goal.

    The path x(t) with these values at t = 0 and goal, speed, zero acceleration at t = `time` is a polynomial of
    degree 5; beyond, it goes on at constant speed.

    Args:
        x: position [m].
        v: velocity [m/s].
        a: acceleration [m/s^2].
        goal: position at the end [m].
        speed: velocity at the end [m/s].
        time: until the end [s].
        dt: [s].
    """
    if dt >= time:
        return goal + speed * (dt - max(time, 0.0)) if time > 0.0 else x + speed * dt, speed, 0.0
    # What is left over by x + v t + a t^2 / 2 at the end, in position, velocity and acceleration.
    d = goal - x - time * (v + 0.5 * time * a)
    e = (speed - v - time * a) * time
    f = -a * time * time
    c3, c4, c5 = 10.0 * d - 4.0 * e + 0.5 * f, -15.0 * d + 7.0 * e - f, 6.0 * d - 3.0 * e + 0.5 * f
    u = dt / time
    u2 = u * u
    return (
        x + v * dt + 0.5 * a * dt * dt + u2 * u * (c3 + u * (c4 + u * c5)),
        v + a * dt + u2 / time * (3.0 * c3 + u * (4.0 * c4 + u * 5.0 * c5)),
        a + u / (time * time) * (6.0 * c3 + u * (12.0 * c4 + u * 20.0 * c5)),
    )


@entry("the paths of feet in the air")
def onward(
    path: Path, clearance: float, sink: float, rising: float, left: float, over: float, level: float, dt: float
) -> None:
    """Let `dt` pass on a foot's way.

    Args:
        path: is written, its target and normal aside.
        clearance: height of the apex over the straight way [m].
        sink: speed of the foot's descent at touchdown [m/s].
        rising: time to the apex, 0 or less past it [s].
        left: time to touchdown [s].
        over: until the way over the ground ends, infinite before it begins [s].
        level: until the foot has the height of the target, infinite before it begins to change it [s].
        dt: [s].
    """
    x, v, a = path.lift[0], path.lift[1], path.lift[2]
    goal, speed, time = (clearance, 0.0, rising) if rising > 0.0 else (0.0, -sink, left)
    x, v, a = quintic(x, v, a, goal, speed, time, dt)
    path.lift[0], path.lift[1], path.lift[2] = x, v, a
    for i in range(3):
        up = path.up[i]
        b, c, d = path.way[i, 0], path.way[i, 1], path.way[i, 2]
        until = over if i < 2 else level
        if until < math.inf:
            b, c, d = quintic(b, c, d, path.target[i], 0.0, until, dt)
            path.way[i, 0], path.way[i, 1], path.way[i, 2] = b, c, d
        path.position[i], path.velocity[i], path.acceleration[i] = b + up * x, c + up * v, d + up * a
