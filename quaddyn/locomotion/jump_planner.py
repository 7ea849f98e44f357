"""`JumpPlanner`: the jump that a robot's legs can do of one that is asked for."""

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
#: Heights at which feet leave the ground that are tried, as shares of the way from the crouch to legs at full reach.
LIFTOFF_STRETCHES = 0.75, 0.6, 0.45, 0.9, 0.3
#: Height of the centre of mass at touchdown: by how much of the rise higher than at take-off, but not above that at
#: home; and the least [h].
TOUCHDOWN_RISE_FRACTION, MIN_TOUCHDOWN_HEIGHT = 0.6, 0.75
#: Bisections of a command that is beyond the legs.
N_BISECTIONS = 7
#: Rises that are tried where none is asked for [l]: in flights that are shorter feet have little time.
TRIAL_RISES = 0.2, 0.3, 0.4, 0.55, 0.75, 0.14, 0.08
#: How far above known ground feet have to pass [l], and at how many instants this is looked at.
FOOT_CLEARANCE, N_WAYPOINTS = 0.03, 24
#: How far apart heights may be of ground to land on, and what counts as a level way; how far about each foot [l].
LEVEL_TOLERANCE, LANDING_PATCH_RADIUS = 0.05, 0.05
#: What else keeps a robot from a jump.
CLEARANCE_MISSING, FALL_TOO_DEEP = "feet would not clear the ground", "fall is too deep"
LANDING_UNEVEN = "ground to land on is not even"

#: Heights of the ground [m] at (n,) x and y about the robot, heading axes, over that on which it stands; NaN: unknown.
LocalTerrain = Callable[[Array, Array], Array]


class _JumpTarget(NamedTuple):
    """A jump as it is tried: rise [m], distance (2,) [m], turn [rad], height of the ground where it lands [m]."""

    rise: float
    distance: Array
    turn: float
    landing_height: float


