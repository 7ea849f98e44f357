"""`Command`: torques, and the certificate that they are those of the strict optimum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..deprecation import renamed_attributes, renamed_parameters
from ..errors import UnknownAttributeError
from ..urdf.tree import Array
from .certificate import Details, LevelReport, Outcome, Status, report
from .data import Answer
from .explanation import LINES, Loss, explain, find_losses
from .inputs import Standing, TickInputs
from .remarks import friction_remarks
from .tick_solver import TickSolver


@renamed_attributes(outside="nonviable", friction="friction_torque", pressure="centers_of_pressure", solved="ok")
class Command:
    """Torques, and everything that was decided with them.

    `details` and what follows from them (`levels`, `margins`, `explain`) are computed when they are first read, from a
    record of what the tick read, even if the controller has changed since.  A copy or a pickle holds all of it and
    needs no controller.

    Attributes:
        tau: (nu,) torques of the actuated joints [N m]; where a `TorqueRate` starts from at the next tick, so copy them
            before you write to them.
        acceleration: (nv,) accelerations that result [m/s^2, rad/s^2].
        forces: by contact, (3,) at a point or (6,) on a surface, on the robot at the contact point, world axes
            [N, N m].
        status: `Status`.
        details: `Details`, the problem behind the command.
        friction: (nu,) what of the torques joint friction takes [N m], see `quaddyn.wbc.JointFriction`.
        pressure: by surface that presses, (3,) its centre of pressure, world axes [m].
        levels: `LevelReport` of each level.
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
    )

    acceleration: Array
    details: Details
    forces: Mapping[str, Array]
    friction_torque: Array
    levels: tuple[LevelReport, ...]
    centers_of_pressure: Mapping[str, Array]
    status: Status
    tau: Array

    #: By name, how an attribute is made when it is first read.
    made: ClassVar[dict[str, Callable[[Any], Any]]] = {}

    def __init__(
        self, tau: Array, acceleration: Array, forces: Mapping[str, Array], status: Status, details: Details,
        friction: Array, pressure: Mapping[str, Array],
    ) -> None:  # fmt: skip
        self.tau, self.acceleration, self.forces, self.status = tau, acceleration, forces, status
        self.details, self.friction_torque, self.centers_of_pressure = details, friction, pressure

    if not TYPE_CHECKING:  # where there is a __getattr__, a type checker takes every name for known

        def __getattr__(self, name):
            make = type(self).made.get(name)
            if make is None:
                raise UnknownAttributeError("Command", name, [n for n in dir(Command) if n[0] != "_"])
            value = make(self)
            setattr(self, name, value)
            return value

    @property
    def ok(self) -> bool:
        """Whether this is the strict optimum and level 0 holds; the same as ``status.ok``."""
        return self.status.ok

    @property
    def nonviable(self) -> tuple[str, ...]:
        """What was outside of its viable set, by name: no acceleration within the limits keeps them from there on.

        Joints beyond their limits, or too fast to stop in time (`quaddyn.wbc.JointBounds`).  Level 0 brings them back;
        where it could not, `status` says so.
        """
        return self.details.nonviable

    @property
    def margins(self) -> Mapping[str, float]:
        """By name of a limit, the least distance to its bounds in its own unit; negative where it is violated."""
        out: dict[str, float] = {}
        found = self.details
        for groups in found.problem.levels:
            for group in groups:
                y = group.A @ found.x
                slack = np.minimum(y - group.lower, group.upper - y)
                for name, wanted, room in zip(group.names, group.wanted.tolist(), slack.tolist(), strict=True):
                    if not wanted:
                        out[name] = min(room, out.get(name, np.inf))
        return out

    @renamed_parameters(last="include_last_level", lines="max_lines")
    def explain(
        self, *, threshold: float = 1e-3, include_last_level: bool = False, max_lines: int | None = LINES
    ) -> str:
        """In words, what was lost to what; see `quaddyn.wbc.explanation`, which solves again for every suspect.

        What is infeasible is preceded by a likely cause.

        Args:
            threshold: losses below this are not worth a sentence, in the rows' own units.
            include_last_level: whether to include rows of the last of three or more levels, which only fills the
                freedom that the others leave.
            max_lines: about losses at most, the largest of the most important level first; None for all.
        """
        return explain(
            self.status, self.details, threshold=threshold, include_last_level=include_last_level, max_lines=max_lines
        )

    @renamed_parameters(last="include_last_level")
    def losses(self, *, threshold: float = 1e-3, include_last_level: bool = False) -> list[Loss]:
        """`explain` as data, a row each; the same arguments."""
        return find_losses(self.details, threshold=threshold, include_last_level=include_last_level)

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (
            self.tau.copy(), self.acceleration.copy(), dict(self.forces), self.status, self.details,
            self.friction_torque.copy(), dict(self.centers_of_pressure),
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"Command({self.status}, max|tau| = {np.abs(self.tau).max(initial=0.0):.4g} N m)"


class TickCommand(Command):
    """A command as a tick gives it: what loops seldom read is made when it is first read.

    Args:
        values: the numbers of the answer.
        outcome: what became of the tick.
        start: q, v, torques of the tick before, and what else it started from: see `TickSolver.recorded`.
        solver: of the controller.

    Attributes:
        given: all that the tick started from.
        answer: the parts of `values`.
    """

    __slots__ = ("answer", "given", "outcome", "solver", "start", "values")

    given: TickInputs
    answer: Answer

    def __init__(
        self, values: Array, outcome: int, start: tuple[Array, Array, Array | None, Standing], solver: TickSolver
    ) -> None:
        self.tau = values[: solver.nu]
        self.values, self.outcome, self.start, self.solver = values, outcome, start, solver

    @property
    def dt(self) -> float:
        """Control period of its controller [s]."""
        return self.solver.dt

    @property
    def ok(self) -> bool:
        """Whether this is the strict optimum and level 0 holds; the same as ``status.ok``, which it does not make."""
        return OUTCOMES[self.outcome] == "solved"


def _levels(command: Command) -> tuple[LevelReport, ...]:
    found = command.details
    return tuple(report(found, k) for k in range(len(found.problem.levels)))


def _forces(c: TickCommand) -> Mapping[str, Array]:
    force, there = c.answer.force, zip(c.solver.names, c.given.settings, c.given.shares, strict=True)
    return MappingProxyType(
        {name: force[i, : contact.rows] for i, (name, (contact, *_), (share, _)) in enumerate(there) if share > 0.0}
    )


def _status(c: TickCommand) -> Status:
    return Status(OUTCOMES[c.outcome], float(c.answer.violation[0]), float(c.answer.kkt[0]))


def _details(c: TickCommand) -> Details:
    solver = c.solver
    problem = solver.problem(c.given)
    mass, actuated = solver.tables.model.mass, solver.robot.actuated_index
    x = np.concatenate((c.acceleration[actuated], *(f / mass for f in c.forces.values())))
    ranks = c.answer.ranks[: len(problem.levels)]
    remarks = friction_remarks(solver.robot, solver.tables.model, c.given.numbers, c.given.v, c.friction_torque)
    nonviable = solver.find_nonviable(c.given)
    return Details(problem, x, tuple(map(int, ranks)), solver.resolve, remarks, nonviable)


def _restored(
    tau: Array, acceleration: Array, forces: dict[str, Array], status: Status, details: Details, friction: Array,
    pressure: dict[str, Array],
) -> Command:  # fmt: skip
    return Command(tau, acceleration, MappingProxyType(forces), status, details, friction, MappingProxyType(pressure))


OUTCOMES: tuple[Outcome, ...] = ("solved", "infeasible", "inaccurate", "fallback")

Command.made = {"levels": _levels}
TickCommand.made = Command.made | {
    "answer": lambda c: c.solver.views(c.values),
    "acceleration": lambda c: c.answer.acceleration,
    "forces": _forces,
    "friction_torque": lambda c: c.answer.friction,
    "centers_of_pressure": lambda c: MappingProxyType(c.solver.pressure(c.given, c.forces)),
    "status": _status,
    "details": _details,
    "given": lambda c: c.solver.recorded(c.values, *c.start),
}
