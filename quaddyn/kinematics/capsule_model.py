"""`CapsuleModel`: capsules that contain a robot's collision shapes, and the pairs of them that can collide."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from types import MappingProxyType

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from ..errors import ArgumentError, UnknownNameError
from ..robot.arguments import check_number, check_sequence, check_vector
from ..robot.model import body_joint, to_se3
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.srdf import disabled_collisions
from ..urdf.tree import Array
from .capsules import Capsule, fit_capsules, transform_ends
from .segment_distances import compute_capsule_distances

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
