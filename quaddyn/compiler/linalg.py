"""Small dense linear algebra for compiled code: Householder reflectors, rank-revealing factorization, least squares.

A matrix of rows is stored by columns, ``R[j, i]`` being entry j of row i, so that loops run along the rows (`lanes`).
Every vector along the rows, and every column, needs room up to the next multiple of `LANE_WIDTH`.

Source: Golub and Van Loan, *Matrix Computations*, 4th edition, sections 5.1 (reflectors), 5.3 and 5.4 (least squares,
pivoting); Cox and Higham, *Stability of Householder QR factorization for weighted least squares problems*, 1998.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .compilation_units import compiled
from .kinds import LANE_WIDTH, IntVector, Matrix, Vector
from .lanes import copy_columns, copy_tail, dot, reflect_columns, reflect_rows, row_squares, scale
from .language import load8, store8

EPS = 2.220446049250313e-16

#: Rows whose lengths differ by less need not be sorted for least squares.
EVEN = 1e3


class RowFactor(NamedTuple):
    """Result and memory of `factor_rows` and `least_squares`, for at most m rows of d entries."""

    reflectors: Matrix  # (d, >= d + 8) unit normal of reflector k, from entry k on
    pivots: IntVector  # (d,) independent row that made reflector k
    triangle: Matrix  # (d + 2, m) columns of the least-squares problem, triangular in the end
    order: IntVector  # (m,) rows by decreasing length
    remainder: Vector  # (m,) squared length of what is left of each row
    summed: Vector  # (m,) the same when it was last summed rather than subtracted
    least: Vector  # (m,) squared length beyond which a remainder counts


def odd_stride(count: int) -> int:
    """Length of a row of memory for `count` numbers: whole lines of the cache, an odd number of them.

    Entries of one column then spread over all sets of the cache.
    """
    lines = (count + LANE_WIDTH - 1) // LANE_WIDTH
    return LANE_WIDTH * (lines + 1 - lines % 2)


def aligned(*sizes: int) -> Matrix:
    """Zeros that begin at a line of the cache; their last axis is a multiple of `LANE_WIDTH`."""
    total = int(np.prod(sizes))
    memory = np.zeros(total + LANE_WIDTH)
    begin = (-memory.ctypes.data % (8 * LANE_WIDTH)) // 8
    return memory[begin : begin + total].reshape(sizes)


def row_factor(d: int, m: int) -> RowFactor:
    """Memory to factor m rows of d entries."""
    stride = odd_stride(m)
    pivots, order = np.zeros(d + 1, dtype=np.int64), np.zeros(stride, dtype=np.int64)
    reflectors, triangle, rows = aligned(d + 1, odd_stride(d + LANE_WIDTH)), aligned(d + 2, stride), aligned(3, stride)
    return RowFactor(reflectors, pivots, triangle, order, rows[0], rows[1], rows[2])


@compiled()
def norm(x: Vector, n: int) -> float:
    """Length of ``x[:n]``."""
    return math.sqrt(dot(x, x, n))


@compiled()
def unit_reflector(v: Vector, length: float, n: int) -> float:
    """Turn ``v[:n]`` into the unit normal of the mirror that maps it to the first axis; where it lands there.

    ``(I - 2 v v^T) v_before = (landing, 0, ...)``; the sign is the one that loses no digits.
    """
    head = v[0]
    landing = -length if head >= 0.0 else length
    v[0] = head - landing
    scale(v, v, 1.0 / math.sqrt(2.0 * length * (length + abs(head))), n)
    return landing


@compiled()
def column_reflector(u: Vector, v: Vector, k: int, m: int) -> tuple[float, float]:
    """The reflector u that maps ``v[k:m]`` to entry k: (factor for `reflect_columns`, where it lands); 0 if v is 0."""
    length = math.sqrt(copy_tail(u, v, k, m))
    if not length > 0.0:
        return 0.0, 0.0
    head = u[k]
    landing = -length if head >= 0.0 else length
    u[k] = head - landing
    return 1.0 / (length * (length + abs(head))), landing


@compiled()
def apply_reflectors(R: Matrix, m: int, c: int, r: int, d: int, V: Matrix) -> None:
    """Turn m rows of d entries into the basis of the r reflectors from c on."""
    for k in range(c, c + r):
        reflect_rows(R[k:], V[k, k:], d - k, m)


@compiled()
def undo_reflectors(z: Vector, r: int, d: int, V: Matrix) -> None:
    """Turn ``z[:d]`` out of the basis of the first r reflectors."""
    for k in range(r - 1, -1, -1):
        v, y = V[k, k:], z[k:]
        s = 0.0
        for j in range(d - k):
            s += y[j] * v[j]
        s *= 2.0
        for j in range(d - k):
            y[j] -= s * v[j]


@compiled(inline=False)
def factor_rows(R: Matrix, m: int, c: int, d: int, lengths: Vector, tolerance: float, f: RowFactor) -> int:
    """``R Q = L``: pivoted Householder factorization of m rows in columns c to d, in place; the rank.

    A row is independent of those before it if what is left of it exceeds `tolerance` times its reference length: a
    measure that does not depend on the units of rows.  What is left at the rounding of the longest row is nothing.

    Afterwards ``R[c + k, i]`` are the rows in the basis of the reflectors ``c + k``; pivot row k is zero beyond column
    ``c + k``, and what other rows keep beyond the last reflector is below the tolerance.

    Args:
        R: (>= d, >= m) columns of the rows.
        m: number of rows.
        c: first column; those before it stay as they are.
        d: end of the columns.
        lengths: (>= m,) reference lengths of the rows.
        tolerance: relative, in [0, 1).
        f: takes reflectors and pivots.
    """
    V, pivots, now, before, least = f.reflectors, f.pivots, f.remainder, f.summed, f.least
    longest = 0.0
    for i in range(m):
        longest = max(longest, lengths[i])
    share = max(tolerance, 8.0 * EPS)
    row_squares(now, R[c:], d - c, m)
    for i in range(m):
        before[i] = now[i]
        a = max(share * lengths[i], 16.0 * EPS * longest)
        least[i] = a * a
    r = 0
    summed = 0
    while r < min(m, d - c):
        k = c + r
        best = -1
        most = 0.0
        for i in range(m):
            if now[i] > most and now[i] > least[i]:
                most = now[i]
                best = i
        if best < 0:
            if summed == r:
                break
            # What was subtracted from down to nothing may hide a remainder of 1e-8: sum once more.
            summed = r
            row_squares(now, R[k:], d - k, m)
            for i in range(m):
                before[i] = now[i]
            continue
        rest, v = R[k:], V[k, k:]
        total = 0.0
        for j in range(d - k):
            a = rest[j, best]
            v[j] = a
            total += a * a
        # The running remainder loses digits as it shrinks: sum it anew before it decides anything.
        if most < 1e-6 * before[best] or not total > least[best]:
            before[best] = total
            now[best] = total
            if not total > least[best] or total < 0.5 * most:
                continue
        landing = unit_reflector(v, math.sqrt(total), d - k)
        reflect_rows(rest, v, d - k, m)
        column = rest[0]
        for i in range(m):
            now[i] -= column[i] * column[i]
        for j in range(d - k):
            rest[j, best] = 0.0
        column[best] = landing
        now[best] = -1.0  # done with: the row is zero from here on
        pivots[k] = best
        r += 1
    return r


@compiled()
def substitute_pivots(R: Matrix, c: int, r: int, f: RowFactor, rhs: Vector, y: Vector) -> None:
    """``y[c : c + r]`` that solves the pivot rows exactly: ``L[pivots] y = rhs[pivots]``, L lower triangular."""
    for k in range(c, c + r):
        i = f.pivots[k]
        s = rhs[i]
        for j in range(c, k):
            s -= R[j, i] * y[j]
        y[k] = s / R[k, i]


@compiled(inline=False)
def least_squares(R: Matrix, m: int, c: int, r: int, lengths: Vector, rhs: Vector, y: Vector, f: RowFactor) -> None:
    """``y[c : c + r]`` that minimizes ``|R y - rhs|`` over m rows, which `factor_rows` left with rank r.

    Args:
        R: (>= c + r, >= m) columns of the rows.
        m: number of rows.
        c: first column.
        r: rank.
        lengths: (>= m,) of the rows.
        rhs: (>= m,).
        y: takes the solution.
        f: pivots; `triangle` takes the triangular factor if there are more rows than r.
    """
    if m == r:
        substitute_pivots(R, c, r, f, rhs, y)
        return
    T, order = f.triangle, f.order
    longest = 0.0
    shortest = math.inf
    for i in range(m):
        longest = max(longest, lengths[i])
        shortest = min(shortest, lengths[i])
    if longest <= EVEN * shortest:
        copy_columns(T, R[c:], r, m)
        for i in range(m):
            T[r, i] = rhs[i]
    else:
        # Long rows first: Householder QR is then stable row by row, however differently the rows are scaled.
        for i in range(m):
            big = 0.0
            for j in range(c, c + r):
                big = max(big, abs(R[j, i]))
            T[r, i] = big
            p = i
            while p > 0 and T[r, order[p - 1]] < big:
                order[p] = order[p - 1]
                p -= 1
            order[p] = i
        for j in range(r):
            for i in range(m):
                T[j, i] = R[c + j, order[i]]
        for i in range(m):
            T[r, i] = rhs[order[i]]
    end = LANE_WIDTH * ((m + LANE_WIDTH - 1) // LANE_WIDTH)
    for j in range(r + 1):
        for i in range(m, end):
            T[j, i] = 0.0
    u = T[r + 1]
    for k in range(r):
        half, landing = column_reflector(u, T[k], k, m)
        reflect_columns(T[k + 1 :], u, half, r - k, m)
        T[k, k] = landing
    for k in range(r - 1, -1, -1):
        s = T[r, k] / T[k, k]
        y[c + k] = s
        for i in range(k):
            T[r, i] -= s * T[k, i]


@compiled(inline=False)
def cholesky(H: Matrix, R: Matrix, n: int, shift: float) -> bool:
    """``R^T R = H + shift I`` with R an upper triangle; False where that breaks down.

    Only the upper triangle of H counts, and of R; what is left of their diagonals is overwritten or not.

    Args:
        H: (>= n, >= n) with room for whole lanes.
        R: the same.
        n: their size.
        shift: >= 0.
    """
    for k in range(n):
        start = k - k % LANE_WIDTH
        for i in range(start, n, LANE_WIDTH):
            s = load8(H, k, i)
            for j in range(k):
                s -= R[j, k] * load8(R, j, i)
            store8(s, R, k, i)
        square = R[k, k] + shift
        if not square > 0.0:
            return False
        f = 1.0 / math.sqrt(square)
        scale(R[k, start:], R[k, start:], f, n - start)
        R[k, k] = f * square
    return True


@compiled()
def inverse_square(T: Matrix, r: int, column: Vector, inverse: Vector) -> float:
    """``|T^-1|^2`` (Frobenius) of an upper triangle, ``T[j, i]`` being row i of column j; others are scratch (r,)."""
    square = 0.0
    for j in range(r):
        inverse[j] = 1.0 / T[j, j]
    for c in range(r):
        for i in range(c):
            column[i] = 0.0
        column[c] = 1.0
        for j in range(c, -1, -1):
            f = column[j] * inverse[j]
            square += f * f
            for i in range(j):
                column[i] -= f * T[j, i]
    return square


@compiled()
def row_multipliers(R: Matrix, r: int, f: RowFactor, gradient: Vector, out: Vector) -> None:
    """``out[i]`` of the pivot rows with ``sum_i out[i] R_i = -gradient`` in the first r columns; destroys gradient."""
    for k in range(r - 1, -1, -1):
        i = f.pivots[k]
        multiplier = -gradient[k] / R[k, i]
        out[i] = multiplier
        for j in range(k):
            gradient[j] += R[j, i] * multiplier


__all__ = [
    "EPS",
    "RowFactor",
    "aligned",
    "apply_reflectors",
    "cholesky",
    "column_reflector",
    "factor_rows",
    "inverse_square",
    "least_squares",
    "norm",
    "odd_stride",
    "row_factor",
    "row_multipliers",
    "substitute_pivots",
    "undo_reflectors",
    "unit_reflector",
]
