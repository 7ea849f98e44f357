"""`Answer`: what came of a compiled tick of the dense path, cut out of its numbers when somebody asks."""

from __future__ import annotations

from collections.abc import Mapping

from ..urdf.tree import Array

#: What precedes torques, accelerations and forces in a compiled answer: the violation of level 0.
HEAD = 1


class Answer:
    """What came of a tick.

    Attributes:
        numbers: the violation of level 0, torques (nu,), accelerations (nv,), forces (nf,) of the contacts there are.
        violation, kkt: the certificate.
        columns: of each contact's force.
        nu: number of torques.
        solver: ranks of the levels as the solver found them.
        solved: rank of what was solved beforehand, on level 0.
    """

    __slots__ = ("columns", "kkt", "nu", "numbers", "solved", "solver", "violation")

    def __init__(
        self, numbers: Array, kkt: float, columns: Mapping[str, slice], nu: int, solver: Array, solved: int
    ) -> None:
        self.numbers, self.violation, self.kkt = numbers, float(numbers[0]), kkt
        self.columns, self.nu, self.solver, self.solved = columns, nu, solver, solved

    @property
    def tau(self) -> Array:
        """(nu,) [N m]."""
        return self.numbers[HEAD : HEAD + self.nu]

    @property
    def acceleration(self) -> Array:
        """(nv,) [m/s^2, rad/s^2]."""
        return self.numbers[HEAD + self.nu : len(self.numbers) - self._nf]

    @property
    def stacked(self) -> Array:
        """(nf,) forces one after the other [N, N m]."""
        return self.numbers[len(self.numbers) - self._nf :]

    @property
    def forces(self) -> dict[str, Array]:
        """By contact."""
        stacked = self.stacked
        return {name: stacked[where] for name, where in self.columns.items()}

    @property
    def ranks(self) -> tuple[int, ...]:
        """Per level."""
        first, *rest = map(int, self.solver)
        return (first + self.solved, *rest)

    @property
    def _nf(self) -> int:
        return max((where.stop for where in self.columns.values()), default=0)
