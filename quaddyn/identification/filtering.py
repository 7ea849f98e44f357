"""From logs to samples: noise taken out without delay, accelerations from velocities.

Source: Gautier, *Dynamic identification of robots with power model*, 1997, section 4: everything that enters the
regression passes through the same zero-phase low-pass, so that the filter cancels out of ``y = H beta``.
"""

from __future__ import annotations

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number
from ..urdf.tree import Array


def low_pass(x: Array, *, dt: float, cutoff: float, order: int = 4) -> Array:
    """Filters signals by a zero-phase low-pass.

    Each column is extended at both ends by its point reflection, and its spectrum is divided by
    ``1 + (f / cutoff)^(2 order)``: a Butterworth filter of that order, run forwards and backwards.

    Args:
        x: (N, n) signals in any unit, equally spaced in time, N of at least 5.
        dt: time between samples [s].
        cutoff: frequency at which half of the amplitude is left [Hz]; above that of the motion, below half of the
            sampling rate.
        order: order of the filter, 1 to 50, dimensionless.

    Returns:
        (N, n) filtered signals.

    Raises:
        ArgumentError: an argument of another shape, not finite, or out of range.
    """
    _check("x", x, dt)
    if not (0.0 < check_number("cutoff", cutoff) < 0.5 / dt):
        raise ArgumentError(f"cutoff: expected a frequency in (0, {0.5 / dt:g}) Hz, half of the rate, got {cutoff}")
    if not 1.0 <= check_number("order", order) <= 50.0:
        raise ArgumentError(f"order: expected 1 to 50, got {order}")
    n = len(x)
    mirrored = np.concatenate([2.0 * x[0] - x[:0:-1], x, 2.0 * x[-1] - x[-2::-1]])
    spectrum = np.fft.rfft(mirrored, axis=0)
    f = np.fft.rfftfreq(len(mirrored), dt)
    with np.errstate(over="ignore"):  # frequencies far above the cutoff are divided by infinity
        gain = 1.0 / (1.0 + (f / cutoff) ** (2 * order))
    passed = np.fft.irfft(spectrum * gain[:, None], len(mirrored), axis=0)
    return np.ascontiguousarray(passed[n - 1 : 2 * n - 1])


def accelerations(v: Array, *, dt: float) -> Array:
    """Differentiates velocities by central differences, of fourth order away from the ends.

    It also holds for a free root: Pinocchio's acceleration is the derivative of v by components.

    Args:
        v: (N, nv) velocities [rad/s, m/s], equally spaced in time; measured ones should be filtered by `low_pass`
            first.  N of at least 5.
        dt: time between samples [s].

    Returns:
        (N, nv) accelerations [rad/s^2, m/s^2].

    Raises:
        ArgumentError: an argument of another shape, not finite, or out of range.
    """
    _check("v", v, dt)
    a = np.gradient(v, dt, axis=0, edge_order=2)
    a[2:-2] = (8.0 * (v[3:-1] - v[1:-3]) - (v[4:] - v[:-4])) / (12.0 * dt)
    return np.asarray(a)


def _check(name: str, x: Array, dt: float) -> None:
    """Raises an error unless x is a float64 array (N, n) of finite samples and dt is positive [s]."""
    if not isinstance(x, np.ndarray) or x.dtype != np.float64:
        raise ArgumentTypeError(f"{name}: expected a float64 array of shape (N, n), got {type(x).__name__}")
    if x.ndim != 2 or len(x) < 5:
        raise ArgumentError(f"{name}: expected shape (N, n) with at least 5 samples N, got {x.shape}")
    if not np.isfinite(x).all():
        raise ArgumentError(f"{name}: expected finite entries, got NaN or infinity")
    if not 0.0 < check_number("dt", dt) < np.inf:
        raise ArgumentError(f"dt: expected a positive time [s], got {dt}")
