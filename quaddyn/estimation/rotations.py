"""Rotations in restricted Python: exponential, quaternions, orthonormalization."""

import math

from ..compiler import Matrix, Vector, compiled, local


@compiled()
def cross(a: Vector, b: Vector, out: Vector) -> None:
    """Computes ``out = a x b``; `out` must not overlap with `a` or `b`."""
    out[0] = a[1] * b[2] - a[2] * b[1]
    out[1] = a[2] * b[0] - a[0] * b[2]
    out[2] = a[0] * b[1] - a[1] * b[0]


@compiled()
def multiply(A: Matrix, x: Vector, out: Vector) -> None:
    """Computes ``out = A x`` with three rows; `out` must not overlap with `x`."""
    for i in range(3):
        out[i] = A[i, 0] * x[0] + A[i, 1] * x[1] + A[i, 2] * x[2]


@compiled(inline=False)
def compute_exponential(phi: Vector, E: Matrix, J: Matrix) -> None:
    """Computes ``E = exp(phi)`` and its left Jacobian J."""
    square = phi[0] * phi[0] + phi[1] * phi[1] + phi[2] * phi[2]
    angle = math.sqrt(square)
    a, b, c = 1.0 - square / 6.0, 0.5 - square / 24.0, 1.0 / 6.0 - square / 120.0
    if angle > 1e-3:
        a = math.sin(angle) / angle
        b = (1.0 - math.cos(angle)) / square
        c = (1.0 - a) / square
    for i in range(3):
        for k in range(3):
            outer = phi[i] * phi[k]
            E[i, k] = b * outer
            J[i, k] = c * outer
        E[i, i] += 1.0 - b * square
        J[i, i] += 1.0 - c * square
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        E[k, j] += a * phi[i]
        E[j, k] -= a * phi[i]
        J[k, j] += b * phi[i]
        J[j, k] -= b * phi[i]


@compiled(inline=False)
def orthonormalize(rows: Matrix, R: Matrix) -> None:
    """Writes the rotation nearest to a nearly orthonormal matrix, by a Newton step for the polar factor."""
    cofactors = local(3, 3)
    for i in range(3):
        cross(rows[(i + 1) % 3], rows[(i + 2) % 3], cofactors[i])
    determinant = rows[0, 0] * cofactors[0, 0] + rows[0, 1] * cofactors[0, 1] + rows[0, 2] * cofactors[0, 2]
    for i in range(3):
        for k in range(3):
            R[i, k] = 0.5 * (rows[i, k] + cofactors[i, k] / determinant)


@compiled(inline=False)
def write_rotation(q: Vector, R: Matrix) -> None:
    """Writes the rotation matrix of the unit quaternion (x, y, z, w) at the beginning of q."""
    x, y, z, w = q[0], q[1], q[2], q[3]
    R[0, 0], R[0, 1], R[0, 2] = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)
    R[1, 0], R[1, 1], R[1, 2] = 2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)
    R[2, 0], R[2, 1], R[2, 2] = 2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)


@compiled(inline=False)
def write_quaternion(R: Matrix, q: Vector) -> None:
    """Writes the quaternion (x, y, z, w) of a rotation matrix, by the largest of its squares (Shepperd 1978)."""
    trace = R[0, 0] + R[1, 1] + R[2, 2]
    if trace > 0.0:
        s = 2.0 * math.sqrt(1.0 + trace)
        q[0], q[1], q[2] = (R[2, 1] - R[1, 2]) / s, (R[0, 2] - R[2, 0]) / s, (R[1, 0] - R[0, 1]) / s
        q[3] = 0.25 * s
    else:
        i = 0
        if R[1, 1] > R[0, 0]:
            i = 1
        if R[2, 2] > R[i, i]:
            i = 2
        j, k = (i + 1) % 3, (i + 2) % 3
        s = 2.0 * math.sqrt(max(1.0 + R[i, i] - R[j, j] - R[k, k], 0.0))
        q[i], q[j], q[k] = 0.25 * s, (R[j, i] + R[i, j]) / s, (R[k, i] + R[i, k]) / s
        q[3] = (R[k, j] - R[j, k]) / s
    length = math.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    for i in range(4):
        q[i] /= length
