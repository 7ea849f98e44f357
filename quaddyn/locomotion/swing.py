"""`SwingTrajectory`: the path of a swing foot, smooth although its target may move."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import NamedTuple, Self

import numpy as np

from ..deprecation import renamed_attributes
from ..urdf.tree import Array
from .swing_state import SwingStates, allocate_swings, move_swing, start_swing

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
        copy_row(self.states, self.row, states, 0)
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


class SwingMapping(MutableMapping[int, SwingTrajectory]):
    """Swing trajectories by index of the foot, in the order of the lift-offs.

    The trajectories share the memory of the record.  Assigning one copies its state.

    Args:
        states: record of the swings.
    """

    __slots__ = ("states",)

    def __init__(self, states: SwingStates) -> None:
        self.states = states

    def __getitem__(self, foot: int) -> SwingTrajectory:
        if foot not in self:
            raise KeyError(foot)
        return SwingTrajectory.from_row(self.states, foot)

    def __contains__(self, foot: object) -> bool:
        flags = self.states.is_swinging
        return isinstance(foot, int) and 0 <= foot < len(flags) and bool(flags[foot])

    def __setitem__(self, foot: int, swing: SwingTrajectory) -> None:
        copy_row(swing.states, swing.row, self.states, foot)
        self.states.n_liftoffs += 1
        self.states.is_swinging[foot], self.states.liftoff_number[foot] = 1, self.states.n_liftoffs

    def __delitem__(self, foot: int) -> None:
        if foot not in self:
            raise KeyError(foot)
        self.states.is_swinging[foot] = 0

    def __iter__(self) -> Iterator[int]:
        feet = np.flatnonzero(self.states.is_swinging)
        yield from feet[np.argsort(self.states.liftoff_number[feet])].tolist()

    def __len__(self) -> int:
        return int(np.count_nonzero(self.states.is_swinging))


def copy_row(source: SwingStates, source_row: int, destination: SwingStates, row: int) -> None:
    """Copies the swing in a row of a record to a row of another record."""
    for given, mine in zip(source, destination, strict=True):
        if given.ndim > 0:
            mine[row] = given[source_row]
