"""`Stretch`: how low the trunk has to be for the legs to reach the ground."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ..robot.chain import Chain
from ..robot.legs import limbs_of
from ..robot.robot import Robot
from .course import Course
from .gait import Clock
from .ground import GroundPlane
from .proportions import FEET, Proportions
from .swing import Swing
from .trunk import crouch

#: Share of a leg's reach that is counted on.
FULL = 0.95
#: The lowest that a trunk goes for its legs [h].
DEEPEST = 0.25
#: Configurations of a leg that are looked at for its reach.
SAMPLES = 4096


class Stretch:
    """Lowers the trunk for feet that stand low, or far behind or ahead, on ground that is known.

    A foot that stands is where it was put, while its hip goes on: at every instant from now to the end of its stance,
    the hip of a trunk that follows the plane of the feet must be within the leg's reach of it.  Joint limits count:
    knees of many robots do not straighten.

    Args:
        robot: a quadruped.
        proportions: of the robot.

    Attributes:
        reach: (4,) largest distance of a foot from its leg's first joint [m].
    """

    __slots__ = ("_p", "reach")

    def __init__(self, robot: Robot, proportions: Proportions) -> None:
        self._p = proportions
        limbs = limbs_of(robot)
        self.reach = np.array([reach(limbs[foot].chain) for foot in FEET])

    def dip(
        self,
        clock: Clock,
        course: Course,
        ground: GroundPlane,
        swings: Mapping[int, Swing],
        com: tuple[float, float],
    ) -> float:
        """How much lower than over a plane the trunk has to be [m].

        Args:
            clock: of the gait.
            course: of the robot.
            ground: the plane of the feet, and where they are or come to be.
            swings: of the feet in the air, by number.
            com: place of the centre of mass [m].
        """
        p, axes = self._p, ground.axes(course.yaw)
        hips, (x, y) = (p.hips @ axes.T).tolist(), com
        high = ground.height(x, y) + p.height - crouch(p, axes)
        u, v = course.world_velocity().tolist()
        a, b = ground.slope.tolist()
        rise = a * u + b * v
        leaving, deep = clock.leaving, 0.0
        for i, (px, py, pz) in enumerate(ground.places()):
            hx, hy, hz = hips[i]
            swing = swings.get(i)
            if swing is None:
                begin, end = 0.0, leaving[i]
            else:
                begin = end = max(0.0, 1.0 - swing.progress) * clock.swing_time
            far, drop = (FULL * self.reach[i]) ** 2, high + hz - pz - p.radii[i]
            for t in (begin, end):
                dx, dy = x + hx + t * u - px, y + hy + t * v - py
                deep = max(deep, drop + t * rise - math.sqrt(max(far - dx * dx - dy * dy, 0.0)))
        return min(deep, DEEPEST * p.height)


def reach(leg: Chain) -> float:
    """The largest distance of a leg's tip from its first joint, within the limits of its joints [m]."""
    count = max(2, round(SAMPLES ** (1.0 / leg.n)))
    origins, _, tip = leg.forward(leg.postures((count,) * leg.n))
    return float(np.linalg.norm(tip - origins[:, 0], axis=1).max())
