"""Elimination of the equations of motion and of strict contacts.

The unknowns are the accelerations of actuated joints, and contact forces divided by the mass.  Two sets of equations
are solved for them beforehand, so that no tick can violate them:

- The unactuated rows (of the root and of passive joints), ``M_u a + h_u = J_u^T f``, determine the accelerations a_u of
  the root and of passive joints.  Then ``tau = M_a a + h_a - J_a^T f`` (Featherstone 2008, sections 3 and 9).  Joint
  friction, if an element compensates it, is part of h here.
- A closed contact has a prescribed acceleration, ``J a + drift = desired``.  If a limb moves this contact alone and its
  Jacobian is well conditioned, the accelerations of its joints follow from those of the root,
  ``a_l = J_l^-1 (desired - drift - J_u a_u)``, and are no longer unknowns; a limb with redundant joints adds one
  unknown for each of them.  The equations that limbs with too few joints cannot satisfy, and those of contacts without
  an eliminated limb, remain as equations over the unknowns, solved by orthogonal factorization (`factor_null_space`).

Here J_l are the columns of the limb's joints and J_u those of the unactuated velocities.  The redundant joints of a
limb with more joints than rows remain as unknowns; for a limb with fewer joints, combinations of the rows remain as
equations (`limb_leftover`).
"""

from __future__ import annotations

import math

from ..compiler import Matrix, compiled
from ..compiler.lanes import axpy, clear, copy_columns, gemm, gemv, gemv_indexed, reflect_rows, row_squares, scale
from .tick_data import ContactPointData, ContactStateData, ControllerModel, RigidBodyTerms, StrictQuantity, TickScratch

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


#: Smallest ratio of pivots of the unactuated rows with which limbs are eliminated.
MIN_PIVOT_RATIO = 1e-7
#: Smallest remaining fraction of the squared length of a column that is factored without pivoting.
MIN_COLUMN_FRACTION = 1e-4


@compiled(inline=False)
def solve_by_elimination(B: Matrix, G: Matrix, n: int) -> float:
    """Computes ``G <- B^-1 G`` by Gaussian elimination with row pivoting; returns smallest over largest pivot.

    Args:
        B: (k, >= k) matrix, overwritten.
        G: (k, >= n) right-hand sides, overwritten by the solution.
        n: number of columns of G.
    """
    size = B.shape[0]
    smallest, largest = math.inf, 0.0
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
        smallest = min(smallest, pivot)
        largest = max(largest, pivot)
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
    return 1.0 if size == 0 else smallest / largest


@compiled()
def assign_unknowns(
    model: ControllerModel, contacts: ContactStateData, points: ContactPointData, work: TickScratch
) -> int:
    """Assigns an unknown to each force component and joint acceleration; returns the number of unknowns."""
    n = 0
    work.joint_unknown[: len(model.slot)] = -1
    for i in range(len(model.actuated)):
        work.joint_unknown[model.actuated[i]] = 0
    for c in range(len(contacts.size)):
        if points.is_eliminated[c] != 0:
            for k in range(model.limbs[c, 0]):
                work.joint_unknown[model.limbs[c, 1 + k]] = -1
    for i in range(len(model.actuated)):
        j = model.actuated[i]
        if work.joint_unknown[j] == 0:
            work.joint_unknown[j] = n
            n += 1
    for c in range(len(contacts.size)):
        work.force[c] = -1
        if points.first_force[c] >= 0:
            work.force[c] = n
            n += contacts.size[c]
    for c in range(len(contacts.size)):
        work.limb_unknown[c] = n
        if points.is_eliminated[c] != 0:
            n += max(0, model.limbs[c, 0] - contacts.size[c])
    return n


