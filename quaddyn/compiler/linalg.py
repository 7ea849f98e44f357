"""Small dense linear algebra for compiled code: Householder reflectors, rank-revealing factorization, least squares.

A matrix of rows is stored by columns, ``R[j, i]`` being entry j of row i, so that loops run along the rows (`lanes`).
Every vector along the rows, and every column, must be allocated up to the next multiple of `LANE_WIDTH`.

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

#: Maximum ratio of the longest to the shortest row at which rows need not be sorted for least squares.
UNIFORM_ROW_SCALE_RATIO = 1e3


class RowFactor(NamedTuple):
    """Result and workspace of `factor_rows` and `least_squares`, for at most m rows of d entries."""

    reflectors: Matrix  # (d, >= d + 8) unit normal of reflector k, from entry k on
    pivots: IntVector  # (d,) independent row that made reflector k
    triangle: Matrix  # (d + 2, m) columns of the least-squares problem, triangular in the end
    order: IntVector  # (m,) rows by decreasing length
    remainder: Vector  # (m,) squared length of the remainder of each row
    summed: Vector  # (m,) the same at the last exact summation
    least: Vector  # (m,) squared length above which a remainder is independent


def padded(count: int) -> int:
    """Returns a number of rows, rounded up to a multiple of `LANE_WIDTH`."""
    return LANE_WIDTH * -(-count // LANE_WIDTH)


def odd_stride(count: int) -> int:
    """Returns the allocated length of a row of `count` numbers: an odd number of whole cache lines.

    With an odd number of lines the entries of one column spread over all sets of the cache.
    """
    lines = (count + LANE_WIDTH - 1) // LANE_WIDTH
    return LANE_WIDTH * (lines + 1 - lines % 2)


def aligned(*sizes: int) -> Matrix:
    """Returns zeros of the given sizes that begin at a cache line; the last size must be a multiple of `LANE_WIDTH`."""
    total = int(np.prod(sizes))
    memory = np.zeros(total + LANE_WIDTH)
    begin = (-memory.ctypes.data % (8 * LANE_WIDTH)) // 8
    return memory[begin : begin + total].reshape(sizes)


def row_factor(d: int, m: int, reflector_stride: int) -> RowFactor:
    """Allocates the result and workspace to factor rows of d entries.

    Args:
        d: number of entries.
        m: number of rows, a multiple of `LANE_WIDTH`.
        reflector_stride: allocated length of a reflector, at least d + 7.
    """
    pivots, order = np.zeros(d + 1, dtype=np.int64), np.zeros(m, dtype=np.int64)
    reflectors, triangle, rows = aligned(d + 1, reflector_stride), aligned(d + 2, m), aligned(3, m)
    return RowFactor(reflectors, pivots, triangle, order, rows[0], rows[1], rows[2])


@compiled()
def norm(x: Vector, n: int) -> float:
    """Returns the Euclidean norm of ``x[:n]``."""
    return math.sqrt(dot(x, x, n))


@compiled()
def unit_reflector(v: Vector, length: float, n: int) -> float:
    """Replaces ``v[:n]``, of norm `length`, by the unit normal of the reflection that maps it to the first axis.

    Returns:
        The first entry of the reflected vector: ``(I - 2 v v^T) v_before = (entry, 0, ...)``, with the sign that avoids
        cancellation.
    """
    head = v[0]
    reflected = -length if head >= 0.0 else length
    v[0] = head - reflected
    scale(v, v, 1.0 / math.sqrt(2.0 * length * (length + abs(head))), n)
    return reflected


@compiled()
def column_reflector(u: Vector, v: Vector, k: int, m: int) -> tuple[float, float]:
    """Writes to u the normal of the reflection that maps ``v[k:m]`` to a multiple of the unit vector of entry k.

    Returns:
        The factor for `reflect_columns`, and entry k of the reflected vector; both 0 if ``v[k:m]`` is 0.
    """
    length = math.sqrt(copy_tail(u, v, k, m))
    if not length > 0.0:
        return 0.0, 0.0
    head = u[k]
    reflected = -length if head >= 0.0 else length
    u[k] = head - reflected
    return 1.0 / (length * (length + abs(head))), reflected


@compiled()
def apply_reflectors(R: Matrix, m: int, c: int, r: int, d: int, V: Matrix) -> None:
    """Transforms m rows of d entries to the basis of the r reflectors from c on, in place."""
    for k in range(c, c + r):
        reflect_rows(R[k:], V[k, k:], d - k, m)


@compiled()
def undo_reflectors(z: Vector, r: int, d: int, V: Matrix) -> None:
    """Transforms ``z[:d]`` back from the basis of the first r reflectors, in place."""
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
    """Factors m rows in columns c to d, in place, as ``R Q = L`` by pivoted Householder reflections; returns the rank.

    A row counts as independent of those before it if its remainder exceeds `tolerance` times its reference length; this
    criterion does not depend on the units of the rows.  A remainder within the rounding of the longest row is dropped.

    Afterwards ``R[c + k, i]`` are the rows in the basis of the reflectors ``c + k``; pivot row k is zero beyond column
    ``c + k``, and the entries of other rows beyond the last reflector are below the tolerance.

    Args:
        R: (>= d, >= m) columns of the rows.
        m: number of rows.
        c: first column; those before it do not change.
        d: end of the columns.
        lengths: (>= m,) reference lengths of the rows.
        tolerance: relative to the reference length of a row, in [0, 1).
        f: receives reflectors and pivots.
    """
    V, pivots, remainder, before, least = f.reflectors, f.pivots, f.remainder, f.summed, f.least
    longest = 0.0
    for i in range(m):
        longest = max(longest, lengths[i])
    relative_tolerance = max(tolerance, 8.0 * EPS)
    row_squares(remainder, R[c:], d - c, m)
    for i in range(m):
        before[i] = remainder[i]
        a = max(relative_tolerance * lengths[i], 16.0 * EPS * longest)
        least[i] = a * a
    r = 0
    summed = 0
    while r < min(m, d - c):
        k = c + r
        best = -1
        largest = 0.0
        for i in range(m):
            if remainder[i] > largest and remainder[i] > least[i]:
                largest = remainder[i]
                best = i
        if best < 0:
            if summed == r:
                break
            # Cancellation in the updated sums may hide a remainder of 1e-8: compute the sums once more.
            summed = r
            row_squares(remainder, R[k:], d - k, m)
            for i in range(m):
                before[i] = remainder[i]
            continue
        rest, v = R[k:], V[k, k:]
        total = 0.0
        for j in range(d - k):
            a = rest[j, best]
            v[j] = a
            total += a * a
        # The running remainder loses digits as it shrinks: sum it anew before it decides anything.
        if largest < 1e-6 * before[best] or not total > least[best]:
            before[best] = total
            remainder[best] = total
            if not total > least[best] or total < 0.5 * largest:
                continue
        reflected = unit_reflector(v, math.sqrt(total), d - k)
        reflect_rows(rest, v, d - k, m)
        column = rest[0]
        for i in range(m):
            remainder[i] -= column[i] * column[i]
        for j in range(d - k):
            rest[j, best] = 0.0
        column[best] = reflected
        remainder[best] = -1.0  # done with: the row is zero from here on
        pivots[k] = best
        r += 1
    return r


@compiled()
def substitute_pivots(R: Matrix, c: int, r: int, f: RowFactor, rhs: Vector, y: Vector) -> None:
    """Solves the pivot rows exactly: ``L[pivots] y[c : c + r] = rhs[pivots]``, with L lower triangular."""
    for k in range(c, c + r):
        i = f.pivots[k]
        s = rhs[i]
        for j in range(c, k):
            s -= R[j, i] * y[j]
        y[k] = s / R[k, i]


@compiled(inline=False)
def least_squares(R: Matrix, m: int, c: int, r: int, lengths: Vector, rhs: Vector, y: Vector, f: RowFactor) -> None:
    """Computes the least-squares solution of m rows after `factor_rows`.

    ``y[c : c + r]`` minimizes ``|R y - rhs|`` for rows of rank r.

    Args:
        R: (>= c + r, >= m) columns of the rows.
        m: number of rows.
        c: first column.
        r: rank.
        lengths: (>= m,) lengths of the rows.
        rhs: (>= m,) right-hand side.
        y: receives the solution.
        f: pivots; `triangle` receives the triangular factor if there are more rows than r.
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
    if longest <= UNIFORM_ROW_SCALE_RATIO * shortest:
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
        half, reflected = column_reflector(u, T[k], k, m)
        reflect_columns(T[k + 1 :], u, half, r - k, m)
        T[k, k] = reflected
    for k in range(r - 1, -1, -1):
        s = T[r, k] / T[k, k]
        y[c + k] = s
        for i in range(k):
            T[r, i] -= s * T[k, i]


@compiled(inline=False)
def cholesky(H: Matrix, R: Matrix, n: int, shift: float) -> bool:
    """Computes the upper triangle R with ``R^T R = H + shift I``; returns whether that matrix is positive definite.

    Only the upper triangles of H and R are read; the rest of the rows of R up to whole lanes is overwritten.

    Args:
        H: (>= n, >= n) symmetric, allocated for whole lanes.
        R: result, allocated like H.
        n: size.
        shift: added to the diagonal, >= 0.
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
    """Returns ``|T^-1|^2`` (Frobenius) of an upper triangle of size r, where ``T[j, i]`` is row i of column j.

    Args:
        T: (>= r, >= r) the triangle by columns.
        r: size.
        column: (>= r,) scratch.
        inverse: (>= r,) scratch.
    """
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
    """Computes multipliers of the pivot rows: ``sum_i out[i] R_i = -gradient`` in the first r columns.

    Args:
        R: rows as `factor_rows` leaves them.
        r: rank.
        f: pivots.
        gradient: (>= r,) overwritten.
        out: receives the multipliers at the indices of the pivot rows.
    """
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
    "padded",
    "row_factor",
    "row_multipliers",
    "substitute_pivots",
    "undo_reflectors",
    "unit_reflector",
]
