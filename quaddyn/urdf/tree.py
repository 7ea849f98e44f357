"""`Tree`: the content of a URDF file, as plain frozen data with the provenance of every element.

Conventions are the file's own: SI units, radians, joint placements relative to the parent link, and
``rpy`` already turned into rotation matrices.  Links and joints are in the order of Pinocchio's
importer: depth first, the children of a link by joint name (bytewise).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

JOINT_TYPES = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")
#: Size of the configuration and of the velocity of each joint type, in Pinocchio's coordinates.
JOINT_NQ = MappingProxyType({"revolute": 1, "continuous": 2, "prismatic": 1, "fixed": 0, "floating": 7, "planar": 4})
JOINT_NV = MappingProxyType({"revolute": 1, "continuous": 1, "prismatic": 1, "fixed": 0, "floating": 6, "planar": 3})


def frozen(array: object) -> Array:
    """Returns a read-only float64 copy of `array`."""
    out = np.array(array, dtype=np.float64)
    out.flags.writeable = False
    return out


#: Difference below which two computed numbers are a tie, as a fraction of their size.  Rounding leaves 1e-16 to 1e-12,
#: the digits of robot files are coarser than 1e-8.
TIE_TOLERANCE = 1e-9
#: Decimals of a length [m] that count where computed lengths are put in order: nanometres are far above rounding.
LENGTH_DECIMALS = 9
#: Error of directions in robot files, as an angle or its sine [rad]: files write right angles as 1.57 or as 1.5708.
FILE_ANGLE_TOLERANCE = 1e-3


def first_largest(values: ArrayLike, size: float | None = None) -> int:
    """Returns the index of the first value that ties with the largest one, so that rounding does not choose.

    Args:
        values: (n,) n > 0; infinite ones tie only with each other.
        size: what `TIE_TOLERANCE` is a fraction of, in the unit of the values; the magnitude of the largest value by
            default.
    """
    numbers = np.asarray(values, dtype=np.float64)
    largest = float(numbers.max())
    if not math.isfinite(largest):
        return int(numbers.argmax())
    return int((numbers >= largest - TIE_TOLERANCE * (abs(largest) if size is None else size)).argmax())


@dataclass(frozen=True, slots=True)
class Where:
    """Provenance: `file` (or "<text>"), `line` (1-based, 0 when ours), `element` such as ``<link name="base">``."""

    file: str
    line: int
    element: str

    def __str__(self) -> str:
        location = f"{self.file}:{self.line}" if self.line else self.file
        return f"{location}: {self.element}" if self.element else location


@dataclass(frozen=True, slots=True)
class Finding:
    """One observation made while a file is read or validated.

    Attributes:
        level: "warning" (an oddity; an error under ``strict=True``) or "note" (a decision worth knowing).
        where: file, line and element.
        reason: description of the problem, with the value.
        advice: remedy, possibly empty.
        cosmetic: whether it concerns only what is drawn; ``strict=True`` does not count such a warning.
    """

    level: str
    where: Where
    reason: str
    advice: str = ""
    cosmetic: bool = False

    def __str__(self) -> str:
        return f"{self.level}: {self.where}: {self.reason}" + (f"; {self.advice}" if self.advice else "")


class FrozenArrays:
    """Mixin for frozen dataclasses: array fields come out of a pickle as read-only as they went in."""

    __slots__ = ()

    def __reduce__(self) -> tuple[object, ...]:
        names = [f.name for f in dataclasses.fields(self) if f.init]  # type: ignore[arg-type]
        return _restore, (type(self), tuple(getattr(self, n) for n in names))


def _restore(cls: type, values: tuple[object, ...]) -> object:
    out: object = object.__new__(cls)
    rest = iter(values)
    for field in dataclasses.fields(cls):
        value = next(rest) if field.init else field.default
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        object.__setattr__(out, field.name, value)
    return out


@dataclass(frozen=True, slots=True, eq=False)
class Pose(FrozenArrays):
    """A rigid placement ``T_parent_child``: `rotation` (3, 3), `translation` (3,) [m], read-only."""

    rotation: Array
    translation: Array

    @staticmethod
    def identity() -> Pose:
        """Returns the identity placement."""
        return _IDENTITY

    @staticmethod
    def of(rotation: object, translation: object) -> Pose:
        """Returns a Pose of copies of a rotation (3, 3) and a translation (3,) [m]."""
        return Pose(frozen(rotation), frozen(translation))

    def __matmul__(self, other: Pose) -> Pose:
        """Composition ``T_a_b @ T_b_c = T_a_c``."""
        return Pose.of(self.rotation @ other.rotation, self.rotation @ other.translation + self.translation)

    def apply(self, point: Array) -> Array:
        """Points (..., 3) given in the child, in the parent's coordinates [m]."""
        return np.asarray(point @ self.rotation.T + self.translation)

    def inverse(self) -> Pose:
        """``T_child_parent``."""
        return Pose.of(self.rotation.T, -self.rotation.T @ self.translation)

    @property
    def homogeneous(self) -> Array:
        """Homogeneous transformation matrix (4, 4) of this placement."""
        out = np.eye(4)
        out[:3, :3], out[:3, 3] = self.rotation, self.translation
        return out


