"""One level of the hierarchy, compiled: the rounds of its active set, the same steps as `active_set`.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np

from .compiled_equations import equations
from .compiled_rows import values
from .compiled_work import (
    CLEN,
    CZ,
    END,
    GG,
    HI,
    KEPT,
    LEFT,
    LIMIT,
    LO,
    LOOKED,
    MLEN,
    MZ,
    OWN,
    ROLE,
    START,
    TARGET,
    VIOLATED,
    WORK,
    WRONG,
    Y0,
    ZN,
    ZZ,
)
from .jit import inner, outlined
from .lanes import total

SIGN = 1e-14
#: What rounds hold must be held to this share of the size of its terms: more than that says that it cannot be.
HELD = 1e-9
#: Multipliers below SIGN are looked at once more if they exceed this share of what the gradient's terms do sum up to;
#: without them the level's rows must move by more than this share of their own terms for that to count.
FINE, MOVED = 1e-15, 1e-14
#: How often a row may be let go on that account, in one level.
OFTEN = 3


@inner
def first_block(d, P, reach, rows, bounds, sides, B, U, N):  # type: ignore[no-untyped-def]
    """How far the way from z to zn is open: (share, row that blocks or -1, side); leaves the values at zn in END."""
    Cz, role = B[rows], N[ROLE]
    y0, lo, hi, clen = U[bounds], U[bounds + 1], U[bounds + 2], U[bounds + 3]
    z, zn, at, end = U[ZZ], U[ZN], U[START], U[END]
    length = 0.0
    for j in range(d):
        length += zn[j] * zn[j]
    length = reach + np.sqrt(length)
    values(d, P, Cz, y0, zn, end)
    best = -1
    best_side = 0
    best_share = 2.0
    started = False
    for i in range(P):
        if (role[i] == LIMIT or role[i] == OWN) and sides[i] == 0:
            if end[i] > hi[i] + KEPT * (clen[i] * length + abs(hi[i])):
                side = 1
                bound = hi[i]
            elif end[i] < lo[i] - KEPT * (clen[i] * length + abs(lo[i])):
                side = -1
                bound = lo[i]
            else:
                continue
            if not started:
                values(d, P, Cz, y0, z, at)
                started = True
            move = end[i] - at[i]
            share = 0.0
            if move * side > 0.0:
                share = min(max((bound - at[i]) / move, 0.0), 1.0)
            if share < best_share:
                best_share = share
                best = i
                best_side = side
    return best_share, best, best_side


@inner
def reached(P, share, size, bounds, sides, U, N):  # type: ignore[no-untyped-def]
    """Whether held limits are where they are held, in END."""
    lo, hi, clen, end, role = U[bounds + 1], U[bounds + 2], U[bounds + 3], U[END], N[ROLE]
    for i in range(P):
        if role[i] == LIMIT and sides[i] != 0:
            bound = hi[i] if sides[i] > 0 else lo[i]
            if not abs(end[i] - bound) <= share * (clen[i] * size + abs(bound)):
                return False
    return True


@inner
def worst_sign(P, role, sides, lo, hi, clen, size, scale, lam, lowest):  # type: ignore[no-untyped-def]
    """The row whose multiplier or slack has most the wrong sign, or the first such row if `lowest`; -1 if none."""
    best = -1
    most = 0.0
    for i in range(P):
        if sides[i] == 0:
            continue
        wrong = -lam[i] * sides[i]
        if role[i] == LIMIT:
            if wrong * clen[i] <= SIGN * scale:
                continue
        elif role[i] == OWN:
            bound = hi[i] if sides[i] > 0 else lo[i]
            if wrong <= SIGN * (clen[i] * size + abs(bound)):
                continue
        else:
            continue
        if wrong * clen[i] > most:
            most = wrong * clen[i]
            best = i
            if lowest:
                break
    return best


@inner
def gradient_scale(m, target, mlen, P, role, sides, lo, hi, clen, size):  # type: ignore[no-untyped-def]
    """Size of the terms of the objective's gradient."""
    scale = 1e-300
    for i in range(m):
        scale += mlen[i] * (abs(target[i]) + mlen[i] * size)
    for i in range(P):
        if role[i] == OWN and sides[i] != 0:
            scale += clen[i] * (abs(hi[i] if sides[i] > 0 else lo[i]) + clen[i] * size)
    return scale


