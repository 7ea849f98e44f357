"""`JointFriction`: compensation of joint friction in the equations of motion."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compiler import Vector, compiled
from ...deprecation import renamed_attributes, renamed_parameters
from ...robot.configuration import independent_joints
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..element import ElementKind, Layout, RowCounts, ScalarParameter, VectorParameter, scales, write_no_rows
from ..row_writing import Item
from ..tick_data import TickContext, TickInputData
from .constraint import Constraint

#: Speed of a revolute joint from which its full Coulomb friction acts [rad/s].
STICTION_SPEED = 0.1


class JointFrictionParameters(NamedTuple):
    """Parameters of `JointFriction`: views of its parameter array, in this order."""

    has_expected_velocity: bool  # whether a previous tick has computed an expected velocity
    compensation_fraction: float
    time_constant: float  # [s]
    damping: Vector  # (nv,)
    coulomb: Vector  # (nv,)
    stiction_speed: Vector  # (nv,)
    velocity: Vector  # (nv,)
    expected_velocity: Vector  # (nv,) velocity that the last tick predicted for this one


@renamed_attributes(share="compensation_fraction")
class JointFriction(Constraint):
    r"""Viscous and Coulomb friction of the joints, compensated along the desired motion.

    The element has no rows, and its level does not matter.  It adds the friction r to the equations of motion, so that
    the torques, and all limits of torques, include it:

    .. math::

        M a + h + r &= S^T \tau + J^T f \\
        r_i &= \sigma \left( d_i w_i + c_i\, \phi(w_i / w_{s,i}) \right), \qquad
        \phi(x) = \tfrac{1}{2} x (3 - x^2) \text{ for } |x| < 1, \text{ else } \operatorname{sign} x

    with w the *desired* joint velocity.  It integrates the accelerations a of the previous ticks, and decays to the
    measured velocity v with the time constant T,

    .. math::

        w \leftarrow v + \tfrac{T}{T + dt} \left( w + dt\, a - v \right)

    If the robot follows the commanded accelerations, w equals v without a lag.  If friction holds a joint back, w leads
    v by T times the missing acceleration, so that a joint at rest breaks away in the desired direction.  For a task
    with critical damping and gain :math:`\lambda^2`, and for :math:`T = 1 / \lambda`, w is the reference velocity
    :math:`\dot q_d + \lambda (q_d - q)`.  It contains no measured velocity, so measurement noise is not fed back, and
    overcompensation does not destabilize the loop (Slotine and Li 1991, *Applied Nonlinear Control*, section 9.1).  phi
    has a continuous slope: torques have no jumps, and a joint that should be at rest does not chatter.

    Args:
        robot: the robot.
        damping: d, (nv,) or scalar [N m s/rad, N s/m]; ``robot.damping`` if None.
        coulomb: c, (nv,) or scalar [N m, N]; ``robot.friction`` if None.
        compensation_fraction: sigma, fraction of the friction that is compensated, dimensionless; 0 for none.
        stiction_speed: w_s, (nv,) or scalar, speed from which the full Coulomb friction acts [rad/s, m/s]; if None,
            0.1 rad/s, and 0.1 leg lengths per second for prismatic joints.
        time_constant: T [s], 0 to use the measured velocity; ``0.4 sqrt(l / g)`` with l the leg length if None, which
            fits the gains of the default tasks.
        name: name of the element in the controller.

    Attributes:
        damping: (nv,) d [N m s/rad, N s/m], that of the robot if None was given.
        coulomb: (nv,) c [N m, N], that of the robot if None was given.
        compensation_fraction: sigma, dimensionless.
        stiction_speed: (nv,) w_s [rad/s, m/s], the default if None was given.
        time_constant: T [s], the default if None was given.
        velocity: (nv,) largest desired speed [rad/s, m/s]; the velocity limits of the robot by default, infinite
            without limit.

    All of them may be set at any time; the vectors are views, whose entries may be set, too.
    """

    unit = "N m"
    compensation_fraction, time_constant = ScalarParameter(1), ScalarParameter(2)
    damping, coulomb = (
        VectorParameter(3, 5, 0, minimum=0.0, finite=True),
        VectorParameter(3, 5, 1, minimum=0.0, finite=True),
    )
    stiction_speed = VectorParameter(3, 5, 2, minimum=1e-9)
    velocity = VectorParameter(3, 5, 3, minimum=0.0)

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
        """Returns a layout of three scalars and five vectors, without rows."""
        return Layout(0, 3 + 5 * counts.nv)

    def clear_references(self) -> None:
        """Clears the desired velocity of the last tick."""
        self.block[0] = 0.0


def _stiction_speeds(robot: Robot, length: float) -> Array:
    """Returns the (nv,) default stiction speeds by type of the joint."""
    out = np.full(robot.nv, STICTION_SPEED)
    for name, joint in independent_joints(robot.bodies).items():
        if joint.type == "prismatic":
            out[robot.velocity_index(name)] *= length
    return out


@compiled()
def joint_friction_parameters(z: Vector, nv: int) -> JointFrictionParameters:
    """Returns views of the parameters at the beginning of z."""
    return JointFrictionParameters(
        z[0] != 0.0, z[1], z[2], z[3 : 3 + nv], z[3 + nv : 3 + 2 * nv], z[3 + 2 * nv : 3 + 3 * nv],
        z[3 + 3 * nv : 3 + 4 * nv], z[3 + 4 * nv : 3 + 5 * nv],
    )  # fmt: skip


@compiled()
def set_has_expected_velocity(z: Vector, value: bool) -> None:
    """Sets whether there is an expected velocity, in the parameters at the beginning of z."""
    z[0] = 1.0 if value else 0.0


@compiled()
def desired_joint_velocity(p: JointFrictionParameters, i: int, v: float, dt: float) -> float:
    """Returns the desired velocity w of velocity i; see `JointFriction`."""
    w = v
    if p.has_expected_velocity:
        w += p.time_constant / (p.time_constant + dt) * (p.expected_velocity[i] - v)
    return float(min(max(w, -p.velocity[i]), p.velocity[i]))


@compiled(inline=False)
def add_joint_friction(item: Item, t: TickContext, bias: Vector) -> None:
    """Adds the friction r to `bias`."""
    p = joint_friction_parameters(item.parameters, len(t.v))
    if p.compensation_fraction == 0.0:
        return
    for i in range(len(t.v)):
        if p.damping[i] != 0.0 or p.coulomb[i] != 0.0:
            w = desired_joint_velocity(p, i, t.v[i], t.model.period)
            x = min(max(w / p.stiction_speed[i], -1.0), 1.0)
            bias[i] += p.compensation_fraction * (p.damping[i] * w + p.coulomb[i] * 0.5 * x * (3.0 - x * x))


@compiled(inline=False)
def predict_velocity(item: Item, t: TickContext, acceleration: Vector) -> None:
    """Predicts the velocity at the next tick from the accelerations of this one, and stores it."""
    p, dt = joint_friction_parameters(item.parameters, len(t.v)), t.model.period
    for i in range(len(t.v)):
        if p.damping[i] != 0.0 or p.coulomb[i] != 0.0:
            p.expected_velocity[i] = desired_joint_velocity(p, i, t.v[i], dt) + dt * acceleration[i]
        else:
            p.expected_velocity[i] = t.v[i]
    set_has_expected_velocity(item.parameters, True)


@compiled()
def clear_expected_velocity(item: Item, inputs: TickInputData, home: Vector) -> None:
    """Clears the desired velocity of the last tick."""
    set_has_expected_velocity(item.parameters, False)


JointFriction.kind = ElementKind(
    108,
    write_no_rows,
    add_bias_forces=add_joint_friction,
    finish_tick=predict_velocity,
    clear_reference=clear_expected_velocity,
)
