"""`Drawing`: poses of all slots of the scene for one frame."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ..contact import Contact
from ..kinematics.capsule_model import CapsuleModel
from ..robot.robot import Robot
from ..urdf.tree import LENGTH_DECIMALS, Array
from .checks import REFERENCE_ROBOT
from .figure import REFERENCE_MATERIAL, Figure
from .landscape import Landscape
from .markers import Markers, SlotPoses, convex_hull_from_above
from .parts import Material
from .scene import SLOT, Scene
from .scene_snapshot import SceneSnapshot

#: Length of a velocity arrow, as the distance covered in this time [s].
_ARROW_TIME = 0.5
#: Height of the velocity arrow above the center of mass, and distance between it and the desired one [robot lengths].
_ARROW_HEIGHT, _ARROW_SPACING = 0.3, 0.06
#: Distance between the dots of a trail [robot lengths].
_TRAIL_SPACING = 0.02
#: Foothold cost from which on the last color is used, and radius of a candidate's dot [side lengths of a cell].
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
            radius, cost_fractions = (
                _CANDIDATE_RADIUS * foothold.terrain_window.cell,
                np.minimum(foothold.costs / _MAX_SHOWN_COST, 1.0).tolist(),
            )
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
