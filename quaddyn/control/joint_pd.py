"""`JointPD`: springs and dampers at the joints, with default gains from the inertia; compensation of joint friction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..deprecation import renamed_attributes, renamed_parameters
from ..dynamics import Dynamics
from ..dynamics.arguments import overflow_error
from ..robot.arguments import check_positive, check_vector
from ..robot.robot import Robot
from ..robot.units import JointUnits
from ..strict_attributes import StrictAttributes, ValidatedAttribute
from ..urdf.tree import Array, frozen
from .gains import as_gain_vector, check_robot


@renamed_attributes(saturated="saturated_joints")
@dataclass(frozen=True, slots=True, eq=False)
class JointTorque:
    """Output of `JointPD`.

    Attributes:
        tau: (nu,) torques within ``robot.effort_limits`` [N m].
        saturated_joints: names of the joints whose torque was clamped.
    """

    tau: Array
    saturated_joints: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether no torque was clamped."""
        return not self.saturated_joints


class JointPD(StrictAttributes, fixed=("robot",)):
    """Proportional-derivative control of the actuated joints, ``tau = kp (q* - q) + kd (v* - v) + feedforward``.

    Default gains come from the robot alone.  With J_f the linear part of a foot's Jacobian, the inertia at a leg's
    joint in stance is ``I = M_ii + (mass / feet) |J_f,i|^2``, which includes the part of the mass that the leg carries;
    at any other joint, and at every joint under a fixed root, it is ``I = M_ii``; all at ``q_home``.  Then ``kp = I
    w^2`` and ``kd = 2 zeta I w`` with ``w = 2 pi bandwidth``.

    A swing leg is far lighter, down to ``m = 1 / (M^-1)_ii`` with every other joint free, and a digital damper designed
    for stance may be unstable there.  Therefore kd is at most ``m / (2 dt)``: one joint alone then loses half its speed
    per period, and three coupled joints stay stable (the eigenvalues of ``dt M^-1 Kd`` are below their trace, 3/2 < 2).
    The stiffness kp is at most ``kd^2 / m``, which leaves the swing leg half critically damped.
    This assumes that torques take effect at once; where they do so a period late, pass ``dt=2 * period``.

    The gains are read-only attributes (nu,), ``kp`` and ``kd``, which can be set to (nu,) or a scalar at any time.

    Args:
        robot: any robot.
        kp: (nu,) or scalar stiffness [N m/rad or N/m]; None for the default from the inertia.
        kd: (nu,) or scalar damping [N m s/rad or N s/m]; None for the default from the inertia.
        bandwidth: natural frequency of the default gains [Hz].
        damping_ratio: zeta of the default gains, dimensionless.
        dt: period of the control loop [s], which bounds the default gains as above.

    Attributes:
        robot: as given.

    Raises:
        ArgumentError: a gain that is negative, not finite or of the wrong shape, or another value out of range.
    """

    kp = ValidatedAttribute[ArrayLike, Array](lambda self, value: frozen(as_gain_vector("kp", value, self.robot.nu)))
    kd = ValidatedAttribute[ArrayLike, Array](lambda self, value: frozen(as_gain_vector("kd", value, self.robot.nu)))

    def __init__(
        self,
        robot: Robot,
        *,
        kp: Array | float | None = None,
        kd: Array | float | None = None,
        bandwidth: float = 3.0,
        damping_ratio: float = 1.0,
        dt: float = 1e-3,
    ) -> None:
        check_robot(robot)
        bandwidth = check_positive("bandwidth", bandwidth)
        damping_ratio = check_positive("damping_ratio", damping_ratio)
        dt = check_positive("dt", dt)
        self.robot, self._joint_units = robot, JointUnits(robot)
        smallest_inertia, inertia = _joint_inertias(robot)
        w = 2.0 * np.pi * bandwidth
        default_kd = np.minimum(2.0 * damping_ratio * inertia * w, 0.5 * smallest_inertia / dt)
        default_kp = np.minimum(inertia * w * w, default_kd * default_kd / smallest_inertia)
        self.kp = default_kp if kp is None else kp
        self.kd = default_kd if kd is None else kd

    @renamed_parameters(q_wanted="q_desired", v_wanted="v_desired")
    def compute(
        self,
        q: Array,
        v: Array,
        q_desired: Array,
        v_desired: Array | None = None,
        *,
        feedforward: Array | None = None,
    ) -> JointTorque:
        """Computes torques towards a desired state of the joints.

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity.
            q_desired: (nq,) configuration with the desired joint values; its root has no influence.
            v_desired: (nv,) velocity with the desired joint velocities; None for zero.
            feedforward: (nu,) torques to add [N m], such as those of `gravity_compensation`; None for zero.

        Raises:
            ArgumentError: an argument of the wrong shape or not finite, or torques beyond the floating-point range.

        Warns:
            RuntimeWarning: desired positions far beyond the limits, which seem to be in degrees or millimeters; once.
        """
        robot = self.robot
        q = check_vector("q", q, (robot.nq,), f"nq of {robot.name}")
        v = check_vector("v", v, (robot.nv,), f"nv of {robot.name}")
        q_desired = check_vector("q_desired", q_desired, (robot.nq,), f"nq of {robot.name}")
        self._joint_units.warn("q_desired", q_desired, stacklevel=4)
        position_error = robot.algorithms.difference(robot.model, q, q_desired)
        velocity_error = -v
        if v_desired is not None:
            v_desired = check_vector("v_desired", v_desired, (robot.nv,), f"nv of {robot.name}")
            velocity_error = v_desired - v
        index = robot.actuated_index
        if feedforward is not None:
            feedforward = check_vector("feedforward", feedforward, (robot.nu,), f"nu of {robot.name}")
        with np.errstate(over="ignore", invalid="ignore"):
            tau = (
                self.kp * position_error[index]
                + self.kd * velocity_error[index]
                + (0.0 if feedforward is None else feedforward)
            )
        clamped = np.minimum(np.maximum(tau, -robot.effort_limits), robot.effort_limits)
        if not np.isfinite(clamped).all():
            raise overflow_error("tau", {"q": q, "v": v, "q_desired": q_desired})
        return JointTorque(clamped, tuple(robot.actuated[i] for i in np.flatnonzero(clamped != tau)))


