"""`Task`: base of motion tasks, a desired acceleration ``J a + drift = a*`` from an error and gains.

Each row has ``a* = acceleration + damping (velocity - J v) + stiffness (position - p)``.

Gains, weights, selected rows and the reference (position, velocity and acceleration) of a task are in one float64
`block` (see `LAYOUT`), so that compiled code reads those of all tasks of a controller as one array.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...deprecation import renamed_attributes
from ...dynamics import State
from ...errors import ArgumentError, UnknownNameError
from ...robot.arguments import FLOAT, check_array, check_number
from ...robot.robot import Robot
from ...robot.units import warn_of_length
from ...urdf.tree import Array, frozen
from ..element import Element, Layout, RowCounts, scales
from ..tick import Rows, Tick

#: Heights above this are compared with the leg length [m].
MIN_CHECKED_HEIGHT = 1.0
#: Maximum plausible height above the origin of the world or below it, in leg lengths: that of the trunk in centimeters
#: is about 80, and terrain seldom rises by more than 25.
MAX_HEIGHT_RATIO = 25.0
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

    @property
    def gain_positions(self) -> NDArray[np.intp]:
        """(3, rows) positions in `block` of stiffness, damping, and whether a row is used."""
        n = len(self.labels)
        return np.arange(1 + n, 1 + 4 * n).reshape(3, n)

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


@renamed_attributes(given="has_reference")
class TaskReferences(TaskGains):
    """Base of `Task` with the references and their validation.

    Attributes:
        has_height: whether entry 2 of the position is a height in world axes [m].
    """

    has_height: ClassVar[bool] = False

    def reference(
        self,
        position: ArrayLike | None = None,
        velocity: ArrayLike | None = None,
        acceleration: ArrayLike | None = None,
    ) -> None:
        """Sets the whole reference of the task.

        Args:
            position: (size,) reference position, in the form that the class describes; unchanged if None.
            velocity: (rows,) reference velocity; zero if None.
            acceleration: (rows,) feed-forward acceleration; zero if None.

        Raises:
            ArgumentError: a shape does not fit, or an entry is not finite.

        Warns:
            RuntimeWarning: a height of more than 25 leg lengths, which seems to be in centimeters or millimeters.
        """
        if position is not None:
            self._set_vector("position", self._position, position)
            self.block[0] = 1.0
            self.warn_of_units(f"{self.name}.reference: position", self._position, stacklevel=4)
        if velocity is None:
            self._velocity.fill(0.0)
        else:
            self._set_vector("velocity", self._velocity, velocity)
        if acceleration is None:
            self._acceleration.fill(0.0)
        else:
            self._set_vector("acceleration", self._acceleration, acceleration)

    @property
    def reference_position(self) -> Array | None:
        """(size,) reference position; None if the next tick takes the current one.

        The setter accepts the same values as `reference`, and leaves reference velocity and acceleration unchanged.
        """
        return frozen(self._position) if self.has_reference else None

    @reference_position.setter
    def reference_position(self, value: ArrayLike | None) -> None:
        if value is None:
            self.block[0] = 0.0
        else:
            self.reference(value, self._velocity, self._acceleration)

    @property
    def reference_velocity(self) -> Array:
        """(rows,) reference velocity; may be set."""
        return frozen(self._velocity)

    @reference_velocity.setter
    def reference_velocity(self, value: ArrayLike) -> None:
        self._set_vector("velocity", self._velocity, value)

    @property
    def reference_acceleration(self) -> Array:
        """(rows,) feed-forward acceleration; may be set."""
        return frozen(self._acceleration)

    @reference_acceleration.setter
    def reference_acceleration(self, value: ArrayLike) -> None:
        self._set_vector("acceleration", self._acceleration, value)

    def warn_of_units(self, argument: str, position: Array, *, stacklevel: int) -> None:
        """Warns if the height in a reference position (size,) seems to be in centimeters or millimeters.

        Args:
            argument: name of the argument, for the message.
            position: (size,) reference position.
            stacklevel: as of `warnings.warn`.
        """
        if self.has_height and abs(position[2]) > MIN_CHECKED_HEIGHT:
            warn_of_length(
                argument,
                float(position[2]),
                scales(self.robot).length,
                unit="centimeters or millimeters",
                max_ratio=MAX_HEIGHT_RATIO,
                stacklevel=stacklevel,
            )

    def _set_vector(self, argument: str, destination: Array, value: object) -> None:
        """Validates `value` and copies it to `destination`; `argument` names it in errors."""
        # an array of the right type needs no conversion, which would build a name for errors
        given = value if type(value) is np.ndarray and value.dtype is FLOAT else None
        if given is None:
            given = check_array(f"{self.name}.reference: {argument}", value)
            if given.ndim == 0 and len(destination) == 1:
                given = given[np.newaxis]
        # the sum of squares is finite only if every entry is (an overflow is rejected, too)
        if given.shape != destination.shape or not math.isfinite(np.vdot(given, given)):
            count = f"{len(destination)} finite number{'s' * (len(destination) != 1)}"
            raise ArgumentError(f"{self.name}.reference: {argument}: expected {count}, got {np.array2string(given)}")
        destination[:] = given

    @property
    def has_reference(self) -> bool:
        """Whether a reference position is set."""
        return bool(self.block[0] != 0.0)

    def clear_references(self) -> None:
        """Clears the references, so that the next tick takes the current position as the reference."""
        self.block[0] = 0.0
        self._velocity.fill(0.0)
        self._acceleration.fill(0.0)


@renamed_attributes(capture="set_reference_from_state", hold="hold_position", chosen="select_rows")
class Task(TaskReferences):
    r"""Base class of motion tasks, on any level of a controller or used alone.

    With x the controlled quantity, J its Jacobian, K the stiffness and D the damping, for each row:

    .. math::

        J a + \dot J v = a^\star = \ddot x^\star + D\,(\dot x^\star - J v) + K\,(x^\star \ominus x)

    Gains, weights and references are properties with one entry per row.  An assigned value takes effect at the next
    tick. Reading a property returns a read-only copy.

    Args:
        robot: the robot.
        name: name of the task in the controller.
        labels: names of its rows.
        units: unit of the acceleration of each row.
        size: number of entries of its reference position.
        stiffness: K, scalar or (rows,) [1/s^2].
        damping: D, scalar or (rows,) [1/s]; critical damping ``2 sqrt(stiffness)`` if None.
        weight: scalar or (rows,), relative to the other rows of the level, dimensionless.
        axes: labels of the rows to use; all if None.

    Attributes:
        name: as given.
        stiffness, damping, weight: (rows,) as given.
        axes: labels of the rows in use.
        reference_position, reference_velocity, reference_acceleration: see `reference`.
        block: parameters of the task in one array, see `quaddyn.wbc.tasks.task.LAYOUT`.

    Source: Khatib 1987, "A unified approach for motion and force control of robot manipulators"; Sentis, Khatib 2005,
    "Synthesis of whole-body behaviors through hierarchical control of behavioral primitives".
    """

    def set_reference_from_state(self, s: State) -> None:
        """Sets the position in `s` as the reference position; reference velocity and acceleration are unchanged."""
        self._position[:] = self.position(s)
        self.block[0] = 1.0

    def hold_position(self, s: State) -> None:
        """Sets the position in `s` as the reference position, with zero reference velocity and acceleration."""
        self.reference(self.position(s))

    # -- current state ---------------------------------------------------------------------------------------
    @abstractmethod
    def position(self, s: State) -> Array:
        """(size,) current position, in the form of the reference position."""

    @abstractmethod
    def error(self, s: State) -> Array:
        """(rows,) reference position minus current position."""

    @abstractmethod
    def velocity(self, s: State) -> Array:
        """(rows,) current velocity, ``J v``."""

    @abstractmethod
    def jacobian(self, s: State) -> Array:
        """(rows, nv) Jacobian J."""

    @abstractmethod
    def drift(self, s: State) -> Array:
        """(rows,) drift ``dJ/dt v``: the acceleration at ``a = 0``."""

    def desired(self, s: State) -> Array:
        """(rows,) desired acceleration a*."""
        error = self.error(s) if self.has_reference else 0.0
        target = self._acceleration + self._damping * (self._velocity - self.velocity(s)) + self._stiffness * error
        return np.asarray(target, dtype=np.float64)

    def desired_velocity(self, s: State, *, gain: float) -> Array:
        """(rows,) desired velocity of a velocity-level controller, ``velocity + gain * error``.

        Args:
            s: the state.
            gain: gain of the position error [1/s].
        """
        return np.asarray(self._velocity + (gain * self.error(s) if self.has_reference else 0.0), dtype=np.float64)

    # -- rows ------------------------------------------------------------------------------------------------
    def rows(self, tick: Tick) -> list[Rows]:
        """Returns the rows of the task at a tick."""
        s = tick.state
        return self.select_rows(self.jacobian(s), self.desired(s) - self.drift(s))

    def select_rows(self, J: Array, target: Array) -> list[Rows]:
        """Returns the rows ``J a = target`` that are in use.

        Args:
            J: (rows, nv) Jacobian of all rows.
            target: (rows,) desired accelerations minus drift.

        Raises:
            ArgumentError: the shapes do not fit the task.
        """
        n, mask, names = len(self.labels), self._mask, self.row_names
        if np.shape(J) != (n, self.robot.nv) or target.shape != (n,):
            raise ArgumentError(
                f"{self.name}: expected a Jacobian of shape ({n}, {self.robot.nv}) and accelerations of shape ({n},), "
                f"got shapes {np.shape(J)} and {target.shape}"
            )
        if np.count_nonzero(mask) == n:
            return [Rows(names, self.units[0], target, target, J, weights=self._weight)]
        used = np.flatnonzero(mask)
        if not len(used):
            return []
        target, used_names = target[used], tuple(names[i] for i in used)
        return [Rows(used_names, self.units[used[0]], target, target, np.asarray(J)[used], weights=self._weight[used])]

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Returns the layout without a reference position; tasks with a reference position override it."""
        return make_motion_layout(counts.rows)

    def row_name(self, contact: str, row: int) -> str:
        """Returns the name of a row for explanations."""
        return self.row_names[row]

    def row_unit(self, row: int) -> str:
        """Returns the unit of a row."""
        return self.units[row]

    @property
    def row_names(self) -> tuple[str, ...]:
        """Names of all rows, for explanations."""
        return _make_row_names(self.name, self.labels)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def make_motion_layout(rows: int, size: int = 0) -> Layout:
    """Returns the layout of a motion task with `rows` rows and `size` entries of its reference position."""
    return Layout(rows, 1 + 6 * rows + size, equalities=rows)


@lru_cache(maxsize=4096)
def _make_row_names(name: str, labels: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of the rows of a task."""
    return tuple(f"{name} {label}" for label in labels)


def natural_stiffness(robot: Robot, frequency_factor: float) -> float:
    """Returns the stiffness [1/s^2] with a natural frequency of `frequency_factor` times ``sqrt(g / l)``.

    l is the leg length, g gravity.
    """
    return (frequency_factor * scales(robot).frequency) ** 2
