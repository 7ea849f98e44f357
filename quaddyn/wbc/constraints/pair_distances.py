"""Distances of the pairs of `CollisionLimits` outside of ticks, and their rates of change."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ...compiler import IntMatrix, IntVector, Matrix, Tensor, compiled, entry, zeros
from ...robot.robot import Robot
from ...urdf.tree import Array
from .capsule_segments import FLAT, HALF, HEAD, RADIUS, SPEED, WIDTH
from .collision_blocks import KNOWN, PARTS, PairBlock, PointBlock, gather_pair, gather_point, gather_points
from .critical_points import FOUND, POINT_ITERATIONS, S, T, evaluate_points, locate_pair_points
from .distance_barrier import Barrier
from .pair_motion import CROSSING, KEEPING, MOTION, D, N, W
from .segment_motion import SEGMENT, moving_segment, resting_segment


@compiled()
def has_part(part: int, flat: bool, half: float, other_half: float) -> bool:
    """Returns whether a pair has this part: a ball has no ends, and from a plane only the ends of a capsule count."""
    if flat:
        return part == 0 if half == 0.0 else part == 1 or part == 2
    return part == 0 or (half > 0.0 and other_half > 0.0)


@entry("gaps of pairs")
def evaluate_pair_distances(
    numbers: Matrix,
    frames: IntVector,
    pairs: IntMatrix,
    rotations: Tensor,
    origins: Matrix,
    velocities: Matrix,
    segments: Matrix,
    out: Matrix,
    rates: Matrix,
    margin: float,
    p: float,
    max_acceleration: float,
) -> int:
    """Computes the distances of the surfaces of capsules, and their rates of change.

    Args:
        numbers: (capsules, WIDTH) parameters of the capsules.
        frames: (capsules,) indices of bodies, -1 for obstacles.
        pairs: (pairs, 2) indices of capsules.
        rotations: (bodies, 3, 3) rotations of the bodies.
        origins: (bodies, 3) positions of the bodies [m].
        velocities: (bodies, 6) linear and angular velocities.
        segments: (capsules, SEGMENT) buffer.
        out: (pairs, PARTS) takes the distances [m]; unchanged where a pair has no such part.
        rates: (pairs, PARTS) takes their rates of change [m/s].
        margin: minimum distance [m].
        p: barrier rate [1/s]; 0 for the nearest points.
        max_acceleration: largest acceleration [m/s^2].

    Returns:
        The number of pairs.
    """
    still, rounds = zeros(6), POINT_ITERATIONS if p > 0.0 else 1
    by = Barrier(max(p, 1.0), max_acceleration, margin, 0.0, 0.0, 0)
    block = PairBlock(zeros(96), zeros(96), zeros(8), zeros(8 * FOUND))
    points = PointBlock(zeros(8 * KEEPING), zeros(8), zeros(8), zeros(8 * MOTION), zeros(8 * KNOWN))
    for k in range(len(frames)):
        z, x, i = numbers[k], segments[k], frames[k]
        if i >= 0:
            moving_segment(rotations[i], origins[i], velocities[i], still, z, x)
        else:
            resting_segment(z, z[SPEED:], x)
    count: int = pairs.shape[0]
    for first in range(0, count, 8):
        here = min(count - first, 8)
        for lane in range(here):
            a, b = pairs[first + lane, 0], pairs[first + lane, 1]
            gather_pair(block, lane, segments[a], segments[b])
            block.reach[lane] = numbers[a, RADIUS] + numbers[b, RADIUS] + margin
            points.reach[lane] = block.reach[lane]
        locate_pair_points(block, by, rounds)
        for part in range(2 * PARTS):
            flat = part >= PARTS
            for lane in range(here):
                x, y = segments[pairs[first + lane, 0]], segments[pairs[first + lane, 1]]
                if part == 0:
                    gather_points(points.M, lane, x, block.found[8 * S + lane], y, block.found[8 * T + lane])
                elif flat or part < 3:
                    gather_point(points.M, lane, x, 1.0 if part % PARTS == 2 else 0.0, y)
                else:
                    gather_point(points.M, lane, y, float(part - 3), x)
            evaluate_points(points, flat, by, rounds)
            for lane in range(here):
                a, b, at = pairs[first + lane, 0], pairs[first + lane, 1], first + lane
                its_own = (numbers[b, FLAT] != 0.0) == flat
                if its_own and has_part(part % PARTS, flat, numbers[a, HALF], numbers[b, HALF]):
                    d = points.motion[8 * D + lane]
                    speed = 0.0
                    for e in range(3):
                        speed += points.motion[8 * (N + e) + lane] * points.motion[8 * (W + e) + lane]
                    crossing = not flat and d < CROSSING
                    out[at, part % PARTS] = (0.0 if crossing else d) - numbers[a, RADIUS] - numbers[b, RADIUS]
                    rates[at, part % PARTS] = 0.0 if crossing else speed
    return count


def part_distances(
    robot: Robot, bodies: tuple[str, ...], pairs: NDArray[np.int64], numbers: Array, q: Array, v: Array, p: float
) -> tuple[Array, Array]:
    """Computes the distances of the parts of pairs above the margin, and their rates of change.

    Args:
        robot: the robot.
        bodies: (capsules,) names of the frames of the capsules, "" for obstacles.
        pairs: (pairs, 2) indices of capsules.
        numbers: parameters of `CollisionLimits`.
        q: (nq,) configuration.
        v: (nv,) velocity.
        p: barrier rate [1/s]; 0 for the nearest points.

    Returns:
        (pairs, PARTS) each [m] and [m/s], infinite and 0 where a pair has no such part.
    """
    model, data = robot.model, robot.model.createData()
    robot.algorithms.forwardKinematics(model, data, q, v)
    known = {each: i for i, each in enumerate(dict.fromkeys(x for x in bodies if x))}
    R, at, speeds = np.zeros((len(known), 3, 3)), np.zeros((len(known), 3)), np.zeros((len(known), 6))
    for body, i in known.items():
        frame = robot.frame_id(body)
        placement = pin.updateFramePlacement(model, data, frame)
        R[i], at[i] = placement.rotation, placement.translation
        speeds[i] = pin.getFrameVelocity(model, data, frame, pin.LOCAL_WORLD_ALIGNED).vector
    frames = np.array([known.get(x, -1) for x in bodies], dtype=np.int64)
    margins, rates = np.full((len(pairs), PARTS), np.inf), np.zeros((len(pairs), PARTS))
    capsules = np.ascontiguousarray(numbers[HEAD : HEAD + WIDTH * len(frames)].reshape(-1, WIDTH))
    memory, margin, max_acceleration = np.zeros((len(frames), SEGMENT)), float(numbers[0]), float(numbers[2])
    evaluate_pair_distances(capsules, frames, pairs, R, at, speeds, memory, margins, rates, margin, p, max_acceleration)
    return margins - numbers[0], rates
