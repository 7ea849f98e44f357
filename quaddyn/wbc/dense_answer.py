"""`Answer`: what came of a compiled tick of the dense path, cut out of its numbers when somebody asks."""

from __future__ import annotations

from collections.abc import Mapping

from ..urdf.tree import Array

#: Where an answer holds the violation of level 0, the KKT residual, the rank of what was solved beforehand, torques.
VIOLATION, KKT, BEFOREHAND, TAU = 0, 1, 2, 3


class Answer:
    """What came of a tick.

    Attributes:
        numbers: as `compiled_dense.tick` gives them.
        columns: of each contact's force.
        sizes: number of torques, accelerations, forces, levels.
    """

    __slots__ = ("columns", "numbers", "sizes")

    def __init__(self, numbers: Array, columns: Mapping[str, slice], sizes: tuple[int, int, int, int]) -> None:
        self.numbers, self.columns, self.sizes = numbers, columns, sizes

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
        return self.numbers[TAU : TAU + self.sizes[0]]

    @property
    def acceleration(self) -> Array:
        """(nv,) [m/s^2, rad/s^2]."""
        nu, nv, *_ = self.sizes
        return self.numbers[TAU + nu : TAU + nu + nv]

    @property
    def stacked(self) -> Array:
        """(nf,) forces one after the other [N, N m]."""
        nu, nv, nf, _ = self.sizes
        return self.numbers[TAU + nu + nv : TAU + nu + nv + nf]

    @property
    def forces(self) -> dict[str, Array]:
        """By contact."""
        stacked = self.stacked
        return {name: stacked[where] for name, where in self.columns.items()}

    @property
    def told(self) -> Array:
        """Numbers of the elements as they were."""
        return self.numbers[TAU + sum(self.sizes) :]

    @property
    def ranks(self) -> tuple[int, ...]:
        """Per level."""
        start = TAU + sum(self.sizes[:3])
        first, *rest = map(int, self.numbers[start : start + self.sizes[3]])
        return (first + int(self.numbers[BEFOREHAND]), *rest)
