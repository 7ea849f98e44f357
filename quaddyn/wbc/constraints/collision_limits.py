"""`CollisionLimits`: links keep a minimum distance from each other and from obstacles.

The module also selects the pairs of capsules whose distance is limited, and computes their distances and rates of
change outside of ticks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike, NDArray

from ...compiler import LANE_WIDTH, IntMatrix, IntVector, Matrix, Tensor, Vector, compiled, entry, zeros
from ...deprecation import renamed_attributes, renamed_parameters
from ...errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ...kinematics.capsule_model import Capsule, CapsuleModel, Obstacle, nearest_segment_parameters
from ...robot.arguments import check_vector
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..collision_data import N_PARTS, CollisionScratch, make_collision_scratch
from ..element import ElementKind, Layout, ReferenceResolver, RowCounts, ScalarParameter
from .collision_distances import (
    CAPSULE_SIZE,
    HEADER_SIZE,
    MIN_SEPARATION,
    PAIR_ENTRIES,
    POINT_ITERATIONS,
    Barrier,
    capsule_parameters,
    collision_parameters,
    compute_distance_motion,
    find_critical_points,
    make_capsule_parameters,
    max_approach_speed,
    write_moving_segment,
    write_translating_segment,
)
from .collision_rows import store_point_in_lane, store_segment_in_lane, store_two_points_in_lane, write_collision_rows
from .constraint import Constraint


class ChosenPairs(NamedTuple):
    """Pairs of capsules: first pairs of links, then pairs with obstacles, planes last."""

    names: tuple[str, ...]  # names of the pairs
    pairs: NDArray[np.int64]  # (pairs, 2) indices of capsules
    left_out: tuple[str, ...]  # names of pairs nearer than the margin in the home configuration
    capsules: Array  # (capsules, CAPSULE_SIZE) parameters
    labels: tuple[str, ...]  # names of the capsules
    bodies: tuple[str, ...]  # names of the bodies of the capsules, "" for obstacles
    capsules_of_obstacle: dict[str, slice]  # capsules of each obstacle


def make_pair_list(pairs: NDArray[np.int64], capsules: Array) -> list[int]:
    """Returns the list of pairs that `collision_rows` processes, `PAIR_ENTRIES` entries per pair.

    Args:
        pairs: (pairs, 2) indices of capsules.
        capsules: (capsules, CAPSULE_SIZE) parameters of the capsules.
    """
    is_plane = np.array([capsule_parameters(capsules.ravel(), j).is_plane for j in pairs[:, 1].tolist()])
    ends, first = np.empty(len(pairs), dtype=np.int64), 0
    for k in range(1, len(pairs) + 1):
        if k == len(pairs) or _starts_new_run(pairs, is_plane, first, k):
            ends[first:k] = k
            first = k
    return np.column_stack([pairs, ends]).ravel().tolist()


def _starts_new_run(pairs: NDArray[np.int64], is_plane: NDArray[np.bool_], i: int, j: int) -> bool:
    """Returns whether pair j starts a new run, because it cannot be processed together with pair i."""
    return bool(pairs[i, 0] != pairs[j, 0] or pairs[j, 1] - pairs[i, 1] >= LANE_WIDTH or is_plane[i] != is_plane[j])


def has_invalid_run_ends(pair_list: NDArray[np.int64]) -> bool:
    """Returns whether a list of pairs, (pairs, PAIR_ENTRIES), has runs with invalid ends."""
    first = 0
    while first < len(pair_list):
        end = int(pair_list[first, 2])
        if not first < end <= len(pair_list):
            return True
        run = pair_list[first:end]
        offsets = run[:, 1] - run[0, 1]
        if (run[:, 0] != run[0, 0]).any() or (offsets < 0).any() or (offsets >= LANE_WIDTH).any():
            return True
        first = end
    return False


def find_obstacle_origins(obstacles: Mapping[str, Obstacle], positions: Mapping[str, ArrayLike]) -> dict[str, Array]:
    """Returns the (3,) position of the origin of each obstacle [m]; zero for those without a given position.

    Raises:
        ArgumentTypeError: an obstacle is of another type.
        UnknownNameError: the obstacle does not exist.
    """
    for key, obstacle in obstacles.items():
        if not isinstance(obstacle, Obstacle):
            raise ArgumentTypeError(f"obstacles[{key!r}]: expected an Obstacle, got {type(obstacle).__name__}")
    origins: dict[str, Array] = {key: np.zeros(3) for key in obstacles}
    for key, position in positions.items():
        if key not in origins:
            raise UnknownNameError("obstacle in obstacle_positions=", key, origins)
        origins[key] = check_vector(f"obstacle_positions[{key!r}]", position, (3,), "a point")
    return origins


def transform_obstacle_ends(obstacle: Obstacle, position: Array, rotation: ArrayLike | None) -> Array:
    """Returns (shapes, 2, 3) ends of the segments of an obstacle at a position [m].

    Raises:
        ArgumentError: not a rotation.
    """
    R = np.eye(3) if rotation is None else np.asarray(rotation, dtype=np.float64)
    if R.shape != (3, 3) or not np.allclose(R @ R.T, np.eye(3), atol=1e-6):
        raise ArgumentError(f"rotation: expected a rotation matrix (3, 3), got {rotation!r}")
    ends = obstacle.ends @ R.T
    ends[:, 1 if obstacle.is_plane else slice(None)] += position
    return np.asarray(ends)


def choose_pairs(
    model: CapsuleModel,
    obstacles: Mapping[str, Obstacle],
    obstacle_origins: Mapping[str, Array],
    links: tuple[str, ...] | None,
    self_collision: bool,
    margin: float,
) -> ChosenPairs:
    """Selects the pairs of a model's capsules with each other and with those of obstacles.

    Args:
        model: capsules of the robot.
        obstacles: obstacles by name.
        obstacle_origins: (3,) position of the origin by name of an obstacle [m].
        links: names of links that keep away from obstacles; None for all.
        self_collision: whether to include pairs of the robot's own links.
        margin: distance in the home configuration [m] below which a pair is excluded.

    Raises:
        ArgumentError: no pair remains.
        UnknownNameError: a link does not exist.
    """
    robot, capsules = model.robot, model.capsules
    link_names = {each.link for each in capsules}
    for link in links or ():
        if link not in link_names:
            raise UnknownNameError("link", link, link_names)
    own_pairs = model.pairs.tolist() if self_collision else []
    home_distances = model.distances(robot.q_home).tolist()
    near_pairs = {
        _pair_name(capsules, *pair)
        for pair, distance in zip(own_pairs, home_distances, strict=False)
        if distance <= margin
    }
    left_out, pairs = sorted(near_pairs), [(i, j) for i, j in own_pairs if _pair_name(capsules, i, j) not in near_pairs]
    names, home_segments = [_pair_name(capsules, i, j) for i, j in pairs], model.world_segments(robot.q_home)
    blocks = [make_capsule_parameters(each.ends, each.radius) for each in capsules]
    labels, bodies, capsules_of_obstacle = (
        [each.link for each in capsules],
        [each.body for each in capsules],
        dict[str, slice](),
    )
    for key, obstacle in obstacles.items():
        shapes = range(len(blocks), len(blocks) + len(obstacle.radii))
        capsules_of_obstacle[key] = slice(shapes.start, shapes.stop)
        for ends, radius in zip(obstacle.ends, obstacle.radii.tolist(), strict=True):
            blocks.append(make_capsule_parameters(ends, radius, is_plane=obstacle.is_plane))
            labels.append(key)
            bodies.append("")
        for i, capsule in enumerate(capsules):
            if links is not None and capsule.link not in links:
                continue
            if any(
                _home_distance(home_segments[i], capsule.radius, blocks[j], obstacle_origins[key]) <= margin
                for j in shapes
            ):
                left_out.append(f"{capsule.link} - {key}")
                continue
            names += [f"{capsule.link} - {key}"] * len(shapes)
            pairs += [(i, j) for j in shapes]
    if not pairs:
        raise ArgumentError(
            f"model: no pair of bodies of {robot.name!r} remains to be checked for collision; check obstacles, "
            "links, self_collision and margin"
        )
    used = sorted({each for pair in pairs for each in pair} | set(range(len(capsules), len(blocks))))
    # ascending indices of capsules, planes last: `collision_rows` processes eight capsules at a time
    order = sorted(range(len(pairs)), key=lambda k: (capsule_parameters(blocks[pairs[k][1]], 0).is_plane, *pairs[k]))
    unused = len(blocks) - len(used)
    return ChosenPairs(
        names=tuple(names[k] for k in order),
        pairs=np.searchsorted(used, np.array([pairs[k] for k in order])).astype(np.int64),
        left_out=tuple(dict.fromkeys(left_out)),
        capsules=np.array([blocks[i] for i in used]),
        labels=tuple(labels[i] for i in used),
        bodies=tuple(bodies[i] for i in used),
        capsules_of_obstacle={
            key: slice(each.start - unused, each.stop - unused) for key, each in capsules_of_obstacle.items()
        },
    )


def _pair_name(capsules: tuple[Capsule, ...], i: int, j: int) -> str:
    """Returns the name of a pair of capsules."""
    return f"{capsules[i].link} - {capsules[j].link}"


def _home_distance(ends: Array, radius: float, obstacle: Array, origin: Array) -> float:
    """Returns the distance of a capsule at `ends` from an obstacle's capsule whose origin is at `origin` [m]."""
    other = capsule_parameters(obstacle, 0)
    radii = radius + other.radius
    if other.is_plane:
        return float(((ends - origin) @ other.start).min() - radii)
    c, d = other.start + origin, other.end + origin
    s, t = nearest_segment_parameters(ends[0], ends[1], c, d)
    return float(np.linalg.norm(ends[0] + s * (ends[1] - ends[0]) - c - t * (d - c)) - radii)


