"""`LegMargins`: reach margin of a stance leg, and clearance of its shank over the ground.

Reach of the legs, and compiled lowering of the trunk that they need to reach the ground.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..compiler import Vec3, Vector, compiled, entry, vec3
from ..errors import QuaddynError
from ..kinematics import LegKinematics
from ..robot.bodies import Chain
from ..robot.legs import make_limbs
from ..robot.robot import Robot
from ..urdf.tree import Array
from .foothold_map import TerrainWindow
from .gait import GaitState, compute_period, compute_time_to_liftoff
from .ground_plane import GroundState, compute_heading_axes, heading_axes, plane_height, support_point
from .morphology import FEET, BodyParameters, Morphology
from .path_reference import PathState, compute_world_velocity
from .swing import SwingStates
from .trunk_controller import KNOWN_SLOPE_LOWERING, compute_slope_lowering, slope_lowering

#: Number of points along a link of the shank that are compared with the ground.
N_SHANK_POINTS = 8


class StanceInterval(NamedTuple):
    """Motion of the trunk during the stance of a foot, from touchdown to lift-off.

    Attributes:
        com: (3,) center of mass at touchdown, at its level-ground height over the plane of the feet, world [m].
        velocity: (2,) its velocity, forward and leftward, horizontal [m/s].
        duration: duration of the stance [s].
        slope: (2,) slope of that plane along world x and y.
        yaw: yaw angle of the heading [rad].
    """

    com: tuple[float, float, float]
    velocity: tuple[float, float]
    duration: float
    slope: Array
    yaw: float

    @property
    def travel(self) -> Array:
        """(2,) horizontal displacement of the center of mass during the stance, world x and y [m]."""
        (u, v), c, s = self.velocity, math.cos(self.yaw), math.sin(self.yaw)
        return self.duration * np.array([c * u - s * v, s * u + c * v])

    def shift(self, displacement: tuple[float, float]) -> StanceInterval:
        """Returns the interval after a displacement (2,) of the center of mass along the plane, world x and y [m]."""
        x, y, z = self.com
        return self._replace(com=(x + displacement[0], y + displacement[1], z + float(self.slope @ displacement)))


class LegMargins:
    """Margins of the legs of a robot, computed on demand.

    The trunk is assumed parallel to the plane of the feet and at its height, the leg on its branch at home; a leg that
    does not reach is stretched toward its foot.

    Args:
        robot: a quadruped.
        morphology: lengths and units of the robot.
        reach: (4,) maximum distance of a foot from its leg's first joint [m], see `measure_leg_lengths`.
    """

    __slots__ = ("_legs", "_morphology", "_reach", "_robot")

    def __init__(self, robot: Robot, morphology: Morphology, reach: Array) -> None:
        self._robot, self._morphology, self._reach = robot, morphology, reach
        self._legs: dict[int, tuple[LegKinematics, Chain, int] | None] = {}

    def compute(
        self, i: int, points: Array, normal: Array, stance: StanceInterval, window: TerrainWindow | None
    ) -> Array:
        """Computes the reach margin and shank clearance of a leg, the smaller ones of both ends of a stance.

        Args:
            i: index of the foot in `FEET`.
            points: (n, 3) footholds on the ground, world [m].
            normal: (3,) or (n, 3) unit normals of the ground there, world.
            stance: motion of the trunk during the stance.
            window: terrain window; None where the ground is unknown.

        Returns:
            (n, 2) reach margin of the leg, negative where it does not reach, and smallest height of the straight lines
            from knee to foot over the ground beside the foot [m]; NaN where the leg's knee or that ground is unknown,
            inf where the shank is over the foot's cell and its neighbors alone.
        """
        p, axes = self._morphology, heading_axes(stance.yaw, *stance.slope.tolist())
        feet = points + float(p.radii[i]) * normal
        rise = float(stance.slope @ stance.travel)
        begin = np.array(stance.com) - [0.0, 0.0, compute_slope_lowering(p, axes)]
        R, margins = axes @ p.heading.T, np.full((len(points), 2), np.inf)
        for com in (begin, begin + np.array([*stance.travel, rise])):
            hip_distances = np.linalg.norm(feet - com - axes @ p.hips[i], axis=1)
            clearances = self._compute_shank_clearance(i, feet, points, R, com + axes @ p.base_offset, window)
            margins = np.minimum(margins, np.column_stack((self._reach[i] - hip_distances, clearances)))
        return margins

    def _compute_shank_clearance(
        self, i: int, feet: Array, points: Array, R: Array, base: Array, window: TerrainWindow | None
    ) -> Array:
        """Computes the smallest height (n,) of the lines from knee to foot over the ground beside the foot [m].

        Args:
            i: index of the foot in `FEET`.
            feet: (n, 3) centers of the foot spheres, world [m].
            points: (n, 3) footholds on the ground, world [m].
            R: (3, 3) attitude of the base.
            base: (3,) origin of the base frame, world [m].
            window: terrain window; None where the ground is unknown.
        """
        leg_data = self._find_leg(i)
        if window is None or leg_data is None or not len(feet):
            return np.full(len(feet), np.nan)
        leg, chain, knee = leg_data
        origins, _, tip = chain.forward(leg.inverse((feet - base) @ R).q)
        corners = np.concatenate((origins[:, knee:], tip[:, None]), axis=1) @ R.T + base
        fractions = np.arange(N_SHANK_POINTS + 1)[:, None] / N_SHANK_POINTS
        lines = corners[:, :-1, None] + fractions * (corners[:, 1:] - corners[:, :-1])[:, :, None]
        samples = lines.reshape(len(feet), -1, 3)
        cells = np.rint((samples[..., :2] - window.corner) / window.cell).astype(int)
        foothold_cells = np.rint((points[:, :2] - window.corner) / window.cell).astype(int)
        is_beside = np.abs(cells - foothold_cells[:, None]).sum(axis=2) > 1  # nearer cells belong to the foothold
        is_inside = np.asarray(((cells >= 0) & (cells < window.heights.shape)).all(axis=2))
        x, y = np.where(is_inside[..., None], cells, 0).transpose(2, 0, 1)
        height = np.where(is_inside, window.heights[x, y], np.nan)
        return np.asarray(np.where(is_beside, samples[..., 2] - height, np.inf).min(axis=1))

    def _find_leg(self, i: int) -> tuple[LegKinematics, Chain, int] | None:
        """Returns a leg's kinematics, its chain of joints, and the index of the knee in that chain.

        Returns None for a leg whose kinematics are not supported.
        """
        if i not in self._legs:
            limb = make_limbs(self._robot)[FEET[i]]
            try:
                leg = LegKinematics(self._robot, FEET[i])
                self._legs[i] = leg, Chain(self._robot.bodies, limb.indices, limb.chain.tip), limb.knee
            except QuaddynError:
                self._legs[i] = None
        return self._legs[i]


#: Number of sampled configurations of a leg for its maximum length.
N_REACH_SAMPLES = 4096
#: Fraction of the maximum leg length that is used.
USABLE_REACH_FRACTION = 0.95
#: Maximum lowering of the trunk [h].
MAX_LOWERING_FRACTION = 0.25


@compiled()
def compute_excess_height(hip: Vec3, foot: Vec3, reach: float) -> float:
    """Returns the height of a hip over the highest point from which its leg reaches a foot [m]."""
    d = hip - foot
    excess: float = d[2] - math.sqrt(max(reach * reach - d[0] * d[0] - d[1] * d[1], 0.0))
    return excess


@entry("reach of the legs")
def compute_required_lowering(
    body: BodyParameters,
    max_leg_length: Vector,
    g: GaitState,
    path: PathState,
    ground: GroundState,
    swings: SwingStates,
    com_x: float,
    com_y: float,
) -> float:
    """Computes the lowering of the trunk, relative to its height over a plane, that all legs need [m].

    Feet may stand low, or far behind or ahead, on a known terrain.  A stance foot stays in place while its hip moves
    on: from now to the end of the stance, the hip of a trunk that follows the plane of the feet must be within the
    leg's reach of the foot.

    Args:
        body: parameters of the robot.
        max_leg_length: (4,) maximum distance of a foot from its leg's first joint [m].
        g: phases of the gait.
        path: path reference.
        ground: plane of the feet, with their present and next footholds.
        swings: swings of the feet.
        com_x: center of mass, world x [m].
        com_y: center of mass, world y [m].
    """
    axes = compute_heading_axes(path.yaw, ground.slope[0], ground.slope[1])
    com_height = body.height - slope_lowering(body.length, axes[2, 2], KNOWN_SLOPE_LOWERING)
    com = vec3(com_x, com_y, plane_height(ground, com_x, com_y) + com_height)
    u, v = compute_world_velocity(path, 0.0)
    velocity = vec3(u, v, ground.slope[0] * u + ground.slope[1] * v)
    lowering, swing_time = 0.0, (1.0 - g.duty_factor) * compute_period(g)
    for foot in range(4):
        end = compute_time_to_liftoff(g, foot)
        begin = 0.0
        if swings.is_swinging[foot] != 0:
            end = max(0.0, 1.0 - swings.progress[foot]) * swing_time
            begin = end
        hip = com + axes @ vec3(body.hips[foot])
        center = support_point(ground, foot) + vec3(0.0, 0.0, body.radii[foot])
        reach = USABLE_REACH_FRACTION * max_leg_length[foot]
        lowering = max(lowering, compute_excess_height(hip + velocity * begin, center, reach))
        lowering = max(lowering, compute_excess_height(hip + velocity * end, center, reach))
    return min(lowering, MAX_LOWERING_FRACTION * body.height)


def measure_leg_lengths(robot: Robot) -> Array:
    """Returns the maximum distance (4,) of each foot from its leg's first joint [m].

    Joint limits are included: the knees of many robots do not straighten.
    """
    limbs = make_limbs(robot)
    return np.array([measure_leg_reach(limbs[foot].chain) for foot in FEET])


def measure_leg_reach(leg: Chain) -> float:
    """Computes the maximum distance of a leg's tip from its first joint, within the joint limits [m].

    Args:
        leg: kinematic chain of the leg.
    """
    count = max(2, round(N_REACH_SAMPLES ** (1.0 / leg.n)))
    origins, _, tip = leg.forward(leg.postures((count,) * leg.n))
    return float(np.linalg.norm(tip - origins[:, 0], axis=1).max())
