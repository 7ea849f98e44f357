"""`CartesianTask`: the task of a Cartesian controller, with its error, error rate, Jacobian and drift at a state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from ..dynamics import Dynamics, State
from ..dynamics.arguments import MAX_CONFIGURATION_NORM
from ..errors import ArgumentError, ArgumentTypeError
from ..kinematics.inverse import FRAME_ROWS
from ..robot.arguments import check_sequence, check_vector, check_wrench
from ..robot.robot import Robot
from ..robot.units import MAX_LENGTH_RATIO, warn_of_length
from ..robot.validation import tree_reach
from ..urdf.tree import Array, Pose
from .gains import check_robot
from .load_distribution import check_state

#: Rows whose Jacobian stays below this fraction of the frame's largest at every sampled posture cannot move.
IMMOBILE_FRACTION = 1e-9
#: Number of random postures at which it is determined which rows can move.
N_SAMPLED_POSTURES = 8


@dataclass(frozen=True, slots=True, eq=False)
class TaskMotion:
    """Error, Jacobian and drift of a task at one state.  With y the task's coordinates, ``error = y_desired - y``."""

    error: Array  # (k,) e [m, rad]
    rate: Array  # (k,) de/dt [m/s, rad/s]
    # (k,) ``d^2 y_desired / dt^2`` [m/s^2, rad/s^2]: from the desired acceleration of the frame, and for angular rows
    # also from its desired angular velocity
    acceleration: Array
    J: Array  # (k, nv) Jacobian of the task: ``dy/dt = J v`` for a target at rest
    drift: Array  # (k,) ``dJ/dt v`` [m/s^2, rad/s^2]
    twist_jacobian: Array  # (6, nv) Jacobian of the frame's twist, "local_world_aligned"


