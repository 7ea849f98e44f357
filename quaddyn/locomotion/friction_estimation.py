"""`FeltFriction`: how slippery the ground is, as far as feet that slipped have shown."""

from __future__ import annotations

import math
from collections.abc import Collection

from ..dynamics import State
from ..estimation import SlipDetector
from ..robot.robot import Robot
from ..urdf.tree import Array
from .morphology import Morphology

#: Fraction of the friction coefficient measured in slips that is assumed, and the smallest coefficient assumed.
SLIP_SAFETY_FACTOR, MIN_FRICTION = 0.8, 0.03
#: Time constant with which a slip lowers the bound [sqrt(l/g)].
SLIP_TIME_CONSTANT = 0.03
#: Time scale T of the return of a bound that no slip confirms, which grows by ``exp(t^2 / (2 T^2))`` [sqrt(l/g)].
RECOVERY_TIME = 4.0
#: A slip that shows up to so many times the friction that was shown before confirms the bound.
CONFIRMATION_RATIO = 1.2
#: Time that a foot must have gathered or kept speed in a slip before the slip shows friction [sqrt(l/g)].
MIN_SLIP_TIME = 0.03
#: Feet that have to slip at once on rough ground for their slips to count.
MIN_SLIPPING_FEET = 2
#: Time constant with which the bound follows forces that are held above it [sqrt(l/g)], and their uncertainty, as a
#: ratio of tangential to normal force.
HOLDING_TIME_CONSTANT, HOLDING_UNCERTAINTY = 1.0, 0.05


class FrictionEstimation:
    """A bound on Coulomb's coefficient, lowered by slips and raised by time and by forces that are held.

    Nothing is known before the first slip.  A slip that shows less than the bound lowers it to `SAFE` times what it
    shows.  The time since the last slip that showed about as little is the confidence in the bound: it decays, and the
    bound grows the faster the longer no slip confirms it.  Where a foot holds forces above what slips have shown,
    without slipping, the bound was too low, and follows these forces.

    Args:
        robot: a quadruped.
        morphology: of the robot.
        dt: [s].

    Attributes:
        detector: of the slips.
        bound: on the coefficient; inf before anything has slipped.
        slipping_feet: the feet that slip.
    """

    __slots__ = (
        "_dt",
        "_growth_rate",
        "_holding_alpha",
        "_min_slip_time",
        "_slip_alpha",
        "_time_since_slip",
        "bound",
        "detector",
        "slipping_feet",
    )

    def __init__(self, robot: Robot, morphology: Morphology, dt: float) -> None:
        self.detector = SlipDetector(robot, dt=dt, length=morphology.length)
        self._slip_alpha = dt / (SLIP_TIME_CONSTANT * morphology.time_scale + dt)
        self._dt, self._growth_rate = dt, dt / (RECOVERY_TIME * morphology.time_scale) ** 2
        self._min_slip_time = MIN_SLIP_TIME * morphology.time_scale
        self._holding_alpha = dt / (HOLDING_TIME_CONSTANT * morphology.time_scale + dt)
        self.reset()

    def reset(self) -> None:
        """Resets the bound: nothing has slipped."""
        self.detector.reset()
        self._time_since_slip = 0.0
        self.bound = math.inf
        self.slipping_feet: tuple[str, ...] = ()

    def update(
        self,
        state: State,
        forces: Array,
        contacts: Collection[str],
        normals: Array,
        *,
        lower_bound: bool = True,
        rough: bool = False,
    ) -> float:
        """One step further.

        Args:
            state: the state now.
            forces: (4, 3) of the robot's feet, on the robot, world axes, as estimated [N].
            contacts: the feet that touch and are to carry.
            normals: (4, 3) of the ground under each foot, in the order of the robot's.
            lower_bound: whether slips lower the bound.
            rough: whether only slips of several feet at once lower the bound: a single one may scrape along an edge.

        Returns:
            The bound.
        """
        self.slipping_feet = self.detector.update(state, forces, contacts, normal=normals)
        enough = lower_bound and len(self.slipping_feet) >= (MIN_SLIPPING_FEET if rough else 1)
        shown = self.detector.estimate_friction(self._min_slip_time) if enough else None
        self._time_since_slip += self._dt
        if shown is not None and SLIP_SAFETY_FACTOR * shown < CONFIRMATION_RATIO * self.bound:
            self._time_since_slip = 0.0
        if shown is not None and SLIP_SAFETY_FACTOR * shown < self.bound:
            start = min(self.bound, 1.0)
            self.bound = start + self._slip_alpha * (max(SLIP_SAFETY_FACTOR * shown, MIN_FRICTION) - start)
            return self.bound
        if self.bound < math.inf:
            self.bound *= math.exp(self._growth_rate * self._time_since_slip)
            held = self.detector.max_held_ratio - HOLDING_UNCERTAINTY
            if SLIP_SAFETY_FACTOR * held > self.bound:
                self.bound += self._holding_alpha * (held - self.bound)
        return self.bound
