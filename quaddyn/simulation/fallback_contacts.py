"""`FallbackContactSolver`: solves contact problems for which the compiled solver did not converge."""

from __future__ import annotations

import numpy as np

from ..contact.solvers import ContactProblem, FrictionalSolver, RigidSolver
from ..urdf.tree import Array, first_largest
from .contact_data import SphereContacts
from .contact_step import TOLERANCE

#: Pulling impulse that is attributed to rounding, divided by the largest impulse.
PULL_TOLERANCE = 1e-12


class FallbackContactSolver:
    """Solver of the contact problem of a step by the solvers of `quaddyn.contact`.

    Args:
        law: contact law "frictional", "rigid" or "compliant", see `Simulation`.
    """

    __slots__ = ("_frictional", "_law", "_rigid")

    def __init__(self, law: str) -> None:
        self._law = law
        self._rigid, self._frictional = RigidSolver(tolerance=TOLERANCE), FrictionalSolver(tolerance=TOLERANCE)

    def solve(self, contacts: SphereContacts, k: int) -> tuple[float, str]:
        """Solves for the impulses of the first k contacts and writes them to ``contacts.impulses``.

        Args:
            contacts: contact problem of the step.
            k: number of contacts.

        Returns:
            The largest violation of the contact law [m/s], and the status, see `Simulation.status`.
        """
        n = 3 * k
        problem = ContactProblem(
            contacts.G[: n * n].reshape(n, n).copy(),
            contacts.g[:n].copy(),
            contacts.collisions.friction[:k].copy(),
            offset=contacts.offset[:k].copy(),
            previous_velocity=contacts.velocities_before[:n].copy() if self._law == "frictional" else None,
            initial_impulses=contacts.impulses[:n].reshape(k, 3).copy(),
        )
        impulses, residual, status = (
            self._solve_rigid(problem) if self._law == "rigid" else self._solve_frictional(problem)
        )
        contacts.impulses[:n] = impulses
        return residual, status

    def _solve_frictional(self, problem: ContactProblem) -> tuple[Array, float, str]:
        """Solves a contact law with friction; returns impulses, residual [m/s] and status."""
        solution = self._frictional.solve(problem)
        impulses = solution.impulses.ravel()
        if problem.previous_velocity is not None and solution.status == "inaccurate":
            # Scale the impulses down so that they create no energy.
            linear = float(impulses @ (problem.g + problem.previous_velocity))
            square = float(impulses @ problem.G @ impulses)
            if linear + square > 0.0:
                impulses = impulses * max(-linear / square, 0.0)
        return impulses, solution.residual, solution.status

    def _solve_rigid(self, problem: ContactProblem) -> tuple[Array, float, str]:
        """Solves the law "rigid" with an active set of sticking contacts; returns impulses, residual [m/s], status."""
        g = problem.offset_velocity
        is_sticking = g[2::3] < 0.0  # contacts that would penetrate otherwise
        impulses, velocities = np.zeros(len(g)), g
        for _ in range(4 * len(is_sticking)):
            rows = np.flatnonzero(np.repeat(is_sticking, 3))
            subproblem = ContactProblem(problem.G[np.ix_(rows, rows)].copy(), g[rows].copy(), 0.0)
            impulses = np.zeros(len(g))
            impulses[rows] = self._rigid.solve(subproblem).impulses.ravel()
            velocities = problem.G @ impulses + g
            pulling, approach = np.where(is_sticking, impulses[2::3], 0.0), np.where(is_sticking, 0.0, velocities[2::3])
            if pulling.min() < -PULL_TOLERANCE * np.abs(impulses).max():
                is_sticking[first_largest(-pulling)] = False
            elif approach.min() < -TOLERANCE:
                is_sticking[first_largest(-approach)] = True
            else:
                break
        slip_speed = np.linalg.norm(velocities.reshape(-1, 3)[is_sticking], axis=1).max(initial=0.0)
        residual = max(
            float(slip_speed), float(-np.minimum(velocities[2::3], 0.0).min()), float(-min(impulses[2::3].min(), 0.0))
        )
        return impulses, residual, "solved" if residual <= TOLERANCE else "inaccurate"