_IDENTITY = Pose.of(np.eye(3), np.zeros(3))


@dataclass(frozen=True, slots=True, eq=False)
class Inertial(FrozenArrays):
    """Mass properties: `mass` [kg], `com` (3,) [m] and `inertia` (3, 3) [kg m^2] about the com, in the owner's axes."""

    mass: float
    com: Array
    inertia: Array


@dataclass(frozen=True, slots=True)
class SphereShape:
    """A sphere of `radius` [m]."""

    radius: float


@dataclass(frozen=True, slots=True)
class BoxShape:
    """A box of full `size` (x, y, z) [m]."""

    size: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class CylinderShape:
    """A cylinder along z, centered: `radius`, `length` [m]."""

    radius: float
    length: float


@dataclass(frozen=True, slots=True)
class CapsuleShape:
    """A capsule along z, centered: `radius`, `length` of its cylindrical part [m]."""

    radius: float
    length: float


@dataclass(frozen=True, slots=True)
class MeshShape:
    """A mesh file: `uri` as written, `path` resolved inside the package root `root` or None, `scale` per axis."""

    uri: str
    path: Path | None
    scale: tuple[float, float, float]
    root: Path | None = None


Shape = SphereShape | BoxShape | CylinderShape | CapsuleShape | MeshShape


@dataclass(frozen=True, slots=True, eq=False)
class Geometry:
    """One <visual> or <collision>: its `shape`, `placement` in the link, `rgba` (None where the file names none)."""

    shape: Shape
    placement: Pose
    rgba: tuple[float, float, float, float] | None
    where: Where


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """A link: `inertial` is None where the file gives none."""

    name: str
    inertial: Inertial | None
    visuals: tuple[Geometry, ...]
    collisions: tuple[Geometry, ...]
    where: Where


#: Defaults of `Limits`.  They are separate objects, so that ``is`` shows whether the file gives a limit.
_NO_LOWER, _NO_UPPER = float("-inf"), float("inf")


@dataclass(frozen=True, slots=True)
class Limits:
    """Joint limits: `lower`, `upper` [rad or m], `velocity` [rad/s or m/s], `effort` [N m or N]; inf means none.

    `given` names the fields that the constructor was given; in an argument of `load`, the others stay as in the file.
    """

    lower: float = _NO_LOWER
    upper: float = _NO_UPPER
    velocity: float = _NO_UPPER
    effort: float = _NO_UPPER
    given: frozenset[str] = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given = set()
        for field in dataclasses.fields(self):
            if field.init and getattr(self, field.name) is not field.default:
                given.add(field.name)
            elif field.init:  # the same value as another object, which counts as given to another `Limits`
                object.__setattr__(self, field.name, math.copysign(math.inf, getattr(self, field.name)))
        object.__setattr__(self, "given", frozenset(given))


#: Names of the limits of a joint.
LIMITS = tuple(f.name for f in dataclasses.fields(Limits) if f.init)