class BodyMotions(NamedTuple):
    """Poses and velocities of bodies.

    Attributes:
        rotations: (bodies, 3, 3) rotations.
        origins: (bodies, 3) positions [m].
        velocities: (bodies, 6) linear and angular velocities, world axes [m/s, rad/s].
    """

    rotations: Tensor
    origins: Matrix
    velocities: Matrix


class PartDistances(NamedTuple):
    """Distances of the parts of pairs, and their rates of change.

    Attributes:
        distances: (pairs, N_PARTS) distances of the surfaces [m].
        rates: (pairs, N_PARTS) rates of change [m/s].
    """

    distances: Matrix
    rates: Matrix


@compiled()
def has_part(part: int, from_plane: bool, half: float, other_half: float) -> bool:
    """Returns whether a pair has this part; a sphere has no ends, and a plane has only distances to ends."""
    if from_plane:
        return part == 0 if half == 0.0 else part == 1 or part == 2
    return part == 0 or (half > 0.0 and other_half > 0.0)


@entry("gaps of pairs")
def evaluate_pair_distances(
    capsules: Vector,
    frames: IntVector,
    pairs: IntMatrix,
    bodies: BodyMotions,
    work: CollisionScratch,
    out: PartDistances,
    barrier: Barrier,
    iterations: int,
) -> int:
    """Computes the distances of the surfaces of capsules, and their rates of change.

    Args:
        capsules: parameters of the capsules, one after the other.
        frames: (capsules,) indices of bodies, -1 for obstacles.
        pairs: (pairs, 2) indices of capsules.
        bodies: motions of the bodies.
        work: buffers.
        out: receives distances and rates; unchanged where a pair has no such part.
        barrier: margin and rates of the limit.
        iterations: number of iterations for critical points; 1 for the nearest points.

    Returns:
        The number of pairs.
    """
    zero_drift, segments, block, points = zeros(6), work.segments, work.pairs, work.points
    motion, critical = points.motion, block.critical
    for k in range(len(frames)):
        capsule, i = capsule_parameters(capsules, k), frames[k]
        if i >= 0:
            write_moving_segment(
                bodies.rotations[i], bodies.origins[i], bodies.velocities[i], zero_drift, capsule, segments, k
            )
        else:
            write_translating_segment(capsule, segments, k)
    count: int = pairs.shape[0]
    for first in range(0, count, 8):
        block_size = min(count - first, 8)
        for lane in range(block_size):
            a, b = pairs[first + lane, 0], pairs[first + lane, 1]
            store_segment_in_lane(block.first, lane, segments, a)
            store_segment_in_lane(block.second, lane, segments, b)
            radii = capsule_parameters(capsules, a).radius + capsule_parameters(capsules, b).radius
            block.reach[lane] = radii + barrier.margin
            points.reach[lane] = block.reach[lane]
        find_critical_points(block, barrier, iterations)
        for part in range(2 * N_PARTS):
            from_planes = part >= N_PARTS
            for lane in range(block_size):
                a, b = pairs[first + lane, 0], pairs[first + lane, 1]
                if part == 0:
                    store_two_points_in_lane(
                        points, lane, segments, a, critical.position[lane], b, critical.other_position[lane]
                    )
                elif from_planes or part < 3:
                    store_point_in_lane(points, lane, segments, a, 1.0 if part % N_PARTS == 2 else 0.0, b)
                else:
                    store_point_in_lane(points, lane, segments, b, float(part - 3), a)
            compute_distance_motion(points, from_planes, barrier, iterations)
            for lane in range(block_size):
                pair = first + lane
                capsule, other = (
                    capsule_parameters(capsules, pairs[pair, 0]),
                    capsule_parameters(capsules, pairs[pair, 1]),
                )
                if other.is_plane == from_planes and has_part(
                    part % N_PARTS, from_planes, capsule.half_length, other.half_length
                ):
                    d, speed = motion.distance[lane], 0.0
                    for e in range(3):
                        speed += motion.normal[8 * e + lane] * motion.relative_velocity[8 * e + lane]
                    is_intersecting = not from_planes and d < MIN_SEPARATION
                    out.distances[pair, part % N_PARTS] = (
                        (0.0 if is_intersecting else d) - capsule.radius - other.radius
                    )  # fmt: skip
                    out.rates[pair, part % N_PARTS] = 0.0 if is_intersecting else speed
    return count


