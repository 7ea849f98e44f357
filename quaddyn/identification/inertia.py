"""Pseudo-inertias, which are positive definite for physical bodies, and their log-Cholesky coordinates.

Source: Wensing, Kim, Slotine, *Linear matrix inequalities for physically consistent inertial parameter identification*,
2018; Rucker and Wensing, *Smooth parameterization of rigid-body inertia*, 2022.
"""

from __future__ import annotations

import numpy as np

from ..errors import ArgumentError
from ..robot.bodies import point_mass_inertia
from ..urdf.tree import Array, Inertial, frozen

#: Positions of log-Cholesky coordinates in the upper triangle U: the diagonal first.
CHOLESKY_ROWS, CHOLESKY_COLUMNS = np.array([0, 1, 2, 3, 0, 0, 0, 1, 1, 2]), np.array([0, 1, 2, 3, 1, 2, 3, 2, 3, 3])


def pseudo_inertia(parameters: Array) -> Array:
    """Returns the pseudo-inertia of ten inertial parameters.

    It is ``[[Sigma, h], [h^T, m]]`` with ``Sigma = tr(L)/2 1 - L``.

    Args:
        parameters: (..., 10) ``[Lxx Lxy Lxz Lyy Lyz Lzz lx ly lz m]`` about the joint frame.

    Returns:
        (..., 4, 4), positive definite exactly if a mass distribution of nonzero extent has these parameters.
    """
    p = np.asarray(parameters, dtype=np.float64)
    return np.asarray(np.tensordot(p, _BASIS, axes=1))


def parameters_of(J: Array) -> Array:
    """Returns the inertial parameters (..., 10) of pseudo-inertias (..., 4, 4)."""
    J = np.asarray(J, dtype=np.float64)
    Sigma = J[..., :3, :3]
    L = np.trace(Sigma, axis1=-2, axis2=-1)[..., None, None] * np.eye(3) - Sigma
    row, column = np.triu_indices(3)
    return np.concatenate([L[..., row, column], J[..., :3, 3], J[..., 3:, 3]], axis=-1)


def upper_cholesky(J: Array) -> Array:
    """Returns the upper triangle U (n, n) with positive diagonal and ``J = U U^T``.

    Raises:
        ArgumentError: J is not positive definite.
    """
    try:
        return np.asarray(np.linalg.cholesky(J[::-1, ::-1])[::-1, ::-1])
    except np.linalg.LinAlgError:
        least = np.linalg.eigvalsh(0.5 * (J + J.T))[0]
        raise ArgumentError(
            f"the pseudo-inertia is not positive definite: its smallest eigenvalue is {least:.3g}"
        ) from None


def log_cholesky(parameters: Array) -> Array:
    """Returns the ten log-Cholesky coordinates of the inertial parameters (10,) of a body.

    ``J = U U^T`` with U upper triangular; the coordinates are the logarithms of its diagonal and the entries above it.
    They range over all of R^10, and every point is a physical body.

    Raises:
        ArgumentError: no mass distribution of nonzero extent has these parameters.
    """
    U = upper_cholesky(pseudo_inertia(parameters))
    out = np.array(U[CHOLESKY_ROWS, CHOLESKY_COLUMNS])
    out[:4] = np.log(out[:4])
    return out


def from_log_cholesky(theta: Array) -> Array:
    """Returns the inertial parameters (10,) of log-Cholesky coordinates (10,).

    Physically consistent for every finite theta.
    """
    U = triangle_from_log_cholesky(np.asarray(theta, dtype=np.float64))
    return parameters_of(U @ U.T)


def triangle_from_log_cholesky(theta: Array) -> Array:
    """Returns the factor U (4, 4) of the pseudo-inertia ``U U^T`` from log-Cholesky coordinates (10,)."""
    U = np.zeros((4, 4))
    U[CHOLESKY_ROWS, CHOLESKY_COLUMNS] = theta
    U[CHOLESKY_ROWS[:4], CHOLESKY_COLUMNS[:4]] = np.exp(theta[:4])
    return U


def is_consistent(parameters: Array) -> bool:
    """Returns whether ten parameters (10,) are physically consistent.

    The mass must be positive and the second moments positive definite.  They are tested about the center of mass, so
    that a distant origin costs no digits.
    """
    J = pseudo_inertia(parameters)
    mass = J[3, 3]
    if not (np.isfinite(J).all() and mass > 0.0):
        return False
    return bool(np.linalg.eigvalsh(J[:3, :3] - np.outer(J[:3, 3], J[:3, 3]) / mass)[0] > 0.0)


def inertial_of(parameters: Array) -> Inertial:
    """Returns mass, center of mass and inertia about it, in the axes of the joint frame, of ten parameters (10,)."""
    p = np.asarray(parameters, dtype=np.float64)
    mass = float(p[9])
    com = p[6:9] / mass if mass else np.zeros(3)
    L = np.zeros((3, 3))
    L[np.triu_indices(3)] = p[:6]
    L = L + np.triu(L, 1).T
    return Inertial(mass, frozen(com), frozen(L - mass * point_mass_inertia(com)))


def _basis() -> Array:
    """Returns the pseudo-inertias (10, 4, 4) of the unit parameters."""
    out = np.zeros((10, 4, 4))
    for k, (row, column) in enumerate(zip(*np.triu_indices(3), strict=True)):
        L = np.zeros((3, 3))
        L[row, column] = L[column, row] = 1.0
        out[k, :3, :3] = 0.5 * np.trace(L) * np.eye(3) - L
    for k in range(3):
        out[6 + k, k, 3] = out[6 + k, 3, k] = 1.0
    out[9, 3, 3] = 1.0
    return out


_BASIS = _basis()
