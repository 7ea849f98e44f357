"""The unknowns of a tick, compiled: what the equations of motion and the contacts leave free, as affine maps.

A map is a matrix whose rows say what something is over ``(y, 1)``: its first d columns belong to the unknowns y, the
next one is the constant.  Rows have room up to the next multiple of `WIDTH`, see `quaddyn.hierarchy.lanes`.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np

from ..hierarchy.jit import inner, outlined
from ..hierarchy.lanes import blend, gather, scaled, squares, total, turn
from .compiled_memory import BIAS, MOTION, STRICT, WISH, mapping

#: Share of a column's square that must be left for it to be taken in its turn.
CLEAR = 1e-4


@outlined("b1(f8[:,::1])")
def cholesky(L):  # type: ignore[no-untyped-def]
    """The lower triangle of L becomes its Cholesky factor; whether it has one."""
    n = L.shape[0]
    for j in range(n):
        s = L[j, j]
        for k in range(j):
            s -= L[j, k] * L[j, k]
        if not s > 0.0:
            return False
        L[j, j] = np.sqrt(s)
        f = 1.0 / L[j, j]
        for i in range(j + 1, n):
            s = L[i, j]
            for k in range(j):
                s -= L[i, k] * L[j, k]
            L[i, j] = s * f
    return True


@inner
def scale(row, f, m):  # type: ignore[no-untyped-def]
    """``row *= f`` over the first m entries."""
    for j in range(m):
        row[j] *= f


@outlined("void(f8[:,::1], f8[:,::1], i8, f8[::1])")
def substitute(L, G, m, share):  # type: ignore[no-untyped-def]
    """``G <- (L L^T)^-1 G`` over the first m columns of G's rows."""
    n = L.shape[0]
    for i in range(n):
        for k in range(i):
            share[k] = -L[i, k]
        blend(G[i], G[i], share, G, i, m)
        scale(G[i], 1.0 / L[i, i], m)
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            share[k - i - 1] = -L[k, i]
        blend(G[i], G[i], share, G[i + 1 :], n - 1 - i, m)
        scale(G[i], 1.0 / L[i, i], m)


@outlined("i8(i8, i8, f8, f8[:,::1], f8[::1], f8[:,::1], f8[:,::1], f8[:,::1], i8[::1])")
def null_space(r, n, tolerance, E, e, X, V, spare, order):  # type: ignore[no-untyped-def]
    """All x with ``E^T x = e`` as the map X: the shortest one, and an orthonormal basis of the directions left.

    Householder reflections of one column after the other, as long as enough is left of each; from then on the column
    of which most is left.  Columns that others imply, to `tolerance` relative to their length, are left out and may be
    contradicted.

    Args:
        r: number of columns.
        n: number of unknowns.
        tolerance: relative, of rank.
        E: (n, stride of r), overwritten.
        e: (r,).
        X: (n, stride) takes the map.
        V: (r, stride) work.
        spare: (3, stride or more) work.
        order: (r,) work.

    Returns:
        Size of y.
    """
    long, left, y = spare[0], spare[1], spare[2]
    squares(long, E, n, r)
    for i in range(r):
        order[i] = i
    rank = 0
    while rank < min(r, n):
        k = rank
        at = order[k]
        u = V[k]
        square = 0.0
        for j in range(k, n):
            u[j] = E[j, at]
            square += u[j] * u[j]
        if not square > max(CLEAR, tolerance * tolerance) * long[at]:
            squares(left, E[k:], n - k, r)
            most = -1
            for j in range(k, r):
                i = order[j]
                if left[i] > tolerance * tolerance * long[i] and (most < 0 or left[i] > left[order[most]]):
                    most = j
            if most < 0:
                break
            order[k], order[most] = order[most], order[k]
            if order[k] != at:
                at = order[k]
                square = left[at]
                for j in range(k, n):
                    u[j] = E[j, at]
        length = np.sqrt(square)
        # I - 2 u u^T, u = the rest of the column with its first entry moved away from zero
        corner = -length if u[k] > 0.0 else length
        share = 1.0 / np.sqrt(2.0 * length * (length + abs(u[k])))
        u[k] -= corner
        for j in range(k, n):
            u[j] *= share
        turn(E[k:], u[k:], n - k, r)
        s = e[at]
        for j in range(k):
            s -= E[j, at] * y[j]
        y[k] = s / corner
        rank += 1
    # reflections undone: of the particular solution and of the unit vectors beyond the rank
    d = n - rank
    for i in range(n):
        row = X[i]
        for j in range(d + 1):
            row[j] = 0.0
        row[d if i < rank else i - rank] = y[i] if i < rank else 1.0
    for k in range(rank - 1, -1, -1):
        turn(X[k:], V[k, k:], n - k, d + 1)
    return d


