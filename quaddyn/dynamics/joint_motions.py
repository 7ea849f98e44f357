"""Joint motions: placement of a joint at q, and integration of q with v on the manifold, as in Pinocchio; compiled."""

from __future__ import annotations

import math

from ..compiler import Vector, compiled, local
from ..robot.loop_geometry import rotation_about
from .kinematic_tree import JointType, KinematicTree

#: Angle below which the exponential map is computed by a series [rad].
SMALL_ANGLE = 0.3


@compiled(inline=False)
def compute_joint_placement(kind: int, axis: Vector, q: Vector, out: Vector) -> None:
    """Computes the placement (12,) of a joint's frame at q relative to its frame at zero."""
    x, y, z, c, s = axis[0], axis[1], axis[2], 1.0, 0.0
    out[9], out[10], out[11] = 0.0, 0.0, 0.0
    if kind == JointType.REVOLUTE:
        c, s = math.cos(q[0]), math.sin(q[0])
    elif kind == JointType.CONTINUOUS:
        c, s = q[0], q[1]
    elif kind == JointType.PLANAR:
        c, s = q[2], q[3]
        out[9], out[10] = q[0], q[1]
    elif kind == JointType.PRISMATIC:
        out[9], out[10], out[11] = x * q[0], y * q[0], z * q[0]
    else:
        out[9], out[10], out[11] = q[0], q[1], q[2]
        _compute_quaternion_rotation(q[3:], out)
        return
    rotation_about(axis, c, s, out)


@compiled()
def _compute_quaternion_rotation(quaternion: Vector, out: Vector) -> None:
    """Computes the rotation of a unit quaternion (x, y, z, w), column by column."""
    x, y, z, w = quaternion[0], quaternion[1], quaternion[2], quaternion[3]
    out[0], out[1], out[2] = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)
    out[3], out[4], out[5] = 2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x)
    out[6], out[7], out[8] = 2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)


@compiled(inline=False)
def integrate_configuration(bodies: KinematicTree, q: Vector, v: Vector, h: float, out: Vector) -> None:
    """Computes ``out = q (+) h v``; `out` must be a different array."""
    for i in range(1, len(bodies.kind)):
        kind = bodies.kind[i]
        q_joint, v_joint, q_next = q[bodies.q[i] :], v[bodies.v[i] :], out[bodies.q[i] :]
        if kind == JointType.FREE:
            _integrate_free(q_joint, v_joint, h, q_next)
        elif kind == JointType.PLANAR:
            _integrate_planar(q_joint, v_joint, h, q_next)
        elif kind == JointType.CONTINUOUS:
            _rotate_unit_vector(q_joint, h * v_joint[0], q_next)
        else:
            q_next[0] = q_joint[0] + h * v_joint[0]


@compiled()
def _rotate_unit_vector(direction: Vector, angle: float, out: Vector) -> None:
    """Rotates (cos, sin) by an angle [rad]; the result has unit norm."""
    c, s = math.cos(angle), math.sin(angle)
    x, y = c * direction[0] - s * direction[1], s * direction[0] + c * direction[1]
    scale = 1.5 - 0.5 * (x * x + y * y)
    out[0], out[1] = scale * x, scale * y


@compiled()
def _compute_exponential_coefficients(angle: float) -> tuple[float, float]:
    """Returns ``(1 - cos a) / a^2`` and ``(a - sin a) / a^3``, the coefficients of the exponential map."""
    square = angle * angle
    if angle > SMALL_ANGLE:
        half = math.sin(0.5 * angle)
        return 2.0 * half * half / square, (angle - math.sin(angle)) / (square * angle)
    first = 1.0 - square / 12.0 * (1.0 - square / 30.0 * (1.0 - square / 56.0 * (1.0 - square / 90.0)))
    second = 1.0 - square / 20.0 * (1.0 - square / 42.0 * (1.0 - square / 72.0 * (1.0 - square / 110.0)))
    return 0.5 * first, second / 6.0


@compiled()
def _integrate_planar(q: Vector, v: Vector, h: float, out: Vector) -> None:
    """Integrates a planar joint, position and (cos, sin), with the velocity v in the joint's axes over a time h [s]."""
    x, y, angle = h * v[0], h * v[1], h * v[2]
    cosine_term, sine_term = _compute_exponential_coefficients(abs(angle))
    sine_ratio, cosine_ratio = 1.0 - angle * angle * sine_term, angle * cosine_term  # sin a / a, (1 - cos a) / a
    u, w = sine_ratio * x - cosine_ratio * y, cosine_ratio * x + sine_ratio * y
    out[0] = q[0] + q[2] * u - q[3] * w
    out[1] = q[1] + q[3] * u + q[2] * w
    _rotate_unit_vector(q[2:], angle, out[2:])


@compiled()
def _integrate_free(q: Vector, v: Vector, h: float, out: Vector) -> None:
    """Integrates a free joint, position and quaternion, with the velocity v in the joint's axes over a time h [s]."""
    R, u = local(9), local(3)
    x, y, z, a, b, c = h * v[0], h * v[1], h * v[2], h * v[3], h * v[4], h * v[5]
    angle = math.sqrt(a * a + b * b + c * c)
    first, second = _compute_exponential_coefficients(angle)
    axis_x, axis_y, axis_z = b * z - c * y, c * x - a * z, a * y - b * x
    u[0] = x + first * axis_x + second * (b * axis_z - c * axis_y)
    u[1] = y + first * axis_y + second * (c * axis_x - a * axis_z)
    u[2] = z + first * axis_z + second * (a * axis_y - b * axis_x)
    _compute_quaternion_rotation(q[3:], R)
    for k in range(3):
        out[k] = q[k] + R[k] * u[0] + R[3 + k] * u[1] + R[6 + k] * u[2]
    # sin(a / 2) / a = (1 - (a / 2)^2 (a / 2 - sin(a / 2)) / (a / 2)^3) / 2
    quarter = 0.25 * angle * angle
    _, half_sine = _compute_exponential_coefficients(0.5 * angle)
    vector_scale, w = 0.5 * (1.0 - quarter * half_sine), math.cos(0.5 * angle)
    i, j, k_, l_ = q[3], q[4], q[5], q[6]
    a, b, c = vector_scale * a, vector_scale * b, vector_scale * c
    qx = w * i + l_ * a + j * c - k_ * b
    qy = w * j + l_ * b + k_ * a - i * c
    qz = w * k_ + l_ * c + i * b - j * a
    qw = l_ * w - i * a - j * b - k_ * c
    scale = 1.5 - 0.5 * (qx * qx + qy * qy + qz * qz + qw * qw)
    if qx * i + qy * j + qz * k_ + qw * l_ < 0.0:
        scale = -scale
    out[3], out[4], out[5], out[6] = scale * qx, scale * qy, scale * qz, scale * qw
