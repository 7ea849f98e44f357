"""`WholeBodyController`: tasks and constraints in strict priority become torques, with a certificate, tick by tick.

**Contacts come and go continuously.**  A contact that is named for the first time is made over `ramp` seconds, one that
is no longer named is broken over as many: the foot should stay on the ground until then.  Meanwhile its share s runs
from 0 to 1 or back, its normal force is bounded by a cap that starts or ends at zero (`Switch`), and its rows "does not
move" are not strict but weighted.  If a `FootTask` guides the same foot, contact and task share the foot's three rows:
guided point, wanted acceleration and weight pass from the one to the other (`FootTask.shared_rows`).  Otherwise the
rows rise from the last level to the first: on each their weight grows from 0 to infinity, where the next one starts.
On the first tick contacts are made at once.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ..contact import Contact
from ..dynamics import Dynamics, State
from ..errors import ArgumentError, ArgumentTypeError
from ..hierarchy import HierarchySolver
from ..robot.arguments import number, several
from ..robot.robot import Robot
from ..urdf.tree import Array
from .command import Command
from .commands import CompiledCommand, DenseCommand, decide
from .constraints import ContactMotion, FrictionPyramid, LinearConstraint, NormalForce, TorqueLimits
from .contacts import Changes, ContactSettings
from .dense import DenseTick
from .fast import TAU, FastTick
from .forces import ForceTask
from .joint_bounds import JointBounds
from .levels import Element, Levels
from .motion import ComTask, FootTask, FrameOrientationTask, PostureTask
from .named import Named
from .parts import Parts, Told
from .scales import scales
from .solving import Solver
from .switching import Switchboard
from .tick import Tick
from .tick_file import TickRecord, recorded, save


def default_constraints(robot: Robot, dt: float) -> list[Element]:
    """Level 0: contacts hold, friction pyramids, normal forces, torque limits, joint bounds."""
    return [ContactMotion(robot), FrictionPyramid(), NormalForce(), TorqueLimits(robot), JointBounds(robot, dt)]


def default_tasks(robot: Robot) -> list[list[Element]]:
    """Level 1: "com", "base" (orientation) and each foot in the air by its name; level 2: "posture" and "forces".

    A robot bolted to the world has neither centre of mass nor base to guide, and its feet are its posture's.
    """
    if robot.root == "fixed":
        return [[PostureTask(robot)]]
    first: list[Element] = [ComTask(robot), FrameOrientationTask(robot, robot.bodies[0].name, "base")]
    first += [FootTask(robot, foot) for foot in robot.feet]
    return [first, [PostureTask(robot), ForceTask(robot)]]


class WholeBodyController:
    """Joint torques by strict priorities over accelerations, contact forces and torques.

    Level 0 holds the constraints; each following level gets what all above leave it.  A tick decides the accelerations
    of the actuated joints and the contact forces; the equations of motion are solved for the rest (`Elimination`) and
    hold on every tick, whatever becomes of the levels.

    A task without a reference holds what it finds at the first tick, a foot what it finds when it is lifted; a foot's
    references last until its contact is made.  What no task decides is as small as possible.  Joint friction is not
    compensated: add `quaddyn.control.friction_compensation`.

    One controller per thread; it keeps time by counting ticks, `dt` each.  Tasks and constraints belong to one
    controller, the last that they were given to; none can be added later.

    Args:
        robot: any robot.
        dt: control period [s].
        friction: Coulomb's coefficient of contacts that have none of their own.
        tasks: the levels from 1 on, each one element or several; `default_tasks` by default.
        constraints: level 0; `default_constraints` by default.
        contacts: contacts beside the feet, or in their place by name.
        ramp: time over which contacts are made and broken [s]; 0 for at once.
        rank_tolerance: relative, below which directions count as dependent.
        damping: of the solver, 0 for the exact hierarchy.
        compiled: False for the plain solver: slower, and nothing to wait for at its first use.
        fast: False for the dense path even where the compiled tick (`quaddyn.wbc.fast`) would do.

    Attributes:
        tasks: every task and constraint by name.
        contacts: `ContactSettings` of every contact by name.
        levels: names by level.
        numbers: every gain, reference and limit: of the motion tasks in the order of `tasks`
            (`quaddyn.wbc.task.LAYOUT`), then of the others.

    Raises:
        ArgumentError: a number out of range, a name twice, or an element of another robot.
        UnknownNameError: an element is about a contact that is none.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        dt: float = 1e-3,
        friction: float = 0.6,
        tasks: Sequence[Element | Sequence[Element]] | None = None,
        constraints: Sequence[Element] | None = None,
        contacts: Iterable[Contact] = (),
        ramp: float = 0.05,
        rank_tolerance: float = 1e-10,
        damping: float = 0.0,
        compiled: bool = True,
        fast: bool = True,
    ) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        self._robot, self._dt = robot, number("dt", dt)
        if not 0.0 < self._dt <= 0.1:
            raise ArgumentError(f"dt: expected a period in (0, 0.1] s, got {dt}")
        self.contacts: Mapping[str, ContactSettings] = {}
        self.friction, self.ramp = friction, ramp
        if not 0.0 <= number("rank_tolerance", rank_tolerance) < 1.0:
            raise ArgumentError(f"rank_tolerance: expected a share in [0, 1), got {rank_tolerance}")
        if not 0.0 <= number("damping", damping) < np.inf:
            raise ArgumentError(f"damping: expected a number >= 0, got {damping}")
        solver = Solver(rank_tolerance=float(rank_tolerance), damping=float(damping), compiled=bool(compiled))

        level_0: Sequence[Element] = default_constraints(robot, self._dt)
        if constraints is not None:
            level_0 = several("constraints", constraints, "constraints")
        rest = default_tasks(robot) if tasks is None else several("tasks", tasks, "levels")
        below = [list(level) if isinstance(level, Sequence) else [level] for level in rest]
        self._levels = Levels(robot, [level_0, *below])
        # Any: what a name stands for is the caller's to know, who calls that kind's own `reference`.
        self.tasks: Mapping[str, Any] = self._levels.by_name
        self.levels = tuple(tuple(e.name for e in level) for level in self._levels.elements)
        self.numbers = self._levels.numbers

        self._changes = Changes()
        known = {
            foot: ContactSettings(robot, Contact.of_foot(robot, foot), friction=self._friction, changes=self._changes)
            for foot in robot.feet
        }
        for contact in several("contacts", contacts, "contacts"):
            if not isinstance(contact, Contact):
                raise ArgumentTypeError(f"contacts: expected quaddyn.contact.Contact, got {type(contact).__name__}")
            known[contact.name] = ContactSettings(robot, contact, changes=self._changes)
        self.contacts = Named("contact", known)
        for element in self._levels.by_name.values():
            if isinstance(element, ForceTask | LinearConstraint):
                element.meet(known)
        default = () if robot.root == "fixed" else robot.feet
        self._board = Switchboard(known, self._levels.foot_tasks, default, self._changes)
        self._parts = Parts(robot, self._levels, self.contacts, self._board.switches, scales(robot), self.dt, solver)
        self._fast: FastTick | None = None
        self._fast_wanted = bool(compiled and fast) and damping == 0.0
        self._matrices: DenseTick | None = None
        self._start()

    # -- settings --------------------------------------------------------------------------------------------
    @property
    def robot(self) -> Robot:
        """The robot."""
        return self._robot

    @property
    def dt(self) -> float:
        """Control period [s]."""
        return self._dt

    @property
    def ramp(self) -> float:
        """Time over which contacts are made and broken [s]; 0 for at once."""
        return self._ramp

    @ramp.setter
    def ramp(self, value: float) -> None:
        ramp = number("ramp", value)
        if not 0.0 <= ramp < np.inf:
            raise ArgumentError(f"ramp: expected a time >= 0 s, got {value}")
        self._ramp = ramp

    @property
    def friction(self) -> float:
        """Coulomb's coefficient of contacts that have none of their own."""
        return self._friction

    @friction.setter
    def friction(self, value: float) -> None:
        mu = number("friction", value)
        if not 0.0 <= mu <= 10.0:
            raise ArgumentError(f"friction: expected a coefficient in [0, 10], got {value}")
        self._friction = mu
        for settings in self.contacts.values():
            settings.follow(mu)

    def reset(self) -> None:
        """Forget contacts, references and the last torque: the next tick is a first one."""
        self._levels.forget()
        self._start()

    def _start(self) -> None:
        self._board.start()
        self._ticks = 0
        self._tau: Array | None = None
        self._command: Command | None = None
        self._record: TickRecord | None = None
        self._parts.solver.forget()
        if self._fast is not None:
            self._fast.forget()
        if self._matrices is not None:
            self._matrices.forget()

    def warmup(self, *, quiet: bool = False) -> float:
        """Compile what is compiled at first use, before a loop has to wait for it.

        Compiled code is cached on disk where numba can write (``NUMBA_CACHE_DIR``, or beside the package); then this
        takes a fraction of a second from the second process on.  Where nothing can be written every process compiles
        anew.

        Args:
            quiet: whether to leave out the line that says what is being waited for.

        Returns:
            How long it took [s].
        """
        start = time.perf_counter()
        if not self._parts.solver.compiled:
            return 0.0
        if not quiet:
            print("quaddyn: compiling the whole-body solver ...", end=" ", file=sys.stderr, flush=True)
        HierarchySolver(1, [(1, 1)]).solve()
        if self._fast_wanted:
            self._make_fast()
        state = Dynamics(self.robot).update(self.robot.q_home, np.zeros(self.robot.nv))
        rehearsed = FastTick.of(self._parts, self._changes) if self._fast is not None else None
        if rehearsed is not None:  # one of its own: the controller's stays as it is
            rehearsed.rehearse(state)
        if self._matrices is None:  # where the fast path has no answer, it is asked in the middle of a loop
            self._matrices = DenseTick(self._parts, self._changes)
        DenseTick(self._parts, self._changes).rehearse(state)
        took = time.perf_counter() - start
        if not quiet:
            print(f"{took:.1f} s", file=sys.stderr, flush=True)
        return took

    @property
    def shares(self) -> Mapping[str, float]:
        """How much of each contact there is: 0 apart, 1 made."""
        return {name: switch.share for name, switch in self._board.switches.items()}

    # -- one tick --------------------------------------------------------------------------------------------
    def compute(self, state: State, contacts: Iterable[str] | None = None) -> Command:
        """One tick.

        Args:
            state: the robot's state now.
            contacts: names of the contacts that are to be; all feet by default (none under a fixed root).  Contacts
                that appear or vanish from one call to the next are ramped.

        Returns:
            The `Command`; whatever the limits, it is finite, obeys the equations of motion and says in its status
            whether it is what was asked.

        Raises:
            UnknownNameError: a contact that the controller does not know.
            ArgumentError: `state` is of another robot or not finite; a number of an element is NaN, as one may have
                written in place; or another controller was given an element since.
            StaleStateError: the Dynamics of `state` was updated again.
        """
        if not isinstance(state, State):
            raise ArgumentTypeError(f"state: expected the State of a Dynamics.update, got {type(state).__name__}")
        if state.robot is not self._robot:
            raise ArgumentError("state: of another robot than the controller's; load once and use that Robot for both")
        q, v = state.coordinates()
        if self._levels.lost:
            self._levels.check()
        board = self._board
        if not (board.settled and (contacts is board.asked or (type(contacts) is tuple and contacts == board.asked))):
            self._switch(contacts)
        if self._fast_wanted:
            self._make_fast()
        fast = self._fast
        command: Command | None = None
        if fast is not None:
            answer = fast.solve(q, v, self._tau)
            if answer is not None:
                numbers, wishes = answer[self._told :], self._levels.wishes
                told = Told(q, v, numbers, wishes, self._tau, fast.contacts, fast.shares)
                command = CompiledCommand(answer[TAU], answer, told, self._parts)
        if command is None:
            command = self._dense(state, q, v)
        self._tau, self._command = command.tau, command
        self._ticks += 1
        return command

    def _dense(self, state: State, q: Array, v: Array) -> Command:
        """The tick of any robot and any elements: compiled, or by plain matrices where that has no good answer."""
        parts = self._parts
        if parts.solver.compiled:
            if self._matrices is None:
                self._matrices = DenseTick(self._parts, self._changes)
            dense = self._matrices
            answer = dense.solve(state, q, v, self._tau, self._hold, self._tick)
            if answer is not None:
                seen = dense.numbers
                told = Told(q, v, answer.told, self._levels.wishes, self._tau, seen.contacts, seen.shares, dense.said)
                return DenseCommand(answer.tau, answer, told, parts)
        if math.isnan(np.vdot(self.numbers, self.numbers)):
            self._levels.check()
        self._hold(state)
        plain = self._levels.problem(self._tick(state))
        elimination, problem, columns, _ = plain
        memory = parts.solver.memory(problem)
        command = decide(elimination, problem, parts.solver, columns)
        self._record = recorded(parts, command, self._ticks, plain, state, memory=memory)
        return command

    def _make_fast(self) -> None:
        self._fast_wanted = False
        self._fast = FastTick.of(self._parts, self._changes)
        if self._fast is not None:
            self._told = self._fast.size - len(self.numbers)

    def _switch(self, contacts: Iterable[str] | None) -> None:
        """Contacts on their way to those that are to be."""
        step = self._dt / self._ramp if self._ramp > 0.0 else np.inf
        forces = None if step == np.inf or self._command is None else self._command.forces
        scale = self._parts.scales
        self._board.ask(contacts, step=step, weight=scale.mass * scale.gravity, forces=forces)

    def _hold(self, state: State) -> None:
        """Tasks that were given nothing hold what they find."""
        self._levels.hold(state, self._board.made)

    def _tick(self, state: State) -> Tick:
        return self._parts.tick(state, self._tau)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a WholeBodyController cannot be copied or pickled; make another, with tasks of its own")

    # -- records ---------------------------------------------------------------------------------------------
    def save_tick(self, path: str | os.PathLike[str]) -> None:
        """Write the last tick to a file, for `quaddyn.wbc.replay` and ``quaddyn replay FILE``.

        Args:
            path: of the file, such as "tick.npz".

        Raises:
            ArgumentError: there has been no tick yet.
            OSError: the file cannot be written.
        """
        command, parts, count = self._command, self._parts, self._ticks - 1
        if command is None:
            raise ArgumentError("save_tick: there is no tick yet; call compute first")
        if isinstance(command, CompiledCommand | DenseCommand):
            told = command.told
            plain, state = parts.again(told)
            if isinstance(command, DenseCommand):
                assert self._matrices is not None
                inputs = self._matrices.inputs(state, told.numbers)
            else:
                assert self._fast is not None
                inputs = self._fast.inputs() | {"numbers": told.numbers}
            self._record = recorded(parts, command, count, plain, state, inputs=inputs)
        assert self._record is not None
        save(self._record, path)