@inner
def hide(length, square):  # type: ignore[no-untyped-def]
    """What a row has lost of its length where contacts are solved beforehand: a column of its own.

    The solver fixes that unknown to zero and sees rows as long as they were: which directions count as dependent is a
    matter of that length, and a row of which only rounding is left must count for nothing.
    """
    return np.sqrt(max(length * length - square, 0.0))


@inner
def copy(source, length, d, f, hidden, to):  # type: ignore[no-untyped-def]
    """``to = f source`` over the unknowns, its hidden length after them if it has one; the constant, likewise.

    What `to` holds beyond its end is overwritten.
    """
    constant = f * source[d]
    square = scaled(to, source, f, d)
    if hidden:
        to[d] = hide(f * length, square)
    return constant


@inner
def combine(c, columns, count, full, lengths, d, f, hidden, to):  # type: ignore[no-untyped-def]
    """``to = f c @ full[columns]`` over the unknowns, as `copy`."""
    gather(to, c, columns, full, count, d + 1)
    length = 0.0
    if hidden:
        for i in range(count):
            length += abs(c[i]) * lengths[columns[i]]
    constant = f * to[d]
    square = scaled(to, to, f, d)
    if hidden:
        to[d] = hide(f * length, square)
    return constant


@outlined(
    "i8(f8[:,::1], f8[::1], f8[:,::1], f8[:,::1], i8[::1], i8[::1], f8, f8, b1, f8[:,::1], f8[:,::1], f8[:,::1], "
    "f8[::1], f8[::1], i8, i8[::1])"
)
def maps(  # type: ignore[no-untyped-def]
    M, h, Jc, aims, motors, passive, mass, tolerance, reduced, L, full, torques, lengths, F, at, order
):  # fmt: skip
    """Accelerations, forces per mass and torques over the unknowns; how many these are, or -1 if M is singular."""
    nv, nu, nf = h.shape[0], motors.shape[0], Jc.shape[0]
    n, free, S = nu + nf, nv - nu, full.shape[1]
    T, X, E, V, row, share, e, spare, _ = mapping(F, at, nv, nu, nf)
    # Accelerations without a motor over (a_A, f / m, 1).
    for i in range(free):
        o = passive[i]
        for j in range(free):
            L[i, j] = M[o, passive[j]]
        for j in range(nu):
            T[i, j] = -M[o, motors[j]]
        for j in range(nf):
            T[i, nu + j] = mass * Jc[j, o]
        T[i, n] = -h[o]
        for j in range(n + 1, S):
            T[i, j] = 0.0
    if not cholesky(L):
        return -1
    substitute(L, T, n + 1, share)
    # What contacts leave free.
    d = n
    if reduced:
        r = 0
        for c in range(nf):
            if aims[STRICT, c] == 0.0:
                continue
            if aims[STRICT, c] == MOTION:
                for i in range(free):
                    share[i] = Jc[c, passive[i]]
                total(row, share, T, free, n + 1)
                e[r] = aims[WISH, c] - aims[BIAS, c] - row[n]
                for j in range(nu):
                    row[j] += Jc[c, motors[j]]
            else:
                for j in range(n):
                    row[j] = 0.0
                row[nu + c] = 1.0
                e[r] = aims[WISH, c] / mass
            for j in range(n):
                E[j, r] = row[j]
            r += 1
        d = null_space(r, n, tolerance, E, e, X, V, spare, order)
    else:
        for i in range(n):
            for j in range(n + 1):
                X[i, j] = 0.0
            X[i, i] = 1.0
    for i in range(free):
        row = full[passive[i]]
        total(row, T[i], X, n, d + 1)
        row[d] += T[i, n]
        s = 0.0
        for j in range(n):
            s += T[i, j] * T[i, j]
        lengths[passive[i]] = np.sqrt(s)
    for i in range(n):
        o = motors[i] if i < nu else nv + i - nu
        row, source = full[o], X[i]
        for j in range(d + 1):
            row[j] = source[j]
        lengths[o] = 1.0
    for i in range(nu):
        o = motors[i]
        for j in range(nv):
            share[j] = M[o, j]
        for c in range(nf):
            share[nv + c] = -mass * Jc[c, o]
        total(torques[i], share, full, nv + nf, d + 1)
        torques[i, d] += h[o]
        s = 0.0
        for j in range(nv + nf):
            s += abs(share[j]) * lengths[j]
        lengths[nv + nf + i] = s
    return d
