"""Integrators of joint motion, for experiments and tests: one copy of each.

Coordinates here are plain vectors that can be added: joints of fixed-base chains, no quaternions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: (q, v) -> joint acceleration (n,) [rad/s^2].
Acceleration = Callable[[Array, Array], Array]


@dataclass(frozen=True, eq=False)
class Motion:
    """A motion sampled in time: `t` (k,) [s], `q` (k, n) [rad], `v` (k, n) [rad/s]."""

    t: Array
    q: Array
    v: Array


def clock(dt: float, steps: int) -> Array:
    """(steps + 1,) the times of a motion [s]."""
    return np.linspace(0.0, dt * steps, steps + 1)


Step = Callable[[Array, Array], tuple[Array, Array]]


def semi_implicit_euler(acceleration: Acceleration, q: Array, v: Array, *, dt: float, steps: int) -> Motion:
    """First order: ``v+ = v + dt a(q, v)``, then ``q+ = q + dt v+``.

    Symplectic where the inertia is constant, which a chain's is not.

    Source: Hairer, Lubich, Wanner, *Geometric Numerical Integration*, 2006, eq. I.1.9.

    Args:
        acceleration: of the joints.
        q: (n,) where the motion starts [rad].
        v: (n,) its velocity there [rad/s].
        dt: step [s].
        steps: number of steps.
    """

    def step(q: Array, v: Array) -> tuple[Array, Array]:
        v = v + dt * acceleration(q, v)
        return q + dt * v, v

    return _march(step, q, v, dt, steps)


def rk4(acceleration: Acceleration, q: Array, v: Array, *, dt: float, steps: int) -> Motion:
    """Fourth order: the classical Runge-Kutta method (Hairer, Norsett, Wanner, *Solving ODEs I*, 1993, table II.1.2).

    Args:
        acceleration: of the joints.
        q: (n,) where the motion starts [rad].
        v: (n,) its velocity there [rad/s].
        dt: step [s].
        steps: number of steps.
    """

    def slope(x: Array) -> Array:
        return np.stack([x[1], acceleration(x[0], x[1])])

    def step(q: Array, v: Array) -> tuple[Array, Array]:
        x = np.stack([q, v])
        k1 = slope(x)
        k2 = slope(x + 0.5 * dt * k1)
        k3 = slope(x + 0.5 * dt * k2)
        k4 = slope(x + dt * k3)
        x = x + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        return x[0], x[1]

    return _march(step, q, v, dt, steps)


def variational_midpoint(
    inertia: Callable[[Array], Array],
    force: Callable[[Array, Array], Array],
    q: Array,
    v: Array,
    *,
    dt: float,
    steps: int,
    tolerance: float = 1e-13,
) -> Motion:
    """Second order, symplectic: the energy error stays bounded however long the motion.

    The discrete Lagrangian ``dt L(q_mid, v_mid)``, with ``q_mid = q + dt/2 v_mid``, has the momenta
    ``p = M(q_mid) v_mid - dt/2 f`` before and ``p+ = M(q_mid) v_mid + dt/2 f`` after the step, ``f = dL/dq`` at the
    middle: the implicit midpoint rule in (q, p).  ``v_mid`` is found by iterating the first of these, which contracts
    by about ``dt |v|`` a round.

    Source: Marsden, West, *Discrete mechanics and variational integrators*, Acta Numerica 2001, section 2.6.1.

    Args:
        inertia: q -> M (n, n).
        force: (q, v) -> dL/dq (n,) ``= d/dq (1/2 v^T M v) - gravity term``.
        q: (n,) where the motion starts [rad].
        v: (n,) its velocity there [rad/s].
        dt: step [s].
        steps: number of steps.
        tolerance: largest residual of p at which the iteration ends, relative to ``|M| |v_mid|``.

    Raises:
        ArithmeticError: no convergence in 50 rounds: the step is too long.
    """

    def step(q: Array, v: Array) -> tuple[Array, Array]:
        p, middle = inertia(q) @ v, v
        for _ in range(50):
            q_middle = q + 0.5 * dt * middle
            M, f = inertia(q_middle), force(q_middle, middle)
            residual = p + 0.5 * dt * f - M @ middle
            if np.abs(residual).max() <= tolerance * (np.abs(M) @ np.abs(middle)).max():
                q_next = q + dt * middle
                return q_next, np.asarray(np.linalg.solve(inertia(q_next), p + dt * f), dtype=float)
            middle = middle + np.linalg.solve(M, residual)
        raise ArithmeticError(f"variational midpoint: no convergence with dt = {dt} s")

    return _march(step, q, v, dt, steps)


#: Substeps of the rows of an extrapolation table: order 16 with eight of them.
SUBSTEPS = (2, 4, 6, 8, 10, 12, 14, 16)


def extrapolation(acceleration: Acceleration, q: Array, v: Array, *, times: Array, tolerance: float = 1e-13) -> Motion:
    """Order 16, adaptive: Gragg's midpoint rule, extrapolated to step zero (Gragg, Bulirsch, Stoer).

    It stands for the exact motion.  Steps are chosen so that the last two columns of the table agree to `tolerance`,
    and land on every one of `times`.

    Source: Hairer, Norsett, Wanner, *Solving Ordinary Differential Equations I*, 1993, section II.9.

    Args:
        acceleration: of the joints.
        q: (n,) where the motion starts [rad].
        v: (n,) its velocity there [rad/s].
        times: (k,) when to record it, increasing from the start [s].
        tolerance: error of one step, relative to the largest coordinate and velocity so far, at least 1.

    Raises:
        ArithmeticError: the step became smaller than rounding.
    """

    def slope(x: Array) -> Array:
        return np.stack([x[1], acceleration(x[0], x[1])])

    def table(x: Array, h: float) -> tuple[Array, float]:
        row: list[Array] = []
        for j, n in enumerate(SUBSTEPS):
            step = h / n
            before, now = x, x + step * slope(x)
            for _ in range(n - 1):
                before, now = now, before + 2.0 * step * slope(now)
            above, row = row, [now]
            for k in range(1, j + 1):
                ratio = (n / SUBSTEPS[j - k]) ** 2
                row.append(row[-1] + (row[-1] - above[k - 1]) / (ratio - 1.0))
        return row[-1], float(np.abs(row[-1] - row[-2]).max())

    x, t, h = np.stack([q, v]), float(times[0]), float(times[-1] - times[0]) / 100.0
    samples, scale = [x], max(1.0, float(np.abs(x).max()))
    for goal in times[1:]:
        while t < goal:
            length = min(h, goal - t)
            result, error = table(x, length)
            ratio = error / (tolerance * scale)
            h = length * min(4.0, 0.9 * max(ratio, 1e-12) ** (-1.0 / (2 * len(SUBSTEPS) - 1)))
            if ratio <= 1.0:
                x, t = result, (goal if length == goal - t else t + length)
                scale = max(scale, float(np.abs(x).max()))
            elif h < 1e-12:
                raise ArithmeticError(f"extrapolation: tolerance {tolerance} is out of reach at t = {t} s")
        samples.append(x)
    states = np.stack(samples)
    return Motion(np.asarray(times), states[:, 0], states[:, 1])


def _march(step: Step, q: Array, v: Array, dt: float, steps: int) -> Motion:
    qs, vs = np.empty((steps + 1, q.size)), np.empty((steps + 1, v.size))
    qs[0], vs[0] = q, v
    for k in range(steps):
        qs[k + 1], vs[k + 1] = step(qs[k], vs[k])
    return Motion(clock(dt, steps), qs, vs)
