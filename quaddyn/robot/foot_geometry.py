"""Contact spheres of feet: from a foot link, a collision shape, or the end of the last link."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..urdf.tree import (
    FILE_ANGLE_TOLERANCE,
    LENGTH_DECIMALS,
    Array,
    BoxShape,
    CapsuleShape,
    CylinderShape,
    Geometry,
    Joint,
    Link,
    MeshShape,
    Pose,
    Shape,
    SphereShape,
    first_largest,
    frozen,
)
from .bodies import CompositeBody
from .geometry_models import MAX_FOOT_MESH_BYTES, read_vertices

#: A fixed link counts as the foot when it lies at least this fraction of the body's extent away from the joint.
MIN_FOOT_LINK_FRACTION = 0.5
#: Points on a foot are the corners of a sole if they are in one plane up to this fraction of their extent, wider than
#: this fraction of their length, and at an angle to the leg whose cosine is above the last number.
MAX_SOLE_THICKNESS, MIN_SOLE_WIDTH, MIN_SOLE_COSINE = 0.02, 0.1, 0.3
#: Square of a wheel's distance of the center of mass from its axis, as a fraction of its inertia per mass.  Wheels of
#: real files reach 2e-4, since their inertia is that of a drawing or of a fit.
WHEEL_BALANCE = 1e-3
#: Range of a revolute joint [rad] above which it rotates a wheel; no other joint of a leg turns three times.
MIN_WHEEL_RANGE = 3.0 * 2.0 * np.pi
#: Distance from the farthest vertex of a mesh along the leg below which others are as far, as a fraction of the mesh's
#: extent: the digits of single precision in an STL file.
FARTHEST_VERTEX_TOLERANCE = 1e-6

#: Maximum distance of a frame from the center of a sphere about it, as a fraction of the radius.
MAX_CENTER_OFFSET = 0.25
#: Range of the depth of shapes beyond a frame that is the radius of a foot there, as a fraction of the distance from
#: the joint: less are rounded numbers of the file, and more are other parts than the foot.
MIN_DEPTH_FRACTION, MAX_DEPTH_FRACTION = 0.01, 0.25
#: Tangent of the half angle of the cone, from the frame along the leg, in which shapes count: a sole about the frame is
#: beside it.
MAX_DEPTH_SLOPE = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class FootSphere:
    """Contact sphere on the last body of a limb.

    Attributes:
        link: link that carries the sphere.
        offset: (3,) center in the link frame [m].
        center: (3,) center in the body frame [m].
        radius: radius [m].
        source: origin of center and radius, as text.
        guess: reason for which center or radius are assumed, as text; "" where they are read from the file.
    """

    link: Link
    offset: Array
    center: Array
    radius: float
    source: str
    guess: str = ""


def find_foot_sphere(body: CompositeBody) -> FootSphere:
    """Returns the contact sphere of a terminal body.

    A link fixed to the body, far from its joint, is the foot, and its collision shape gives the radius.  Without such a
    link the foot is the end of the collision (else visual) shapes of the body; without any shape, it is a point twice
    as far from the joint as the center of mass.  Frames or equal spheres at the corners of a sole mean the middle of
    the sole.  The sphere of a wheel is centered on its axle, in its own plane.
    """
    if is_wheel(body):
        return _foot_sphere_of_wheel(body)
    link, pose = _farthest_link(body)
    extent = _body_extent(body)
    frames = [(x, p) for x, p in body.links[1:] if x.inertial is None and not (x.collisions or x.visuals)]
    middle = _sole_middle([p.translation for _, p in frames]) if any(link is x for x, _ in frames) else None
    if middle is not None:
        first, where = body.links[0][0], ", ".join(x.name for x, _ in frames)
        return FootSphere(first, middle, middle, 0.0, f"middle of the frames {where}, {first.where}")
    if link is not body.links[0][0] and np.linalg.norm(pose.translation) >= MIN_FOOT_LINK_FRACTION * extent:
        return foot_sphere_on_link(body, link)
    return _foot_sphere_at_end(body, extent)


def foot_sphere_on_link(body: CompositeBody, link: Link) -> FootSphere:
    """Returns the contact sphere of a foot `link` of `body`."""
    pose = next(p for candidate, p in body.links if candidate is link)
    away = _unit_vector(pose.rotation.T @ pose.translation)
    for kind, geometries in (("collision", link.collisions), ("visual", link.visuals)):
        spheres = [g for g in geometries if isinstance(g.shape, SphereShape)]
        if spheres:
            lowest = max(spheres, key=lambda g: _reach_order(g.placement.translation, g.shape.radius, away))  # type: ignore[union-attr]
            offset, radius = lowest.placement.translation, lowest.shape.radius  # type: ignore[union-attr]
            equal = [g.placement.translation for g in spheres if g.shape.radius == radius]  # type: ignore[union-attr]
            middle = _sole_middle(equal, pose)
            if middle is not None:
                return FootSphere(link, middle, pose.apply(middle), radius, f"middle of {kind} spheres, {link.where}")
            return FootSphere(link, offset, pose.apply(offset), radius, f"{kind} sphere, {lowest.where}")
        depth = max((_support_distance(g, away) for g in geometries), default=-np.inf)
        if 0.0 < depth < np.inf:
            # The round end of a foot has about the radius by which the shape goes on beyond the foot's origin.
            return FootSphere(
                link, np.zeros(3), pose.translation, depth, f"depth of the {kind} shape along the leg, {link.where}"
            )
    if not (link.collisions or link.visuals):
        return _foot_sphere_around_frame(body, link, pose)
    unread = _describe_unread_mesh((*link.collisions, *link.visuals))
    guess = f"{unread}, so that the radius is assumed to be 0" if unread else ""
    return FootSphere(
        link, np.zeros(3), pose.translation, 0.0, f"a point: no shape gives a radius, {link.where}", guess
    )


def _foot_sphere_around_frame(body: CompositeBody, link: Link, pose: Pose) -> FootSphere:
    """Returns the contact sphere at a frame without shapes, such as a site of an MJCF, from the shapes of its body.

    A sphere about the frame is the foot.  Otherwise the radius is the depth of the shapes beyond the frame along the
    leg; if they extend so far that the frame is not at the end of the leg, the foot is a point, with a warning.
    """
    distance = float(np.linalg.norm(pose.translation))
    away = _unit_vector(pose.translation)
    shapes = list(_placed_shapes(body)) if distance >= MIN_FOOT_LINK_FRACTION * _body_extent(body) else []
    for placement, g in shapes:
        offset = pose.inverse().apply(placement.translation)
        if isinstance(g.shape, SphereShape) and np.linalg.norm(offset) <= MAX_CENTER_OFFSET * g.shape.radius:
            source = f"sphere about the frame, {g.where}"
            return FootSphere(link, frozen(offset), frozen(placement.translation), g.shape.radius, source)
    depth = max((_depth_beyond(g.shape, placement, pose.translation, away) for placement, g in shapes), default=0.0)
    if MIN_DEPTH_FRACTION * distance < depth <= MAX_DEPTH_FRACTION * distance:
        source = f"depth of the body's shapes beyond the frame, along the leg, {link.where}"
        return FootSphere(link, np.zeros(3), pose.translation, depth, source)
    guess = _describe_unread_mesh([g for x, _ in body.links for g in x.collisions])
    if depth > MAX_DEPTH_FRACTION * distance:
        guess = f"the shapes of the body extend {depth:.3g} m beyond the frame of the foot"
    guess = f"{guess}, so that the radius is assumed to be 0" if guess else ""
    return FootSphere(
        link, np.zeros(3), pose.translation, 0.0, f"a point: no shape gives a radius, {link.where}", guess
    )


def _depth_beyond(shape: Shape, placement: Pose, point: Array, away: Array) -> float:
    """Returns how far a shape extends beyond a point along the leg, within a cone [m]; 0 if it does not."""
    d = placement.rotation.T @ away
    if isinstance(shape, MeshShape):
        vertices = _mesh_vertices(shape)
        ends = np.zeros((0, 3)) if vertices is None else vertices
    elif isinstance(shape, BoxShape):
        ends = np.array([0.5 * np.array(shape.size) * _signs(d)])
    elif isinstance(shape, SphereShape):
        ends = np.array([shape.radius * d])
    else:
        end = np.array([0.0, 0.0, 0.5 * shape.length]) * _signs(d)
        across = np.array([d[0], d[1], 0.0]) if isinstance(shape, CylinderShape) else d
        ends = np.array([end + shape.radius * across / max(float(np.linalg.norm(across)), FILE_ANGLE_TOLERANCE)])
    beyond = ends @ placement.rotation.T + placement.translation - point
    along = beyond @ away
    is_below = np.linalg.norm(beyond - np.outer(along, away), axis=1) <= MAX_DEPTH_SLOPE * along
    return float(along[is_below].max(initial=0.0))


def _signs(direction: Array) -> Array:
    """Returns the signs of the entries of a unit vector; 0 for those near 0."""
    return np.where(np.abs(direction) > FILE_ANGLE_TOLERANCE, np.sign(direction), 0.0)


def _sole_middle(points: Sequence[Array], pose: Pose | None = None) -> Array | None:
    """Returns the middle (3,) of points at the corners of a sole, at an angle to the leg; None if they are not.

    Args:
        points: (3,) positions in a link [m].
        pose: placement of the link in the body frame, whose origin is the last joint.  None: the identity.
    """
    if len(points) < 3:
        return None
    middle = np.mean(points, axis=0)
    _, sizes, axes = np.linalg.svd(np.array(points) - middle)
    if not (sizes[1] > MIN_SOLE_WIDTH * sizes[0] > 0.0 and sizes[2] < MAX_SOLE_THICKNESS * sizes[0]):
        return None
    away = middle if pose is None else pose.rotation.T @ pose.apply(middle)
    return frozen(middle) if abs(float(axes[2] @ _unit_vector(away))) > MIN_SOLE_COSINE else None


def turns_freely(joint: Joint) -> bool:
    """Returns whether a joint is continuous, or revolute with limits that are several turns apart."""
    span = joint.limits.upper - joint.limits.lower
    return joint.type == "continuous" or (joint.type == "revolute" and MIN_WHEEL_RANGE < span < np.inf)


def is_wheel(body: CompositeBody) -> bool:
    """Returns whether a body rotates freely about an axis through its center of mass, as wheels do."""
    return body.joint is not None and turns_freely(body.joint) and is_balanced(body, WHEEL_BALANCE)


def is_balanced(body: CompositeBody, tolerance: float) -> bool:
    """Returns whether a body is balanced on the axis of its revolute joint, as rotors and wheels are.

    Args:
        body: the body.
        tolerance: square of the distance of the center of mass from the axis at most, as a fraction of the inertia per
            mass.  An inertia larger than the shapes of the body can have counts as that of its shapes.
    """
    joint, inertial = body.joint, body.inertial
    if joint is None or joint.type not in ("revolute", "continuous") or inertial.mass <= 0.0:
        return False
    off = float(np.linalg.norm(np.cross(joint.axis, inertial.com))) ** 2
    if off > tolerance * float(np.trace(inertial.inertia)) / inertial.mass:
        return False
    return off <= tolerance * _max_inertia_per_mass(body, joint.axis)


def _max_inertia_per_mass(body: CompositeBody, axis: Array) -> float:
    """Returns the largest trace of the inertia per mass [m^2] that fits into the shapes of a body; inf if unknown."""
    spans = [
        _extent_about_axis(geometry.shape, pose @ geometry.placement, axis)
        for link, pose in body.links
        for geometry in (*link.collisions, *link.visuals)
    ]
    if not spans or None in spans:
        return np.inf
    along = max(high for _, high, _ in spans) - min(low for low, _, _ in spans)  # type: ignore[misc]
    return 2.0 * (max(away for _, _, away in spans) ** 2 + (0.5 * along) ** 2)  # type: ignore[misc]


def _foot_sphere_of_wheel(body: CompositeBody) -> FootSphere:
    """Returns the contact sphere of a wheel, around the middle of its shapes on its axis or its center of mass."""
    assert body.joint is not None
    axis, link = body.joint.axis, body.links[0][0]
    for kind in ("collision", "visual"):
        found: list[tuple[float, float, Link, Pose]] = []  # radius, middle on the axis, and whose shape it is
        for owner, pose in body.links:
            for geometry in getattr(owner, f"{kind}s"):
                span = _extent_about_axis(geometry.shape, pose @ geometry.placement, axis)
                if span is not None and span[2] > 0.0:
                    found.append((span[2], 0.5 * (span[0] + span[1]), owner, pose))
        if found:
            radius, middle, owner, pose = found[first_largest([each[0] for each in found])]
            center, source = middle * axis, f"radius of the wheel's {kind} shape, {owner.where}"
            return FootSphere(owner, frozen(pose.inverse().apply(center)), frozen(center), radius, source)
    center = float(axis @ body.inertial.com) * axis
    radius = float(np.sqrt(2.0 * (axis @ body.inertial.inertia @ axis) / body.inertial.mass))
    unread = _describe_unread_mesh([g for x, _ in body.links for g in (*x.collisions, *x.visuals)])
    guess = (
        f"{unread or 'no shape gives the radius of the wheel'}, so that the radius is assumed to be {radius:.3g} m, "
        "that of a disc with the inertia of the wheel, around its center of mass"
    )
    return FootSphere(
        link, frozen(center), frozen(center), radius, f"a disc of the wheel's inertia, {link.where}", guess
    )


def _extent_about_axis(shape: Shape, pose: Pose, axis: Array) -> tuple[float, float, float] | None:
    """Returns the extent of a shape along an axis through the origin (from, to), and its distance from the axis [m]."""
    points = _outer_points(shape)
    if points is None:
        return None
    placed = points @ pose.rotation.T + pose.translation
    along = placed @ axis
    round_about = 0.0
    if (
        isinstance(shape, CylinderShape | CapsuleShape)
        and abs(float(pose.rotation[:, 2] @ axis)) > 1.0 - FILE_ANGLE_TOLERANCE
    ):
        round_about = float(np.linalg.norm(np.cross(axis, pose.translation))) + shape.radius
    if isinstance(shape, SphereShape):
        round_about = float(np.linalg.norm(np.cross(axis, pose.translation))) + shape.radius
    if isinstance(shape, BoxShape):  # a tyre is round: the box around it is twice its radius wide
        size = np.array(shape.size)
        across = [k for k in range(3) if abs(float(pose.rotation[:, k] @ axis)) < 0.5]
        round_about = float(np.linalg.norm(np.cross(axis, pose.translation))) + 0.5 * float(size[across].max())
    distance = round_about or float(np.linalg.norm(np.cross(axis, placed), axis=1).max())
    return float(along.min()), float(along.max()), distance


def _outer_points(shape: Shape) -> Array | None:
    """Returns points (n, 3) that bound a shape in its own frame; None for a mesh that is not read."""
    if isinstance(shape, MeshShape):
        return _mesh_vertices(shape)
    if isinstance(shape, SphereShape):
        half = np.full(3, shape.radius)
    elif isinstance(shape, BoxShape):
        half = 0.5 * np.array(shape.size)
    else:
        end = shape.radius if isinstance(shape, CapsuleShape) else 0.0
        half = np.array([shape.radius, shape.radius, 0.5 * shape.length + end])
    return np.asarray(half * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]))


def _describe_unread_mesh(geometries: Iterable[Geometry]) -> str:
    """Returns the mesh without vertices, and the reason, as text; "" if all meshes are read."""
    for geometry in geometries:
        shape = geometry.shape
        if isinstance(shape, MeshShape) and _mesh_vertices(shape) is None:
            if shape.path is None:
                return f"mesh {shape.uri!r} is not found"
            return (
                f"mesh {shape.uri!r} is not read (only .stl and .obj files of up to {MAX_FOOT_MESH_BYTES} bytes "
                "are read)"
            )
    return ""


def _farthest_link(body: CompositeBody) -> tuple[Link, Pose]:
    """Returns the link farthest from the joint; among several, one with a collision shape, then the first.

    A frame on the surface of a foot, such as a contact point, counts as at the position of the foot.
    """
    reach = max(float(np.linalg.norm(pose.translation)) for _, pose in body.links)
    there = [(x, pose) for x, pose in body.links if np.linalg.norm(pose.translation) > 0.97 * reach - 1e-9]
    solid = [(x, pose) for x, pose in there if x.collisions]
    if not solid:
        solid = [
            (x, pose) for x, pose in body.links[1:] if x.collisions and _extent_toward_origin(x, pose) > 0.97 * reach
        ]
    return solid[first_largest([np.linalg.norm(pose.translation) for _, pose in solid])] if solid else there[0]


def _extent_toward_origin(link: Link, pose: Pose) -> float:
    """Returns how far collision shapes extend from the joint toward the link's origin [m]; 0 if both coincide."""
    distance = float(np.linalg.norm(pose.translation))
    if distance == 0.0:
        return 0.0
    away = pose.rotation.T @ pose.translation / distance
    return distance + max(_support_distance(g, away) for g in link.collisions)


