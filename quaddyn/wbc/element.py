"""`Element`: common base of tasks and constraints, and the description of each kind for compiled ticks.

A compiled tick goes through a table with one row per element: its level, the code of its kind, where its parameters
begin, its number of rows, and two integers whose meaning depends on the kind.  A kind describes itself in two methods:
`Element.bind` returns the two integers, and `Element.declare_layout` declares how many parameters and rows an element
has and which integers are valid.  Controllers are built with both; saved ticks are validated with the second.

An `ElementKind` has the compiled functions of a kind of task or constraint.  To add a kind with compiled rows: write
its file in `quaddyn.wbc.tasks` or `quaddyn.wbc.constraints`, with the class, its equation, its compiled functions and,
last, its `ElementKind` with an unused code (those in use: ``sorted(quaddyn.wbc.elements.ELEMENT_CLASSES)``), and export
the class from both packages, that one and `quaddyn.wbc`.  `tasks/frame_axis.py` and, with two frames,
`tasks/relative_frame.py` are examples.  Long row functions that few controllers need have the decorator
``@compiled(separate=title)``, and are compiled only for these controllers.  A motion task needs `capture_reference` and
`clear_reference`, and `reference_divisor` if it rejects some finite reference.

For the documentation and the tests: add its picture to `docs/_ext/element_pictures.py`, a row to `docs/tasks.md`, one
such element to `tests/wbc_elements.py`, under the words of its name, and to the controllers of
`tests/test_walker_export.py` and `tests/tick_mutants.py`.

A `ParameterBlock` has the parameters of an element in one flat array, which a controller moves into one vector.
Compiled code reads every gain, reference and limit of a tick as one array, and a changed parameter needs no copy.

Default gains are derived from the natural units of a robot (length, mass, gravity).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, overload

import numpy as np
import pinocchio as pin

from ..compiler import Vector, compiled
from ..deprecation import renamed_attributes
from ..errors import ArgumentError
from ..robot.arguments import check_array, check_number
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array
from .contact_settings import ContactSettings, foot_contact
from .row_writing import Item, write_custom_element_rows
from .tick_data import TickContext, TickInputData


@compiled()
def keep_reference(item: Item, t: TickContext) -> None:
    """Does nothing: the default of `ElementKind.capture_reference`, for elements without a position."""


@compiled()
def keep_references(item: Item, inputs: TickInputData, home: Vector) -> None:
    """Does nothing: the default of `ElementKind.clear_reference`, for elements without references."""


@compiled()
def accept_position(position: Vector) -> float:
    """Returns the divisor 1: every finite reference position is valid and used as given; see `ElementKind`."""
    return 1.0


@compiled()
def write_no_rows(item: Item, t: TickContext) -> None:
    """Does nothing: `ElementKind.write_rows` of elements that only add bias forces."""


@compiled()
def add_no_forces(item: Item, t: TickContext, bias: Vector) -> None:
    """Does nothing: the default of `ElementKind.add_bias_forces`."""


@compiled()
def store_nothing(item: Item, t: TickContext, acceleration: Vector) -> None:
    """Does nothing: the default of `ElementKind.finish_tick`."""


class ElementKind(NamedTuple):
    """Compiled functions of a kind of element; a class has it as the attribute `kind`.

    Attributes:
        code: number of the kind; saved ticks contain it, so it never changes.
        write_rows: writes the rows of an element at a tick: ``(item, t)``.
        capture_reference: sets the current position as the reference of a motion task without one: ``(item, t)``.
        clear_reference: sets the reference of a controller that is reset: ``(item, inputs, home)``, with the home
            configuration (nq,).
        reference_divisor: returns the number by which a reference position is divided, 0 for an invalid position:
            ``(position)``.
        add_bias_forces: adds forces that the motors compensate to the bias forces (nv,): ``(item, t, bias)``.
        finish_tick: stores what the next tick reads, from the accelerations (nv,): ``(item, t, acceleration)``.
        position_note: sentence about the form of a reference position in C; "" if it is a plain vector.
    """

    code: int
    write_rows: Callable[[Item, TickContext], None]
    capture_reference: Callable[[Item, TickContext], None] = keep_reference
    clear_reference: Callable[[Item, TickInputData, Vector], None] = keep_references
    reference_divisor: Callable[[Vector], float] = accept_position
    add_bias_forces: Callable[[Item, TickContext, Vector], None] = add_no_forces
    finish_tick: Callable[[Item, TickContext, Vector], None] = store_nothing
    position_note: str = ""


#: Elements whose rows are computed in Python, at every tick, by their method `rows`.
CUSTOM = ElementKind(200, write_custom_element_rows)


class ParameterBlock(StrictAttributes, fixed=("block",)):
    """Base class of objects whose parameters are in one array.

    Attributes:
        block: flat float64 array of the parameters.
    """

    block: Array

    #: Function that is called when the block is moved to another controller.
    _on_moved: Callable[[], None] | None = None

    def move(self, block: Array, on_moved: Callable[[], None] | None = None) -> None:
        """Moves the parameters to another array.

        Args:
            block: array of the same size.
            on_moved: function to call when the parameters are moved again; None for none.
        """
        if self._on_moved is not None:
            self._on_moved()
        self._on_moved = on_moved
        block[:] = self.block
        self._attach(block)

    def release(self) -> None:
        """Moves the parameters to a new array, which belongs to no controller."""
        self._on_moved = None
        self._attach(np.array(self.block))

    def _attach(self, block: Array) -> None:
        """Sets the array of the parameters."""
        object.__setattr__(self, "block", block)  # read-only for users

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state of a copy, which belongs to no controller."""
        return self.__dict__ | {"_on_moved": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._attach(np.array(self.block))


class ScalarParameter:
    """Descriptor of one nonnegative number of a `ParameterBlock`.

    Args:
        at: index in the block.
        zero: whether it may be zero.
    """

    def __init__(self, at: int, *, zero: bool = True) -> None:
        self.at, self.zero = at, zero

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, owner: None, kind: type) -> ScalarParameter: ...
    @overload
    def __get__(self, owner: ParameterBlock, kind: type) -> float: ...
    def __get__(self, owner: ParameterBlock | None, kind: type) -> ScalarParameter | float:
        return self if owner is None else float(owner.block[self.at])

    def __set__(self, owner: ParameterBlock, value: float) -> None:
        given = check_number(self.name, value)
        if not (0.0 <= given < np.inf and (self.zero or given > 0.0)):
            raise ArgumentError(f"{self.name}: expected a finite number {'>=' if self.zero else '>'} 0, got {value}")
        owner.block[self.at] = given


