"""`WholeBodyController`: a strict hierarchy of tasks and constraints, solved at every tick for joint torques.

**Contacts are made and broken continuously.**  A contact that is named for the first time is made over `ramp_time`
seconds.  A contact that is no longer named is broken over the same time; the foot should stay on the ground until then.
Meanwhile the activation s of the contact runs from 0 to 1 or back.  The normal force is bounded by a cap that starts or
ends at zero (`quaddyn.wbc.contact_ramps.ContactRamps`), and the rows that keep the contact point at rest are weighted
instead of strict.  If a `FootTask` guides the same foot, contact and task share three rows, in which the guided point,
the desired acceleration and the weight are blended from the task's to the contact's (`quaddyn.wbc.FootTask`).
Otherwise the rows of the contact start on the last level and move up: on each level their weight grows from 0 to
infinity, and then they start on the level above (`quaddyn.wbc.ContactMotion`).  Contacts of the first tick are
made at once.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Literal, NoReturn, overload

import numpy as np

from ..compiler import silence_messages
from ..contact import Contact
from ..contact.solvers.problem import NOMINAL_FRICTION
from ..cuda.driver import parse_device
from ..deprecation import renamed_attributes, renamed_parameters
from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..exclusive_call import ExclusiveCall
from ..lane_blocks import max_threads
from ..robot.arguments import check_integer, check_number
from ..robot.robot import Robot, make_foot_name_error
from ..robot.units import warn_of_time
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array
from .command import TickCommand
from .contact_settings import ContactSettings, check_friction
from .controller_batch import ControllerBatch
from .controller_structure import ControllerStructure
from .element import Element
from .elements import Elements
from .tick_data import TickOutcome, WorkingSetMemory
from .tick_file import save
from .tick_period import (
    describe_inconsistent_motion,
    has_inconsistent_motion,
    make_tick_displacements,
    reset_tick_period,
)
from .tick_solver import TickSolver

if TYPE_CHECKING:
    from .controller_cuda import CudaControllerBatch

#: The first outcome that is an error, as a plain number: Python 3.11 needs 0.3 us to look up a member of a class.
OVERFLOW = int(TickOutcome.OVERFLOW)

#: Number of ticks between checks of the gains.
GAIN_CHECK_INTERVAL = 128
#: Maximum plausible ramp time of contacts [s]; steps of legged robots are shorter, and larger values seem to be in
#: milliseconds.
MAX_PLAUSIBLE_RAMP = 10.0


class _LastTick:
    """State that one tick passes to the next, for internal use.

    Attributes:
        tau: (nu,) torques of the last tick [N m], None before the first.
        command: command of the last tick, None before the first.
        memory: working sets of the solver after the last tick.
        ticks: number of ticks so far.
    """

    __slots__ = ("command", "memory", "tau", "ticks")

    def __init__(self) -> None:
        self.tau: Array | None = None
        self.command: TickCommand | None = None
        self.memory: WorkingSetMemory | None = None
        self.ticks = 0


@renamed_attributes(numbers="parameter_vector", shares="contact_activations", ramp="ramp_time")
class WholeBodyController(StrictAttributes):
    """Controller that computes joint torques by strict priorities over accelerations, contact forces and torques.

    Level 0 holds the constraints.  Every level is satisfied as well as possible without making any level above it worse
    (hierarchical least squares with inequalities).  The unknowns of a tick are the accelerations of the actuated joints
    and the contact forces; the equations of motion are solved for the other accelerations and for the torques
    (`quaddyn.wbc.reduction`), so they hold even if the levels conflict.

    A task without a reference position keeps the position of the first tick; a `FootTask` keeps that of the tick in
    which its foot is lifted, and its references last until the contact is made.  Freedom that the tasks leave goes to
    the smallest joint accelerations and forces.  The torques compensate the joint friction that the robot model
    specifies (`JointFriction`).

    Use one controller per thread.  The controller measures time in ticks of `dt` each.  A task or constraint belongs to
    one controller: the last one to which it was given.  Tasks, constraints and contacts can be added and removed
    between ticks.

    Args:
        robot: the robot, legged or not.
        dt: control period [s], in (0, 0.1].
        friction: Coulomb friction coefficient of the feet, dimensionless; contacts in `contacts` have their own.
        tasks: the levels from 1 on, each one element or a sequence of elements; `default_tasks` if None.
        constraints: the elements of level 0; `default_constraints` if None.
        contacts: contacts in addition to the feet; one with the name of a foot replaces that foot's contact.
        ramp_time: time over which contacts are made and broken [s]; 0 to switch them at once.
        rank_tolerance: relative tolerance, in [0, 1), below which directions are treated as linearly dependent.
        damping: damping of the solver, dimensionless; 0 for the exact hierarchy.

    Attributes:
        checks_motion: whether the motion of the robot from tick to tick is compared with its velocity and `dt`, see
            `compute`; True by default.  Set it to False to compute ticks at unrelated states.
        tasks: every task and constraint by name; the default ones are also attributes
            (`quaddyn.wbc.elements.Elements`).
        contacts: `ContactSettings` of every contact by name.
        levels: names of tasks and constraints by level.
        parameter_vector: every gain, reference and limit in one vector: first of the motion tasks in the order of
            `tasks` (`quaddyn.wbc.tasks.task.LAYOUT`), then of the other elements.

    Raises:
        ArgumentError: a number is out of range, a name is used twice, or an element belongs to another robot.
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
        self._robot, self._dt = robot, check_number("dt", dt)
        if not 0.0 < self._dt <= 0.1:
            raise ArgumentError(f"dt: expected a period in (0, 0.1] s, got {dt}")
        self._friction, self.ramp_time = check_friction(friction), ramp_time
        if not 0.0 <= check_number("rank_tolerance", rank_tolerance) < 1.0:
            raise ArgumentError(f"rank_tolerance: expected a number in [0, 1), got {rank_tolerance}")
        if not 0.0 <= check_number("damping", damping) < np.inf:
            raise ArgumentError(f"damping: expected a number >= 0, got {damping}")
        self._structure = ControllerStructure(
            robot, constraints, tasks, contacts, friction=self._friction, dt=self._dt,
            rank_tolerance=float(rank_tolerance), damping=float(damping),
        )  # fmt: skip
        self._exclusive_call = ExclusiveCall("controller")
        self.checks_motion, self._has_warned_of_gains = True, False
        self._has_inconsistent_motion: Callable[..., bool] | None = None
        self._displacements = make_tick_displacements(robot, self._dt)
        self._start()

    # -- adding and removing elements and contacts -----------------------------------------------------------------
    def add(self, element: Element, level: int) -> None:
        """Adds a task or a constraint to a level, behind the elements that are already there.  Call it between ticks.

        Args:
            element: task or constraint whose name is not in use.
            level: index of the level, from 0 to the number of levels; the number of levels appends a new level.

        Raises:
            ArgumentError: the level does not exist, or the name is in use.
        """
        with self._exclusive_call.acquire("add"):
            self._structure.add(element, level)

    def remove(self, name: str) -> None:
        """Removes a task or a constraint.  Call it between ticks.

        Args:
            name: name of the element.

        Raises:
            UnknownNameError: no element has this name.
        """
        with self._exclusive_call.acquire("remove"):
            self._structure.remove(name)

    def add_contact(self, contact: Contact) -> None:
        """Adds a contact, or replaces the contact of the same name.  Call it between ticks.

        The contact keeps the friction coefficient of the `Contact`.  If it replaces a contact that is made, it is made
        at once.

        Args:
            contact: the contact.

        Raises:
            UnknownNameError: the frame of the contact does not exist.
        """
        with self._exclusive_call.acquire("add_contact"):
            self._structure.add_contact(contact)

    def remove_contact(self, name: str) -> None:
        """Removes a contact at once, whatever force it carries.

        To avoid a torque jump, leave the contact out of `compute` for one `ramp_time` first.

        Args:
            name: name of the contact.

        Raises:
            UnknownNameError: no contact has this name.
            ArgumentError: an element refers to the contact.
        """
        with self._exclusive_call.acquire("remove_contact"):
            self._structure.remove_contact(name)

    # -- settings --------------------------------------------------------------------------------------------
    @property
    def tasks(self) -> Elements:
        """Every task and constraint by name."""
        return self._structure.levels.by_name

    @property
    def contacts(self) -> Mapping[str, ContactSettings]:
        """Settings of every contact by name."""
        return self._structure.contacts

    @property
    def levels(self) -> tuple[tuple[str, ...], ...]:
        """Names of tasks and constraints by level, level 0 first."""
        return tuple(tuple(e.name for e in level) for level in self._structure.levels.elements)

    @property
    def solver(self) -> TickSolver:
        """Solver of the ticks, for compiled code; adding or removing elements or contacts replaces it."""
        return self._structure.solver

    @property
    def parameter_vector(self) -> Array:
        """Every gain, reference and limit in one vector; see the class."""
        return self._structure.levels.parameters

    @property
    def robot(self) -> Robot:
        """The robot of the controller."""
        return self._robot

    @property
    def dt(self) -> float:
        """Control period [s]."""
        return self._dt

    @property
    def ramp_time(self) -> float:
        """Time over which contacts are made and broken [s]; 0 if they are switched at once."""
        return self._ramp

    @ramp_time.setter
    def ramp_time(self, value: float) -> None:
        ramp = check_number("ramp_time", value)
        if not 0.0 <= ramp < np.inf:
            raise ArgumentError(f"ramp_time: expected a time >= 0 s, got {value}")
        warn_of_time("ramp_time", ramp, MAX_PLAUSIBLE_RAMP)
        self._ramp, self._activation_step = ramp, self._dt / ramp if ramp > 0.0 else math.inf

    @property
    def friction(self) -> float:
        """Coulomb friction coefficient of the feet, dimensionless.

        Setting it does not change feet whose `ContactSettings.friction` was set, nor contacts that are not feet.
        """
        return self._friction

    @friction.setter
    def friction(self, value: float) -> None:
        self._friction = check_friction(value)
        for settings in self.contacts.values():
            if not settings.has_friction_override:
                settings.set_valid(friction=self._friction)

    def reset(self) -> None:
        """Clears contacts, references and the last torques, so that the next tick is a first one."""
        with self._exclusive_call.acquire("reset"):
            self._structure.levels.clear_references()
            self._start()

    def _start(self) -> None:
        """Resets contacts, the state of the last tick and the solver's warm start."""
        self._structure.schedule.deactivate_all()
        self._last = _LastTick()
        self._structure.solver.clear_warm_start()
        reset_tick_period.python(self._displacements)  # without machine code, which the first tick compiles
        self._timing = ""

    def warmup(self, *, quiet: bool = False) -> float:
        """Compiles or loads the machine code of the tick, so that a control loop does not have to wait for it.

        The machine code is stored in the user's cache folder (``QUADDYN_CACHE``); from the second process on, loading
        it takes a fraction of a second.

        Args:
            quiet: whether to suppress the messages about what is being compiled.

        Returns:
            Time that it took [s].
        """
        start = time.perf_counter()
        with silence_messages() if quiet else nullcontext():
            self._structure.solver.bind_machine_code()
            self._bind_motion_check()
        return time.perf_counter() - start

    @overload
    def batch(self, n: int, *, device: Literal["cpu"] = "cpu", threads: int | None = None) -> ControllerBatch: ...
    @overload
    def batch(self, n: int, *, device: str, threads: int | None = None) -> ControllerBatch | CudaControllerBatch: ...
    def batch(
        self, n: int, *, device: str = "cpu", threads: int | None = None
    ) -> ControllerBatch | CudaControllerBatch:
        """Returns n controllers like this one whose states are arrays, to compute them together; see `ControllerBatch`.

        The lanes have the present gains, limits, references, contacts and friction of this controller, and start with a
        first tick.  Later changes of this controller do not affect them.  References that ticks have captured are
        copied like others; call `reset` first to clear them.

        Args:
            n: number of robots.
            device: "cpu", or "cuda" or "cuda:N" for a `CudaControllerBatch`, which has not run on a GPU yet.
            threads: number of threads; None: the number of cores available to this process.  On a GPU the maximum
                number of those that run at the same time, each of which needs memory; None: as many as can run.

        Raises:
            CudaError: there is no driver or GPU that can be used, or its memory is exhausted.
            ArgumentError: `n` or `threads` is not a positive integer; another device; the controller has custom
                elements; or closed loops of the robot have no closed-form solution.
            ConcurrencyError: another call is in progress.
        """
        n, index, n_threads = check_integer("n", n), parse_device(device), max_threads(threads)
        with self._exclusive_call.acquire("batch"):
            if index is not None:
                from .controller_cuda import CudaControllerBatch

                return CudaControllerBatch(
                    self._structure, n, index, dt=self._dt, ramp_time=self.ramp_time, threads=threads
                )
            return ControllerBatch(self._structure, n, min(n_threads, n), dt=self._dt, ramp_time=self.ramp_time)

    @property
    def contact_activations(self) -> Mapping[str, float]:
        """Activation of each contact by name, dimensionless: 0 inactive, 1 made, in between during a ramp."""
        schedule = self._structure.schedule
        return dict(zip(schedule.names, schedule.ramps.activation.tolist(), strict=True))

    # -- one tick --------------------------------------------------------------------------------------------
    def compute(self, state: State, contacts: Iterable[str] | None = None) -> TickCommand:
        """Computes the command of one tick.

        Args:
            state: current state of the robot.
            contacts: names of the contacts that should be closed; all feet if None (no contact if the root is fixed).
                Contacts that appear or disappear from one call to the next are ramped.

        Returns: The `Command`.  Its numbers are always finite and satisfy the equations of motion; its status states
            whether it is the strict optimum.

        Raises:
            UnknownNameError: no contact has this name.
            ArgumentError: `state` belongs to another robot or is not finite; a parameter of an element is NaN; or an
                element has since been given to another controller.
            StaleStateError: the Dynamics of `state` was updated again.
            ConcurrencyError: another call is in progress, in another thread or in a custom element.

        Warns:
            RuntimeWarning: once, if the motion of the robot between ticks shows another period than `dt`, or a base
                velocity in world axes or a quaternion with w first; commands from then on are not `ok`, and their
                `timing` gives the reason.  Calls at states that do not form a motion give no warning.  Also once, if
                the gains of a task are unstable at the period `dt`; they are checked every 128 ticks.  Neither
                is checked if `checks_motion` is False, as a `LocomotionController` sets it.
        """
        if not isinstance(state, State):
            raise ArgumentTypeError(f"state: expected the State of a Dynamics.update, got {type(state).__name__}")
        if state.robot is not self._robot:
            raise ArgumentError(
                "state: belongs to another robot than the controller; compute it with qd.Dynamics(controller.robot)"
            )
        with self._exclusive_call.acquire("compute"):
            return self._tick(state, contacts)

    def _tick(self, state: State, contacts: Iterable[str] | None) -> TickCommand:
        """Computes one tick, while no other call of this controller is in progress."""
        q, v = state.writable_coordinates()
        structure = self._structure
        if structure.levels.reassigned_elements:
            structure.levels.validate_parameters()
        schedule, solver, last = structure.schedule, structure.solver, self._last
        if not (
            schedule.is_settled
            and (
                contacts is schedule.requested_contacts
                or (type(contacts) is tuple and contacts == schedule.requested_contacts)
            )
        ):
            self._advance_contacts(contacts)
        previous_torque = last.tau
        outcome, values = solver.solve(state, q, v, previous_torque)
        if outcome >= OVERFLOW:
            solver.raise_input_error(outcome)
        command = TickCommand(values, outcome, (q, v, previous_torque, solver.slow_inputs), solver)
        last.tau, last.command, last.memory = command.tau, command, solver.data.memory
        last.ticks += 1
        if self.checks_motion:
            terms, is_inconsistent = solver.data.terms, self._has_inconsistent_motion or self._bind_motion_check()
            if is_inconsistent(terms.com, terms.com_velocity, q, v):
                self._report_inconsistent_motion(command)
            if last.ticks % GAIN_CHECK_INTERVAL == 1:
                self._check_gains()
        return command

    def _bind_motion_check(self) -> Callable[..., bool]:
        """Compiles or loads the machine code that compares the motion with its velocity, and returns it."""
        self._has_inconsistent_motion = bound = has_inconsistent_motion.bind(self._displacements)
        return bound

    def _report_inconsistent_motion(self, command: TickCommand) -> None:
        """Sets `timing` of a command, and warns once."""
        if not self._timing:
            self._timing = describe_inconsistent_motion(self._displacements)
            warnings.warn(self._timing, RuntimeWarning, stacklevel=4)
        command.timing = self._timing

    def _check_gains(self) -> None:
        """Warns once if the gains of a task are unstable at the control period."""
        if not self._has_warned_of_gains and (reason := self._structure.levels.describe_unstable_gains(self._dt)):
            self._has_warned_of_gains = True
            warnings.warn(reason, RuntimeWarning, stacklevel=4)

    def save_tick(self, path: str | os.PathLike[str]) -> None:
        """Writes the last tick to a file, for `quaddyn.wbc.replay` and ``quaddyn replay FILE``.

        Args:
            path: path of the file, such as "tick.npz".

        Raises:
            ArgumentError: no tick was computed yet.
            OSError: the file cannot be written.
        """
        last = self._last
        if last.command is None or last.memory is None:
            raise ArgumentError("save_tick: no tick was computed yet; call compute first")
        save(last.command, last.memory, last.ticks - 1, path)

    def _advance_contacts(self, contacts: Iterable[str] | None) -> None:
        """Advances all contact activations by one tick toward the requested set, given the forces of the last tick."""
        solver, command = self._structure.solver, self._last.command
        last_result = None
        if command is not None and self._activation_step != math.inf:
            # If contacts were added or removed since the last tick, its forces are assigned by name.
            has_same_contacts = command.solver is solver or command.solver.names == solver.names
            last_result = command.values if has_same_contacts else solver.make_result_of_forces(command.forces)
        schedule = self._structure.schedule
        try:
            schedule.request_contacts(contacts, solver.advance_contacts, self._activation_step, last_result)
        except UnknownNameError as error:
            raise make_foot_name_error(self._robot, error.kind, error.name, error.known) from None

    def __str__(self) -> str:
        levels = (f"level {k}: {', '.join(names)}" for k, names in enumerate(self.levels))
        return "\n".join([repr(self), *levels, f"contacts: {', '.join(self.contacts)}"])

    def __reduce__(self) -> NoReturn:
        raise ArgumentTypeError("a WholeBodyController cannot be copied or pickled; create another one with new tasks")
