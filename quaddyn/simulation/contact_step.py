"""One step of a robot on its contacts: compiled, between Pinocchio's inertia and bias and its integration of q.

Importing this module imports numba.  `Simulation` says what is computed; here it is put into loops: contact points
and frames, their Jacobians, the Delassus matrix, the solve, the new velocity, and the account of work.  Arrays are
C-contiguous; nothing is checked.

The inertia is factored as ``M + dt D = L^T L`` from the leaves to the root, which keeps the zeros between limbs
(`sparse_inertia`); with Y the rows of ``J L^-1`` the Delassus matrix is ``Y Y^T``, and impulses lambda move joints
by ``L^-1 Y^T lambda``.

What belongs to the contacts of a step lives in one array of floats and one of integers, which `views` cuts up.  Rows
3i, 3i + 1 of contact i are tangential, 3i + 2 is along the normal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..contact.solvers.compiled import solve, velocities
from ..hierarchy.jit import jit
from ..urdf.tree import Array
from .collisions import collide
from .sparse_inertia import factorize, solve_all_transposed, solve_lower, solve_transposed

Index = NDArray[np.int64]

#: Rounds of the solver; one where contacts are many and its dense Newton steps slow.
ROUNDS, MANY_CONTACTS = 4, 32
#: How often joint friction is computed, at most, and by how much it may be more than Coulomb's.
CORRECTIONS, OVER = 10, 1.05


class Parts(NamedTuple):
    """What there is about up to n contacts of s spheres: views of two arrays.

    Attributes:
        Y: (3n, nv) rows of the contacts' Jacobian times L^-1.
        G: (9 n^2,) the Delassus matrix of k contacts in the first 9 k^2.
        T: (3n, 3) tangents and normals, world axes.
        g, before: (3n,) velocities at the end of the step without contacts, and at its start [m/s].
        impulses: (3n,) [N s].
        normals: (n, 3) from the ground to the robot.
        world: (n, 3) impulses of the last step, world axes [N s].
        gaps: (n,) [m].
        offset: (n,) normal speed at which each contact may approach, or minus that at which it must depart [m/s].
        depart: (n,) speed at which the positions alone leave a penetration [m/s].
        friction: (n,) coefficients.
        centers: (s, 3) of the spheres [m].
        at, surfaces: (n,) sphere and surface of each contact.
        keys: (n,) which contacts had the impulses `world`; `held` (1,) says how many.
    """

    Y: Any
    G: Any
    T: Any
    g: Any
    before: Any
    impulses: Any
    normals: Any
    world: Any
    gaps: Any
    offset: Any
    depart: Any
    friction: Any
    centers: Any
    at: Any
    surfaces: Any
    keys: Any
    held: Any


def sizes(room: int, spheres: int, nv: int) -> tuple[int, int]:
    """Lengths of the arrays of floats and of integers that hold up to `room` contacts."""
    return room * (3 * nv + 9 * room + 28) + 3 * spheres, 3 * room + 1


@jit
def views(
    floats: Array,
    integers: Index,
    room: int,
    spheres: int,
    nv: int,
) -> Parts:
    """The `Parts` of the two arrays."""
    n, end = room, 3 * room * nv
    Y = floats[:end].reshape((3 * n, nv))
    start, end = end, end + 9 * n * n
    G = floats[start:end]
    start, end = end, end + 9 * n
    T = floats[start:end].reshape((3 * n, 3))
    lines = floats[end : end + 15 * n].reshape((5, 3 * n))
    start, end = end + 15 * n, end + 19 * n
    singles = floats[start:end].reshape((4, n))
    centers = floats[end : end + 3 * spheres].reshape((spheres, 3))
    return Parts(
        Y, G, T, lines[0], lines[1], lines[2], lines[3].reshape((n, 3)), lines[4].reshape((n, 3)),
        singles[0], singles[1], singles[2], singles[3], centers,
        integers[:n], integers[n : 2 * n], integers[2 * n : 3 * n], integers[3 * n :],
    )  # fmt: skip


@jit
def fall(
    M: Array,
    parent: Index,
    h: Array,
    v: Array,
    v_before: Array,
    tau: Array,
    actuated: Index,
    damping: Array,
    friction: Array,
    external: Array,
    stiction: float,
    corrections: int,
    dt: float,
    f: Array,
    L: Array,
    free: Array,
) -> bool:
    """Velocity `free` (nv,) at the end of a step without contacts, joint friction f (nv,), and the factor L (nv, nv).

    ``(M + dt f)(free - v) = dt (S^T tau + external - h - f v)``.  f is dry friction over a speed that is foreseen;
    where that was too low, so that friction would be more than Coulomb's, once more with the speed that came out, up
    to so many `corrections`: none where contacts will change that speed.
    False where M is not positive definite.
    """
    nv = len(v)
    for i in range(nv):
        f[i] = damping[i] + friction[i] / max(abs(2.0 * v[i] - v_before[i]), stiction)
    for turn in range(corrections + 1):
        for i in range(nv):
            free[i] = external[i] - h[i] - f[i] * v[i]
            for j in range(i):
                L[i, j] = M[i, j]
            L[i, i] = M[i, i] + dt * f[i]
        for j in range(len(actuated)):
            free[actuated[j]] += tau[j]
        if not factorize(L, parent, L):
            return False
        for i in range(nv):
            free[i] *= dt
        solve_all_transposed(L, parent, free)
        solve_lower(L, parent, free)
        beyond = False
        for i in range(nv):
            free[i] += v[i]
            if friction[i] > 0.0 and turn < corrections:
                speed = max(abs(free[i]), stiction)
                if (f[i] - damping[i]) * speed > OVER * friction[i]:
                    beyond = True
                    f[i] = damping[i] + friction[i] / speed
        if not beyond:
            break
    return True


@jit
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


@jit
def gather(
    J: Array,
    poses: Array,
    parent: Index,
    L: Array,
    v: Array,
    free: Array,
    spheres: Array,
    carriers: Index,
    planes: Array,
    boxes: Array,
    fields: Array,
    heights: Array,
    law: Array,
    w: Parts,
) -> int:
    """Find the contacts and set up their problem.

    Args:
        J: (nv, 6) columns of the world Jacobian: velocity of the point at the world's origin, angular velocity.
        poses: (joints, 12) rotations column by column, and translations.
        parent: (nv,) the degree of freedom before each, -1 at the root.
        L: (nv, nv) factor of the inertia.
        v: (nv,) velocity now.
        free: (nv,) velocity at the end of the step without contacts.
        spheres: (s, 4) centre in the joint's frame, radius.
        carriers: (s, 2) joint, and the last degree of freedom that moves it.
        planes: see `Terrain.packed`, as the next three.
        boxes: .
        fields: .
        heights: .
        law: (7,) dt, reach, slop, share and speed of recovery, stiffness (inf: rigid), damping.
        w: the `Parts`, written.

    Returns:
        The number of contacts, negative when there is not room for all.
    """
    nv, s, Y, T, at = len(J), len(spheres), w.Y, w.T, w.at
    for i in range(s):
        pose, place = poses[carriers[i, 0]], spheres[i]
        for a in range(3):
            w.centers[i, a] = pose[a] * place[0] + pose[3 + a] * place[1] + pose[6 + a] * place[2] + pose[9 + a]
    k: int = collide(
        w.centers, spheres[:, 3], planes, boxes, fields, heights, law[1], w.gaps, w.normals, w.friction, at, w.surfaces
    )
    if k <= 0:
        return k
    dt, stiffness, damping = law[0], law[5], law[6]
    G = w.G[: 9 * k * k].reshape((3 * k, 3 * k))
    for i in range(k):
        n, last = w.normals[i], carriers[at[i], 1]
        contact_frame(n[0], n[1], n[2], T[3 * i : 3 * i + 3])
        c, r = w.centers[at[i]], spheres[at[i], 3]
        px, py, pz = c[0] - r * n[0], c[1] - r * n[1], c[2] - r * n[2]
        for a in range(3 * i, 3 * i + 3):
            w.g[a], w.before[a], w.impulses[a] = 0.0, 0.0, 0.0
            for d in range(nv):
                Y[a, d] = 0.0
        d = last
        while d >= 0:  # the material point at p moves with v_O + omega x p
            x = J[d, 0] + J[d, 4] * pz - J[d, 5] * py
            y = J[d, 1] + J[d, 5] * px - J[d, 3] * pz
            z = J[d, 2] + J[d, 3] * py - J[d, 4] * px
            for a in range(3 * i, 3 * i + 3):
                entry = T[a, 0] * x + T[a, 1] * y + T[a, 2] * z
                Y[a, d] = entry
                w.g[a] += entry * free[d]
                w.before[a] += entry * v[d]
            d = parent[d]
        for a in range(3 * i, 3 * i + 3):
            solve_transposed(L, parent, Y[a], last)
            for b in range(a + 1):
                total = 0.0
                d = last
                while d >= 0:
                    total += Y[a, d] * Y[b, d]
                    d = parent[d]
                G[a, b] = total
                G[b, a] = total
        gap = w.gaps[i]
        w.depart[i] = 0.0
        if gap > 0.0:
            w.offset[i] = gap / dt
        elif stiffness < np.inf:
            w.offset[i] = stiffness * gap / (dt * stiffness + damping)
        else:
            w.offset[i] = 0.0
            if gap < -law[2]:
                w.depart[i] = min(-law[3] * (gap + law[2]) / dt, law[4])
        if stiffness < np.inf:
            G[3 * i + 2, 3 * i + 2] += 1.0 / (dt * (dt * stiffness + damping))
        for p in range(w.held[0]):  # start from what the same contact had in the last step
            if w.keys[p] == w.surfaces[i] * s + at[i]:
                for a in range(3 * i, 3 * i + 3):
                    w.impulses[a] = T[a, 0] * w.world[p, 0] + T[a, 1] * w.world[p, 1] + T[a, 2] * w.world[p, 2]
    return k


@jit
def passive_solve(
    G: Array,
    g: Array,
    offset: Array,
    before: Array,
    mu: Array,
    impulses: Array,
    least: float,
    work: float,
) -> tuple[float, bool]:
    """Impulses (3k,), in place, for contacts none of which does more than `work` [J] of positive work.

    As `FrictionalSolver`, all in compiled code: contacts that would give energy are solved again for the mean of the
    velocities before and after.  Contacts that are bound to depart (offset < 0) may: compliant ones give back
    what they took.

    Returns:
        The residual [m/s], and whether some contact had to rebound.
    """
    k = len(mu)
    rounds = ROUNDS if k <= MANY_CONTACTS else 1
    shifted = g.copy()
    for i in range(k):
        shifted[3 * i + 2] += offset[i]
    residual = solve(G, shifted, mu, impulses, least, rounds)[0]
    if work == np.inf:
        return residual, False
    rebound, after = np.zeros(k, dtype=np.bool_), np.empty(3 * k)
    for turn in range(k):
        giving = False
        velocities(G, g, impulses, after)
        for i in range(k):
            done = 0.0
            for a in range(3 * i, 3 * i + 3):
                done += 0.5 * impulses[a] * (before[a] + after[a])
            if done > work and not (offset[i] < 0.0 or rebound[i]):
                giving, rebound[i] = True, True
                shifted[3 * i], shifted[3 * i + 1] = g[3 * i] + before[3 * i], g[3 * i + 1] + before[3 * i + 1]
                shifted[3 * i + 2] = g[3 * i + 2] + max(before[3 * i + 2], offset[i])
        if not giving:
            return residual, turn > 0
        residual = solve(G, shifted, mu, impulses, least, rounds)[0]
    return residual, True


@jit
def undo(k: int, parent: Index, L: Array, tolerance: float, w: Parts, shift: Array) -> bool:
    """Velocity `shift` (nv,) that takes k contacts out of what they penetrate, for the positions alone.

    It is what the same contacts would give the robot at rest if the deep ones had to depart: feet that carry stick, and
    others are not pushed in.  Since v does not get it, no contact does work by it.

    Returns:
        Whether there is any.
    """
    shift[:] = 0.0
    deep = False
    for i in range(k):
        deep = deep or w.depart[i] > 0.0
    if not deep:
        return False
    n = 3 * k
    g, push = np.zeros(n), np.zeros(n)
    for i in range(k):
        g[3 * i + 2] = w.offset[i] - w.depart[i]
    residual = solve(w.G[: n * n].reshape((n, n)), g, w.friction[:k], push, tolerance, 1)[0]
    if not residual < np.inf:  # also true of NaN
        return False
    for r in range(n):
        if push[r] != 0.0:
            for j in range(len(shift)):
                shift[j] += push[r] * w.Y[r, j]
    solve_lower(L, parent, shift)
    return True


@jit
def finish(
    k: int,
    parent: Index,
    L: Array,
    v: Array,
    free: Array,
    f: Array,
    tau: Array,
    actuated: Index,
    dt: float,
    w: Parts,
    after: Array,
    work: Array,
) -> float:
    """Velocity `after` (nv,) from the impulses of k contacts, and the step's `work`: actuators, joints, contacts.

    Returns:
        The largest speed, NaN if there is one.
    """
    nv, T, impulses, n = len(v), w.T, w.impulses, 3 * k
    after[:] = 0.0
    work[:] = 0.0
    if k > 0:
        for r in range(n):
            if impulses[r] != 0.0:
                for j in range(nv):
                    after[j] += impulses[r] * w.Y[r, j]
        for r in range(n):  # of the robot's points, whatever the ground yields
            moved = w.g[r]
            for j in range(nv):
                moved += w.Y[r, j] * after[j]
            work[2] += 0.5 * impulses[r] * (w.before[r] + moved)
        solve_lower(L, parent, after)
        for i in range(k):
            w.keys[i] = w.surfaces[i] * len(w.centers) + w.at[i]
            for a in range(3):
                w.world[i, a] = (
                    T[3 * i, a] * impulses[3 * i]
                    + T[3 * i + 1, a] * impulses[3 * i + 1]
                    + T[3 * i + 2, a] * impulses[3 * i + 2]
                )
    w.held[0] = k
    largest = 0.0
    for j in range(nv):
        after[j] += free[j]
        work[1] -= 0.5 * dt * f[j] * after[j] * (v[j] + after[j])
        if not abs(after[j]) <= largest:  # also true of NaN
            largest = abs(after[j])
    for j in range(len(actuated)):
        work[0] += 0.5 * dt * tau[j] * (v[actuated[j]] + after[actuated[j]])
    return largest


@jit
def step(
    M: Array,
    h: Array,
    J: Array,
    poses: Array,
    parent: Index,
    v: Array,
    v_before: Array,
    tau: Array,
    actuated: Index,
    damping: Array,
    friction: Array,
    external: Array,
    stiction: float,
    spheres: Array,
    carriers: Index,
    planes: Array,
    boxes: Array,
    fields: Array,
    heights: Array,
    law: Array,
    tolerance: float,
    allowed: float,
    floats: Array,
    integers: Index,
    room: int,
    f: Array,
    L: Array,
    free: Array,
    after: Array,
    shift: Array,
    work: Array,
) -> tuple[int, float, float, bool, bool]:
    """All of it: `fall`, `gather`, `passive_solve` to within `tolerance` [m/s] and `allowed` [J], `undo`, `finish`.

    Returns:
        The number of contacts (negative: no room), the largest speed, the residual, whether some contact had to
        rebound, and whether positions have a `shift`.
        With a residual beyond the tolerance nothing is finished; a negative tolerance leaves out the solve.
    """
    dt = law[0]
    if not fall(M, parent, h, v, v_before, tau, actuated, damping, friction, external, stiction, 0, dt, f, L, free):
        return 0, np.nan, np.nan, False, False
    w = views(floats, integers, room, len(spheres), len(J))
    k: int = gather(J, poses, parent, L, v, free, spheres, carriers, planes, boxes, fields, heights, law, w)
    if k < 0:
        return k, 0.0, 0.0, False, False
    residual, rebound = 0.0, False
    if k == 0:
        fall(
            M, parent, h, v, v_before, tau, actuated, damping, friction, external, stiction, CORRECTIONS, dt, f, L, free
        )
    else:
        if tolerance < 0.0:
            return k, 0.0, np.inf, False, False
        n = 3 * k
        residual, rebound = passive_solve(
            w.G[: n * n].reshape((n, n)),
            w.g[:n], w.offset[:k], w.before[:n], w.friction[:k], w.impulses[:n], 1e-2 * tolerance, allowed,
        )  # fmt: skip
        if not residual <= tolerance:
            return k, 0.0, residual, rebound, False
    deep = undo(k, parent, L, tolerance, w, shift)
    return k, finish(k, parent, L, v, free, f, tau, actuated, dt, w, after, work), residual, rebound, deep
