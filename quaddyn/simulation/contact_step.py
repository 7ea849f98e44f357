"""The new velocity of a robot on its contacts: compiled, between rigid-body terms (`terms`) and the `integrator`.

`Simulation` says what is computed; here it is put into loops: contact points and frames, their Jacobians, the Delassus
matrix, the solve, the new velocity, and the account of work.  Nothing is checked.

The inertia is factored as ``M + dt D = L^T L`` from the leaves to the root, which keeps the zeros between limbs
(`sparse_inertia`); with Y the rows of ``J L^-1`` the Delassus matrix is ``Y Y^T``, and impulses lambda move joints
by ``L^-1 Y^T lambda``.

Of contacts, rows 3i, 3i + 1 of contact i are tangential, 3i + 2 is along the normal.  A joint at its stop (`stops`) is
a contact whose normal is the joint's own motion, and whose tangents move nothing.
"""

from __future__ import annotations

import math

from ..compiler import Matrix, Vector, compiled, local, matrix
from ..contact.solvers.frictional_core import copy, rounds_for, solve, velocities
from .collisions import collide_some, within_reach
from .contact_data import ContactLaw, Contacts, Motion, StepModel, StepState
from .drives import engage
from .sparse_inertia import factorize, solve_all_transposed, solve_lower, solve_transposed
from .stops import near_stops
from .terms import Terms, carried

#: How often joint friction is computed, at most, and by how much it may be more than Coulomb's.
CORRECTIONS, OVER = 10, 1.05
#: Share of the slop that a penetration which a step itself made may have.
NEW_SLOP = 1e-3
#: Residual of the contact law up to which a solve counts [m/s].
TOLERANCE = 1e-8
#: Slots of the report of a step: its largest speed, the residual, whether some contact had to rebound, and whether
#: positions have a correction.
SPEED, RESIDUAL, REBOUND, CORRECTED = range(4)


@compiled()
def free_velocity(
    model: StepModel, dt: float, terms: Terms, state: StepState, corrections: int, motion: Motion
) -> bool:
    """Velocity at the end of a step without contacts, joint friction, and the factor of the inertia.

    ``(M + dt f)(free - v) = dt (S^T tau + external - h - f v)``, with M of the robot and of rotors behind a gap that
    move with their joints.  f is dry friction over a speed that is foreseen; where that was too low, so that friction
    would be more than Coulomb's, once more with the speed that came out, up to so many `corrections`: none where
    contacts will change that speed.
    False where M is not positive definite.
    """
    M, h, v, L, f, free = terms.M, terms.h, state.v, motion.L, motion.f, motion.free
    drives, actuated, parent = state.drives, model.actuated, model.bodies.tree
    damping, friction, rotors = drives.damping, drives.friction, drives.carried
    stiction, nv = model.law.stiction, len(v)
    engage(drives, state.tau, v, state.before, dt)
    for i in range(nv):
        f[i] = damping[i] + friction[i] / max(abs(2.0 * v[i] - state.before[i]), stiction)
    for turn in range(corrections + 1):
        for i in range(nv):
            free[i] = state.external[i] - h[i] - f[i] * v[i]
            for j in range(i):
                L[i, j] = M[i, j]
            L[i, i] = M[i, i] + rotors[i] + dt * f[i]
        for j in range(len(actuated)):
            free[actuated[j]] += drives.torque[j]
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


@compiled()
def contact_frame(nx: float, ny: float, nz: float, frame: Matrix) -> None:
    """Rows t1, t2, n of a right-handed frame; on level ground world axes."""
    tx, ty, tz = 0.0, 0.0, 0.0
    if abs(nx) < 0.9:
        length = math.sqrt(ny * ny + nz * nz)
        tx, ty, tz = length, -nx * ny / length, -nx * nz / length  # x less its part along n
    else:
        length = math.sqrt(nx * nx + nz * nz)
        tx, ty, tz = -nx * ny / length, length, -ny * nz / length
    frame[0, 0], frame[0, 1], frame[0, 2] = tx, ty, tz
    frame[1, 0], frame[1, 1], frame[1, 2] = ny * tz - nz * ty, nz * tx - nx * tz, nx * ty - ny * tx
    frame[2, 0], frame[2, 1], frame[2, 2] = nx, ny, nz


