"""Gains, weights and selected rows of a motion task, in one flat array together with its reference.

All parameters of a task are in one float64 `block` (see `LAYOUT`), so that compiled code reads those of all tasks of a
controller as one array.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...errors import ArgumentError, UnknownNameError
from ...robot.arguments import check_array, check_number
from ...robot.robot import Robot
from ...urdf.tree import Array, frozen
from ..element import Element

#: Order of a block: a flag (whether there is a reference position), six vectors of one entry per row, then the
#: reference position.
LAYOUT = ("has_reference", "weight", "stiffness", "damping", "mask", "velocity", "acceleration", "position")

Gain = float | Sequence[float] | Array


class TaskGains(Element, fixed=("units", "size")):
    """Base class of `Task` with its gains, weights and row selection."""

    robot: Robot

    def __init__(
        self,
        robot: Robot,
        name: str,
        labels: Sequence[str],
        units: Sequence[str],
        size: int,
        *,
        stiffness: Gain,
        damping: Gain | None,
        weight: Gain,
        axes: Sequence[str] | None,
    ) -> None:
        self.robot, self.name = robot, name
        self.labels, self.units, self.size = tuple(labels), tuple(units), size
        n = len(self.labels)
        self._attach(np.zeros(1 + 6 * n + size))
        self._is_critically_damped = damping is None
        self.gains(stiffness, damping)
        self.weight = weight
        self.select(axes)

    # -- parameters ------------------------------------------------------------------------------------------
    def _attach(self, block: Array) -> None:
        """Sets the array of the parameters, and the views of its parts."""
        n = len(self.labels)
        super()._attach(block)
        parts = block[1 : 1 + 6 * n].reshape(6, n)
        self._weight, self._stiffness, self._damping, self._mask, self._velocity, self._acceleration = parts
        self._position = block[1 + 6 * n :]

    def gains(self, stiffness: Gain, damping: Gain | None = None) -> None:
        """Sets both feedback gains.

        Args:
            stiffness: scalar or (rows,) [1/s^2].
            damping: scalar or (rows,) [1/s]; critical damping if None.

        Raises:
            ArgumentError: a gain is negative or not finite, or has the wrong shape.
        """
        kp = check_row_values("stiffness", stiffness, len(self.labels))
        self._damping[:] = (
            2.0 * np.sqrt(kp) if damping is None else check_row_values("damping", damping, len(self.labels))
        )
        self._stiffness[:] = kp
        self._is_critically_damped = damping is None

    @property
    def stiffness(self) -> Array:
        """(rows,) stiffness [1/s^2]; a scalar or one number per row may be assigned.

        The damping follows critically, unless it was given to the constructor, to `gains` or to `damping`.
        """
        return frozen(self._stiffness)

    @stiffness.setter
    def stiffness(self, value: Gain) -> None:
        kp = check_row_values("stiffness", value, len(self.labels))
        self._stiffness[:] = kp
        if self._is_critically_damped:
            self._damping[:] = 2.0 * np.sqrt(kp)

    @property
    def damping(self) -> Array:
        """(rows,) damping [1/s]; a scalar or one number per row may be assigned."""
        return frozen(self._damping)

    @damping.setter
    def damping(self, value: Gain) -> None:
        self._damping[:] = check_row_values("damping", value, len(self.labels))
        self._is_critically_damped = False

    @property
    def weight(self) -> Array:
        """(rows,) weights relative to the other rows of the level, dimensionless.

        A scalar or one number per row may be assigned.
        """
        return frozen(self._weight)

    @weight.setter
    def weight(self, value: Gain) -> None:
        self._weight[:] = check_row_values("weight", value, len(self.labels))

    @property
    def axes(self) -> tuple[str, ...]:
        """Labels of the rows in use; some of `labels`, or None for all, may be assigned."""
        return tuple(self.labels[i] for i in self.rows_used)

    @axes.setter
    def axes(self, value: Sequence[str] | None) -> None:
        self.select(value)

    @property
    def rows_used(self) -> NDArray[np.intp]:
        """Indices of the rows in use, see `select`."""
        return np.flatnonzero(self._mask)

    @property
    def weight_used(self) -> Array:
        """Weights of the rows in use."""
        return self._weight[self.rows_used]

    def select(self, axes: Sequence[str] | None) -> None:
        """Selects the rows to use.

        Args:
            axes: labels of the rows, or a single label; None for all rows.

        Raises:
            UnknownNameError: the task has no row of this label.
        """
        labels = self.labels if axes is None else (axes,) if axes in self.labels else tuple(axes)
        for axis in labels:
            if axis not in self.labels:
                raise UnknownNameError(f"axis of {self.name!r}", axis, self.labels)
        self._mask[:] = [label in labels for label in self.labels]


def check_row_values(argument: str, value: Gain, n: int) -> Array:
    """Validates finite numbers >= 0 and returns them as (n,); a scalar is repeated.

    Args:
        argument: name of the argument, for errors.
        value: scalar or (n,).
        n: number of rows.

    Raises:
        ArgumentError: another shape, or a number that is negative or not finite.
    """
    given = check_array(argument, value if not isinstance(value, int) else check_number(argument, value))
    if given.shape not in ((), (n,)) or not np.isfinite(given).all() or (given < 0.0).any():
        raise ArgumentError(f"{argument}: expected a number or {n} numbers, finite and not negative, got {value}")
    return np.broadcast_to(given, (n,))
