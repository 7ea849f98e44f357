"""`Answer`: what came of a compiled tick of the dense path, cut out of its numbers when somebody asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..urdf.tree import Array

#: Where an answer holds the violation of level 0, the KKT residual, the rank of what was solved beforehand.
VIOLATION, KKT, BEFOREHAND = 0, 1, 2


class Parting(NamedTuple):
    """Where the other parts of an answer lie, one after the other."""

    tau: slice
    acceleration: slice
    forces: slice
    ranks: slice
    told: slice

    @staticmethod
    def of(nu: int, nv: int, nf: int, levels: int) -> Parting:
        """That of so many torques, accelerations, forces and levels."""
        cuts = [3]
        for size in (nu, nv, nf, levels):
            cuts.append(cuts[-1] + size)
        return Parting(*map(slice, cuts, [*cuts[1:], None]))


class Answer:
    """What came of a tick.

    Attributes:
        numbers: as `compiled_dense.tick` gives them.
        columns: of each contact's force.
        parting: where what lies.
    """

    __slots__ = ("columns", "numbers", "parting")

    def __init__(self, numbers: Array, columns: Mapping[str, slice], parting: Parting) -> None:
        self.numbers, self.columns, self.parting = numbers, columns, parting

    @property
    def violation(self) -> float:
        """Of level 0 [m/s^2]."""
        return float(self.numbers[VIOLATION])

    @property
    def kkt(self) -> float:
        """Largest residual of the optimality conditions."""
        return float(self.numbers[KKT])

    @property
    def tau(self) -> Array:
        """(nu,) [N m]."""
        return self.numbers[self.parting.tau]

    @property
    def acceleration(self) -> Array:
        """(nv,) [m/s^2, rad/s^2]."""
        return self.numbers[self.parting.acceleration]

    @property
    def stacked(self) -> Array:
        """(nf,) forces one after the other [N, N m]."""
        return self.numbers[self.parting.forces]

    @property
    def forces(self) -> dict[str, Array]:
        """By contact."""
        stacked = self.stacked
        return {name: stacked[where] for name, where in self.columns.items()}

    @property
    def told(self) -> Array:
        """Numbers of the elements as they were."""
        return self.numbers[self.parting.told]

    @property
    def ranks(self) -> tuple[int, ...]:
        """Per level."""
        first, *rest = map(int, self.numbers[self.parting.ranks])
        return (first + int(self.numbers[BEFOREHAND]), *rest)
