"""Selection of the pairs of capsules whose distance `CollisionLimits` limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...compiler import LANE_WIDTH
from ...errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ...kinematics.capsule_model import Capsule, CapsuleModel, nearest_segment_parameters
from ...kinematics.obstacles import Obstacle
from ...robot.arguments import check_vector
from ...urdf.tree import Array
from .capsule_parameters import capsule_parameters, make_capsule_parameters


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
