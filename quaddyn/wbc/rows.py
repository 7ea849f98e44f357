"""Writing rows of the levels, ``J a = b`` and the like, over the unknowns of a tick.

Each function turns a row over accelerations, forces or torques into one over the unknowns (`quaddyn.wbc.data.Maps`),
and adds it to the level that is being written.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..compiler import IntVector, Vector, compiled
from ..compiler.lanes import clear, gemv_indexed, scale
from .data import Instant, RowBuffer


class Item(NamedTuple):
    """One element of a controller, as a tick sees it."""

    number: int  # which one
    numbers: Vector  # its parameters, and what follows them
    size: int  # rows of a motion task
    first: int  # what `quaddyn.wbc.element.Element.refer` returned
    second: int


@compiled()
def weight_of(rows: RowBuffer, weight: float) -> float:
    """The factor of a row: its weight, or 1 if rows are to be written without weights."""
    return weight if rows.weighted[0] != 0 else 1.0


@compiled()
def finish_equality(rows: RowBuffer, n: int, wanted: float, length: float, weight: float, item: int, row: int) -> None:
    """The row over the unknowns that lies in A, its constant behind it, becomes an equality."""
    m, w = rows.count[0], weight_of(rows, weight)
    A = rows.A[m]
    if w != 1.0:
        scale(A, A, w, n + 1)
    rows.b[m] = w * wanted - A[n]
    rows.A_length[m] = w * length
    rows.A_weight[m] = weight
    rows.A_source[m, 0] = item
    rows.A_source[m, 1] = -1
    rows.A_source[m, 2] = row
    rows.count[0] = m + 1


@compiled()
def finish_limit(
    rows: RowBuffer, n: int, lower: float, upper: float, length: float, weight: float, item: int, row: int
) -> None:
    """The row over the unknowns that lies in C, its constant behind it, becomes a limit."""
    p, w = rows.count[1], weight_of(rows, weight)
    C = rows.C[p]
    if w != 1.0:
        scale(C, C, w, n + 1)
    rows.lower[p] = w * lower - C[n]
    rows.upper[p] = w * upper - C[n]
    rows.C_length[p] = w * length
    rows.C_weight[p] = weight
    rows.C_source[p, 0] = item
    rows.C_source[p, 1] = -1
    rows.C_source[p, 2] = row
    rows.count[1] = p + 1


@compiled()
def name_equality(rows: RowBuffer, contact: int) -> None:
    """The last equality is about a contact."""
    rows.A_source[rows.count[0] - 1, 1] = contact


@compiled()
def name_limit(rows: RowBuffer, contact: int) -> None:
    """The last limit is about a contact."""
    rows.C_source[rows.count[1] - 1, 1] = contact


@compiled()
def motion_row(t: Instant, row: Vector, J: Vector, chain: IntVector) -> float:
    """``J a``, J over the velocities of a chain, as a row over the unknowns; its length."""
    gemv_indexed(row, J, chain, t.maps.acceleration, len(chain), t.maps.n + 1)
    length = 0.0
    for k in range(len(chain)):
        length += abs(J[k]) * t.maps.acceleration_length[chain[k]]
    return length


@compiled()
def add_force(t: Instant, row: Vector, contact: int, i: int, factor: float) -> float:
    """Add ``factor f_i`` of a contact to a row over the unknowns; by what its length grows."""
    row[t.maps.force[contact] + i] += t.model.mass * factor
    return abs(factor) * t.model.mass


@compiled(inline=False)
def want_motion(t: Instant, J: Vector, chain: IntVector, wanted: float, weight: float, item: int, row: int) -> None:
    """``J a = wanted``, J over the velocities of a chain."""
    length = motion_row(t, t.rows.A[t.rows.count[0]], J, chain)
    finish_equality(t.rows, t.maps.n, wanted, length, weight, item, row)


@compiled(inline=False)
def bound_motion(
    t: Instant, J: Vector, chain: IntVector, lower: float, upper: float, weight: float, item: int, row: int
) -> None:
    """``lower <= J a <= upper``, J over the velocities of a chain."""
    length = motion_row(t, t.rows.C[t.rows.count[1]], J, chain)
    finish_limit(t.rows, t.maps.n, lower, upper, length, weight, item, row)


@compiled()
def want_joint(t: Instant, j: int, wanted: float, weight: float, item: int, row: int) -> None:
    """``a_j = wanted``."""
    maps, rows = t.maps, t.rows
    scale(rows.A[rows.count[0]], maps.acceleration[j], 1.0, maps.n + 1)
    finish_equality(rows, maps.n, wanted, maps.acceleration_length[j], weight, item, row)


@compiled()
def bound_joint(t: Instant, j: int, lower: float, upper: float, weight: float, item: int, row: int) -> None:
    """``lower <= a_j <= upper``."""
    maps, rows = t.maps, t.rows
    scale(rows.C[rows.count[1]], maps.acceleration[j], 1.0, maps.n + 1)
    finish_limit(rows, maps.n, lower, upper, maps.acceleration_length[j], weight, item, row)


@compiled()
def bound_torque(t: Instant, i: int, lower: float, upper: float, weight: float, item: int, row: int) -> None:
    """``lower <= tau_i <= upper``."""
    maps, rows = t.maps, t.rows
    scale(rows.C[rows.count[1]], maps.torque[i], 1.0, maps.n + 1)
    finish_limit(rows, maps.n, lower, upper, maps.torque_length[i], weight, item, row)


@compiled()
def want_force(t: Instant, contact: int, i: int, wanted: float, weight: float, item: int, row: int) -> None:
    """``f_i = wanted`` [N] of a contact."""
    maps, rows = t.maps, t.rows
    A = rows.A[rows.count[0]]
    clear(A, maps.n + 1)
    A[maps.force[contact] + i] = t.model.mass
    finish_equality(rows, maps.n, wanted, t.model.mass, weight, item, row)
    name_equality(rows, contact)


@compiled(inline=False)
def bound_force(
    t: Instant, contact: int, direction: Vector, lower: float, upper: float, weight: float, item: int, row: int
) -> None:
    """``lower <= direction . f <= upper`` [N] of a contact."""
    maps, rows, mass = t.maps, t.rows, t.model.mass
    C = rows.C[rows.count[1]]
    clear(C, maps.n + 1)
    first, square = maps.force[contact], 0.0
    for i in range(t.contacts.size[contact]):
        C[first + i] = mass * direction[i]
        square += direction[i] * direction[i]
    finish_limit(rows, maps.n, lower, upper, mass * math.sqrt(square), weight, item, row)
    name_limit(rows, contact)


@compiled(inline=False)
def custom_row(t: Instant, z: Vector, row: Vector) -> float:
    """A row over accelerations (nv), forces (6 a contact) and torques (nu) as one over the unknowns; its length."""
    maps, contacts, nv = t.maps, t.contacts, len(t.v)
    nc, n = len(contacts.size), maps.n
    clear(row, n + 1)
    length = 0.0
    for j in range(nv):
        if z[j] != 0.0:
            for k in range(n + 1):
                row[k] += z[j] * maps.acceleration[j, k]
            length += abs(z[j]) * maps.acceleration_length[j]
    for c in range(nc):
        if maps.force[c] >= 0:
            for i in range(contacts.size[c]):
                length += add_force(t, row, c, i, z[nv + 6 * c + i])
    for i in range(len(t.model.actuated)):
        x = z[nv + 6 * nc + i]
        if x != 0.0:
            for k in range(n + 1):
                row[k] += x * maps.torque[i, k]
            length += abs(x) * maps.torque_length[i]
    return length
