"""`LandingController`: control of legs and trunk from the air to a stance."""

from __future__ import annotations

import math

import numpy as np

from ..urdf.tree import Array
from ..wbc import WholeBodyController
from .ground_plane import GroundPlane
from .morphology import FEET, Morphology
from .path_reference import PathReference
from .trunk_controller import TrunkController

#: Height of the center of mass over the feet in the air, as a fraction of that at home, and offset of the feet in the
#: direction of motion, as a fraction of the capture point's.
READY_HEIGHT, CAPTURE_POINT_FRACTION = 1.0, 1.0
#: Maximum offset of the feet from their nominal position under the body [l].
MAX_LANDING_FOOT_OFFSET = 0.3
#: Weight of the center of mass while the feet in contact could only tip the robot over: attitude then has priority.
LOW_COM_WEIGHT = 1e-3
#: Depth below the feet in contact to which the others are lowered at first [l].
SEARCH_DEPTH = 0.03
#: Stopping distance of a fall [l], and minimum height of the center of mass, as a fraction of that at home.
STOPPING_DISTANCE, MIN_STOPPING_HEIGHT = 0.22, 0.55
#: Time for which enough feet must be in contact before the robot rises [sqrt(l/g)].
SETTLED_TIME = 0.15
#: Speed at which a foot without contact is lowered, and speed of the trunk if the leg is at its full length [sqrt(g
#: l)]; usable fraction of that length.
SEARCH_SPEED, LOWERING_SPEED, USABLE_REACH_FRACTION = 0.3, 0.15, 0.97
#: Time for which a foot may lose contact and still counts as a stance foot [sqrt(l/g)].
CONTACT_LOSS_TOLERANCE = 0.05


