"""`FootForces`: contact forces and ground normals as arrays for compiled code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import ArgumentTypeError, UnknownNameError
from ..robot.arguments import check_vector
from ..urdf.tree import Array

WORLD_UP = np.array((0.0, 0.0, 1.0))


class FootForces:
    """Validated contact forces and ground normals of all feet.

    Args:
        feet: names of the feet.

    Attributes:
        values: (nf, 3) contact force of each foot; zero where none is given [N].
        has_force: (nf,) whether a force is given.
        normals: (nf, 3) unit normals of the ground under each foot.
    """

    __slots__ = ("_feet", "has_force", "normals", "values")

    def __init__(self, feet: Sequence[str]) -> None:
        self._feet = tuple(feet)
        self.values, self.has_force = np.zeros((len(feet), 3)), np.zeros(len(feet), dtype=np.int64)
        self.normals = np.zeros((len(feet), 3))

    def set_normals(self, normal: Array | None) -> Array:
        """Sets the normals and returns them (nf, 3).

        Args:
            normal: (3,) for all feet, or (nf, 3) for each foot; None for world z.

        Raises:
            ArgumentError: a wrong shape, or a value that is not finite.
        """
        if normal is None:
            self.normals[:] = WORLD_UP
        else:
            try:
                each = np.ndim(normal) == 2
            except ValueError:  # rows of different lengths, which `check_vector` rejects
                each = True
            shape, meaning = (self.normals.shape, "under each foot") if each else ((3,), "out of the ground")
            self.normals[:] = check_vector("normal", normal, shape, meaning)
        return self.normals

    def set_forces(self, forces: Mapping[str, Array] | Array) -> None:
        """Sets the contact forces, (3,) by name of the foot or (nf, 3) of all feet [N].

        Raises:
            ArgumentTypeError: neither a mapping nor an array.
            UnknownNameError: there is no such foot.
            ArgumentError: a force has a wrong shape or is not finite.
        """
        feet, values = self._feet, self.values
        if type(forces) is np.ndarray:
            values[:] = check_vector("forces", forces, values.shape, "of all feet, world axes")
            self.has_force.fill(1)
            return
        if not isinstance(forces, Mapping):
            raise ArgumentTypeError(f"forces: expected a mapping from feet to forces, got {type(forces).__name__}")
        for foot in forces:
            if foot not in feet:
                raise UnknownNameError("foot", foot, feet)
        checked = {foot: check_vector(f"forces[{foot!r}]", f, (3,), "world axes") for foot, f in forces.items()}
        for i, foot in enumerate(feet):
            self.has_force[i] = foot in checked
            values[i] = checked.get(foot, 0.0)
