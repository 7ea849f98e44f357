"""Compiled code that all motion tasks share: named parameters, the feedback law, and rows of a Jacobian."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...compiler import IntVector, Matrix, Vector, compiled
from ..row_writing import Item, add_motion_equality
from ..tick_data import TickContext, TickInputData


class MotionParameters(NamedTuple):
    """Parameters of a motion task of m rows: views of its parameter array, in this order."""

    has_reference: Vector  # (1,) whether there is a reference position: 1 or 0; see the functions below
    weight: Vector  # (m,)
    stiffness: Vector  # (m,) [1/s^2]
    damping: Vector  # (m,) [1/s]
    mask: Vector  # (m,) whether a row is used
    velocity: Vector  # (m,) reference
    acceleration: Vector  # (m,) feed-forward
    position: Vector  # reference


@compiled()
def motion_parameters(z: Vector, m: int) -> MotionParameters:
    """Returns views of the parameters at the beginning of z."""
    return MotionParameters(
        z[:1], z[1 : 1 + m], z[1 + m : 1 + 2 * m], z[1 + 2 * m : 1 + 3 * m], z[1 + 3 * m : 1 + 4 * m],
        z[1 + 4 * m : 1 + 5 * m], z[1 + 5 * m : 1 + 6 * m], z[1 + 6 * m :],
    )  # fmt: skip


@compiled()
def has_reference(p: MotionParameters) -> bool:
    """Returns whether a task has a reference position."""
    found: bool = p.has_reference[0] != 0.0
    return found


@compiled()
def set_has_reference(p: MotionParameters, value: bool) -> None:
    """Sets whether a task has a reference position."""
    p.has_reference[0] = 1.0 if value else 0.0


@compiled(inline=False)
def clear_motion_reference(item: Item, inputs: TickInputData, home: Vector) -> None:
    """Clears the reference of a motion task, which then takes the current position at the next tick."""
    p = motion_parameters(item.parameters, item.size)
    set_has_reference(p, False)
    for i in range(item.size):
        p.velocity[i] = 0.0
        p.acceleration[i] = 0.0


@compiled()
def desired_acceleration(p: MotionParameters, i: int, error: float, velocity: float) -> float:
    """Returns ``a* = acceleration + damping (velocity - J v) + stiffness error`` of row i."""
    target = p.acceleration[i] + p.damping[i] * (p.velocity[i] - velocity)
    if has_reference(p):
        target += p.stiffness[i] * error
    return float(target)


@compiled(inline=False)
def write_motion_rows(
    t: TickContext, item: Item, p: MotionParameters, J: Matrix, chain: IntVector, task_state: Matrix
) -> None:
    """Writes ``J a + drift = a*``, row by row.

    Args:
        t: the tick.
        item: the task.
        p: its parameters.
        J: (rows, len(chain)) Jacobian over the velocities of the chain.
        chain: indices of these velocities.
        task_state: (3, rows) error, velocity and drift.
    """
    for i in range(item.size):
        if p.mask[i] != 0.0:
            target = desired_acceleration(p, i, task_state[0, i], task_state[1, i]) - task_state[2, i]
            add_motion_equality(t, J[i], chain, target, p.weight[i], item.element_index, i)


@compiled()
def relative_rotation_entry(W: Vector, R: Matrix, i: int, j: int) -> float:
    """Returns entry (i, j) of ``W R^T``, with W (9,) row by row and R (3, 3)."""
    return float(W[3 * i] * R[j, 0] + W[3 * i + 1] * R[j, 1] + W[3 * i + 2] * R[j, 2])


@compiled(inline=False)
def rotation_error(W: Vector, R: Matrix, out: Vector) -> None:
    """Computes the rotation vector ``log(W R^T)`` (Murray, Li, Sastry 1994, section 2.2).

    Args:
        W: (9,) reference rotation matrix, row by row.
        R: (3, 3) current rotation matrix.
        out: (3,) takes the rotation vector [rad].
    """
    x = 0.5 * (relative_rotation_entry(W, R, 2, 1) - relative_rotation_entry(W, R, 1, 2))
    y = 0.5 * (relative_rotation_entry(W, R, 0, 2) - relative_rotation_entry(W, R, 2, 0))
    z = 0.5 * (relative_rotation_entry(W, R, 1, 0) - relative_rotation_entry(W, R, 0, 1))
    d0, d1, d2 = (
        relative_rotation_entry(W, R, 0, 0),
        relative_rotation_entry(W, R, 1, 1),
        relative_rotation_entry(W, R, 2, 2),
    )
    s = math.sqrt(x * x + y * y + z * z)
    c = 0.5 * (d0 + d1 + d2 - 1.0)
    angle = math.atan2(s, c)
    if c > -0.9:
        f = angle / s if s > 1e-7 else 1.0 + s * s / 6.0
        out[0] = f * x
        out[1] = f * y
        out[2] = f * z
        return
    # Near half a turn, the axis is computed from the symmetric part of W R^T, and its sign from the skew part.
    k = 0
    if d1 > d0:
        k = 1
    if d2 > max(d0, d1):
        k = 2
    length = 0.0
    for i in range(3):
        out[i] = 0.5 * (relative_rotation_entry(W, R, i, k) + relative_rotation_entry(W, R, k, i))
    out[k] -= c
    for i in range(3):
        length += out[i] * out[i]
    f = angle / math.sqrt(length)
    if x * out[0] + y * out[1] + z * out[2] < 0.0:
        f = -f
    for i in range(3):
        out[i] *= f


@compiled()
def write_position_state(
    p: MotionParameters, origin: Vector, velocity: Vector, drift: Vector, task_state: Matrix
) -> None:
    """Writes error, velocity and drift of the origin of a frame along world axes x, y, z.

    Args:
        p: parameters of the task, with the reference position (3,) [m].
        origin: (3,) origin of the frame, world [m].
        velocity: (3,) its velocity [m/s].
        drift: (3,) its acceleration at zero joint accelerations [m/s^2].
        task_state: (3, m) error, velocity and drift of the m rows of a task; the first three columns are written.
    """
    for i in range(3):
        task_state[0, i] = p.position[i] - origin[i]
        task_state[1, i] = velocity[i]
        task_state[2, i] = drift[i]


@compiled()
def write_rotation_state(
    target: Vector,
    has_target: bool,
    rotation: Matrix,
    velocity: Vector,
    drift: Vector,
    task_state: Matrix,
    first: int,
) -> None:
    """Writes error, velocity and drift of the rotation of a frame about world axes x, y, z.

    Args:
        target: (9,) reference rotation matrix, row by row.
        has_target: whether there is a reference; without one the error is zero.
        rotation: (3, 3) current rotation matrix of the frame.
        velocity: (3,) angular velocity of the frame, world axes [rad/s].
        drift: (3,) angular acceleration of the frame at zero joint accelerations, world axes [rad/s^2].
        task_state: (3, m) error, velocity and drift of the m rows of a task; columns `first` to `first + 2` are
            written.
        first: index of the task row about x.
    """
    for i in range(3):
        task_state[0, first + i] = 0.0
        task_state[1, first + i] = velocity[i]
        task_state[2, first + i] = drift[i]
    if has_target:
        rotation_error(target, rotation, task_state[0, first : first + 3])
