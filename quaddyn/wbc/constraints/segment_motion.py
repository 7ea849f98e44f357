"""Motion of the ends of a segment that is fixed to a body, or that moves on its own."""

from __future__ import annotations

from ...compiling import Matrix, Vector, compiled


@compiled(inline=False)
def moving_ends(
    rotation: Matrix, origin: Vector, velocity: Vector, drift: Vector, z: Vector, P: Vector, V: Vector, C: Vector
) -> None:
    """Positions, velocities, and accelerations at a = 0, of the two ends of a segment.

    Args:
        rotation: (3, 3) of the body that it is fixed in.
        origin: (3,).
        velocity: (6,) linear, angular.
        drift: (6,) acceleration at a = 0.
        z: (6,) the segment's ends there.
        P: (6,) positions.
        V: (6,) velocities.
        C: (6,) accelerations.
    """
    x, y, t, a, b, c = velocity[3], velocity[4], velocity[5], drift[3], drift[4], drift[5]
    for e in range(0, 6, 3):
        rx = rotation[0, 0] * z[e] + rotation[0, 1] * z[e + 1] + rotation[0, 2] * z[e + 2]
        ry = rotation[1, 0] * z[e] + rotation[1, 1] * z[e + 1] + rotation[1, 2] * z[e + 2]
        rz = rotation[2, 0] * z[e] + rotation[2, 1] * z[e + 1] + rotation[2, 2] * z[e + 2]
        vx, vy, vz = y * rz - t * ry, t * rx - x * rz, x * ry - y * rx
        P[e] = origin[0] + rx
        P[e + 1] = origin[1] + ry
        P[e + 2] = origin[2] + rz
        V[e] = velocity[0] + vx
        V[e + 1] = velocity[1] + vy
        V[e + 2] = velocity[2] + vz
        C[e] = drift[0] + (y * vz - t * vy) + (b * rz - c * ry)
        C[e + 1] = drift[1] + (t * vx - x * vz) + (c * rx - a * rz)
        C[e + 2] = drift[2] + (x * vy - y * vx) + (a * ry - b * rx)


@compiled()
def resting_ends(z: Vector, velocity: Vector, P: Vector, V: Vector, C: Vector) -> None:
    """The same of a segment whose ends are at z and move with one velocity."""
    for i in range(6):
        P[i] = z[i]
        V[i] = velocity[i % 3]
        C[i] = 0.0