def _placed_shapes(body: CompositeBody) -> Iterator[tuple[Pose, Geometry]]:
    """Yields the collision shapes of a body, or its visual shapes if it has none, with their placements."""
    for kind in ("collisions", "visuals"):
        found = [(pose @ g.placement, g) for link, pose in body.links for g in getattr(link, kind)]
        if found:
            yield from found
            return


def _body_extent(body: CompositeBody) -> float:
    """Returns the distance from the joint to the farthest link, or to the center of the farthest shape [m]."""
    distances = [float(np.linalg.norm(pose.translation)) for _, pose in body.links]
    distances += [float(np.linalg.norm(pose.translation)) for pose, _ in _placed_shapes(body)]
    return max(distances)


def _foot_sphere_at_end(body: CompositeBody, extent: float) -> FootSphere:
    """Returns the contact sphere at the end of a body's own shapes."""
    link = body.links[0][0]
    shapes = [(pose, g) for pose, g in _placed_shapes(body)]
    spheres = [(pose, g.shape) for pose, g in shapes if isinstance(g.shape, SphereShape)]
    if spheres:
        pose, sphere = max(
            spheres, key=lambda s: _reach_order(s[0].translation, s[1].radius, _unit_vector(s[0].translation))
        )
        equal = [p.translation for p, other in spheres if other.radius == sphere.radius]
        middle = _sole_middle(equal)
        if middle is not None:
            return FootSphere(
                link, middle, middle, sphere.radius, f"middle of the spheres of the last link, {link.where}"
            )
        if np.linalg.norm(pose.translation) >= MIN_FOOT_LINK_FRACTION * extent:
            return FootSphere(
                link, pose.translation, pose.translation, sphere.radius, f"sphere of the last link, {link.where}"
            )
    away = _unit_vector(body.inertial.com)
    ends = [(end, radius) for pose, g in shapes for end, radius in _end_spheres(g.shape, pose, away)]
    if ends:
        end, radius = max(ends, key=lambda e: _reach_order(e[0], e[1], away))
        return FootSphere(link, end, end, radius, f"end of the last link's shape, {link.where}")
    end = 2.0 * np.asarray(body.inertial.com)
    source = f"twice the distance to the last link's center of mass, {link.where}"
    why = _describe_unread_mesh([g for _, g in shapes]) or "no shape gives the end of the last link"
    return FootSphere(
        link,
        end,
        end,
        0.0,
        source,
        f"{why}, so that the foot is assumed to be a point twice as far away as the center of mass",
    )


