"""`VelocityController`: whole-body inverse kinematics on velocity level, for position-controlled robots.

It solves the same strict hierarchy of tasks as torque control, with the generalized velocity v as the unknown: a task
has rows ``J v = velocity + gain * error``.  Level 0 keeps the contacts at rest and the joints within their limits.
Sources: *Robot Dynamics* lecture of ETH Zurich (null-space priorities on velocities); Kanoun, Lamiraux, Wieber 2011,
"Kinematic control of redundant manipulators: generalizing the task-priority framework to inequality task".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..contact import Contact
from ..deprecation import renamed_attributes
from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError
from ..hierarchy import HierarchySolution, Level, SolverPool, solve
from ..robot.arguments import check_number, check_positive, check_sequence
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes, ValidatedAttribute
from ..urdf.tree import Array
from .constraints.constraint import check_tolerance
from .contact_settings import ContactSettings, make_contact_frame
from .elements import Elements, NamedItems, check_contact_names, check_robot, default_tasks
from .tasks import FootTask, MomentumTask, Task
from .tick_problem import Outcome, Status


@renamed_attributes(solved="ok")
@dataclass(frozen=True, slots=True, eq=False)
class VelocityCommand:
    """Velocity and configuration of one period.

    Attributes:
        v: (nv,) generalized velocity [m/s, rad/s].
        q: (nq,) configuration after the period, to send to a position-controlled robot.
        residuals: (rows,) desired minus achieved velocity by task [m/s, rad/s].
        ranks: number of linearly independent directions that each level determined.
        active: names of the joints at a limit.
        status: `Status`; its violation is that of level 0, as a velocity [m/s, rad/s].
    """

    v: Array
    q: Array
    residuals: Mapping[str, Array]
    ranks: tuple[int, ...]
    active: tuple[str, ...]
    status: Status

    @property
    def kkt(self) -> float:
        """Largest residual of the optimality (KKT) conditions."""
        return self.status.kkt

    @property
    def ok(self) -> bool:
        """Whether the command is the strict optimum and satisfies level 0; the same as ``status.ok``."""
        return self.status.ok


class VelocityController(StrictAttributes, fixed=("robot", "tasks", "contacts")):
    """Controller that computes generalized velocities by strict priorities.

    Args:
        robot: the robot, legged or not.
        dt: control period [s].
        tasks: levels from 1 on, each one `Task` or several; None for "com", "base" and the feet, then "posture" (with a
            fixed root "posture" alone).
        contacts: contacts in addition to the feet.
        gain: gain of the position errors of all tasks [1/s].
        joint_limits: whether level 0 includes the position and velocity limits of the joints.
        rank_tolerance: relative tolerance, in [0, 1), below which directions are treated as linearly dependent.
        damping: damping of the solver, dimensionless; 0 for exact least squares.
        compiled: whether to use the compiled solver; the plain one is slower, but needs no compilation at its first
            use.

    Attributes:
        tasks: every task by name; the default ones if None was given.
        dt: control period [s]; may be set at any time.
        gain: gain of the position errors [1/s]; may be set at any time.
        joint_limits: as given; may be set at any time.
        rank_tolerance: relative tolerance of the rank; may be set at any time.
        damping: damping of the solver, dimensionless; may be set at any time.

    Raises:
        ArgumentError: a number is out of range, a name is used twice, or an element is not a motion task.
    """

    dt = ValidatedAttribute[float, float](
        lambda self, value: _check_stability(check_number("dt", value), self._gain)[0]
    )
    gain = ValidatedAttribute[float, float](
        lambda self, value: _check_stability(self.dt, check_number("gain", value))[1]
    )
    joint_limits = ValidatedAttribute[bool, bool](lambda self, value: bool(value))
    rank_tolerance = ValidatedAttribute[float, float](lambda self, value: check_tolerance("rank_tolerance", value))
    damping = ValidatedAttribute[float, float](lambda self, value: check_positive("damping", value, zero=True))

    def __init__(
        self,
        robot: Robot,
        *,
        dt: float = 1e-3,
        tasks: Sequence[Task | Sequence[Task]] | None = None,
        contacts: Iterable[Contact] = (),
        gain: float = 10.0,
        joint_limits: bool = True,
        rank_tolerance: float = 1e-9,
        damping: float = 0.0,
        compiled: bool = True,
    ) -> None:
        self.robot = robot
        self._gain, self.dt = 0.0, dt
        self.gain, self.joint_limits = gain, joint_limits
        self.rank_tolerance, self.damping = rank_tolerance, damping
        self._solve = SolverPool().solve if compiled else solve
        given_levels: Sequence[object] = [[t for t in level if isinstance(t, Task)] for level in default_tasks(robot)]
        if tasks is not None:
            given_levels = check_sequence("tasks", tasks, "levels")
        self._levels = tuple(tuple(level) if isinstance(level, Sequence) else (level,) for level in given_levels)
        by_name: dict[str, Task] = {}
        for task in (t for level in self._levels for t in level):
            if not isinstance(task, Task) or isinstance(task, MomentumTask):
                raise ArgumentTypeError(f"tasks: expected tasks that control a motion, got {type(task).__name__}")
            if task.name in by_name:
                raise ArgumentError(f"tasks: the name {task.name!r} is used twice; rename one of the tasks")
            check_robot(task, robot)
            by_name[task.name] = task
        self.tasks = Elements("task", by_name)
        contact_settings = {foot: ContactSettings(robot, Contact.from_foot(robot, foot)) for foot in robot.feet}
        for contact in check_sequence("contacts", contacts, "contacts"):
            if not isinstance(contact, Contact):
                raise ArgumentTypeError(f"contacts: expected quaddyn.contact.Contact, got {type(contact).__name__}")
            contact_settings[contact.name] = ContactSettings(robot, contact)
        self.contacts: Mapping[str, ContactSettings] = NamedItems("contact", contact_settings)
        self._entries = np.array([robot.configuration_index(joint) for joint in robot.actuated], dtype=np.intp)

    def compute(self, state: State, contacts: Iterable[str] | None = None) -> VelocityCommand:
        """Computes the command of one period.

        Args:
            state: current state of the robot; its velocity is not used.
            contacts: names of the contacts that must not move; all feet if None (no contact if the root is fixed).

        Raises:
            UnknownNameError: no contact has this name.
            ArgumentError: `state` belongs to another robot or is not finite.
            StaleStateError: the Dynamics of `state` was updated again.
        """
        if not isinstance(state, State):
            raise ArgumentTypeError(f"state: expected the State of a Dynamics.update, got {type(state).__name__}")
        if state.robot is not self.robot:
            raise ArgumentError(
                "state: belongs to another robot than the controller; compute it with qd.Dynamics(controller.robot)"
            )
        state.writable_coordinates()  # raises if the state is stale or not finite
        feet = () if self.robot.root == "fixed" else self.robot.feet
        names = feet if contacts is None else check_contact_names(contacts, self.contacts)
        contact_frames = {self.contacts[name].frame for name in names}
        levels = [self._make_level_0(state, names)]
        task_rows: list[tuple[str, Array, Array]] = []
        for tasks in self._levels:
            J, w = [np.zeros((0, self.robot.nv))], [np.zeros(0)]
            for task in tasks:
                if isinstance(task, FootTask) and task.frame in contact_frames:
                    continue
                if not task.has_reference and task.size:
                    task.set_reference_from_state(state)
                rows = task.rows_used
                weight = task.weight_used
                task_rows.append(
                    (task.name, task.jacobian(state)[rows], task.desired_velocity(state, gain=self.gain)[rows])
                )
                J.append(weight[:, None] * task_rows[-1][1])
                w.append(weight * task_rows[-1][2])
            levels.append(Level(np.vstack(J), np.concatenate(w)))
        solution = self._solve(levels, rank_tolerance=self.rank_tolerance, damping=self.damping)
        v = solution.x
        return VelocityCommand(
            v=v,
            q=np.asarray(self.robot.algorithms.integrate(self.robot.model, state.q, self.dt * v)),
            residuals={name: target - jacobian @ v for name, jacobian, target in task_rows},
            ranks=tuple(level.rank for level in solution.levels),
            active=tuple(self.robot.actuated[i] for i in np.flatnonzero(solution.levels[0].active)),
            status=_make_status(solution),
        )

    def _make_level_0(self, state: State, names: Iterable[str]) -> Level:
        """Returns level 0: contacts at rest, and velocities within the limits of position and velocity."""
        robot = self.robot
        J = [np.zeros((0, robot.nv))] + [
            make_contact_frame(state, self.contacts[n], 0, 1.0, np.inf).jacobian for n in names
        ]
        stack = np.vstack(J)
        C = np.zeros((robot.nu, robot.nv))
        C[np.arange(robot.nu), robot.actuated_index] = 1.0
        if not self.joint_limits:
            return Level(stack, np.zeros(len(stack)), C=C[:0], lower=np.zeros(0), upper=np.zeros(0))
        q, lower, upper = state.q[self._entries], robot.lower[self._entries], robot.upper[self._entries]
        has_range = lower < upper  # an empty range means "no limit" in robot files
        high = np.where(has_range, np.minimum((upper - q) / self.dt, robot.velocity_limits), robot.velocity_limits)
        low = np.where(has_range, np.maximum((lower - q) / self.dt, -robot.velocity_limits), -robot.velocity_limits)
        # a joint outside its range returns, at up to its largest velocity
        high, low = np.maximum(high, -robot.velocity_limits), np.minimum(low, robot.velocity_limits)
        return Level(stack, np.zeros(len(stack)), C=C, lower=low, upper=high)


#: Outcomes by status of the hierarchical solver.
OUTCOMES: dict[str, Outcome] = {"optimal": "solved", "infeasible": "infeasible", "inaccurate": "inaccurate"}


def _make_status(solution: HierarchySolution) -> Status:
    """Returns the status of a solution."""
    first = solution.levels[0]
    violation = max(np.abs(first.residual).max(initial=0.0), np.abs(first.violation).max(initial=0.0))
    return Status(OUTCOMES[solution.status], float(violation), solution.kkt)


def _check_stability(dt: float, gain: float) -> tuple[float, float]:
    """Validates period and gain, and returns both; raises unless position errors decay."""
    if not (0.0 < dt <= 0.1 and 0.0 <= gain * dt <= 1.0):
        raise ArgumentError(f"dt, gain: expected 0 < dt <= 0.1 s and 0 <= gain dt <= 1, got {dt} and {gain}")
    return dt, gain
