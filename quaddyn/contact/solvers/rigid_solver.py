"""`RigidSolver`: bilateral contacts, such as feet that can neither slip nor lift off."""

from __future__ import annotations

import numpy as np

from ...errors import ArgumentError
from ...robot.arguments import check_number
from ...urdf.tree import Array
from .problem import TINY, CheckedSolver, ContactProblem, ContactSolution


class RigidSolver(CheckedSolver):
    r"""Solver that stops every contact in all three directions: bilateral contacts without friction law.

    .. math::

        G \lambda + g + \text{offset}\; n = 0

    The velocities are eliminated from the KKT system ``[M -J^T; J 0]`` (Featherstone 2008, sec. 8.5).  With redundant
    contacts G does not have full rank and lambda is not unique; the lambda of minimum norm is computed from the
    eigenvectors of G, which is the limit of the proximal iteration of Carpentier, Budhiraja and Mansard 2021 started at
    zero.  If the contacts contradict each other, the result has the least violation, and the residual reports it.
    ``problem.friction`` has no influence.

    Args:
        rank_tolerance: eigenvalues of G below this fraction of the largest count as zero.
        tolerance: largest remaining velocity with which a solution counts as solved [m/s].

    Raises:
        ArgumentError: a value out of range.
    """

    def __init__(self, *, rank_tolerance: float = 1e-10, tolerance: float = 1e-8) -> None:
        self.rank_tolerance = check_number("rank_tolerance", rank_tolerance)
        if not 0.0 <= self.rank_tolerance < 1.0:
            raise ArgumentError(
                f"rank_tolerance: expected a fraction of the largest eigenvalue in [0, 1), got {rank_tolerance}"
            )
        super().__init__(tolerance)

    def _solve(self, problem: ContactProblem) -> ContactSolution:
        g = problem.offset_velocity
        impulses = self._minimum_norm_impulses(problem.G, g)
        error = float(np.linalg.norm((problem.G @ impulses + g).reshape(-1, 3), axis=1).max())
        return self._solution(problem, g, impulses, error, 1)

    def _minimum_norm_impulses(self, G: Array, g: Array) -> Array:
        """Computes the impulses of minimum norm that minimize the contact velocities."""
        values, vectors = np.linalg.eigh(0.5 * (G + G.T))
        is_nonzero = values > max(self.rank_tolerance * values[-1], TINY)
        basis = vectors[:, is_nonzero]
        impulses = -basis @ ((basis.T @ g) / values[is_nonzero])
        # One step of iterative refinement restores the digits that small eigenvalues lose.
        return np.asarray(impulses - basis @ ((basis.T @ (G @ impulses + g)) / values[is_nonzero]))
