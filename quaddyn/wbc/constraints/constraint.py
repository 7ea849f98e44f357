"""`Constraint`: rows that are not a wanted motion or force.

A constraint has rows; the level that it is on decides their priority.  Weights make rows of different units comparable,
as accelerations: forces are divided by the mass, torques by the mass and the leg length, and joint accelerations are
multiplied by the leg length.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ...errors import ArgumentError
from ...robot.arguments import number
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..element import Element
from ..tick import Rows, Tick


class Constraint(Element):
    """Rows over accelerations, forces and torques, on any level of a controller.

    Args:
        name: by which the controller knows it.
        size: of its `block`: how many numbers a compiled tick reads.

    Attributes:
        robot: the one that it is of, None where it could be any.
    """

    def __init__(self, name: str, size: int = 0, *, robot: Robot | None = None) -> None:
        self.name, self.robot = name, robot
        self._attach(np.zeros(size))

    #: Of its rows, for explanations.
    unit: str = ""

    def rows(self, tick: Tick) -> list[Rows]:
        """The rows at one instant, for constraints written in Python; those of the package are compiled."""
        raise NotImplementedError(f"{type(self).__name__}: define rows(tick)")

    def row_name(self, contact: str, row: int) -> str:
        """Name of a row, for explanations; `contact` that it is about, or ""."""
        return self.name

    def row_unit(self, row: int) -> str:
        """Unit of a row."""
        return self.unit

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def tolerance(what: str, value: float) -> float:
    """The number, unless it is no share from 0 to below 1."""
    given = number(what, value)
    if not 0.0 <= given < 1.0:
        raise ArgumentError(f"{what}: expected a share in [0, 1), got {value}")
    return given


def per_motor(robot: Robot, what: str, given: ArrayLike) -> Array:
    """(nu,) numbers that are not negative, unless they are not that; infinite where there is no bound."""
    values = np.asarray(given, dtype=np.float64)
    if values.shape not in ((), (robot.nu,)) or not (values >= 0.0).all():
        raise ArgumentError(f"{what}: expected a number or {robot.nu} of them, not negative, got {given!r}")
    return np.broadcast_to(values, (robot.nu,))
