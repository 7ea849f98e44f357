"""`FeltFriction`: how slippery the ground is, as far as feet that slipped have shown."""

from __future__ import annotations

import math
from collections.abc import Collection

from ..dynamics import State
from ..estimation import SlipDetector
from ..robot.robot import Robot
from ..urdf.tree import Array
from .proportions import Proportions

#: Share of the friction that was shown which is counted on, and the least that ever is.
SAFE, LEAST = 0.8, 0.03
#: Time constants of what a slip shows, and of the trust that comes back [sqrt(l/g)].
SHOWING, RECOVERY = 0.03, 12.0


class FeltFriction:
    """A bound on Coulomb's coefficient that slips lower at once, and time raises slowly.

    Nothing is known before the first slip.  A slip that shows less than the bound lowers it; else it grows by a factor
    e in `RECOVERY`: whoever is wrong about it slips again.

    Args:
        robot: a quadruped.
        proportions: of the robot.
        dt: [s].

    Attributes:
        detector: of the slips.
        bound: on the coefficient; inf before anything has slipped.
        slipping: the feet that slip.
    """

    __slots__ = ("_growth", "_share", "bound", "detector", "slipping")

    def __init__(self, robot: Robot, proportions: Proportions, dt: float) -> None:
        self.detector = SlipDetector(robot, dt=dt, length=proportions.length)
        self._share = dt / (SHOWING * proportions.time + dt)
        self._growth = math.exp(dt / (RECOVERY * proportions.time))
        self.reset()

    def reset(self) -> None:
        """Nothing has slipped."""
        self.detector.reset()
        self.bound = math.inf
        self.slipping: tuple[str, ...] = ()

    def update(
        self, s: State, forces: Array, touching: Collection[str], normals: Array, *, telling: bool = True
    ) -> float:
        """One step further.

        Args:
            s: the state now.
            forces: (4, 3) of the robot's feet, on the robot, world axes, as estimated [N].
            touching: the feet that touch and are to carry.
            normals: (4, 3) of the ground under each foot, in the order of the robot's.
            telling: whether slips lower the bound.

        Returns:
            The bound.
        """
        self.slipping = self.detector.update(s, forces, touching, normal=normals)
        shown = self.detector.friction if telling else None
        if shown is not None and SAFE * shown < self.bound:
            start = min(self.bound, 1.0)
            self.bound = start + self._share * (max(SAFE * shown, LEAST) - start)
        else:
            self.bound *= self._growth
        return self.bound