class CartesianTask:
    """Selected coordinates of a frame's placement, along world axes or given axes.

    Linear rows are the coordinates of the frame's origin.  Angular rows are those of the rotation vector ``e =
    log(R_desired R^T)``, not of the angular velocity: their rate is ``de/dt = -Jr^-1(e) omega`` with the right Jacobian
    of SO(3), so that ``e^T K e / 2`` is a potential for any symmetric K and a spring on e conserves energy.  (Bullo and
    Murray 1999, "Tracking for fully actuated mechanical systems"; Sola, Deray and Atchuthan 2018, "A micro Lie theory",
    sec. IV.B.)  At a rotation by pi the rotation vector jumps to its opposite.

    Args:
        robot: any robot.
        frame: name of a foot, link or joint.
        rows: names out of "x", "y", "z", "rx", "ry", "rz"; None for the linear ones that can move at all.
        axes: (3, 3) rotation whose columns are the axes of the rows, in world axes; None for the world's axes.

    Attributes:
        robot, frame, rows, axes: as given, or their defaults.
        index: (k,) rows of a twist (linear before angular) that the task has.
        angular: for each row, whether it is angular.

    Raises:
        UnknownNameError: no such frame.
        ArgumentError: no rows, an unknown row or one given twice, a frame that cannot move, or axes that are not a
            rotation.
    """

    def __init__(
        self, robot: Robot, frame: str, rows: Iterable[str] | None = None, *, axes: Array | None = None
    ) -> None:
        check_robot(robot)
        robot.frame_id(frame)
        self.robot, self.frame = robot, frame
        self.axes = np.eye(3) if axes is None else check_rotation("axes", axes)
        if rows is None:
            self.rows = find_movable_rows(robot, frame, self.axes)
        else:
            self.rows = check_sequence("rows", rows, "names of rows")
            if not self.rows or any(r not in FRAME_ROWS for r in self.rows) or len(set(self.rows)) != len(self.rows):
                raise ArgumentError(
                    f"rows: expected names from {', '.join(FRAME_ROWS)}, each at most once, got {self.rows}"
                )
        self.row_indices = np.array([FRAME_ROWS[row] for row in self.rows])
        self.is_angular = tuple(bool(i >= 3) for i in self.row_indices)
        self._reach = tree_reach(robot.tree)
        self._max_distance = MAX_LENGTH_RATIO * self._reach  # beyond, a target may be in millimeters; inf once reported
        self._twist_to_axes = np.zeros((6, 6))  # rotates linear and angular part of a twist from world axes to `axes`
        self._twist_to_axes[:3, :3] = self._twist_to_axes[3:, 3:] = self.axes.T

    @property
    def k(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @property
    def n_units(self) -> int:
        """Number of different units of the rows: 1 for linear or angular rows alone, 2 for both."""
        return len(set(self.is_angular))

    def check_state(self, s: State) -> None:
        """Raises `ArgumentError` unless `s` is a state of this task's robot."""
        check_state(s)
        if s.robot is not self.robot:
            raise ArgumentError(
                f"s: expected a state of this controller's Robot object, {self.robot!r}, got one of {s.robot!r}; "
                "load the robot once and use that object everywhere"
            )

    def compute_motion(
        self, s: State, target: Array | Pose, velocity: Array | None = None, acceleration: Array | None = None
    ) -> TaskMotion:
        """Computes error, error rate, Jacobian and drift at a state.

        Args:
            s: the state.
            target: desired placement of the frame in the world: (3,) its origin [m], or a `Pose` if there are angular
                rows.
            velocity: (3,) or (6,) desired velocity of the frame, linear before angular, world axes [m/s, rad/s]; None
                for zero.
            acceleration: (3,) or (6,) desired acceleration, likewise [m/s^2, rad/s^2]; None for zero.

        Raises:
            ArgumentError: wrong shapes, entries that are not finite, a matrix that is not a rotation, or a state of
                another robot.

        Warns:
            RuntimeWarning: a target at a distance of more than 100 times the reach of the robot, which seems to be in
                millimeters; once.
        """
        self.check_state(s)
        pose = s.placement(self.frame)
        J6 = s.jacobian(self.frame)
        current, drift = s.velocity(self.frame), s.drift(self.frame)
        target_velocity = as_twist("velocity", velocity)
        target_acceleration = as_twist("acceleration", acceleration)
        R, to_axes = self.axes, self._twist_to_axes
        position, rotation = self._check_target(target)
        if position @ position > self._max_distance**2:
            distance = float(np.linalg.norm(position - pose.translation))
            if warn_of_length("target", distance, self._reach, what="distance from the frame", stacklevel=4):
                self._max_distance = np.inf
        error = np.concatenate((R.T @ (position - pose.translation), np.zeros(3)))
        target_velocity = to_axes @ target_velocity
        current = to_axes @ current
        target_acceleration = to_axes @ target_acceleration
        drift = to_axes @ drift
        rate, acceleration, J = target_velocity - current, target_acceleration, to_axes @ J6
        if any(self.is_angular):
            rotation_error = R.T @ pin.log3(rotation @ pose.rotation.T)
            inverse = inverse_right_jacobian(rotation_error)
            rotation_error_rate = inverse.T @ target_velocity[3:] - inverse @ current[3:]
            error[3:], rate[3:] = rotation_error, rotation_error_rate
            inverse_rate = inverse_right_jacobian_rate(rotation_error, rotation_error_rate)
            acceleration = np.concatenate(
                (target_acceleration[:3], inverse.T @ target_acceleration[3:] + inverse_rate.T @ target_velocity[3:])
            )
            J[3:], drift[3:] = inverse @ J[3:], inverse @ drift[3:] + inverse_rate @ current[3:]
        rows = self.row_indices
        return TaskMotion(
            error=error[rows],
            rate=rate[rows],
            acceleration=acceleration[rows],
            J=J[rows],
            drift=drift[rows],
            twist_jacobian=J6,
        )

    def _check_target(self, target: Array | Pose) -> tuple[Array, Array]:
        """Checks a target; returns its position (3,) [m] and rotation (3, 3), the identity without angular rows."""
        if isinstance(target, Pose):
            position = check_vector("target.translation", target.translation, (3,), "the origin of the frame")
            check_magnitude("target.translation", position)
            return position, check_rotation("target.rotation", target.rotation)
        if any(self.is_angular):
            raise ArgumentTypeError(f"target: expected a Pose for the rows {self.rows}, got {type(target).__name__}")
        target = check_vector("target", target, (3,), "the origin of the frame")
        check_magnitude("target", target)
        return target, np.eye(3)


def as_twist(name: str, value: Array | None) -> Array:
    """Returns a (3,) or (6,) argument as (6,), with missing angular parts zero; zeros for None."""
    out = np.zeros(6)
    if value is not None:
        vector = check_wrench(name, value, "linear, or (6,) with angular")
        out[: len(vector)] = check_magnitude(name, vector)
    return out


def check_magnitude(name: str, value: Array) -> Array:
    """Returns `value` after checking its entries against `MAX_CONFIGURATION_NORM`, so that no gain makes them overflow.

    Raises:
        ArgumentError: an entry exceeds the bound.
    """
    if not np.abs(value).max(initial=0.0) <= MAX_CONFIGURATION_NORM:
        raise ArgumentError(f"{name}: expected entries of at most {MAX_CONFIGURATION_NORM:g}, got {value}")
    return value


def check_rotation(name: str, value: object) -> Array:
    """Returns `value` as floats after checking that it is a (3, 3) rotation matrix to within 1e-6.

    Raises:
        ArgumentError: it is not a rotation matrix.
    """
    R = np.asarray(value)
    if R.shape != (3, 3) or R.dtype.kind not in "fiu" or not np.isfinite(R).all():
        raise ArgumentError(f"{name}: expected a (3, 3) rotation matrix, got {value!r}")
    R = R.astype(np.float64)
    if np.abs(R.T @ R - np.eye(3)).max() > 1e-6 or np.linalg.det(R) < 0.0:
        raise ArgumentError(f"{name}: expected a rotation matrix (orthonormal, determinant 1), got {value!r}")
    return R


def find_movable_rows(robot: Robot, frame: str, axes: Array) -> tuple[str, ...]:
    """Finds those of "x", "y", "z" (along `axes`) in which a frame can move, from its Jacobian at random postures.

    Raises:
        ArgumentError: the frame cannot move in any direction.
    """
    dyn, rng = Dynamics(robot), np.random.default_rng(0)
    largest = np.zeros(3)
    for _ in range(N_SAMPLED_POSTURES):
        J = (
            axes.T
            @ dyn.frame_jacobian(
                robot.algorithms.integrate(robot.model, robot.q_home, 0.5 * rng.normal(size=robot.nv)), frame
            )[:3]
        )
        largest = np.maximum(largest, np.abs(J).max(axis=1, initial=0.0))
    rows = tuple(
        row for row, size in zip("xyz", largest, strict=True) if size > max(IMMOBILE_FRACTION * largest.max(), 1e-12)
    )
    if not rows:
        raise ArgumentError(
            f"frame: expected a frame that joints or the root can move, got {frame!r}, which is fixed to the world"
        )
    return rows


def inverse_right_jacobian(e: Array) -> Array:
    """Returns Jr^-1(e) of SO(3): ``1 + [e]/2 + c(|e|) [e]^2`` with ``c = (1 - (|e|/2) cot(|e|/2)) / |e|^2``."""
    E = pin.skew(e)
    return np.asarray(np.eye(3) + 0.5 * E + _rotation_coefficient(float(np.linalg.norm(e)))[0] * (E @ E))


def inverse_right_jacobian_rate(e: Array, e_rate: Array) -> Array:
    """Returns the time derivative of `inverse_right_jacobian` along de/dt."""
    E, E_rate = pin.skew(e), pin.skew(e_rate)
    angle = float(np.linalg.norm(e))
    c, slope_over_angle = _rotation_coefficient(angle)
    return np.asarray(0.5 * E_rate + slope_over_angle * float(e @ e_rate) * (E @ E) + c * (E_rate @ E + E @ E_rate))


def _rotation_coefficient(angle: float) -> tuple[float, float]:
    """Returns c of `inverse_right_jacobian` and c'(angle) / angle, by series at small angles."""
    if angle < 0.1:
        angle_squared = angle * angle
        return (
            1.0 / 12.0 + angle_squared / 720.0 + angle_squared * angle_squared / 30240.0 + angle_squared**3 / 1209600.0,
            (1.0 / 360.0 + angle_squared / 7560.0 + angle_squared * angle_squared / 201600.0),
        )
    half = 0.5 * angle
    cot = np.cos(half) / np.sin(half)
    coefficient = (1.0 - half * cot) / angle**2
    slope = (0.5 * half / np.sin(half) ** 2 - 0.5 * cot) / angle**2 - 2.0 * coefficient / angle
    return float(coefficient), float(slope / angle)
