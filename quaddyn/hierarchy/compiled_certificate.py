"""The certificate of one level, compiled: its optimality conditions from its own rows, with no factor of theirs.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np

from .compiled_factor import EPS
from .compiled_level import SIGN
from .compiled_rows import values
from .compiled_work import (
    CLEN,
    CT,
    END,
    FLOOR,
    GG,
    HI,
    LEFT,
    LIMIT,
    LO,
    MLEN,
    MZ,
    OWN,
    QQ,
    R0,
    ROLE,
    START,
    TARGET,
    VIOLATED,
    VV,
    WORK,
    ZN,
    ZZ,
)  # fmt: skip
from .jit import inner, outlined
from .lanes import dots

#: A limit pressed on lightly is none for the levels below if it lies in what is decided already, to within this.
SPENT, ROUNDING = 1e-7, 1e-12


@outlined(f"f8(i8, i8, i8, i8, f8, f8, f8, i8, i8, i1[::1], f8[::1], {WORK})")
def certify(d, m, P, decided, size, scale, tolerance, rows, bounds, sides, lam, B, U, N):  # type: ignore[no-untyped-def]
    """Largest violation of a level's optimality conditions at its z, relative to the size of their terms.

    Stationarity of the gradient with the multipliers, in the directions that the level decided; limits that are said
    to press and are not reached; limits that are violated.  The unit is what the gradient's terms are, not how large
    they might be: an error must not hide behind a large x alone.  Where the level decided nothing, a slope beyond what
    the tolerance of rank explains counts as what it could save, over a way as long as x, of what the level lacks: what
    is nearly flat goes far.  The inequalities' values at z stay in END.

    Args:
        d: unknowns.
        m: rows of the objective.
        P: inequalities.
        decided: directions, the first in the basis of the reflectors VV.
        size: of x.
        scale: what the gradient's terms can sum up to, `gradient_scale`.
        tolerance: of rank.
        rows: matrix of the inequalities, CZ or CE.
        bounds: the first of their vectors, Y0 or YE.
        sides: (P,) working set.
        lam: (P,) multipliers of limits, slacks of own rows.
        B: matrices.
        U: vectors.
        N: integers.
    """
    Mz, Cz, V, role = B[MZ], B[rows], B[VV], N[ROLE]
    y0, lo, hi, clen = U[bounds], U[bounds + 1], U[bounds + 2], U[bounds + 3]
    target, mlen, z, at, res, g = U[TARGET], U[MLEN], U[ZZ], U[END], U[LEFT], U[GG]
    pressed, pull = U[START], U[ZN]
    unit = FLOOR * scale
    lack = 0.0
    longest = 0.0
    small = 0.0
    tall = 0.0
    values(d, m, Mz, U[R0], z, res)
    for i in range(m):
        unit += mlen[i] * (2.0 * abs(target[i]) + abs(res[i]))
        longest = max(longest, mlen[i])
        lack += res[i] * res[i]
        small += mlen[i] * abs(res[i])
        tall += abs(res[i])
    values(d, P, Cz, y0, z, at)
    false = 0.0
    trespass = 0.0
    for i in range(P):
        if role[i] == LIMIT:
            room = clen[i] * size
            bound = hi[i] if at[i] > hi[i] else lo[i]
            over = max(at[i] - hi[i], lo[i] - at[i])
            if over > VIOLATED * room and over > VIOLATED * (room + abs(bound)):
                trespass = max(trespass, over / max(room, 1e-300))
            if sides[i] != 0 and lam[i] != 0.0:
                bound = hi[i] if sides[i] > 0 else lo[i]
                if abs(at[i] - bound) > VIOLATED * (room + abs(bound)):
                    false = max(false, abs(lam[i]) * clen[i])
        elif role[i] == OWN and sides[i] != 0:
            unit += clen[i] * (2.0 * abs(hi[i] if sides[i] > 0 else lo[i]) + abs(lam[i]))
            longest = max(longest, clen[i])
            lack += lam[i] * lam[i]
            small += clen[i] * abs(lam[i])
            tall += abs(lam[i])
    for i in range(P):
        pressed[i] = lam[i]
    dots(g, Mz, res, d, m)
    dots(pull, Cz, pressed, d, P)
    for j in range(d):
        g[j] += pull[j]
    left = 0.0
    for k in range(decided):
        v, rest = V[k, k:], g[k:]
        s = 0.0
        for j in range(d - k):
            s += v[j] * rest[j]
        s *= 2.0
        for j in range(d - k):
            rest[j] -= s * v[j]
        left += rest[0] * rest[0]
    square = 0.0
    for k in range(decided, d):
        square += g[k] * g[k]
    slope = np.sqrt(square) - 2.0 * (max(tolerance, 8.0 * EPS) * small + 16.0 * EPS * longest * tall)
    missed = 2.0 * size * slope / max(lack, 1e-300) if slope > 0.0 else 0.0
    return max(max(np.sqrt(left), false) / unit, trespass, missed)


@inner
def spent(i, n, q, scale, sides, lam, B, U):  # type: ignore[no-untyped-def]
    """Whether limit i, which a level presses on lightly, has no choice left in the freedom from q on.

    ``sum_i lam_i C_i`` balances a gradient that no step there changes: a single light row among heavy ones does not
    change either.  Rounding over a small multiplier leaves it a remainder that must not count as a direction.
    """
    press = lam[i] * sides[i]
    if not press * U[CLEN, i] > SIGN * scale:
        return False
    square = 0.0
    for j in range(q, n):
        s = 0.0
        for c in range(n):
            s += B[QQ, j, c] * B[CT, c, i]
        square += s * s
    left = np.sqrt(square)
    return left <= SPENT * U[CLEN, i] and press * left <= ROUNDING * scale


@inner
def settle(i, size, U):  # type: ignore[no-untyped-def]
    """What the value END of limit i is off by rounding, levels below may keep: else they would start outside."""
    s = U[END, i]
    room = VIOLATED * U[CLEN, i] * size
    if s > U[HI, i]:
        if s - U[HI, i] <= room + VIOLATED * abs(U[HI, i]):
            U[HI, i] = s
    elif s < U[LO, i]:
        if U[LO, i] - s <= room + VIOLATED * abs(U[LO, i]):
            U[LO, i] = s
