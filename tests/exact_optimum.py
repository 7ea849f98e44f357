"""The strict optimum of a hierarchy with 300 digits, by an independent method: one weighted sum of squares.

Level k has the weight ``10^(-25 k)`` in one sum of squares, followed by ``|x|^2``.  With this precision a level can
gain at most 1e-25 of the cost of a level above, and directions to which the rows of a level are sensitive by less than
1e-12.5 of their length (rounding of the rows) are left to the levels below.  The sum is convex and
piecewise quadratic; Newton steps on the rows that are violated at a point, each with an exact line search, end at its
minimum after finitely many (Mangasarian 2002, "A finite Newton method for classification").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from mpmath import fdot, mp, mpf
from numpy.typing import NDArray

from quaddyn.wbc.tick_problem import LevelRows

Array = NDArray[np.float64]

SEPARATION = 25
BITS = 1000


def costs(levels: Sequence[LevelRows], x: Array) -> Array:
    """Norm of the violation of the rows of each level at x."""
    out = []
    for level in levels:
        y = level.C @ x
        over = np.maximum(y - level.upper, 0.0) + np.maximum(level.lower - y, 0.0)
        out.append(np.hypot(np.linalg.norm(level.A @ x - level.b), np.linalg.norm(over)))
    return np.array(out)


def optimum(levels: Sequence[LevelRows], start: Array, *, steps: int = 150) -> tuple[Array, Array] | None:
    """The optimum and the violation of each level there; None if it is not found in `steps` steps.

    Args:
        levels: the hierarchy.
        start: (n,) initial x; close to the optimum only few steps are needed, of 0.1 s each.
        steps: maximal number of steps.
    """
    with mp.workprec(BITS):
        return _Sum(levels, start).minimum(steps)


class _Sum:
    """The weighted sum with rows ``low <= R x <= high``; equalities have equal bounds."""

    def __init__(self, levels: Sequence[LevelRows], start: Array) -> None:
        self.levels = levels
        n = len(start)
        rows = [np.vstack((level.A, level.C)) for level in levels] + [np.eye(n)]
        low = [np.concatenate((level.b, level.lower)) for level in levels] + [np.zeros(n)]
        high = [np.concatenate((level.b, level.upper)) for level in levels] + [np.zeros(n)]
        weight = mpf(10) ** -SEPARATION
        self.rows = [[mpf(v) for v in row] for row in np.vstack(rows).tolist()]
        self.low = [mpf(v) if v > -1e100 else mpf("-inf") for v in np.concatenate(low).tolist()]
        self.high = [mpf(v) if v < 1e100 else mpf("inf") for v in np.concatenate(high).tolist()]
        self.weights = [weight**k for k, part in enumerate(rows) for _ in part]
        self.wanted = [a == b for a, b in zip(self.low, self.high, strict=True)]
        self.x = [mpf(v) for v in start.tolist()]

    def lack(self, y: Sequence[Any]) -> list[Any]:
        """Violation of the bounds of each row."""
        return [max(v - h, 0) + min(v - a, 0) for v, a, h in zip(y, self.low, self.high, strict=True)]

    def minimum(self, steps: int) -> tuple[Array, Array] | None:
        """The minimizer of the sum, and the violation of each level."""
        settled = None
        for _ in range(steps):
            y = [fdot(row, self.x) for row in self.rows]
            lack = self.lack(y)
            sides = [0 if wanted else int(mp.sign(v)) for v, wanted in zip(lack, self.wanted, strict=True)]
            if sides == settled:
                out = np.array([float(v) for v in self.x])
                return out, self._split(lack)
            step = self._step(lack, [s != 0 or wanted for s, wanted in zip(sides, self.wanted, strict=True)])
            change = [fdot(row, step) for row in self.rows]
            there = self.lack([a + d for a, d in zip(y, change, strict=True)])
            after = [0 if wanted else int(mp.sign(v)) for v, wanted in zip(there, self.wanted, strict=True)]
            share = mpf(1) if after == sides else self._search(y, change)
            settled = sides if after == sides else None
            self.x = [a + share * d for a, d in zip(self.x, step, strict=True)]
        return None

    def _split(self, lack: Sequence[Any]) -> Array:
        out, start = [], 0
        for level in self.levels:
            count = len(level.b) + len(level.lower)
            out.append(float(mp.sqrt(sum(v * v for v in lack[start : start + count]))))
            start += count
        return np.array(out)

    def _step(self, lack: Sequence[Any], counts: Sequence[bool]) -> list[Any]:
        """Newton step from the violated rows: ``R^T W R p = -R^T W lack`` by Cholesky factorization."""
        which = [i for i, c in enumerate(counts) if c]
        columns = list(zip(*(self.rows[i] for i in which), strict=True))
        heavy = [[self.weights[i] * v for i, v in zip(which, column, strict=True)] for column in columns]
        gone = [lack[i] for i in which]
        n = len(columns)
        L: list[list[Any]] = [[] for _ in range(n)]
        p: list[Any] = []
        for i in range(n):
            for j in range(i):
                L[i].append((fdot(heavy[i], columns[j]) - fdot(L[i][:j], L[j][:j])) / L[j][j])
            L[i].append(mp.sqrt(fdot(heavy[i], columns[i]) - fdot(L[i], L[i])))
            p.append((-fdot(heavy[i], gone) - fdot(L[i][:i], p)) / L[i][i])
        for i in range(n - 1, -1, -1):
            p[i] = (p[i] - sum(L[k][i] * p[k] for k in range(i + 1, n))) / L[i][i]
        return p

    def _search(self, y: Sequence[Any], change: Sequence[Any]) -> Any:
        """Step length of the exact line search; the slope is piecewise linear and increasing."""
        pull = [w * d for w, d in zip(self.weights, change, strict=True)]

        def slope(t: Any) -> Any:
            return fdot(pull, self.lack([a + t * d for a, d in zip(y, change, strict=True)]))

        bends = []
        for a, d, low, high, wanted in zip(y, change, self.low, self.high, self.wanted, strict=True):
            if d != 0 and not wanted:
                bends += [t for t in ((low - a) / d, (high - a) / d) if 0 < t < mp.inf]
        bends = sorted(bends)
        first, last = 0, len(bends)
        while first < last:
            middle = (first + last) // 2
            first, last = (middle + 1, last) if slope(bends[middle]) < 0 else (first, middle)
        start = bends[first - 1] if first else mpf(0)
        end = bends[first] if first < len(bends) else start + 1
        a, b = slope(start), slope(end)
        return start - a * (end - start) / (b - a)


def excess(levels: Sequence[LevelRows], x: Array, *, steps: int = 150) -> list[float] | None:
    """Excess of each level's violation at x, relative to the larger of its optimum and 1; None without an optimum.

    The list ends at a level with less violation than at the optimum: x may use directions to which the levels above
    are sensitive only by rounding and which are fixed here, so that lower levels cannot be compared.
    """
    found = optimum(levels, x, steps=steps)
    if found is None:
        return None
    out: list[float] = []
    for mine, best in zip(costs(levels, x), found[1], strict=True):
        share = float(mine - best) / max(float(best), 1.0)
        if share < -1e-9:
            break
        out.append(max(share, 0.0))
    return out
