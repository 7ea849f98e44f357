"""`LegMargins`: reach margin of a stance leg, and clearance of its shank over the ground."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..errors import QuaddynError
from ..kinematics import LegKinematics
from ..robot.chain import Chain
from ..robot.legs import make_limbs
from ..robot.robot import Robot
from ..urdf.tree import Array
from .ground_plane import heading_axes
from .morphology import FEET, Morphology
from .terrain_window import TerrainWindow
from .trunk_controller import compute_slope_lowering

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
