"""One level of the strict hierarchy by a primal active set: NumPy, to be read; the way down is in `descent`.

Notation: `x` is feasible for every level above; ``x + Z z`` are all points that leave what those levels reached
unchanged, if they also keep the inequalities that those levels kept (the *limits*).  A level then solves

    ``min_z |M (x + Z z) - target|^2 + sum over its own inequalities of (distance)^2``  within the limits.

Working set: limits held at a bound (equations), and own inequalities held at a bound in the least-squares sense (rows
of the objective; the distance is the row's slack).  Each round solves the equations exactly by two rank-revealing
factorizations, walks there until an inequality outside the set blocks (it joins), and on arrival drops the entry whose
multiplier (for own rows: whose slack) has most the wrong sign; where none has, this is the optimum.  Every step keeps
the limits and decreases the objective, so that even an interrupted solve disturbs no level above.

Source: Escande, Mansard and Wieber, *Hierarchical quadratic programming: fast online humanoid-robot motion
generation*, IJRR 2014; primal active sets: Nocedal and Wright, *Numerical Optimization*, 2nd edition, section 16.5.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from quaddyn.hierarchy.level import Array

from .factor import EPS, RowFactor, row_factor
from .inequalities import KEPT, VIOLATED, Rows, Sides

#: Rows of the working set are held independent beyond this relative remainder.
INDEPENDENT = 1e-12
#: A multiplier has the wrong sign beyond this share of the size of the gradient's terms, a slack beyond that of its
#: row's: where a level is nearly flat, what is let pass as rounding may hold x far from its optimum.
SIGN = 1e-14
#: Multipliers below that are looked at once more if they exceed this share of what the gradient's terms do sum up to;
#: without them the level's rows must move by more than this share of their own terms for that to count.
FINE, MOVED = 1e-15, 1e-14
#: How often a row may be let go on that account, in one level.
OFTEN = 3
#: A limit is tied to its bound for good where its multiplier exceeds this share.
TIED = 1e-8
#: Where it presses less, it is no limit to the levels below if it lies in what is decided already, to within this.
SPENT, ROUNDING = 1e-7, 1e-12
#: Share of the largest conceivable gradient that the certificate's unit does not fall below.
FLOOR = 1e-4
#: Rows whose lengths differ by more than this are first tried at equal lengths: squares leave 1e-16 only so far.
SPREAD = 1e3


@dataclass(slots=True)
class Step:
    """The optimum of one level for one working set."""

    x: Array
    multipliers: Array  # of all rows, for this level's objective
    kkt: float
    scale: float  # what the gradient's terms can sum up to
    fine: float  # what they do sum up to


@dataclass(slots=True)
class LevelProblem:
    """One level's least-squares problem and its solve."""

    rows: Rows
    M: Array  # weighted equalities and own rows with equal bounds
    target: Array
    own: NDArray[np.intp]
    limits: NDArray[np.intp]
    Z: Array
    rank_tolerance: float
    damping: float
    sides: Sides
    iterations: int = 0
    lengths: Array = field(init=False)

    def __post_init__(self) -> None:
        self.lengths = np.linalg.norm(self.M, axis=1)

    def working(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The limits that are held, and the own inequalities."""
        return self.limits[self.sides[self.limits] != 0], self.own[self.sides[self.own] != 0]

    def equations(self, x: Array) -> Step:
        """The optimum with the working set held at its bounds, all other inequalities forgotten."""
        rows, Z = self.rows, self.Z
        held, soft = self.working()
        H = row_factor(rows.C[held] @ Z, rows.lengths[held], INDEPENDENT)
        x = x + Z @ H.least_squares(rows.bound(held, self.sides) - rows.C[held] @ x)
        N = Z @ H.null
        M = np.vstack([self.M, rows.C[soft]])
        target = np.concatenate([self.target, rows.bound(soft, self.sides)])
        lengths = np.concatenate([self.lengths, rows.lengths[soft]])
        if self.damping:
            n = len(x)
            M, target = np.vstack([M, self.damping * np.eye(n)]), np.concatenate([target, np.zeros(n)])
            lengths = np.concatenate([lengths, np.full(n, self.damping)])
        free = row_factor(M @ N, lengths, self.rank_tolerance)
        x = x + N @ free.least_squares(target - M @ x)
        decided = np.hstack([H.range, H.null @ free.range])
        return self._certify(x, M, target, lengths, held, soft, H, decided)

    def _certify(
        self,
        x: Array,
        M: Array,
        target: Array,
        lengths: Array,
        held: NDArray[np.intp],
        soft: NDArray[np.intp],
        H: RowFactor,
        decided: Array,
    ) -> Step:
        rows = self.rows
        y = M @ x
        residual = y - target
        gradient = self.Z.T @ (M.T @ residual)
        multipliers = np.zeros(len(rows.C))
        multipliers[held] = H.multipliers(gradient)
        multipliers[soft] = residual[len(self.M) : len(self.M) + len(soft)]
        gradient = gradient + self.Z.T @ (rows.C[held].T @ multipliers[held])
        left = decided.T @ gradient
        scale = float(lengths @ (np.abs(target) + lengths * max(float(np.linalg.norm(x)), rows.reach))) + 1e-300
        # The terms as they are, not as large as they might be: an error must not hide behind large x alone.
        unit = float(lengths @ (np.abs(target) + np.abs(y))) + FLOOR * scale
        # A limit presses only where it is reached: elsewhere its multiplier is an error of the gradient.
        bound = rows.bound(held, self.sides)
        away = np.abs(rows.C[held] @ x - bound)
        allowed = VIOLATED * (rows.lengths[held] * max(float(np.linalg.norm(x)), rows.reach) + np.abs(bound))
        false = np.abs(multipliers[held])[away > allowed] * rows.lengths[held][away > allowed]
        error = max(float(np.linalg.norm(left)), float(false.max(initial=0.0)))
        # Where nothing was decided, what the tolerance of rank does not explain: nearly flat directions go far.
        lack, fine = np.abs(residual), float(lengths @ np.abs(residual))
        undecided = float(np.linalg.norm(gradient - decided @ left))
        explained = max(self.rank_tolerance, 8.0 * EPS) * fine + 16.0 * EPS * lengths.max(initial=0.0) * lack.sum()
        slope = max(undecided - 2.0 * explained, 0.0)
        missed = 2.0 * slope * max(float(np.linalg.norm(x)), rows.reach) / max(float(lack @ lack), 1e-300)
        return Step(x, multipliers, max(error / unit, self._trespass(x), missed), scale, fine)

    def _trespass(self, x: Array) -> float:
        """By which share of the size of its terms a limit of the levels above is violated; 0 within `VIOLATED`."""
        rows, limits = self.rows, self.limits
        size = rows.lengths[limits] * max(float(np.linalg.norm(x)), rows.reach)
        over = np.abs(rows.slack(x, limits, VIOLATED)) / np.where(size > 0.0, size, 1.0)
        return float(over.max(initial=0.0))

    def wrong(self, step: Step) -> Array:
        """Per row, by how much its multiplier or slack has the wrong sign, in the unit of the gradient; 0 if right."""
        rows = self.rows
        _, soft = self.working()
        wrong = -step.multipliers * self.sides * rows.lengths
        out = np.where(wrong > SIGN * step.scale, wrong, 0.0)
        # A slack is judged on the scale of its own row: rows of one level may differ by many decades.
        inside = -step.multipliers[soft] * self.sides[soft]
        bound = np.where(self.sides > 0, rows.upper, rows.lower)
        out[soft] = np.where(inside > rows.allowance(step.x, soft, SIGN)(bound), wrong[soft], 0.0)
        return out

    def overlooked(self, step: Step, looked: Sides) -> int:
        """A row whose multiplier has the wrong sign by little, and that keeps the level from what it could reach.

        Along a direction in which a level is nearly flat a slope of 1e-9 may go on for a long way.  What rounding
        leaves of a multiplier is told from it by what the level's rows do when the row is let go.

        Args:
            step: the optimum for the working set.
            looked: how often each row was let go on this account; counted here.

        Returns:
            The row, -1 for none, -2 if one that was let go too `OFTEN` still is.
        """
        rows, x = self.rows, step.x
        size = max(float(np.linalg.norm(x)), rows.reach)
        _, soft = self.working()
        noise = MOVED * (self.lengths * size + np.abs(self.target))
        bound = np.where(self.sides > 0, rows.upper, rows.lower)
        others = rows.allowance(x, soft, MOVED)(bound)
        lacks = (np.abs(self.M @ x - self.target) > noise).any() or (np.abs(step.multipliers[soft]) > others).any()
        wrong = -step.multipliers * self.sides * rows.lengths
        if not lacks:
            return -1
        for row in np.argsort(-wrong):
            if not wrong[row] > FINE * step.fine:
                break
            side, self.sides[row] = self.sides[row], 0
            move = self.equations(x).x - x
            if (np.abs(self.M @ move) > noise).any() or (np.abs(rows.C[soft] @ move) > others).any():
                looked[row] += 1
                if looked[row] <= OFTEN:
                    return int(row)
                self.sides[row] = side
                return -2
            self.sides[row] = side
        return -1

    def blocked(self, x: Array, to: Array) -> tuple[float, int, int]:
        """How far the way from x is open: share of the step, the row that blocks (-1: none) and its side."""
        rows = self.rows
        outside = np.concatenate([self.limits, self.own])
        outside = outside[self.sides[outside] == 0]
        if not len(outside):
            return 1.0, -1, 0
        slack = rows.slack(to, outside)
        hit = np.flatnonzero(slack)
        if not len(hit):
            return 1.0, -1, 0
        which, side = outside[hit], np.sign(slack[hit]).astype(int)
        start, end = rows.C[which] @ x, rows.C[which] @ to
        bound = np.where(side > 0, rows.upper[which], rows.lower[which])
        move = end - start
        share = np.clip(np.where(move * side > 0.0, (bound - start) / np.where(move == 0.0, 1.0, move), 0.0), 0.0, 1.0)
        i = int(np.argmin(share))
        return float(share[i]), int(which[i]), int(side[i])

    def trial(self, x: Array, guess: Sides) -> Step | None:
        """The optimum, if `guess` is its working set."""
        rows = self.rows
        possible = np.where(guess > 0, rows.upper, rows.lower)
        for which in (self.limits, self.own):
            self.sides[which] = np.where(np.isfinite(possible[which]), guess[which], 0)
        held, _ = self.working()
        step = self.equations(x)
        missed = np.abs(rows.C[held] @ step.x - rows.bound(held, self.sides))
        if (missed > rows.allowance(step.x, held)(possible)).any():
            return None
        if self.blocked(x, step.x)[1] >= 0 or self.wrong(step).any():
            return None
        return step if self.overlooked(step, np.zeros_like(self.sides)) == -1 else None

    def fixed(self, step: Step) -> NDArray[np.intp]:
        """The inequalities that this level's optimum leaves no choice to: violated ones and limits it presses on."""
        held, soft = self.working()
        press = np.abs(step.multipliers[held]) * self.rows.lengths[held]
        return np.concatenate([held[press > TIED * step.scale], soft[self.rows.slack(step.x, soft, VIOLATED) != 0.0]])

    def spent(self, step: Step, Z: Array) -> NDArray[np.intp]:
        """The limits that this level presses on, if only lightly, and that what it decided leaves no choice to.

        ``sum_i lambda_i C_i`` balances a gradient that no step along Z changes: a single light row among heavy ones
        does not change along Z either.  Rounding over a small lambda leaves it a remainder that must not count as a
        direction of its own.
        """
        held, _ = self.working()
        press = step.multipliers[held] * self.sides[held]
        left = np.linalg.norm(self.rows.C[held] @ Z, axis=1)
        none = (left <= SPENT * self.rows.lengths[held]) & (press * left <= ROUNDING * step.scale)
        return np.asarray(held[none & (press * self.rows.lengths[held] > SIGN * step.scale)])

    def solve(self, x: Array, cap: int) -> tuple[Step, bool]:
        """The optimum from a feasible x; whether the active set was found.

        If a level can be kept entirely the lengths of its rows mean nothing; where they differ by decades it is
        first tried with rows of equal length, which loses no digits.
        """
        lengths = np.concatenate([self.lengths, self.rows.lengths[self.own]])
        lengths = lengths[lengths > 0.0]
        if len(self.own) and len(lengths) and lengths.max() > SPREAD * lengths.min() and not self.damping:
            even = LevelProblem(self.rows.unit(), self.M / self.lengths[:, None], self.target / self.lengths, self.own,
                          self.limits, self.Z, self.rank_tolerance, 0.0, self.sides.copy())  # fmt: skip
            step, ended = even.rounds(x, cap)
            self.iterations += even.iterations
            x = step.x
            off = np.abs(self.M @ x - self.target)
            size = self.lengths * max(float(np.linalg.norm(x)), self.rows.reach) + np.abs(self.target)
            if ended and (off <= KEPT * size).all() and not self.rows.slack(x, self.own).any():
                step.multipliers[:] = 0.0
                self.sides[:] = even.sides
                return step, True
        return self.rounds(x, cap)

    def rounds(self, x: Array, cap: int) -> tuple[Step, bool]:
        """Active-set rounds from a feasible x; whether they came to an end."""
        rows = self.rows
        slack = rows.slack(x, self.own)
        self.sides[self.own] = np.sign(slack).astype(np.int8)
        self.sides[self.own[rows.equal[self.own]]] = 0  # they are rows of M
        stuck = 0
        looked = np.zeros(len(self.sides), dtype=np.int8)
        for _ in range(cap):
            step = self.equations(x)
            share, row, side = self.blocked(x, step.x)
            if row >= 0:
                self.iterations += 1
                x = x + share * (step.x - x)
                self.sides[row] = side
                stuck = stuck + 1 if share == 0.0 else 0
                continue
            x = step.x
            wrong = self.wrong(step)
            if not wrong.any():
                row = self.overlooked(step, looked)
                if row < 0:
                    return step, row == -1
                self.iterations += 1
                continue
            self.iterations += 1
            # Bland's rule (the lowest index) ends cycles at a degenerate point; the largest is faster elsewhere.
            row = int(np.flatnonzero(wrong)[0]) if stuck > 20 else int(np.argmax(wrong))
            self.sides[row] = 0
        step.x = x
        return step, False
