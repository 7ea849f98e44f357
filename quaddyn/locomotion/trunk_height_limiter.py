"""`TrunkHeightLimiter`: lowering of the trunk that the legs need to reach the ground."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..robot.chain import Chain
from ..robot.legs import make_limbs
from ..robot.robot import Robot
from .gait import GaitScheduler
from .ground_plane import GroundPlane
from .leg_reach import compute_required_lowering
from .morphology import FEET, Morphology, make_body_parameters
from .path_reference import PathReference
from .swing import SwingTrajectory

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

    __slots__ = ("_body", "max_leg_length")

    def __init__(self, robot: Robot, morphology: Morphology) -> None:
        self._body = make_body_parameters(morphology)
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
        """Computes how far the trunk must be lowered from its usual height above the ground for all legs to reach [m].

        Args:
            scheduler: phases of the gait.
            path: path reference.
            ground: plane of the feet, with their present and next footholds.
            swings: trajectories of the swing feet, by index.
            com: (2,) position of the center of mass, world x and y [m].
        """
        swing_progress = np.full(len(FEET), -1.0)
        for i, swing in swings.items():
            swing_progress[i] = swing.progress
        return float(
            compute_required_lowering(
                self._body, self.max_leg_length, scheduler.state, path.state, ground.state, swing_progress,
                float(com[0]), float(com[1]),
            )
        )  # fmt: skip


def measure_leg_reach(leg: Chain) -> float:
    """Computes the maximum distance of a leg's tip from its first joint, within the joint limits [m].

    Args:
        leg: kinematic chain of the leg.
    """
    count = max(2, round(N_REACH_SAMPLES ** (1.0 / leg.n)))
    origins, _, tip = leg.forward(leg.postures((count,) * leg.n))
    return float(np.linalg.norm(tip - origins[:, 0], axis=1).max())
