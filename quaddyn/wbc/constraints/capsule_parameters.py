"""Parameters of `CollisionLimits` by name: views of its parameter block and of its list of pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compiler import IntVector, Vector, compiled
from ...urdf.tree import Array

#: Number of parameters before those of the capsules, and per capsule.
HEADER_SIZE, CAPSULE_SIZE = 4, 12
#: Number of integers of a pair in its list.
PAIR_ENTRIES = 3


class CollisionParameters(NamedTuple):
    """Parameters that all pairs share."""

    margin: float  # [m]
    barrier_rate: float  # [1/s]
    max_acceleration: float  # [m/s^2]
    has_floating_base: bool


class CapsuleParameters(NamedTuple):
    """Parameters of a capsule or plane, in its body, or in the world for an obstacle."""

    start: Vector  # (3,) first end of its segment [m]; of a plane, the normal
    end: Vector  # (3,) second end [m]; of a plane, one of its points
    radius: float  # [m]
    half_length: float  # of the segment [m]
    is_plane: bool
    velocity: Vector  # (3,) of an obstacle [m/s]


class CollisionPair(NamedTuple):
    """Pair of capsules."""

    first: int  # index of the first capsule
    second: int  # index of the second capsule
    run_end: int  # end of its run: the pairs with the same first capsule and nearby second ones


@compiled()
def collision_parameters(z: Vector) -> CollisionParameters:
    """Returns the parameters at the beginning of a parameter block."""
    return CollisionParameters(z[0], z[1], z[2], z[3] > 0.0)


@compiled()
def capsule_parameters(z: Vector, k: int) -> CapsuleParameters:
    """Returns views of the parameters of capsule k.

    Args:
        z: parameters of all capsules, one after the other.
        k: index of the capsule.
    """
    c = z[CAPSULE_SIZE * k :]
    return CapsuleParameters(c[0:3], c[3:6], c[6], c[7], c[8] != 0.0, c[9:12])


def make_capsule_parameters(ends: Array, radius: float, *, is_plane: bool = False) -> Array:
    """Returns the (CAPSULE_SIZE,) parameters of a capsule or plane at rest.

    Args:
        ends: (2, 3) ends of its segment; of a plane, the normal and one of its points [m].
        radius: radius [m].
        is_plane: whether it is a plane.
    """
    half_length = 0.0 if is_plane else 0.5 * float(np.linalg.norm(ends[1] - ends[0]))
    return np.array([*ends.ravel(), radius, half_length, float(is_plane), 0.0, 0.0, 0.0])


@compiled()
def collision_pair(pairs: IntVector, k: int) -> CollisionPair:
    """Returns pair k of a list of pairs."""
    first = PAIR_ENTRIES * k
    return CollisionPair(pairs[first], pairs[first + 1], pairs[first + 2])