def _end_spheres(shape: Shape, pose: Pose, away: Array) -> Iterator[tuple[Array, float]]:
    """Yields candidate contact spheres (center, radius) at the far end of a shape."""
    if isinstance(shape, SphereShape):
        yield pose.translation, shape.radius
    elif isinstance(shape, CylinderShape | CapsuleShape):
        axis = pose.rotation[:, 2]
        half = 0.5 * shape.length - (shape.radius if isinstance(shape, CylinderShape) else 0.0)
        yield pose.translation + _end_sign(axis, away) * max(half, 0.0) * axis, shape.radius
    elif isinstance(shape, BoxShape):
        size = np.array(shape.size)
        long, upright = int(np.argmax(size)), int(np.argmax(np.abs(pose.rotation.T @ away)))
        axis = pose.rotation[:, long]
        if upright != long:  # a plate across the end of a leg is a foot, which stands on the middle of its sole
            yield pose.translation, 0.5 * float(size[upright])
            return
        radius = 0.5 * float(np.sort(size)[1])
        yield pose.translation + _end_sign(axis, away) * max(0.5 * size[long] - radius, 0.0) * axis, radius
    else:
        points = _mesh_vertices(shape)
        if points is not None:
            corners = np.unique(points, axis=0)  # files repeat a vertex for each of its triangles
            placed = corners @ pose.rotation.T + pose.translation
            along = placed @ away
            level = along >= along.max() - FARTHEST_VERTEX_TOLERANCE * float(np.ptp(placed, axis=0).max())
            yield placed[level].mean(axis=0), 0.0


