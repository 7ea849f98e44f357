"""The filter of `MomentumObserver`, in restricted Python."""

from __future__ import annotations

from typing import NamedTuple

from ..compiler import IntVector, Matrix, Tensor, Vector, entry
from .generalized_momentum import MomentumBodies, compute_momentum_and_drive


class ResidualFilter(NamedTuple):
    """Parameters and memory of an observer."""

    dt: float  # between updates [s]
    beta: Vector  # (nv,) share of the estimate that is kept
    damping: Vector  # (nv,) of the joints, viscous; zeros to leave it to the surroundings
    friction: Vector  # (nv,) of the joints, Coulomb's; the same
    stiction: float  # speed below which Coulomb friction is proportional to it
    actuated: IntVector  # (nu,) velocities of the motors
    r: Vector  # (nv,) the estimate
    p: Vector  # (nv,) momentum at the last update
    drive: Vector  # (nv,) what drove it then, but for motors and surroundings
    now: Matrix  # (2, nv) both at this update
    is_initialized: IntVector  # (1,) whether there was an update


@entry("the momentum observer")
def update_residual(o: ResidualFilter, v: Vector, tau: Vector) -> None:
    """One step with momentum and ``C^T v - g`` of this update in ``o.now``.

    Args:
        o: the observer.
        v: (nv,).
        tau: (nu,) torques since the last update.
    """
    p, drive = o.now[0], o.now[1]
    for i in range(len(v)):
        speed = max(abs(v[i]), o.stiction)
        drive[i] -= o.damping[i] * v[i] + o.friction[i] * v[i] / speed
    if o.is_initialized[0] != 0:
        for i in range(len(v)):
            # Mean of all that acts over the step but for the motors, into `p` as of before.
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
    """One step.

    Args:
        b: the robot's bodies.
        o: the observer.
        columns: of the world Jacobian, as of `State.kinematics`.
        joint_placements: joints, as of `State.kinematics`.
        v: (nv,).
        tau: (nu,) torques since the last update.
    """
    compute_momentum_and_drive(b, columns, joint_placements, v, o.now[0], o.now[1])
    update_residual(o, v, tau)