@inner
def suspects(m, P, size, bounds, sides, lam, U, N):  # type: ignore[no-untyped-def]
    """By how much multipliers have the wrong sign, in WRONG, and from where on that is not rounding; inf if all is."""
    lo, hi, clen = U[bounds + 1], U[bounds + 2], U[bounds + 3]
    target, mlen, res, wrong, role = U[TARGET], U[MLEN], U[LEFT], U[WRONG], N[ROLE]
    fine = 0.0
    lacking = False
    for i in range(m):
        fine += mlen[i] * abs(res[i])
        lacking |= abs(res[i]) > MOVED * (mlen[i] * size + abs(target[i]))
    most = 0.0
    for i in range(P):
        wrong[i] = 0.0
        if sides[i] == 0 or not (role[i] == LIMIT or role[i] == OWN):
            continue
        wrong[i] = -lam[i] * sides[i] * clen[i]
        most = max(most, wrong[i])
        if role[i] == OWN:
            fine += clen[i] * abs(lam[i])
            bound = hi[i] if sides[i] > 0 else lo[i]
            lacking |= abs(lam[i]) > MOVED * (clen[i] * size + abs(bound))
    return FINE * fine if lacking and most > 0.0 else np.inf


@outlined(f"Tuple((i8, i8))(i8, i8, i8, i8, f8, f8, i8, i8, i1[::1], f8[::1], {WORK})")
def overlooked(decided, d, m, P, tolerance, size, rows, bounds, sides, lam, B, U, N):  # type: ignore[no-untyped-def]
    """A row whose multiplier has the wrong sign by little, and that keeps the level from what it could reach.

    Along a direction in which a level is nearly flat a slope of 1e-9 may go on for a long way.  What rounding leaves
    of a multiplier is told from it by what the level's rows do when the row is let go.

    Arguments as of `equations`, whose answer `decided` belongs to z, and the size of x.

    Returns:
        The row, -1 for none, -2 if one that was let go too `OFTEN` still is; and how many directions are decided.
    """
    Mz, Cz, z, zn, step, change = B[MZ], B[rows], U[ZZ], U[ZN], U[GG], U[START]
    lo, hi, clen = U[bounds + 1], U[bounds + 2], U[bounds + 3]
    target, mlen, wrong, role, looked = U[TARGET], U[MLEN], U[WRONG], N[ROLE], N[LOOKED]
    least = suspects(m, P, size, bounds, sides, lam, U, N)
    tried = False
    found = -1
    while True:
        row = -1
        most = least
        for i in range(P):
            if wrong[i] > most:
                most = wrong[i]
                row = i
        if row < 0:
            break
        wrong[row] = 0.0
        side = sides[row]
        tried = True
        sides[row] = 0
        equations(d, m, P, tolerance, rows, bounds, sides, lam, B, U, N)
        for j in range(d):
            step[j] = zn[j] - z[j]
        total(change, step, Mz, d, m)
        moved = False
        for i in range(m):
            moved |= abs(change[i]) > MOVED * (mlen[i] * size + abs(target[i]))
        total(change, step, Cz, d, P)
        for i in range(P):
            if role[i] == OWN and (sides[i] != 0 or i == row):
                bound = hi[i] if sides[i] + side > 0 else lo[i]
                moved |= abs(change[i]) > MOVED * (clen[i] * size + abs(bound))
        if moved and looked[row] < OFTEN:
            looked[row] += 1
            return row, decided
        sides[row] = side
        if moved:
            found = -2
            break
    if tried:
        decided = equations(d, m, P, tolerance, rows, bounds, sides, lam, B, U, N)
    return found, decided


