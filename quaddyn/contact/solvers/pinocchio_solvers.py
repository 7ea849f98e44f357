"""Pinocchio's cone solvers behind one call: alternating directions (ADMM) and projected Gauss-Seidel (PGS)."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from ...urdf.tree import Array
from .problem import TINY


class ConePrograms:
    """Pinocchio's ADMM (spectral rule, Anderson acceleration) and PGS on a dense Delassus matrix.

    Carpentier, Le Lidec and Montaut 2024, "From compliant to rigid contact simulation".  What they call converged
    is not taken for it: the caller judges.

    Args:
        tolerance: residual the caller will ask for [m/s]; the solvers aim at a hundredth of it.
        max_iterations: of each attempt.
    """

    def __init__(self, tolerance: float, max_iterations: int) -> None:
        self._admm, self._admm_settings = pin.ADMMConstraintSolver(), pin.ADMMSolverSettings()
        self._admm_settings.admm_update_rule = pin.ADMMUpdateRule.SPECTRAL
        self._admm_settings.admm_proximal_rule = pin.ADMMProximalRule.AUTOMATIC
        self._admm_settings.anderson_capacity = 10
        self._pgs, self._pgs_settings = pin.PGSConstraintSolver(), pin.PGSSolverSettings()
        for settings in (self._admm_settings, self._pgs_settings):
            settings.max_iterations = max_iterations
            for kind in ("absolute", "relative"):
                setattr(settings, f"{kind}_feasibility_tol", 1e-2 * tolerance)
                setattr(settings, f"{kind}_complementarity_tol", 1e-2 * tolerance)
        self._cones: dict[tuple[float, ...], tuple[object, object]] = {}

    def admm(
        self, G: Array, g: Array, friction: Array, guess: Array | None, softness: float = 0.0
    ) -> tuple[Array, int]:
        """Impulses (k, 3) and iterations; `softness` is a share of the mean diagonal added to it."""
        return self._attempt(True, G, g, friction, guess, softness)

    def pgs(self, G: Array, g: Array, friction: Array, guess: Array | None) -> tuple[Array, int]:
        """Impulses (k, 3) and iterations."""
        return self._attempt(False, G, g, friction, guess, 0.0)

    def _attempt(
        self, by_admm: bool, G: Array, g: Array, friction: Array, guess: Array | None, softness: float
    ) -> tuple[Array, int]:
        # With the mean of its diagonal at 1, impulses become velocities and tolerances mean the same on every robot.
        scale = max(float(G.trace()) / len(G), TINY)
        operator = G / scale
        if softness:
            operator = operator + softness * np.eye(len(G))
        result = pin.ADMMSolverResult() if by_admm else pin.PGSSolverResult()
        if guess is not None:
            result.setConstraintImpulseGuess(scale * guess.ravel())
        # The solver leaves its own damping in the operator, so that each attempt gets a fresh one.
        operator = pin.DelassusOperatorDense(operator)
        solver, settings = (self._admm, self._admm_settings) if by_admm else (self._pgs, self._pgs_settings)
        try:
            solver.solve(operator, g, *self._cones_of(friction), settings, result)
        except (ValueError, RuntimeError):  # a spectrum it cannot work with, such as that of zero
            return np.zeros((len(friction), 3)), 0
        return np.asarray(result.retrieveConstraintImpulses()).reshape(-1, 3) / scale, int(result.iterations)

    def _cones_of(self, friction: Array) -> tuple[object, object]:
        """The product of k friction cones: all that the solver asks of contact models; the geometry is in G and g."""
        key = tuple(friction.tolist())
        if key not in self._cones:
            if len(self._cones) >= 64:  # friction that changes every step would fill the memory
                self._cones.clear()
            model = pin.Model()
            models, data = pin.StdVec_ConstraintModel(), pin.StdVec_ConstraintData()
            for mu in key:
                contact = pin.PointContactConstraintModel(model, 0)
                contact.setFriction(mu)
                models.append(pin.ConstraintModel(contact))
            for contact in models:
                data.append(contact.createData())
            self._cones[key] = models, data
        return self._cones[key]
