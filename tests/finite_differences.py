"""Finite differences of functions of a configuration, on its manifold.

Fourth-order central differences, with steps large enough that rounding of the function does not matter.  Errors are
of the order ``step^4`` and ``eps / step`` relative to the function.
"""

from collections.abc import Callable

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from quaddyn import Robot

Array = NDArray[np.float64]

STEP = 1e-3


def derivative(f: Callable[[float], Array], step: float = STEP) -> Array:
    """df/dt at t = 0."""
    near, far = f(step) - f(-step), f(2 * step) - f(-2 * step)
    return np.asarray((8.0 * near - far) / (12.0 * step))


def second_derivative(f: Callable[[float], Array], step: float = STEP) -> Array:
    """d^2f/dt^2 at t = 0."""
    near, far = f(step) + f(-step), f(2 * step) + f(-2 * step)
    return np.asarray((16.0 * near - far - 30.0 * f(0.0)) / (12.0 * step * step))


def moved(model: pin.Model | Robot, q: Array, v: Array) -> Array:
    """The configuration reached from q with velocity v in unit time."""
    return np.asarray(model.integrate(q, v) if isinstance(model, Robot) else pin.integrate(model, q, v))


def along(
    model: pin.Model | Robot,
    f: Callable[[Array, Array], Array],
    q: Array,
    v: Array,
    a: Array | None = None,
    step: float = STEP,
) -> Array:
    """d/dt f(q(t), v(t)) at t = 0 of the motion through (q, v) with acceleration `a` (zero by default)."""
    a = np.zeros_like(v) if a is None else a
    return derivative(lambda t: f(moved(model, q, t * v + 0.5 * t * t * a), v + t * a), step)


def by_vector(f: Callable[[Array], Array], x: Array, step: float = STEP) -> Array:
    """(..., n) partial derivatives of f by the entries of a plain vector x."""
    columns = [derivative(lambda t, e=e: f(x + t * e), step) for e in np.eye(x.size)]
    return np.stack(columns, axis=-1)
