"""`JumpPlanner`: planning of single jumps within the limits of the legs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..errors import ArgumentError
from ..urdf.tree import Array
from .jump_dynamics import MAX_LIMIT_FRACTION, JumpDynamics
from .jump_plan import JumpPlan, compute_horizontal_fraction, place_footprint
from .morphology import Morphology
from .velocity_limits import NO_LATERAL_MOTION

# Lengths in units of l, times in sqrt(l / g).
#: Trial heights of the center of mass at lift-off, as fractions of the stroke from the crouch to full reach.
LIFTOFF_STRETCHES = 0.75, 0.6, 0.45, 0.9, 0.3
#: Height of the center of mass at touchdown: the difference to that at lift-off, as a fraction of the rise, but not
#: above that at home; and the minimum [h].
TOUCHDOWN_RISE_FRACTION, MIN_TOUCHDOWN_HEIGHT = 0.6, 0.75
#: Number of bisections of a request beyond the limits of the legs.
N_BISECTIONS = 7
#: Trial rises where none is requested [l]: in shorter flights the feet have little time.
TRIAL_RISES = 0.2, 0.3, 0.4, 0.55, 0.75, 0.14, 0.08
#: Minimum clearance of the feet over known terrain [l], and number of samples at which it is checked.
FOOT_CLEARANCE, N_WAYPOINTS = 0.03, 24
#: Maximum height difference of the terrain at the landing and of a level path, and radius around each foot [l].
LEVEL_TOLERANCE, LANDING_PATCH_RADIUS = 0.05, 0.05
#: Further reasons for which a jump is infeasible.
CLEARANCE_MISSING, FALL_TOO_DEEP = "feet would not clear the terrain", "drop to the landing area is too high"
LANDING_UNEVEN = "landing area is not even"

#: Heights of the terrain [m] at (n,) x and y relative to the robot, heading axes, over its stance; NaN where unknown.
LocalTerrain = Callable[[Array, Array], Array]


class _JumpTarget(NamedTuple):
    """Trial jump: rise [m], distance (2,) [m], turn [rad], height of the ground at the landing [m]."""

    rise: float
    distance: Array
    turn: float
    landing_height: float


class JumpPlanner:
    """Planner of single jumps from closed-form solutions, verified by inverse dynamics.

    *Push-off*: the center of mass moves straight from the crouch to lift-off, at constant acceleration from rest, so
    that the force has one direction.  Its start and its end are so far ahead of the center of the feet that the
    center of pressure, about which the force has no moment, is at the center of the feet half-way.  The trunk rotates
    at constant angular acceleration such that the angular momentum of the whole robot, legs included, is zero at
    lift-off, except for that of a turn about the vertical.  *Flight*: a parabola with constant angular momentum.
    *Landing*: the push-off in reverse, with the feet as far ahead of the center of mass as they were behind.

    With rise H, ``v = sqrt(2 g H)`` upward, the push-off over the stroke s takes ``T = 2 s / v``; with flight time F
    and heights z0, z1 of its ends, a distance d needs the horizontal speed

        d / (F + T / 2 + (z0 + z1) / (v + g T)).

    At samples of the push-off the configurations follow from the leg kinematics, and the motor torques from the
    equations of motion with minimum-norm forces; friction, speed, acceleration and range of the joints are checked as
    well (`JumpDynamics.compute_peak_limit_fraction`).  Of the trial lift-off heights the one with the smallest load is
    taken (compare Nguyen et al. 2019, "Optimized jumping on the MIT Cheetah 3 robot", which optimizes numerically).

    Args:
        morphology: lengths and units of the robot.
        dynamics: inverse dynamics of push-offs.
        name: name of the robot.
    """

    __slots__ = ("_dynamics", "_morphology", "_name")

    def __init__(self, morphology: Morphology, dynamics: JumpDynamics, name: str) -> None:
        self._morphology, self._dynamics, self._name = morphology, dynamics, name

    def plan(
        self,
        height: float | None,
        distance: tuple[float, float],
        turn: float,
        friction: float,
        ground: LocalTerrain | None = None,
    ) -> JumpPlan:
        """Plans a jump, scaled down to the limits of the legs.

        Args:
            height: rise of the center of mass after lift-off [m]; None to choose it from distance, turn and terrain.
            distance: (2,) forward and leftward displacement [m].
            turn: yaw angle, positive to the left [rad].
            friction: friction coefficient of the ground.
            ground: terrain heights relative to the robot; None for level ground.

        Raises:
            ArgumentError: the robot cannot jump at all, or a jump over uneven terrain would have to be scaled down.
        """
        requested = math.nan if height is None else height, *distance, turn
        candidate, limit_reason = self._find_best_plan(1.0, height, distance, turn, friction, ground)
        if candidate is not None:
            return replace(candidate, requested=requested)
        if limit_reason in (NO_LATERAL_MOTION, LANDING_UNEVEN):
            raise ArgumentError(f"jump: {self._name!r} cannot perform this jump: {limit_reason}")
        if not self._is_path_level(distance, turn, ground):
            raise ArgumentError(
                f"jump: {self._name!r} cannot perform this jump: {limit_reason}; request a smaller one; jumps over "
                "uneven ground are not scaled down, since a shorter jump would land on other terrain"
            )
        low, high = 0.0, 1.0
        for _ in range(N_BISECTIONS):
            fraction = 0.5 * (low + high)
            smaller, reason = self._find_best_plan(fraction, height, distance, turn, friction, ground, any_one=True)
            if smaller is None:
                high, limit_reason = fraction, reason
            else:
                low, candidate = fraction, smaller
        if candidate is None:
            raise ArgumentError(f"jump: {self._name!r} cannot perform this jump: {limit_reason}")
        return replace(candidate, requested=requested, limit_reason=limit_reason)

    def _find_best_plan(
        self,
        fraction: float,
        height: float | None,
        distance: tuple[float, float],
        turn: float,
        friction: float,
        ground: LocalTerrain | None,
        *,
        any_one: bool = False,
    ) -> tuple[JumpPlan | None, str]:
        """Returns the plan of smallest load for a fraction of the requested jump; None and the reason if infeasible."""
        p = self._morphology
        displacement, yaw = fraction * np.array(distance), fraction * turn
        if not p.can_step_sideways and (displacement[1] or yaw):
            return None, NO_LATERAL_MOTION
        landing_height = self._find_landing_height(displacement, yaw, ground)
        if landing_height is None:
            return None, LANDING_UNEVEN
        rises = [k * p.length for k in TRIAL_RISES] if height is None else [fraction * height]
        best: JumpPlan | None = None
        best_reason = ""
        min_load = math.inf
        for rise in rises:
            for stretch in LIFTOFF_STRETCHES:
                candidate, load, reason = self._try_plan(
                    _JumpTarget(rise, displacement, yaw, landing_height), stretch, friction, ground
                )
                if load < min_load or not best_reason:
                    min_load, best_reason = load, reason
                    best = candidate if load <= MAX_LIMIT_FRACTION else None
                if best is not None and any_one:
                    return best, best_reason
            if best is not None and height is None:
                break
        return best, best_reason

    def _try_plan(
        self, target: _JumpTarget, stretch: float, friction: float, ground: LocalTerrain | None
    ) -> tuple[JumpPlan | None, float, str]:
        """Returns the plan for one lift-off height, its load and the reason for the load; None if infeasible."""
        p, g, push_off, (z0, max_height) = (
            self._morphology,
            self._morphology.gravity,
            self._dynamics,
            self._dynamics.heights,
        )
        z1 = z0 + stretch * (max_height - z0)
        touchdown_height = min(p.height, z1 + TOUCHDOWN_RISE_FRACTION * target.rise - target.landing_height)
        v = math.sqrt(2.0 * g * target.rise)
        fall_height = target.rise + z1 - target.landing_height - touchdown_height
        if fall_height <= 0.0 or touchdown_height < MIN_TOUCHDOWN_HEIGHT * p.height:
            return None, math.inf, CLEARANCE_MISSING
        push_time, flight_time = 2.0 * (z1 - z0) / v, (v + math.sqrt(2.0 * g * fall_height)) / g
        horizontal_velocity = target.distance / (flight_time + 0.5 * push_time + (z0 + z1) / (v + g * push_time))
        force_ratio = horizontal_velocity / (v + g * push_time)  # horizontal over vertical force
        com_offset = 0.5 * ((z0 + z1) * force_ratio - 0.5 * push_time * horizontal_velocity)
        plan = JumpPlan(
            requested=(math.nan, 0.0, 0.0, 0.0),
            height=target.rise,
            distance=target.distance,
            turn=target.turn,
            limit_reason="",
            ballistic_height=push_off.ballistic_height,
            landing_height=target.landing_height,
            crouch_com_height=z0,
            liftoff_com_height=z1,
            touchdown_com_height=touchdown_height,
            com_offset=com_offset,
            push_time=push_time,
            flight_time=flight_time,
            velocity=np.array([*horizontal_velocity, v]),
            angular_velocity=np.zeros(3),
            peak_limit_fraction=math.inf,
        )
        if ground is not None and not self._has_clearance(plan, ground):
            return None, math.inf, CLEARANCE_MISSING
        angular_velocity = push_off.solve_liftoff_angular_velocity(plan)
        if isinstance(angular_velocity, str):
            return None, math.inf, angular_velocity
        plan = replace(plan, angular_velocity=angular_velocity)
        load, reason = push_off.compute_peak_limit_fraction(plan, friction)
        if (
            load <= MAX_LIMIT_FRACTION
            and target.landing_height < -LEVEL_TOLERANCE * p.length
            and push_off.compute_peak_limit_fraction(reverse_push(plan, fall_height), friction)[0] > 1.0
        ):
            return None, math.inf, FALL_TOO_DEEP
        return replace(plan, peak_limit_fraction=load), load, reason

    def _find_landing_height(self, distance: Array, turn: float, ground: LocalTerrain | None) -> float | None:
        """Returns the mean terrain height at the landing [m]; None if it is not even."""
        if ground is None:
            return 0.0
        patch = (
            LANDING_PATCH_RADIUS
            * self._morphology.length
            * np.array([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)])
        )
        points = (place_footprint(self._morphology, distance, turn) + patch[:, None]).reshape(-1, 2)
        heights = ground(points[:, 0], points[:, 1])
        heights = np.where(np.isfinite(heights), heights, 0.0)
        return float(heights.mean()) if np.ptp(heights) <= LEVEL_TOLERANCE * self._morphology.length else None

    def _is_path_level(self, distance: tuple[float, float], turn: float, ground: LocalTerrain | None) -> bool:
        """Returns whether the known terrain along the whole jump is level."""
        if ground is None:
            return True
        begin, end = (
            place_footprint(self._morphology, np.zeros(2), 0.0),
            place_footprint(self._morphology, np.array(distance), turn),
        )
        fractions = np.linspace(0.0, 1.0, N_WAYPOINTS)[:, None, None]
        points = (begin + fractions * (end - begin)).reshape(-1, 2)
        heights = ground(points[:, 0], points[:, 1])
        heights = heights[np.isfinite(heights)]
        return not len(heights) or float(np.abs(heights).max()) <= LEVEL_TOLERANCE * self._morphology.length

    def _has_clearance(self, plan: JumpPlan, ground: LocalTerrain) -> bool:
        """Returns whether the feet clear the terrain between lift-off and landing."""
        p, g = self._morphology, self._morphology.gravity
        begin, end = place_footprint(p, np.zeros(2), 0.0), place_footprint(p, plan.distance, plan.turn)
        displacement = plan.velocity[:2] * plan.flight_time + plan.liftoff_com_position
        for fraction in np.linspace(0.0, 1.0, N_WAYPOINTS)[1:-1].tolist():
            t = fraction * plan.flight_time
            com = plan.liftoff_com_position + t * plan.velocity[:2]
            feet = (
                com
                + begin
                - plan.liftoff_com_position
                + compute_horizontal_fraction(fraction) * (end - displacement - begin + plan.liftoff_com_position)
            )
            z = plan.liftoff_com_height + float(plan.velocity[2]) * t - 0.5 * g * t * t - plan.com_height(fraction)
            heights = ground(feet[:, 0], feet[:, 1])
            required = heights + FOOT_CLEARANCE * p.length * min(1.0, 4.0 * fraction, 4.0 * (1.0 - fraction))
            if bool((z < required - 1e-3 * p.length).any()):  # NaN, for unknown ground, compares as False
                return False
        return True


def reverse_push(plan: JumpPlan, fall_height: float) -> JumpPlan:
    """Returns the push-off that equals the landing with time reversed.

    Args:
        plan: plan of the jump.
        fall_height: height from which the center of mass falls [m].
    """
    speed = float(plan.velocity[2]) * math.sqrt(fall_height / plan.height)
    push_time = 2.0 * (plan.touchdown_com_height - plan.crouch_com_height) / speed
    velocity = np.array([0.0, 0.0, speed])
    return replace(
        plan,
        com_offset=np.zeros(2),
        liftoff_com_height=plan.touchdown_com_height,
        push_time=push_time,
        velocity=velocity,
        angular_velocity=np.zeros(3),
    )
