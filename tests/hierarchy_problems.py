"""Random strict hierarchies of many difficult kinds, and an independent check of their solutions.

`check_optimality` does not use active sets. For each level it fixes the values of the rows above, computes their null
space from singular values, solves the quadratic program of the level with an interior-point solver and compares
objectives: if no level can be improved with the levels above fixed, the solution is the lexicographic optimum. Whether
that solver converges on a badly scaled level depends on its version and on the processor; if it does not, the whole
hierarchy is compared with the optimum of `exact_optimum`, which uses 300 digits.
"""

from dataclasses import dataclass

import exact_optimum
import numpy as np

from quaddyn.hierarchy import Level
from quaddyn.wbc.tick_problem import LevelRows, TickProblem

KINDS = (
    "generic",
    "rank deficient",
    "conflicting",
    "duplicated rows",
    "infeasible",
    "degenerate",
    "empty levels",
    "badly scaled",
    "all levels bounded",
    "equal bounds",
    "crossed bounds",
    "box",
    "cones",
)


def problem(kind, rng):
    """A random hierarchy of the given kind."""
    n = int(rng.integers(2, 25))
    count = int(rng.integers(1, 5))
    point = rng.normal(size=n)  # satisfies the inequalities of the first level in most kinds

    def equalities(m):
        return rng.normal(size=(m, n)), 3.0 * rng.normal(size=m)

    def bounds(p, around):
        C = rng.normal(size=(p, n))
        y = C @ around
        lower = np.where(rng.random(p) < 0.3, -np.inf, y - rng.exponential(size=p))
        upper = np.where(rng.random(p) < 0.3, np.inf, y + rng.exponential(size=p))
        return C, lower, upper

    levels = []
    for k in range(count):
        A, b = equalities(int(rng.integers(0, n + 3)))
        p = int(rng.integers(1, 3 * n)) if k == 0 or kind == "all levels bounded" else 0
        C, lower, upper = bounds(p, point if k == 0 else 2.0 * rng.normal(size=n))
        weights = rng.exponential(size=len(A)) + 0.01
        if k == 0:
            # Equalities that are compatible with the inequalities, so that level 0 is feasible.
            A, b, weights = A[: n // 2], (A @ point)[: n // 2], weights[: n // 2]
        levels.append([A, b, weights, C, lower, upper])
    for k, level in enumerate(levels):
        A, b, weights, C, lower, upper = level
        m, p = len(A), len(C)
        if kind == "rank deficient" and m:
            r = max(1, min(m, n) // 2)
            A = rng.normal(size=(m, r)) @ rng.normal(size=(r, n)) / np.sqrt(r)
            b = A @ point if k == 0 else b
        if kind == "conflicting" and k and m:
            A = np.vstack([A, levels[k - 1][0]])
            b = np.concatenate([b, rng.normal(size=len(A) - m)])
            weights = np.concatenate([weights, np.ones(len(A) - m)])
        if kind == "duplicated rows":
            A, b, weights = np.vstack([A, A]), np.concatenate([b, b]), np.concatenate([weights, weights])
            C, lower, upper = np.vstack([C, C, -2.0 * C]), *(np.concatenate(x) for x in (
                (lower, lower, -2.0 * upper), (upper, upper, -2.0 * lower)))  # fmt: skip
        if kind == "infeasible" and k == 0:
            y = C @ rng.normal(size=n)
            lower, upper = y + rng.normal(size=p), np.full(p, np.inf)
            both = rng.random(p) < 0.5
            lower, upper = np.where(both, lower, -np.inf), np.where(both, upper, y + rng.normal(size=p))
            C = np.vstack([C, -C])
            lower, upper = np.concatenate([lower, lower]), np.concatenate([upper, upper])
        if kind == "degenerate":
            # Small integers, and more bounds than dimensions that intersect in one point.
            A, C = np.round(A), np.round(C)
            vertex = np.round(point)
            b = A @ vertex if k == 0 else np.round(b)
            y = C @ vertex
            lower = np.where(np.isfinite(lower), y, -np.inf)
            upper = np.where(np.isfinite(lower), np.inf, y)
        if kind == "empty levels" and rng.random() < 0.5:
            A, b, weights = A[:0], b[:0], weights[:0]
            if rng.random() < 0.5:
                C, lower, upper = C[:0], lower[:0], upper[:0]
        if kind == "badly scaled":
            rows = 10.0 ** rng.uniform(-3, 3, size=len(A))
            A, b = rows[:, None] * A, rows * b
            rows = 10.0 ** rng.uniform(-4, 4, size=len(C))
            C, lower, upper = rows[:, None] * C, rows * lower, rows * upper
        if kind == "equal bounds" and p:
            same = rng.random(p) < 0.2 * min(1.0, n / p)
            at = C @ point
            lower, upper = np.where(same, at, lower), np.where(same, at, upper)
        if kind == "crossed bounds" and p:
            same = rng.random(p) < 0.2
            at = C @ point
            lower, upper = np.where(same, at + 0.5, lower), np.where(same, at - 0.5, upper)
        if kind == "box" and k == 0:
            C, lower, upper = np.eye(n), np.full(n, -0.5), np.full(n, 0.5)
            A, b, weights = A[:0], b[:0], weights[:0]
        if kind == "cones" and k == 0:
            feet = n // 3
            C = np.zeros((5 * feet, n))
            for f in range(feet):
                for side in range(4):
                    axis = (1.0, 0.0) if side < 2 else (0.0, 1.0)
                    C[5 * f + side, 3 * f : 3 * f + 3] = (*((-1) ** side * np.array(axis)), -0.5)
                C[5 * f + 4, 3 * f + 2] = -1.0
            lower, upper = np.full(len(C), -np.inf), np.zeros(len(C))
            A, b, weights = A[:0], b[:0], weights[:0]
        levels[k] = [A, b, weights, C, lower, upper]
    return [Level(A, b, weights=w, C=C, lower=lo, upper=hi) for A, b, w, C, lo, hi in levels]


def levels_of(problem: TickProblem) -> list[Level]:
    """The levels of the problem of a whole-body tick."""
    return [Level(rows.A, rows.b, C=rows.C, lower=rows.lower, upper=rows.upper) for rows in problem.matrices()]


@dataclass
class Verdict:
    """excess: largest possible improvement of a level, relative to the tolerance (<= 1 passes); violation: largest
    violation of rows of the levels above; doubtful: number of levels that neither reference could solve."""

    excess: float = 0.0
    violation: float = 0.0
    doubtful: int = 0


def objective(level, x):
    """Half of the objective of a level; crossed bounds are replaced by their mean."""
    r = level.A @ x - level.b
    lower, upper = merged(level)
    y = level.C @ x
    d = np.maximum(lower - y, 0.0) + np.maximum(y - upper, 0.0)
    return 0.5 * float(level.weights @ (r * r) + d @ d)


def merged(level):
    crossed = level.lower > level.upper
    middle = np.where(crossed, 0.5 * (np.where(crossed, level.lower, 0) + np.where(crossed, level.upper, 0)), 0.0)
    return np.where(crossed, middle, level.lower), np.where(crossed, middle, level.upper)


def plain_rows(level):
    """The rows of a level for `exact_optimum`, with weights multiplied in and crossed bounds replaced."""
    root = np.sqrt(level.weights)
    return LevelRows(root[:, None] * level.A, root * level.b, level.C, *merged(level))


def null_space(R):
    if not len(R):
        return np.eye(R.shape[1])
    length = np.linalg.norm(R, axis=1)
    R = R[length > 0] / length[length > 0, None]
    if not len(R):
        return np.eye(R.shape[1])
    _, s, Vt = np.linalg.svd(R)
    return Vt[np.count_nonzero(s > 1e-10) :].T


def check_optimality(levels, x):
    """Compares a solution with the interior-point optimum of every level."""
    import piqp

    verdict = Verdict()
    n = levels[0].n
    frozen = np.zeros((0, n))
    limits = (np.zeros((0, n)), np.zeros(0), np.zeros(0))
    for level in levels:
        Z = null_space(frozen)
        ours = objective(level, x)
        lower, upper = merged(level)
        y = level.C @ x
        size = np.linalg.norm(level.C, axis=1) * np.linalg.norm(x) + 1e-300
        off = np.where(y > upper, y - upper, np.where(y < lower, y - lower, 0.0))
        G, low, high = limits
        if len(G):
            length = np.linalg.norm(G, axis=1) * (1.0 + np.linalg.norm(x)) + 1e-300
            verdict.violation = max(verdict.violation, float(np.max(np.maximum(low - G @ x, G @ x - high) / length)))
        if Z.shape[1] and ours > 0.0:
            gap, best = reference(level, lower, upper, x, Z, limits, piqp)
            if best is None:
                verdict.doubtful += 1
            else:
                rounding = 1e-14 * objective(level, np.zeros(n))
                verdict.excess = max(verdict.excess, (ours - best) / (1e-9 * ours + rounding + gap))
        broken = np.abs(off) > 1e-10 * size
        frozen = np.vstack([frozen, level.A[level.weights > 0], level.C[broken]])
        keep = ~broken
        limits = tuple(
            np.concatenate([a, b]) for a, b in zip(limits, (level.C[keep], lower[keep], upper[keep]), strict=True)
        )
    if verdict.doubtful:
        worse = exact_optimum.excess([plain_rows(level) for level in levels], x)
        if worse is not None and len(worse) == len(levels):
            verdict.excess, verdict.doubtful = max(verdict.excess, max(worse) / 1e-9), 0
    return verdict


def reference(level, lower, upper, x, Z, limits, piqp):
    """Error and optimum of the interior-point solver for one level, from x along Z; None if it does not converge."""
    root = np.sqrt(level.weights)
    A, r = root[:, None] * level.A @ Z, root * (level.b - level.A @ x)
    d, p = Z.shape[1], len(level.C)
    # variables: z, slack of the own inequalities
    P = np.zeros((d + p, d + p))
    P[:d, :d] = A.T @ A
    P[d:, d:] = np.eye(p)
    c = np.concatenate([-A.T @ r, np.zeros(p)])
    G0, low0, high0 = limits
    scale0 = 1.0 / np.maximum(np.linalg.norm(G0, axis=1), 1e-300)
    G = np.vstack([
        np.hstack([scale0[:, None] * (G0 @ Z), np.zeros((len(G0), p))]),
        np.hstack([level.C @ Z, -np.eye(p)]),
    ])  # fmt: skip
    y0, y1 = G0 @ x, level.C @ x
    # x satisfies the limits up to rounding, which the reference may use, too
    low = np.concatenate([scale0 * np.minimum(low0 - y0, 0.0), lower - y1])
    high = np.concatenate([scale0 * np.maximum(high0 - y0, 0.0), upper - y1])
    bounded = np.isfinite(low) | np.isfinite(high)
    G, low, high = G[bounded], low[bounded], high[bounded]
    solver = piqp.DenseSolver()
    s = solver.settings
    s.eps_abs = s.eps_rel = s.eps_duality_gap_abs = s.eps_duality_gap_rel = 1e-12
    s.max_iter = 500
    solver.setup(np.asfortranarray(P), c, G=np.asfortranarray(G), h_l=low, h_u=high)
    solver.solve()
    res = solver.result
    v = np.array(res.x)
    if not np.isfinite(v).all():
        return 0.0, None
    lam = np.array(res.z_u) - np.array(res.z_l)
    stationarity = np.abs(P @ v + c + G.T @ lam).max(initial=0.0)
    primal = max(np.maximum(low - G @ v, G @ v - high).max(initial=0.0), 0.0)
    value = 0.5 * v @ P @ v + c @ v + 0.5 * r @ r
    facing = np.where(lam > 0.0, np.where(np.isfinite(high), high, 0.0), np.where(np.isfinite(low), low, 0.0))
    dual = -0.5 * v @ P @ v - lam @ facing + 0.5 * r @ r
    gap = abs(value - dual) + stationarity * (np.abs(v).sum() + 1.0) + primal * np.abs(lam).sum()
    if gap > 1e-6 * (1.0 + abs(value)):
        return gap, None
    return gap, value
