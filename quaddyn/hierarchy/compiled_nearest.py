"""The point of a polyhedron nearest to the origin, by a dual active set: a first guess of what a hierarchy holds.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np

from .compiled_rows import values
from .compiled_work import (
    ACTIVE,
    ALONG,
    CLEN,
    CZ,
    HI,
    HLEN,
    HOLD,
    HRHS,
    JJ,
    KEPT,
    LENGTH,
    LIMIT,
    LO,
    MU,
    RG,
    RHS,
    ROLE,
    START,
    TWO,
    WORK,
    Y0,
    ZZ,
)
from .jit import outlined
from .lanes import WIDTH, blend, dots, mirror, scaled, squares, tail, turn

#: A row is independent of the active ones if more than this share of its length is left of it.
NEW = 1e-10


@outlined(f"Tuple((b1, i8))(i8, i8, i8, f8, {WORK})")
def nearest(first, n, P, reach, B, U, N):  # type: ignore[no-untyped-def]
    """The shortest u with ``lo <= y0 + G u <= hi`` for the limits; (found, rounds).

    Goldfarb and Idnani 1983, with the identity for a Hessian: from the unconstrained optimum the most violated limit
    joins, multipliers that would turn negative on the way leave.  Rows of J are orthonormal, the first ones span the
    active normals, ``normals = J[:q]^T R``.

    Takes G from CZ, the values at 0 from Y0, bounds from LO and HI, what counts from ROLE; leaves u in ZZ, the active
    rows in HOLD and their multipliers, >= 0, in MU.

    Args:
        first: column of G with which it begins.
        n: and ends.
        P: rows.
        reach: size of x, for what rounding allows.
        B: matrices.
        U: vectors.
        N: integers.
    """
    G, J, R, d = B[CZ][first:], B[JJ], B[RG], n - first
    y0, lo, hi, clen, u, mu, at, along = U[Y0], U[LO], U[HI], U[CLEN], U[ZZ], U[MU], U[START], U[ALONG]
    low, high, glen, price, rate, normal = U[RHS], U[LENGTH], U[HLEN], U[HRHS], U[TWO], U[TWO + 1]
    role, sides, active = N[ROLE], N[HOLD], N[ACTIVE]
    squares(glen, G, d, P)
    for i in range(P):
        sides[i] = 0
        mu[i] = 0.0
        low[i] = lo[i] - 0.5 * KEPT * (clen[i] * reach + abs(lo[i]))
        high[i] = hi[i] + 0.5 * KEPT * (clen[i] * reach + abs(hi[i]))
        price[i] = 1.0 / glen[i] if role[i] == LIMIT else 0.0
    for j in range(d):
        u[j] = 0.0
        for k in range(d):
            J[j, k] = 0.0
        J[j, j] = 1.0
    q = 0
    count = 0
    for _ in range(4 * d + 50):
        values(d, P, G, y0, u, at)
        best = -1
        most = 0.0
        for i in range(P):
            over = max(at[i] - high[i], low[i] - at[i])
            far = over * abs(over) * price[i]
            if far > most:
                most = far
                best = i
        if best < 0:
            return True, count
        if not glen[best] > 0.0:
            return False, count
        count += 1
        side = 1 if at[best] > hi[best] else -1
        over = (at[best] - hi[best]) if side > 0 else (lo[best] - at[best])
        for j in range(d):
            normal[j] = -side * G[j, best]
        own = 0.0
        while True:
            dots(along, J, normal, d, d)
            new = along[q:]
            rest = 0.0
            for k in range(d - q):
                rest += new[k] * new[k]
            for k in range(q - 1, -1, -1):
                s = along[k]
                for j in range(k + 1, q):
                    s -= R[k, j] * rate[j]
                rate[k] = s / R[k, k]
            first = np.inf
            leaves = -1
            for k in range(q):
                if rate[k] > 0.0 and mu[active[k]] / rate[k] < first:
                    first = mu[active[k]] / rate[k]
                    leaves = k
            full = np.inf
            if rest > NEW * NEW * glen[best]:
                full = over / rest
            t = min(first, full)
            if not t < np.inf:
                return False, count
            for k in range(q):
                mu[active[k]] -= t * rate[k]
            own += t
            if full < np.inf:
                step = rate[q:]
                for k in range(d - q):
                    step[k] = t * new[k]
                blend(u, u, step, J[q:], d - q, d)
                over -= t * rest
            if full <= first:
                # joins: a reflection turns what is left of its normal into row q of J
                norm = np.sqrt(rest)
                head = new[0]
                signed = norm if head >= 0.0 else -norm
                for k in range(q):
                    R[k, q] = along[k]
                R[q, q] = -signed
                new[0] = head + signed
                scaled(new, new, 1.0 / np.sqrt(2.0 * norm * (norm + abs(head))), d - q)
                turn(J[q:], new, d - q, d)
                active[q] = best
                mu[best] = own
                sides[best] = side
                price[best] = 0.0
                q += 1
                break
            # leaves: rotations make R triangular again
            gone = active[leaves]
            sides[gone] = 0
            mu[gone] = 0.0
            price[gone] = 1.0 / glen[gone]
            q -= 1
            for k in range(leaves, q):
                active[k] = active[k + 1]
                for j in range(k + 2):
                    R[j, k] = R[j, k + 1]
            for k in range(leaves, q):
                a, b = R[k, k], R[k + 1, k]
                norm = np.sqrt(a * a + b * b)
                if norm == 0.0:
                    continue
                a /= norm
                b /= norm
                R[k, k] = norm
                R[k + 1, k] = 0.0
                for j in range(k + 1, q):
                    x, y = R[k, j], R[k + 1, j]
                    R[k, j] = a * x + b * y
                    R[k + 1, j] = a * y - b * x
                for j in range(d):
                    x, y = J[k, j], J[k + 1, j]
                    J[k, j] = a * x + b * y
                    J[k + 1, j] = a * y - b * x
    return False, count


@outlined("b1(f8[:,::1], i8, i8, i8, f8, f8[:,::1], f8[::1])")
def triangle(M, m, first, last, scale, T, u):  # type: ignore[no-untyped-def]
    """Rows of a block: ``T[first:last, :last]`` with ``|T w| = |M w|`` for w in the block, what is before along.

    Args:
        M: (>= last, >= m) columns of the level's rows; destroyed.
        m: number of rows.
        first: first column of the block.
        last: end of the block.
        scale: what the block's diagonal has for a mean in the end.
        T: (>= last, >= last) takes it.
        u: (>= m,) work.

    Returns:
        Whether the columns of the block are independent.
    """
    size = 0.0
    end = WIDTH * ((m + WIDTH - 1) // WIDTH)
    for j in range(last):
        for i in range(m, end):
            M[j, i] = 0.0
    for k in range(first, last):
        v = M[k]
        h = k - first
        norm = np.sqrt(tail(u, v, h, m))
        if not norm > 0.0:
            return False
        head = v[h]
        signed = norm if head >= 0.0 else -norm
        u[h] = head + signed
        half = 1.0 / (norm * (norm + abs(head)))
        mirror(M, u, half, first, m)
        mirror(M[k + 1 :], u, half, last - k - 1, m)
        v[h] = -signed
        size += norm
    f = scale * (last - first) / size
    for k in range(first, last):
        for j in range(last):
            T[k, j] = f * M[j, k - first] if j < first or j >= k else 0.0
    return True
