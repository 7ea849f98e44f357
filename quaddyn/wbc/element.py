"""`Element`: what tasks and constraints have in common, and what a compiled tick has to know about each kind.

A compiled tick goes through a table with one row per element: its level, the code of its kind, where its parameters
begin, how many rows it has, and two numbers that only its kind understands.  A kind describes itself in two methods:
`Element.refer` gives the two numbers, `Element.layout` says how much an element of this kind takes and which numbers
are valid.  Controllers are built with both; saved ticks are checked with the second.  How to add a kind is written in
`quaddyn.wbc.codes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple

from ..deprecation import renamed_attributes
from ..robot.robot import Robot
from ..urdf.tree import Array
from .block import Block
from .codes import CUSTOM
from .contacts import ContactSettings, foot_contact


class RowCounts(NamedTuple):
    """Sizes that the layout of an element depends on."""

    rows: int  # of this element, if it is a motion task; capsules that it keeps apart, contacts that hold something
    nq: int
    nv: int
    nu: int
    frames: int
    contacts: int
    force_tasks: int
    entries: int  # of `Model.index`
    forces: int  # force components of all contacts
    cone_rows: int  # most rows of all contacts' friction cones


class Layout(NamedTuple):
    """What one element takes, and what its row in the table of elements may say."""

    rows: int  # of a motion task, or capsules, or hands; 0 for all others
    numbers: int  # parameters that compiled code reads
    first: range | None = None  # valid values of what `Element.refer` returns; None if it is not used
    second: range | None = None
    equalities: int = 0  # most rows that it writes in one tick
    limits: int = 0
    joints: int = 0  # joints listed at `first` in `Model.index`: place in v, place in q, entries of q
    places: int = 0  # places in q listed there
    hands: int = 0  # contacts listed at `second`, each with whether it moves by itself
    capsules: int = 0  # frames listed there, -1 for none; pairs of them listed at `second`, behind their number
    com: bool = False  # whether it reads terms of the centre of mass
    momentum: bool = False  # whether it reads terms of the momentum

    def misplaced(self, first: int, second: int) -> str:
        """What is wrong with an element's own two numbers, as "expected ..., got ..."; "" if nothing is."""
        for found, valid in ((first, self.first), (second, self.second)):
            if valid is not None and found not in valid:
                return f"expected a reference from {valid.start} to {valid.stop - 1}, got {found}"
        return ""


class ReferenceResolver:
    """Numbers for what elements refer to by name.

    Args:
        robot: the robot.
        contacts: of the controller.

    Attributes:
        robot: as given.
        frames: names of the frames that were asked for, in the order of their numbers.
        frame_ids: their ids in the robot's model.
        force_tasks: in the order of their numbers.
        entries: of `Model.index`.
    """

    def __init__(self, robot: Robot, contacts: Sequence[ContactSettings]) -> None:
        self.robot, self._contacts = robot, tuple(contacts)
        self.frames, self.frame_ids = list[str](), list[int]()
        self.force_tasks: list[Element] = []
        self.entries: list[int] = []

    def add_frame(self, name: str) -> int:
        """For `quaddyn.wbc.data.frame_of`."""
        frame = self.robot.frame_id(name)
        if frame not in self.frame_ids:
            self.frame_ids.append(frame)
            self.frames.append(name)
        return self.frame_ids.index(frame)

    def contact_number(self, contact: str) -> int:
        """The contact of this name, -1 without one."""
        return next((c for c, settings in enumerate(self._contacts) if settings.name == contact), -1)

    def foot_contact_number(self, frame: str) -> int:
        """The contact of a foot, -1 without one."""
        return foot_contact(self.robot, frame, self._contacts)

    def add_force_task(self, task: Element) -> int:
        """For `Inputs.force_references`."""
        self.force_tasks.append(task)
        return len(self.force_tasks) - 1

    def add_index_list(self, entries: Iterable[int]) -> int:
        """Where a list of integers begins in `Model.index`."""
        start = len(self.entries)
        self.entries += [int(each) for each in entries]
        return start

    def add_joints(self, velocities: Iterable[int]) -> int:
        """Like `index`, three entries per joint: its place in v, its place in q, and how many entries of q it has."""
        single = self.robot.one_dof_joints
        return self.add_index_list(each for i in velocities for each in (int(i), *single[int(i)]))


@renamed_attributes(outside="find_nonviable", forget="clear_references")
class Element(Block, fixed=("name", "robot", "labels")):
    """A task or a constraint.

    Attributes:
        name: by which the controller knows it.
        robot: the one that it is of, None where it could be any.
        labels: names of the rows of a motion task, of capsules, or of contacts that hold something.
    """

    name: str
    robot: Robot | None
    labels: tuple[str, ...] = ()

    #: The kind, for compiled code; CUSTOM for elements whose rows are computed in Python.
    code: ClassVar[int] = CUSTOM

    def bind(self, references: ReferenceResolver) -> tuple[int, int]:
        """The element's own two numbers, `Item.first` and `Item.second` in compiled code; by default 0 and -1."""
        return 0, -1

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """What an element of this kind takes; of kinds with rows in Python, nothing that compiled code reads."""
        return Layout(counts.rows, 0)

    def validate_contacts(self, contacts: Mapping[str, ContactSettings]) -> None:
        """That it may `meet` the contacts of a controller, by name; nothing by default.

        Raises:
            UnknownNameError: it is about one that is not among them.
        """

    def bind_contacts(self, contacts: Mapping[str, ContactSettings]) -> None:
        """Refer to the contacts of a controller from now on; raises as `check`."""
        self.validate_contacts(contacts)

    def clear_references(self) -> None:
        """References that were given or found; nothing by default."""

    def find_nonviable(self, numbers: Array, q: Array, v: Array) -> tuple[str, ...]:
        """What is outside of the states from which its limits can be kept, by name; nothing by default.

        Args:
            numbers: the element's parameters and what follows them, as they were at the tick.
            q: (nq,) configuration.
            v: (nv,) velocity.
        """
        return ()

    def row_name(self, contact: str, row: int) -> str:
        """Name of a row, for explanations; `contact` is the one that the row is about, or ""."""
        return self.name

    def row_unit(self, row: int) -> str:
        """Unit of a row."""
        return ""
