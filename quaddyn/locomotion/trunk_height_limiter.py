"""`TrunkHeightLimiter`: lowering of the trunk that the legs need to reach the ground."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ..robot.chain import Chain
from ..robot.legs import make_limbs
from ..robot.robot import Robot
from .gait import GaitScheduler
from .ground_plane import GroundPlane
from .morphology import FEET, Morphology
from .path_reference import PathReference
from .swing import SwingTrajectory
from .trunk_controller import compute_slope_lowering

#: Fraction of the maximum leg length that is used.
USABLE_REACH_FRACTION = 0.95
#: Maximum lowering of the trunk [h].
MAX_LOWERING_FRACTION = 0.25
#: Number of sampled configurations of a leg for its maximum length.
N_REACH_SAMPLES = 4096


class TrunkHeightLimiter:
    """Lowering of the trunk for feet that stand low, or far behind or ahead, on a known terrain.

    A stance foot stays in place while its hip moves on: from now to the end of the stance, the hip of a trunk that
    follows the plane of the feet must be within the leg's reach of the foot.  Joint limits are included: the knees of
    many robots do not straighten.

    Args:
        robot: a quadruped.
        morphology: lengths and units of the robot.

    Attributes:
        max_leg_length: (4,) maximum distance of a foot from its leg's first joint [m].
    """

    __slots__ = ("_morphology", "max_leg_length")

    def __init__(self, robot: Robot, morphology: Morphology) -> None:
        self._morphology = morphology
        limbs = make_limbs(robot)
        self.max_leg_length = np.array([measure_leg_reach(limbs[foot].chain) for foot in FEET])

    def required_lowering(
        self,
        scheduler: GaitScheduler,
        path: PathReference,
        ground: GroundPlane,
        swings: Mapping[int, SwingTrajectory],
        com: tuple[float, float],
    ) -> float:
        """Computes the lowering of the trunk, relative to its height over a plane, that all legs need [m].

        Args:
            scheduler: phases of the gait.
            path: path reference.
            ground: plane of the feet, with their present and next footholds.
            swings: trajectories of the swing feet, by index.
            com: (2,) position of the center of mass, world x and y [m].
        """
        p, axes = self._morphology, ground.axes(path.yaw)
        hips, (x, y) = (p.hips @ axes.T).tolist(), com
        com_height = ground.height(x, y) + p.height - compute_slope_lowering(p, axes)
        u, v = path.world_velocity().tolist()
        a, b = ground.slope.tolist()
        rise = a * u + b * v
        time_to_liftoff, lowering = scheduler.time_to_liftoff, 0.0
        for i, (px, py, pz) in enumerate(ground.list_support_points()):
            hx, hy, hz = hips[i]
            swing = swings.get(i)
            if swing is None:
                begin, end = 0.0, time_to_liftoff[i]
            else:
                begin = end = max(0.0, 1.0 - swing.progress) * scheduler.swing_time
            squared_reach, hip_height = (
                (USABLE_REACH_FRACTION * self.max_leg_length[i]) ** 2,
                com_height + hz - pz - p.radii[i],
            )
            for t in (begin, end):
                dx, dy = x + hx + t * u - px, y + hy + t * v - py
                lowering = max(lowering, hip_height + t * rise - math.sqrt(max(squared_reach - dx * dx - dy * dy, 0.0)))
        return min(lowering, MAX_LOWERING_FRACTION * p.height)


def measure_leg_reach(leg: Chain) -> float:
    """Computes the maximum distance of a leg's tip from its first joint, within the joint limits [m].

    Args:
        leg: kinematic chain of the leg.
    """
    count = max(2, round(N_REACH_SAMPLES ** (1.0 / leg.n)))
    origins, _, tip = leg.forward(leg.postures((count,) * leg.n))
    return float(np.linalg.norm(tip - origins[:, 0], axis=1).max())
