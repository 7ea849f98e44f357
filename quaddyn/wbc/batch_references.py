"""References, gains and weights of the tasks of `ControllerBatch` as arrays with a row for each lane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..dynamics.arguments import UNIT_CHECKS
from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..exclusive_call import ExclusiveCall
from ..lane_blocks import check_lane_rows, check_mask, read_only
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array
from .controller_lanes import NO_LANE, ControllerLanes, ReferenceRows, set_lane_references
from .embedded import EmbeddedController
from .tasks import ForceTask, Task


class MotionReferences(StrictAttributes, fixed=("name", "labels")):
    """References of one motion task in all lanes of a `ControllerBatch`, see `Task.reference`.

    Args:
        task: the task.
        index: its index among the elements.
        lanes: states of the lanes.
        workspace: memory of a controller, which no other thread uses during a call of the batch.
        exclusive_call: lock of the batch.

    Attributes:
        name: name of the task.
        labels: names of its rows.
    """

    def __init__(
        self,
        task: Task,
        index: int,
        lanes: ControllerLanes,
        workspace: EmbeddedController,
        exclusive_call: ExclusiveCall,
    ) -> None:
        self.name, self.labels, self._task, self._unit_checks = task.name, task.labels, task, UNIT_CHECKS
        self._index, self._lanes, self._workspace, self._exclusive_call = index, lanes, workspace, exclusive_call
        first, rows = int(workspace.data.model.elements.first_parameter[index]), len(task.labels)
        self._size = task.size
        self._flag = lanes.parameters[:, first]
        starts = [first + 1 + 4 * rows, first + 1 + 5 * rows, first + 1 + 6 * rows]
        self._velocity, self._acceleration = (lanes.parameters[:, start : start + rows] for start in starts[:2])
        self._position = lanes.parameters[:, starts[2] : starts[2] + task.size]

    @property
    def has_position(self) -> NDArray[np.bool_]:
        """Whether each lane has a reference position (n,); the next tick of another lane takes the current one."""
        return np.asarray(self._flag != 0.0)

    @property
    def position(self) -> Array:
        """Reference positions (n, size), a read-only view; rotations are matrices, row by row.

        The setter also accepts one row for all lanes, and leaves velocities and accelerations unchanged.  Rows of lanes
        without a reference position have no meaning.
        """
        return read_only(self._position)

    @position.setter
    def position(self, value: ArrayLike) -> None:
        self.set(value, self._velocity, self._acceleration)

    @property
    def velocity(self) -> Array:
        """Reference velocities (n, rows), a read-only view; the setter also accepts one row for all lanes."""
        return read_only(self._velocity)

    @velocity.setter
    def velocity(self, value: ArrayLike) -> None:
        self.set(None, value, self._acceleration)

    @property
    def acceleration(self) -> Array:
        """Feed-forward accelerations (n, rows), a read-only view; the setter also accepts one row for all lanes."""
        return read_only(self._acceleration)

    @acceleration.setter
    def acceleration(self, value: ArrayLike) -> None:
        self.set(None, self._velocity, value)

    def set(
        self,
        position: ArrayLike | None = None,
        velocity: ArrayLike | None = None,
        acceleration: ArrayLike | None = None,
        *,
        mask: Any = None,
    ) -> None:
        """Sets the whole reference of lanes, as `Task.reference`.

        Each array has a row for each lane, of which those in `mask` are used, or is one row for all lanes.

        Args:
            position: reference positions (n, size), with rotations as matrices row by row; unchanged if None.
                Directions are normalized, with the result of a single controller up to rounding.
            velocity: reference velocities (n, rows); zero if None.
            acceleration: feed-forward accelerations (n, rows); zero if None.
            mask: (n,) bools, which lanes get the references; None: all.

        Raises:
            ArgumentError: a wrong shape, or a row of a lane in `mask` that is not finite or not a position of the task;
                no reference has changed.
            ArgumentTypeError: an argument is not an array of numbers, or `mask` is not an array of bools.
            ConcurrencyError: another thread uses this batch.

        Warns:
            RuntimeWarning: positions of one of the first calls seem to be in another unit, as by `Task.reference`.
        """
        n, rows = len(self._flag), len(self.labels)
        chosen = check_mask(mask, n).astype(np.int8)
        sizes = {"position": self._size, "velocity": rows, "acceleration": rows}
        given = zip(sizes.items(), (position, velocity, acceleration), strict=True)
        references = ReferenceRows(
            *(
                np.zeros((1, 0)) if value is None else check_lane_rows(f"{self.name}.{name}", value, n, size)
                for (name, size), value in given
            )
        )
        if position is not None and self._size == 0:
            raise ArgumentError(f"{self.name}.position: not accepted, since the task has no reference position")
        with self._exclusive_call.acquire("set"):
            arguments = (self._workspace, self._lanes, self._index, references, chosen)
            lane = set_lane_references(*arguments, False)
            if lane != NO_LANE:
                raise ArgumentError(f"{self.name}: {self._describe_invalid_row(references, lane)}")
            set_lane_references(*arguments, True)
        if position is not None and self._unit_checks:
            self._unit_checks -= 1
            values = np.where(chosen[:, np.newaxis], references.position, 0.0)
            lane = int(np.argmax(np.abs(values[:, 2] if self._task.has_height else values).reshape(n, -1).max(axis=1)))
            self._task.warn_of_units(f"{self.name}.position of lane {lane}", values[lane], stacklevel=4)

    def _describe_invalid_row(self, references: ReferenceRows, lane: int) -> str:
        """Returns the reason why the reference of a lane is not valid."""
        for name, array in zip(references._fields, references, strict=True):
            row = array[lane if len(array) > 1 else 0]
            if not np.isfinite(np.vdot(row, row)):
                return f"{name}: expected finite numbers, got {row} in lane {lane}"
        return f"position: expected a valid position of the task, got {row} in lane {lane}"

    def __repr__(self) -> str:
        return f"<MotionReferences of {self.name} in {len(self._flag)} lanes>"


class ForceReferences(StrictAttributes, fixed=("name", "contacts")):
    """References of one `ForceTask` in all lanes of a `ControllerBatch`.

    Args:
        task: the task.
        sizes: number of force components of all contacts of the controller, by name.
        rows: (n, 8 contacts) references of the task, as in `ControllerLanes` [N, N m].
        exclusive_call: lock of the batch.

    Attributes:
        name: name of the task.
        contacts: names of the contacts of the task.
    """

    def __init__(
        self, task: ForceTask, sizes: Mapping[str, int], rows: NDArray[np.float64], exclusive_call: ExclusiveCall
    ) -> None:
        self.name = task.name
        self.contacts = tuple(name for name in sizes if task.contacts is None or name in task.contacts)
        self._sizes, self._exclusive_call = sizes, exclusive_call
        self._rows = rows.reshape(len(rows), len(sizes), 8)

    @property
    def force(self) -> Mapping[str, Array]:
        """Reference forces by contact, (n, 3) or (n, 6), read-only views, on the robot, world axes [N, N m]."""
        order = list(self._sizes)
        return {name: read_only(self._rows[:, order.index(name), 2 : 2 + self._sizes[name]]) for name in self.contacts}

    def set(self, force: Mapping[str, ArrayLike] | None = None, *, mask: Any = None) -> None:
        """Sets all reference forces of lanes, as `ForceTask.reference`.

        Args:
            force: forces by contact, (n, 3) for a point and (n, 6) for a surface, or one row for all lanes, on the
                robot, world axes [N, N m]; contacts left out have the reference zero.
            mask: (n,) bools, which lanes get the references; None: all.

        Raises:
            UnknownNameError: the task does not include a contact.
            ArgumentError: a wrong shape, or a row of a lane in `mask` that is not finite; no reference has changed.
            ArgumentTypeError: `force` is not a mapping of arrays of numbers, or `mask` is not an array of bools.
            ConcurrencyError: another thread uses this batch.
        """
        n = len(self._rows)
        chosen = check_mask(mask, n)
        if not isinstance(force, Mapping | None):
            raise ArgumentTypeError(f"force: expected a mapping from contact names, got {type(force).__name__}")
        rows = dict[str, Array]()
        for name, value in (force or {}).items():
            if name not in self.contacts:
                raise UnknownNameError(f"contact of {self.name!r}", name, self.contacts)
            array = check_lane_rows(f"{self.name}.force[{name!r}]", value, n, self._sizes[name])
            rows[name] = np.broadcast_to(array, (n, self._sizes[name]))[chosen]
            if not np.isfinite(rows[name]).all():
                raise ArgumentError(f"{self.name}.force[{name!r}]: expected finite numbers")
        with self._exclusive_call.acquire("set"):
            self._rows[chosen, :, 1:] = 0.0
            for c, name in enumerate(self._sizes):
                if name in rows:
                    self._rows[chosen, c, 1] = 1.0
                    self._rows[chosen, c, 2 : 2 + self._sizes[name]] = rows[name]

    def __repr__(self) -> str:
        return f"<ForceReferences of {self.name} in {len(self._rows)} lanes>"


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
