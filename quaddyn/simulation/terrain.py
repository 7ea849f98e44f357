"""`Terrain`: surfaces with which a robot can be in contact: planes, boxes and height fields.

Compiled code detects collisions of spheres with a terrain.  A sphere may be in contact with several surfaces at once,
at its nearest point of each; with a height field in up to three points, as in a groove. Gaps are distances between the
surfaces of sphere and terrain, negative for overlap; normals point from the ground to the sphere's center.

The nearest points of triangles follow Ericson 2005, *Real-Time Collision Detection*, sec. 5.1.5.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..compiler import IntVector, Matrix, Vec3, Vector, compiled, cross, entry, local, mat3, matrix, norm, vec3
from ..compiler.small_arrays import transposed
from ..contact.solvers import MAX_FRICTION
from ..deprecation import renamed_parameters
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_array, check_integer, check_number, check_sequence
from ..robot.units import MAX_LENGTH_RATIO, warn_of_direction, warn_of_length
from ..urdf.tree import Array, FrozenArrays, frozen

#: Maximum plausible height of a coarse surface, divided by the height of the base of the robot, and the mean slope
#: above which a height field counts as coarse, see `warn_of_terrain_size`.
MAX_COARSE_HEIGHT_RATIO, MAX_MEAN_SLOPE = 50.0, 10.0
#: A terrain whose boxes are all farther away than the first number of robot sizes, and whose edges are all longer than
#: the second number of them, seems to be in centimeters: no box is near the robot.
MIN_FAR_RATIO, MIN_FAR_EDGE_RATIO = 50.0, 5.0
#: Height of steps [m] above which they seem to be in another unit: stairs have up to 0.3 m.
MAX_PLAUSIBLE_RISE = 1.5
#: Maximum number of contacts of one sphere with one height field, and the cosine between normals above which two
#: contacts count as one.
MAX_FIELD_CONTACTS, SAME_NORMAL_COSINE = 3, 0.95


class TerrainArrays(NamedTuple):
    """Surfaces of a terrain as arrays."""

    planes: Matrix  # (p, 5) normal, distance from the origin along it [m], friction coefficient
    boxes: Matrix  # (b, 16) center [m], rotation row by row, half lengths [m], friction coefficient
    # (f, 9) origin [m], spacing [m], number of samples along x and y, index of the first height, friction coefficient,
    # maximum height [m]
    fields: Matrix
    heights: Vector  # heights of all height fields, one after the other [m]


class CollisionBuffer(NamedTuple):
    """Up to n contact points of spheres with surfaces."""

    gaps: Vector  # (n,) distance [m]
    normals: Matrix  # (n, 3) from the ground to the sphere
    friction: Vector  # (n,) friction coefficients
    spheres: IntVector  # (n,) index of the sphere
    surfaces: IntVector  # (n,) identifier of the surface, the same in every step


@compiled()
def _write_contact(
    contacts: CollisionBuffer, k: int, gap: float, normal: Vec3, friction: float, sphere: int, surface: int
) -> int:
    """Writes contact k if the buffer has an entry for it; returns k + 1."""
    if k < len(contacts.gaps):
        contacts.gaps[k] = gap
        contacts.friction[k] = friction
        contacts.spheres[k] = sphere
        contacts.surfaces[k] = surface
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
        center, r = vec3(centers[sphere]), radii[sphere]
        for p in range(len(planes)):
            normal = vec3(planes[p, :3])
            gap = normal @ center - planes[p, 3] - r
            if gap < reach:
                k = _write_contact(contacts, k, gap, normal, planes[p, 4], sphere, p)
        for b in range(len(boxes)):
            if _collide_box(boxes[b], center, r, reach, nearest) and nearest[0, 0] < reach:
                mu, surface = boxes[b, 15], len(planes) + b
                k = _write_contact(contacts, k, nearest[0, 0], vec3(nearest[0, 1:]), mu, sphere, surface)
        for f in range(len(fields)):
            count = _collide_field(fields[f], ground.heights, center, r, reach, nearest)
            for i in range(count):
                mu, surface = fields[f, 7], len(planes) + len(boxes) + MAX_FIELD_CONTACTS * f + i
                k = _write_contact(contacts, k, nearest[i, 0], vec3(nearest[i, 1:]), mu, sphere, surface)
    return k


@compiled()
def may_be_in_reach(center: Vec3, r: float, ground: TerrainArrays, reach: float) -> bool:
    """Returns whether a sphere may be within `reach` of a surface; False is exact, True is conservative."""
    planes, fields, nearest = ground.planes, ground.fields, local(1, 4)
    for p in range(len(planes)):
        if vec3(planes[p, :3]) @ center - planes[p, 3] - r < reach:
            return True
    for b in range(len(ground.boxes)):
        if _collide_box(ground.boxes[b], center, r, reach, nearest) and nearest[0, 0] < reach:
            return True
    for f in range(len(fields)):
        if not _is_outside_field(fields[f], center, r + reach):
            return True
    return False


@compiled()
def _collide_box(box: Vector, center: Vec3, r: float, reach: float, out: Matrix) -> bool:
    """Computes gap and normal of a sphere and a box into out[0]; returns False beyond the distance `reach`."""
    R, squared_distance, outside = mat3(matrix(box, 3, 3, 3)), 0.0, local(3)
    local_center = transposed(R) @ (center - vec3(box[:3]))
    for a in range(3):
        half = box[12 + a]
        outside[a] = local_center[a] - min(max(local_center[a], -half), half)
        if abs(outside[a]) - r > reach:
            return False
        squared_distance += outside[a] * outside[a]
    if squared_distance > 0.0:
        length = math.sqrt(squared_distance)
        out[0, 0] = length - r
        out[0, 1:] = R @ (vec3(outside) / length)
        return True
    face, depth = 0, math.inf  # the center is inside: the normal is that of the nearest face
    for a in range(3):
        if box[12 + a] - abs(local_center[a]) < depth:
            face, depth = a, box[12 + a] - abs(local_center[a])
    outside[face] = 1.0 if local_center[face] >= 0.0 else -1.0
    out[0, 0] = -depth - r
    out[0, 1:] = R @ vec3(outside)
    return True


@compiled()
def _is_outside_field(field: Vector, center: Vec3, radius: float) -> bool:
    """Returns whether a sphere of radius `radius` is beside or above a height field."""
    x, y, x0, y0, dx, dy = center[0], center[1], field[0], field[1], field[2], field[3]
    length_x, length_y = (field[4] - 1.0) * dx, (field[5] - 1.0) * dy
    if center[2] - radius > field[8]:
        return True
    is_beside: bool = x + radius < x0 or y + radius < y0 or x - radius > x0 + length_x or y - radius > y0 + length_y
    return is_beside


@compiled()
def _collide_field(field: Vector, heights: Vector, center: Vec3, r: float, reach: float, out: Matrix) -> int:
    """Computes the contacts of a sphere with a height field, gap and normal in rows of `out`; returns their number."""
    x, y, x0, y0, dx, dy = center[0], center[1], field[0], field[1], field[2], field[3]
    nx, ny = int(field[4]), int(field[5])
    search_radius = r + reach
    if _is_outside_field(field, center, search_radius):
        return 0
    first_i, last_i = max(int((x - search_radius - x0) / dx), 0), min(int((x + search_radius - x0) / dx), nx - 2)
    first_j, last_j = max(int((y - search_radius - y0) / dy), 0), min(int((y + search_radius - y0) / dy), ny - 2)
    point, min_distance, is_below, count = local(3), math.inf, False, 0
    for pass_index in range(2):  # first the nearest point, then other faces whose nearest point is inside
        count = 0 if pass_index == 0 else 1
        for i in range(first_i, last_i + 1):
            for j in range(first_j, last_j + 1):
                for triangle in range(2):
                    # Both halves of a cell contain the samples (i, j) and (i + 1, j + 1); counterclockwise from above.
                    a = _find_corner(field, heights, i, j)
                    b = _find_corner(field, heights, i + 1, j + triangle)
                    c = _find_corner(field, heights, i + 1 - triangle, j + 1)
                    inside = _find_nearest_point(center, a, b, c, point)
                    offset, normal = center - vec3(point), cross(b - a, c - a)
                    distance, normal = norm(offset), normal / norm(normal)
                    plane_distance = normal @ offset
                    if pass_index == 0:
                        if distance < min_distance:
                            min_distance = distance
                            out[0, 1:] = offset / distance if distance > 1e-12 else normal
                        # the center is above or below this half of the cell
                        s, t = (x - x0) / dx - i, (y - y0) / dy - j
                        if 0.0 <= s <= 1.0 and 0.0 <= t <= 1.0 and (t <= s if triangle == 0 else s <= t):
                            is_below = plane_distance < 0.0
                    elif inside and plane_distance > 0.0 and plane_distance - r < reach and count < MAX_FIELD_CONTACTS:
                        is_duplicate = False
                        for n in range(count):
                            if normal @ vec3(out[n, 1:]) > SAME_NORMAL_COSINE:
                                is_duplicate = True
                        if not is_duplicate:
                            out[count, 0] = plane_distance - r
                            out[count, 1:] = normal
                            count += 1
        if pass_index == 0:
            if min_distance == math.inf:
                return 0
            out[0, 0] = min_distance - r
            if is_below:
                out[0, 0] = -min_distance - r
                if min_distance > 1e-12:
                    out[0, 1:] = -vec3(out[0, 1:])
                return 1
            if out[0, 0] >= reach:
                return 0
    return count


@compiled()
def _find_corner(field: Vector, heights: Vector, i: int, j: int) -> Vec3:
    """Returns the position of sample (i, j) of a height field."""
    height = heights[int(field[6]) + i * int(field[5]) + j]
    return vec3(field[0] + i * field[2], field[1] + j * field[3], height)


@compiled()
def _find_nearest_point(point: Vec3, a: Vec3, b: Vec3, c: Vec3, out: Vector) -> bool:
    """Computes the point of a triangle nearest to another one; returns True if it lies inside, not on an edge."""
    ab, ac = b - a, c - a
    to_point = point - a
    d1, d2 = ab @ to_point, ac @ to_point
    if d1 <= 0.0 and d2 <= 0.0:
        out[:] = a
        return False
    to_point = point - b
    d3, d4 = ab @ to_point, ac @ to_point
    if d3 >= 0.0 and d4 <= d3:
        out[:] = b
        return False
    vc = d1 * d4 - d3 * d2
    if vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        out[:] = a + ab * (d1 / (d1 - d3))
        return False
    to_point = point - c
    d5, d6 = ab @ to_point, ac @ to_point
    if d6 >= 0.0 and d5 <= d6:
        out[:] = c
        return False
    vb = d5 * d2 - d1 * d6
    if vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        out[:] = a + ac * (d2 / (d2 - d6))
        return False
    va = d3 * d6 - d5 * d4
    if va <= 0.0 and d4 - d3 >= 0.0 and d5 - d6 >= 0.0:
        out[:] = b + (c - b) * ((d4 - d3) / ((d4 - d3) + (d5 - d6)))
        return False
    total = va + vb + vc
    out[:] = a + ab * (vb / total) + ac * (vc / total)
    return True


#: Maximum number of samples of a height field; a million samples take 8 MB.
MAX_SAMPLES = 4_000_000
#: Minimum vertical component of the unit normal of a surface that faces upwards.
UPWARD = 1e-9
#: Distance beyond the border of a box [m], or of a height field [cells], up to which points are on it, so that rounding
#: leaves no gap between neighboring boxes.
BORDER_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Plane(FrozenArrays):
    """Half-space: solid behind `point`, free on the side of `normal`.

    Attributes:
        point: (3,) a point of the surface, world [m].
        normal: (3,) outward normal; normalized.
        friction: friction coefficient; None: that of the plant.

    Raises:
        ArgumentError: a vector of a wrong shape or not finite, or a zero normal.
    """

    point: Array
    normal: Array
    friction: float | None = None

    def __post_init__(self) -> None:
        _set_field(self, "point", _validate_vector("point", self.point, 3))
        normal = _validate_vector("normal", self.normal, 3)
        length = float(np.linalg.norm(normal))
        if not 1e-100 < length < 1e100:
            raise ArgumentError(f"normal: expected a vector of nonzero length, got {normal}")
        _set_field(self, "normal", frozen(normal / length))
        if self.friction is not None:
            _set_field(self, "friction", check_friction(self.friction))

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """Minimum and maximum x, minimum and maximum y; a plane is unbounded."""
        return -math.inf, math.inf, -math.inf, math.inf

    def height(self, x: Array, y: Array) -> Array:
        """Returns the height of the surface at x and y [m]; NaN for a plane that does not face upwards."""
        if not self.normal[2] > UPWARD:
            return np.full(np.broadcast_shapes(x.shape, y.shape), np.nan)
        nx, ny, nz = self.normal.tolist()
        return np.asarray((self.normal @ self.point - nx * x - ny * y) / nz)

    @property
    def tilt(self) -> Array:
        """Smallest rotation (3, 3) that maps the vertical to the normal."""
        x, y, z = self.normal.tolist()
        if z <= -1.0 + 1e-12:  # upside down: half a turn about x
            return np.diag([1.0, -1.0, -1.0])
        K = np.array([[0.0, 0.0, x], [0.0, 0.0, y], [-x, -y, 0.0]])
        return np.asarray(np.eye(3) + K + K @ K / (1.0 + z))

    @classmethod
    def floor(cls, height: float = 0.0, *, friction: float | None = None) -> Plane:
        """Returns a horizontal plane.

        Args:
            height: height of the plane [m].
            friction: friction coefficient; None: that of the plant.
        """
        return cls(np.array([0.0, 0.0, check_number("height", height)]), np.array([0.0, 0.0, 1.0]), friction)

    @classmethod
    def slope(cls, angle: float, *, heading: float = 0.0, friction: float | None = None) -> Plane:
        """Returns a plane through the origin that rises in a direction.

        Args:
            angle: slope angle [rad].
            heading: direction in which it rises [rad] from the x axis.
            friction: friction coefficient; None: that of the plant.
        """
        angle, heading = check_number("angle", angle), _check_heading(heading)
        if not abs(angle) < 0.5 * np.pi:
            raise ArgumentError(f"angle: expected an angle of magnitude below pi/2 [rad], got {angle}")
        s = np.sin(angle)
        return cls(np.zeros(3), np.array([-s * np.cos(heading), -s * np.sin(heading), np.cos(angle)]), friction)

    @classmethod
    def wall(cls, distance: float, *, heading: float = 0.0, friction: float | None = None) -> Plane:
        """Returns a vertical plane that faces the origin.

        Args:
            distance: distance from the origin [m].
            heading: direction of the wall [rad] from the x axis.
            friction: friction coefficient; None: that of the plant.
        """
        heading = _check_heading(heading)
        out = np.array([np.cos(heading), np.sin(heading), 0.0])
        return cls(check_number("distance", distance) * out, -out, friction)


@dataclass(frozen=True, slots=True, eq=False)
class Box(FrozenArrays):
    """Solid box: a step, a platform, a beam, or a wall of finite size.

    Attributes:
        center: (3,) center, world [m].
        size: (3,) full lengths along the box axes [m].
        rotation: (3, 3) rotation from box axes to the world; default: none.
        friction: friction coefficient; None: that of the plant.

    Raises:
        ArgumentError: a wrong shape, an entry that is not finite, a length that is not positive, or not a rotation
            matrix.
    """

    center: Array
    size: Array
    rotation: Array = field(default_factory=lambda: np.eye(3))
    friction: float | None = None

    def __post_init__(self) -> None:
        _set_field(self, "center", _validate_vector("center", self.center, 3))
        _set_field(self, "size", _validate_vector("size", self.size, 3))
        if not self.size.min() > 0.0:
            raise ArgumentError(f"size: expected positive lengths, got {self.size}")
        R = _validate_vector("rotation", self.rotation, 3, 3)
        if not (np.abs(R @ R.T - np.eye(3)).max() < 1e-9 and np.linalg.det(R) > 0.0):
            raise ArgumentError(f"rotation: expected a rotation matrix, got {R.tolist()}")
        _set_field(self, "rotation", R)
        if self.friction is not None:
            _set_field(self, "friction", check_friction(self.friction))

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """Minimum and maximum x, minimum and maximum y [m], enlarged by the rounding tolerance."""
        (x, y), (a, b) = (
            self.center[:2].tolist(),
            (np.abs(self.rotation[:2]) @ (0.5 * self.size) + BORDER_TOLERANCE).tolist(),
        )
        return x - a, x + a, y - b, y + b

    def height(self, x: Array, y: Array) -> Array:
        """Returns the height of the box's top at x and y [m]; NaN beside the box."""
        # where a vertical line through (x, y) is inside all three slabs
        cx, cy, cz = self.center.tolist()
        dx, dy = x - cx, y - cy
        top, bottom, inside = np.array(math.inf), np.array(-math.inf), np.array(True)
        for (ax, ay, vertical), size in zip(self.rotation.T.tolist(), self.size.tolist(), strict=True):
            offset, half = ax * dx + ay * dy if ax or ay else np.array(0.0), 0.5 * size
            if abs(vertical) < UPWARD:
                inside = inside & (np.abs(offset) <= half + BORDER_TOLERANCE)
            else:
                signed_half = math.copysign(half, vertical)
                bottom = np.maximum(bottom, (-offset - signed_half) / vertical)
                top = np.minimum(top, (-offset + signed_half) / vertical)
        return np.where(inside & (bottom <= top), cz + top, np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class HeightField(FrozenArrays):
    """Heights over a regular grid, joined by triangles; solid below, with nothing beyond its border.

    A cell is divided along the diagonal from its corner of minimum x and y to that of maximum x and y, as in MuJoCo.

    Attributes:
        origin: (2,) x and y of the first sample [m].
        spacing: (2,) distance between samples along x and y [m].
        heights: (nx, ny) heights [m].
        friction: friction coefficient; None: that of the plant.

    Raises:
        ArgumentError: a wrong shape, an entry that is not finite, a spacing that is not positive, or too few or too
            many samples.
    """

    origin: Array
    spacing: Array
    heights: Array
    friction: float | None = None

    def __post_init__(self) -> None:
        _set_field(self, "origin", _validate_vector("origin", self.origin, 2))
        _set_field(self, "spacing", _validate_vector("spacing", self.spacing, 2))
        heights = _validate_numbers("heights", self.heights)
        if heights.ndim != 2 or min(heights.shape) < 2 or heights.size > MAX_SAMPLES:
            raise ArgumentError(
                f"heights: expected an array (nx, ny) with 2 to {MAX_SAMPLES} entries, got shape {heights.shape}"
            )
        if not self.spacing.min() > 0.0:
            raise ArgumentError(f"spacing: expected positive lengths, got {self.spacing}")
        _set_field(self, "heights", heights)
        if self.friction is not None:
            _set_field(self, "friction", check_friction(self.friction))

    @classmethod
    def from_function(
        cls,
        function: Callable[[Array, Array], Any],
        x: tuple[float, float],
        y: tuple[float, float],
        *,
        spacing: float = 0.05,
        friction: float | None = None,
    ) -> HeightField:
        """Returns the height field of a function of x and y, which is evaluated on a regular grid.

        Args:
            function: function that returns heights [m] for arrays x and y [m], both (nx, ny).
            x: minimum and maximum x [m].
            y: minimum and maximum y [m].
            spacing: maximum distance between samples [m].
            friction: friction coefficient; None: that of the plant.

        Raises:
            ArgumentError: a minimum that is not less than its maximum, or heights that are not finite or of a wrong
                shape.
        """
        if not callable(function):
            raise ArgumentTypeError(f"function: expected a callable, got {type(function).__name__}")
        spacing = check_number("spacing", spacing)
        if not spacing > 0.0:
            raise ArgumentError(f"spacing: expected a positive length, got {spacing}")
        axes = []
        for name, interval in (("x", x), ("y", y)):
            low, high = _validate_vector(name, interval, 2)
            if not low < high:
                raise ArgumentError(f"{name}: expected (minimum, maximum), got {interval}")
            count = int(np.ceil((high - low) / spacing - 1e-9)) + 1
            if count * count > 100 * MAX_SAMPLES:
                raise ArgumentError(
                    f"spacing: {spacing} results in {count} samples along {name}; pass a value for which both "
                    "directions have an acceptable number"
                )
            axes.append(np.linspace(low, high, max(count, 2)))
        X, Y = np.meshgrid(*axes, indexing="ij")
        samples = _validate_numbers("heights", function(X, Y))
        if samples.shape not in ((), X.shape):
            raise ArgumentError(f"heights: expected shape {X.shape} or a number, got shape {samples.shape}")
        heights = np.broadcast_to(samples, X.shape)
        steps = np.array([a[1] - a[0] for a in axes])
        return cls(np.array([a[0] for a in axes]), steps, heights, friction)

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """Minimum and maximum x, minimum and maximum y [m]."""
        (x, y), (a, b) = self.origin.tolist(), (self.spacing * (np.array(self.heights.shape) - 1)).tolist()
        return x, x + a, y, y + b

    def height(self, x: Array, y: Array) -> Array:
        """Returns the height of the surface at x and y [m]; NaN beyond the border."""
        n, m = self.heights.shape
        u, v = (x - self.origin[0]) / self.spacing[0], (y - self.origin[1]) / self.spacing[1]
        edge = BORDER_TOLERANCE
        inside = (u >= -edge) & (u <= n - 1.0 + edge) & (v >= -edge) & (v <= m - 1.0 + edge)
        u, v = np.clip(u, 0.0, n - 1.0), np.clip(v, 0.0, m - 1.0)
        i = np.where(inside, np.minimum(u, n - 2.0), 0.0).astype(np.intp)
        j = np.where(inside, np.minimum(v, m - 2.0), 0.0).astype(np.intp)
        s, t, h = u - i, v - j, self.heights
        a, d = h[i, j], h[i + 1, j + 1]
        right = a + s * (h[i + 1, j] - a) + t * (d - h[i + 1, j])
        left = a + t * (h[i, j + 1] - a) + s * (d - h[i, j + 1])
        return np.where(inside, np.where(s >= t, right, left), np.nan)


Surface = Plane | Box | HeightField


@renamed_parameters(count="n_steps", run="tread", start="distance")
def stairs(
    n_steps: int,
    *,
    rise: float,
    tread: float,
    distance: float = 0.5,
    width: float = 4.0,
    heading: float = 0.0,
    friction: float | None = None,
) -> tuple[Box, ...]:
    """Returns steps that rise away from the origin, each a box that stands on z = 0.

    The ground before and after them needs other surfaces, such as `Plane.floor` and a `Box` as the top: a plant with a
    terrain has no other floor.

    Args:
        n_steps: number of steps.
        rise: height of each step [m].
        tread: depth of each step [m].
        distance: distance of the first edge from the origin [m].
        width: width of the steps, centered [m].
        heading: direction in which they rise [rad] from the x axis.
        friction: friction coefficient; None: that of the plant.

    Raises:
        ArgumentError: no step, or a length that is not positive.

    Warns:
        RuntimeWarning: several steps that are too high for any legged robot and seem to be in centimeters or
            millimeters, or a heading that seems to be in degrees.
    """
    n_steps, heading = check_integer("n_steps", n_steps), _check_heading(heading, stacklevel=5)
    lengths = {"rise": rise, "tread": tread, "distance": distance, "width": width}
    rise, tread, distance, width = (check_number(name, value) for name, value in lengths.items())
    if n_steps > 1 and MAX_PLAUSIBLE_RISE < rise <= 1e3 * MAX_PLAUSIBLE_RISE:
        unit = "millimeters" if rise > 1e2 * MAX_PLAUSIBLE_RISE else "centimeters or millimeters"
        warnings.warn(
            f"rise: steps of {rise:g} m are too high for legged robots and seem to be in {unit}; pass meters",
            RuntimeWarning,
            stacklevel=3,
        )
    c, s = np.cos(heading), np.sin(heading)
    R = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    return tuple(
        Box(
            R @ (distance + (i + 0.5) * tread, 0.0, 0.5 * (i + 1) * rise),
            np.array([tread, width, (i + 1) * rise]),
            R,
            friction=friction,
        )
        for i in range(n_steps)
    )


@dataclass(frozen=True, slots=True, eq=False)
class Terrain:
    """Surfaces around a robot.

    Attributes:
        surfaces: planes, boxes and height fields, in the given order.

    Raises:
        ArgumentTypeError: an element is not a surface.
    """

    surfaces: tuple[Surface, ...]
    _bounds: Array = field(init=False, repr=False)  # (4, n) of the surfaces

    def __post_init__(self) -> None:
        _set_field(self, "surfaces", check_sequence("surfaces", self.surfaces, "surfaces"))
        for surface in self.surfaces:
            if not isinstance(surface, Surface):
                raise ArgumentTypeError(
                    f"terrain: expected Plane, Box or HeightField, got {type(surface).__name__} {str(surface)[:40]!r}"
                )
        _set_field(self, "_bounds", np.array([s.bounds for s in self.surfaces]).reshape(-1, 4).T)

    @property
    def description(self) -> str:
        """Kinds of the first surfaces, the heights of level planes [m], and a checksum of all numbers to 1e-9."""
        names = [
            f"floor at {float(surface.height(np.zeros(1), np.zeros(1))[0]):g} m"
            if isinstance(surface, Plane) and surface.normal[2] == 1.0
            else type(surface).__name__
            for surface in self.surfaces[:3]
        ]
        # -1 for the coefficient of the plant; 0 is added since -0.0 has other bytes.
        checksum = zlib.crc32(b"".join((np.round(array, 9) + 0.0).tobytes() for array in self.to_arrays(-1.0)))
        more = [f"{len(self.surfaces) - len(names)} more"] if len(self.surfaces) > len(names) else []
        return f"{', '.join(names + more) or 'none'} (checksum {checksum:08x})"

    @classmethod
    def from_surfaces(cls, terrain: Terrain | Surface | Iterable[Surface]) -> Terrain:
        """Returns a terrain from a terrain, one surface or several surfaces."""
        if isinstance(terrain, Terrain):
            return terrain
        if isinstance(terrain, Surface):
            return cls((terrain,))
        return cls(check_sequence("terrain", terrain, "surfaces"))

    def height(self, x: ArrayLike, y: ArrayLike) -> Array:
        """Returns the height of the highest surface at x and y.

        Args:
            x: x coordinates, any shape [m].
            y: y coordinates, the same shape [m].

        Returns:
            Heights of that shape [m]; NaN where there is no surface.
        """
        X, Y = np.broadcast_arrays(check_array("x", x), check_array("y", y))
        out = np.full(X.shape, np.nan)
        if not out.size:
            return out
        min_x, max_x, min_y, max_y = self._bounds
        is_beside = (X.max() < min_x) | (X.min() > max_x) | (Y.max() < min_y) | (Y.min() > max_y)
        for i in np.flatnonzero(~is_beside).tolist():
            out = np.fmax(out, self.surfaces[i].height(X, Y))
        return out

    def to_arrays(self, friction: float) -> TerrainArrays:
        """Returns the surfaces as arrays for compiled code.

        Args:
            friction: friction coefficient of surfaces without a coefficient.
        """
        planes, boxes, fields = [], [], []
        heights: list[Array] = [np.zeros(0)]
        for surface in self.surfaces:
            mu = friction if surface.friction is None else surface.friction
            if isinstance(surface, Plane):
                planes.append([*surface.normal, surface.normal @ surface.point, mu])
            elif isinstance(surface, Box):
                boxes.append([*surface.center, *surface.rotation.ravel(), *(0.5 * surface.size), mu])
            else:
                first_height = sum(h.size for h in heights)
                fields.append(
                    [*surface.origin, *surface.spacing, *surface.heights.shape, first_height, mu, surface.heights.max()]
                )
                heights.append(surface.heights.ravel())
        return TerrainArrays(
            np.array(planes, dtype=np.float64).reshape(-1, 5),
            np.array(boxes, dtype=np.float64).reshape(-1, 16),
            np.array(fields, dtype=np.float64).reshape(-1, 9),
            np.concatenate(heights),
        )


def warn_of_terrain_size(argument: str, terrain: Terrain, position: Array, size: float, *, stacklevel: int) -> None:
    """Warns of the first box or height field that seems to be in millimeters, or of boxes that seem in centimeters.

    A box seems to be in millimeters if its top is more than `MAX_LENGTH_RATIO` robot sizes above the ground at
    `position`, and a height field if its heights differ by more.  For coarse surfaces the bound is
    `MAX_COARSE_HEIGHT_RATIO` sizes: boxes whose edges are all longer than this, and height fields whose samples are
    farther apart than this or whose mean slope is larger than `MAX_MEAN_SLOPE`.  Several boxes seem to be in
    centimeters if all of them are far away and large.

    Args:
        argument: name of the argument, for the message.
        terrain: the terrain.
        position: (2,) horizontal position of the robot [m].
        size: height of the base of the robot [m].
        stacklevel: as of `warnings.warn`.
    """
    ground = float(np.nan_to_num(terrain.height(*position)))
    for index, surface in enumerate(terrain.surfaces):
        if isinstance(surface, Plane):
            continue
        if isinstance(surface, Box):
            top = surface.center[2] + 0.5 * float(np.abs(surface.rotation[2]) @ surface.size)
            height, is_coarse = top - ground, surface.size.min() > MAX_COARSE_HEIGHT_RATIO * size
        else:
            h = surface.heights
            height = float(np.ptp(h))
            slopes = [np.abs(np.diff(h, axis=a)).mean() / surface.spacing[a] for a in (0, 1)]
            is_coarse = surface.spacing.min() > MAX_COARSE_HEIGHT_RATIO * size or max(slopes) > MAX_MEAN_SLOPE
        max_ratio = MAX_COARSE_HEIGHT_RATIO if is_coarse else MAX_LENGTH_RATIO
        if warn_of_length(f"{argument}: surface {index}", height, size, max_ratio=max_ratio, stacklevel=stacklevel):
            return
    boxes = [surface for surface in terrain.surfaces if isinstance(surface, Box)]
    if len(boxes) < 2 or any(isinstance(surface, HeightField) for surface in terrain.surfaces):
        return
    min_x, max_x, min_y, max_y = np.array([box.bounds for box in boxes]).T
    (x, y), no_distance = position, np.zeros(len(boxes))
    distance = float(
        np.hypot(
            np.maximum.reduce([min_x - x, x - max_x, no_distance]),
            np.maximum.reduce([min_y - y, y - max_y, no_distance]),
        ).min()
    )
    edge = min(float(box.size.min()) for box in boxes)
    if distance > MIN_FAR_RATIO * size and edge > MIN_FAR_EDGE_RATIO * size:
        warnings.warn(
            f"{argument}: the nearest of {len(boxes)} boxes is {distance:.4g} m away, {distance / size:.0f} times the "
            f"size of the robot, {size:.3g} m, and the shortest edge is {edge:.3g} m: they seem to be in centimeters; "
            "pass meters",
            RuntimeWarning,
            stacklevel=stacklevel - 1,
        )


def terrain_below(terrain: Terrain, height: float) -> Terrain:
    """Returns the terrain without the boxes that are above a height [m] as a whole, such as ceilings."""
    return Terrain(
        tuple(
            surface
            for surface in terrain.surfaces
            if not isinstance(surface, Box)
            or surface.center[2] - 0.5 * float(np.abs(surface.rotation[2]) @ surface.size) <= height
        )
    )


def _check_heading(heading: float, *, stacklevel: int = 4) -> float:
    """Returns a direction in the plane [rad] as a float, or raises; warns if it seems to be in degrees."""
    heading = check_number("heading", heading)
    if not np.isfinite(heading):
        raise ArgumentError(f"heading: expected a finite angle [rad], got {heading}")
    warn_of_direction("heading", heading, stacklevel=stacklevel)
    return heading


def _set_field(owner: object, name: str, value: object) -> None:
    """Sets a field of a frozen dataclass."""
    object.__setattr__(owner, name, value)


def _validate_numbers(name: str, value: object) -> Array:
    """Returns finite numbers as a read-only array, or raises."""
    try:
        array = frozen(value)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{name}: expected numbers, got {str(value)[:60]!r}") from None
    if not np.isfinite(array).all():
        raise ArgumentError(f"{name}: expected finite numbers, got {str(array)[:60]}")
    return array


def _validate_vector(name: str, value: object, *shape: int) -> Array:
    """Returns finite numbers of a shape as a read-only array, or raises."""
    array = _validate_numbers(name, value)
    if array.shape != shape:
        raise ArgumentError(f"{name}: expected shape {shape}, got {array.shape}")
    return array


def check_friction(friction: float) -> float:
    """Returns a friction coefficient as a float, or raises."""
    value = check_number("friction", friction)
    if not 0.0 <= value <= MAX_FRICTION:
        raise ArgumentError(f"friction: expected a coefficient between 0 and {MAX_FRICTION:g}, got {value}")
    return value
