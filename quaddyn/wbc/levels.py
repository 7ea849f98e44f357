"""`Levels`: the elements of a controller by priority, and the position of their parameters in one vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError
from ..robot.coupling import MimicCoupling
from ..robot.loops import LoopCoupling
from ..robot.robot import Robot
from .constraints import Constraint
from .contact_settings import ContactSettings, foot_contact
from .element import Element
from .elements import Elements
from .tasks import FootTask, ForceTask, Task
from .tick import Rows, Tick


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
