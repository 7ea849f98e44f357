"""`ProblemReconstructor`: the rows of a past tick, with their names, as `TickProblem`.

It uses buffers of its own, so that the data of the controller are unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..compiler import IntVector
from ..dynamics.state_terms import AnyTerms
from ..robot.robot import Robot
from . import tick_core
from .contact_settings import ContactSettings
from .controller_model import Tables
from .element import Element
from .problem_rows import LEVEL
from .tick_data import RowBuffer, TickData
from .tick_inputs import (
    TickInputs,
    write_activations,
    write_before,
    write_contact,
    write_force_references,
)
from .tick_problem import RowGroup, TickProblem
from .tick_workspace import make_contacts, make_data, make_inputs, make_terms


class ProblemReconstructor:
    """Reconstructs ticks of one set of elements and contacts.

    Args:
        robot: the robot.
        tables: tables of the controller.
        elements: elements in the order of their indices.
        names: names of the contacts.
        terms: function that computes the rigid-body terms of a state.
    """

    def __init__(
        self, robot: Robot, tables: Tables, elements: Sequence[Element], names: Sequence[str], terms: AnyTerms
    ) -> None:
        self._robot, self._tables, self._elements, self._names = robot, tables, tuple(elements), tuple(names)
        self._terms = terms

    def problem(self, given: TickInputs) -> TickProblem:
        """Returns the levels over accelerations of actuated joints and contact forces divided by the mass.

        Args:
            given: inputs of the tick.
        """
        data = self.data(given)
        n = tick_core.write_unweighted_rows(given.q, given.v, data)
        levels = [self._level(data.rows, k, n, given) for k in range(self._tables.model.levels)]
        return TickProblem(levels, n)

    def data(self, given: TickInputs) -> TickData:
        """Returns all data of compiled code in new buffers."""
        robot, tables, count = self._robot, self._tables, len(self._names)
        nv, nu = robot.nv, robot.nu
        custom = len(given.custom.rows)
        contacts = make_contacts(count, tables.cone_rows)
        n = nu
        for c, (contact, minimum, maximum, height) in enumerate(given.settings):
            settings = ContactSettings(robot, contact)
            settings.set_normal_force_bounds(minimum, maximum)
            settings.surface_height = height
            write_contact(contacts, c, settings, tables)
            n += settings.size
        write_activations(contacts, *np.array(given.activations).reshape(count, 2).T)
        inputs = make_inputs(tables, np.array(given.numbers), count, nv, nu, custom)
        write_before(inputs, given.before)
        for i, (task, references) in enumerate(zip(tables.force_tasks, given.force_references, strict=True)):
            write_force_references(inputs, i, task, references, self._names)
        if custom:
            inputs.custom_rows[:] = given.custom.rows
        terms = make_terms(self._terms, tables.frames)
        self._terms.compute(given.q, given.v, terms.values)
        return make_data(tables, terms, contacts, inputs, n)

    def _level(self, rows: RowBuffer, k: int, n: int, given: TickInputs) -> list[RowGroup]:
        """Returns the groups of a level: rows of one element and unit of one contact, or of one `Rows`, by element."""
        found: list[tuple[tuple[bool, int], RowGroup]] = []
        a, b = int(rows.A_start[k]), int(rows.A_start[k + 1])
        c, d = int(rows.C_start[k]), int(rows.C_start[k + 1])
        for source, begin, end, equal in ((rows.A_source, a, b, True), (rows.C_source, c, d, False)):
            start = begin
            for i in range(begin + 1, end + 1):
                if i == end or self._common(source[i], given) != self._common(source[start], given):
                    if i > start:
                        found.append(self._group(rows, k, start, i, n, given, equal=equal))
                    start = i
        return [group for _, group in sorted(found, key=lambda each: each[0])]

    def _common(self, source: IntVector, given: TickInputs) -> tuple[int, int, int | str]:
        """Returns the element, the contact, and the unit or `Rows` that the rows of a group have in common."""
        item, contact, row = source.tolist()
        names = _custom_names(item, given)
        return item, contact, names[row][2] if names else self._elements[item].row_unit(row)

    def _group(
        self, rows: RowBuffer, k: int, start: int, end: int, n: int, given: TickInputs, *, equal: bool
    ) -> tuple[tuple[bool, int], RowGroup]:
        here = slice(start, end)
        source = (rows.A_source if equal else rows.C_source)[here]
        i, c = int(source[0, 0]), int(source[0, 1])
        element = self._elements[i]
        contact = self._names[c] if c >= 0 else ""
        names_and_units = _custom_names(i, given)
        if names_and_units:
            names, unit = tuple(names_and_units[r][0] for r in source[:, 2]), names_and_units[source[0, 2]][1]
        else:
            names = tuple(element.row_name(contact, int(row)) for row in source[:, 2])
            unit = element.row_unit(int(source[0, 2]))
        A, lower, upper, weights = rows.A, rows.b, rows.b, rows.A_weight
        if not equal:
            A, lower, upper, weights = rows.C, rows.lower, rows.upper, rows.C_weight
        group = RowGroup(
            element.name, names, unit, A[here, :n].copy(), lower[here].copy(), upper[here].copy(), A[here, n].copy(),
            weights[here].copy(), contact,
        )  # fmt: skip
        return (bool(self._tables.model.items[i, LEVEL] != k), i), group


def _custom_names(item: int, given: TickInputs) -> list[tuple[str, str, int]]:
    """Returns, for each row that an element computes in Python, its name, its unit, and the index of its `Rows`."""
    parts = enumerate(given.custom.parts)
    return [(name, unit, part) for part, (i, names, unit) in parts if i == item for name in names]
