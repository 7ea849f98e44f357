"""`FrictionalSolver`: impulses of point contacts with a rigid, dry ground, and the proof of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, get_args

import numpy as np

from ...errors import ArgumentError
from ...robot.arguments import check_number
from ...urdf.tree import Array
from . import frictional_core as core
from .pinocchio_solvers import ConePrograms
from .problem import ContactProblem, ContactSolution, check_problem, residual

Method = Literal["newton", "admm", "pgs"]

#: Mean velocity along its own impulse, as a share of the tolerance, from which a contact counts as giving energy.
GIVING = 1e-2

#: Impulses (k, 3), iterations and residual [m/s].
_Answer = tuple[Array, int, float]


class FrictionalSolver:
    r"""Solves Signorini's condition with Coulomb friction for k point contacts.

    Find impulses lambda in the friction cones K such that the velocities ``v = G lambda + g`` of all contacts, offsets
    added to their normal components, ``c = v + offset n``, satisfy

    .. math::

        K \ni \lambda \;\perp\; c + (0, 0, \mu |c_t|) \in K^*

    (De Saxce and Feng 1998, "The bipotential method"; Acary and Brogliato 2008, *Numerical Methods for Nonsmooth
    Dynamical Systems*, ch. 3): no pulling, no approaching, friction opposite to sliding and inside its cone.

    The methods are

    - "newton": semismooth Newton steps on the augmented Lagrangian equations (Alart and Curnier 1991; Acary and
      Brogliato 2008, sec. 13.6), with rounds of nonlinear block Gauss-Seidel (Jourdan, Alart and Jean 1998) where
      they stall; compiled, a few microseconds for four feet.
    - "admm": Pinocchio's alternating directions (Carpentier, Le Lidec and Montaut 2024).
    - "pgs": Pinocchio's projected Gauss-Seidel.

    Whatever a method says, its answer is judged here by `residual`.  If that exceeds the tolerance, the other methods
    follow, each from its own and from a cold start, each polished by Newton steps; the best answer is returned
    with a status that says what it is.  Never NaN: no impulse at all is the last resort.

    If ``problem.before`` is given, no contact does positive work over the step,
    ``lambda_i . (v_before + v)_i / 2 <= 0``: the balance of energy of a time step (Moreau 1988) with constant forces.
    Signorini's condition on the velocity at the end of a step alone violates it by a little where a contact that was
    just departing is pressed back, or a penetration is undone.  Such contacts are solved again with
    ``c = v + v_before`` in place of v (in the normal direction no less than the gap asks for), which lets them rebound
    at the speed they had, usually micrometers per second.  It also keeps penetrations that only work could undo: leave
    ``before`` out for a robot that starts deep inside the ground.

    Args:
        method: the one to start with.
        tolerance: residual up to which an answer counts as solved [m/s].
        max_iterations: of each attempt of "admm" and "pgs".
        fallback: False to try the chosen method alone, from the guess.

    Raises:
        ArgumentError: a value out of range.
    """

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
        tolerance = check_number("tolerance", tolerance)
        if not 0.0 < tolerance < 1.0:
            raise ArgumentError(f"tolerance: expected a small positive velocity [m/s], got {tolerance}")
        if not (check_number("max_iterations", max_iterations) >= 1):
            raise ArgumentError(f"max_iterations: expected at least 1, got {max_iterations}")
        self.method, self.tolerance, self.fallback = method, tolerance, bool(fallback)
        self._programs = ConePrograms(tolerance, int(max_iterations))
        self._work = core.workspace(4)

    def solve(self, problem: ContactProblem) -> ContactSolution:
        """The impulses of k contacts.

        Args:
            problem: with or without offsets, velocities before, and a guess.

        Returns:
            The first attempt whose residual meets the tolerance, else the best of them.
        """
        check_problem(problem)
        if problem.k == 0:
            return self._solution(problem, problem.g, np.zeros((0, 3)), 0.0, 0, "free")
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # the residual tells what overflowed
            return self._solve(problem)

    def _solve(self, problem: ContactProblem) -> ContactSolution:
        g = problem.shifted
        impulses, error, iterations, status = self._ladder(problem, g, problem.guess)
        if problem.before is not None:
            rebound = np.zeros(problem.k, dtype=bool)
            before = problem.before.reshape(-1, 3)
            for _ in range(problem.k):
                after = (problem.G @ impulses.ravel() + problem.g).reshape(-1, 3)
                power = (impulses * (before + after)).sum(axis=1)
                # Along its impulse a contact moves on the mean; what the tolerance leaves is no gift of energy.
                giving = ~rebound & (power > GIVING * self.tolerance * np.linalg.norm(impulses, axis=1))
                if not giving.any():
                    break
                rebound |= giving
                g = self._mean(problem, before, rebound)
                impulses, error, more, status = self._ladder(problem, g, impulses)
                iterations += more
            if rebound.any() and status != "inaccurate":
                status = "passive"
        return self._solution(problem, g, impulses, error, iterations, status)

    @staticmethod
    def _mean(problem: ContactProblem, before: Array, rebound: Array) -> Array:
        """`problem.shifted`, contacts in `rebound` with ``v_before`` added."""
        offset = np.zeros(problem.k) if problem.offset is None else problem.offset
        g = problem.shifted.reshape(-1, 3).copy()
        free = problem.g.reshape(-1, 3)
        g[rebound] = free[rebound] + before[rebound]
        g[rebound, 2] = free[rebound, 2] + np.maximum(np.maximum(before[rebound, 2], offset[rebound]), 0.0)
        return g.ravel()

    def _ladder(self, problem: ContactProblem, g: Array, guess: Array | None) -> tuple[Array, float, int, str]:
        best: _Answer = np.zeros((problem.k, 3)), 0, np.inf
        for rung, attempt in enumerate(self._attempts(problem, g, guess)):
            answer = attempt()
            impulses, iterations, error = answer
            if error <= self.tolerance:
                return impulses, error, iterations, "retried" if rung else "solved"
            if error < best[2]:  # False of NaN
                best = answer
        nothing = np.zeros((problem.k, 3))
        error = residual(nothing, problem.G, g, problem.mu)
        error = np.inf if np.isnan(error) else error  # beyond the floating-point range
        impulses, iterations, lowest = best if best[2] <= error else (nothing, 0, error)
        return impulses, lowest, iterations, "inaccurate"

    def _attempts(self, problem: ContactProblem, g: Array, guess: Array | None) -> Iterator[Callable[[], _Answer]]:
        """What to try, in order; each is computed only when it is asked for."""
        rungs: list[tuple[Method, Array | None, float]] = [(self.method, guess, 0.0)]
        if self.fallback:
            starts = (None,) if guess is None else (guess, None)
            for method in sorted(get_args(Method), key=lambda name: name != self.method):
                rungs += [(method, start, 0.0) for start in starts]
            # The ladder ends on softened ground, polished and judged on the rigid one.
            rungs += [("admm", None, softness) for softness in (1e-9, 1e-6, 1e-3)]
            del rungs[1]  # the first once more
        for rung, (method, start, softness) in enumerate(rungs):
            yield partial(self._attempt, problem, g, method, start, softness, polish=rung > 0)

    def _attempt(
        self, problem: ContactProblem, g: Array, method: Method, start: Array | None, softness: float, *, polish: bool
    ) -> _Answer:
        G, mu, steps = problem.G, problem.mu, 0
        if method == "newton":
            return self._newton(G, g, mu, start)
        if method == "admm":
            impulses, steps = self._programs.admm(G, g, mu, start, softness)
        else:
            impulses, steps = self._programs.pgs(G, g, mu, start)
        error = residual(impulses, G, g, mu)
        if polish and not error <= self.tolerance:
            impulses, more, error = self._newton(G, g, mu, impulses)
            steps += more
        return impulses, steps, error

    def _newton(self, G: Array, g: Array, mu: Array, start: Array | None) -> _Answer:
        impulses = np.zeros(len(g)) if start is None else start.flatten()
        G, g, mu = (np.ascontiguousarray(a) for a in (G, g, mu))
        if len(mu) > len(self._work.mass):
            self._work = core.workspace(len(mu))
        rounds = core.rounds_for(len(mu))
        # The compiled residual is the map of `residual`, taken afresh from G and g at what is returned.
        error = core.solve(G, g, mu, impulses, self.tolerance, rounds, self._work)
        return impulses.reshape(-1, 3), int(self._work.steps[0]), error

    def _solution(
        self, problem: ContactProblem, g: Array, impulses: Array, error: float, iterations: int, status: str
    ) -> ContactSolution:
        moved = problem.G @ impulses.ravel()
        return ContactSolution(
            impulses,
            (moved + problem.g).reshape(-1, 3),
            error,
            iterations,
            status,
            self.tolerance,
            (moved + g).reshape(-1, 3),
            problem.mu,
        )
