"""Compiled normals of the ground under the feet in blind locomotion; see `Quadruped.ground_normals`."""

from ..compiler import Matrix, entry
from .ground_state import GroundState, plane_normal


@entry("normals of the ground")
def write_ground_normals(ground: GroundState, normals: Matrix) -> None:
    """Writes the unit normal of the plane for each foot, (4, 3), world."""
    normal = plane_normal(ground)
    for foot in range(4):
        normals[foot] = normal
