"""The levels' rows on the compiled dense path, straight into the memory of the solver.

They are what `quaddyn.wbc.problem` would put together, row for row with the same units and weights.

Importing this module imports numba.
"""

from __future__ import annotations

from ..hierarchy.jit import inner, matrix, outlined
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
    force_rows,
    friction_rows,
    normal_rows,
)
from .compiled_frames import ORIGIN, SPEED, point_jacobian
from .compiled_limits import bound_rows, own_row, torque_rows
from .compiled_maps import combine, copy, hide
from .compiled_memory import (
    BEFORE,
    BIAS,
    BODIES,
    CODE,
    COM_BIAS,
    COM_SPEED,
    FREE,
    GRAVITY,
    HAS_BEFORE,
    LENGTH,
    LEVEL,
    LEVELS,
    MASS,
    MOTION,
    ONE,
    PERIOD,
    ROWS,
    START,
    STRICT,
    TWO,
    WISH,
    heard,
    sections,
)
from .compiled_tasks import BIAS as DRIFT
from .compiled_tasks import (
    COM,
    ERROR,
    FOOT,
    JOINTS,
    POSTURE,
    RELATIVE,
    VELOCITY,
    capture,
    desired,
    motion_rows,
    of_frame,
    of_frames,
    posture_rows,
    shared_rows,
)

# Codes of the elements that are no motion tasks, as the classes have them.
FORCES, CONTACT, FRICTION, NORMAL, TORQUE, RATE, BOUNDS = 20, 101, 102, 103, 104, 105, 107


@inner
def hold(program, numbers, contacts, q, com, frames):  # type: ignore[no-untyped-def]
    """Every task that acts without a reference wants what is found."""
    for i in range(program.shape[0]):
        code, start, one, two = program[i, CODE], program[i, START], program[i, ONE], program[i, TWO]
        if code < JOINTS and numbers[start] == 0.0 and (code != FOOT or two < 0 or contacts[two, SHARE] < 1.0):
            framed = code != COM and code != POSTURE
            F, G = frames[one if framed else 0], frames[two if code == RELATIVE else 0]
            capture(code, program[i, ROWS], numbers[start:], q, com, F, G)


@inner
def holding(program, numbers):  # type: ignore[no-untyped-def]
    """Whether anything wants contacts to hold, and the damping of what motion they have."""
    for i in range(program.shape[0]):
        if program[i, CODE] == CONTACT:
            return True, numbers[program[i, START]]
    return False, 0.0


