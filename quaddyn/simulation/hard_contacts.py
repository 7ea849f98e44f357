"""`HardContacts`: contact problems of a step that the compiled core leaves to others."""

from __future__ import annotations

import numpy as np

from ..contact.solvers import ContactProblem, FrictionalSolver, RigidSolver
from ..urdf.tree import Array, first_largest
from .contact_data import Contacts
from .contact_step import TOLERANCE

#: Impulse towards the ground up to which a contact does not pull, as a fraction of the largest impulse: rounding.
PULL_TOLERANCE = 1e-12


class HardContacts:
    """Solves them by the solvers of `quaddyn.contact`.

    Args:
        law: "frictional", "rigid" or "compliant", see `Simulation`.
    """

    __slots__ = ("_frictional", "_law", "_rigid")

    def __init__(self, law: str) -> None:
        self._law = law
        self._rigid, self._frictional = RigidSolver(tolerance=TOLERANCE), FrictionalSolver(tolerance=TOLERANCE)

    def solve(self, contacts: Contacts, k: int) -> tuple[float, str]:
        """The impulses of the first k contacts, into ``contacts.impulses``.

        Returns:
            Largest violation of the contact law [m/s], and how it was solved, see `Simulation.status`.
        """
        n = 3 * k
        problem = ContactProblem(
            contacts.G[: n * n].reshape(n, n).copy(),
            contacts.g[:n].copy(),
            contacts.touching.friction[:k].copy(),
            offset=contacts.offset[:k].copy(),
            before=contacts.before[:n].copy() if self._law == "frictional" else None,
            guess=contacts.impulses[:n].reshape(k, 3).copy(),
        )
        impulses, residual, status = self._stick(problem) if self._law == "rigid" else self._slide(problem)
        contacts.impulses[:n] = impulses
        return residual, status

    def _slide(self, problem: ContactProblem) -> tuple[Array, float, str]:
        """The laws with friction: impulses, residual and status."""
        solution = self._frictional.solve(problem)
        impulses = solution.impulses.ravel()
        if problem.before is not None and solution.status == "inaccurate":
            # Energy is not created even then: less of the same impulses.
            linear = float(impulses @ (problem.g + problem.before))
            square = float(impulses @ problem.G @ impulses)
            if linear + square > 0.0:
                impulses = impulses * max(-linear / square, 0.0)
        return impulses, solution.residual, solution.status

    def _stick(self, problem: ContactProblem) -> tuple[Array, float, str]:
        """The law "rigid", where which contacts hold is found one by one: impulses, residual and status."""
        g = problem.shifted
        held = g[2::3] < 0.0  # those that would otherwise go through
        impulses, moved = np.zeros(len(g)), g
        for _ in range(4 * len(held)):
            rows = np.flatnonzero(np.repeat(held, 3))
            part = ContactProblem(problem.G[np.ix_(rows, rows)].copy(), g[rows].copy(), 0.0)
            impulses = np.zeros(len(g))
            impulses[rows] = self._rigid.solve(part).impulses.ravel()
            moved = problem.G @ impulses + g
            pull, sink = np.where(held, impulses[2::3], 0.0), np.where(held, 0.0, moved[2::3])
            if pull.min() < -PULL_TOLERANCE * np.abs(impulses).max():
                held[first_largest(-pull)] = False
            elif sink.min() < -TOLERANCE:
                held[first_largest(-sink)] = True
            else:
                break
        stuck = np.linalg.norm(moved.reshape(-1, 3)[held], axis=1).max(initial=0.0)
        residual = max(float(stuck), float(-np.minimum(moved[2::3], 0.0).min()), float(-min(impulses[2::3].min(), 0.0)))
        return impulses, residual, "solved" if residual <= TOLERANCE else "inaccurate"
