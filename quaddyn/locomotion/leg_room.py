"""`LegRoom`: how far from their places under the trunk the feet can be, within the limits of the joints."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..robot.legs import limbs_of
from ..robot.limbs import Limb
from ..robot.robot import Robot
from ..urdf.tree import TIE_TOLERANCE, Array
from .poses import Poses
from .proportions import FEET, Proportions

#: Directions about a foot's place, and how many distances along each are looked at, up to the farthest [l].  None goes
#: straight ahead, nor aside, where a leg may just get past what it does not get past beside it.
DIRECTIONS, STEPS, FARTHEST = 24, 24, 0.72
#: Share of the room that strides may take, and of a straight leg's length that counts: feet also go where balance wants
#: them, and near its full length a leg is too slow for that.
TAKEN, FULL = 0.95, 0.97


class LegRoom:
    """Room of each foot about its place, on level ground, while the trunk is level and at its height.

    In every direction it ends at the first place that the leg's joints do not reach within their limits, on the leg's
    branch at home, or where the leg is nearly straight.

    Args:
        robot: a quadruped.
        proportions: of the robot.
        poses: of its legs; None where they have no closed form, and nothing is known of their room.
    """

    __slots__ = ("_known", "_limbs", "_p", "_poses")

    def __init__(self, robot: Robot, proportions: Proportions, poses: Poses | None) -> None:
        self._p, self._poses, self._limbs = proportions, poses, limbs_of(robot)
        self._known: dict[tuple[float, float], list[list[float]] | None] = {}

    def share(self, spread: tuple[float, float], ways: list[tuple[float, float]]) -> tuple[float, str]:
        """How much of some ways of the feet there is room for, forward and back alike, and the foot with the least.

        Args:
            spread: length and width of the footprint, as shares of those at home.
            ways: of each foot from its place, heading axes [m].

        Returns:
            A factor of all ways, inf where nothing limits them, and the name of the foot.
        """
        rooms, least, foot = self._rooms(spread), math.inf, ""
        if rooms is None:
            return least, foot
        turn, half = DIRECTIONS / (2.0 * math.pi), DIRECTIONS // 2
        for name, room, (x, y) in zip(FEET, rooms, ways, strict=True):
            far = math.hypot(x, y)
            if not far > 0.0:
                continue
            at = math.atan2(y, x) * turn - 0.5
            k = math.floor(at)
            part = at - k
            for first in (k, k + half):
                a, b = room[first % DIRECTIONS], room[(first + 1) % DIRECTIONS]
                share = TAKEN * (a + part * (b - a)) / far
                if share < least * (1.0 - TIE_TOLERANCE):
                    foot = name
                least = min(least, share)
        return least, foot

    def _rooms(self, spread: tuple[float, float]) -> list[list[float]] | None:
        """(4, DIRECTIONS) [m]; None where nothing is known of the legs."""
        if spread not in self._known:
            self._known[spread] = None if self._poses is None else self._measure(self._poses, spread)
        return self._known[spread]

    def _measure(self, poses: Poses, spread: tuple[float, float]) -> list[list[float]]:
        p, out = self._p, []
        angles = 2.0 * math.pi / DIRECTIONS * (np.arange(DIRECTIONS) + 0.5)
        distances = FARTHEST * p.length / STEPS * np.arange(1, STEPS + 1)
        # A leg that cannot step aside only ever goes straight ahead, and keeps its width.
        across, spread = (1.0, spread) if p.sideways else (0.0, (spread[0], 1.0))
        around = np.stack((np.cos(angles), across * np.sin(angles)), axis=1)[:, None] * distances[:, None]
        base = np.array([0.0, 0.0, p.height]) + p.offset
        for i, foot in enumerate(FEET):
            places = np.empty((DIRECTIONS, STEPS, 3))
            places[..., :2], places[..., 2] = p.stance[i] * spread + around, p.radii[i]
            found = poses.legs[foot].inverse(((places - base) @ p.heading.T).reshape(-1, 3))
            good = np.asarray(found.reached) & np.asarray(found.within_limits) & bent(self._limbs[foot], found.q)
            good = good.reshape(DIRECTIONS, STEPS)
            count = np.where(good.all(axis=1), STEPS, np.argmin(good, axis=1))
            out.append((FARTHEST * p.length / STEPS * count).tolist())
        return out


def bent(limb: Limb, q: Array) -> NDArray[np.bool_]:
    """(n,) whether a leg is not nearly straight.

    Args:
        limb: the leg.
        q: (n, joints) [rad or m].
    """
    origins, axes, tip = limb.chain.forward(q)
    far = np.linalg.norm(np.cross(tip - origins[:, limb.hip], axes[:, limb.hip]), axis=1)
    return np.asarray(far < FULL * limb.reach)
