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

_DEFAULT_MATERIAL = Material((0.72, 0.74, 0.78, 1.0))
_STICK_MATERIAL = Material((0.25, 0.45, 0.75, 1.0))
_MISSING_MATERIAL = Material((0.95, 0.1, 0.75, 1.0))
_REFERENCE_MATERIAL = Material((0.25, 0.50, 0.95, 0.30))


@renamed_fields(instead="substitute")
@dataclass(frozen=True, slots=True)
class MissingMesh:
    """Mesh that could not be drawn, and the shapes that are drawn instead.

    Attributes:
        link: name of the link.
        uri: name of the mesh in the robot file.
        reason: reason for which the mesh could not be drawn.
        substitute: description of the shapes that are drawn instead.
    """

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
        self._added_meshes: list[tuple[int, int, Pose, tuple[float, ...]]] = []
        self._first_reference_slot: int | None = None
        model = robot.model
        frames = [model.frames[model.getFrameId(b.name, pin.FrameType.BODY)] for b in robot.bodies]
        self.joints = [int(f.parentJoint) for f in frames]
        self._placements_in_joint = [Pose.of(f.placement.rotation, f.placement.translation) for f in frames]
        self.low, self.high = self._compute_bounds()
        self.size = max(float((self.high - self.low).max()), 0.1)
        links = robot.tree.links
        with_visuals, with_collisions = any(x.visuals for x in links), any(x.collisions for x in links)
        first = len(scene.slots)
        for index, (body, placement_in_joint) in enumerate(zip(robot.bodies, self._placements_in_joint, strict=True)):
            slot = scene.add_slot("Robot", body.name)
            if not meshes or not (with_visuals or with_collisions):
                self._add_sticks(slot, index, body, placement_in_joint)
                continue
            for link, placement in body.links:
                for geometry in link.visuals if with_visuals else link.collisions:
                    self._add_link_shape(slot, link, geometry, placement_in_joint @ placement)
        self.slots = (first, len(scene.slots))

    def _compute_bounds(self) -> tuple[Array, Array]:
        """Returns the corners of the bounding box in `q_home`."""
        data = self.robot.model.createData()
        self.robot.algorithms.framesForwardKinematics(self.robot.model, data, np.array(self.robot.q_home))
        points = [data.oMf[self.robot.frame_id(name)].translation for name in self.robot.feet]
        for body, joint, placement_in_joint in zip(
            self.robot.bodies, self.joints, self._placements_in_joint, strict=True
        ):
            ends = np.array([placement_in_joint.translation, placement_in_joint.apply(body.inertial.com)])
            points.extend(ends @ data.oMi[joint].rotation.T + data.oMi[joint].translation)
        return np.min(points, axis=0), np.max(points, axis=0)

    def add_reference_robot(self) -> int:
        """Adds the same robot as a transparent one on first use; returns the number of its first slot."""
        if self._first_reference_slot is None:
            self._first_reference_slot = len(self.scene.slots)
            for body in self.robot.bodies:
                self.scene.add_slot("Ghost", body.name)
            material = self.scene.add_material(_REFERENCE_MATERIAL, glow=True)
            for slot, geometry, placement, scale in self._added_meshes:
                self.scene.add_mesh(
                    slot - self.slots[0] + self._first_reference_slot, geometry, material, placement, scale
                )
        return self._first_reference_slot

    def _add_mesh(
        self, slot: int, geometry: int, material: int, placement: Pose, scale: tuple[float, ...] = (1, 1, 1)
    ) -> None:
        """Adds a geometry to a slot and stores it for `add_reference_robot`."""
        self._added_meshes.append((slot, geometry, placement, scale))
        self.scene.add_mesh(slot, geometry, material, placement, scale)

    def _add_link_shape(self, slot: int, link: Link, geometry: Geometry, placement: Pose) -> None:
        """Adds a shape of a link to a slot, or a substitute if its mesh cannot be read."""
        shape = geometry.shape
        try:
            self._add_shape(slot, shape, geometry.rgba, placement @ geometry.placement)
        except MeshError as error:
            assert isinstance(shape, MeshShape)
            substitute = self._add_substitute(slot, link, placement, geometry)
            self.missing_meshes.append(MissingMesh(link.name, shape.uri, str(error), substitute))

    def _add_substitute(self, slot: int, link: Link, placement: Pose, failed: Geometry) -> str:
        """Draws the collision shapes of a link whose visual mesh cannot be read, or a box; returns which of them."""
        n_drawn = 0
        for other in link.collisions:
            if other is failed:
                continue
            try:
                self._add_shape(slot, other.shape, _MISSING_MATERIAL.color, placement @ other.placement)
                n_drawn += 1
            except MeshError:
                continue
        if n_drawn:
            return "its collision shapes"
        marker = self.scene.add_geometry("missing", shapes.make_box((1, 1, 1)))
        side = 0.05 * self.size
        self._add_mesh(
            slot, marker, self.scene.add_material(_MISSING_MATERIAL), placement @ failed.placement, (side, side, side)
        )
        return "a small box"

    def _add_shape(self, slot: int, shape: Shape, rgba: tuple[float, ...] | None, placement: Pose) -> None:
        """Adds all parts of a shape to a slot, in its own color or a default one."""
        default_material = _DEFAULT_MATERIAL if rgba is None else Material((rgba[0], rgba[1], rgba[2], rgba[3]))
        scale = shape.scale if isinstance(shape, MeshShape) else (1.0, 1.0, 1.0)
        for number, part in enumerate(self._read_shape(shape)):
            key = (str(shape.path), number) if isinstance(shape, MeshShape) else shape
            # A material inside the mesh file takes precedence, as in RViz, since many URDFs specify white for all
            # meshes.
            material = self.scene.add_material(part.material or default_material)
            self._add_mesh(slot, self.scene.add_geometry(key, part), material, placement, scale)

    def _read_shape(self, shape: Shape) -> tuple[Part, ...]:
        """Returns the parts of a shape; mesh files are read once."""
        match shape:
            case SphereShape(radius):
                return (shapes.make_sphere(radius),)
            case BoxShape(size):
                return (shapes.make_box(size),)
            case CylinderShape(radius, length):
                return (shapes.make_cylinder(radius, length),)
            case CapsuleShape(radius, length):
                return (shapes.make_capsule(radius, length),)
            case MeshShape(uri, path, _, root):
                if path is None:
                    raise MeshError("the file is not in the package roots")
                if uri not in self._parts:
                    try:
                        self._parts[uri] = read_mesh(path, root)
                    except MeshError as error:
                        self._parts[uri] = error
                parts = self._parts[uri]
                if isinstance(parts, MeshError):
                    raise parts
                return parts

    def _add_sticks(self, slot: int, index: int, body: CompositeBody, placement_in_joint: Pose) -> None:
        """Draws lines from the body's joint to the next joints and to its foot, and a ball at the joint."""
        r = 0.02 * self.size
        material = self.scene.add_material(_STICK_MATERIAL)
        self._add_mesh(
            slot, self.scene.add_geometry("ball", shapes.make_sphere(1.0)), material, placement_in_joint, (1.6 * r,) * 3
        )
        ends = [b.placement.translation for b in self.robot.bodies if b.parent == index]
        for leg in self.robot.legs.values():
            foot = self.robot.model.frames[self.robot.frame_id(leg.foot.name)]
            if foot.parentJoint == self.joints[index]:
                ends.append(placement_in_joint.inverse().apply(foot.placement.translation))
        stick = self.scene.add_geometry("stick", shapes.make_line(1.0))
        for end in _select_far_points(ends, r):
            length = float(np.linalg.norm(end))
            self._add_mesh(
                slot, stick, material, placement_in_joint @ Pose.of(rotation_from_z(end), np.zeros(3)), (r, r, length)
            )


def _select_far_points(points: Iterable[Array], distance: float) -> list[Array]:
    """Returns the points farther than `distance` from the origin."""
    return [p for p in points if np.linalg.norm(p) > distance]


def rotation_from_z(direction: Array) -> Array:
    """Returns a rotation (3, 3) that maps z to `direction`, which must not be zero."""
    x, y, z, w = quaternion_from_z(direction)
    return np.asarray(pin.Quaternion(w, x, y, z).toRotationMatrix())


def quaternion_from_z(direction: Array) -> tuple[float, float, float, float]:
    """Returns the shortest rotation from +z to `direction` as a quaternion (x, y, z, w); for -z a half turn about x."""
    x, y, z = (float(c) for c in direction)
    n = (x * x + y * y + z * z) ** 0.5
    w = n + z
    if w <= 1e-12 * n:
        return 1.0, 0.0, 0.0, 0.0
    length = (x * x + y * y + w * w) ** 0.5
    return -y / length, x / length, 0.0, w / length
