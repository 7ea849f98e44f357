"""Gains and weights of the motion tasks of `ControllerBatch` as arrays with a row for each lane."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..errors import ArgumentError
from ..exclusive_call import ExclusiveCall
from ..lane_blocks import check_lane_rows, check_mask, read_only
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array
from .tasks import Task


class MotionGains(StrictAttributes, fixed=("name", "labels")):
    """Gains and weights of one motion task in all lanes of a `ControllerBatch`, see `Task`.

    Args:
        task: the task.
        parameters: (n, k) parameters of all lanes from the first one of the task on: stiffness [1/s^2], damping [1/s]
            and dimensionless weights.
        exclusive_call: lock of the batch.

    Attributes:
        name: name of the task.
        labels: names of its rows.
    """

    def __init__(self, task: Task, parameters: Array, exclusive_call: ExclusiveCall) -> None:
        self.name, self.labels = task.name, task.labels
        self._exclusive_call, self._is_critically_damped = exclusive_call, task._is_critically_damped
        rows = len(task.labels)
        self._weight, self._stiffness, self._damping = (
            parameters[:, 1 + k * rows : 1 + (k + 1) * rows] for k in range(3)
        )

    @property
    def stiffness(self) -> Array:
        """Stiffness (n, rows) [1/s^2], a read-only view."""
        return read_only(self._stiffness)

    @property
    def damping(self) -> Array:
        """Damping (n, rows) [1/s], a read-only view."""
        return read_only(self._damping)

    @property
    def weight(self) -> Array:
        """Weights relative to the other rows of the level (n, rows), dimensionless, a read-only view."""
        return read_only(self._weight)

    def set(
        self,
        *,
        stiffness: ArrayLike | None = None,
        damping: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        mask: Any = None,
    ) -> None:
        """Sets gains and weights of lanes from the next tick on.

        Each argument is a number, one number for each row of the task (rows,), or an array (n, rows), of which the
        lanes in `mask` are used.  Those that are None are unchanged; the damping follows the stiffness critically, as
        for `Task.stiffness`, unless the controller was made with a damping of the task.

        Args:
            stiffness: stiffness [1/s^2].
            damping: damping [1/s].
            weight: weights relative to the other rows of the level, dimensionless.
            mask: (n,) bools, which lanes get the values; None: all.

        Raises:
            ArgumentError: a wrong shape, or a number of a lane in `mask` that is negative or not finite; nothing has
                changed.
            ArgumentTypeError: an argument is not an array of numbers, or `mask` is not an array of bools.
            ConcurrencyError: another thread uses this batch.
        """
        n, rows = self._weight.shape
        chosen = check_mask(mask, n)
        values: list[tuple[Array, Array]] = []
        for name, given, target in (
            ("stiffness", stiffness, self._stiffness),
            ("damping", damping, self._damping),
            ("weight", weight, self._weight),
        ):
            if given is None:
                continue
            array = np.full(rows, given) if np.ndim(given) == 0 else given
            lanes = np.broadcast_to(check_lane_rows(f"{self.name}.{name}", array, n, rows), (n, rows))
            wrong = np.flatnonzero(chosen & ~(np.isfinite(lanes) & (lanes >= 0.0)).all(axis=1))
            if len(wrong):
                raise ArgumentError(
                    f"{self.name}.{name}: expected finite numbers that are not negative, got {lanes[wrong[0]]} in lane "
                    f"{wrong[0]}"
                )
            values.append((target, lanes))
            if name == "stiffness" and damping is None and self._is_critically_damped:
                values.append((self._damping, 2.0 * np.sqrt(np.where(chosen[:, np.newaxis], lanes, 0.0))))
        with self._exclusive_call.acquire("set"):
            for target, lanes in values:
                target[chosen] = lanes[chosen]
