"""Distances of eight points from their segments or planes and their derivatives, one point per SIMD lane.

Rows of eight numbers, one per lane, are stored behind each other in an array; three rows are a vector.  Segments have
the form of `segment_motion`: a start and the vector to the end.  They may be points.
"""

from __future__ import annotations

from ...compiler import Lanes, Matrix, Vector, broadcast8, compiled, load8, max8, min8, sqrt8, store8
from .segment_motion import EXTENT, EXTENT_DRIFT, EXTENT_VELOCITY, SEGMENT_SIZE, START, START_DRIFT, START_VELOCITY

#: Rows of points with segments: position, velocity and acceleration at a = 0 of the point; those of the segment.
POINT, POINT_VELOCITY, POINT_DRIFT, OTHER_SEGMENT, N_POINT_ROWS = 0, 3, 6, 9, 9 + SEGMENT_SIZE
#: Rows of a motion: distance; its second derivative at a = 0; its third derivative without the third derivatives of the
#: two points; unit vector from the point to the segment; velocity of the segment's point relative to the point.
DISTANCE, SECOND_DERIVATIVE, THIRD_DERIVATIVE, NORMAL, RELATIVE_VELOCITY, N_MOTION_ROWS = 0, 1, 2, 3, 6, 9
#: Distance [m] below which the direction between two points is undefined.
MIN_SEPARATION = 1e-9


@compiled(inline=True)
def dot8(ax: Lanes, ay: Lanes, az: Lanes, bx: Lanes, by: Lanes, bz: Lanes) -> Lanes:
    """Returns ``a . b`` of three rows each."""
    return ax * bx + ay * by + az * bz


@compiled(inline=True)
def clamp_to_unit8(x: Lanes) -> Lanes:
    """Returns x clamped to [0, 1]."""
    return min8(max8(x, broadcast8(0.0)), broadcast8(1.0))


@compiled(inline=True)
def load3(M: Vector, row: int) -> tuple[Lanes, Lanes, Lanes]:
    """Loads three rows."""
    return load8(M, 8 * row), load8(M, 8 * row + 8), load8(M, 8 * row + 16)


@compiled(inline=True)
def load3_at(M: Matrix, row: int, first: int) -> tuple[Lanes, Lanes, Lanes]:
    """Loads eight columns of three rows."""
    return load8(M, row, first), load8(M, row + 1, first), load8(M, row + 2, first)


@compiled(inline=True)
def difference3(M: Vector, row: int, other: int) -> tuple[Lanes, Lanes, Lanes]:
    """Returns the three rows from `other` on minus those from `row` on."""
    x, y, z = load3(M, row)
    u, v, w = load3(M, other)
    return u - x, v - y, w - z


@compiled(inline=True)
def store3(x: Lanes, y: Lanes, z: Lanes, out: Vector, row: int) -> None:
    """Stores three rows."""
    store8(x, out, 8 * row)
    store8(y, out, 8 * row + 8)
    store8(z, out, 8 * row + 16)


@compiled(inline=True)
def add_scaled3(
    ax: Lanes, ay: Lanes, az: Lanes, t: Lanes, bx: Lanes, by: Lanes, bz: Lanes
) -> tuple[Lanes, Lanes, Lanes]:
    """Returns ``a + t b``."""
    return ax + t * bx, ay + t * by, az + t * bz


@compiled(inline=False)
def compute_point_motion(M: Vector, position: Lanes, out: Vector) -> None:
    """Computes the distances of eight points from given points of their segments, and the derivatives.

    With the direction n, and relative velocity w and acceleration c of the segment's point, the second derivative of
    the distance is ``n . c + |w across n|^2 / d``.  Where the points coincide n is 0, and terms divided by d are
    finite.

    Args:
        M: N_POINT_ROWS rows of points and segments.
        position: position along the segments, in [0, 1].
        out: takes N_MOTION_ROWS rows.
    """
    ux, uy, uz = difference3(M, POINT, OTHER_SEGMENT + START)
    vx, vy, vz = load3(M, OTHER_SEGMENT + EXTENT)
    nx, ny, nz = add_scaled3(ux, uy, uz, position, vx, vy, vz)
    ux, uy, uz = difference3(M, POINT_VELOCITY, OTHER_SEGMENT + START_VELOCITY)
    vx, vy, vz = load3(M, OTHER_SEGMENT + EXTENT_VELOCITY)
    wx, wy, wz = add_scaled3(ux, uy, uz, position, vx, vy, vz)
    ux, uy, uz = difference3(M, POINT_DRIFT, OTHER_SEGMENT + START_DRIFT)
    vx, vy, vz = load3(M, OTHER_SEGMENT + EXTENT_DRIFT)
    cx, cy, cz = add_scaled3(ux, uy, uz, position, vx, vy, vz)
    d = sqrt8(dot8(nx, ny, nz, nx, ny, nz))
    inverse_distance = broadcast8(1.0) / max8(d, broadcast8(MIN_SEPARATION))
    nx, ny, nz = nx * inverse_distance, ny * inverse_distance, nz * inverse_distance
    normal_speed = dot8(nx, ny, nz, wx, wy, wz)
    second_derivative = dot8(nx, ny, nz, cx, cy, cz)
    second_derivative += (
        max8(dot8(wx, wy, wz, wx, wy, wz) - normal_speed * normal_speed, broadcast8(0.0)) * inverse_distance
    )
    store8(d, out, 8 * DISTANCE)
    store3(nx, ny, nz, out, NORMAL)
    store3(wx, wy, wz, out, RELATIVE_VELOCITY)
    store8(second_derivative, out, 8 * SECOND_DERIVATIVE)
    store8(
        3.0 * inverse_distance * (dot8(wx, wy, wz, cx, cy, cz) - normal_speed * second_derivative),
        out,
        8 * THIRD_DERIVATIVE,
    )


@compiled(inline=False)
def compute_plane_motion(M: Vector, out: Vector) -> None:
    """Computes the distances of eight points from planes, and their derivatives.

    The "segment" of a plane has the normal as its start, and a point of the plane at its end.
    """
    ax, ay, az = load3(M, POINT)
    nx, ny, nz = load3(M, OTHER_SEGMENT + START)
    bx, by, bz = load3(M, OTHER_SEGMENT + EXTENT)
    store8(dot8(nx, ny, nz, ax - bx - nx, ay - by - ny, az - bz - nz), out, 8 * DISTANCE)
    store3(-nx, -ny, -nz, out, NORMAL)
    ax, ay, az = difference3(M, POINT_VELOCITY, OTHER_SEGMENT + START_VELOCITY)
    store3(ax, ay, az, out, RELATIVE_VELOCITY)
    ax, ay, az = load3(M, POINT_DRIFT)
    store8(dot8(nx, ny, nz, ax, ay, az), out, 8 * SECOND_DERIVATIVE)
    store8(broadcast8(0.0), out, 8 * THIRD_DERIVATIVE)
