"""`Part`: a piece of a mesh file as plain arrays, small enough to send to a browser."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import QuaddynError
from ..urdf.tree import Array

Indices = NDArray[np.int64]

#: Vertices are kept on a grid of this many steps along the longest side (14 micrometres on a metre).
GRID = 65535
#: Parts of one mesh file at most: each is an object of its own in the browser.
MAX_PARTS = 2048


class MeshError(QuaddynError, ValueError):
    """A mesh file cannot be drawn; the message says why."""


@dataclass(frozen=True, slots=True)
class Material:
    """How a surface looks: `color` (r, g, b, opacity), each 0 to 1, and a `texture` image that replaces r, g, b."""

    color: tuple[float, float, float, float]
    texture: Path | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Triangles of one material, in the mesh's frame.

    Normals are left out on purpose: the browser makes them from the triangles, round below a crease angle, so that
    every format looks alike and a recording stays a fifth of the size.

    Attributes:
        grid: (n, 3) vertices, in steps of `step` from `origin`.
        origin: (3,) [m].
        step: grid step [m].
        triangles: (m, 3) indices into the vertices, counter-clockwise seen from outside.
        uvs: (3 m, 2) texture coordinates of every corner, or None.
        material: None where the file names none.
    """

    grid: NDArray[np.uint16]
    origin: Array
    step: float
    triangles: NDArray[np.uint32]
    uvs: NDArray[np.float32] | None
    material: Material | None

    @staticmethod
    def of(
        positions: ArrayLike,
        triangles: Indices,
        uvs: ArrayLike | None,
        material: Material | None,
        placement: Array | None = None,
    ) -> Part:
        """Welds vertices that fall on the same grid point and drops the triangles that this makes degenerate.

        Args:
            positions: (k, 3) [m]; those that no triangle uses cost nothing.
            triangles: (m, 3) indices into `positions`.
            uvs: (3 m, 2) or None.
            material: of the whole part.
            placement: (4, 4) of the positions, or None.

        Raises:
            MeshError: an index is out of range or a value is not finite.
        """
        points = np.asarray(positions, dtype=np.float64).reshape(-1, 3)
        if len(triangles) and not 0 <= triangles.min() <= triangles.max() < len(points):
            raise MeshError(f"vertex index out of range (there are {len(points)} vertices)")
        vertices, corner = np.unique(triangles.reshape(-1), return_inverse=True)
        used = points[vertices]
        if placement is not None:
            used = used @ placement[:3, :3].T + placement[:3, 3]
        coordinates = None if uvs is None else np.asarray(uvs, dtype=np.float32).reshape(-1, 2)
        if not np.isfinite(used).all() or (coordinates is not None and not np.isfinite(coordinates).all()):
            raise MeshError("a vertex is not finite")
        origin = used.min(axis=0, initial=np.inf) if len(used) else np.zeros(3)
        step = float((used - origin).max(initial=0.0) / GRID) or 1.0
        grid = np.round((used - origin) / step).astype(np.int64)
        key, place = np.unique((grid[:, 0] << 32) | (grid[:, 1] << 16) | grid[:, 2], return_inverse=True)
        welded = place.astype(np.uint32)[corner].reshape(-1, 3)
        a, b, c = welded.T
        keep = (a != b) & (b != c) & (c != a)
        if coordinates is not None:
            coordinates = coordinates.reshape(-1, 6)[keep].reshape(-1, 2)
        welds = np.stack([key >> 32, (key >> 16) & 0xFFFF, key & 0xFFFF], axis=1).astype(np.uint16)
        return Part(welds, origin, step, np.ascontiguousarray(welded[keep]), coordinates, material)

    @property
    def positions(self) -> Array:
        """The vertices (n, 3) [m]."""
        return np.asarray(self.origin + self.step * self.grid)


def fan(counts: Indices, corners: int) -> Indices:
    """Corner numbers (m, 3) of the triangles that fan out polygons of `counts` (k,) consecutive corners.

    Exact for convex polygons, which is what exporters write; fewer than three corners give no triangle.

    Raises:
        MeshError: the polygons need more than the given number of `corners`, or one has a negative count.
    """
    if counts.min(initial=0) < 0 or sum(counts.tolist()) > corners:  # unbounded integers: no overflow
        raise MeshError(f"polygons with {sum(counts.tolist())} corners, but the file has {corners}")
    starts = np.cumsum(counts) - counts
    triangles = np.maximum(counts - 2, 0)
    first = np.repeat(starts, triangles)
    step = np.arange(triangles.sum()) - np.repeat(np.cumsum(triangles) - triangles, triangles)
    return np.stack([first, first + step + 1, first + step + 2], axis=1)
