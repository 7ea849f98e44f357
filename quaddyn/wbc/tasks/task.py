"""`Task`: base of motion tasks, a desired acceleration ``J a + drift = a*`` from an error and gains.

Each row has ``a* = acceleration + damping (velocity - J v) + stiffness (position - p)``.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache

import numpy as np

from ...deprecation import renamed_attributes
from ...dynamics import State
from ...errors import ArgumentError
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..element import Layout, RowCounts
from ..scales import scales
from ..tick import Rows, Tick
from .task_references import TaskReferences


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
        block: parameters of the task in one array, see `quaddyn.wbc.tasks.task_gains.LAYOUT`.

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
