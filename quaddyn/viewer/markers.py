"""`Markers`: force arrows, contacts, friction cones, axes and the center of mass; each is a slot added on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import numpy as np

from ..contact.support import support_polygon
from ..urdf.tree import Array, Pose
from . import shapes
from .figure import quaternion_from_z, rotation_from_z
from .parts import Material, Part
from .scene import Scene

SlotPoses = Iterator[tuple[int, tuple[float, ...]]]

_COLORS = {
    "force": (0.90, 0.16, 0.13),
    "moment": (0.58, 0.25, 0.78),
    "velocity": (0.10, 0.60, 0.35),
    "desired": (0.15, 0.40, 0.85),
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
_REJECTED = Material((0.45, 0.45, 0.45, 0.6))
#: Markers visible through other objects; normals are thin, since they are at the same points as forces.
_KINDS_SHOWN_THROUGH_OBJECTS = ("com", "contact", "point", "foothold", "normal")
_NORMAL_WIDTH_RATIO = 0.5
_IDENTITY_QUATERNION = (0.0, 0.0, 0.0, 1.0)


class Markers:
    """Markers of a scene; each method returns slot numbers with their ten values.

    Args:
        scene: scene to which the slots are added.
        size: length of the robot, to which markers are scaled [m].
    """

    def __init__(self, scene: Scene, size: float) -> None:
        self._scene, self._size = scene, size
        self._slots: dict[tuple[str, str], int] = {}
        self._dot_counts: dict[int, int] = {}  # index of the last dot of each shade in this frame

    def begin(self) -> None:
        """Starts a new frame, in which the slots of the dots are reused."""
        self._dot_counts.clear()

    def draw_arrow(self, kind: str, name: str, tail: Array, vector: Array) -> SlotPoses:
        """Draws an arrow of a kind of `_COLORS` from `tail` along `vector` (3,), of its length [m]."""
        length = float(np.linalg.norm(vector))
        if length > 1e-4 * self._size:  # shorter arrows are invisible, and the pose of a zero vector is undefined
            slot = self._find_slot(kind, name, "arrow", shapes.make_arrow, Material((*_COLORS[kind], 1.0)))
            width = _NORMAL_WIDTH_RATIO * length if kind == "normal" else length
            yield slot, (*tail, *quaternion_from_z(vector), width, width, length)

    def draw_cone(self, name: str, tip: Array, friction: float, normal: Array | None = None) -> SlotPoses:
        """Draws the friction cone with its tip at `tip`, on ground with this normal, level by default."""
        height = 0.25 * self._size
        slot = self._find_slot("cone", name, "cone", shapes.make_cone, _CONE)
        quaternion = _IDENTITY_QUATERNION if normal is None else quaternion_from_z(normal)
        yield slot, (*tip, *quaternion, friction * height, friction * height, height)

    def draw_contact(self, name: str, position: Array) -> SlotPoses:
        """Draws a small ball at a contact point, visible through the robot."""
        r = 0.012 * self._size
        yield (
            self._find_slot("contact", name, "ball", lambda: shapes.make_sphere(1), _CONTACT),
            (*position, *_IDENTITY_QUATERNION, r, r, r),
        )

    def draw_polygon(self, corners: Array) -> SlotPoses:
        """Draws the edges of a closed polygon (h, 3); one line for two corners, nothing for one."""
        outline = corners if len(corners) <= 2 else np.vstack((corners, corners[:1]))
        yield from self._draw_lines("support", "edge", outline, _SUPPORT)

    def draw_curve(self, name: str, points: Array) -> SlotPoses:
        """Draws a polyline through the points (n, 3)."""
        yield from self._draw_lines("curve", name, points, _POINT)

    def draw_outline(self, name: str, points: Array) -> SlotPoses:
        """Draws the edge of a surface through the points (n, 3)."""
        yield from self._draw_lines("sole", name, points, _CONTACT)

    def draw_capsule(self, name: str, ends: Array, radius: float) -> SlotPoses:
        """Draws a capsule: the points within `radius` [m] of the segment between two `ends` (2, 3)."""
        axis = ends[1] - ends[0]
        length = float(np.linalg.norm(axis))
        key = f"capsule {radius:.6f} {length:.6f}"
        slot = self._find_slot("capsule", name, key, lambda: shapes.make_capsule(radius, length), _CAPSULE)
        quaternion = quaternion_from_z(axis) if length > 0.0 else _IDENTITY_QUATERNION
        yield slot, (*ends.mean(axis=0).tolist(), *quaternion, 1.0, 1.0, 1.0)

    def _draw_lines(self, kind: str, name: str, points: Array, material: Material) -> SlotPoses:
        """Draws lines between consecutive points."""
        r = 0.006 * self._size
        for number, (a, b) in enumerate(pairwise(points)):
            length = float(np.linalg.norm(b - a))
            if length > 0.0:
                slot = self._find_slot(kind, f"{name} {number}", "com thread", lambda: shapes.make_line(1), material)
                yield slot, (*a, *quaternion_from_z(b - a), r, r, length)

    def draw_triad(self, name: str, pose: Array) -> SlotPoses:
        """Draws the axes of a frame at `pose` (7,): position and quaternion (x, y, z, w)."""
        if ("triad", name) not in self._slots:
            slot = self._slots["triad", name] = self._scene.add_slot("Frames", name)
            arrow = self._scene.add_geometry("arrow", shapes.make_arrow())
            for axis, color in zip(np.eye(3), _AXES, strict=True):
                material = self._scene.add_material(Material((*color, 1.0)), glow=True)
                self._scene.add_mesh(slot, arrow, material, Pose.of(rotation_from_z(axis), np.zeros(3)))
        yield self._slots["triad", name], (*pose, *(0.2 * self._size,) * 3)

    def draw_trail(self, name: str, points: Iterable[Array]) -> SlotPoses:
        """Draws a ball at each of the `points` (3,)."""
        r = 0.006 * self._size
        for number, point in enumerate(points):
            slot = self._find_slot("trail", f"{name} {number}", "ball", lambda: shapes.make_sphere(1), _TRAIL)
            yield slot, (*point, *_IDENTITY_QUATERNION, r, r, r)

    def draw_disc(self, name: str, position: Array, normal: Array) -> SlotPoses:
        """Draws a disc on ground with this normal at `position` (3,), visible through the robot."""
        r = 0.035 * self._size
        center = position + 0.004 * self._size * normal
        yield (
            self._find_slot("foothold", name, "com disc", lambda: shapes.make_disc(1), _POINT),
            (*center, *quaternion_from_z(normal), r, r, r),
        )

    def draw_foothold_line(self, name: str, points: Array) -> SlotPoses:
        """Draws a polyline through the points (n, 3) in the color of the disc of this name."""
        yield from self._draw_lines("foothold", name, points, _POINT)

    def draw_candidate(self, cost_fraction: float | None, position: Array, normal: Array, radius: float) -> SlotPoses:
        """Draws a dot on the ground at `position` (3,).

        Args:
            cost_fraction: fraction between the colors of the lowest and the highest cost, 0 to 1; None for a rejected
                candidate.
            position: (3,) position, world [m].
            normal: (3,) normal of the ground.
            radius: radius [m].
        """
        shade = len(_COSTS) if cost_fraction is None else round(cost_fraction * (len(_COSTS) - 1))
        number = self._dot_counts[shade] = self._dot_counts.get(shade, -1) + 1
        material = _REJECTED if cost_fraction is None else _COSTS[shade]
        slot = self._find_slot("candidate", f"{shade} {number}", "com disc", lambda: shapes.make_disc(1), material)
        yield slot, (*(position + 0.002 * self._size * normal), *quaternion_from_z(normal), radius, radius, radius)

    def draw_point(self, name: str, position: Array) -> SlotPoses:
        """Draws a ball at `position` (3,), visible through the robot."""
        r = 0.02 * self._size
        yield (
            self._find_slot("point", name, "ball", lambda: shapes.make_sphere(1), _POINT),
            (*position, *_IDENTITY_QUATERNION, r, r, r),
        )

    def draw_center_of_mass(self, center: Array, floor: float = 0.0) -> SlotPoses:
        """Draws a ball at `center`, a disc below it on the ground at height `floor` [m], and a line between them."""
        x, y, z = (float(c) for c in center)
        r = 0.03 * self._size
        yield (
            self._find_slot("com", "center", "com ball", lambda: shapes.make_sphere(1), _COM),
            (x, y, z, *_IDENTITY_QUATERNION, r, r, r),
        )
        ground = (x, y, floor + 0.003 * self._size, *_IDENTITY_QUATERNION, r, r, r)
        yield self._find_slot("com", "ground", "com disc", lambda: shapes.make_disc(1), _COM), ground
        line = (x, y, floor, *_IDENTITY_QUATERNION, 0.1 * r, 0.1 * r, z - floor)
        yield self._find_slot("com", "thread", "com thread", lambda: shapes.make_line(1), _COM), line

    def _find_slot(self, kind: str, name: str, key: str, shape: Callable[[], Part], material: Material) -> int:
        """Returns the slot of a marker, added on first use."""
        slot = self._slots.get((kind, name))
        if slot is None:
            slot = self._slots[kind, name] = self._scene.add_slot(kind.capitalize(), name)
            geometry = self._scene.add_geometry(key, shape())
            number = self._scene.add_material(material, glow=True, through=kind in _KINDS_SHOWN_THROUGH_OBJECTS)
            self._scene.add_mesh(slot, geometry, number, Pose.identity())
        return slot


def convex_hull_from_above(points: Array) -> Array:
    """Returns the corners of the convex hull of points (m, 3) seen from above, in order."""
    corners = support_polygon(points[:, :2])
    return np.array([points[np.argmin(np.linalg.norm(points[:, :2] - c, axis=1))] for c in corners]).reshape(-1, 3)
