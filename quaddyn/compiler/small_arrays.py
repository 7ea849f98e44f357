"""Vectors and rotations of three dimensions: the compiled functions that implement operators on small arrays.

``R @ p + t`` of a `Mat3` and two `Vec3` compiles to these functions, without memory and without loops.  They return new
arrays; ``f.R[:] = R`` writes one into an array.

Sources: Murray, Li and Sastry, *A Mathematical Introduction to Robotic Manipulation*, section 2.2 (exponential
coordinates); Shepperd, "Quaternion from rotation matrix", J. Guidance and Control 1 (1978); Higham, "Computing the
polar decomposition", SIAM J. Sci. Stat. Comput. 7 (1986).
"""

from __future__ import annotations

import math

from .compilation_units import compiled
from .kinds import FLOAT, INT, MAT3, VEC3, Mat3, Matrix, Quat, Vec3
from .language import mat3, operation, quat, vec3


# -- vectors -----------------------------------------------------------------------------------------------------
@operation("+", VEC3, VEC3)
@compiled(inline=True)
def vec3_sum(a: Vec3, b: Vec3) -> Vec3:
    """Returns ``a + b``."""
    return vec3(a[0] + b[0], a[1] + b[1], a[2] + b[2])


@operation("-", VEC3, VEC3)
@compiled(inline=True)
def vec3_difference(a: Vec3, b: Vec3) -> Vec3:
    """Returns ``a - b``."""
    return vec3(a[0] - b[0], a[1] - b[1], a[2] - b[2])


@operation("-", VEC3)
@compiled(inline=True)
def vec3_negative(a: Vec3) -> Vec3:
    """Returns ``-a``."""
    return vec3(-a[0], -a[1], -a[2])


@operation("*", VEC3, FLOAT)
@compiled(inline=True)
def vec3_scaled(a: Vec3, s: float) -> Vec3:
    """Returns ``a * s``."""
    return vec3(a[0] * s, a[1] * s, a[2] * s)


@operation("/", VEC3, FLOAT)
@compiled(inline=True)
def vec3_divided(a: Vec3, s: float) -> Vec3:
    """Returns ``a / s``."""
    return vec3(a[0] / s, a[1] / s, a[2] / s)


@operation("@", VEC3, VEC3)
@compiled(inline=True)
def dot(a: Vec3, b: Vec3) -> float:
    """Returns the dot product."""
    product: float = a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
    return product


@operation("[]", VEC3, INT)
@compiled(inline=True)
def vec3_entry(a: Vec3, i: int) -> float:
    """Returns ``a[i]`` for an index that is not a constant."""
    found: float = a[0] if i == 0 else a[1] if i == 1 else a[2]
    return found


@compiled(inline=True)
def cross(a: Vec3, b: Vec3) -> Vec3:
    """Returns the cross product ``a x b``.

    Args:
        a: (3,) vector, any unit.
        b: (3,) vector, any unit.
    """
    return vec3(a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


@compiled(inline=True)
def norm(a: Vec3) -> float:
    """Returns the Euclidean norm.

    Args:
        a: (3,) vector, any unit.
    """
    return math.sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2])


# -- matrices ----------------------------------------------------------------------------------------------------
@operation("+", MAT3, MAT3)
@compiled(inline=True)
def mat3_sum(A: Mat3, B: Mat3) -> Mat3:
    """Returns ``A + B``."""
    return mat3(A[0] + B[0], A[1] + B[1], A[2] + B[2])


@operation("-", MAT3, MAT3)
@compiled(inline=True)
def mat3_difference(A: Mat3, B: Mat3) -> Mat3:
    """Returns ``A - B``."""
    return mat3(A[0] - B[0], A[1] - B[1], A[2] - B[2])


@operation("-", MAT3)
@compiled(inline=True)
def mat3_negative(A: Mat3) -> Mat3:
    """Returns ``-A``."""
    return mat3(-A[0], -A[1], -A[2])


@operation("*", MAT3, FLOAT)
@compiled(inline=True)
def mat3_scaled(A: Mat3, s: float) -> Mat3:
    """Returns ``A * s``."""
    return mat3(A[0] * s, A[1] * s, A[2] * s)


