"""`Contact`: one place where a robot may touch the world, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import number
from ..robot.robot import Robot
from ..urdf.tree import Array, FrozenArrays, frozen
from .solvers.problem import MAX_FRICTION

Kind = Literal["point", "surface"]

#: Faces of a friction pyramid by default, and the fewest that make one.
FACES, FEWEST_FACES = 4, 3


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Contact(FrozenArrays):
    """A point or a rectangular surface of a robot that may touch the world.

    A point is the lowest point, against the normal, of a sphere around `offset`; its force has three components.  A
    surface is the rectangle ``|x| <= half_size[0], |y| <= half_size[1]`` around `offset` in the plane of the frame's x
    and y axes; it takes a wrench of six.

    Attributes:
        name: what it is called in a `ContactSet`.
        frame: a foot, link or joint of the robot.
        kind: "point" or "surface".
        offset: (3,) centre of the sphere or of the rectangle, in the frame [m].
        radius: of the sphere [m]; 0 for a bare point, and for surfaces.
        half_size: (2,) of the rectangle [m]; None for points.
        normal: (3,) out of the ground, world axes; made a unit vector.
        friction: Coulomb's coefficient mu, 0 to 10.
        unilateral: whether it can only push; False for a foot that is clamped or magnetic.
        force_only: whether it exerts a force without a condition on its motion, such as a hand that pushes.
        stiffness: of the ground for compliant laws [N/m]; None for rigid ground.
        damping: of the ground [N s/m].

    Raises:
        ArgumentTypeError, ArgumentError: a value of the wrong type or out of range, named.
    """

    name: str
    frame: str
    kind: Kind = "point"
    offset: Array = field(default_factory=lambda: np.zeros(3))
    radius: float = 0.0
    half_size: Array | None = None
    normal: Array = field(default_factory=lambda: np.array((0.0, 0.0, 1.0)))
    friction: float = 0.6
    unilateral: bool = True
    force_only: bool = False
    stiffness: float | None = None
    damping: float = 0.0

    def __post_init__(self) -> None:
        for name in ("name", "frame"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise ArgumentTypeError(f"{name}: expected a name, got {getattr(self, name)!r}")
        if self.kind not in get_args(Kind):
            raise ArgumentError(f"kind: expected one of {get_args(Kind)}, got {self.kind!r}")
        if (self.half_size is None) != (self.kind == "point"):
            raise ArgumentError(
                f"half_size: a surface has one and a point has none, got {self.half_size} of {self.name!r}"
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
        length = float(np.linalg.norm(self.normal))
        if not 1e-100 < length < 1e100:
            raise ArgumentError(f"normal: expected a direction, got {self.normal}")
        object.__setattr__(self, "normal", frozen(self.normal / length))
        if self.half_size is not None and not (self.half_size > 0.0).all():
            raise ArgumentError(f"half_size: expected positive lengths [m], got {self.half_size}")
        bounds = {"radius": np.inf, "friction": MAX_FRICTION, "damping": np.inf, "stiffness": np.inf}
        for name, high in bounds.items():
            value = getattr(self, name)
            if name == "stiffness" and value is None:
                continue
            value = number(name, value)
            if not (0.0 <= value <= high and np.isfinite(value)) or (name == "stiffness" and value == 0.0):
                limit = "" if high == np.inf else f" and at most {high:g}"
                sign = "positive" if name == "stiffness" else "not negative"
                raise ArgumentError(f"{name}: expected a finite number, {sign}{limit}, got {value}")
            object.__setattr__(self, name, value)
        if self.kind == "surface" and self.radius:
            raise ArgumentError(f"radius: a surface has none, got {self.radius}")

    @classmethod
    def of_foot(cls, robot: Robot, foot: str, **options: object) -> Contact:
        """The sphere of a foot, named after it; `options` as the attributes.

        Raises:
            UnknownNameError: no such foot.
        """
        if foot not in robot.legs:
            raise UnknownNameError("foot", foot, robot.feet)
        known = {"name": foot, "frame": foot, "radius": robot.legs[foot].foot.radius}
        return cls(**(known | options))  # type: ignore[arg-type]

    @property
    def rows(self) -> int:
        """Components of its force: 3 for a point, 6 for a surface."""
        return 3 if self.kind == "point" else 6

    @property
    def axes(self) -> Array:
        """(3, 3) contact frame: rows t1, t2 (tangents) and n in world axes; the identity on level ground."""
        return contact_axes(self.normal)

    @property
    def corners(self) -> Array:
        """(m, 3) points that carry the force, in the frame [m]: the sphere's centre, or the rectangle's corners."""
        if self.half_size is None:
            return self.offset[None]
        x, y = self.half_size
        return np.asarray(self.offset + np.array([(x, y, 0.0), (x, -y, 0.0), (-x, -y, 0.0), (-x, y, 0.0)]))


def contact_axes(normal: Array) -> Array:
    """(3, 3) right-handed rows t1, t2, n for a unit normal; the identity for +z.

    t1 is world x without its part along the normal, or world y where x is (nearly) the normal itself.
    """
    seed = np.array((1.0, 0.0, 0.0)) if abs(normal[0]) < 0.9 else np.array((0.0, 1.0, 0.0))
    t1 = seed - normal * (normal @ seed)
    t1 /= np.linalg.norm(t1)
    return np.array((t1, np.cross(normal, t1), normal))
