"""`Landscape`: a terrain as slots of a scene: boxes, stairs, slopes, walls and height fields."""

from __future__ import annotations

import numpy as np

from ..simulation.terrain import Box, Plane, Surface, Terrain
from ..urdf.tree import Array, Pose
from . import shapes
from .figure import quaternion_from_z
from .parts import Material, Part
from .scene import Scene

_SOLID_MATERIAL = Material((0.70, 0.66, 0.58, 1.0))
_PLANE_MATERIAL = Material((0.70, 0.66, 0.58, 0.55))
#: Maximum number of samples of a height field along either side; a finer one is drawn with larger cells.
MAX_FIELD_SAMPLES = 200
#: Half the side of the square by which an unbounded plane is drawn [robot lengths].
HALF_PLANE_SIDE = 8.0
#: Cosine of the tilt above which a plane is the level floor, drawn as a grid.
LEVEL_COSINE = 1.0 - 1e-12


class Landscape:
    """Slots of the surfaces of a terrain; a new terrain replaces the previous one, whose slots are hidden.

    Attributes:
        floor: height of the level floor [m], None if there is none.
    """

    def __init__(self, scene: Scene, size: float) -> None:
        self._scene, self._size = scene, size
        self._poses: dict[int, tuple[float, ...]] = {}
        self._terrain: Terrain | None = None
        self._count = 0
        self.floor: float | None = 0.0

    @property
    def poses(self) -> dict[int, tuple[float, ...]]:
        """Ten values of each slot of the present terrain, by its number."""
        return self._poses

    def height(self, x: float, y: float) -> float:
        """Returns the height of the ground at x, y [m]; 0 where there is no ground."""
        return 0.0 if self._terrain is None else float(np.nan_to_num(self._terrain.height(x, y)))

    def set_terrain(self, terrain: Terrain) -> bool:
        """Adds the shapes of a terrain to the scene; returns False, without a change, if it is the present terrain."""
        if terrain is self._terrain:
            return False
        self._terrain, self._poses, self.floor = terrain, {}, None
        for surface in terrain.surfaces:
            self._add_surface(surface)
        return True

    def _add_surface(self, surface: Surface) -> None:
        """Adds the slot of a surface; the first level plane becomes the floor instead."""
        if isinstance(surface, Plane):
            if surface.normal[2] > LEVEL_COSINE and self.floor is None:
                self.floor = float(surface.point[2])
                return
            side = 2.0 * HALF_PLANE_SIDE * self._size
            nearest = surface.normal * (
                surface.normal @ surface.point
            )  # point of the plane nearest to the world's origin
            self._add_slot(make_square(side), _PLANE_MATERIAL, nearest, quaternion_from_z(surface.normal))
        elif isinstance(surface, Box):
            x, y, z = surface.size.tolist()
            rotation = Pose.of(surface.rotation, np.zeros(3))
            self._add_slot(shapes.make_box((x, y, z)), _SOLID_MATERIAL, surface.center, inside=rotation)
        else:
            part = triangulate_height_field(surface.heights, surface.spacing)
            self._add_slot(part, _SOLID_MATERIAL, np.array([*surface.origin, 0.0]))

    def _add_slot(
        self,
        part: Part,
        material: Material,
        position: Array,
        quaternion: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0),
        inside: Pose | None = None,
    ) -> None:
        """Adds a slot with one part at a position and with a quaternion (x, y, z, w), world."""
        slot = self._scene.add_slot("Terrain", str(self._count))
        self._count += 1
        geometry = self._scene.add_geometry(("terrain", self._count), part)
        self._scene.add_mesh(slot, geometry, self._scene.add_material(material), inside or Pose.identity())
        self._poses[slot] = (*position.tolist(), *quaternion, 1.0, 1.0, 1.0)


def make_square(side: float) -> Part:
    """Returns a square with a given side [m], perpendicular to z."""
    corners = 0.5 * side * np.array([[-1.0, -1.0, 0.0], [1.0, -1.0, 0.0], [1.0, 1.0, 0.0], [-1.0, 1.0, 0.0]])
    return Part.from_positions(corners, np.array([[0, 1, 2], [0, 2, 3]]), None, None)


def triangulate_height_field(heights: Array, spacing: Array) -> Part:
    """Returns the surface of a height field, relative to its first sample, with the triangles of the plants [m]."""
    steps = [max(1, -(-(n - 1) // MAX_FIELD_SAMPLES)) for n in heights.shape]
    sample_indices = [
        np.unique(np.append(np.arange(0, n, s), n - 1)) for n, s in zip(heights.shape, steps, strict=True)
    ]
    i, j = np.meshgrid(*sample_indices, indexing="ij")
    points = np.column_stack((i.ravel() * spacing[0], j.ravel() * spacing[1], heights[i, j].ravel()))
    vertex_index = np.arange(i.size).reshape(i.shape)
    a, b, c, d = vertex_index[:-1, :-1], vertex_index[1:, :-1], vertex_index[1:, 1:], vertex_index[:-1, 1:]
    halves = [np.stack((a, b, c), axis=-1).reshape(-1, 3), np.stack((a, c, d), axis=-1).reshape(-1, 3)]
    return Part.from_positions(points, np.concatenate(halves), None, None)
