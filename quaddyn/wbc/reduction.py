"""The equations of motion and strict contacts, solved for what the unknowns decide.

Unknowns are the accelerations of joints with motors, and contact forces over the mass.  Two things are solved for them
beforehand, so that no tick can violate them:

- The rows without a motor (the root's and those of passive joints), ``M_u a + h_u = J_u^T f``, give the accelerations
  a_u of the root and of passive joints.  Then ``tau = M_a a + h_a - J_a^T f`` (Featherstone 2008, sections 3 and 9).
  The friction of joints, if an element counts it, is part of h here.
- A contact that holds must accelerate as it is wanted, ``J a + drift = wanted``.  Where a limb moves this contact alone
  and its Jacobian is well conditioned, the joints' accelerations follow from those of the root,
  ``a_l = J_l^-1 (wanted - drift - J_u a_u)``, and leave the unknowns; joints to spare leave as many of their own.  What
  limbs with too few joints cannot do, and what contacts of other limbs want, is left as equations over the unknowns,
  solved by orthogonal factorization: `null_space`.
"""

from __future__ import annotations

import math

from ..compiler import Matrix, compiled
from ..compiler.lanes import axpy, clear, copy_columns, gemm, gemv, gemv_indexed, reflect_rows, row_squares, scale
from .data import FORCE, MOTION, NOTHING, Contacts, Model, Points, Terms, Work
from .limbs import reduce_limb

#: With limbs eliminated, pivots of the equations without a motor must differ by less than this.
BASE_LEAST = 1e-7
#: Share of a column's square that must be left for it to be taken in its turn.
CLEAR = 1e-4


@compiled(inline=False)
def eliminate(B: Matrix, G: Matrix, n: int) -> float:
    """``G <- B^-1 G`` by Gaussian elimination with pivoting by rows; smallest pivot over the largest.

    Args:
        B: (k, >= k) destroyed.
        G: (k, >= n).
        n: columns of G.
    """
    size = B.shape[0]
    least, most = math.inf, 0.0
    for k in range(size):
        p = k
        for i in range(k + 1, size):
            if abs(B[i, k]) > abs(B[p, k]):
                p = i
        if p != k:
            for j in range(k, size):
                B[k, j], B[p, j] = B[p, j], B[k, j]
            for j in range(n):
                G[k, j], G[p, j] = G[p, j], G[k, j]
        pivot = abs(B[k, k])
        least = min(least, pivot)
        most = max(most, pivot)
        if not pivot > 0.0:
            return 0.0
        for i in range(k + 1, size):
            f = -B[i, k] / B[k, k]
            if f != 0.0:
                axpy(B[i], f, B[k], size)
                axpy(G[i], f, G[k], n)
    for k in range(size - 1, -1, -1):
        scale(G[k], G[k], 1.0 / B[k, k], n)
        for i in range(k):
            if B[i, k] != 0.0:
                axpy(G[i], -B[i, k], G[k], n)
    return 1.0 if size == 0 else least / most


@compiled()
def choose_unknowns(model: Model, contacts: Contacts, points: Points, work: Work) -> int:
    """Which unknown each force and each joint's acceleration is; how many there are."""
    n = 0
    for j in range(len(model.slot)):
        work.joint[j] = -1
    for i in range(len(model.actuated)):
        work.joint[model.actuated[i]] = 0
    for c in range(len(contacts.size)):
        if points.reduced[c] != 0:
            for k in range(model.limbs[c, 0]):
                work.joint[model.limbs[c, 1 + k]] = -1
    for i in range(len(model.actuated)):
        j = model.actuated[i]
        if work.joint[j] == 0:
            work.joint[j] = n
            n += 1
    for c in range(len(contacts.size)):
        work.force[c] = -1
        if points.column[c] >= 0:
            work.force[c] = n
            n += contacts.size[c]
    for c in range(len(contacts.size)):
        work.limb_unknown[c] = n
        if points.reduced[c] != 0:
            n += max(0, model.limbs[c, 0] - contacts.size[c])
    return n


