"""`Elements`: the tasks and constraints of a controller by name; names of default elements have typed attributes.

`NamedItems` is a read-only mapping of names, whose error for an unknown name lists near matches.  `Levels` has the
elements of a controller by priority, and the position of their parameters in one vector.  The module also makes the
default constraints and tasks of a `WholeBodyController`, and lists all kinds of elements: those whose classes
`quaddyn.wbc.tasks` and `quaddyn.wbc.constraints` export.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, overload

import numpy as np

from ..deprecation import renamed_attributes
from ..errors import ArgumentError, ArgumentTypeError, UnknownAttributeError, UnknownNameError
from ..robot.arguments import check_sequence
from ..robot.coupling import MimicCoupling
from ..robot.loops import LoopCoupling
from ..robot.robot import Robot
from ..urdf.tree import Array
from . import constraints, tasks
from .constraints import (
    Constraint,
    ContactMotion,
    FrictionPyramid,
    JointBounds,
    JointFriction,
    NormalForce,
    TorqueLimits,
)
from .contact_settings import ContactSettings, foot_contact
from .element import CUSTOM, Element
from .tasks import ComTask, FootTask, ForceTask, FrameOrientationTask, PostureTask, Task
from .tick import Rows, Tick

#: Relative growth of an error per tick beyond which gains are reported as unstable.
MAX_ERROR_GROWTH = 0.05

Item = TypeVar("Item")


class NamedItems(dict[str, Item]):
    """Read-only mapping of names to items; an unknown name raises an error with near matches."""

    __slots__ = ("_kind",)

    def __init__(self, kind: str, items: Mapping[str, Item]) -> None:
        super().__init__(items)
        self._kind = kind

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._kind, dict(self))

    def __missing__(self, name: str) -> Item:
        raise UnknownNameError(self._kind, name, self)

    def _raise_read_only(self, *_args: object, **_named: object) -> NoReturn:
        """Raises the error of an attempt to change the mapping."""
        raise TypeError(f"{self._kind}s are read-only; use the controller's methods to add and remove them")

    __setitem__ = __delitem__ = __ior__ = _raise_read_only
    clear = pop = popitem = setdefault = update = _raise_read_only


def check_contact_names(contacts: Iterable[str], known: Collection[str]) -> tuple[str, ...]:
    """Returns names of contacts after checking that they exist.

    Raises:
        ArgumentTypeError: a single string, or an object that is not iterable.
        UnknownNameError: a contact that does not exist.
    """
    names = check_sequence("contacts", contacts, "names of contacts")
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise UnknownNameError("contact", name, known)
    return names


Kind = TypeVar("Kind", bound=Element)


@renamed_attributes(of="get_typed")
class Elements(NamedItems[Any]):
    """Mapping of names to tasks and constraints.

    Args:
        kind: name of the kind of items, for errors, such as "task".
        items: elements by name.

    ``tasks["com"]`` and ``tasks.com`` are the same object.  The attributes exist for the elements that a controller has
    by default; type checkers and editors know their classes.  For other elements use ``tasks["wrist"]``, or
    ``tasks.get_typed("wrist", FrameTask)`` for a checked type.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, name: Literal["com"]) -> ComTask: ...
        @overload
        def __getitem__(self, name: Literal["base"]) -> FrameOrientationTask: ...
        @overload
        def __getitem__(self, name: Literal["posture"]) -> PostureTask: ...
        @overload
        def __getitem__(self, name: Literal["forces"]) -> ForceTask: ...
        @overload
        def __getitem__(self, name: Literal["contact"]) -> ContactMotion: ...
        @overload
        def __getitem__(self, name: Literal["friction"]) -> FrictionPyramid: ...
        @overload
        def __getitem__(self, name: Literal["normal force"]) -> NormalForce: ...
        @overload
        def __getitem__(self, name: Literal["torque"]) -> TorqueLimits: ...
        @overload
        def __getitem__(self, name: Literal["joint bounds"]) -> JointBounds: ...
        @overload
        def __getitem__(self, name: Literal["joint friction"]) -> JointFriction: ...
        @overload
        def __getitem__(self, name: Literal["FL", "FR", "RL", "RR", "L", "R"]) -> FootTask: ...
        @overload
        def __getitem__(self, name: str) -> Any: ...
        def __getitem__(self, name: str) -> Any: ...

    else:

        def __getattr__(self, name):
            if name in self:  # exists, but is not one of the default elements, which have attributes
                raise AttributeError(f"{name!r} is not an attribute of {type(self).__name__}; use tasks[{name!r}]")
            raise UnknownAttributeError(type(self).__name__, name, [n for n in dir(type(self)) if n[0] != "_"])

    def get_typed(self, name: str, kind: type[Kind]) -> Kind:
        """Returns an element and checks its class.

        Args:
            name: name of the element.
            kind: expected class, or a base class of it.

        Raises:
            UnknownNameError: no element has this name.
            ArgumentTypeError: the element is of another class.
        """
        element = self[name]
        if not isinstance(element, kind):
            raise ArgumentTypeError(f"kind: {name!r} is of class {type(element).__name__}, not {kind.__name__}")
        return element

    @property
    def com(self) -> ComTask:
        """Task of the center of mass."""
        return self.get_typed("com", ComTask)

    @property
    def base(self) -> FrameOrientationTask:
        """Task of the orientation of the base."""
        return self.get_typed("base", FrameOrientationTask)

    @property
    def feet(self) -> Mapping[str, FootTask]:
        """Tasks of the swing feet by name of the foot."""
        feet = {name: task for name, task in self.items() if isinstance(task, FootTask)}
        return MappingProxyType(NamedItems("foot", feet))

    @property
    def posture(self) -> PostureTask:
        """Task of the joint positions."""
        return self.get_typed("posture", PostureTask)

    @property
    def forces(self) -> ForceTask:
        """Task of the contact forces."""
        return self.get_typed("forces", ForceTask)

    @property
    def contact(self) -> ContactMotion:
        """Constraint that keeps closed contacts at rest."""
        return self.get_typed("contact", ContactMotion)

    @property
    def friction(self) -> FrictionPyramid:
        """Friction pyramids of the contacts."""
        return self.get_typed("friction", FrictionPyramid)

    @property
    def normal_force(self) -> NormalForce:
        """Bounds of the normal forces."""
        return self.get_typed("normal force", NormalForce)

    @property
    def torque(self) -> TorqueLimits:
        """Limits of the joint torques."""
        return self.get_typed("torque", TorqueLimits)

    @property
    def joint_bounds(self) -> JointBounds:
        """Limits of joint positions, velocities and accelerations."""
        return self.get_typed("joint bounds", JointBounds)

    @property
    def joint_friction(self) -> JointFriction:
        """Compensation of joint friction."""
        return self.get_typed("joint friction", JointFriction)