@compiled()
def find_contacts(model: StepModel, poses: Matrix, law: ContactLaw, state: StepState, contacts: Contacts) -> int:
    """Where spheres touch the ground and joints their stops: how many, negative when there is not room for all."""
    places, around, centers = model.places, model.around, contacts.centers
    first, k, middle, reach = 0, 0, local(3), law.reach
    for c in range(len(around)):
        end, pose = model.clusters[c], poses[model.joints[first]]
        carried(pose, around[c], middle)
        if end - first == 1 or within_reach(middle[0], middle[1], middle[2], around[c, 3], model.ground, reach):
            for i in range(first, end):
                carried(pose, places[i], centers[i])
            k = collide_some(first, end, centers, model.radii, model.ground, reach, contacts.touching, k)
        first = end
    k = near_stops(model.stops, state.q, state.v, reach, law.dt, contacts.touching, k)
    return k if k <= len(contacts.keys) else -k


@compiled()
def last_moving(model: StepModel, s: int) -> int:
    """The last entry of v in line with those that move a sphere, or that a stop (s < 0) is of."""
    last: int = model.ends[s] if s >= 0 else model.stops.v[-1 - s]
    return last


@compiled()
def stop_rows(i: int, model: StepModel, v: Vector, motion: Motion, contacts: Contacts) -> None:
    """`contact_rows` of a joint's stop; forces along its tangents do nothing."""
    T, Y, r, j = contacts.T, contacts.Y, 3 * i, -1 - contacts.touching.spheres[i]
    d, side = model.stops.v[j], model.stops.sides[j]
    contact_frame(0.0, 0.0, 1.0, T[r : r + 3])
    for a in range(r, r + 3):
        contacts.g[a], contacts.before[a], contacts.impulses[a] = 0.0, 0.0, 0.0
        for c in range(len(v)):
            Y[a, c] = 0.0
    contacts.g[r + 2], contacts.before[r + 2], Y[r + 2, d] = side * motion.free[d], side * v[d], side
    solve_transposed(motion.L, model.bodies.tree, Y[r + 2], d)


@compiled()
def contact_rows(i: int, model: StepModel, terms: Terms, v: Vector, motion: Motion, contacts: Contacts) -> None:
    """Frame of contact i, its rows of Y, its velocities before the step and without contacts, its rows of G."""
    parent, touching, T, Y = model.bodies.tree, contacts.touching, contacts.T, contacts.Y
    J, o, own, above = terms.J, terms.origin, model.bodies.own, model.bodies.above
    g, before, free, nv, r = contacts.g, contacts.before, motion.free, len(v), 3 * i
    s = touching.spheres[i]
    n, c, radius, last = touching.normals[i], contacts.centers[s], model.radii[s], model.last[s]
    contact_frame(n[0], n[1], n[2], T[r : r + 3])
    px, py, pz = c[0] - radius * n[0] - o[0], c[1] - radius * n[1] - o[1], c[2] - radius * n[2] - o[2]
    for a in range(r, r + 3):
        g[a], before[a], contacts.impulses[a] = 0.0, 0.0, 0.0
        for d in range(nv):
            Y[a, d] = 0.0
    d = last
    while d >= 0:  # the material point at o + p moves with v_o + omega x p
        x = J[d, 0] + J[d, 4] * pz - J[d, 5] * py
        y = J[d, 1] + J[d, 5] * px - J[d, 3] * pz
        z = J[d, 2] + J[d, 3] * py - J[d, 4] * px
        for a in range(r, r + 3):
            along = T[a, 0] * x + T[a, 1] * y + T[a, 2] * z
            Y[a, own[d]] += along
            g[a] += along * free[own[d]]
            before[a] += along * v[own[d]]
        d = above[d]
    for a in range(r, r + 3):
        solve_transposed(motion.L, parent, Y[a], model.ends[s])


@compiled()
def contact_targets(i: int, k: int, law: ContactLaw, contacts: Contacts) -> None:
    """How fast contact i may approach or must depart, its softness in G of k contacts, and its impulses to begin with.

    These are what the same contact had in the last step.  Where gaps are those at the middle of the step, a contact
    that closed on the way there has gone too far by then: positions alone take that back.
    """
    touching, T = contacts.touching, contacts.T
    gap, dt, closing, r = touching.gaps[i], law.dt, law.closing, 3 * i
    s, compliant = touching.spheres[i], law.stiffness < math.inf and touching.spheres[i] >= 0
    contacts.depart[i] = 0.0
    if gap > 0.0:
        contacts.offset[i] = gap / closing
    elif compliant:
        contacts.offset[i] = law.stiffness * gap / (closing * law.stiffness + law.damping)
    else:
        contacts.offset[i] = 0.0
        first = min(gap - (dt - closing) * contacts.before[r + 2], 0.0)
        if first - gap > NEW_SLOP * law.slop:
            contacts.depart[i] = (first - gap) / dt
        if first < -law.slop:
            contacts.depart[i] += min(-law.recovery_share * (first + law.slop) / dt, law.recovery_speed)
    if compliant:
        contacts.G[(r + 2) * (3 * k + 1)] += 1.0 / (dt * (closing * law.stiffness + law.damping))
        contacts.G[r * (3 * k + 1)] += law.creep / dt
        contacts.G[(r + 1) * (3 * k + 1)] += law.creep / dt
    if s < 0:  # tangents that move nothing have an impulse of zero, as if they moved as much as the normal
        normal = contacts.G[(r + 2) * (3 * k + 1)]
        contacts.G[r * (3 * k + 1)], contacts.G[(r + 1) * (3 * k + 1)] = normal, normal
    key = touching.surfaces[i] * len(contacts.centers) + s
    for p in range(contacts.held[0]):
        if contacts.keys[p] == key:
            x, y, z = contacts.world[p, 0], contacts.world[p, 1], contacts.world[p, 2]
            for a in range(r, r + 3):
                contacts.impulses[a] = T[a, 0] * x + T[a, 1] * y + T[a, 2] * z


