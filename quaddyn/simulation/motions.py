"""Joint motions: placement of a joint at q, and integration of q with v on the manifold, as in Pinocchio; compiled."""

from __future__ import annotations

import math

from ..compiler import Vector, compiled, local
from ..robot.loop_geometry import rotation_about
from .kinematic_tree import CONTINUOUS, FREE, PLANAR, PRISMATIC, REVOLUTE, KinematicTree

#: Angle below which the exponential map is computed by a series [rad].
SMALL_ANGLE = 0.3


@compiled(inline=False)
def joint_placement(kind: int, axis: Vector, q: Vector, out: Vector) -> None:
    """Computes the placement (12,) of a joint's moved frame relative to its frame at zero."""
    x, y, z, c, s = axis[0], axis[1], axis[2], 1.0, 0.0
    out[9], out[10], out[11] = 0.0, 0.0, 0.0
    if kind == REVOLUTE:
        c, s = math.cos(q[0]), math.sin(q[0])
    elif kind == CONTINUOUS:
        c, s = q[0], q[1]
    elif kind == PLANAR:
        c, s = q[2], q[3]
        out[9], out[10] = q[0], q[1]
    elif kind == PRISMATIC:
        out[9], out[10], out[11] = x * q[0], y * q[0], z * q[0]
    else:
        out[9], out[10], out[11] = q[0], q[1], q[2]
        _quaternion_rotation(q[3:], out)
        return
    rotation_about(axis, c, s, out)


@compiled()
def _quaternion_rotation(quaternion: Vector, out: Vector) -> None:
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
        here, move, there = q[bodies.q[i] :], v[bodies.v[i] :], out[bodies.q[i] :]
        if kind == FREE:
            _integrate_free(here, move, h, there)
        elif kind == PLANAR:
            _integrate_planar(here, move, h, there)
        elif kind == CONTINUOUS:
            _rotate_unit_vector(here, h * move[0], there)
        else:
            there[0] = here[0] + h * move[0]


@compiled()
def _rotate_unit_vector(here: Vector, angle: float, there: Vector) -> None:
    """Rotates (cos, sin) by an angle [rad]; the result has unit norm."""
    c, s = math.cos(angle), math.sin(angle)
    x, y = c * here[0] - s * here[1], s * here[0] + c * here[1]
    scale = 1.5 - 0.5 * (x * x + y * y)
    there[0], there[1] = scale * x, scale * y


@compiled()
def _exponential_coefficients(angle: float) -> tuple[float, float]:
    """Returns ``(1 - cos a) / a^2`` and ``(a - sin a) / a^3``."""
    square = angle * angle
    if angle > SMALL_ANGLE:
        half = math.sin(0.5 * angle)
        return 2.0 * half * half / square, (angle - math.sin(angle)) / (square * angle)
    first = 1.0 - square / 12.0 * (1.0 - square / 30.0 * (1.0 - square / 56.0 * (1.0 - square / 90.0)))
    second = 1.0 - square / 20.0 * (1.0 - square / 42.0 * (1.0 - square / 72.0 * (1.0 - square / 110.0)))
    return 0.5 * first, second / 6.0


@compiled()
def _integrate_planar(here: Vector, move: Vector, h: float, there: Vector) -> None:
    """Computes position and (cos, sin) after a motion in the joint's own axes."""
    x, y, angle = h * move[0], h * move[1], h * move[2]
    cosine, sine = _exponential_coefficients(abs(angle))
    along, across = 1.0 - angle * angle * sine, angle * cosine  # sin a / a, (1 - cos a) / a
    u, w = along * x - across * y, across * x + along * y
    there[0] = here[0] + here[2] * u - here[3] * w
    there[1] = here[1] + here[3] * u + here[2] * w
    _rotate_unit_vector(here[2:], angle, there[2:])


@compiled()
def _integrate_free(here: Vector, move: Vector, h: float, there: Vector) -> None:
    """Computes position and quaternion after a motion in the joint's own axes."""
    R, u = local(9), local(3)
    x, y, z, a, b, c = h * move[0], h * move[1], h * move[2], h * move[3], h * move[4], h * move[5]
    angle = math.sqrt(a * a + b * b + c * c)
    first, second = _exponential_coefficients(angle)
    p, q, r = b * z - c * y, c * x - a * z, a * y - b * x
    u[0] = x + first * p + second * (b * r - c * q)
    u[1] = y + first * q + second * (c * p - a * r)
    u[2] = z + first * r + second * (a * q - b * p)
    _quaternion_rotation(here[3:], R)
    for k in range(3):
        there[k] = here[k] + R[k] * u[0] + R[3 + k] * u[1] + R[6 + k] * u[2]
    # sin(a / 2) / a = (1 - (a / 2)^2 (a / 2 - sin(a / 2)) / (a / 2)^3) / 2
    quarter = 0.25 * angle * angle
    _, half_sine = _exponential_coefficients(0.5 * angle)
    part, w = 0.5 * (1.0 - quarter * half_sine), math.cos(0.5 * angle)
    i, j, k_, l_ = here[3], here[4], here[5], here[6]
    a, b, c = part * a, part * b, part * c
    qx = w * i + l_ * a + j * c - k_ * b
    qy = w * j + l_ * b + k_ * a - i * c
    qz = w * k_ + l_ * c + i * b - j * a
    qw = l_ * w - i * a - j * b - k_ * c
    scale = 1.5 - 0.5 * (qx * qx + qy * qy + qz * qz + qw * qw)
    if qx * i + qy * j + qz * k_ + qw * l_ < 0.0:
        scale = -scale
    there[3], there[4], there[5], there[6] = scale * qx, scale * qy, scale * qz, scale * qw