class Levels:
    """Elements of a controller by level.

    Args:
        robot: robot of the controller.
        elements: the levels, constraints first.

    Attributes:
        elements: elements by level.
        by_name: every element by name.
        parameters: parameters of all elements: motion tasks in their order, then force tasks and constraints in theirs.
        first_parameter: index of the first parameter by name of the element.
        reassigned_elements: names of elements that have since been given to another controller.

    Raises:
        ArgumentTypeError: an object that is not an element.
        ArgumentError: a name that is used twice, or an element of another robot.
    """

    def __init__(self, robot: Robot, elements: Sequence[Sequence[Element]]) -> None:
        self.elements = tuple(tuple(level) for level in elements)
        self._robot = robot
        by_name = check_elements(robot, elements)
        self.by_name = Elements("task", by_name)
        all_elements = tuple(by_name.values())
        self._motions = [e for e in all_elements if isinstance(e, Task)]
        self._feet = [e for e in all_elements if isinstance(e, FootTask)]
        blocks = [*self._motions, *(e for e in all_elements if not isinstance(e, Task))]
        self.parameters = np.zeros(sum(len(e.block) for e in blocks))
        #: Index of the first parameter of each element, by name.
        self.first_parameter: dict[str, int] = {}
        self.reassigned_elements: list[str] = []
        start = 0
        for element in blocks:
            self.first_parameter[element.name] = start
            element.move(
                self.parameters[start : start + len(element.block)],
                partial(self.reassigned_elements.append, element.name),
            )
            start += len(element.block)
        positions = [self.first_parameter[task.name] + task.gain_positions for task in self._motions]
        self._gain_positions = np.concatenate([np.zeros((3, 0), dtype=np.intp), *positions], axis=1)

    def with_elements(self, elements: Sequence[Sequence[Element]]) -> Levels:
        """Returns levels with other elements; those that remain keep their parameters.

        Raises:
            ArgumentTypeError, ArgumentError: as for the class; then nothing is changed.
        """
        check_elements(self._robot, elements)
        for element in self.by_name.values():
            element.release()
        return Levels(self._robot, elements)

    def validate_parameters(self) -> None:
        """Validates that all elements belong to this controller and have valid parameters.

        Raises:
            ArgumentError: an element belongs to another controller now, or has a parameter that is NaN.
        """
        if self.reassigned_elements:
            raise ArgumentError(
                f"tasks: element {self.reassigned_elements[0]!r} was passed to another controller afterwards; create "
                "a separate element for each controller"
            )
        for name, element in self.by_name.items():
            if np.isnan(element.block).any():
                raise ArgumentError(f"{name}: a gain, reference or limit is NaN; set it to a number")

    def describe_unstable_gains(self, dt: float, parameters: Array | None = None) -> str:
        """Returns which motion task is unstable if its acceleration is constant over periods dt [s]; "" if none is.

        With K = stiffness dt^2 and D = damping dt, the error and its rate decay from tick to tick if D < 2 and K < 2 D.
        Task rows that grow by less than `MAX_ERROR_GROWTH` per tick, as undamped ones do, are accepted.

        Args:
            dt: control period [s].
            parameters: parameters of all elements; None for those of the levels.
        """
        stiffness, damping, is_used = (self.parameters if parameters is None else parameters)[self._gain_positions]
        K, D = dt * dt * stiffness, dt * damping
        is_unstable = (is_used != 0.0) & ((D > 2.0 + MAX_ERROR_GROWTH) | (0.5 * K - D > MAX_ERROR_GROWTH))
        if not is_unstable.any():
            return ""
        i = int(np.argmax(is_unstable))
        task, label = [(task, label) for task in self._motions for label in task.labels][i]
        return (
            f"{task.name}: the stiffness {stiffness[i]:.4g} 1/s^2 and damping {damping[i]:.4g} 1/s of row {label} are "
            f"unstable at a control period of {dt:g} s; with critical damping the stiffness must be below "
            f"{1.0 / dt**2:.4g} 1/s^2"
        )

    # -- references ------------------------------------------------------------------------------------------
    def clear_references(self) -> None:
        """Clears the references of all elements."""
        for element in self.by_name.values():
            element.clear_references()

    def foot_tasks(self, contacts: Mapping[str, ContactSettings]) -> Mapping[str, FootTask]:
        """Returns the foot task of each contact that has one, by name of the contact."""
        names, settings = tuple(contacts), tuple(contacts.values())
        contact_indices = [(foot_contact(self._robot, task.frame, settings), task) for task in self._feet]
        return {names[c]: task for c, task in contact_indices if c >= 0}

    # -- rows in Python --------------------------------------------------------------------------------------
    def update_custom_rows(self, element: Element, tick: Tick) -> list[Rows]:
        """Returns the rows of a custom element; a task without a reference first takes the current position as one."""
        if isinstance(element, Task) and not element.has_reference and element.size:
            contact = tick.foot(element.frame) if isinstance(element, FootTask) else None
            if contact is None or contact.activation < 1.0:
                element.set_reference_from_state(tick.state)
        rows: list[Rows] = element.rows(tick)  # type: ignore[attr-defined]  # kinds without are compiled
        return rows


