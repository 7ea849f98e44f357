"""`FeltFriction`: how slippery the ground is, as far as feet that slipped have shown."""

from __future__ import annotations

import math
from collections.abc import Collection

from ..dynamics import State
from ..estimation import SlipDetector
from ..robot.robot import Robot
from ..urdf.tree import Array
from .proportions import Proportions

#: Fraction of the friction coefficient measured in slips that is assumed, and the smallest coefficient assumed.
SAFE, LEAST = 0.8, 0.03
#: Time constant with which a slip lowers the bound [sqrt(l/g)].
SHOWING = 0.03
#: Time scale T of the return of a bound that no slip confirms, which grows by ``exp(t^2 / (2 T^2))`` [sqrt(l/g)].
RECOVERY_TIME = 4.0
#: A slip that shows up to so many times the friction that was shown before confirms the bound.
CONFIRMING = 1.2
#: Time that a foot must have gathered or kept speed in a slip before the slip shows friction [sqrt(l/g)].
MIN_SLIP_TIME = 0.03
#: Feet that have to slip at once on rough ground for their slips to count.
SEVERAL = 2
#: Time constant with which the bound follows forces that are held above it [sqrt(l/g)], and their uncertainty, as a
#: ratio of tangential to normal force.
HOLDING, HOLDING_DOUBT = 1.0, 0.05


class FeltFriction:
    """A bound on Coulomb's coefficient, lowered by slips and raised by time and by forces that are held.

    Nothing is known before the first slip.  A slip that shows less than the bound lowers it to `SAFE` times what it
    shows.  The time since the last slip that showed about as little is the confidence in the bound: it decays, and the
    bound grows the faster the longer no slip confirms it.  Where a foot holds forces above what slips have shown,
    without slipping, the bound was too low, and follows these forces.

    Args:
        robot: a quadruped.
        proportions: of the robot.
        dt: [s].

    Attributes:
        detector: of the slips.
        bound: on the coefficient; inf before anything has slipped.
        slipping: the feet that slip.
    """

    __slots__ = ("_dt", "_growing", "_holding", "_min_slip_time", "_share", "_since", "bound", "detector", "slipping")

    def __init__(self, robot: Robot, proportions: Proportions, dt: float) -> None:
        self.detector = SlipDetector(robot, dt=dt, length=proportions.length)
        self._share = dt / (SHOWING * proportions.time + dt)
        self._dt, self._growing = dt, dt / (RECOVERY_TIME * proportions.time) ** 2
        self._min_slip_time = MIN_SLIP_TIME * proportions.time
        self._holding = dt / (HOLDING * proportions.time + dt)
        self.reset()

    def reset(self) -> None:
        """Resets the bound: nothing has slipped."""
        self.detector.reset()
        self._since = 0.0
        self.bound = math.inf
        self.slipping: tuple[str, ...] = ()

    def update(
        self,
        s: State,
        forces: Array,
        touching: Collection[str],
        normals: Array,
        *,
        telling: bool = True,
        rough: bool = False,
    ) -> float:
        """One step further.

        Args:
            s: the state now.
            forces: (4, 3) of the robot's feet, on the robot, world axes, as estimated [N].
            touching: the feet that touch and are to carry.
            normals: (4, 3) of the ground under each foot, in the order of the robot's.
            telling: whether slips lower the bound.
            rough: whether only slips of several feet at once lower the bound: a single one may scrape along an edge.

        Returns:
            The bound.
        """
        self.slipping = self.detector.update(s, forces, touching, normal=normals)
        enough = telling and len(self.slipping) >= (SEVERAL if rough else 1)
        shown = self.detector.friction_after(self._min_slip_time) if enough else None
        self._since += self._dt
        if shown is not None and SAFE * shown < CONFIRMING * self.bound:
            self._since = 0.0
        if shown is not None and SAFE * shown < self.bound:
            start = min(self.bound, 1.0)
            self.bound = start + self._share * (max(SAFE * shown, LEAST) - start)
            return self.bound
        if self.bound < math.inf:
            self.bound *= math.exp(self._growing * self._since)
            held = self.detector.held - HOLDING_DOUBT
            if SAFE * held > self.bound:
                self.bound += self._holding * (held - self.bound)
        return self.bound
