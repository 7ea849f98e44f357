"""Inputs of a tick besides the state, written into the arrays of compiled code; and a record of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..urdf.tree import Array
from .contact_settings import ContactSettings
from .controller_model import Tables
from .tasks import ForceTask
from .tick import ActiveContacts, Rows
from .tick_data import ROLES, ContactStateData, TickInputData
from .tick_workspace import CUSTOM_HEAD

#: References of all force tasks.
ForceReferences = tuple[Mapping[str, Array], ...]


class CustomRows(NamedTuple):
    """Rows that elements computed in Python at one tick.

    Attributes:
        parts: of each `Rows`, the index of its element, the names of its rows and their unit.
        rows: rows of all parts, one after the other, as in `TickInputData`.
    """

    parts: tuple[tuple[int, tuple[str, ...], str], ...]
    rows: Array


NO_ROWS = CustomRows((), np.zeros((0, 0)))


class SlowInputs(NamedTuple):
    """Inputs of a tick that seldom change, besides the state.

    Attributes:
        force_references: references of force tasks.
        settings: per contact (contact, smallest force, largest force, height).
        activations: per contact its activation and cap.
        custom: rows that elements computed in Python.
    """

    force_references: ForceReferences = ()
    settings: tuple[Any, ...] = ()
    activations: tuple[tuple[float, float], ...] = ()
    custom: CustomRows = NO_ROWS


class TickInputs(NamedTuple):
    """All inputs of a tick.

    Attributes:
        q, v: the state.
        numbers: parameters of the elements.
        before: (nu,) torques of the tick before, None on the first.
        force_references, settings, activations, custom: as of `SlowInputs`.
    """

    q: Array
    v: Array
    numbers: Array
    before: Array | None
    force_references: ForceReferences
    settings: tuple[Any, ...]
    activations: tuple[tuple[float, float], ...]
    custom: CustomRows


def write_contact(to: ContactStateData, c: int, s: ContactSettings, tables: Tables) -> None:
    """Writes the settings of a contact, all but its activation."""
    contact, faces = s.contact, tables.model.faces
    cone = s.cone_face_rows(faces, np.eye(3)) if faces and contact.unilateral else np.zeros((0, s.size))
    to.role[c], to.size[c], to.frame[c] = ROLES.index(s.role), s.size, tables.contact_frames[c]
    to.foot_task[c] = tables.guides[c]
    to.is_unilateral[c], to.is_surface[c], to.cone_row_count[c] = (
        contact.unilateral,
        contact.kind == "surface",
        len(cone),
    )
    to.radius[c], to.min_force[c], to.max_force[c] = contact.radius, s.min_normal_force, s.max_normal_force
    to.surface_height[c], to.stiffness[c], to.damping[c] = s.surface_height, contact.stiffness or 0.0, contact.damping
    to.moment_arm[c] = 1.0 if contact.half_size is None else contact.half_size.mean()
    to.normal[c], to.offset[c], to.surface_normal[c] = contact.normal, contact.offset, contact.axes_at(np.eye(3))[2]
    to.cone[c] = 0.0
    to.cone[c, : len(cone), : s.size] = cone


def write_activations(to: ContactStateData, activation: Array, cap: Array) -> None:
    """Writes the activation and the cap of each contact."""
    to.activation[:] = activation
    to.cap[:] = cap


def write_before(to: TickInputData, before: Array | None) -> None:
    """Writes the torques of the tick before."""
    to.has_previous_tick[0] = before is not None
    if before is not None:
        to.previous_torque[:] = before


def write_force_references(
    to: TickInputData, i: int, task: ForceTask, references: Mapping[str, Array], names: Sequence[str]
) -> None:
    """Writes the references of force task i for each contact."""
    rows = to.force_references[i]
    rows[:] = 0.0
    for name, row in zip(names, rows, strict=True):
        row[0] = task.contacts is None or name in task.contacts
        if name in references:
            row[1] = 1.0
            row[2 : 2 + len(references[name])] = references[name]


def write_custom_rows(
    to: TickInputData,
    parts: Sequence[tuple[int, Rows]],
    tables: Tables,
    there: ActiveContacts,
    nv: int,
    nu: int,
    *,
    anew: bool,
) -> None:
    """Writes rows that elements computed in Python; the buffer must be large enough.

    Args:
        to: inputs that take the rows.
        parts: each `Rows` with the index of its element.
        tables: tables of the controller.
        there: active contacts of the tick.
        nv: number of velocities.
        nu: number of motors.
        anew: whether elements, numbers of rows, matrices or contacts differ from the last time.
    """
    table, at, forces = to.custom_rows, 0, CUSTOM_HEAD + nv
    torques = forces + 6 * len(there.settings)
    if anew:
        table[:] = 0.0
        table[:, 4] = -1.0
        starts = dict[int, int]()
        for i, rows in parts:
            here, start = table[at : at + rows.size], starts.get(i, 0)
            here[:, 0], here[:, 4], here[:, 5] = tables.model.items[i, 0], i, np.arange(start, start + rows.size)
            at, starts[i] = at + rows.size, start + rows.size
        at = 0
    for _, rows in parts:
        here = table[at : at + rows.size]
        at += rows.size
        here[:, 1], here[:, 2] = rows.lower, rows.upper
        here[:, 3] = 1.0 if rows.weights is None else rows.weights
        if rows.acceleration is not None:
            here[:, CUSTOM_HEAD:forces] = rows.acceleration
        if rows.force is not None:
            for columns, c in there.columns():
                begin = forces + 6 * c
                here[:, begin : begin + columns.stop - columns.start] = rows.force[:, columns]
        if rows.torque is not None:
            here[:, torques : torques + nu] = rows.torque
