"""`CompliantSolver`: compliant ground, a spring and a damper with regularized Coulomb friction, implicit in time."""

from __future__ import annotations

import numpy as np

from ...errors import ArgumentError
from ...robot.arguments import check_number, check_vector
from ...urdf.tree import Array
from .problem import CheckedSolver, ContactProblem, ContactSolution

#: Maximum number of Newton steps, and of halvings of each; problems of the tests take less than a quarter of them.
MAX_NEWTON_STEPS, MAX_HALVINGS = 100, 40


class CompliantSolver(CheckedSolver):
    r"""Solver for the force law of `CompliantPlane` at the end of the step, which allows long steps on stiff ground.

    With ``d+ = d - dt v_n`` the depth after a step from depth d, impulses and velocities ``v = G lambda + g`` satisfy

    .. math::

        \lambda_n = dt\, \max(0,\; k\, d^+ - c\, v_n), \qquad
        \lambda_t = -\mu\, \lambda_n \frac{v_t}{\max(|v_t|, v_s)}

    This is backward Euler of a spring and a damper: unconditionally stable for one contact, without adhesion, and with
    friction inside its cone at any speed.  (`CompliantPlane.forces` are the forces at the start of the step.)  The
    equations are solved by Newton's method on the velocities with a line search.  Where the inertia couples tangential
    slip strongly to the normal force, they may have several solutions, or the line search may stall.  The residual, the
    largest velocity error that the violation of the law would cause, then reports it, and the status is "inaccurate".

    ``problem.offset`` is the *whole* gap divided by dt, ``-d / dt`` for a penetration d; open contacts get no force
    unless they close within the step.

    Args:
        stiffness: k [N/m], one number for all contacts or (k,).
        damping: c of the normal direction [N s/m], one number for all contacts or (k,).
        dt: length of the step [s].
        stiction_speed: v_s, below which friction is viscous [m/s].
        tolerance: residual up to which a solution counts as solved [m/s].

    Raises:
        ArgumentError: a value out of range.
    """

    def __init__(
        self,
        stiffness: float | Array,
        damping: float | Array = 0.0,
        *,
        dt: float,
        stiction_speed: float = 1e-2,
        tolerance: float = 1e-8,
    ) -> None:
        self.stiffness = _coefficients("stiffness", stiffness, positive=True)
        self.damping = _coefficients("damping", damping, positive=False)
        self.dt, self.stiction_speed = check_number("dt", dt), check_number("stiction_speed", stiction_speed)
        for name, value in (("dt", self.dt), ("stiction_speed", self.stiction_speed)):
            if not (np.isfinite(value) and value > 0.0):
                raise ArgumentError(f"{name}: expected a positive number, got {value}")
        super().__init__(tolerance)

    def _solve(self, problem: ContactProblem) -> ContactSolution:
        """Solves the problem by Newton's method with a line search.

        Raises:
            ArgumentError: stiffness or damping given for another number of contacts.
        """
        k = problem.n_contacts
        for name, coefficients in (("stiffness", self.stiffness), ("damping", self.damping)):
            if len(coefficients) != 1:
                check_vector(name, coefficients, (k,), "one for each contact of the problem")
        gap_rate = np.zeros(k) if problem.offset is None else problem.offset
        v, n_steps = problem.g.copy(), 0
        impulses, derivative = self._contact_law(v, gap_rate, problem.mu)
        F = v - problem.g - problem.G @ impulses
        error = float(np.abs(F).max())
        for _ in range(MAX_NEWTON_STEPS):
            if error <= 1e-3 * self.tolerance:
                break
            step = _newton_step(np.eye(3 * k) - problem.G @ derivative, F)
            if step is None:
                break
            step_length = 1.0
            for _ in range(MAX_HALVINGS):
                trial = v + step_length * step
                trial_impulses, trial_derivative = self._contact_law(trial, gap_rate, problem.mu)
                trial_F = trial - problem.g - problem.G @ trial_impulses
                trial_error = float(np.abs(trial_F).max())
                if trial_error < error:  # False of NaN
                    break
                step_length *= 0.5
            else:
                break
            v, impulses, derivative, F, error = trial, trial_impulses, trial_derivative, trial_F, trial_error
            n_steps += 1
        # The returned impulses satisfy the force law exactly at v; the residual is the error of ``v = G lambda + g``.
        return self._solution(problem, problem.g, impulses, error, n_steps)

    def _contact_law(self, v: Array, gap_rate: Array, mu: Array) -> tuple[Array, Array]:
        """Returns the impulses (3k,) at velocities v, and their derivative (3k, 3k), block diagonal."""
        k, dt = len(mu), self.dt
        stiffness, damping = np.broadcast_to(self.stiffness, (k,)), np.broadcast_to(self.damping, (k,))
        velocities = v.reshape(-1, 3)
        tangential, speed = velocities[:, :2], np.hypot(velocities[:, 0], velocities[:, 1])
        depth = -dt * (gap_rate + velocities[:, 2])  # depth at the end of the step
        unclamped = dt * (stiffness * depth - damping * velocities[:, 2])
        pushing = (depth > 0.0) & (unclamped > 0.0)
        normal = np.where(pushing, unclamped, 0.0)
        speed_floor = np.maximum(speed, self.stiction_speed)
        impulses = np.empty((k, 3))
        impulses[:, 2] = normal
        impulses[:, :2] = -(mu * normal / speed_floor)[:, None] * tangential
        normal_derivative = np.where(pushing, -dt * (stiffness * dt + damping), 0.0)
        derivative = np.zeros((3 * k, 3 * k))
        for i in range(k):
            block = derivative[3 * i : 3 * i + 3, 3 * i : 3 * i + 3]
            direction = tangential[i] / speed_floor[i]
            projector = np.eye(2) - (np.outer(direction, direction) if speed[i] > self.stiction_speed else 0.0)
            block[:2, :2] = -(mu[i] * normal[i] / speed_floor[i]) * projector
            block[:2, 2] = -mu[i] * direction * normal_derivative[i]
            block[2, 2] = normal_derivative[i]
        return impulses.ravel(), derivative


def _newton_step(A: Array, F: Array) -> Array | None:
    """Returns the solution of ``A step = -F``, None if A is singular or the step is not finite."""
    try:
        step = np.linalg.solve(A, -F)
    except np.linalg.LinAlgError:
        return None
    return np.asarray(step, dtype=np.float64) if np.isfinite(step).all() else None


def _coefficients(name: str, value: float | Array, *, positive: bool) -> Array:
    """Returns one coefficient or an array (k,) as an array of floats; raises `ArgumentError` if out of range."""
    array = np.atleast_1d(value if isinstance(value, np.ndarray) else np.array(check_number(name, value)))
    if array.ndim != 1 or array.dtype.kind not in "fiu":
        raise ArgumentError(f"{name}: expected one number or one number for each contact, got shape {array.shape}")
    if not (np.isfinite(array).all() and (array > 0.0 if positive else array >= 0.0).all()):
        raise ArgumentError(f"{name}: expected finite numbers, {'positive' if positive else '0 or more'}, got {value}")
    return array.astype(np.float64)
