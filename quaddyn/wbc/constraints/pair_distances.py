"""Distances of the pairs of `CollisionLimits` outside of ticks, and their rates of change."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ...compiler import IntMatrix, IntVector, Matrix, Tensor, Vector, compiled, entry, zeros
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..collision_data import N_PARTS, CollisionScratch, make_collision_scratch
from .capsule_parameters import HEADER_SIZE, capsule_parameters, collision_parameters
from .collision_blocks import store_point_in_lane, store_segment_in_lane, store_two_points_in_lane
from .critical_points import POINT_ITERATIONS, compute_distance_motion, find_critical_points
from .distance_barrier import Barrier
from .pair_motion import MIN_SEPARATION
from .segment_motion import write_moving_segment, write_translating_segment


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
