"""Frictional contact at one instant: impulses of point contacts with a rigid, dry ground, and the proof of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, isfinite, nan

import numpy as np
import pinocchio as pin

from ..errors import ArgumentError
from ..urdf.tree import Array

#: Largest friction coefficient accepted; above about 50 the cone programs lose all their digits.
MAX_FRICTION = 10.0
TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True, slots=True, eq=False)
class ContactSolution:
    """Impulses of k contacts, with the certificate that they obey the laws of contact.

    Attributes:
        impulses: (k, 3) on the robot, world axes, z along the ground's normal [N s].
        residual: largest violation of the contact law by any contact, as a velocity [m/s] (see `residual`).
        iterations: of the solver that produced the answer.
        status: "free" (no contact), "solved", "retried" (only a second attempt met the tolerance) or
            "inaccurate" (none did; the best one is returned).
    """

    impulses: Array
    residual: float
    iterations: int
    status: str


class FrictionalContact:
    """Solves Signorini's condition with Coulomb friction for k point contacts on a horizontal plane.

    Find impulses lambda in the friction cones and contact velocities ``c = G lambda + g`` such that every contact
    satisfies ``K >> lambda  _|_  c + (0, 0, mu |c_t|) << K*`` (De Saxce and Feng 1998, "The bipotential method";
    Acary and Brogliato 2008, *Numerical Methods for Nonsmooth Dynamical Systems*, ch. 3): no pulling, no
    approaching, friction opposite to sliding and inside its cone.  The alternating direction method of multipliers
    of Pinocchio does the work (Carpentier, Le Lidec and Montaut 2024, "From compliant to rigid contact
    simulation"); whatever it says, the answer is judged here by `residual`.

    Args:
        friction: Coulomb's coefficient mu, 0 to 10.
        tolerance: residual up to which an answer counts as solved [m/s].
        max_iterations: of each attempt.

    Raises:
        ArgumentError: a value out of range.
    """

    def __init__(self, friction: float, *, tolerance: float = 1e-8, max_iterations: int = 1000) -> None:
        if not 0.0 <= friction <= MAX_FRICTION:
            raise ArgumentError(f"friction: expected a coefficient between 0 and {MAX_FRICTION:g}, got {friction}")
        if not 0.0 < tolerance < 1.0:
            raise ArgumentError(f"tolerance: expected a small positive velocity [m/s], got {tolerance}")
        if max_iterations < 1:
            raise ArgumentError(f"max_iterations: expected at least 1, got {max_iterations}")
        self.friction, self.tolerance = float(friction), float(tolerance)
        self._admm, self._admm_settings = pin.ADMMConstraintSolver(), pin.ADMMSolverSettings()
        self._admm_settings.admm_update_rule = pin.ADMMUpdateRule.SPECTRAL
        self._admm_settings.admm_proximal_rule = pin.ADMMProximalRule.AUTOMATIC
        self._admm_settings.anderson_capacity = 10
        self._pgs, self._pgs_settings = pin.PGSConstraintSolver(), pin.PGSSolverSettings()
        for settings in (self._admm_settings, self._pgs_settings):
            settings.max_iterations = max_iterations
            for kind in ("absolute", "relative"):  # aim well below what is then asked of the residual
                setattr(settings, f"{kind}_feasibility_tol", 1e-2 * tolerance)
                setattr(settings, f"{kind}_complementarity_tol", 1e-2 * tolerance)
        self._cones: dict[int, tuple[object, object]] = {}

    def solve(self, G: Array, g: Array, guess: Array) -> ContactSolution:
        """The impulses of k contacts.

        Args:
            G: (3k, 3k) Delassus matrix ``J M^-1 J^T`` [1/kg], symmetric positive semi-definite.
            g: (3k,) contact velocities without impulses, and minus the wanted ones [m/s].
            guess: (k, 3) impulses to start from, such as those of the last step [N s].

        Returns:
            The first attempt whose residual meets the tolerance, else the best of them.  Never NaN for finite
            input: no impulse at all is the last resort, reported as what it is by its residual.
        """
        k = len(guess)
        if k == 0:
            return ContactSolution(np.zeros((0, 3)), 0.0, 0, "free")
        attempts = (
            (self._admm, self._admm_settings, guess, 0.0),
            (self._admm, self._admm_settings, None, 0.0),
            (self._pgs, self._pgs_settings, None, 0.0),
            (self._admm, self._admm_settings, None, 1e-9),  # softened ground, judged on the rigid one
        )
        failed: list[ContactSolution] = []
        for solver, settings, start, softness in attempts:
            impulses, iterations = self._attempt(solver, settings, G, g, start, softness)
            error = residual(impulses, G, g, self.friction)
            if error <= self.tolerance:
                return ContactSolution(impulses, error, iterations, "retried" if failed else "solved")
            failed.append(ContactSolution(impulses, error, iterations, "inaccurate"))
        nothing = np.zeros((k, 3))
        failed.append(ContactSolution(nothing, residual(nothing, G, g, self.friction), 0, "inaccurate"))
        return min((f for f in failed if np.isfinite(f.residual)), key=lambda f: f.residual, default=failed[-1])

    def _attempt(
        self, solver: object, settings: object, G: Array, g: Array, guess: Array | None, softness: float
    ) -> tuple[Array, int]:
        # With the mean of its diagonal at 1, impulses become velocities and tolerances mean the same on every robot.
        scale = max(G.trace() / len(G), TINY)
        operator = G / scale
        if softness:
            operator += softness * np.eye(len(G))
        result = pin.ADMMSolverResult() if solver is self._admm else pin.PGSSolverResult()
        if guess is not None:
            result.setConstraintImpulseGuess(scale * guess.ravel())
        # The solver leaves its own damping in the operator, so that each attempt gets a fresh one.
        operator = pin.DelassusOperatorDense(operator)
        solver.solve(operator, g, *self._cones_of(len(g) // 3), settings, result)  # type: ignore[attr-defined]
        return np.asarray(result.retrieveConstraintImpulses()).reshape(-1, 3) / scale, int(result.iterations)

    def _cones_of(self, k: int) -> tuple[object, object]:
        """The product of k friction cones: all that the solver asks of contact models; the geometry is in G and g."""
        if k not in self._cones:
            model = pin.Model()
            models, data = pin.StdVec_ConstraintModel(), pin.StdVec_ConstraintData()
            for _ in range(k):
                contact = pin.PointContactConstraintModel(model, 0)
                contact.setFriction(self.friction)
                models.append(pin.ConstraintModel(contact))
            for contact in models:
                data.append(contact.createData())
            self._cones[k] = models, data
        return self._cones[k]


def residual(impulses: Array, G: Array, g: Array, friction: float) -> float:
    """How far `impulses` are from obeying Signorini's and Coulomb's laws, as a velocity [m/s].

    The natural map of the cone complementarity problem, ``|lambda - P_K(lambda - rho c~)| / rho`` with
    ``c~ = c + (0, 0, mu |c_t|)``, zero exactly at solutions (Acary and Brogliato 2008, sec. 12.2); rho is each
    contact's own apparent mass, which makes the figure a velocity.

    Args:
        impulses: (k, 3) [N s].
        G: (3k, 3k) Delassus matrix [1/kg].
        g: (3k,) contact velocities without impulses [m/s].
        friction: Coulomb's coefficient mu.

    Returns:
        The largest over the contacts; NaN if any impulse is NaN.
    """
    errors = []
    velocities, masses = (G @ impulses.ravel() + g).tolist(), (1.0 / np.maximum(G.diagonal(), TINY)).tolist()
    for i, (x, y, n) in enumerate(impulses.tolist()):  # a handful of scalars: arrays would cost three times as much
        u, v, w = velocities[3 * i : 3 * i + 3]
        m = max(masses[3 * i : 3 * i + 3])
        px, py, pn = project(x - m * u, y - m * v, n - m * (w + friction * hypot(u, v)), friction)
        errors.append(hypot(x - px, y - py, n - pn) / m)
    return max(errors) if all(map(isfinite, errors)) else nan


def project(x: float, y: float, n: float, friction: float) -> tuple[float, float, float]:
    """The nearest point of the cone ``|(x, y)| <= mu n`` to (x, y, n).

    Source: Acary and Brogliato 2008, sec. 12.2.
    """
    sliding = hypot(x, y)
    if sliding <= friction * n:
        return x, y, n
    onto = max((n + friction * sliding) / (1.0 + friction * friction), 0.0)
    scale = friction * onto / max(sliding, TINY)
    return scale * x, scale * y, onto
