"""`ContactSphere`: where a robot may touch the world: feet, corners of soles, and by default what it can fall on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pinocchio as pin

from ..contact import Contact
from ..contact.contact import surfaces
from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import number, several
from ..robot.bodies import Body
from ..robot.meshes import vertices
from ..robot.model import body_joint, se3
from ..robot.robot import Robot
from ..urdf.tree import Array, Box, Capsule, Cylinder, FrozenArrays, Geometry, Mesh, Pose, Sphere, frozen

#: Difference of lengths [m] below which they are equal: a sphere halfway to the foot, or one that touches the ground.
EQUAL_LENGTH_TOLERANCE = 1e-9
#: Towards faces, edges and corners of a cube.
DIRECTIONS = np.array([d for d in np.ndindex(3, 3, 3) if d != (1, 1, 1)], dtype=np.float64) - 1.0
#: Of those, faces and corners: a body keeps no more spheres than that by default.
OUTERMOST = DIRECTIONS[np.count_nonzero(DIRECTIONS, axis=1) != 2]
#: Larger meshes are not read for what a robot falls on by default: a plant must be made quickly.
MAX_MESH_BYTES = 5_000_000


@dataclass(frozen=True, slots=True, eq=False)
class ContactSphere(FrozenArrays):
    """A sphere fixed to a link.

    Attributes:
        frame: any of ``robot.frame_names``.
        radius: [m]; 0 for a point.
        offset: (3,) centre in the frame [m].

    Raises:
        ArgumentTypeError: a frame that is no name, or an offset of something else than numbers.
        ArgumentError: a radius that is negative or not finite, or an offset that is no point.
    """

    frame: str
    radius: float
    offset: Array = field(default_factory=lambda: np.zeros(3))

    def __post_init__(self) -> None:
        if not isinstance(self.frame, str):
            raise ArgumentTypeError(f"frame: expected a name, got {self.frame!r}")
        radius = number("radius", self.radius)
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
class Placed(FrozenArrays):
    """A sphere by what carries it.

    Attributes:
        name: its own.
        part: name that its contacts are reported under: the sphere's, or that of the sole whose corner it is.
        link: that it stands for among others, by default; None for a foot and for what was asked for by name.
        body: index in ``robot.bodies``.
        in_body: (3,) centre in its axes [m].
        joint: Pinocchio's.
        in_joint: (3,) centre in its axes [m].
        radius: [m].
    """

    name: str
    part: str
    link: str | None
    body: int
    in_body: Array
    joint: int
    in_joint: Array
    radius: float


def placed(
    robot: Robot, spheres: Mapping[str, ContactSphere] | None, soles: Iterable[Contact] = ()
) -> tuple[Placed, ...]:
    """The feet, and then `spheres`, or else `body_spheres`, each with its body.

    A sole is its corners, and stands for the foot, and for all that touches by default, on the same body.

    Raises:
        UnknownNameError: a frame that the robot does not have.
        ArgumentError: the name of a foot, no `ContactSphere`, or a sole that is no surface.
    """
    flat = surfaces("soles", soles)
    corners = [(c, i, located(robot, c.frame, corner)) for c in flat for i, corner in enumerate(c.corners)]
    shod = {place[0] for _, _, place in corners}
    if spheres is not None and not isinstance(spheres, Mapping):
        raise ArgumentTypeError(f"spheres: expected a mapping of names, got {type(spheres).__name__}")
    wanted = {leg.foot.name: ContactSphere(leg.foot.name, leg.foot.radius) for leg in robot.legs.values()}
    wanted = {foot: x for foot, x in wanted.items() if located(robot, foot, x.offset)[0] not in shod}
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
        Placed(name, name, links.get(name), *located(robot, sphere.frame, sphere.offset), sphere.radius)
        for name, sphere in (wanted | by_default).items()
    ]
    return (
        *(Placed(f"{c.name} {i}", c.name, None, *place, 0.0) for c, i, place in corners),
        *(each for each in round_ones if each.link is None or each.body not in shod),
    )


def located(robot: Robot, frame: str, offset: Array) -> tuple[int, Array, int, Array]:
    """Where a point fixed to a frame is: index in ``robot.bodies``, place in it, Pinocchio's joint, place there [m].

    Raises:
        UnknownNameError: no such frame.
    """
    model, carrier = robot.model, robot.model.frames[robot.frame_id(frame)]
    index = next(i for i, b in enumerate(robot.bodies) if body_joint(model, b) == carrier.parentJoint)
    centre = carrier.placement.act(np.array(offset))
    own = model.frames[model.getFrameId(robot.bodies[index].name, pin.FrameType.BODY)].placement
    return index, frozen(own.actInv(centre)), carrier.parentJoint, frozen(centre)


def collision_spheres(robot: Robot, links: Iterable[str] | None = None) -> dict[str, ContactSphere]:
    """Spheres at the ends and corners of collision shapes, so that a robot that falls has something to fall on.

    A sphere stands for itself; a capsule and a cylinder get one at either end, of their own radius; a box gets points
    at its corners; an STL or OBJ mesh those of its vertices that lie farthest out in 26 directions; other meshes are
    left out.  Feet have their spheres anyway, so that shapes which hold a foot's centre are left out too.

    Args:
        robot: any robot.
        links: which; all by default.

    Returns:
        {"<link> <number>": sphere}, to be passed as ``spheres=``.

    Raises:
        UnknownNameError: no such link.
    """
    known = {link.name: (body, link) for body in robot.bodies for link, _ in body.links}
    chosen = tuple(known) if links is None else several("links", links, "link names")
    out: dict[str, ContactSphere] = {}
    for name in chosen:
        if name not in known:
            raise UnknownNameError("link", name, known)
        body, link = known[name]
        feet = _feet_on(robot, body, name)
        count = 0
        for geometry in link.collisions:
            if any(_holds(geometry, foot) for foot in feet):
                continue
            for centre, radius in _ends(geometry):
                out[f"{name} {count}"] = ContactSphere(name, radius, centre)
                count += 1
    return out


def body_spheres(robot: Robot) -> dict[str, ContactSphere]:
    """Where a robot that can fall touches the ground beside its feet: trunk, thighs and knees.

    The outermost of the spheres that its collision shapes have by `collision_spheres`, towards the faces and corners
    of a cube in each body's own axes.  Of a body that carries a foot those nearer to its joint than to the foot: the
    knee.  A body whose shapes are in files that are not read here (other than STL and OBJ, or very large) has points at
    the joints that it carries instead.
    What would be below the ground in ``robot.q_home`` is left out.

    Args:
        robot: any; one with a fixed root does not fall and has none.

    Returns:
        {"<link> <number>": sphere}.
    """
    if robot.root == "fixed":
        return {}
    model = robot.model
    data = model.createData()
    robot.algorithms.framesForwardKinematics(model, data, np.array(robot.q_home))
    out: dict[str, ContactSphere] = {}
    read = functools.cache(_vertices)  # legs share their files
    for index, body in enumerate(robot.bodies):
        feet = [leg.foot.name for leg in robot.legs.values() if any(leg.foot.frame == x.name for x, _ in body.links)]
        own = model.frames[model.getFrameId(body.name, pin.FrameType.BODY)].placement
        ends = [own.actInv(model.frames[robot.frame_id(foot)].placement.translation) for foot in feet]
        found: list[tuple[str, Array, Array, float]] = []  # link, centre in it and in the body, radius
        unread = False
        for link, placement in body.links:
            for geometry in link.collisions:
                spheres = _ends(geometry, read)
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
    return vertices(path) if path.stat().st_size <= MAX_MESH_BYTES else None


def _outermost(found: list[tuple[str, Array, Array, float]]) -> list[tuple[str, Array, Array, float]]:
    """Those that reach farthest in one of the directions."""
    if not found:
        return found
    centres, radii = np.array([x[2] for x in found]), np.array([x[3] for x in found])
    away = OUTERMOST / np.linalg.norm(OUTERMOST, axis=1)[:, None]
    return [found[i] for i in np.unique(np.argmax(centres @ away.T + radii[:, None], axis=0))]


def _feet_on(robot: Robot, body: Body, link: str) -> list[Array]:
    """Centres of the feet on a body, in one of its links [m]."""
    here = robot.model.frames[robot.model.getFrameId(link, pin.FrameType.BODY)]
    return [
        here.placement.actInv(robot.model.frames[robot.frame_id(leg.foot.name)].placement.translation)
        for leg in robot.legs.values()
        if any(leg.foot.frame == x.name for x, _ in body.links)
    ]


def _holds(geometry: Geometry, point: Array) -> bool:
    local, shape = se3(geometry.placement).actInv(np.array(point)), geometry.shape
    if isinstance(shape, Sphere):
        return bool(np.linalg.norm(local) <= shape.radius)
    if isinstance(shape, Box):
        return bool((np.abs(local) <= 0.5 * np.array(shape.size)).all())
    if isinstance(shape, Cylinder | Capsule):
        long = 0.5 * shape.length + (shape.radius if isinstance(shape, Capsule) else 0.0)
        return bool(abs(local[2]) <= long and np.hypot(local[0], local[1]) <= shape.radius)
    if isinstance(shape, Mesh) and shape.path is not None and (points := vertices(shape.path)) is not None:
        points = points * np.array(shape.scale)
        return bool((points.min(axis=0) <= local).all() and (local <= points.max(axis=0)).all())
    return False


def _ends(geometry: Geometry, read: Callable[[Path], Array | None] = vertices) -> list[tuple[Array, float]]:
    pose: Pose = geometry.placement
    shape = geometry.shape
    if isinstance(shape, Sphere):
        return [(pose.translation, shape.radius)]
    if isinstance(shape, Mesh):
        points = None if shape.path is None else read(shape.path)
        if points is None:
            return []
        points = points * np.array(shape.scale)
        outmost = np.unique(np.argmax(points @ DIRECTIONS.T, axis=0))
        return [(pose.apply(p), 0.0) for p in points[outmost]]
    if isinstance(shape, Box):
        half = 0.5 * np.array(shape.size)
        signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
        return [(pose.apply(s * half), 0.0) for s in signs]
    half_length = 0.5 * shape.length
    if isinstance(shape, Cylinder):
        half_length = max(half_length - shape.radius, 0.0)
    ends = (np.array([0.0, 0.0, -half_length]), np.array([0.0, 0.0, half_length]))
    return [(pose.apply(end), shape.radius) for end in ends]
