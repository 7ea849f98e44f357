"""Whole-body control of any robot, compiled: from a state to the levels' matrices, and from their solution to torques.

`assemble` writes what `quaddyn.wbc.problem` would put together, row for row with the same units and weights, straight
into the memory of a solver; `finish` turns the solution into accelerations, forces and torques.  Contacts that hold
are not left to the solver where they can be met: their rows of level 0 are solved beforehand (`null_space`), and what
is decided is what they leave free.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np

from ..hierarchy.jit import jit
from .compiled_elements import most_acceleration
from .compiled_frames import (
    DRIFT,
    FRAME,
    ORIGIN,
    SPEED,
    SPIN,
    SPIN_DRIFT,
    cross,
    frame,
    motions,
    point_jacobian,
)
from .compiled_legs import log3
from .compiled_maps import add, cholesky, null_space, substitute

# What `assemble` returns.
READY, OTHER_SHAPE, NOT_GIVEN, SINGULAR = 0, 1, 2, 3

# Codes of the elements, as the classes have them.
COM, POSITION, FOOT, ORIENTATION, POSE, RELATIVE, POSTURE, JOINTS, FORCES = 1, 2, 3, 4, 5, 6, 7, 8, 20
CONTACT, FRICTION, NORMAL, TORQUE, RATE, BOUNDS = 101, 102, 103, 104, 105, 107

# Columns of the program.
LEVEL, CODE, START, SIZE, ONE, TWO, COLUMNS = 0, 1, 2, 3, 4, 5, 6

# A contact's numbers; the rows of its friction pyramid follow, six entries each.
(
    SHARE, CAP, ROLE, WIDTH, RADIUS, LEAST, LARGEST, HEIGHT, STIFFNESS, DAMPING, PUSHES, COUNT, AT, SHARED, TURNED,
    AXIS, OFFSET, FACES,
) = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 18, 21)  # fmt: skip
UNILATERAL, BILATERAL, COMPLIANT, FORCED = 0, 1, 2, 3

# Slots of `constants`; frames follow, (4, 3) each.
MASS, LENGTH, PERIOD, BODIES, FREE, GRAVITY, FRAMES = 0, 1, 2, 3, 4, 5, 8

# Slots of `extra`: drift of the centre of mass, whether to go on where a task has no reference, whether there was a
# torque before, that torque.
COM_DRIFT, ANYWAY, HAS_BEFORE, BEFORE = 0, 3, 4, 5

# Heads of `table`: sizes, then joints (3 each), joints of frames, actuated, free, program, index.
HEADS = 6

# What precedes torques, accelerations and forces in an answer, and then the ranks.
VIOLATION, HEAD = 0, 1


@jit
def combine(c, count, full, d, n, f, hidden, to):  # type: ignore[no-untyped-def]
    """``to = f c @ full`` over the first d columns, its hidden length after them if it has one; the constant."""
    for j in range(d):
        to[j] = 0.0
    constant, length = 0.0, 0.0
    for i in range(count):
        a = f * c[i]
        if a != 0.0:
            row = full[i]
            for j in range(d):
                to[j] += a * row[j]
            constant += a * row[n]
            length += abs(a) * row[n + 1]
    if hidden:
        hide(to, d, length)
    return constant


@jit
def copy(source, d, n, f, hidden, to):  # type: ignore[no-untyped-def]
    """``to = f source`` over the first d columns, its hidden length after them if it has one; the constant."""
    for j in range(d):
        to[j] = f * source[j]
    if hidden:
        hide(to, d, abs(f) * source[n + 1])
    return f * source[n]


@jit
def hide(row, d, length):  # type: ignore[no-untyped-def]
    """In column d what a row has lost of its length where contacts are solved beforehand.

    The solver fixes that unknown to zero and sees rows as long as they were: which directions count as dependent is a
    matter of that length, and a row of which only rounding is left must count for nothing.
    """
    s = length * length
    for j in range(d):
        s -= row[j] * row[j]
    row[d] = np.sqrt(max(s, 0.0))


@jit
def motion_rows(z, size, J, found, accelerations, d, n, hidden, A, b, m):  # type: ignore[no-untyped-def]
    """Rows of a task: `found` (3, 6) error, velocity and drift of its rows, J (6, nv).  The number of rows so far."""
    nv = accelerations.shape[0]
    for i in range(size):
        if z[1 + 3 * size + i] == 0.0:
            continue
        f = z[1 + i]
        wanted = z[1 + 5 * size + i] + z[1 + 2 * size + i] * (z[1 + 4 * size + i] - found[1, i])
        if z[0] != 0.0:
            wanted += z[1 + size + i] * found[0, i]
        if m < A.shape[0]:
            b[m] = f * (wanted - found[2, i]) - combine(J[i], nv, accelerations, d, n, f, hidden, A[m])
        m += 1
    return m


@jit
def carve(W, nv, nu, nf, joints, frames):  # type: ignore[no-untyped-def]
    """The parts of the work that `assemble` leaves for `finish`: L, Jc, aims, X, accelerations, torques; the rest.

    The last three are maps: over the unknowns, then the constant, then the length that a row had over all unknowns.
    """
    n, free = nu + nf, nv - nu
    at = 0
    L = W[at : at + free * free].reshape(free, free)
    at += free * free
    Jc = W[at : at + nf * nv].reshape(nf, nv)
    at += nf * nv
    aims = W[at : at + 3 * nf].reshape(3, nf)
    at += 3 * nf
    X = W[at : at + n * (n + 2)].reshape(n, n + 2)
    at += n * (n + 2)
    accelerations = W[at : at + nv * (n + 2)].reshape(nv, n + 2)
    at += nv * (n + 2)
    torques = W[at : at + nu * (n + 2)].reshape(nu, n + 2)
    at += nu * (n + 2)
    return L, Jc, aims, X, accelerations, torques, W[at:]


@jit
def assemble(  # type: ignore[no-untyped-def]
    M, h, JT, placed, com, com_velocity, com_JT, q, v, numbers, fixed, contacts, extra, others, table, constants,
    tolerance, reduced, expected, shape, A, b, C, lower, upper, W,
):  # fmt: skip
    """From a state to the levels' matrices.

    Args:
        M: (nv, nv).
        h: (nv,).
        JT: (nv, 6) columns of the world Jacobian, one a row.
        placed: (joints, 4, 3) the columns of each joint's rotation in the world, then its origin.
        com: (3,).
        com_velocity: (3,).
        com_JT: (nv, 3).
        q: (nq,).
        v: (nv,).
        numbers: of all motion tasks, one after the other.
        fixed: of the other elements.
        contacts: (contacts, FACES + 6 faces).
        extra: drift of the centre of mass (3), whether to go on where a task has no reference, whether there was a
            tick before, its torques (nu,).
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

    Returns:
        What became of it; where the shape is not the one expected, A to `upper` hold nothing of use.
    """
    nv = v.shape[0]
    nj, frame_count, nu, elements, K = table[0], table[1], table[2], table[3], table[4]
    at = HEADS
    joints = table[at : at + 3 * nj].reshape(nj, 3)
    at += 3 * nj
    frame_joints = table[at : at + frame_count]
    at += frame_count
    motors = table[at : at + nu]
    at += nu
    passive = table[at : at + nv - nu]
    at += nv - nu
    program = table[at : at + COLUMNS * elements].reshape(elements, COLUMNS)
    at += COLUMNS * elements
    index = table[at:]
    mass, length = constants[MASS], constants[LENGTH]
    before, has_before = extra[BEFORE:], extra[HAS_BEFORE] != 0.0
    free = nv - nu
    nc = contacts.shape[0]

    # Who pushes, and where its force begins.
    nf = 0
    column = np.empty(nc, dtype=np.int64)
    for k in range(nc):
        column[k] = -1
        if contacts[k, SHARE] > 0.0:
            column[k] = nf
            nf += int(contacts[k, WIDTH])
    n = nu + nf
    L, Jc, aims, X, accelerations, torques, work = carve(W, nv, nu, nf, nj, frame_count)
    drift, rest, strict = aims[0], aims[1], aims[2]
    at = 0
    twist = work[at : at + 6 * nj].reshape(nj, 6)
    at += 6 * nj
    drifts = work[at : at + 6 * nj].reshape(nj, 6)
    at += 6 * nj
    frames = work[at : at + FRAME * frame_count].reshape(frame_count, FRAME)
    at += FRAME * frame_count
    T = work[at : at + free * (n + 1)].reshape(free, n + 1)
    at += free * (n + 1)
    E = work[at : at + nf * n].reshape(nf, n)
    at += nf * n
    e = work[at : at + nf]
    at += nf
    spare = work[at : at + 3 * (n + nf + 1)].reshape(3, n + nf + 1)
    at += 3 * (n + nf + 1)
    J = work[at : at + 6 * nv].reshape(6, nv)
    at += 6 * nv
    Jo = work[at : at + 6 * nv].reshape(6, nv)
    at += 6 * nv
    found = work[at : at + 18].reshape(3, 6)
    at += 18
    vec = work[at : at + 24]
    at += 24
    turn = work[at : at + 9].reshape(3, 3)
    at += 9
    relative = work[at : at + 12]

    damping, holding = 0.0, -1
    for i in range(elements):
        code, start = program[i, CODE], program[i, START]
        if code == CONTACT:
            damping, holding = fixed[start], program[i, LEVEL]
        elif code < JOINTS and numbers[start] == 0.0 and extra[ANYWAY] == 0.0:
            k = program[i, TWO]
            if code != FOOT or k < 0 or contacts[k, SHARE] < 1.0:
                return NOT_GIVEN

    motions(joints, JT, v, twist, drifts)
    for i in range(frame_count):
        fixed_at = constants[FRAMES + 12 * i : FRAMES + 12 * i + 12].reshape(4, 3)
        frame(frame_joints[i], fixed_at, placed, twist, drifts, frames[i])

    # Contact points: Jacobian, drift, and the acceleration that is wanted of them, or the force of a spring.
    arm, lever, point, speed = vec[0:3], vec[3:6], vec[6:9], vec[9:15]
    for k in range(nc):
        if column[k] < 0:
            continue
        z, at_frame = contacts[k], int(contacts[k, AT])
        F = frames[at_frame]
        width, role, first = int(z[WIDTH]), int(z[ROLE]), column[k]
        turns = False
        for i in range(3):
            arm[i] = F[3 * i] * z[OFFSET] + F[3 * i + 1] * z[OFFSET + 1] + F[3 * i + 2] * z[OFFSET + 2]
            lever[i] = arm[i] - z[RADIUS] * z[AXIS + i]
            point[i] = F[ORIGIN + i] + lever[i]
            turns = turns or z[OFFSET + i] != 0.0
        point_jacobian(frame_joints[at_frame], joints, JT, point, J)
        cross(F[SPIN:DRIFT], lever, speed[0:3])
        cross(F[SPIN_DRIFT:FRAME], lever, drift[first : first + 3])
        for i in range(3):
            speed[i] += F[SPEED + i]
            speed[3 + i] = F[SPIN + i]
            drift[first + i] += F[DRIFT + i]
            if width == 6:
                drift[first + 3 + i] = F[SPIN_DRIFT + i]
        if turns:  # the arm turns with the body, the sphere's radius does not
            cross(F[SPIN:DRIFT], arm, vec[15:18])
            cross(F[SPIN:DRIFT], vec[15:18], vec[18:21])
            for i in range(3):
                drift[first + i] += vec[18 + i]
        pressing = 0.0
        if role == COMPLIANT:
            depth, closing = z[HEIGHT], 0.0
            for i in range(3):
                depth -= z[AXIS + i] * point[i]
                closing += z[AXIS + i] * speed[i]
            if depth > 0.0:
                pressing = max(0.0, z[STIFFNESS] * depth - z[DAMPING] * closing)
        for i in range(width):
            for j in range(nv):
                Jc[first + i, j] = J[i, j]
            rest[first + i] = -damping * speed[i]
            strict[first + i] = 0.0
            if role == COMPLIANT:
                rest[first + i] = pressing * z[AXIS + i] if i < 3 else 0.0
                strict[first + i] = 2.0
            elif role <= BILATERAL and z[SHARE] >= 1.0:
                strict[first + i] = 1.0
            if holding < 0:
                strict[first + i] = 0.0

    # Accelerations without a motor over the unknowns (a_A, f / m).
    for i in range(free):
        for j in range(free):
            L[i, j] = M[passive[i], passive[j]]
        for j in range(nu):
            T[i, j] = -M[passive[i], motors[j]]
        for j in range(nf):
            T[i, nu + j] = mass * Jc[j, passive[i]]
        T[i, n] = -h[passive[i]]
    if not cholesky(L):
        return SINGULAR
    substitute(L, T)

    # What contacts leave free.
    d = n
    if reduced:
        r = 0
        for c in range(nf):
            if strict[c] == 0.0:
                continue
            row = E[r]
            for j in range(n):
                row[j] = 0.0
            if strict[c] == 1.0:
                for j in range(nu):
                    row[j] = Jc[c, motors[j]]
                e[r] = rest[c] - drift[c]
                for i in range(free):
                    a = Jc[c, passive[i]]
                    add(row, a, T[i], n)
                    e[r] -= a * T[i, n]
            else:
                row[nu + c] = 1.0
                e[r] = rest[c] / mass
            r += 1
        d = null_space(E[:r], e[:r], n, tolerance, X, spare, np.empty(r, dtype=np.int64))
    else:
        for i in range(n):
            for j in range(n + 1):
                X[i, j] = 0.0
            X[i, i] = 1.0
    for i in range(n):
        X[i, n + 1] = 1.0
    for i in range(free):
        row = accelerations[passive[i]]
        row[n] = T[i, n] + combine(T[i], n, X, d, n, 1.0, False, row)
        s = 0.0
        for j in range(n):
            s += T[i, j] * T[i, j]
        row[n + 1] = np.sqrt(s)
    for i in range(nu):
        row, source = accelerations[motors[i]], X[i]
        for j in range(d):
            row[j] = source[j]
        row[n] = source[n]
        row[n + 1] = 1.0
    for i in range(nu):
        row, o = torques[i], motors[i]
        constant = h[o]
        far = 0.0
        for j in range(d):
            row[j] = 0.0
        for k in range(nv):
            a = M[o, k]
            if a != 0.0:
                source = accelerations[k]
                add(row, a, source, d)
                constant += a * source[n]
                far += abs(a) * source[n + 1]
        for c in range(nf):
            a = -mass * Jc[c, o]
            if a != 0.0:
                add(row, a, X[nu + c], d)
                constant += a * X[nu + c, n]
                far += abs(a)
        row[n] = constant
        row[n + 1] = far

    # The levels.
    hidden = reduced
    width = d + 1 if hidden else d
    if expected[0] != width:
        A, C = A[:0], C[:0]
    forces = X[nu:]
    m, p = 0, 0
    shape[0] = width
    for level in range(K):
        shape[1 + level] = m
        shape[2 + K + level] = p
        if hidden and level == 0:
            if m < A.shape[0]:
                for j in range(d):
                    A[m, j] = 0.0
                A[m, d] = 1.0
                b[m] = 0.0
            m += 1
        for item in range(elements):
            if program[item, LEVEL] != level:
                continue
            code, size = program[item, CODE], program[item, SIZE]
            one, two = program[item, ONE], program[item, TWO]
            if code < FORCES:
                z = numbers[program[item, START] :]
            else:
                z = fixed[program[item, START] :]
            if code == COM:
                for i in range(3):
                    found[0, i] = z[19 + i] - com[i]
                    found[1, i] = com_velocity[i]
                    found[2, i] = extra[COM_DRIFT + i]
                    if constants[FREE] != 0.0:  # the world's force, by which the equations of motion say it
                        s = placed[1, 0, i] * h[0] + placed[1, 1, i] * h[1] + placed[1, 2, i] * h[2]
                        found[2, i] = s / constants[BODIES] + constants[GRAVITY + i]
                    for j in range(nv):
                        J[i, j] = com_JT[j, i]
                m = motion_rows(z, size, J, found, accelerations, d, n, hidden, A, b, m)
            elif code == POSTURE or code == JOINTS:
                first = 1 + 6 * size
                for i in range(size):
                    if z[1 + 3 * size + i] == 0.0:
                        continue
                    jv, jq = index[one + 3 * i], index[one + 3 * i + 1]
                    error = 0.0
                    if z[0] != 0.0:
                        error = z[first + jq] - q[jq]
                        if index[one + 3 * i + 2] == 2:  # an angle without end, as cosine and sine
                            x, y = z[first + jq], z[first + jq + 1]
                            error = np.arctan2(q[jq] * y - q[jq + 1] * x, q[jq] * x + q[jq + 1] * y)
                    wanted = z[1 + 5 * size + i] + z[1 + 2 * size + i] * (z[1 + 4 * size + i] - v[jv])
                    wanted += z[1 + size + i] * error
                    if m < A.shape[0]:
                        b[m] = z[1 + i] * wanted - copy(accelerations[jv], d, n, z[1 + i], hidden, A[m])
                    m += 1
            elif code < FORCES:
                F = frames[one]
                point_jacobian(frame_joints[one], joints, JT, F[ORIGIN:SPEED], J)
                spin = 0  # where the rows about turning begin
                if code == ORIENTATION:
                    for i in range(3):
                        for j in range(nv):
                            J[i, j] = J[3 + i, j]
                elif code != RELATIVE:
                    spin = 3
                    for i in range(3):
                        found[0, i] = z[1 + 6 * size + i] - F[ORIGIN + i]
                        found[1, i] = F[SPEED + i]
                        found[2, i] = F[DRIFT + i]
                if code == ORIENTATION or code == POSE:
                    for i in range(3):
                        for j in range(3):
                            turn[i, j] = F[3 * i + j]
                        found[1, spin + i] = F[SPIN + i]
                        found[2, spin + i] = F[SPIN_DRIFT + i]
                        found[0, spin + i] = 0.0
                    if z[0] != 0.0:
                        first = 1 + 6 * size + spin
                        log3(z[first : first + 9], turn, found[0, spin : spin + 3])
                if code == RELATIVE:
                    other = frames[two]
                    point_jacobian(frame_joints[two], joints, JT, other[ORIGIN:SPEED], Jo)
                    seen_from(F, other, J, Jo, z[1 + 6 * size :], z[0] != 0.0, found, relative, turn, vec)
                if code != FOOT:
                    m = motion_rows(z, size, J, found, accelerations, d, n, hidden, A, b, m)
                    continue
                if two < 0 or column[two] < 0 or contacts[two, ROLE] > BILATERAL:
                    m = motion_rows(z, size, J, found, accelerations, d, n, hidden, A, b, m)
                for k in range(nc):
                    share = contacts[k, SHARE]
                    if int(contacts[k, SHARED]) != item or not 0.0 < share < 1.0 or holding < 0:
                        continue
                    if contacts[k, ROLE] > BILATERAL:
                        continue
                    # Rows that pass from the task to the contact; see `FootTask.shared_rows`.
                    for i in range(3):
                        c = column[k] + i
                        wanted = z[1 + 5 * size + i] + z[1 + 2 * size + i] * (z[1 + 4 * size + i] - found[1, i])
                        if z[0] != 0.0:
                            wanted += z[1 + size + i] * found[0, i]
                        wanted = (1.0 - share) * (wanted - found[2, i]) + share * (rest[c] - drift[c])
                        f = z[1 + i] / (1.0 - share)
                        if m < A.shape[0]:
                            for j in range(nv):
                                Jo[0, j] = (1.0 - share) * J[i, j] + share * Jc[c, j]
                            b[m] = f * wanted - combine(Jo[0], nv, accelerations, d, n, f, hidden, A[m])
                        m += 1
            elif code == FORCES:
                # weight, bandwidth, then per contact whether it counts, whether it has a reference, the reference (6)
                for k in range(nc):
                    y = z[2 + 8 * k : 10 + 8 * k]
                    if column[k] < 0 or y[0] == 0.0:
                        continue
                    if int(contacts[k, ROLE]) != COMPLIANT:
                        for i in range(int(contacts[k, WIDTH])):
                            if m < A.shape[0]:
                                source = forces[column[k] + i]
                                b[m] = z[0] * y[2 + i] - copy(source, d, n, z[0] * mass, hidden, A[m])
                            m += 1
                    elif y[1] != 0.0:
                        lacking, along = 0.0, 0.0
                        F, c = frames[int(contacts[k, AT])], column[k]
                        for j in range(nv):
                            Jo[0, j] = 0.0
                        for i in range(3):
                            a = contacts[k, AXIS + i]
                            lacking += a * (y[2 + i] - rest[c + i])
                            along += a * drift[c + i]
                            add(Jo[0], a, Jc[c + i], nv)
                        wanted = -z[1] * z[1] * lacking / contacts[k, STIFFNESS] - along
                        for j in range(nv):
                            wanted -= 2.0 * z[1] * Jo[0, j] * v[j]
                        if m < A.shape[0]:
                            b[m] = wanted - combine(Jo[0], nv, accelerations, d, n, 1.0, hidden, A[m])
                        m += 1
            elif code == CONTACT:
                if reduced:
                    continue
                for c in range(nf):
                    if strict[c] == 1.0:
                        if m < A.shape[0]:
                            b[m] = rest[c] - drift[c] - combine(Jc[c], nv, accelerations, d, n, 1.0, hidden, A[m])
                        m += 1
                    elif strict[c] == 2.0:
                        if m < A.shape[0]:
                            b[m] = rest[c] / mass - copy(forces[c], d, n, 1.0, hidden, A[m])
                        m += 1
            elif code == FRICTION:
                for k in range(nc):
                    z = contacts[k]
                    role = int(z[ROLE])
                    if column[k] < 0 or z[PUSHES] == 0.0 or not (role == UNILATERAL or role == FORCED):
                        continue
                    R = frames[int(z[AT])]
                    for o in range(int(z[COUNT])):
                        if p < C.shape[0]:
                            y = z[FACES + 6 * o : FACES + 6 * o + 6]
                            for i in range(6):
                                vec[i] = y[i]
                            if z[TURNED] != 0.0:
                                for i in range(3):
                                    vec[i] = R[3 * i] * y[0] + R[3 * i + 1] * y[1] + R[3 * i + 2] * y[2]
                                    vec[3 + i] = R[3 * i] * y[3] + R[3 * i + 1] * y[4] + R[3 * i + 2] * y[5]
                            upper[p] = -combine(vec, int(z[WIDTH]), forces[column[k] :], d, n, 1.0, hidden, C[p])
                            lower[p] = -np.inf
                        p += 1
            elif code == NORMAL:
                for k in range(nc):
                    z = contacts[k]
                    if column[k] < 0 or int(z[ROLE]) == COMPLIANT:
                        continue
                    cap = min(z[LARGEST], z[CAP])
                    if z[PUSHES] != 0.0:
                        if p < C.shape[0]:
                            least = min(z[LEAST] * z[SHARE], cap)
                            s = combine(z[AXIS:], 3, forces[column[k] :], d, n, 1.0, hidden, C[p])
                            lower[p] = least / mass - s
                            upper[p] = cap / mass - s
                        p += 1
                    elif cap < np.inf:  # a grip fades in and out on every axis
                        for i in range(int(z[WIDTH])):
                            if p < C.shape[0]:
                                bound = (cap if i < 3 else cap * length) / mass
                                s = copy(forces[column[k] + i], d, n, 1.0, hidden, C[p])
                                lower[p] = -bound - s
                                upper[p] = bound - s
                            p += 1
            elif code == TORQUE or code == RATE:
                if code == RATE and not has_before:
                    continue
                f = 1.0 / (mass * length)
                for i in range(nu):
                    bound, middle = z[i], 0.0
                    if code == RATE:
                        bound *= constants[PERIOD]
                        middle = before[i]
                    elif not bound < 1e17:
                        continue
                    if p < C.shape[0]:
                        s = copy(torques[i], d, n, f, hidden, C[p])
                        lower[p] = f * (middle - bound) - s
                        upper[p] = f * (middle + bound) - s
                    p += 1
            elif code == BOUNDS:
                # horizon, recovery, viability, then per joint lower, upper, fastest, most
                for i in range(nu):
                    if p < C.shape[0]:
                        angle, rate, a = q[index[one + i]], v[motors[i]], z[3 + 3 * nu + i]
                        fastest = z[3 + 2 * nu + i]
                        high = most_acceleration(z[3 + nu + i] - angle, rate, fastest, a, z[0], z[1], z[2])
                        low = -most_acceleration(angle - z[3 + i], -rate, fastest, a, z[0], z[1], z[2])
                        if low > high:
                            low = min(max(-rate / z[0], -a), a)
                            high = low
                        s = copy(accelerations[motors[i]], d, n, length, hidden, C[p])
                        lower[p] = length * low - s
                        upper[p] = length * high - s
                    p += 1
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
            for c in range(column[k], column[k] + int(contacts[k, WIDTH])):
                if m < A.shape[0]:
                    b[m] = f * (rest[c] - drift[c]) - combine(Jc[c], nv, accelerations, d, n, f, hidden, A[m])
                m += 1
        for i in range(others.shape[0]):
            z = others[i]
            if int(z[0]) != level:
                continue
            f = z[3]
            equal = z[1] == z[2]
            if (equal and m < A.shape[0]) or (not equal and p < C.shape[0]):
                row = A[m] if equal else C[p]
                s, far = combine(z[4:], nv, accelerations, d, n, f, False, row), 0.0
                for c in range(nv):
                    far += abs(f * z[4 + c]) * accelerations[c, n + 1]
                for c in range(nf + nu):
                    a, source = f * z[4 + nv + c], torques[c - nf] if c >= nf else forces[c]
                    if c < nf:
                        a *= mass
                    add(row, a, source, d)
                    s += a * source[n]
                    far += abs(a) * source[n + 1]
                if hidden:
                    hide(row, d, far)
                if equal:
                    b[m] = f * z[1] - s
                else:
                    lower[p] = f * z[1] - s
                    upper[p] = f * z[2] - s
            if equal:
                m += 1
            else:
                p += 1
    shape[1 + K] = m
    shape[2 + 2 * K] = p
    for i in range(shape.shape[0]):
        if shape[i] != expected[i]:
            return OTHER_SHAPE
    return READY


@jit
def seen_from(F, other, J, Jo, wanted, given, found, relative, turn, vec):  # type: ignore[no-untyped-def]
    """Error, velocity, drift and Jacobian (in the place of J) of a frame as another one sees it, in that one's axes."""
    r, spin, seen, x, y = vec[0:3], other[SPIN:DRIFT], vec[3:6], vec[6:9], vec[9:12]
    for i in range(3):
        r[i] = F[ORIGIN + i] - other[ORIGIN + i]
    for j in range(J.shape[1]):
        for i in range(6):
            J[i, j] -= Jo[i, j]
        J[0, j] += r[1] * Jo[5, j] - r[2] * Jo[4, j]
        J[1, j] += r[2] * Jo[3, j] - r[0] * Jo[5, j]
        J[2, j] += r[0] * Jo[4, j] - r[1] * Jo[3, j]
        turned(other, J[0, j], J[1, j], J[2, j], x)
        turned(other, J[3, j], J[4, j], J[5, j], y)
        for i in range(3):
            J[i, j] = x[i]
            J[3 + i, j] = y[i]
    cross(spin, r, x)
    for i in range(3):
        seen[i] = F[SPEED + i] - other[SPEED + i] - x[i]
    turned(other, seen[0], seen[1], seen[2], found[1, 0:3])
    turned(other, F[SPIN] - other[SPIN], F[SPIN + 1] - other[SPIN + 1], F[SPIN + 2] - other[SPIN + 2], found[1, 3:6])
    cross(spin, x, y)
    for i in range(3):
        y[i] = F[DRIFT + i] - other[DRIFT + i] - y[i]
    cross(other[SPIN_DRIFT:FRAME], r, x)
    for i in range(3):
        y[i] -= x[i]
    cross(spin, seen, x)
    turned(other, y[0] - 2.0 * x[0], y[1] - 2.0 * x[1], y[2] - 2.0 * x[2], found[2, 0:3])
    cross(spin, F[SPIN:DRIFT], x)
    for i in range(3):
        y[i] = F[SPIN_DRIFT + i] - other[SPIN_DRIFT + i] - x[i]
    turned(other, y[0], y[1], y[2], found[2, 3:6])
    turned(other, r[0], r[1], r[2], relative[0:3])
    for i in range(3):
        found[0, i] = wanted[i] - relative[i]
        found[0, 3 + i] = 0.0
        for j in range(3):
            turn[i, j] = other[i] * F[j] + other[3 + i] * F[3 + j] + other[6 + i] * F[6 + j]
    if given:
        log3(wanted[3:12], turn, found[0, 3:6])


