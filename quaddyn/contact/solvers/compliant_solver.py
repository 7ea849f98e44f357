"""`CompliantSolver`: ground that yields, a spring and a damper with regularised Coulomb friction, implicit in time."""

from __future__ import annotations

import numpy as np

from ...errors import ArgumentError
from ...robot.arguments import check_number, check_vector
from ...urdf.tree import Array
from .problem import ContactProblem, ContactSolution, check_problem

#: Newton steps and halvings of each; none of the problems of the tests takes a quarter of them.
NEWTON_STEPS, HALVINGS = 100, 40


class CompliantSolver:
    r"""The force law of `CompliantPlane`, taken at the end of the step, so that stiff ground needs no short steps.

    With ``d+ = d - dt v_n`` the depth after a step from depth d, impulses and velocities ``v = G lambda + g`` obey

    .. math::

        \lambda_n = dt\, \max(0,\; k\, d^+ - c\, v_n), \qquad
        \lambda_t = -\mu\, \lambda_n \frac{v_t}{\max(|v_t|, v_s)}

    Backward Euler of a spring and a damper: unconditionally stable for one contact, never pulling, and with friction
    inside its cone at any speed.  (Forces taken at the start of the step are `CompliantPlane.forces`.)  Solved by
    Newton's method on the velocities with a line search; where the inertia couples tangential slip to normal force
    strongly the equations may have several solutions or a line search may stall, which the residual shows.

    ``problem.offset`` is the *whole* gap over dt, ``-d / dt`` where the ground is indented; contacts in the air get no
    force unless they come down within the step.

    Args:
        stiffness: k [N/m], one for all contacts or one each (k,).
        damping: c of the normal direction [N s/m], one for all contacts or one for each.
        dt: length of the step [s].
        stiction_speed: v_s, below which friction is viscous [m/s].
        tolerance: residual up to which an answer counts as solved [m/s].

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
        self.tolerance = check_number("tolerance", tolerance)
        for name, value in (("dt", self.dt), ("stiction_speed", self.stiction_speed)):
            if not (np.isfinite(value) and value > 0.0):
                raise ArgumentError(f"{name}: expected a positive number, got {value}")
        if not 0.0 < self.tolerance < 1.0:
            raise ArgumentError(f"tolerance: expected a small positive velocity [m/s], got {tolerance}")

    def solve(self, problem: ContactProblem) -> ContactSolution:
        """The impulses of k compliant contacts.

        Returns:
            "solved" or, where the law could not be met to the tolerance, "inaccurate" with the best iterate;
            ``residual`` is the largest velocity that the law's violation would cause.

        Raises:
            ArgumentError: stiffness or damping given for another number of contacts.
        """
        check_problem(problem)
        k = problem.k
        empty = np.zeros((0, 3))
        if k == 0:
            return ContactSolution(empty, empty, 0.0, 0, "free", self.tolerance, empty)
        for name, coefficients in (("stiffness", self.stiffness), ("damping", self.damping)):
            if len(coefficients) != 1:
                check_vector(name, coefficients, (k,), "one for each contact of the problem")
        with np.errstate(over="ignore", invalid="ignore"):  # the residual tells what overflowed
            return self._solve(problem)

    def _solve(self, problem: ContactProblem) -> ContactSolution:
        k = problem.k
        gap = np.zeros(k) if problem.offset is None else problem.offset
        v, steps = problem.g.copy(), 0
        law, slope = self._law(v, gap, problem.mu)
        F = v - problem.g - problem.G @ law
        size = float(np.abs(F).max())
        for _ in range(NEWTON_STEPS):
            if size <= 1e-3 * self.tolerance:
                break
            step = _newton_step(np.eye(3 * k) - problem.G @ slope, F)
            if step is None:
                break
            share = 1.0
            for _ in range(HALVINGS):
                trial = v + share * step
                law_trial, slope_trial = self._law(trial, gap, problem.mu)
                F_trial = trial - problem.g - problem.G @ law_trial
                reached = float(np.abs(F_trial).max())
                if reached < size:  # False of NaN
                    break
                share *= 0.5
            else:
                break
            v, law, slope, F, size, steps = trial, law_trial, slope_trial, F_trial, reached, steps + 1
        # What is returned obeys the law of the ground exactly; the residual is the velocity that v lacks.
        after = problem.G @ law + problem.g
        if not (np.isfinite(law).all() and np.isfinite(after).all()):
            law, after, size = np.zeros(3 * k), problem.g, np.inf
        return ContactSolution(
            law.reshape(-1, 3),
            after.reshape(-1, 3),
            size,
            steps,
            "solved" if size <= self.tolerance else "inaccurate",
            self.tolerance,
            after.reshape(-1, 3),
        )

    def _law(self, v: Array, gap: Array, mu: Array) -> tuple[Array, Array]:
        """Impulses (3k,) at velocities v, and their derivative (3k, 3k), block diagonal."""
        k, dt = len(mu), self.dt
        stiffness, damping = np.broadcast_to(self.stiffness, (k,)), np.broadcast_to(self.damping, (k,))
        u = v.reshape(-1, 3)
        along, speed = u[:, :2], np.hypot(u[:, 0], u[:, 1])
        reach = -dt * (gap + u[:, 2])  # depth at the end of the step
        push = dt * (stiffness * reach - damping * u[:, 2])
        pushing = (reach > 0.0) & (push > 0.0)
        normal = np.where(pushing, push, 0.0)
        slow = np.maximum(speed, self.stiction_speed)
        out = np.empty((k, 3))
        out[:, 2] = normal
        out[:, :2] = -(mu * normal / slow)[:, None] * along
        d_normal = np.where(pushing, -dt * (stiffness * dt + damping), 0.0)
        slope = np.zeros((3 * k, 3 * k))
        for i in range(k):
            block = slope[3 * i : 3 * i + 3, 3 * i : 3 * i + 3]
            d = along[i] / slow[i]
            turn = np.eye(2) - (np.outer(d, d) if speed[i] > self.stiction_speed else 0.0)
            block[:2, :2] = -(mu[i] * normal[i] / slow[i]) * turn
            block[:2, 2] = -mu[i] * d * d_normal[i]
            block[2, 2] = d_normal[i]
        return out.ravel(), slope


def _newton_step(A: Array, F: Array) -> Array | None:
    try:
        step = np.linalg.solve(A, -F)
    except np.linalg.LinAlgError:
        return None
    return np.asarray(step, dtype=np.float64) if np.isfinite(step).all() else None


def _coefficients(name: str, value: float | Array, *, positive: bool) -> Array:
    array = np.atleast_1d(value if isinstance(value, np.ndarray) else np.array(check_number(name, value)))
    if array.ndim != 1 or array.dtype.kind not in "fiu":
        raise ArgumentError(f"{name}: expected a number or one for each contact, got shape {array.shape}")
    if not (np.isfinite(array).all() and (array > 0.0 if positive else array >= 0.0).all()):
        raise ArgumentError(f"{name}: expected finite numbers, {'positive' if positive else '0 or more'}, got {value}")
    return array.astype(np.float64)
