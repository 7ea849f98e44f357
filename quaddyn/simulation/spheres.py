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
from ..robot.arguments import check_number, check_sequence, check_type
from ..robot.bodies import CompositeBody
from ..robot.geometry_models import read_vertices
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
            raise ArgumentTypeError(f"frame: expected the name of a frame, got {self.frame!r}")
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
    """Contact sphere with the body and joint that carry it."""

    name: str  # name of the sphere
    # name under which its contacts are reported: that of the sphere, or of the sole of which it is a corner
    reported_name: str
    link: str | None  # link of a default sphere; None for a foot and for a sphere requested by name
    body: int  # index in ``robot.bodies``
    in_body: Array  # (3,) center in body axes [m]
    joint: int  # index of the joint in Pinocchio
    in_joint: Array  # (3,) center in the joint's frame [m]
    radius: float  # radius [m]


def place_spheres(
    robot: Robot, spheres: Mapping[str, ContactSphere] | None, soles: Iterable[Contact] = ()
) -> tuple[PlacedSphere, ...]:
    """Returns the spheres of the feet, and then `spheres` or by default `body_spheres`, each with its body.

    A sole is represented by its corners, which replace the foot and the default spheres on the same body.

    Raises:
        UnknownNameError: no frame of a name.
        ArgumentError: a sphere has the name of a foot, or a sole is not a surface contact.
    """
    surfaces = check_surfaces("soles", soles)
    corners = [
        (sole, i, locate_point(robot, sole.frame, corner)) for sole in surfaces for i, corner in enumerate(sole.corners)
    ]
    bodies_with_sole = {location[0] for _, _, location in corners}
    check_type("spheres", spheres, Mapping | None, "a mapping from names to ContactSphere objects")
    named = {leg.foot.name: ContactSphere(leg.foot.name, leg.foot.radius) for leg in robot.legs.values()}
    named = {
        foot: foot_sphere
        for foot, foot_sphere in named.items()
        if locate_point(robot, foot, foot_sphere.offset)[0] not in bodies_with_sole
    }
    used_names = {*named, *(sole.name for sole in surfaces), *(f"{sole.name} {i}" for sole, i, _ in corners)}
    for name, sphere in (spheres or {}).items():
        if not isinstance(sphere, ContactSphere):
            raise ArgumentTypeError(f"spheres[{name!r}]: expected a ContactSphere, got {type(sphere).__name__}")
        if not (isinstance(name, str) and name):
            raise ArgumentTypeError(f"spheres: expected a str as the name of each sphere, got {name!r}")
        if name in used_names:
            raise ArgumentError(f"spheres: {name!r} is already the name of a foot; use another name")
        named[name] = sphere
    default_spheres = body_spheres(robot) if spheres is None else {}
    links = {name: sphere.frame for name, sphere in default_spheres.items()}
    placed = [
        PlacedSphere(name, name, links.get(name), *locate_point(robot, sphere.frame, sphere.offset), sphere.radius)
        for name, sphere in (named | default_spheres).items()
    ]
    return (
        *(PlacedSphere(f"{sole.name} {i}", sole.name, None, *location, 0.0) for sole, i, location in corners),
        *(sphere for sphere in placed if sphere.link is None or sphere.body not in bodies_with_sole),
    )


def locate_point(robot: Robot, frame: str, offset: Array) -> tuple[int, Array, int, Array]:
    """Locates a point fixed to a frame.

    Returns:
        Index in ``robot.bodies``, position in that body [m], index of the joint in Pinocchio, position in its frame
        [m].

    Raises:
        UnknownNameError: no frame of that name.
    """
    model, frame_data = robot.model, robot.model.frames[robot.frame_id(frame)]
    index = next(i for i, b in enumerate(robot.bodies) if body_joint(model, b) == frame_data.parentJoint)
    point = frame_data.placement.act(np.array(offset))
    body_placement = model.frames[model.getFrameId(robot.bodies[index].name, pin.FrameType.BODY)].placement
    return index, frozen(body_placement.actInv(point)), frame_data.parentJoint, frozen(point)


