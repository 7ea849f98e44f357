"""`JumpPlan`: a single jump, worked out before it is made."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..urdf.tree import Array, FrozenArrays
from .proportions import Proportions

#: How high feet are drawn up in flight, as a share of the rise, and to which height of the centre of mass over them at
#: most, as a share of that at touchdown.
TUCK, TUCKED = 0.8, 0.75
#: When in flight the feet are drawn up, and when put out, as shares of it.
DRAWN_UP, PUT_OUT = 0.35, 0.6
#: When they are over their footholds.
OVER = 0.85


@dataclass(frozen=True, slots=True, eq=False)
class JumpPlan(FrozenArrays):
    """A jump from a stance: crouch, push with all feet, flight, landing on all feet.

    Places are from the middle of the feet on the ground where it begins, in the heading frame there.

    Attributes:
        asked: height, distance forward and leftward [m] and turn [rad] that were asked for; NaN for a height that was
            left to the plan.
        height: rise of the centre of mass from where the feet leave the ground [m].
        distance: (2,) forward and leftward, from the middle of the feet to that where they land [m].
        turn: to the left [rad].
        limit: what cut the jump, such as "torque of FL_calf_joint"; "" where nothing did.
        ballistic: the rise that all work of which the legs are capable would give [m], see `JumpPlanner.ballistic`.
        level: height of the ground where it lands [m].
        crouch: height of the centre of mass over the ground at the beginning of the push [m].
        takeoff: its height as the feet leave the ground [m].
        ready: its height over the ground where it lands as the feet touch that [m].
        lead: (2,) of the centre of mass ahead of the middle of the feet as the push begins [m].
        push_time: [s].
        flight_time: [s].
        velocity: (3,) of the centre of mass as the feet leave the ground [m/s].
        spin: (3,) angular velocity of the trunk then [rad/s].
        load: the largest share of a limit that the push uses.
    """

    asked: tuple[float, float, float, float]
    height: float
    distance: Array
    turn: float
    limit: str
    ballistic: float
    level: float
    crouch: float
    takeoff: float
    ready: float
    lead: Array
    push_time: float
    flight_time: float
    velocity: Array
    spin: Array
    load: float

    @property
    def limited(self) -> bool:
        """Whether more was asked for than the legs can do."""
        return self.limit != ""

    @property
    def leaves(self) -> Array:
        """(2,) place of the centre of mass as the feet leave the ground [m]."""
        return self.lead + 0.5 * self.push_time * self.velocity[:2]

    def below(self, share: float) -> float:
        """Height of the centre of mass over the feet after a share of the flight [m]: they are drawn up meanwhile."""
        up = min(share / DRAWN_UP, 1.0)
        out = min(max((share - PUT_OUT) / (1.0 - PUT_OUT), 0.0), 1.0)
        low = max(TUCKED * self.ready, min(self.takeoff, self.ready) - TUCK * self.height)
        return self.takeoff + (low - self.takeoff) * smooth(up) + (self.ready - low) * smooth(out)

    def __str__(self) -> str:
        """One line: what is jumped, and what of it was asked for."""
        x, y = self.distance.tolist()
        cut = f"; cut by {self.limit}" if self.limited else ""
        return (
            f"jump {self.height:.3f} m high ({self.height / self.ballistic:.2f} of the ballistic limit), {x:+.3f} m "
            f"forward, {y:+.3f} m to the left, {math.degrees(self.turn):+.0f} deg{cut}"
        )


def across(share: float) -> float:
    """How far feet have come, after a share of the flight, from where they left the ground to where they land."""
    return smooth(min(share / OVER, 1.0))


def smooth(share: float) -> float:
    """From 0 to 1 with least jerk."""
    return share**3 * (10.0 - 15.0 * share + 6.0 * share**2)


def footprint(p: Proportions, middle: Array, turn: float) -> Array:
    """(4, 2) feet as at home about a place, turned to the left [rad]."""
    c, s = math.cos(turn), math.sin(turn)
    return np.asarray(middle + p.stance @ np.array([[c, s], [-s, c]]))
