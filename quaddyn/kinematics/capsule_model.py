"""`CapsuleModel`: capsules that contain a robot's collision shapes, and the pairs of them that can collide.

A `Capsule` is the set of all points within `radius` of a segment; a sphere is a capsule whose segment is a point.  A
box is covered by parallel capsules, a mesh by one capsule about the convex hull of its vertices or by those of its
bounding box.  `Capsule.overapproximation` is the largest distance of a point of the capsule from the shape: for convex
bodies ``max over u of h_C(u) - h_H(u)``, with h the support functions (Schneider 2014, "Convex Bodies", section 1.8).

The nearest points of two segments are computed as in Ericson 2005, "Real-Time Collision Detection", section 5.1.9, for
segments of any length, zero included.

An `Obstacle` is a plane, box, sphere or capsule in the world, for collision constraints.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from ..compiler import IntMatrix, Matrix, Tensor, Vector, compiled, entry
from ..errors import ArgumentError, UnknownNameError
from ..robot.arguments import check_number, check_sequence, check_vector
from ..robot.geometry_models import read_vertices
from ..robot.model import body_joint, to_se3
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.srdf import disabled_collisions
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


#: Number of random configurations from which it is determined which pairs can come near each other.
N_PAIR_SAMPLES = 500
#: Distance at home up to which capsules count as overlapping [m], so that rounding has no influence.
OVERLAP_TOLERANCE = 1e-9


class CapsuleModel(
    StrictAttributes, fixed=("robot", "capsules", "pairs", "excluded_pairs", "unread", "overapproximation")
):
    """Capsules that contain a robot's collision shapes, and the pairs of them whose distance is computed.

    Every point of a collision shape is inside a capsule of its link, so that links are separate where their capsules
    are: a distance here is never larger than the true one.  It is smaller by at most the sum of the two capsules'
    `Capsule.overapproximation` where the shapes are convex (meshes are represented by their convex hulls).

    A pair of links is excluded, with a reason in `excluded_pairs`, if

    - both belong to one body, or to bodies that a joint connects (without an entry in `excluded_pairs`);
    - ``srdf`` disables it;
    - its capsules overlap in ``q_home``, so that no constraint could keep them apart there;
    - its distance is larger than `reach` in each of 500 random configurations within the joint limits.  This is a
      sample, not a proof; ``reach=inf`` keeps all pairs.

    Args:
        robot: any robot.
        links: names of the links to include; None for all that have collision geometry.
        srdf: path or text of an SRDF file, of which ``disable_collisions``, ``enable_collisions`` and
            ``disable_default_collisions`` are read; None to disable no pairs.
        reach: distance above which a pair is excluded, see above [m].
        seed: seed of the random configurations.

    Attributes:
        robot: as given.
        capsules: capsules of all links.
        pairs: (number of pairs, 2) indices into `capsules`, int64.
        excluded_pairs: reason for the exclusion, by pair of link names.
        unread: mesh files without usable geometry: missing, damaged, or neither STL nor OBJ.  No capsule covers them.
        overapproximation: largest `Capsule.overapproximation` [m].

    Raises:
        UnknownNameError: no such link, in `links` or in `srdf`.
        ArgumentError: no link has geometry, or `reach` is negative.
        ModelError: `srdf` is not an SRDF file.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        links: Iterable[str] | None = None,
        srdf: str | os.PathLike[str] | None = None,
        reach: float = 0.15,
        seed: int = 0,
    ) -> None:
        self.robot, self._srdf, self._reach, self._seed = robot, srdf, reach, seed
        links_by_name = {link.name: (body, link) for body in robot.bodies for link, _ in body.links}
        selected = tuple(links_by_name) if links is None else check_sequence("links", links, "link names")
        self._links = selected
        if not check_number("reach", reach) >= 0.0:
            raise ArgumentError(f"reach: expected a distance [m], 0 or more, got {reach}")
        model, capsules, unread, joints = robot.model, list[Capsule](), list[str](), list[int]()
        for name in selected:
            if name not in links_by_name:
                raise UnknownNameError("link", name, links_by_name)
            body, link = links_by_name[name]
            frame = model.frames[model.getFrameId(name, pin.FrameType.BODY)]
            body_placement = model.frames[robot.frame_id(body.name)].placement
            for geometry in link.collisions:
                shape_placement = body_placement.actInv(frame.placement * to_se3(geometry.placement))
                fitted = list(fit_capsules(geometry.shape))
                if not fitted:
                    unread.append(str(getattr(geometry.shape, "uri", geometry.shape)))
                for ends, radius, overapproximation in fitted:
                    segment = transform_ends(ends, shape_placement.rotation, shape_placement.translation)
                    capsules.append(Capsule(name, body.name, segment, radius, overapproximation))
                    joints.append(body_joint(model, body))
        if not capsules:
            raise ArgumentError(f"links: {robot.name!r} has no readable collision geometry among {selected}")
        self.capsules, self.unread = tuple(capsules), tuple(unread)
        self.overapproximation = max(each.overapproximation for each in capsules)
        self._joints, self._data = joints, model.createData()
        self._ends = np.array([each.ends for each in capsules])
        self._frames = [robot.frame_id(each.body) for each in capsules]
        self._radii = np.array([each.radius for each in capsules])
        reasons = self._srdf_exclusions(srdf, links_by_name)
        parents = model.parents
        pairs = []
        for i in range(len(capsules)):
            for j in range(i + 1, len(capsules)):
                a, b = joints[i], joints[j]
                if a != b and parents[a] != b and parents[b] != a:
                    pairs.append((i, j))
        self._select_pairs(pairs, reasons, reach, seed)

    def _srdf_exclusions(
        self, srdf: str | os.PathLike[str] | None, link_names: Collection[str]
    ) -> dict[tuple[str, str], str]:
        """Returns the reason for each pair of links that the SRDF file disables."""
        reasons: dict[tuple[str, str], str] = {}
        for first, second, reason in () if srdf is None else disabled_collisions(srdf, link_names):
            for name in (first, second):
                if name not in link_names and not self.robot.model.existFrame(name):
                    raise UnknownNameError("link in srdf=", name, link_names)
            reasons[_sorted_pair(first, second)] = f"disabled by the SRDF{f' ({reason})' if reason else ''}"
        return reasons

    def _select_pairs(
        self, pairs: list[tuple[int, int]], reasons: dict[tuple[str, str], str], reach: float, seed: int
    ) -> None:
        """Sets `pairs` to those of the given pairs that can collide, and `excluded_pairs` to the others."""
        robot, names = self.robot, [each.link for each in self.capsules]

        def remaining_pairs() -> list[tuple[int, int]]:
            return [(i, j) for i, j in pairs if _sorted_pair(names[i], names[j]) not in reasons]

        self.pairs = np.array(remaining_pairs(), dtype=np.int64).reshape(-1, 2)
        home_distances = self.distances(np.array(robot.q_home))
        for (i, j), distance in zip(self.pairs.tolist(), home_distances.tolist(), strict=True):
            if distance <= OVERLAP_TOLERANCE:
                reasons[_sorted_pair(names[i], names[j])] = "overlap at home"
        self.pairs = np.array(remaining_pairs(), dtype=np.int64).reshape(-1, 2)
        if len(self.pairs) and reach < np.inf:
            rng, smallest = np.random.default_rng(seed), np.full(len(self.pairs), np.inf)
            for _ in range(N_PAIR_SAMPLES):
                smallest = np.minimum(smallest, self.distances(robot.random_configuration(rng)))
            smallest_by_links: dict[tuple[str, str], float] = {}
            for (i, j), distance in zip(self.pairs.tolist(), smallest.tolist(), strict=True):
                pair = _sorted_pair(names[i], names[j])
                smallest_by_links[pair] = min(distance, smallest_by_links.get(pair, np.inf))
            far_pairs = {pair for pair, distance in smallest_by_links.items() if distance > reach}
            reasons |= {pair: f"no sample was nearer than {smallest_by_links[pair]:.3g} m" for pair in far_pairs}
            self.pairs = np.array(remaining_pairs(), dtype=np.int64).reshape(-1, 2)
        self.pairs.flags.writeable = False
        self.excluded_pairs = MappingProxyType(dict(sorted(reasons.items())))

    def distances(self, q: ArrayLike) -> Array:
        """Computes the distance of every pair [m], negative where the capsules overlap.

        Args:
            q: (nq,) configuration, or (N, nq) for N configurations.

        Returns:
            (number of pairs,) or (N, number of pairs) [m].

        Raises:
            ArgumentError: `q` has another shape, or an entry that is not finite.
        """
        configurations = np.asarray(q, dtype=np.float64)
        if configurations.ndim == 2:
            return np.array([self.distances(row) for row in configurations]).reshape(
                len(configurations), len(self.pairs)
            )
        out = np.zeros(len(self.pairs))
        compute_capsule_distances(
            self.world_segments(q), self._radii, self.pairs, out, np.zeros((len(self.pairs), 2, 3))
        )
        return out

    def nearest(self, q: ArrayLike) -> tuple[Array, Array]:
        """Computes the distance of every pair, and the nearest points of the capsules' surfaces.

        Args:
            q: (nq,) configuration.

        Returns:
            (number of pairs,) distances [m] and (number of pairs, 2, 3) points, world axes [m].

        Raises:
            ArgumentError: as `distances`.
        """
        out, points = np.zeros(len(self.pairs)), np.zeros((len(self.pairs), 2, 3))
        compute_capsule_distances(self.world_segments(q), self._radii, self.pairs, out, points)
        return out, points

    def world_segments(self, q: ArrayLike) -> Array:
        """Computes the ends of all capsules' segments at q: (number of capsules, 2, 3), world axes [m].

        Args:
            q: (nq,) configuration.
        """
        q = check_vector("q", q, (self.robot.nq,), f"nq of {self.robot.name}")
        model, data = self.robot.model, self._data
        self.robot.algorithms.forwardKinematics(model, data, q)
        placements = [pin.updateFramePlacement(model, data, frame) for frame in dict.fromkeys(self._frames)]
        by_frame = dict(zip(dict.fromkeys(self._frames), placements, strict=True))
        R = np.array([by_frame[f].rotation for f in self._frames])
        p = np.array([by_frame[f].translation for f in self._frames])
        return np.ascontiguousarray(np.einsum("cij,cej->cei", R, self._ends) + p[:, None, :])

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.robot, self._links, self._srdf, self._reach, self._seed)

    def __repr__(self) -> str:
        return (
            f"CapsuleModel({self.robot.name!r}, {len(self.capsules)} capsules, {len(self.pairs)} pairs, "
            f"overapproximation up to {1e3 * self.overapproximation:.3g} mm)"
        )


