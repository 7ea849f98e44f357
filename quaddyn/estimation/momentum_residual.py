"""Compiled filter of `MomentumObserver`."""

from __future__ import annotations

import numpy as np

from ..compiler import IntVector, Matrix, Record, Tensor, Vector, compiled, entry
from ..robot.robot import Robot
from ..urdf.tree import Array
from .generalized_momentum import MomentumBodies, compute_momentum_and_drive


class ResidualFilter(Record):
    """Parameters and state of a `MomentumObserver`."""

    dt: float  # between updates [s]
    beta: Vector  # (nv,) factor of the previous estimate in the filter
    damping: Vector  # (nv,) viscous friction of the joints; zeros to include it in the estimate
    friction: Vector  # (nv,) Coulomb friction of the joints; zeros to include it in the estimate
    stiction_speed: float  # speed below which Coulomb friction is proportional to it [rad/s or m/s]
    actuated: IntVector  # (nu,) velocity indices of the motors
    r: Vector  # (nv,) estimated external generalized force
    p: Vector  # (nv,) momentum at the last update
    drive: Vector  # (nv,) rate of the momentum at the last update, without motors and external forces
    current: Matrix  # (2, nv) momentum and its rate at this update
    is_initialized: bool  # whether there was an update


def make_residual_filter(
    robot: Robot, dt: float, beta: Array, *, joint_friction: bool = True, stiction_speed: float = 1e-3
) -> ResidualFilter:
    """Creates the filter of an observer before its first update.

    Args:
        robot: the robot.
        dt: time between updates [s].
        beta: (nv,) factor of the previous estimate in the filter.
        joint_friction: whether the robot's joint friction is part of the model, and not of the estimate.
        stiction_speed: joint speed below which Coulomb friction is proportional to it [rad/s or m/s].
    """
    n, factor = robot.nv, 1.0 if joint_friction else 0.0
    return ResidualFilter.from_values(
        dt=dt,
        beta=beta,
        damping=factor * robot.damping,
        friction=factor * robot.friction,
        stiction_speed=stiction_speed,
        actuated=np.array(robot.actuated_index, dtype=np.int64),
        r=np.zeros(n),
        p=np.zeros(n),
        drive=np.zeros(n),
        current=np.zeros((2, n)),
        is_initialized=False,
    )


@compiled()
def reset_residual(o: ResidualFilter) -> None:
    """Resets the observer; the next update is the first one."""
    for i in range(len(o.r)):
        o.r[i] = 0.0
    o.is_initialized = False


@entry("the momentum observer")
def update_residual(o: ResidualFilter, v: Vector, tau: Vector) -> None:
    """Updates the external force by one step, with momentum and ``C^T v - g`` of this update in ``o.current``.

    Args:
        o: the observer; updated.
        v: (nv,) velocity.
        tau: (nu,) torques since the last update [N m].
    """
    p, drive = o.current[0], o.current[1]
    for i in range(len(v)):
        speed = max(abs(v[i]), o.stiction_speed)
        drive[i] -= o.damping[i] * v[i] + o.friction[i] * v[i] / speed
    if o.is_initialized:
        for i in range(len(v)):
            # Mean external generalized force over the step, without the motors, in `o.p`.
            o.p[i] = (p[i] - o.p[i]) / o.dt - 0.5 * (o.drive[i] + drive[i])
        for k in range(len(tau)):
            o.p[o.actuated[k]] -= tau[k]
        for i in range(len(v)):
            o.r[i] = o.beta[i] * o.r[i] + (1.0 - o.beta[i]) * o.p[i]
    for i in range(len(v)):
        o.p[i] = p[i]
        o.drive[i] = drive[i]
    o.is_initialized = True


@entry("the momentum observer")
def observe_momentum(
    b: MomentumBodies, o: ResidualFilter, columns: Matrix, joint_placements: Tensor, v: Vector, tau: Vector
) -> None:
    """Computes the momentum and its rate from the kinematics and calls `update_residual`.

    Args:
        b: bodies of the robot.
        o: the observer; updated.
        columns: columns of the world Jacobian, see `State.kinematic_arrays`.
        joint_placements: placements of the joints, see `State.kinematic_arrays`.
        v: (nv,) velocity.
        tau: (nu,) torques since the last update [N m].
    """
    compute_momentum_and_drive(b, columns, joint_placements, v, o.current[0], o.current[1])
    update_residual(o, v, tau)
