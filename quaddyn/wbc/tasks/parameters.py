"""References of a task."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ...deprecation import renamed_attributes
from ...errors import ArgumentError
from ...robot.arguments import FLOAT, floats
from ...urdf.tree import Array, frozen
from .gains import TaskGains


@renamed_attributes(given="has_reference")
class TaskParameters(TaskGains):
    """What can be set of a `Task`, which explains it."""

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
        return frozen(self._position) if self.has_reference else None

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
    def has_reference(self) -> bool:
        """Whether a reference position was set."""
        return bool(self.block[0] != 0.0)

    def clear_references(self) -> None:
        """Back to no reference: the controller then holds what it finds."""
        self.block[0] = 0.0
        self._velocity.fill(0.0)
        self._acceleration.fill(0.0)
