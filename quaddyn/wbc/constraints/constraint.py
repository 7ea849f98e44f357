"""`Constraint`: base of the elements whose rows are not a desired motion or force.

A constraint has rows; the level to which it belongs determines their priority.  Weights make rows of different units
comparable, as accelerations: forces are divided by the mass, torques by the mass and the leg length, and joint
accelerations are multiplied by the leg length.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ...errors import ArgumentError
from ...robot.arguments import check_number
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..element import Element
from ..tick import Rows, Tick


class Constraint(Element):
    """Base class of constraints: rows on accelerations, forces and torques, on any level of a controller.

    For a constraint of your own, derive from this class and define `rows`.

    Args:
        name: name of the constraint in the controller.
        size: number of parameters in `block`, which a compiled tick reads.
        robot: robot to which the constraint belongs; None if it fits any robot.

    Attributes:
        unit: unit of the rows, for explanations.
    """

    def __init__(self, name: str, size: int = 0, *, robot: Robot | None = None) -> None:
        self.name, self.robot = name, robot
        self._attach(np.zeros(size))

    #: Unit of the rows, for explanations.
    unit: str = ""

    def rows(self, tick: Tick) -> list[Rows]:
        """Returns the rows at a tick; custom constraints define this method, the package's constraints are compiled."""
        raise NotImplementedError(f"{type(self).__name__}: the class must define the method rows(tick)")

    def row_name(self, contact: str, row: int) -> str:
        """Returns the name of a row for explanations; `contact` is the contact of the row, or ""."""
        return self.name

    def row_unit(self, row: int) -> str:
        """Returns the unit of a row."""
        return self.unit

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def check_tolerance(argument: str, value: float) -> float:
    """Validates a relative tolerance and returns it.

    Raises:
        ArgumentError: not in [0, 1).
    """
    given = check_number(argument, value)
    if not 0.0 <= given < 1.0:
        raise ArgumentError(f"{argument}: expected a number in [0, 1), got {value}")
    return given


def check_motor_values(robot: Robot, argument: str, given: ArrayLike) -> Array:
    """Validates nonnegative numbers, which may be infinite, and returns them as (nu,); a scalar is repeated.

    Raises:
        ArgumentError: another shape, or a negative number.
    """
    values = np.asarray(given, dtype=np.float64)
    if values.shape not in ((), (robot.nu,)) or not (values >= 0.0).all():
        raise ArgumentError(f"{argument}: expected a number >= 0 or {robot.nu} such numbers, got {given!r}")
    return np.broadcast_to(values, (robot.nu,))