class LandingController:
    """Controller of legs and trunk from the loss of the ground until the robot stands on it again.

    *In the air* the center of mass moves on a parabola, whatever the legs do.  The feet are held at their home
    positions under a level heading frame, however the trunk is tilted, so that all reach flat ground at once; for a
    drifting robot they are moved by ``v / omega``, to the point above which it comes to rest (the capture point of
    Pratt et al. 2006). *After the first touchdown*, feet in contact carry the load; the others are lowered until they
    are in contact, too, or until their legs are at full length; then the trunk is lowered for them, down to the minimum
    height.  A foot that finds no ground there stays where it is, and the robot stands on three.  The center of mass is
    stopped along a minimum-jerk path that starts with its present height and speed, and the trunk is leveled; with
    every further foot the path starts again, since one foot alone can neither stop nor rotate the robot as desired.  A
    foot that loses contact for a short time does not count as a further one.

    Args:
        morphology: lengths and units of the robot.
        wbc: the whole-body controller, whose references are set.
        reach: (4,) maximum distance of a foot from its leg's first joint [m], see `measure_leg_lengths`.
    """

    __slots__ = (
        "_com_weight",
        "_depth",
        "_feet_touched",
        "_morphology",
        "_reach",
        "_settled_time",
        "_stopping_distance",
        "_time_without_contact",
        "_wbc",
    )

    def __init__(self, morphology: Morphology, wbc: WholeBodyController, reach: Array) -> None:
        self._morphology, self._wbc, self._reach = morphology, wbc, reach
        #: Depth of each foot below the level of the feet in contact [m].
        self._depth = np.zeros(4)
        self._time_without_contact = np.zeros(4)  # time since the last contact of each foot [s]
        #: Names of the feet that were in contact since the robot was last in the air.
        self._feet_touched: set[str] = set()
        self._settled_time, self._stopping_distance = 0.0, STOPPING_DISTANCE * morphology.length
        #: Weight of the task "com" on the ground, while another one is set.
        self._com_weight: Array | None = None

    def begin(self, distance: float = 0.0) -> None:
        """Starts a landing, after the loss of the ground.

        Args:
            distance: minimum stopping distance of the fall [m].
        """
        self._stopping_distance = max(distance, STOPPING_DISTANCE * self._morphology.length)
        self._settled_time = 0.0
        self._depth[:] = self._time_without_contact[:] = 0.0
        self._feet_touched.clear()
        if self._com_weight is None:
            self._com_weight = np.array(self._wbc.tasks["com"].weight)

    def restore_com_weight(self) -> None:
        """Restores the weight of the task "com", when the robot stands or has fallen."""
        if self._com_weight is not None:
            self._wbc.tasks["com"].weight, self._com_weight = self._com_weight, None

    def compute_foot_positions(
        self, com: tuple[float, float, float], velocity: tuple[float, float, float], yaw: float
    ) -> Array:
        """Computes the positions (4, 3) of the feet in the air, world [m].

        Args:
            com: (3,) center of mass, world [m].
            velocity: (3,) its velocity [m/s].
            yaw: yaw angle of the heading [rad].
        """
        p, omega = self._morphology, self._morphology.natural_frequency
        c, s = math.cos(yaw), math.sin(yaw)
        positions = np.empty((4, 3))
        positions[:, :2] = p.nominal_stance @ np.array([[c, s], [-s, c]])
        capture_offset = np.array(velocity[:2]) * (CAPTURE_POINT_FRACTION / omega)
        capture_distance = float(np.linalg.norm(capture_offset))
        positions[:, :2] += np.array(com[:2]) + capture_offset * min(
            1.0, MAX_LANDING_FOOT_OFFSET * p.length / max(capture_distance, 1e-12)
        )
        positions[:, 2] = com[2] - READY_HEIGHT * p.height + p.radii
        return positions

    def hold_ready(self, positions: Array, velocities: Array, trunk: TrunkController) -> None:
        """Sets the references of the feet in free flight and reduces the weight of the attitude.

        Args:
            positions: (4, 3) positions of the feet, world [m].
            velocities: (4, 3) velocities of the feet [m/s].
            trunk: trunk controller.
        """
        self._feet_touched.clear()
        self._depth[:] = self._time_without_contact[:] = 0.0
        tasks, free_fall = self._wbc.tasks, np.array([0.0, 0.0, -self._morphology.gravity])
        trunk.reduce_base_weight()
        for position, velocity, foot in zip(positions, velocities, FEET, strict=True):
            tasks[foot].reference(position, velocity, free_fall)

    def stop_fall(
        self,
        carrying: tuple[str, ...],
        feet: Array,
        com: tuple[float, float, float],
        vertical_velocity: float,
        path: PathReference,
        ground: GroundPlane,
        trunk: TrunkController,
        dt: float,
    ) -> bool:
        """Sets the references of one tick with feet in contact; returns whether the robot is stopped and may rise.

        Args:
            carrying: names of the feet in contact, at least one.
            feet: (4, 3) centers of the foot spheres, world [m].
            com: (3,) center of mass, world [m].
            vertical_velocity: vertical velocity of the center of mass [m/s].
            path: path reference; its position becomes the center of the feet.
            ground: plane of the feet; becomes level at the height of the feet in contact.
            trunk: trunk controller; receives the path on which the center of mass stops.
            dt: control period [s].
        """
        p = self._morphology
        in_contact = [i for i, foot in enumerate(FEET) if foot in carrying]
        bottoms = feet[:, 2] - p.radii
        level = float(bottoms[in_contact].mean())
        ground.points[:, :2] = feet[:, :2]
        ground.points[:, 2] = level
        assert self._com_weight is not None
        tasks = self._wbc.tasks
        tasks["com"].weight = self._com_weight if can_stop_fall(carrying) else LOW_COM_WEIGHT
        if not self._feet_touched.issuperset(carrying):
            self._feet_touched.update(carrying)
            path.position = ground.points[:, :2].mean(axis=0)
            trunk.stop_fall(com[2] - level, vertical_velocity, self._stopping_distance, MIN_STOPPING_HEIGHT * p.height)
        zero, is_searching = np.zeros(3), False
        self._time_without_contact += dt
        self._time_without_contact[in_contact] = 0.0
        self._depth[in_contact] = np.maximum(level - bottoms[in_contact], 0.0)
        for i, foot in enumerate(FEET):
            if i in in_contact:
                tasks[foot].reference(feet[i].copy(), zero, zero)
                continue
            depth, max_depth = float(self._depth[i]), self._compute_search_depth(i, feet[i], com, level, path.yaw)
            search_speed = SEARCH_SPEED * p.speed_scale if depth < max_depth else 0.0
            self._depth[i] = depth = min(depth + search_speed * dt, max(max_depth, 0.0))
            position = feet[i].copy()
            position[2] = level + p.radii[i] - SEARCH_DEPTH * p.length - depth
            tasks[foot].reference(position, np.array([0.0, 0.0, -search_speed]), zero)
            is_lowered = (
                search_speed == 0.0
                and not trunk.is_moving
                and trunk.lower(LOWERING_SPEED * p.speed_scale, MIN_STOPPING_HEIGHT * p.height, dt)
            )
            is_searching = is_searching or (
                self._time_without_contact[i] > CONTACT_LOSS_TOLERANCE * p.time_scale
                and (search_speed > 0.0 or is_lowered)
            )
        may_rise = len(in_contact) > 2 and not trunk.is_moving and not is_searching
        self._settled_time = self._settled_time + dt if may_rise else max(self._settled_time - dt, 0.0)
        return self._settled_time >= SETTLED_TIME * p.time_scale

    def _compute_search_depth(
        self, i: int, foot: Array, com: tuple[float, float, float], level: float, yaw: float
    ) -> float:
        """Computes the depth below the feet in contact to which a leg reaches with the trunk level and in place [m]."""
        c, s = math.cos(yaw), math.sin(yaw)
        hip_x, hip_y, hip_z = self._morphology.hips[i].tolist()
        x, y = com[0] + c * hip_x - s * hip_y - float(foot[0]), com[1] + s * hip_x + c * hip_y - float(foot[1])
        usable_reach = USABLE_REACH_FRACTION * float(self._reach[i])
        lowest = com[2] + hip_z - math.sqrt(max(usable_reach * usable_reach - x * x - y * y, 0.0))
        return float(level + self._morphology.radii[i] - SEARCH_DEPTH * self._morphology.length - lowest)


def can_stop_fall(carrying: tuple[str, ...]) -> bool:
    """Returns whether feet can stop a fall without tipping the trunk: three feet, or a diagonal pair."""
    return len(carrying) > 2 or set(carrying) in ({"FL", "RR"}, {"FR", "RL"})
