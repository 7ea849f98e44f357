"""`JumpPlan`: the plan of a single jump."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..deprecation import renamed_attributes
from ..urdf.tree import Array, FrozenArrays
from .morphology import Morphology

#: Retraction of the feet in flight, as a fraction of the rise, and minimum height of the center of mass over the feet,
#: as a fraction of that at touchdown.
TUCK_HEIGHT_FRACTION, MIN_TUCKED_HEIGHT_FRACTION = 0.8, 0.75
#: End of the retraction of the feet and start of their extension, as fractions of the flight.
RETRACTION_END, EXTENSION_START = 0.35, 0.6
#: Fraction of the flight after which the feet are above their footholds.
HORIZONTAL_END = 0.85


@renamed_attributes(
    asked="requested", limit="limit_reason", limited="is_limited", ballistic="ballistic_height", level="landing_height"
)
@dataclass(frozen=True, slots=True, eq=False)
class JumpPlan(FrozenArrays):
    """Plan of a jump from stance: crouch, push-off with all feet, flight, landing on all feet.

    Positions are relative to the center of the feet on the ground at the start, in the heading frame there.

    Attributes:
        requested: (4,) requested height [m], forward and leftward distance [m] and turn [rad]; NaN for a height that
            was left to the planner.
        height: rise of the center of mass after lift-off [m].
        distance: (2,) forward and leftward displacement of the center of the feet [m].
        turn: yaw angle, positive to the left [rad].
        limit_reason: limit for which the jump was scaled down, such as "torque of FL_calf_joint"; "" if it was not.
        ballistic_height: rise for which all work of which the legs are capable would be used [m], see
            `JumpDynamics.ballistic_height`.
        landing_height: height of the ground at the landing, relative to the start [m].
        crouch_com_height: height of the center of mass over the ground at the start of the push-off [m].
        liftoff_com_height: height of the center of mass over the ground at lift-off [m].
        touchdown_com_height: height of the center of mass over the ground at touchdown [m].
        com_offset: (2,) center of mass relative to the center of the feet at the start of the push-off [m].
        push_time: duration of the push-off [s].
        flight_time: duration of the flight [s].
        velocity: (3,) velocity of the center of mass at lift-off [m/s].
        angular_velocity: (3,) angular velocity of the trunk at lift-off [rad/s].
        peak_limit_fraction: largest ratio of a load to its limit during the push-off, dimensionless.
    """

    requested: tuple[float, float, float, float]
    height: float
    distance: Array
    turn: float
    limit_reason: str
    ballistic_height: float
    landing_height: float
    crouch_com_height: float
    liftoff_com_height: float
    touchdown_com_height: float
    com_offset: Array
    push_time: float
    flight_time: float
    velocity: Array
    angular_velocity: Array
    peak_limit_fraction: float

    @property
    def is_limited(self) -> bool:
        """Whether the requested jump was scaled down."""
        return self.limit_reason != ""

    @property
    def liftoff_com_position(self) -> Array:
        """(2,) position of the center of mass at lift-off [m]."""
        return self.com_offset + 0.5 * self.push_time * self.velocity[:2]

    def com_height(self, fraction: float) -> float:
        """Returns the height of the center of mass over the feet, which are retracted in flight [m].

        Args:
            fraction: elapsed fraction of the flight.
        """
        retraction = min(fraction / RETRACTION_END, 1.0)
        extension = min(max((fraction - EXTENSION_START) / (1.0 - EXTENSION_START), 0.0), 1.0)
        tucked_height = max(
            MIN_TUCKED_HEIGHT_FRACTION * self.touchdown_com_height,
            min(self.liftoff_com_height, self.touchdown_com_height) - TUCK_HEIGHT_FRACTION * self.height,
        )
        return (
            self.liftoff_com_height
            + (tucked_height - self.liftoff_com_height) * interpolate_minimum_jerk(retraction)
            + (self.touchdown_com_height - tucked_height) * interpolate_minimum_jerk(extension)
        )

    def __str__(self) -> str:
        """Returns the jump in one line, with the limit for which it was scaled down."""
        x, y = self.distance.tolist()
        limit = f"; limited by {self.limit_reason}" if self.is_limited else ""
        return (
            f"jump {self.height:.3f} m high ({self.height / self.ballistic_height:.2f} of the ballistic limit), "
            f"{x:+.3f} m forward, {y:+.3f} m to the left, {math.degrees(self.turn):+.0f} deg{limit}"
        )


def compute_horizontal_fraction(fraction: float) -> float:
    """Returns the fraction of the horizontal displacement of the feet after a fraction of the flight."""
    return interpolate_minimum_jerk(min(fraction / HORIZONTAL_END, 1.0))


def interpolate_minimum_jerk(fraction: float) -> float:
    """Returns the minimum-jerk interpolation from 0 to 1 at a fraction of the time."""
    return fraction**3 * (10.0 - 15.0 * fraction + 6.0 * fraction**2)


def place_footprint(morphology: Morphology, center: Array, turn: float) -> Array:
    """Returns the home positions (4, 2) of the feet about a center (2,) [m], rotated to the left by `turn` [rad]."""
    c, s = math.cos(turn), math.sin(turn)
    return np.asarray(center + morphology.nominal_stance @ np.array([[c, s], [-s, c]]))