@inner
def levels(  # type: ignore[no-untyped-def]
    M, JT, placed, com, q, v, numbers, told, others, table, constants, column, d, hidden, Jc, aims, full, torques,
    lengths, frames, J, Jo, found, turn, vec, A, b, C, lower, upper, ms, ps,
):  # fmt: skip
    """All levels' rows over d unknowns, and behind these, where rows are `hidden`, one more: see `hide`.

    Args:
        M: (nv, nv), and so on to `constants`: as of `compiled_dense.tick`.
        JT: likewise.
        placed: likewise.
        com: likewise.
        q: likewise.
        v: likewise.
        numbers: likewise.
        told: likewise.
        others: likewise.
        table: likewise.
        constants: likewise.
        column: (contacts,) where each one's force begins, -1 if it has none.
        d: number of unknowns.
        hidden: whether contacts are solved beforehand.
        Jc: (nf, nv), and so on to `lengths`: as of `compiled_memory.kept`.
        aims: likewise.
        full: likewise.
        torques: likewise.
        lengths: likewise.
        frames: as of `compiled_memory.seen`.
        J: work, likewise; and so on to `vec`.
        Jo: likewise.
        found: likewise.
        turn: likewise.
        vec: likewise.
        A: (m, unknowns) takes the equalities.
        b: (m,).
        C: (p, unknowns) takes the inequalities.
        lower: (p,).
        upper: (p,).
        ms: (levels + 1,) takes where the levels' equalities begin.
        ps: (levels + 1,) likewise the inequalities.
    """
    _, _, chains, motors, _, program, index = sections(table)
    extra, contacts, wishes, com_JT = heard(told, table)
    nc, K, moved = contacts.shape[0], table[LEVELS], v.shape[0]
    mass, length = constants[MASS], constants[LENGTH]
    held, _ = holding(program, numbers)
    everything = chains[chains.shape[0] - 1]
    axes, forces = everything[1:], full[moved:]
    m, p, item = 0, 0, -1
    for level in range(K):
        ms[level] = m
        ps[level] = p
        if hidden and level == 0:  # the unknown of hidden lengths
            for j in range(d):
                A[m, j] = 0.0
            A[m, d] = 1.0
            b[m] = 0.0
            m += 1
        while item + 1 < program.shape[0] and program[item + 1, LEVEL] == level:
            item += 1
            code, start, one, two = program[item, CODE], program[item, START], program[item, ONE], program[item, TWO]
            z = numbers[start:]
            if code < FORCES:
                size = program[item, ROWS]
                if code == POSTURE or code == JOINTS:
                    m = posture_rows(m, z, size, index[one:], q, v, full, lengths, d, hidden, A, b)
                    continue
                own_rows = code != FOOT or two < 0 or column[two] < 0 or contacts[two, ROLE] > BILATERAL
                if not own_rows and (not held or not passes(item, contacts)):
                    continue  # the foot is held
                chain = everything
                if code == COM:
                    centre(z, constants, placed, M, com, com_JT, extra, v, J, found)
                    if constants[FREE] != 0.0:
                        m = pushed_rows(m, z, constants, contacts, column, found, forces, d, hidden, A, b)
                        continue
                else:
                    F, chain = frames[one], chains[one]
                    point_jacobian(chain, JT, F[ORIGIN:SPEED], J)
                    if code == RELATIVE:
                        point_jacobian(chains[two], JT, frames[two][ORIGIN:SPEED], Jo)
                        of_frames(z, F, frames[two], chain, chains[two], J, Jo, found, turn, vec)
                        chain = everything
                    else:
                        of_frame(code, size, z, F, chain[0], J, found, turn)
                if own_rows:
                    m = motion_rows(m, z, size, J, chain, found, full, lengths, d, hidden, A, b)
                if code == FOOT and held:
                    for k in range(nc):
                        share, c = contacts[k, SHARE], column[k]
                        if contacts[k, SHARED] == item and 0.0 < share < 1.0 and contacts[k, ROLE] <= BILATERAL:
                            for i in range(3):
                                vec[i] = aims[BIAS, c + i]
                                vec[3 + i] = aims[WISH, c + i]
                            m = shared_rows(
                                m, z, share, J, chain, found, Jc[c:], matrix(vec, 0, 2, 3), Jo[0], everything, full,
                                lengths, d, hidden, A, b,
                            )  # fmt: skip
                continue
            if code == FORCES:
                for k in range(nc):
                    y = wishes[one + k]
                    if column[k] >= 0 and y[0] != 0.0:
                        m = force_rows(
                            m, contacts[k], y[1:], z[0], z[1], column[k], aims, Jc, v, forces, full, lengths, Jo[0],
                            axes, d, mass, hidden, A, b,
                        )  # fmt: skip
            elif code == CONTACT:
                if not hidden:
                    m = strict_rows(m, aims, Jc, axes, forces, full, lengths, d, mass, A, b)
            elif code == FRICTION:
                for k in range(nc):
                    role = contacts[k, ROLE]
                    if column[k] >= 0 and contacts[k, PUSHES] != 0.0 and (role == UNILATERAL or role == FORCED):
                        R, mine = frames[int(contacts[k, AT])], forces[column[k] :]
                        p = friction_rows(p, contacts[k], R, mine, axes, d, hidden, vec, C, lower, upper)
            elif code == NORMAL:
                for k in range(nc):
                    role = contacts[k, ROLE]
                    if column[k] >= 0 and (role <= BILATERAL or role == FORCED):
                        mine = forces[column[k] :]
                        p = normal_rows(p, contacts[k], mine, axes, d, mass, length, hidden, vec, C, lower, upper)
            elif code == TORQUE or (code == RATE and extra[HAS_BEFORE] != 0.0):
                rate, scale = constants[PERIOD] if code == RATE else 0.0, 1.0 / (mass * length)
                p = torque_rows(
                    p, z, rate, extra[BEFORE:], scale, torques, lengths[full.shape[0] :], d, hidden, C, lower, upper
                )
            elif code == BOUNDS:
                p = bound_rows(p, z, index[one:], motors, q, v, length, full, d, hidden, C, lower, upper)
        if held:
            m = yielding_rows(m, level, K, contacts, column, aims, Jc, axes, full, lengths, d, hidden, A, b)
        for i in range(others.shape[0]):
            z = others[i]
            if z[0] != level:
                continue
            if z[1] == z[2]:
                b[m] = z[3] * z[1] - own_row(z, moved, full, torques, lengths, mass, d, hidden, A[m])
                m += 1
            else:
                s = own_row(z, moved, full, torques, lengths, mass, d, hidden, C[p])
                lower[p] = z[3] * z[1] - s
                upper[p] = z[3] * z[2] - s
                p += 1
    ms[K] = m
    ps[K] = p