def _joint_inertias(robot: Robot) -> tuple[Array, Array]:
    """Returns the smallest inertia of each actuated joint (all others free), and that in stance, in ``q_home``."""
    s = Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    index = robot.actuated_index
    inertia = s.M.diagonal().copy()
    if robot.root != "fixed":
        for name, leg in robot.legs.items():
            joints = [robot.velocity_index(joint) for joint in leg.joints]
            inertia[joints] += robot.mass / len(robot.legs) * (s.jacobian(name)[:3, joints] ** 2).sum(axis=0)
    smallest = np.asarray(1.0 / np.linalg.inv(s.M).diagonal()[index], dtype=np.float64)
    return smallest, inertia[index]


@renamed_parameters(v_wanted="v_desired")
def friction_compensation(robot: Robot, v_desired: Array, *, stiction_speed: float = 1e-3) -> Array:
    """Computes the torques of the joints' viscous and Coulomb friction at a desired velocity.

    ``damping v + friction v / max(|v|, stiction_speed)``: Coulomb's law, made continuous, so that rounding errors cause
    no torque at rest.  Pass the desired velocity, not the measured one, whose noise would be fed back.

    Args:
        robot: its ``damping`` and ``friction`` are compensated.
        v_desired: (nv,) desired velocity [rad/s or m/s].
        stiction_speed: speed below which Coulomb friction is proportional to the velocity [rad/s or m/s].

    Returns:
        (nu,) torques of the actuated joints [N m or N].

    Raises:
        ArgumentError: `v_desired` of the wrong shape or not finite, or a speed that is not positive.
    """
    check_robot(robot)
    speed = check_positive("stiction_speed", stiction_speed)
    v_desired = check_vector("v_desired", v_desired, (robot.nv,), f"nv of {robot.name}")
    coulomb = robot.friction * v_desired / np.maximum(np.abs(v_desired), speed)
    return np.asarray((robot.damping * v_desired + coulomb)[robot.actuated_index])