@dataclass(frozen=True, slots=True)
class Mimic:
    """A <mimic>: this joint is at ``multiplier * q[joint] + offset``."""

    joint: str
    multiplier: float
    offset: float


@dataclass(frozen=True, slots=True, eq=False)
class Joint(FrozenArrays):
    """Joint of a URDF."""

    name: str  # name of the joint
    type: str  # joint type of the URDF
    parent: str  # name of the parent link
    child: str  # name of the child link
    placement: Pose  # placement of the joint frame in the parent link
    axis: Array  # (3,) unit vector in the joint frame
    limits: Limits  # limits of position, velocity and effort
    damping: float  # viscous damping [N m s/rad or N s/m]
    friction: float  # Coulomb friction [N m or N]
    armature: float  # rotor inertia seen at the joint [kg m^2 or kg]
    mimic: Mimic | None  # joint that this joint follows; None for a joint that follows none
    where: Where  # position of the element in the file
    loop: str | None = None  # name of the closed loop that moves the joint; None for all other joints
    at_home: float = 0.0  # position of the joint in the home configuration [rad or m]

    @property
    def independent(self) -> bool:
        """Whether the joint has independent coordinates: it mimics no other joint, and no closed loop moves it."""
        return self.mimic is None and self.loop is None

    @property
    def nq(self) -> int:
        """Size of this joint's configuration (2 for continuous: cos, sin)."""
        return JOINT_NQ[self.type]

    @property
    def nv(self) -> int:
        """Size of this joint's velocity."""
        return JOINT_NV[self.type]


@dataclass(frozen=True, slots=True, eq=False)
class KinematicLoop(FrozenArrays):
    """Closure of a kinematic loop of the tree: two frames that coincide.

    Attributes:
        name: name of the loop.
        kind: "point" (origins coincide: a ball joint), "revolute" (z axes, too) or "weld" (the whole frames).
        link_a, link_b: the links that carry frames A and B.
        placement_a, placement_b: placements of the frames in these links.
        dependent: names of joints that the file declares as dependent; empty to have them selected automatically.
        where: file, line and element.
    """

    name: str
    kind: str
    link_a: str
    link_b: str
    placement_a: Pose
    placement_b: Pose
    dependent: tuple[str, ...]
    where: Where


@dataclass(frozen=True, slots=True)
class Transmission:
    """Transmission between joints and as many motors."""

    joints: tuple[str, ...]  # names of the joints
    ratios: tuple[tuple[float, ...], ...]  # one row per motor: its speed as a linear combination of the joint speeds


@dataclass(frozen=True, eq=False)
class Tree:
    """Kinematic tree of a robot.

    Args:
        name: name of the robot.
        file: path of the file, or "<text>".
        links: links of the robot; the first one is the root.
        joints: joints of the robot; ``joints[i].child`` is ``links[i + 1].name``.
        findings: warnings and notes from reading.
        loops: closures of kinematic loops.
        transmissions: transmissions between motors and joints.
    """

    name: str
    file: str
    links: tuple[Link, ...]
    joints: tuple[Joint, ...]
    findings: tuple[Finding, ...] = ()
    loops: tuple[KinematicLoop, ...] = ()
    transmissions: tuple[Transmission, ...] = ()

    @property
    def root(self) -> Link:
        """Root link, which has no parent joint."""
        return self.links[0]

    @functools.cached_property
    def links_by_name(self) -> Mapping[str, Link]:
        """Links by name."""
        return {x.name: x for x in self.links}

    @functools.cached_property
    def joints_by_name(self) -> Mapping[str, Joint]:
        """Joints by name."""
        return {x.name: x for x in self.joints}

    @functools.cached_property
    def parent_joint(self) -> Mapping[str, Joint]:
        """Parent joint of each link but the root, by link name."""
        return {x.child: x for x in self.joints}

    @functools.cached_property
    def children(self) -> Mapping[str, tuple[Joint, ...]]:
        """Child joints of each link, by link name, in the order of `joints`."""
        out: dict[str, list[Joint]] = {x.name: [] for x in self.links}
        for joint in self.joints:
            out[joint.parent].append(joint)
        return {k: tuple(v) for k, v in out.items()}
