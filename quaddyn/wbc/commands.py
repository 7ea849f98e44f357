"""Commands by who decided the tick: plain matrices, the fast path or the dense one.

What loops seldom read is made when it is first read, see `Command.made`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ..urdf.tree import Array
from . import fast
from .certificate import Details, Status
from .command import Command
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


class MadeCommand(Command):
    """A command that a compiled tick leads to.

    Args:
        tau: (nu,) torques [N m].
        answer: of the tick.
        told: what it was told.
        parts: of the controller.
    """

    __slots__ = ("answer", "parts", "told")

    def __init__(self, tau: Array, answer: Any, told: Told, parts: Parts) -> None:
        self.tau, self.answer, self.told, self.parts = tau, answer, told, parts

    def solved(self, f: Array, ranks: tuple[int, ...]) -> Details:
        """The problem, which the stacked forces f solve with the accelerations; ranks of the levels."""
        problem, solver = self.parts.again(self.told)[0][1], self.parts.solver
        x = np.concatenate((self.acceleration[self.parts.robot.actuated_index], f / self.parts.scales.mass))
        return Details(problem, x, ranks, solver.again)


class CompiledCommand(MadeCommand):
    """The fast path's; its answer is that of `FastTick.solve`."""

    __slots__ = ()


def _forces(c: CompiledCommand) -> Mapping[str, Array]:
    f, feet = c.answer[fast.FORCE].reshape(4, 3), c.parts.robot.feet
    return MappingProxyType({foot: f[i] for i, foot in enumerate(feet) if c.told.shares[i][0] > 0.0})


def _details(c: CompiledCommand) -> Details:
    ranks = c.answer[fast.RANK :][: len(c.parts.levels.elements)]
    return c.solved(np.concatenate([np.zeros(0), *c.forces.values()]), tuple(map(int, ranks)))


CompiledCommand.made = Command.made | {
    "acceleration": lambda c: c.answer[fast.ACCELERATION],
    "forces": _forces,
    "status": lambda c: Status("solved", "compiled", float(c.answer[fast.VIOLATED]), float(c.answer[fast.RESIDUAL])),
    "details": _details,
}


class DenseCommand(MadeCommand):
    """The dense path's; its answer is that of `DenseTick.solve`."""

    __slots__ = ()


def _status(c: DenseCommand) -> Status:
    outcome: Outcome = "infeasible" if c.answer.violation > VIOLATION else "solved"
    return Status(outcome, "dense", c.answer.violation, c.answer.kkt)


DenseCommand.made = Command.made | {
    "acceleration": lambda c: c.answer.acceleration,
    "forces": lambda c: MappingProxyType(c.answer.forces),
    "status": _status,
    "details": lambda c: c.solved(c.answer.stacked, c.answer.ranks),
}
