"""One tick of a base on four independent legs of three joints, compiled from state to torques.

Twelve unknowns u whatever the contacts: per leg its contact force over the robot's mass, if its contact is made, or its
joint accelerations, if it is free (both, six, while a contact comes or goes).  A made contact does not move, which
gives the joint accelerations of its leg from the base's, ``a_l = J_l^-1 (w - J_b a_b)``; the base's come from the six
rows of the equations of motion without a motor.  Torques, accelerations and forces are then affine in u, and the
levels are those of the dense path over fewer unknowns, their rows, units and weights the same.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np

from ..hierarchy.compiled import ENDED, RANKS, WORST, descend
from ..hierarchy.jit import entry, inner
from .compiled_legs import cross_add, eliminate, inverse3, leg, log3, point_jacobian, rotation

# What `tick` returns.
SOLVED, SINGULAR, NOT_SOLVED, NOT_GIVEN = 0, 1, 2, 3

# Codes of the elements, as the classes have them.
COM, FOOT, ORIENTATION, POSTURE, FORCES = 1, 3, 4, 7, 20
CONTACT, FRICTION, NORMAL, TORQUE, RATE, BOUNDS = 101, 102, 103, 104, 105, 107

# A contact's numbers: share, cap, radius, least, largest, normal (3), then the faces of its friction pyramid, 3 each.
SHARE, CAP, RADIUS, LEAST, LARGEST, NORMAL_AXIS, FACES = 0, 1, 2, 3, 4, 5, 8

# Slots of `extra`.
GRAVITY, MASS, LENGTH, AXES, FEET, OFFSET, BEFORE, HAS_BEFORE, PERIOD, COM_AT, COM_SPEED = (
    0, 3, 4, 5, 41, 53, 62, 74, 75, 76, 79,
)  # fmt: skip
EXTRA = 82

# Slots of `answer`: torques, accelerations, forces, then the rest, and ranks from RANK on.
TAU, ACCELERATION, FORCE, VIOLATION, KKT, ROWS, RANK = 0, 12, 30, 42, 43, 44, 45

#: Below these a leg or the base is near singular, and the dense path, which divides by neither, takes over.
LEG_LEAST, BASE_LEAST = 1e-3, 1e-7


@inner
def most_acceleration(room, v, fastest, a, h, recovery, viable):  # type: ignore[no-untyped-def]
    """Largest acceleration of a joint with `room` to its upper limit; see `JointBounds`."""
    high = min(a, (fastest - v) / h)
    if np.isfinite(room):
        stop = -v / h
        end = 2.0 * (room - h * v) / (h * h)
        if end > stop:
            position = end
        else:
            position = stop
            if v > 0.0:
                position = min(stop, -v * v / max(2.0 * max(room, 0.0), 1e-12))
        high = min(high, position)
        if viable > 0.0:
            b = h * (2.0 * v + a * h)
            root = b * b - 4.0 * h * h * (v * v - 2.0 * a * (room - h * v))
            allowed = stop
            if root >= 0.0:
                allowed = (-b + np.sqrt(root)) / (2.0 * h * h)
            high = min(high, max(allowed, stop))
        if room < 0.0:
            high = min(high, (room / recovery - v) / h)
    return max(high, -a)


@entry
def tick(  # type: ignore[no-untyped-def]
    q, v, M, h, geometry, index, program, numbers, contacts, extra, last, guessed, tolerance, cap, working, answer, F,
    N, W,
):  # fmt: skip
    """From state to torques.

    Args:
        q: (nq,), free-flyer first.
        v: (18,).
        M: (18, 18).
        h: (18,).
        geometry: (4, 12, 3) per leg, of each joint in the body before it: rotations (3, 3, 3), positions (3, 3).
        index: (3, 4, 3) where a leg's joints are in q, in v and among the actuated ones.
        program: (elements, 4) level, code, where its numbers begin, leg or number of faces.
        numbers: all elements' numbers, one after the other.
        contacts: (4, FACES + 3 * faces).
        extra: (EXTRA,) gravity (3), mass, length, axes of the joints (4, 3, 3), feet in their last bodies (4, 3),
            rotation of the base's frame in its body (9), torques of the tick before (12) and whether there was one,
            period, centre of mass (3), its velocity (3).
        last: flat, working sets of the last tick.
        guessed: whether they fit.
        tolerance: of rank.
        cap: rounds per level.
        working: flat, takes this tick's.
        answer: (RANK + levels,) takes torques (12), acceleration (18), forces (4, 3), largest violation of level 0,
            KKT residual, number of inequalities, ranks of the levels and of the one that shortens.
        F: floats of the solver.
        N: its integers.
        W: work.

    Returns:
        What became of it.
    """
    mass, length = extra[MASS], extra[LENGTH]
    axes = extra[AXES:FEET].reshape(4, 3, 3)
    feet = extra[FEET:OFFSET].reshape(4, 3)
    offset = extra[OFFSET:BEFORE].reshape(3, 3)
    before = extra[BEFORE:HAS_BEFORE]
    has_before, dt = extra[HAS_BEFORE], extra[PERIOD]
    iq, iv, ia = index[0], index[1], index[2]
    K = 0
    for e in range(program.shape[0]):
        K = max(K, program[e, 0] + 1)
    K += 1  # the shortest (a, f), where freedom is left

    # Who decides what.
    force, joint = N[:4], N[4:8]
    N = N[8:]
    n = 0
    made = 0
    for k in range(4):
        share = contacts[k, SHARE]
        force[k] = -1
        joint[k] = -1
        if share > 0.0:
            force[k] = n
            n += 3
        if share < 1.0:
            joint[k] = n
            n += 3
        else:
            made += 1
    c = n  # the column of constants

    at = 0
    R0 = W[at : at + 9].reshape(3, 3)
    at += 9
    p0 = W[at : at + 3]
    at += 3
    v0 = W[at : at + 3]
    at += 3
    w0 = W[at : at + 3]
    at += 3
    c0 = W[at : at + 3]
    at += 3
    origins = W[at : at + 36].reshape(4, 3, 3)
    at += 36
    turns = W[at : at + 36].reshape(4, 3, 3)
    at += 36
    state = W[at : at + 60].reshape(4, 5, 3)
    at += 60
    work = W[at : at + 18].reshape(2, 3, 3)
    at += 18
    Jb = W[at : at + 72].reshape(4, 3, 6)
    at += 72
    Jl = W[at : at + 36].reshape(4, 3, 3)
    at += 36
    inv = W[at : at + 9].reshape(3, 3)
    at += 9
    Pl = W[at : at + 72].reshape(4, 3, 6)
    at += 72
    pl = W[at : at + 12].reshape(4, 3)
    at += 12
    rest = W[at : at + 12].reshape(4, 3)
    at += 12
    drift = W[at : at + 12].reshape(4, 3)
    at += 12
    B = W[at : at + 36].reshape(6, 6)
    at += 36
    Ab = W[at : at + 6 * (n + 1)].reshape(6, n + 1)
    at += 6 * (n + 1)
    Al = W[at : at + 12 * (n + 1)].reshape(12, n + 1)
    at += 12 * (n + 1)
    Tau = W[at : at + 12 * (n + 1)].reshape(12, n + 1)
    at += 12 * (n + 1)
    Jc = W[at : at + 18].reshape(3, 6)
    at += 18
    Jd = W[at : at + 9].reshape(3, 3)
    at += 9
    turn = W[at : at + 9].reshape(3, 3)
    at += 9
    vec = W[at : at + 12]
    at += 12
    odd = W[at : at + 9].reshape(3, 3)
    at += 9

    rotation(q[3], q[4], q[5], q[6], R0)
    for i in range(3):
        p0[i] = q[i]
        v0[i] = R0[i, 0] * v[0] + R0[i, 1] * v[1] + R0[i, 2] * v[2]
        w0[i] = R0[i, 0] * v[3] + R0[i, 1] * v[4] + R0[i, 2] * v[5]
        c0[i] = 0.0
    cross_add(w0, v0, c0)
    damping = 0.0
    for e in range(program.shape[0]):
        code = program[e, 1]
        if code == CONTACT:
            damping = numbers[program[e, 2]]
        elif code < FORCES and numbers[program[e, 2]] == 0.0:
            if code != FOOT or contacts[program[e, 3], SHARE] < 1.0:
                return NOT_GIVEN
    for k in range(4):
        leg(
            q, v, iq[k], iv[k], geometry[k, :9].reshape(3, 3, 3), geometry[k, 9:12], axes[k], feet[k], R0, p0, v0, w0,
            c0, origins[k], turns[k], state[k], work,
        )  # fmt: skip
        if contacts[k, SHARE] > 0.0:
            for i in range(3):
                vec[i] = -contacts[k, RADIUS] * contacts[k, NORMAL_AXIS + i]  # from the centre to the contact point
                vec[3 + i] = state[k, 0, i] + vec[i]
                drift[k, i] = state[k, 2, i]
                rest[k, i] = state[k, 1, i]
            cross_add(state[k, 4], vec, drift[k])
            cross_add(state[k, 3], vec, rest[k])
            for i in range(3):
                rest[k, i] *= -damping
            point_jacobian(vec[3:6], R0, p0, origins[k], turns[k], Jb[k], Jl[k])

    # The base's six rows over u.
    for i in range(6):
        for j in range(6):
            B[i, j] = M[i, j]
        for j in range(n):
            Ab[i, j] = 0.0
        Ab[i, c] = -h[i]
    for k in range(4):
        if contacts[k, SHARE] >= 1.0:
            if not inverse3(Jl[k], inv) > LEG_LEAST:
                return SINGULAR
            for i in range(3):
                s = 0.0
                for m in range(3):
                    s += inv[i, m] * (rest[k, m] - drift[k, m])
                pl[k, i] = s
                for j in range(6):
                    Pl[k, i, j] = -(inv[i, 0] * Jb[k, 0, j] + inv[i, 1] * Jb[k, 1, j] + inv[i, 2] * Jb[k, 2, j])
            for i in range(6):
                for m in range(3):
                    a = M[i, iv[k, m]]
                    Ab[i, c] -= a * pl[k, m]
                    for j in range(6):
                        B[i, j] += a * Pl[k, m, j]
        else:
            for i in range(6):
                for m in range(3):
                    Ab[i, joint[k] + m] = -M[i, iv[k, m]]
        if force[k] >= 0:
            for i in range(6):
                for m in range(3):
                    Ab[i, force[k] + m] = mass * Jb[k, m, i]
    if not eliminate(B, Ab, n + 1) > BASE_LEAST:
        return SINGULAR
    for k in range(4):
        for i in range(3):
            row = Al[ia[k, i]]
            if joint[k] < 0:
                for j in range(n + 1):
                    s = 0.0
                    for m in range(6):
                        s += Pl[k, i, m] * Ab[m, j]
                    row[j] = s
                row[c] += pl[k, i]
            else:
                for j in range(n + 1):
                    row[j] = 0.0
                row[joint[k] + i] = 1.0
    for k in range(4):
        for i in range(3):
            row = Tau[ia[k, i]]
            f = iv[k, i]
            for j in range(n + 1):
                s = 0.0
                for m in range(6):
                    s += M[f, m] * Ab[m, j]
                for m in range(3):
                    s += M[f, iv[k, m]] * Al[ia[k, m], j]
                row[j] = s
            row[c] += h[f]
            if force[k] >= 0:
                for m in range(3):
                    row[force[k] + m] -= mass * Jl[k, m, i]

    # The levels.
    E = 0
    P = 0
    for e in range(program.shape[0]):
        code = program[e, 1]
        if code == COM or code == ORIENTATION or code == FOOT:
            E += 3
        elif code == POSTURE or code == FORCES:
            E += 12
        elif code == CONTACT:
            E += 12
        elif code == FRICTION:
            P += 4 * program[e, 3]
        elif code == NORMAL:
            P += 4
        else:
            P += 12
    E += 24
    A = W[at : at + E * n].reshape(E, n)
    at += E * n
    b = W[at : at + E]
    at += E
    ones = W[at : at + E]
    at += E
    C = W[at : at + P * n].reshape(P, n)
    at += P * n
    lower = W[at : at + P]
    at += P
    upper = W[at : at + P]
    at += P
    x = W[at : at + n]
    at += n
    stats = W[at : at + RANKS + 2 * K + 2]
    at += RANKS + 2 * K + 2
    ms = N[: K + 1]
    ps = N[K + 1 : 2 * K + 2]
    m = 0
    p = 0
    for level in range(K):
        ms[level] = m
        ps[level] = p
        if level == K - 1:
            # What dense unknowns there are, (a_A, f / mass): the shortest, where freedom is left.
            for i in range(12):
                for j in range(n):
                    A[m, j] = Al[i, j]
                b[m] = -Al[i, c]
                m += 1
            for k in range(4):
                if force[k] >= 0:
                    for i in range(3):
                        for j in range(n):
                            A[m, j] = 0.0
                        A[m, force[k] + i] = 1.0
                        b[m] = 0.0
                        m += 1
            continue
        for e in range(program.shape[0]):
            if program[e, 0] != level:
                continue
            code = program[e, 1]
            z = numbers[program[e, 2] :]
            if code == COM:
                # The equations of motion say it: what forces the world exerts, the centre of mass follows.
                for i in range(3):
                    if z[1 + 9 + i] == 0.0:
                        continue
                    weight = z[1 + i]
                    for j in range(n):
                        A[m, j] = 0.0
                    for k in range(4):
                        if force[k] >= 0:
                            A[m, force[k] + i] = weight
                    error = 0.0
                    if z[0] != 0.0:
                        error = z[19 + i] - extra[COM_AT + i]
                    wanted = z[16 + i] + z[7 + i] * (z[13 + i] - extra[COM_SPEED + i]) + z[4 + i] * error
                    b[m] = weight * (wanted - extra[GRAVITY + i])
                    m += 1
            elif code == ORIENTATION:
                for i in range(3):
                    for j in range(3):
                        s = 0.0
                        for k in range(3):
                            s += R0[i, k] * offset[k, j]
                        turn[i, j] = s
                vec[0] = 0.0
                vec[1] = 0.0
                vec[2] = 0.0
                if z[0] != 0.0:
                    log3(z[19:28], turn, vec, odd)
                for i in range(3):
                    if z[10 + i] == 0.0:
                        continue
                    weight = z[1 + i]
                    for j in range(n):
                        A[m, j] = weight * (R0[i, 0] * Ab[3, j] + R0[i, 1] * Ab[4, j] + R0[i, 2] * Ab[5, j])
                    wanted = z[16 + i] + z[7 + i] * (z[13 + i] - w0[i]) + z[4 + i] * vec[i]
                    b[m] = weight * (wanted - (R0[i, 0] * Ab[3, c] + R0[i, 1] * Ab[4, c] + R0[i, 2] * Ab[5, c]))
                    m += 1
            elif code == FOOT:
                k = program[e, 3]
                share = contacts[k, SHARE]
                if share >= 1.0:
                    continue
                point_jacobian(state[k, 0], R0, p0, origins[k], turns[k], Jc, Jd)
                for i in range(3):
                    if share == 0.0 and z[10 + i] == 0.0:
                        continue
                    weight = z[1 + i] / (1.0 - share)
                    error = 0.0
                    if z[0] != 0.0:
                        error = z[19 + i] - state[k, 0, i]
                    wanted = z[16 + i] + z[7 + i] * (z[13 + i] - state[k, 1, i]) + z[4 + i] * error - state[k, 2, i]
                    wanted *= 1.0 - share
                    if share > 0.0:
                        wanted += share * (rest[k, i] - drift[k, i])
                        for j in range(6):
                            Jc[i, j] = (1.0 - share) * Jc[i, j] + share * Jb[k, i, j]
                        for j in range(3):
                            Jd[i, j] = (1.0 - share) * Jd[i, j] + share * Jl[k, i, j]
                    for j in range(n):
                        s = 0.0
                        for f in range(6):
                            s += Jc[i, f] * Ab[f, j]
                        A[m, j] = weight * s
                    s = wanted
                    for f in range(6):
                        s -= Jc[i, f] * Ab[f, c]
                    b[m] = weight * s
                    for f in range(3):
                        A[m, joint[k] + f] += weight * Jd[i, f]
                    m += 1
            elif code == POSTURE:
                # given, six rows of 12, then a whole configuration
                for k in range(4):
                    for i in range(3):
                        o = ia[k, i]
                        if z[1 + 36 + o] == 0.0:
                            continue
                        weight = z[1 + o]
                        error = 0.0
                        if z[0] != 0.0:
                            error = z[73 + iq[k, i]] - q[iq[k, i]]
                        wanted = z[61 + o] + z[25 + o] * (z[49 + o] - v[iv[k, i]]) + z[13 + o] * error
                        for j in range(n):
                            A[m, j] = weight * Al[o, j]
                        b[m] = weight * (wanted - Al[o, c])
                        m += 1
            elif code == FORCES:
                # weight, which contacts (4), wanted (4, 3)
                for k in range(4):
                    if force[k] >= 0 and z[1 + k] != 0.0:
                        for i in range(3):
                            for j in range(n):
                                A[m, j] = 0.0
                            A[m, force[k] + i] = z[0] * mass
                            b[m] = z[0] * z[5 + 3 * k + i]
                            m += 1
            elif code == FRICTION:
                for k in range(4):
                    if force[k] < 0:
                        continue
                    for o in range(program[e, 3]):
                        for j in range(n):
                            C[p, j] = 0.0
                        for i in range(3):
                            C[p, force[k] + i] = contacts[k, FACES + 3 * o + i]
                        lower[p] = -np.inf
                        upper[p] = 0.0
                        p += 1
            elif code == NORMAL:
                for k in range(4):
                    if force[k] < 0:
                        continue
                    most = min(contacts[k, LARGEST], contacts[k, CAP])
                    for j in range(n):
                        C[p, j] = 0.0
                    for i in range(3):
                        C[p, force[k] + i] = contacts[k, NORMAL_AXIS + i]
                    lower[p] = min(contacts[k, LEAST] * contacts[k, SHARE], most) / mass
                    upper[p] = most / mass
                    p += 1
            elif code == TORQUE or code == RATE:
                if code == RATE and has_before == 0.0:
                    continue
                weight = 1.0 / (mass * length)
                for i in range(12):
                    bound = z[i]
                    if code == TORQUE and not bound < 1e17:
                        continue
                    middle = 0.0
                    if code == RATE:
                        bound *= dt
                        middle = before[i]
                    for j in range(n):
                        C[p, j] = weight * Tau[i, j]
                    lower[p] = weight * (middle - bound - Tau[i, c])
                    upper[p] = weight * (middle + bound - Tau[i, c])
                    p += 1
            elif code == BOUNDS:
                # horizon, recovery, viability, then per joint lower, upper, fastest, most
                for k in range(4):
                    for i in range(3):
                        o = ia[k, i]
                        at_, rate, a = q[iq[k, i]], v[iv[k, i]], z[39 + o]
                        high = most_acceleration(z[15 + o] - at_, rate, z[27 + o], a, z[0], z[1], z[2])
                        low = -most_acceleration(at_ - z[3 + o], -rate, z[27 + o], a, z[0], z[1], z[2])
                        if low > high:
                            low = min(max(-rate / z[0], -a), a)
                            high = low
                        for j in range(n):
                            C[p, j] = length * Al[o, j]
                        lower[p] = length * (low - Al[o, c])
                        upper[p] = length * (high - Al[o, c])
                        p += 1
    ms[K] = m
    ps[K] = p
    for i in range(m):
        ones[i] = 1.0
    size = (K + 1) * p
    lam = W[at : at + size].reshape(K + 1, p)
    at += size
    descend(
        A[:m], b[:m], ones[:m], C[:p], lower[:p], upper[:p], ms, ps, tolerance, 0.0, cap,
        last[:size].reshape(K + 1, p), guessed, x, working[:size].reshape(K + 1, p), lam, stats, F, N[2 * K + 2 :],
    )  # fmt: skip

    tau, a, f = answer[TAU:ACCELERATION], answer[ACCELERATION:FORCE], answer[FORCE:VIOLATION]
    violation = 0.0
    for i in range(ps[1]):
        s = 0.0
        for j in range(n):
            s += C[i, j] * x[j]
        violation = max(violation, s - upper[i], lower[i] - s)
    for i in range(6):
        s = Ab[i, c]
        for j in range(n):
            s += Ab[i, j] * x[j]
        a[i] = s
    for k in range(4):
        for i in range(3):
            s = Al[ia[k, i], c]
            for j in range(n):
                s += Al[ia[k, i], j] * x[j]
            a[iv[k, i]] = s
            f[3 * k + i] = mass * x[force[k] + i] if force[k] >= 0 else 0.0
    # The six rows once more, on what rounding leaves; then the torques.
    for i in range(6):
        s = -h[i]
        for j in range(18):
            s -= M[i, j] * a[j]
        for k in range(4):
            if force[k] >= 0:
                for o in range(3):
                    s += Jb[k, o, i] * f[3 * k + o]
        vec[i] = s
        for j in range(6):
            B[i, j] = M[i, j]
    eliminate(B, vec[:6].reshape(6, 1), 1)
    for i in range(6):
        a[i] += vec[i]
    for k in range(4):
        for i in range(3):
            o = iv[k, i]
            s = h[o]
            for j in range(18):
                s += M[o, j] * a[j]
            if force[k] >= 0:
                for j in range(3):
                    s -= Jl[k, j, i] * f[3 * k + j]
            tau[ia[k, i]] = s
    for k in range(4):
        if contacts[k, SHARE] >= 1.0:
            for i in range(3):
                s = drift[k, i] - rest[k, i]
                for j in range(6):
                    s += Jb[k, i, j] * a[j]
                for j in range(3):
                    s += Jl[k, i, j] * a[iv[k, j]]
                violation = max(violation, abs(s))
    answer[VIOLATION] = violation
    answer[KKT] = stats[WORST]
    answer[ROWS] = p
    for k in range(K):
        answer[RANK + k] = stats[RANKS + k]
    answer[RANK] += 3 * made
    s = violation + stats[WORST]
    for i in range(VIOLATION):
        s += abs(answer[i])
    if stats[ENDED] == 0.0 or not np.isfinite(s):
        return NOT_SOLVED
    return SOLVED
