"""Nearest points of two line segments, in restricted Python.

Source: Ericson 2005, "Real-Time Collision Detection", section 5.1.9, implemented for segments of any length, zero
included.
"""

from __future__ import annotations

import math

from ..compiler import IntMatrix, Matrix, Tensor, Vector, compiled, entry

#: Square of the sine of the angle below which two segments count as parallel.
PARALLEL_SINE_SQUARED = 1e-12


@compiled()
def clamp_to_unit(x: float) -> float:
    """Returns x clamped to [0, 1]."""
    return min(max(x, 0.0), 1.0)


@compiled(inline=False)
def nearest_segment_parameters(a: Vector, b: Vector, c: Vector, d: Vector) -> tuple[float, float]:
    """Returns s and t in [0, 1] of the nearest points of the segments ``a + s (b - a)`` and ``c + t (d - c)``."""
    uu, uw, ww, ur, wr = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(3):
        u, w, r = b[i] - a[i], d[i] - c[i], a[i] - c[i]
        uu += u * u
        uw += u * w
        ww += w * w
        ur += u * r
        wr += w * r
    if uu == 0.0 and ww == 0.0:
        return 0.0, 0.0
    if uu == 0.0:
        return 0.0, clamp_to_unit(wr / ww)
    if ww == 0.0:
        return clamp_to_unit(-ur / uu), 0.0
    parallelism = uu * ww - uw * uw
    s = 0.5
    if parallelism > PARALLEL_SINE_SQUARED * uu * ww:
        s = clamp_to_unit((uw * wr - ur * ww) / parallelism)
    t = (uw * s + wr) / ww
    if t < 0.0:
        return clamp_to_unit(-ur / uu), 0.0
    if t > 1.0:
        return clamp_to_unit((uw - ur) / uu), 1.0
    if parallelism <= PARALLEL_SINE_SQUARED * uu * ww:  # parallel: the middle of the overlap
        s = clamp_to_unit((uw * t - ur) / uu)
    return s, t


@entry("distances of capsules", release=True)
def compute_capsule_distances(ends: Tensor, radii: Vector, pairs: IntMatrix, out: Vector, points: Tensor) -> float:
    """Computes the distances of pairs of capsules and returns the smallest one [m].

    Args:
        ends: (number of capsules, 2, 3) ends of the segments [m].
        radii: (number of capsules,) radii [m].
        pairs: (number of pairs, 2) indices of capsules.
        out: (number of pairs,) distances, negative where two overlap [m]; written.
        points: (number of pairs, 2, 3) nearest points of the surfaces [m]; written.
    """
    smallest = math.inf
    for k in range(pairs.shape[0]):
        i, j = pairs[k, 0], pairs[k, 1]
        A: Matrix = ends[i]
        B: Matrix = ends[j]
        s, t = nearest_segment_parameters(A[0], A[1], B[0], B[1])
        square = 0.0
        for x in range(3):
            p, q = A[0, x] + s * (A[1, x] - A[0, x]), B[0, x] + t * (B[1, x] - B[0, x])
            points[k, 0, x] = p
            points[k, 1, x] = q
            square += (q - p) * (q - p)
        length = math.sqrt(square)
        out[k] = length - radii[i] - radii[j]
        for x in range(3):
            n = (points[k, 1, x] - points[k, 0, x]) / length if length > 0.0 else 0.0
            points[k, 0, x] += radii[i] * n
            points[k, 1, x] -= radii[j] * n
        smallest = min(smallest, out[k])
    return smallest
