"""Where the numbers of a compiled tick of the dense path lie: few arrays, each carved into many parts.

Python hands arrays over one by one, which takes as long as a good deal of arithmetic; so a tick is told little more
than a table of integers, a block of numbers, and a block to work in.  Python and compiled code carve with the same
functions; Python learns from them how much there must be.

Importing this module imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.extending import overload, register_jitable

from ..hierarchy.compiled_work import RANKS, float_work, int_work
from ..hierarchy.jit import BORROWED, OPTIONS, matrix
from ..hierarchy.lanes import WIDTH
from .compiled_frames import FRAME
from .compiled_inertia import OF_BODY

#: What the table begins with: how many joints, frames, actuated and passive accelerations, elements, levels, force
#: tasks, contacts, numbers of each; most equalities and inequalities.
JOINTS, FRAMES, ACTUATED, PASSIVE, ITEMS, LEVELS, WISHES, CONTACTS, CONTACT, MOST, LIMITS, HEADS = range(12)

#: Columns of the program: level, code, where its numbers begin, rows, and two that mean what the code says.
LEVEL, CODE, START, ROWS, ONE, TWO, COLUMNS = 0, 1, 2, 3, 4, 5, 6

#: Slots of `constants`; the frames in their bodies follow, (4, 3) each, then the bodies, (10,) each, and the armature.
MASS, LENGTH, PERIOD, BODIES, FREE, GRAVITY, TOLERANCE, DAMPING, BOLTED = 0, 1, 2, 3, 4, 5, 8, 9, 10

#: Slots of `extra`: whether there was a torque before, drift and velocity of the centre of mass (if the root is not
#: free), the torque before.
HAS_BEFORE, COM_BIAS, COM_SPEED, BEFORE = 0, 1, 4, 7

#: Slots of the integers: per way (see `compiled_dense`) whether its last working sets are good, and whether the last
#: tick started from them; where the levels' rows begin and how many unknowns they have.  The rest is carved.
GOOD, TOLD, ROWS_AT, UNKNOWNS, INTEGERS = 0, 2, 4, 5, 6

#: Rows of `aims`, what is wanted of contacts, component by component: acceleration at ``a = 0``; the wanted one, or the
#: force of a spring; whether it is a strict wish, and about what.
BIAS, WISH, STRICT = 0, 1, 2
MOTION, FORCE = 1.0, 2.0

#: Slots of an answer: violation of level 0, KKT residual, rank of what was solved beforehand, torques.
VIOLATION, KKT, BEFOREHAND, TAU = 0, 1, 2, 3


def both(function: Callable[..., Any]) -> Any:
    """`function` for Python, and as a part of every compiled function that calls it."""
    return register_jitable(**(OPTIONS | BORROWED))(function)


@both
def stride(n):  # type: ignore[no-untyped-def]
    """Columns of a map over n unknowns, and of what is as long."""
    return WIDTH * ((n + WIDTH) // WIDTH)


def part(F: Any, at: Any, rows: Any, columns: Any) -> Any:
    """The next (rows, columns) of a block, and where the rest begins."""
    end = at + rows * columns
    return F[at:end].reshape(rows, columns), end


@overload(part, jit_options=OPTIONS | BORROWED)  # type: ignore[arg-type]
def _part(F, at, rows, columns):  # type: ignore[no-untyped-def]
    """As compiled code has it."""
    return lambda F, at, rows, columns: (matrix(F, at, rows, columns), at + rows * columns)


@both
def sections(table):  # type: ignore[no-untyped-def]
    """Joints (parent, first in v, number), joints of frames, chains, actuated, passive, program, index.

    A chain is the number of joint velocities that move a frame, then which these are; the last one holds them all.
    """
    nj, nf, nu, free, items = table[JOINTS], table[FRAMES], table[ACTUATED], table[PASSIVE], table[ITEMS]
    joints, at = part(table, HEADS, nj, 3)
    a = at + nf
    chains, b = part(table, a, nf + 1, 1 + max(nu + free, 6))
    c = b + nu
    d = c + free
    program, e = part(table, d, items, COLUMNS)
    return joints, table[at:a], chains, table[b:c], table[c:d], program, table[e:]


@both
def heard(told, table):  # type: ignore[no-untyped-def]
    """What may change between ticks: extra, contacts, what force tasks want of each, Jacobian of the centre of mass.

    Of a contact a force task says whether it counts, whether it has a reference, and the reference (6).
    """
    a = BEFORE + table[ACTUATED]
    contacts, at = part(told, a, table[CONTACTS], table[CONTACT])
    wishes, at = part(told, at, table[WISHES] * table[CONTACTS], 8)
    com_JT, _ = part(told, at, table[ACTUATED] + table[PASSIVE], 3)
    return told[:a], contacts, wishes, com_JT


@both
def kept(F, nv, nu, nf):  # type: ignore[no-untyped-def]
    """What answers are made with: M, h, L, Jc, aims, full, torques, lengths; and, as always, where the rest begins.

    `full` are the maps of the accelerations and of the forces per mass, one below the other, `torques` those of the
    torques; `lengths` those that all these rows had over all unknowns.
    """
    n, free = nu + nf, nv - nu
    S = stride(n)
    M, at = part(F, 0, nv, nv)
    h, at = part(F, at, 1, nv)
    L, at = part(F, at, free, free)
    Jc, at = part(F, at, nf, nv)
    aims, at = part(F, at, 3, nf)
    full, at = part(F, at, nv + nf, S)
    torques, at = part(F, at, nu, S)
    end = at + nv + nf + nu
    return M, h[0], L, Jc, aims, full, torques, F[at:end], end


@both
def seen(F, at, nv, nj, frames):  # type: ignore[no-untyped-def]
    """Of bodies and frames: twists, drifts, bodies, centre of mass, frames; of a task: Jacobians, the rest, work."""
    twist, at = part(F, at, nj, 6)
    drifts, at = part(F, at, nj, 6)
    whole, at = part(F, at, OF_BODY, nj)
    com, at = part(F, at, 1, 3)
    placed, at = part(F, at, frames, FRAME)
    J, at = part(F, at, 6, nv)
    Jo, at = part(F, at, 6, nv)
    found, at = part(F, at, 3, 6)
    turn, at = part(F, at, 3, 3)
    end = at + 24 + WIDTH + nv
    return twist, drifts, whole, com[0], placed, J, Jo, found, turn, F[at:end], end


@both
def mapping(F, at, nv, nu, nf):  # type: ignore[no-untyped-def]
    """Work of `maps`: T, X, E, V, a row, shares, e, spare."""
    n, free = nu + nf, nv - nu
    S = stride(n)
    T, at = part(F, at, free, S)
    X, at = part(F, at, n, S)
    E, at = part(F, at, n, S)
    V, at = part(F, at, nf, S)
    spare, at = part(F, at, 3, S + nf)
    row, at = part(F, at, 1, S)
    a = at + nv + nf + free + S
    end = a + nf
    return T, X, E, V, row[0], F[at:a], F[a:end], spare, end


@both
def rows(F, at, n, most, limits):  # type: ignore[no-untyped-def]
    """The levels' rows: A, b, weights, C, lower, upper.  A row may be written beyond its end while the next is not."""
    A, at = part(F, at, most, n)
    at += WIDTH
    C, at = part(F, at, limits, n)
    at += WIDTH
    a, b = at + most, at + 2 * most
    c, end = b + limits, b + 2 * limits
    return A, F[at:a], F[a:b], C, F[b:c], F[c:end], end


@both
def solving(F, at, n, limits, K):  # type: ignore[no-untyped-def]
    """Of the solver: x, multipliers, statistics, its own work."""
    a = at + n
    lam, b = part(F, a, K + 1, limits)
    end = b + RANKS + 2 * K + 2
    return F[at:a], lam, F[b:end], F[end:], end


def solver_work(n: int, m: int, limits: int, K: int) -> tuple[int, int]:
    """How many numbers and integers the solver wants as work, at m rows of one level at most."""
    return float_work(n, m, limits, K), int_work(n, m, limits, K)


@both
def integers(N, nc, nf, K):  # type: ignore[no-untyped-def]
    """Contacts' columns; where levels begin: equalities, inequalities, those of each way's last tick; an order."""
    a = INTEGERS + nc
    b, c = a + K + 1, a + 2 * (K + 1)
    last, d = part(N, c, 2, K + 1)
    end = d + nf
    return N[INTEGERS:a], N[a:b], N[b:c], last, N[d:end], N[end:], end
