"""`JointPD`: springs and dampers at the joints, sized by the robot's own inertia."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..dynamics import Dynamics
from ..dynamics.arguments import overflow_error
from ..robot.arguments import check_positive, check_vector
from ..robot.robot import Robot
from ..strict_attributes import Setting, StrictAttributes
from ..urdf.tree import Array, frozen
from .gains import check_robot, gain_vector


@dataclass(frozen=True, slots=True, eq=False)
class JointTorque:
    """What `JointPD` asks of the motors.

    Attributes:
        tau: (nu,) torques within ``robot.effort_limits`` [N m].
        saturated: names of the joints whose torque was cut.
    """

    tau: Array
    saturated: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the motors can do what the law asks for: no torque was cut."""
        return not self.saturated


class JointPD(StrictAttributes, fixed=("robot",)):
    """Proportional-derivative control of the actuated joints, ``tau = kp (q* - q) + kd (v* - v) + feedforward``.

    Default gains come from the robot alone.  With J_f the linear part of a foot's Jacobian, a leg's joint meets in
    stance the inertia ``I = M_ii + (mass / feet) |J_f,i|^2`` (its share of the trunk, by its lever), any other joint
    and every joint under a fixed root ``I = M_ii``, all at ``q_home``.  Then ``kp = I w^2`` and
    ``kd = 2 zeta I w`` with ``w = 2 pi bandwidth``.

    A leg in the air is far lighter, down to ``m = 1 / (M^-1)_ii`` with every other joint free, and a digital damper
    sized for stance may be unstable there.  So kd is at most ``m / (2 dt)``: one joint alone then loses half its
    speed per period, and three coupled joints stay stable (the eigenvalues of ``dt M^-1 Kd`` are below their
    trace, 3/2 < 2).  The stiffness kp is at most ``kd^2 / m``, which leaves the leg in the air half critically damped.

    Args:
        robot: any robot.
        kp: (nu,) or scalar stiffness [N m/rad or N/m]; from the inertia by default.
        kd: (nu,) or scalar damping [N m s/rad or N s/m]; from the inertia by default.
        bandwidth: natural frequency of the default gains [Hz].
        damping_ratio: zeta of the default gains.
        dt: period of the control loop [s], for the cap above.

    Attributes:
        robot: as given.
        kp: (nu,) read-only; may be set to (nu,) or a scalar at any time.
        kd: (nu,) alike.

    Raises:
        ArgumentError: a gain that is negative, not finite or of the wrong shape, or another value out of range.
    """

    kp = Setting[ArrayLike, Array](lambda self, value: frozen(gain_vector("kp", value, self.robot.nu)))
    kd = Setting[ArrayLike, Array](lambda self, value: frozen(gain_vector("kd", value, self.robot.nu)))

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
        bandwidth, damping_ratio = (
            check_positive("bandwidth", bandwidth),
            check_positive("damping_ratio", damping_ratio),
        )
        dt = check_positive("dt", dt)
        self.robot = robot
        least, inertia = _inertias(robot)
        w = 2.0 * np.pi * bandwidth
        damper = np.minimum(2.0 * damping_ratio * inertia * w, 0.5 * least / dt)
        spring = np.minimum(inertia * w * w, damper * damper / least)
        self.kp = spring if kp is None else kp
        self.kd = damper if kd is None else kd

    def compute(
        self,
        q: Array,
        v: Array,
        q_wanted: Array,
        v_wanted: Array | None = None,
        *,
        feedforward: Array | None = None,
    ) -> JointTorque:
        """Torques towards a wanted state of the joints.

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity.
            q_wanted: (nq,) configuration whose joints are wanted; its root is not looked at.
            v_wanted: (nv,) velocity whose joints are wanted; at rest by default.
            feedforward: (nu,) torques to add [N m], such as those of `gravity_compensation`.

        Raises:
            ArgumentError: an argument of the wrong shape or not finite, or torques beyond the floating-point range.
        """
        robot = self.robot
        q = check_vector("q", q, (robot.nq,), f"nq of {robot.name}")
        v = check_vector("v", v, (robot.nv,), f"nv of {robot.name}")
        q_wanted = check_vector("q_wanted", q_wanted, (robot.nq,), f"nq of {robot.name}")
        error = robot.algorithms.difference(robot.model, q, q_wanted)
        rate = -v
        if v_wanted is not None:
            v_wanted = check_vector("v_wanted", v_wanted, (robot.nv,), f"nv of {robot.name}")
            rate = v_wanted - v
        index = robot.actuated_index
        if feedforward is not None:
            feedforward = check_vector("feedforward", feedforward, (robot.nu,), f"nu of {robot.name}")
        with np.errstate(over="ignore", invalid="ignore"):
            tau = self.kp * error[index] + self.kd * rate[index] + (0.0 if feedforward is None else feedforward)
        cut = np.minimum(np.maximum(tau, -robot.effort_limits), robot.effort_limits)
        if not np.isfinite(cut).all():
            raise overflow_error("tau", {"q": q, "v": v, "q_wanted": q_wanted})
        return JointTorque(cut, tuple(robot.actuated[i] for i in np.flatnonzero(cut != tau)))


def _inertias(robot: Robot) -> tuple[Array, Array]:
    """The least inertia of each actuated joint (all others free), and the one it meets in stance, at home."""
    s = Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    index = robot.actuated_index
    inertia = s.M.diagonal().copy()
    if robot.root != "fixed":
        for name, leg in robot.legs.items():
            joints = [robot.velocity_index(joint) for joint in leg.joints]
            inertia[joints] += robot.mass / len(robot.legs) * (s.jacobian(name)[:3, joints] ** 2).sum(axis=0)
    least = np.asarray(1.0 / np.linalg.inv(s.M).diagonal()[index], dtype=np.float64)
    return least, inertia[index]
