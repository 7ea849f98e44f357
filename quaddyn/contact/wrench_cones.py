"""`wrench_facets`: what wrenches forces in friction cones at the corners of a polygon can make."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import numpy as np

from ..errors import ArgumentError
from ..robot.arguments import check_array
from ..urdf.tree import Array, frozen
from .support import support_polygon

#: Corners of a polygon at most: of so many the cone has some 200 faces, each a row of every tick.
MOST_CORNERS = 8
#: Relative, within which a point lies on a face, and two faces are one.
SAME = 1e-8
#: Bases of faces that are tried at once.
CHUNK = 20_000


def checked_polygon(value: object) -> Array:
    """(m, 2) corners counter-clockwise, read-only.

    Raises:
        ArgumentError: no points of the plane, more than `MOST_CORNERS`, or no corners of a convex polygon with an area.
    """
    given = check_array("polygon", value)
    if given.ndim != 2 or given.shape[1:] != (2,) or not np.isfinite(given).all():
        raise ArgumentError(f"polygon: expected finite corners (m, 2) [m], got {value!r}")
    if not 3 <= len(given) <= MOST_CORNERS:
        raise ArgumentError(f"polygon: expected 3 to {MOST_CORNERS} corners, got {len(given)}")
    hull = support_polygon(given)
    if len(hull) < len(given):
        raise ArgumentError(f"polygon: {len(given)} points of which {len(hull)} are corners of a convex polygon")
    return frozen(hull)


def wrench_facets(polygon: Array) -> Array:
    """(k, 6) rows A: wrenches w about the origin with ``A w <= 0``, friction 1, are those that the corners can make.

    The cone is spanned by the wrenches of the edges of pyramids of four faces, ``|f_x|, |f_y| <= f_n``, at the corners
    (Caron, Pham, Nakamura 2015, "Stability of surface contacts for humanoid robots", section III); its faces go through
    five of them that leave all others on one side.  The rows have -1 for f_n where moments are about the centroid:
    first those of forces alone, then those of the pressure, then those of the moment about the normal.

    Args:
        polygon: (m, 2) corners [m].
    """
    return _facets(polygon.tobytes())


@lru_cache(maxsize=64)
def _facets(corners: bytes) -> Array:
    polygon = np.frombuffer(corners).reshape(-1, 2)
    middle, size = polygon.mean(axis=0), float(np.ptp(polygon, axis=0).max())
    edges = np.array(
        [
            (s, t, y, -x, x * t - y * s)
            for x, y in (polygon - middle) / size
            for s, t in ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0))
        ]
    )
    every, found = np.array(list(combinations(range(len(edges)), 5))), [np.zeros((0, 5))]
    for start in range(0, len(every), CHUNK):
        bases = edges[every[start : start + CHUNK]]
        bases = bases[np.abs(np.linalg.det(bases)) > SAME]
        faces = np.linalg.solve(bases, np.ones((len(bases), 5, 1)))[:, :, 0]
        found.append(faces[(faces @ edges.T <= 1.0 + SAME).all(axis=1)])
    faces = np.vstack(found)
    _, first = np.unique(np.round(faces / SAME / 100.0), axis=0, return_index=True)
    faces = faces[first]
    faces[np.abs(faces) < SAME] = 0.0
    kind = 2 * (faces[:, 4] != 0.0) + ((faces[:, 2:4] != 0.0).any(axis=1) & (faces[:, 4] == 0.0))
    faces = faces[np.argsort(kind, kind="stable")]
    rows = np.column_stack((faces[:, :2], np.full(len(faces), -1.0), faces[:, 2:] / size))
    x, y = middle  # from moments about the centroid to those about the origin: m - middle x f
    rows[:, 0] += rows[:, 5] * y
    rows[:, 1] -= rows[:, 5] * x
    rows[:, 2] += rows[:, 4] * x - rows[:, 3] * y
    return frozen(rows)
