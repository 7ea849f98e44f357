"""The way down through the levels of a strict hierarchy, each within what those above it leave: NumPy, to be read.

First by equalities alone; where inequalities object, level by level with active sets (`active_set`, which see for the
words), and once more from there where the way had led far out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from quaddyn.hierarchy.level import Array, Level
from quaddyn.hierarchy.solver import BOTH_BOUNDS, HierarchySolution, LevelSolution, signed_violation

from .active_set import LevelProblem, Step
from .factor import row_factor
from .inequalities import VIOLATED, Rows, Sides

#: Where the way began this many times farther out than it ended, what was let pass as rounding there is looked at
#: again from here, up to so many times: nearly singular equalities alone may lead very far.
FAR, AGAIN = 1e1, 3


@dataclass(slots=True)
class _Walk:
    """What the way down through the levels collects."""

    x: Array
    steps: list[Step] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    working: list[Sides] = field(default_factory=list)
    iterations: int = 0
    ended: bool = True
    path: str = "equalities"


def descend(
    levels: Sequence[Level],
    *,
    rank_tolerance: float,
    damping: float,
    max_iterations: int,
    guess: Sequence[Sides] | None,
) -> HierarchySolution:
    """Solve the hierarchy; arguments checked by the caller, as documented at `solve`."""
    n = levels[0].n
    rows = Rows.stack(levels)
    objectives = [_objective(level, rows, k) for k, level in enumerate(levels)]
    objectives.append((np.eye(n), np.zeros(n)))  # the shortest x, where freedom is left

    lower, upper = rows.lower.copy(), rows.upper.copy()

    def walk(start: Array, look: bool, guess: Sequence[Sides] | None = None) -> _Walk:
        rows.lower[:], rows.upper[:] = lower, upper  # a walk settles for what its levels cannot keep
        out = _Walk(start, path="warm" if guess is not None else "active set") if look else _Walk(start)
        Z = np.eye(n)
        limits = np.arange(0)
        sides = np.zeros(len(rows.C), dtype=np.int8)
        for k, (M, target) in enumerate(objectives):
            own = np.flatnonzero((rows.level == k) & ~rows.equal)
            level_damping = damping if k < len(levels) else 0.0
            seen = limits if look else limits[:0]
            level = LevelProblem(rows, M, target, own, seen, Z, rank_tolerance, level_damping, np.zeros_like(sides))
            if not look:
                step = level.equations(out.x)
            else:
                trial = None if guess is None else level.trial(out.x, guess[k])
                if trial is None:
                    out.path = "active set"
                    level.sides[:] = 0
                    level.sides[limits] = sides[limits]
                    step, ended = level.solve(out.x, max_iterations)
                    out.ended &= ended
                    out.iterations += level.iterations
                else:
                    step = trial
            out.x, sides = step.x, level.sides
            out.steps.append(step)
            out.working.append(sides)
            fixed = level.fixed(step)
            lengths = np.concatenate([level.lengths, rows.lengths[fixed]])
            factor = row_factor(np.vstack([M, rows.C[fixed]]) @ Z, lengths, rank_tolerance)
            out.ranks.append(factor.rank)
            Z = Z @ factor.null
            limits = np.setdiff1d(np.concatenate([limits, own]), np.concatenate([fixed, level.spent(step, Z)]))
            if look:
                rows.settle(out.x, limits)
        return out

    way = walk(np.zeros(n), False)
    rows.reach = float(np.linalg.norm(way.x))
    if rows.slack(way.x, np.flatnonzero(~rows.equal)).any():
        way = walk(way.x, True, guess)
        for _ in range(AGAIN):
            size, before = float(np.linalg.norm(way.x)), rows.reach
            if not (way.ended and 0.0 < FAR * size < rows.reach):
                break
            rows.reach = size
            again = walk(way.x, True, way.working)
            if not again.ended:
                rows.reach = before
                break
            again.iterations += way.iterations
            again.path = way.path
            way = again
    return _solution(levels, rows, way)


def _objective(level: Level, rows: Rows, k: int) -> tuple[Array, Array]:
    """(M, target) of a level: weighted equalities and its own inequalities whose bounds meet; no rows of zeros."""
    root = np.sqrt(level.weights)
    meet = (rows.level == k) & rows.equal
    M = np.vstack([root[:, None] * level.A, rows.C[meet]])
    target = np.concatenate([root * level.b, rows.upper[meet]])
    used = M.any(axis=1)
    return M[used], target[used]


def _solution(levels: Sequence[Level], rows: Rows, way: _Walk) -> HierarchySolution:
    x = way.x
    sides = way.working[-1]
    out = []
    worst = 0.0
    for k, level in enumerate(levels):
        which = rows.level == k
        y = level.C @ x
        allowed = 2.0 * VIOLATED * rows.lengths[which] * max(float(np.linalg.norm(x)), rows.reach)
        violation = signed_violation(y, level.lower, level.upper, allowed)
        active = np.where(rows.equal[which], BOTH_BOUNDS, sides[which]).astype(np.int8)
        for held in way.working:
            active = np.where(active == 0, held[which], active)
        active = np.where((violation != 0.0) & (active != BOTH_BOUNDS), np.sign(violation), active).astype(np.int8)
        own = np.where(rows.equal[which], y - rows.upper[which], violation)
        pressing = (*(way.steps[k].multipliers[rows.level == j] for j in range(k)), own)
        kkt = way.steps[k].kkt
        worst = max(worst, kkt)
        crossed = bool((level.lower > level.upper).any())
        out.append(
            LevelSolution(
                level.b - level.A @ x,
                violation,
                way.ranks[k],
                active,
                pressing,
                kkt,
                not violation.any() and not crossed,
            )
        )
    status = "optimal" if out[0].feasible else "infeasible"
    if not way.ended or not np.isfinite(x).all():
        status = "inaccurate"
    return HierarchySolution(x, tuple(out), status, worst, way.iterations, way.path, tuple(way.working))
