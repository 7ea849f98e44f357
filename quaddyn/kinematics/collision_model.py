"""`CollisionModel`: distances between the links of a robot, on the collision geometry that its file has.

Shapes are coal's (spheres, boxes, cylinders, capsules) and the convex hulls of STL and OBJ meshes; placements and
distances are computed by Pinocchio and coal (Pan, Chitta, Manocha 2012, "FCL: a general purpose library for collision
and proximity queries").
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import coal
import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from ..errors import ArgumentError, UnknownNameError
from ..robot.arguments import check_sequence, check_vector
from ..robot.geometry_models import to_coal_shape
from ..robot.mesh_vertices import read_vertices
from ..robot.model import to_se3
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array, FrozenArrays, MeshShape, Shape, frozen

#: Links that touch at home by no more than this far apart [m] are built that way.
OVERLAP_TOLERANCE = 1e-6
#: Decimals of a distance [m] by which pairs are put in order: coal stops its iterations within 1e-6.
DISTANCE_DECIMALS = 5


@dataclass(frozen=True, slots=True, eq=False)
class Separation(FrozenArrays):
    """How far two links are apart.

    Attributes:
        links: names of the two.
        distance: between their nearest points [m]; negative by the depth where they overlap.
        points: (2, 3) the nearest points, one on each, world axes [m].
    """

    links: tuple[str, str]
    distance: float
    points: Array


class CollisionModel(StrictAttributes, fixed=("robot", "links", "pairs", "excluded_pairs", "unread")):
    """Which links of a robot come near each other.

    Pairs whose distance the joints cannot change are left out: links of one body, of bodies that a joint connects; and
    those that overlap at ``q_home``, as the geometry in files often does about a joint.  `left_out` names the latter.

    Args:
        robot: any robot.
        links: names of the links to look at; all that have collision geometry by default.

    Attributes:
        robot: as given.
        links: names of the links that have geometry which is used.
        pairs: names of two links each, whose distance is computed.
        left_out: pairs that overlap at home.
        unread: mesh files without usable geometry: missing, broken, or neither STL nor OBJ.

    Raises:
        UnknownNameError: no such link.
        ArgumentError: no two links with geometry.
    """

    def __init__(self, robot: Robot, *, links: Iterable[str] | None = None) -> None:
        self.robot = robot
        known = {link.name: link for body in robot.bodies for link, _ in body.links}
        chosen = tuple(known) if links is None else check_sequence("links", links, "link names")
        self._geometry = pin.GeometryModel()
        owners, unread = list[str](), list[str]()
        for name in chosen:
            if name not in known:
                raise UnknownNameError("link", name, known)
            frame = robot.model.frames[robot.model.getFrameId(name, pin.FrameType.BODY)]
            for geometry in known[name].collisions:
                shape = _coal_shape(geometry.shape)
                if shape is None:
                    unread.append(str(getattr(geometry.shape, "uri", geometry.shape)))
                    continue
                shape_placement = frame.placement * to_se3(geometry.placement)
                item = pin.GeometryObject(f"{name} {len(owners)}", frame.parentJoint, shape_placement, shape)
                self._geometry.addGeometryObject(item)
                owners.append(name)
        self._owners, self.unread = tuple(owners), tuple(unread)
        self.links = tuple(dict.fromkeys(owners))
        if len(self.links) < 2:
            raise ArgumentError(f"links: {robot.name!r} has no two links with collision geometry among {chosen}")
        parents, objects = robot.model.parents, self._geometry.geometryObjects
        for i, first in enumerate(objects):
            for j, second in enumerate(objects[i + 1 :], i + 1):
                a, b = first.parentJoint, second.parentJoint
                if a != b and parents[a] != b and parents[b] != a:
                    self._geometry.addCollisionPair(pin.CollisionPair(i, j))
        self._data, self._scratch = robot.model.createData(), self._geometry.createData()
        overlapping = {s.links for s in self._separations(np.array(robot.q_home)) if s.distance <= OVERLAP_TOLERANCE}
        self.excluded_pairs = tuple(sorted(overlapping))
        for pair in list(self._geometry.collisionPairs):
            if (self._owners[pair.first], self._owners[pair.second]) in overlapping:
                self._geometry.removeCollisionPair(pair)
        names = ((self._owners[p.first], self._owners[p.second]) for p in self._geometry.collisionPairs)
        self.pairs = tuple(dict.fromkeys(names))
        self._scratch = self._geometry.createData()

    def separations(self, q: ArrayLike) -> tuple[Separation, ...]:
        """Every pair of `pairs`, the nearest first; those within 1e-5 m of each other in the order of their names.

        Args:
            q: (nq,) configuration.

        Raises:
            ArgumentError: `q` has another shape, or an entry that is not finite.
        """
        q = check_vector("q", q, (self.robot.nq,), f"nq of {self.robot.name}")
        return tuple(sorted(self._separations(q), key=lambda s: (round(s.distance, DISTANCE_DECIMALS), s.links)))

    def distance(self, q: ArrayLike) -> float:
        """Least distance between any two links [m], negative where they overlap; inf without pairs."""
        return min((s.distance for s in self.separations(q)), default=np.inf)

    def colliding_pairs(self, q: ArrayLike, *, margin: float = 0.0) -> tuple[tuple[str, str], ...]:
        """Pairs of links nearer than `margin` [m], the nearest first."""
        return tuple(s.links for s in self.separations(q) if s.distance < margin)

    def _separations(self, q: Array) -> list[Separation]:
        scratch = self._scratch
        self.robot.algorithms.computeDistances(self.robot.model, self._data, self._geometry, scratch, q)
        nearest: dict[tuple[str, str], Separation] = {}
        for pair, found in zip(self._geometry.collisionPairs, scratch.distanceResults, strict=True):
            links = self._owners[pair.first], self._owners[pair.second]
            distance = float(found.min_distance)
            if links not in nearest or distance < nearest[links].distance:
                points = frozen([found.getNearestPoint1(), found.getNearestPoint2()])
                nearest[links] = Separation(links, distance, points)
        return list(nearest.values())

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.robot, self.links)

    def __repr__(self) -> str:
        return f"CollisionModel({self.robot.name!r}, {len(self.links)} links, {len(self.pairs)} pairs)"


def _rebuild(robot: Robot, links: tuple[str, ...]) -> CollisionModel:
    return CollisionModel(robot, links=links)


def _coal_shape(shape: Shape) -> coal.CollisionGeometry | None:
    if not isinstance(shape, MeshShape):
        return to_coal_shape(shape)
    points = None if shape.path is None else read_vertices(shape.path)
    if points is None or len(points) < 4:
        return None
    corners = coal.StdVec_Vec3s()
    for point in np.unique(points * np.array(shape.scale), axis=0):
        corners.append(point)
    try:
        return coal.ConvexBase.convexHull(corners, False, "Qt")
    except (RuntimeError, ValueError):  # flat: no hull
        return None
