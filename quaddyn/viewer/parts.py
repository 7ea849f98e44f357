"""`Part`: a piece of a mesh file as arrays, small enough to send to a browser.

Primitive shapes of URDF and markers are made of triangles, with z as their axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import QuaddynError
from ..urdf.tree import Array

Indices = NDArray[np.int64]

#: Grid steps along the longest side, to which vertices are rounded (14 micrometers per meter).
GRID = 65535
#: Maximum number of parts of a mesh file; each is a separate object in the browser.
MAX_PARTS = 2048


class MeshError(QuaddynError, ValueError):
    """Error of a mesh file that cannot be drawn; the message states the reason."""


@dataclass(frozen=True, slots=True)
class Material:
    """Appearance of a surface: `color` (r, g, b, opacity), each 0 to 1, and a `texture` image that replaces r, g, b."""

    color: tuple[float, float, float, float]
    texture: Path | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Triangles of one material, in the frame of the mesh.

    Normals are omitted: the browser computes them from the triangles, smooth below a crease angle, so that all formats
    look alike and a recording has a fifth of the size.
    """

    grid: NDArray[np.uint16]  # (n, 3) vertices in steps of `step` from `origin`
    origin: Array  # (3,) position [m]
    step: float  # grid step [m]
    triangles: NDArray[np.uint32]  # (m, 3) vertex indices, counterclockwise seen from outside
    uvs: NDArray[np.float32] | None  # (3 m, 2) texture coordinates of each corner, or None
    material: Material | None  # material; None if the file names none

    @staticmethod
    def from_positions(
        positions: ArrayLike,
        triangles: Indices,
        uvs: ArrayLike | None,
        material: Material | None,
        placement: Array | None = None,
    ) -> Part:
        """Returns a part from vertices: merges those at one grid point, and removes degenerate triangles.

        Args:
            positions: (k, 3) vertices [m]; unused ones are removed.
            triangles: (m, 3) indices into `positions`.
            uvs: (3 m, 2) texture coordinates, or None.
            material: material of the part.
            placement: (4, 4) placement of the vertices, or None.

        Raises:
            MeshError: an index is out of range or a value is not finite.
        """
        points = np.asarray(positions, dtype=np.float64).reshape(-1, 3)
        if len(triangles) and not 0 <= triangles.min() <= triangles.max() < len(points):
            raise MeshError(f"the index of a vertex is out of range (the file has {len(points)} vertices)")
        vertices, corner = np.unique(triangles.reshape(-1), return_inverse=True)
        used = points[vertices]
        if placement is not None:
            used = used @ placement[:3, :3].T + placement[:3, 3]
        coordinates = None if uvs is None else np.asarray(uvs, dtype=np.float32).reshape(-1, 2)
        if not np.isfinite(used).all() or (coordinates is not None and not np.isfinite(coordinates).all()):
            raise MeshError("a vertex or texture coordinate is not finite")
        origin = used.min(axis=0, initial=np.inf) if len(used) else np.zeros(3)
        step = float((used - origin).max(initial=0.0) / GRID) or 1.0
        grid = np.round((used - origin) / step).astype(np.int64)
        key, vertex_index = np.unique((grid[:, 0] << 32) | (grid[:, 1] << 16) | grid[:, 2], return_inverse=True)
        merged_triangles = vertex_index.astype(np.uint32)[corner].reshape(-1, 3)
        a, b, c = merged_triangles.T
        is_nondegenerate = (a != b) & (b != c) & (c != a)
        if coordinates is not None:
            coordinates = coordinates.reshape(-1, 6)[is_nondegenerate].reshape(-1, 2)
        merged_grid = np.stack([key >> 32, (key >> 16) & 0xFFFF, key & 0xFFFF], axis=1).astype(np.uint16)
        return Part(
            merged_grid, origin, step, np.ascontiguousarray(merged_triangles[is_nondegenerate]), coordinates, material
        )

    @property
    def positions(self) -> Array:
        """Vertices (n, 3) [m]."""
        return np.asarray(self.origin + self.step * self.grid)


def triangulate_fans(counts: Indices, corners: int) -> Indices:
    """Returns corner numbers (m, 3) of the triangle fans of polygons with `counts` (k,) consecutive corners.

    Exact for convex polygons, which exporters write; fewer than three corners give no triangle.

    Raises:
        MeshError: the polygons need more than the given number of `corners`, or one has a negative count.
    """
    if counts.min(initial=0) < 0 or sum(counts.tolist()) > corners:  # unbounded integers: no overflow
        raise MeshError(f"the polygons require {sum(counts.tolist())} corners, but the file has {corners}")
    starts = np.cumsum(counts) - counts
    triangles = np.maximum(counts - 2, 0)
    first = np.repeat(starts, triangles)
    step = np.arange(triangles.sum()) - np.repeat(np.cumsum(triangles) - triangles, triangles)
    return np.stack([first, first + step + 1, first + step + 2], axis=1)


_SEGMENTS = 32


def make_revolved(profile: Sequence[tuple[float, float]], segments: int = _SEGMENTS) -> Part:
    """Returns the solid of revolution of a `profile` of (radius, z) points, bottom to top, about z [m]."""
    angles = np.linspace(0, 2 * np.pi, segments, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rings = [np.column_stack([radius * circle, np.full(segments, z)]) for radius, z in profile]
    index = np.arange(segments)
    next_index = (index + 1) % segments
    triangles: list[Indices] = []
    for ring in range(len(profile) - 1):
        lower, upper = ring * segments, (ring + 1) * segments
        triangles.append(np.stack([lower + index, lower + next_index, upper + next_index], axis=1))
        triangles.append(np.stack([lower + index, upper + next_index, upper + index], axis=1))
    return Part.from_positions(np.concatenate(rings), np.concatenate(triangles), None, None)


def make_sphere(radius: float) -> Part:
    """Returns a sphere of `radius` [m]."""
    angles = np.linspace(-np.pi / 2, np.pi / 2, _SEGMENTS // 2 + 1)
    return make_revolved([(radius * np.cos(a), radius * np.sin(a)) for a in angles])


def make_cylinder(radius: float, length: float) -> Part:
    """Returns a closed, centered cylinder [m]."""
    h = length / 2
    return make_revolved([(0, -h), (radius, -h), (radius, h), (0, h)])


def make_capsule(radius: float, length: float) -> Part:
    """Returns a centered cylinder of `length` between two half spheres [m]."""
    angles = np.linspace(0, np.pi / 2, _SEGMENTS // 4 + 1)
    top = [(radius * np.cos(a), length / 2 + radius * np.sin(a)) for a in angles]
    return make_revolved([*((r, -z) for r, z in reversed(top)), *top])


def make_box(size: tuple[float, float, float]) -> Part:
    """Returns a centered box of full `size` (x, y, z) [m]."""
    corners = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)]) * size
    quads = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
    return Part.from_positions(corners, quads[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3), None, None)


def make_arrow() -> Part:
    """Returns an arrow of length 1 from the origin along z."""
    return make_revolved([(0, 0), (0.025, 0), (0.025, 0.78), (0.075, 0.78), (0, 1)], 20)


def make_cone() -> Part:
    """Returns the open surface of a cone with its tip at the origin, height 1 and radius 1 at z = 1."""
    return make_revolved([(0, 0), (1, 1)])


def make_disc(radius: float) -> Part:
    """Returns a flat disc seen from above [m]."""
    return make_revolved([(radius, 0), (0, 0)])


def make_line(radius: float) -> Part:
    """Returns a thin open cylinder of length 1 from the origin along z."""
    return make_revolved([(radius, 0), (radius, 1)], 8)
