"""`NullSpacePosture`: joint dampers and springs that a task does not feel, and a tank that keeps them passive."""

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

    The damper is ``-N^T Kd N v``, which only takes energy.  The spring ``N^T Kp (q* - q)`` does not derive from a
    potential once projected, and could pump energy into the robot: it draws what it gives from a tank, is cut off when
    that is empty, and the tank refills from what the dampers of task and null space take.
    Source: Dietrich, Ott, Stramigioli 2016, "Passivation of projection-based null space compliance control via
    energy tanks".

    Args:
        robot: any.
        posture: (nq,) configuration whose actuated joints are sought; None for dampers alone.
        kp: (nu,) or scalar [N m/rad]; by default that of `JointPD` at 1 Hz.
        kd: (nu,) or scalar [N m s/rad]; by default that of `JointPD` at 1 Hz.
        capacity: of the tank, full at the start [J]; by default what the springs hold at one radian (or metre).
        dt: period of the control loop [s].

    Attributes:
        tank: energy left [J].

    Raises:
        ArgumentError: a gain negative, not finite or of the wrong shape, a posture that is none, a bad period.
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
            raise ArgumentError("kp: needs a posture to pull towards")
        self.posture = posture
        full = (
            0.5 * float(self.kp.sum())
            if tank_capacity is None
            else check_positive("tank_capacity", tank_capacity, zero=True)
        )
        self.tank_capacity = full if posture is not None else 0.0
        self.tank_energy = self.tank_capacity

    def _check_posture(self, posture: Array | None) -> Array | None:
        if posture is None:
            return None
        posture = check_vector("posture", posture, (self.robot.nq,), f"nq of {self.robot.name}")
        check_unit_norms(self.robot, posture)
        return frozen(posture)

    def reset(self) -> None:
        """Fill the tank."""
        self.tank_energy = self.tank_capacity

    def force(self, s: State, space: OperationalSpace, dissipated: float) -> Array:
        """(nv,) generalized force of the null space, a multiple of N^T; draws from and refills the tank.

        Args:
            s: the state.
            space: of the task.
            dissipated: what the task's damper takes [W].
        """
        index = self.robot.actuated_index
        internal = space.null_space_velocity(s.v)
        damper, spring = np.zeros(len(internal)), np.zeros(len(internal))
        damper[index] = -self.kd * internal[index]
        out = space.null_space_force(damper)
        if self.posture is not None:
            spring[index] = self.kp * self.robot.algorithms.difference(self.robot.model, s.q, self.posture)[index]
            power = float(spring @ internal)  # given to the robot
            fraction = min(1.0, self.tank_energy / (power * self.dt)) if power > 0.0 else 1.0
            dissipated_power = dissipated - float(damper @ internal)
            self.tank_energy = min(
                self.tank_energy + self.dt * (dissipated_power - fraction * power), self.tank_capacity
            )
            self.tank_energy = max(self.tank_energy, 0.0)
            out += fraction * space.null_space_force(spring)
        return np.asarray(out)


def check_null_space(robot: Robot, given: NullSpacePosture | None) -> NullSpacePosture:
    """`given` if it is one of this robot's, plain dampers if it is None.

    Raises:
        ArgumentError: it is something else, or another robot's.
    """
    if given is None:
        return NullSpacePosture(robot)
    if not isinstance(given, NullSpacePosture):
        raise ArgumentTypeError(f"null_space: expected a NullSpacePosture, got {type(given).__name__}")
    if given.robot is not robot:
        raise ArgumentError(f"null_space: of {given.robot!r}, not of the very Robot of this controller, {robot!r}")
    return given
