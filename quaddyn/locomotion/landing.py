"""`Landing`: from the air to a stance: legs held ready, and a trunk that is stopped by the feet that touch."""

from __future__ import annotations

import math

import numpy as np

from ..urdf.tree import Array
from ..wbc import WholeBodyController
from .ground_plane import GroundPlane
from .morphology import FEET, Morphology
from .path_reference import PathReference
from .trunk_controller import TrunkController

#: Height of the centre of mass over the feet in the air, as a share of that at home, and how far feet are put where
#: the robot goes, as a share of the way that its centre of mass needs to stop.
READY_HEIGHT, CAPTURE_POINT_FRACTION = 1.0, 1.0
#: How far from its place under the body a foot is put at most [l].
MAX_LANDING_FOOT_OFFSET = 0.3
#: Weight of the centre of mass while the feet that touch can only turn the robot over: then attitude comes first.
LOW_COM_WEIGHT = 1e-3
#: How far below the highest foot that touches others look for the ground [l].
SEARCH_DEPTH = 0.03
#: Over what length a fall is stopped [l], as long as the centre of mass stays above a share of its height.
STOPPING_DISTANCE, MIN_STOPPING_HEIGHT = 0.22, 0.55
#: How long enough feet have to touch before the robot rises [sqrt(l/g)].
SETTLED_TIME = 0.15
#: Speed at which a foot without contact goes down to the ground, and of the trunk that follows it where the leg is at
#: its full length [sqrt(g l)]; the fraction of that length which is used.
SEARCH_SPEED, LOWERING_SPEED, USABLE_REACH_FRACTION = 0.3, 0.15, 0.97
#: Time for which a foot may lose contact and still count as one that carries [sqrt(l/g)].
CONTACT_LOSS_TOLERANCE = 0.05


