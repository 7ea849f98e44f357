"""`PathReference`: the commanded path of the robot, with its compiled motion."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..compiler import Matrix, Record, Vector, compiled, entry
from ..errors import ArgumentError
from ..robot.arguments import check_number
from ..urdf.tree import Array
from .state_fields import StateField

#: Half angle of an arc below which its chord is as long as the arc [rad].
STRAIGHT_ANGLE = 1e-9
#: Types of numbers, and the velocity below which, a command in a tuple or list needs no further checks.
NUMBER_TYPES, FAST_VELOCITY = frozenset((float, int, np.float64)), 1e9


def as_velocity_command(velocity: Sequence[float] | Array) -> Array:
    """Returns a velocity command as an array of floats.

    Args:
        velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s].

    Raises:
        ArgumentError: `velocity` does not have three entries, or one is not finite.
        ArgumentTypeError: an entry is not a number.
    """
    numbers = velocity.tolist() if isinstance(velocity, np.ndarray) else velocity
    if (type(numbers) is tuple or type(numbers) is list) and len(numbers) == 3:  # the usual cases, at every tick
        x, y, yaw_rate = numbers
        if type(x) in NUMBER_TYPES and type(y) in NUMBER_TYPES and type(yaw_rate) in NUMBER_TYPES:
            largest = FAST_VELOCITY
            if -largest < x < largest and -largest < y < largest and -largest < yaw_rate < largest:
                return np.array(numbers, np.float64)
    values = np.array(velocity, dtype=object)
    if values.shape == (3,):
        command = np.array([check_number("velocity", x) for x in values])
        if np.isfinite(command).all():
            return command
    raise ArgumentError(f"velocity: expected three finite numbers (forward, leftward, yaw rate), got {velocity}")


class PathState(Record):
    """Position, heading and velocity of the path reference."""

    position: Vector  # (2,) world [m]
    yaw: float  # of the heading frame, not wrapped [rad]
    velocity: Vector  # (3,) forward and leftward speed [m/s] and yaw rate [rad/s]


@compiled()
def compute_displacement(path: PathState, time: float) -> tuple[float, float]:
    """Returns the displacement of the path reference within a time [s] at its present velocity, world x and y [m].

    The path is an arc of a circle.  The chord of an arc over the angle a has the direction of the arc's middle and
    ``sin(a / 2) / (a / 2)`` of its length.
    """
    x, y, half = path.velocity[0], path.velocity[1], 0.5 * path.velocity[2] * time
    chord = time * (math.sin(half) / half if abs(half) > STRAIGHT_ANGLE else 1.0)
    c, s = math.cos(path.yaw + half) * chord, math.sin(path.yaw + half) * chord
    return x * c - y * s, x * s + y * c


@compiled()
def compute_foothold(path: PathState, stance: Matrix, foot: int, time: float) -> tuple[float, float]:
    """Returns the nominal foothold of a foot that is in mid-stance after a time [s], world x and y [m].

    At mid-stance a foot is at its nominal position under the robot: the neutral point of Raibert (1986, *Legged Robots
    That Balance*, ch. 2), half a stance ahead of the hip at touchdown.

    Args:
        path: the path reference.
        stance: (4, 2) nominal positions of the feet about the path reference, heading axes [m].
        foot: index of the foot.
        time: time until mid-stance [s].
    """
    dx, dy = compute_displacement(path, time)
    yaw = path.yaw + path.velocity[2] * time
    c, s = math.cos(yaw), math.sin(yaw)
    x, y = stance[foot, 0], stance[foot, 1]
    return path.position[0] + dx + c * x - s * y, path.position[1] + dy + s * x + c * y


@entry("path reference")
def advance_path_reference(path: PathState, dt: float) -> None:
    """Moves the path reference by its velocity for `dt` [s]."""
    x, y = compute_displacement(path, dt)
    path.position[0] += x
    path.position[1] += y
    path.yaw += path.velocity[2] * dt


@compiled()
def compute_world_velocity(path: PathState, time: float) -> tuple[float, float]:
    """Returns the velocity of the path reference after a time [s], world x and y [m/s]."""
    yaw = path.yaw + time * path.velocity[2]
    c, s = math.cos(yaw), math.sin(yaw)
    x, y = path.velocity[0], path.velocity[1]
    return x * c - y * s, x * s + y * c


class PathReference:
    """Reference point that moves at the commanded velocity: the center of the nominal footholds, with its heading.

    Its velocity is given in the *heading frame*, whose x axis is the robot's forward direction projected on the
    horizontal: forward and leftward speed [m/s] and yaw rate [rad/s].

    Args:
        position: (2,) or (3,) start position, world [m].
        yaw: yaw angle of the heading frame at the start [rad].

    Attributes:
        position: (2,) position, world [m].
        yaw: yaw angle of the heading frame, not wrapped [rad].
        velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s].
    """

    __slots__ = ("state",)

    position = StateField[Array]()
    yaw = StateField[float]()
    velocity = StateField[Array]()

    def __init__(self, position: Array, yaw: float) -> None:
        self.state = PathState.allocate(position=2, velocity=3)
        self.position, self.yaw = np.array(position[:2]), float(yaw)
