"""Distances of the pairs of `CollisionLimits` outside of ticks, and how they change."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ...compiling import IntMatrix, IntVector, Matrix, Tensor, entry, local, zeros
from ...robot.robot import Robot
from ...urdf.tree import Array
from .barrier_points import part_motion
from .collision_blocks import PART, PARTS, Block, gather, has_part
from .pair_motion import CROSSING, MOTION, D, N, W
from .placed_capsules import FLAT, HALF, HEAD, RADIUS, SEGMENT, SPEED, WIDTH
from .segment_motion import moving_ends, resting_ends


@entry("gaps of pairs")
def pair_gaps(
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
    most: float,
) -> int:
    """Distances of capsules' surfaces, and how they change; how many pairs there are.

    Args:
        numbers: (capsules, WIDTH).
        frames: (capsules,) numbers of bodies, -1 for obstacles.
        pairs: (pairs, 2) numbers of capsules.
        rotations: (bodies, 3, 3).
        origins: (bodies, 3).
        velocities: (bodies, 6) linear, angular.
        segments: (capsules, SEGMENT), memory.
        out: (pairs, PARTS) [m]; left as it is where there is no such part.
        rates: (pairs, PARTS) [m/s].
        margin: [m].
        p: as of `part_motion` [1/s].
        most: as of `part_motion` [m/s^2].
    """
    P, V, C, motion, still, reach = zeros(12, 8), zeros(12, 8), zeros(12, 8), local(MOTION, 8), zeros(6), zeros(8)
    block = Block(P, V, C, motion, local(PARTS, PART, 8), reach, local(8))
    for k in range(len(frames)):
        z, x, i = numbers[k], segments[k], frames[k]
        if i >= 0:
            moving_ends(rotations[i], origins[i], velocities[i], still, z, x, x[6:], x[12:])
        else:
            resting_ends(z, z[SPEED:], x, x[6:], x[12:])
    count: int = pairs.shape[0]
    for first in range(0, count, 8):
        here = min(count - first, 8)
        for lane in range(here):
            a, b = pairs[first + lane, 0], pairs[first + lane, 1]
            gather(P, V, C, lane, segments[a], segments[b])
            reach[lane] = numbers[a, RADIUS] + numbers[b, RADIUS] + margin
        for part in range(2 * PARTS):
            flat = part >= PARTS
            part_motion(block, part % PARTS, flat, p, most)
            for lane in range(here):
                a, b, at = pairs[first + lane, 0], pairs[first + lane, 1], first + lane
                its_own = (numbers[b, FLAT] != 0.0) == flat
                if its_own and has_part(part % PARTS, flat, numbers[a, HALF], numbers[b, HALF]):
                    d = motion[D, lane]
                    speed = 0.0
                    for e in range(3):
                        speed += motion[N + e, lane] * motion[W + e, lane]
                    crossing = not flat and d < CROSSING
                    out[at, part % PARTS] = (0.0 if crossing else d) - numbers[a, RADIUS] - numbers[b, RADIUS]
                    rates[at, part % PARTS] = 0.0 if crossing else speed
    return count


def gaps_of(
    robot: Robot, bodies: tuple[str, ...], pairs: NDArray[np.int64], numbers: Array, q: Array, v: Array, p: float
) -> tuple[Array, Array]:
    """Room of the parts of pairs above the margin, and its rate of change.

    Args:
        robot: the robot.
        bodies: (capsules,) that they are fixed to, "" for obstacles.
        pairs: (pairs, 2) numbers of capsules.
        numbers: of `CollisionLimits`.
        q: (nq,) configuration.
        v: (nv,) velocity.
        p: as of `part_motion` [1/s].

    Returns:
        (pairs, PARTS) each [m] and [m/s], infinite and 0 where a pair has no such part.
    """
    model, data = robot.model, robot.model.createData()
    robot.algorithms.forwardKinematics(model, data, q, v)
    known = {each: i for i, each in enumerate(dict.fromkeys(x for x in bodies if x))}
    R, at, speeds = np.zeros((len(known), 3, 3)), np.zeros((len(known), 3)), np.zeros((len(known), 6))
    for body, i in known.items():
        frame = robot.frame_id(body)
        place = pin.updateFramePlacement(model, data, frame)
        R[i], at[i] = place.rotation, place.translation
        speeds[i] = pin.getFrameVelocity(model, data, frame, pin.LOCAL_WORLD_ALIGNED).vector
    frames = np.array([known.get(x, -1) for x in bodies], dtype=np.int64)
    rooms, rates = np.full((len(pairs), PARTS), np.inf), np.zeros((len(pairs), PARTS))
    capsules = np.ascontiguousarray(numbers[HEAD : HEAD + WIDTH * len(frames)].reshape(-1, WIDTH))
    memory, margin, most = np.zeros((len(frames), SEGMENT)), float(numbers[0]), float(numbers[2])
    pair_gaps(capsules, frames, pairs, R, at, speeds, memory, rooms, rates, margin, p, most)
    return rooms - numbers[0], rates