@outlined(f"Tuple((b1, i8, i8))(i8, i8, i8, f8, f8, i8, i8, i8, i1[::1], f8[::1], {WORK})")
def rounds(d, m, P, tolerance, reach, cap, rows, bounds, sides, lam, B, U, N):  # type: ignore[no-untyped-def]
    """Active-set rounds from a z that keeps the limits; ends with the optimum in z: (ended, rounds, decided).

    Arguments as of `equations`, the size of x and how many rounds at most.
    """
    Cz, role = B[rows], N[ROLE]
    y0, lo, hi, clen = U[bounds], U[bounds + 1], U[bounds + 2], U[bounds + 3]
    target, mlen, z, zn, at = U[TARGET], U[MLEN], U[ZZ], U[ZN], U[START]
    stuck = 0
    count = 0
    size = reach
    for j in range(d):
        size += abs(z[j])
    values(d, P, Cz, y0, z, at)
    for i in range(P):
        N[LOOKED, i] = 0
        if role[i] == OWN:
            s = at[i]
            sides[i] = 0
            if s > hi[i] + KEPT * (clen[i] * size + abs(hi[i])):
                sides[i] = 1
            elif s < lo[i] - KEPT * (clen[i] * size + abs(lo[i])):
                sides[i] = -1
        elif role[i] == LIMIT and sides[i] != 0:
            # A guess may hold what is not reached here: only what is reached may be held from the start.
            bound = hi[i] if sides[i] > 0 else lo[i]
            if abs(at[i] - bound) > VIOLATED * (clen[i] * size + abs(bound)):
                sides[i] = 0
    decided = 0
    for _ in range(cap):
        decided = equations(d, m, P, tolerance, rows, bounds, sides, lam, B, U, N)
        share, row, side = first_block(d, P, reach, rows, bounds, sides, B, U, N)
        if row >= 0:
            count += 1
            for j in range(d):
                z[j] += share * (zn[j] - z[j])
            sides[row] = side
            stuck = stuck + 1 if share == 0.0 else 0
            continue
        size = 0.0
        for j in range(d):
            z[j] = zn[j]
            size += z[j] * z[j]
        size = reach + np.sqrt(size)
        scale = gradient_scale(m, target, mlen, P, role, sides, lo, hi, clen, size)
        row = worst_sign(P, role, sides, lo, hi, clen, size, scale, lam, stuck > 20)
        if row < 0:
            row, decided = overlooked(decided, d, m, P, tolerance, size, rows, bounds, sides, lam, B, U, N)
        if row < 0:
            return row == -1 and reached(P, HELD, size, bounds, sides, U, N), count, decided
        count += 1
        sides[row] = 0
    return False, count, decided


@outlined(f"Tuple((b1, i8))(i8, i8, i8, f8, f8, i1[::1], f8[::1], {WORK})")
def trial(d, m, P, tolerance, reach, sides, lam, B, U, N):  # type: ignore[no-untyped-def]
    """Whether the given working set is the optimum's, from z = 0; then z is the optimum: (accepted, decided)."""
    decided = equations(d, m, P, tolerance, CZ, Y0, sides, lam, B, U, N)
    role = N[ROLE]
    lo, hi, clen, target, mlen, z, zn = U[LO], U[HI], U[CLEN], U[TARGET], U[MLEN], U[ZZ], U[ZN]
    size = 0.0
    for j in range(d):
        size += zn[j] * zn[j]
    size = reach + np.sqrt(size)
    _share, row, _side = first_block(d, P, reach, CZ, Y0, sides, B, U, N)
    if row >= 0 or not reached(P, KEPT, size, Y0, sides, U, N):
        return False, decided
    scale = gradient_scale(m, target, mlen, P, role, sides, lo, hi, clen, size)
    if worst_sign(P, role, sides, lo, hi, clen, size, scale, lam, False) >= 0:
        return False, decided
    for j in range(d):
        z[j] = zn[j]
    for i in range(P):
        N[LOOKED, i] = 0
    row, decided = overlooked(decided, d, m, P, tolerance, size, CZ, Y0, sides, lam, B, U, N)
    if row != -1:
        for j in range(d):
            z[j] = 0.0
    return row == -1, decided
