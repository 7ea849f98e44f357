"""Motion of a segment that is fixed to a body, or that moves with a given velocity.

A segment is given by its start and the vector from there to its end: 18 numbers, the positions of the two, their
velocities and their accelerations at a = 0.  A point between the ends is the start plus a multiple of the vector, in
all three.
"""

from __future__ import annotations

from ...compiler import Matrix, Vector, compiled

#: Entries: position, velocity and acceleration at a = 0 of the start, and of the vector from the start to the end.
START, EXTENT, START_VELOCITY, EXTENT_VELOCITY, START_DRIFT, EXTENT_DRIFT, SEGMENT_SIZE = 0, 3, 6, 9, 12, 15, 18


@compiled(inline=False)
def write_moving_segment(
    rotation: Matrix, origin: Vector, velocity: Vector, drift: Vector, z: Vector, x: Vector
) -> None:
    """Computes the motion of a segment that is fixed to a body.

    Args:
        rotation: (3, 3) rotation of the body.
        origin: (3,) position of its origin.
        velocity: (6,) linear and angular velocity.
        drift: (6,) acceleration at a = 0.
        z: (6,) ends of the segment in the body.
        x: (SEGMENT_SIZE,) takes the motion.
    """
    a0, a1, a2 = rotation[0, 0], rotation[0, 1], rotation[0, 2]
    b0, b1, b2 = rotation[1, 0], rotation[1, 1], rotation[1, 2]
    c0, c1, c2 = rotation[2, 0], rotation[2, 1], rotation[2, 2]
    wx, wy, wz, ax, ay, az = velocity[3], velocity[4], velocity[5], drift[3], drift[4], drift[5]
    z0, z1, z2 = z[0], z[1], z[2]
    rx, ry, rz = a0 * z0 + a1 * z1 + a2 * z2, b0 * z0 + b1 * z1 + b2 * z2, c0 * z0 + c1 * z1 + c2 * z2
    vx, vy, vz = wy * rz - wz * ry, wz * rx - wx * rz, wx * ry - wy * rx
    x[START] = origin[0] + rx
    x[START + 1] = origin[1] + ry
    x[START + 2] = origin[2] + rz
    x[START_VELOCITY] = velocity[0] + vx
    x[START_VELOCITY + 1] = velocity[1] + vy
    x[START_VELOCITY + 2] = velocity[2] + vz
    x[START_DRIFT] = drift[0] + (wy * vz - wz * vy) + (ay * rz - az * ry)
    x[START_DRIFT + 1] = drift[1] + (wz * vx - wx * vz) + (az * rx - ax * rz)
    x[START_DRIFT + 2] = drift[2] + (wx * vy - wy * vx) + (ax * ry - ay * rx)
    z0, z1, z2 = z[3] - z0, z[4] - z1, z[5] - z2
    rx, ry, rz = a0 * z0 + a1 * z1 + a2 * z2, b0 * z0 + b1 * z1 + b2 * z2, c0 * z0 + c1 * z1 + c2 * z2
    vx, vy, vz = wy * rz - wz * ry, wz * rx - wx * rz, wx * ry - wy * rx
    x[EXTENT] = rx
    x[EXTENT + 1] = ry
    x[EXTENT + 2] = rz
    x[EXTENT_VELOCITY] = vx
    x[EXTENT_VELOCITY + 1] = vy
    x[EXTENT_VELOCITY + 2] = vz
    x[EXTENT_DRIFT] = (wy * vz - wz * vy) + (ay * rz - az * ry)
    x[EXTENT_DRIFT + 1] = (wz * vx - wx * vz) + (az * rx - ax * rz)
    x[EXTENT_DRIFT + 2] = (wx * vy - wy * vx) + (ax * ry - ay * rx)


@compiled()
def write_translating_segment(z: Vector, velocity: Vector, x: Vector) -> None:
    """Writes the motion of a segment whose ends z both move with a constant velocity."""
    for d in range(3):
        x[START + d] = z[d]
        x[EXTENT + d] = z[3 + d] - z[d]
        x[START_VELOCITY + d] = velocity[d]
        x[EXTENT_VELOCITY + d] = 0.0
        x[START_DRIFT + d] = 0.0
        x[EXTENT_DRIFT + d] = 0.0
