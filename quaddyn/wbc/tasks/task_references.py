"""References of a motion task: position, velocity and acceleration."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ...deprecation import renamed_attributes
from ...errors import ArgumentError
from ...robot.arguments import FLOAT, check_array
from ...urdf.tree import Array, frozen
from .task_gains import TaskGains


@renamed_attributes(given="has_reference")
class TaskReferences(TaskGains):
    """Base of `Task` with the references and their validation."""

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
        """
        if position is not None:
            self._set_vector("position", self._position, position)
            self.block[0] = 1.0
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
