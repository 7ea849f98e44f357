"""`Levels`: the elements of a controller in their order of priority, where their numbers lie, and what they say."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType

import numpy as np

from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.robot import Robot
from ..urdf.tree import Array
from .constraints import Constraint, ContactMotion
from .elimination import Elimination
from .forces import ForceTask
from .motion import FootTask
from .named import Named
from .problem import Problem
from .task import Task
from .tick import Rows, Tick

Element = Task | ForceTask | Constraint

#: Equations of motion and levels of a tick; columns and share of each of its contacts by name.
Plain = tuple[Elimination, Problem, dict[str, slice], dict[str, float]]

#: References of all force tasks.
Wishes = tuple[Mapping[str, Array], ...]

NOTHING: Mapping[str, list[Rows]] = MappingProxyType({})


class Levels:
    """Elements by level.

    Args:
        robot: of the controller.
        elements: the levels, constraints first.

    Attributes:
        elements: as given.
        by_name: every element.
        numbers: of all elements: motion tasks in their order, then force tasks and constraints in theirs.
        foot_tasks: by frame.
        contact_motion: the constraint that holds contacts, if there is one.
        lost: names of elements that another controller has taken since.

    Raises:
        ArgumentTypeError: something that is no element.
        ArgumentError: two elements of one name, or one of another robot.
    """

    def __init__(self, robot: Robot, elements: Sequence[Sequence[Element]]) -> None:
        self.elements = tuple(tuple(level) for level in elements)
        by_name: dict[str, Element] = {}
        for element in (e for level in self.elements for e in level):
            if not isinstance(element, Task | ForceTask | Constraint):
                raise ArgumentTypeError(f"tasks: expected tasks and constraints, got {type(element).__name__}")
            if element.name in by_name:
                raise ArgumentError(f"tasks: two of the name {element.name!r}; give one of them another")
            check_robot(element, robot)
            by_name[element.name] = element
        self.by_name: Mapping[str, Element] = Named("task", by_name)
        every = tuple(by_name.values())
        self._motions = [e for e in every if isinstance(e, Task)]
        self._forces = [e for e in every if isinstance(e, ForceTask)]
        self.foot_tasks = {e.frame: e for e in every if isinstance(e, FootTask)}
        self.contact_motion = next((e for e in every if isinstance(e, ContactMotion)), None)
        blocks = [*self._motions, *(e for e in every if not isinstance(e, Task))]
        self.numbers = np.zeros(sum(len(e.block) for e in blocks))
        #: Where the numbers of each element begin, by name.
        self.begin: dict[str, int] = {}
        self.lost: list[str] = []
        start = 0
        for element in blocks:
            self.begin[element.name] = start
            element.move(self.numbers[start : start + len(element.block)], partial(self.lost.append, element.name))
            start += len(element.block)

    def check(self) -> None:
        """That they may be read as they are.

        Raises:
            ArgumentError: an element was taken by another controller, or a number of it is NaN.
        """
        if self.lost:
            raise ArgumentError(f"tasks: {self.lost[0]!r} was given to another controller since; make one for each")
        for name, element in self.by_name.items():
            if np.isnan(element.block).any():
                raise ArgumentError(f"{name}: one of its gains, references or limits is NaN")

    # -- what they want --------------------------------------------------------------------------------------
    def forget(self) -> None:
        """No references."""
        for element in self.by_name.values():
            if isinstance(element, Task | ForceTask):
                element.forget()

    def hold(self, state: State, made: Collection[str]) -> None:
        """Tasks that were given nothing hold what they find, but for feet whose contacts are `made`."""
        for task in self._motions:
            if not task.given and task.size and not (isinstance(task, FootTask) and task.frame in made):
                task.capture(state)

    @property
    def wishes(self) -> Wishes:
        """What force tasks want now; `numbers` has the rest."""
        return tuple([task.told for task in self._forces])

    @contextmanager
    def as_told(self, numbers: Array, wishes: Wishes) -> Iterator[None]:
        """As long as this lasts, every number is what it was at another time."""
        if self.lost:
            self.check()
        now = self.numbers.copy(), self.wishes
        try:
            self._put(numbers, wishes)
            yield
        finally:
            self._put(*now)

    def _put(self, numbers: Array, wishes: Wishes) -> None:
        for task, told in zip(self._forces, wishes, strict=True):
            task.told = told
        self.numbers[:] = numbers

    # -- what they say ---------------------------------------------------------------------------------------
    def problem(self, tick: Tick, said: Mapping[str, list[Rows]] = NOTHING) -> Plain:
        """The tick by plain matrices.

        Args:
            tick: the instant.
            said: rows that elements have given already, by name.
        """
        elimination = Elimination.at(tick)
        problem = Problem.of(elimination, self._rows(tick, said))
        columns = {contact.name: contact.columns for contact in tick.contacts}
        return elimination, problem, columns, {contact.name: contact.share for contact in tick.contacts}

    def ask(self, element: Element, tick: Tick) -> list[Rows]:
        """The rows of one element, checked unless it is one of the package's own kinds."""
        rows = element.rows(tick)
        if not type(element).__module__.startswith(__package__):
            for part in rows:
                part.check(element.name, tick.robot.nv, tick.nf, tick.robot.nu)
        return rows

    def _rows(self, tick: Tick, said: Mapping[str, list[Rows]]) -> list[list[tuple[str, Rows]]]:
        levels = [
            [(e.name, rows) for e in level for rows in (said[e.name] if e.name in said else self.ask(e, tick))]
            for level in self.elements
        ]
        motion = self.contact_motion
        for contact in tick.contacts:
            if motion is None or not contact.held or contact.share >= 1.0:
                continue
            task = self.foot_tasks.get(contact.settings.frame)
            if task is None or contact.size != 3:
                level, progress = _rise(contact.share, len(levels))
                levels[level].append((motion.name, motion.yielding_rows(contact, progress)))
            else:
                level = next(k for k, level in enumerate(self.elements) if task in level)
                levels[level].append((task.name, task.shared_rows(tick, contact, motion.rest(contact))))
        return levels


def check_robot(element: Element, robot: Robot) -> None:
    """Raise unless `element` is of `robot` or of one with the same model.

    Raises:
        ArgumentError: it is of another one.
    """
    other = element.robot
    if not (other is None or other is robot or other.model == robot.model):
        raise ArgumentError(f"tasks: {element.name!r} is of {other.name!r}, not of the controller's {robot.name!r}")


def _rise(share: float, levels: int) -> tuple[int, float]:
    """On which level the rows of a contact are that has `share`, and how far they have grown there, in (0, 1)."""
    below = max(1, levels - 1)
    passed = min(int(share * below), below - 1)
    return levels - 1 - passed, min(max(share * below - passed, 1e-6), 1.0 - 1e-6)
