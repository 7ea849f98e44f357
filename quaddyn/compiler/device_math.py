"""Functions of the C library that GPUs do not have, in restricted Python; compiled."""

from __future__ import annotations

import math

from .compilation_units import compiled

#: pi / 4 and pi / 2 as sums of a number and the rest of its rounding.
_QUARTER_PI, _QUARTER_PI_REST = 0.7853981633974483, 3.061616997868383e-17
_HALF_PI, _HALF_PI_REST = 1.5707963267948966, 6.123233995736766e-17
#: tan(pi / 8): the series of the arc tangent is used up to here.
_MAX_SERIES_ARGUMENT = 0.41421356237309503
_SERIES_TERMS = 21
#: pi / 2 as a sum of two numbers of 33 bits, whose products with a number of 20 bits are exact, and the rest.
_HALF_PI_1, _HALF_PI_2, _HALF_PI_3 = 1.57079632673412561417, 6.07710050630396597660e-11, 2.02226624879595063154e-21
#: Largest angle of which sine and cosine are computed [rad].
_MAX_ANGLE = 1e6


@compiled(inline=False)
def sin(x: float) -> float:
    """Returns the sine of an angle [rad] within two units of the last place; NaN beyond 1e6 rad.

    Source: Moshier, *Methods and Programs for Mathematical Functions*, 1989 (Cephes).
    """
    return _sine_of_quarters(x, 0)


@compiled(inline=False)
def cos(x: float) -> float:
    """Returns the cosine of an angle [rad]; accuracy and range as for `sin`."""
    return _sine_of_quarters(x, 1)


@compiled(inline=False)
def _sine_of_quarters(x: float, quarters: int) -> float:
    """Returns the sine of ``x + quarters pi / 2``."""
    if not abs(x) <= _MAX_ANGLE:
        return math.nan
    k = math.floor(x / (2.0 * _QUARTER_PI) + 0.5)
    r = x - k * _HALF_PI_1
    r -= k * _HALF_PI_2
    r -= k * _HALF_PI_3
    z, quarter, out = r * r, (int(k) + quarters) % 4, 0.0
    if quarter % 2 == 0:
        out = 1.58962301576546568060e-10
        out = out * z - 2.50507477628578072866e-8
        out = out * z + 2.75573136213857245213e-6
        out = out * z - 1.98412698295895385996e-4
        out = out * z + 8.33333333332211858878e-3
        out = out * z - 1.66666666666666307295e-1
        out = r + r * z * out
    else:
        out = -1.13585365213876817300e-11
        out = out * z + 2.08757008419747316778e-9
        out = out * z - 2.75573141792967388112e-7
        out = out * z + 2.48015872888517045348e-5
        out = out * z - 1.38888888888730564116e-3
        out = out * z + 4.16666666666665929218e-2
        out = 1.0 - 0.5 * z + z * z * out
    return -out if quarter >= 2 else out


@compiled(inline=False)
def atan2(y: float, x: float) -> float:
    """Returns the angle of the vector (x, y) in [-pi, pi], within two units of the last place.

    NaN for an argument that is not finite, unlike `math.atan2`.
    """
    if not (math.isfinite(x) and math.isfinite(y)):
        return math.nan
    a, b = abs(y), abs(x)
    angle, rest, t = 0.0, 0.0, 0.0
    if a > b:  # the angle from the other axis
        a, b = b, a
    if b > 0.0:
        t = a / b
    if t > _MAX_SERIES_ARGUMENT:
        angle, rest = _QUARTER_PI, _QUARTER_PI_REST
        t = (a - b) / (a + b)
    square, series = t * t, 0.0
    for k in range(_SERIES_TERMS, 0, -1):
        series = (1.0 / (1.0 - 2.0 * (k % 2)) / (2.0 * k + 1.0) + series) * square
    rest += t * series
    rest += t
    if abs(y) > abs(x):
        angle, rest = _HALF_PI - angle, _HALF_PI_REST - rest
    if x < 0.0 or (x == 0.0 and math.copysign(1.0, x) < 0.0):
        angle, rest = 2.0 * _HALF_PI - angle, 2.0 * _HALF_PI_REST - rest
    return math.copysign(angle + rest, y)


#: Functions by their names in the C library.
FUNCTIONS = {"atan2": atan2, "sin": sin, "cos": cos}
