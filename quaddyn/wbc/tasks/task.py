"""`Task`: a desired acceleration ``J a + drift = a*``, from an error and gains.

``a* = acceleration + damping (velocity - J v) + stiffness (position - p)``, each row on its own.
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
from .parameters import TaskParameters


@renamed_attributes(capture="set_reference_from_state", hold="hold_position", chosen="select_rows")
class Task(TaskParameters):
    r"""A desired motion, on any level of a controller or used alone.

    With x what is guided, J its Jacobian, K the stiffness and D the damping, each row on its own:

    .. math::

        J a + \dot J v = a^\star = \ddot x^\star + D\,(\dot x^\star - J v) + K\,(x^\star \ominus x)

    Gains, weights and references are properties, (rows,) each, and whatever is assigned to one of them counts from the
    next tick on.  What is read is a read-only copy.

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
        stiffness, damping, weight: as given, a number for each row.
        axes: labels of the rows in use.
        reference_position, reference_velocity, reference_acceleration: see `reference`.
        block: its numbers, see `quaddyn.wbc.tasks.gains.LAYOUT`.
    """

    def set_reference_from_state(self, s: State) -> None:
        """The position in `s` becomes the reference; reference velocities and accelerations stay."""
        self._position[:] = self.position(s)
        self.block[0] = 1.0

    def hold_position(self, s: State) -> None:
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
        error = self.error(s) if self.has_reference else 0.0
        wanted = self._acceleration + self._damping * (self._velocity - self.velocity(s)) + self._stiffness * error
        return np.asarray(wanted, dtype=np.float64)

    def desired_velocity(self, s: State, *, gain: float) -> Array:
        """(rows,) wanted velocity of a velocity-level controller: ``velocity + gain * error`` (`gain` in 1/s)."""
        return np.asarray(self._velocity + (gain * self.error(s) if self.has_reference else 0.0), dtype=np.float64)

    # -- what it says ----------------------------------------------------------------------------------------
    def rows(self, tick: Tick) -> list[Rows]:
        """The task's rows at one instant."""
        s = tick.state
        return self.select_rows(self.jacobian(s), self.desired(s) - self.drift(s))

    def select_rows(self, J: Array, target: Array) -> list[Rows]:
        """``J a = wanted``, of the rows in use.

        Args:
            J: (rows, nv) of all rows.
            target: (rows,) accelerations without the drift.

        Raises:
            ArgumentError: they have other shapes.
        """
        n, mask, names = len(self.labels), self._mask, self.row_names
        if np.shape(J) != (n, self.robot.nv) or target.shape != (n,):
            expected = f"{n} rows, got a Jacobian of shape {np.shape(J)} and accelerations of shape {target.shape}"
            raise ArgumentError(f"{self.name}: expected {expected}")
        if np.count_nonzero(mask) == n:
            return [Rows(names, self.units[0], target, target, J, weights=self._weight)]
        used = np.flatnonzero(mask)
        if not len(used):
            return []
        target, chosen = target[used], tuple(names[i] for i in used)
        return [Rows(chosen, self.units[used[0]], target, target, np.asarray(J)[used], weights=self._weight[used])]

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Parameters of `LAYOUT` without a reference position; kinds that have one override this."""
        return motion_layout(counts.rows)

    def row_name(self, contact: str, row: int) -> str:
        """Name of a row, for explanations."""
        return self.row_names[row]

    def row_unit(self, row: int) -> str:
        """Its unit."""
        return self.units[row]

    @property
    def row_names(self) -> tuple[str, ...]:
        """Names of all rows, for explanations."""
        return _named(self.name, self.labels)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def motion_layout(rows: int, size: int = 0) -> Layout:
    """Of a motion task of so many rows and entries of its reference position."""
    return Layout(rows, 1 + 6 * rows + size, equalities=rows)


@lru_cache(maxsize=4096)
def _named(name: str, labels: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{name} {label}" for label in labels)


def natural_gain(robot: Robot, share: float) -> float:
    """Stiffness [1/s^2] of a task whose natural frequency is `share` times the leg's, ``sqrt(g / l)``."""
    return (share * scales(robot).frequency) ** 2
