"""Elimination of the joint accelerations of a limb that moves a single contact, by the equations of the contact.

With ``J_l a_l + J_u a_u + drift = desired``, J_l the columns of the limb's joints and J_u those of the unactuated
velocities, ``a_l = J_l^-1 (desired - drift - J_u a_u)``.  The redundant joints of a limb with more joints than rows
remain as unknowns; for a limb with fewer joints, combinations of the rows remain as equations (`limb_leftover`).
"""

from __future__ import annotations

import math

from ..compiler import Matrix, compiled
from ..compiler.lanes import clear
from .tick_data import ContactPointData, ContactStateData, ControllerModel, TickScratch

#: Smallest regularity of the Jacobian of a limb that is eliminated: for 3 x 3 the determinant over the product of the
#: lengths of the rows, else the ratio that `factor_qr` returns.
MIN_LIMB_CONDITION = 1e-3


@compiled()
def invert_3x3(A: Matrix, out: Matrix) -> float:
    """Computes ``out = A^-1``, 3 x 3.

    Returns:
        ``|det A|`` over the product of the lengths of its rows: 0 if singular, 1 if orthogonal.
    """
    c00 = A[1, 1] * A[2, 2] - A[1, 2] * A[2, 1]
    c01 = A[1, 2] * A[2, 0] - A[1, 0] * A[2, 2]
    c02 = A[1, 0] * A[2, 1] - A[1, 1] * A[2, 0]
    det = A[0, 0] * c00 + A[0, 1] * c01 + A[0, 2] * c02
    size = 1.0
    for j in range(3):
        size *= math.sqrt(A[j, 0] * A[j, 0] + A[j, 1] * A[j, 1] + A[j, 2] * A[j, 2])
    if not size > 0.0 or det == 0.0:
        return 0.0
    s = 1.0 / det
    out[0, 0] = c00 * s
    out[1, 0] = c01 * s
    out[2, 0] = c02 * s
    out[0, 1] = (A[0, 2] * A[2, 1] - A[0, 1] * A[2, 2]) * s
    out[1, 1] = (A[0, 0] * A[2, 2] - A[0, 2] * A[2, 0]) * s
    out[2, 1] = (A[0, 1] * A[2, 0] - A[0, 0] * A[2, 1]) * s
    out[0, 2] = (A[0, 1] * A[1, 2] - A[0, 2] * A[1, 1]) * s
    out[1, 2] = (A[0, 2] * A[1, 0] - A[0, 0] * A[1, 2]) * s
    out[2, 2] = (A[0, 0] * A[1, 1] - A[0, 1] * A[1, 0]) * s
    return float(abs(det) / size)


@compiled(inline=False)
def factor_qr(A: Matrix, m: int, k: int, Q: Matrix) -> float:
    """Computes ``A = Q R`` of m rows and k <= m columns by Householder reflections: R replaces A, Q is (m, m).

    Returns:
        The smallest entry of the diagonal of R, over the length of its column of A: 0 if columns are dependent.
    """
    for i in range(m):
        for j in range(m):
            Q[i, j] = 0.0
        Q[i, i] = 1.0
    smallest = 1.0
    for c in range(k):
        remainder_squared, column_squared = 0.0, 0.0
        for i in range(m):
            column_squared += A[i, c] * A[i, c]
            if i >= c:
                remainder_squared += A[i, c] * A[i, c]
        norm = math.sqrt(remainder_squared)
        if not norm > 0.0:
            return 0.0
        smallest = min(smallest, norm / math.sqrt(column_squared))
        diagonal = -norm if A[c, c] > 0.0 else norm
        head = A[c, c] - diagonal
        half = -1.0 / (diagonal * head)  # 2 / |u|^2 of u = (head, rest of the column)
        for j in range(c + 1, k):
            s = head * A[c, j]
            for i in range(c + 1, m):
                s += A[i, c] * A[i, j]
            s *= half
            A[c, j] -= s * head
            for i in range(c + 1, m):
                A[i, j] -= s * A[i, c]
        for i in range(m):
            s = Q[i, c] * head
            for j in range(c + 1, m):
                s += Q[i, j] * A[j, c]
            s *= half
            Q[i, c] -= s * head
            for j in range(c + 1, m):
                Q[i, j] -= s * A[j, c]
        A[c, c] = diagonal
        for i in range(c + 1, m):
            A[i, c] = 0.0
    return smallest


@compiled(inline=False)
def invert_limb(J: Matrix, size: int, count: int, work: TickScratch, c: int) -> bool:
    """Solves the equations of contact c for the joints of its limb; returns False near a singularity.

    With ``J a_l = y``, J (size, count) of full rank: ``a_l = limb_inverse y + limb_redundancy z`` if there are
    more joints than rows, and ``limb_leftover y = 0`` if there are fewer.
    """
    inv, A, Q = work.limb_inverse[c], work.limb_scratch[0], work.limb_scratch[1]
    if size == 3 and count == 3:
        return invert_3x3(J, inv) > MIN_LIMB_CONDITION
    transpose = count >= size  # factor J^T
    m, k = (count, size) if transpose else (size, count)
    for i in range(m):
        for j in range(k):
            A[i, j] = J[j, i] if transpose else J[i, j]
    if not factor_qr(A, m, k, Q) > MIN_LIMB_CONDITION:
        return False
    for row in range(m):
        # If transposed, J^T = Q R and a = Q1 R^-T y (a row of it); else J = Q R and a = R^-1 Q1^T y (a column).
        for o in range(k - 1, -1, -1):
            s = Q[row, o]
            for i in range(o + 1, k):
                s -= A[o, i] * (inv[row, i] if transpose else inv[i, row])
            if transpose:
                inv[row, o] = s / A[o, o]
            else:
                inv[o, row] = s / A[o, o]
        for j in range(k, m):
            if transpose:
                work.limb_redundancy[c, row, j - k] = Q[row, j]
            else:
                work.limb_leftover[c, j - k, row] = Q[row, j]
    return True


@compiled(inline=False)
def reduce_limb(
    model: ControllerModel, contacts: ContactStateData, points: ContactPointData, work: TickScratch, c: int
) -> bool:
    """Eliminates the joint accelerations of the limb of contact c; returns False near a singularity.

    With ``J_l a_l + J_u a_u + drift = desired``: ``a_l = limb_map (a_u, 1) + limb_redundancy z``.
    """
    size, count = contacts.size[c], model.limbs[c, 0]
    chain, J, inv, P = model.chains[contacts.frame[c]], points.jacobian[c], work.limb_inverse[c], work.limb_map[c]
    n_passive, J_l = len(model.passive), work.limb_scratch[2]
    for k in range(count):
        joint = model.limbs[c, 1 + k]
        entry = 0
        while chain[1 + entry] != joint:
            entry += 1
        for i in range(size):
            J_l[i, k] = J[i, entry]
    if not invert_limb(J_l, size, count, work, c):
        return False
    for k in range(count):
        s = 0.0
        for i in range(size):
            s += inv[k, i] * (points.target[c, i] - points.drift[c, i])
        clear(P[k], n_passive + 1)
        P[k, n_passive] = s
    for entry in range(chain[0]):
        slot = model.slot[chain[1 + entry]]
        if slot >= 0:
            for k in range(count):
                s = 0.0
                for i in range(size):
                    s -= inv[k, i] * J[i, entry]
                P[k, slot] = s
    return True