@compiled(inline=False)
def solve_passive_accelerations(
    model: ControllerModel,
    terms: RigidBodyTerms,
    contacts: ContactStateData,
    points: ContactPointData,
    work: TickScratch,
    n: int,
) -> float:
    """Computes ``a_u`` as an affine function of the unknowns from the unactuated rows, in `work.passive_rhs`.

    Returns:
        Smallest pivot over the largest.
    """
    n_passive = len(model.passive)
    B, G, M = work.passive_matrix, work.passive_rhs, terms.M
    for i in range(n_passive):
        o = model.passive[i]
        row = M[o]
        clear(B[i], n_passive)
        clear(G[i], n + 1)
        for k in range(n_passive):
            B[i, k] = row[model.passive[k]]
        for j in range(len(row)):
            if work.joint_unknown[j] >= 0:
                G[i, work.joint_unknown[j]] = -row[j]
        G[i, n] = -work.bias[o]
    for c in range(len(contacts.size)):
        if points.first_force[c] < 0:
            continue
        chain, J, size = model.chains[contacts.frame[c]], points.jacobian[c], contacts.size[c]
        for entry in range(chain[0]):
            slot = model.slot[chain[1 + entry]]
            if slot >= 0:
                for i in range(size):
                    G[slot, work.force[c] + i] = model.mass * J[i, entry]
        if points.is_eliminated[c] != 0:
            for i in range(n_passive):
                row = M[model.passive[i]]
                for k in range(model.limbs[c, 0]):
                    f, P = row[model.limbs[c, 1 + k]], work.limb_map[c, k]
                    axpy(B[i], f, P, n_passive)
                    G[i, n] -= f * P[n_passive]
                    for z in range(model.limbs[c, 0] - size):
                        G[i, work.limb_unknown[c] + z] -= f * work.limb_redundancy[c, k, z]
    return solve_by_elimination(B, G, n + 1)


@compiled(inline=False)
def write_maps(
    model: ControllerModel,
    terms: RigidBodyTerms,
    contacts: ContactStateData,
    points: ContactPointData,
    work: TickScratch,
    n: int,
) -> None:
    """Writes accelerations and torques as affine functions of the unknowns, and bounds of the norms of their rows.

    An acceleration or torque is ``row[:n] . unknowns + row[n]``; its length is an upper bound of ``|row[:n]|``.

    Args:
        model: constants of the robot.
        terms: rigid-body terms of the tick.
        contacts: contacts of the tick.
        points: Jacobians and desired accelerations of the contacts.
        work: takes the rows `acceleration` and `torque`, and `acceleration_length` and `torque_length`.
        n: number of unknowns.
    """
    n_passive, a, tau = len(model.passive), work.acceleration, work.torque
    for i in range(n_passive):
        o = model.passive[i]
        squared_length = scale(a[o], work.passive_rhs[i], 1.0, n + 1) - work.passive_rhs[i, n] * work.passive_rhs[i, n]
        work.acceleration_length[o] = math.sqrt(max(squared_length, 0.0))
    for i in range(len(model.actuated)):
        j = model.actuated[i]
        if work.joint_unknown[j] >= 0:
            clear(a[j], n + 1)
            a[j, work.joint_unknown[j]] = 1.0
            work.acceleration_length[j] = 1.0
    for c in range(len(contacts.size)):
        if points.first_force[c] >= 0 and points.is_eliminated[c] != 0:
            for k in range(model.limbs[c, 0]):
                j, P = model.limbs[c, 1 + k], work.limb_map[c, k]
                gemv(a[j], P, work.passive_rhs, n_passive, n + 1)
                a[j, n] += P[n_passive]
                length = 0.0
                for i in range(n_passive):
                    length += abs(P[i]) * work.acceleration_length[model.passive[i]]
                for z in range(model.limbs[c, 0] - contacts.size[c]):
                    a[j, work.limb_unknown[c] + z] += work.limb_redundancy[c, k, z]
                    length += abs(work.limb_redundancy[c, k, z])
                work.acceleration_length[j] = length
    factors, index = work.scratch_rows[3], work.permutation
    for i in range(len(model.actuated)):
        row, coupled = terms.M[model.actuated[i]], model.couplings[i]
        count, length = 0, 0.0
        for k in range(coupled[0]):
            j = coupled[1 + k]
            length += abs(row[j]) * work.acceleration_length[j]
            if work.joint_unknown[j] < 0:
                factors[count] = row[j]
                index[count] = j
                count += 1
        gemv_indexed(tau[i], factors, index, a, count, n + 1)
        for k in range(coupled[0]):
            j = coupled[1 + k]
            if work.joint_unknown[j] >= 0:
                tau[i, work.joint_unknown[j]] += row[j]
        tau[i, n] += work.bias[model.actuated[i]]
        work.torque_length[i] = length
    for c in range(len(contacts.size)):
        if points.first_force[c] < 0:
            continue
        chain, J = model.chains[contacts.frame[c]], points.jacobian[c]
        for entry in range(chain[0]):
            i = -model.slot[chain[1 + entry]] - 2  # index of the motor
            if i >= 0:
                for o in range(contacts.size[c]):
                    f = model.mass * J[o, entry]
                    tau[i, work.force[c] + o] -= f
                    work.torque_length[i] += abs(f)


