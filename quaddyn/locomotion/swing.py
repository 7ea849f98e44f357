"""`Swing`: the path of a foot through the air, smooth however often its target moves."""

from __future__ import annotations

import numpy as np

from ..urdf.tree import Array

#: Share of the swing after which the target no longer moves: a shorter way would ask for too much acceleration.
SETTLED = 0.8
#: Where the foot is highest, as a share of the swing.
APEX = 0.45
UPWARDS = (0.0, 0.0, 1.0)


class Swing:
    """The path of one foot from lift-off to touchdown: the way over the ground, and the lift away from it.

    *Over the ground* the rest of the way is, at every instant, the shortest-jerk path (the quintic of Flash and Hogan
    1985, "The coordination of arm movements") from the present position, velocity *and acceleration* of the path to
    the target, to be reached at rest with zero acceleration.  So position, velocity and acceleration are continuous
    though the target may jump, and without jumps the path is one and the same quintic.  The *lift*, along the normal
    of the ground, is two quintics: to the apex, and from there to the ground, where the foot arrives sinking at a small
    speed.

    *Late*: past its time the foot sinks on at this speed, straight down, until it meets the ground.  *Early*: whoever
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
    """

    __slots__ = (
        "_duration",
        "_lift",
        "_sink",
        "_up",
        "_way",
        "acceleration",
        "clearance",
        "position",
        "progress",
        "start",
        "target",
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
        self._up = float(up[0]), float(up[1]), float(up[2])
        #: Position, velocity and acceleration: along x, y and z without the lift, and of the lift.
        self._way = [(float(x), float(v), 0.0) for x, v in zip(position, velocity, strict=True)]
        self._lift = (0.0, 0.0, 0.0)
        self.progress = 0.0

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
            self.target = np.array(target)
        left = (1.0 - self.progress) * self._duration
        rising = (APEX - self.progress) * self._duration
        if rising > 0.0:
            self._lift = quintic(*self._lift, self.clearance, 0.0, rising, dt)
        else:
            self._lift = quintic(*self._lift, 0.0, -self._sink, left, dt)
        for i, (goal, up) in enumerate(zip(self.target.tolist(), self._up, strict=True)):
            way = self._way[i] = quintic(*self._way[i], goal, 0.0, left, dt)
            self.position[i], self.velocity[i], self.acceleration[i] = (
                a + up * b for a, b in zip(way, self._lift, strict=True)
            )
        self.progress += dt / self._duration

    def ahead(self, count: int = 12) -> Array:
        """(count + 1, 3) the rest of the way if the target stays [m]; (1, 3) here, when late."""
        copy = Swing(
            self.position,
            self.velocity,
            duration=self._duration,
            clearance=self.clearance,
            sink=self._sink,
            up=self._up,
        )
        copy._way, copy._lift, copy.progress = list(self._way), self._lift, self.progress
        copy.start, copy.target = self.start, self.target
        points = [copy.position.copy()]
        left = (1.0 - self.progress) * self._duration
        for _ in range(count if left > 0.0 else 0):
            copy.advance(left / count, self.target)
            points.append(copy.position.copy())
        return np.array(points)


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
