"""Contact points and surfaces of a robot, and the forces that they can exert.

- `Contact`: data of one contact point or surface.
- Friction cones: the margin in the second-order cone, and pyramids for solvers with linear constraints.
- `compute_wrench_cone`: the wrenches that forces in friction cones at the corners of a polygon can exert.
- `find_sole`: the flat underside of a foot, from the shapes in the robot's file.
- `flat_foot_stance`: a configuration with flat feet on level ground.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from math import cos, pi
from typing import Literal, NamedTuple, get_args

import numpy as np
import pinocchio as pin

from ..deprecation import renamed_attributes
from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..kinematics.inverse import inverse_kinematics
from ..robot.arguments import check_array, check_integer, check_number, check_sequence, check_type, check_wrench
from ..robot.configuration import set_joint_value
from ..robot.geometry_models import read_vertices
from ..robot.model import body_joint
from ..robot.robot import Robot
from ..urdf.tree import (
    Array,
    BoxShape,
    CylinderShape,
    FrozenArrays,
    MeshShape,
    Pose,
    Shape,
    SphereShape,
    first_largest,
    frozen,
)
from .solvers.problem import MAX_FRICTION, NOMINAL_FRICTION
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


#: Points within this fraction of the foot's extent above its lowest point belong to the sole.
FLATNESS_TOLERANCE = 2e-3
#: Smallest width of a sole, as a fraction of the foot's extent.
MIN_WIDTH_FRACTION = 0.1
#: Number of positions along a sole at which its rectangle may begin and end, besides the corners of its outline.
N_EDGE_SAMPLES = 65
#: Number of points around the rim of a cylinder.
N_RIM_POINTS = 16


class Sole(NamedTuple):
    """The rectangle of a sole, in the frame of its foot."""

    offset: Array  # (3,) its center [m]
    rotation: Array  # (3, 3) its axes: forward, to the left, and up
    half_size: Array  # (2,) half of its sides [m]
    outline: Array  # (m, 2) corners of the whole sole about the center, in these axes, counter-clockwise [m]


def simplify_outline(outline: Array, corners: int) -> Array:
    """Returns a convex polygon without the corners that reduce its area least, with at most `corners` corners.

    Of corners with the same area the first one is removed.
    """
    remaining = np.array(outline)
    while len(remaining) > corners:
        before, after = np.roll(remaining, 1, axis=0) - remaining, np.roll(remaining, -1, axis=0) - remaining
        removed_area = np.abs(before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0])
        remaining = np.delete(remaining, first_largest(-removed_area, float(removed_area.max())), axis=0)
    return remaining


def find_sole(robot: Robot, foot: str) -> Sole:
    """Finds the sole of a foot, see `Contact.from_sole`.

    Raises:
        UnknownNameError: no such foot.
        ArgumentError: the lowest points of its shapes span no area.
    """
    check_type("robot", robot, Robot, "a Robot from quaddyn.load")
    if foot not in robot.legs:
        raise UnknownNameError("foot", foot, robot.feet)
    axes = _upright_axes(robot, foot)
    points = _underside_points(robot, foot, axes[:, 2]) @ axes
    extent = float(np.ptp(points, axis=0).max()) if len(points) else 0.0
    lowest = points[points[:, 2] <= points[:, 2].min() + FLATNESS_TOLERANCE * extent] if len(points) else points
    outline = support_polygon(lowest[:, :2])
    low, high = _largest_rectangle(outline) if len(outline) > 2 else (np.zeros(2), np.zeros(2))
    if not (high - low).min() > MIN_WIDTH_FRACTION * extent:
        width, length = 1e3 * np.sort(high - low)
        raise ArgumentError(
            f"foot: {foot!r} of {robot.name!r} has no flat sole in its file: the lowest points of the "
            f"shapes of {robot.legs[foot].foot.frame!r} span {length:.1f} x {width:.1f} mm; "
            "make a Contact of kind 'surface' with offset and half_size"
        )
    center = np.array([*(low + high) / 2.0, lowest[:, 2].min()])
    return Sole(axes @ center, axes, (high - low) / 2.0, outline - center[:2])


def _upright_axes(robot: Robot, foot: str) -> Array:
    """Returns the axes (3, 3) of a sole, columns forward, left, up along axes of the foot's frame, joints at zero."""
    data = robot.model.createData()
    robot.algorithms.framesForwardKinematics(robot.model, data, np.array(robot.neutral))
    R = data.oMf[robot.frame_id(foot)].rotation
    axes = np.vstack((np.eye(3), -np.eye(3)))
    up = axes[first_largest(axes @ R[2])]
    level = axes[np.abs(axes @ up) < 0.5]
    forward = level[first_largest(level @ R[0])]
    return np.column_stack((forward, np.cross(up, forward), up))