class VectorParameter:
    """Descriptor of one of several vectors of equal length in a `ParameterBlock`: reads as a view, is set by value.

    Args:
        start: index of the first of the vectors.
        count: number of vectors, up to the end of the block.
        row: index of this vector.
        minimum: smallest value of an entry.
        finite: whether entries must be finite.
    """

    def __init__(
        self, start: int = 0, count: int = 1, row: int = 0, *, minimum: float = -np.inf, finite: bool = False
    ) -> None:
        self.start, self.count, self.row, self.minimum, self.finite = start, count, row, minimum, finite

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, owner: None, kind: type) -> VectorParameter: ...
    @overload
    def __get__(self, owner: ParameterBlock, kind: type) -> Array: ...
    def __get__(self, owner: ParameterBlock | None, kind: type) -> VectorParameter | Array:
        if owner is None:
            return self
        size = (len(owner.block) - self.start) // self.count
        return owner.block[self.start + self.row * size : self.start + (self.row + 1) * size]

    def __set__(self, owner: ParameterBlock, value: Any) -> None:
        vector, given = self.__get__(owner, type(owner)), check_array(self.name, value)
        is_valid = (given >= self.minimum) & (np.isfinite(given) | (not self.finite))
        if given.shape not in ((), vector.shape) or not is_valid.all():
            minimum = "" if self.minimum == -np.inf else f", none below {self.minimum:g}"
            condition = "finite" if self.finite else "no NaN"
            raise ArgumentError(
                f"{self.name}: expected a number or {len(vector)} numbers, {condition}{minimum}, got {value}"
            )
        vector[:] = given


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


#: Gravity that is used if the model has none [m/s^2].
STANDARD_GRAVITY = 9.80665


@dataclass(frozen=True, slots=True)
class Scales:
    """Natural units of a robot.

    Attributes:
        length: leg length [m]: from the joint that bends the leg to the center of the foot, along the links, of the
            longest leg; for a robot without legs, the reach of its longest limb.
        mass: total mass [kg].
        gravity: magnitude of gravity [m/s^2].
    """

    length: float
    mass: float
    gravity: float

    @property
    def frequency(self) -> float:
        """``sqrt(g / l)`` [rad/s], the natural frequency of a pendulum as long as the leg."""
        return float(np.sqrt(self.gravity / self.length))

    @property
    def torque(self) -> float:
        """``m g l / 4`` [N m], the torque of a quarter of the weight on a lever of one leg length."""
        return 0.25 * self.mass * self.gravity * self.length


def scales(robot: Robot) -> Scales:
    """Computes the natural units of `robot`."""
    gravity = float(np.linalg.norm(robot.model.gravity.linear))
    length = max((_leg_length(robot, name) for name in robot.legs), default=0.0)
    if not length > 0.0:
        length = _limb_length(robot)
    return Scales(length if length > 0.0 else 1.0, robot.mass, gravity if gravity > 0.0 else STANDARD_GRAVITY)


def _leg_length(robot: Robot, name: str) -> float:
    """Returns the length of a leg [m]."""
    data = robot.model.createData()
    robot.algorithms.forwardKinematics(robot.model, data, robot.neutral)
    leg = robot.legs[name]
    joints = leg.joints[1:] if leg.n >= 3 else leg.joints
    points = [data.oMi[robot.model.getJointId(joint)].translation.copy() for joint in joints]
    points.append(pin.updateFramePlacement(robot.model, data, robot.frame_id(name)).translation.copy())
    return float(np.linalg.norm(np.diff(points, axis=0), axis=1).sum())


def _limb_length(robot: Robot) -> float:
    """Returns the longest sum of distances between joints from the base outward [m]."""
    model = robot.model
    reach = np.zeros(model.njoints)
    first = 1 if robot.root == "fixed" else 2
    for i in range(first, model.njoints):
        step = float(np.linalg.norm(model.jointPlacements[i].translation))
        reach[i] = reach[model.parents[i]] + step
    return float(reach.max())
