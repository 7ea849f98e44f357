"""`RigidSolver`: bilateral contacts, feet that can neither move nor lift off."""

from __future__ import annotations

import numpy as np

from ...errors import ArgumentError
from ...robot.arguments import check_number
from ...urdf.tree import Array
from .problem import TINY, ContactProblem, ContactSolution, check_problem


class RigidSolver:
    r"""Impulses that stop every contact in all three directions: glue, no friction law.

    .. math::

        G \lambda + g + \text{offset}\; n = 0

    Elimination of the velocities from the KKT system ``[M -J^T; J 0]`` (Featherstone 2008, sec. 8.5).  Redundant
    contacts leave G without full rank and lambda undetermined; the least ``|lambda|`` is taken, the limit of the
    proximal iteration of Carpentier, Budhiraja and Mansard 2021 started at zero, by the eigenvectors of G at once.
    Where the wanted velocities are out of reach (a constraint against itself) the least violation is found, and the
    residual says so.

    Args:
        rank_tolerance: eigenvalues of G below this share of the largest count as zero.
        tolerance: largest remaining velocity with which an answer counts as solved [m/s].

    Raises:
        ArgumentError: a value out of range.
    """

    def __init__(self, *, rank_tolerance: float = 1e-10, tolerance: float = 1e-8) -> None:
        self.rank_tolerance = check_number("rank_tolerance", rank_tolerance)
        if not 0.0 <= self.rank_tolerance < 1.0:
            raise ArgumentError(f"rank_tolerance: expected a share of the largest eigenvalue, got {rank_tolerance}")
        self.tolerance = check_number("tolerance", tolerance)
        if not 0.0 < self.tolerance < 1.0:
            raise ArgumentError(f"tolerance: expected a small positive velocity [m/s], got {tolerance}")

    def solve(self, problem: ContactProblem) -> ContactSolution:
        """The impulses of k bilateral contacts; ``problem.friction`` plays no part.

        Returns:
            "solved" when every contact is still, "inaccurate" when they cannot all be.
        """
        check_problem(problem)
        if problem.k == 0:
            empty = np.zeros((0, 3))
            return ContactSolution(empty, empty, 0.0, 0, "free", self.tolerance, empty)
        g = problem.shifted
        with np.errstate(over="ignore", invalid="ignore"):
            impulses = self._least(problem.G, g)
            moved = problem.G @ impulses
            left = moved + g
            error = float(np.linalg.norm(left.reshape(-1, 3), axis=1).max())
        if not (np.isfinite(impulses).all() and np.isfinite(left).all()):  # beyond the floating-point range
            impulses, moved, left, error = np.zeros_like(g), np.zeros_like(g), g, np.inf
        return ContactSolution(
            impulses.reshape(-1, 3),
            (moved + problem.g).reshape(-1, 3),
            error,
            1,
            "solved" if error <= self.tolerance else "inaccurate",
            self.tolerance,
            left.reshape(-1, 3),
        )

    def _least(self, G: Array, g: Array) -> Array:
        values, vectors = np.linalg.eigh(0.5 * (G + G.T))
        kept = values > max(self.rank_tolerance * values[-1], TINY)
        basis = vectors[:, kept]
        impulses = -basis @ ((basis.T @ g) / values[kept])
        # One step of refinement regains what squares of small eigenvalues have lost.
        return np.asarray(impulses - basis @ ((basis.T @ (G @ impulses + g)) / values[kept]))
