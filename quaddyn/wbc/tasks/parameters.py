"""Gains, weights, rows in use and references of a task, in one flat array.

All of a task's numbers lie in one float64 `block` (see `LAYOUT`), so that compiled code can read the tasks of a
controller as one array.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import ArgumentError, UnknownNameError
from ...robot.arguments import FLOAT, floats, number
from ...robot.robot import Robot
from ...urdf.tree import Array, frozen
from ..element import Element

#: Order of a block: one number, then six vectors of one entry per row, then the reference position.
LAYOUT = ("given", "weight", "stiffness", "damping", "mask", "velocity", "acceleration", "position")

Gain = float | Sequence[float] | Array


class TaskParameters(Element, fixed=("units", "size")):
    """What can be set of a `Task`, which explains it."""

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
        self._critical = damping is None
        self.gains(stiffness, damping)
        self.weight = weight
        self.select(axes)

    # -- its numbers -----------------------------------------------------------------------------------------
    def _attach(self, block: Array) -> None:
        n = len(self.labels)
        super()._attach(block)
        parts = block[1 : 1 + 6 * n].reshape(6, n)
        self._weight, self._stiffness, self._damping, self._mask, self._velocity, self._acceleration = parts
        self._position = block[1 + 6 * n :]

    def gains(self, stiffness: Gain, damping: Gain | None = None) -> None:
        """Set the feedback, both gains at once.

        Args:
            stiffness: per row [1/s^2].
            damping: per row [1/s]; critical by default.

        Raises:
            ArgumentError: a gain that is negative or not finite, or of the wrong shape.
        """
        kp = per_row("stiffness", stiffness, len(self.labels))
        self._damping[:] = 2.0 * np.sqrt(kp) if damping is None else per_row("damping", damping, len(self.labels))
        self._stiffness[:] = kp
        self._critical = damping is None

    @property
    def stiffness(self) -> Array:
        """(rows,) [1/s^2]; a number or one for each row may be assigned.

        The damping follows, critical, unless it was given: to the constructor, to `gains` or to `damping`.
        """
        return frozen(self._stiffness)

    @stiffness.setter
    def stiffness(self, value: Gain) -> None:
        kp = per_row("stiffness", value, len(self.labels))
        self._stiffness[:] = kp
        if self._critical:
            self._damping[:] = 2.0 * np.sqrt(kp)

    @property
    def damping(self) -> Array:
        """(rows,) [1/s]; a number or one for each row may be assigned."""
        return frozen(self._damping)

    @damping.setter
    def damping(self, value: Gain) -> None:
        self._damping[:] = per_row("damping", value, len(self.labels))
        self._critical = False

    @property
    def weight(self) -> Array:
        """(rows,) against the other rows of its level; a number or one for each row may be assigned."""
        return frozen(self._weight)

    @weight.setter
    def weight(self, value: Gain) -> None:
        self._weight[:] = per_row("weight", value, len(self.labels))

    @property
    def axes(self) -> tuple[str, ...]:
        """Labels of the rows in use; assign some of `labels`, or None for all."""
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
        """Use only the rows of these labels, or of the one label; None for all.

        Raises:
            UnknownNameError: no such row.
        """
        chosen = self.labels if axes is None else (axes,) if axes in self.labels else tuple(axes)
        for axis in chosen:
            if axis not in self.labels:
                raise UnknownNameError(f"axis of {self.name!r}", axis, self.labels)
        self._mask[:] = [label in chosen for label in self.labels]

    # -- what is wanted --------------------------------------------------------------------------------------
    def reference(
        self,
        position: ArrayLike | None = None,
        velocity: ArrayLike | None = None,
        acceleration: ArrayLike | None = None,
    ) -> None:
        """Set the reference, all of it at once.

        Args:
            position: see the class; what was wanted before if None.
            velocity: per row; zero by default.
            acceleration: feed-forward, per row; zero by default.

        Raises:
            ArgumentError: a shape that does not fit, or an entry that is not finite.
        """
        if position is not None:
            self._write("position", self._position, position)
            self.block[0] = 1.0
        if velocity is None:
            self._velocity.fill(0.0)
        else:
            self._write("velocity", self._velocity, velocity)
        if acceleration is None:
            self._acceleration.fill(0.0)
        else:
            self._write("acceleration", self._acceleration, acceleration)

    @property
    def reference_position(self) -> Array | None:
        """(size,) the position that is wanted, None for the one that the next tick finds.

        It may be assigned whatever `reference` takes; reference velocity and acceleration stay.
        """
        return frozen(self._position) if self.given else None

    @reference_position.setter
    def reference_position(self, value: ArrayLike | None) -> None:
        if value is None:
            self.block[0] = 0.0
        else:
            self.reference(value, self._velocity, self._acceleration)

    @property
    def reference_velocity(self) -> Array:
        """(rows,) the velocity that is wanted."""
        return frozen(self._velocity)

    @reference_velocity.setter
    def reference_velocity(self, value: ArrayLike) -> None:
        self._write("velocity", self._velocity, value)

    @property
    def reference_acceleration(self) -> Array:
        """(rows,) the acceleration that is fed forward."""
        return frozen(self._acceleration)

    @reference_acceleration.setter
    def reference_acceleration(self, value: ArrayLike) -> None:
        self._write("acceleration", self._acceleration, value)

    def _write(self, what: str, place: Array, value: object) -> None:
        # an array that fits needs no name for an error
        given = value if type(value) is np.ndarray and value.dtype is FLOAT else None
        if given is None:
            given = floats(f"{self.name}.reference: {what}", value)
            if given.ndim == 0 and len(place) == 1:
                given = given[np.newaxis]
        # one look: the sum of squares is finite only if every entry is (overflow aside, which is refused too)
        if given.shape != place.shape or not math.isfinite(np.vdot(given, given)):
            raise ArgumentError(
                f"{self.name}.reference: {what}: expected {len(place)} finite number{'s' * (len(place) != 1)}, "
                f"got {np.array2string(given)}"
            )
        place[:] = given

    @property
    def given(self) -> bool:
        """Whether a reference position was set."""
        return bool(self.block[0] != 0.0)

    def forget(self) -> None:
        """Back to no reference: the controller then holds what it finds."""
        self.block[0] = 0.0
        self._velocity.fill(0.0)
        self._acceleration.fill(0.0)


def per_row(what: str, value: Gain, n: int) -> Array:
    """(n,) finite numbers >= 0, from one number or as many.

    Raises:
        ArgumentError: it is neither.
    """
    given = floats(what, value if not isinstance(value, int) else number(what, value))
    if given.shape not in ((), (n,)) or not np.isfinite(given).all() or (given < 0.0).any():
        raise ArgumentError(f"{what}: expected a number or {n} of them, finite and not negative, got {value}")
    return np.broadcast_to(given, (n,))