@compiled(inline=False)
def collect_leftover_equations(
    model: ControllerModel, contacts: ContactStateData, points: ContactPointData, work: TickScratch, n: int
) -> int:
    """Collects the equations of strict contacts that remain after the elimination of limbs, as columns.

    Returns:
        The number of equations.
    """
    E, e, row = work.leftover_columns, work.leftover_targets, work.scratch_rows[3]
    r = 0
    for c in range(len(contacts.size)):
        if points.first_force[c] < 0 or points.strict_kind[c] == StrictQuantity.NOTHING:
            continue
        size = contacts.size[c]
        chain, J, limb_eliminated = model.chains[contacts.frame[c]], points.jacobian[c], points.is_eliminated[c] != 0
        for i in range(max(0, size - model.limbs[c, 0]) if limb_eliminated else size):
            clear(row, n + 1)
            if points.strict_kind[c] == StrictQuantity.FORCE:
                row[work.force[c] + i] = 1.0
                e[r] = points.target[c, i] / model.mass
            elif limb_eliminated:  # the limb has too few joints: combination (J_u a_u + drift - desired) = 0
                combination, s = work.limb_leftover[c, i], 0.0
                for o in range(size):
                    s += combination[o] * (points.target[c, o] - points.drift[c, o])
                for entry in range(chain[0]):
                    j = chain[1 + entry]
                    if model.slot[j] >= 0:
                        f = 0.0
                        for o in range(size):
                            f += combination[o] * J[o, entry]
                        axpy(row, f, work.acceleration[j], n + 1)
                e[r] = s - row[n]
            else:
                for entry in range(chain[0]):
                    axpy(row, J[i, entry], work.acceleration[chain[1 + entry]], n + 1)
                e[r] = points.target[c, i] - points.drift[c, i] - row[n]
            for j in range(n):
                E[j, r] = row[j]
            r += 1
    return r


