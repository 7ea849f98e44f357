"""`Element`: common base of tasks and constraints, and the description of each kind for compiled ticks.

A compiled tick goes through a table with one row per element: its level, the code of its kind, where its parameters
begin, its number of rows, and two integers whose meaning depends on the kind.  A kind describes itself in two methods:
`Element.bind` returns the two integers, and `Element.declare_layout` declares how many parameters and rows an element
has and which integers are valid.  Controllers are built with both; saved ticks are validated with the second.
`quaddyn.wbc.element_kind` lists the steps to add a kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple

from ..deprecation import renamed_attributes
from ..robot.robot import Robot
from ..urdf.tree import Array
from .contact_settings import ContactSettings, foot_contact
from .element_kind import CUSTOM, ElementKind
from .parameter_block import ParameterBlock


class RowCounts(NamedTuple):
    """Sizes on which the layout of an element depends."""

    rows: int  # number of rows of a motion task, of capsules of a `CollisionLimits`, or of contacts that hold an object
    nq: int
    nv: int
    nu: int
    frames: int
    contacts: int
    force_tasks: int
    entries: int  # number of entries of `ControllerModel.index`
    forces: int  # number of components of all contact forces
    max_cone_rows: int  # largest number of rows of the friction cones of all contacts


class Layout(NamedTuple):
    """Layout of an element: numbers of parameters, rows and list entries, and valid values of its two integers."""

    rows: int  # number of rows of a motion task, of capsules, or of hands; 0 for all other kinds
    parameter_count: int  # number of parameters that compiled code reads
    first: range | None = None  # valid values of the two integers that `Element.bind` returns; None if not used
    second: range | None = None
    equalities: int = 0  # largest number of equality rows in one tick
    limits: int = 0  # largest number of limit rows in one tick
    joints: int = 0  # joints listed at `first` in `ControllerModel.index`: index in v, index in q, entries of q
    q_entries: int = 0  # indices in q listed there
    hands: int = 0  # contacts listed at `second`, each with whether it moves relative to the held object's frame
    capsules: int = (
        0  # frames listed at `first`, -1 for an obstacle; their pairs listed at `second` behind their number
    )
    com: bool = False  # whether it reads terms of the center of mass
    momentum: bool = False  # whether it reads terms of the momentum

    def describe_invalid_reference(self, first: int, second: int) -> str:
        """Returns "expected ..., got ..." if one of the element's two integers is invalid; "" if both are valid."""
        for given, valid_range in ((first, self.first), (second, self.second)):
            if valid_range is not None and given not in valid_range:
                return f"expected a reference from {valid_range.start} to {valid_range.stop - 1}, got {given}"
        return ""


class ReferenceResolver:
    """Registry that maps the names in elements to the integers that compiled code uses.

    Args:
        robot: the robot.
        contacts: contacts of the controller.

    Attributes:
        robot: as given.
        frames: names of the registered frames, in the order of their indices.
        frame_ids: ids of these frames in the robot's model.
        force_tasks: registered force tasks, in the order of their indices.
        entries: entries of `ControllerModel.index`.
    """

    def __init__(self, robot: Robot, contacts: Sequence[ContactSettings]) -> None:
        self.robot, self._contacts = robot, tuple(contacts)
        self.frames, self.frame_ids = list[str](), list[int]()
        self.force_tasks: list[Element] = []
        self.entries: list[int] = []

    def add_frame(self, name: str) -> int:
        """Registers a frame and returns its index, for `quaddyn.wbc.tick_data.frame_kinematics`."""
        frame = self.robot.frame_id(name)
        if frame not in self.frame_ids:
            self.frame_ids.append(frame)
            self.frames.append(name)
        return self.frame_ids.index(frame)

    def contact_number(self, contact: str) -> int:
        """Returns the index of the contact of this name, -1 if it does not exist."""
        return next((c for c, settings in enumerate(self._contacts) if settings.name == contact), -1)

    def foot_contact_number(self, frame: str) -> int:
        """Returns the index of the contact of a foot, -1 if it has none."""
        return foot_contact(self.robot, frame, self._contacts)

    def add_force_task(self, task: Element) -> int:
        """Registers a force task and returns its index, for `TickInputData.force_references`."""
        self.force_tasks.append(task)
        return len(self.force_tasks) - 1

    def add_index_list(self, entries: Iterable[int]) -> int:
        """Appends integers to `ControllerModel.index` and returns the position of the first one."""
        start = len(self.entries)
        self.entries += [int(entry) for entry in entries]
        return start

    def add_joints(self, velocities: Iterable[int]) -> int:
        """Appends index in v, index in q and entries of q of each joint; returns the position of the first."""
        joint_entries = self.robot.one_dof_joints
        return self.add_index_list(entry for i in velocities for entry in (int(i), *joint_entries[int(i)]))


@renamed_attributes(outside="find_nonviable", forget="clear_references")
class Element(ParameterBlock, fixed=("name", "robot", "labels")):
    """A task or a constraint.

    Attributes:
        name: name of the element in the controller.
        robot: robot to which the element belongs; None if it fits any robot.
        labels: names of the rows of a motion task, of capsules, or of contacts that hold an object.
    """

    name: str
    robot: Robot | None
    labels: tuple[str, ...] = ()

    #: Compiled functions of the kind; CUSTOM for elements whose rows are computed in Python.
    kind: ClassVar[ElementKind] = CUSTOM

    def bind(self, references: ReferenceResolver) -> tuple[int, int]:
        """Returns the element's two integers, `Item.first` and `Item.second` in compiled code; 0 and -1 by default."""
        return 0, -1

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Returns the layout of elements of this kind; by default there are no compiled parameters."""
        return Layout(counts.rows, 0)

    def validate_contacts(self, contacts: Mapping[str, ContactSettings]) -> None:
        """Checks that the element can be used with the contacts of a controller; accepts all by default.

        Args:
            contacts: settings of the contacts by name.

        Raises:
            UnknownNameError: the element refers to a contact that is not among them.
        """

    def bind_contacts(self, contacts: Mapping[str, ContactSettings]) -> None:
        """Validates the contacts of a controller, and refers to them from now on.

        Args:
            contacts: settings of the contacts by name.
        """
        self.validate_contacts(contacts)

    def clear_references(self) -> None:
        """Clears references and other state that persists from tick to tick; does nothing by default."""

    def find_nonviable(self, parameters: Array, q: Array, v: Array) -> tuple[str, ...]:
        """Returns the names of joints or pairs that can no longer be kept within their limits; none by default.

        Args:
            parameters: parameters of the element at the tick; entries behind them belong to other elements.
            q: (nq,) configuration.
            v: (nv,) velocity.
        """
        return ()

    def row_name(self, contact: str, row: int) -> str:
        """Returns the name of a row for explanations; `contact` is the contact of the row, or ""."""
        return self.name

    def row_unit(self, row: int) -> str:
        """Returns the unit of a row."""
        return ""
