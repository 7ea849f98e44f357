"""`ContactSphere`: contact points of a robot: feet, corners of soles, and by default other outer points of its body."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pinocchio as pin

from ..contact import Contact
from ..contact.contact import check_surfaces
from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import check_number, check_sequence
from ..robot.bodies import CompositeBody
from ..robot.mesh_vertices import read_vertices
from ..robot.model import body_joint, to_se3
from ..robot.robot import Robot
from ..urdf.tree import (
    Array,
    BoxShape,
    CapsuleShape,
    CylinderShape,
    FrozenArrays,
    Geometry,
    MeshShape,
    Pose,
    SphereShape,
    frozen,
)

#: Difference of lengths [m] that is attributed to rounding: for a sphere halfway to the foot, or one on the ground.
EQUAL_LENGTH_TOLERANCE = 1e-9
#: Directions of the faces, edges and corners of a cube.
DIRECTIONS = np.array([d for d in np.ndindex(3, 3, 3) if d != (1, 1, 1)], dtype=np.float64) - 1.0
#: Directions of its faces and corners, towards which a body has default spheres.
OUTERMOST = DIRECTIONS[np.count_nonzero(DIRECTIONS, axis=1) != 2]
#: Larger meshes are not read for default spheres, so that a plant is made quickly.
MAX_MESH_BYTES = 5_000_000


@dataclass(frozen=True, slots=True, eq=False)
class ContactSphere(FrozenArrays):
    """Contact sphere fixed to a link.

    Attributes:
        frame: one of ``robot.frame_names``.
        radius: radius [m]; 0 for a point.
        offset: (3,) center in the frame [m]; default: its origin.

    Raises:
        ArgumentTypeError: `frame` is not a name, or `offset` is not numeric.
        ArgumentError: a radius that is negative or not finite, or an offset of a wrong shape.
    """

    frame: str
    radius: float
    offset: Array = field(default_factory=lambda: np.zeros(3))

    def __post_init__(self) -> None:
        if not isinstance(self.frame, str):
            raise ArgumentTypeError(f"frame: expected a name, got {self.frame!r}")
        radius = check_number("radius", self.radius)
        if not 0.0 <= radius < np.inf:
            raise ArgumentError(f"radius: expected a finite length, 0 or more, got {radius}")
        object.__setattr__(self, "radius", radius)
        try:
            offset = frozen(self.offset)
        except (TypeError, ValueError):
            raise ArgumentTypeError(f"offset: expected three numbers, got {self.offset!r}") from None
        if offset.shape != (3,) or not np.isfinite(offset).all():
            raise ArgumentError(f"offset: expected a point (3,), got {self.offset}")
        object.__setattr__(self, "offset", offset)


@dataclass(frozen=True, slots=True, eq=False)
class PlacedSphere(FrozenArrays):
    """Contact sphere with the body and joint that carry it.

    Attributes:
        name: name of the sphere.
        part: name under which its contacts are reported: that of the sphere, or of the sole of which it is a corner.
        link: link of a default sphere; None for a foot and for a sphere requested by name.
        body: index in ``robot.bodies``.
        in_body: (3,) center in body axes [m].
        joint: index of the joint in Pinocchio.
        in_joint: (3,) center in the joint's frame [m].
        radius: radius [m].
    """

    name: str
    part: str
    link: str | None
    body: int
    in_body: Array
    joint: int
    in_joint: Array
    radius: float


def place_spheres(
    robot: Robot, spheres: Mapping[str, ContactSphere] | None, soles: Iterable[Contact] = ()
) -> tuple[PlacedSphere, ...]:
    """Returns the spheres of the feet, and then `spheres` or by default `body_spheres`, each with its body.

    A sole is represented by its corners, which replace the foot and the default spheres on the same body.

    Raises:
        UnknownNameError: no frame of a name.
        ArgumentError: a sphere has the name of a foot, or a sole is not a surface contact.
    """
    flat = check_surfaces("soles", soles)
    corners = [(c, i, locate_point(robot, c.frame, corner)) for c in flat for i, corner in enumerate(c.corners)]
    shod = {place[0] for _, _, place in corners}
    if spheres is not None and not isinstance(spheres, Mapping):
        raise ArgumentTypeError(f"spheres: expected a mapping of names, got {type(spheres).__name__}")
    wanted = {leg.foot.name: ContactSphere(leg.foot.name, leg.foot.radius) for leg in robot.legs.values()}
    wanted = {foot: x for foot, x in wanted.items() if locate_point(robot, foot, x.offset)[0] not in shod}
    taken = {*wanted, *(c.name for c in flat), *(f"{c.name} {i}" for c, i, _ in corners)}
    for name, sphere in (spheres or {}).items():
        if not isinstance(sphere, ContactSphere):
            raise ArgumentTypeError(f"spheres[{name!r}]: expected a ContactSphere, got {type(sphere).__name__}")
        if not (isinstance(name, str) and name):
            raise ArgumentTypeError(f"spheres: expected names, got {name!r}")
        if name in taken:
            raise ArgumentError(f"spheres: {name!r} is the name of a foot")
        wanted[name] = sphere
    by_default = body_spheres(robot) if spheres is None else {}
    links = {name: sphere.frame for name, sphere in by_default.items()}
    round_ones = [
        PlacedSphere(name, name, links.get(name), *locate_point(robot, sphere.frame, sphere.offset), sphere.radius)
        for name, sphere in (wanted | by_default).items()
    ]
    return (
        *(PlacedSphere(f"{c.name} {i}", c.name, None, *place, 0.0) for c, i, place in corners),
        *(each for each in round_ones if each.link is None or each.body not in shod),
    )


def locate_point(robot: Robot, frame: str, offset: Array) -> tuple[int, Array, int, Array]:
    """Locates a point fixed to a frame.

    Returns:
        Index in ``robot.bodies``, position in that body [m], index of the joint in Pinocchio, position in its frame
        [m].

    Raises:
        UnknownNameError: no frame of that name.
    """
    model, carrier = robot.model, robot.model.frames[robot.frame_id(frame)]
    index = next(i for i, b in enumerate(robot.bodies) if body_joint(model, b) == carrier.parentJoint)
    centre = carrier.placement.act(np.array(offset))
    own = model.frames[model.getFrameId(robot.bodies[index].name, pin.FrameType.BODY)].placement
    return index, frozen(own.actInv(centre)), carrier.parentJoint, frozen(centre)


def collision_spheres(robot: Robot, links: Iterable[str] | None = None) -> dict[str, ContactSphere]:
    """Returns spheres at the ends and corners of collision shapes, on which a robot that falls can come to rest.

    A sphere represents itself; a capsule and a cylinder have one at either end, with their own radius; a box has points
    at its corners; an STL or OBJ mesh has its outermost vertices in 26 directions; other meshes are left out. Shapes
    that contain the center of a foot are left out, too, since feet have spheres of their own.

    Args:
        robot: any robot.
        links: names of links; None: all links.

    Returns:
        {"<link> <number>": sphere}, for the argument ``spheres`` of a plant.

    Raises:
        UnknownNameError: no link of that name.
    """
    known = {link.name: (body, link) for body in robot.bodies for link, _ in body.links}
    chosen = tuple(known) if links is None else check_sequence("links", links, "link names")
    out: dict[str, ContactSphere] = {}
    for name in chosen:
        if name not in known:
            raise UnknownNameError("link", name, known)
        body, link = known[name]
        feet = _feet_on(robot, body, name)
        count = 0
        for geometry in link.collisions:
            if any(_contains_point(geometry, foot) for foot in feet):
                continue
            for centre, radius in _shape_spheres(geometry):
                out[f"{name} {count}"] = ContactSphere(name, radius, centre)
                count += 1
    return out


def body_spheres(robot: Robot) -> dict[str, ContactSphere]:
    """Returns the default contact spheres of a robot in addition to its feet: trunk, thighs and knees.

    They are the outermost `collision_spheres` towards the faces and corners of a cube in the axes of each body. For a
    body with a foot only spheres nearer to its joint than to the foot are used: the knee. A body whose shapes are in
    files that are not read here (other than STL and OBJ, or very large) has points at the joints that it carries
    instead. Spheres below the ground in ``robot.q_home`` are left out.

    Args:
        robot: any robot; one with a fixed root does not fall and has no such spheres.

    Returns:
        {"<link> <number>": sphere}.
    """
    if robot.root == "fixed":
        return {}
    model = robot.model
    data = model.createData()
    robot.algorithms.framesForwardKinematics(model, data, np.array(robot.q_home))
    out: dict[str, ContactSphere] = {}
    read = functools.cache(_vertices)  # several legs use the same files
    for index, body in enumerate(robot.bodies):
        feet = [leg.foot.name for leg in robot.legs.values() if any(leg.foot.frame == x.name for x, _ in body.links)]
        own = model.frames[model.getFrameId(body.name, pin.FrameType.BODY)].placement
        ends = [own.actInv(model.frames[robot.frame_id(foot)].placement.translation) for foot in feet]
        found: list[tuple[str, Array, Array, float]] = []  # link, centre in it and in the body, radius
        unread = False
        for link, placement in body.links:
            for geometry in link.collisions:
                spheres = _shape_spheres(geometry, read)
                unread |= not spheres
                found += [(link.name, centre, placement.apply(centre), radius) for centre, radius in spheres]
        if unread and not found:
            joints = [b.placement.translation for b in robot.bodies if b.parent == index]
            found = [(body.name, at, at, 0.0) for at in joints]
        found = [
            x
            for x in found
            if all(np.linalg.norm(x[2]) < np.linalg.norm(x[2] - end) - EQUAL_LENGTH_TOLERANCE for end in ends)
        ]
        if robot.legs:
            place = data.oMi[body_joint(model, body)] * own
            found = [x for x in found if place.act(np.array(x[2]))[2] - x[3] > EQUAL_LENGTH_TOLERANCE]
        for link_name, centre, _, radius in _outermost(found):
            count = sum(sphere.frame == link_name for sphere in out.values())
            out[f"{link_name} {count}"] = ContactSphere(link_name, radius, centre)
    return out


def _vertices(path: Path) -> Array | None:
    """Returns the vertices of a mesh (n, 3), or None if its file is too large or of another format."""
    return read_vertices(path) if path.stat().st_size <= MAX_MESH_BYTES else None


def _outermost(found: list[tuple[str, Array, Array, float]]) -> list[tuple[str, Array, Array, float]]:
    """Returns the spheres that extend farthest in one of the directions `OUTERMOST`."""
    if not found:
        return found
    centres, radii = np.array([x[2] for x in found]), np.array([x[3] for x in found])
    away = OUTERMOST / np.linalg.norm(OUTERMOST, axis=1)[:, None]
    return [found[i] for i in np.unique(np.argmax(centres @ away.T + radii[:, None], axis=0))]


def _feet_on(robot: Robot, body: CompositeBody, link: str) -> list[Array]:
    """Returns the centers of the feet on a body, in the frame of one of its links [m]."""
    here = robot.model.frames[robot.model.getFrameId(link, pin.FrameType.BODY)]
    return [
        here.placement.actInv(robot.model.frames[robot.frame_id(leg.foot.name)].placement.translation)
        for leg in robot.legs.values()
        if any(leg.foot.frame == x.name for x, _ in body.links)
    ]


def _contains_point(geometry: Geometry, point: Array) -> bool:
    """Returns whether a collision shape contains a point in the frame of its link."""
    local, shape = to_se3(geometry.placement).actInv(np.array(point)), geometry.shape
    if isinstance(shape, SphereShape):
        return bool(np.linalg.norm(local) <= shape.radius)
    if isinstance(shape, BoxShape):
        return bool((np.abs(local) <= 0.5 * np.array(shape.size)).all())
    if isinstance(shape, CylinderShape | CapsuleShape):
        long = 0.5 * shape.length + (shape.radius if isinstance(shape, CapsuleShape) else 0.0)
        return bool(abs(local[2]) <= long and np.hypot(local[0], local[1]) <= shape.radius)
    if isinstance(shape, MeshShape) and shape.path is not None and (points := read_vertices(shape.path)) is not None:
        points = points * np.array(shape.scale)
        return bool((points.min(axis=0) <= local).all() and (local <= points.max(axis=0)).all())
    return False


def _shape_spheres(
    geometry: Geometry, read: Callable[[Path], Array | None] = read_vertices
) -> list[tuple[Array, float]]:
    """Returns center and radius of the spheres that represent a collision shape, in the frame of its link [m]."""
    pose: Pose = geometry.placement
    shape = geometry.shape
    if isinstance(shape, SphereShape):
        return [(pose.translation, shape.radius)]
    if isinstance(shape, MeshShape):
        points = None if shape.path is None else read(shape.path)
        if points is None:
            return []
        points = points * np.array(shape.scale)
        outmost = np.unique(np.argmax(points @ DIRECTIONS.T, axis=0))
        return [(pose.apply(p), 0.0) for p in points[outmost]]
    if isinstance(shape, BoxShape):
        half = 0.5 * np.array(shape.size)
        signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
        return [(pose.apply(s * half), 0.0) for s in signs]
    half_length = 0.5 * shape.length
    if isinstance(shape, CylinderShape):
        half_length = max(half_length - shape.radius, 0.0)
    ends = (np.array([0.0, 0.0, -half_length]), np.array([0.0, 0.0, half_length]))
    return [(pose.apply(end), shape.radius) for end in ends]
