"""Compiled motion of the path reference; see `PathReference`."""

import math

from ..compiler import Matrix, Record, Vector, compiled, entry

#: Half angle of an arc below which its chord is as long as the arc [rad].
STRAIGHT_ANGLE = 1e-9


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


@entry("path reference")
def write_footholds(path: PathState, stance: Matrix, times: Vector, footholds: Matrix) -> None:
    """Writes the nominal footholds (4, 2) [m] for the mid-stance times (4,) [s]; see `compute_foothold`."""
    for foot in range(4):
        footholds[foot, 0], footholds[foot, 1] = compute_foothold(path, stance, foot, times[foot])


@compiled()
def compute_world_velocity(path: PathState, time: float) -> tuple[float, float]:
    """Returns the velocity of the path reference after a time [s], world x and y [m/s]."""
    yaw = path.yaw + time * path.velocity[2]
    c, s = math.cos(yaw), math.sin(yaw)
    x, y = path.velocity[0], path.velocity[1]
    return x * c - y * s, x * s + y * c
