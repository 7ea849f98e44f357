"""Compiled filter of `MomentumObserver`."""

from __future__ import annotations

from typing import NamedTuple

from ..compiler import IntVector, Matrix, Tensor, Vector, entry
from .generalized_momentum import MomentumBodies, compute_momentum_and_drive


class ResidualFilter(NamedTuple):
    """Parameters and state of a `MomentumObserver`."""

    dt: float  # between updates [s]
    beta: Vector  # (nv,) factor of the previous estimate in the filter
    damping: Vector  # (nv,) viscous friction of the joints; zeros to include it in the estimate
    friction: Vector  # (nv,) Coulomb friction of the joints; zeros to include it in the estimate
    stiction: float  # speed below which Coulomb friction is proportional to it
    actuated: IntVector  # (nu,) velocity indices of the motors
    r: Vector  # (nv,) estimated external generalized force
    p: Vector  # (nv,) momentum at the last update
    drive: Vector  # (nv,) rate of the momentum at the last update, without motors and external forces
    current: Matrix  # (2, nv) momentum and its rate at this update
    is_initialized: IntVector  # (1,) whether there was an update


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
        speed = max(abs(v[i]), o.stiction)
        drive[i] -= o.damping[i] * v[i] + o.friction[i] * v[i] / speed
    if o.is_initialized[0] != 0:
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
    o.is_initialized[0] = 1


@entry("the momentum observer")
def observe_momentum(
    b: MomentumBodies, o: ResidualFilter, columns: Matrix, joint_placements: Tensor, v: Vector, tau: Vector
) -> None:
    """Computes the momentum and its rate from the kinematics and calls `update_residual`.

    Args:
        b: bodies of the robot.
        o: the observer; updated.
        columns: columns of the world Jacobian, as of `State.kinematic_arrays`.
        joint_placements: placements of the joints, as of `State.kinematic_arrays`.
        v: (nv,) velocity.
        tau: (nu,) torques since the last update [N m].
    """
    compute_momentum_and_drive(b, columns, joint_placements, v, o.current[0], o.current[1])
    update_residual(o, v, tau)
