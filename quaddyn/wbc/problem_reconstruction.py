"""`ProblemReconstructor`: the rows of a past tick, with their names, as `TickProblem`.

It uses separate buffers and does not change the data of the controller.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..compiler import IntVector
from ..dynamics.state_terms import AnyTerms
from ..robot.robot import Robot
from . import tick_core
from .contact_settings import ContactSettings
from .controller_model import ControllerTables, make_contacts, make_data, make_inputs, make_terms
from .element import Element
from .tick_data import RowBuffer, TickData
from .tick_inputs import (
    TickInputs,
    write_activations,
    write_contact,
    write_force_references,
    write_previous_torque,
)
from .tick_problem import RowGroup, TickProblem


class ProblemReconstructor:
    """Reconstructor of past ticks of one set of elements and contacts.

    Args:
        robot: the robot.
        tables: tables of the controller.
        elements: elements in the order of their indices.
        names: names of the contacts.
        terms: function that computes the rigid-body terms of a state.
    """

    def __init__(
        self, robot: Robot, tables: ControllerTables, elements: Sequence[Element], names: Sequence[str], terms: AnyTerms
    ) -> None:
        self._robot, self._tables, self._elements, self._names = robot, tables, tuple(elements), tuple(names)
        self._terms = terms

    def reconstruct_problem(self, inputs: TickInputs) -> TickProblem:
        """Returns the levels over accelerations of actuated joints and contact forces divided by the mass.

        Args:
            inputs: inputs of the tick.
        """
        data = self.reconstruct_data(inputs)
        n = tick_core.write_unweighted_rows(inputs.q, inputs.v, data)
        levels = [self._make_level(data.rows, k, n, inputs) for k in range(self._tables.model.levels)]
        return TickProblem(levels, n)

    def reconstruct_data(self, inputs: TickInputs) -> TickData:
        """Returns the data that compiled code reads at a tick, in new buffers."""
        robot, tables, count = self._robot, self._tables, len(self._names)
        nv, nu = robot.nv, robot.nu
        custom = len(inputs.custom.rows)
        contacts = make_contacts(count, tables.max_cone_rows)
        n = nu
        for c, (contact, minimum, maximum, height) in enumerate(inputs.settings):
            settings = ContactSettings(robot, contact)
            settings.set_normal_force_bounds(minimum, maximum)
            settings.surface_height = height
            write_contact(contacts, c, settings, tables)
            n += settings.size
        write_activations(contacts, *np.array(inputs.activations).reshape(count, 2).T)
        input_data = make_inputs(tables, np.array(inputs.parameters), count, nv, nu, custom)
        write_previous_torque(input_data, inputs.previous_torque)
        for i, (task, references) in enumerate(zip(tables.force_tasks, inputs.force_references, strict=True)):
            write_force_references(input_data, i, task, references, self._names)
        if custom:
            input_data.custom_rows[:] = inputs.custom.rows
        terms = make_terms(self._terms, tables.frames)
        self._terms.compute(inputs.q, inputs.v, terms.values)
        return make_data(tables, terms, contacts, input_data, n)

    def _make_level(self, rows: RowBuffer, k: int, n: int, inputs: TickInputs) -> list[RowGroup]:
        """Returns the groups of a level: each has the rows of one element, contact and unit, or of one `Rows`."""
        keyed_groups: list[tuple[tuple[bool, int], RowGroup]] = []
        a, b = int(rows.A_start[k]), int(rows.A_start[k + 1])
        c, d = int(rows.C_start[k]), int(rows.C_start[k + 1])
        for source, begin, end, are_equalities in ((rows.A_source, a, b, True), (rows.C_source, c, d, False)):
            start = begin
            for i in range(begin + 1, end + 1):
                if i == end or self._group_key(source[i], inputs) != self._group_key(source[start], inputs):
                    if i > start:
                        keyed_groups.append(
                            self._make_group(rows, k, start, i, n, inputs, are_equalities=are_equalities)
                        )
                    start = i
        return [group for _, group in sorted(keyed_groups, key=lambda keyed_group: keyed_group[0])]

    def _group_key(self, source: IntVector, inputs: TickInputs) -> tuple[int, int, int | str]:
        """Returns the element, the contact, and the unit or `Rows` that the rows of a group have in common."""
        item, contact, row = source.tolist()
        names = _custom_row_names(item, inputs)
        return item, contact, names[row][2] if names else self._elements[item].row_unit(row)

    def _make_group(
        self, rows: RowBuffer, k: int, start: int, end: int, n: int, inputs: TickInputs, *, are_equalities: bool
    ) -> tuple[tuple[bool, int], RowGroup]:
        """Returns rows `start` to `end` of level k as a group, with a key that sorts the groups of a level."""
        group_rows = slice(start, end)
        source = (rows.A_source if are_equalities else rows.C_source)[group_rows]
        i, c = int(source[0, 0]), int(source[0, 1])
        element = self._elements[i]
        contact = self._names[c] if c >= 0 else ""
        names_and_units = _custom_row_names(i, inputs)
        if names_and_units:
            names, unit = tuple(names_and_units[r][0] for r in source[:, 2]), names_and_units[source[0, 2]][1]
        else:
            names = tuple(element.row_name(contact, int(row)) for row in source[:, 2])
            unit = element.row_unit(int(source[0, 2]))
        A, lower, upper, weights = rows.A, rows.b, rows.b, rows.A_weight
        if not are_equalities:
            A, lower, upper, weights = rows.C, rows.lower, rows.upper, rows.C_weight
        group = RowGroup(
            element.name, names, unit, A[group_rows, :n].copy(), lower[group_rows].copy(), upper[group_rows].copy(),
            A[group_rows, n].copy(),
            weights[group_rows].copy(), contact,
        )  # fmt: skip
        return (bool(self._tables.model.elements.level[i] != k), i), group


def _custom_row_names(item: int, inputs: TickInputs) -> list[tuple[str, str, int]]:
    """Returns, for each row that an element computes in Python, its name, its unit, and the index of its `Rows`."""
    parts = enumerate(inputs.custom.parts)
    return [(name, unit, part) for part, (i, names, unit) in parts if i == item for name in names]
