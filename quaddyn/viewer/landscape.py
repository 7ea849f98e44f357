"""`Landscape`: a terrain as slots of a scene: boxes, stairs, slopes, walls and height fields."""

from __future__ import annotations

import numpy as np

from ..simulation.terrain import Box, Plane, Surface, Terrain
from ..urdf.tree import Array, Pose
from . import shapes
from .figure import z_to
from .parts import Material, Part
from .scene import Scene

_SOLID = Material((0.70, 0.66, 0.58, 1.0))
_PLANE = Material((0.70, 0.66, 0.58, 0.55))
#: Samples of a height field along either side of what is drawn, at most; a finer one is drawn with larger cells.
FINEST = 200
#: Half the side of a plane that is drawn, which has no end [robot's length].
REACH = 8.0
#: Cosine from which on a plane is the level floor with its grid.
LEVEL = 1.0 - 1e-12


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
        """Returns the ten values of each slot of the present terrain."""
        return self._poses

    def height(self, x: float, y: float) -> float:
        """Returns the height of the ground at x, y [m]; 0 where there is none."""
        return 0.0 if self._terrain is None else float(np.nan_to_num(self._terrain.height(x, y)))

    def show(self, terrain: Terrain) -> bool:
        """Adds the slots of a terrain; returns whether it differs from the previous one."""
        if terrain is self._terrain:
            return False
        self._terrain, self._poses, self.floor = terrain, {}, None
        for surface in terrain.surfaces:
            self._add(surface)
        return True

    def _add(self, surface: Surface) -> None:
        """Adds the slot of a surface."""
        if isinstance(surface, Plane):
            if surface.normal[2] > LEVEL and self.floor is None:
                self.floor = float(surface.point[2])
                return
            side = 2.0 * REACH * self._size
            nearest = surface.normal * (surface.normal @ surface.point)  # to the world's origin
            self._slot(square(side), _PLANE, nearest, z_to(surface.normal))
        elif isinstance(surface, Box):
            x, y, z = surface.size.tolist()
            turned = Pose.of(surface.rotation, np.zeros(3))
            self._slot(shapes.box((x, y, z)), _SOLID, surface.center, inside=turned)
        else:
            part = height_field(surface.heights, surface.spacing)
            self._slot(part, _SOLID, np.array([*surface.origin, 0.0]))

    def _slot(
        self,
        part: Part,
        material: Material,
        at: Array,
        turn: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0),
        inside: Pose | None = None,
    ) -> None:
        """Adds a slot with one part."""
        slot = self._scene.slot("Terrain", str(self._count))
        self._count += 1
        geometry = self._scene.geometry(("terrain", self._count), part)
        self._scene.mesh(slot, geometry, self._scene.material(material), inside or Pose.identity())
        self._poses[slot] = (*at.tolist(), *turn, 1.0, 1.0, 1.0)


def square(side: float) -> Part:
    """Returns a square perpendicular to z [m]."""
    corners = 0.5 * side * np.array([[-1.0, -1.0, 0.0], [1.0, -1.0, 0.0], [1.0, 1.0, 0.0], [-1.0, 1.0, 0.0]])
    return Part.from_positions(corners, np.array([[0, 1, 2], [0, 2, 3]]), None, None)


def height_field(heights: Array, spacing: Array) -> Part:
    """Returns the surface of a height field, relative to its first sample, with the triangles of the plants [m]."""
    steps = [max(1, -(-(n - 1) // FINEST)) for n in heights.shape]
    chosen = [np.unique(np.append(np.arange(0, n, s), n - 1)) for n, s in zip(heights.shape, steps, strict=True)]
    i, j = np.meshgrid(*chosen, indexing="ij")
    points = np.column_stack((i.ravel() * spacing[0], j.ravel() * spacing[1], heights[i, j].ravel()))
    number = np.arange(i.size).reshape(i.shape)
    a, b, c, d = number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]
    halves = [np.stack((a, b, c), axis=-1).reshape(-1, 3), np.stack((a, c, d), axis=-1).reshape(-1, 3)]
    return Part.from_positions(points, np.concatenate(halves), None, None)
