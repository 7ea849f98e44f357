"""`Figure`: links of a robot as slots of a scene, from visual shapes, else collision shapes, else lines.

A `Landscape` is a terrain as slots of a scene: boxes, stairs, slopes, walls and height fields.

Texts about the bodies of a robot for the page: mass, box of equal inertia and joint with its limits of each body, and
the active limits and deficits of tasks at the last tick of whole-body control.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from ..deprecation import renamed_fields
from ..locomotion import LocomotionCommand
from ..robot.arguments import check_type
from ..robot.bodies import CompositeBody
from ..robot.robot import Robot
from ..robot.validation import effective_effort_limits
from ..simulation.terrain import Box, Plane, Surface, Terrain
from ..urdf.tree import (
    Array,
    BoxShape,
    CapsuleShape,
    CylinderShape,
    Geometry,
    Inertial,
    Link,
    MeshShape,
    Pose,
    Shape,
    SphereShape,
)
from ..wbc import Command
from .mesh import Material, MeshError, Part, make_box, make_capsule, make_cylinder, make_line, make_sphere, read_mesh
from .scene import Scene

#: Index and text of each body.
BodyTexts = list[tuple[int, str]]
#: Smallest deficit that is listed, in the unit of the row.
MIN_DEFICIT = 1e-2
#: Largest number of lines of one body.
MAX_LINES_PER_BODY = 8


class BodyReports:
    """Active limits, and deficits of tasks, by body.

    Args:
        robot: robot of the commands.
        joints: index of the Pinocchio joint that carries each body.
    """

    def __init__(self, robot: Robot, joints: Sequence[int]) -> None:
        frames = {name: int(robot.model.frames[robot.frame_id(name)].parentJoint) for name in robot.frame_names}
        self._bodies = {name: joints.index(joint) for name, joint in frames.items() if joint in joints}

    def describe(self, command: Command | LocomotionCommand | None) -> BodyTexts | None:
        """Returns the report of a tick; rows that belong to no link or joint are those of the base.

        Args:
            command: command of the tick; None for none.

        Returns:
            Index and lines of text of each body with an active limit or a deficit; None without a command of
            whole-body control.

        Raises:
            ArgumentTypeError: not a command of whole-body control.
        """
        if isinstance(command, LocomotionCommand):
            command = command.wbc_command
        if command is None:
            return None
        check_type("command", command, Command, "a command of whole-body control or locomotion")
        lines: dict[int, list[str]] = {}
        for row, text in _find_rows(command):
            lines.setdefault(self._find_body(row), []).append(text)
        return [(body, "\n".join(texts[:MAX_LINES_PER_BODY])) for body, texts in sorted(lines.items())]

    def _find_body(self, row: str) -> int:
        """Returns the index of the body whose link, joint or foot a row is named after; 0 for none."""
        words = row.split(" ")
        for count in range(len(words), 0, -1):
            if (body := self._bodies.get(" ".join(words[:count]))) is not None:
                return body
        return 0


def _find_rows(command: Command) -> Iterator[tuple[str, str]]:
    """Yields name and text of each active or violated limit, and of each row with a deficit.

    The last of three or more levels is left out, which only determines the freedom that the others leave.
    """
    details = command.details
    for name in command.levels[0].active:
        yield name, f"{name}: active"
    levels = details.problem.levels
    for level, groups in enumerate(levels[: -1 if len(levels) > 2 else None]):
        for group in groups:
            y = group.A @ details.x
            deficits = np.maximum(group.lower - y, 0.0) + np.maximum(y - group.upper, 0.0)
            for row in np.flatnonzero(deficits > MIN_DEFICIT).tolist():
                kind = "short of its target" if group.is_equality[row] else "beyond the limit"
                yield group.names[row], f"{group.names[row]}: {deficits[row]:.2g} {group.unit} {kind} (level {level})"


def describe_body(
    robot: Robot, body: CompositeBody, placement: Pose, effort_limits: dict[str, float]
) -> dict[str, object]:
    """Returns the description of a body as JSON data.

    Args:
        robot: robot of the body.
        body: body to describe.
        placement: placement of the body in the frame of its slot.
        effort_limits: effective effort limit by joint [N m or N].

    Returns:
        Names of robot, body and links; mass [kg]; center of mass (3,) [m] and quaternion (x, y, z, w) of the principal
        axes in the frame of the slot; sides (3,) of the homogeneous box of equal mass and inertia [m]; the joint with
        its limits, where None stands for no limit, or None for the base.
    """
    axes, sides = inertia_box(body.inertial)
    return {
        "robot": robot.name,
        "name": body.name,
        "links": [link.name for link, _ in body.links[1:]],
        "mass": body.inertial.mass,
        "com": placement.apply(body.inertial.com).tolist(),
        "axes": pin.Quaternion(placement.rotation @ axes).coeffs().tolist(),
        "box": sides.tolist(),
        "joint": _describe_joint(robot, body, effort_limits),
    }


def _describe_joint(robot: Robot, body: CompositeBody, effort_limits: dict[str, float]) -> dict[str, object] | None:
    """Returns the description of the joint that moves a body; None for the base."""
    joint = body.joint
    if joint is None:
        return None
    limits = {name: getattr(joint.limits, name) for name in ("lower", "upper", "velocity")}
    return {
        "name": joint.name,
        "type": joint.type,
        "unit": "m" if joint.type == "prismatic" else "rad",
        **{name: value if np.isfinite(value) else None for name, value in limits.items()},
        "effort": effort_limits.get(joint.name),
        "actuated": joint.name in robot.actuated,
    }


def inertia_box(inertial: Inertial) -> tuple[Array, Array]:
    """Returns principal axes (3, 3) as columns, and sides (3,) of the homogeneous box of equal mass and inertia [m]."""
    moments, axes = np.linalg.eigh(inertial.inertia)
    if np.linalg.det(axes) < 0.0:
        axes[:, 0] *= -1.0
    second_moments = np.maximum(0.5 * moments.sum() - moments, 0.0)  # integral of x^2 dm along each axis
    return axes, np.sqrt(12.0 * second_moments / max(inertial.mass, 1e-12))


_DEFAULT_MATERIAL = Material((0.72, 0.74, 0.78, 1.0))
_STICK_MATERIAL = Material((0.25, 0.45, 0.75, 1.0))
_MISSING_MATERIAL = Material((0.95, 0.1, 0.75, 1.0))
#: Material of a reference configuration.
REFERENCE_MATERIAL = Material((0.25, 0.50, 0.95, 0.30))
_COLLISION_MATERIAL = Material((0.95, 0.55, 0.10, 0.45))


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

    Args:
        scene: scene to which the links are added.
        robot: robot that is drawn.
        meshes: whether to draw the shapes of the file instead of joints and lines between them.
        kind: kind of the slots, an entry of the legend of the page.
        material: material of all links; None for those of the file.
        parts: parts of the mesh files read so far, by path, to which those of this robot are added; None for none.

    Attributes:
        robot: robot that is drawn.
        slots: number of the first slot and of the one after the last; one slot per body, in order.
        joints: (n,) index of the Pinocchio joint that carries each body.
        low, high: (3,) corners of the bounding box of all joints, feet and centers of mass in `q_home` [m].
        size: its largest side, at least 0.1 [m].
        missing_meshes: meshes that could not be drawn.
    """

    def __init__(
        self,
        scene: Scene,
        robot: Robot,
        *,
        meshes: bool,
        kind: str = "Robot",
        material: Material | None = None,
        parts: dict[str, tuple[Part, ...] | MeshError] | None = None,
    ) -> None:
        self.robot, self.scene = robot, scene
        self.missing_meshes: list[MissingMesh] = []
        self._parts = {} if parts is None else parts
        self._material, self._with_meshes = material, meshes
        model = robot.model
        frames = [model.frames[model.getFrameId(b.name, pin.FrameType.BODY)] for b in robot.bodies]
        self.joints = [int(f.parentJoint) for f in frames]
        self._placements_in_joint = [Pose.of(f.placement.rotation, f.placement.translation) for f in frames]
        self.low, self.high = self._compute_bounds()
        self.size = max(float((self.high - self.low).max()), 0.1)
        links = robot.tree.links
        with_visuals, with_collisions = any(x.visuals for x in links), any(x.collisions for x in links)
        first, effort_limits = len(scene.slots), effective_effort_limits(robot)
        for index, (body, placement_in_joint) in enumerate(zip(robot.bodies, self._placements_in_joint, strict=True)):
            slot = scene.add_slot(kind, body.name)
            if material is None or material.color[3] == 1.0:  # a ghost is not a body that could be selected
                scene.add_body(slot, describe_body(robot, body, placement_in_joint, effort_limits))
            if not meshes or not (with_visuals or with_collisions):
                self._add_sticks(slot, index, body, placement_in_joint)
                continue
            for link, placement in body.links:
                for geometry in link.visuals if with_visuals else link.collisions:
                    self._add_link_shape(slot, link, geometry, placement_in_joint @ placement)
                for geometry in link.collisions if with_visuals and material is None else ():
                    self._add_collision_shape(slot, geometry, placement_in_joint @ placement @ geometry.placement)
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

    def add_figure(self, robot: Robot, kind: str, material: Material | None) -> Figure:
        """Adds a further robot to the scene, drawn in the same way; see the arguments of the class."""
        return Figure(self.scene, robot, meshes=self._with_meshes, kind=kind, material=material, parts=self._parts)

    def _add_mesh(
        self, slot: int, geometry: int, material: Material, placement: Pose, scale: tuple[float, ...] = (1, 1, 1)
    ) -> None:
        """Adds a geometry to a slot, with its material or that of all links."""
        used = self._material or material
        number = self.scene.add_material(used, glow=used.color[3] < 1.0 and used is self._material)
        self.scene.add_mesh(slot, geometry, number, placement, scale)

    def _add_collision_shape(self, slot: int, geometry: Geometry, placement: Pose) -> None:
        """Adds a collision shape, which the page shows on demand, to a slot; a mesh that cannot be read is left out."""
        with contextlib.suppress(MeshError):
            material = self.scene.add_material(_COLLISION_MATERIAL, glow=True)
            for number, scale, _ in self._add_geometries(geometry.shape):
                self.scene.add_mesh(slot, number, material, placement, scale, collision=True)

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
        marker = self.scene.add_geometry("missing", make_box((1, 1, 1)))
        self._add_mesh(slot, marker, _MISSING_MATERIAL, placement @ failed.placement, (0.05 * self.size,) * 3)
        return "a small box"

    def _add_shape(self, slot: int, shape: Shape, rgba: tuple[float, ...] | None, placement: Pose) -> None:
        """Adds all parts of a shape to a slot, in its own color or a default one."""
        default_material = _DEFAULT_MATERIAL if rgba is None else Material((rgba[0], rgba[1], rgba[2], rgba[3]))
        # A material inside the mesh file takes precedence, as in RViz, since many URDFs specify white for all meshes.
        for number, scale, material in self._add_geometries(shape):
            self._add_mesh(slot, number, material or default_material, placement, scale)

    def _add_geometries(self, shape: Shape) -> list[tuple[int, tuple[float, ...], Material | None]]:
        """Returns number, scale and material of each part of a shape, all of which are added to the scene."""
        if not isinstance(shape, MeshShape):
            return [(self.scene.add_geometry(shape, part), (1.0, 1.0, 1.0), None) for part in self._read_shape(shape)]
        return [
            (self.scene.add_geometry((str(shape.path), i), part), shape.scale, part.material)
            for i, part in enumerate(self._read_shape(shape))
        ]

    def _read_shape(self, shape: Shape) -> tuple[Part, ...]:
        """Returns the parts of a shape; mesh files are read once."""
        match shape:
            case SphereShape(radius):
                return (make_sphere(radius),)
            case BoxShape(size):
                return (make_box(size),)
            case CylinderShape(radius, length):
                return (make_cylinder(radius, length),)
            case CapsuleShape(radius, length):
                return (make_capsule(radius, length),)
            case MeshShape(_, path, _, root):
                if path is None:
                    raise MeshError("the file is not in the package roots")
                if (key := str(path)) not in self._parts:
                    try:
                        self._parts[key] = read_mesh(path, root)
                    except MeshError as error:
                        self._parts[key] = error
                parts = self._parts[key]
                if isinstance(parts, MeshError):
                    raise parts
                return parts

    def _add_sticks(self, slot: int, index: int, body: CompositeBody, placement_in_joint: Pose) -> None:
        """Draws lines from the body's joint to the next joints and to its foot, and a ball at the joint."""
        r = 0.02 * self.size
        ball = self.scene.add_geometry("ball", make_sphere(1.0))
        self._add_mesh(slot, ball, _STICK_MATERIAL, placement_in_joint, (1.6 * r,) * 3)
        ends = [b.placement.translation for b in self.robot.bodies if b.parent == index]
        for leg in self.robot.legs.values():
            foot = self.robot.model.frames[self.robot.frame_id(leg.foot.name)]
            if foot.parentJoint == self.joints[index]:
                ends.append(placement_in_joint.inverse().apply(foot.placement.translation))
        stick = self.scene.add_geometry("stick", make_line(1.0))
        for end in _select_far_points(ends, r):
            length = float(np.linalg.norm(end))
            placement = placement_in_joint @ Pose.of(rotation_from_z(end), np.zeros(3))
            self._add_mesh(slot, stick, _STICK_MATERIAL, placement, (r, r, length))


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


