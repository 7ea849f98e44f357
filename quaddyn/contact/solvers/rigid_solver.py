"""Solvers of rigid contacts.

- `RigidSolver`: bilateral contacts, such as feet that can neither slip nor lift off.
- `ImpactSolver`: velocities after a collision, with restitution that never creates energy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...errors import ArgumentError
from ...robot.arguments import check_number
from ...urdf.tree import Array
from .frictional_solver import FrictionalSolver, Method
from .problem import TINY, CheckedSolver, ContactProblem, ContactSolution, check_problem


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


#: Number of bisections of the restitution where Newton's law would create energy.
N_BISECTIONS = 40


@dataclass(frozen=True, slots=True, eq=False)
class Impact:
    """Result of `ImpactSolver.collide`.

    Attributes:
        solution: impulses, velocities after the impact and their residual.
        restitution: the coefficient that was applied: the requested one, or less where that would have created energy.
        work: work of all contact impulses [J], ``sum lambda . (v_before + v_after) / 2 <= 0``: the change of kinetic
            energy.
    """

    solution: ContactSolution
    restitution: float
    work: float


class ImpactSolver:
    r"""Solver of Newton's impact law with Coulomb friction, for all approaching contacts at once.

    .. math::

        0 \le \lambda_n \;\perp\; v_n^+ + e\, v_n^- \ge 0

    Source: Moreau 1988, "Unilateral contact and dry friction in finite freedom dynamics"; Glocker 2013, "Energetic
    consistency conditions for standard impacts".  With several contacts or friction Newton's law may create energy
    (Kane and Levinson 1985); e is then reduced, for all contacts alike, to the largest value that does not, found by
    bisection.  At e = 0 the law always dissipates energy.

    Args:
        restitution: Newton's coefficient e, dimensionless, 0 (the contact stays closed) to 1.
        method: method of the internal `FrictionalSolver`.
        tolerance: residual up to which a solution counts as solved [m/s].

    Raises:
        ArgumentError: a value out of range.
    """

    def __init__(self, restitution: float = 0.0, *, method: Method = "newton", tolerance: float = 1e-8) -> None:
        self.restitution = check_number("restitution", restitution)
        if not 0.0 <= self.restitution <= 1.0:
            raise ArgumentError(f"restitution: expected a coefficient between 0 and 1, got {restitution}")
        self._solver = FrictionalSolver(method, tolerance=tolerance)

    def collide(self, problem: ContactProblem) -> Impact:
        """Computes the impact of k closed contacts that hit with the velocities ``problem.g``.

        Args:
            problem: G, g = J v before the impact, friction, and initial impulses; offsets and ``previous_velocity``
                have no influence, since an impact takes no time.
        """
        check_problem(problem)
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow shows in the residual
            return self._collide(problem)

    def _collide(self, problem: ContactProblem) -> Impact:
        """Computes the impact of a valid problem; reduces the restitution if it would create energy."""
        e = self.restitution
        solution, work = self._attempt(problem, e)
        if e > 0.0 and work > 0.0:
            low, high = 0.0, e
            for _ in range(N_BISECTIONS):
                e = 0.5 * (low + high)
                low, high = (low, e) if self._attempt(problem, e)[1] > 0.0 else (e, high)
            e = low
            solution, work = self._attempt(problem, e)
        return Impact(solution, e, work)

    def solve(self, problem: ContactProblem) -> ContactSolution:
        """Returns the solution of `collide`, without restitution and work.

        Args:
            problem: as in `collide`.
        """
        return self.collide(problem).solution

    def _attempt(self, problem: ContactProblem, e: float) -> tuple[ContactSolution, float]:
        """Returns the solution with restitution `e`, and its work [J]."""
        before = problem.g.reshape(-1, 3)
        rebound: Array = e * np.minimum(before[:, 2], 0.0)
        solution = self._solver.solve(replace(problem, offset=rebound, previous_velocity=None))
        work = 0.5 * float((solution.impulses * (before + solution.velocities)).sum())
        return solution, work
