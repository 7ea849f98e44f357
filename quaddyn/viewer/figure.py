"""`Figure`: links of a robot as slots of a scene, from visual shapes, else collision shapes, else lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from ..deprecation import renamed_fields
from ..robot.bodies import CompositeBody
from ..robot.robot import Robot
from ..urdf.tree import (
    Array,
    BoxShape,
    CapsuleShape,
    CylinderShape,
    Geometry,
    Link,
    MeshShape,
    Pose,
    Shape,
    SphereShape,
)
from . import shapes
from .mesh import read_mesh
from .parts import Material, MeshError, Part
from .scene import Scene

_GREY = Material((0.72, 0.74, 0.78, 1.0))
_STICK = Material((0.25, 0.45, 0.75, 1.0))
_MISSING = Material((0.95, 0.1, 0.75, 1.0))
_GHOST = Material((0.25, 0.50, 0.95, 0.30))


@renamed_fields(instead="substitute")
@dataclass(frozen=True, slots=True)
class MissingMesh:
    """Mesh that could not be drawn: its `link`, `uri` in the file and `reason`; `substitute` is drawn."""

    link: str
    uri: str
    reason: str
    substitute: str

    def __str__(self) -> str:
        return f"link {self.link!r}: mesh {self.uri!r}: {self.reason}; drawn instead: {self.substitute}"


class Figure:
    """Links of a robot in a scene.

    Attributes:
        slots: number of the first slot and of the one after the last; one slot per body, in order.
        joints: (n,) index of the Pinocchio joint that carries each body.
        low, high: (3,) corners of the bounding box of all joints, feet and centers of mass in `q_home` [m].
        size: its largest side, at least 0.1 [m].
        missing_meshes: meshes that could not be drawn.
    """

    def __init__(self, scene: Scene, robot: Robot, *, meshes: bool) -> None:
        self.robot, self.scene = robot, scene
        self.missing_meshes: list[MissingMesh] = []
        self._parts: dict[str, tuple[Part, ...] | MeshError] = {}
        self._put: list[tuple[int, int, Pose, tuple[float, ...]]] = []
        self._ghost: int | None = None
        model = robot.model
        frames = [model.frames[model.getFrameId(b.name, pin.FrameType.BODY)] for b in robot.bodies]
        self.joints = [int(f.parentJoint) for f in frames]
        self._inside = [Pose.of(f.placement.rotation, f.placement.translation) for f in frames]
        self.low, self.high = self._extent()
        self.size = max(float((self.high - self.low).max()), 0.1)
        links = robot.tree.links
        with_visuals, with_collisions = any(x.visuals for x in links), any(x.collisions for x in links)
        first = len(scene.slots)
        for index, (body, inside) in enumerate(zip(robot.bodies, self._inside, strict=True)):
            slot = scene.slot("Robot", body.name)
            if not meshes or not (with_visuals or with_collisions):
                self._sticks(slot, index, body, inside)
                continue
            for link, placement in body.links:
                for geometry in link.visuals if with_visuals else link.collisions:
                    self._draw(slot, link, geometry, inside @ placement)
        self.slots = (first, len(scene.slots))

    def _extent(self) -> tuple[Array, Array]:
        """Returns the corners of the bounding box in `q_home`."""
        data = self.robot.model.createData()
        self.robot.algorithms.framesForwardKinematics(self.robot.model, data, np.array(self.robot.q_home))
        points = [data.oMf[self.robot.frame_id(name)].translation for name in self.robot.feet]
        for body, joint, inside in zip(self.robot.bodies, self.joints, self._inside, strict=True):
            ends = np.array([inside.translation, inside.apply(body.inertial.com)])
            points.extend(ends @ data.oMi[joint].rotation.T + data.oMi[joint].translation)
        return np.min(points, axis=0), np.max(points, axis=0)

    def ghost(self) -> int:
        """Adds the same robot as a transparent one on first use; returns the number of its first slot."""
        if self._ghost is None:
            self._ghost = len(self.scene.slots)
            for body in self.robot.bodies:
                self.scene.slot("Ghost", body.name)
            material = self.scene.material(_GHOST, glow=True)
            for slot, geometry, placement, scale in self._put:
                self.scene.mesh(slot - self.slots[0] + self._ghost, geometry, material, placement, scale)
        return self._ghost

    def _mesh(
        self, slot: int, geometry: int, material: int, placement: Pose, scale: tuple[float, ...] = (1, 1, 1)
    ) -> None:
        """Adds a geometry to a slot and remembers it for `ghost`."""
        self._put.append((slot, geometry, placement, scale))
        self.scene.mesh(slot, geometry, material, placement, scale)

    def _draw(self, slot: int, link: Link, geometry: Geometry, place: Pose) -> None:
        """Adds a shape of a link to a slot, or a substitute if its mesh cannot be read."""
        shape = geometry.shape
        try:
            self._add(slot, shape, geometry.rgba, place @ geometry.placement)
        except MeshError as error:
            assert isinstance(shape, MeshShape)
            substitute = self._stand_in(slot, link, place, geometry)
            self.missing_meshes.append(MissingMesh(link.name, shape.uri, str(error), substitute))

    def _stand_in(self, slot: int, link: Link, place: Pose, failed: Geometry) -> str:
        """Draws the collision shapes of a link whose visual mesh cannot be read, or a box; returns what was drawn."""
        drawn = 0
        for other in link.collisions:
            if other is failed:
                continue
            try:
                self._add(slot, other.shape, _MISSING.color, place @ other.placement)
                drawn += 1
            except MeshError:
                continue
        if drawn:
            return "its collision shapes"
        marker = self.scene.geometry("missing", shapes.box((1, 1, 1)))
        side = 0.05 * self.size
        self._mesh(slot, marker, self.scene.material(_MISSING), place @ failed.placement, (side, side, side))
        return "a small box"

    def _add(self, slot: int, shape: Shape, rgba: tuple[float, ...] | None, placement: Pose) -> None:
        """Adds a shape to a slot."""
        own = _GREY if rgba is None else Material((rgba[0], rgba[1], rgba[2], rgba[3]))
        scale = shape.scale if isinstance(shape, MeshShape) else (1.0, 1.0, 1.0)
        for number, part in enumerate(self._read(shape)):
            key = (str(shape.path), number) if isinstance(shape, MeshShape) else shape
            # A material inside the mesh file takes precedence, as in RViz, since many URDFs specify white for all
            # meshes.
            material = self.scene.material(part.material or own)
            self._mesh(slot, self.scene.geometry(key, part), material, placement, scale)

    def _read(self, shape: Shape) -> tuple[Part, ...]:
        """Returns the parts of a shape; mesh files are read once."""
        match shape:
            case SphereShape(radius):
                return (shapes.sphere(radius),)
            case BoxShape(size):
                return (shapes.box(size),)
            case CylinderShape(radius, length):
                return (shapes.cylinder(radius, length),)
            case CapsuleShape(radius, length):
                return (shapes.capsule(radius, length),)
            case MeshShape(uri, path, _, root):
                if path is None:
                    raise MeshError("no such file in the package roots")
                if uri not in self._parts:
                    try:
                        self._parts[uri] = read_mesh(path, root)
                    except MeshError as error:
                        self._parts[uri] = error
                found = self._parts[uri]
                if isinstance(found, MeshError):
                    raise found
                return found

    def _sticks(self, slot: int, index: int, body: CompositeBody, inside: Pose) -> None:
        """Draws lines from the body's joint to the next joints and to its foot, and a ball at the joint."""
        r = 0.02 * self.size
        material = self.scene.material(_STICK)
        self._mesh(slot, self.scene.geometry("ball", shapes.sphere(1.0)), material, inside, (1.6 * r,) * 3)
        ends = [b.placement.translation for b in self.robot.bodies if b.parent == index]
        for leg in self.robot.legs.values():
            foot = self.robot.model.frames[self.robot.frame_id(leg.foot.name)]
            if foot.parentJoint == self.joints[index]:
                ends.append(inside.inverse().apply(foot.placement.translation))
        stick = self.scene.geometry("stick", shapes.line(1.0))
        for end in _far_enough(ends, r):
            length = float(np.linalg.norm(end))
            self._mesh(slot, stick, material, inside @ Pose.of(align_z(end), np.zeros(3)), (r, r, length))


def _far_enough(points: Iterable[Array], distance: float) -> list[Array]:
    """Returns the points farther than `distance` from the origin."""
    return [p for p in points if np.linalg.norm(p) > distance]


def align_z(direction: Array) -> Array:
    """Returns a rotation (3, 3) that maps z to `direction`, which must not be zero."""
    x, y, z, w = z_to(direction)
    return np.asarray(pin.Quaternion(w, x, y, z).toRotationMatrix())


def z_to(direction: Array) -> tuple[float, float, float, float]:
    """Returns the shortest rotation from z to `direction` as a quaternion (x, y, z, w); about x for -z."""
    x, y, z = (float(c) for c in direction)
    n = (x * x + y * y + z * z) ** 0.5
    w = n + z
    if w <= 1e-12 * n:
        return 1.0, 0.0, 0.0, 0.0
    length = (x * x + y * y + w * w) ** 0.5
    return -y / length, x / length, 0.0, w / length