def _underside_points(robot: Robot, foot: str, up: Array) -> Array:
    """Returns points (n, 3) in the foot's frame [m] whose convex hull contains the underside of the foot's shapes."""
    model = robot.model
    frame = model.frames[robot.frame_id(foot)]
    body = next(b for b in robot.bodies if body_joint(model, b) == frame.parentJoint)
    body_placement = model.frames[model.getFrameId(body.name, pin.FrameType.BODY)].placement
    to_foot = frame.placement.actInv(body_placement)
    out = [np.zeros((0, 3))]
    for kind in ("collisions", "visuals"):
        for link, pose in body.links:
            for geometry in getattr(link, kind):
                placement: Pose = pose @ geometry.placement
                R = to_foot.rotation @ placement.rotation
                points = _shape_underside(geometry.shape, R.T @ up)
                out.append(to_foot.translation + to_foot.rotation @ placement.translation + points @ R.T)
        if len(out) > 1:
            break
    return np.vstack(out)


def _shape_underside(shape: Shape, up: Array) -> Array:
    """Returns points (n, 3) in a shape's axes [m] whose convex hull contains its underside; none for a bad mesh."""
    if isinstance(shape, SphereShape):
        return -shape.radius * up[None]
    if isinstance(shape, BoxShape):
        return np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)]) * shape.size
    if isinstance(shape, MeshShape):
        points = None if shape.path is None else read_vertices(shape.path)
        return np.zeros((0, 3)) if points is None else points * np.array(shape.scale)
    ends = np.array([[0.0, 0.0, -0.5 * shape.length], [0.0, 0.0, 0.5 * shape.length]])
    if isinstance(shape, CylinderShape):
        angles = 2.0 * np.pi * np.arange(N_RIM_POINTS) / N_RIM_POINTS
        rim = shape.radius * np.column_stack((np.cos(angles), np.sin(angles), np.zeros(N_RIM_POINTS)))
        return np.vstack([end + rim for end in ends])
    return ends - shape.radius * up


def _largest_rectangle(outline: Array) -> tuple[Array, Array]:
    """Returns the lower and upper corner of the largest axis-parallel rectangle in a convex polygon (h, 2)."""
    x = np.unique(
        np.concatenate((outline[:, 0], np.linspace(outline[:, 0].min(), outline[:, 0].max(), N_EDGE_SAMPLES)))
    )
    edges = np.roll(outline, -1, axis=0) - outline
    low, high = np.full(len(x), -np.inf), np.full(len(x), np.inf)
    for (px, py), (dx, dy) in zip(outline, edges, strict=True):
        if dx != 0.0:
            edge = py + dy / dx * (x - px)
            low, high = (np.maximum(low, edge), high) if dx > 0.0 else (low, np.minimum(high, edge))
    bottom, top = np.maximum.outer(low, low), np.minimum.outer(high, high)
    area = np.maximum(top - bottom, 0.0) * np.subtract.outer(x, x)
    j, i = np.unravel_index(first_largest(area.ravel()), area.shape)
    return np.array([x[i], bottom[i, j]]), np.array([x[j], top[i, j]])


ContactKind = Literal["point", "surface"]

#: Default number of faces of a friction pyramid, and the smallest one.
DEFAULT_FACES, MIN_FACES = 4, 3
#: Smallest half side of a surface [m].
MIN_HALF_SIZE = 1e-6


