"""`LegMargins`: what a leg whose foot stands somewhere has left of its reach, and between its shank and the ground."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..errors import QuaddynError
from ..kinematics import LegKinematics
from ..robot.chain import Chain
from ..robot.legs import limbs_of
from ..robot.robot import Robot
from ..urdf.tree import Array
from .ground import heading_axes
from .ground_window import Window
from .proportions import FEET, Proportions
from .trunk import crouch

#: Places along a link of the shank that are compared with the ground.
ALONG = 8


class Stay(NamedTuple):
    """Where the trunk is from when a foot is put down until it is lifted again.

    Attributes:
        com: the centre of mass at first, as high over the plane of the feet as on level ground, world [m].
        velocity: of it, forward and leftward, seen from above [m/s].
        time: until then [s].
        slope: (2,) rise of that plane along world x and y.
        yaw: of the heading [rad].
    """

    com: tuple[float, float, float]
    velocity: tuple[float, float]
    time: float
    slope: Array
    yaw: float

    @property
    def travel(self) -> Array:
        """(2,) of the centre of mass, along x and y, world [m]."""
        (u, v), c, s = self.velocity, math.cos(self.yaw), math.sin(self.yaw)
        return self.time * np.array([c * u - s * v, s * u + c * v])

    def after(self, way: tuple[float, float]) -> Stay:
        """The same, after the centre of mass has gone over the plane along x and y [m]."""
        x, y, z = self.com
        return self._replace(com=(x + way[0], y + way[1], z + float(self.slope @ way)))


class LegMargins:
    """Margins of the legs of a robot, worked out when they are asked for.

    The trunk is parallel to the plane of the feet and at its height, the leg on its branch at home; a leg that does not
    reach is stretched towards its foot.

    Args:
        robot: a quadruped.
        proportions: of the robot.
        reach: (4,) largest distance of a foot from its leg's first joint [m], see `Stretch`.
    """

    __slots__ = ("_legs", "_p", "_reach", "_robot")

    def __init__(self, robot: Robot, proportions: Proportions, reach: Array) -> None:
        self._robot, self._p, self._reach = robot, proportions, reach
        self._legs: dict[int, tuple[LegKinematics, Chain, int] | None] = {}

    def of(self, i: int, places: Array, normal: Array, stay: Stay, ground: Window | None) -> Array:
        """What is left at the worse one of both ends of a stay.

        Args:
            i: number of the foot in `FEET`.
            places: (n, 3) on the ground, world [m].
            normal: (3,) or (n, 3) of the ground there.
            stay: of the trunk.
            ground: that is known; None where nothing is.

        Returns:
            (n, 2) what the leg is short of its reach, negative where it does not reach, and the smallest height of the
            straight lines from knee to foot over the ground beside the foot [m]; NaN where the leg's knee or that
            ground is not known, inf where there is none beside the foot's own cell and its neighbours.
        """
        p, axes = self._p, heading_axes(stay.yaw, *stay.slope.tolist())
        feet = places + float(p.radii[i]) * normal
        rise = float(stay.slope @ stay.travel)
        begin = np.array(stay.com) - [0.0, 0.0, crouch(p, axes)]
        R, out = axes @ p.heading.T, np.full((len(places), 2), np.inf)
        for com in (begin, begin + np.array([*stay.travel, rise])):
            far = np.linalg.norm(feet - com - axes @ p.hips[i], axis=1)
            high = self._height(i, feet, places, R, com + axes @ p.offset, ground)
            out = np.minimum(out, np.column_stack((self._reach[i] - far, high)))
        return out

    def _height(self, i: int, feet: Array, places: Array, R: Array, base: Array, ground: Window | None) -> Array:
        """(n,) of the lines from knee to foot over the ground beside the foot [m]."""
        known = self._leg(i)
        if ground is None or known is None or not len(feet):
            return np.full(len(feet), np.nan)
        leg, chain, knee = known
        origins, _, tip = chain.forward(leg.inverse((feet - base) @ R).q)
        corners = np.concatenate((origins[:, knee:], tip[:, None]), axis=1) @ R.T + base
        share = np.arange(ALONG + 1)[:, None] / ALONG
        lines = corners[:, :-1, None] + share * (corners[:, 1:] - corners[:, :-1])[:, :, None]
        points = lines.reshape(len(feet), -1, 3)
        cells = np.rint((points[..., :2] - ground.corner) / ground.cell).astype(int)
        own = np.rint((places[:, :2] - ground.corner) / ground.cell).astype(int)
        beside = np.abs(cells - own[:, None]).sum(axis=2) > 1  # what is nearer is what the foot stands on
        inside = np.asarray(((cells >= 0) & (cells < ground.heights.shape)).all(axis=2))
        x, y = np.where(inside[..., None], cells, 0).transpose(2, 0, 1)
        height = np.where(inside, ground.heights[x, y], np.nan)
        return np.asarray(np.where(beside, points[..., 2] - height, np.inf).min(axis=1))

    def _leg(self, i: int) -> tuple[LegKinematics, Chain, int] | None:
        """Kinematics, joints and number of the knee of a leg; None where its kinematics are refused."""
        if i not in self._legs:
            limb = limbs_of(self._robot)[FEET[i]]
            try:
                leg = LegKinematics(self._robot, FEET[i])
                self._legs[i] = leg, Chain(self._robot.bodies, limb.indices, limb.chain.tip), limb.knee
            except QuaddynError:
                self._legs[i] = None
        return self._legs[i]
