"""Inputs of a tick besides the state, written into the arrays of compiled code; and a record of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from ..contact import Contact
from ..urdf.tree import Array
from .contact_settings import ContactSettings
from .controller_model import ControllerTables
from .row_writing import CUSTOM_ROW_HEADER_SIZE
from .tick import ActiveContacts, Rows
from .tick_data import ROLES, ContactStateData, TickInputData


class CustomRows(NamedTuple):
    """Rows that elements computed in Python at one tick.

    Attributes:
        parts: for each `Rows`, the index of its element, the names of its rows and their unit.
        rows: rows of all parts, one after the other, as in `TickInputData`.
    """

    parts: tuple[tuple[int, tuple[str, ...], str], ...]
    rows: Array


NO_ROWS = CustomRows((), np.zeros((0, 0)))


class SlowInputs(NamedTuple):
    """Inputs of a tick that change rarely, in contrast to the state.

    Attributes:
        settings: for each contact (contact, smallest normal force, largest normal force, surface height).
        custom: rows that elements computed in Python.
    """

    settings: tuple[Any, ...] = ()
    custom: CustomRows = NO_ROWS


class TickInputs(NamedTuple):
    """All inputs of a tick.

    Attributes:
        q, v: the state.
        parameters: parameters of the elements.
        previous_torque: (nu,) torques of the tick before, None on the first.
        force_references: (force tasks, contacts, 8) references of force tasks, as in `TickInputData`.
        activations: activation and cap of each contact.
        settings, custom: see `SlowInputs`.
    """

    q: Array
    v: Array
    parameters: Array
    previous_torque: Array | None
    force_references: Array
    activations: tuple[tuple[float, float], ...]
    settings: tuple[Any, ...]
    custom: CustomRows


def write_contact(contacts: ContactStateData, c: int, settings: ContactSettings, tables: ControllerTables) -> None:
    """Writes the settings of a contact, except its activation."""
    contact = settings.contact
    contacts.role[c], contacts.size[c], contacts.frame[c] = (
        ROLES.index(settings.role),
        settings.size,
        tables.contact_frames[c],
    )
    contacts.foot_task[c] = tables.foot_task_indices[c]
    contacts.is_unilateral[c], contacts.is_surface[c] = contact.unilateral, contact.kind == "surface"
    contacts.radius[c], contacts.min_force[c], contacts.max_force[c] = (
        contact.radius,
        settings.min_normal_force,
        settings.max_normal_force,
    )
    contacts.surface_height[c], contacts.stiffness[c], contacts.damping[c] = (
        settings.surface_height,
        contact.stiffness or 0.0,
        contact.damping,
    )
    contacts.moment_arm[c] = 1.0 if contact.half_size is None else contact.half_size.mean()
    contacts.offset[c] = contact.offset
    write_friction_cone(contacts, c, settings, tables)


def write_friction_cone(
    contacts: ContactStateData, c: int, settings: ContactSettings, tables: ControllerTables
) -> None:
    """Writes the normal and the friction cone of a contact."""
    contact, faces = settings.contact, tables.model.faces
    contacts.normal[c] = contact.normal
    contacts.surface_normal[c] = contact.normal if contact.kind == "point" else contact.axes_at(np.eye(3))[2]
    contacts.cone[c] = 0.0
    contacts.cone_row_count[c] = 0
    if faces and contact.unilateral:
        cone = settings.cone_face_rows(faces, np.eye(3))
        contacts.cone_row_count[c] = len(cone)
        contacts.cone[c, : len(cone), : settings.size] = cone


def differs_only_in_cone(before: Contact, after: Contact) -> bool:
    """Returns whether two contacts have the same settings but for normal and friction."""
    names = (field.name for field in fields(Contact) if field.name not in ("normal", "friction"))
    return all(getattr(before, name) is getattr(after, name) for name in names)


def read_activations(activation: Array, cap: Array) -> tuple[tuple[float, float], ...]:
    """Returns activation and cap of each contact as pairs."""
    return tuple(zip(activation.tolist(), cap.tolist(), strict=True))


def write_activations(contacts: ContactStateData, activation: Array, cap: Array) -> None:
    """Writes the activation and the cap of each contact."""
    contacts.activation[:] = activation
    contacts.cap[:] = cap


def write_previous_torque(inputs: TickInputData, previous_torque: Array | None) -> None:
    """Writes the torques of the tick before."""
    inputs.previous.exists = previous_torque is not None
    if previous_torque is not None:
        inputs.previous.torque[:] = previous_torque


def write_custom_rows(
    inputs: TickInputData,
    parts: Sequence[tuple[int, Rows]],
    tables: ControllerTables,
    active: ActiveContacts,
    nv: int,
    nu: int,
    *,
    rewrite_all: bool,
) -> None:
    """Writes rows that elements computed in Python; the buffer must be large enough.

    Args:
        inputs: inputs that take the rows.
        parts: each `Rows` with the index of its element.
        tables: tables of the controller.
        active: active contacts of the tick.
        nv: number of velocities.
        nu: number of motors.
        rewrite_all: whether elements, numbers of rows, matrices or contacts differ from the last time.
    """
    table, start_row, first_force = inputs.custom_rows, 0, CUSTOM_ROW_HEADER_SIZE + nv
    first_torque = first_force + 6 * len(active.settings)
    if rewrite_all:
        table[:] = 0.0
        table[:, 4] = -1.0
        starts = dict[int, int]()
        for i, rows in parts:
            part_rows, start = table[start_row : start_row + rows.size], starts.get(i, 0)
            part_rows[:, 0], part_rows[:, 4], part_rows[:, 5] = (
                tables.model.elements.level[i],
                i,
                np.arange(start, start + rows.size),
            )
            start_row, starts[i] = start_row + rows.size, start + rows.size
        start_row = 0
    for _, rows in parts:
        part_rows = table[start_row : start_row + rows.size]
        start_row += rows.size
        part_rows[:, 1], part_rows[:, 2] = rows.lower, rows.upper
        part_rows[:, 3] = 1.0 if rows.weights is None else rows.weights
        if rows.acceleration is not None:
            part_rows[:, CUSTOM_ROW_HEADER_SIZE:first_force] = rows.acceleration
        if rows.force is not None:
            for columns, c in active.columns():
                begin = first_force + 6 * c
                part_rows[:, begin : begin + columns.stop - columns.start] = rows.force[:, columns]
        if rows.torque is not None:
            part_rows[:, first_torque : first_torque + nu] = rows.torque
