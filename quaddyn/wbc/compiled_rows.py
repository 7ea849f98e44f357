"""Whole-body control of any robot, compiled: from a state to the levels' matrices.

`assemble` writes what `quaddyn.wbc.problem` would put together, row for row with the same units and weights, straight
into the memory of a solver.  Contacts that hold are not left to the solver where they can be met: their rows of level 0
are solved beforehand (`null_space`), and what is decided is what they leave free.

Importing this module imports numba.
"""

from __future__ import annotations

from ..hierarchy.jit import entry, inner
from .compiled_aims import BIAS, MOTION, STRICT, WISH
from .compiled_contacts import (
    AT,
    BILATERAL,
    FORCED,
    PUSHES,
    ROLE,
    SHARE,
    SHARED,
    SIZE,
    UNILATERAL,
    contact_point,
    force_rows,
    friction_rows,
    normal_rows,
)
from .compiled_frames import FRAME, ORIGIN, SPEED, frame, motions, point_jacobian
from .compiled_limits import bound_rows, other_rows, torque_rows
from .compiled_maps import combine, copy, maps, stride
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


@inner
def given(program, numbers, contacts):  # type: ignore[no-untyped-def]
    """Whether every task that acts has a reference."""
    for i in range(program.shape[0]):
        code, k = program[i, CODE], program[i, TWO]
        if code < JOINTS and numbers[program[i, START]] == 0.0:
            if code != FOOT or k < 0 or contacts[k, SHARE] < 1.0:
                return False
    return True


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