def compute_part_distances(
    robot: Robot, bodies: tuple[str, ...], pairs: NDArray[np.int64], parameters: Array, q: Array, v: Array, p: float
) -> tuple[Array, Array]:
    """Computes the distances of the parts of pairs above the margin, and their rates of change.

    Args:
        robot: the robot.
        bodies: (capsules,) names of the frames of the capsules, "" for obstacles.
        pairs: (pairs, 2) indices of capsules.
        parameters: parameters of `CollisionLimits`.
        q: (nq,) configuration.
        v: (nv,) velocity.
        p: barrier rate [1/s]; 0 for the nearest points.

    Returns:
        (pairs, N_PARTS) each [m] and [m/s], infinite and 0 where a pair has no such part.
    """
    model, data = robot.model, robot.model.createData()
    robot.algorithms.forwardKinematics(model, data, q, v)
    body_indices = {each: i for i, each in enumerate(dict.fromkeys(x for x in bodies if x))}
    n = len(body_indices)
    motions = BodyMotions(np.zeros((n, 3, 3)), np.zeros((n, 3)), np.zeros((n, 6)))
    for body, i in body_indices.items():
        frame = robot.frame_id(body)
        placement = pin.updateFramePlacement(model, data, frame)
        motions.rotations[i], motions.origins[i] = placement.rotation, placement.translation
        motions.velocities[i] = pin.getFrameVelocity(model, data, frame, pin.LOCAL_WORLD_ALIGNED).vector
    frames = np.array([body_indices.get(x, -1) for x in bodies], dtype=np.int64)
    out = PartDistances(np.full((len(pairs), N_PARTS), np.inf), np.zeros((len(pairs), N_PARTS)))
    shared = collision_parameters(parameters)
    barrier = Barrier(max(p, 1.0), float(shared.max_acceleration), float(shared.margin), 0.0, 0.0, 0)
    iterations, work = POINT_ITERATIONS if p > 0.0 else 1, make_collision_scratch(len(frames), robot.nv)
    evaluate_pair_distances(
        np.ascontiguousarray(parameters[HEADER_SIZE:]), frames, pairs, motions, work, out, barrier, iterations
    )
    return out.distances - shared.margin, out.rates


