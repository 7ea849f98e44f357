"""`JointFriction`: the joints' own friction in the equations of motion, so that the motors overcome it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compiler import Vector, compiled
from ...deprecation import renamed_attributes, renamed_parameters
from ...robot.configuration import simple_joints
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..block import Scalar
from ..block import Vector as Numbers
from ..codes import JOINT_FRICTION
from ..data import Instant
from ..element import Layout, RowCounts
from ..rows import Item
from ..scales import scales
from .constraint import Constraint

#: Speed of a revolute joint from which its Coulomb friction is whole [rad/s].
STICTION_SPEED = 0.1


class JointFrictionParameters(NamedTuple):
    """Parameters in the order in which they lie."""

    given: Vector  # (1,) whether there was a tick that expected a velocity
    share: float
    time_constant: float  # [s]
    damping: Vector  # (nv,)
    coulomb: Vector  # (nv,)
    stiction_speed: Vector  # (nv,)
    velocity: Vector  # (nv,)
    expected: Vector  # (nv,) velocity that the last tick wanted for now


@renamed_attributes(share="compensation_fraction")
class JointFriction(Constraint):
    r"""Viscous and Coulomb friction of the joints, compensated along the wanted motion.

    It has no rows, and its level does not matter: it adds r to the equations of motion, so that every torque and every
    limit of torques counts it,

    .. math::

        M a + h + r &= S^T \tau + J^T f \\
        r_i &= \sigma \left( d_i w_i + c_i\, \phi(w_i / w_{s,i}) \right), \qquad
        \phi(x) = \tfrac{1}{2} x (3 - x^2) \text{ for } |x| < 1, \text{ else } \operatorname{sign} x

    with w the *wanted* joint velocity.  It follows from the accelerations a of the ticks before, and leaks to the
    measured velocity v with the time constant T,

    .. math::

        w \leftarrow v + \tfrac{T}{T + dt} \left( w + dt\, a - v \right)

    Where the robot does what it is told w is v, without a lag.  Where friction holds a joint back w runs ahead of it by
    T times the acceleration that is lacking, so that a joint at rest is pushed off in the direction it should go.  For
    a task with critical damping and gain :math:`\lambda^2` and for :math:`T = 1 / \lambda` it is the reference velocity
    :math:`\dot q_d + \lambda (q_d - q)`: it feeds back no measured velocity, so neither its noise, nor anything that
    would make the loop unstable where the record has more friction than the robot (Slotine and Li 1991, *Applied
    Nonlinear Control*, section 9.1).  phi has a continuous slope: torques have no jumps, and a joint that is to stand
    still does not chatter.

    Args:
        robot: the robot.
        damping: d, (nv,) or scalar [N m s/rad, N s/m]; ``robot.damping`` by default.
        coulomb: c, (nv,) or scalar [N m, N]; ``robot.friction`` by default.
        share: sigma, how much of it is compensated, 0 for none.
        stiction_speed: (nv,) or scalar, speed from which Coulomb friction is whole [rad/s, m/s]; 0.1 rad/s by default,
            and for prismatic joints 0.1 leg lengths a second.
        time_constant: T [s]; ``0.4 sqrt(l / g)`` by default, l the leg's length, as fits the gains of the default
            tasks; 0 for the measured velocity.
        name: by which the controller knows it.

    Attributes:
        damping, coulomb, share, stiction_speed, time_constant: as given.
        velocity: (nv,) largest wanted speed; the robot's limits by default, infinite where there is none.

    All of them may be set at any time; the vectors are views, so that entries may be set too.
    """

    code = JOINT_FRICTION
    unit = "N m"
    compensation_fraction, time_constant = Scalar(1), Scalar(2)
    damping, coulomb = Numbers(3, 5, 0, least=0.0, finite=True), Numbers(3, 5, 1, least=0.0, finite=True)
    stiction_speed = Numbers(3, 5, 2, least=1e-9)
    velocity = Numbers(3, 5, 3, least=0.0)

    @renamed_parameters(share="compensation_fraction")
    def __init__(
        self,
        robot: Robot,
        *,
        damping: Array | float | None = None,
        coulomb: Array | float | None = None,
        compensation_fraction: float = 1.0,
        stiction_speed: Array | float | None = None,
        time_constant: float | None = None,
        name: str = "joint friction",
    ) -> None:
        super().__init__(name, 3 + 5 * robot.nv, robot=robot)
        unit = scales(robot)
        self.damping = robot.damping if damping is None else damping
        self.coulomb = robot.friction if coulomb is None else coulomb
        self.compensation_fraction = compensation_fraction
        self.stiction_speed = _stiction_speeds(robot, unit.length) if stiction_speed is None else stiction_speed
        self.time_constant = (
            0.4 * float(np.sqrt(unit.length / unit.gravity)) if time_constant is None else time_constant
        )
        self.velocity = np.inf
        self.velocity[robot.actuated_index] = robot.velocity_limits

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Three numbers and five vectors; no rows."""
        return Layout(0, 3 + 5 * counts.nv)

    def clear_references(self) -> None:
        """What the last tick expected."""
        self.block[0] = 0.0


def _stiction_speeds(robot: Robot, length: float) -> Array:
    """(nv,) by kind of the joint."""
    out = np.full(robot.nv, STICTION_SPEED)
    for name, joint in simple_joints(robot.bodies).items():
        if joint.type == "prismatic":
            out[robot.velocity_index(name)] *= length
    return out


@compiled()
def joint_friction_parameters(z: Vector, nv: int) -> JointFrictionParameters:
    """The parameters that begin z."""
    return JointFrictionParameters(
        z[:1], z[1], z[2], z[3 : 3 + nv], z[3 + nv : 3 + 2 * nv], z[3 + 2 * nv : 3 + 3 * nv],
        z[3 + 3 * nv : 3 + 4 * nv], z[3 + 4 * nv : 3 + 5 * nv],
    )  # fmt: skip


@compiled()
def wanted_velocity(p: JointFrictionParameters, i: int, v: float, dt: float) -> float:
    """The wanted velocity i, w; see `JointFriction`."""
    w = v
    if p.given[0] != 0.0:
        w += p.time_constant / (p.time_constant + dt) * (p.expected[i] - v)
    return float(min(max(w, -p.velocity[i]), p.velocity[i]))


@compiled(inline=False)
def add_joint_friction(item: Item, t: Instant, bias: Vector) -> None:
    """``bias += r``."""
    p = joint_friction_parameters(item.numbers, len(t.v))
    if p.share == 0.0:
        return
    for i in range(len(t.v)):
        if p.damping[i] != 0.0 or p.coulomb[i] != 0.0:
            w = wanted_velocity(p, i, t.v[i], t.model.period)
            x = min(max(w / p.stiction_speed[i], -1.0), 1.0)
            bias[i] += p.share * (p.damping[i] * w + p.coulomb[i] * 0.5 * x * (3.0 - x * x))


@compiled(inline=False)
def expect_velocity(item: Item, t: Instant, acceleration: Vector) -> None:
    """What this tick wants the joints to have at the next one."""
    p, dt = joint_friction_parameters(item.numbers, len(t.v)), t.model.period
    for i in range(len(t.v)):
        if p.damping[i] != 0.0 or p.coulomb[i] != 0.0:
            p.expected[i] = wanted_velocity(p, i, t.v[i], dt) + dt * acceleration[i]
        else:
            p.expected[i] = t.v[i]
    p.given[0] = 1.0
