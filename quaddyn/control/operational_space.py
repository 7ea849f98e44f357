"""Task-space dynamics of a robot with stance feet at rest; joint springs and dampers in the null space of a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..dynamics import State
from ..dynamics.arguments import check_unit_norms
from ..errors import ArgumentError
from ..robot.arguments import check_positive, check_type, check_vector
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes, ValidatedAttribute
from ..urdf.tree import Array, frozen
from .gains import as_gain_vector, positive_attribute
from .joint_pd import JointPD


@dataclass(frozen=True, slots=True, eq=False)
class OperationalSpace:
    """Task-space dynamics ``Lambda (J a - J a_0) = F`` of a robot under the generalized force ``J^T F``.

    The stance feet do not accelerate (``J_c a + drift_c = 0``), whatever force that takes: ``M_c^-1 = M^-1 - M^-1 J_c^T
    (J_c M^-1 J_c^T)^+ J_c M^-1`` replaces M^-1, and the mobility of the task is ``W = J M_c^-1 J^T``.  Eigenvalues of W
    below `tolerance` times the largest are raised to it, which bounds ``Lambda = W^-1`` near singular postures and
    changes nothing elsewhere.  For this comparison of meters with radians, angular rows are first scaled to the mean
    mobility of the linear ones.

    Source: Khatib 1987, "A unified approach for motion and force control of robot manipulators: the operational space
    formulation"; Sentis and Khatib 2005, "Synthesis of whole-body behaviors through hierarchical control of behavioral
    primitives", for the constraints.
    """

    J: Array  # (k, nv) Jacobian of the task
    inertia: Array  # (k, k) Lambda [kg, kg m, kg m^2 by row]
    root: Array  # (k, k) R with ``Lambda = R R^T``
    inverse_root: Array  # (k, k) R^-1
    is_singular: bool  # whether an eigenvalue was raised
    # (nv,) a_0, the acceleration that the stance feet impose if no task and no force acts [rad/s^2, m/s^2]
    stance_acceleration: Array
    constrained_inverse: Array  # (nv, nv) M_c^-1

    def null_space_force(self, tau: Array) -> Array:
        """Returns ``N^T tau``: the component of a generalized force (nv,) that does not accelerate the task.

        ``N^T = 1 - J^T Lambda J M_c^-1``, the dynamically consistent projection of Khatib 1987.
        """
        return np.asarray(tau - self.J.T @ (self.inertia @ (self.J @ (self.constrained_inverse @ tau))))

    def null_space_velocity(self, v: Array) -> Array:
        """Returns ``N v``: the component of a velocity (nv,) that does not move the task."""
        return np.asarray(v - self.constrained_inverse @ (self.J.T @ (self.inertia @ (self.J @ v))))


def compute_operational_space(
    s: State, J: Array, angular: Sequence[bool], stance: Sequence[str] = (), *, tolerance: float = 1e-4
) -> OperationalSpace:
    """Computes the operational-space dynamics of a task at a state.

    Args:
        s: the state.
        J: (k, nv) Jacobian of the task.
        angular: for each row, whether it is in radians.
        stance: names of the stance feet; none under a fixed root.
        tolerance: smallest eigenvalue of the mobility, as a fraction of the largest; see `OperationalSpace`.

    Raises:
        StaleStateError: the Dynamics of `s` was updated again.
    """
    L_inverse = np.linalg.inv(np.linalg.cholesky(s.M))  # mass-normalized coordinates y = L^T a
    stance_acceleration, projector = np.zeros(len(s.M)), np.eye(len(s.M))
    if stance:
        A = np.vstack([s.jacobian(foot)[:3] for foot in stance]) @ L_inverse.T
        drift = np.concatenate([s.drift(foot)[:3] for foot in stance])
        U, sigma, Vt = np.linalg.svd(A, full_matrices=False)
        rank = int(np.count_nonzero(sigma > 1e-8 * sigma[0]))
        projector -= Vt[:rank].T @ Vt[:rank]
        stance_acceleration = -L_inverse.T @ (Vt[:rank].T @ ((U[:, :rank].T @ drift) / sigma[:rank]))
    B = J @ L_inverse.T @ projector
    W = B @ B.T
    is_angular = np.array(angular, dtype=bool)
    scale = np.ones(len(J))
    linear_mean = W.diagonal()[~is_angular].mean() if not is_angular.all() else 0.0
    angular_mean = W.diagonal()[is_angular].mean() if is_angular.any() else 0.0
    if linear_mean > 0.0 and angular_mean > 0.0:
        scale[is_angular] = np.sqrt(linear_mean / angular_mean)
    mobilities, U = np.linalg.eigh(W * scale[:, None] * scale)
    min_mobility = max(
        tolerance * mobilities[-1], 1e-12 / float(s.M.trace())
    )  # the latter for a task that cannot move at all
    clamped = np.maximum(mobilities, min_mobility)
    root = scale[:, None] * U / np.sqrt(clamped)
    return OperationalSpace(
        J=J,
        inertia=root @ root.T,
        root=root,
        inverse_root=(U * np.sqrt(clamped)).T / scale,
        is_singular=bool(mobilities[0] < min_mobility),
        stance_acceleration=stance_acceleration,
        constrained_inverse=L_inverse.T @ projector @ L_inverse,
    )


class NullSpacePosture(StrictAttributes, fixed=("robot",)):
    """Springs kp and dampers kd at the joints, projected into the null space of a task.

    The damper is ``-N^T Kd N v``, which only dissipates energy.  The spring ``N^T Kp (q* - q)`` is not conservative
    after the projection and could add energy to the robot.  Its work is therefore taken from an energy tank; the spring
    is scaled down to zero as the tank empties, and the energy dissipated by the dampers of task and null space refills
    it.

    Source: Dietrich, Ott and Stramigioli 2016, "Passivation of projection-based null space compliance control via
    energy tanks".

    Args:
        robot: any robot.
        posture: (nq,) configuration whose actuated joints the springs pull towards; None for dampers alone.
        kp: (nu,) or scalar stiffness [N m/rad or N/m]; None for that of `JointPD` at 1 Hz.
        kd: (nu,) or scalar damping [N m s/rad or N s/m]; None for that of `JointPD` at 1 Hz.
        tank_capacity: capacity of the energy tank, which is full at the start [J]; None for the energy of all springs
            at a deflection of one radian (or meter).
        dt: period of the control loop [s].

    Attributes:
        tank_energy: energy in the tank [J].

    Raises:
        ArgumentError: a gain that is negative, not finite or of the wrong shape, an invalid posture, or a period that
            is not positive.
    """

    dt = positive_attribute("dt")
    kp = ValidatedAttribute[ArrayLike, Array](lambda self, value: frozen(as_gain_vector("kp", value, self.robot.nu)))
    kd = ValidatedAttribute[ArrayLike, Array](lambda self, value: frozen(as_gain_vector("kd", value, self.robot.nu)))
    posture = ValidatedAttribute[Array | None, Array | None](lambda self, value: self._check_posture(value))

    def __init__(
        self,
        robot: Robot,
        posture: Array | None = None,
        *,
        kp: Array | float | None = None,
        kd: Array | float | None = None,
        tank_capacity: float | None = None,
        dt: float = 1e-3,
    ) -> None:
        default = JointPD(robot, bandwidth=1.0, dt=dt)
        self.robot, self.dt = robot, dt
        self.kd = default.kd if kd is None else kd
        self.kp = default.kp if kp is None else kp
        if posture is None and kp is not None:
            raise ArgumentError(
                "kp: accepted only together with posture=, the configuration to which the stiffness kp refers; pass "
                "posture= or remove kp"
            )
        self.posture = posture
        capacity = (
            0.5 * float(self.kp.sum())
            if tank_capacity is None
            else check_positive("tank_capacity", tank_capacity, zero=True)
        )
        self.tank_capacity = capacity if posture is not None else 0.0
        self.tank_energy = self.tank_capacity

    def _check_posture(self, posture: Array | None) -> Array | None:
        """Checks shape (nq,) and unit norms of a posture; returns a read-only copy, or None if `posture` is None."""
        if posture is None:
            return None
        posture = check_vector("posture", posture, (self.robot.nq,), f"nq of {self.robot.name}")
        check_unit_norms(self.robot, posture)
        return frozen(posture)

    def reset(self) -> None:
        """Fills the energy tank."""
        self.tank_energy = self.tank_capacity

    def force(self, s: State, space: OperationalSpace, dissipated: float) -> Array:
        """Computes the generalized force of the null space (nv,) [N m, N], and updates the energy tank.

        Args:
            s: the state.
            space: operational space of the task.
            dissipated: power that the task's damper dissipates [W].
        """
        index = self.robot.actuated_index
        internal_velocity = space.null_space_velocity(s.v)
        damping_torques, spring_torques = np.zeros(len(internal_velocity)), np.zeros(len(internal_velocity))
        damping_torques[index] = -self.kd * internal_velocity[index]
        out = space.null_space_force(damping_torques)
        if self.posture is not None:
            spring_torques[index] = (
                self.kp * self.robot.algorithms.difference(self.robot.model, s.q, self.posture)[index]
            )
            power = float(spring_torques @ internal_velocity)  # given to the robot
            fraction = min(1.0, self.tank_energy / (power * self.dt)) if power > 0.0 else 1.0
            dissipated_power = dissipated - float(damping_torques @ internal_velocity)
            self.tank_energy = min(
                self.tank_energy + self.dt * (dissipated_power - fraction * power), self.tank_capacity
            )
            self.tank_energy = max(self.tank_energy, 0.0)
            out += fraction * space.null_space_force(spring_torques)
        return np.asarray(out)


def check_null_space(robot: Robot, given: NullSpacePosture | None) -> NullSpacePosture:
    """Returns `given` after checking that it belongs to this robot; for None, joint dampers alone.

    Raises:
        ArgumentTypeError: it is not a `NullSpacePosture`.
        ArgumentError: it belongs to another robot.
    """
    if given is None:
        return NullSpacePosture(robot)
    check_type("null_space", given, NullSpacePosture, "a NullSpacePosture")
    if given.robot is not robot:
        raise ArgumentError(
            f"null_space: expected a NullSpacePosture of this controller's Robot object, {robot!r}, got one of "
            f"{given.robot!r}"
        )
    return given
