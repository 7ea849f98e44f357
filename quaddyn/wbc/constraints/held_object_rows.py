"""Rows of `HeldObject`: its equations of motion, and those of the hands that move along it."""

from __future__ import annotations

from typing import NamedTuple

from ...compiler import Matrix, Vector, compiled, local
from ..contact_points import add_cross, add_turning, contact_lever, move_jacobian, rotated
from ..data import Frame, Instant, frame_of
from ..rows import Item, add_force, finish_equality, motion_row, name_equality, want_motion

#: Rows of the object's motion come first, then those of each hand along it.
ALONG = 6


class HeldObjectParameters(NamedTuple):
    """Parameters in the order in which they lie."""

    mass: float  # [kg]
    damping: float  # [1/s]
    com: Vector  # (3,) in the frame [m]
    inertia: Vector  # (9,) about it, row by row [kg m^2]


@compiled()
def held_object_parameters(z: Vector) -> HeldObjectParameters:
    """The parameters that begin z."""
    return HeldObjectParameters(z[0], z[1], z[2:5], z[5:14])


@compiled()
def fixed_point(frame: Frame, lever: Vector, J: Matrix, drift: Vector) -> None:
    """Jacobian over the frame's chain, and drift, of the point of its body at `lever` from its origin."""
    move_jacobian(frame, lever, J)
    for i in range(6):
        drift[i] = frame.drift[i]
    add_cross(frame.drift[3:], lever, drift)
    add_turning(frame.velocity[3:], lever, drift)


@compiled(inline=False)
def turned_inertia(R: Matrix, given: Vector, out: Matrix) -> None:
    """``out = R I R^T``, I (9,) row by row."""
    for i in range(3):
        for j in range(3):
            total = 0.0
            for k in range(3):
                total += R[i, k] * (given[3 * k] * R[j, 0] + given[3 * k + 1] * R[j, 1] + given[3 * k + 2] * R[j, 2])
            out[i, j] = total


@compiled(inline=False)
def held_object_rows(item: Item, t: Instant) -> None:
    """The object's equations of motion, and the motion of every hand along it."""
    share = 0.0
    for h in range(item.size):
        there = t.contacts.share[t.model.index[item.second + 2 * h]]
        if there > 0.0:
            share = there if share == 0.0 else min(share, there)
    if share == 0.0:
        return
    object_rows(item, t, share)
    for h in range(item.size):
        c, moves = t.model.index[item.second + 2 * h], t.model.index[item.second + 2 * h + 1]
        if moves != 0 and t.contacts.share[c] >= 1.0:
            grip_rows(item, t, c)


@compiled(inline=False)
def object_rows(item: Item, t: Instant, share: float) -> None:
    """Newton's and Euler's equations about the centre of mass, times the share of the contacts."""
    p, frame = held_object_parameters(item.numbers), frame_of(t.terms, t.model, item.first)
    J, inertia, chain, row = t.work.J, t.work.turn, frame.chain, t.work.vectors[4]
    at, drift, turning, load, arm, lever = local(3), local(6), local(3), local(6), local(3), local(3)
    rotated(frame.rotation, p.com, at)
    fixed_point(frame, at, J, drift)
    turned_inertia(frame.rotation, p.inertia, inertia)
    for i in range(3):
        load[i] = p.mass * (drift[i] - t.model.gravity[i])
        load[3 + i] = inertia[i, 0] * drift[3] + inertia[i, 1] * drift[4] + inertia[i, 2] * drift[5]
    rotated(inertia, frame.velocity[3:], turning)
    add_cross(frame.velocity[3:], turning, load[3:])
    for i in range(6):
        for k in range(len(chain)):
            if i < 3:
                row[k] = share * p.mass * J[i, k]
            else:
                spin = inertia[i - 3]
                row[k] = share * (spin[0] * J[3, k] + spin[1] * J[4, k] + spin[2] * J[5, k])
        A = t.rows.A[t.rows.count[0]]
        length = motion_row(t, A, row, chain)
        for h in range(item.size):
            c = t.model.index[item.second + 2 * h]
            if t.contacts.share[c] > 0.0:
                hand = frame_of(t.terms, t.model, t.contacts.frame[c])
                contact_lever(t.contacts, hand, c, arm, lever)
                for k in range(3):
                    lever[k] += hand.origin[k] - frame.origin[k] - at[k]
                if i < t.contacts.size[c]:
                    length += add_force(t, A, c, i, 1.0)
                if i >= 3:  # lever x f
                    j, k = (i - 2) % 3, (i - 1) % 3
                    length += add_force(t, A, c, k, lever[j]) + add_force(t, A, c, j, -lever[k])
        weight = 1.0 / t.model.mass if i < 3 else 1.0 / (t.model.mass * t.model.length)
        finish_equality(t.rows, t.maps.n, -share * load[i], length, weight, item.number, i)


@compiled(inline=False)
def grip_rows(item: Item, t: Instant, c: int) -> None:
    """Contact c does not move along the object."""
    p, frame = held_object_parameters(item.numbers), frame_of(t.terms, t.model, item.first)
    hand, points, J, own = frame_of(t.terms, t.model, t.contacts.frame[c]), t.points, t.work.J, t.work.J_other
    arm, lever, drift = local(3), local(3), local(6)
    contact_lever(t.contacts, hand, c, arm, lever)
    for k in range(3):
        lever[k] += hand.origin[k] - frame.origin[k]
    fixed_point(frame, lever, own, drift)
    for i in range(t.contacts.size[c]):
        for j in range(len(t.v)):
            J[i, j] = 0.0
        for k in range(len(frame.chain)):
            J[i, frame.chain[k]] -= own[i, k]
        for k in range(len(hand.chain)):
            J[i, hand.chain[k]] += points.jacobian[c, i, k]
        speed = 0.0
        for j in range(len(t.v)):
            speed += J[i, j] * t.v[j]
        wanted = -p.damping * speed - (points.drift[c, i] - drift[i])
        want_motion(t, J[i], t.work.everything, wanted, 1.0, item.number, ALONG + i)
        name_equality(t.rows, c)
