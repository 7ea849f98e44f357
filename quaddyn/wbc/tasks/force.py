"""`ForceTask`: desired contact forces on any level; without references, the regularization of contact forces."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...compiler import Vector, compiled
from ...deprecation import renamed_attributes
from ...errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ...robot.arguments import FLOAT, check_array, check_sequence
from ...robot.robot import Robot
from ...urdf.tree import Array, frozen
from ..element import Element, ElementKind, Layout, ReferenceResolver, RowCounts, ScalarParameter
from ..row_writing import Item, add_force_equality, add_motion_equality, tag_equality_contact
from ..tick_data import ContactRole, TickContext, TickInputData, force_reference, write_force_reference

AXES = ("x", "y", "z", "rx", "ry", "rz")
NO_REFERENCES: Mapping[str, Array] = MappingProxyType({})


class PointForceReferences(Mapping[str, Array]):
    """Immutable mapping from the names of point contacts to reference forces (3,).

    Args:
        names: names of all contacts.
        rows: (contacts, 8) references as in `TickInputData.force_references`, copied.
    """

    __slots__ = ("names", "rows")

    def __init__(self, names: tuple[str, ...], rows: Array) -> None:
        self.names, self.rows = names, rows.copy()

    def __getitem__(self, name: str) -> Array:
        if name not in self:
            raise KeyError(name)
        return frozen(self.rows[self.names.index(name), 2:5])

    def __contains__(self, name: object) -> bool:
        return name in self.names and bool(self.rows[self.names.index(name), 1])

    def __iter__(self) -> Iterator[str]:
        return (name for name, row in zip(self.names, self.rows, strict=True) if row[1])

    def __len__(self) -> int:
        return int(np.count_nonzero(self.rows[:, 1]))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self)})"


@renamed_attributes(wanted="references")
class ForceTask(Element, fixed=("contacts",)):
    r"""Contact forces close to their references, which are zero unless they are set.

    .. math::

        f_c = f_c^\star

    One row per component, world axes.  Moments of a surface are weighted as forces on a lever of the mean of its half
    sizes, which keeps the center of pressure near the middle of the surface.  On a compliant contact, whose force is
    not an unknown, the row moves the contact point along the normal such that the force converges to its reference:
    ``a_n = -bandwidth^2 (f*_n - f_n) / stiffness - 2 bandwidth v_n``.

    Use it on the last level to distribute contact forces evenly, or on a higher level to track planned forces.

    Args:
        robot: the robot.
        name: name of the task in the controller.
        contacts: names of the contacts of the task; all if None.
        weight: weight of the rows relative to the other rows of the level [m/s^2 per N]; 1 / mass if None.
        bandwidth: bandwidth of the force on compliant contacts [rad/s].

    Attributes:
        weight: weight of the rows [m/s^2 per N], 1 / mass if None was given; may be set at any time.
        bandwidth: bandwidth of the force on compliant contacts [rad/s]; may be set at any time.
        references: reference forces by contact; may be set at any time, see `reference`.
        block: (2,) weight, bandwidth.
    """

    weight, bandwidth = ScalarParameter(0), ScalarParameter(1, zero=False)

    def __init__(
        self,
        robot: Robot,
        name: str = "forces",
        *,
        contacts: Sequence[str] | None = None,
        weight: float | None = None,
        bandwidth: float = 20.0,
    ) -> None:
        self.robot, self.name = robot, name
        self._contacts = None if contacts is None else check_sequence("contacts", contacts, "names of contacts")
        self._attach(np.zeros(2))
        self.weight = 1.0 / robot.mass if weight is None else weight
        self.bandwidth = bandwidth
        self._references: Mapping[str, Array] | None = NO_REFERENCES  # None: those of `_rows`
        self._known_contacts = self.contacts
        self._row_names: tuple[str, ...] = ()
        self._rows: Array | None = None

    @property
    def contacts(self) -> tuple[str, ...] | None:
        """Names of the contacts of the task, None for all."""
        return self._contacts

    def validate_contacts(self, contacts: Collection[str]) -> None:
        """Checks that the contacts of the task exist.

        Args:
            contacts: names of the contacts of a controller.

        Raises:
            UnknownNameError: the task refers to another contact, or has a reference for one.
        """
        for name in (*(self._contacts or ()), *self.references):
            if name not in contacts:
                raise UnknownNameError(f"contact of {self.name!r}", name, contacts)

    def bind_contacts(self, contacts: Collection[str]) -> None:
        """Accepts only references of these contacts from now on.

        Args:
            contacts: names of the contacts of a controller.
        """
        self.validate_contacts(contacts)
        self._known_contacts = tuple(contacts) if self._contacts is None else self._contacts

    @property
    def references(self) -> Mapping[str, Array]:
        """Reference forces by contact, (3,) or (6,), on the robot, world axes [N, N m]; read-only.

        Assigning a mapping is the same as calling `reference`.
        """
        if self._references is None and self._rows is not None:
            return PointForceReferences(self._row_names, self._rows)
        return self._references or NO_REFERENCES

    @references.setter
    def references(self, value: Mapping[str, ArrayLike] | None) -> None:
        self.reference(value)

    def reference(self, forces: Mapping[str, ArrayLike] | None = None) -> None:
        """Sets all reference forces.

        Args:
            forces: (3,) or (6,) by contact, on the robot, world axes [N, N m]; contacts left out have the reference
                zero.

        Raises:
            UnknownNameError: the task does not include this contact.
            ArgumentError: another shape, or an entry that is not finite.
        """
        references = {}
        if not isinstance(forces, Mapping | None):
            raise ArgumentTypeError(
                f"{self.name}.reference: expected a mapping from contact names to forces, got {type(forces).__name__}"
            )
        for name, value in (forces or {}).items():
            if self._known_contacts is not None and name not in self._known_contacts:
                raise UnknownNameError(f"contact of {self.name!r}", name, self._known_contacts)
            is_float_array = type(value) is np.ndarray and value.dtype is FLOAT  # skips building a name for errors
            force = np.array(value if is_float_array else check_array(f"{self.name}.reference[{name!r}]", value))
            if force.shape not in ((3,), (6,)) or not math.isfinite(np.vdot(force, force)):
                raise ArgumentError(f"{self.name}.reference[{name!r}]: expected 3 or 6 finite numbers, got {value!r}")
            force.flags.writeable = False
            references[name] = force
        self._set(MappingProxyType(references))

    def point_force_rows(self, names: tuple[str, ...]) -> Array | None:
        """Returns the rows from which the controller reads the references; `set_point_forces` does not copy them.

        Args:
            names: names of contacts.

        Returns:
            (contacts, 8) rows as in `set_point_forces`; None if the controller has other contacts, or the task does not
            include all of them.
        """
        return self._rows if self._row_names == names and self._contacts is None else None

    def set_point_forces(self, names: tuple[str, ...], rows: Array) -> None:
        """Sets the reference forces of point contacts without checking their values, for internal use.

        Args:
            names: names of contacts.
            rows: (contacts, 8) for each contact 1, whether it has a reference, and the reference: (3,) on the robot,
                world axes [N], and three zeros.  A contact without a reference has the reference zero.

        Raises:
            UnknownNameError: the task does not include a contact that has a reference.
        """
        if rows is not self._rows:
            own_rows = self.point_force_rows(names)
            if own_rows is None:
                self.reference(PointForceReferences(names, rows))
                return
            own_rows[:] = rows
        if self._references is not None:
            self._references = None

    def clear_references(self) -> None:
        """Sets all reference forces to zero."""
        self._set(NO_REFERENCES)

    def _set(self, references: Mapping[str, Array]) -> None:
        """Sets the references, and writes them to the rows of the controller."""
        self._references = references
        if self._rows is not None:
            self.write_references(self._row_names, self._rows)

    def attach_rows(self, names: tuple[str, ...], rows: Array) -> None:
        """Keeps the rows in which a controller reads the references, so that they are written there once they are set.

        Args:
            names: names of the contacts of the controller.
            rows: (contacts, 8) rows of the task, see `TickInputData.force_references`.
        """
        self.write_references(names, rows)
        self._row_names, self._rows = names, rows

    def write_references(self, names: tuple[str, ...], rows: Array) -> None:
        """Writes the references of all contacts.

        Args:
            names: names of the contacts of a controller.
            rows: (contacts, 8) output, see `TickInputData.force_references`.
        """
        references = self.references
        rows[:] = 0.0
        for name, row in zip(names, rows, strict=True):
            row[0] = self._contacts is None or name in self._contacts
            if name in references:
                row[1] = 1.0
                row[2 : 2 + len(references[name])] = references[name]

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_references": dict(self.references), "_row_names": (), "_rows": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state | {"_references": MappingProxyType(state["_references"])})

    def bind(self, references: ReferenceResolver) -> tuple[int, int]:
        """Returns the number of the task among all force tasks, and 0."""
        return references.add_force_task(self), 0

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Returns a layout of two parameters, and one row per force component."""
        return Layout(0, 2, first=range(counts.force_tasks), equalities=counts.forces)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def row_name(self, contact: str, row: int) -> str:
        """Returns the name of a row for explanations."""
        return f"{contact} force {AXES[row]}" if row < 6 else f"{contact} force"

    def row_unit(self, row: int) -> str:
        """Returns the unit of a row."""
        return "N" if row < 6 else "m/s^2"