@operation("/", MAT3, FLOAT)
@compiled(inline=True)
def mat3_divided(A: Mat3, s: float) -> Mat3:
    """Returns ``A / s``."""
    return mat3(A[0] / s, A[1] / s, A[2] / s)


@operation("@", MAT3, VEC3)
@compiled(inline=True)
def mat3_vec3(A: Mat3, x: Vec3) -> Vec3:
    """Returns ``A x``."""
    return vec3(A[0] @ x, A[1] @ x, A[2] @ x)


@operation("@", MAT3, MAT3)
@compiled(inline=True)
def mat3_product(A: Mat3, B: Mat3) -> Mat3:
    """Returns ``A B``."""
    columns = transposed(B)
    return mat3(columns @ A[0], columns @ A[1], columns @ A[2])


@operation("rows", VEC3, VEC3, VEC3)
@compiled(inline=True)
def mat3_of_rows(a: Vec3, b: Vec3, c: Vec3) -> Mat3:
    """Returns the matrix with the rows a, b and c."""
    return mat3(a[0], a[1], a[2], b[0], b[1], b[2], c[0], c[1], c[2])


@operation("T", MAT3)
@compiled(inline=True)
def transposed(A: Mat3) -> Mat3:
    """Returns the transpose."""
    return mat3(A[0, 0], A[1, 0], A[2, 0], A[0, 1], A[1, 1], A[2, 1], A[0, 2], A[1, 2], A[2, 2])


@compiled(inline=True)
def diagonal3(x: float) -> Mat3:
    """Returns x times the identity matrix.

    Args:
        x: value of the diagonal entries, any unit.
    """
    return mat3(x, 0.0, 0.0, 0.0, x, 0.0, 0.0, 0.0, x)


@compiled(inline=True)
def skew(a: Vec3) -> Mat3:
    """Returns the skew-symmetric matrix of a cross product: ``skew(a) @ b == cross(a, b)``.

    Args:
        a: (3,) vector, any unit.
    """
    return mat3(0.0, -a[2], a[1], a[2], 0.0, -a[0], -a[1], a[0], 0.0)


@compiled(inline=True)
def outer(a: Vec3, b: Vec3) -> Mat3:
    """Returns ``a b^T``.

    Args:
        a: (3,) vector, any unit.
        b: (3,) vector, any unit.
    """
    return mat3(b * a[0], b * a[1], b * a[2])


@compiled(inline=True)
def cofactors(A: Mat3) -> Mat3:
    """Returns the cofactor matrix; the dot product of its first row with that of A is the determinant."""
    return mat3(cross(A[1], A[2]), cross(A[2], A[0]), cross(A[0], A[1]))


@compiled(inline=False)
def inverse3(A: Mat3) -> Mat3:
    """Returns the inverse of a matrix with a positive determinant, and zeros for any other matrix.

    Args:
        A: (3, 3) matrix, any unit.
    """
    C = cofactors(A)
    determinant = A[0] @ C[0]
    return transposed(C) * (1.0 / determinant if determinant > 0.0 else 0.0)


# -- parts of larger arrays --------------------------------------------------------------------------------------
@compiled(inline=True)
def block3(A: Matrix, i: int, j: int) -> Mat3:
    """Returns the (3, 3) block of a matrix that begins at row i and column j.

    Args:
        A: (n, m) matrix, any unit.
        i: index of the block's first row.
        j: index of the block's first column.
    """
    return mat3(A[i, j : j + 3], A[i + 1, j : j + 3], A[i + 2, j : j + 3])


@compiled(inline=True)
def set_block3(A: Matrix, i: int, j: int, block: Mat3) -> None:
    """Writes a (3, 3) block into a matrix.

    Args:
        A: (n, m) matrix, any unit.
        i: index of the block's first row.
        j: index of the block's first column.
        block: (3, 3) values in the same unit.
    """
    A[i, j : j + 3] = block[0]
    A[i + 1, j : j + 3] = block[1]
    A[i + 2, j : j + 3] = block[2]