@jit
def turned(G, x, y, z, out):  # type: ignore[no-untyped-def]
    """A vector of the world in the axes of a frame."""
    for i in range(3):
        out[i] = G[i] * x + G[3 + i] * y + G[6 + i] * z


@jit
def finish(M, h, y, table, mass, nf, reduced, shape, A, b, C, lower, upper, W, answer):  # type: ignore[no-untyped-def]
    """From the solver's answer to the robot's.

    Args:
        M: (nv, nv).
        h: (nv,).
        y: (unknowns,) the solution.
        table: as of `assemble`.
        mass: of the robot [kg].
        nf: number of forces.
        reduced: as of `assemble`.
        shape: as of `assemble`.
        A: (m, unknowns) and so on, likewise, as the solver got them.
        b: likewise.
        C: likewise.
        lower: likewise.
        upper: likewise.
        W: work, as `assemble` left it.
        answer: takes the violation of level 0, torques (nu,), accelerations (nv,), forces (nf,).
    """
    nv = h.shape[0]
    nj, frame_count, nu, K = table[0], table[1], table[2], table[4]
    at = HEADS + 3 * nj + frame_count
    motors, passive = table[at : at + nu], table[at + nu : at + nv]
    n, free = nu + nf, nv - nu
    d = shape[0] - 1 if reduced else shape[0]
    L, Jc, aims, X, accelerations, _, work = carve(W, nv, nu, nf, nj, frame_count)
    lack = work[:free].reshape(free, 1)
    tau, a = answer[HEAD : HEAD + nu], answer[HEAD + nu : HEAD + nu + nv]
    f = answer[HEAD + nu + nv : HEAD + nu + nv + nf]
    worst = 0.0
    for i in range(nv):
        row = accelerations[i]
        s = row[n]
        for j in range(d):
            s += row[j] * y[j]
        a[i] = s
    for i in range(nf):
        row = X[nu + i]
        s = row[n]
        for j in range(d):
            s += row[j] * y[j]
        f[i] = mass * s
    # The rows without a motor once more, on what rounding leaves; then the torques.
    for i in range(free):
        o = passive[i]
        s = -h[o]
        row = M[o]
        for j in range(nv):
            s -= row[j] * a[j]
        for c in range(nf):
            s += Jc[c, o] * f[c]
        lack[i, 0] = s
    substitute(L, lack)
    for i in range(free):
        a[passive[i]] += lack[i, 0]
    for i in range(nu):
        o = motors[i]
        s = h[o]
        row = M[o]
        for j in range(nv):
            s += row[j] * a[j]
        for c in range(nf):
            s -= Jc[c, o] * f[c]
        tau[i] = s
    # Level 0: contacts solved beforehand, wanted values, limits.
    if reduced:
        for c in range(nf):
            s = 0.0
            if aims[2, c] == 1.0:
                s = aims[0, c] - aims[1, c]
                row = Jc[c]
                for j in range(nv):
                    s += row[j] * a[j]
            elif aims[2, c] == 2.0:
                s = (f[c] - aims[1, c]) / mass
            worst = max(worst, abs(s))
    for i in range(shape[2]):
        s = -b[i]
        for j in range(d):
            s += A[i, j] * y[j]
        worst = max(worst, abs(s))
    for i in range(shape[3 + K]):
        s = 0.0
        for j in range(d):
            s += C[i, j] * y[j]
        worst = max(worst, s - upper[i], lower[i] - s)
    answer[VIOLATION] = worst
    s = worst
    for i in range(1, answer.shape[0]):
        s += abs(answer[i])
    return np.isfinite(s)
