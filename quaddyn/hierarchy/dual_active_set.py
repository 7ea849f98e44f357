"""The point of a polyhedron nearest to the origin, by a dual active set.

Source: Goldfarb and Idnani, *A numerically stable dual method for solving strictly convex quadratic programs*, 1983,
with the identity for a Hessian.
"""

from __future__ import annotations

import math

from ..compiler import IntVector, Matrix, Vector, compiled
from ..compiler.lanes import gemv_add, gemv_transposed, reflect_rows, rotate, row_squares
from ..compiler.linalg import unit_reflector
from .workspace import KEPT, LIMIT, GuessWork, Hierarchy

#: A row is independent of the active ones if more than this share of its length is left of it.
NEW = 1e-10


@compiled()
def start_nearest(h: Hierarchy, g: GuessWork, G: Matrix, d: int, reach: float) -> None:
    """Nothing active, u = 0, J = I; bounds as far as rounding allows, prices of the rows that may join."""
    u, lower, upper, length = h.work.z, h.work.lower, h.work.upper, h.problem.C_length
    row_squares(g.G_square, G, d, h.p)
    for i in range(h.p):
        g.sides[i] = 0
        g.multipliers[i] = 0.0
        g.lower[i] = lower[i] - 0.5 * KEPT * (length[i] * reach + abs(lower[i]))
        g.upper[i] = upper[i] + 0.5 * KEPT * (length[i] * reach + abs(upper[i]))
        g.price[i] = 1.0 / g.G_square[i] if h.work.role[i] == LIMIT else 0.0
    for j in range(d):
        u[j] = 0.0
        for k in range(d):
            g.J[j, k] = 0.0
        g.J[j, j] = 1.0


@compiled()
def most_violated(g: GuessWork, value: Vector, p: int) -> int:
    """The inequality farthest from being kept, measured along its normal; -1 if all are kept."""
    lower, upper, price = g.lower, g.upper, g.price
    worst = -1
    most = 0.0
    for i in range(p):
        over = max(value[i] - upper[i], lower[i] - value[i])
        far = over * abs(over) * price[i]
        if far > most:
            most = far
            worst = i
    return worst


@compiled()
def add_row(g: GuessWork, i: int, q: int, d: int, square: float) -> None:
    """Row i becomes active row q: a reflection turns what is left of its normal, of that squared length, into J[q]."""
    R, along = g.R, g.along
    rest = along[q:]
    for k in range(q):
        R[q, k] = along[k]
    R[q, q] = unit_reflector(rest, math.sqrt(square), d - q)
    reflect_rows(g.J[q:], rest, d - q, d)
    g.active[q] = i
    g.price[i] = 0.0


@compiled()
def drop_row(R: Matrix, J: Matrix, active: IntVector, leaving: int, q: int, d: int) -> None:
    """Take the active row at a position out of q + 1: rotations make R triangular again."""
    for k in range(leaving, q):
        active[k] = active[k + 1]
        for j in range(k + 2):
            R[k, j] = R[k + 1, j]
    for k in range(leaving, q):
        a, b = R[k, k], R[k, k + 1]
        length = math.sqrt(a * a + b * b)
        if length == 0.0:
            continue
        a /= length
        b /= length
        R[k, k] = length
        R[k, k + 1] = 0.0
        for j in range(k + 1, q):
            x, y = R[j, k], R[j, k + 1]
            R[j, k] = a * x + b * y
            R[j, k + 1] = a * y - b * x
        rotate(J[k], J[k + 1], a, b, d)


@compiled()
def dual_step(g: GuessWork, q: int, d: int) -> tuple[float, float, int]:
    """What happens as the new row's multiplier grows: rates of the others, and when the first becomes zero.

    Returns:
        The squared length of what is left of the new row's normal; the multiplier at which a row leaves (inf for
        none), and its position.
    """
    R, along, rate, multipliers, active = g.R, g.along, g.rate, g.multipliers, g.active
    gemv_transposed(along, g.J, g.normal, d, d)
    square = 0.0
    for k in range(q, d):
        square += along[k] * along[k]
    for k in range(q):
        rate[k] = along[k]
    for k in range(q - 1, -1, -1):
        f = rate[k] / R[k, k]
        rate[k] = f
        for j in range(k):
            rate[j] -= f * R[k, j]
    room = math.inf
    leaving = -1
    for k in range(q):
        if rate[k] > 0.0 and multipliers[active[k]] / rate[k] < room:
            room = multipliers[active[k]] / rate[k]
            leaving = k
    return square, room, leaving


@compiled(inline=False)
def nearest(h: Hierarchy, g: GuessWork, first: int, reach: float) -> tuple[bool, int]:
    """The u of minimum norm with ``lower <= at_start + G u <= upper`` for the limits: (found, changes).

    From u = 0 the most violated limit joins; multipliers that would turn negative on the way leave.  Leaves u in `z`,
    the active rows in `sides` and their multipliers, >= 0, in `multipliers`.

    Args:
        h: the hierarchy; roles say which inequalities are limits.
        g: normals G, and memory.
        first: the column of G to begin with.
        reach: size of x, for what rounding allows.
    """
    G, J, d, u, value = g.G[first:], g.J, h.n - first, h.work.z, h.work.at_z
    lower, upper, multipliers, active, normal, rate = (
        h.work.lower,
        h.work.upper,
        g.multipliers,
        g.active,
        g.normal,
        g.rate,
    )
    start_nearest(h, g, G, d, reach)
    q = 0
    changes = 0
    for _ in range(4 * d + 50):
        gemv_add(value, h.work.at_start, u, G, d, h.p)
        new = most_violated(g, value, h.p)
        if new < 0:
            return True, changes
        if not g.G_square[new] > 0.0:
            return False, changes
        changes += 1
        side = 1 if value[new] > upper[new] else -1
        over = (value[new] - upper[new]) if side > 0 else (lower[new] - value[new])
        for j in range(d):
            normal[j] = -side * G[j, new]
        own = 0.0
        while True:
            square, room, leaving = dual_step(g, q, d)
            full = over / square if square > NEW * NEW * g.G_square[new] else math.inf
            t = min(room, full)
            if not t < math.inf:
                return False, changes
            for k in range(q):
                multipliers[active[k]] -= t * rate[k]
            own += t
            if full < math.inf:
                step = rate[q:]
                for k in range(d - q):
                    step[k] = t * g.along[q + k]
                gemv_add(u, u, step, J[q:], d - q, d)
                over -= t * square
            if full <= room:
                add_row(g, new, q, d, square)
                multipliers[new] = own
                g.sides[new] = side
                q += 1
                break
            gone = active[leaving]
            g.sides[gone] = 0
            multipliers[gone] = 0.0
            g.price[gone] = 1.0 / g.G_square[gone]
            q -= 1
            drop_row(g.R, J, active, leaving, q, d)
    return False, changes
