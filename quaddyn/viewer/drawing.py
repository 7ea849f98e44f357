"""`Drawing`: poses of all slots of the scene for one frame.

`Markers`: force arrows, contacts, friction cones, axes and the center of mass; each is a slot added on first use.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ..contact import Contact
from ..contact.support import support_polygon
from ..kinematics.capsule_model import CapsuleModel
from ..robot.robot import Robot
from ..urdf.tree import LENGTH_DECIMALS, Array, Pose
from .figure import REFERENCE_MATERIAL, Figure, Landscape, quaternion_from_z, rotation_from_z
from .mesh import Material, Part, make_arrow, make_capsule, make_cone, make_disc, make_line, make_sphere
from .scene import REFERENCE_ROBOT, SLOT, Scene, SceneSnapshot

SlotPoses = Iterator[tuple[int, tuple[float, ...]]]

_COLORS = {
    "force": (0.90, 0.16, 0.13),
    "moment": (0.58, 0.25, 0.78),
    "velocity": (0.10, 0.60, 0.35),
    "desired": (0.15, 0.40, 0.85),
    "normal": (0.10, 0.62, 0.70),
}
_CONE = Material((0.95, 0.65, 0.10, 0.30))
_COM = Material((0.98, 0.72, 0.05, 1.0))
_TRAIL = Material((0.15, 0.40, 0.85, 1.0))
_CONTACT = Material((0.90, 0.16, 0.13, 1.0))
_SUPPORT = Material((0.10, 0.60, 0.35, 1.0))
_CAPSULE = Material((0.95, 0.65, 0.10, 0.35))
_POINT = Material((0.85, 0.10, 0.55, 1.0))
_AXES = ((0.85, 0.15, 0.15), (0.15, 0.65, 0.20), (0.15, 0.35, 0.90))
#: Colors of foothold costs, from zero to practically infeasible.
_COSTS = tuple(
    Material((r, g, 0.15, 0.85)) for r, g in ((0.15, 0.70), (0.50, 0.75), (0.90, 0.80), (0.95, 0.50), (0.85, 0.15))
)
_REJECTED = Material((0.45, 0.45, 0.45, 0.6))
#: Markers visible through other objects; normals are thin, since they are at the same points as forces.
_KINDS_SHOWN_THROUGH_OBJECTS = ("com", "contact", "point", "foothold", "normal")
_NORMAL_WIDTH_RATIO = 0.5
_IDENTITY_QUATERNION = (0.0, 0.0, 0.0, 1.0)


class Markers:
    """Markers of a scene; each method returns slot numbers with their ten values.

    Args:
        scene: scene to which the slots are added.
        size: length of the robot, to which markers are scaled [m].
    """

    def __init__(self, scene: Scene, size: float) -> None:
        self._scene, self._size = scene, size
        self._slots: dict[tuple[str, str], int] = {}
        self._dot_counts: dict[int, int] = {}  # index of the last dot of each shade in this frame

    def begin(self) -> None:
        """Starts a new frame, in which the slots of the dots are reused."""
        self._dot_counts.clear()

    def draw_arrow(self, kind: str, name: str, tail: Array, vector: Array) -> SlotPoses:
        """Draws an arrow of a kind of `_COLORS` from `tail` along `vector` (3,), of its length [m]."""
        length = float(np.linalg.norm(vector))
        if length > 1e-4 * self._size:  # shorter arrows are invisible, and the pose of a zero vector is undefined
            slot = self._find_slot(kind, name, "arrow", make_arrow, Material((*_COLORS[kind], 1.0)))
            width = _NORMAL_WIDTH_RATIO * length if kind == "normal" else length
            yield slot, (*tail, *quaternion_from_z(vector), width, width, length)

    def draw_cone(self, name: str, tip: Array, friction: float, normal: Array | None = None) -> SlotPoses:
        """Draws the friction cone with its tip at `tip`, on ground with this normal, level by default."""
        height = 0.25 * self._size
        slot = self._find_slot("cone", name, "cone", make_cone, _CONE)
        quaternion = _IDENTITY_QUATERNION if normal is None else quaternion_from_z(normal)
        yield slot, (*tip, *quaternion, friction * height, friction * height, height)

    def draw_contact(self, name: str, position: Array) -> SlotPoses:
        """Draws a small ball at a contact point, visible through the robot."""
        r = 0.012 * self._size
        yield (
            self._find_slot("contact", name, "ball", lambda: make_sphere(1), _CONTACT),
            (*position, *_IDENTITY_QUATERNION, r, r, r),
        )

    def draw_polygon(self, corners: Array) -> SlotPoses:
        """Draws the edges of a closed polygon (h, 3); one line for two corners, nothing for one."""
        outline = corners if len(corners) <= 2 else np.vstack((corners, corners[:1]))
        yield from self._draw_lines("support", "edge", outline, _SUPPORT)

    def draw_curve(self, name: str, points: Array) -> SlotPoses:
        """Draws a polyline through the points (n, 3)."""
        yield from self._draw_lines("curve", name, points, _POINT)

    def draw_outline(self, name: str, points: Array) -> SlotPoses:
        """Draws the edge of a surface through the points (n, 3)."""
        yield from self._draw_lines("sole", name, points, _CONTACT)

    def draw_capsule(self, name: str, ends: Array, radius: float) -> SlotPoses:
        """Draws a capsule: the points within `radius` [m] of the segment between two `ends` (2, 3)."""
        axis = ends[1] - ends[0]
        length = float(np.linalg.norm(axis))
        key = f"capsule {radius:.6f} {length:.6f}"
        slot = self._find_slot("capsule", name, key, lambda: make_capsule(radius, length), _CAPSULE)
        quaternion = quaternion_from_z(axis) if length > 0.0 else _IDENTITY_QUATERNION
        yield slot, (*ends.mean(axis=0).tolist(), *quaternion, 1.0, 1.0, 1.0)

    def _draw_lines(self, kind: str, name: str, points: Array, material: Material) -> SlotPoses:
        """Draws lines between consecutive points."""
        r = 0.006 * self._size
        for number, (a, b) in enumerate(pairwise(points)):
            length = float(np.linalg.norm(b - a))
            if length > 0.0:
                slot = self._find_slot(kind, f"{name} {number}", "com thread", lambda: make_line(1), material)
                yield slot, (*a, *quaternion_from_z(b - a), r, r, length)

    def draw_triad(self, name: str, pose: Array) -> SlotPoses:
        """Draws the axes of a frame at `pose` (7,): position and quaternion (x, y, z, w)."""
        if ("triad", name) not in self._slots:
            slot = self._slots["triad", name] = self._scene.add_slot("Frames", name)
            arrow = self._scene.add_geometry("arrow", make_arrow())
            for axis, color in zip(np.eye(3), _AXES, strict=True):
                material = self._scene.add_material(Material((*color, 1.0)), glow=True)
                self._scene.add_mesh(slot, arrow, material, Pose.of(rotation_from_z(axis), np.zeros(3)))
        yield self._slots["triad", name], (*pose, *(0.2 * self._size,) * 3)

    def draw_trail(self, name: str, points: Iterable[Array]) -> SlotPoses:
        """Draws a ball at each of the `points` (3,)."""
        r = 0.006 * self._size
        for number, point in enumerate(points):
            slot = self._find_slot("trail", f"{name} {number}", "ball", lambda: make_sphere(1), _TRAIL)
            yield slot, (*point, *_IDENTITY_QUATERNION, r, r, r)

    def draw_disc(self, name: str, position: Array, normal: Array) -> SlotPoses:
        """Draws a disc on ground with this normal at `position` (3,), visible through the robot."""
        r = 0.035 * self._size
        center = position + 0.004 * self._size * normal
        yield (
            self._find_slot("foothold", name, "com disc", lambda: make_disc(1), _POINT),
            (*center, *quaternion_from_z(normal), r, r, r),
        )

    def draw_foothold_line(self, name: str, points: Array) -> SlotPoses:
        """Draws a polyline through the points (n, 3) in the color of the disc of this name."""
        yield from self._draw_lines("foothold", name, points, _POINT)

    def draw_candidate(self, cost_fraction: float | None, position: Array, normal: Array, radius: float) -> SlotPoses:
        """Draws a dot on the ground at `position` (3,).

        Args:
            cost_fraction: fraction between the colors of the lowest and the highest cost, 0 to 1; None for a rejected
                candidate.
            position: (3,) position, world [m].
            normal: (3,) normal of the ground.
            radius: radius [m].
        """
        shade = len(_COSTS) if cost_fraction is None else round(cost_fraction * (len(_COSTS) - 1))
        number = self._dot_counts[shade] = self._dot_counts.get(shade, -1) + 1
        material = _REJECTED if cost_fraction is None else _COSTS[shade]
        slot = self._find_slot("candidate", f"{shade} {number}", "com disc", lambda: make_disc(1), material)
        yield slot, (*(position + 0.002 * self._size * normal), *quaternion_from_z(normal), radius, radius, radius)

    def draw_point(self, name: str, position: Array) -> SlotPoses:
        """Draws a ball at `position` (3,), visible through the robot."""
        r = 0.02 * self._size
        yield (
            self._find_slot("point", name, "ball", lambda: make_sphere(1), _POINT),
            (*position, *_IDENTITY_QUATERNION, r, r, r),
        )

    def draw_center_of_mass(self, center: Array, floor: float = 0.0) -> SlotPoses:
        """Draws a ball at `center`, a disc below it on the ground at height `floor` [m], and a line between them."""
        x, y, z = (float(c) for c in center)
        r = 0.03 * self._size
        yield (
            self._find_slot("com", "center", "com ball", lambda: make_sphere(1), _COM),
            (x, y, z, *_IDENTITY_QUATERNION, r, r, r),
        )
        ground = (x, y, floor + 0.003 * self._size, *_IDENTITY_QUATERNION, r, r, r)
        yield self._find_slot("com", "ground", "com disc", lambda: make_disc(1), _COM), ground
        line = (x, y, floor, *_IDENTITY_QUATERNION, 0.1 * r, 0.1 * r, z - floor)
        yield self._find_slot("com", "thread", "com thread", lambda: make_line(1), _COM), line

    def _find_slot(self, kind: str, name: str, key: str, shape: Callable[[], Part], material: Material) -> int:
        """Returns the slot of a marker, added on first use."""
        slot = self._slots.get((kind, name))
        if slot is None:
            slot = self._slots[kind, name] = self._scene.add_slot(kind.capitalize(), name)
            geometry = self._scene.add_geometry(key, shape())
            number = self._scene.add_material(material, glow=True, through=kind in _KINDS_SHOWN_THROUGH_OBJECTS)
            self._scene.add_mesh(slot, geometry, number, Pose.identity())
        return slot


def convex_hull_from_above(points: Array) -> Array:
    """Returns the corners of the convex hull of points (m, 3) seen from above, in order."""
    corners = support_polygon(points[:, :2])
    return np.array([points[np.argmin(np.linalg.norm(points[:, :2] - c, axis=1))] for c in corners]).reshape(-1, 3)


#: Length of a velocity arrow, as the distance covered in this time [s].
_ARROW_TIME = 0.5
#: Height of the velocity arrow above the center of mass, and distance between it and the desired one [robot lengths].
_ARROW_HEIGHT, _ARROW_SPACING = 0.3, 0.06
#: Distance between the dots of a trail [robot lengths].
_TRAIL_SPACING = 0.02
#: Foothold cost above which the last color is used, and radius of a candidate's dot [side lengths of a cell].
_MAX_SHOWN_COST, _CANDIDATE_RADIUS = 3.0, 0.35
#: Length of a ground normal [robot lengths].
_NORMAL_LENGTH = 0.25
#: Distance below which nominal and selected foothold are drawn as one [robot lengths].
_MIN_SHOWN_DEVIATION = 2e-3
_UP = np.array([0.0, 0.0, 1.0])


class Drawing:
    """Robot and markers in a scene.

    Args:
        robot: robot that is drawn.
        scene: scene whose slots are posed.
        figure: links of the robot in the scene.
        landscape: terrain in the scene.
        newtons_per_meter: length scale of force arrows [N/m].

    Attributes:
        data: Pinocchio data of the last frame.
        center: (3,) center of mass of the last frame, world [m].
        base: (3,) position of the first drawn joint in the last frame, world [m].
        capsules: capsule model to draw and number of pairs with a line, or None.
        soles: surface contacts whose outlines are drawn.
    """

    def __init__(
        self, robot: Robot, scene: Scene, figure: Figure, landscape: Landscape, newtons_per_meter: float
    ) -> None:
        self.robot, self.data = robot, robot.model.createData()
        self._others: dict[str, tuple[Figure, pin.Data]] = {}
        self._scene, self._figure, self._landscape = scene, figure, landscape
        self._scale = newtons_per_meter
        self._markers = Markers(scene, figure.size)
        self._frames: dict[str, int] = {}
        self._trails: dict[str, tuple[int | None, deque[Array]]] = {}
        self.capsules: tuple[CapsuleModel, int] | None = None
        self.soles: tuple[Contact, ...] = ()
        self.center, self.base = np.zeros(3), np.zeros(3)

    def add_robot(self, name: str, robot: Robot, kind: str, material: Material | None) -> None:
        """Adds a further robot, drawn where a snapshot has a configuration of this name; see `Figure.add_figure`."""
        self._others[name] = (self._figure.add_figure(robot, kind, material), robot.model.createData())

    @property
    def other_robots(self) -> dict[str, Robot]:
        """Further robots by name."""
        return {name: figure.robot for name, (figure, _) in self._others.items()}

    def show_frames(self, names: Iterable[str]) -> None:
        """Draws the axes of these frames from now on.

        Raises:
            UnknownNameError: no frame of a name.
        """
        self._frames = {name: self.robot.frame_id(name) for name in names}

    def show_trails(self, names: Iterable[str], dots: int) -> None:
        """Draws the paths of these frames, or of "com", from now on, each with at most `dots` dots.

        Raises:
            UnknownNameError: no frame of a name.
        """
        frame_ids = {name: None if name == "com" else self.robot.frame_id(name) for name in names}
        self._trails = {name: (index, deque(maxlen=dots)) for name, index in frame_ids.items()}

    def update_poses(self, snapshot: SceneSnapshot) -> NDArray[np.float32]:
        """Returns the pose of every slot (n, 10); adds slots for new markers."""
        q = np.array(snapshot.q)
        self._markers.begin()
        self.robot.algorithms.forwardKinematics(self.robot.model, self.data, q)
        for name in (*snapshot.wrenches, *snapshot.cones, *snapshot.normals, *(snapshot.support_feet or ())):
            self._update_frame(self.robot.frame_id(name))
        for index in (*self._frames.values(), *(i for i, _ in self._trails.values() if i is not None)):
            self._update_frame(index)
        self.base = self.data.oMi[self._figure.joints[0]].translation.copy()
        poses_by_slot = dict(self._place_links(self._figure, self.data))
        poses_by_slot.update(self._place_forces(snapshot))
        poses_by_slot.update(self._place_contacts(snapshot))
        poses_by_slot.update(self._place_support_polygon(snapshot))
        poses_by_slot.update(self._place_footholds(snapshot))
        poses_by_slot.update(self._place_normals(snapshot))
        for name, point in snapshot.points.items():
            poses_by_slot.update(self._markers.draw_point(name, point))
        for name, curve in snapshot.curves.items():
            poses_by_slot.update(self._markers.draw_curve(name, curve))
        poses_by_slot.update(self._place_capsules(q))
        poses_by_slot.update(self._place_sole_outlines())
        for name, index in self._frames.items():
            poses_by_slot.update(self._markers.draw_triad(name, pin.SE3ToXYZQUAT(self.data.oMf[index])))
        poses_by_slot.update(self._place_center_of_mass(snapshot, q))
        poses_by_slot.update(self._place_trails())
        if REFERENCE_ROBOT in snapshot.other_configurations and REFERENCE_ROBOT not in self._others:
            self.add_robot(REFERENCE_ROBOT, self.robot, "Ghost", REFERENCE_MATERIAL)
        for name, configuration in snapshot.other_configurations.items():
            figure, data = self._others[name]
            figure.robot.algorithms.forwardKinematics(figure.robot.model, data, np.array(configuration))
            poses_by_slot.update(self._place_links(figure, data))
        poses = np.zeros((len(self._scene.slots), SLOT), dtype=np.float32)
        for slot, pose in (poses_by_slot | self._landscape.poses).items():
            poses[slot] = pose
        return poses

    def _update_frame(self, index: int) -> None:
        """Updates the placement of a frame in `data`."""
        pin.updateFramePlacement(self.robot.model, self.data, index)

    def _place_links(self, figure: Figure, data: pin.Data) -> SlotPoses:
        """Returns the poses of the links of a robot at the placements in `data`."""
        for slot, joint in enumerate(figure.joints, figure.slots[0]):
            yield slot, (*pin.SE3ToXYZQUAT(data.oMi[joint]), 1.0, 1.0, 1.0)

    def _frame_position(self, name: str) -> Array:
        """Returns the position of a frame (3,), world [m]."""
        return np.asarray(self.data.oMf[self.robot.frame_id(name)].translation)

    def _place_forces(self, snapshot: SceneSnapshot) -> SlotPoses:
        """Returns the poses of forces and moments on frames, and of the cones there."""
        for name, wrench in snapshot.wrenches.items():
            position = self._frame_position(name)
            yield from self._markers.draw_arrow("force", name, position, wrench[:3] / self._scale)
            if len(wrench) == 6:
                yield from self._markers.draw_arrow(
                    "moment", name, position, wrench[3:] / (self._scale * self._figure.size)
                )
        for name, coefficient in snapshot.cones.items():
            yield from self._markers.draw_cone(name, self._frame_position(name), coefficient)

    def _place_contacts(self, snapshot: SceneSnapshot) -> SlotPoses:
        """Returns the poses of a plant's contacts: points, forces and cones."""
        for i, contact in enumerate(snapshot.contacts):
            # Contacts of the body change places: their markers are shared by all links.
            name = f"{contact.sphere if contact.link is None else 'body'} {i}"
            yield from self._markers.draw_contact(name, contact.point)
            yield from self._markers.draw_arrow("force", name, contact.point, contact.force / self._scale)
            if snapshot.show_contact_cones:
                yield from self._markers.draw_cone(name, contact.point, contact.friction, contact.normal)

    def _place_support_polygon(self, snapshot: SceneSnapshot) -> SlotPoses:
        """Yields the slot and pose of the support polygon of the contacts, or without contacts, of the feet."""
        if snapshot.support_feet is None:
            return
        contact_points = [contact.point for contact in snapshot.contacts]
        if not contact_points:
            radii = [self.robot.legs[name].foot.radius for name in snapshot.support_feet]
            contact_points = [
                self._frame_position(name) - (0.0, 0.0, radius)
                for name, radius in zip(snapshot.support_feet, radii, strict=True)
            ]
        yield from self._markers.draw_polygon(convex_hull_from_above(np.array(contact_points).reshape(-1, 3)))

    def _place_footholds(self, snapshot: SceneSnapshot) -> SlotPoses:
        """Returns the poses of footholds of swing feet: selected, nominal, and candidates colored by cost."""
        for foothold in snapshot.footholds:
            yield from self._markers.draw_disc(foothold.foot, foothold.position, foothold.normal)
            if foothold.deviation > _MIN_SHOWN_DEVIATION * self._figure.size:
                yield from self._markers.draw_foothold_line(
                    foothold.foot, np.array([foothold.nominal.position, foothold.position])
                )
            if foothold.terrain_window is None:
                continue
            radius = _CANDIDATE_RADIUS * foothold.terrain_window.cell
            cost_fractions = np.minimum(foothold.costs / _MAX_SHOWN_COST, 1.0).tolist()
            for position, normal, cost_fraction in zip(
                foothold.candidates, foothold.normals, cost_fractions, strict=True
            ):
                yield from self._markers.draw_candidate(cost_fraction, position, normal, radius)
            for position in foothold.rejected:
                if np.isfinite(position[2]):
                    yield from self._markers.draw_candidate(None, position, _UP, radius)

    def _place_normals(self, snapshot: SceneSnapshot) -> SlotPoses:
        """Returns the poses of the ground normals, at the lowest points of the frames' spheres."""
        for name, normal in snapshot.normals.items():
            radius = self.robot.legs[name].foot.radius if name in self.robot.legs else 0.0
            tail = self._frame_position(name) - radius * normal
            yield from self._markers.draw_arrow("normal", name, tail, _NORMAL_LENGTH * self._figure.size * normal)

    def _place_capsules(self, q: Array) -> SlotPoses:
        """Returns the poses of capsules, and of lines between the nearest pairs."""
        if self.capsules is None:
            return
        model, count = self.capsules
        for i, (ends, capsule) in enumerate(zip(model.world_segments(q), model.capsules, strict=True)):
            yield from self._markers.draw_capsule(f"{capsule.link} {i}", ends, capsule.radius)
        distances, nearest_points = model.nearest(q)
        for i, pair in enumerate(np.argsort(np.round(distances, LENGTH_DECIMALS), kind="stable")[:count].tolist()):
            yield from self._markers.draw_curve(f"pair {i}", nearest_points[pair])

    def _place_sole_outlines(self) -> SlotPoses:
        """Returns the poses of the edges of the soles."""
        for sole in self.soles:
            index = self.robot.frame_id(sole.frame)
            self._update_frame(index)
            frame, corners = self.data.oMf[index], sole.corners
            outline = np.vstack((corners, corners[:1])) @ frame.rotation.T + frame.translation
            yield from self._markers.draw_outline(sole.name, outline)

    def _place_center_of_mass(self, snapshot: SceneSnapshot, q: Array) -> SlotPoses:
        """Returns the poses of the center of mass, its velocity and the desired velocity."""
        model, data, algorithms = self.robot.model, self.data, self.robot.algorithms
        arrow_offset = np.array([0.0, 0.0, _ARROW_HEIGHT * self._figure.size])
        if snapshot.v is None:
            self.center = algorithms.centerOfMass(model, data, q, False).copy()
        else:
            self.center = algorithms.centerOfMass(model, data, q, snapshot.v, False).copy()
            tail = self.center if snapshot.desired_velocity is None else self.center + arrow_offset
            yield from self._markers.draw_arrow("velocity", "com", tail, _ARROW_TIME * data.vcom[0])
        if snapshot.desired_velocity is not None:
            tail = self.center + (1.0 + _ARROW_SPACING / _ARROW_HEIGHT) * arrow_offset
            yield from self._markers.draw_arrow("desired", "com", tail, _ARROW_TIME * snapshot.desired_velocity)
        if snapshot.show_com:
            yield from self._markers.draw_center_of_mass(self.center, self._landscape.height(*self.center[:2]))

    def _place_trails(self) -> SlotPoses:
        """Returns the poses of the dots of the trails; adds a dot for each frame that has moved far enough."""
        for name, (frame, dots) in self._trails.items():
            position = self.center if frame is None else self.data.oMf[frame].translation.copy()
            if not dots or np.linalg.norm(position - dots[-1]) > _TRAIL_SPACING * self._figure.size:
                dots.append(position)
            yield from self._markers.draw_trail(name, dots)