@compiled()
def pose_contacts(
    model: StepModel, law: ContactLaw, terms: Terms, state: StepState, motion: Motion, contacts: Contacts
) -> int:
    """Find the contacts and set up their problem.

    Returns:
        The number of contacts, negative when there is not room for all.
    """
    k: int = find_contacts(model, terms.poses, law, state, contacts)
    if k <= 0:
        return k
    parent, Y = model.bodies.tree, contacts.Y
    G = matrix(contacts.G, 0, 3 * k, 3 * k)
    for i in range(k):
        if contacts.touching.spheres[i] >= 0:
            contact_rows(i, model, terms, state.v, motion, contacts)
        else:
            stop_rows(i, model, state.v, motion, contacts)
        last: int = last_moving(model, contacts.touching.spheres[i])
        for a in range(3 * i, 3 * i + 3):
            for b in range(a + 1):
                total = 0.0
                d = last
                while d >= 0:
                    total += Y[a, d] * Y[b, d]
                    d = parent[d]
                G[a, b] = total
                G[b, a] = total
        contact_targets(i, k, law, contacts)
    return k


@compiled()
def passive_solve(k: int, least: float, allowed: float, contacts: Contacts) -> tuple[float, bool]:
    """Impulses of k contacts none of which does more than `allowed` [J] of positive work, to within `least` [m/s].

    As `FrictionalSolver`, all in compiled code: contacts that would give energy are solved again for the mean of the
    velocities before and after.  Contacts that are bound to depart (offset < 0) may: compliant ones give back
    what they took.

    Returns:
        The residual [m/s], and whether some contact had to rebound.
    """
    n = 3 * k
    G, g, mu = matrix(contacts.G, 0, n, n), contacts.g[:n], contacts.touching.friction[:k]
    impulses, shifted, before = contacts.impulses[:n], contacts.shifted[:n], contacts.before
    after, rebound, offset = contacts.after[:n], contacts.rebound, contacts.offset
    rounds: int = rounds_for(k)
    copy(g, shifted, n)
    for i in range(k):
        rebound[i] = 0
        shifted[3 * i + 2] += offset[i]
    residual: float = solve(G, shifted, mu, impulses, least, rounds, contacts.solver)
    if allowed == math.inf:
        return residual, False
    for turn in range(k):
        giving = False
        velocities(G, g, impulses, after)
        for i in range(k):
            done = 0.0
            for a in range(3 * i, 3 * i + 3):
                done += 0.5 * impulses[a] * (before[a] + after[a])
            if done > allowed and not (offset[i] < 0.0 or rebound[i]):
                giving = True
                rebound[i] = 1
                shifted[3 * i], shifted[3 * i + 1] = g[3 * i] + before[3 * i], g[3 * i + 1] + before[3 * i + 1]
                shifted[3 * i + 2] = g[3 * i + 2] + max(before[3 * i + 2], offset[i])
        if not giving:
            return residual, turn > 0
        residual = solve(G, shifted, mu, impulses, least, rounds, contacts.solver)
    return residual, True


@compiled(inline=False)
def position_correction(k: int, model: StepModel, tolerance: float, motion: Motion, contacts: Contacts) -> bool:
    """Velocity that takes k contacts out of what they penetrate, for the positions alone.

    It is what the same contacts would give the robot at rest if the deep ones had to depart: feet that carry stick, and
    others are not pushed in.  Since v does not get it, no contact does work by it.

    Returns:
        Whether there is any.
    """
    correction, Y, n = motion.correction, contacts.Y, 3 * k
    deep = False
    for j in range(len(correction)):
        correction[j] = 0.0
    for i in range(k):
        deep = deep or contacts.depart[i] > 0.0
    if not deep:
        return False
    G, g, push = matrix(contacts.G, 0, n, n), contacts.shifted[:n], contacts.after[:n]
    for r in range(n):
        g[r], push[r] = 0.0, 0.0
    for i in range(k):
        g[3 * i + 2] = contacts.offset[i] - contacts.depart[i]
    residual: float = solve(G, g, contacts.touching.friction[:k], push, tolerance, 1, contacts.solver)
    if not residual < math.inf:  # also true of NaN
        return False
    for r in range(n):
        if push[r] != 0.0:
            for j in range(len(correction)):
                correction[j] += push[r] * Y[r, j]
    solve_lower(motion.L, model.bodies.tree, correction)
    return True