@compiled(inline=True)
def column3(A: Matrix, i: int, j: int) -> Vec3:
    """Returns the entries of rows i to i + 2 in column j of a matrix.

    Args:
        A: (n, m) matrix, any unit.
        i: index of the first row.
        j: index of the column.
    """
    return vec3(A[i, j], A[i + 1, j], A[i + 2, j])


@compiled(inline=True)
def set_column3(A: Matrix, i: int, j: int, x: Vec3) -> None:
    """Writes the entries of rows i to i + 2 in column j of a matrix.

    Args:
        A: (n, m) matrix, any unit.
        i: index of the first row.
        j: index of the column.
        x: (3,) values in the same unit.
    """
    A[i, j] = x[0]
    A[i + 1, j] = x[1]
    A[i + 2, j] = x[2]


# -- rotations ---------------------------------------------------------------------------------------------------
@compiled(inline=False)
def exp3(phi: Vec3) -> Mat3:
    """Returns the rotation matrix ``exp([phi]x)`` by an angle of ``|phi|`` about phi (Rodrigues' formula).

    Args:
        phi: (3,) rotation vector [rad].
    """
    square = phi @ phi
    angle = math.sqrt(square)
    a, b = 1.0 - square / 6.0, 0.5 - square / 24.0
    if angle > 1e-3:
        a = math.sin(angle) / angle
        b = (1.0 - math.cos(angle)) / square
    return outer(phi, phi) * b + diagonal3(1.0 - b * square) + skew(phi * a)


@compiled(inline=False)
def left_jacobian3(phi: Vec3) -> Mat3:
    """Returns J with ``exp3(phi + d) = exp3(J d) exp3(phi)`` to first order in d.

    Args:
        phi: (3,) rotation vector [rad].
    """
    square = phi @ phi
    angle = math.sqrt(square)
    b, c = 0.5 - square / 24.0, 1.0 / 6.0 - square / 120.0
    if angle > 1e-3:
        b = (1.0 - math.cos(angle)) / square
        c = (1.0 - math.sin(angle) / angle) / square
    return outer(phi, phi) * c + diagonal3(1.0 - c * square) + skew(phi * b)


@compiled(inline=False)
def orthonormalized(A: Mat3) -> Mat3:
    """Returns the rotation matrix nearest to an almost orthogonal matrix, by one Newton step for the polar factor.

    Args:
        A: (3, 3) matrix close to a rotation.
    """
    C = cofactors(A)
    return (A + C / (A[0] @ C[0])) * 0.5


@compiled(inline=False)
def rotation_of(q: Quat) -> Mat3:
    """Returns the rotation matrix of a unit quaternion.

    Args:
        q: unit quaternion (x, y, z, w).
    """
    x, y, z, w = q
    return mat3(
        1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w),
        2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w),
        2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y),
    )  # fmt: skip


@compiled(inline=False)
def quaternion_of(R: Mat3) -> Quat:
    """Returns the unit quaternion (x, y, z, w) of a rotation matrix, from its largest component (Shepperd 1978).

    Args:
        R: (3, 3) rotation matrix.
    """
    x, y, z, w = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1], 1.0 + R[0, 0] + R[1, 1] + R[2, 2]
    if w <= 1.0:
        if R[0, 0] >= R[1, 1] and R[0, 0] >= R[2, 2]:
            w = x
            x, y, z = 1.0 + R[0, 0] - R[1, 1] - R[2, 2], R[1, 0] + R[0, 1], R[2, 0] + R[0, 2]
        elif R[1, 1] >= R[2, 2]:
            w = y
            x, y, z = R[1, 0] + R[0, 1], 1.0 + R[1, 1] - R[2, 2] - R[0, 0], R[2, 1] + R[1, 2]
        else:
            w = z
            x, y, z = R[2, 0] + R[0, 2], R[2, 1] + R[1, 2], 1.0 + R[2, 2] - R[0, 0] - R[1, 1]
    length = math.sqrt(x * x + y * y + z * z + w * w)
    return quat(x / length, y / length, z / length, w / length)
