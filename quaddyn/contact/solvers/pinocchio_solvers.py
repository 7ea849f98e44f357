"""Pinocchio's cone solvers with one interface: alternating directions (ADMM) and projected Gauss-Seidel (PGS)."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from ...urdf.tree import Array
from .problem import TINY


class PinocchioConeSolvers:
    """Pinocchio's ADMM (spectral rule, Anderson acceleration) and PGS on a dense Delassus matrix.

    Source: Carpentier, Le Lidec and Montaut 2024, "From compliant to rigid contact simulation".  Pinocchio's own
    convergence status is not used; the caller computes the residual.

    Args:
        tolerance: residual that the caller requires [m/s]; the tolerances of the solvers are a hundredth of it.
        max_iterations: bound of the iterations of each attempt.
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
        self, G: Array, g: Array, friction: Array, initial_impulses: Array | None, regularization: float = 0.0
    ) -> tuple[Array, int]:
        """Returns impulses (k, 3) and iterations of ADMM; `regularization` is a fraction of the mean diagonal."""
        return self._solve(True, G, g, friction, initial_impulses, regularization)

    def pgs(self, G: Array, g: Array, friction: Array, initial_impulses: Array | None) -> tuple[Array, int]:
        """Returns impulses (k, 3) and iterations of projected Gauss-Seidel."""
        return self._solve(False, G, g, friction, initial_impulses, 0.0)

    def _solve(
        self, by_admm: bool, G: Array, g: Array, friction: Array, initial_impulses: Array | None, regularization: float
    ) -> tuple[Array, int]:
        """Runs one of the two solvers on the scaled problem; returns impulses (k, 3), iterations; zeros if it fails."""
        # G is scaled to a mean diagonal of 1: impulses become velocities, and tolerances are the same on every robot.
        scale = max(float(G.trace()) / len(G), TINY)
        operator = G / scale
        if regularization:
            operator = operator + regularization * np.eye(len(G))
        result = pin.ADMMSolverResult() if by_admm else pin.PGSSolverResult()
        if initial_impulses is not None:
            result.setConstraintImpulseGuess(scale * initial_impulses.ravel())
        # The solver adds its damping to the operator; therefore each attempt has a new one.
        operator = pin.DelassusOperatorDense(operator)
        solver, settings = (self._admm, self._admm_settings) if by_admm else (self._pgs, self._pgs_settings)
        try:
            solver.solve(operator, g, *self._make_cones(friction), settings, result)
        except (ValueError, RuntimeError):  # a spectrum that the solver rejects, such as that of a zero matrix
            return np.zeros((len(friction), 3)), 0
        return np.asarray(result.retrieveConstraintImpulses()).reshape(-1, 3) / scale, int(result.iterations)

    def _make_cones(self, friction: Array) -> tuple[object, object]:
        """Returns the product of k friction cones as Pinocchio's contact models, without geometry; cached."""
        key = tuple(friction.tolist())
        if key not in self._cones:
            if len(self._cones) >= 64:  # bounds the memory if friction changes at every step
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