@compiled(inline=False)
def passive_accelerations(model: Model, terms: Terms, contacts: Contacts, points: Points, work: Work, n: int) -> float:
    """``a_u`` over the unknowns, from the rows without a motor, into `work.right`; smallest pivot over the largest."""
    nu = len(model.passive)
    B, G, M = work.base, work.right, terms.M
    for i in range(nu):
        o = model.passive[i]
        row = M[o]
        clear(B[i], nu)
        clear(G[i], n + 1)
        for k in range(nu):
            B[i, k] = row[model.passive[k]]
        for j in range(len(row)):
            if work.joint[j] >= 0:
                G[i, work.joint[j]] = -row[j]
        G[i, n] = -work.bias[o]
    for c in range(len(contacts.size)):
        if points.column[c] < 0:
            continue
        chain, J, size = model.chains[contacts.frame[c]], points.jacobian[c], contacts.size[c]
        for at in range(chain[0]):
            slot = model.slot[chain[1 + at]]
            if slot >= 0:
                for i in range(size):
                    G[slot, work.force[c] + i] = model.mass * J[i, at]
        if points.reduced[c] != 0:
            for i in range(nu):
                row = M[model.passive[i]]
                for k in range(model.limbs[c, 0]):
                    f, P = row[model.limbs[c, 1 + k]], work.limb[c, k]
                    axpy(B[i], f, P, nu)
                    G[i, n] -= f * P[nu]
                    for z in range(model.limbs[c, 0] - size):
                        G[i, work.limb_unknown[c] + z] -= f * work.limb_free[c, k, z]
    return eliminate(B, G, n + 1)


@compiled(inline=False)
def write_maps(model: Model, terms: Terms, contacts: Contacts, points: Points, work: Work, n: int) -> None:
    """Accelerations and torques over the unknowns, and the lengths of their rows."""
    nu, a, tau = len(model.passive), work.acceleration, work.torque
    for i in range(nu):
        o = model.passive[i]
        square = scale(a[o], work.right[i], 1.0, n + 1) - work.right[i, n] * work.right[i, n]
        work.acceleration_length[o] = math.sqrt(max(square, 0.0))
    for i in range(len(model.actuated)):
        j = model.actuated[i]
        if work.joint[j] >= 0:
            clear(a[j], n + 1)
            a[j, work.joint[j]] = 1.0
            work.acceleration_length[j] = 1.0
    for c in range(len(contacts.size)):
        if points.column[c] >= 0 and points.reduced[c] != 0:
            for k in range(model.limbs[c, 0]):
                j, P = model.limbs[c, 1 + k], work.limb[c, k]
                gemv(a[j], P, work.right, nu, n + 1)
                a[j, n] += P[nu]
                length = 0.0
                for i in range(nu):
                    length += abs(P[i]) * work.acceleration_length[model.passive[i]]
                for z in range(model.limbs[c, 0] - contacts.size[c]):
                    a[j, work.limb_unknown[c] + z] += work.limb_free[c, k, z]
                    length += abs(work.limb_free[c, k, z])
                work.acceleration_length[j] = length
    factors, index = work.spare[3], work.order
    for i in range(len(model.actuated)):
        row, coupled = terms.M[model.actuated[i]], model.couplings[i]
        count, length = 0, 0.0
        for k in range(coupled[0]):
            j = coupled[1 + k]
            length += abs(row[j]) * work.acceleration_length[j]
            if work.joint[j] < 0:
                factors[count] = row[j]
                index[count] = j
                count += 1
        gemv_indexed(tau[i], factors, index, a, count, n + 1)
        for k in range(coupled[0]):
            j = coupled[1 + k]
            if work.joint[j] >= 0:
                tau[i, work.joint[j]] += row[j]
        tau[i, n] += work.bias[model.actuated[i]]
        work.torque_length[i] = length
    for c in range(len(contacts.size)):
        if points.column[c] < 0:
            continue
        chain, J = model.chains[contacts.frame[c]], points.jacobian[c]
        for at in range(chain[0]):
            i = -model.slot[chain[1 + at]] - 2  # place of a motor among motors
            if i >= 0:
                for o in range(contacts.size[c]):
                    f = model.mass * J[o, at]
                    tau[i, work.force[c] + o] -= f
                    work.torque_length[i] += abs(f)


@compiled(inline=False)
def leftover_rows(model: Model, contacts: Contacts, points: Points, work: Work, n: int) -> int:
    """Equations of strict contacts that no limb was solved for, as columns over the unknowns; how many."""
    E, e, row = work.left, work.left_value, work.spare[3]
    r = 0
    for c in range(len(contacts.size)):
        if points.column[c] < 0 or points.strict[c] == NOTHING:
            continue
        size = contacts.size[c]
        chain, J, reduced = model.chains[contacts.frame[c]], points.jacobian[c], points.reduced[c] != 0
        for i in range(max(0, size - model.limbs[c, 0]) if reduced else size):
            clear(row, n + 1)
            if points.strict[c] == FORCE:
                row[work.force[c] + i] = 1.0
                e[r] = points.wanted[c, i] / model.mass
            elif reduced:  # what its limb has too few joints for: left (J_u a_u + drift - wanted) = 0
                left, s = work.limb_left[c, i], 0.0
                for o in range(size):
                    s += left[o] * (points.wanted[c, o] - points.drift[c, o])
                for at in range(chain[0]):
                    j = chain[1 + at]
                    if model.slot[j] >= 0:
                        f = 0.0
                        for o in range(size):
                            f += left[o] * J[o, at]
                        axpy(row, f, work.acceleration[j], n + 1)
                e[r] = s - row[n]
            else:
                for at in range(chain[0]):
                    axpy(row, J[i, at], work.acceleration[chain[1 + at]], n + 1)
                e[r] = points.wanted[c, i] - points.drift[c, i] - row[n]
            for j in range(n):
                E[j, r] = row[j]
            r += 1
    return r


