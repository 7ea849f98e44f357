"""`JumpDynamics`: loads of motors, joints and friction in the push-off of a jump, and the maximum work of the legs."""

from __future__ import annotations

import math

import numpy as np
import pinocchio as pin

from ..contact.contact_set import cross_matrix
from ..dynamics import Dynamics, State
from ..errors import ArgumentError
from ..robot.robot import Robot
from ..urdf.tree import TIE_TOLERANCE, Array, first_largest
from ..wbc import JointBounds
from .friction_model import PYRAMID_FACE_RATIO
from .jump_plan import JumpPlan
from .leg_pose_solver import LegPoseSolver
from .morphology import FEET, Morphology
from .slope_statics import N_BASE_CORRECTIONS, OUTSIDE_SUPPORT, REACH_OF, TORQUE_OF
from .torque_limiter import TorqueLimiter
from .velocity_limits import GROUND_FRICTION

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
