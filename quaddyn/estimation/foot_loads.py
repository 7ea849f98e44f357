"""Contact forces of the feet and the ground under them, as compiled functions read them."""

from __future__ import annotations

from ..compiler import IntVector, Matrix, Record


class FootLoads(Record):
    """Contact states, contact forces and ground normals of all feet."""

    forces: Matrix  # (nf, 3) contact forces on the robot, world axes [N]
    has_force: IntVector  # (nf,) whether the force of a foot is given
    in_contact: IntVector  # (nf,) whether a foot is in contact
    normals: Matrix  # (nf, 3) unit normals out of the ground under each foot


def allocate_foot_loads(n: int) -> FootLoads:
    """Returns a record for n feet, without forces."""
    return FootLoads.allocate(forces=(n, 3), has_force=n, in_contact=n, normals=(n, 3))