def _rebuild(
    robot: Robot, links: Iterable[str] | None, srdf: str | os.PathLike[str] | None, reach: float, seed: int
) -> CapsuleModel:
    """Returns a `CapsuleModel` when one is unpickled."""
    return CapsuleModel(robot, links=links, srdf=srdf, reach=reach, seed=seed)


def _sorted_pair(first: str, second: str) -> tuple[str, str]:
    """Returns two names in alphabetical order."""
    return (first, second) if first <= second else (second, first)


@dataclass(frozen=True, slots=True, eq=False)
class Obstacle(FrozenArrays):
    """Shape of an obstacle, in its own axes, whose pose is set by `CollisionLimits.set_obstacle_pose`.

    Created by `plane`, `box`, `sphere` and `capsule`.

    Attributes:
        ends: (n, 2, 3) segments of the capsules that cover it [m]; of a plane, its unit normal and zeros.
        radii: (n,) radii of the capsules [m].
        is_plane: whether it is a half-space; a boolean.
        overapproximation: largest distance of a point of the capsules from the shape [m]; zero except for boxes.
    """

    ends: Array
    radii: Array
    is_plane: bool = False
    overapproximation: float = 0.0

    @staticmethod
    def plane(normal: ArrayLike = (0.0, 0.0, 1.0)) -> Obstacle:
        """Returns the half-space below a plane through the origin.

        Args:
            normal: (3,) outward normal, of any length.

        Raises:
            ArgumentError: a zero vector.
        """
        n = check_vector("normal", normal, (3,), "a direction")
        length = float(np.linalg.norm(n))
        if length == 0.0:
            raise ArgumentError(f"normal: expected a vector of nonzero length, got {normal!r}")
        return Obstacle(frozen([[n / length, np.zeros(3)]]), frozen([0.0]), is_plane=True)

    @staticmethod
    def sphere(radius: float) -> Obstacle:
        """Returns a sphere about the origin.

        Args:
            radius: radius [m]; 0 for a point.
        """
        return Obstacle(frozen(np.zeros((1, 2, 3))), frozen([_check_length("radius", radius)]))

    @staticmethod
    def capsule(radius: float, start: ArrayLike, end: ArrayLike) -> Obstacle:
        """Returns the capsule of all points within a distance of a segment.

        Args:
            radius: radius [m].
            start: (3,) first end of the segment [m].
            end: (3,) second end of the segment [m].
        """
        ends = [check_vector(name, x, (3,), "a point") for name, x in (("start", start), ("end", end))]
        return Obstacle(frozen([ends]), frozen([_check_length("radius", radius)]))

    @staticmethod
    def box(size: ArrayLike) -> Obstacle:
        """Returns a box about the origin, covered by capsules, see `overapproximation`.

        Args:
            size: (3,) lengths of the sides along the axes [m].
        """
        sides = check_vector("size", size, (3,), "three lengths")
        if not (sides > 0.0).all():
            raise ArgumentError(f"size: expected three positive lengths, got {size!r}")
        capsules = list(cover_box(sides))
        ends, radii = [ends for ends, _, _ in capsules], [radius for _, radius, _ in capsules]
        return Obstacle(
            frozen(ends),
            frozen(radii),
            overapproximation=max(overapproximation for _, _, overapproximation in capsules),
        )


def _check_length(name: str, value: float) -> float:
    """Returns `value` as a float after checking that it is a finite length of 0 or more."""
    length = check_number(name, value)
    if not 0.0 <= length < np.inf:
        raise ArgumentError(f"{name}: expected a finite length, 0 or more, got {value}")
    return length