def check_elements(robot: Robot, elements: Sequence[Sequence[Element]]) -> dict[str, Element]:
    """Returns the elements by name.

    Raises:
        ArgumentTypeError: an object that is not an element.
        ArgumentError: a name that is used twice, or an element of another robot.
    """
    by_name: dict[str, Element] = {}
    for element in (e for level in elements for e in level):
        if not isinstance(element, Task | ForceTask | Constraint):
            got = (
                f"the class {element.__name__}; create an object of it"
                if isinstance(element, type)
                else type(element).__name__
            )
            raise ArgumentTypeError(f"tasks: expected tasks and constraints, got {got}")
        if element.name in by_name:
            raise ArgumentError(f"tasks: the name {element.name!r} is used twice; rename one of the elements")
        check_robot(element, robot)
        by_name[element.name] = element
    return by_name


def _have_same_coupling(one: Robot, other: Robot) -> bool:
    """Returns whether the joints of two robots are coupled in the same way."""
    a, b = one.coupling, other.coupling
    if a is None or b is None:
        return a is b
    if isinstance(a, MimicCoupling) and isinstance(b, MimicCoupling):
        return np.array_equal(a.G, b.G) and np.array_equal(a.q_offset, b.q_offset)
    return isinstance(a, LoopCoupling) and isinstance(b, LoopCoupling) and a.alike(b)