@compiled(inline=False)
def factor_null_space(r: int, n: int, tolerance: float, work: TickScratch) -> int:
    """Computes the solutions u of ``E^T u = e`` as a map: the minimum-norm solution and a basis of the null space.

    Applies Householder reflections of one column of E (`work.leftover_columns`) after the other while their remainders
    are large, then of the column with the largest remainder (Golub and Van Loan 2013, section 5.4).  Columns that
    depend on others, to `tolerance` relative to their length, are left out and may be contradicted.

    Args:
        r: number of columns.
        n: number of unknowns.
        tolerance: relative tolerance of the rank.
        work: takes the map in `null_space_map`.

    Returns:
        Dimension of the null space.
    """
    E, e, X, V, order = (
        work.leftover_columns,
        work.leftover_targets,
        work.null_space_map,
        work.reflectors,
        work.permutation,
    )
    column_squares, remainder_squares, y = work.scratch_rows[0], work.scratch_rows[1], work.scratch_rows[2]
    row_squares(column_squares, E, n, r)
    for i in range(r):
        order[i] = i
    rank = 0
    while rank < min(r, n):
        k = rank
        column = order[k]
        u = V[k]
        square = 0.0
        for j in range(k, n):
            u[j] = E[j, column]
            square += u[j] * u[j]
        if not square > max(MIN_COLUMN_FRACTION, tolerance * tolerance) * column_squares[column]:
            row_squares(remainder_squares, E[k:], n - k, r)
            largest = -1
            for j in range(k, r):
                i = order[j]
                if remainder_squares[i] > tolerance * tolerance * column_squares[i] and (
                    largest < 0 or remainder_squares[i] > remainder_squares[order[largest]]
                ):
                    largest = j
            if largest < 0:
                break
            order[k], order[largest] = order[largest], order[k]
            if order[k] != column:
                column = order[k]
                square = remainder_squares[column]
                for j in range(k, n):
                    u[j] = E[j, column]
        length = math.sqrt(square)
        # I - 2 u u^T, u = the rest of the column with its first entry moved away from zero
        diagonal = -length if u[k] > 0.0 else length
        normalization = 1.0 / math.sqrt(2.0 * length * (length + abs(u[k])))
        u[k] -= diagonal
        for j in range(k, n):
            u[j] *= normalization
        reflect_rows(E[k:], u[k:], n - k, r)
        s = e[column]
        for j in range(k):
            s -= E[j, column] * y[j]
        y[k] = s / diagonal
        rank += 1
    # applies the reflections to the particular solution and to the unit vectors beyond the rank
    d = n - rank
    for i in range(n):
        clear(X[i], d + 1)
        X[i, d if i < rank else i - rank] = y[i] if i < rank else 1.0
    for k in range(rank - 1, -1, -1):
        reflect_rows(X[k:], V[k, k:], n - k, d + 1)
    return d


@compiled(inline=False)
def project_rows(rows: Matrix, count: int, n: int, d: int, X: Matrix, scratch: Matrix) -> None:
    """Projects rows over u to the null space of `factor_null_space`; `scratch` is a buffer of four rows."""
    for i in range(0, count, 4):
        block_size = min(4, count - i)
        copy_columns(scratch, rows[i:], block_size, n)
        gemm(rows[i:], scratch, X, block_size, n, d + 1)


@compiled()
def eliminate_equations(
    model: ControllerModel,
    terms: RigidBodyTerms,
    contacts: ContactStateData,
    points: ContactPointData,
    work: TickScratch,
    contacts_as_rows: bool,
) -> int:
    """Eliminates the equations of motion and strict contacts: computes the affine maps of a tick.

    Args:
        model: the robot.
        terms: rigid-body terms in the current state.
        contacts: state of the contacts.
        points: kinematics of the contact points; takes which limbs were eliminated.
        work: takes the maps.
        contacts_as_rows: whether strict contacts are rows of level 0 instead of being eliminated.

    Returns:
        The number of unknowns, or -1 if the mass matrix of the unactuated rows is singular.
    """
    any_eliminated = False
    for c in range(len(contacts.size)):
        points.is_eliminated[c] = 0
        if not contacts_as_rows and points.strict_kind[c] == StrictQuantity.MOTION and model.limbs[c, 0] > 0:
            if reduce_limb(model, contacts, points, work, c):
                points.is_eliminated[c] = 1
                any_eliminated = True
    n = assign_unknowns(model, contacts, points, work)
    pivot_ratio = solve_passive_accelerations(model, terms, contacts, points, work, n)
    if any_eliminated and not pivot_ratio > MIN_PIVOT_RATIO:
        points.is_eliminated[: len(contacts.size)] = 0
        n = assign_unknowns(model, contacts, points, work)
        pivot_ratio = solve_passive_accelerations(model, terms, contacts, points, work, n)
    if not pivot_ratio > 0.0:
        return -1
    write_maps(model, terms, contacts, points, work, n)
    return n
