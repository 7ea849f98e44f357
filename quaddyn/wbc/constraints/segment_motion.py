"""Motion of the segment of a capsule that is fixed to a body, or that moves with a given velocity."""

from __future__ import annotations

from ...compiler import Matrix, Vector, compiled, cross, mat3, vec3
from ..collision_data import CapsuleSegments
from .capsule_parameters import CapsuleParameters


@compiled(inline=False)
def write_moving_segment(
    rotation: Matrix, origin: Vector, velocity: Vector, drift: Vector, capsule: CapsuleParameters,
    segments: CapsuleSegments, k: int,
) -> None:  # fmt: skip
    """Computes the motion of a segment that is fixed to a body.

    Args:
        rotation: (3, 3) rotation of the body.
        origin: (3,) position of its origin.
        velocity: (6,) linear and angular velocity.
        drift: (6,) acceleration at a = 0.
        capsule: the capsule in the body.
        segments: takes the motion.
        k: index of the capsule.
    """
    R, omega, alpha = mat3(rotation), vec3(velocity[3:6]), vec3(drift[3:6])
    start = R @ vec3(capsule.start)
    start_velocity = cross(omega, start)
    segments.start[k] = vec3(origin) + start
    segments.start_velocity[k] = vec3(velocity[0:3]) + start_velocity
    segments.start_drift[k] = vec3(drift[0:3]) + cross(omega, start_velocity) + cross(alpha, start)
    extent = R @ (vec3(capsule.end) - vec3(capsule.start))
    extent_velocity = cross(omega, extent)
    segments.extent[k] = extent
    segments.extent_velocity[k] = extent_velocity
    segments.extent_drift[k] = cross(omega, extent_velocity) + cross(alpha, extent)


@compiled()
def write_translating_segment(capsule: CapsuleParameters, segments: CapsuleSegments, k: int) -> None:
    """Writes the motion of a segment whose ends both move with the velocity of an obstacle."""
    zero = vec3(0.0, 0.0, 0.0)
    segments.start[k] = vec3(capsule.start)
    segments.extent[k] = vec3(capsule.end) - vec3(capsule.start)
    segments.start_velocity[k] = vec3(capsule.velocity)
    segments.extent_velocity[k] = zero
    segments.start_drift[k] = zero
    segments.extent_drift[k] = zero
