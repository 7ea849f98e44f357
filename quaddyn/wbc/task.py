"""`Task`: a wanted acceleration ``J a + drift = a*`` of something that moves, from its error and its gains.

``a* = acceleration + damping (velocity - J v) + stiffness (position - p)``, each row on its own.  A task's numbers all
lie in one flat float64 `block` (see `LAYOUT`), so that compiled code can read the tasks of a controller as one array.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..dynamics import State
from ..errors import ArgumentError, UnknownNameError
from ..robot.arguments import floats, number
from ..robot.robot import Robot
from ..urdf.tree import Array
from .block import Block
from .scales import scales
from .tick import Rows, Tick

#: Order of a block: one number, then six vectors of one entry per row, then the reference position.
LAYOUT = ("given", "weight", "stiffness", "damping", "mask", "velocity", "acceleration", "position")

Gain = float | Sequence[float] | Array


class Task(Block, ABC):
    """A motion that is wanted, on any level of a controller or alone.

    Args:
        robot: the robot.
        name: by which the controller knows the task.
        labels: names of its rows.
        units: unit of each row's acceleration.
        size: entries of its reference position.
        stiffness: per row [1/s^2].
        damping: per row [1/s]; ``2 sqrt(stiffness)``, critical damping, by default.
        weight: per row, against the other rows of its level.
        axes: labels of the rows to use; all by default.

    Attributes:
        name: as given.
        block: its numbers, see `LAYOUT`.
    """

    #: What a compiled tick tells tasks apart by.
    code: ClassVar[int] = 0

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
        self.gains(stiffness, damping)
        self.weight = weight
        self.select(axes)

    # -- its numbers -----------------------------------------------------------------------------------------
    def _attach(self, block: Array) -> None:
        n = len(self.labels)
        self.block = block
        parts = block[1 : 1 + 6 * n].reshape(6, n)
        self._weight, self._stiffness, self._damping, self._mask, self._velocity, self._acceleration = parts
        self._position = block[1 + 6 * n :]

    def gains(self, stiffness: Gain, damping: Gain | None = None) -> None:
        """Set the feedback.

        Args:
            stiffness: per row [1/s^2].
            damping: per row [1/s]; critical by default.

        Raises:
            ArgumentError: a gain that is negative or not finite, or of the wrong shape.
        """
        kp = _per_row("stiffness", stiffness, len(self.labels))
        self._damping[:] = 2.0 * np.sqrt(kp) if damping is None else _per_row("damping", damping, len(self.labels))
        self._stiffness[:] = kp

    @property
    def weight(self) -> Array:
        """Per row, against the other rows of its level."""
        return self._weight.copy()

    @weight.setter
    def weight(self, value: Gain) -> None:
        self._weight[:] = _per_row("weight", value, len(self.labels))

    @property
    def rows_used(self) -> NDArray[np.intp]:
        """Indices of the rows in use, see `select`."""
        return np.flatnonzero(self._mask)

    @property
    def weight_used(self) -> Array:
        """Weights of the rows in use."""
        return self._weight[self.rows_used]

    def select(self, axes: Sequence[str] | None) -> None:
        """Use only the rows of these labels; None for all.

        Raises:
            UnknownNameError: no such row.
        """
        chosen = self.labels if axes is None else tuple(axes)
        for axis in chosen:
            if axis not in self.labels:
                raise UnknownNameError(f"axis of {self.name!r}", axis, self.labels)
        self._mask[:] = [label in chosen for label in self.labels]

    # -- what is wanted --------------------------------------------------------------------------------------
    def reference(
        self,
        position: Array | None = None,
        velocity: Array | None = None,
        acceleration: Array | None = None,
    ) -> None:
        """Set what is wanted from now on.

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

    def _write(self, what: str, place: Array, value: object) -> None:
        given = floats(f"{self.name}.reference: {what}", value)
        # one look: the sum of squares is finite only if every entry is (overflow aside, which is refused too)
        if given.shape != place.shape or not math.isfinite(np.vdot(given, given)):
            raise ArgumentError(
                f"{self.name}.reference: {what}: expected {place.shape[0]} finite numbers, got {np.array2string(given)}"
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

    def capture(self, s: State) -> None:
        """Want the position that is found in `s`; wanted velocities and accelerations stay."""
        self._position[:] = self.position(s)
        self.block[0] = 1.0

    def hold(self, s: State) -> None:
        """Want the position that is found in `s`, at rest."""
        self.reference(self.position(s))

    # -- what is ---------------------------------------------------------------------------------------------
    @abstractmethod
    def position(self, s: State) -> Array:
        """(size,) what the reference position is compared with."""

    @abstractmethod
    def error(self, s: State) -> Array:
        """(rows,) reference minus actual position."""

    @abstractmethod
    def velocity(self, s: State) -> Array:
        """(rows,) actual velocity, ``J v``."""

    @abstractmethod
    def jacobian(self, s: State) -> Array:
        """(rows, nv) J."""

    @abstractmethod
    def drift(self, s: State) -> Array:
        """(rows,) ``dJ/dt v``: the acceleration at ``a = 0``."""

    def desired(self, s: State) -> Array:
        """(rows,) wanted acceleration a*."""
        error = self.error(s) if self.given else 0.0
        wanted = self._acceleration + self._damping * (self._velocity - self.velocity(s)) + self._stiffness * error
        return np.asarray(wanted, dtype=np.float64)

    def desired_velocity(self, s: State, *, gain: float) -> Array:
        """(rows,) wanted velocity of a velocity-level controller: ``velocity + gain * error`` (`gain` in 1/s)."""
        return np.asarray(self._velocity + (gain * self.error(s) if self.given else 0.0), dtype=np.float64)

    # -- what it says ----------------------------------------------------------------------------------------
    def rows(self, tick: Tick) -> list[Rows]:
        """The task's rows at one instant."""
        s = tick.state
        used, names = self.rows_used, self.row_names
        if not len(used):
            return []
        J, wanted = self.jacobian(s), self.desired(s) - self.drift(s)
        if J.shape != (len(names), tick.robot.nv) or wanted.shape != (len(names),):
            expected = f"{len(names)} rows, got a Jacobian of shape {J.shape} and accelerations of shape {wanted.shape}"
            raise ArgumentError(f"{self.name}: expected {expected}")
        J, wanted = J[used], wanted[used]
        chosen = tuple(names[i] for i in used)
        return [Rows(chosen, self.units[used[0]], wanted, wanted, acceleration=J, weights=self._weight[used])]

    @property
    def row_names(self) -> tuple[str, ...]:
        """Names of all rows, for explanations."""
        return tuple(f"{self.name} {label}" for label in self.labels)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def natural_gain(robot: Robot, share: float) -> float:
    """Stiffness [1/s^2] of a task whose natural frequency is `share` times the leg's, ``sqrt(g / l)``."""
    return (share * scales(robot).frequency) ** 2


def _per_row(what: str, value: Gain, n: int) -> Array:
    given = floats(what, value if not isinstance(value, int) else number(what, value))
    if given.shape not in ((), (n,)) or not np.isfinite(given).all() or (given < 0.0).any():
        raise ArgumentError(f"{what}: expected a number or {n} of them, finite and not negative, got {value}")
    return np.broadcast_to(given, (n,))
