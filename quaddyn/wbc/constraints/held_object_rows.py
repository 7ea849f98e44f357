"""Rows of `HeldObject`: the equations of motion of the object, and the motion of the hands relative to it."""

from __future__ import annotations

from typing import NamedTuple

from ...compiler import Matrix, Vector, compiled, local
from ..contact_points import add_centripetal, add_cross, compute_contact_lever, rotate, shift_jacobian
from ..row_writing import (
    Item,
    add_force_term,
    add_motion_equality,
    finish_equality,
    project_motion_row,
    tag_equality_contact,
)
from ..tick_data import FrameKinematics, TickContext, frame_kinematics

#: Rows 0 to 5 are the equations of motion of the object; the rows of each hand start here.
FIRST_HAND_ROW = 6


class HeldObjectParameters(NamedTuple):
    """Parameters of `HeldObject`, in the order of its block."""

    mass: float  # [kg]
    damping: float  # [1/s]
    com: Vector  # (3,) in the frame [m]
    inertia: Vector  # (9,) about it, row by row [kg m^2]


@compiled()
def held_object_parameters(z: Vector) -> HeldObjectParameters:
    """Returns views of the parameters at the beginning of z."""
    return HeldObjectParameters(z[0], z[1], z[2:5], z[5:14])


@compiled()
def compute_point_kinematics(frame: FrameKinematics, lever: Vector, J: Matrix, drift: Vector) -> None:
    """Computes Jacobian over the frame's chain, and drift, of the body's point at `lever` from the frame's origin."""
    shift_jacobian(frame, lever, J)
    drift[:6] = frame.drift[:6]
    add_cross(frame.drift[3:], lever, drift)
    add_centripetal(frame.velocity[3:], lever, drift)


@compiled(inline=False)
def rotate_inertia(R: Matrix, given: Vector, out: Matrix) -> None:
    """Computes ``out = R I R^T``, I (9,) row by row."""
    for i in range(3):
        for j in range(3):
            total = 0.0
            for k in range(3):
                total += R[i, k] * (given[3 * k] * R[j, 0] + given[3 * k + 1] * R[j, 1] + given[3 * k + 2] * R[j, 2])
            out[i, j] = total


@compiled(inline=False)
def write_held_object_rows(item: Item, t: TickContext) -> None:
    """Writes the equations of motion of the object, and the rows of every hand that moves relative to its frame."""
    activation = 0.0
    for h in range(item.size):
        contact_activation = t.contacts.activation[t.model.index[item.second + 2 * h]]
        if contact_activation > 0.0:
            activation = contact_activation if activation == 0.0 else min(activation, contact_activation)
    if activation == 0.0:
        return
    write_object_rows(item, t, activation)
    for h in range(item.size):
        c, moves = t.model.index[item.second + 2 * h], t.model.index[item.second + 2 * h + 1]
        if moves != 0 and t.contacts.activation[c] >= 1.0:
            write_hand_rows(item, t, c)


@compiled(inline=False)
def write_object_rows(item: Item, t: TickContext, activation: float) -> None:
    """Writes Newton's and Euler's equations about the center of mass, scaled by the activation of the contacts."""
    p, frame = held_object_parameters(item.parameters), frame_kinematics(t.terms, t.model, item.first)
    J, inertia, chain, row = t.work.J, t.work.matrix3, frame.chain, t.work.vectors[4]
    com_lever, drift, angular_momentum, bias_wrench, arm, lever = (
        local(3),
        local(6),
        local(3),
        local(6),
        local(3),
        local(3),
    )
    rotate(frame.rotation, p.com, com_lever)
    compute_point_kinematics(frame, com_lever, J, drift)
    rotate_inertia(frame.rotation, p.inertia, inertia)
    for i in range(3):
        bias_wrench[i] = p.mass * (drift[i] - t.model.gravity[i])
        bias_wrench[3 + i] = inertia[i, 0] * drift[3] + inertia[i, 1] * drift[4] + inertia[i, 2] * drift[5]
    rotate(inertia, frame.velocity[3:], angular_momentum)
    add_cross(frame.velocity[3:], angular_momentum, bias_wrench[3:])
    for i in range(6):
        for k in range(len(chain)):
            if i < 3:
                row[k] = activation * p.mass * J[i, k]
            else:
                inertia_row = inertia[i - 3]
                row[k] = activation * (inertia_row[0] * J[3, k] + inertia_row[1] * J[4, k] + inertia_row[2] * J[5, k])
        A = t.rows.A[t.rows.n_equalities]
        length = project_motion_row(t, A, row, chain)
        for h in range(item.size):
            c = t.model.index[item.second + 2 * h]
            if t.contacts.activation[c] > 0.0:
                hand = frame_kinematics(t.terms, t.model, t.contacts.frame[c])
                compute_contact_lever(t.contacts, hand, c, arm, lever)
                for k in range(3):
                    lever[k] += hand.origin[k] - frame.origin[k] - com_lever[k]
                if i < t.contacts.size[c]:
                    length += add_force_term(t, A, c, i, 1.0)
                if i >= 3:  # lever x f
                    j, k = (i - 2) % 3, (i - 1) % 3
                    length += add_force_term(t, A, c, k, lever[j]) + add_force_term(t, A, c, j, -lever[k])
        weight = 1.0 / t.model.mass if i < 3 else 1.0 / (t.model.mass * t.model.length)
        finish_equality(t.rows, t.maps.n, -activation * bias_wrench[i], length, weight, item.element_index, i)


@compiled(inline=False)
def write_hand_rows(item: Item, t: TickContext, c: int) -> None:
    """Writes the rows by which contact c does not move relative to the object."""
    p, frame = held_object_parameters(item.parameters), frame_kinematics(t.terms, t.model, item.first)
    hand, points, J, object_jacobian = (
        frame_kinematics(t.terms, t.model, t.contacts.frame[c]),
        t.points,
        t.work.J,
        t.work.J_other,
    )
    arm, lever, drift = local(3), local(3), local(6)
    compute_contact_lever(t.contacts, hand, c, arm, lever)
    for k in range(3):
        lever[k] += hand.origin[k] - frame.origin[k]
    compute_point_kinematics(frame, lever, object_jacobian, drift)
    for i in range(t.contacts.size[c]):
        for j in range(len(t.v)):
            J[i, j] = 0.0
        for k in range(len(frame.chain)):
            J[i, frame.chain[k]] -= object_jacobian[i, k]
        for k in range(len(hand.chain)):
            J[i, hand.chain[k]] += points.jacobian[c, i, k]
        speed = 0.0
        for j in range(len(t.v)):
            speed += J[i, j] * t.v[j]
        target = -p.damping * speed - (points.drift[c, i] - drift[i])
        add_motion_equality(t, J[i], t.work.all_velocities, target, 1.0, item.element_index, FIRST_HAND_ROW + i)
        tag_equality_contact(t.rows, c)
