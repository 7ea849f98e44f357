"""`Markers`: force arrows, contacts, friction cones, axes and the center of mass; each is a slot added on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import numpy as np

from ..contact.support import support_polygon
from ..urdf.tree import Array, Pose
from . import shapes
from .figure import align_z, z_to
from .parts import Material, Part
from .scene import Scene

Placed = Iterator[tuple[int, tuple[float, ...]]]

_COLORS = {
    "force": (0.90, 0.16, 0.13),
    "moment": (0.58, 0.25, 0.78),
    "velocity": (0.10, 0.60, 0.35),
    "wanted": (0.15, 0.40, 0.85),
    "normal": (0.10, 0.62, 0.70),
}
_CONE = Material((0.95, 0.65, 0.10, 0.30))
_COM = Material((0.98, 0.72, 0.05, 1.0))
_TRAIL = Material((0.15, 0.40, 0.85, 1.0))
_CONTACT = Material((0.90, 0.16, 0.13, 1.0))
_SUPPORT = Material((0.10, 0.60, 0.35, 1.0))
_CAPSULE = Material((0.95, 0.65, 0.10, 0.35))
_POINT = Material((0.85, 0.10, 0.55, 1.0))
_AXES = ((0.85, 0.15, 0.15), (0.15, 0.65, 0.20), (0.15, 0.35, 0.90))
#: Colors of foothold costs, from zero to practically infeasible.
_COSTS = tuple(
    Material((r, g, 0.15, 0.85)) for r, g in ((0.15, 0.70), (0.50, 0.75), (0.90, 0.80), (0.95, 0.50), (0.85, 0.15))
)
_RULED_OUT = Material((0.45, 0.45, 0.45, 0.6))
#: Markers visible through other objects; normals are thin, since they are at the same points as forces.
_THROUGH = ("com", "contact", "point", "foothold", "normal")
_SLIM = 0.5
_UPRIGHT = (0.0, 0.0, 0.0, 1.0)


class Markers:
    """Markers of a scene; each method returns slot numbers with their ten values.

    Args:
        scene: scene to which the slots are added.
        size: length of the robot, to which markers are scaled [m].
    """

    def __init__(self, scene: Scene, size: float) -> None:
        self._scene, self._size = scene, size
        self._slots: dict[tuple[str, str], int] = {}
        self._dots: dict[int, int] = {}  # of each shade, the number of the last one in this instant

    def begin(self) -> None:
        """Starts a new frame, in which the dots are used again."""
        self._dots.clear()

    def arrow(self, kind: str, name: str, tail: Array, vector: Array) -> Placed:
        """Draws an arrow of a kind of `_COLORS` from `tail` along `vector` (3,), of its length [m]."""
        length = float(np.linalg.norm(vector))
        if length > 1e-4 * self._size:  # shorter is no arrow; the pose of a zero vector is undefined
            slot = self._slot(kind, name, "arrow", shapes.arrow, Material((*_COLORS[kind], 1.0)))
            wide = _SLIM * length if kind == "normal" else length
            yield slot, (*tail, *z_to(vector), wide, wide, length)

    def cone(self, name: str, tip: Array, friction: float, normal: Array | None = None) -> Placed:
        """Draws the friction cone with its tip at `tip`, on ground with this normal, level by default."""
        height = 0.25 * self._size
        slot = self._slot("cone", name, "cone", shapes.cone, _CONE)
        turn = _UPRIGHT if normal is None else z_to(normal)
        yield slot, (*tip, *turn, friction * height, friction * height, height)

    def contact(self, name: str, at: Array) -> Placed:
        """Draws a small ball at a contact point, visible through the robot."""
        r = 0.012 * self._size
        yield self._slot("contact", name, "ball", lambda: shapes.sphere(1), _CONTACT), (*at, *_UPRIGHT, r, r, r)

    def polygon(self, corners: Array) -> Placed:
        """Draws the edges of a closed polygon (h, 3); one line for two corners, nothing for one."""
        around = corners if len(corners) <= 2 else np.vstack((corners, corners[:1]))
        yield from self._lines("support", "edge", around, _SUPPORT)

    def curve(self, name: str, points: Array) -> Placed:
        """Draws a polyline through the points (n, 3)."""
        yield from self._lines("curve", name, points, _POINT)

    def outline(self, name: str, points: Array) -> Placed:
        """Draws the edge of a surface through the points (n, 3)."""
        yield from self._lines("sole", name, points, _CONTACT)

    def capsule(self, name: str, ends: Array, radius: float) -> Placed:
        """Draws a capsule: the points within `radius` [m] of the segment between two `ends` (2, 3)."""
        along = ends[1] - ends[0]
        length = float(np.linalg.norm(along))
        key = f"capsule {radius:.6f} {length:.6f}"
        slot = self._slot("capsule", name, key, lambda: shapes.capsule(radius, length), _CAPSULE)
        turn = z_to(along) if length > 0.0 else _UPRIGHT
        yield slot, (*ends.mean(axis=0).tolist(), *turn, 1.0, 1.0, 1.0)

    def _lines(self, kind: str, name: str, points: Array, material: Material) -> Placed:
        """Draws lines between consecutive points."""
        r = 0.006 * self._size
        for number, (a, b) in enumerate(pairwise(points)):
            length = float(np.linalg.norm(b - a))
            if length > 0.0:
                slot = self._slot(kind, f"{name} {number}", "com thread", lambda: shapes.line(1), material)
                yield slot, (*a, *z_to(b - a), r, r, length)

    def triad(self, name: str, pose: Array) -> Placed:
        """Draws the axes of a frame at `pose` (7,): position and quaternion (x, y, z, w)."""
        if ("triad", name) not in self._slots:
            slot = self._slots["triad", name] = self._scene.slot("Frames", name)
            arrow = self._scene.geometry("arrow", shapes.arrow())
            for axis, color in zip(np.eye(3), _AXES, strict=True):
                material = self._scene.material(Material((*color, 1.0)), glow=True)
                self._scene.mesh(slot, arrow, material, Pose.of(align_z(axis), np.zeros(3)))
        yield self._slots["triad", name], (*pose, *(0.2 * self._size,) * 3)

    def trail(self, name: str, points: Iterable[Array]) -> Placed:
        """Draws a ball at each of the `points` (3,)."""
        r = 0.006 * self._size
        for number, point in enumerate(points):
            slot = self._slot("trail", f"{name} {number}", "ball", lambda: shapes.sphere(1), _TRAIL)
            yield slot, (*point, *_UPRIGHT, r, r, r)

    def disc(self, name: str, at: Array, normal: Array) -> Placed:
        """Draws a disc on ground with this normal at `at` (3,), visible through the robot."""
        r = 0.035 * self._size
        spot = at + 0.004 * self._size * normal
        yield self._slot("foothold", name, "com disc", lambda: shapes.disc(1), _POINT), (*spot, *z_to(normal), r, r, r)

    def foothold_line(self, name: str, points: Array) -> Placed:
        """Draws a polyline through the points (n, 3) in the color of the disc of this name."""
        yield from self._lines("foothold", name, points, _POINT)

    def candidate(self, share: float | None, at: Array, normal: Array, radius: float) -> Placed:
        """Draws a dot on the ground at `at` (3,).

        Args:
            share: fraction between the colors of the lowest and the highest cost, 0 to 1; None for a rejected
                candidate.
            at: (3,) position, world [m].
            normal: (3,) normal of the ground.
            radius: radius [m].
        """
        shade = len(_COSTS) if share is None else round(share * (len(_COSTS) - 1))
        number = self._dots[shade] = self._dots.get(shade, -1) + 1
        material = _RULED_OUT if share is None else _COSTS[shade]
        slot = self._slot("candidate", f"{shade} {number}", "com disc", lambda: shapes.disc(1), material)
        yield slot, (*(at + 0.002 * self._size * normal), *z_to(normal), radius, radius, radius)

    def point(self, name: str, at: Array) -> Placed:
        """Draws a ball at `at` (3,), visible through the robot."""
        r = 0.02 * self._size
        yield self._slot("point", name, "ball", lambda: shapes.sphere(1), _POINT), (*at, *_UPRIGHT, r, r, r)

    def center_of_mass(self, center: Array, floor: float = 0.0) -> Placed:
        """Draws a ball at `center`, a disc below it on the ground at height `floor` [m], and a line between them."""
        x, y, z = (float(c) for c in center)
        r = 0.03 * self._size
        yield self._slot("com", "center", "com ball", lambda: shapes.sphere(1), _COM), (x, y, z, *_UPRIGHT, r, r, r)
        ground = (x, y, floor + 0.003 * self._size, *_UPRIGHT, r, r, r)
        yield self._slot("com", "ground", "com disc", lambda: shapes.disc(1), _COM), ground
        thread = (x, y, floor, *_UPRIGHT, 0.1 * r, 0.1 * r, z - floor)
        yield self._slot("com", "thread", "com thread", lambda: shapes.line(1), _COM), thread

    def _slot(self, kind: str, name: str, key: str, shape: Callable[[], Part], material: Material) -> int:
        """Returns the slot of a marker, added on first use."""
        slot = self._slots.get((kind, name))
        if slot is None:
            slot = self._slots[kind, name] = self._scene.slot(kind.capitalize(), name)
            geometry = self._scene.geometry(key, shape())
            number = self._scene.material(material, glow=True, through=kind in _THROUGH)
            self._scene.mesh(slot, geometry, number, Pose.identity())
        return slot


def hull(points: Array) -> Array:
    """Returns the corners of the convex hull of points (m, 3) seen from above, in order."""
    corners = support_polygon(points[:, :2])
    return np.array([points[np.argmin(np.linalg.norm(points[:, :2] - c, axis=1))] for c in corners]).reshape(-1, 3)
