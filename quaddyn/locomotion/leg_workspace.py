"""`LegWorkspace`: reachable area of each foot around its nominal position, within the joint limits.

`LegPoseSolver`: robot configurations for given foot positions.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..kinematics import LegKinematics
from ..robot.configuration import independent_joints, set_joint_value
from ..robot.legs import make_limbs
from ..robot.limbs import Limb
from ..robot.robot import Robot
from ..urdf.tree import Array
from .morphology import FEET, Morphology


class LegPoseSolver:
    """Inverse kinematics that places feet leg by leg; joints that do not belong to legs stay at home.

    Args:
        robot: a quadruped.

    Attributes:
        legs: leg kinematics by name of the foot.

    Raises:
        QuaddynError: the kinematics of the legs are not supported, for example for coupled joints.
    """

    __slots__ = ("_joint_entries", "legs")

    def __init__(self, robot: Robot) -> None:
        joints_by_name = independent_joints(robot.bodies)
        self.legs = {foot: LegKinematics(robot, foot) for foot in FEET}
        self._joint_entries = {
            foot: [(robot.configuration_index(joint), joints_by_name[joint]) for joint in leg.joints]
            for foot, leg in self.legs.items()
        }

    def place_foot(self, q: Array, foot: str, points: Array) -> bool:
        """Sets the joints of a leg in configurations, on its branch at home.

        Args:
            q: (nq,) or (n, nq) configurations, updated.
            foot: name of the foot.
            points: (3,) or (n, 3) positions of the center of the foot sphere, base frame [m].

        Returns:
            Whether all positions are reached within the joint limits.
        """
        solution = self.legs[foot].inverse(points)
        if not (np.all(solution.reached) and np.all(solution.within_limits)):
            return False
        rows, values = np.atleast_2d(q), np.atleast_2d(solution.q)
        for row, angles in zip(rows, values.tolist(), strict=True):
            for (index, joint), value in zip(self._joint_entries[foot], angles, strict=True):
                set_joint_value(row, index, joint, value)
        return True


#: Number of sampled directions around a foot.  No direction is exactly forward or sideways, where a leg may just pass
#: an obstacle that it does not pass beside it.
N_DIRECTIONS = 24
#: Number of sampled distances along each direction from a foot, and maximum distance [l].
N_DISTANCES, MAX_DISTANCE = 24, 0.72
#: Fraction of the length of a straight leg that strides may use: near its full length a leg is too slow.
USABLE_LENGTH_FRACTION = 0.97


class LegWorkspace:
    """Reachable area of each foot on level ground, while the trunk is level and at its nominal height.

    In every direction it ends at the first position which the leg's joints do not reach within their limits, on the
    leg's branch at home, or where the leg is nearly straight.

    Args:
        robot: a quadruped.
        morphology: lengths and units of the robot.
        poses: leg kinematics; None where they have no closed form, and the workspace is unknown.
    """

    __slots__ = ("_cache", "_limbs", "_morphology", "_poses")

    def __init__(self, robot: Robot, morphology: Morphology, poses: LegPoseSolver | None) -> None:
        self._morphology, self._poses, self._limbs = morphology, poses, make_limbs(robot)
        self._cache: dict[tuple[float, float], Array | None] = {}

    def measure_reach(self, footprint_scale: tuple[float, float]) -> Array | None:
        """Returns the radius of the workspace (4, N_DIRECTIONS) in each direction [m]; None where it is unknown."""
        if footprint_scale not in self._cache:
            self._cache[footprint_scale] = (
                None if self._poses is None else self._measure_radii(self._poses, footprint_scale)
            )
        return self._cache[footprint_scale]

    def _measure_radii(self, poses: LegPoseSolver, footprint_scale: tuple[float, float]) -> Array:
        """Measures the radii (4, N_DIRECTIONS) of the workspace [m] by inverse kinematics."""
        p, radii = self._morphology, []
        angles = 2.0 * math.pi / N_DIRECTIONS * (np.arange(N_DIRECTIONS) + 0.5)
        distances = MAX_DISTANCE * p.length / N_DISTANCES * np.arange(1, N_DISTANCES + 1)
        # A leg without lateral motion moves straight ahead only, with the nominal width.
        lateral_factor, footprint_scale = (
            (1.0, footprint_scale) if p.can_step_sideways else (0.0, (footprint_scale[0], 1.0))
        )
        offsets = np.stack((np.cos(angles), lateral_factor * np.sin(angles)), axis=1)[:, None] * distances[:, None]
        base = np.array([0.0, 0.0, p.height]) + p.base_offset
        for i, foot in enumerate(FEET):
            positions = np.empty((N_DIRECTIONS, N_DISTANCES, 3))
            positions[..., :2], positions[..., 2] = p.nominal_stance[i] * footprint_scale + offsets, p.radii[i]
            solution = poses.legs[foot].inverse(((positions - base) @ p.heading.T).reshape(-1, 3))
            is_reachable = (
                np.asarray(solution.reached)
                & np.asarray(solution.within_limits)
                & is_bent(self._limbs[foot], solution.q)
            )
            is_reachable = is_reachable.reshape(N_DIRECTIONS, N_DISTANCES)
            n_reachable = np.where(is_reachable.all(axis=1), N_DISTANCES, np.argmin(is_reachable, axis=1))
            radii.append(MAX_DISTANCE * p.length / N_DISTANCES * n_reachable)
        return np.array(radii)


def is_bent(limb: Limb, q: Array) -> NDArray[np.bool_]:
    """Returns for each configuration whether a leg is not nearly straight.

    Args:
        limb: the leg.
        q: (n, joints) joint positions [rad or m].
    """
    origins, axes, tip = limb.chain.forward(q)
    hip_distance = np.linalg.norm(np.cross(tip - origins[:, limb.hip], axes[:, limb.hip]), axis=1)
    return np.asarray(hip_distance < USABLE_LENGTH_FRACTION * limb.reach)
