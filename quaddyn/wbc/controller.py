"""`WholeBodyController`: tasks and constraints in strict priority become torques, with a certificate, tick by tick.

**Contacts come and go continuously.**  A contact that is named for the first time is made over `ramp` seconds, and one
that is no longer named is broken over the same time: the foot should stay on the ground until then.  Meanwhile its
share s runs from 0 to 1 or back.  Its normal force is bounded by a cap that starts or ends at zero
(`quaddyn.wbc.ramps.ContactRamps`), and the rows that hold it still are weighted instead of strict.  If a `FootTask`
guides the same foot, contact and task share three rows: the point they are about, the wanted acceleration and the
weight pass from the task's to the contact's (`quaddyn.wbc.tasks.foot`).  Otherwise the contact's rows start on the last
level and move up: on each level their weight grows from 0 to infinity, and then they begin on the level above
(`quaddyn.wbc.constraints.contact_motion`).  On the first tick contacts are made at once.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import NoReturn

import numpy as np

from ..compiler import silence_messages
from ..contact import Contact
from ..contact.solvers.problem import NOMINAL_FRICTION
from ..deprecation import renamed_attributes, renamed_parameters
from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError
from ..exclusive_call import OneCall
from ..robot.arguments import number
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array
from .assembly import Assembly
from .command import Command, TickCommand
from .contacts import ContactSettings, coefficient
from .data import Memory
from .element import Element
from .elements import Elements
from .tick_core import OVERFLOW
from .tick_file import save


class _Last:
    """What the next tick takes over from the last one; its names are set at every tick, and are not for users.

    Attributes:
        tau: its torques, None before the first.
        command: as given out.
        memory: of the solver.
        ticks: how many there were.
    """

    __slots__ = ("command", "memory", "tau", "ticks")

    def __init__(self) -> None:
        self.tau: Array | None = None
        self.command: TickCommand | None = None
        self.memory: Memory | None = None
        self.ticks = 0


@renamed_attributes(numbers="parameter_vector", shares="contact_activations", ramp="ramp_time")
class WholeBodyController(StrictAttributes):
    """Joint torques by strict priorities over accelerations, contact forces and torques.

    Level 0 holds the constraints; every level is met as well as possible without making any level above worse.  The
    unknowns of a tick are the accelerations of the actuated joints and the contact forces; the equations of motion are
    solved for the other accelerations and the torques (`quaddyn.wbc.reduction`), and hold even if the levels conflict.

    A task without a reference position keeps the position of the first tick, a foot that of the tick in which it is
    lifted; a foot's references last until its contact is made.  Freedom that the tasks leave goes to the smallest joint
    accelerations and forces.  Motors overcome the joints' friction as the robot's record has it (`JointFriction`).

    One controller per thread; it keeps time by counting ticks, `dt` each.  Tasks and constraints belong to one
    controller, the last that they were given to; they, and contacts, can be added and removed between ticks.

    Args:
        robot: any robot.
        dt: control period [s].
        friction: Coulomb's coefficient of the feet; contacts that are given have their own.
        tasks: the levels from 1 on, each one element or several; `default_tasks` by default.
        constraints: level 0; `default_constraints` by default.
        contacts: contacts beside the feet, or in their place by name.
        ramp: time over which contacts are made and broken [s]; 0 for at once.
        rank_tolerance: relative, below which directions count as dependent.
        damping: of the solver, 0 for the exact hierarchy.

    Attributes:
        tasks: every task and constraint by name, those of the default controller as attributes too
            (`quaddyn.wbc.elements.Elements`).
        contacts: `ContactSettings` of every contact by name.
        levels: names by level.
        numbers: every gain, reference and limit: of the motion tasks in the order of `tasks`
            (`quaddyn.wbc.tasks.gains.LAYOUT`), then of the others.

    Raises:
        ArgumentError: a number out of range, a name twice, or an element of another robot.
        UnknownNameError: an element names a contact that does not exist.
    """

    @renamed_parameters(ramp="ramp_time")
    def __init__(
        self,
        robot: Robot,
        *,
        dt: float = 1e-3,
        friction: float = NOMINAL_FRICTION,
        tasks: Sequence[Element | Sequence[Element]] | None = None,
        constraints: Sequence[Element] | None = None,
        contacts: Iterable[Contact] = (),
        ramp_time: float = 0.05,
        rank_tolerance: float = 1e-10,
        damping: float = 0.0,
    ) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        self._robot, self._dt = robot, number("dt", dt)
        if not 0.0 < self._dt <= 0.1:
            raise ArgumentError(f"dt: expected a period in (0, 0.1] s, got {dt}")
        self._friction, self.ramp_time = coefficient(friction), ramp_time
        if not 0.0 <= number("rank_tolerance", rank_tolerance) < 1.0:
            raise ArgumentError(f"rank_tolerance: expected a share in [0, 1), got {rank_tolerance}")
        if not 0.0 <= number("damping", damping) < np.inf:
            raise ArgumentError(f"damping: expected a number >= 0, got {damping}")
        self._assembly = Assembly(
            robot, constraints, tasks, contacts, friction=self._friction, dt=self._dt,
            rank_tolerance=float(rank_tolerance), damping=float(damping),
        )  # fmt: skip
        self._one_call = OneCall("controller")
        self._start()

    # -- elements and contacts that come and go -----------------------------------------------------------------
    def add(self, element: Element, level: int) -> None:
        """Put a task or a constraint on a level, behind those that are there; between ticks.

        Args:
            element: a task or constraint with a name of its own.
            level: 0 to the number of levels; the last one makes a new level.

        Raises:
            ArgumentError: there is no such level, or the name is taken.
        """
        with self._one_call("add"):
            self._assembly.add(element, level)

    def remove(self, name: str) -> None:
        """Take a task or a constraint away; between ticks.

        Raises:
            UnknownNameError: no such element.
        """
        with self._one_call("remove"):
            self._assembly.remove(name)

    def add_contact(self, contact: Contact) -> None:
        """Let the controller know a contact more, or another one in its place by name; between ticks.

        It has the friction of the `Contact`.  One that takes the place of a contact that is made is made at once.

        Raises:
            UnknownNameError: its frame does not exist.
        """
        with self._one_call("add_contact"):
            self._assembly.add_contact(contact)

    def remove_contact(self, name: str) -> None:
        """Forget a contact, at once, whatever it carries: leave it out of `compute` for the time of a ramp first.

        Raises:
            UnknownNameError: no such contact.
            ArgumentError: an element is about it.
        """
        with self._one_call("remove_contact"):
            self._assembly.remove_contact(name)

    # -- settings --------------------------------------------------------------------------------------------
    @property
    def tasks(self) -> Elements:
        """Every task and constraint by name."""
        return self._assembly.levels.by_name

    @property
    def contacts(self) -> Mapping[str, ContactSettings]:
        """Settings of every contact by name."""
        return self._assembly.contacts

    @property
    def levels(self) -> tuple[tuple[str, ...], ...]:
        """Names of tasks and constraints by level."""
        return tuple(tuple(e.name for e in level) for level in self._assembly.levels.elements)

    @property
    def parameter_vector(self) -> Array:
        """Every gain, reference and limit, see the class."""
        return self._assembly.levels.numbers

    @property
    def robot(self) -> Robot:
        """The robot."""
        return self._robot

    @property
    def dt(self) -> float:
        """Control period [s]."""
        return self._dt

    @property
    def ramp_time(self) -> float:
        """Time over which contacts are made and broken [s]; 0 for at once."""
        return self._ramp

    @ramp_time.setter
    def ramp_time(self, value: float) -> None:
        ramp = number("ramp", value)
        if not 0.0 <= ramp < np.inf:
            raise ArgumentError(f"ramp: expected a time >= 0 s, got {value}")
        self._ramp, self._step = ramp, self._dt / ramp if ramp > 0.0 else math.inf

    @property
    def friction(self) -> float:
        """Coulomb's coefficient of the feet, but for those that another was set for; other contacts have their own."""
        return self._friction

    @friction.setter
    def friction(self, value: float) -> None:
        self._friction = coefficient(value)
        for settings in self.contacts.values():
            settings.apply_default_friction(self._friction)

    def reset(self) -> None:
        """Forget contacts, references and the last torque: the next tick is a first one."""
        with self._one_call("reset"):
            self._assembly.levels.clear_references()
            self._start()

    def _start(self) -> None:
        self._assembly.schedule.start()
        self._last = _Last()
        self._assembly.solver.clear_warm_start()

    def warmup(self, *, quiet: bool = False) -> float:
        """Make ready what is compiled at first use, before a loop has to wait for it.

        Machine code is kept in the user's cache folder (``QUADDYN_CACHE``); then this takes a fraction of a second from
        the second process on.

        Args:
            quiet: whether to leave out the lines that say what is being compiled.

        Returns:
            How long it took [s].
        """
        start = time.perf_counter()
        with silence_messages() if quiet else nullcontext():
            self._assembly.solver.ready()
        return time.perf_counter() - start

    @property
    def contact_activations(self) -> Mapping[str, float]:
        """The share of each contact: 0 apart, 1 made, in between on a ramp."""
        schedule = self._assembly.schedule
        return dict(zip(schedule.names, schedule.ramps.activation.tolist(), strict=True))

    # -- one tick --------------------------------------------------------------------------------------------
    def compute(self, state: State, contacts: Iterable[str] | None = None) -> Command:
        """One tick.

        Args:
            state: the robot's state now.
            contacts: names of the contacts that are to be; all feet by default (none under a fixed root).  Contacts
                that appear or vanish from one call to the next are ramped.

        Returns:
            The `Command`: always finite, and in accordance with the equations of motion; its status says whether it is
            the strict optimum.

        Raises:
            UnknownNameError: a contact that the controller does not know.
            ArgumentError: `state` is of another robot or not finite; a number of an element is NaN, as one may have
                written in place; or another controller was given an element since.
            StaleStateError: the Dynamics of `state` was updated again.
            ConcurrencyError: another call is under way, in another thread or in an element of one's own.
        """
        if not isinstance(state, State):
            raise ArgumentTypeError(f"state: expected the State of a Dynamics.update, got {type(state).__name__}")
        if state.robot is not self._robot:
            raise ArgumentError("state: of another robot than the controller's; load once and use that Robot for both")
        with self._one_call("compute"):
            return self._tick(state, contacts)

    def _tick(self, state: State, contacts: Iterable[str] | None) -> Command:
        """One tick of this controller alone."""
        q, v = state.writable_coordinates()
        parts = self._assembly
        if parts.levels.lost:
            parts.levels.check()
        schedule, solver, last = parts.schedule, parts.solver, self._last
        if not (
            schedule.settled
            and (contacts is schedule.asked or (type(contacts) is tuple and contacts == schedule.asked))
        ):
            self._switch(contacts)
        before = last.tau
        outcome, values = solver.solve(state, q, v, before)
        if outcome >= OVERFLOW:
            solver.refuse(outcome)
        command = TickCommand(values, outcome, (q, v, before, solver.standing), solver)
        last.tau, last.command, last.memory = command.tau, command, solver.data.memory
        last.ticks += 1
        return command

    def save_tick(self, path: str | os.PathLike[str]) -> None:
        """Write the last tick to a file, for `quaddyn.wbc.replay` and ``quaddyn replay FILE``.

        Args:
            path: of the file, such as "tick.npz".

        Raises:
            ArgumentError: there has been no tick yet.
            OSError: the file cannot be written.
        """
        last = self._last
        if last.command is None or last.memory is None:
            raise ArgumentError("save_tick: there is no tick yet; call compute first")
        save(last.command, last.memory, last.ticks - 1, path)

    def _switch(self, contacts: Iterable[str] | None) -> None:
        """Advance the ramps of all contacts towards those that were asked for."""
        solver, command = self._assembly.solver, self._last.command
        values = None
        if command is not None and self._step != math.inf:
            # Contacts that came or went since have no place in the answer of before: by name then.
            ours = command.solver is solver or command.solver.names == solver.names
            values = command.values if ours else solver.values_of(command.forces)
        self._assembly.schedule.ask(contacts, solver.switch, self._step, values)

    def __str__(self) -> str:
        levels = (f"level {k}: {', '.join(names)}" for k, names in enumerate(self.levels))
        return "\n".join([repr(self), *levels, f"contacts: {', '.join(self.contacts)}"])

    def __reduce__(self) -> NoReturn:
        raise ArgumentTypeError(
            "a WholeBodyController cannot be copied or pickled; make another, with copies of its tasks"
        )
