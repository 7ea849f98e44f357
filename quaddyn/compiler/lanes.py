"""SIMD linear algebra over many rows at once, `LANE_WIDTH` at a time, on arrays padded to a multiple of `LANE_WIDTH`.

Matrices are transposed in memory: ``M[c, i]`` is entry c of row i, so that inner loops run over consecutive rows.
Every function works up to the next multiple of `LANE_WIDTH`: each column must be allocated for that many rows, and the
padding is overwritten.  Arrays that are written must not overlap the others, unless a docstring allows it.
"""

from __future__ import annotations

from .compilation_units import compiled
from .kinds import IntVector, Matrix, Vector
from .language import broadcast8, load8, mask_range8, store8, sum8


@compiled()
def gemv(out: Vector, f: Vector, M: Matrix, n: int, m: int) -> None:
    """Computes ``out[:m] = sum_c f[c] M[c, :m]`` over n columns."""
    wide = 32 * ((m + 7) // 32)  # four independent sums hide the latency of additions
    for i in range(0, wide, 32):
        s0, s1, s2, s3 = broadcast8(0.0), broadcast8(0.0), broadcast8(0.0), broadcast8(0.0)
        for c in range(n):
            s0 += f[c] * load8(M, c, i)
            s1 += f[c] * load8(M, c, i + 8)
            s2 += f[c] * load8(M, c, i + 16)
            s3 += f[c] * load8(M, c, i + 24)
        store8(s0, out, i)
        store8(s1, out, i + 8)
        store8(s2, out, i + 16)
        store8(s3, out, i + 24)
    two = wide + 16 * ((m + 7 - wide) // 16)
    for i in range(wide, two, 16):
        s0, s1 = broadcast8(0.0), broadcast8(0.0)
        for c in range(n):
            s0 += f[c] * load8(M, c, i)
            s1 += f[c] * load8(M, c, i + 8)
        store8(s0, out, i)
        store8(s1, out, i + 8)
    for i in range(two, m, 8):
        s = broadcast8(0.0)
        for c in range(n):
            s += f[c] * load8(M, c, i)
        store8(s, out, i)


@compiled()
def gemv_add(out: Vector, start: Vector, f: Vector, M: Matrix, n: int, m: int) -> None:
    """Computes ``out[:m] = start[:m] + sum_c f[c] M[c, :m]`` over n columns; `start` may be `out`."""
    wide = 32 * ((m + 7) // 32)
    for i in range(0, wide, 32):
        s0, s1, s2, s3 = load8(start, i), load8(start, i + 8), load8(start, i + 16), load8(start, i + 24)
        for c in range(n):
            s0 += f[c] * load8(M, c, i)
            s1 += f[c] * load8(M, c, i + 8)
            s2 += f[c] * load8(M, c, i + 16)
            s3 += f[c] * load8(M, c, i + 24)
        store8(s0, out, i)
        store8(s1, out, i + 8)
        store8(s2, out, i + 16)
        store8(s3, out, i + 24)
    two = wide + 16 * ((m + 7 - wide) // 16)
    for i in range(wide, two, 16):
        s0, s1 = load8(start, i), load8(start, i + 8)
        for c in range(n):
            s0 += f[c] * load8(M, c, i)
            s1 += f[c] * load8(M, c, i + 8)
        store8(s0, out, i)
        store8(s1, out, i + 8)
    for i in range(two, m, 8):
        s = load8(start, i)
        for c in range(n):
            s += f[c] * load8(M, c, i)
        store8(s, out, i)


@compiled(inline=False)
def gemm(out: Matrix, F: Matrix, M: Matrix, d: int, n: int, m: int) -> None:
    """Computes ``out[j, :m] = sum_c F[j, c] M[c, :m]`` for d rows of factors, over n columns."""
    # Four independent sums at a time hide the latency of the additions.
    end_of_fours, end_of_twos = d - d % 4, d - d % 2
    for i in range(0, m, 8):
        for j in range(0, end_of_fours, 4):
            s0, s1, s2, s3 = broadcast8(0.0), broadcast8(0.0), broadcast8(0.0), broadcast8(0.0)
            for c in range(n):
                x = load8(M, c, i)
                s0 += F[j, c] * x
                s1 += F[j + 1, c] * x
                s2 += F[j + 2, c] * x
                s3 += F[j + 3, c] * x
            store8(s0, out, j, i)
            store8(s1, out, j + 1, i)
            store8(s2, out, j + 2, i)
            store8(s3, out, j + 3, i)
        for j in range(end_of_fours, end_of_twos, 2):
            s0, s1 = broadcast8(0.0), broadcast8(0.0)
            for c in range(n):
                x = load8(M, c, i)
                s0 += F[j, c] * x
                s1 += F[j + 1, c] * x
            store8(s0, out, j, i)
            store8(s1, out, j + 1, i)
        for j in range(end_of_twos, d):
            s = broadcast8(0.0)
            for c in range(n):
                s += F[j, c] * load8(M, c, i)
            store8(s, out, j, i)


@compiled(inline=False)
def gemv_indexed(out: Vector, f: Vector, index: IntVector, M: Matrix, n: int, m: int) -> None:
    """Computes ``out[:m] = sum_c f[c] M[index[c], :m]`` over n columns of M."""
    two = 16 * ((m + 7) // 16)  # two independent sums hide the latency of additions
    for i in range(0, two, 16):
        s0, s1 = broadcast8(0.0), broadcast8(0.0)
        for c in range(n):
            s0 += f[c] * load8(M, index[c], i)
            s1 += f[c] * load8(M, index[c], i + 8)
        store8(s0, out, i)
        store8(s1, out, i + 8)
    for i in range(two, m, 8):
        s = broadcast8(0.0)
        for c in range(n):
            s += f[c] * load8(M, index[c], i)
        store8(s, out, i)


@compiled()
def gemv_transposed(out: Vector, M: Matrix, v: Vector, n: int, m: int) -> None:
    """Computes ``out[c] = v[:m] . M[c, :m]`` for n columns."""
    for c in range(n):
        s = broadcast8(0.0)
        for i in range(0, m - 7, 8):
            s += load8(v, i) * load8(M, c, i)
        rest = m - m % 8
        if rest < m:
            s += mask_range8(load8(v, rest), 0, m - rest) * mask_range8(load8(M, c, rest), 0, m - rest)
        out[c] = sum8(s)


@compiled()
def dot(x: Vector, y: Vector, n: int) -> float:
    """Returns ``x[:n] . y[:n]``; reads nothing beyond n entries."""
    s = broadcast8(0.0)
    for i in range(0, n - 7, 8):
        s += load8(x, i) * load8(y, i)
    rest = 0.0
    for i in range(n - n % 8, n):
        rest += x[i] * y[i]
    return sum8(s) + rest


@compiled()
def axpy(out: Vector, f: float, x: Vector, m: int) -> None:
    """Computes ``out[:m] += f x[:m]``."""
    for i in range(0, m, 8):
        store8(load8(out, i) + f * load8(x, i), out, i)


@compiled()
def scale(out: Vector, x: Vector, f: float, m: int) -> float:
    """Computes ``out[:m] = f x[:m]`` and returns the sum of their squares; `x` may be `out`."""
    s = broadcast8(0.0)
    for i in range(0, m, 8):
        y = f * load8(x, i)
        store8(y, out, i)
        y = mask_range8(y, -i, m - i)
        s += y * y
    return sum8(s)


@compiled()
def clear(out: Vector, m: int) -> None:
    """Sets ``out[:m] = 0``."""
    for i in range(0, m, 8):
        store8(broadcast8(0.0), out, i)


@compiled()
def copy_tail(out: Vector, x: Vector, k: int, m: int) -> float:
    """Copies ``out[k:m] = x[k:m]``, with zeros before k and beyond m, and returns the sum of their squares."""
    s = broadcast8(0.0)
    for i in range(0, m, 8):
        y = mask_range8(load8(x, i), k - i, m - i)
        store8(y, out, i)
        s += y * y
    return sum8(s)


@compiled()
def copy_columns(out: Matrix, M: Matrix, n: int, m: int) -> None:
    """Copies n columns of m entries, stored as rows: ``out[c, :m] = M[c, :m]``; m is rounded up to whole lanes."""
    for c in range(n):
        for i in range(0, m, 8):
            store8(load8(M, c, i), out, c, i)


@compiled()
def row_squares(out: Vector, M: Matrix, n: int, m: int) -> None:
    """Computes ``out[:m] = sum_c M[c, :m]^2`` over n columns: squared lengths of the rows."""
    for i in range(0, m, 8):
        s = broadcast8(0.0)
        for c in range(n):
            x = load8(M, c, i)
            s += x * x
        store8(s, out, i)


@compiled()
def rotate(x: Vector, y: Vector, a: float, b: float, m: int) -> None:
    """Applies a Givens rotation: ``x[:m], y[:m] = a x + b y, a y - b x``."""
    for i in range(0, m, 8):
        u, v = load8(x, i), load8(y, i)
        store8(a * u + b * v, x, i)
        store8(a * v - b * u, y, i)


@compiled()
def reflect_rows(M: Matrix, v: Vector, n: int, m: int) -> None:
    """Reflects m rows of n entries (Householder) by the unit normal v: ``M[c, :m] -= 2 v[c] sum_j v[j] M[j, :m]``."""
    wide = 32 * ((m + 7) // 32)
    for i in range(0, wide, 32):
        s0, s1, s2, s3 = broadcast8(0.0), broadcast8(0.0), broadcast8(0.0), broadcast8(0.0)
        for c in range(n):
            s0 += v[c] * load8(M, c, i)
            s1 += v[c] * load8(M, c, i + 8)
            s2 += v[c] * load8(M, c, i + 16)
            s3 += v[c] * load8(M, c, i + 24)
        s0, s1, s2, s3 = -2.0 * s0, -2.0 * s1, -2.0 * s2, -2.0 * s3
        for c in range(n):
            store8(load8(M, c, i) + v[c] * s0, M, c, i)
            store8(load8(M, c, i + 8) + v[c] * s1, M, c, i + 8)
            store8(load8(M, c, i + 16) + v[c] * s2, M, c, i + 16)
            store8(load8(M, c, i + 24) + v[c] * s3, M, c, i + 24)
    two = wide + 16 * ((m + 7 - wide) // 16)
    for i in range(wide, two, 16):
        s0, s1 = broadcast8(0.0), broadcast8(0.0)
        for c in range(n):
            s0 += v[c] * load8(M, c, i)
            s1 += v[c] * load8(M, c, i + 8)
        s0, s1 = -2.0 * s0, -2.0 * s1
        for c in range(n):
            store8(load8(M, c, i) + v[c] * s0, M, c, i)
            store8(load8(M, c, i + 8) + v[c] * s1, M, c, i + 8)
    for i in range(two, m, 8):
        s = broadcast8(0.0)
        for c in range(n):
            s += v[c] * load8(M, c, i)
        s = -2.0 * s
        for c in range(n):
            store8(load8(M, c, i) + v[c] * s, M, c, i)


@compiled()
def reflect_columns(M: Matrix, u: Vector, half: float, n: int, m: int) -> None:
    """Reflects n columns (Householder): ``M[c, :m] -= half u (u . M[c, :m])``; u must be zero beyond its m entries."""
    for c in range(n):
        s = broadcast8(0.0)
        for i in range(0, m, 8):
            s += load8(u, i) * load8(M, c, i)
        factor = -half * sum8(s)
        for i in range(0, m, 8):
            store8(load8(M, c, i) + factor * load8(u, i), M, c, i)
