"""`compute_wrench_cone`: the wrenches that forces in friction cones at the corners of a polygon can exert."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import numpy as np

from ..errors import ArgumentError
from ..robot.arguments import check_array
from ..urdf.tree import Array, frozen
from .support import support_polygon

#: Largest number of corners of a polygon: with 8 the cone has about 200 faces, each a constraint row of every tick.
MAX_CORNERS = 8
#: Relative tolerance for a point to lie on a face and for two faces to be the same.
FACE_TOLERANCE = 1e-8
#: Number of candidate faces that are computed at once.
BASES_PER_BATCH = 20_000


def validate_polygon(value: object) -> Array:
    """Returns the corners (m, 2) of a convex polygon in counter-clockwise order, read-only.

    Raises:
        ArgumentError: the value is not an array of points in the plane, has more than `MAX_CORNERS` rows, or is not
            convex with an area.
    """
    corners = check_array("polygon", value)
    if corners.ndim != 2 or corners.shape[1:] != (2,) or not np.isfinite(corners).all():
        raise ArgumentError(f"polygon: expected finite corners (m, 2) [m], got {value!r}")
    if not 3 <= len(corners) <= MAX_CORNERS:
        raise ArgumentError(f"polygon: expected 3 to {MAX_CORNERS} corners, got {len(corners)}")
    hull = support_polygon(corners)
    if len(hull) < len(corners):
        raise ArgumentError(
            f"polygon: expected the corners of a convex polygon, got {len(corners)} points, of which only "
            f"{len(hull)} are corners of their convex hull"
        )
    return frozen(hull)


def compute_wrench_cone(polygon: Array) -> Array:
    """Computes rows A (k, 6) with ``A w <= 0`` for the wrenches w about the origin that the corners can exert.

    The cone is that of the friction coefficient 1.  It is spanned by the wrenches of the edges of pyramids of four
    faces, ``|f_x|, |f_y| <= f_n``, at the corners (Caron, Pham and Nakamura 2015, "Stability of surface contacts for
    humanoid robots", section III); each of its faces contains five of them and has all others on one side.  The
    coefficient of f_n is -1 where moments are about the centroid.  The rows are in the order: forces alone, center of
    pressure, moment about the normal.

    Args:
        polygon: (m, 2) corners [m].
    """
    return _compute_wrench_cone(polygon.tobytes())


@lru_cache(maxsize=64)
def _compute_wrench_cone(corners: bytes) -> Array:
    """Computes `compute_wrench_cone` for corners as bytes, which `lru_cache` can hash."""
    polygon = np.frombuffer(corners).reshape(-1, 2)
    centroid, extent = polygon.mean(axis=0), float(np.ptp(polygon, axis=0).max())
    edges = np.array(
        [
            (s, t, y, -x, x * t - y * s)
            for x, y in (polygon - centroid) / extent
            for s, t in ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0))
        ]
    )
    combinations_of_edges, face_batches = np.array(list(combinations(range(len(edges)), 5))), [np.zeros((0, 5))]
    for start in range(0, len(combinations_of_edges), BASES_PER_BATCH):
        bases = edges[combinations_of_edges[start : start + BASES_PER_BATCH]]
        bases = bases[np.abs(np.linalg.det(bases)) > FACE_TOLERANCE]
        faces = np.linalg.solve(bases, np.ones((len(bases), 5, 1)))[:, :, 0]
        face_batches.append(faces[(faces @ edges.T <= 1.0 + FACE_TOLERANCE).all(axis=1)])
    faces = np.vstack(face_batches)
    _, first_indices = np.unique(np.round(faces / FACE_TOLERANCE / 100.0), axis=0, return_index=True)
    faces = faces[first_indices]
    faces[np.abs(faces) < FACE_TOLERANCE] = 0.0
    row_kind = 2 * (faces[:, 4] != 0.0) + ((faces[:, 2:4] != 0.0).any(axis=1) & (faces[:, 4] == 0.0))
    faces = faces[np.argsort(row_kind, kind="stable")]
    rows = np.column_stack((faces[:, :2], np.full(len(faces), -1.0), faces[:, 2:] / extent))
    x, y = centroid  # from moments about the centroid to those about the origin: m - middle x f
    rows[:, 0] += rows[:, 5] * y
    rows[:, 1] -= rows[:, 5] * x
    rows[:, 2] += rows[:, 4] * x - rows[:, 3] * y
    return frozen(rows)
