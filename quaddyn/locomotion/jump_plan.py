"""`JumpPlan`: the plan of a single jump; `JumpExecution`: its references for push-off and for the feet in flight."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from ..deprecation import renamed_attributes
from ..dynamics import State
from ..urdf.tree import Array, FrozenArrays
from ..wbc import JointBounds, WholeBodyController
from .morphology import FEET, Morphology

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


#: Minimum time in which errors of the push-off are corrected, as a fraction of its duration.
MIN_CORRECTION_FRACTION = 0.35
#: Fraction of the flight after which touchdowns are expected, if the robot sinks.
TOUCHDOWN_SEARCH_FRACTION = 0.5


class JumpExecution:
    """Execution of one jump, after the crouch.

    *Push-off*: with the planned center of mass c*, the acceleration is the planned one plus the correction of errors
    until the end of the push-off, ``6 (c* - c) / t^2 + 4 (cdot* - cdot) / t`` with the remaining time t: the start of
    the cubic that reaches position and velocity there.  *Flight*: time and position of the touchdown are predicted from
    the present parabola, and the feet move to the planned footholds relative to it, so that errors of the push-off are
    corrected.

    The plan respects joint limits and the end of the push-off; so, until touchdown, contacts are released at once, and
    the horizon of the joint bounds is one period.

    Args:
        plan: plan of the jump.
        morphology: lengths and units of the robot.
        wbc: the whole-body controller, whose references are set.
        origin: (3,) center of the feet on the ground, world [m].
        yaw: yaw angle of the heading frame [rad].
        acceleration_ratio: ratio of the joint accelerations allowed meanwhile to the normal ones.

    Attributes:
        plan: as given.
        footholds: (4, 2) footholds of the landing, world [m].
        landing_height: height of the ground there, world [m].
        yaw: yaw angle of the heading after the jump [rad].
        is_pushing: whether the feet are still on the ground.
    """

    __slots__ = (
        "_acceleration_ratio",
        "_bounds",
        "_last_feet",
        "_liftoff_feet",
        "_morphology",
        "_origin",
        "_remaining_flight",
        "_rotation",
        "_saved_limits",
        "_time",
        "_wbc",
        "footholds",
        "is_pushing",
        "landing_height",
        "plan",
        "yaw",
    )  # fmt: skip

    def __init__(
        self,
        plan: JumpPlan,
        morphology: Morphology,
        wbc: WholeBodyController,
        origin: Array,
        yaw: float,
        acceleration_ratio: float = 1.0,
    ) -> None:
        self.plan, self._morphology, self._wbc = plan, morphology, wbc
        self._origin, self.yaw = np.array(origin), yaw + plan.turn
        self._bounds = next((item for item in wbc.tasks.values() if isinstance(item, JointBounds)), None)
        self._acceleration_ratio = acceleration_ratio
        self._saved_limits: tuple[float, float, Array, Array] | None = (
            None  # ramp time and joint bounds before the jump
        )
        self._rotation = make_yaw_rotation(yaw)
        self.footholds = origin[:2] + place_footprint(morphology, plan.distance, plan.turn) @ self._rotation.T
        self.landing_height = float(origin[2]) + plan.landing_height
        self._time, self.is_pushing = 0.0, True
        self._remaining_flight = plan.flight_time
        self._liftoff_feet: Array | None = None  # (4, 2) feet relative to the center of mass at lift-off, heading axes
        self._last_feet: Array | None = None  # (4, 3) feet relative to the center of mass one tick ago, world axes

    @property
    def com_offset(self) -> tuple[float, float]:
        """(2,) center of mass relative to the center of the feet at the start of the push-off, world [m]."""
        x, y = (self._rotation @ self.plan.com_offset).tolist()
        return x, y

    def _relax_limits(self) -> None:
        """Sets the ramp time and the joint bounds of the push-off, and saves the normal ones."""
        wbc, bounds, empty = self._wbc, self._bounds, np.zeros(0)
        if bounds is None:
            self._saved_limits = wbc.ramp_time, 0.0, empty, empty
        else:
            acceleration, deceleration = np.array(bounds.acceleration), np.array(bounds.deceleration)
            self._saved_limits = wbc.ramp_time, bounds.horizon, acceleration, deceleration
            bounds.horizon, bounds.acceleration, bounds.deceleration = (
                wbc.dt,
                self._acceleration_ratio * acceleration,
                self._acceleration_ratio * deceleration,
            )
        wbc.ramp_time = 0.0

    def restore_limits(self) -> None:
        """Restores ramp time and joint bounds of the whole-body controller, also if the jump has not begun."""
        if self._saved_limits is not None:
            self._wbc.ramp_time, horizon, acceleration, deceleration = self._saved_limits
            if self._bounds is not None:
                bounds = self._bounds
                bounds.horizon, bounds.acceleration, bounds.deceleration = horizon, acceleration, deceleration
            self._saved_limits = None

    def push(self, state: State, dt: float) -> None:
        """Sets the references of one tick with all feet on the ground."""
        plan, p, t = self.plan, self._morphology, self._time
        if t == 0.0:
            self._relax_limits()
        remaining_time = max(plan.push_time - t, MIN_CORRECTION_FRACTION * plan.push_time)
        axes = np.eye(3)
        axes[:2, :2] = self._rotation
        planned_acceleration = axes @ plan.velocity / plan.push_time
        start = self._origin + axes @ np.array([*plan.com_offset, plan.crouch_com_height])
        com, velocity = state.com, state.com_velocity
        acceleration = (
            planned_acceleration
            + 6.0 / remaining_time**2 * (start + 0.5 * t * t * planned_acceleration - com)
            + 4.0 / remaining_time * (t * planned_acceleration - velocity)
        )
        tasks = self._wbc.tasks
        tasks["com"].reference(com.copy(), velocity.copy(), acceleration)
        angular_acceleration = axes @ plan.angular_velocity / plan.push_time
        attitude = axes @ p.heading.T
        tasks["base"].reference(
            pin.exp3(0.5 * t * t * angular_acceleration) @ attitude, t * angular_acceleration, angular_acceleration
        )
        force = p.mass * (acceleration + np.array([0.0, 0.0, p.gravity])) / len(FEET)
        tasks["forces"].reference(dict.fromkeys(FEET, force))
        self._time += dt
        if self._time >= plan.push_time:
            self.is_pushing, self._time = False, 0.0

    def fly(self, state: State, base: str, yaw: float, dt: float) -> tuple[Array, Array]:
        """Computes the desired positions and velocities (4, 3) of the feet in flight, world [m, m/s].

        Args:
            state: present state of the robot.
            base: name of the trunk.
            yaw: yaw angle of the trunk [rad].
            dt: control period [s].
        """
        plan, p, g = self.plan, self._morphology, self._morphology.gravity
        com, velocity = state.com, state.com_velocity
        rotation = make_yaw_rotation(yaw)
        if self._liftoff_feet is None:
            self._liftoff_feet = (state.origins(FEET)[:, :2] - com[:2]) @ rotation
        w = float(velocity[2])
        fall_height = float(com[2]) - self.landing_height - plan.touchdown_com_height
        self._remaining_flight = max((w + math.sqrt(max(w * w + 2.0 * g * fall_height, 0.0))) / g, 0.0)
        yaw_rate = float(state.velocity(base)[5])
        fraction = self.flight_fraction
        touchdown_com = com[:2] + self._remaining_flight * velocity[:2]
        touchdown_feet = (self.footholds - touchdown_com) @ make_yaw_rotation(yaw + yaw_rate * self._remaining_flight)
        feet_xy = self._liftoff_feet + compute_horizontal_fraction(fraction) * (touchdown_feet - self._liftoff_feet)
        from_com = np.column_stack((feet_xy @ rotation.T, p.radii - plan.com_height(fraction)))
        relative_velocity = np.zeros((4, 3)) if self._last_feet is None else (from_com - self._last_feet) / dt
        self._last_feet = from_com
        self._time += dt
        return com + from_com, velocity + relative_velocity

    @property
    def flight_fraction(self) -> float:
        """Elapsed fraction of the flight."""
        return self._time / max(self._time + self._remaining_flight, 1e-9)

    def expects_touchdown(self, rate: float) -> bool:
        """Returns whether touchdowns are expected, given the vertical velocity of the center of mass [m/s]."""
        return not self.is_pushing and rate < 0.0 and self.flight_fraction > TOUCHDOWN_SEARCH_FRACTION


def make_yaw_rotation(yaw: float) -> Array:
    """Returns the rotation (2, 2) from heading axes to world axes for a yaw angle [rad]."""
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([[c, -s], [s, c]])
