"""`ForceTask`: wanted contact forces, on any level; with no reference, the regularization of forces."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...compiler import compiled
from ...deprecation import renamed_attributes
from ...errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ...robot.arguments import FLOAT, floats, several
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..block import Scalar
from ..codes import FORCE_TASK
from ..data import COMPLIANT, Instant
from ..element import Element, Layout, ReferenceResolver, RowCounts
from ..rows import Item, name_equality, want_force, want_motion

AXES = ("x", "y", "z", "rx", "ry", "rz")
NO_REFERENCES: Mapping[str, Array] = MappingProxyType({})


@renamed_attributes(wanted="references")
class ForceTask(Element, fixed=("contacts",)):
    r"""Contact forces near their references: zero where none is set, which makes them small.

    .. math::

        f_c = f_c^\star

    Rows are ``f = f*`` per component, world axes; moments of a surface count over the mean of its half sizes, as forces
    at its edge, so that small ones keep the pressure in its middle.  On a compliant contact, whose force is not chosen,
    the rows make the contact point move along the normal such that the force comes to its reference:
    ``a_n = -bandwidth^2 (f*_n - f_n) / stiffness - 2 bandwidth v_n``.

    Args:
        robot: the robot.
        name: by which the controller knows the task.
        contacts: names of the contacts it is about; all by default.
        weight: against the other rows of its level [m/s^2 per N]; 1 / mass by default.
        bandwidth: of the force on compliant contacts [rad/s].

    Attributes:
        weight, bandwidth: as given; may be set at any time.
        references: wanted forces by contact; may be set at any time, see `reference`.
        block: (2,) weight, bandwidth.
    """

    code = FORCE_TASK
    weight, bandwidth = Scalar(0), Scalar(1, zero=False)

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
        self._contacts = None if contacts is None else several("contacts", contacts, "names of contacts")
        self._attach(np.zeros(2))
        self.weight = 1.0 / robot.mass if weight is None else weight
        self.bandwidth = bandwidth
        self._wanted: Mapping[str, Array] = NO_REFERENCES
        self._known = self.contacts

    @property
    def contacts(self) -> tuple[str, ...] | None:
        """Names of the contacts that it is about, None for all."""
        return self._contacts

    def validate_contacts(self, contacts: Collection[str]) -> None:
        """That it may `meet` contacts of these names.

        Raises:
            UnknownNameError: the task is about others, or wants forces of others.
        """
        for name in (*(self._contacts or ()), *self._wanted):
            if name not in contacts:
                raise UnknownNameError(f"contact of {self.name!r}", name, contacts)

    def bind_contacts(self, contacts: Collection[str]) -> None:
        """Take only names of these contacts from now on; raises as `check`."""
        self.validate_contacts(contacts)
        self._known = tuple(contacts) if self._contacts is None else self._contacts

    @property
    def references(self) -> Mapping[str, Array]:
        """The references: (3,) or (6,) by contact, on the robot, world axes [N, N m]; read-only.

        Assigning a mapping is the same as calling `reference`.
        """
        return self._wanted

    @references.setter
    def references(self, value: Mapping[str, ArrayLike] | None) -> None:
        self.reference(value)

    def reference(self, forces: Mapping[str, ArrayLike] | None = None) -> None:
        """Set all references; contacts left out want zero.

        Args:
            forces: (3,) or (6,) by contact, on the robot, world axes [N, N m].

        Raises:
            UnknownNameError: a contact that the task is not about.
            ArgumentError: a shape that is neither, or an entry that is not finite.
        """
        wanted = {}
        if not isinstance(forces, Mapping | None):
            raise ArgumentTypeError(f"{self.name}.reference: expected forces by contact, got {type(forces).__name__}")
        for name, value in (forces or {}).items():
            if self._known is not None and name not in self._known:
                raise UnknownNameError(f"contact of {self.name!r}", name, self._known)
            fits = type(value) is np.ndarray and value.dtype is FLOAT  # then nobody needs a name for an error
            force = np.array(value if fits else floats(f"{self.name}.reference[{name!r}]", value))
            if force.shape not in ((3,), (6,)) or not math.isfinite(np.vdot(force, force)):
                raise ArgumentError(f"{self.name}.reference[{name!r}]: expected (3,) or (6,) finite, got {value!r}")
            force.flags.writeable = False
            wanted[name] = force
        self._wanted = MappingProxyType(wanted)  # replaced as a whole: who reads it tells by identity that it changed

    def clear_references(self) -> None:
        """Back to zero references."""
        self._wanted = NO_REFERENCES

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_wanted": dict(self._wanted)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state | {"_wanted": MappingProxyType(state["_wanted"])})

    def bind(self, references: ReferenceResolver) -> tuple[int, int]:
        """Its references among those of all force tasks."""
        return references.add_force_task(self), 0

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Weight and bandwidth; rows for every force."""
        return Layout(0, 2, first=range(counts.force_tasks), equalities=counts.forces)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def row_name(self, contact: str, row: int) -> str:
        """Name of a row, for explanations."""
        return f"{contact} force {AXES[row]}" if row < 6 else f"{contact} force"

    def row_unit(self, row: int) -> str:
        """Its unit."""
        return "N" if row < 6 else "m/s^2"


@compiled(inline=False)
def force_rows(item: Item, t: Instant) -> None:
    """``f = f*`` of each contact it is about; on compliant ground ``a_n = -w^2 (f*_n - f_n) / k - 2 w v_n``."""
    weight, bandwidth, contacts, points = item.numbers[0], item.numbers[1], t.contacts, t.points
    for c in range(len(contacts.size)):
        about = t.inputs.force_references[item.first, c]
        if points.column[c] < 0 or about[0] == 0.0:
            continue
        reference = about[2:]
        if contacts.role[c] != COMPLIANT:
            for i in range(contacts.size[c]):
                want_force(t, c, i, reference[i], weight if i < 3 else weight / contacts.arm[c], item.number, i)
        elif about[1] != 0.0:
            compliant_force_row(item, t, c, bandwidth)


@compiled(inline=False)
def compliant_force_row(item: Item, t: Instant, c: int, bandwidth: float) -> None:
    """The contact point moves along the normal such that the spring's force comes to its reference."""
    chain_table, points, row = t.model.chains[t.contacts.frame[c]], t.points, t.work.vectors[4]
    chain = chain_table[1 : 1 + chain_table[0]]
    lacking, drift, speed = 0.0, 0.0, 0.0
    for k in range(len(chain)):
        row[k] = 0.0
    for i in range(3):
        n = t.contacts.normal[c, i]
        lacking += n * (t.inputs.force_references[item.first, c, 2 + i] - points.wanted[c, i])
        drift += n * points.drift[c, i]
        for k in range(len(chain)):
            row[k] += n * points.jacobian[c, i, k]
    for k in range(len(chain)):
        speed += row[k] * t.v[chain[k]]
    wanted = -bandwidth * bandwidth * lacking / t.contacts.stiffness[c] - 2.0 * bandwidth * speed - drift
    want_motion(t, row, chain, wanted, 1.0, item.number, 6)
    name_equality(t.rows, c)
