"""`Obstacle`: a plane, box, sphere or capsule in the world, for collision constraints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..errors import ArgumentError
from ..robot.arguments import check_number, check_vector
from ..urdf.tree import Array, FrozenArrays, frozen
from .capsule_model import cover_box


@dataclass(frozen=True, slots=True, eq=False)
class Obstacle(FrozenArrays):
    """Shape of an obstacle, in its own axes, whose pose is set by `CollisionLimits.set_obstacle_pose`.

    Created by `plane`, `box`, `sphere` and `capsule`.

    Attributes:
        ends: (n, 2, 3) segments of the capsules that cover it [m]; of a plane, its unit normal and zeros.
        radii: (n,) radii of the capsules [m].
        is_plane: whether it is a half-space; a boolean.
        overapproximation: largest distance of a point of the capsules from the shape [m]; zero except for boxes.
    """

    ends: Array
    radii: Array
    is_plane: bool = False
    overapproximation: float = 0.0

    @staticmethod
    def plane(normal: ArrayLike = (0.0, 0.0, 1.0)) -> Obstacle:
        """Returns the half-space below a plane through the origin.

        Args:
            normal: (3,) outward normal, of any length.

        Raises:
            ArgumentError: a zero vector.
        """
        n = check_vector("normal", normal, (3,), "a direction")
        length = float(np.linalg.norm(n))
        if length == 0.0:
            raise ArgumentError(f"normal: expected a vector of nonzero length, got {normal!r}")
        return Obstacle(frozen([[n / length, np.zeros(3)]]), frozen([0.0]), is_plane=True)

    @staticmethod
    def sphere(radius: float) -> Obstacle:
        """Returns a sphere about the origin.

        Args:
            radius: radius [m]; 0 for a point.
        """
        return Obstacle(frozen(np.zeros((1, 2, 3))), frozen([_check_length("radius", radius)]))

    @staticmethod
    def capsule(radius: float, start: ArrayLike, end: ArrayLike) -> Obstacle:
        """Returns the capsule of all points within a distance of a segment.

        Args:
            radius: radius [m].
            start: (3,) first end of the segment [m].
            end: (3,) second end of the segment [m].
        """
        ends = [check_vector(name, x, (3,), "a point") for name, x in (("start", start), ("end", end))]
        return Obstacle(frozen([ends]), frozen([_check_length("radius", radius)]))

    @staticmethod
    def box(size: ArrayLike) -> Obstacle:
        """Returns a box about the origin, covered by capsules, see `overapproximation`.

        Args:
            size: (3,) lengths of the sides along the axes [m].
        """
        sides = check_vector("size", size, (3,), "three lengths")
        if not (sides > 0.0).all():
            raise ArgumentError(f"size: expected three positive lengths, got {size!r}")
        capsules = list(cover_box(sides))
        ends, radii = [ends for ends, _, _ in capsules], [radius for _, radius, _ in capsules]
        return Obstacle(
            frozen(ends),
            frozen(radii),
            overapproximation=max(overapproximation for _, _, overapproximation in capsules),
        )


def _check_length(name: str, value: float) -> float:
    """Returns `value` as a float after checking that it is a finite length of 0 or more."""
    length = check_number(name, value)
    if not 0.0 <= length < np.inf:
        raise ArgumentError(f"{name}: expected a finite length, 0 or more, got {value}")
    return length