#: Depth below the margin [m] beyond which a pair is reported as not viable.
MAX_PENETRATION = 1e-4


@renamed_attributes(most="max_acceleration", rate="barrier_rate", place="set_obstacle_pose", gaps="distance_margins")
class CollisionLimits(Constraint, fixed=("model", "obstacles", "pairs", "left_out")):
    r"""Minimum distance between links, and from planes, boxes, spheres and capsules.

    For every near pair with distance d, margin :math:`h = d - d_{min}`, barrier rate p and largest acceleration b, the
    speed of approach may be

    .. math::

        k(h) = \begin{cases} p\,h & h \le b / p^2 \\ \sqrt{2 b\,(h - b / (2 p^2))} & \text{beyond} \end{cases}

    (below the speed that b can stop in time, and decreasing exponentially near the margin).  The row keeps the speed
    of approach below k, with n the direction between the two points of the capsules where this limit is reached first:

    .. math::

        \ddot h = n^T (J_2 - J_1)\, a + \dots \ge -k'(h)\, \dot h - p\,(\dot h + k(h))

    This is an exponential control barrier function with a double pole near the limit.  *Viable* are the states with
    :math:`h \ge 0` and :math:`\dot h + k(h) \ge 0`; a viable pair never requires :math:`\ddot h > b`.  Where the drift
    would require more than b, the row may use up to nine tenths of the remaining speed of approach within a period.

    **Guarantee and assumptions.** From a viable state the distance of the capsules stays above `margin`, for any
    tasks, and so does that of the links, as capsules contain them.  This assumes that level 0 is feasible, that the
    robot realizes the commanded accelerations and that they are constant over a control period dt, :math:`p\,dt \le
    1/2`, and that obstacles keep their given velocity.  Level 0 may be infeasible where joint and torque limits allow
    less than b; the status of the command reports it.

    **Within a period** the row changes, so it holds for its mean over dt: for the Jacobian at the middle of the period,
    to first order in dt; for the smaller of the drifts now and after dt; and with a margin for the jerk of both
    points, bounded by the rates of the joints between them (no derivative of a point by joint angles is longer than the
    lever of a joint).  The terms of second order in dt are covered by an additional margin of 0.01 mm.

    **Outside the viable set.** `Command.nonviable` names pairs that are not viable by more than 0.1 mm (times p for
    speeds). They are driven apart by the same law, with at most `max_acceleration`.

    **Rows of near pairs only.** A pair has no row while it could accelerate toward its limit by twice
    `max_acceleration`. The bound of a new row rises from far below that, within the remaining speed, so that torques do
    not jump.  Each end of a capsule has its own row.  The row of points between the ends appears and disappears in
    the same way, within ten periods of the points sliding to an end, as where segments rotate past each other in
    parallel.

    Use it on level 0 of robots whose limbs can reach each other or obstacles.

    Source: Nguyen, Sreenath 2016, "Exponential control barrier functions for enforcing high relative-degree
    safety-critical constraints", section III, for rate p; Danskin 1966, "The theory of max-min, with applications", for
    the points; `quaddyn.kinematics.CapsuleModel`.  The square-root part of k and the bound within a period are
    additions.

    Args:
        model: capsules and pairs; or the robot, for a `CapsuleModel` of it.
        obstacles: obstacles by name; no obstacles if None.  `set_obstacle_pose` moves them; until then they are at the
            origin of the world.  In an exported controller they keep the position and velocity of the
            time of export.
        obstacle_positions: (3,) position of the origin by name of an obstacle [m]; the origin of the world if None.
        links: names of links that keep away from obstacles; all if None.
        self_collision: whether to include pairs of the robot's own links.
        margin: d_min, minimum distance [m].
        barrier_rate: p [1/s].
        max_acceleration: b, largest acceleration that is required of a pair and assumed available [m/s^2].
        name: name of the constraint in the controller.

    Attributes:
        model: as given or made.
        obstacles: obstacles by name; empty if None was given.
        margin: minimum distance [m]; may be set at any time.
        barrier_rate: p [1/s]; may be set at any time.
        max_acceleration: b [m/s^2]; may be set at any time.
        pairs: names of all pairs, one entry for each two capsules.
        left_out: names of pairs that are nearer than `margin` in the home configuration, such as feet and their ground,
            and therefore excluded: level 0 could not be satisfied from there.

    Raises:
        ArgumentError: no pair remains.
        UnknownNameError: a link or obstacle does not exist.
    """

    unit = "m/s^2"
    margin, barrier_rate, max_acceleration = (
        ScalarParameter(0),
        ScalarParameter(1, zero=False),
        ScalarParameter(2, zero=False),
    )

    @renamed_parameters(most="max_acceleration", rate="barrier_rate", placed="obstacle_positions")
    def __init__(
        self,
        model: CapsuleModel | Robot,
        *,
        obstacles: Mapping[str, Obstacle] | None = None,
        obstacle_positions: Mapping[str, ArrayLike] | None = None,
        links: tuple[str, ...] | None = None,
        self_collision: bool = True,
        margin: float = 0.01,
        barrier_rate: float = 50.0,
        max_acceleration: float = 100.0,
        name: str = "collisions",
    ) -> None:
        self.model = CapsuleModel(model) if isinstance(model, Robot) else model
        if not isinstance(self.model, CapsuleModel):
            raise ArgumentTypeError(f"model: expected a CapsuleModel or a Robot, got {type(model).__name__}")
        self.obstacles = dict(obstacles or {})
        robot = self.model.robot
        robot.reject_coupled_joints("CollisionLimits")
        obstacle_origins = find_obstacle_origins(self.obstacles, obstacle_positions or {})
        chosen = choose_pairs(self.model, self.obstacles, obstacle_origins, links, self_collision, margin)
        super().__init__(name, HEADER_SIZE + CAPSULE_SIZE * len(chosen.capsules), robot=robot)
        self.pairs, self.left_out, self.labels = chosen.names, chosen.left_out, chosen.labels
        self._bodies, self._pairs, self._capsules_of_obstacle = chosen.bodies, chosen.pairs, chosen.capsules_of_obstacle
        self.margin, self.barrier_rate, self.max_acceleration = margin, barrier_rate, max_acceleration
        self.block[3] = float(robot.root == "free")
        self._capsules()[:] = chosen.capsules
        for key, point in obstacle_origins.items():
            self.set_obstacle_pose(key, point)

    def set_obstacle_pose(
        self, obstacle: str, position: ArrayLike, *, rotation: ArrayLike | None = None, velocity: ArrayLike = (0, 0, 0)
    ) -> None:
        """Sets the pose and velocity of an obstacle.

        Args:
            obstacle: name of the obstacle.
            position: (3,) position of its origin [m].
            rotation: (3, 3) rotation from its axes to the world's; the identity if None.
            velocity: (3,) linear velocity [m/s].

        Raises:
            UnknownNameError: the obstacle does not exist.
            ArgumentError: another shape, a number that is not finite, or a matrix that is not a rotation.
        """
        if obstacle not in self.obstacles:
            raise UnknownNameError("obstacle", obstacle, self.obstacles)
        p = check_vector("position", position, (3,), "a point")
        v = check_vector("velocity", velocity, (3,), "a velocity")
        capsules = self._capsules()[self._capsules_of_obstacle[obstacle]]
        ends = transform_obstacle_ends(self.obstacles[obstacle], p, rotation)
        for row, (start, end) in zip(capsules, ends, strict=True):
            capsule = capsule_parameters(row, 0)
            capsule.start[:], capsule.end[:], capsule.velocity[:] = start, end, v

    def _capsules(self) -> Array:
        """Returns the parameters of the capsules, (capsules, CAPSULE_SIZE), as a view of the block."""
        return self.block[HEADER_SIZE:].reshape(-1, CAPSULE_SIZE)

    def distance_margins(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Computes the distance of every pair above `margin`, and its rate of change.

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity.

        Returns:
            (pairs,) [m] and (pairs,) [m/s], in the order of `pairs`.
        """
        margins, rates = self._margins_of_parts(self.block, q, v)
        nearest = np.argmin(margins, axis=1)[:, None]
        return np.take_along_axis(margins, nearest, 1)[:, 0], np.take_along_axis(rates, nearest, 1)[:, 0]

    def _margins_of_parts(self, parameters: Array, q: Array, v: Array, p: float = 0.0) -> tuple[Array, Array]:
        """Returns (pairs, PARTS) margins and rates; infinite and 0 where a pair has no such part."""
        return compute_part_distances(self.model.robot, self._bodies, self._pairs, parameters, q, v, p)

    def find_nonviable(self, parameters: Array, q: Array, v: Array) -> tuple[str, ...]:
        """Returns the names of the pairs that are nearer than `margin`, or too fast to keep it."""
        shared = collision_parameters(parameters)
        p, max_acceleration = float(shared.barrier_rate), float(shared.max_acceleration)
        nearest, (margins, speeds) = (
            self._margins_of_parts(parameters, q, v)[0],
            self._margins_of_parts(parameters, q, v, p),
        )
        allowed_speeds = np.array(
            [max_approach_speed(margin, p, max_acceleration) for margin in margins.ravel().tolist()]
        ).reshape(margins.shape)
        is_nonviable = (nearest < -MAX_PENETRATION) | (speeds + allowed_speeds < -MAX_PENETRATION * p)
        return tuple(dict.fromkeys(self.pairs[i] for i in np.flatnonzero(is_nonviable.any(axis=1)).tolist()))

    def bind(self, references: ReferenceResolver) -> tuple[int, int]:
        """Returns the positions of two lists: capsules' frames (-1 for obstacles), and pairs behind their number."""
        frames = references.add_index_list(references.add_frame(body) if body else -1 for body in self._bodies)
        return frames, references.add_index_list([len(self._pairs), *make_pair_list(self._pairs, self._capsules())])

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Returns a layout of four scalars, `CAPSULE_SIZE` parameters per capsule, and rows of all parts of pairs."""
        n, max_pairs = counts.rows, max(0, (counts.entries - counts.rows - 1) // PAIR_ENTRIES)
        lists = range(counts.entries - n + 1), range(counts.entries)
        return Layout(
            n, HEADER_SIZE + CAPSULE_SIZE * n, first=lists[0], second=lists[1], limits=N_PARTS * max_pairs, capsules=n
        )

    def row_name(self, contact: str, row: int) -> str:
        """Returns the name of a row for explanations; `contact` is not used."""
        return f"{self.pairs[row // N_PARTS]} distance"


CollisionLimits.kind = ElementKind(109, write_collision_rows)
