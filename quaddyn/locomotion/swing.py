"""`SwingTrajectory`: the path of a swing foot, smooth although its target may move; compiled for all feet at once.

Each tick takes a step on a minimum-jerk path, a polynomial of degree 5.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from ..compiler import IntVector, Matrix, Record, Tensor, Vec3, Vector, compiled, entry, vec3
from ..deprecation import renamed_attributes
from ..urdf.tree import Array


@compiled()
def advance_quintic(
    x: float, v: float, a: float, goal: float, speed: float, time: float, dt: float
) -> tuple[float, float, float]:
    """Returns position, velocity and acceleration after `dt` on the minimum-jerk path to a goal.

    The path x(t) from the present state to `goal` and `speed`, with zero acceleration, at t = `time` is a polynomial of
    degree 5; after that it continues at constant speed.

    Args:
        x: present position [m].
        v: present velocity [m/s].
        a: present acceleration [m/s^2].
        goal: position at the end [m].
        speed: velocity at the end [m/s].
        time: time until the end [s]; 0 or less after it.
        dt: time step [s].
    """
    if dt >= time:
        return goal + speed * (dt - max(time, 0.0)) if time > 0.0 else x + speed * dt, speed, 0.0
    # Remainders of x + v t + a t^2 / 2 at the end, in position, velocity and acceleration.
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


#: Fraction of the swing after which the target is frozen: later changes would need too large accelerations.
TARGET_FREEZE_PHASE = 0.8
#: Fraction of the swing at which the foot is highest.
APEX_PHASE = 0.45
#: Descent of a foot that touches down late: increase of the touchdown speed per fraction of the swing that it is late,
#: and the maximum, as multiples of the touchdown speed.
LATE_DESCENT_GAIN, MAX_DESCENT_RATIO = 20.0, 8.0
#: Height difference up to which terrain counts as even [l].
EVEN_TERRAIN_TOLERANCE = 0.02


WORLD_UP = (0.0, 0.0, 1.0)


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


class SwingStates(Record):
    """Swings of n feet, one row per foot.

    The path of a foot is the sum of a *motion* from foothold to foothold and a *lift* along the ground normal.
    """

    is_swinging: IntVector  # (n,)
    liftoff_number: IntVector  # (n,) number of the lift-off with which the present or last swing began
    n_liftoffs: int  # number of all lift-offs so far
    progress: Vector  # (n,) elapsed time divided by the duration; beyond 1 if touchdown is late
    duration: Vector  # (n,) of the whole swing [s]
    clearance: Vector  # (n,) height of the apex over the straight line from start to target [m]
    touchdown_speed: Vector  # (n,) downward speed at touchdown [m/s]
    timing: Matrix  # (n, 4) start and end of the horizontal motion and of the change of height; see `SwingTiming`
    normal: Matrix  # (n, 3) unit normal of the ground, world
    start: Matrix  # (n, 3) position at lift-off, world [m]
    target: Matrix  # (n, 3) position at touchdown, world [m]
    motion: Tensor  # (n, 3, 3) position [m], velocity [m/s] and acceleration [m/s^2] along x, y and z, a row each
    lift: Matrix  # (n, 3) height above that motion, its rate and its acceleration [m, m/s, m/s^2]
    position: Matrix  # (n, 3) of the path, world [m]
    velocity: Matrix  # (n, 3) [m/s]
    acceleration: Matrix  # (n, 3) [m/s^2]


@compiled(inline=False)
def begin_swing(
    s: SwingStates,
    foot: int,
    position: Vec3,
    velocity: Vec3,
    normal: Vec3,
    duration: float,
    clearance: float,
    touchdown_speed: float,
) -> None:
    """Begins the swing of a foot, with its present position as the target.

    Args:
        s: swings of the feet.
        foot: index of the foot.
        position: (3,) present position of the foot, world [m].
        velocity: (3,) present velocity of the foot [m/s].
        normal: (3,) unit normal of the ground, world.
        duration: duration of the swing [s].
        clearance: height of the apex over the straight line from lift-off to target [m].
        touchdown_speed: downward speed of the foot at touchdown [m/s].
    """
    s.n_liftoffs += 1
    s.liftoff_number[foot] = s.n_liftoffs
    s.is_swinging[foot] = 1
    s.progress[foot], s.duration[foot] = 0.0, duration
    s.clearance[foot], s.touchdown_speed[foot] = clearance, touchdown_speed
    set_timing(s, foot, 0.0, 1.0, 0.0, 1.0)
    s.normal[foot] = normal
    s.start[foot] = position
    s.target[foot] = position
    s.position[foot] = position
    s.velocity[foot] = velocity
    s.acceleration[foot] = 0.0
    s.lift[foot] = 0.0
    for i in range(3):
        s.motion[foot, i] = vec3(position[i], velocity[i], 0.0)


@compiled()
def set_timing(
    s: SwingStates,
    foot: int,
    horizontal_start: float,
    horizontal_end: float,
    vertical_start: float,
    vertical_end: float,
) -> None:
    """Sets the timing of a swing, as fractions of the swing; see `SwingTiming`."""
    s.timing[foot, 0], s.timing[foot, 1] = horizontal_start, horizontal_end
    s.timing[foot, 2], s.timing[foot, 3] = vertical_start, vertical_end


@compiled()
def set_target(s: SwingStates, foot: int, target: Vec3) -> None:
    """Sets the position of a foot at touchdown (3,), world [m], unless it is frozen."""
    if s.progress[foot] < TARGET_FREEZE_PHASE:
        s.target[foot] = target


@compiled()
def find_next_swing(s: SwingStates, liftoff_number: int) -> int:
    """Returns the swing foot with the smallest lift-off number above `liftoff_number`; -1 if there is none.

    With `liftoff_number` = 0 this is the swing foot that lifted off first.
    """
    found = -1
    for foot in range(len(s.is_swinging)):
        if s.is_swinging[foot] != 0 and s.liftoff_number[foot] > liftoff_number:
            if found < 0 or s.liftoff_number[foot] < s.liftoff_number[found]:
                found = foot
    return found


@compiled(inline=False)
def advance_swing(s: SwingStates, foot: int, dt: float) -> None:
    """Advances the path of a swing foot by `dt` [s] toward its target.

    The foot remains at rest along an axis whose motion has not begun.
    """
    progress, duration = s.progress[foot], s.duration[foot]
    time_to_touchdown, time_to_apex = (1.0 - progress) * duration, (APEX_PHASE - progress) * duration
    x, v, a = s.lift[foot, 0], s.lift[foot, 1], s.lift[foot, 2]
    if time_to_apex > 0.0:
        x, v, a = advance_quintic(x, v, a, s.clearance[foot], 0.0, time_to_apex, dt)
    else:
        ratio = min(1.0 + LATE_DESCENT_GAIN * max(0.0, progress - 1.0), MAX_DESCENT_RATIO)
        x, v, a = advance_quintic(x, v, a, 0.0, -s.touchdown_speed[foot] * ratio, time_to_touchdown, dt)
    s.lift[foot] = vec3(x, v, a)
    for i in range(3):
        b, c, d = s.motion[foot, i, 0], s.motion[foot, i, 1], s.motion[foot, i, 2]
        begin = s.timing[foot, 0] if i < 2 else s.timing[foot, 2]
        end = s.timing[foot, 1] if i < 2 else s.timing[foot, 3]
        if progress >= begin:
            b, c, d = advance_quintic(b, c, d, s.target[foot, i], 0.0, (end - progress) * duration, dt)
            s.motion[foot, i] = vec3(b, c, d)
        normal = s.normal[foot, i]
        s.position[foot, i] = b + normal * x
        s.velocity[foot, i] = c + normal * v
        s.acceleration[foot, i] = d + normal * a
    s.progress[foot] += dt / duration


# -- entries ---------------------------------------------------------------------------------------------------------
@entry("swing trajectories")
def start_swing(
    s: SwingStates,
    foot: int,
    position: Vector,
    velocity: Vector,
    normal: Vector,
    duration: float,
    clearance: float,
    touchdown_speed: float,
) -> None:
    """Begins the swing of a foot; see `begin_swing`."""
    begin_swing(s, foot, vec3(position), vec3(velocity), vec3(normal), duration, clearance, touchdown_speed)


@entry("swing trajectories")
def move_swing(
    s: SwingStates, foot: int, x: float, y: float, z: float, duration: float, clearance: float, dt: float
) -> None:
    """Advances the path of a swing foot by `dt` [s] toward the target (x, y, z), world [m].

    Args:
        s: swings of the feet.
        foot: index of the foot.
        x: world x of the target [m].
        y: world y of the target [m].
        z: world z of the target [m].
        duration: duration of the whole swing [s].
        clearance: height of the apex over the straight line from lift-off to target [m].
        dt: time step [s].
    """
    s.duration[foot], s.clearance[foot] = duration, clearance
    set_target(s, foot, vec3(x, y, z))
    advance_swing(s, foot, dt)


def swing_shapes(count: int) -> dict[str, int | tuple[int, ...]]:
    """Returns the shapes of the arrays of `SwingStates` for a number of feet."""
    scalars = ("is_swinging", "liftoff_number", "progress", "duration", "clearance", "touchdown_speed")
    vectors = ("normal", "start", "target", "lift", "position", "velocity", "acceleration")
    return {
        **dict.fromkeys(scalars, count),
        **dict.fromkeys(vectors, (count, 3)),
        "timing": (count, 4),
        "motion": (count, 3, 3),
    }


def allocate_swings(count: int = 4) -> SwingStates:
    """Returns the states of a number of feet without swings."""
    return SwingStates.allocate(**swing_shapes(count))


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
        states: record of the compiled functions.
        row: row of the record that contains this swing.
    """

    __slots__ = ("row", "states")

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
        self.states, self.row = allocate_swings(1), 0
        vectors = (np.array(x, dtype=np.float64) for x in (position, velocity, ground_normal))
        start_swing(self.states, 0, *vectors, float(duration), float(clearance), float(touchdown_speed))

    @classmethod
    def from_row(cls, states: SwingStates, row: int) -> Self:
        """Returns the trajectory in a row of a record; it shares the memory of the record."""
        swing = cls.__new__(cls)
        swing.states, swing.row = states, row
        return swing

    def copy(self) -> Self:
        """Returns a trajectory with the same state in separate memory."""
        states = allocate_swings(1)
        for given, copied in zip(self.states, states, strict=True):
            if given.ndim > 0:
                copied[0] = given[self.row]
        return self.from_row(states, 0)

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
        duration = self.states.duration[self.row] if duration is None else duration
        clearance = self.clearance if clearance is None else clearance
        x, y, z = map(float, target)
        move_swing(self.states, self.row, x, y, z, float(duration), float(clearance), float(dt))

    @property
    def position(self) -> Array:
        """(3,) present position of the path, world [m]."""
        row: Array = self.states.position[self.row]
        return row

    @property
    def velocity(self) -> Array:
        """(3,) present velocity [m/s]."""
        row: Array = self.states.velocity[self.row]
        return row

    @property
    def acceleration(self) -> Array:
        """(3,) present acceleration [m/s^2]."""
        row: Array = self.states.acceleration[self.row]
        return row

    @property
    def start(self) -> Array:
        """(3,) position at lift-off, world [m]."""
        row: Array = self.states.start[self.row]
        return row

    @property
    def target(self) -> Array:
        """(3,) position at touchdown, world [m], as given last."""
        row: Array = self.states.target[self.row]
        return row

    @property
    def ground_normal(self) -> Array:
        """(3,) unit normal of the ground, world."""
        row: Array = self.states.normal[self.row]
        return row

    @property
    def touchdown_speed(self) -> float:
        """Downward speed of the foot at touchdown [m/s]."""
        return float(self.states.touchdown_speed[self.row])

    @property
    def clearance(self) -> float:
        """Height of the apex over the straight line from lift-off to target [m], as given last."""
        return float(self.states.clearance[self.row])

    @property
    def progress(self) -> float:
        """Elapsed time divided by the duration; beyond 1 if touchdown is late."""
        return float(self.states.progress[self.row])

    @progress.setter
    def progress(self, value: float) -> None:
        self.states.progress[self.row] = value

    @property
    def timing(self) -> SwingTiming:
        """Timing of the horizontal motion and of the change of height; may be set while neither has ended."""
        return SwingTiming(*self.states.timing[self.row].tolist())

    @timing.setter
    def timing(self, value: SwingTiming) -> None:
        self.states.timing[self.row] = value

    def remaining_path(self, count: int = 12) -> Array:
        """Returns points (count + 1, 3) of the remaining path for the present target [m].

        If touchdown is late, the present position (1, 3) alone.

        Args:
            count: number of steps from now to touchdown.
        """
        swing = self.copy()
        points = [swing.position.copy()]
        remaining_time = (1.0 - self.progress) * float(self.states.duration[self.row])
        for _ in range(count if remaining_time > 0.0 else 0):
            swing.advance(remaining_time / count, self.target)
            points.append(swing.position.copy())
        return np.array(points)


def list_swings(states: SwingStates) -> dict[int, SwingTrajectory]:
    """Returns the swing trajectories by index of the foot, in the order of the lift-offs; they share the memory."""
    feet = np.flatnonzero(states.is_swinging)
    order = feet[np.argsort(states.liftoff_number[feet])].tolist()
    return {foot: SwingTrajectory.from_row(states, foot) for foot in order}
