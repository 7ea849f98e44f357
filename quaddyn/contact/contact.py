"""`Contact`: data of one contact point or surface of a robot."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from ..deprecation import renamed_attributes
from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import check_integer, check_number, check_sequence
from ..robot.robot import Robot
from ..urdf.tree import Array, FrozenArrays, frozen
from .soles import find_sole, simplify_outline
from .solvers.problem import MAX_FRICTION, NOMINAL_FRICTION
from .wrench_cones import validate_polygon

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
        if not isinstance(contact, Contact):
            raise ArgumentTypeError(f"{argument}: expected contacts of kind 'surface', got {type(contact).__name__}")
        if contact.kind != "surface":
            raise ArgumentError(
                f"{argument}: expected contacts of kind 'surface', got {contact.name!r}, which is a point contact"
            )
    if len({contact.name for contact in surfaces}) < len(surfaces):
        raise ArgumentError(f"{argument}: expected every name once, got {[contact.name for contact in surfaces]}")
    return tuple(surfaces)
