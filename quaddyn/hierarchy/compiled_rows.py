"""A level's rows: put together, and seen from the freedom that is left.  Importing this module imports numba."""

from __future__ import annotations

import numpy as np

from .compiled_work import COUNT, EQUAL, GIVEN, LO, MM, PROBLEM, WORK
from .jit import inner, outlined
from .lanes import blend, total


@outlined(f"i8(i8, {PROBLEM}, {WORK})")
def gather(k, A, b, w, C, ms, ps, B, U, N):  # type: ignore[no-untyped-def]
    """The objective's rows of level k, those of length 0 left out, in MM + k and GIVEN + 2 k; how many."""
    M, target, mlen, lo, equal, count = B[MM + k], U[GIVEN + 2 * k], U[GIVEN + 2 * k + 1], U[LO], N[EQUAL], N[COUNT]
    n, K = A.shape[1], ms.shape[0] - 1
    if count[k] >= 0:
        return count[k]
    m = 0
    if k == K:  # the shortest x
        for i in range(n):
            for j in range(n):
                M[i, j] = 0.0
            M[i, i] = 1.0
            target[i] = 0.0
            mlen[i] = 1.0
        count[k] = n
        return n
    for i in range(ms[k], ms[k + 1]):
        root = np.sqrt(w[i])
        s = 0.0
        row = A[i]
        for j in range(n):
            s += row[j] * row[j]
        s = root * np.sqrt(s)
        if s > 0.0:
            for j in range(n):
                M[j, m] = root * row[j]
            target[m] = root * b[i]
            mlen[m] = s
            m += 1
    for i in range(ps[k], ps[k + 1]):
        if equal[i]:
            s = 0.0
            for j in range(n):
                M[j, m] = C[i, j]
                s += C[i, j] * C[i, j]
            if s > 0.0:
                target[m] = lo[i]
                mlen[m] = np.sqrt(s)
                m += 1
    count[k] = m
    return m


@inner
def project(M, m, n, Q, q, out):  # type: ignore[no-untyped-def]
    """Columns of the m rows M in the basis ``Q[q:]``."""
    for j in range(n - q):
        total(out[j], Q[q + j], M, n, m)


@inner
def combine(M, m, n, x, f, y0, out):  # type: ignore[no-untyped-def]
    """``out = f (y0 - M x)`` over m rows."""
    total(out, x, M, n, m)
    for i in range(m):
        out[i] = f * (y0[i] - out[i])


@inner
def values(d, P, Cz, y0, z, out):  # type: ignore[no-untyped-def]
    """``out = y0 + C Z z``."""
    blend(out, y0, z, Cz, d, P)


@inner
def length(x):  # type: ignore[no-untyped-def]
    """Of a vector."""
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i] * x[i]
    return np.sqrt(s)