@compiled()
def carry(k: int, motion: Motion, contacts: Contacts, model: StepModel, after: Vector) -> None:
    """What the impulses of k contacts add to the velocity, into `after` (nv,), and their work; they are remembered."""
    T, Y, impulses, touching = contacts.T, contacts.Y, contacts.impulses, contacts.touching
    nv = len(after)
    for r in range(3 * k):
        if impulses[r] != 0.0:
            for j in range(nv):
                after[j] += impulses[r] * Y[r, j]
    for r in range(3 * k):  # of the robot's points, whatever the ground yields
        moved = contacts.g[r]
        for j in range(nv):
            moved += Y[r, j] * after[j]
        motion.work[2 if touching.spheres[r // 3] >= 0 else 1] += 0.5 * impulses[r] * (contacts.before[r] + moved)
    solve_lower(motion.L, model.bodies.tree, after)
    for i in range(k):
        contacts.keys[i] = touching.surfaces[i] * len(contacts.centers) + touching.spheres[i]
        x, y, z = impulses[3 * i], impulses[3 * i + 1], impulses[3 * i + 2]
        for a in range(3):
            contacts.world[i, a] = T[3 * i, a] * x + T[3 * i + 1, a] * y + T[3 * i + 2, a] * z


@compiled(inline=False)
def finish(
    k: int, model: StepModel, dt: float, state: StepState, motion: Motion, contacts: Contacts, after: Vector
) -> float:
    """Velocity `after` (nv,) from the impulses of k contacts, and the step's work.

    Returns:
        The largest speed, NaN if there is one.
    """
    v, work, actuated, drives = state.v, motion.work, model.actuated, state.drives
    for a in range(3):
        work[a] = 0.0
    for j in range(len(v)):
        after[j] = 0.0
    if k > 0:
        carry(k, motion, contacts, model, after)
    contacts.held[0] = k
    largest = 0.0
    for j in range(len(v)):
        after[j] += motion.free[j]
        work[1] -= 0.5 * dt * motion.f[j] * after[j] * (v[j] + after[j])
        if not abs(after[j]) <= largest and largest == largest:  # NaN stays
            largest = abs(after[j])
    for j in range(len(actuated)):
        work[0] += 0.5 * dt * drives.torque[j] * (v[actuated[j]] + after[actuated[j]])
    for each in range(len(drives.loose)):  # rotors that go along, which are no part of the robot's energy
        i = actuated[drives.loose[each]]
        work[0] -= 0.5 * drives.carried[i] * (after[i] * after[i] - v[i] * v[i])
    return largest


@compiled(inline=False)
def step(
    model: StepModel, law: ContactLaw, terms: Terms, state: StepState, motion: Motion, contacts: Contacts, after: Vector
) -> int:
    """All of it, into `motion`, `contacts` and the velocity `after` (nv,) at the end of a step or of a piece of one.

    With a residual beyond the tolerance nothing is finished.

    Returns:
        The number of contacts; negative: no room.
    """
    report = motion.report
    report[SPEED], report[RESIDUAL], report[REBOUND], report[CORRECTED] = math.nan, math.nan, 0.0, 0.0
    if not free_velocity(model, law.dt, terms, state, 0, motion):
        return 0
    report[SPEED], report[RESIDUAL] = 0.0, 0.0
    k: int = pose_contacts(model, law, terms, state, motion, contacts)
    if k < 0:
        return k
    if k == 0:
        free_velocity(model, law.dt, terms, state, CORRECTIONS, motion)
    else:
        if law.tolerance < 0.0:
            report[RESIDUAL] = math.inf
            return k
        residual, rebound = passive_solve(k, 1e-2 * law.tolerance, law.allowed, contacts)
        report[RESIDUAL], report[REBOUND] = residual, rebound
        if not residual <= law.tolerance:
            return k
    report[CORRECTED] = position_correction(k, model, law.tolerance, motion, contacts)
    report[SPEED] = finish(k, model, law.dt, state, motion, contacts, after)
    return k
