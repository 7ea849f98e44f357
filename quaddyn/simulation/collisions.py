"""Collision detection of spheres with a terrain, on arrays; compiled.

A sphere may be in contact with several surfaces at once, at its nearest point of each; with a height field in up to
three points, as in a groove. Gaps are distances between the surfaces of sphere and terrain, negative for overlap;
normals point from the ground to the sphere's center.

The nearest points of triangles follow Ericson 2005, *Real-Time Collision Detection*, sec. 5.1.5.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..compiler import IntVector, Matrix, Vec3, Vector, compiled, entry, local, vec3

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
    contacts: CollisionBuffer, k: int, gap: float, normal: Vec3, friction: float, sphere: int, surface: int
) -> int:
    """Writes contact k if the buffer has an entry for it; returns k + 1."""
    if k < len(contacts.gaps):
        contacts.gaps[k], contacts.friction[k], contacts.spheres[k], contacts.surfaces[k] = (
            gap,
            friction,
            sphere,
            surface,
        )
        contacts.normals[k] = normal
    return k + 1


@entry("contacts with the ground")
def collide(centers: Matrix, radii: Vector, ground: TerrainArrays, reach: float, contacts: CollisionBuffer) -> int:
    """Finds all contacts of spheres with surfaces that are no farther apart than `reach` [m].

    Args:
        centers: (s, 3) sphere centers [m].
        radii: (s,) radii [m].
        ground: surfaces of the terrain.
        reach: maximum gap [m].
        contacts: receives the contacts.

    Returns:
        The number of contacts. If it exceeds the capacity n, its negative; the first n contacts are written.
    """
    k = collide_range(0, len(radii), centers, radii, ground, reach, contacts, 0)
    return k if k <= len(contacts.gaps) else -k


@compiled()
def collide_range(
    first: int,
    end: int,
    centers: Matrix,
    radii: Vector,
    ground: TerrainArrays,
    reach: float,
    contacts: CollisionBuffer,
    k: int,
) -> int:
    """Finds the contacts of spheres `first` to `end` - 1 and appends them after k contacts; returns the new number."""
    planes, boxes, fields = ground.planes, ground.boxes, ground.fields
    nearest = local(MAX_FIELD_CONTACTS, 4)
    for sphere in range(first, end):
        x, y, z, r = centers[sphere, 0], centers[sphere, 1], centers[sphere, 2], radii[sphere]
        for p in range(len(planes)):
            nx, ny, nz = planes[p, 0], planes[p, 1], planes[p, 2]
            gap = nx * x + ny * y + nz * z - planes[p, 3] - r
            if gap < reach:
                k = _write_contact(contacts, k, gap, vec3(nx, ny, nz), planes[p, 4], sphere, p)
        for b in range(len(boxes)):
            if _collide_box(boxes[b], x, y, z, r, reach, nearest) and nearest[0, 0] < reach:
                mu, surface = boxes[b, 15], len(planes) + b
                k = _write_contact(contacts, k, nearest[0, 0], vec3(nearest[0, 1:]), mu, sphere, surface)
        for f in range(len(fields)):
            count = _collide_field(fields[f], ground.heights, x, y, z, r, reach, nearest)
            for i in range(count):
                mu, surface = fields[f, 7], len(planes) + len(boxes) + MAX_FIELD_CONTACTS * f + i
                k = _write_contact(contacts, k, nearest[i, 0], vec3(nearest[i, 1:]), mu, sphere, surface)
    return k


@compiled()
def may_be_in_reach(x: float, y: float, z: float, r: float, ground: TerrainArrays, reach: float) -> bool:
    """Returns whether a sphere may be within `reach` of a surface; False is exact, True is conservative."""
    planes, fields, nearest = ground.planes, ground.fields, local(1, 4)
    for p in range(len(planes)):
        if planes[p, 0] * x + planes[p, 1] * y + planes[p, 2] * z - planes[p, 3] - r < reach:
            return True
    for b in range(len(ground.boxes)):
        if _collide_box(ground.boxes[b], x, y, z, r, reach, nearest) and nearest[0, 0] < reach:
            return True
    for f in range(len(fields)):
        if not _is_outside_field(fields[f], x, y, z, r + reach):
            return True
    return False


@compiled()
def _collide_box(box: Vector, x: float, y: float, z: float, r: float, reach: float, out: Matrix) -> bool:
    """Computes gap and normal of a sphere and a box into out[0]; returns False beyond the distance `reach`."""
    dx, dy, dz = x - box[0], y - box[1], z - box[2]
    squared_distance, local_center, outside = 0.0, local(3), local(3)
    for a in range(3):
        local_center[a] = box[3 + a] * dx + box[6 + a] * dy + box[9 + a] * dz  # column a of the rotation
        half = box[12 + a]
        outside[a] = local_center[a] - min(max(local_center[a], -half), half)
        if abs(outside[a]) - r > reach:
            return False
        squared_distance += outside[a] * outside[a]
    if squared_distance > 0.0:
        length = math.sqrt(squared_distance)
        gap = length - r
        for a in range(3):
            outside[a] /= length
    else:  # the center is inside: the normal is that of the nearest face
        face, depth = 0, math.inf
        for a in range(3):
            if box[12 + a] - abs(local_center[a]) < depth:
                face, depth = a, box[12 + a] - abs(local_center[a])
        gap = -depth - r
        outside[face] = 1.0 if local_center[face] >= 0.0 else -1.0
    out[0, 0] = gap
    for i in range(3):
        out[0, 1 + i] = box[3 + 3 * i] * outside[0] + box[4 + 3 * i] * outside[1] + box[5 + 3 * i] * outside[2]
    return True


@compiled()
def _is_outside_field(field: Vector, x: float, y: float, z: float, radius: float) -> bool:
    """Returns whether a sphere of radius `radius` is beside or above a height field."""
    x0, y0, dx, dy = field[0], field[1], field[2], field[3]
    length_x, length_y = (field[4] - 1.0) * dx, (field[5] - 1.0) * dy
    if z - radius > field[8]:
        return True
    is_beside: bool = x + radius < x0 or y + radius < y0 or x - radius > x0 + length_x or y - radius > y0 + length_y
    return is_beside


@compiled()
def _collide_field(
    field: Vector, heights: Vector, x: float, y: float, z: float, r: float, reach: float, out: Matrix
) -> int:
    """Computes the contacts of a sphere with a height field, gap and normal in rows of `out`; returns their number."""
    x0, y0, dx, dy = field[0], field[1], field[2], field[3]
    nx, ny = int(field[4]), int(field[5])
    search_radius = r + reach
    if _is_outside_field(field, x, y, z, search_radius):
        return 0
    first_i, last_i = max(int((x - search_radius - x0) / dx), 0), min(int((x + search_radius - x0) / dx), nx - 2)
    first_j, last_j = max(int((y - search_radius - y0) / dy), 0), min(int((y + search_radius - y0) / dy), ny - 2)
    corners, point, normal, center = local(3, 3), local(3), local(3), local(3)
    center[0], center[1], center[2] = x, y, z
    min_distance, is_below, count = math.inf, False, 0
    for pass_index in range(2):  # first the nearest point, then other faces whose nearest point is inside
        count = 0 if pass_index == 0 else 1
        for i in range(first_i, last_i + 1):
            for j in range(first_j, last_j + 1):
                for triangle in range(2):
                    _compute_triangle(field, heights, i, j, triangle, corners)
                    inside = _find_nearest_point(center, corners, point)
                    ex, ey, ez = x - point[0], y - point[1], z - point[2]
                    distance = math.sqrt(ex * ex + ey * ey + ez * ez)
                    _compute_normal(corners, normal)
                    plane_distance = normal[0] * ex + normal[1] * ey + normal[2] * ez
                    if pass_index == 0:
                        if distance < min_distance:
                            min_distance = distance
                            if distance > 1e-12:
                                out[0, 1], out[0, 2], out[0, 3] = ex / distance, ey / distance, ez / distance
                            else:
                                out[0, 1], out[0, 2], out[0, 3] = normal[0], normal[1], normal[2]
                        # the center is above or below this half of the cell
                        a, b = (x - x0) / dx - i, (y - y0) / dy - j
                        if 0.0 <= a <= 1.0 and 0.0 <= b <= 1.0 and (b <= a if triangle == 0 else a <= b):
                            is_below = plane_distance < 0.0
                    elif inside and plane_distance > 0.0 and plane_distance - r < reach and count < MAX_FIELD_CONTACTS:
                        is_duplicate = False
                        for n in range(count):
                            if (
                                normal[0] * out[n, 1] + normal[1] * out[n, 2] + normal[2] * out[n, 3]
                                > SAME_NORMAL_COSINE
                            ):
                                is_duplicate = True
                        if not is_duplicate:
                            out[count, 0], out[count, 1] = plane_distance - r, normal[0]
                            out[count, 2], out[count, 3] = normal[1], normal[2]
                            count += 1
        if pass_index == 0:
            if min_distance == math.inf:
                return 0
            out[0, 0] = min_distance - r
            if is_below:
                out[0, 0] = -min_distance - r
                if min_distance > 1e-12:
                    out[0, 1], out[0, 2], out[0, 3] = -out[0, 1], -out[0, 2], -out[0, 3]
                return 1
            if out[0, 0] >= reach:
                return 0
    return count


@compiled()
def _compute_corner(field: Vector, heights: Vector, i: int, j: int, out: Vector) -> None:
    """Computes the position of sample (i, j) of a height field."""
    out[0], out[1] = field[0] + i * field[2], field[1] + j * field[3]
    out[2] = heights[int(field[6]) + i * int(field[5]) + j]


@compiled()
def _compute_triangle(field: Vector, heights: Vector, i: int, j: int, half: int, corners: Matrix) -> None:
    """Computes the corners of one half of cell (i, j), counterclockwise seen from above.

    Both halves contain the samples (i, j) and (i + 1, j + 1).
    """
    _compute_corner(field, heights, i, j, corners[0])
    _compute_corner(field, heights, i + 1, j + half, corners[1])
    _compute_corner(field, heights, i + 1 - half, j + 1, corners[2])


@compiled()
def _compute_normal(corners: Matrix, normal: Vector) -> None:
    """Computes the unit normal of a triangle."""
    ux, uy, uz = corners[1, 0] - corners[0, 0], corners[1, 1] - corners[0, 1], corners[1, 2] - corners[0, 2]
    vx, vy, vz = corners[2, 0] - corners[0, 0], corners[2, 1] - corners[0, 1], corners[2, 2] - corners[0, 2]
    normal[0], normal[1], normal[2] = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
    length = math.sqrt(normal[0] * normal[0] + normal[1] * normal[1] + normal[2] * normal[2])
    normal[0], normal[1], normal[2] = normal[0] / length, normal[1] / length, normal[2] / length


@compiled()
def _dot(a: Vector, b: Vector) -> float:
    """Returns ``a . b``."""
    total: float = a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
    return total


@compiled()
def _subtract(a: Vector, b: Vector, out: Vector) -> None:
    """Computes ``out = a - b``."""
    for i in range(3):
        out[i] = a[i] - b[i]


@compiled()
def _add_scaled(a: Vector, factor: float, direction: Vector, out: Vector) -> None:
    """Computes ``out = a + factor direction``."""
    for i in range(3):
        out[i] = a[i] + factor * direction[i]


@compiled()
def _find_nearest_point(point: Vector, corners: Matrix, out: Vector) -> bool:
    """Computes the point of a triangle nearest to c; returns True if it lies inside, not on an edge."""
    a, b, d = corners[0], corners[1], corners[2]
    ab, ad, bd, to = local(3), local(3), local(3), local(3)
    _subtract(b, a, ab)
    _subtract(d, a, ad)
    _subtract(point, a, to)
    d1, d2 = _dot(ab, to), _dot(ad, to)
    if d1 <= 0.0 and d2 <= 0.0:
        out[:] = a
        return False
    _subtract(point, b, to)
    d3, d4 = _dot(ab, to), _dot(ad, to)
    if d3 >= 0.0 and d4 <= d3:
        out[:] = b
        return False
    vd = d1 * d4 - d3 * d2
    if vd <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        _add_scaled(a, d1 / (d1 - d3), ab, out)
        return False
    _subtract(point, d, to)
    d5, d6 = _dot(ab, to), _dot(ad, to)
    if d6 >= 0.0 and d5 <= d6:
        out[:] = d
        return False
    vb = d5 * d2 - d1 * d6
    if vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        _add_scaled(a, d2 / (d2 - d6), ad, out)
        return False
    va = d3 * d6 - d5 * d4
    if va <= 0.0 and d4 - d3 >= 0.0 and d5 - d6 >= 0.0:
        _subtract(d, b, bd)
        _add_scaled(b, (d4 - d3) / ((d4 - d3) + (d5 - d6)), bd, out)
        return False
    total = va + vb + vd
    _add_scaled(a, vb / total, ab, out)
    _add_scaled(out, vd / total, ad, out)
    return True