@inner
def passes(item, contacts):  # type: ignore[no-untyped-def]
    """Whether a contact that comes or goes shares its foot with this task."""
    for k in range(contacts.shape[0]):
        if contacts[k, SHARED] == item and 0.0 < contacts[k, SHARE] < 1.0 and contacts[k, ROLE] <= BILATERAL:
            return True
    return False


@outlined(
    "i8(i8, i8, i8, f8, f8[:,::1], f8[:,::1], i8[::1], f8[:,::1], f8[::1], i8, b1, f8[:,::1], f8[::1])"
)  # fmt: skip
def resting_rows(m, first, count, f, aims, Jc, axes, full, lengths, d, hidden, A, b):  # type: ignore[no-untyped-def]
    """Components of contacts, `count` from the first on, move as contacts should, with weight f."""
    for c in range(first, first + count):
        s = combine(Jc[c], axes, Jc.shape[1], full, lengths, d, f, hidden, A[m])
        b[m] = f * (aims[WISH, c] - aims[BIAS, c]) - s
        m += 1
    return m


@inner
def strict_rows(m, aims, Jc, axes, forces, full, lengths, d, mass, A, b):  # type: ignore[no-untyped-def]
    """Contacts that hold, where they are not solved beforehand."""
    for c in range(Jc.shape[0]):
        if aims[STRICT, c] == MOTION:
            m = resting_rows(m, c, 1, 1.0, aims, Jc, axes, full, lengths, d, False, A, b)
        elif aims[STRICT, c] != 0.0:
            b[m] = aims[WISH, c] / mass - copy(forces[c], 1.0, d, 1.0, False, A[m])
            m += 1
    return m


@inner
def yielding_rows(m, level, K, contacts, column, aims, Jc, axes, full, lengths, d, hidden, A, b):  # type: ignore[no-untyped-def]
    """Contacts that come or go where no foot task shares the foot; see `ContactMotion.yielding_rows`."""
    for k in range(contacts.shape[0]):
        share = contacts[k, SHARE]
        if not 0.0 < share < 1.0 or contacts[k, SHARED] >= 0.0 or contacts[k, ROLE] > BILATERAL:
            continue
        below = max(1, K - 1)
        passed = min(int(share * below), below - 1)
        if level == K - 1 - passed:
            progress = min(max(share * below - passed, 1e-6), 1.0 - 1e-6)
            f, size = progress / (1.0 - progress), int(contacts[k, SIZE])
            m = resting_rows(m, column[k], size, f, aims, Jc, axes, full, lengths, d, hidden, A, b)
    return m


@inner
def centre(z, constants, placed, M, com, com_JT, extra, v, J, found):  # type: ignore[no-untyped-def]
    """What is of the centre of mass; its velocity under a free root is the base's momentum, which M knows."""
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
        J[0, i] = 0.0
        for j in range(v.shape[0]):
            J[0, i] += share * M[i, j] * v[j]
    for i in range(3):
        found[VELOCITY, i] = placed[1, 0, i] * J[0, 0] + placed[1, 1, i] * J[0, 1] + placed[1, 2, i] * J[0, 2]
        found[DRIFT, i] = constants[GRAVITY + i]


@inner
def pushed_rows(m, z, constants, contacts, column, found, forces, d, hidden, A, b):  # type: ignore[no-untyped-def]
    """Rows of the centre of mass under a free root: forces and gravity are all that moves it."""
    f = constants[MASS] / constants[BODIES]
    for i in range(3):
        if z[10 + i] == 0.0:
            continue
        row = A[m]
        for j in range(d):
            row[j] = 0.0
        constant, length, square = 0.0, 0.0, 0.0
        for k in range(contacts.shape[0]):
            if column[k] >= 0:
                source = forces[column[k] + i]
                for j in range(d):
                    row[j] += source[j]
                constant += source[d]
                length += 1.0
        weight = z[1 + i]
        for j in range(d):
            row[j] *= weight * f
            square += row[j] * row[j]
        if hidden:
            row[d] = hide(weight * f * length, square)
        b[m] = weight * (desired(z, 3, found, i) - found[DRIFT, i] - f * constant)
        m += 1
    return m
