"""`solve_force_distribution`: distributes a generalized force over motors and contact forces."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..robot.robot import Robot
from ..urdf.tree import Array


def solve_force_distribution(
    M: Array,
    load: Array,
    passive: NDArray[np.bool_],
    J: Array,
    T: Array,
    *,
    torque_weight: float = 0.0,
    force_weight: float = 1.0,
    rank_tolerance: float,
) -> tuple[Array, Array]:
    """Computes the contact forces f that minimize a cost; the motors provide the remaining ``load - J^T f``.

    The rows without a motor determine a part of f: ``J_u^T f = load_u``.  Among the forces that satisfy them, the
    result minimizes ``force_weight |y|^2 + torque_weight |(load - J^T f)_m|^2``, with ``f = T y`` and m the rows with a
    motor.  If no forces satisfy them, their residual is minimized in the metric of the inertia, as in Gauss's principle
    of least constraint (1829).

    Source: Righetti, Buchli, Mistry, Kalakrishnan and Schaal 2013, "Optimal distribution of contact forces with inverse
    dynamics control"; 2011, "Inverse dynamics control of floating-base robots with external constraints".

    Args:
        M: (nv, nv) mass matrix.
        load: (nv,) generalized force to be exerted [N, N m].
        passive: (nv,) true at the rows without a motor.
        J: (k, nv) Jacobian of the contacts; k may be 0.
        T: (k, k) invertible metric of the forces.
        torque_weight: weight of the squared motor torques, 0 or more.
        force_weight: weight of ``|y|^2``, 0 or more; one of the weights must be positive.
        rank_tolerance: singular values below this fraction of the largest count as zero.

    Returns:
        f (k,) and the rest ``load - J^T f`` (nv,): the motors' torques, and at the rows without a motor the residual.
    """
    k = len(J)
    if k == 0:
        return np.zeros(0), load
    y, null = np.zeros(k), np.eye(k)
    if passive.any():
        L = np.linalg.cholesky(M[passive][:, passive])
        rows = np.linalg.solve(L, np.column_stack((J[:, passive].T @ T, load[passive])))
        y, null = _least_squares(rows[:, :-1], rows[:, -1], rank_tolerance)
    if torque_weight > 0.0 and null.shape[1]:  # remaining freedom: y + null z; without a torque weight, z = 0
        cost = np.vstack((np.sqrt(force_weight) * np.eye(k), np.sqrt(torque_weight) * (J[:, ~passive].T @ T)))
        target = np.concatenate((np.zeros(k), np.sqrt(torque_weight) * load[~passive])) - cost @ y
        y = y + null @ _least_squares(cost @ null, target, rank_tolerance)[0]
    f = T @ y
    return f, load - J.T @ f


def unactuated_rows(robot: Robot) -> NDArray[np.bool_]:
    """Returns a mask (nv,), true at the rows that no motor drives: a free root's six, passive joints."""
    rows = np.ones(robot.nv, dtype=np.bool_)
    rows[robot.actuated_index] = False
    return rows


def _least_squares(A: Array, b: Array, tolerance: float) -> tuple[Array, Array]:
    """Returns the x of minimum norm that minimizes ``|A x - b|``, and an orthonormal basis of the null space of A."""
    U, sigma, Vt = np.linalg.svd(A)
    rank = int((sigma > tolerance * max(sigma[0], np.finfo(float).tiny)).sum()) if len(sigma) else 0
    x = Vt[:rank].T @ ((U[:, :rank].T @ b) / sigma[:rank])
    return np.asarray(x), np.asarray(Vt[rank:].T)