@compiled(inline=False)
def write_force_rows(item: Item, t: TickContext) -> None:
    """Writes ``f = f*`` for each contact; on compliant ground ``a_n = -w^2 (f*_n - f_n) / k - 2 w v_n``."""
    weight, bandwidth, contacts, points = item.parameters[0], item.parameters[1], t.contacts, t.points
    for c in range(len(contacts.size)):
        reference = force_reference(t.inputs, item.first, c)
        if points.first_force[c] < 0 or not reference.is_in_task:
            continue
        if contacts.role[c] != ContactRole.COMPLIANT:
            for i in range(contacts.size[c]):
                add_force_equality(
                    t,
                    c,
                    i,
                    reference.force[i],
                    weight if i < 3 else weight / contacts.moment_arm[c],
                    item.element_index,
                    i,
                )
        elif reference.has_reference:
            write_compliant_force_row(item, t, c, bandwidth)


@compiled(inline=False)
def write_compliant_force_row(item: Item, t: TickContext, c: int, bandwidth: float) -> None:
    """Writes the row that moves a compliant contact along its normal until the spring force reaches its reference."""
    chain_table, points, row = t.model.chains[t.contacts.frame[c]], t.points, t.work.vectors[4]
    chain = chain_table[1 : 1 + chain_table[0]]
    reference, force_error, drift, speed = force_reference(t.inputs, item.first, c).force, 0.0, 0.0, 0.0
    row[: len(chain)] = 0.0
    for i in range(3):
        n = t.contacts.normal[c, i]
        force_error += n * (reference[i] - points.target[c, i])
        drift += n * points.drift[c, i]
        for k in range(len(chain)):
            row[k] += n * points.jacobian[c, i, k]
    for k in range(len(chain)):
        speed += row[k] * t.v[chain[k]]
    target = -bandwidth * bandwidth * force_error / t.contacts.stiffness[c] - 2.0 * bandwidth * speed - drift
    add_motion_equality(t, row, chain, target, 1.0, item.element_index, 6)
    tag_equality_contact(t.rows, c)


@compiled()
def clear_force_references(item: Item, inputs: TickInputData, home: Vector) -> None:
    """Sets all reference forces of the task to zero."""
    for c in range(inputs.force_references.shape[1]):
        if force_reference(inputs, item.first, c).is_in_task:
            write_force_reference(inputs, item.first, c, home[:0])


ForceTask.kind = ElementKind(20, write_force_rows, clear_reference=clear_force_references)
