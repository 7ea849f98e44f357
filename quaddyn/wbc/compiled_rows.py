"""Whole-body control of any robot, compiled: from a state to the levels' matrices.

`assemble` writes what `quaddyn.wbc.problem` would put together, row for row with the same units and weights, straight
into the memory of a solver.  Contacts that hold are not left to the solver where they can be met: their rows of level 0
are solved beforehand (`null_space`), and what is decided is what they leave free.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np

from ..hierarchy.jit import entry, inner, outlined
from ..hierarchy.lanes import total
from .compiled_contacts import (
    AT,
    BIAS,
    BILATERAL,
    FORCED,
    MOTION,
    PUSHES,
    ROLE,
    SHARE,
    SHARED,
    SIZE,
    STRICT,
    UNILATERAL,
    WISH,
    contact_point,
    force_rows,
    friction_rows,
    normal_rows,
)
from .compiled_elements import most_acceleration
from .compiled_frames import FRAME, ORIGIN, SPEED, frame, motions, point_jacobian
from .compiled_maps import cholesky, combine, copy, hide, null_space, stride, substitute
from .compiled_tasks import BIAS as DRIFT
from .compiled_tasks import (
    COM,
    ERROR,
    FOOT,
    JOINTS,
    POSTURE,
    RELATIVE,
    VELOCITY,
    motion_rows,
    of_frame,
    of_frames,
    posture_rows,
    shared_rows,
)

# What `assemble` returns.
READY, OTHER_SHAPE, NOT_GIVEN, SINGULAR = 0, 1, 2, 3

# Codes of the elements that are no motion tasks, as the classes have them.
FORCES, CONTACT, FRICTION, NORMAL, TORQUE, RATE, BOUNDS = 20, 101, 102, 103, 104, 105, 107

# Columns of the program.
LEVEL, CODE, START, ROWS, ONE, TWO, COLUMNS = 0, 1, 2, 3, 4, 5, 6

# Slots of `constants`; frames follow, (4, 3) each.
MASS, LENGTH, PERIOD, BODIES, FREE, GRAVITY, FRAMES = 0, 1, 2, 3, 4, 5, 8

# Slots of `extra`: whether to go on where a task has no reference, whether there was a torque before, drift and
# velocity of the centre of mass (if the root is not free), the torque before.
ANYWAY, HAS_BEFORE, COM_BIAS, COM_SPEED, BEFORE = 0, 1, 2, 5, 8

#: Sizes at the head of `table`, then joints (3 each), joints of frames, actuated, passive, program, index.
HEADS = 6

_stride = inner(stride)


@inner
def sections(table):  # type: ignore[no-untyped-def]
    """Joints, joints of frames, actuated, passive, program, index."""
    nj, nf, nu, nv, items = table[0], table[1], table[2], table[3], table[4]
    a = HEADS + 3 * nj
    b = a + nf
    c = b + nu
    d = c + nv
    e = d + COLUMNS * items
    return (
        table[HEADS:a].reshape(nj, 3), table[a:b], table[b:c], table[c:d], table[d:e].reshape(items, COLUMNS),
        table[e:],
    )  # fmt: skip


@inner
def carve(W, nv, nu, nf):  # type: ignore[no-untyped-def]
    """The parts of the work that `finish` needs too: L, Jc, aims, full, torques, lengths; and the rest.

    `full` are the maps of the accelerations and of the forces per mass, one below the other; `lengths` those that
    these rows had over all unknowns.
    """
    n, free = nu + nf, nv - nu
    S = _stride(n)
    a = free * free
    b = a + nf * nv
    c = b + 3 * nf
    d = c + (nv + nf) * S
    e = d + nu * S
    f = e + nv + nf
    return (
        W[:a].reshape(free, free), W[a:b].reshape(nf, nv), W[b:c].reshape(3, nf), W[c:d].reshape(nv + nf, S),
        W[d:e].reshape(nu, S), W[e:f], W[f:],
    )  # fmt: skip


@outlined(
    "i8(f8[:,::1], f8[::1], f8[:,::1], f8[:,::1], i8[::1], i8[::1], f8, f8, b1, f8[:,::1], f8[:,::1], f8[:,::1], "
    "f8[::1], f8[::1], i8[::1])"
)
def maps(  # type: ignore[no-untyped-def]
    M, h, Jc, aims, motors, passive, mass, tolerance, reduced, L, full, torques, lengths, W, order
):  # fmt: skip
    """Accelerations, forces per mass and torques over the unknowns; how many these are, or -1 if M is singular."""
    nv, nu, nf = h.shape[0], motors.shape[0], Jc.shape[0]
    n, free, S = nu + nf, nv - nu, full.shape[1]
    at = 0
    T = W[at : at + free * S].reshape(free, S)
    at += free * S
    X = W[at : at + n * S].reshape(n, S)
    at += n * S
    E = W[at : at + n * S].reshape(n, S)
    at += n * S
    V = W[at : at + nf * S].reshape(nf, S)
    at += nf * S
    row = W[at : at + S]
    at += S
    share = W[at : at + nv + nf + free + S]
    at += nv + nf + free + S
    e = W[at : at + nf]
    at += nf
    spare = W[at : at + 3 * (S + nf)].reshape(3, S + nf)
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
            X[i, 1 + i] = 1.0
    for i in range(free):
        row = full[passive[i]]
        total(row, T[i], X, n, d + 1)
        row[0] += T[i, n]
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
        torques[i, 0] += h[o]
    return d


@inner
def given(program, numbers, contacts):  # type: ignore[no-untyped-def]
    """Whether every task that acts has a reference."""
    for i in range(program.shape[0]):
        code, k = program[i, CODE], program[i, TWO]
        if code < JOINTS and numbers[program[i, START]] == 0.0:
            if code != FOOT or k < 0 or contacts[k, SHARE] < 1.0:
                return False
    return True


@inner
def torque_length(o, M, lengths, Jc, mass):  # type: ignore[no-untyped-def]
    """How long the row of a torque is over all unknowns."""
    length = 0.0
    for j in range(M.shape[0]):
        length += abs(M[o, j]) * lengths[j]
    for c in range(Jc.shape[0]):
        length += mass * abs(Jc[c, o])
    return length


@inner
def torque_rows(p, z, rate, before, scale, torques, M, lengths, Jc, mass, motors, d, hidden, C, lower, upper):  # type: ignore[no-untyped-def]
    """Limits of torques, or of their change since the tick `before`."""
    for i in range(motors.shape[0]):
        bound, middle = z[i], 0.0
        if rate > 0.0:
            bound *= rate
            middle = before[i]
        elif not bound < 1e17:
            continue
        if p < C.shape[0]:
            length = torque_length(motors[i], M, lengths, Jc, mass) if hidden else 0.0
            s = copy(torques[i], length, d, scale, hidden, C[p])
            lower[p] = scale * (middle - bound) - s
            upper[p] = scale * (middle + bound) - s
        p += 1
    return p


@inner
def bound_rows(p, z, entries, motors, q, v, scale, full, d, hidden, C, lower, upper):  # type: ignore[no-untyped-def]
    """Joint bounds; z: horizon, recovery, viability, then per joint lower, upper, fastest, most."""
    nu = motors.shape[0]
    for i in range(nu):
        if p < C.shape[0]:
            angle, rate, a, fastest = q[entries[i]], v[motors[i]], z[3 + 3 * nu + i], z[3 + 2 * nu + i]
            high = most_acceleration(z[3 + nu + i] - angle, rate, fastest, a, z[0], z[1], z[2])
            low = -most_acceleration(angle - z[3 + i], -rate, fastest, a, z[0], z[1], z[2])
            if low > high:
                low = min(max(-rate / z[0], -a), a)
                high = low
            s = copy(full[motors[i]], 1.0, d, scale, hidden, C[p])
            lower[p] = scale * low - s
            upper[p] = scale * high - s
        p += 1
    return p


@entry
def assemble(  # type: ignore[no-untyped-def]
    M, h, JT, placed, com, com_JT, q, v, numbers, fixed, contacts, extra, others, table, constants, tolerance, reduced,
    expected, shape, A, b, C, lower, upper, W, N,
):  # fmt: skip
    """From a state to the levels' matrices.

    Args:
        M: (nv, nv).
        h: (nv,).
        JT: (nv, 6) columns of the world Jacobian, one a row.
        placed: (joints, 4, 3) the columns of each joint's rotation in the world, then its origin.
        com: (3,).
        com_JT: (nv, 3), if the root is not free.
        q: (nq,).
        v: (nv,).
        numbers: of all motion tasks, one after the other.
        fixed: of the other elements.
        contacts: (contacts, ...) numbers, as `compiled_contacts` lays them out.
        extra: what else changes, see `ANYWAY`.
        others: (rows, 4 + nv + nf + nu) rows of other elements: level, lower, upper, weight, then over accelerations,
            forces of the contacts that are there, torques.
        table: integers, see `HEADS`.
        constants: mass, leg length, period, mass of the bodies, whether the root is free, gravity (3), frames.
        tolerance: of rank.
        reduced: whether contacts that hold, on level 0, are solved beforehand.
        expected: (1 + 2 (levels + 1),) the solver's number of unknowns, where its levels' rows begin, equalities first.
        shape: likewise, takes what is found.
        A: (m, unknowns) equalities.
        b: (m,).
        C: (p, unknowns) inequalities.
        lower: (p,).
        upper: (p,).
        W: work.
        N: work, (contacts + nf,).

    Returns:
        What became of it; where the shape is not the one expected, A to `upper` hold nothing of use.
    """
    joints, frame_joints, motors, passive, program, index = sections(table)
    nv, nu, nj, nc, K = v.shape[0], motors.shape[0], joints.shape[0], contacts.shape[0], table[5]
    mass, length = constants[MASS], constants[LENGTH]
    if extra[ANYWAY] == 0.0 and not given(program, numbers, contacts):
        return NOT_GIVEN

    # Who pushes, and where its force begins.
    nf = 0
    column = N[:nc]
    for k in range(nc):
        column[k] = -1
        if contacts[k, SHARE] > 0.0:
            column[k] = nf
            nf += int(contacts[k, SIZE])
    L, Jc, aims, full, torques, lengths, rest = carve(W, nv, nu, nf)
    at = 0
    twist = rest[at : at + 6 * nj].reshape(nj, 6)
    at += 6 * nj
    drifts = rest[at : at + 6 * nj].reshape(nj, 6)
    at += 6 * nj
    frames = rest[at : at + FRAME * frame_joints.shape[0]].reshape(frame_joints.shape[0], FRAME)
    at += FRAME * frame_joints.shape[0]
    J = rest[at : at + 6 * nv].reshape(6, nv)
    at += 6 * nv
    Jo = rest[at : at + 6 * nv].reshape(6, nv)
    at += 6 * nv
    found = rest[at : at + 18].reshape(3, 6)
    at += 18
    turn = rest[at : at + 9].reshape(3, 3)
    at += 9
    vec = rest[at : at + 24]
    at += 24
    spare = rest[at : at + 32 + full.shape[1]]
    at += 32 + full.shape[1]

    motions(joints, JT, v, twist, drifts)
    for i in range(frame_joints.shape[0]):
        bolted = constants[FRAMES + 12 * i : FRAMES + 12 * i + 12].reshape(4, 3)
        frame(frame_joints[i], bolted, placed, twist, drifts, frames[i])
    damping, holding = 0.0, -1
    for i in range(program.shape[0]):
        if program[i, CODE] == CONTACT:
            damping, holding = fixed[program[i, START]], program[i, LEVEL]
    for k in range(nc):
        if column[k] >= 0:
            f = int(contacts[k, AT])
            contact_point(
                contacts[k], column[k], frame_joints[f], frames[f], joints, JT, damping, holding >= 0, Jc, aims, J, vec
            )
    d = maps(
        M, h, Jc, aims, motors, passive, mass, tolerance, reduced, L, full, torques, lengths, rest[at:], N[nc:]
    )  # fmt: skip
    if d < 0:
        return SINGULAR

    width = d + 1 if reduced else d
    if expected[0] != width:
        A, C = A[:0], C[:0]
    forces = full[nv:]
    m, p = 0, 0
    shape[0] = width
    for level in range(K):
        shape[1 + level] = m
        shape[2 + K + level] = p
        if reduced and level == 0:  # the unknown of hidden lengths
            if m < A.shape[0]:
                for j in range(d):
                    A[m, j] = 0.0
                A[m, d] = 1.0
                b[m] = 0.0
            m += 1
        for item in range(program.shape[0]):
            if program[item, LEVEL] != level:
                continue
            code, size = program[item, CODE], program[item, ROWS]
            one, two = program[item, ONE], program[item, TWO]
            start = program[item, START]
            if code < FORCES:
                z = numbers[start:]
                if code == POSTURE or code == JOINTS:
                    m = posture_rows(m, z, size, index[one:], q, v, full, lengths, d, reduced, A, b)
                    continue
                if code == COM:
                    centre(z, constants, placed, M, h, com, com_JT, extra, v, J, found)
                else:
                    F = frames[one]
                    point_jacobian(frame_joints[one], joints, JT, F[ORIGIN:SPEED], J)
                    if code == RELATIVE:
                        point_jacobian(frame_joints[two], joints, JT, frames[two][ORIGIN:SPEED], Jo)
                        of_frames(z, F, frames[two], J, Jo, found, turn, vec)
                    else:
                        of_frame(code, size, z, F, J, found, turn)
                if code != FOOT or two < 0 or column[two] < 0 or contacts[two, ROLE] > BILATERAL:
                    m = motion_rows(m, z, size, J, found, full, lengths, d, reduced, spare, A, b)
                if code == FOOT and holding >= 0:
                    for k in range(nc):
                        share, c = contacts[k, SHARE], column[k]
                        if contacts[k, SHARED] == item and 0.0 < share < 1.0 and contacts[k, ROLE] <= BILATERAL:
                            for i in range(3):
                                vec[i] = aims[BIAS, c + i]
                                vec[3 + i] = aims[WISH, c + i]
                            m = shared_rows(
                                m, z, share, J, found, Jc[c:], vec[:6].reshape(2, 3), Jo[0], full, lengths, d, reduced,
                                spare, A, b,
                            )  # fmt: skip
                continue
            z = fixed[start:]
            if code == FORCES:
                for k in range(nc):
                    # per contact whether it counts, whether it has a reference, the reference (6)
                    if column[k] >= 0 and z[2 + 8 * k] != 0.0:
                        m = force_rows(
                            m, contacts[k], z[3 + 8 * k :], z[0], z[1], column[k], aims, Jc, v, forces, full, lengths,
                            Jo[0], d, mass, reduced, spare, A, b,
                        )  # fmt: skip
            elif code == CONTACT:
                if not reduced:
                    for c in range(nf):
                        if aims[STRICT, c] == 0.0:
                            continue
                        if m < A.shape[0]:
                            if aims[STRICT, c] == MOTION:
                                s = combine(Jc[c], nv, full, lengths, d, 1.0, False, spare, A[m])
                                b[m] = aims[WISH, c] - aims[BIAS, c] - s
                            else:
                                b[m] = aims[WISH, c] / mass - copy(forces[c], 1.0, d, 1.0, False, A[m])
                        m += 1
            elif code == FRICTION:
                for k in range(nc):
                    role = contacts[k, ROLE]
                    if column[k] >= 0 and contacts[k, PUSHES] != 0.0 and (role == UNILATERAL or role == FORCED):
                        R, own = frames[int(contacts[k, AT])], forces[column[k] :]
                        p = friction_rows(p, contacts[k], R, own, d, reduced, spare, C, lower, upper)
            elif code == NORMAL:
                for k in range(nc):
                    role = contacts[k, ROLE]
                    if column[k] >= 0 and (role <= BILATERAL or role == FORCED):
                        own = forces[column[k] :]
                        p = normal_rows(p, contacts[k], own, d, mass, length, reduced, spare, C, lower, upper)
            elif code == TORQUE or code == RATE:
                if code == TORQUE or extra[HAS_BEFORE] != 0.0:
                    rate = constants[PERIOD] if code == RATE else 0.0
                    scale = 1.0 / (mass * length)
                    p = torque_rows(
                        p, z, rate, extra[BEFORE:], scale, torques, M, lengths, Jc, mass, motors, d, reduced, C, lower,
                        upper,
                    )  # fmt: skip
            elif code == BOUNDS:
                p = bound_rows(p, z, index[one:], motors, q, v, length, full, d, reduced, C, lower, upper)
        for k in range(nc):
            # A contact that comes or goes where no foot task shares the foot; see `ContactMotion.yielding_rows`.
            share = contacts[k, SHARE]
            if holding < 0 or not 0.0 < share < 1.0 or contacts[k, SHARED] >= 0.0 or contacts[k, ROLE] > BILATERAL:
                continue
            below = max(1, K - 1)
            passed = min(int(share * below), below - 1)
            if level != K - 1 - passed:
                continue
            progress = min(max(share * below - passed, 1e-6), 1.0 - 1e-6)
            f = progress / (1.0 - progress)
            for c in range(column[k], column[k] + int(contacts[k, SIZE])):
                if m < A.shape[0]:
                    s = combine(Jc[c], nv, full, lengths, d, f, reduced, spare, A[m])
                    b[m] = f * (aims[WISH, c] - aims[BIAS, c]) - s
                m += 1
        m, p = other_rows(
            m, p, level, others, full, torques, lengths, M, Jc, motors, mass, d, reduced, A, b, C, lower, upper
        )
    shape[1 + K] = m
    shape[2 + 2 * K] = p
    for i in range(shape.shape[0]):
        if shape[i] != expected[i]:
            return OTHER_SHAPE
    return READY


@inner
def centre(z, constants, placed, M, h, com, com_JT, extra, v, J, found):  # type: ignore[no-untyped-def]
    """What is of the centre of mass; under a free root the equations of motion say it, by what the world exerts."""
    for i in range(3):
        found[ERROR, i] = z[19 + i] - com[i]
        found[VELOCITY, i] = extra[COM_SPEED + i]
        found[DRIFT, i] = extra[COM_BIAS + i]
    if constants[FREE] == 0.0:
        for i in range(3):
            for j in range(v.shape[0]):
                J[i, j] = com_JT[j, i]
        return
    share = 1.0 / constants[BODIES]
    for i in range(3):
        x, y, w = share * placed[1, 0, i], share * placed[1, 1, i], share * placed[1, 2, i]
        s = 0.0
        for j in range(v.shape[0]):
            a = x * M[0, j] + y * M[1, j] + w * M[2, j]
            J[i, j] = a
            s += a * v[j]
        found[VELOCITY, i] = s
        found[DRIFT, i] = x * h[0] + y * h[1] + w * h[2] + constants[GRAVITY + i]


@inner
def other_rows(  # type: ignore[no-untyped-def]
    m, p, level, others, full, torques, lengths, M, Jc, motors, mass, d, hidden, A, b, C, lower, upper
):  # fmt: skip
    """Rows that elements have given themselves."""
    nv, nf, nu = M.shape[0], Jc.shape[0], motors.shape[0]
    for i in range(others.shape[0]):
        z = others[i]
        if z[0] != level:
            continue
        equal = z[1] == z[2]
        if (equal and m < A.shape[0]) or (not equal and p < C.shape[0]):
            row, f = A[m] if equal else C[p], z[3]
            s, length, square = 0.0, 0.0, 0.0
            for j in range(d):
                row[j] = 0.0
            for c in range(nv + nf + nu):
                a = f * z[4 + c]
                if a == 0.0:
                    continue
                source = full[c] if c < nv + nf else torques[c - nv - nf]
                if nv <= c < nv + nf:
                    a *= mass
                for j in range(d):
                    row[j] += a * source[1 + j]
                s += a * source[0]
                if c < nv + nf:
                    length += abs(a) * lengths[c]
                else:
                    length += abs(a) * torque_length(motors[c - nv - nf], M, lengths, Jc, mass)
            if hidden:
                for j in range(d):
                    square += row[j] * row[j]
                row[d] = hide(length, square)
            if equal:
                b[m] = f * z[1] - s
            else:
                lower[p] = f * z[1] - s
                upper[p] = f * z[2] - s
        if equal:
            m += 1
        else:
            p += 1
    return m, p
