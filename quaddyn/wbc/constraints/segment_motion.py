"""Motion of a segment that is fixed to a body, or that moves with a given velocity.

A segment is given by its start and the vector from there to its end: 18 numbers, the positions of the two, their
velocities and their accelerations at a = 0.  A point between the ends is the start plus a multiple of the vector, in
all three.
"""

from __future__ import annotations

from ...compiler import Matrix, Vector, compiled, cross, mat3, vec3

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
    R, omega, alpha = mat3(rotation), vec3(velocity[3:6]), vec3(drift[3:6])
    start = R @ vec3(z[0:3])
    start_velocity = cross(omega, start)
    x[START : START + 3] = vec3(origin) + start
    x[START_VELOCITY : START_VELOCITY + 3] = vec3(velocity[0:3]) + start_velocity
    x[START_DRIFT : START_DRIFT + 3] = vec3(drift[0:3]) + cross(omega, start_velocity) + cross(alpha, start)
    extent = R @ (vec3(z[3:6]) - vec3(z[0:3]))
    extent_velocity = cross(omega, extent)
    x[EXTENT : EXTENT + 3] = extent
    x[EXTENT_VELOCITY : EXTENT_VELOCITY + 3] = extent_velocity
    x[EXTENT_DRIFT : EXTENT_DRIFT + 3] = cross(omega, extent_velocity) + cross(alpha, extent)


@compiled()
def write_translating_segment(z: Vector, velocity: Vector, x: Vector) -> None:
    """Writes the motion of a segment whose ends z both move with a constant velocity."""
    x[:] = 0.0
    x[START : START + 3] = vec3(z[0:3])
    x[EXTENT : EXTENT + 3] = vec3(z[3:6]) - vec3(z[0:3])
    x[START_VELOCITY : START_VELOCITY + 3] = vec3(velocity)
