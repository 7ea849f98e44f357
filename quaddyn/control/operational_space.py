"""Khatib's operational space: task-space inertia of a robot with stance feet at rest, and the task's null space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..dynamics import State
from ..urdf.tree import Array


@dataclass(frozen=True, slots=True, eq=False)
class OperationalSpace:
    """Task-space dynamics ``Lambda (J a - J a_0) = F`` of a robot under the generalized force ``J^T F``.

    The stance feet do not accelerate (``J_c a + drift_c = 0``), whatever force that takes: ``M_c^-1 = M^-1 - M^-1 J_c^T
    (J_c M^-1 J_c^T)^+ J_c M^-1`` replaces M^-1, and the mobility of the task is ``W = J M_c^-1 J^T``.  Eigenvalues of W
    below `tolerance` times the largest are raised to it, which bounds ``Lambda = W^-1`` near singular postures and
    changes nothing elsewhere.  For this comparison of meters with radians, angular rows are first scaled to the mean
    mobility of the linear ones.

    Source: Khatib 1987, "A unified approach for motion and force control of robot manipulators: the operational space
    formulation"; Sentis and Khatib 2005, "Synthesis of whole-body behaviors through hierarchical control of behavioral
    primitives", for the constraints.

    Attributes:
        J: (k, nv) Jacobian of the task.
        inertia: (k, k) Lambda [kg, kg m, kg m^2 by row].
        root: (k, k) R with ``Lambda = R R^T``.
        inverse_root: (k, k) R^-1.
        is_singular: whether an eigenvalue was raised.
        stance_acceleration: (nv,) a_0, the acceleration that the stance feet impose if no task and no force acts
            [rad/s^2, m/s^2].
        constrained_inverse: (nv, nv) M_c^-1.
    """

    J: Array
    inertia: Array
    root: Array
    inverse_root: Array
    is_singular: bool
    stance_acceleration: Array
    constrained_inverse: Array

    def null_space_force(self, tau: Array) -> Array:
        """Returns ``N^T tau``: the component of a generalized force (nv,) that does not accelerate the task.

        ``N^T = 1 - J^T Lambda J M_c^-1``, the dynamically consistent projection of Khatib 1987.
        """
        return np.asarray(tau - self.J.T @ (self.inertia @ (self.J @ (self.constrained_inverse @ tau))))

    def null_space_velocity(self, v: Array) -> Array:
        """Returns ``N v``: the component of a velocity (nv,) that does not move the task."""
        return np.asarray(v - self.constrained_inverse @ (self.J.T @ (self.inertia @ (self.J @ v))))


def compute_operational_space(
    s: State, J: Array, angular: Sequence[bool], stance: Sequence[str] = (), *, tolerance: float = 1e-4
) -> OperationalSpace:
    """Computes the operational-space dynamics of a task at a state.

    Args:
        s: the state.
        J: (k, nv) Jacobian of the task.
        angular: for each row, whether it is in radians.
        stance: names of the stance feet; none under a fixed root.
        tolerance: smallest eigenvalue of the mobility, as a fraction of the largest; see `OperationalSpace`.

    Raises:
        StaleStateError: the Dynamics of `s` was updated again.
    """
    L_inverse = np.linalg.inv(np.linalg.cholesky(s.M))  # mass-normalized coordinates y = L^T a
    stance_acceleration, projector = np.zeros(len(s.M)), np.eye(len(s.M))
    if stance:
        A = np.vstack([s.jacobian(foot)[:3] for foot in stance]) @ L_inverse.T
        drift = np.concatenate([s.drift(foot)[:3] for foot in stance])
        U, sigma, Vt = np.linalg.svd(A, full_matrices=False)
        rank = int(np.count_nonzero(sigma > 1e-8 * sigma[0]))
        projector -= Vt[:rank].T @ Vt[:rank]
        stance_acceleration = -L_inverse.T @ (Vt[:rank].T @ ((U[:, :rank].T @ drift) / sigma[:rank]))
    B = J @ L_inverse.T @ projector
    W = B @ B.T
    is_angular = np.array(angular, dtype=bool)
    scale = np.ones(len(J))
    linear_mean = W.diagonal()[~is_angular].mean() if not is_angular.all() else 0.0
    angular_mean = W.diagonal()[is_angular].mean() if is_angular.any() else 0.0
    if linear_mean > 0.0 and angular_mean > 0.0:
        scale[is_angular] = np.sqrt(linear_mean / angular_mean)
    mobilities, U = np.linalg.eigh(W * scale[:, None] * scale)
    min_mobility = max(
        tolerance * mobilities[-1], 1e-12 / float(s.M.trace())
    )  # the latter for a task that cannot move at all
    clamped = np.maximum(mobilities, min_mobility)
    root = scale[:, None] * U / np.sqrt(clamped)
    return OperationalSpace(
        J=J,
        inertia=root @ root.T,
        root=root,
        inverse_root=(U * np.sqrt(clamped)).T / scale,
        is_singular=bool(mobilities[0] < min_mobility),
        stance_acceleration=stance_acceleration,
        constrained_inverse=L_inverse.T @ projector @ L_inverse,
    )