def collision_spheres(robot: Robot, links: Iterable[str] | None = None) -> dict[str, ContactSphere]:
    """Returns spheres at the ends and corners of collision shapes, on which a robot that falls can come to rest.

    A sphere represents itself; a capsule and a cylinder have one at either end, with their own radius; a box has points
    at its corners; an STL or OBJ mesh has its outermost vertices in 26 directions; other meshes are left out. Shapes
    that contain the center of a foot are left out, too, since the feet have spheres already.

    Args:
        robot: any robot.
        links: names of links; None: all links.

    Returns:
        {"<link> <number>": sphere}, for the argument ``spheres`` of a plant.

    Raises:
        UnknownNameError: no link of that name.
    """
    bodies_by_link = {link.name: (body, link) for body in robot.bodies for link, _ in body.links}
    selected = tuple(bodies_by_link) if links is None else check_sequence("links", links, "link names")
    spheres: dict[str, ContactSphere] = {}
    for name in selected:
        if name not in bodies_by_link:
            raise UnknownNameError("link", name, bodies_by_link)
        body, link = bodies_by_link[name]
        feet = _find_foot_centers(robot, body, name)
        n_spheres = 0
        for geometry in link.collisions:
            if any(_contains_point(geometry, foot) for foot in feet):
                continue
            for center, radius in _make_shape_spheres(geometry):
                spheres[f"{name} {n_spheres}"] = ContactSphere(name, radius, center)
                n_spheres += 1
    return spheres


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
    selected: dict[str, ContactSphere] = {}
    read_mesh = functools.cache(_read_small_mesh)  # several legs use the same files
    for index, body in enumerate(robot.bodies):
        feet = [leg.foot.name for leg in robot.legs.values() if any(leg.foot.frame == x.name for x, _ in body.links)]
        body_placement = model.frames[model.getFrameId(body.name, pin.FrameType.BODY)].placement
        foot_centers = [
            body_placement.actInv(model.frames[robot.frame_id(foot)].placement.translation) for foot in feet
        ]
        candidates: list[tuple[str, Array, Array, float]] = []  # link, center in it and in the body, radius
        has_unread_shape = False
        for link, placement in body.links:
            for geometry in link.collisions:
                spheres = _make_shape_spheres(geometry, read_mesh)
                has_unread_shape |= not spheres
                candidates += [(link.name, center, placement.apply(center), radius) for center, radius in spheres]
        if has_unread_shape and not candidates:
            joints = [b.placement.translation for b in robot.bodies if b.parent == index]
            candidates = [(body.name, position, position, 0.0) for position in joints]
        candidates = [
            x
            for x in candidates
            if all(
                np.linalg.norm(x[2]) < np.linalg.norm(x[2] - foot_center) - EQUAL_LENGTH_TOLERANCE
                for foot_center in foot_centers
            )
        ]
        if robot.legs:
            body_pose = data.oMi[body_joint(model, body)] * body_placement
            candidates = [x for x in candidates if body_pose.act(np.array(x[2]))[2] - x[3] > EQUAL_LENGTH_TOLERANCE]
        for link_name, center, _, radius in _select_outermost(candidates):
            number = sum(sphere.frame == link_name for sphere in selected.values())
            selected[f"{link_name} {number}"] = ContactSphere(link_name, radius, center)
    return selected


def _read_small_mesh(path: Path) -> Array | None:
    """Returns the vertices of a mesh (n, 3), or None if its file is too large or of another format."""
    return read_vertices(path) if path.stat().st_size <= MAX_MESH_BYTES else None


def _select_outermost(candidates: list[tuple[str, Array, Array, float]]) -> list[tuple[str, Array, Array, float]]:
    """Returns the spheres that extend farthest in one of the directions `OUTERMOST`."""
    if not candidates:
        return candidates
    centers, radii = np.array([x[2] for x in candidates]), np.array([x[3] for x in candidates])
    directions = OUTERMOST / np.linalg.norm(OUTERMOST, axis=1)[:, None]
    return [candidates[i] for i in np.unique(np.argmax(centers @ directions.T + radii[:, None], axis=0))]


def _find_foot_centers(robot: Robot, body: CompositeBody, link: str) -> list[Array]:
    """Returns the centers of the feet on a body, in the frame of one of its links [m]."""
    link_frame = robot.model.frames[robot.model.getFrameId(link, pin.FrameType.BODY)]
    return [
        link_frame.placement.actInv(robot.model.frames[robot.frame_id(leg.foot.name)].placement.translation)
        for leg in robot.legs.values()
        if any(leg.foot.frame == body_link.name for body_link, _ in body.links)
    ]


def _contains_point(geometry: Geometry, point: Array) -> bool:
    """Returns whether a collision shape contains a point in the frame of its link."""
    local, shape = to_se3(geometry.placement).actInv(np.array(point)), geometry.shape
    if isinstance(shape, SphereShape):
        return bool(np.linalg.norm(local) <= shape.radius)
    if isinstance(shape, BoxShape):
        return bool((np.abs(local) <= 0.5 * np.array(shape.size)).all())
    if isinstance(shape, CylinderShape | CapsuleShape):
        half_length = 0.5 * shape.length + (shape.radius if isinstance(shape, CapsuleShape) else 0.0)
        return bool(abs(local[2]) <= half_length and np.hypot(local[0], local[1]) <= shape.radius)
    if isinstance(shape, MeshShape) and shape.path is not None and (points := read_vertices(shape.path)) is not None:
        points = points * np.array(shape.scale)
        return bool((points.min(axis=0) <= local).all() and (local <= points.max(axis=0)).all())
    return False


def _make_shape_spheres(
    geometry: Geometry, read_mesh: Callable[[Path], Array | None] = read_vertices
) -> list[tuple[Array, float]]:
    """Returns center and radius of the spheres that represent a collision shape, in the frame of its link [m]."""
    pose: Pose = geometry.placement
    shape = geometry.shape
    if isinstance(shape, SphereShape):
        return [(pose.translation, shape.radius)]
    if isinstance(shape, MeshShape):
        points = None if shape.path is None else read_mesh(shape.path)
        if points is None:
            return []
        points = points * np.array(shape.scale)
        outermost = np.unique(np.argmax(points @ DIRECTIONS.T, axis=0))
        return [(pose.apply(p), 0.0) for p in points[outermost]]
    if isinstance(shape, BoxShape):
        half = 0.5 * np.array(shape.size)
        signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
        return [(pose.apply(s * half), 0.0) for s in signs]
    half_length = 0.5 * shape.length
    if isinstance(shape, CylinderShape):
        half_length = max(half_length - shape.radius, 0.0)
    ends = (np.array([0.0, 0.0, -half_length]), np.array([0.0, 0.0, half_length]))
    return [(pose.apply(end), shape.radius) for end in ends]
