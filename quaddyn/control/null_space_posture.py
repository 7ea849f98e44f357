"""`NullSpacePosture`: joint dampers and springs in the null space of a task, made passive by an energy tank."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..dynamics import State
from ..dynamics.arguments import check_unit_norms
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_positive, check_vector
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes, ValidatedAttribute
from ..urdf.tree import Array, frozen
from .gains import as_gain_vector
from .joint_pd import JointPD
from .operational_space import OperationalSpace


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

    dt = ValidatedAttribute[float, float](lambda self, value: check_positive("dt", value))
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
    if not isinstance(given, NullSpacePosture):
        raise ArgumentTypeError(f"null_space: expected a NullSpacePosture, got {type(given).__name__}")
    if given.robot is not robot:
        raise ArgumentError(
            f"null_space: expected a NullSpacePosture of this controller's Robot object, {robot!r}, got one of "
            f"{given.robot!r}"
        )
    return given
