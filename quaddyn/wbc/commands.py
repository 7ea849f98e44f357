"""Commands by who decided the tick: plain matrices, the fast path or the dense one.

What loops seldom read is made when it is first read, see `Command.made`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from ..urdf.tree import Array
from . import fast
from .certificate import Details, Status
from .command import Command
from .dense_answer import Answer
from .elimination import Elimination
from .parts import Parts, Told
from .problem import Problem
from .solving import VIOLATION, Outcome, Solver


def decide(elimination: Elimination, problem: Problem, solver: Solver, contacts: Mapping[str, slice]) -> Command:
    """The command that a problem leads to."""
    decision = solver.decide(problem)
    a, f, tau = elimination.recover(decision.x)
    status = Status(decision.outcome, "dense", decision.violation, decision.kkt)
    details = Details(problem, decision.x, decision.ranks, solver.again)
    forces = MappingProxyType({name: f[columns] for name, columns in contacts.items()})
    return Command(tau, a, forces, status, details)


class CompiledCommand(Command):
    """The command that the fast path leads to.

    Args:
        answer: of `FastTick.solve`.
        told: what the tick was told.
        parts: of the controller.
    """

    __slots__ = ("answer", "parts", "told")

    def __init__(self, answer: Array, told: Told, parts: Parts) -> None:
        self.tau, self.answer, self.told, self.parts = answer[fast.TAU], answer, told, parts


def _forces(c: CompiledCommand) -> Mapping[str, Array]:
    f, feet = c.answer[fast.FORCE].reshape(4, 3), c.parts.robot.feet
    return MappingProxyType({foot: f[i] for i, foot in enumerate(feet) if c.told.shares[i][0] > 0.0})


def _details(c: CompiledCommand) -> Details:
    problem, solver = c.parts.again(c.told)[0][1], c.parts.solver
    forces = (force / c.parts.scales.mass for force in c.forces.values())
    x = np.concatenate((c.acceleration[c.parts.robot.actuated_index], *forces))
    found = tuple(int(rank) for rank in c.answer[fast.RANK :][: len(problem.levels)])
    return Details(problem, x, found, solver.again)


CompiledCommand.made = Command.made | {
    "acceleration": lambda c: c.answer[fast.ACCELERATION],
    "forces": _forces,
    "status": lambda c: Status("solved", "compiled", float(c.answer[fast.VIOLATED]), float(c.answer[fast.RESIDUAL])),
    "details": _details,
}


class DenseCommand(Command):
    """The command that a compiled tick of the dense path leads to.

    Args:
        answer: of `DenseTick.solve`.
        told: what the tick was told.
        parts: of the controller.
    """

    __slots__ = ("answer", "parts", "told")

    def __init__(self, answer: Answer, told: Told, parts: Parts) -> None:
        self.tau, self.answer, self.told, self.parts = answer.tau, answer, told, parts


def _dense_status(c: DenseCommand) -> Status:
    outcome: Outcome = "infeasible" if c.answer.violation > VIOLATION else "solved"
    return Status(outcome, "dense", c.answer.violation, c.answer.kkt)


def _dense_details(c: DenseCommand) -> Details:
    problem, solver = c.parts.again(c.told)[0][1], c.parts.solver
    x = np.concatenate((c.acceleration[c.parts.robot.actuated_index], c.answer.stacked / c.parts.scales.mass))
    return Details(problem, x, c.answer.ranks, solver.again)


DenseCommand.made = Command.made | {
    "acceleration": lambda c: c.answer.acceleration,
    "forces": lambda c: MappingProxyType(c.answer.forces),
    "status": _dense_status,
    "details": _dense_details,
}