def _end_sign(axis: Array, away: Array) -> float:
    """Returns the sign of the end of a shape's axis that is farther along the leg; 0 for a perpendicular axis.

    Args:
        axis: (3,) unit axis of the shape.
        away: (3,) unit vector along the leg, toward its end.
    """
    along = float(axis @ away)
    return 0.0 if abs(along) < FILE_ANGLE_TOLERANCE else 1.0 if along > 0.0 else -1.0


def _reach_order(center: Array, radius: float, away: Array) -> tuple[float, ...]:
    """Returns the sorting key of spheres by reach along the leg, independent of their order in the file."""
    center_in_link = np.round(center, LENGTH_DECIMALS).tolist()
    return (round(float(center @ away) + radius, LENGTH_DECIMALS), radius, *center_in_link)


def _support_distance(geometry: Geometry, direction: Array) -> float:
    """Returns the extent of a shape along `direction` from the link's origin [m]; -inf if unknown."""
    shape, pose = geometry.shape, geometry.placement
    center, d = float(pose.translation @ direction), pose.rotation.T @ direction
    if isinstance(shape, SphereShape):
        return center + shape.radius
    if isinstance(shape, BoxShape):
        return center + 0.5 * float(np.abs(d) @ np.array(shape.size))
    if isinstance(shape, CylinderShape):
        return center + 0.5 * shape.length * abs(float(d[2])) + shape.radius * float(np.hypot(d[0], d[1]))
    if isinstance(shape, CapsuleShape):
        return center + 0.5 * shape.length * abs(float(d[2])) + shape.radius
    points = _mesh_vertices(shape)
    return -np.inf if points is None else float((points @ pose.rotation.T + pose.translation).dot(direction).max())


def _mesh_vertices(mesh: MeshShape) -> Array | None:
    """Returns the scaled vertices (n, 3) of a mesh; None if it is missing, too large or unreadable."""
    if mesh.path is None or mesh.path.stat().st_size > MAX_FOOT_MESH_BYTES:
        return None
    points = read_vertices(mesh.path)
    return None if points is None else points * np.array(mesh.scale)


def _unit_vector(v: Array) -> Array:
    """Returns a vector divided by its norm; -z for a vector near zero."""
    norm = float(np.linalg.norm(v))
    return v / norm if norm > 1e-12 else np.array([0.0, 0.0, -1.0])
