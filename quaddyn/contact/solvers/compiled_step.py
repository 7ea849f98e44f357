"""The compiled part of `ContactStep`: from inertia, forces and contact spheres to the velocities after a step.

Importing this module imports numba.  Nothing is checked here.  The inertia is factored as ``M = L^T L`` from the leaves
to the root, which keeps the zeros between limbs (Featherstone 2008, sec. 6.5): with Y the rows of ``J L^-1``, the
Delassus matrix is ``G = Y Y^T`` and impulses move the joints by ``L^-1 Y^T lambda``.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .compiled import Array, solve, velocities

Index = NDArray[np.int64]

# Columns of a contact sphere's row: what belongs to the robot, then what the ground says.
OFFSET, RADIUS, BODY, LAST, FRICTION, NORMAL, LEVEL, COLUMNS = 0, 3, 4, 5, 6, 7, 10, 11
# Entries of the options.
DT, REACH, SHARE, SPEED, TOLERANCE, DEPTH, OPTIONS = 0, 1, 2, 3, 4, 5, 6
#: Rounds of the solver before its caller's slower ladder is asked.
ROUNDS = 2
#: Mean velocity along its own impulse, as a share of the tolerance, from which a contact counts as giving energy.
GIVING = 1e-2


@njit(cache=True, error_model="numpy")
def locate(spheres: Array, placements: Array, centres: Array) -> None:
    """Centres (k, 3) of the spheres in the world; `placements` (njoints, 12): rotation by columns, translation."""
    for i in range(len(spheres)):
        T = placements[int(spheres[i, BODY])]
        for a in range(3):
            centres[i, a] = T[9 + a] + T[a] * spheres[i, 0] + T[3 + a] * spheres[i, 1] + T[6 + a] * spheres[i, 2]


@njit(cache=True, error_model="numpy")
def factorize(M: Array, parent: Index, L: Array) -> bool:
    """``M = L^T L`` in place of the lower triangle of `L`; False where M is not positive definite."""
    n = len(parent)
    for i in range(n):
        for j in range(i + 1):
            L[i, j] = M[i, j]
    for k in range(n - 1, -1, -1):
        if not L[k, k] > 0.0:
            return False
        L[k, k] = np.sqrt(L[k, k])
        inverse = 1.0 / L[k, k]
        i = parent[k]
        while i >= 0:
            L[k, i] *= inverse
            i = parent[i]
        i = parent[k]
        while i >= 0:
            j = i
            while j >= 0:
                L[i, j] -= L[k, i] * L[k, j]
                j = parent[j]
            i = parent[i]
    return True


@njit(cache=True, error_model="numpy")
def solve_transposed(L: Array, parent: Index, x: Array, last: int) -> None:
    """``x <- L^-T x`` for x that is zero outside the support of `last`."""
    i = last
    while i >= 0:
        x[i] /= L[i, i]
        j = parent[i]
        while j >= 0:
            x[j] -= L[i, j] * x[i]
            j = parent[j]
        i = parent[i]


@njit(cache=True, error_model="numpy")
def solve_lower(L: Array, parent: Index, x: Array) -> None:
    """``x <- L^-1 x``."""
    for i in range(len(x)):
        j = parent[i]
        while j >= 0:
            x[i] -= L[i, j] * x[j]
            j = parent[j]
        x[i] /= L[i, i]


@njit(cache=True, error_model="numpy")
def contact_frame(nx: float, ny: float, nz: float, frame: Array) -> None:
    """Rows t1, t2, n of a right-handed frame; on level ground world axes."""
    if abs(nx) < 0.9:
        length = np.sqrt(ny * ny + nz * nz)
        tx, ty, tz = length, -nx * ny / length, -nx * nz / length  # x less its part along n
    else:
        length = np.sqrt(nx * nx + nz * nz)
        tx, ty, tz = -nx * ny / length, length, -ny * nz / length
    frame[0, 0], frame[0, 1], frame[0, 2] = tx, ty, tz
    frame[1, 0], frame[1, 1], frame[1, 2] = ny * tz - nz * ty, nz * tx - nx * tz, nx * ty - ny * tx
    frame[2, 0], frame[2, 1], frame[2, 2] = nx, ny, nz


@njit(cache=True, error_model="numpy")
def advance(
    M: Array,
    parent: Index,
    h: Array,
    force: Array,
    damping: Array,
    v: Array,
    J_T: Array,
    placements: Array,
    spheres: Array,
    options: Array,
    impulses: Array,
    gaps: Array,
    frames: Array,
    active: Index,
    L: Array,
    Y: Array,
    G: Array,
    g: Array,
    before: Array,
    offset: Array,
    after: Array,
) -> tuple[int, float, int, bool]:
    """Velocities `after` one step, and the world impulses that led there (in place, the last ones are the guess).

    Returns:
        Number of active contacts, residual [m/s] (inf where M is not positive definite), solver steps, whether contacts
        had to rebound.  `active`, `frames`, L, Y, G, g, `before`, `offset` are left for a second opinion and `finish`.
    """
    nv, dt = len(v), options[DT]
    for i in range(nv):
        for j in range(nv):
            L[i, j] = M[i, j]
        L[i, i] += dt * damping[i]
    if not factorize(L, parent, L):
        after[:] = np.nan
        return 0, np.inf, 0, False
    for i in range(nv):
        after[i] = dt * (force[i] - h[i] - damping[i] * v[i])
    for i in range(nv - 1, -1, -1):
        after[i] /= L[i, i]
        j = parent[i]
        while j >= 0:
            after[j] -= L[i, j] * after[i]
            j = parent[j]
    solve_lower(L, parent, after)
    for i in range(nv):
        after[i] += v[i]

    k = 0
    centre = np.empty((1, 3))
    for s in range(len(spheres)):
        sphere = spheres[s]
        locate(spheres[s : s + 1], placements, centre)
        nx, ny, nz = sphere[NORMAL], sphere[NORMAL + 1], sphere[NORMAL + 2]
        gap = nx * centre[0, 0] + ny * centre[0, 1] + nz * centre[0, 2] - sphere[RADIUS] - sphere[LEVEL]
        gaps[s] = gap
        if not gap < options[REACH] * dt:
            impulses[s, 0], impulses[s, 1], impulses[s, 2] = 0.0, 0.0, 0.0
            continue
        active[k] = s
        frame = frames[k]
        contact_frame(nx, ny, nz, frame)
        px = centre[0, 0] - sphere[RADIUS] * nx
        py = centre[0, 1] - sphere[RADIUS] * ny
        pz = centre[0, 2] - sphere[RADIUS] * nz
        for a in range(3):
            g[3 * k + a], before[3 * k + a] = 0.0, 0.0
            for d in range(nv):
                Y[3 * k + a, d] = 0.0
        d = int(sphere[LAST])
        while d >= 0:
            # The material point at p moves with v_O + omega x p.
            row = J_T[d]
            x = row[0] + row[4] * pz - row[5] * py
            y = row[1] + row[5] * px - row[3] * pz
            z = row[2] + row[3] * py - row[4] * px
            for a in range(3):
                entry = frame[a, 0] * x + frame[a, 1] * y + frame[a, 2] * z
                Y[3 * k + a, d] = entry
                g[3 * k + a] += entry * after[d]
                before[3 * k + a] += entry * v[d]
            d = parent[d]
        for a in range(3):
            solve_transposed(L, parent, Y[3 * k + a], int(sphere[LAST]))
        offset[k] = gap / dt if gap > 0.0 else max(options[SHARE] * gap / dt, -options[SPEED])
        k += 1
    if k == 0:
        return 0, 0.0, 0, False

    n = 3 * k
    for i in range(k):
        last = int(spheres[active[i], LAST])
        for r in range(3 * i, 3 * i + 3):
            for column in range(r + 1):
                total = 0.0
                d = last
                while d >= 0:
                    total += Y[r, d] * Y[column, d]
                    d = parent[d]
                G[r, column] = total
                G[column, r] = total
    mu, x, shifted, c = np.empty(k), np.empty(n), np.empty(n), np.empty(n)
    for i in range(k):
        s = active[i]
        mu[i] = spheres[s, FRICTION]
        for a in range(3):
            x[3 * i + a] = (
                frames[i, a, 0] * impulses[s, 0] + frames[i, a, 1] * impulses[s, 1] + frames[i, a, 2] * impulses[s, 2]
            )
            shifted[3 * i + a] = g[3 * i + a]
        shifted[3 * i + 2] += offset[i]
    block = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            block[i, j] = G[i, j]
    residual, steps = solve(block, shifted, mu, x, options[TOLERANCE], ROUNDS)
    rebounds = False
    if options[DEPTH] > 0.0:
        rebound = np.zeros(k, np.bool_)
        for _ in range(k):
            velocities(block, g[:n], x, c)
            found = False
            for i in range(k):
                r = 3 * i
                size = np.sqrt(x[r] ** 2 + x[r + 1] ** 2 + x[r + 2] ** 2)
                power = (
                    x[r] * (before[r] + c[r])
                    + x[r + 1] * (before[r + 1] + c[r + 1])
                    + x[r + 2] * (before[r + 2] + c[r + 2])
                )
                if not rebound[i] and power > GIVING * options[TOLERANCE] * size and gaps[active[i]] > -options[DEPTH]:
                    rebound[i] = found = True
                    shifted[r] = g[r] + before[r]
                    shifted[r + 1] = g[r + 1] + before[r + 1]
                    shifted[r + 2] = g[r + 2] + max(max(before[r + 2], offset[i]), 0.0)
            if not found:
                break
            rebounds = True
            residual, more = solve(block, shifted, mu, x, options[TOLERANCE], ROUNDS)
            steps += more
    finish(x, k, frames, active, parent, L, Y, impulses, after)
    return k, residual, steps, rebounds


@njit(cache=True, error_model="numpy")
def finish(
    x: Array, k: int, frames: Array, active: Index, parent: Index, L: Array, Y: Array, impulses: Array, after: Array
) -> None:
    """``after += L^-1 Y^T x``; x (3k,) in contact frames becomes `impulses` in world axes."""
    nv = len(after)
    move = np.zeros(nv)
    for r in range(3 * k):
        if x[r] != 0.0:
            for d in range(nv):
                move[d] += Y[r, d] * x[r]
    solve_lower(L, parent, move)
    for d in range(nv):
        after[d] += move[d]
    for i in range(k):
        s = active[i]
        for a in range(3):
            impulses[s, a] = (
                frames[i, 0, a] * x[3 * i] + frames[i, 1, a] * x[3 * i + 1] + frames[i, 2, a] * x[3 * i + 2]
            )
