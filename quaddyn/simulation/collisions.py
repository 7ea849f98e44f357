"""Where spheres touch a terrain: compiled, on plain arrays.

Importing this module imports numba.  A sphere may touch several surfaces at once, each in the nearest point of it; a
height field in up to three (a foot in a groove).  Gaps are distances between surfaces, negative when they overlap;
normals point from the ground to the sphere's centre.

The nearest points of triangles follow Ericson 2005, *Real-Time Collision Detection*, sec. 5.1.5.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..hierarchy.jit import jit
from ..urdf.tree import Array

Index = NDArray[np.int64]

#: Contacts of one sphere with one height field, at most; further ones must differ in direction by this cosine.
FIELD_CONTACTS, ALIKE = 3, 0.95


@jit
def collide(
    centers: Array,
    radii: Array,
    planes: Array,
    boxes: Array,
    fields: Array,
    heights: Array,
    reach: float,
    gaps: Array,
    normals: Array,
    friction: Array,
    spheres: Index,
    surfaces: Index,
) -> int:
    """All contacts of spheres with surfaces that are no farther apart than `reach` [m].

    Args:
        centers: (s, 3) [m].
        radii: (s,) [m].
        planes: see `Terrain.packed`, as the next three.
        boxes: .
        fields: .
        heights: .
        reach: [m].
        gaps: (n,) [m], written.
        normals: (n, 3), written.
        friction: (n,) coefficients, written.
        spheres: (n,) which sphere, written.
        surfaces: (n,) which surface, the same number for the same one at any time; written.

    Returns:
        The number of contacts; minus it where they are more than n, and the first n are written.
    """
    room, k = len(gaps), 0
    near = np.empty((FIELD_CONTACTS, 4))
    for s in range(len(radii)):
        x, y, z, r = centers[s, 0], centers[s, 1], centers[s, 2], radii[s]
        for p in range(len(planes)):
            gap = planes[p, 0] * x + planes[p, 1] * y + planes[p, 2] * z - planes[p, 3] - r
            if gap < reach:
                if k < room:
                    gaps[k], friction[k], spheres[k], surfaces[k] = gap, planes[p, 4], s, p
                    normals[k, 0], normals[k, 1], normals[k, 2] = planes[p, 0], planes[p, 1], planes[p, 2]
                k += 1
        for b in range(len(boxes)):
            if _box(boxes[b], x, y, z, r, reach, near) and near[0, 0] < reach:
                if k < room:
                    gaps[k], friction[k], spheres[k], surfaces[k] = near[0, 0], boxes[b, 15], s, len(planes) + b
                    normals[k, 0], normals[k, 1], normals[k, 2] = near[0, 1], near[0, 2], near[0, 3]
                k += 1
        for f in range(len(fields)):
            found = _field(fields[f], heights, x, y, z, r, reach, near)
            for i in range(found):
                if k < room:
                    gaps[k], friction[k], spheres[k] = near[i, 0], fields[f, 7], s
                    surfaces[k] = len(planes) + len(boxes) + FIELD_CONTACTS * f + i
                    normals[k, 0], normals[k, 1], normals[k, 2] = near[i, 1], near[i, 2], near[i, 3]
                k += 1
    return k if k <= room else -k


@jit
def _box(
    box: Array,
    x: float,
    y: float,
    z: float,
    r: float,
    reach: float,
    out: Array,
) -> bool:
    """Gap and normal of a sphere at a box, in out[0]; False when it is far."""
    dx, dy, dz = x - box[0], y - box[1], z - box[2]
    away, local, beyond = 0.0, np.empty(3), np.empty(3)
    for a in range(3):
        local[a] = box[3 + a] * dx + box[6 + a] * dy + box[9 + a] * dz  # column a of the rotation
        half = box[12 + a]
        beyond[a] = local[a] - min(max(local[a], -half), half)
        if abs(beyond[a]) - r > reach:
            return False
        away += beyond[a] * beyond[a]
    if away > 0.0:
        length = np.sqrt(away)
        gap = length - r
        for a in range(3):
            beyond[a] /= length
    else:  # the centre is inside: out through the nearest face
        face, depth = 0, np.inf
        for a in range(3):
            if box[12 + a] - abs(local[a]) < depth:
                face, depth = a, box[12 + a] - abs(local[a])
        gap = -depth - r
        beyond[face] = 1.0 if local[face] >= 0.0 else -1.0
    out[0, 0] = gap
    for i in range(3):
        out[0, 1 + i] = box[3 + 3 * i] * beyond[0] + box[4 + 3 * i] * beyond[1] + box[5 + 3 * i] * beyond[2]
    return True


@jit
def _field(
    field: Array,
    heights: Array,
    x: float,
    y: float,
    z: float,
    r: float,
    reach: float,
    out: Array,
) -> int:
    """Gaps and normals of a sphere at a height field, in the rows of `out`; how many."""
    x0, y0, dx, dy = field[0], field[1], field[2], field[3]
    nx, ny, start = int(field[4]), int(field[5]), int(field[6])
    wide = r + reach
    if x + wide < x0 or y + wide < y0 or x - wide > x0 + (nx - 1) * dx or y - wide > y0 + (ny - 1) * dy:
        return 0
    first_i, last_i = max(int((x - wide - x0) / dx), 0), min(int((x + wide - x0) / dx), nx - 2)
    first_j, last_j = max(int((y - wide - y0) / dy), 0), min(int((y + wide - y0) / dy), ny - 2)
    corner, point, c = np.empty((3, 3)), np.empty(3), np.array([x, y, z])
    up, best, below = np.empty(3), np.inf, False
    for turn in range(2):  # first the nearest point of all, then other faces that are met squarely
        found = 0 if turn == 0 else 1
        for i in range(first_i, last_i + 1):
            for j in range(first_j, last_j + 1):
                for half in range(2):
                    _triangle(corner, i, j, half, x0, y0, dx, dy, ny, start, heights)
                    inside = _nearest(c, corner, point)
                    ex, ey, ez = x - point[0], y - point[1], z - point[2]
                    distance = np.sqrt(ex * ex + ey * ey + ez * ez)
                    _face(corner, up)
                    side = up[0] * ex + up[1] * ey + up[2] * ez
                    if turn == 0:
                        if distance < best:
                            best = distance
                            if distance > 1e-12:
                                out[0, 1], out[0, 2], out[0, 3] = ex / distance, ey / distance, ez / distance
                            else:
                                out[0, 1], out[0, 2], out[0, 3] = up[0], up[1], up[2]
                        # seen from above the centre is in this half of the cell
                        a, b = (x - x0) / dx - i, (y - y0) / dy - j
                        if 0.0 <= a <= 1.0 and 0.0 <= b <= 1.0 and (b <= a if half == 0 else a <= b):
                            below = side < 0.0
                    elif inside and side > 0.0 and side - r < reach and found < FIELD_CONTACTS:
                        alike = False
                        for n in range(found):
                            if up[0] * out[n, 1] + up[1] * out[n, 2] + up[2] * out[n, 3] > ALIKE:
                                alike = True
                        if not alike:
                            out[found, 0], out[found, 1] = side - r, up[0]
                            out[found, 2], out[found, 3] = up[1], up[2]
                            found += 1
        if turn == 0:
            if best == np.inf:
                return 0
            out[0, 0] = best - r
            if below:
                out[0, 0] = -best - r
                if best > 1e-12:
                    out[0, 1], out[0, 2], out[0, 3] = -out[0, 1], -out[0, 2], -out[0, 3]
                return 1
            if out[0, 0] >= reach:
                return 0
    return found


@jit
def _triangle(
    corner: Array,
    i: int,
    j: int,
    half: int,
    x0: float,
    y0: float,
    dx: float,
    dy: float,
    ny: int,
    start: int,
    heights: Array,
) -> None:
    """Corners of one half of cell (i, j), counter-clockwise seen from above; they share (i, j) and (i + 1, j + 1)."""
    for n, a, b in ((0, i, j), (1, i + 1, j + half), (2, i + 1 - half, j + 1)):
        corner[n, 0], corner[n, 1], corner[n, 2] = x0 + a * dx, y0 + b * dy, heights[start + a * ny + b]


@jit
def _face(
    corner: Array,
    up: Array,
) -> None:
    """The unit normal of a triangle."""
    ux, uy, uz = corner[1, 0] - corner[0, 0], corner[1, 1] - corner[0, 1], corner[1, 2] - corner[0, 2]
    vx, vy, vz = corner[2, 0] - corner[0, 0], corner[2, 1] - corner[0, 1], corner[2, 2] - corner[0, 2]
    up[0], up[1], up[2] = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
    length = np.sqrt(up[0] * up[0] + up[1] * up[1] + up[2] * up[2])
    up[0], up[1], up[2] = up[0] / length, up[1] / length, up[2] / length


@jit
def _dot(
    a: Array,
    b: Array,
) -> float:
    return float(a[0] * b[0] + a[1] * b[1] + a[2] * b[2])


@jit
def _nearest(
    c: Array,
    corner: Array,
    out: Array,
) -> bool:
    """The nearest point of a triangle to c; True when it lies inside, not on an edge."""
    a, b, d = corner[0], corner[1], corner[2]
    ab, ad, ap = b - a, d - a, c - a
    d1, d2 = _dot(ab, ap), _dot(ad, ap)
    if d1 <= 0.0 and d2 <= 0.0:
        out[:] = a
        return False
    bp = c - b
    d3, d4 = _dot(ab, bp), _dot(ad, bp)
    if d3 >= 0.0 and d4 <= d3:
        out[:] = b
        return False
    vd = d1 * d4 - d3 * d2
    if vd <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        out[:] = a + d1 / (d1 - d3) * ab
        return False
    dp = c - d
    d5, d6 = _dot(ab, dp), _dot(ad, dp)
    if d6 >= 0.0 and d5 <= d6:
        out[:] = d
        return False
    vb = d5 * d2 - d1 * d6
    if vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        out[:] = a + d2 / (d2 - d6) * ad
        return False
    va = d3 * d6 - d5 * d4
    if va <= 0.0 and d4 - d3 >= 0.0 and d5 - d6 >= 0.0:
        out[:] = b + (d4 - d3) / ((d4 - d3) + (d5 - d6)) * (d - b)
        return False
    whole = va + vb + vd
    out[:] = a + vb / whole * ab + vd / whole * ad
    return True
