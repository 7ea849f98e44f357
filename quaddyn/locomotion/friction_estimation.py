"""`FrictionEstimation`: estimate of an upper bound of the friction coefficient from slips."""

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
#: Ratio of the friction of a slip to the bound up to which the slip confirms the bound.
CONFIRMATION_RATIO = 1.2
#: Minimum time of a slip, without deceleration, before its forces are used for the friction [sqrt(l/g)].
MIN_SLIP_TIME = 0.03
#: Number of feet that must slip at once on rough ground for their slips to be used.
MIN_SLIPPING_FEET = 2
#: Time constant with which the bound is raised to forces that feet hold without slipping [sqrt(l/g)], and uncertainty
#: of these forces, as a ratio of tangential to normal force.
HOLDING_TIME_CONSTANT, HOLDING_UNCERTAINTY = 1.0, 0.05


class FrictionEstimation:
    """Upper bound of the friction coefficient, lowered by slips and raised by time and by forces that feet hold.

    The bound is infinite before the first slip.  A slip with a friction below the bound lowers it to
    `SLIP_SAFETY_FACTOR` times that friction.  Without further slips of similar friction the bound grows again, the
    faster the longer none confirms it.  If a foot holds a larger ratio of forces without slipping, the bound was too
    low and follows that ratio.

    Args:
        robot: a quadruped.
        morphology: lengths and units of the robot.
        dt: control period [s].

    Attributes:
        detector: slip detector.
        bound: upper bound of the friction coefficient, dimensionless; inf before the first slip.
        slipping_feet: names of the feet that slip.
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
        """Resets slip detection and bound."""
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
        """Updates the estimate by one tick and returns the bound of the friction coefficient.

        Args:
            state: present state of the robot.
            forces: (4, 3) estimated forces of the feet on the robot, in the order of the robot's feet, world axes [N].
            contacts: names of the feet that are in contact and carry load.
            normals: (4, 3) unit normals of the ground under each foot, in the same order, world.
            lower_bound: whether slips lower the bound.
            rough: whether only simultaneous slips of several feet lower the bound: on rough ground a single foot may
                scrape along an edge.

        Returns:
            The bound.
        """
        self.slipping_feet = self.detector.update(state, forces, contacts, normal=normals)
        may_lower = lower_bound and len(self.slipping_feet) >= (MIN_SLIPPING_FEET if rough else 1)
        slip_friction = self.detector.estimate_friction(self._min_slip_time) if may_lower else None
        self._time_since_slip += self._dt
        if slip_friction is not None and SLIP_SAFETY_FACTOR * slip_friction < CONFIRMATION_RATIO * self.bound:
            self._time_since_slip = 0.0
        if slip_friction is not None and SLIP_SAFETY_FACTOR * slip_friction < self.bound:
            start = min(self.bound, 1.0)
            self.bound = start + self._slip_alpha * (max(SLIP_SAFETY_FACTOR * slip_friction, MIN_FRICTION) - start)
            return self.bound
        if self.bound < math.inf:
            self.bound *= math.exp(self._growth_rate * self._time_since_slip)
            held_ratio = self.detector.max_held_ratio - HOLDING_UNCERTAINTY
            if SLIP_SAFETY_FACTOR * held_ratio > self.bound:
                self.bound += self._holding_alpha * (held_ratio - self.bound)
        return self.bound
