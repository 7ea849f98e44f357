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
from .figure import Figure
from .landscape import Landscape
from .markers import Markers, Placed, hull
from .scene import SLOT, Scene
from .scene_snapshot import SceneSnapshot

#: Length of a velocity arrow, as the distance covered in this time [s].
_ARROW_TIME = 0.5
#: Height of the velocity arrows above the center of mass, and distance between them [robot lengths].
_ABOVE, _APART = 0.3, 0.06
#: Distance between the dots of a trail [robot lengths].
_DOT = 0.02
#: Foothold cost of the last color, and radius of a candidate's dot [side lengths of a cell].
_DEAR, _CELL = 3.0, 0.35
#: Length of a ground normal [robot lengths].
_NORMAL = 0.25
#: Distance below which nominal and selected foothold are drawn as one [robot lengths].
_CLOSE = 2e-3
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
        self._ghost = robot.model.createData()
        self._scene, self._figure, self._landscape = scene, figure, landscape
        self._scale = newtons_per_meter
        self._markers = Markers(scene, figure.size)
        self._frames: dict[str, int] = {}
        self._trails: dict[str, tuple[int | None, deque[Array]]] = {}
        self.capsules: tuple[CapsuleModel, int] | None = None
        self.soles: tuple[Contact, ...] = ()
        self.center, self.base = np.zeros(3), np.zeros(3)

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
        known = {name: None if name == "com" else self.robot.frame_id(name) for name in names}
        self._trails = {name: (index, deque(maxlen=dots)) for name, index in known.items()}

    def update_poses(self, snapshot: SceneSnapshot) -> NDArray[np.float32]:
        """Returns the pose of every slot (n, 10); adds slots for new markers."""
        q = np.array(snapshot.q)
        self._markers.begin()
        self.robot.algorithms.forwardKinematics(self.robot.model, self.data, q)
        for name in (*snapshot.wrenches, *snapshot.cones, *snapshot.normals, *(snapshot.around or ())):
            self._place(self.robot.frame_id(name))
        for index in (*self._frames.values(), *(i for i, _ in self._trails.values() if i is not None)):
            self._place(index)
        self.base = self.data.oMi[self._figure.joints[0]].translation.copy()
        shown = dict(self._links(self.data, self._figure.slots[0]))
        shown.update(self._forces(snapshot))
        shown.update(self._contacts(snapshot))
        shown.update(self._support(snapshot))
        shown.update(self._footholds(snapshot))
        shown.update(self._normals(snapshot))
        for name, point in snapshot.points.items():
            shown.update(self._markers.point(name, point))
        for name, curve in snapshot.curves.items():
            shown.update(self._markers.curve(name, curve))
        shown.update(self._bodies(q))
        shown.update(self._outlines())
        for name, index in self._frames.items():
            shown.update(self._markers.triad(name, pin.SE3ToXYZQUAT(self.data.oMf[index])))
        shown.update(self._motion(snapshot, q))
        shown.update(self._trail_markers())
        if snapshot.reference_q is not None:
            first = self._figure.ghost()
            self.robot.algorithms.forwardKinematics(self.robot.model, self._ghost, np.array(snapshot.reference_q))
            shown.update(self._links(self._ghost, first))
        poses = np.zeros((len(self._scene.slots), SLOT), dtype=np.float32)
        for slot, numbers in (shown | self._landscape.poses).items():
            poses[slot] = numbers
        return poses

    def _place(self, index: int) -> None:
        """Returns the placement of a frame."""
        pin.updateFramePlacement(self.robot.model, self.data, index)

    def _links(self, data: pin.Data, first: int) -> Placed:
        """Returns the poses of a robot's links at the placements in `data`; its slots begin at `first`."""
        for slot, joint in enumerate(self._figure.joints, first):
            yield slot, (*pin.SE3ToXYZQUAT(data.oMi[joint]), 1.0, 1.0, 1.0)

    def _at(self, name: str) -> Array:
        """Returns the position of a frame (3,), world [m]."""
        return np.asarray(self.data.oMf[self.robot.frame_id(name)].translation)

    def _forces(self, snapshot: SceneSnapshot) -> Placed:
        """Returns the poses of forces and moments on frames, and of the cones there."""
        for name, wrench in snapshot.wrenches.items():
            at = self._at(name)
            yield from self._markers.arrow("force", name, at, wrench[:3] / self._scale)
            if len(wrench) == 6:
                yield from self._markers.arrow("moment", name, at, wrench[3:] / (self._scale * self._figure.size))
        for name, coefficient in snapshot.cones.items():
            yield from self._markers.cone(name, self._at(name), coefficient)

    def _contacts(self, snapshot: SceneSnapshot) -> Placed:
        """Returns the poses of a plant's contacts: points, forces and cones."""
        for i, contact in enumerate(snapshot.contacts):
            # The body touches here and there: its marks are shared by all of it.
            name = f"{contact.sphere if contact.link is None else 'body'} {i}"
            yield from self._markers.contact(name, contact.point)
            yield from self._markers.arrow("force", name, contact.point, contact.force / self._scale)
            if snapshot.coned_contacts:
                yield from self._markers.cone(name, contact.point, contact.friction, contact.normal)

    def _support(self, snapshot: SceneSnapshot) -> Placed:
        """Returns the poses of the support polygon, of the contacts or of feet."""
        if snapshot.around is None:
            return
        touched = [contact.point for contact in snapshot.contacts]
        if not touched:
            radii = [self.robot.legs[name].foot.radius for name in snapshot.around]
            touched = [self._at(n) - (0.0, 0.0, r) for n, r in zip(snapshot.around, radii, strict=True)]
        yield from self._markers.polygon(hull(np.array(touched).reshape(-1, 3)))

    def _footholds(self, snapshot: SceneSnapshot) -> Placed:
        """Returns the poses of footholds of swing feet: selected, nominal, and candidates colored by cost."""
        for foothold in snapshot.footholds:
            yield from self._markers.disc(foothold.foot, foothold.position, foothold.normal)
            if foothold.deviation > _CLOSE * self._figure.size:
                yield from self._markers.foothold_line(
                    foothold.foot, np.array([foothold.nominal.position, foothold.position])
                )
            if foothold.terrain_window is None:
                continue
            radius, shares = _CELL * foothold.terrain_window.cell, np.minimum(foothold.costs / _DEAR, 1.0).tolist()
            for place, normal, share in zip(foothold.candidates, foothold.normals, shares, strict=True):
                yield from self._markers.candidate(share, place, normal, radius)
            for place in foothold.rejected:
                if np.isfinite(place[2]):
                    yield from self._markers.candidate(None, place, _UP, radius)

    def _normals(self, snapshot: SceneSnapshot) -> Placed:
        """Returns the poses of the ground normals, at the lowest points of the frames' spheres."""
        for name, normal in snapshot.normals.items():
            radius = self.robot.legs[name].foot.radius if name in self.robot.legs else 0.0
            tail = self._at(name) - radius * normal
            yield from self._markers.arrow("normal", name, tail, _NORMAL * self._figure.size * normal)

    def _bodies(self, q: Array) -> Placed:
        """Returns the poses of capsules, and of lines between the nearest pairs."""
        if self.capsules is None:
            return
        model, count = self.capsules
        for i, (ends, capsule) in enumerate(zip(model.world_segments(q), model.capsules, strict=True)):
            yield from self._markers.capsule(f"{capsule.link} {i}", ends, capsule.radius)
        distances, between = model.nearest(q)
        for i, pair in enumerate(np.argsort(np.round(distances, LENGTH_DECIMALS), kind="stable")[:count].tolist()):
            yield from self._markers.curve(f"pair {i}", between[pair])

    def _outlines(self) -> Placed:
        """Returns the poses of the edges of the soles."""
        for sole in self.soles:
            index = self.robot.frame_id(sole.frame)
            self._place(index)
            frame, corners = self.data.oMf[index], sole.corners
            around = np.vstack((corners, corners[:1])) @ frame.rotation.T + frame.translation
            yield from self._markers.outline(sole.name, around)

    def _motion(self, snapshot: SceneSnapshot, q: Array) -> Placed:
        """Returns the poses of the center of mass, its velocity and the desired velocity."""
        model, data, algorithms = self.robot.model, self.data, self.robot.algorithms
        above = np.array([0.0, 0.0, _ABOVE * self._figure.size])
        if snapshot.v is None:
            self.center = algorithms.centerOfMass(model, data, q, False).copy()
        else:
            self.center = algorithms.centerOfMass(model, data, q, snapshot.v, False).copy()
            at = self.center if snapshot.desired_velocity is None else self.center + above
            yield from self._markers.arrow("velocity", "com", at, _ARROW_TIME * data.vcom[0])
        if snapshot.desired_velocity is not None:
            at = self.center + (1.0 + _APART / _ABOVE) * above
            yield from self._markers.arrow("wanted", "com", at, _ARROW_TIME * snapshot.desired_velocity)
        if snapshot.show_com:
            yield from self._markers.center_of_mass(self.center, self._landscape.height(*self.center[:2]))

    def _trail_markers(self) -> Placed:
        """Returns the poses of the dots of trails; adds a dot where a frame has moved far enough."""
        for name, (frame, way) in self._trails.items():
            here = self.center if frame is None else self.data.oMf[frame].translation.copy()
            if not way or np.linalg.norm(here - way[-1]) > _DOT * self._figure.size:
                way.append(here)
            yield from self._markers.trail(name, way)
