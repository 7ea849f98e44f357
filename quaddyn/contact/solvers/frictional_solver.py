"""`FrictionalSolver`: impulses of point contacts with rigid ground and Coulomb friction, with their residual.

The methods are this package's compiled one and Pinocchio's cone solvers, alternating directions (ADMM) and projected
Gauss-Seidel (PGS), with the same interface.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, get_args

import numpy as np
import pinocchio as pin

from ...errors import ArgumentError
from ...robot.arguments import check_number
from ...urdf.tree import Array
from . import frictional_core as core
from .problem import TINY, CheckedSolver, ContactProblem, ContactSolution, contact_residual


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
        self._max_iterations = max_iterations

    def bound_iterations(self, allowed: float) -> None:
        """Bounds the iterations of the next attempts by `allowed` (at least 1), in addition to `max_iterations`."""
        for settings in (self._admm_settings, self._pgs_settings):
            settings.max_iterations = max(1, int(min(allowed, self._max_iterations)))

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


#: Time of an iteration of Pinocchio's solvers, in multiplications of Newton steps per entry of the Delassus matrix.
ITERATION_COST = 4.0

Method = Literal["newton", "admm", "pgs"]

#: Mean velocity of a contact along its impulse, as a fraction of the tolerance, above which it adds energy.
ENERGY_GAIN_FRACTION = 1e-2

#: Impulses (k, 3) [N s], number of iterations and residual [m/s].
_Attempt = tuple[Array, int, float]


class FrictionalSolver(CheckedSolver):
    r"""Solver of Signorini's condition with Coulomb friction for k point contacts.

    Find impulses lambda in the friction cones K such that the velocities ``v = G lambda + g`` of all contacts, offsets
    added to their normal components, ``c = v + offset n``, satisfy

    .. math::

        K \ni \lambda \;\perp\; c + (0, 0, \mu |c_t|) \in K^*

    (De Saxce and Feng 1998, "The bipotential method"; Acary and Brogliato 2008, *Numerical Methods for Nonsmooth
    Dynamical Systems*, ch. 3): no pulling, no approaching, friction opposite to sliding and inside its cone.

    The methods are

    - "newton": semismooth Newton steps on the augmented Lagrangian equations (Alart and Curnier 1991; Acary and
      Brogliato 2008, sec. 13.6), with rounds of nonlinear block Gauss-Seidel (Jourdan, Alart and Jean 1998) where they
      stall; compiled, a few microseconds for four feet.
    - "admm": Pinocchio's alternating directions (Carpentier, Le Lidec and Montaut 2024).
    - "pgs": Pinocchio's projected Gauss-Seidel.

    The residual of every method is computed by `contact_residual`.  If it exceeds the tolerance, the other methods
    follow, each from the initial impulses and from a cold start, each refined by Newton steps; the best solution is
    returned, and its status reports the outcome. No further attempt starts after `MAX_MULTIPLICATIONS` of
    `frictional_core`, which only problems with many contacts reach.  The result never contains NaN: if all attempts
    fail, the impulses are zero.

    If ``problem.previous_velocity`` is given, no contact does positive work over the step, ``lambda_i . (v_before +
    v)_i / 2 <= 0``: the energy balance of a time step (Moreau 1988) with constant forces.  Signorini's condition on the
    velocity at the end of a step alone violates it slightly where a contact that was separating is pressed back, or a
    penetration is removed.  Such contacts are solved again with ``c = v + v_before`` in place of v (in the normal
    direction at least what the gap requires), which lets them rebound at their previous speed, usually micrometers per
    second.  This also preserves penetrations that only work could remove: leave ``previous_velocity`` out for a robot
    that starts deep inside the ground.

    Args:
        method: the first method, "newton", "admm" or "pgs".
        tolerance: residual up to which a solution counts as solved [m/s].
        max_iterations: bound of the iterations of each attempt of "admm" and "pgs".
        fallback: False to try the first method alone, from the initial impulses.

    Attributes:
        prior_multiplications: multiplications that the caller has already spent on the next problem. They count
            towards `MAX_MULTIPLICATIONS`; if they exceed it, the initial impulses are returned. `solve` sets them to 0.

    Raises:
        ArgumentError: a value out of range.
    """

    has_friction_cones = True

    def __init__(
        self,
        method: Method = "newton",
        *,
        tolerance: float = 1e-8,
        max_iterations: int = 1000,
        fallback: bool = True,
    ) -> None:
        if method not in get_args(Method):
            raise ArgumentError(f"method: expected one of {get_args(Method)}, got {method!r}")
        super().__init__(tolerance)
        if not (check_number("max_iterations", max_iterations) >= 1):
            raise ArgumentError(f"max_iterations: expected at least 1, got {max_iterations}")
        self.method, self.fallback = method, bool(fallback)
        self._pinocchio = PinocchioConeSolvers(self.tolerance, int(max_iterations))
        self._work = core.make_contact_workspace(4)
        self.prior_multiplications = 0.0

    @property
    def multiplications(self) -> float:
        """Number of multiplications of the last solve, with `prior_multiplications`."""
        return float(self._work.effort.multiplications)

    def _solve(self, problem: ContactProblem) -> ContactSolution:
        """Solves the problem; repeats it for contacts that would add energy."""
        g, effort = problem.offset_velocity, self._work.effort
        effort.multiplications, self.prior_multiplications = self.prior_multiplications, 0.0
        impulses, error, iterations, status = self._run_attempts(problem, g, problem.initial_impulses)
        if problem.previous_velocity is not None:
            rebounds = np.zeros(problem.n_contacts, dtype=bool)
            start_velocities = problem.previous_velocity.reshape(-1, 3)
            for _ in range(problem.n_contacts):
                end_velocities = (problem.G @ impulses.ravel() + problem.g).reshape(-1, 3)
                power = (impulses * (start_velocities + end_velocities)).sum(axis=1)
                # A contact adds energy if its mean velocity is along its impulse by more than the tolerance explains.
                gains_energy = ~rebounds & (
                    power > ENERGY_GAIN_FRACTION * self.tolerance * np.linalg.norm(impulses, axis=1)
                )
                if not gains_energy.any():
                    break
                if self._work.effort.multiplications > core.MAX_MULTIPLICATIONS:
                    status = "inaccurate"
                    break
                rebounds |= gains_energy
                g = self._passive_velocities(problem, start_velocities, rebounds)
                impulses, error, further_iterations, status = self._run_attempts(problem, g, impulses)
                iterations += further_iterations
            if rebounds.any() and status != "inaccurate":
                status = "passive"
        return self._solution(problem, g, impulses, error, iterations, status)

    @staticmethod
    def _passive_velocities(problem: ContactProblem, start_velocities: Array, rebounds: Array) -> Array:
        """Returns `problem.offset_velocity` with ``v_before`` added for the contacts that rebound."""
        offset = np.zeros(problem.n_contacts) if problem.offset is None else problem.offset
        g = problem.offset_velocity.reshape(-1, 3).copy()
        free = problem.g.reshape(-1, 3)
        g[rebounds] = free[rebounds] + start_velocities[rebounds]
        g[rebounds, 2] = free[rebounds, 2] + np.maximum(
            np.maximum(start_velocities[rebounds, 2], offset[rebounds]), 0.0
        )
        return g.ravel()

    def _run_attempts(
        self, problem: ContactProblem, g: Array, initial_impulses: Array | None
    ) -> tuple[Array, float, int, str]:
        """Runs the attempts until one is within the tolerance; returns impulses, residual, iterations, status."""
        best: _Attempt = np.zeros((problem.n_contacts, 3)), 0, np.inf
        if initial_impulses is not None and self._work.effort.multiplications > core.MAX_MULTIPLICATIONS:
            best = initial_impulses, 0, contact_residual(initial_impulses, problem.G, g, problem.mu)
        for index, attempt in enumerate(self._list_attempts(problem, g, initial_impulses)):
            if self._work.effort.multiplications > core.MAX_MULTIPLICATIONS and (index or initial_impulses is not None):
                break
            result = attempt()
            impulses, iterations, error = result
            if error <= self.tolerance:
                return impulses, error, iterations, "retried" if index else "solved"
            if error < best[2]:  # False of NaN
                best = result
        no_impulses = np.zeros((problem.n_contacts, 3))
        error = contact_residual(no_impulses, problem.G, g, problem.mu)
        error = np.inf if np.isnan(error) else error  # beyond the floating-point range
        impulses, iterations, lowest_error = best if best[2] <= error else (no_impulses, 0, error)
        return impulses, lowest_error, iterations, "inaccurate"

    def _list_attempts(
        self, problem: ContactProblem, g: Array, initial_impulses: Array | None
    ) -> Iterator[Callable[[], _Attempt]]:
        """Yields the attempts in order; each is computed only when it is called."""
        attempts: list[tuple[Method, Array | None, float]] = [(self.method, initial_impulses, 0.0)]
        if self.fallback:
            starts = (None,) if initial_impulses is None else (initial_impulses, None)
            for method in sorted(get_args(Method), key=lambda name: name != self.method):
                attempts += [(method, start, 0.0) for start in starts]
            # The last attempts regularize G; they are refined, and their residual computed, without regularization.
            attempts += [("admm", None, regularization) for regularization in (1e-9, 1e-6, 1e-3)]
            del attempts[1]  # the same as the first
        for index, (method, start, regularization) in enumerate(attempts):
            yield partial(self._attempt, problem, g, method, start, regularization, refine=index > 0)

    def _attempt(
        self,
        problem: ContactProblem,
        g: Array,
        method: Method,
        initial_impulses: Array | None,
        regularization: float,
        *,
        refine: bool,
    ) -> _Attempt:
        """Runs one method from one start, with Newton refinement if requested."""
        G, mu, iterations = problem.G, problem.mu, 0
        if method == "newton":
            return self._newton(G, g, mu, initial_impulses)
        work_per_iteration = ITERATION_COST * G.size
        self._pinocchio.bound_iterations(
            (core.MAX_MULTIPLICATIONS - self._work.effort.multiplications) / work_per_iteration
        )
        if method == "admm":
            impulses, iterations = self._pinocchio.admm(G, g, mu, initial_impulses, regularization)
        else:
            impulses, iterations = self._pinocchio.pgs(G, g, mu, initial_impulses)
        self._work.effort.multiplications += iterations * work_per_iteration
        error = contact_residual(impulses, G, g, mu)
        if refine and not error <= self.tolerance:
            impulses, newton_steps, error = self._newton(G, g, mu, impulses)
            iterations += newton_steps
        return impulses, iterations, error

    def _newton(self, G: Array, g: Array, mu: Array, initial_impulses: Array | None) -> _Attempt:
        """Runs the compiled solver; returns impulses, steps and residual."""
        impulses = np.zeros(len(g)) if initial_impulses is None else initial_impulses.flatten()
        G, g, mu = (np.ascontiguousarray(a) for a in (G, g, mu))
        if len(mu) > len(self._work.mass):
            n_multiplications = self._work.effort.multiplications
            self._work = core.make_contact_workspace(len(mu))
            self._work.effort.multiplications = n_multiplications
        n_rounds = core.get_max_rounds(len(mu))
        # The compiled residual is that of `contact_residual`, computed from G and g at the returned impulses.
        error = core.solve_contact_problem(G, g, mu, impulses, self.tolerance, n_rounds, self._work)
        return impulses.reshape(-1, 3), self._work.effort.steps, error
