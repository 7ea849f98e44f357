"""`Rows`: the inequalities of all levels, stacked, and what counts as keeping them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from quaddyn.hierarchy.level import INFINITE_BOUND, Array, Level

#: An inequality is kept if it is violated by no more than this share of the size of its terms, |C| |x| + |bound|.
KEPT = 1e-12
#: And it counts as violated for good, reported and left to the levels below as it is, beyond this share.
VIOLATED = 1e-10

Sides = NDArray[np.int8]


@dataclass(slots=True)
class Rows:
    """All inequalities of all levels, stacked."""

    C: Array
    lower: Array
    upper: Array
    equal: NDArray[np.bool_]  # bounds that meet or cross: an equation at their middle
    lengths: Array
    level: NDArray[np.intp]
    reach: float = 0.0  # a length that x had on the way: what rounding is measured by where x itself is near zero

    @staticmethod
    def stack(levels: Sequence[Level]) -> Rows:
        """Those of all levels; bounds that meet or cross become their middle."""
        C = np.vstack([level.C for level in levels])
        lower = np.concatenate([level.lower for level in levels])
        upper = np.concatenate([level.upper for level in levels])
        lower = np.where(lower <= -INFINITE_BOUND, -np.inf, lower)
        upper = np.where(upper >= INFINITE_BOUND, np.inf, upper)
        equal = np.isfinite(lower) & np.isfinite(upper)
        equal[equal] = upper[equal] <= lower[equal] + 4e-16 * np.abs(lower[equal])
        middle = 0.5 * (lower[equal] + upper[equal])
        lower[equal] = upper[equal] = middle
        which = np.repeat(np.arange(len(levels)), [len(level.C) for level in levels])
        return Rows(C, lower, upper, equal, np.linalg.norm(C, axis=1), which)

    def unit(self) -> Rows:
        """The same inequalities with rows of length 1."""
        d = np.where(self.lengths > 0.0, self.lengths, 1.0)
        return replace(
            self, C=self.C / d[:, None], lower=self.lower / d, upper=self.upper / d, lengths=self.lengths / d
        )

    def bound(self, rows: NDArray[np.intp], sides: Sides) -> Array:
        """The bounds on the given sides."""
        return np.where(sides[rows] > 0, self.upper[rows], self.lower[rows])

    def slack(self, x: Array, rows: NDArray[np.intp], kept: float = KEPT) -> Array:
        """How far each row is above its upper (> 0) or below its lower bound (< 0), 0 where it is kept."""
        y = self.C[rows] @ x
        over, under = y - self.upper[rows], self.lower[rows] - y
        allowed = self.allowance(x, rows, kept)
        return np.where(over > allowed(self.upper), over, np.where(under > allowed(self.lower), -under, 0.0))

    def settle(self, x: Array, rows: NDArray[np.intp]) -> None:
        """What x violates by rounding, levels below may keep: else they would start outside their limits."""
        y = self.C[rows] @ x
        near = self.slack(x, rows, VIOLATED) == 0.0
        self.upper[rows[near]] = np.maximum(self.upper[rows], y)[near]
        self.lower[rows[near]] = np.minimum(self.lower[rows], y)[near]

    def allowance(self, x: Array, rows: NDArray[np.intp], kept: float = KEPT) -> Callable[[Array], Array]:
        """By how much rounding alone may have violated each row, for a given array of bounds."""
        size = self.lengths[rows] * max(float(np.linalg.norm(x)), self.reach)

        def of(bound: Array) -> Array:
            b = np.abs(bound[rows])
            return kept * (size + np.where(np.isfinite(b), b, 0.0))

        return of
