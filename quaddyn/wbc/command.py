"""`Command`: the result of one tick of `WholeBodyController`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..deprecation import renamed_attributes, renamed_parameters
from ..errors import UnknownAttributeError
from ..urdf.tree import Array
from .explanation import DEFAULT_MAX_LINES, Loss, explain, find_losses, friction_remarks
from .tick_data import TickResult
from .tick_inputs import SlowInputs, TickInputs
from .tick_problem import LevelReport, Outcome, Status, TickDetails, make_level_report
from .tick_solver import TickSolver


@renamed_attributes(outside="nonviable", friction="friction_torque", pressure="centers_of_pressure", solved="ok")
class Command:
    """Joint torques of one tick, with accelerations, contact forces, status and diagnostics.

    `details`, and what is computed from it (`levels`, `margins`, `explain`), are computed when they are first read,
    from a record of the inputs of the tick, even if the controller has changed since.  A copy or a pickle contains
    everything and needs no controller.

    Attributes:
        tau: (nu,) torques of the actuated joints [N m].  A `TorqueRate` limits the next tick relative to this array, so
            copy it before you write to it.
        acceleration: (nv,) resulting accelerations [m/s^2, rad/s^2].
        forces: contact forces by contact name, (3,) at a point or (6,) on a surface, on the robot at the contact point,
            world axes [N, N m].
        status: `Status` of the tick.
        outcome: its outcome, such as "solved".
        details: `TickDetails`: the optimization problem of the tick and its solution.
        friction_torque: (nu,) part of the torques that compensates joint friction [N m], see
            `quaddyn.wbc.JointFriction`.
        centers_of_pressure: (3,) center of pressure by name of each loaded surface contact, world axes [m].
        levels: `LevelReport` of each level.
        timing: warning of `WholeBodyController.compute` that the controller is called at another period than its `dt`,
            or with states in another convention; "" without one.
    """

    __slots__ = (
        "acceleration",
        "centers_of_pressure",
        "details",
        "forces",
        "friction_torque",
        "levels",
        "status",
        "tau",
        "timing",
    )

    acceleration: Array
    details: TickDetails
    forces: Mapping[str, Array]
    friction_torque: Array
    levels: tuple[LevelReport, ...]
    centers_of_pressure: Mapping[str, Array]
    status: Status
    tau: Array
    timing: str

    #: Functions that compute the attributes which are computed when they are first read, by name of the attribute.
    attribute_factories: ClassVar[dict[str, Callable[[Any], Any]]] = {}

    def __init__(
        self, tau: Array, acceleration: Array, forces: Mapping[str, Array], status: Status, details: TickDetails,
        friction_torque: Array, centers_of_pressure: Mapping[str, Array], timing: str = "",
    ) -> None:  # fmt: skip
        self.tau, self.acceleration, self.forces, self.status = tau, acceleration, forces, status
        self.details, self.friction_torque, self.centers_of_pressure = details, friction_torque, centers_of_pressure
        self.timing = timing

    if not TYPE_CHECKING:  # with a __getattr__, a type checker would accept every name

        def __getattr__(self, name):
            factory = type(self).attribute_factories.get(name)
            if factory is None:
                raise UnknownAttributeError("Command", name, [n for n in dir(Command) if n[0] != "_"])
            value = factory(self)
            setattr(self, name, value)
            return value

    @property
    def outcome(self) -> Outcome:
        """Outcome of the tick, such as "solved"; the same as ``status.outcome``."""
        return self.status.outcome

    @property
    def ok(self) -> bool:
        """Whether the command is the strict optimum (``status.ok``), satisfies level 0, and has no `timing` warning."""
        return self.status.ok and not self.timing

    @property
    def nonviable(self) -> tuple[str, ...]:
        """Names of joints and pairs outside their viable set: no allowed acceleration keeps their limits.

        These are joints beyond their limits or too fast to stop in time (`quaddyn.wbc.JointBounds`), and pairs of
        bodies that are too near or approach too fast (`quaddyn.wbc.CollisionLimits`).  Level 0 drives them back; if it
        cannot, `status` reports it.
        """
        return self.details.nonviable

    @property
    def margins(self) -> Mapping[str, float]:
        """Smallest distance to its bounds by name of each limit, in its unit; negative if violated."""
        margins: dict[str, float] = {}
        details = self.details
        for groups in details.problem.levels:
            for group in groups:
                y = group.A @ details.x
                slack = np.minimum(y - group.lower, group.upper - y)
                for name, is_equality, slack_value in zip(
                    group.names, group.is_equality.tolist(), slack.tolist(), strict=True
                ):
                    if not is_equality:
                        margins[name] = min(slack_value, margins.get(name, np.inf))
        return margins

    @renamed_parameters(last="include_last_level", lines="max_lines")
    def explain(
        self, *, threshold: float = 1e-3, include_last_level: bool = False, max_lines: int | None = DEFAULT_MAX_LINES
    ) -> str:
        """Returns sentences about the deficits of tasks, and the limit or task that causes each; see `explanation`.

        Every candidate cause takes one more solve, so call it for diagnosis, not in control loops.  The text of an
        infeasible tick starts with a likely cause.

        Args:
            threshold: smallest deficit to report, in the unit of the row.
            include_last_level: whether to include rows of the last of three or more levels, which only determines
                the freedom that the others leave.
            max_lines: largest number of lines about deficits, the largest deficits of the most important level first;
                None for all.
        """
        text = explain(
            self.status, self.details, threshold=threshold, include_last_level=include_last_level, max_lines=max_lines
        )
        return f"{text}\n{self.timing}" if self.timing else text

    @renamed_parameters(last="include_last_level")
    def losses(self, *, threshold: float = 1e-3, include_last_level: bool = False) -> list[Loss]:
        """Returns the content of `explain` as data, one `Loss` per row.

        Args:
            threshold: smallest deficit to report, in the unit of the row.
            include_last_level: whether to include rows of the last of three or more levels.
        """
        return find_losses(self.details, threshold=threshold, include_last_level=include_last_level)

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (
            self.tau.copy(), self.acceleration.copy(), dict(self.forces), self.status, self.details,
            self.friction_torque.copy(), dict(self.centers_of_pressure), self.timing,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"Command({self.status}, max|tau| = {np.abs(self.tau).max(initial=0.0):.4g} N m)"


class TickCommand(Command):
    """Command of a running controller; its attributes are computed when they are first read.

    Args:
        values: the vector of the `TickResult`.
        outcome: index of the outcome in `OUTCOMES`.
        start_inputs: q, v, torques of the tick before, and the other inputs of the tick; see
            `TickSolver.make_tick_inputs`.
        solver: solver of the controller.

    Attributes:
        inputs: all inputs of the tick.
        result: the parts of `values` by name.
    """

    __slots__ = ("_outcome", "inputs", "result", "solver", "start_inputs", "values")

    inputs: TickInputs
    result: TickResult

    def __init__(
        self,
        values: Array,
        outcome: int,
        start_inputs: tuple[Array, Array, Array | None, SlowInputs],
        solver: TickSolver,
    ) -> None:
        self.tau = values[: solver.nu]
        self.values, self._outcome, self.start_inputs, self.solver = values, OUTCOMES[outcome], start_inputs, solver
        self.timing = ""

    @property
    def dt(self) -> float:
        """Control period of the controller [s]."""
        return self.solver.dt

    @property
    def outcome(self) -> Outcome:
        """Outcome of the tick; does not create `status`."""
        return self._outcome

    @property
    def ok(self) -> bool:
        """Whether the command is the strict optimum, satisfies level 0 and has no `timing` warning."""
        return self._outcome == "solved" and not self.timing


def _make_levels(command: Command) -> tuple[LevelReport, ...]:
    """Returns the reports of all levels."""
    details = command.details
    return tuple(make_level_report(details, k) for k in range(len(details.problem.levels)))


def _make_forces(command: TickCommand) -> Mapping[str, Array]:
    """Returns the forces of all contacts with nonzero activation."""
    force, contacts = (
        command.result.force,
        zip(command.solver.names, command.inputs.settings, command.inputs.activations, strict=True),
    )
    return MappingProxyType(
        {
            name: force[i, : contact.rows]
            for i, (name, (contact, *_), (activation, _)) in enumerate(contacts)
            if activation > 0.0
        }
    )


def _make_status(command: TickCommand) -> Status:
    """Returns the status of the tick."""
    return Status(command.outcome, *command.result.certificate.tolist())


def _make_details(command: TickCommand) -> TickDetails:
    """Reconstructs the optimization problem of the tick."""
    solver = command.solver
    problem = solver.reconstruct_problem(command.inputs)
    mass, actuated = solver.tables.model.mass, solver.robot.actuated_index
    x = np.concatenate((command.acceleration[actuated], *(f / mass for f in command.forces.values())))
    ranks = command.result.ranks[: len(problem.levels)]
    remarks = friction_remarks(
        solver.robot, solver.tables.model, command.inputs.parameters, command.inputs.v, command.friction_torque
    )
    nonviable = solver.find_nonviable(command.inputs)
    is_fixed = solver.robot.root == "fixed"
    return TickDetails(problem, x, tuple(map(int, ranks)), solver.resolve, remarks, nonviable, is_fixed)


def _restore(
    tau: Array, acceleration: Array, forces: dict[str, Array], status: Status, details: TickDetails,
    friction_torque: Array, centers_of_pressure: dict[str, Array], timing: str = "",
) -> Command:  # fmt: skip
    """Returns the command from the parts that `Command.__reduce__` stored."""
    return Command(
        tau,
        acceleration,
        MappingProxyType(forces),
        status,
        details,
        friction_torque,
        MappingProxyType(centers_of_pressure),
        timing,
    )


OUTCOMES: tuple[Outcome, ...] = ("solved", "infeasible", "inaccurate", "fallback")

Command.attribute_factories = {"levels": _make_levels}
TickCommand.attribute_factories = Command.attribute_factories | {
    "result": lambda command: command.solver.split_result(command.values),
    "acceleration": lambda command: command.values[command.solver.nu : command.solver.nu + command.solver.robot.nv],
    "forces": _make_forces,
    "friction_torque": lambda command: command.result.friction,
    "centers_of_pressure": lambda command: MappingProxyType(
        command.solver.centers_of_pressure(command.inputs, command.forces)
    ),
    "status": _make_status,
    "details": _make_details,
    "inputs": lambda command: command.solver.make_tick_inputs(command.values, *command.start_inputs),
}
