"""`Capsule`: conservative capsules about collision shapes, each with how far it goes beyond its shape.

A capsule is all points within `radius` of a segment; a sphere is one whose segment is a point.  Boxes are covered by
parallel capsules, meshes by one about the convex hull of their vertices, or by those of their bounding box.  `excess`
is the largest distance of a point of the capsule from the shape: for convex bodies ``max over u of h_C(u) - h_H(u)``,
h the support functions (Schneider 2014, "Convex Bodies", section 1.8).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..robot.mesh_vertices import read_vertices
from ..urdf.tree import Array, BoxShape, CylinderShape, FrozenArrays, Shape, SphereShape, frozen
from ..urdf.tree import CapsuleShape as CapsuleShape

#: Most parallel capsules about a box.
MAX_STRIPS = 4
#: Relative enlargement of fitted radii and excesses over what was computed, for rounding and for coal's own tolerance.
ROUNDING_ENLARGEMENT = 1e-6
#: Directions in which the excess over a mesh is examined, and by how much it is then enlarged.
N_DIRECTIONS, OVERAPPROXIMATION_SAFETY = 2000, 1.02


@dataclass(frozen=True, slots=True, eq=False)
class Capsule(FrozenArrays):
    """A capsule fixed to a body.

    Attributes:
        link: whose shape it covers.
        body: name of the frame that it is given in, of ``robot.bodies``.
        ends: (2, 3) of its segment, in that frame [m].
        radius: [m].
        excess: largest distance of its points from the shape [m].
    """

    link: str
    body: str
    ends: Array
    radius: float
    overapproximation: float


def fit_capsules(shape: Shape) -> Iterator[tuple[Array, float, float]]:
    """Capsules that cover a shape: ends (2, 3) in its frame, radius, excess; none for a mesh that cannot be read."""
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
    """Parallel capsules about a box about the origin: as many as make them slim, `STRIPS` at most."""
    order = np.argsort(-size, kind="stable")
    a, b, c = (0.5 * size[order]).tolist()
    # strips of the second side as wide as the third is thick
    across = min(MAX_STRIPS, max(1, math.ceil(b / max(c, 1e-9) - 1e-9)))
    half = b / across
    corner = math.hypot(half, c)
    best: tuple[float, float, float] = (np.inf, 0.0, 0.0)
    for inset in np.linspace(0.0, min(a, corner), 21).tolist():  # by which the segment ends inside
        radius = math.hypot(corner, inset)
        best = min(best, (radius - min(inset, half, c), radius, inset))
    overapproximation, radius, inset = best
    for k in range(across):
        ends = np.zeros((2, 3))
        ends[:, order[1]] = -b + (2 * k + 1) * half
        ends[:, order[0]] = -(a - inset), a - inset
        yield ends, radius, overapproximation


def _axis_segment(axis: int, half: float) -> Array:
    ends = np.zeros((2, 3))
    ends[:, axis] = -half, half
    return ends


def _cover_cylinder(r: float, half: float) -> tuple[Array, float, float]:
    """About a cylinder along z: ``rho^2 = r^2 + t^2`` with its ends t inside; the excess is least at t = r."""
    t = min(r, half)
    radius = math.hypot(r, t)
    return _axis_segment(2, half - t), radius, radius - t


def _cover_mesh(points: Array) -> Iterator[tuple[Array, float, float]]:
    """One capsule about the points, or those of their bounding box, whichever goes beyond the hull by less."""
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
    """The capsule along an axis about points, by what it goes beyond them at its ends and its sides."""
    z, flat = local[:, axis], np.delete(local, axis, axis=1)
    center = flat.mean(axis=0)
    for k in range(200):  # the smallest circle about them, nearly (Badoiu, Clarkson 2003)
        far = flat[np.argmax(((flat - center) ** 2).sum(axis=1))]
        center = center + (far - center) / (k + 2.0)
    rho = np.sqrt(((flat - center) ** 2).sum(axis=1))
    best: tuple[float, float, float, float] = (np.inf, 0.0, 0.0, 0.0)
    length = float(z.max() - z.min())
    for radius in np.linspace(float(rho.max()), math.hypot(float(rho.max()), 0.5 * length), 25).tolist():
        reach = np.sqrt(np.maximum(radius**2 - rho**2, 0.0))
        top, bottom = float((z - reach).max()), float((z + reach).min())
        if top < bottom:
            top = bottom = 0.5 * (top + bottom)
        over = max(top + radius - z.max(), z.min() - bottom + radius, radius - rho.max())
        best = min(best, (float(over), radius, bottom, top))
    _, radius, bottom, top = best
    ends = np.insert(np.stack((center, center)), axis, (bottom, top), axis=1)
    # what rounding and the search left out is made good
    offset = local - ends[0]
    u = ends[1] - ends[0]
    s = np.clip(offset @ u / max(float(u @ u), 1e-300), 0.0, 1.0)
    radius = max(radius, float(np.linalg.norm(offset - s[:, None] * u, axis=1).max()))
    return ends @ R, radius


def _measure_overapproximation(
    found: list[tuple[Array, float]], points: Array
) -> tuple[float, list[tuple[Array, float, float]]]:
    """Capsules with their excess over the hull of points, and the largest."""
    u = _sphere_directions(N_DIRECTIONS)
    hull = (u @ points.T).max(axis=1)
    out = []
    for ends, radius in found:
        radius *= 1.0 + ROUNDING_ENLARGEMENT
        over = (u @ ends.T).max(axis=1) + radius - hull
        overapproximation = float(over.max())
        best, width = u[int(over.argmax())], 0.1
        rng = np.random.default_rng(0)
        for _ in range(12):  # the maximum lies between directions
            near = best + width * rng.normal(size=(60, 3))
            near /= np.linalg.norm(near, axis=1, keepdims=True)
            values = (near @ ends.T).max(axis=1) + radius - (near @ points.T).max(axis=1)
            if values.max() > overapproximation:
                overapproximation, best = float(values.max()), near[int(values.argmax())]
            width *= 0.6
        out.append((ends, radius, OVERAPPROXIMATION_SAFETY * max(overapproximation, 0.0)))
    return max(overapproximation for _, _, overapproximation in out), out


def _sphere_directions(count: int) -> Array:
    """Directions, evenly (Fibonacci's spiral)."""
    k = np.arange(count) + 0.5
    z, turn = 1.0 - 2.0 * k / count, math.pi * (1.0 + math.sqrt(5.0)) * k
    r = np.sqrt(1.0 - z * z)
    return np.stack((r * np.cos(turn), r * np.sin(turn), z), axis=1)


def transform_ends(ends: Array, rotation: Array, translation: Array) -> Array:
    """Ends of a segment in another frame, read-only."""
    return frozen(ends @ rotation.T + translation)
