"""Gains of Cartesian controllers: validation of gains, and damping from stiffness, inertia and damping ratio."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number, check_positive, check_type
from ..robot.robot import Robot
from ..strict_attributes import ValidatedAttribute
from ..urdf.tree import Array, frozen

#: Asymmetry and negative eigenvalues of a gain up to this fraction of its norm are rounding.
ROUNDING_TOLERANCE = 1e-9
#: Largest entry of a gain; beyond, forces would overflow.
MAX_GAIN = 1e50


def as_gain_matrix(name: str, value: ArrayLike, k: int, *, definite: bool = False, n_units: int = 1) -> Array:
    """Returns a gain as a (k, k) symmetric positive semi-definite matrix, read-only.

    Args:
        name: name of the argument, for messages.
        value: a number (times the identity), (k,) the diagonal, or (k, k).
        k: number of rows of the task.
        definite: whether the matrix must be positive definite.
        n_units: number of different units of the task's rows; a single number is accepted only if it is 1.

    Raises:
        ArgumentError: another shape, an entry that is not finite, an asymmetric or indefinite matrix, or a single
            number for rows in meters and radians.
        ArgumentTypeError: a value that is not numeric.
    """
    try:
        gain = np.asarray(value)
        gain = gain.astype(np.float64) if gain.dtype.kind in "fiu" else gain
    except ValueError:  # ragged
        gain = np.asarray(None)
    if gain.dtype != np.float64:
        raise ArgumentTypeError(f"{name}: expected a number or an array of shape ({k},) or ({k}, {k}), got {value!r}")
    if gain.shape not in ((), (k,), (k, k)):
        raise ArgumentError(f"{name}: expected a number, ({k},) or ({k}, {k}), got shape {gain.shape}")
    if not np.isfinite(gain).all():
        raise ArgumentError(f"{name}: every entry must be finite, got {value!r}")
    if np.abs(gain).max(initial=0.0) > MAX_GAIN:
        raise ArgumentError(f"{name}: expected entries of magnitude at most {MAX_GAIN:g}, got {value!r}")
    if gain.ndim == 0 and n_units > 1:
        raise ArgumentError(
            f"{name}: expected shape ({k},) or ({k}, {k}), got the number {value!r}, which would apply to rows "
            "in meters and in radians alike"
        )
    if gain.ndim < 2:
        gain = np.diag(np.broadcast_to(gain, (k,)))
    largest = float(np.abs(gain).max(initial=0.0))
    if np.abs(gain - gain.T).max(initial=0.0) > ROUNDING_TOLERANCE * largest:
        raise ArgumentError(f"{name}: expected a symmetric matrix, got {value!r}")
    gain = 0.5 * (gain + gain.T)
    smallest_eigenvalue = float(np.linalg.eigvalsh(gain / largest).min()) if largest > 0.0 else 0.0
    if smallest_eigenvalue < -ROUNDING_TOLERANCE:
        raise ArgumentError(f"{name}: expected no negative eigenvalue, got {smallest_eigenvalue * largest:.3g}")
    if definite and not (largest > 0.0 and smallest_eigenvalue > ROUNDING_TOLERANCE):
        raise ArgumentError(f"{name}: expected a positive definite matrix, got {value!r}")
    return frozen(gain)


def as_gain_vector(name: str, value: ArrayLike, size: int) -> Array:
    """Returns gains as (size,) finite numbers >= 0, from a number or an array of this size.

    Raises:
        ArgumentError: another shape, or an entry that is negative or not finite.
        ArgumentTypeError: a value that is not numeric.
    """
    try:
        gain = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{name}: expected a number or {size} numbers, got {type(value).__name__}") from None
    if gain.shape not in ((), (size,)) or not np.isfinite(gain).all() or (gain < 0.0).any():
        raise ArgumentError(f"{name}: expected a number or {size} numbers, finite and not negative, got {value!r}")
    return np.broadcast_to(gain, (size,))


def check_fraction(name: str, value: object) -> float:
    """Returns `value` as a float after checking that it is between 0 and 1, both excluded.

    Raises:
        ArgumentError: it is out of range.
        ArgumentTypeError: it is not a number.
    """
    x = check_number(name, value)
    if not 0.0 < x < 1.0:
        raise ArgumentError(f"{name}: expected a fraction between 0 and 1, got {x}")
    return x


def positive_attribute(name: str, *, zero: bool = False) -> ValidatedAttribute[float, float]:
    """Returns an attribute that takes positive numbers, or also zero."""
    return ValidatedAttribute[float, float](lambda self, value: check_positive(name, value, zero=zero))


def check_robot(robot: object) -> None:
    """Raises `ArgumentTypeError` unless `robot` is a `Robot`."""
    check_type("robot", robot, Robot, "a Robot from quaddyn.load")


def compute_modal_damping(root: Array, inverse_root: Array, stiffness: Array, ratio: float) -> tuple[Array, Array]:
    """Computes the damping D that gives every mode of ``Lambda e'' + D e' + K e = 0`` the same damping ratio.

    Double diagonalization: with ``Lambda = R R^T`` and the orthogonal V of ``R^-1 K R^-T = V diag(w^2) V^T``, the modal
    coordinates ``z = V^T R^T e`` decouple both, and ``D = R V diag(2 zeta w) V^T R^T``.

    Source: Albu-Schaeffer, Ott, Frese and Hirzinger 2003, "Cartesian impedance control of redundant robots: recent
    results with the DLR-light-weight-arms", sec. IV.

    Args:
        root: (k, k) R, any square root of the inertia.
        inverse_root: (k, k) inverse of R.
        stiffness: (k, k) K, symmetric positive semi-definite [N/m, N m/rad].
        ratio: damping ratio zeta, dimensionless.

    Returns:
        D (k, k), and (k,) the undamped natural frequencies w, ascending [rad/s].
    """
    squared_frequencies, V = np.linalg.eigh(inverse_root @ stiffness @ inverse_root.T)
    w = np.sqrt(np.maximum(squared_frequencies, 0.0))
    RV = root @ V
    return np.asarray((RV * (2.0 * ratio * w)) @ RV.T), w
