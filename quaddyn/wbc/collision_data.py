"""Arrays of `CollisionLimits`: motions of capsules, screws of joints, and blocks of eight pairs and of eight points.

A block holds one item in each of eight SIMD lanes.  A field of eight numbers has the size 8; a field of eight vectors
has the size 24: all x, all y, all z (`load3` and `store3` read and write it).  Unused lanes contain old data,
which are ignored.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiler import LANE_WIDTH, ByteVector, IntVector, Matrix, Vector
from ..compiler.linalg import aligned
from ..urdf.tree import Array

#: Number of parts of a pair: the whole pair, the two ends of the first capsule, the two ends of the second.
N_PARTS = 5


class CapsuleSegments(NamedTuple):
    """Motion of the segments of all capsules, world axes: of the start, and of the vector from the start to the end.

    A point between the ends is the start plus a multiple of the vector, in position, velocity and drift.
    """

    start: Matrix  # (capsules, 3) [m]
    extent: Matrix  # (capsules, 3) vector to the end [m]
    start_velocity: Matrix  # (capsules, 3) [m/s]
    extent_velocity: Matrix  # (capsules, 3) [m/s]
    start_drift: Matrix  # (capsules, 3) acceleration at a = 0 [m/s^2]
    extent_drift: Matrix  # (capsules, 3) [m/s^2]


class CapsuleMidpoints(NamedTuple):
    """Motion of the midpoints of all capsules, one column per capsule, world axes; padded to whole SIMD lanes."""

    position: Matrix  # (3, ...) [m]
    velocity: Matrix  # (3, ...) [m/s]
    half_extent: Matrix  # (3, ...) vector from the midpoint to the second end [m]
    half_extent_velocity: Matrix  # (3, ...) [m/s]
    radius: Vector  # [m]
    reach: Vector  # contribution to the distance of midpoints within which a pair may need a row [m]


class JointScrews(NamedTuple):
    """Screws of joints about the origin of the world, one column per velocity; padded to whole SIMD lanes.

    V is the velocity screw of the body that a joint moves: the sum of the screws of its chain times their velocities.
    """

    linear: Matrix  # (3, ...) linear part of the screw
    angular: Matrix  # (3, ...) angular part of the screw
    linear_rate: Matrix  # (3, ...) time derivative of the linear part
    angular_rate: Matrix  # (3, ...) time derivative of the angular part
    body_linear: Matrix  # (3, ...) linear part of V [m/s]
    body_angular: Matrix  # (3, ...) angular part of V [rad/s]
    turn_sum: Vector  # sum of absolute angular velocities of the joints up to this one [rad/s]
    turn_sum_before: Vector  # sum up to the previous joint [rad/s]
    speed: Vector  # absolute velocity
    is_filled: ByteVector  # whether the column belongs to the current state


class SegmentBlock(NamedTuple):
    """Positions and velocities of eight segments, see `CapsuleSegments`."""

    start: Vector  # (24,)
    extent: Vector  # (24,)
    start_velocity: Vector  # (24,)
    extent_velocity: Vector  # (24,)


class CriticalPoints(NamedTuple):
    """Critical points of eight pairs, see `find_critical_points`."""

    part_needs_row: Matrix  # (N_PARTS, 8) > 0 where a part may need a row: the whole pair, or an end with a segment
    position: Vector  # (8,) position along the first segment, in [0, 1]
    other_position: Vector  # (8,) position along the second segment, in [0, 1]
    rate: Vector  # (8,) rate of `position` while both points are between the ends [1/s]
    other_rate: Vector  # (8,) rate of `other_position` [1/s]
    preview_time: Vector  # (8,) [s]


class PairBlock(NamedTuple):
    """Eight pairs of segments."""

    pair: IntVector  # (8,) index of the pair
    first: SegmentBlock
    second: SegmentBlock
    reach: Vector  # (8,) distance of the segments with zero margin [m]
    critical: CriticalPoints


class DistanceMotion(NamedTuple):
    """Distances of eight points from their segments or planes, and their derivatives."""

    distance: Vector  # (8,) [m]
    second_derivative: Vector  # (8,) at a = 0 [m/s^2]
    third_derivative: Vector  # (8,) without the third derivatives of the two points [m/s^3]
    normal: Vector  # (24,) unit vector from the point to the segment
    relative_velocity: Vector  # (24,) velocity of the segment's point relative to the point [m/s]


class DistanceRows(NamedTuple):
    """Data of the rows of eight points.

    A row is the product of a wrench (force and moment about the origin) with the screws of the joints, plus that of
    another wrench with the rates of the screws.
    """

    need: Vector  # (8,) >= 0 where the point needs a row
    remaining_speed: Vector  # (8,) [m/s]
    lower: Vector  # (8,) lower bound of the row [m/s^2]
    relaxation: Vector  # (8,) relaxation of the bound [m/s^2]
    force: Vector  # (24,)
    moment: Vector  # (24,)
    rate_force: Vector  # (24,) wrench for the rates of the screws [s]
    rate_moment: Vector  # (24,)
    other_point: Vector  # (24,) position of the point of the segment or plane [m]


class PointBlock(NamedTuple):
    """Eight points, each with the segment or plane to which its distance is limited."""

    pair: IntVector  # (8,) index of the pair
    part: IntVector  # (8,) part of the pair
    frame: IntVector  # (8,) index of the frame of the point
    other_frame: IntVector  # (8,) index of the frame of the segment, -1 if no joint moves it
    common: IntVector  # (8,) number of velocities that move both frames
    position: Vector  # (24,) of the point [m]
    velocity: Vector  # (24,) [m/s]
    drift: Vector  # (24,) acceleration at a = 0 [m/s^2]
    segment: SegmentBlock  # the "segment" of a plane has its normal as start, and a point of the plane at its end
    start_drift: Vector  # (24,) of the segment [m/s^2]
    extent_drift: Vector  # (24,) of the segment [m/s^2]
    reach: Vector  # (8,) distance with zero margin [m]
    relaxation: Vector  # (8,) relaxation of the bounds of sliding points [m/s^2]
    motion: DistanceMotion
    rows: DistanceRows


class CollisionScratch(NamedTuple):
    """All arrays of `CollisionLimits`."""

    segments: CapsuleSegments
    midpoints: CapsuleMidpoints
    screws: JointScrews
    pairs: PairBlock
    points: PointBlock


def make_collision_scratch(capsules: int, nv: int) -> CollisionScratch:
    """Returns zeros in all arrays.

    Args:
        capsules: largest number of capsules.
        nv: number of velocities.
    """
    # eight columns may be read from any column on
    capsule_columns, joint_columns = (LANE_WIDTH * (n // LANE_WIDTH + 2) for n in (capsules, nv))
    joint_arrays = [*_vectors(6, joint_columns), *_numbers(3, joint_columns), np.zeros(joint_columns, dtype=np.int8)]
    indices = np.zeros((5, LANE_WIDTH), dtype=np.int64)
    return CollisionScratch(
        CapsuleSegments._make(np.zeros((len(CapsuleSegments._fields), capsules, 3))),
        CapsuleMidpoints._make([*_vectors(4, capsule_columns), *_numbers(2, capsule_columns)]),
        JointScrews._make(joint_arrays),
        PairBlock(
            pair=np.zeros(LANE_WIDTH, dtype=np.int64),
            first=SegmentBlock._make(_lane_vectors(4)),
            second=SegmentBlock._make(_lane_vectors(4)),
            reach=aligned(LANE_WIDTH),
            critical=CriticalPoints._make([aligned(N_PARTS, LANE_WIDTH), *_numbers(5)]),
        ),
        PointBlock._make(
            [
                *indices,
                *_lane_vectors(3),
                SegmentBlock._make(_lane_vectors(4)),
                *_lane_vectors(2),
                *_numbers(2),
                DistanceMotion._make([*_numbers(3), *_lane_vectors(2)]),
                DistanceRows._make([*_numbers(4), *_lane_vectors(5)]),
            ]
        ),
    )


def _vectors(count: int, columns: int) -> Array:
    return aligned(count, 3, columns)


def _lane_vectors(count: int) -> Array:
    return aligned(count, 3 * LANE_WIDTH)


def _numbers(count: int, columns: int = LANE_WIDTH) -> Array:
    return aligned(count, columns)
