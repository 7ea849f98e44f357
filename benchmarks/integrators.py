"""Integrators of joint motion, for experiments and tests.

Coordinates are vectors (joints of fixed-base chains without quaternions).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Function (q, v) -> joint acceleration (n,) [rad/s^2].
Acceleration = Callable[[Array, Array], Array]


@dataclass(frozen=True, eq=False)
class Motion:
    """Sampled motion: times `t` (k,) [s], coordinates `q` (k, n) [rad] and velocities `v` (k, n) [rad/s]."""

    t: Array
    q: Array
    v: Array


def clock(dt: float, steps: int) -> Array:
    """Returns the times (steps + 1,) of a motion with constant step [s]."""
    return np.linspace(0.0, dt * steps, steps + 1)


#: Function (q, v) -> (q, v) at the end of a step.
Step = Callable[[Array, Array], tuple[Array, Array]]


def semi_implicit_euler(acceleration: Acceleration, q: Array, v: Array, *, dt: float, steps: int) -> Motion:
    """Integrates by semi-implicit Euler, of order 1: ``v+ = v + dt a(q, v)``, then ``q+ = q + dt v+``.

    The method is symplectic if the mass matrix is constant, which is not the case for a chain.

    Source: Hairer, Lubich, Wanner, *Geometric Numerical Integration*, 2006, eq. I.1.9.

    Args:
        acceleration: acceleration of the joints.
        q: initial coordinates (n,) [rad].
        v: initial velocities (n,) [rad/s].
        dt: step [s].
        steps: number of steps.
    """

    def step(q: Array, v: Array) -> tuple[Array, Array]:
        v = v + dt * acceleration(q, v)
        return q + dt * v, v

    return _repeat_step(step, q, v, dt, steps)


def rk4(acceleration: Acceleration, q: Array, v: Array, *, dt: float, steps: int) -> Motion:
    """Integrates by the classical Runge-Kutta method, of order 4.

    Source: Hairer, Norsett, Wanner, *Solving Ordinary Differential Equations I*, 1993, table II.1.2.

    Args:
        acceleration: acceleration of the joints.
        q: initial coordinates (n,) [rad].
        v: initial velocities (n,) [rad/s].
        dt: step [s].
        steps: number of steps.
    """

    def derivative(x: Array) -> Array:
        return np.stack([x[1], acceleration(x[0], x[1])])

    def step(q: Array, v: Array) -> tuple[Array, Array]:
        x = np.stack([q, v])
        k1 = derivative(x)
        k2 = derivative(x + 0.5 * dt * k1)
        k3 = derivative(x + 0.5 * dt * k2)
        k4 = derivative(x + dt * k3)
        x = x + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        return x[0], x[1]

    return _repeat_step(step, q, v, dt, steps)


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
    """Integrates by the variational midpoint rule, of order 2 and symplectic: the energy error stays bounded.

    The discrete Lagrangian ``dt L(q_mid, v_mid)``, with ``q_mid = q + dt/2 v_mid``, has the momenta
    ``p = M(q_mid) v_mid - dt/2 f`` before and ``p+ = M(q_mid) v_mid + dt/2 f`` after the step, ``f = dL/dq`` at the
    midpoint: the implicit midpoint rule in (q, p).  The first equation is solved for ``v_mid`` by iterations, each of
    which reduces the error by a factor of about ``dt |v|``.

    Source: Marsden, West, *Discrete mechanics and variational integrators*, Acta Numerica 2001, section 2.6.1.

    Args:
        inertia: function q -> M (n, n).
        force: function (q, v) -> dL/dq (n,) ``= d/dq (1/2 v^T M v) - gravity term``.
        q: initial coordinates (n,) [rad].
        v: initial velocities (n,) [rad/s].
        dt: step [s].
        steps: number of steps.
        tolerance: residual of p below which the iteration ends, relative to ``|M| |v_mid|``.

    Raises:
        ArithmeticError: The iteration does not converge in 50 rounds, since the step is too long.
    """

    def step(q: Array, v: Array) -> tuple[Array, Array]:
        p, v_middle = inertia(q) @ v, v
        for _ in range(50):
            q_middle = q + 0.5 * dt * v_middle
            M, f = inertia(q_middle), force(q_middle, v_middle)
            residual = p + 0.5 * dt * f - M @ v_middle
            if np.abs(residual).max() <= tolerance * (np.abs(M) @ np.abs(v_middle)).max():
                q_next = q + dt * v_middle
                return q_next, np.asarray(np.linalg.solve(inertia(q_next), p + dt * f), dtype=float)
            v_middle = v_middle + np.linalg.solve(M, residual)
        raise ArithmeticError(f"variational midpoint: no convergence with dt = {dt} s")

    return _repeat_step(step, q, v, dt, steps)


#: Number of substeps for each row of the extrapolation table; eight rows give order 16.
SUBSTEPS = (2, 4, 6, 8, 10, 12, 14, 16)


def extrapolation(acceleration: Acceleration, q: Array, v: Array, *, times: Array, tolerance: float = 1e-13) -> Motion:
    """Integrates by the Gragg-Bulirsch-Stoer method, of order 16: Gragg's midpoint rule, extrapolated to step zero.

    The result is used as the exact motion.  The steps are adapted so that the last two columns of the table agree to
    `tolerance`, and so that they end at each of `times`.

    Source: Hairer, Norsett, Wanner, *Solving Ordinary Differential Equations I*, 1993, section II.9.

    Args:
        acceleration: acceleration of the joints.
        q: initial coordinates (n,) [rad].
        v: initial velocities (n,) [rad/s].
        times: times of the samples (k,), increasing, the first one is the start [s].
        tolerance: error of a step, relative to the maximum of 1 and the largest coordinate and velocity so far.

    Raises:
        ArithmeticError: The step falls below 1e-12 s.
    """

    def derivative(x: Array) -> Array:
        return np.stack([x[1], acceleration(x[0], x[1])])

    def extrapolate_step(x: Array, h: float) -> tuple[Array, float]:
        row: list[Array] = []
        for j, n in enumerate(SUBSTEPS):
            step = h / n
            previous, current = x, x + step * derivative(x)
            for _ in range(n - 1):
                previous, current = current, previous + 2.0 * step * derivative(current)
            previous_row, row = row, [current]
            for k in range(1, j + 1):
                ratio = (n / SUBSTEPS[j - k]) ** 2
                row.append(row[-1] + (row[-1] - previous_row[k - 1]) / (ratio - 1.0))
        return row[-1], float(np.abs(row[-1] - row[-2]).max())

    x, t, h = np.stack([q, v]), float(times[0]), float(times[-1] - times[0]) / 100.0
    samples, scale = [x], max(1.0, float(np.abs(x).max()))
    for sample_time in times[1:]:
        while t < sample_time:
            length = min(h, sample_time - t)
            result, error = extrapolate_step(x, length)
            ratio = error / (tolerance * scale)
            h = length * min(4.0, 0.9 * max(ratio, 1e-12) ** (-1.0 / (2 * len(SUBSTEPS) - 1)))
            if ratio <= 1.0:
                x, t = result, (sample_time if length == sample_time - t else t + length)
                scale = max(scale, float(np.abs(x).max()))
            elif h < 1e-12:
                raise ArithmeticError(f"extrapolation: tolerance {tolerance} is out of reach at t = {t} s")
        samples.append(x)
    states = np.stack(samples)
    return Motion(np.asarray(times), states[:, 0], states[:, 1])


def _repeat_step(step: Step, q: Array, v: Array, dt: float, steps: int) -> Motion:
    """Applies a step function repeatedly and returns the motion."""
    qs, vs = np.empty((steps + 1, q.size)), np.empty((steps + 1, v.size))
    qs[0], vs[0] = q, v
    for k in range(steps):
        qs[k + 1], vs[k + 1] = step(qs[k], vs[k])
    return Motion(clock(dt, steps), qs, vs)
