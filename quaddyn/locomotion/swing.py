"""`SwingTrajectory`: the path of a swing foot, smooth although its target may move."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..compiler import Matrix, Vector, entry
from ..deprecation import renamed_attributes
from ..urdf.tree import Array
from .minimum_jerk import advance_quintic

#: Fraction of the swing after which the target is frozen: later changes would need too large accelerations.
TARGET_FREEZE_PHASE = 0.8
#: Fraction of the swing at which the foot is highest.
APEX_PHASE = 0.45
#: Descent of a foot that touches down late: increase of the touchdown speed per fraction of the swing that it is late,
#: and the maximum, as multiples of the touchdown speed.
LATE_DESCENT_GAIN, MAX_DESCENT_RATIO = 20.0, 8.0
WORLD_UP = (0.0, 0.0, 1.0)


class SwingPath(NamedTuple):
    """State of a swing foot on its path.

    Attributes:
        motion: (3, 3) position [m], velocity [m/s] and acceleration [m/s^2] along x, y and z, a row each, without the
            lift.
        lift: (3,) height above that motion along the ground normal, its rate and its acceleration.
        normal: (3,) unit normal of the ground.
        position: (3,) position of the path, world [m].
        velocity: (3,) its velocity [m/s].
        acceleration: (3,) its acceleration [m/s^2].
        target: (3,) position at touchdown, world [m].
    """

    motion: Matrix
    lift: Vector
    normal: Vector
    position: Vector
    velocity: Vector
    acceleration: Vector
    target: Vector


class SwingTiming(NamedTuple):
    """Start and end of the horizontal motion and of the change of height, as fractions of the swing.

    Attributes:
        horizontal_start: start of the horizontal motion.
        horizontal_end: end of the horizontal motion; at least `TARGET_FREEZE_PHASE`.
        vertical_start: start of the change of height to that of the target.
        vertical_end: end of the change of height.
    """

    horizontal_start: float
    horizontal_end: float
    vertical_start: float
    vertical_end: float


#: Timing without edges: both motions take the whole swing.
UNIFORM_TIMING = SwingTiming(0.0, 1.0, 0.0, 1.0)
#: Timings at edges: up first and then over the edge, and over the edge first and then down; a moderate and an extreme
#: one of each.
UP_FIRST_TIMINGS = SwingTiming(0.08, 1.0, 0.0, 0.75), SwingTiming(0.15, 1.0, 0.0, 0.5)
OVER_FIRST_TIMINGS = SwingTiming(0.0, 0.92, 0.2, 1.0), SwingTiming(0.0, 0.85, 0.45, 1.0)


@renamed_attributes(sink="touchdown_speed", up="ground_normal", ahead="remaining_path")
class SwingTrajectory:
    """Trajectory of one foot from lift-off to touchdown: a motion from foothold to foothold and a lift above it.

    From the present position, velocity *and acceleration*, the remaining motion to the target, which ends at rest with
    zero acceleration, is at every instant the minimum-jerk path (the quintic of Flash and Hogan 1985, "The coordination
    of arm movements").  So position, velocity and acceleration are continuous even if the target jumps; if it does not,
    the path is a single quintic.  The *lift*, along the ground normal, consists of two quintics: to the apex, and from
    there to the ground, where the foot arrives with a small downward speed.

    At an edge, horizontal motion and change of height have separate timings (`SwingTiming`).

    *Late touchdown*: after the planned time the foot continues straight down, ever faster, until touchdown.
    *Early contact*: contact detection ends the swing; after the apex it is a touchdown, before the apex a stumble.

    Args:
        position: (3,) position of the foot at lift-off, world [m].
        velocity: (3,) velocity of the foot at lift-off [m/s].
        duration: duration of the swing [s].
        clearance: height of the apex over the straight line from lift-off to target [m].
        touchdown_speed: downward speed of the foot at touchdown [m/s].
        ground_normal: (3,) unit normal of the ground, world.

    Attributes:
        position: (3,) present position of the path, world [m].
        velocity: (3,) present velocity [m/s].
        acceleration: (3,) present acceleration [m/s^2].
        clearance: height of the apex [m], as given last.
        progress: elapsed time divided by the duration; beyond 1 if touchdown is late.
        start: (3,) position at lift-off, world [m].
        target: (3,) position at touchdown, world [m], as given last.
        timing: timing of the horizontal motion and of the change of height; may be set while neither has ended.
    """

    __slots__ = (
        "_advance_path",
        "_duration",
        "_path",
        "_touchdown_speed",
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
        touchdown_speed: float,
        ground_normal: Array | tuple[float, float, float] = WORLD_UP,
    ) -> None:
        self.position, self.velocity = np.array(position), np.array(velocity)
        self.acceleration = np.zeros(3)
        self.start, self.target = np.array(position), np.array(position)
        self._duration, self.clearance, self._touchdown_speed = duration, clearance, touchdown_speed
        motion = np.column_stack((self.position, self.velocity, self.acceleration))
        normal = np.array(ground_normal, dtype=np.float64)
        self._path = SwingPath(
            motion, np.zeros(3), normal, self.position, self.velocity, self.acceleration, self.target
        )
        self._advance_path = advance_path.compile()
        self.progress = 0.0
        self.timing = UNIFORM_TIMING

    def advance(
        self,
        dt: float,
        target: Array | tuple[float, float, float],
        duration: float | None = None,
        clearance: float | None = None,
    ) -> None:
        """Advances the trajectory by `dt`.

        Args:
            dt: time step [s].
            target: (3,) position at touchdown, world [m]; ignored after `TARGET_FREEZE_PHASE`.
            duration: new duration of the whole swing [s]; None if it has not changed.
            clearance: new height of the apex [m]; None if it has not changed.  Ignored after the apex.
        """
        if duration is not None:
            self._duration = duration
        if clearance is not None:
            self.clearance = clearance
        if self.progress < TARGET_FREEZE_PHASE:
            self.target[:] = target
        progress, duration, timing = self.progress, self._duration, self.timing
        time_to_touchdown, time_to_apex = (1.0 - progress) * duration, (APEX_PHASE - progress) * duration
        # A motion that has not begun stays at rest; an infinite time marks it.
        horizontal_time = (
            (timing.horizontal_end - progress) * duration if progress >= timing.horizontal_start else math.inf
        )
        vertical_time = (timing.vertical_end - progress) * duration if progress >= timing.vertical_start else math.inf
        speed = self._touchdown_speed * min(1.0 + LATE_DESCENT_GAIN * max(0.0, progress - 1.0), MAX_DESCENT_RATIO)
        self._advance_path(
            self._path, self.clearance, speed, time_to_apex, time_to_touchdown, horizontal_time, vertical_time, dt
        )
        self.progress += dt / duration

    @property
    def touchdown_speed(self) -> float:
        """Downward speed of the foot at touchdown [m/s]."""
        return self._touchdown_speed

    @property
    def ground_normal(self) -> Array:
        """(3,) unit normal of the ground, world."""
        return self._path.normal

    def remaining_path(self, count: int = 12) -> Array:
        """Returns points (count + 1, 3) of the remaining path for the present target [m].

        If touchdown is late, the present position (1, 3) alone.

        Args:
            count: number of steps from now to touchdown.
        """
        copy = SwingTrajectory(
            self.position,
            self.velocity,
            duration=self._duration,
            clearance=self.clearance,
            touchdown_speed=self._touchdown_speed,
            ground_normal=self._path.normal,
        )
        for source, destination in zip(self._path, copy._path, strict=True):
            destination[...] = source
        copy.start, copy.progress, copy.timing = self.start, self.progress, self.timing
        points = [copy.position.copy()]
        remaining_time = (1.0 - self.progress) * self._duration
        for _ in range(count if remaining_time > 0.0 else 0):
            copy.advance(remaining_time / count, self.target)
            points.append(copy.position.copy())
        return np.array(points)


@entry("swing trajectories")
def advance_path(
    path: SwingPath,
    clearance: float,
    touchdown_speed: float,
    time_to_apex: float,
    time_to_touchdown: float,
    horizontal_time: float,
    vertical_time: float,
    dt: float,
) -> None:
    """Advances the path of a swing foot by `dt`.

    Args:
        path: state of the foot; updated except for target and normal.
        clearance: height of the apex over the straight line [m].
        touchdown_speed: downward speed of the foot at touchdown [m/s].
        time_to_apex: time until the apex [s]; 0 or less after it.
        time_to_touchdown: time until touchdown [s].
        horizontal_time: time until the end of the horizontal motion [s]; infinite before its start.
        vertical_time: time until the end of the change of height [s]; infinite before its start.
        dt: time step [s].
    """
    x, v, a = path.lift[0], path.lift[1], path.lift[2]
    goal, speed, time = (
        (clearance, 0.0, time_to_apex) if time_to_apex > 0.0 else (0.0, -touchdown_speed, time_to_touchdown)
    )
    x, v, a = advance_quintic(x, v, a, goal, speed, time, dt)
    path.lift[0], path.lift[1], path.lift[2] = x, v, a
    for i in range(3):
        normal = path.normal[i]
        b, c, d = path.motion[i, 0], path.motion[i, 1], path.motion[i, 2]
        motion_time = horizontal_time if i < 2 else vertical_time
        if motion_time < math.inf:
            b, c, d = advance_quintic(b, c, d, path.target[i], 0.0, motion_time, dt)
            path.motion[i, 0], path.motion[i, 1], path.motion[i, 2] = b, c, d
        path.position[i], path.velocity[i], path.acceleration[i] = b + normal * x, c + normal * v, d + normal * a
