"""`JumpPlanner`: planning of single jumps within the limits of the legs.

`JumpDynamics`: loads of motors, joints and friction in the push-off of a jump, and the maximum work of the legs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pinocchio as pin

from ..contact.contact_set import cross_matrix
from ..dynamics import Dynamics, State
from ..errors import ArgumentError
from ..robot.robot import Robot
from ..urdf.tree import TIE_TOLERANCE, Array, first_largest
from ..wbc import JointBounds
from .friction_model import PYRAMID_FACE_RATIO
from .jump_plan import JumpPlan, compute_horizontal_fraction, place_footprint
from .morphology import FEET, Morphology
from .slope_limiter import N_BASE_CORRECTIONS, OUTSIDE_SUPPORT, REACH_OF, TORQUE_OF
from .torque_limiter import TorqueLimiter
from .velocity_limits import GROUND_FRICTION, NO_LATERAL_MOTION, LegPoseSolver

#: Height of the center of mass in the crouch, as a fraction of that at home; higher if the legs do not fold that far.
CROUCH_HEIGHT_FRACTION = 0.55
#: Number of samples of the push-off.
N_PUSH_SAMPLES = 9
#: Usable fraction of torque, friction, speed and acceleration limits: the rest is reserved for feedback.
MAX_LIMIT_FRACTION = 0.9
#: Number of corrections of the trunk's angular velocity.
N_SPIN_CORRECTIONS = 4
#: Number of bisections to a height that the legs do not reach.
N_HEIGHT_BISECTIONS = 12
#: Reasons for which a push-off is infeasible, besides those of `SlopeStatics`; the name of the joint follows.
JOINT_SPEED, JOINT_ACCELERATION = "speed of", "acceleration of"


class JumpDynamics:
    """Inverse dynamics of a push-off, from the crouch to lift-off.

    The trunk moves as planned while the feet are at rest; the configurations follow from the leg kinematics, joint
    velocities and accelerations from least squares, and torques from the equations of motion with minimum-norm contact
    forces.

    Args:
        robot: a quadruped.
        morphology: lengths and units of the robot.
        torque_limiter: limits of its motors.
        bounds: joint bounds; None for speed limits alone.
        poses: leg kinematics.
        acceleration_ratio: ratio of the allowed joint accelerations to those of `bounds`.

    Attributes:
        heights: height of the center of mass in the crouch, and with legs at full reach [m].

    Raises:
        ArgumentError: the legs do not reach the ground at all heights between these.
    """

    __slots__ = (
        "_acceleration_ratio",
        "_ballistic",
        "_bounds",
        "_columns",
        "_data",
        "_dynamics",
        "_morphology",
        "_motors",
        "_offsets",
        "_poses",
        "_robot",
        "_torque_limiter",
        "heights",
    )  # fmt: skip

    def __init__(
        self,
        robot: Robot,
        morphology: Morphology,
        torque_limiter: TorqueLimiter,
        bounds: JointBounds | None,
        poses: LegPoseSolver,
        acceleration_ratio: float = 1.0,
    ) -> None:
        self._robot, self._morphology, self._torque_limiter, self._bounds, self._poses = (
            robot,
            morphology,
            torque_limiter,
            bounds,
            poses,
        )
        self._acceleration_ratio = acceleration_ratio
        self._dynamics, self._data = Dynamics(robot), robot.model.createData()
        joints = {joint for leg in poses.legs.values() for joint in leg.joints}
        motors = [k for k, joint in enumerate(robot.actuated) if joint in joints]
        self._motors = np.array(motors, dtype=np.intp)
        self._columns = np.concatenate((np.arange(6), robot.actuated_index[self._motors]))
        p = morphology
        self._offsets = np.array([0.0]), np.array([p.base_offset])
        low, high = (
            self._find_reachable_height(CROUCH_HEIGHT_FRACTION * p.height),
            self._find_reachable_height(p.height + p.length),
        )
        self.heights = low, high
        heights = np.linspace(low, high, N_PUSH_SAMPLES)
        offsets = [self._find_base_offset(z) for z in heights.tolist()]
        if any(offset is None for offset in offsets):
            raise ArgumentError(
                f"jump: {robot.name!r} cannot jump: its legs do not reach the ground at any height of the center of "
                f"mass between {low:.3f} m and {high:.3f} m"
            )
        self._offsets = heights, np.array(offsets)
        self._ballistic: tuple[float, str] | None = None

    # -- maximum work of the legs ------------------------------------------------------------------------------
    @property
    def ballistic_height(self) -> float:
        """Rise for which all work of the legs would be used [m]: ``int F dz / (m g) - s`` over the whole stroke s.

        F is the maximum vertical force on a robot at rest at each height, of all feet alike, from the crouch to full
        reach: it depends on torque limits and leg lengths alone.  The inertia of the legs and the joint speed limits
        make real jumps lower.
        """
        if self._ballistic is None:
            p, (low, high) = self._morphology, self.heights
            heights = np.linspace(low, high, N_PUSH_SAMPLES)
            forces = [self._compute_max_vertical_force(z) for z in heights]
            work = float(np.trapezoid([force for force, _ in forces], heights)) / (p.mass * p.gravity)
            self._ballistic = work - (high - low), forces[first_largest([-force for force, _ in forces])][1]
        return self._ballistic[0]

    def _compute_max_vertical_force(self, height: float) -> tuple[float, str]:
        """Computes the maximum vertical force on the robot at a height [N], and the motor that limits it."""
        p = self._morphology
        q = self._solve_configurations(np.array([[0.0, 0.0, height]]), np.eye(3)[None])
        assert not isinstance(q, str)
        s = self._dynamics.update(q[0], np.zeros(self._robot.nv))
        gravity_torque, fractions = (
            s.gravity,
            self._distribute_wrench(s, np.array([0.0, 0.0, p.mass * p.gravity]), np.zeros(3)),
        )
        weight_torque = sum(
            (self._compute_contact_jacobian(s, i).T @ f for i, f in enumerate(fractions)), np.zeros(self._robot.nv)
        )
        index, limits = self._robot.actuated_index[self._motors], self._torque_limiter.max_torque[self._motors]
        rest_torque, torque_per_weight = gravity_torque[index], weight_torque[index]
        max_weights = np.array(
            [
                (limit + math.copysign(1.0, b) * a) / max(abs(b), 1e-12)
                for a, b, limit in zip(rest_torque.tolist(), torque_per_weight.tolist(), limits.tolist(), strict=True)
            ]
        )
        worst = first_largest(-max_weights)
        return float(
            max_weights[worst]
        ) * p.mass * p.gravity, f"{TORQUE_OF} {self._robot.actuated[self._motors[worst]]}"

    def _find_reachable_height(self, height: float) -> float:
        """Finds the height of the center of mass that all legs reach, nearest to a given one [m]."""
        reached, unreached = self._morphology.height, height
        middle = unreached
        for _ in range(12):
            if self._find_base_offset(middle) is None:
                unreached = middle
            else:
                reached = middle
            if reached == height:
                break
            middle = 0.5 * (reached + unreached)
        return reached

    def _find_base_offset(self, height: float) -> Array | None:
        """Finds the base origin (3,) relative to the center of mass at a height, trunk level [m]; None out of reach."""
        offset, com = self._morphology.base_offset, np.array([[0.0, 0.0, height]])
        for k in range(N_BASE_CORRECTIONS + 1):
            self._offsets = np.array([height]), np.array([offset])
            q = self._solve_configurations(com, np.eye(3)[None])
            if isinstance(q, str):
                return None
            if k < N_BASE_CORRECTIONS:
                offset = offset + com[0] - self._dynamics.update(q[0], np.zeros(self._robot.nv)).com
        return np.asarray(offset)

    # -- verification ------------------------------------------------------------------------------------------
    def compute_peak_limit_fraction(self, plan: JumpPlan, friction: float) -> tuple[float, str]:
        """Computes the largest ratio of a load to its limit in the push-off of a plan, and its reason.

        For an infeasible plan it stops at the first ratio beyond `MAX_LIMIT_FRACTION`.

        Args:
            plan: plan of this robot.
            friction: friction coefficient of the ground.
        """
        time = plan.push_time
        times = np.linspace(0.0, time, N_PUSH_SAMPLES)
        start = np.array([*plan.com_offset, plan.crouch_com_height])
        acceleration, angular_acceleration = plan.velocity / time, plan.angular_velocity / time
        com = start + 0.5 * times[:, None] ** 2 * acceleration
        R = np.array([pin.exp3(0.5 * t * t * angular_acceleration) for t in times.tolist()])
        q = self._solve_configurations(com, R)
        if isinstance(q, str):
            return math.inf, q
        max_fraction, worst_reason = 0.0, ""
        for k in (N_PUSH_SAMPLES - 1, *range(N_PUSH_SAMPLES - 1)):  # most infeasible plans fail at the end
            t = float(times[k])
            for fraction, reason in self._compute_limit_fractions(
                q[k], t * acceleration, t * angular_acceleration, acceleration, angular_acceleration, friction
            ):
                if fraction > max_fraction * (1.0 + TIE_TOLERANCE):
                    worst_reason = reason
                max_fraction = max(max_fraction, fraction)
            if max_fraction > MAX_LIMIT_FRACTION:
                break
        return max_fraction, worst_reason

    def _compute_limit_fractions(
        self,
        q: Array,
        velocity: Array,
        angular_velocity: Array,
        acceleration: Array,
        angular_acceleration: Array,
        friction: float,
    ) -> list[tuple[float, str]]:
        """Computes the ratios of the loads to their limits at one sample, with their reasons."""
        robot, columns, motors = self._robot, self._columns, self._motors
        s = self._dynamics.update(q, np.zeros(robot.nv))
        A = self._compute_motion_jacobian(s)
        v, a = np.zeros(robot.nv), np.zeros(robot.nv)
        v[columns] = np.linalg.lstsq(A, np.concatenate((velocity, angular_velocity, np.zeros(12))), rcond=None)[0]
        s = self._dynamics.update(q, v)
        base = robot.bodies[0].name
        drift = np.concatenate((s.com_drift, s.drift(base)[3:], *(s.drift(foot)[:3] for foot in FEET)))
        desired = np.concatenate((acceleration, angular_acceleration, np.zeros(12)))
        a[columns] = np.linalg.lstsq(A, desired - drift, rcond=None)[0]
        load = s.M @ a + s.h
        contact_jacobians = [self._compute_contact_jacobian(s, i) for i in range(4)]
        B = np.hstack([contact_jacobian[:, :6].T for contact_jacobian in contact_jacobians])
        forces = np.linalg.lstsq(B, load[:6], rcond=None)[0].reshape(4, 3)
        tau = load - sum(
            (contact_jacobian.T @ f for contact_jacobian, f in zip(contact_jacobians, forces, strict=True)),
            np.zeros(robot.nv),
        )
        index, names = robot.actuated_index[motors], [robot.actuated[k] for k in motors]
        limits, speed, joint_acceleration = self._torque_limiter.max_torque[motors], np.abs(v[index]), np.abs(a[index])
        fractions, acceleration_ratio = [(np.abs(tau[index]) / limits, TORQUE_OF)], self._acceleration_ratio
        max_speed = np.minimum(robot.velocity_limits[motors], self._torque_limiter.max_driven_speed)
        if self._bounds is not None:
            bounds, position = self._bounds, q[[robot.configuration_index(name) for name in names]]
            max_speed = np.minimum(max_speed, bounds.velocity[motors])
            margin = np.where(v[index] > 0.0, bounds.upper[motors] - position, position - bounds.lower[motors])
            stoppable_speed = np.sqrt(2.0 * acceleration_ratio * bounds.deceleration[motors] * np.maximum(margin, 1e-9))
            max_speed = np.where(
                np.isfinite(margin) & (bounds.viability > 0.0), np.minimum(max_speed, stoppable_speed), max_speed
            )
            fractions.append(
                (joint_acceleration / (acceleration_ratio * bounds.acceleration[motors]), JOINT_ACCELERATION)
            )
        fractions.append((speed / max_speed, JOINT_SPEED))
        labeled = [(float(x.max()), f"{label} {names[first_largest(x)]}") for x, label in fractions]
        tangential, normal = np.hypot(forces[:, 0], forces[:, 1]), forces[:, 2]
        if not bool((normal > 0.0).all()):
            return [*labeled, (math.inf, OUTSIDE_SUPPORT)]
        labeled.append(
            (float((tangential / (PYRAMID_FACE_RATIO * max(friction, 1e-6) * normal)).max()), GROUND_FRICTION)
        )
        return labeled

    def solve_liftoff_angular_velocity(self, plan: JumpPlan) -> Array | str:
        """Solves for the angular velocity (3,) of the trunk at lift-off with the desired angular momentum [rad/s].

        Returns the reason as text if the legs do not reach the ground.
        """
        robot, com = self._robot, np.array([[*plan.liftoff_com_position, plan.liftoff_com_height]])
        flight_inertia, angular_velocity = self._compute_yaw_inertia(np.array(robot.q_home)), np.zeros(3)
        for _ in range(
            N_SPIN_CORRECTIONS if plan.turn else 1
        ):  # the rotation of the trunk until lift-off depends on the result
            configuration = self._solve_configurations(com, pin.exp3(0.5 * plan.push_time * angular_velocity)[None])
            if isinstance(configuration, str):
                return configuration
            s = self._dynamics.update(configuration[0], np.zeros(robot.nv))
            A, momentum_map = (
                self._compute_motion_jacobian(s),
                self._compute_angular_momentum_map(configuration[0])[:, self._columns],
            )
            leg_momentum = (
                momentum_map @ np.linalg.lstsq(A, np.concatenate((plan.velocity, np.zeros(15))), rcond=None)[0]
            )
            rotations = np.zeros((len(A), 3))
            rotations[3:6] = np.eye(3)
            inertia = momentum_map @ np.linalg.lstsq(A, rotations, rcond=None)[0]
            fraction = flight_inertia / max(float(inertia[2, 2]), 1e-9)
            rate = plan.turn / (plan.flight_time + 0.5 * plan.push_time * (1.0 + fraction))
            desired = np.array([0.0, 0.0, flight_inertia * rate])
            axes = (
                [0, 1, 2] if self._morphology.can_step_sideways else [1]
            )  # legs of two joints hold feet in a trunk that pitches only
            angular_velocity = np.zeros(3)
            angular_velocity[axes] = np.linalg.solve(inertia[np.ix_(axes, axes)], (desired - leg_momentum)[axes])
        return angular_velocity

    def _compute_angular_momentum_map(self, q: Array) -> Array:
        """Computes the matrix (3, nv) from velocities to angular momentum about the center of mass, world axes."""
        A: Array = self._robot.algorithms.computeCentroidalMap(self._robot.model, self._data, q)
        return A.reshape(6, -1)[3:].copy()

    def _compute_yaw_inertia(self, q: Array) -> float:
        """Computes the inertia about the vertical through the center of mass, with joints fixed [kg m^2]."""
        s = self._dynamics.update(q, np.zeros(self._robot.nv))
        J = s.jacobian(self._robot.bodies[0].name)[3:, :6]
        v = np.linalg.lstsq(J, np.array([0.0, 0.0, 1.0]), rcond=None)[0]
        return float(self._compute_angular_momentum_map(q)[2, :6] @ v)

    # -- configurations ------------------------------------------------------------------------------------------
    def _solve_configurations(self, com: Array, R: Array) -> Array | str:
        """Computes configurations (n, nq) with home footholds for center of mass (n, 3) and trunk rotation (n, 3, 3).

        Heading frame with the origin at the center of the feet, on the ground.  Returns the reason as text if a leg is
        out of reach.
        """
        p, robot = self._morphology, self._robot
        feet = np.column_stack((p.nominal_stance, p.radii))
        n = len(com)
        q, base_rotations = np.tile(np.array(robot.q_home), (n, 1)), R @ p.heading.T
        heights, offsets = self._offsets
        offset = np.column_stack([np.interp(com[:, 2], heights, offsets[:, k]) for k in range(3)])
        q[:, :3] = base = com + np.einsum("nij,nj->ni", R, offset)
        for k in range(n):
            q[k, 3:7] = pin.Quaternion(base_rotations[k]).coeffs()
        for i, foot in enumerate(FEET):
            if not self._poses.place_foot(q, foot, np.einsum("nji,nj->ni", base_rotations, feet[i] - base)):
                return f"{REACH_OF} {foot}"
        return q

    def _compute_motion_jacobian(self, s: State) -> Array:
        """Computes the matrix (18, 6 + joints) from velocities to those of center of mass, trunk and feet."""
        base = self._robot.bodies[0].name
        rows = (s.com_jacobian, s.jacobian(base)[3:], *(s.jacobian(foot)[:3] for foot in FEET))
        return np.vstack(rows)[:, self._columns]

    def _compute_contact_jacobian(self, s: State, i: int) -> Array:
        """Computes the Jacobian (3, nv) of the contact point of foot i."""
        J = s.jacobian(FEET[i])
        down = np.array([0.0, 0.0, -float(self._morphology.radii[i])])
        return np.asarray(J[:3] - cross_matrix(down) @ J[3:])

    def _distribute_wrench(self, s: State, force: Array, moment: Array) -> Array:
        """Computes the minimum-norm forces (4, 3) of the feet for a force and a moment about the center of mass [N]."""
        points = s.origins(FEET) - np.array([0.0, 0.0, 1.0]) * self._morphology.radii[:, None] - s.com
        B = np.vstack((np.hstack([np.eye(3)] * 4), np.hstack([cross_matrix(point) for point in points])))
        wrench = np.concatenate((force, moment))
        return np.asarray(np.linalg.lstsq(B, wrench, rcond=None)[0].reshape(4, 3), dtype=np.float64)


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