def check_robot(element: Element, robot: Robot) -> None:
    """Validates that `element` belongs to `robot` or to a robot with the same model.

    Raises:
        ArgumentError: the element belongs to another robot.
    """
    other = element.robot
    if not (other is None or other is robot or (other.model == robot.model and _have_same_coupling(other, robot))):
        raise ArgumentError(
            f"tasks: element {element.name!r} was made for robot {other.name!r}, but the controller is for robot "
            f"{robot.name!r}"
        )


def default_constraints(robot: Robot, dt: float) -> list[Element]:
    """Returns level 0: contact motion, friction pyramids, normal forces, torque limits, joint bounds, joint friction.

    Args:
        robot: the robot.
        dt: control period [s].
    """
    return [
        ContactMotion(robot), FrictionPyramid(), NormalForce(), TorqueLimits(robot), JointBounds(robot, dt),
        JointFriction(robot),
    ]  # fmt: skip


def default_tasks(robot: Robot) -> list[list[Element]]:
    """Returns level 1 ("com", "base" orientation, swing feet by their names) and level 2 ("posture" and "forces").

    With a fixed root there is only a posture task, since contact forces move neither the center of mass nor the base.

    Args:
        robot: the robot.
    """
    if robot.root == "fixed":
        return [[PostureTask(robot)]]
    first: list[Element] = [ComTask(robot), FrameOrientationTask(robot, robot.bodies[0].name, "base")]
    first += [FootTask(robot, foot) for foot in robot.feet]
    return [first, [PostureTask(robot), ForceTask(robot)]]


_KIND_CLASSES: list[type[Element]] = [
    cls
    for cls in (getattr(module, name) for module in (tasks, constraints) for name in module.__all__)
    if "kind" in vars(cls)
]
#: Classes by the code of their kind.
ELEMENT_CLASSES: dict[int, type[Element]] = {cls.kind.code: cls for cls in _KIND_CLASSES} | {CUSTOM.code: Element}

for _cls in _KIND_CLASSES:
    if ELEMENT_CLASSES[_cls.kind.code] is not _cls:
        _other = ELEMENT_CLASSES[_cls.kind.code].__name__
        raise ImportError(f"{_cls.__name__} and {_other} have the same code of their kind, {_cls.kind.code}")

#: All kinds, in the order in which compiled code compares their codes.
ELEMENT_KINDS = tuple(cls.kind for cls in ELEMENT_CLASSES.values())
