"""Writing of rows such as ``J a = b`` over the unknowns of a tick.

Each function maps a row over accelerations, forces or torques to one over the unknowns
(`quaddyn.wbc.tick_data.AffineMaps`), and appends it to the level that is being written.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..compiler import IntVector, Vector, compiled
from ..compiler.lanes import clear, gemv_indexed, scale
from .tick_data import ControllerModel, RowBuffer, TickContext, TickInputData

#: Number of entries of a custom row before its coefficients: level, two bounds, weight, element, row of the element.
CUSTOM_ROW_HEADER_SIZE = 6


class CustomRow(NamedTuple):
    """Row that was computed in Python: an entry of `TickInputData.custom_rows`."""

    lower: float
    upper: float
    weight: float
    element: int  # index of the element
    row: int  # index of the row within the element
    coefficients: Vector  # of accelerations (nv), forces (6 per contact) and torques (nu)


@compiled()
def custom_row(inputs: TickInputData, i: int) -> CustomRow:
    """Returns the entries of a custom row; they are finite numbers, except the bounds."""
    z = inputs.custom_rows[i]
    return CustomRow(z[1], z[2], z[3], int(z[4]), int(z[5]), z[CUSTOM_ROW_HEADER_SIZE:])


class Item(NamedTuple):
    """One element of a controller, as a compiled tick reads it."""

    element_index: int  # index of the element
    parameters: Vector  # its parameters; entries behind them belong to other elements
    size: int  # number of rows of a motion task, of capsules, or of hands
    first: int  # the two integers that `quaddyn.wbc.element.Element.bind` returned
    second: int


@compiled()
def get_item(model: ControllerModel, inputs: TickInputData, i: int) -> Item:
    """Returns task or constraint i."""
    table = model.elements
    return Item(i, inputs.parameters[table.first_parameter[i] :], table.size[i], table.first[i], table.second[i])


@compiled()
def row_weight(rows: RowBuffer, weight: float) -> float:
    """Returns the factor of a row: its weight, or 1 if rows are written without weights."""
    return weight if rows.applies_weights else 1.0


@compiled()
def finish_equality(rows: RowBuffer, n: int, target: float, length: float, weight: float, item: int, row: int) -> None:
    """Completes the row in A, whose last entry is its constant, as an equality ``row u = target``.

    Args:
        rows: the rows; the new one is at ``rows.A[rows.n_equalities]``.
        n: number of unknowns.
        target: right-hand side.
        length: scale of the row before elimination; a row that is far shorter now is rounding error.
        weight: weight of the row.
        item: index of the element, -1 for none.
        row: index of the row within the element.
    """
    m, w = rows.n_equalities, row_weight(rows, weight)
    A = rows.A[m]
    if w != 1.0:
        scale(A, A, w, n + 1)
    rows.b[m] = w * target - A[n]
    rows.A_length[m] = w * length
    rows.A_weight[m] = weight
    rows.A_source[m, 0] = item
    rows.A_source[m, 1] = -1
    rows.A_source[m, 2] = row
    rows.n_equalities = m + 1


@compiled()
def finish_limit(
    rows: RowBuffer, n: int, lower: float, upper: float, length: float, weight: float, item: int, row: int
) -> None:
    """Completes the row in C, whose last entry is its constant, as a limit ``lower <= row u <= upper``.

    Args:
        rows: the rows; the new one is at ``rows.C[rows.n_limits]``.
        n: number of unknowns.
        lower: lower bound, may be infinite.
        upper: upper bound, may be infinite.
        length: scale of the row before elimination; a row that is far shorter now is rounding error.
        weight: weight of the row.
        item: index of the element, -1 for none.
        row: index of the row within the element.
    """
    p, w = rows.n_limits, row_weight(rows, weight)
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
    rows.n_limits = p + 1


@compiled()
def tag_equality_contact(rows: RowBuffer, contact: int) -> None:
    """Stores which contact the last equality belongs to."""
    rows.A_source[rows.n_equalities - 1, 1] = contact


@compiled()
def tag_limit_contact(rows: RowBuffer, contact: int) -> None:
    """Stores which contact the last limit belongs to."""
    rows.C_source[rows.n_limits - 1, 1] = contact


@compiled()
def project_motion_row(t: TickContext, row: Vector, J: Vector, chain: IntVector) -> float:
    """Writes ``J a``, J over the velocities of a chain, as a row over the unknowns, and returns its length."""
    gemv_indexed(row, J, chain, t.maps.acceleration, len(chain), t.maps.n + 1)
    length = 0.0
    for k in range(len(chain)):
        length += abs(J[k]) * t.maps.acceleration_length[chain[k]]
    return length


@compiled()
def add_force_term(t: TickContext, row: Vector, contact: int, i: int, factor: float) -> float:
    """Adds ``factor f_i`` of a contact to a row over the unknowns, and returns the increase of its length."""
    row[t.maps.force[contact] + i] += t.model.mass * factor
    return abs(factor) * t.model.mass


@compiled(inline=False)
def add_motion_equality(
    t: TickContext, J: Vector, chain: IntVector, target: float, weight: float, item: int, row: int
) -> None:
    """Appends ``J a = target``, J over the velocities of a chain."""
    length = project_motion_row(t, t.rows.A[t.rows.n_equalities], J, chain)
    finish_equality(t.rows, t.maps.n, target, length, weight, item, row)


@compiled()
def add_joint_equality(t: TickContext, j: int, target: float, weight: float, item: int, row: int) -> None:
    """Appends ``a_j = target``."""
    maps, rows = t.maps, t.rows
    scale(rows.A[rows.n_equalities], maps.acceleration[j], 1.0, maps.n + 1)
    finish_equality(rows, maps.n, target, maps.acceleration_length[j], weight, item, row)


@compiled()
def add_joint_bounds(t: TickContext, j: int, lower: float, upper: float, weight: float, item: int, row: int) -> None:
    """Appends ``lower <= a_j <= upper``."""
    maps, rows = t.maps, t.rows
    scale(rows.C[rows.n_limits], maps.acceleration[j], 1.0, maps.n + 1)
    finish_limit(rows, maps.n, lower, upper, maps.acceleration_length[j], weight, item, row)


@compiled()
def add_torque_bounds(t: TickContext, i: int, lower: float, upper: float, weight: float, item: int, row: int) -> None:
    """Appends ``lower <= tau_i <= upper``."""
    maps, rows = t.maps, t.rows
    scale(rows.C[rows.n_limits], maps.torque[i], 1.0, maps.n + 1)
    finish_limit(rows, maps.n, lower, upper, maps.torque_length[i], weight, item, row)


@compiled()
def add_force_equality(t: TickContext, contact: int, i: int, target: float, weight: float, item: int, row: int) -> None:
    """Appends ``f_i = target`` [N] for component i of a contact force."""
    maps, rows = t.maps, t.rows
    A = rows.A[rows.n_equalities]
    clear(A, maps.n + 1)
    A[maps.force[contact] + i] = t.model.mass
    finish_equality(rows, maps.n, target, t.model.mass, weight, item, row)
    tag_equality_contact(rows, contact)


@compiled(inline=False)
def add_force_bounds(
    t: TickContext, contact: int, direction: Vector, lower: float, upper: float, weight: float, item: int, row: int
) -> None:
    """Appends ``lower <= direction . f <= upper`` [N] for a contact force."""
    maps, rows, mass = t.maps, t.rows, t.model.mass
    C = rows.C[rows.n_limits]
    clear(C, maps.n + 1)
    first, square = maps.force[contact], 0.0
    for i in range(t.contacts.size[contact]):
        C[first + i] = mass * direction[i]
        square += direction[i] * direction[i]
    finish_limit(rows, maps.n, lower, upper, mass * math.sqrt(square), weight, item, row)
    tag_limit_contact(rows, contact)


@compiled(inline=False)
def project_custom_row(t: TickContext, z: Vector, row: Vector) -> float:
    """Maps a row over accelerations (nv), forces (6 per contact) and torques (nu) to the unknowns.

    Returns:
        The length of the row.
    """
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
                length += add_force_term(t, row, c, i, z[nv + 6 * c + i])
    for i in range(len(t.model.actuated)):
        x = z[nv + 6 * nc + i]
        if x != 0.0:
            for k in range(n + 1):
                row[k] += x * maps.torque[i, k]
            length += abs(x) * maps.torque_length[i]
    return length


@compiled(inline=False)
def write_custom_element_rows(item: Item, t: TickContext) -> None:
    """Writes the rows of one element that were computed in Python."""
    for i in range(t.inputs.custom_rows.shape[0]):
        given, rows, n = custom_row(t.inputs, i), t.rows, t.maps.n
        if given.element != item.element_index:
            continue
        if given.lower == given.upper:
            length = project_custom_row(t, given.coefficients, rows.A[rows.n_equalities])
            finish_equality(rows, n, given.lower, length, given.weight, given.element, given.row)
        else:
            length = project_custom_row(t, given.coefficients, rows.C[rows.n_limits])
            finish_limit(rows, n, given.lower, given.upper, length, given.weight, given.element, given.row)