class LandingController:
    """What legs and trunk do from the loss of the ground until the robot stands on it again.

    *In the air* nothing moves the centre of mass off its parabola.  Feet are held where they stand at home, under a
    heading frame that is level however the trunk is tilted, so that all meet flat ground at once; and ahead of a robot
    that drifts, by ``v / omega``, where the point is that it comes to rest over (the capture point of Pratt et al.
    2006).  *From the first touchdown* on, feet in contact carry the load; the others go down until they touch, too, or
    until their legs are at full length; then the trunk is lowered for them, as far as a stop may go.  A foot that finds
    no ground there stays where it is, and the robot stands on three.  The centre of mass is stopped along a path of
    least jerk that begins with the height and the speed it has, and the trunk is levelled; with every further foot the
    path begins anew, as one foot alone can neither stop nor turn the robot as is wanted; a foot that trembles on the
    ground is no further one.

    Args:
        morphology: of the robot.
        wbc: the whole-body controller, whose tasks get the references.
        reach: (4,) largest distance of a foot from its leg's first joint [m], see `Stretch`.
    """

    __slots__ = (
        "_com_weight",
        "_depth",
        "_feet_touched",
        "_p",
        "_reach",
        "_settled_time",
        "_stopping_distance",
        "_time_without_contact",
        "_wbc",
    )

    def __init__(self, morphology: Morphology, wbc: WholeBodyController, reach: Array) -> None:
        self._p, self._wbc, self._reach = morphology, wbc, reach
        #: How far below the level of the others each foot looks for the ground [m].
        self._depth = np.zeros(4)
        self._time_without_contact = np.zeros(4)  # for how long each foot has had no contact [s]
        #: Feet that have touched since the robot was last in the air.
        self._feet_touched: set[str] = set()
        self._settled_time, self._stopping_distance = 0.0, STOPPING_DISTANCE * morphology.length
        #: Weight of the task "com" on the ground, while another holds.
        self._com_weight: Array | None = None

    def begin(self, distance: float = 0.0) -> None:
        """The ground has just been lost; the fall to come is stopped over at least a `distance` [m]."""
        self._stopping_distance = max(distance, STOPPING_DISTANCE * self._p.length)
        self._settled_time = 0.0
        self._depth[:] = self._time_without_contact[:] = 0.0
        self._feet_touched.clear()
        if self._com_weight is None:
            self._com_weight = np.array(self._wbc.tasks["com"].weight)

    def restore_com_weight(self) -> None:
        """The robot stands, or has fallen: the centre of mass has its weight again."""
        if self._com_weight is not None:
            self._wbc.tasks["com"].weight, self._com_weight = self._com_weight, None

    def compute_foot_positions(
        self, com: tuple[float, float, float], velocity: tuple[float, float, float], yaw: float
    ) -> Array:
        """(4, 3) where feet are held, world [m]."""
        p, omega = self._p, self._p.natural_frequency
        c, s = math.cos(yaw), math.sin(yaw)
        out = np.empty((4, 3))
        out[:, :2] = p.nominal_stance @ np.array([[c, s], [-s, c]])
        ahead = np.array(velocity[:2]) * (CAPTURE_POINT_FRACTION / omega)
        far = float(np.linalg.norm(ahead))
        out[:, :2] += np.array(com[:2]) + ahead * min(1.0, MAX_LANDING_FOOT_OFFSET * p.length / max(far, 1e-12))
        out[:, 2] = com[2] - READY_HEIGHT * p.height + p.radii
        return out

    def hold_ready(self, positions: Array, velocities: Array, trunk: TrunkController) -> None:
        """References of feet in free flight, to which the trunk gives way.

        Args:
            positions: (4, 3) of the feet, world [m].
            velocities: (4, 3) of them [m/s].
            trunk: of the robot.
        """
        self._feet_touched.clear()
        self._depth[:] = self._time_without_contact[:] = 0.0
        tasks, fall = self._wbc.tasks, np.array([0.0, 0.0, -self._p.gravity])
        trunk.reduce_base_weight()
        for place, velocity, foot in zip(positions, velocities, FEET, strict=True):
            tasks[foot].reference(place, velocity, fall)

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
        """One tick with feet on the ground; whether the robot is stopped and may rise.

        Args:
            carrying: the feet that touch, one at least.
            feet: (4, 3) centres of the feet's spheres, world [m].
            com: the centre of mass, world [m].
            vertical_velocity: its vertical velocity [m/s].
            path: of the robot; its position becomes the middle of the feet.
            ground: gets level ground at the height of the feet that touch.
            trunk: gets the path on which the centre of mass stops.
            dt: [s].
        """
        p = self._p
        down = [i for i, foot in enumerate(FEET) if foot in carrying]
        bottoms = feet[:, 2] - p.radii
        level = float(bottoms[down].mean())
        ground.points[:, :2] = feet[:, :2]
        ground.points[:, 2] = level
        assert self._com_weight is not None
        tasks = self._wbc.tasks
        tasks["com"].weight = self._com_weight if can_stop_fall(carrying) else LOW_COM_WEIGHT
        if not self._feet_touched.issuperset(carrying):
            self._feet_touched.update(carrying)
            path.position = ground.points[:, :2].mean(axis=0)
            trunk.stop_fall(com[2] - level, vertical_velocity, self._stopping_distance, MIN_STOPPING_HEIGHT * p.height)
        still, searching = np.zeros(3), False
        self._time_without_contact += dt
        self._time_without_contact[down] = 0.0
        self._depth[down] = np.maximum(level - bottoms[down], 0.0)
        for i, foot in enumerate(FEET):
            if i in down:
                tasks[foot].reference(feet[i].copy(), still, still)
                continue
            depth, most = float(self._depth[i]), self._compute_search_depth(i, feet[i], com, level, path.yaw)
            fast = SEARCH_SPEED * p.speed_scale if depth < most else 0.0
            self._depth[i] = depth = min(depth + fast * dt, max(most, 0.0))
            place = feet[i].copy()
            place[2] = level + p.radii[i] - SEARCH_DEPTH * p.length - depth
            tasks[foot].reference(place, np.array([0.0, 0.0, -fast]), still)
            lowered = (
                fast == 0.0
                and not trunk.is_moving
                and trunk.lower(LOWERING_SPEED * p.speed_scale, MIN_STOPPING_HEIGHT * p.height, dt)
            )
            searching = searching or (
                self._time_without_contact[i] > CONTACT_LOSS_TOLERANCE * p.time_scale and (fast > 0.0 or lowered)
            )
        good = len(down) > 2 and not trunk.is_moving and not searching
        self._settled_time = self._settled_time + dt if good else max(self._settled_time - dt, 0.0)
        return self._settled_time >= SETTLED_TIME * p.time_scale

    def _compute_search_depth(
        self, i: int, foot: Array, com: tuple[float, float, float], level: float, yaw: float
    ) -> float:
        """How far below the level of the others a leg reaches [m], with the trunk level and where it is."""
        c, s = math.cos(yaw), math.sin(yaw)
        hip_x, hip_y, hip_z = self._p.hips[i].tolist()
        x, y = com[0] + c * hip_x - s * hip_y - float(foot[0]), com[1] + s * hip_x + c * hip_y - float(foot[1])
        far = USABLE_REACH_FRACTION * float(self._reach[i])
        lowest = com[2] + hip_z - math.sqrt(max(far * far - x * x - y * y, 0.0))
        return float(level + self._p.radii[i] - SEARCH_DEPTH * self._p.length - lowest)


def can_stop_fall(carrying: tuple[str, ...]) -> bool:
    """Whether feet can stop a fall without turning the trunk: three, or a diagonal pair."""
    return len(carrying) > 2 or set(carrying) in ({"FL", "RR"}, {"FR", "RL"})
