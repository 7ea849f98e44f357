"""Exact checks of the arguments of `Dynamics`, and their error messages.

`Dynamics` makes a few cheap comparisons first; these exact checks run only if one fails, and name the argument.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from ..errors import ArgumentError
from ..robot.robot import Robot
from ..urdf.tree import Array

#: Largest deviation from 1 of the norm of a quaternion or of a continuous joint's (cos, sin).  Pinocchio uses them
#: as they are, so that this is also the relative error which a deviation of that size may leave in a result.
UNIT_NORM_TOLERANCE: Final = 1e-6

#: Norm of q beyond which M is checked to be finite, and beyond which `Dynamics.update` rejects q [m]: the
#: terms of a State are computed in world axes about the world's origin and lose digits in proportion to the distance.
MAX_CONFIGURATION_NORM: Final = 1e8

#: Kinetic energy beyond which `Dynamics.update` rejects (q, v) [J], and length of v below which none comes near it.
MAX_KINETIC_ENERGY: Final = 1e50
MAX_UNCHECKED_SPEED: Final = 1e15


def check_unit_norms(robot: Robot, q: Array) -> None:
    """Checks that quaternions and (cos, sin) pairs of `q` have norm 1 to `UNIT_NORM_TOLERANCE`, and that loops close.

    Args:
        robot: the robot.
        q: (nq,) a finite configuration.

    Raises:
        ArgumentError: naming the joint, its entries and their norm, or the loop.
    """
    for name, start, size in robot.unit_norm_slices:
        stop = start + size
        norm = math.hypot(*q[start:stop])  # hypot scales its arguments: 1e200 does not overflow
        if not abs(norm - 1.0) <= UNIT_NORM_TOLERANCE:
            what = "quaternion (x, y, z, w)" if size == 4 else "(cos, sin)"
            raise ArgumentError(
                f"q: the {what} of joint {name!r}, q[{start}:{stop}] = {q[start:stop]}, has norm {norm:.9g}, "
                f"not 1 to within {UNIT_NORM_TOLERANCE:g}; divide it by its norm"
            )
    if robot.coupling is not None:
        robot.coupling.check(q)


def overflow_error(what: str, arguments: Mapping[str, Array]) -> ArgumentError:
    """Returns the error for finite `arguments` whose result `what` is not finite."""
    sizes = ", ".join(f"max|{name}| = {np.abs(x).max(initial=0.0):.3g}" for name, x in arguments.items())
    return ArgumentError(
        f"{what}: the result overflows although the arguments are finite ({sizes}); pass smaller values"
    )