_SOLID_MATERIAL = Material((0.70, 0.66, 0.58, 1.0))
_PLANE_MATERIAL = Material((0.70, 0.66, 0.58, 0.55))
#: Maximum number of samples of a height field along either side; a finer one is drawn with larger cells.
MAX_FIELD_SAMPLES = 200
#: Half the side of the square by which an unbounded plane is drawn [robot lengths].
HALF_PLANE_SIDE = 8.0
#: Cosine of the tilt above which a plane is the level floor, drawn as a grid.
LEVEL_COSINE = 1.0 - 1e-12


class Landscape:
    """Slots of the surfaces of a terrain; a new terrain replaces the previous one, whose slots are hidden.

    Attributes:
        floor: height of the level floor [m], None if there is none.
    """

    def __init__(self, scene: Scene, size: float) -> None:
        self._scene, self._size = scene, size
        self._poses: dict[int, tuple[float, ...]] = {}
        self._terrain: Terrain | None = None
        self._count = 0
        self.floor: float | None = 0.0

    @property
    def poses(self) -> dict[int, tuple[float, ...]]:
        """Ten values of each slot of the present terrain, by its number."""
        return self._poses

    def height(self, x: float, y: float) -> float:
        """Returns the height of the ground at x, y [m]; 0 where there is no ground."""
        return 0.0 if self._terrain is None else float(np.nan_to_num(self._terrain.height(x, y)))

    def set_terrain(self, terrain: Terrain) -> bool:
        """Adds the shapes of a terrain to the scene; returns False, without a change, if it is the present terrain."""
        if terrain is self._terrain:
            return False
        self._terrain, self._poses, self.floor = terrain, {}, None
        for surface in terrain.surfaces:
            self._add_surface(surface)
        return True

    def _add_surface(self, surface: Surface) -> None:
        """Adds the slot of a surface; the first level plane becomes the floor instead."""
        if isinstance(surface, Plane):
            if surface.normal[2] > LEVEL_COSINE and self.floor is None:
                self.floor = float(surface.point[2])
                return
            side = 2.0 * HALF_PLANE_SIDE * self._size
            nearest = surface.normal * (
                surface.normal @ surface.point
            )  # point of the plane nearest to the world's origin
            self._add_slot(make_square(side), _PLANE_MATERIAL, nearest, quaternion_from_z(surface.normal))
        elif isinstance(surface, Box):
            x, y, z = surface.size.tolist()
            rotation = Pose.of(surface.rotation, np.zeros(3))
            self._add_slot(make_box((x, y, z)), _SOLID_MATERIAL, surface.center, inside=rotation)
        else:
            part = triangulate_height_field(surface.heights, surface.spacing)
            self._add_slot(part, _SOLID_MATERIAL, np.array([*surface.origin, 0.0]))

    def _add_slot(
        self,
        part: Part,
        material: Material,
        position: Array,
        quaternion: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0),
        inside: Pose | None = None,
    ) -> None:
        """Adds a slot with one part at a position and with a quaternion (x, y, z, w), world."""
        slot = self._scene.add_slot("Terrain", str(self._count))
        self._count += 1
        geometry = self._scene.add_geometry(("terrain", self._count), part)
        self._scene.add_mesh(slot, geometry, self._scene.add_material(material), inside or Pose.identity())
        self._poses[slot] = (*position.tolist(), *quaternion, 1.0, 1.0, 1.0)


