"""Exact derivatives by the complex step.

For f analytic, ``f(x + i h) = f(x) + i h f'(x) + O(h^2)``: the imaginary part divided by h is the derivative without
any subtraction, so that h may be tiny and the result is exact to rounding (Squire and Trapp 1998; Martins, Sturdza and
Alonso 2003).  Every function of this subpackage accepts complex numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .aba import aba
from .algebra import Array
from .configuration import integrate
from .kinematics import place_bodies
from .model import Model
from .rnea import rnea

COMPLEX_STEP = 1e-30


def derivative_along(model: Model, f: Callable[[Array], Array], q: Array, v: Array) -> Array:
    """Returns d/dt f(q(t)) for a motion through `q` (nq,) with velocity `v` (nv,)."""
    return np.asarray(f(integrate(model, q, 1j * COMPLEX_STEP * v)).imag / COMPLEX_STEP)


def derivatives_by_configuration(model: Model, f: Callable[[Array], Array], q: Array) -> Array:
    """Returns the derivatives (..., nv) of f along each tangent direction of `q` (nq,)."""
    return np.stack([derivative_along(model, f, q, e) for e in np.eye(model.nv)], axis=-1)


def derivatives_by_vector(f: Callable[[Array], Array], x: Array) -> Array:
    """Returns the derivatives (..., n) of f with respect to the entries of a vector `x` (n,)."""
    return np.stack([f(x + 1j * COMPLEX_STEP * e).imag / COMPLEX_STEP for e in np.eye(x.size)], axis=-1)


def rnea_derivatives(model: Model, q: Array, v: Array, a: Array) -> tuple[Array, Array, Array]:
    """Returns the derivatives (nv, nv) of ``tau = rnea(q, v, a)`` with respect to q (tangent), v and a."""
    at = place_bodies(model, q)
    return (
        derivatives_by_configuration(model, lambda x: rnea(place_bodies(model, x), v, a), q),
        derivatives_by_vector(lambda x: rnea(at, x, a), v),
        derivatives_by_vector(lambda x: rnea(at, v, x), a),
    )


def aba_derivatives(model: Model, q: Array, v: Array, tau: Array) -> tuple[Array, Array, Array]:
    """Returns the derivatives (nv, nv) of ``ddq = aba(q, v, tau)`` with respect to q (tangent), v and tau."""
    at = place_bodies(model, q)
    return (
        derivatives_by_configuration(model, lambda x: aba(place_bodies(model, x), v, tau), q),
        derivatives_by_vector(lambda x: aba(at, x, tau), v),
        derivatives_by_vector(lambda x: aba(at, v, x), tau),
    )
