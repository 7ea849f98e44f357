"""`TickSolver`: computes the ticks of one controller, from a state to a result, and reconstructs their rows.

`compute_centers_of_pressure` computes the centers of pressure of surface contacts at a past tick.  A
`ProblemReconstructor` computes the rows of a past tick, with their names, as `TickProblem`.  It uses separate buffers
and does not change the data of the controller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import empty, isfinite, zeros

from ..compiler import LANE_WIDTH, IntVector
from ..contact.support import compute_center_of_pressure
from ..dynamics import State
from ..dynamics.state_terms import AnyTerms, make_tick_terms
from ..errors import ArgumentError
from ..hierarchy import Level, solve
from ..robot.robot import Robot
from ..urdf.tree import Array
from . import tick_core
from .constraints import TorqueRate
from .contact_ramps import ContactRamps
from .contact_settings import ChangeCounter, ContactSettings
from .controller_model import ControllerTables, build_model, make_contacts, make_data, make_inputs, make_terms
from .element import Element, Scales
from .elements import Levels
from .tick import ActiveContacts, Rows, Tick
from .tick_data import (
    ContactStateData,
    RigidBodyTerms,
    RowBuffer,
    TickData,
    TickOutcome,
    TickResult,
    result_length,
    result_views,
)
from .tick_inputs import (
    CustomRows,
    SlowInputs,
    TickInputs,
    differs_only_in_cone,
    read_activations,
    write_activations,
    write_contact,
    write_custom_rows,
    write_friction_cone,
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
        input_data.force_references[:] = inputs.force_references
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


def compute_centers_of_pressure(
    terms: RigidBodyTerms, contacts: ContactStateData, names: Sequence[str], forces: Mapping[str, Array]
) -> dict[str, Array]:
    """Returns the (3,) center of pressure of each loaded surface contact by name, world axes [m].

    Args:
        terms: rigid-body terms of the tick.
        contacts: state of the contacts at the tick.
        names: names of all contacts.
        forces: contact forces of the tick, by contact.
    """
    points = {}
    for c, name in enumerate(names):
        if name not in forces or contacts.is_surface[c] == 0:
            continue
        first_term = int(terms.frames[contacts.frame[c]])
        R, origin = (
            terms.values[first_term : first_term + 9].reshape(3, 3),
            terms.values[first_term + 9 : first_term + 12],
        )
        with np.errstate(all="ignore"):  # a damaged file may contain any number
            point = compute_center_of_pressure(
                origin + R @ contacts.offset[c], R @ contacts.surface_normal[c], forces[name]
            )
        if point is not None:
            points[name] = point
    return points


@dataclass(frozen=True, slots=True)
class Resolve:
    """Solver of changed problems, for explanations; solves them like the controller.

    Attributes:
        rank_tolerance, damping: those of the controller.
    """

    rank_tolerance: float
    damping: float

    def __call__(self, problem: TickProblem) -> Array:
        """Returns the solution x of a problem."""
        levels = [Level(rows.A, rows.b, C=rows.C, lower=rows.lower, upper=rows.upper) for rows in problem.matrices()]
        return solve(levels, rank_tolerance=self.rank_tolerance, damping=self.damping).x


class TickSolver:
    """Solver of the ticks of one set of elements and contacts.

    Args:
        robot: the robot.
        levels: elements of the controller.
        contacts: contacts by name.
        ramps: ramps of the contacts.
        changes: counter of changes of contacts.
        scales: natural units of the robot.
        dt: control period [s].
        rank_tolerance: relative tolerance below which directions are treated as linearly dependent.
        damping: damping of the solver.

    Attributes:
        data: data that compiled ticks read and write.
        resolve: solver of changed problems, for explanations.
        slow_inputs: slowly changing inputs of the last tick.
        result_size: length of the vector of a result.
    """

    def __init__(
        self,
        robot: Robot,
        levels: Levels,
        contacts: Mapping[str, ContactSettings],
        ramps: ContactRamps,
        changes: ChangeCounter,
        *,
        scales: Scales,
        dt: float,
        rank_tolerance: float,
        damping: float,
    ) -> None:
        self.robot, self.levels, self.scales, self.dt = robot, levels, scales, dt
        self.names, self._settings = tuple(contacts), tuple(contacts.values())
        self._ramps, self._changes = ramps, changes
        self.tables = build_model(
            robot, levels, contacts, scales=scales, dt=dt, rank_tolerance=rank_tolerance, damping=damping
        )
        self.resolve = Resolve(self.tables.model.rank_tolerance, self.tables.model.damping)
        self._terms = make_tick_terms(robot, self.tables.frames, self.tables.momentum)
        self._fill_terms = self._terms.compute
        self._terms_q: Array | None = None  # the state of the rigid-body terms in `data`
        self._terms_v: Array | None = None
        self.nu = robot.nu
        self._has_torque_rate = any(isinstance(e, TorqueRate) for e in levels.by_name.values())
        count, nv, nu = len(contacts), robot.nv, robot.nu
        self._max_unknowns = nu + sum(settings.size for settings in self._settings)
        self._rigid_body_terms = make_terms(self._terms, self.tables.frames)
        self._contacts = make_contacts(count, self.tables.max_cone_rows)
        self._custom_layout: Any = None
        self._custom_parts: list[tuple[int, Rows]] = []
        self._active_contacts = ActiveContacts((), (), 0)
        self.slow_inputs = SlowInputs()
        self._allocate_buffers(0)
        self._result_length = result_length(
            nu, nv, count, self.tables.model.levels, len(self.tables.force_tasks), len(levels.parameters)
        )
        self.result_size = self._result_length + LANE_WIDTH
        self._zero_result, self._force_offset, self._weight = (
            zeros(self.result_size),
            nu + nv,
            scales.mass * scales.gravity,
        )
        self._activations_version = self._settings_version = -1
        self._written_settings: tuple[Any, ...] | None = None  # settings that `_contacts` contains
        self._last_acceleration: Array | None = None

    def _allocate_buffers(self, custom: int) -> None:
        """Allocates buffers for `custom` rows computed in Python; the next tick starts without a warm start."""
        tables, count, nv, nu = self.tables, len(self._settings), self.robot.nv, self.robot.nu
        self._custom_capacity, self._custom_layout = custom, None
        self._tick: Any = None  # compiled functions, bound to the data below
        inputs = make_inputs(tables, self.levels.parameters, count, nv, nu, custom)
        self.data = make_data(tables, self._rigid_body_terms, self._contacts, inputs, self._max_unknowns)
        for task, rows in zip(tables.force_tasks, inputs.force_references, strict=True):
            task.attach_rows(self.names, rows)

    @property
    def terms(self) -> AnyTerms:
        """Kernel of the rigid-body terms, or its substitute."""
        return self._terms

    @property
    def contacts(self) -> tuple[ContactSettings, ...]:
        """Settings of all contacts, in the order of `names`."""
        return self._settings

    def make_first_tick_data(self) -> TickData:
        """Returns the data of a first tick in new buffers, without custom elements."""
        tables, count, nv, nu = self.tables, len(self._settings), self.robot.nv, self.robot.nu
        contacts = make_contacts(count, tables.max_cone_rows)
        for c, settings in enumerate(self._settings):
            write_contact(contacts, c, settings, tables)
        inputs = make_inputs(tables, self.levels.parameters.copy(), count, nv, nu, 0)
        for task, rows in zip(tables.force_tasks, inputs.force_references, strict=True):
            task.write_references(self.names, rows)
        return make_data(tables, make_terms(self._terms, tables.frames), contacts, inputs, self._max_unknowns)

    def clear_warm_start(self) -> None:
        """Makes the next tick start without working sets."""
        tick_core.clear_working_sets(self.data.memory)

    def bind_machine_code(self) -> None:
        """Compiles or loads the machine code, and binds it to the data."""
        self._tick = tick_core.tick.bind(self.data)
        self._advance_contacts = tick_core.advance_contacts_entry.bind(self._ramps, self._contacts)

    # -- one tick ----------------------------------------------------------------------------------------------
    def advance_contacts(self, requested: IntVector, step: float, values: Array | None) -> int:
        """Advances the contacts by one tick, as `advance_contacts`.

        Args:
            requested: whether each contact should be made.
            step: change of the activation per tick; infinite to switch at once.
            values: result of the tick before, None on the first.

        Returns:
            The sum of the flags `ALL_RAMPS_ENDED` and `CONTACT_COMPLETED`, or 0.
        """
        if self._settings_version != self._changes.settings:
            self._read_settings()
        if self._tick is None:
            self.bind_machine_code()
        flags: int = self._advance_contacts(
            requested, step, self._weight, self._zero_result if values is None else values, self._force_offset
        )
        return flags

    def make_result_of_forces(self, forces: Mapping[str, Array]) -> Array:
        """Returns the vector of a result with the given contact forces [N, N m], and zeros otherwise."""
        values = self._zero_result.copy()
        rows = self.split_result(values).force
        for row, name in zip(rows, self.names, strict=True):
            force = forces.get(name, ())
            row[: len(force)] = force
        return values

    def solve(self, state: State, q: Array, v: Array, previous_torque: Array | None) -> tuple[int, Array]:
        """Computes one tick and returns its outcome and the vector of its `TickResult`.

        Args:
            state: state of the robot, for elements whose rows are computed in Python.
            q: configuration of the state.
            v: velocity of the state.
            previous_torque: (nu,) torques of the tick before, None on the first.
        """
        if self._settings_version != self._changes.settings:
            self._read_settings()
        if self.tables.custom_elements:  # first, since custom rows may require new, larger buffers
            self._update_custom_rows(state, previous_torque)
        if self._has_torque_rate:
            write_previous_torque(self.data.inputs, previous_torque)
        self.update_terms(q, v)
        if self._tick is None:
            self.bind_machine_code()
        values = empty(self.result_size)
        outcome = self._tick(q, v, values)
        if self.tables.custom_elements:
            last_acceleration = self.split_result(values).acceleration.copy()
            self._last_acceleration = last_acceleration if isfinite(last_acceleration).all() else None
        return outcome, values

    def update_terms(self, q: Array, v: Array) -> None:
        """Computes the rigid-body terms at (q, v) in `data`, unless they are those of the same arrays already.

        Args:
            q: (nq,) configuration of a state, which is not written to afterwards.
            v: (nv,) velocity of the state.
        """
        if q is self._terms_q and v is self._terms_v:
            return
        self._terms_q = self._terms_v = None
        self._fill_terms(q, v, self._rigid_body_terms.values)
        self._terms_q, self._terms_v = q, v

    def split_result(self, values: Array) -> TickResult:
        """Returns views of the parts of a result vector."""
        result: TickResult = result_views(
            values[: self._result_length], self.robot.nu, self.robot.nv, len(self._settings), self.tables.model.levels,
            len(self.tables.force_tasks),
        )  # fmt: skip
        return result

    def _read_settings(self) -> None:
        """Copies the settings of the contacts after a change."""
        self._settings_version = self._changes.settings
        settings = tuple(
            [(s.contact, s.min_normal_force, s.max_normal_force, s.surface_height) for s in self._settings]
        )
        for c, one_setting in enumerate(self._settings):
            written = None if self._written_settings is None else self._written_settings[c]
            if settings[c] == written:
                continue
            if (
                written is not None
                and settings[c][1:] == written[1:]
                and differs_only_in_cone(written[0], settings[c][0])
            ):
                write_friction_cone(self._contacts, c, one_setting, self.tables)
            else:
                write_contact(self._contacts, c, one_setting, self.tables)
        self._written_settings = settings
        self.slow_inputs = self.slow_inputs._replace(settings=settings)

    def _update_custom_rows(self, state: State, previous_torque: Array | None) -> None:
        """Computes the rows of custom elements."""
        if self._activations_version != self._changes.activations:
            activations = read_activations(self._ramps.activation, self._ramps.cap)
            self._active_contacts = ActiveContacts.from_activations(self._settings, activations)
            self._activations_version = self._changes.activations
        damping_index, active, nv, nu = (
            self.tables.model.contact_motion_start,
            self._active_contacts,
            self.robot.nv,
            self.nu,
        )
        damping = self.levels.parameters.item(damping_index) if damping_index >= 0 else None
        last_acceleration = None if previous_torque is None else self._last_acceleration
        tick = Tick(state, active, self.dt, self.scales, previous_torque, damping, last_acceleration)
        parts = [(i, rows) for i, e in self.tables.custom_elements for rows in self.levels.update_custom_rows(e, tick)]
        total, layout = 0, []
        for i, rows in parts:
            if not rows.has_valid_shapes(nv, active.nf, nu):
                self._check_custom_rows(i, rows)
            total += rows.size
            layout.append((i, rows.size, rows.acceleration is None, rows.force is None, rows.torque is None))
        if total > self._custom_capacity:
            self._allocate_buffers(total)
        rewrite_all = self._custom_layout is None or self._custom_layout != (active, layout)
        self._custom_layout = None  # invalid until all rows are written
        write_custom_rows(self.data.inputs, parts, self.tables, active, nv, nu, rewrite_all=rewrite_all)
        self._custom_layout, self._custom_parts = (active, layout), parts
        names = tuple([(i, rows.names, rows.unit) for i, rows in parts])
        self.slow_inputs = self.slow_inputs._replace(custom=CustomRows(names, self.data.inputs.custom_rows.copy()))

    def _check_custom_rows(self, i: int, rows: Rows) -> None:
        """Raises an error that names the element if its rows are invalid."""
        rows.validate(dict(self.tables.custom_elements)[i].name, self.robot.nv, self._active_contacts.nf, self.nu)

    def make_tick_inputs(
        self, values: Array, q: Array, v: Array, previous_torque: Array | None, slow_inputs: SlowInputs
    ) -> TickInputs:
        """Returns all inputs of a tick except its working sets; `values` is the result vector of the tick."""
        result, shape = self.split_result(values), self.data.inputs.force_references.shape
        return TickInputs(
            q, v, result.parameters, previous_torque, result.force_references.reshape(shape),
            read_activations(result.activation, result.cap), *slow_inputs,
        )  # fmt: skip

    def reconstruct_problem(self, inputs: TickInputs) -> TickProblem:
        """Reconstructs the rows of a past tick; the data of the controller are unchanged."""
        return self._make_reconstructor().reconstruct_problem(inputs)

    def find_nonviable(self, inputs: TickInputs) -> tuple[str, ...]:
        """Returns the names of joints and pairs outside their viable set at a past tick."""
        elements = [e for level in self.levels.elements for e in level]
        items = zip(elements, self.tables.model.elements.first_parameter.tolist(), strict=True)
        return tuple(
            name for e, start in items for name in e.find_nonviable(inputs.parameters[start:], inputs.q, inputs.v)
        )

    def centers_of_pressure(self, inputs: TickInputs, forces: Mapping[str, Array]) -> dict[str, Array]:
        """Returns the centers of pressure of loaded surface contacts at a past tick, world axes [m]."""
        data = self.reconstruct_data(inputs)
        return compute_centers_of_pressure(data.terms, data.contacts, self.names, forces)

    def reconstruct_data(self, inputs: TickInputs) -> TickData:
        """Reconstructs the data of a past tick in new buffers, with the working sets of a first tick."""
        return self._make_reconstructor().reconstruct_data(inputs)

    def _make_reconstructor(self) -> ProblemReconstructor:
        """Returns a reconstructor of past ticks."""
        elements = [e for level in self.levels.elements for e in level]
        return ProblemReconstructor(self.robot, self.tables, elements, self.names, self._terms)

    def raise_input_error(self, outcome: int) -> None:
        """Raises the error of a tick that cannot be solved.

        Raises:
            ArgumentError: the dynamics of the state overflow, or a parameter or row of an element is not finite.
        """
        if outcome == TickOutcome.OVERFLOW:
            raise ArgumentError(
                "state: the dynamics overflow, because q or v is out of range (was the state computed with "
                "validate=False?)"
            )
        if outcome == TickOutcome.NOT_A_NUMBER:
            self.levels.validate_parameters()
            for i, rows in self._custom_parts:
                self._check_custom_rows(i, rows)
