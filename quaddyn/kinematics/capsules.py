"""`Capsule`: capsules that contain collision shapes, with a bound of how far they extend beyond the shapes.

A capsule is the set of all points within `radius` of a segment; a sphere is a capsule whose segment is a point.  A box
is covered by parallel capsules, a mesh by one capsule about the convex hull of its vertices or by those of its bounding
box.  `Capsule.overapproximation` is the largest distance of a point of the capsule from the shape: for convex bodies
``max over u of h_C(u) - h_H(u)``, with h the support functions (Schneider 2014, "Convex Bodies", section 1.8).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..robot.mesh_vertices import read_vertices
from ..urdf.tree import Array, BoxShape, CylinderShape, FrozenArrays, Shape, SphereShape, frozen
from ..urdf.tree import CapsuleShape as CapsuleShape

#: Maximum number of parallel capsules about a box.
MAX_STRIPS = 4
#: Relative enlargement of computed radii and overapproximations, for rounding and the tolerance of coal.
ROUNDING_ENLARGEMENT = 1e-6
#: Number of directions in which the overapproximation of a mesh is evaluated, and the factor by which it is enlarged.
N_DIRECTIONS, OVERAPPROXIMATION_SAFETY = 2000, 1.02


@dataclass(frozen=True, slots=True, eq=False)
class Capsule(FrozenArrays):
    """A capsule that is fixed to a body.

    Attributes:
        link: name of the link whose shape it contains.
        body: name of the body, of ``robot.bodies``, in whose frame `ends` are given.
        ends: (2, 3) ends of the segment, in the body's frame [m].
        radius: radius [m].
        overapproximation: largest distance of a point of the capsule from the shape [m].
    """

    link: str
    body: str
    ends: Array
    radius: float
    overapproximation: float


def fit_capsules(shape: Shape) -> Iterator[tuple[Array, float, float]]:
    """Yields capsules that cover a shape: ends (2, 3) in its frame, radius and overapproximation [m].

    An unreadable mesh has none.
    """
    if isinstance(shape, SphereShape):
        yield np.zeros((2, 3)), shape.radius, 0.0
    elif isinstance(shape, CapsuleShape):
        yield _axis_segment(2, 0.5 * shape.length), shape.radius, 0.0
    elif isinstance(shape, CylinderShape):
        yield _cover_cylinder(shape.radius, 0.5 * shape.length)
    elif isinstance(shape, BoxShape):
        yield from cover_box(np.array(shape.size))
    else:
        points = None if shape.path is None else read_vertices(shape.path)
        if points is not None and len(points):
            yield from _cover_mesh(np.unique(points * np.array(shape.scale), axis=0))


def cover_box(size: Array) -> Iterator[tuple[Array, float, float]]:
    """Yields parallel capsules that cover a box about the origin: as many as make them slim, at most `MAX_STRIPS`."""
    order = np.argsort(-size, kind="stable")
    a, b, c = (0.5 * size[order]).tolist()
    # strips of the second side about as wide as the third side is thick
    n_strips = min(MAX_STRIPS, max(1, math.ceil(b / max(c, 1e-9) - 1e-9)))
    half_width = b / n_strips
    corner = math.hypot(half_width, c)
    best: tuple[float, float, float] = (np.inf, 0.0, 0.0)
    for inset in np.linspace(0.0, min(a, corner), 21).tolist():  # distance of the segment's ends from the faces
        radius = math.hypot(corner, inset)
        best = min(best, (radius - min(inset, half_width, c), radius, inset))
    overapproximation, radius, inset = best
    for k in range(n_strips):
        ends = np.zeros((2, 3))
        ends[:, order[1]] = -b + (2 * k + 1) * half_width
        ends[:, order[0]] = -(a - inset), a - inset
        yield ends, radius, overapproximation


def _axis_segment(axis: int, half: float) -> Array:
    """Returns the ends (2, 3) of a segment on a coordinate axis, symmetric about the origin [m]."""
    ends = np.zeros((2, 3))
    ends[:, axis] = -half, half
    return ends


def _cover_cylinder(r: float, half: float) -> tuple[Array, float, float]:
    """Returns the capsule about a cylinder along z with the smallest overapproximation.

    If the segment ends t inside the cylinder, the radius rho satisfies ``rho^2 = r^2 + t^2``; the overapproximation is
    least at t = r.
    """
    t = min(r, half)
    radius = math.hypot(r, t)
    return _axis_segment(2, half - t), radius, radius - t


def _cover_mesh(points: Array) -> Iterator[tuple[Array, float, float]]:
    """Yields one capsule about the points, or those of their bounding box, whichever extends less beyond the hull."""
    centered = points - points.mean(axis=0)
    frames = [np.eye(3), np.linalg.svd(centered, full_matrices=False)[2] if len(points) >= 3 else np.eye(3)]
    candidates: list[tuple[float, list[tuple[Array, float, float]]]] = []
    for R in frames:  # rows are the axes
        local = points @ R.T
        low, high = local.min(axis=0), local.max(axis=0)
        boxes = [(ends + 0.5 * (low + high)) @ R for ends, _, _ in cover_box(high - low)]
        radius = next(r for _, r, _ in cover_box(high - low))
        candidates.append(_measure_overapproximation([(ends, radius) for ends in boxes], points))
        candidates += [_measure_overapproximation([_enclose_along_axis(local, axis, R)], points) for axis in range(3)]
    yield from min(candidates, key=lambda each: each[0])[1]


def _enclose_along_axis(local: Array, axis: int, R: Array) -> tuple[Array, float]:
    """Returns the capsule along an axis that contains points and extends least beyond them at its ends and sides."""
    z, flat = local[:, axis], np.delete(local, axis, axis=1)
    center = flat.mean(axis=0)
    for k in range(200):  # nearly the smallest circle about them (Badoiu, Clarkson 2003)
        farthest = flat[np.argmax(((flat - center) ** 2).sum(axis=1))]
        center = center + (farthest - center) / (k + 2.0)
    rho = np.sqrt(((flat - center) ** 2).sum(axis=1))
    best: tuple[float, float, float, float] = (np.inf, 0.0, 0.0, 0.0)
    length = float(z.max() - z.min())
    for radius in np.linspace(float(rho.max()), math.hypot(float(rho.max()), 0.5 * length), 25).tolist():
        half_chord = np.sqrt(np.maximum(radius**2 - rho**2, 0.0))
        top, bottom = float((z - half_chord).max()), float((z + half_chord).min())
        if top < bottom:
            top = bottom = 0.5 * (top + bottom)
        excess = max(top + radius - z.max(), z.min() - bottom + radius, radius - rho.max())
        best = min(best, (float(excess), radius, bottom, top))
    _, radius, bottom, top = best
    ends = np.insert(np.stack((center, center)), axis, (bottom, top), axis=1)
    # The radius is enlarged where rounding or the search left points outside.
    offset = local - ends[0]
    u = ends[1] - ends[0]
    s = np.clip(offset @ u / max(float(u @ u), 1e-300), 0.0, 1.0)
    radius = max(radius, float(np.linalg.norm(offset - s[:, None] * u, axis=1).max()))
    return ends @ R, radius


def _measure_overapproximation(
    capsules: list[tuple[Array, float]], points: Array
) -> tuple[float, list[tuple[Array, float, float]]]:
    """Returns the largest overapproximation of the hull of points by capsules [m], and the capsules with theirs."""
    u = _sphere_directions(N_DIRECTIONS)
    hull = (u @ points.T).max(axis=1)
    results = []
    for ends, radius in capsules:
        radius *= 1.0 + ROUNDING_ENLARGEMENT
        excess = (u @ ends.T).max(axis=1) + radius - hull
        overapproximation = float(excess.max())
        best_direction, width = u[int(excess.argmax())], 0.1
        rng = np.random.default_rng(0)
        for _ in range(12):  # the maximum lies between directions
            candidates = best_direction + width * rng.normal(size=(60, 3))
            candidates /= np.linalg.norm(candidates, axis=1, keepdims=True)
            values = (candidates @ ends.T).max(axis=1) + radius - (candidates @ points.T).max(axis=1)
            if values.max() > overapproximation:
                overapproximation, best_direction = float(values.max()), candidates[int(values.argmax())]
            width *= 0.6
        results.append((ends, radius, OVERAPPROXIMATION_SAFETY * max(overapproximation, 0.0)))
    return max(overapproximation for _, _, overapproximation in results), results


def _sphere_directions(count: int) -> Array:
    """Returns unit vectors (count, 3), evenly distributed (Fibonacci's spiral)."""
    k = np.arange(count) + 0.5
    z, azimuth = 1.0 - 2.0 * k / count, math.pi * (1.0 + math.sqrt(5.0)) * k
    r = np.sqrt(1.0 - z * z)
    return np.stack((r * np.cos(azimuth), r * np.sin(azimuth), z), axis=1)


def transform_ends(ends: Array, rotation: Array, translation: Array) -> Array:
    """Returns the ends of a segment in another frame, read-only."""
    return frozen(ends @ rotation.T + translation)