class JumpPlanner:
    """Plans single jumps from closed forms, and proves them by inverse dynamics.

    *Push*: the centre of mass goes straight from the crouch to where the feet leave the ground, at constant
    acceleration from rest, so that the force has one direction.  It begins and ends ahead of the middle of the feet by
    so much that the centre of pressure, about which the force turns nothing, is in their middle half-way.  The trunk
    turns at constant angular acceleration such that the whole robot's angular momentum, the legs' included, is nothing
    as the feet leave the ground, but for what a turn asks for about the vertical.  *Flight*: a parabola, and that
    momentum kept.  *Landing*: the push in reverse, feet as far ahead of the centre of mass as they were behind.

    With rise H, ``v = sqrt(2 g H)`` upwards, the push over the stroke s takes ``T = 2 s / v``; with flight time F and
    heights z0, z1 of its ends, a distance d takes the speed

        d / (F + T / 2 + (z0 + z1) / (v + g T)).

    At instants of the push the configurations follow from the legs' kinematics, and motor torques from the equations of
    motion with forces of least norm; friction, speed, acceleration and range of joints are looked at as well
    (`load`).  Of the heights to leave the ground at that are tried, the one of least load is taken (compare Nguyen et
    al. 2019, "Optimized jumping on the MIT Cheetah 3 robot", where an optimization finds what is closed here).

    Args:
        morphology: of the robot.
        dynamics: of its pushes.
        name: of the robot.
    """

    __slots__ = ("_dynamics", "_name", "_p")

    def __init__(self, morphology: Morphology, dynamics: JumpDynamics, name: str) -> None:
        self._p, self._dynamics, self._name = morphology, dynamics, name

    def plan(
        self,
        height: float | None,
        distance: tuple[float, float],
        turn: float,
        friction: float,
        ground: LocalTerrain | None = None,
    ) -> JumpPlan:
        """A jump, cut to what the legs can do.

        Args:
            height: rise of the centre of mass from where the feet leave the ground [m]; None for one that distance,
                turn and ground allow.
            distance: forward and leftward [m].
            turn: to the left [rad].
            friction: Coulomb's coefficient of the ground.
            ground: where it is known.

        Raises:
            ArgumentError: the robot cannot jump at all, or a jump over ground that is not level would have to be cut.
        """
        asked = math.nan if height is None else height, *distance, turn
        found, why = self._find_best_plan(1.0, height, distance, turn, friction, ground)
        if found is not None:
            return replace(found, requested=asked)
        if why in (NO_LATERAL_MOTION, LANDING_UNEVEN):
            raise ArgumentError(f"jump: {self._name!r} cannot: {why}")
        if not self._is_path_level(distance, turn, ground):
            raise ArgumentError(
                f"jump: {self._name!r} cannot: {why}; and a shorter jump would not land where this one is to"
            )
        low, high = 0.0, 1.0
        for _ in range(N_BISECTIONS):
            share = 0.5 * (low + high)
            less, reason = self._find_best_plan(share, height, distance, turn, friction, ground, any_one=True)
            if less is None:
                high, why = share, reason
            else:
                low, found = share, less
        if found is None:
            raise ArgumentError(f"jump: {self._name!r} cannot: {why}")
        return replace(found, requested=asked, limit_reason=why)

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
        """The plan of least load for a share of what is asked for, or just any good one; or what prevents it."""
        p = self._p
        way, yaw = fraction * np.array(distance), fraction * turn
        if not p.can_step_sideways and (way[1] or yaw):
            return None, NO_LATERAL_MOTION
        level = self._find_landing_height(way, yaw, ground)
        if level is None:
            return None, LANDING_UNEVEN
        rises = [k * p.length for k in TRIAL_RISES] if height is None else [fraction * height]
        best: JumpPlan | None = None
        why = ""
        least = math.inf
        for rise in rises:
            for stretch in LIFTOFF_STRETCHES:
                found, load, reason = self._try_plan(_JumpTarget(rise, way, yaw, level), stretch, friction, ground)
                if load < least or not why:
                    least, why = load, reason
                    best = found if load <= MAX_LIMIT_FRACTION else None
                if best is not None and any_one:
                    return best, why
            if best is not None and height is None:
                break
        return best, why

    def _try_plan(
        self, target: _JumpTarget, stretch: float, friction: float, ground: LocalTerrain | None
    ) -> tuple[JumpPlan | None, float, str]:
        p, g, push_off, (z0, top) = self._p, self._p.gravity, self._dynamics, self._dynamics.heights
        z1 = z0 + stretch * (top - z0)
        ready = min(p.height, z1 + TOUCHDOWN_RISE_FRACTION * target.rise - target.landing_height)
        v = math.sqrt(2.0 * g * target.rise)
        falls = target.rise + z1 - target.landing_height - ready
        if falls <= 0.0 or ready < MIN_TOUCHDOWN_HEIGHT * p.height:
            return None, math.inf, CLEARANCE_MISSING
        push, flight = 2.0 * (z1 - z0) / v, (v + math.sqrt(2.0 * g * falls)) / g
        onwards = target.distance / (flight + 0.5 * push + (z0 + z1) / (v + g * push))
        lean = onwards / (v + g * push)  # horizontal over vertical force
        lead = 0.5 * ((z0 + z1) * lean - 0.5 * push * onwards)
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
            touchdown_com_height=ready,
            com_offset=lead,
            push_time=push,
            flight_time=flight,
            velocity=np.array([*onwards, v]),
            angular_velocity=np.zeros(3),
            peak_limit_fraction=math.inf,
        )
        if ground is not None and not self._has_clearance(plan, ground):
            return None, math.inf, CLEARANCE_MISSING
        spin = push_off.solve_liftoff_angular_velocity(plan)
        if isinstance(spin, str):
            return None, math.inf, spin
        plan = replace(plan, angular_velocity=spin)
        load, why = push_off.compute_peak_limit_fraction(plan, friction)
        if (
            load <= MAX_LIMIT_FRACTION
            and target.landing_height < -LEVEL_TOLERANCE * p.length
            and push_off.compute_peak_limit_fraction(reverse_push(plan, falls), friction)[0] > 1.0
        ):
            return None, math.inf, FALL_TOO_DEEP
        return replace(plan, peak_limit_fraction=load), load, why

    def _find_landing_height(self, distance: Array, turn: float, ground: LocalTerrain | None) -> float | None:
        """Height of the ground where a jump lands [m]; None if it is not even there."""
        if ground is None:
            return 0.0
        around = (
            LANDING_PATCH_RADIUS
            * self._p.length
            * np.array([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)])
        )
        points = (place_footprint(self._p, distance, turn) + around[:, None]).reshape(-1, 2)
        heights = ground(points[:, 0], points[:, 1])
        heights = np.where(np.isfinite(heights), heights, 0.0)
        return float(heights.mean()) if np.ptp(heights) <= LEVEL_TOLERANCE * self._p.length else None

    def _is_path_level(self, distance: tuple[float, float], turn: float, ground: LocalTerrain | None) -> bool:
        """Whether the ground is level all the way, as far as it is known."""
        if ground is None:
            return True
        begin, end = place_footprint(self._p, np.zeros(2), 0.0), place_footprint(self._p, np.array(distance), turn)
        shares = np.linspace(0.0, 1.0, N_WAYPOINTS)[:, None, None]
        points = (begin + shares * (end - begin)).reshape(-1, 2)
        heights = ground(points[:, 0], points[:, 1])
        heights = heights[np.isfinite(heights)]
        return not len(heights) or float(np.abs(heights).max()) <= LEVEL_TOLERANCE * self._p.length

    def _has_clearance(self, plan: JumpPlan, ground: LocalTerrain) -> bool:
        """Whether feet pass over the ground between where they leave it and where they land."""
        p, g = self._p, self._p.gravity
        begin, end = place_footprint(p, np.zeros(2), 0.0), place_footprint(p, plan.distance, plan.turn)
        over = plan.velocity[:2] * plan.flight_time + plan.liftoff_com_position
        for share in np.linspace(0.0, 1.0, N_WAYPOINTS)[1:-1].tolist():
            t = share * plan.flight_time
            com = plan.liftoff_com_position + t * plan.velocity[:2]
            feet = (
                com
                + begin
                - plan.liftoff_com_position
                + compute_horizontal_fraction(share) * (end - over - begin + plan.liftoff_com_position)
            )
            z = plan.liftoff_com_height + float(plan.velocity[2]) * t - 0.5 * g * t * t - plan.com_height(share)
            heights = ground(feet[:, 0], feet[:, 1])
            needed = heights + FOOT_CLEARANCE * p.length * min(1.0, 4.0 * share, 4.0 * (1.0 - share))
            if bool((z < needed - 1e-3 * p.length).any()):  # unknown ground, NaN, forbids nothing
                return False
        return True


def reverse_push(plan: JumpPlan, fall_height: float) -> JumpPlan:
    """The push that a landing would be if time ran backwards.

    Args:
        plan: of the jump.
        fall_height: how far the centre of mass falls from its highest place [m].
    """
    speed = float(plan.velocity[2]) * math.sqrt(fall_height / plan.height)
    push = 2.0 * (plan.touchdown_com_height - plan.crouch_com_height) / speed
    still = np.array([0.0, 0.0, speed])
    return replace(
        plan,
        com_offset=np.zeros(2),
        liftoff_com_height=plan.touchdown_com_height,
        push_time=push,
        velocity=still,
        angular_velocity=np.zeros(3),
    )