@renamed_attributes(of_foot="from_foot", of_sole="from_sole")
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Contact(FrozenArrays):
    """A point or a flat surface of a robot that may be in contact with the environment.

    A point is the lowest point, against the normal, of a sphere around `offset`; its force has three components.  A
    surface is the rectangle ``|x| <= half_size[0], |y| <= half_size[1]`` around `offset`, or a convex `polygon`, in the
    plane of the x and y axes of the frame or of `rotation`; it transmits a wrench of six components, and the
    environment is on its -z side.

    Args:
        name: name of the contact in a `ContactSet`.
        frame: a foot, link or joint of the robot.
        kind: "point" or "surface".
        offset: (3,) center of the sphere or of the rectangle, or the polygon's origin, in the frame [m]; zero by
            default.
        radius: radius of the sphere [m]; 0 for a bare point, and for surfaces.
        half_size: (2,) of the rectangle [m]; for a polygon half of its extents, computed; None for points.
        polygon: (m, 2) up to eight corners around `offset`, in any order [m]; None for rectangles and points.
        rotation: (3, 3) the surface's axes in the frame; None for the frame's own axes, and for points.
        normal: (3,) normal out of the ground, world axes, normalized; +z by default.  The cone of a surface rotates
            with the frame.
        friction: Coulomb's coefficient mu, dimensionless, 0 to 10.
        unilateral: whether it can only push; False for a foot that is clamped or magnetic.
        force_only: whether it exerts a force without a condition on its motion, such as a hand that pushes.
        stiffness: of the ground for compliant laws [N/m]; None for rigid ground.
        damping: of the ground for compliant laws [N s/m].

    Raises:
        ArgumentTypeError: a value of the wrong type; the message names it.
        ArgumentError: a value out of range; the message names it.
    """

    name: str
    frame: str
    kind: ContactKind = "point"
    offset: Array = field(default_factory=lambda: np.zeros(3))
    radius: float = 0.0
    half_size: Array | None = None
    polygon: Array | None = None
    rotation: Array | None = None
    normal: Array = field(default_factory=lambda: np.array((0.0, 0.0, 1.0)))
    friction: float = NOMINAL_FRICTION
    unilateral: bool = True
    force_only: bool = False
    stiffness: float | None = None
    damping: float = 0.0

    def __post_init__(self) -> None:
        for name in ("name", "frame"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise ArgumentTypeError(f"{name}: expected a name (str), got {getattr(self, name)!r}")
        if self.kind not in get_args(ContactKind):
            raise ArgumentError(f"kind: expected one of {get_args(ContactKind)}, got {self.kind!r}")
        if self.polygon is not None:
            if self.kind == "point":
                raise ArgumentError(f"polygon: expected None for the point {self.name!r}, got {self.polygon!r}")
            object.__setattr__(self, "polygon", validate_polygon(self.polygon))
            object.__setattr__(self, "half_size", 0.5 * np.ptp(self.polygon, axis=0))
        if (self.half_size is None) != (self.kind == "point"):
            raise ArgumentError(
                f"half_size: expected two half lengths for a surface, or None for a point, got {self.half_size} for "
                f"{self.name!r}"
            )
        for name, size in (("offset", 3), ("normal", 3), ("half_size", 2)):
            value = getattr(self, name)
            if value is None:
                continue
            try:
                vector = frozen(value)
            except (TypeError, ValueError):
                raise ArgumentTypeError(f"{name}: expected {size} numbers, got {value!r}") from None
            if vector.shape != (size,) or not np.isfinite(vector).all():
                raise ArgumentError(f"{name}: expected {size} finite numbers, got {value!r}")
            object.__setattr__(self, name, vector)
        if self.rotation is not None:
            object.__setattr__(self, "rotation", self._validate_rotation())
        length = float(np.linalg.norm(self.normal))
        if not 1e-100 < length < 1e100:
            raise ArgumentError(f"normal: expected a vector of nonzero length, got {self.normal}")
        object.__setattr__(self, "normal", frozen(self.normal / length))
        if self.half_size is not None and not (self.half_size >= MIN_HALF_SIZE).all():
            raise ArgumentError(f"half_size: expected lengths of at least {MIN_HALF_SIZE:g} m, got {self.half_size}")
        bounds = {"radius": np.inf, "friction": MAX_FRICTION, "damping": np.inf, "stiffness": np.inf}
        for name, high in bounds.items():
            value = getattr(self, name)
            if name == "stiffness" and value is None:
                continue
            value = check_number(name, value)
            if not (0.0 <= value <= high and np.isfinite(value)) or (name == "stiffness" and value == 0.0):
                limit = "" if high == np.inf else f" and at most {high:g}"
                sign = "positive" if name == "stiffness" else "not negative"
                raise ArgumentError(f"{name}: expected a finite number, {sign}{limit}, got {value}")
            object.__setattr__(self, name, value)
        if self.kind == "surface" and self.radius:
            raise ArgumentError(f"radius: expected 0 for a surface, got {self.radius}")

    def _validate_rotation(self) -> Array:
        """Returns `rotation` as a read-only matrix; raises `ArgumentError` if it is not a rotation."""
        if self.kind == "point":
            raise ArgumentError(f"rotation: expected None for the point {self.name!r}, got {self.rotation!r}")
        try:
            R = frozen(self.rotation)
        except (TypeError, ValueError):
            raise ArgumentTypeError(f"rotation: expected a matrix (3, 3), got {self.rotation!r}") from None
        if R.shape != (3, 3) or not (np.abs(R @ R.T - np.eye(3)) < 1e-6).all() or np.linalg.det(R) < 0.0:
            raise ArgumentError(f"rotation: expected a rotation matrix (3, 3), got {self.rotation!r}")
        return R

    @classmethod
    def from_foot(cls, robot: Robot, foot: str, **options: object) -> Contact:
        """Returns the point contact of a foot's sphere, named after the foot.

        Args:
            robot: the robot.
            foot: name of one of its feet.
            options: further arguments of the constructor.

        Raises:
            UnknownNameError: no such foot.
        """
        if foot not in robot.legs:
            raise UnknownNameError("foot", foot, robot.feet)
        defaults = {"name": foot, "frame": foot, "radius": robot.legs[foot].foot.radius}
        return cls(**(defaults | options))  # type: ignore[arg-type]

    @classmethod
    def from_sole(cls, robot: Robot, foot: str, *, corners: int | None = None, **options: object) -> Contact:
        """Returns the surface contact of a foot's flat underside, named after the foot.

        The surface is the largest rectangle, along axes of the foot's frame, within the lowest points of the shapes on
        the foot's body (collision shapes, or else visual ones): boxes, cylinders, capsules, spheres at the corners, STL
        and OBJ meshes.  The frame axes nearest to up and forward with all joints at zero (``robot.neutral``) define up
        and forward.  For soles at an angle to the frame, or of other shapes, pass `offset`, `rotation` and `half_size`
        to `Contact` itself.

        Args:
            robot: the robot.
            foot: name of one of its feet.
            corners: maximum number of corners, 3 or more, of a polygon, which covers more of the sole than the
                rectangle; the corners that contribute least to its area are left out.  A hexagon has up to a hundred
                constraint rows, a rectangle 17.  None for the rectangle.
            options: further arguments of the constructor.

        Raises:
            UnknownNameError: no such foot.
            ArgumentError: the lowest points span no area.
        """
        max_corners = None if corners is None else check_integer("corners", corners, least=3)
        sole = find_sole(robot, foot)
        defaults = {"name": foot, "frame": foot, "kind": "surface", "offset": sole.offset, "rotation": sole.rotation}
        shape = (
            {"half_size": sole.half_size}
            if max_corners is None
            else {"polygon": simplify_outline(sole.outline, max_corners)}
        )
        return cls(**(defaults | shape | options))  # type: ignore[arg-type]

    @property
    def rows(self) -> int:
        """Number of components of its force: 3 for a point, 6 for a surface."""
        return 3 if self.kind == "point" else 6

    @property
    def axes(self) -> Array:
        """(3, 3) contact frame: rows t1, t2 (tangents) and n in world axes; the identity on level ground."""
        return contact_axes(self.normal)

    def axes_at(self, rotation: Array) -> Array:
        """Returns the contact axes (3, 3), rows t1, t2, n in world axes, for a rotation (3, 3) of the frame.

        Those of a point do not depend on it.
        """
        if self.half_size is None:
            return self.axes
        return np.asarray(rotation.T if self.rotation is None else (rotation @ self.rotation).T)

    @property
    def corners(self) -> Array:
        """(m, 3) points that transmit the force, in the frame [m]: the sphere's center, or the surface's corners."""
        if self.half_size is None:
            return self.offset[None]
        x, y = self.half_size
        corners = np.array([(x, y, 0.0), (x, -y, 0.0), (-x, -y, 0.0), (-x, y, 0.0)])
        if self.polygon is not None:
            corners = np.column_stack((self.polygon, np.zeros(len(self.polygon))))
        return np.asarray(self.offset + corners @ self.axes_at(np.eye(3)))


def contact_axes(normal: Array) -> Array:
    """Returns right-handed rows t1, t2, n (3, 3) for a unit normal; the identity for +z.

    t1 is world x without its component along the normal, or world y where x is nearly parallel to the normal.

    Args:
        normal: (3,) unit normal, world axes.
    """
    x, y, z = map(float, normal)
    return _compute_axes(x, y, z).copy()


@functools.lru_cache(maxsize=64)  # feet on one plane have the same normal
def _compute_axes(x: float, y: float, z: float) -> Array:
    """Implements `contact_axes` for a normal (x, y, z)."""
    if abs(x) < 0.9:
        a, b, c = 1.0 - x * x, -x * y, -x * z
    else:
        a, b, c = -x * y, 1.0 - y * y, -y * z
    length = math.sqrt(a * a + b * b + c * c)
    a, b, c = a / length, b / length, c / length
    return frozen([[a, b, c], [y * c - z * b, z * a - x * c, x * b - y * a], [x, y, z]])


def check_surfaces(argument: str, contacts: object) -> tuple[Contact, ...]:
    """Returns the contacts of kind "surface" in an argument of the given name.

    Raises:
        ArgumentTypeError: an element is not a contact.
        ArgumentError: an element is a point, or two have the same name.
    """
    surfaces = check_sequence(argument, contacts, "contacts of kind 'surface'")
    for contact in surfaces:
        check_type(argument, contact, Contact, "contacts of kind 'surface'")
        if contact.kind != "surface":
            raise ArgumentError(
                f"{argument}: expected contacts of kind 'surface', got {contact.name!r}, which is a point contact"
            )
    if len({contact.name for contact in surfaces}) < len(surfaces):
        raise ArgumentError(f"{argument}: expected every name once, got {[contact.name for contact in surfaces]}")
    return tuple(surfaces)


def cone_margin(contact: Contact, force: Array) -> float:
    """Computes the margin of a force in the second-order cone, ``mu f_n - |f_t|`` [N]; negative outside.

    For a surface contact only the force of its wrench is evaluated; `friction_pyramid` also bounds the center of
    pressure.

    Args:
        contact: contact with the normal and the friction coefficient.
        force: (3,) or (6,), on the robot, world axes [N, N m].

    Raises:
        ArgumentError: a force of another shape or not finite.
    """
    force = check_wrench("force", force, "world axes")
    t1, t2, n = contact.axes @ force[:3]
    return float(contact.friction * n - np.hypot(t1, t2))


def friction_pyramid(
    contact: Contact, *, faces: int = DEFAULT_FACES, inner: bool = True, axes: Array | None = None
) -> Array:
    """Returns rows A with ``A f <= 0`` for forces (or wrenches) in a polyhedral friction cone, world axes.

    The inner pyramid lies inside the cone with its edges on it, so that each of its forces is feasible, but less
    friction is used: face centers reach ``mu cos(pi / n)``, 71 % with 4 faces, 92 % with 8, 98 % with 16
    (`pyramid_friction_ratio`).  The outer one is tangent to the cone at its face centers and reaches ``mu / cos(pi /
    n)`` at its edges.  The first face is centered on t1, the next ones follow towards t2.

    A surface contact, about its center, has the exact cone of the wrenches that pyramids of four faces at its corners
    can exert: pressure inside the rectangle and the yaw torque that friction allows (Caron, Pham and Nakamura 2015,
    "Stability of surface contacts for humanoid robots", prop. 1).  Its rows: -f_n, and then twice two for friction
    along the axes, two for the pressure and four for the moment about the normal; moments are divided by the half
    sizes, so that all rows are forces.  A polygon has as many rows as its cone has faces, in the same order: see
    `compute_wrench_cone`.

    Args:
        contact: contact with normal, friction and size.
        faces: n, 3 or more; must be 4 for a surface.
        inner: True for the pyramid inside the cone, False for the one outside.
        axes: (3, 3) rows t1, t2, n in world axes; None for ``contact.axes``.  For a surface these must be its own axes,
            ``contact.axes_at(s.placement(contact.frame).rotation)``.

    Returns:
        (n + 1, 3) for a unilateral point, whose last row is ``-f_n <= 0``; (17, 6) for a rectangle, more for a polygon;
        no rows for a bilateral contact.

    Raises:
        ArgumentError: too few faces, or other than 4 for a surface.
    """
    mu = contact.friction * pyramid_friction_ratio(faces, inner=inner)
    if contact.kind == "surface" and faces != 4:
        raise ArgumentError(f"faces: expected 4 for a surface contact, got {faces}")
    if not contact.unilateral:
        return np.zeros((0, contact.rows))
    axes = contact.axes if axes is None else axes
    if contact.half_size is None:
        return np.asarray(_compute_local_pyramid(mu, faces) @ axes)
    rotation = np.kron(np.eye(2), axes)
    if contact.polygon is not None:
        cone_rows = compute_wrench_cone(contact.polygon)
        has_friction = (cone_rows[:, [0, 1, 5]] != 0.0).any(axis=1)
        scaled_rows = np.where(has_friction[:, None], cone_rows * (1.0, 1.0, mu, mu, mu, 1.0), cone_rows)
        return np.asarray(np.vstack(((0.0, 0.0, -1.0, 0.0, 0.0, 0.0), scaled_rows)) @ rotation)
    X, Y = contact.half_size
    rows = [(0.0, 0.0, -1.0, 0.0, 0.0, 0.0)]
    for sign in (1.0, -1.0):
        rows += [
            (sign, 0.0, -mu, 0.0, 0.0, 0.0),
            (0.0, sign, -mu, 0.0, 0.0, 0.0),
            (0.0, 0.0, -1.0, sign / Y, 0.0, 0.0),
            (0.0, 0.0, -1.0, 0.0, sign / X, 0.0),
        ]
        # sign tau_z <= mu (X + Y) f_z - |Y f_x + sign mu tau_x| - |X f_y + sign mu tau_y|
        for a in (1.0, -1.0):
            for b in (1.0, -1.0):
                row = (a * Y, b * X, -mu * (X + Y), a * sign * mu, b * sign * mu, sign)
                rows.append(tuple(x / (X + Y) for x in row))
    return np.asarray(np.array(rows) @ rotation)


@functools.lru_cache(maxsize=64)  # the feet of a robot have the same friction
def _compute_local_pyramid(mu: float, faces: int) -> Array:
    """Returns the rows (faces + 1, 3) of the pyramid of a point in contact axes, for a ratio of forces at its faces."""
    angles = 2.0 * np.pi * np.arange(faces) / faces
    rows = np.column_stack((np.cos(angles), np.sin(angles), np.full(faces, -mu)))
    return frozen(np.vstack((rows, (0.0, 0.0, -1.0))))


def pyramid_friction_ratio(faces: int = DEFAULT_FACES, *, inner: bool = True) -> float:
    """Returns the fraction of mu that the face centers of a pyramid reach: ``cos(pi / n)`` inside the cone, 1 outside.

    Args:
        faces: number of faces, 3 or more.
        inner: whether the pyramid is inside the cone.

    Raises:
        ArgumentError: fewer than three faces.
    """
    count = check_integer("faces", faces, least=MIN_FACES)
    return cos(pi / count) if inner else 1.0


#: Maximum number of iterations, and largest distance of the center of mass from the centroid of the soles [m].
MAX_ITERATIONS, CENTERING_TOLERANCE = 10, 1e-6
#: Heights that are tried in this order, and the additional height that the legs must be able to reach, as fractions of
#: the height with all joints at zero.
HEIGHT_FRACTIONS, REACH_RESERVE_FRACTION = np.linspace(0.92, 0.5, 22), 0.05
#: Knee angle at the start of the search [rad].
INITIAL_KNEE_BEND = 0.6


def flat_foot_stance(robot: Robot, soles: Iterable[Contact], *, height: float | None = None) -> Array:
    """Computes a configuration with the soles flat on z = 0 and the center of mass above their centroid.

    Legs that cannot move level soles sideways, for want of an ankle that rolls, have it above a line through it.

    The base is level as in ``robot.q_home``, and all joints except those of the legs have their values of ``q_home``;
    the relative positions and orientations of the soles are those with all joints at zero.

    Args:
        robot: a robot with a free root.
        soles: surface contacts, such as `Contact.from_sole` of each foot.
        height: distance from the ground to the base frame's origin [m]; None for 92 % of the height with all joints at
            zero, or the largest lower height at which the legs are not stretched.

    Returns:
        (nq,) q.

    Raises:
        ArgumentError: no soles, contacts that are not surfaces, a root that is not free, or legs that cannot reach such
            a stance.
    """
    feet = check_surfaces("soles", soles)
    if not feet:
        raise ArgumentError("soles: expected at least one sole, got none")
    if robot.root != "free":
        raise ArgumentError(f"robot: expected a free root, got {robot.root!r} of {robot.name!r}")
    start, rotations, positions, full_height = _initial_guess(robot, feet)
    heights = (HEIGHT_FRACTIONS * full_height).tolist() if height is None else [check_number("height", height)]
    if not np.isfinite(heights).all():
        raise ArgumentError(f"height: expected a finite number [m], got {height}")
    # Legs without a joint that rolls the ankle move level soles forward only.
    for centered in (np.ones(2), *np.eye(2)):
        for base_height in heights:
            height_reserve = REACH_RESERVE_FRACTION * full_height if height is None else 0.0
            q = _solve_stance(robot, feet, start, rotations, positions, base_height, centered)
            if q is not None and (
                height_reserve == 0.0
                or _solve_stance(robot, feet, q, rotations, positions, base_height + height_reserve, centered)
                is not None
            ):
                return q
    raise ArgumentError(
        f"soles: {robot.name!r} has no stance with flat feet within its joint limits on {[c.name for c in feet]} at "
        f"{max(heights):.3g} m" + (f" or lower, down to {min(heights):.3g} m" if height is None else "")
    )


def _initial_guess(robot: Robot, feet: Sequence[Contact]) -> tuple[Array, list[Array], Array, float]:
    """Returns the start of the search: q, frame rotations, sole positions (n, 2) and height of the base at zero [m]."""
    model, neutral, q = robot.model, np.array(robot.neutral), np.array(robot.q_home)
    data = model.createData()
    robot.algorithms.framesForwardKinematics(model, data, neutral)
    rotations, positions = [], np.empty((len(feet), 3))
    for position, c in zip(positions, feet, strict=True):
        frame = data.oMf[robot.frame_id(c.frame)]
        cosine, sine = c.axes_at(frame.rotation)[0, :2]
        cosine, sine = (cosine, sine) / np.hypot(cosine, sine) if np.hypot(cosine, sine) > 0.5 else (1.0, 0.0)
        rotations.append(np.array([[cosine, -sine, 0.0], [sine, cosine, 0.0], [0.0, 0.0, 1.0]]) @ c.axes_at(np.eye(3)))
        position[:] = frame.act(np.array(c.offset))
    for leg in robot.legs.values():
        for joint in leg.joints:
            index, record = robot.configuration_index(joint), robot.tree.joints_by_name[joint]
            low, high = record.limits.lower, record.limits.upper
            value = float(np.clip(0.0, low, high))
            if joint == leg.knee:
                direction = 1.0 if high - value >= value - low else -1.0
                value = float(np.clip(value + direction * INITIAL_KNEE_BEND, low, high))
            set_joint_value(q, index, record, value)
    return q, rotations, positions[:, :2], float(-positions[:, 2].mean())


def _solve_stance(
    robot: Robot,
    feet: Sequence[Contact],
    start: Array,
    rotations: Sequence[Array],
    positions: Array,
    height: float,
    centered: Array,
) -> Array | None:
    """Returns the stance at a height of the base [m], None where the legs do not reach.

    `centered` (2,) is 1 for the axes x and y of the world along which the soles move below the center of mass.
    """
    data, q, positions = robot.model.createData(), start.copy(), positions.copy()
    q[2] = height
    for _ in range(MAX_ITERATIONS):
        com_offset = np.array(robot.algorithms.centerOfMass(robot.model, data, q))[:2] - positions.mean(axis=0)
        com_offset *= centered
        positions += com_offset
        targets = {}
        for c, R, position in zip(feet, rotations, positions, strict=True):
            targets[c.frame] = pin.SE3(R, np.array([*position, 0.0]) - R @ c.offset).homogeneous
        solution = inverse_kinematics(robot, targets, q0=q, move_root=False, restarts=0)
        if not solution.converged:
            return None
        q = solution.q
        if float(np.abs(com_offset).max()) < CENTERING_TOLERANCE:
            break
    return q
