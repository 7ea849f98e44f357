"""Collision detection of spheres with a terrain, on arrays; compiled.

A sphere may be in contact with several surfaces at once, at its nearest point of each; with a height field in up to
three points, as in a groove. Gaps are distances between the surfaces of sphere and terrain, negative for overlap;
normals point from the ground to the sphere's center.

The nearest points of triangles follow Ericson 2005, *Real-Time Collision Detection*, sec. 5.1.5.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..compiler import IntVector, Matrix, Vector, compiled, entry, local

#: Maximum number of contacts of one sphere with one height field, and the cosine between normals above which two
#: contacts count as one.
MAX_FIELD_CONTACTS, SAME_NORMAL_COSINE = 3, 0.95


class TerrainArrays(NamedTuple):
    """Surfaces of a terrain as arrays.

    Attributes:
        planes: (p, 5) normal, distance from the origin along it [m], friction coefficient.
        boxes: (b, 16) center [m], rotation row by row, half lengths [m], friction coefficient.
        fields: (f, 9) origin [m], spacing [m], number of samples along x and y, index of the first height, friction
            coefficient, maximum height [m].
        heights: heights of all height fields, one after the other [m].
    """

    planes: Matrix
    boxes: Matrix
    fields: Matrix
    heights: Vector


class CollisionBuffer(NamedTuple):
    """Up to n contact points of spheres with surfaces.

    Attributes:
        gaps: (n,) distance [m].
        normals: (n, 3) from the ground to the sphere.
        friction: (n,) friction coefficients.
        spheres: (n,) index of the sphere.
        surfaces: (n,) identifier of the surface, the same in every step.
    """

    gaps: Vector
    normals: Matrix
    friction: Vector
    spheres: IntVector
    surfaces: IntVector


@compiled()
def _write_contact(
    found: CollisionBuffer, k: int, gap: float, nx: float, ny: float, nz: float, mu: float, s: int, surface: int
) -> int:
    """Writes contact k if there is capacity for it; returns k + 1."""
    if k < len(found.gaps):
        found.gaps[k], found.friction[k], found.spheres[k], found.surfaces[k] = gap, mu, s, surface
        found.normals[k, 0], found.normals[k, 1], found.normals[k, 2] = nx, ny, nz
    return k + 1


@entry("contacts with the ground")
def collide(centers: Matrix, radii: Vector, ground: TerrainArrays, reach: float, found: CollisionBuffer) -> int:
    """Finds all contacts of spheres with surfaces that are no farther apart than `reach` [m].

    Args:
        centers: (s, 3) sphere centers [m].
        radii: (s,) radii [m].
        ground: surfaces of the terrain.
        reach: maximum gap [m].
        found: receives the contacts.

    Returns:
        The number of contacts. If it exceeds the capacity n, its negative; the first n contacts are written.
    """
    k = collide_range(0, len(radii), centers, radii, ground, reach, found, 0)
    return k if k <= len(found.gaps) else -k


@compiled()
def collide_range(
    first: int,
    end: int,
    centers: Matrix,
    radii: Vector,
    ground: TerrainArrays,
    reach: float,
    found: CollisionBuffer,
    k: int,
) -> int:
    """Finds the contacts of spheres `first` to `end` - 1 and appends them after k contacts; returns the new number."""
    planes, boxes, fields = ground.planes, ground.boxes, ground.fields
    near = local(MAX_FIELD_CONTACTS, 4)
    for s in range(first, end):
        x, y, z, r = centers[s, 0], centers[s, 1], centers[s, 2], radii[s]
        for p in range(len(planes)):
            nx, ny, nz = planes[p, 0], planes[p, 1], planes[p, 2]
            gap = nx * x + ny * y + nz * z - planes[p, 3] - r
            if gap < reach:
                k = _write_contact(found, k, gap, nx, ny, nz, planes[p, 4], s, p)
        for b in range(len(boxes)):
            if _collide_box(boxes[b], x, y, z, r, reach, near) and near[0, 0] < reach:
                mu, surface = boxes[b, 15], len(planes) + b
                k = _write_contact(found, k, near[0, 0], near[0, 1], near[0, 2], near[0, 3], mu, s, surface)
        for f in range(len(fields)):
            count = _collide_field(fields[f], ground.heights, x, y, z, r, reach, near)
            for i in range(count):
                mu, surface = fields[f, 7], len(planes) + len(boxes) + MAX_FIELD_CONTACTS * f + i
                k = _write_contact(found, k, near[i, 0], near[i, 1], near[i, 2], near[i, 3], mu, s, surface)
    return k


@compiled()
def may_be_in_reach(x: float, y: float, z: float, r: float, ground: TerrainArrays, reach: float) -> bool:
    """Returns whether a sphere may be within `reach` of a surface; False is exact, True is conservative."""
    planes, fields, near = ground.planes, ground.fields, local(1, 4)
    for p in range(len(planes)):
        if planes[p, 0] * x + planes[p, 1] * y + planes[p, 2] * z - planes[p, 3] - r < reach:
            return True
    for b in range(len(ground.boxes)):
        if _collide_box(ground.boxes[b], x, y, z, r, reach, near) and near[0, 0] < reach:
            return True
    for f in range(len(fields)):
        if not _is_outside_field(fields[f], x, y, z, r + reach):
            return True
    return False


@compiled()
def _collide_box(box: Vector, x: float, y: float, z: float, r: float, reach: float, out: Matrix) -> bool:
    """Computes gap and normal of a sphere and a box into out[0]; returns False beyond the distance `reach`."""
    dx, dy, dz = x - box[0], y - box[1], z - box[2]
    away, at, beyond = 0.0, local(3), local(3)
    for a in range(3):
        at[a] = box[3 + a] * dx + box[6 + a] * dy + box[9 + a] * dz  # column a of the rotation
        half = box[12 + a]
        beyond[a] = at[a] - min(max(at[a], -half), half)
        if abs(beyond[a]) - r > reach:
            return False
        away += beyond[a] * beyond[a]
    if away > 0.0:
        length = math.sqrt(away)
        gap = length - r
        for a in range(3):
            beyond[a] /= length
    else:  # the center is inside: the normal is that of the nearest face
        face, depth = 0, math.inf
        for a in range(3):
            if box[12 + a] - abs(at[a]) < depth:
                face, depth = a, box[12 + a] - abs(at[a])
        gap = -depth - r
        beyond[face] = 1.0 if at[face] >= 0.0 else -1.0
    out[0, 0] = gap
    for i in range(3):
        out[0, 1 + i] = box[3 + 3 * i] * beyond[0] + box[4 + 3 * i] * beyond[1] + box[5 + 3 * i] * beyond[2]
    return True


@compiled()
def _is_outside_field(field: Vector, x: float, y: float, z: float, wide: float) -> bool:
    """Returns whether a sphere of radius `wide` is beside or above a height field."""
    x0, y0, dx, dy = field[0], field[1], field[2], field[3]
    long, broad = (field[4] - 1.0) * dx, (field[5] - 1.0) * dy
    if z - wide > field[8]:
        return True
    beside: bool = x + wide < x0 or y + wide < y0 or x - wide > x0 + long or y - wide > y0 + broad
    return beside


@compiled()
def _collide_field(
    field: Vector, heights: Vector, x: float, y: float, z: float, r: float, reach: float, out: Matrix
) -> int:
    """Computes gaps and normals of a sphere and a height field into the rows of `out`; returns their number."""
    x0, y0, dx, dy = field[0], field[1], field[2], field[3]
    nx, ny = int(field[4]), int(field[5])
    wide = r + reach
    if _is_outside_field(field, x, y, z, wide):
        return 0
    first_i, last_i = max(int((x - wide - x0) / dx), 0), min(int((x + wide - x0) / dx), nx - 2)
    first_j, last_j = max(int((y - wide - y0) / dy), 0), min(int((y + wide - y0) / dy), ny - 2)
    corner, point, up, c = local(3, 3), local(3), local(3), local(3)
    c[0], c[1], c[2] = x, y, z
    best, below, found = math.inf, False, 0
    for turn in range(2):  # first the nearest point, then other faces whose nearest point is inside
        found = 0 if turn == 0 else 1
        for i in range(first_i, last_i + 1):
            for j in range(first_j, last_j + 1):
                for half in range(2):
                    _triangle(field, heights, i, j, half, corner)
                    inside = _nearest(c, corner, point)
                    ex, ey, ez = x - point[0], y - point[1], z - point[2]
                    distance = math.sqrt(ex * ex + ey * ey + ez * ez)
                    _face(corner, up)
                    side = up[0] * ex + up[1] * ey + up[2] * ez
                    if turn == 0:
                        if distance < best:
                            best = distance
                            if distance > 1e-12:
                                out[0, 1], out[0, 2], out[0, 3] = ex / distance, ey / distance, ez / distance
                            else:
                                out[0, 1], out[0, 2], out[0, 3] = up[0], up[1], up[2]
                        # the center is above or below this half of the cell
                        a, b = (x - x0) / dx - i, (y - y0) / dy - j
                        if 0.0 <= a <= 1.0 and 0.0 <= b <= 1.0 and (b <= a if half == 0 else a <= b):
                            below = side < 0.0
                    elif inside and side > 0.0 and side - r < reach and found < MAX_FIELD_CONTACTS:
                        alike = False
                        for n in range(found):
                            if up[0] * out[n, 1] + up[1] * out[n, 2] + up[2] * out[n, 3] > SAME_NORMAL_COSINE:
                                alike = True
                        if not alike:
                            out[found, 0], out[found, 1] = side - r, up[0]
                            out[found, 2], out[found, 3] = up[1], up[2]
                            found += 1
        if turn == 0:
            if best == math.inf:
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


@compiled()
def _corner(field: Vector, heights: Vector, i: int, j: int, out: Vector) -> None:
    """Computes the position of sample (i, j) of a height field."""
    out[0], out[1] = field[0] + i * field[2], field[1] + j * field[3]
    out[2] = heights[int(field[6]) + i * int(field[5]) + j]


@compiled()
def _triangle(field: Vector, heights: Vector, i: int, j: int, half: int, corner: Matrix) -> None:
    """Computes the corners of one half of cell (i, j), counterclockwise seen from above.

    Both halves contain the samples (i, j) and (i + 1, j + 1).
    """
    _corner(field, heights, i, j, corner[0])
    _corner(field, heights, i + 1, j + half, corner[1])
    _corner(field, heights, i + 1 - half, j + 1, corner[2])


@compiled()
def _face(corner: Matrix, up: Vector) -> None:
    """Computes the unit normal of a triangle."""
    ux, uy, uz = corner[1, 0] - corner[0, 0], corner[1, 1] - corner[0, 1], corner[1, 2] - corner[0, 2]
    vx, vy, vz = corner[2, 0] - corner[0, 0], corner[2, 1] - corner[0, 1], corner[2, 2] - corner[0, 2]
    up[0], up[1], up[2] = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
    length = math.sqrt(up[0] * up[0] + up[1] * up[1] + up[2] * up[2])
    up[0], up[1], up[2] = up[0] / length, up[1] / length, up[2] / length


@compiled()
def _dot(a: Vector, b: Vector) -> float:
    """Returns ``a . b``."""
    total: float = a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
    return total


@compiled()
def _difference(a: Vector, b: Vector, out: Vector) -> None:
    """Computes ``out = a - b``."""
    for i in range(3):
        out[i] = a[i] - b[i]


@compiled()
def _copy(a: Vector, out: Vector) -> None:
    """Copies ``out = a``."""
    for i in range(3):
        out[i] = a[i]


@compiled()
def _add_scaled(a: Vector, f: float, way: Vector, out: Vector) -> None:
    """Computes ``out = a + f way``."""
    for i in range(3):
        out[i] = a[i] + f * way[i]


@compiled()
def _nearest(c: Vector, corner: Matrix, out: Vector) -> bool:
    """Computes the point of a triangle nearest to c; returns True if it lies inside, not on an edge."""
    a, b, d = corner[0], corner[1], corner[2]
    ab, ad, bd, to = local(3), local(3), local(3), local(3)
    _difference(b, a, ab)
    _difference(d, a, ad)
    _difference(c, a, to)
    d1, d2 = _dot(ab, to), _dot(ad, to)
    if d1 <= 0.0 and d2 <= 0.0:
        _copy(a, out)
        return False
    _difference(c, b, to)
    d3, d4 = _dot(ab, to), _dot(ad, to)
    if d3 >= 0.0 and d4 <= d3:
        _copy(b, out)
        return False
    vd = d1 * d4 - d3 * d2
    if vd <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        _add_scaled(a, d1 / (d1 - d3), ab, out)
        return False
    _difference(c, d, to)
    d5, d6 = _dot(ab, to), _dot(ad, to)
    if d6 >= 0.0 and d5 <= d6:
        _copy(d, out)
        return False
    vb = d5 * d2 - d1 * d6
    if vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        _add_scaled(a, d2 / (d2 - d6), ad, out)
        return False
    va = d3 * d6 - d5 * d4
    if va <= 0.0 and d4 - d3 >= 0.0 and d5 - d6 >= 0.0:
        _difference(d, b, bd)
        _add_scaled(b, (d4 - d3) / ((d4 - d3) + (d5 - d6)), bd, out)
        return False
    whole = va + vb + vd
    _add_scaled(a, vb / whole, ab, out)
    _add_scaled(out, vd / whole, ad, out)
    return True
