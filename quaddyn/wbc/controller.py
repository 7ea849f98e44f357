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

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from eigenpy import is_approx  # Pinocchio's own array layer

from ..contact import Contact
from ..dynamics import Dynamics, State
from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..hierarchy import HierarchySolver
from ..robot.arguments import number, several
from ..robot.robot import Robot
from ..urdf.tree import Array
from .command import Command
from .constraints import Constraint, ContactMotion, FrictionPyramid, NormalForce, TorqueLimits
from .contacts import ContactFrame, ContactSettings, Switch, place
from .dense import DenseTick
from .dense_answer import Answer
from .elimination import Elimination
from .fast import FastTick
from .forces import ForceTask, Snapshot
from .joint_bounds import JointBounds
from .motion import ComTask, FootTask, FrameOrientationTask, PostureTask
from .named import Named
from .problem import Problem
from .scales import scales
from .solving import Memory, Solver
from .task import Task
from .tick import Rows, Tick
from .tick_file import CompiledCommand, DenseCommand, TickRecord, decide, save

Element = Task | ForceTask | Constraint
Levels = Sequence[Element | Sequence[Element]]

#: (q, v, M, h) of a state.
Motion = tuple[Array, Array, Array, Array]

#: A tick by plain matrices: the equations of motion, the levels, columns and shares of contacts, the state, the numbers
#: of the motion tasks.
Plain = tuple[Elimination, Problem, dict[str, slice], dict[str, float], State, Array]


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

    One controller per thread; it keeps time by counting ticks, `dt` each.  A task belongs to one controller.

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
        robot, dt, friction, ramp: as given.
        tasks: every task and constraint by name.
        contacts: `ContactSettings` of every contact by name.
        levels: names by level.
        numbers: every gain and reference of the motion tasks, in the order of `tasks` (`quaddyn.wbc.task.LAYOUT`).

    Raises:
        ArgumentError: a number out of range, or a name twice.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        dt: float = 1e-3,
        friction: float = 0.6,
        tasks: Levels | None = None,
        constraints: Sequence[Element] | None = None,
        contacts: Iterable[Contact] = (),
        ramp: float = 0.05,
        rank_tolerance: float = 1e-9,
        damping: float = 0.0,
        compiled: bool = True,
        fast: bool = True,
    ) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        self.robot, self.dt = robot, number("dt", dt)
        if not 0.0 < self.dt <= 0.1:
            raise ArgumentError(f"dt: expected a period in (0, 0.1] s, got {dt}")
        self.contacts: Mapping[str, ContactSettings] = {}
        self.friction = friction
        self.ramp = number("ramp", ramp)
        if not 0.0 <= self.ramp < np.inf:
            raise ArgumentError(f"ramp: expected a time >= 0 s, got {ramp}")
        if not 0.0 <= rank_tolerance < 1.0:
            raise ArgumentError(f"rank_tolerance: expected a share in [0, 1), got {rank_tolerance}")
        if not 0.0 <= damping < np.inf:
            raise ArgumentError(f"damping: expected a number >= 0, got {damping}")
        self._solver = Solver(rank_tolerance=float(rank_tolerance), damping=float(damping), compiled=bool(compiled))
        self._scales = scales(robot)

        level_0 = default_constraints(robot, self.dt) if constraints is None else list(constraints)
        rest: Levels = default_tasks(robot) if tasks is None else tasks
        elements = [level_0, *(list(level) if isinstance(level, Sequence) else [level] for level in rest)]
        self._elements: tuple[tuple[Element, ...], ...] = tuple(tuple(level) for level in elements)
        by_name: dict[str, Element] = {}
        for element in (e for level in self._elements for e in level):
            if not isinstance(element, Task | ForceTask | Constraint):
                raise ArgumentTypeError(f"tasks: expected tasks and constraints, got {type(element).__name__}")
            if element.name in by_name:
                raise ArgumentError(f"tasks: two of the name {element.name!r}; give one of them another")
            by_name[element.name] = element
        # Any: what a name stands for is the caller's to know, who calls that kind's own `reference`.
        self.tasks: Mapping[str, Any] = Named("task", by_name)
        self.levels = tuple(tuple(e.name for e in level) for level in self._elements)
        self._force_tasks = [t for t in by_name.values() if isinstance(t, ForceTask)]
        self._motions = [t for t in by_name.values() if isinstance(t, Task)]
        # The numbers of all tasks side by side: one array holds every gain and reference of a tick.
        self.numbers = np.zeros(sum(len(task.block) for task in self._motions))
        start = 0
        for task in self._motions:
            task.move(self.numbers[start : start + len(task.block)])
            start += len(task.block)
        self._foot_tasks = {t.frame: t for t in by_name.values() if isinstance(t, FootTask)}
        self._contact_motion = next((c for c in by_name.values() if isinstance(c, ContactMotion)), None)

        known = {
            foot: ContactSettings(robot, Contact.of_foot(robot, foot), friction=self._friction) for foot in robot.feet
        }
        for contact in several("contacts", contacts, "contacts"):
            if not isinstance(contact, Contact):
                raise ArgumentTypeError(f"contacts: expected quaddyn.contact.Contact, got {type(contact).__name__}")
            known[contact.name] = ContactSettings(robot, contact)
        self.contacts = Named("contact", known)
        self._switches = {name: Switch() for name in known}
        self._fast: FastTick | None = None
        self._fast_wanted = bool(compiled and fast) and damping == 0.0
        self._matrices: DenseTick | None = None
        self._start()

    # -- settings --------------------------------------------------------------------------------------------
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
        for element in self.tasks.values():
            if isinstance(element, Task | ForceTask):
                element.forget()
        self._start()

    def _start(self) -> None:
        for switch in self._switches.values():
            switch.set(False)
        self._ticks, self._settled = 0, False
        self._asked: tuple[str, ...] | None = None
        self._tau: Array | None = None
        self._command: Command | None = None
        self._record: TickRecord | Callable[[], TickRecord] | None = None
        self._solver.forget()
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
        if not self._solver.compiled:
            return 0.0
        if not quiet:
            print("quaddyn: compiling the whole-body solver ...", end=" ", file=sys.stderr, flush=True)
        HierarchySolver(1, [(1, 1)]).solve()
        if self._fast_wanted:
            self._make_fast()
        state = Dynamics(self.robot).update(self.robot.q_home, np.zeros(self.robot.nv))
        if self._fast is not None:
            self._fast.solve(state, state.motion(), None)
            self._fast.forget()
        if self._matrices is None:  # where the fast path has no answer, it is asked in the middle of a loop
            self._matrices = self._make_dense()
        self._matrices.rehearse(state)
        took = time.perf_counter() - start
        if not quiet:
            print(f"{took:.1f} s", file=sys.stderr, flush=True)
        return took

    @property
    def shares(self) -> Mapping[str, float]:
        """How much of each contact there is: 0 apart, 1 made."""
        return {name: switch.share for name, switch in self._switches.items()}

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
            ArgumentError: `state` is of another robot or not finite.
            StaleStateError: the Dynamics of `state` was updated again.
        """
        if not isinstance(state, State):
            raise ArgumentTypeError(f"state: expected the State of a Dynamics.update, got {type(state).__name__}")
        if state.robot is not self.robot:
            raise ArgumentError("state: of another robot than the controller's; load once and use that Robot for both")
        motion = state.motion()
        h = motion[3]
        if not is_approx(h, h):  # the cheapest look at a whole array; a NaN in q or v is in h, too
            raise ArgumentError("state: not finite; it was computed unchecked from a q or v with NaN")
        steady = self._settled and contacts == self._asked
        if not steady:
            wanted = self._wanted(contacts)
            self._advance(wanted)
            self._settled = all(switch.share == (name in wanted) for name, switch in self._switches.items())
            self._asked = contacts if isinstance(contacts, tuple) or contacts is None else tuple(wanted)
        if self._fast_wanted:
            self._make_fast()
        answer = None if self._fast is None else self._fast.solve(state, motion, self._tau, self._hold, steady)
        command = self._dense(state) if answer is None else self._compiled(motion, answer)
        self._tau, self._command = command.tau, command
        self._ticks += 1
        return command

    def _dense(self, state: State) -> Command:
        """The tick of any robot and any elements: compiled, or by plain matrices where that has no good answer."""
        if self._solver.compiled:
            if self._matrices is None:
                self._matrices = self._make_dense()
            answer = self._matrices.solve(state, self._tau, self._hold, self._tick)
            if answer is not None:
                return self._decided(state, self._matrices, answer)
        self._hold(state)
        elimination, problem, columns, shares = self._problem(self._tick(state))
        memory = self._solver.memory(problem)
        command = decide(elimination, problem, self._solver, columns)
        self._record = self._recorded(
            command, (elimination, problem, columns, shares, state, self.numbers), self._ticks, memory=memory
        )
        return command

    def _make_fast(self) -> None:
        self._fast_wanted = False
        self._fast = FastTick.of(
            self.robot,
            self._elements,
            self.contacts,
            self._switches,
            scales=self._scales,
            dt=self.dt,
            tolerance=self._solver.rank_tolerance,
            numbers=self.numbers,
        )

    def _make_dense(self) -> DenseTick:
        return DenseTick(
            self.robot,
            self._elements,
            self.contacts,
            self._switches,
            scales=self._scales,
            dt=self.dt,
            tolerance=self._solver.rank_tolerance,
            damping=self._solver.damping,
            numbers=self.numbers,
        )

    def _compiled(self, motion: Motion, answer: Array) -> Command:
        """The tick that the fast path has decided."""
        fast = self._fast
        assert fast is not None
        plain = self._plain(motion, fast.contacts, fast.shares)
        command = CompiledCommand(answer.copy(), self.robot, fast.shares, plain, self._scales.mass, self._solver)
        self._record = partial(self._remade, command, plain, fast.inputs, self._ticks)
        return command

    def _decided(self, state: State, dense: DenseTick, answer: Answer) -> Command:
        """The tick that the compiled dense path has decided."""
        plain = self._plain(state.motion(), dense.contacts, dense.shares, dense.said)
        command = DenseCommand(answer, self.robot, plain, self._scales.mass, self._solver)
        self._record = partial(self._remade, command, plain, dense.inputs, self._ticks)
        return command

    def _plain(
        self,
        motion: Motion,
        settings: Sequence[Any],
        shares: Sequence[tuple[float, float]],
        said: Mapping[str, list[Rows]] = MappingProxyType({}),
    ) -> Callable[[], Plain]:
        """What puts the plain matrices of this tick together, if somebody asks.

        Args:
            motion: of the robot's state.
            settings: per contact (contact, least, largest force), and its height if that counts.
            shares: per contact its share and cap.
            said: rows that elements have given already, by name.
        """
        forces = [task.snapshot for task in self._force_tasks]
        return partial(
            self._again, motion[0], motion[1], self.numbers.copy(), forces, self._tau, settings, shares, said
        )

    def _again(
        self,
        q: Array,
        v: Array,
        numbers: Array,
        forces: Sequence[Snapshot],
        before: Array | None,
        settings: Sequence[Any],
        shares: Sequence[tuple[float, float]],
        said: Mapping[str, list[Rows]],
    ) -> Plain:
        """The plain matrices of a tick that is over, from what it was told."""
        again = Dynamics(self.robot, validate=False).update(q, v)
        frames: list[ContactFrame] = []
        start = 0
        for (contact, minimum, maximum, *height), (share, cap) in zip(settings, shares, strict=True):
            if share > 0.0:
                then = ContactSettings(self.robot, contact)
                then.limit(minimum, maximum)
                then.height = height[0] if height else 0.0
                frames.append(place(again, then, start, share, cap))
                start += then.size
        tick = Tick(again, tuple(frames), self.dt, self._scales, before)
        now, forces_now = self.numbers.copy(), [task.snapshot for task in self._force_tasks]
        self._put(numbers, forces)
        try:
            return *self._problem(tick, said), again, numbers
        finally:
            self._put(now, forces_now)

    def _remade(
        self,
        command: Command,
        plain: Callable[[], Plain],
        inputs: Callable[[State, Array], dict[str, Array]],
        count: int,
    ) -> TickRecord:
        """The record of a compiled tick, to be made before the next one."""
        told = plain()
        *_, again, numbers = told
        return self._recorded(command, told, count, inputs=inputs(again, numbers))

    def _recorded(
        self,
        command: Command,
        told: Plain,
        count: int,
        *,
        memory: Memory | None = None,
        inputs: Mapping[str, Array] | None = None,
    ) -> TickRecord:
        elimination, problem, columns, shares, state, _ = told
        return TickRecord(
            robot=self.robot.name,
            tick=count,
            joints=self.robot.actuated,
            contacts=columns,
            shares=shares,
            q=state.q,
            v=state.v,
            elimination=elimination,
            problem=problem,
            memory=memory,
            solver=self._solver,
            command=command,
            inputs=inputs,
        )

    def _put(self, numbers: Array, forces: Sequence[Snapshot]) -> None:
        """The tasks' numbers as they were at another time."""
        self.numbers[:] = numbers
        for task, snapshot in zip(self._force_tasks, forces, strict=True):
            task.snapshot = snapshot

    def _problem(
        self, tick: Tick, said: Mapping[str, list[Rows]] = MappingProxyType({})
    ) -> tuple[Elimination, Problem, dict[str, slice], dict[str, float]]:
        elimination = Elimination.at(tick)
        problem = Problem.of(elimination, self._rows(tick, said))
        columns = {contact.name: contact.columns for contact in tick.contacts}
        return elimination, problem, columns, {contact.name: contact.share for contact in tick.contacts}

    def _wanted(self, contacts: Iterable[str] | None) -> frozenset[str]:
        names = self.robot.feet if contacts is None else several("contacts", contacts, "names of contacts")
        for name in names:
            if name not in self._switches:
                raise UnknownNameError("contact", name, self._switches)
        if self.robot.root == "fixed" and contacts is None:
            return frozenset()
        return frozenset(names)

    def _advance(self, wanted: frozenset[str]) -> None:
        """Shares of the contacts one tick on; a contact that is fully made takes the foot from its task."""
        if self._ticks == 0 or self.ramp == 0.0:
            for name, switch in self._switches.items():
                made = self._ticks and switch.share < 1.0
                switch.set(name in wanted)
                if made and switch.share:
                    self._taken(name)
            return
        load = self._scales.mass * self._scales.gravity / max(1, len(wanted))
        step = self.dt / self.ramp
        for name, switch in self._switches.items():
            was = switch.share
            force = None if self._command is None else self._command.forces.get(name)
            pressing = 0.0 if force is None else float(force[:3] @ self.contacts[name].normal)
            switch.advance(name in wanted, step, load, pressing)
            if was < 1.0 <= switch.share:
                self._taken(name)

    def _taken(self, name: str) -> None:
        """The contact holds the foot: what its task wanted is over."""
        task = self._foot_tasks.get(self.contacts[name].frame)
        if task is not None and self.contacts[name].held:
            task.forget()

    def _hold(self, state: State) -> None:
        """Tasks that were given nothing hold what they find."""
        made = {self.contacts[n].frame for n, s in self._switches.items() if s.share >= 1.0}
        for task in self._motions:
            if not task.given and task.size and not (isinstance(task, FootTask) and task.frame in made):
                task.capture(state)

    def _tick(self, state: State) -> Tick:
        frames: list[ContactFrame] = []
        start = 0
        for name, settings in self.contacts.items():
            switch = self._switches[name]
            if switch.share > 0.0:
                frames.append(place(state, settings, start, switch.share, switch.cap))
                start += settings.size
        return Tick(state, tuple(frames), self.dt, self._scales, self._tau)

    def _rows(self, tick: Tick, said: Mapping[str, list[Rows]]) -> list[list[tuple[str, Rows]]]:
        levels = [
            [(e.name, rows) for e in level for rows in (said[e.name] if e.name in said else e.rows(tick))]
            for level in self._elements
        ]
        motion = self._contact_motion
        for contact in tick.contacts:
            if motion is None or not contact.held or contact.share >= 1.0:
                continue
            task = self._foot_tasks.get(contact.settings.frame)
            if task is None or contact.size != 3:
                level, progress = _rise(contact.share, len(levels))
                levels[level].append((motion.name, motion.yielding_rows(contact, progress)))
            else:
                level = next(k for k, level in enumerate(self._elements) if task in level)
                levels[level].append((task.name, task.shared_rows(tick, contact, motion.rest(contact))))
        return levels

    # -- records ---------------------------------------------------------------------------------------------
    def save_tick(self, path: str | os.PathLike[str]) -> None:
        """Write the last tick to a file, for `quaddyn.wbc.replay` and ``quaddyn replay FILE``.

        Args:
            path: of the file, such as "tick.npz".

        Raises:
            ArgumentError: there has been no tick yet.
            OSError: the file cannot be written.
        """
        if self._record is None:
            raise ArgumentError("save_tick: there is no tick yet; call compute first")
        save(self._record() if callable(self._record) else self._record, path)


def _rise(share: float, levels: int) -> tuple[int, float]:
    """On which level the rows of a contact are that has `share`, and how far they have grown there, in (0, 1)."""
    below = max(1, levels - 1)
    passed = min(int(share * below), below - 1)
    return levels - 1 - passed, min(max(share * below - passed, 1e-6), 1.0 - 1e-6)
