"""`Obstacle`: a plane, box, sphere or capsule in the world that a robot keeps away from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..errors import ArgumentError
from ..robot.arguments import check_number, check_vector
from ..urdf.tree import Array, FrozenArrays, frozen
from .capsules import cover_box


@dataclass(frozen=True, slots=True, eq=False)
class Obstacle(FrozenArrays):
    """Something in the world, in axes of its own whose origin `CollisionLimits.set_obstacle_pose` moves.

    Made by `plane`, `box`, `sphere` and `capsule`.

    Attributes:
        ends: (n, 2, 3) of capsules that cover it; of a plane, its normal and zeros.
        radii: (n,) [m].
        flat: whether it is a half-space.
        excess: by which the capsules go beyond it at most [m]; nothing but for boxes.
    """

    ends: Array
    radii: Array
    is_plane: bool = False
    overapproximation: float = 0.0

    @staticmethod
    def plane(normal: ArrayLike = (0.0, 0.0, 1.0)) -> Obstacle:
        """The half-space below a plane through the origin.

        Args:
            normal: (3,) out of it, of any length.

        Raises:
            ArgumentError: no direction.
        """
        n = check_vector("normal", normal, (3,), "a direction")
        length = float(np.linalg.norm(n))
        if length == 0.0:
            raise ArgumentError(f"normal: expected a direction, got {normal!r}")
        return Obstacle(frozen([[n / length, np.zeros(3)]]), frozen([0.0]), is_plane=True)

    @staticmethod
    def sphere(radius: float) -> Obstacle:
        """A ball about the origin; 0 for a point."""
        return Obstacle(frozen(np.zeros((1, 2, 3))), frozen([_check_length("radius", radius)]))

    @staticmethod
    def capsule(radius: float, start: ArrayLike, end: ArrayLike) -> Obstacle:
        """All points within `radius` [m] of the segment from `start` to `end`, (3,) each [m]."""
        ends = [check_vector(name, x, (3,), "a point") for name, x in (("start", start), ("end", end))]
        return Obstacle(frozen([ends]), frozen([_check_length("radius", radius)]))

    @staticmethod
    def box(size: ArrayLike) -> Obstacle:
        """A box about the origin, sides (3,) along the axes [m]; covered by capsules, see `excess`."""
        sides = check_vector("size", size, (3,), "three lengths")
        if not (sides > 0.0).all():
            raise ArgumentError(f"size: expected three positive lengths, got {size!r}")
        found = list(cover_box(sides))
        ends, radii = [ends for ends, _, _ in found], [radius for _, radius, _ in found]
        return Obstacle(
            frozen(ends), frozen(radii), overapproximation=max(overapproximation for _, _, overapproximation in found)
        )


def _check_length(name: str, value: float) -> float:
    given = check_number(name, value)
    if not 0.0 <= given < np.inf:
        raise ArgumentError(f"{name}: expected a finite length, 0 or more, got {value}")
    return given
