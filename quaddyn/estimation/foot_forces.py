"""`FootForces`: validated contact states, contact forces and ground normals for compiled code."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from ..compiler import IntVector, Matrix, Record
from ..errors import ArgumentTypeError, UnknownNameError
from ..robot.arguments import check_vector
from ..urdf.tree import Array


class FootLoads(Record):
    """Contact states, contact forces and ground normals of all feet."""

    forces: Matrix  # (nf, 3) contact forces on the robot, world axes [N]
    has_force: IntVector  # (nf,) whether the force of a foot is given
    in_contact: IntVector  # (nf,) whether a foot is in contact
    normals: Matrix  # (nf, 3) unit normals out of the ground under each foot


def allocate_foot_loads(n: int) -> FootLoads:
    """Returns a record for n feet, without forces."""
    return FootLoads.allocate(forces=(n, 3), has_force=n, in_contact=n, normals=(n, 3))


WORLD_UP = np.array((0.0, 0.0, 1.0))


class FootForces:
    """Validated contact states, contact forces and ground normals of all feet.

    Args:
        feet: names of the feet.
        loads: record to which they are written; None for a new one.

    Attributes:
        loads: record that contains them, for compiled functions.  The force of a foot is zero where none is given.
    """

    __slots__ = ("_feet", "loads")

    def __init__(self, feet: Sequence[str], loads: FootLoads | None = None) -> None:
        self._feet, self.loads = tuple(feet), allocate_foot_loads(len(feet)) if loads is None else loads

    def set_normals(self, normal: Array | None) -> None:
        """Sets the normals.

        Args:
            normal: (3,) for all feet, or (nf, 3) for each foot; None for world z.

        Raises:
            ArgumentError: a wrong shape, or a value that is not finite.
        """
        normals = self.loads.normals
        if normal is None:
            normals[:] = WORLD_UP
        else:
            try:
                each = np.ndim(normal) == 2
            except ValueError:  # rows of different lengths, which `check_vector` rejects
                each = True
            shape, meaning = (normals.shape, "under each foot") if each else ((3,), "out of the ground")
            normals[:] = check_vector("normal", normal, shape, meaning)

    def set_forces(self, forces: Mapping[str, Array] | Array) -> None:
        """Sets the contact forces, (3,) by name of the foot or (nf, 3) of all feet [N].

        Raises:
            ArgumentTypeError: neither a mapping nor an array.
            UnknownNameError: there is no such foot.
            ArgumentError: a force has a wrong shape or is not finite.
        """
        feet, values, has_force = self._feet, self.loads.forces, self.loads.has_force
        if type(forces) is np.ndarray:
            values[:] = check_vector("forces", forces, values.shape, "of all feet, world axes")
            has_force.fill(1)
            return
        if not isinstance(forces, Mapping):
            raise ArgumentTypeError(f"forces: expected a mapping from feet to forces, got {type(forces).__name__}")
        for foot in forces:
            if foot not in feet:
                raise UnknownNameError("foot", foot, feet)
        checked = {foot: check_vector(f"forces[{foot!r}]", f, (3,), "world axes") for foot, f in forces.items()}
        for i, foot in enumerate(feet):
            has_force[i] = foot in checked
            values[i] = checked.get(foot, 0.0)

    def set_contacts(self, contacts: Collection[str]) -> None:
        """Sets which feet are in contact.

        Args:
            contacts: names of the feet in contact.

        Raises:
            UnknownNameError: there is no such foot.
        """
        for foot in contacts:
            if foot not in self._feet:
                raise UnknownNameError("foot", foot, self._feet)
        self.loads.in_contact[:] = [foot in contacts for foot in self._feet]