@compiled(inline=False)
def null_space(r: int, n: int, tolerance: float, work: Work) -> int:
    """All u with ``E^T u = e`` as a map: the shortest one, and an orthonormal basis of the directions left.

    Householder reflections of one column of E (`work.left`) after the other, as long as enough is left of each; from
    then on the column of which most is left (Golub and Van Loan 2013, section 5.4).  Columns that others imply, to
    `tolerance` relative to their length, are left out and may be contradicted.

    Args:
        r: number of columns.
        n: number of unknowns.
        tolerance: relative, of rank.
        work: the map goes to `null`.

    Returns:
        Number of directions left.
    """
    E, e, X, V, order = work.left, work.left_value, work.null, work.reflectors, work.order
    long, left, y = work.spare[0], work.spare[1], work.spare[2]
    row_squares(long, E, n, r)
    for i in range(r):
        order[i] = i
    rank = 0
    while rank < min(r, n):
        k = rank
        at = order[k]
        u = V[k]
        square = 0.0
        for j in range(k, n):
            u[j] = E[j, at]
            square += u[j] * u[j]
        if not square > max(CLEAR, tolerance * tolerance) * long[at]:
            row_squares(left, E[k:], n - k, r)
            most = -1
            for j in range(k, r):
                i = order[j]
                if left[i] > tolerance * tolerance * long[i] and (most < 0 or left[i] > left[order[most]]):
                    most = j
            if most < 0:
                break
            order[k], order[most] = order[most], order[k]
            if order[k] != at:
                at = order[k]
                square = left[at]
                for j in range(k, n):
                    u[j] = E[j, at]
        length = math.sqrt(square)
        # I - 2 u u^T, u = the rest of the column with its first entry moved away from zero
        corner = -length if u[k] > 0.0 else length
        share = 1.0 / math.sqrt(2.0 * length * (length + abs(u[k])))
        u[k] -= corner
        for j in range(k, n):
            u[j] *= share
        reflect_rows(E[k:], u[k:], n - k, r)
        s = e[at]
        for j in range(k):
            s -= E[j, at] * y[j]
        y[k] = s / corner
        rank += 1
    # reflections undone: of the particular solution and of the unit vectors beyond the rank
    d = n - rank
    for i in range(n):
        clear(X[i], d + 1)
        X[i, d if i < rank else i - rank] = y[i] if i < rank else 1.0
    for k in range(rank - 1, -1, -1):
        reflect_rows(X[k:], V[k, k:], n - k, d + 1)
    return d


@compiled(inline=False)
def project_rows(rows: Matrix, count: int, n: int, d: int, X: Matrix, spare: Matrix) -> None:
    """Rows over u as rows over the directions that `null_space` left; `spare` has room for four."""
    for i in range(0, count, 4):
        some = min(4, count - i)
        copy_columns(spare, rows[i:], some, n)
        gemm(rows[i:], spare, X, some, n, d + 1)


@compiled()
def reduce(model: Model, terms: Terms, contacts: Contacts, points: Points, work: Work, full: bool) -> int:
    """The maps of a tick; how many unknowns it has, or -1 where the terms are no robot's.

    Args:
        model: the robot.
        terms: at this instant.
        contacts: their state.
        points: their geometry; takes which limbs were eliminated.
        work: takes the maps.
        full: whether strict contacts are left to the solver, as rows of level 0.
    """
    some = False
    for c in range(len(contacts.size)):
        points.reduced[c] = 0
        if not full and points.strict[c] == MOTION and model.limbs[c, 0] > 0:
            if reduce_limb(model, contacts, points, work, c):
                points.reduced[c] = 1
                some = True
    n = choose_unknowns(model, contacts, points, work)
    quality = passive_accelerations(model, terms, contacts, points, work, n)
    if some and not quality > BASE_LEAST:
        for c in range(len(contacts.size)):
            points.reduced[c] = 0
        n = choose_unknowns(model, contacts, points, work)
        quality = passive_accelerations(model, terms, contacts, points, work, n)
    if not quality > 0.0:
        return -1
    write_maps(model, terms, contacts, points, work, n)
    return n
