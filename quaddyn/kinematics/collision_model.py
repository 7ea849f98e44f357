"""`CollisionModel`: distances between the links of a robot, for the collision geometry in its file.

Shapes are coal's (spheres, boxes, cylinders, capsules) and the convex hulls of STL and OBJ meshes; placements and
distances are computed by Pinocchio and coal (Pan, Chitta and Manocha 2012, "FCL: a general purpose library for
collision and proximity queries").
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
from ..robot.geometry_models import read_vertices, to_coal_shape
from ..robot.model import to_se3
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array, FrozenArrays, MeshShape, Shape, frozen

#: Distance at home up to which links count as overlapping [m]: they are in contact by design.
OVERLAP_TOLERANCE = 1e-6
#: Decimals of the distance [m] by which pairs are sorted: coal stops its iterations within 1e-6.
DISTANCE_DECIMALS = 5


@dataclass(frozen=True, slots=True, eq=False)
class Separation(FrozenArrays):
    """Distance and nearest points of two links.

    Attributes:
        links: names of the two links.
        distance: distance between the nearest points [m]; minus the penetration depth where the links overlap.
        points: (2, 3) nearest points, one on each link, world axes [m].
    """

    links: tuple[str, str]
    distance: float
    points: Array


class CollisionModel(StrictAttributes, fixed=("robot", "links", "pairs", "excluded_pairs", "unread")):
    """Distances between the links of a robot.

    Pairs whose distance the joints cannot change are excluded: links of one body, and links of bodies that a joint
    connects.  So are pairs that overlap at ``q_home``, as the geometry in files often does near a joint;
    `excluded_pairs` names the latter.

    Args:
        robot: any robot.
        links: names of the links to include; None for all that have collision geometry.

    Attributes:
        robot: as given.
        links: names of the included links, those with usable geometry; never None.
        pairs: pairs of link names whose distance is computed.
        excluded_pairs: pairs of link names that overlap at home.
        unread: mesh files without usable geometry: missing, damaged, or neither STL nor OBJ.

    Raises:
        UnknownNameError: no such link.
        ArgumentError: fewer than two links with geometry.
    """

    def __init__(self, robot: Robot, *, links: Iterable[str] | None = None) -> None:
        self.robot = robot
        links_by_name = {link.name: link for body in robot.bodies for link, _ in body.links}
        selected = tuple(links_by_name) if links is None else check_sequence("links", links, "link names")
        self._geometry = pin.GeometryModel()
        owners, unread = list[str](), list[str]()
        for name in selected:
            if name not in links_by_name:
                raise UnknownNameError("link", name, links_by_name)
            frame = robot.model.frames[robot.model.getFrameId(name, pin.FrameType.BODY)]
            for geometry in links_by_name[name].collisions:
                shape = _coal_shape(geometry.shape)
                if shape is None:
                    unread.append(str(getattr(geometry.shape, "uri", geometry.shape)))
                    continue
                shape_placement = frame.placement * to_se3(geometry.placement)
                geometry_object = pin.GeometryObject(f"{name} {len(owners)}", frame.parentJoint, shape_placement, shape)
                self._geometry.addGeometryObject(geometry_object)
                owners.append(name)
        self._owners, self.unread = tuple(owners), tuple(unread)
        self.links = tuple(dict.fromkeys(owners))
        if len(self.links) < 2:
            raise ArgumentError(
                f"links: expected at least two links with collision geometry, got {selected} of {robot.name!r}"
            )
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
        """Computes the separation of every pair of `pairs`, in ascending order of the distance.

        Pairs whose distances differ by less than 1e-5 m are in the order of their names.

        Args:
            q: (nq,) configuration.

        Raises:
            ArgumentError: `q` has another shape, or an entry that is not finite.
        """
        q = check_vector("q", q, (self.robot.nq,), f"nq of {self.robot.name}")
        return tuple(sorted(self._separations(q), key=lambda s: (round(s.distance, DISTANCE_DECIMALS), s.links)))

    def distance(self, q: ArrayLike) -> float:
        """Returns the smallest distance between any two links [m], negative where they overlap; inf without pairs.

        Args:
            q: (nq,) configuration.
        """
        return min((s.distance for s in self.separations(q)), default=np.inf)

    def colliding_pairs(self, q: ArrayLike, *, margin: float = 0.0) -> tuple[tuple[str, str], ...]:
        """Returns the pairs of links whose distance is less than `margin`, in ascending order of the distance.

        Args:
            q: (nq,) configuration.
            margin: distance [m].
        """
        return tuple(s.links for s in self.separations(q) if s.distance < margin)

    def _separations(self, q: Array) -> list[Separation]:
        """Computes the separation of every pair of links, in any order."""
        scratch = self._scratch
        self.robot.algorithms.computeDistances(self.robot.model, self._data, self._geometry, scratch, q)
        nearest: dict[tuple[str, str], Separation] = {}
        for pair, result in zip(self._geometry.collisionPairs, scratch.distanceResults, strict=True):
            links = self._owners[pair.first], self._owners[pair.second]
            distance = float(result.min_distance)
            if links not in nearest or distance < nearest[links].distance:
                points = frozen([result.getNearestPoint1(), result.getNearestPoint2()])
                nearest[links] = Separation(links, distance, points)
        return list(nearest.values())

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.robot, self.links)

    def __repr__(self) -> str:
        return f"CollisionModel({self.robot.name!r}, {len(self.links)} links, {len(self.pairs)} pairs)"


def _rebuild(robot: Robot, links: tuple[str, ...]) -> CollisionModel:
    """Returns a `CollisionModel` when one is unpickled."""
    return CollisionModel(robot, links=links)


def _coal_shape(shape: Shape) -> coal.CollisionGeometry | None:
    """Returns the shape for coal, a convex hull for a mesh; None for a mesh that is unreadable or flat."""
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
    except (RuntimeError, ValueError):  # a flat mesh has no convex hull with a volume
        return None