def make_square(side: float) -> Part:
    """Returns a square with a given side [m], perpendicular to z."""
    corners = 0.5 * side * np.array([[-1.0, -1.0, 0.0], [1.0, -1.0, 0.0], [1.0, 1.0, 0.0], [-1.0, 1.0, 0.0]])
    return Part.from_positions(corners, np.array([[0, 1, 2], [0, 2, 3]]), None, None)


def triangulate_height_field(heights: Array, spacing: Array) -> Part:
    """Returns the surface of a height field, relative to its first sample, with the triangles of the plants [m]."""
    steps = [max(1, -(-(n - 1) // MAX_FIELD_SAMPLES)) for n in heights.shape]
    sample_indices = [
        np.unique(np.append(np.arange(0, n, s), n - 1)) for n, s in zip(heights.shape, steps, strict=True)
    ]
    i, j = np.meshgrid(*sample_indices, indexing="ij")
    points = np.column_stack((i.ravel() * spacing[0], j.ravel() * spacing[1], heights[i, j].ravel()))
    vertex_index = np.arange(i.size).reshape(i.shape)
    a, b, c, d = vertex_index[:-1, :-1], vertex_index[1:, :-1], vertex_index[1:, 1:], vertex_index[:-1, 1:]
    halves = [np.stack((a, b, c), axis=-1).reshape(-1, 3), np.stack((a, c, d), axis=-1).reshape(-1, 3)]
    return Part.from_positions(points, np.concatenate(halves), None, None)
