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
FUNCTIONS = {"atan2": atan2}
