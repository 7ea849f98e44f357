"""`Level`: the equalities and inequalities of one priority, as plain matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError

Array = NDArray[np.float64]

#: A bound of at least this size counts as infinite: models write "unlimited" as 1.8e308 as often as inf.
INFINITE_BOUND = 1e100


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    r"""One level of a strict hierarchy: equalities ``A x = b`` and inequalities ``lower <= C x <= upper``.

    Both are satisfied in the least-squares sense.  A level minimizes

    .. math::

        \sum_i w_i (A_i x - b_i)^2 + \sum_j \operatorname{dist}\left(C_j x, [l_j, u_j]\right)^2

    among all x for which every level above stays at its minimum.  An inequality that can be satisfied is satisfied, and
    is then a constraint for every level below (Escande, Mansard and Wieber, *Hierarchical quadratic programming*, IJRR
    2014, section 2).  The norm of a row of C is its weight against the other rows of its level when they conflict, and
    has no influence otherwise.

    Args:
        A: (m, n) matrix of the equalities; None for none.
        b: (m,) target values of the equalities, in the units of the rows; None if A is None.
        weights: (m,) or one number >= 0 that multiplies the squared residuals, dimensionless.  A row of weight 0 has no
            influence.
        C: (p, n) matrix of the inequalities; None for none.
        lower: (p,) lower bounds; -inf, or anything below -1e100, for none; None if no row has one.
        upper: (p,) upper bounds; inf for none; None if no row has one.  Bounds may cross: such a row is an
            equality at their middle, violates both by half the gap, and the level is never feasible.

    Raises:
        ArgumentError: wrong shapes, a NaN, an infinite entry where a finite number is required, or neither A nor C.
    """

    A: Any = None
    b: Any = None
    _: KW_ONLY
    weights: Any = 1.0
    C: Any = None
    lower: Any = None
    upper: Any = None

    def __post_init__(self) -> None:
        if self.A is None and self.C is None:
            raise ArgumentError("A, C: expected equalities (A, b) or inequalities (C, lower, upper), got neither")
        if (self.A is None) != (self.b is None):
            raise ArgumentError("A, b: pass both or neither, got only one of them")
        if self.C is None and not (self.lower is None and self.upper is None):
            raise ArgumentError("lower, upper: C, whose rows they bound, is missing; pass C, or omit lower and upper")
        n = np.shape(self.C if self.A is None else self.A)[-1:]
        A = np.zeros((0, *n)) if self.A is None else _matrix("A", self.A)
        C = np.zeros((0, *n)) if self.C is None else _matrix("C", self.C)
        if C.shape[1] != A.shape[1]:
            raise ArgumentError(f"C: expected {A.shape[1]} columns, as A has, got {C.shape[1]}")
        m, p = len(A), len(C)
        b = np.zeros(0) if self.b is None else _vector("b", self.b, m)
        if not (np.isfinite(A).all() and np.isfinite(b).all() and np.isfinite(C).all()):
            raise ArgumentError("A, b, C: every entry must be finite")
        weights = np.full(m, self.weights, dtype=np.float64) if np.ndim(self.weights) == 0 else self.weights
        weights = _vector("weights", weights, m)
        if not (np.isfinite(weights).all() and (weights >= 0.0).all()):
            raise ArgumentError(f"weights: expected finite numbers >= 0, got {weights}")
        lower = np.full(p, -np.inf) if self.lower is None else _vector("lower", self.lower, p)
        upper = np.full(p, np.inf) if self.upper is None else _vector("upper", self.upper, p)
        for name, bound, invalid in (("lower", lower, np.inf), ("upper", upper, -np.inf)):
            if np.isnan(bound).any() or (bound == invalid).any():
                raise ArgumentError(f"{name}: expected finite numbers or {-invalid}, got {bound}")
        for name, value in (("A", A), ("b", b), ("weights", weights), ("C", C), ("lower", lower), ("upper", upper)):
            object.__setattr__(self, name, value)

    @property
    def n(self) -> int:
        """Number of unknowns."""
        return int(self.A.shape[1])


def check_levels(levels: Sequence[Level]) -> int:
    """Returns the common number of columns of `levels`.

    Raises:
        ArgumentError: no level, an entry that is not a `Level`, or different numbers of columns.
    """
    if not levels:
        raise ArgumentError("levels: expected at least one Level, got none")
    for k, level in enumerate(levels):
        if not isinstance(level, Level):
            raise ArgumentError(f"levels[{k}]: expected a Level, got {type(level).__name__}")
        if level.n != levels[0].n:
            raise ArgumentError(
                f"levels[{k}]: has {level.n} columns, but levels[0] has {levels[0].n}; all levels must have the same "
                "number"
            )
    return levels[0].n


def check_options(rank_tolerance: float, damping: float, max_iterations: int) -> None:
    """Validates the options of a solve.

    Raises:
        ArgumentError: an option is out of its range; the message names it.
    """
    if not (np.isfinite(damping) and damping >= 0.0):
        raise ArgumentError(f"damping: expected a finite number >= 0, got {damping}")
    if not 0.0 <= rank_tolerance < 1.0:
        raise ArgumentError(
            f"rank_tolerance: expected a number in [0, 1), relative to the largest singular value, got {rank_tolerance}"
        )
    if max_iterations < 1:
        raise ArgumentError(f"max_iterations: expected at least 1, got {max_iterations}")


def _matrix(name: str, value: object) -> Array:
    """Returns `value` as a matrix of floats; raises `ArgumentError` under the given name if it is not one."""
    try:
        out = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name}: expected a matrix of numbers") from None
    if out.ndim != 2:
        raise ArgumentError(f"{name}: expected a matrix, got shape {out.shape}")
    return out


def _vector(name: str, value: object, size: int) -> Array:
    """Returns `value` as a vector (size,) of floats; raises `ArgumentError` under the given name if it is not one."""
    try:
        out = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name}: expected a vector of numbers") from None
    if out.shape != (size,):
        raise ArgumentError(f"{name}: expected shape ({size},), got {out.shape}")
    return out
