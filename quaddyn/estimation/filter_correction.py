"""Corrections of the invariant filter by stance feet, and changes of the footholds."""

from ..compiler import Matrix, Vector, compiled, local
from .filter_propagation import compute_rolling_velocity
from .filter_state import (
    ACCELEROMETER_BIAS,
    ATTITUDE,
    CONTACT_VELOCITY,
    ENCODER,
    FEET,
    GROUND_HEIGHT,
    GYRO,
    GYRO_BIAS,
    JOINT_VELOCITY,
    LEG_KINEMATICS,
    POSITION,
    VELOCITY,
    FilterMemory,
    FilterModel,
)
from .rotations import compute_exponential, cross, multiply, orthonormalize


@compiled(inline=False)
def invert_symmetric(S: Matrix, out: Matrix) -> None:
    """Inverts a symmetric matrix with three rows; a singular one gives zeros."""
    for i in range(3):
        cross(S[(i + 1) % 3], S[(i + 2) % 3], out[i])
    determinant = S[0, 0] * out[0, 0] + S[0, 1] * out[0, 1] + S[0, 2] * out[0, 2]
    scale = 1.0 / determinant if determinant > 0.0 else 0.0
    for i in range(3):
        for k in range(3):
            out[i, k] *= scale


@compiled(inline=False)
def compute_innovation(
    f: FilterMemory, a: int, A: Matrix, b: int, B: Matrix, noise: Matrix, z: Vector, S: Matrix
) -> float:
    """Computes the squared Mahalanobis distance of an innovation ``z = A error[a:] + B error[b:] + noise``.

    Args:
        f: state and covariance; ``work[1]`` receives P H^T.
        a: first entry of the error to which A applies.
        A: (3, 3).
        b: first entry of the error to which B applies.
        B: (3, 3).
        noise: (3, 3) covariance of the noise.
        z: (3,) innovation.
        S: (3, 3) inverse of the innovation covariance; written.
    """
    G, total = f.scratch[1], local(3, 3)
    for i in range(len(f.P)):
        for k in range(3):
            s = 0.0
            for j in range(3):
                s += f.P[i, a + j] * A[k, j] + f.P[i, b + j] * B[k, j]
            G[i, k] = s
    for i in range(3):
        for k in range(i + 1):
            s = noise[i, k]
            for j in range(3):
                s += A[i, j] * G[a + j, k] + B[i, j] * G[b + j, k]
            total[i, k] = s
            total[k, i] = s
    invert_symmetric(total, S)
    distance = 0.0
    for i in range(3):
        for k in range(3):
            distance += z[i] * S[i, k] * z[k]
    return distance


@compiled(inline=False)
def correct(f: FilterMemory, z: Vector, S: Matrix, weight: float) -> None:
    """Corrects state and covariance by an innovation for which `compute_innovation` was just called.

    A correction of the attitude moves all past positions, and the footholds, in proportion to the distance.  Odometry
    does not move the footholds: `FilterMemory.odometry_offset` receives their mean displacement.

    Args:
        f: state and covariance; updated.
        z: (3,) innovation.
        S: (3, 3) inverse of the innovation covariance.
        weight: factor of the gain; below 1 for measurements with larger noise than assumed.
    """
    G, K, n = f.scratch[1], f.scratch[2], len(f.P)
    error = f.scratch[3]
    for i in range(n):
        s = 0.0
        for k in range(3):
            K[i, k] = weight * (G[i, 0] * S[0, k] + G[i, 1] * S[1, k] + G[i, 2] * S[2, k])
            s += K[i, k] * z[k]
        error[i, 0] = s
    for i in range(n):
        for j in range(i + 1):
            x = f.P[i, j] - (K[i, 0] * G[j, 0] + K[i, 1] * G[j, 1] + K[i, 2] * G[j, 2])
            f.P[i, j] = x
            f.P[j, i] = x
    # X = exp(-xi) X, and biases minus their errors.
    phi, E, J, rows = local(3), local(3, 3), local(3, 3), local(3, 3)
    for i in range(3):
        phi[i] = -error[ATTITUDE + i, 0]
    compute_exponential(phi, E, J)
    for i in range(3):
        for k in range(3):
            rows[i, k] = E[i, 0] * f.R[0, k] + E[i, 1] * f.R[1, k] + E[i, 2] * f.R[2, k]
    orthonormalize(rows, f.R)
    correct_vector(f.v, error, VELOCITY, E, J)
    number, by, shift = 0.0, local(3), local(3)
    for i in range(3):
        by[i], shift[i] = f.p[i], 0.0
    correct_vector(f.p, error, POSITION, E, J)
    for i in range(3):
        by[i] -= f.p[i]
    for foot in range(len(f.has_foothold)):
        if f.has_foothold[foot] != 0:
            number += 1.0
            for i in range(3):
                shift[i] += f.feet[foot, i]
            correct_vector(f.feet[foot], error, FEET + 3 * foot, E, J)
            for i in range(3):
                shift[i] -= f.feet[foot, i]
    for i in range(3):
        f.odometry_offset[i] += shift[i] / number if number > 0.0 else by[i]
    for i in range(3):
        f.gyro_bias[i] -= error[GYRO_BIAS + i, 0]
        f.force_bias[i] -= error[ACCELEROMETER_BIAS + i, 0]
        f.omega[i] += error[GYRO_BIAS + i, 0]


@compiled(inline=False)
def correct_vector(x: Vector, error: Matrix, at: int, E: Matrix, J: Matrix) -> None:
    """Computes ``x = E x - J xi`` for a column of the state."""
    before, xi = local(3), local(3)
    for i in range(3):
        before[i] = x[i]
        xi[i] = error[at + i, 0]
    for i in range(3):
        x[i] = E[i, 0] * before[0] + E[i, 1] * before[1] + E[i, 2] * before[2]
        x[i] -= J[i, 0] * xi[0] + J[i, 1] * xi[1] + J[i, 2] * xi[2]


@compiled()
def fill_diagonal(A: Matrix, x: float) -> None:
    """Sets ``A = x I``."""
    for i in range(3):
        for k in range(3):
            A[i, k] = x if i == k else 0.0


@compiled(inline=False)
def read_foot_position(m: FilterModel, terms: Vector, foot: int, c: Vector) -> None:
    """Reads the center of a foot sphere relative to the IMU, base axes [m]."""
    for i in range(3):
        c[i] = terms[m.origin[foot] + i] - m.lever[i]


@compiled(inline=False)
def compute_joint_noise(
    m: FilterModel, f: FilterMemory, terms: Vector, foot: int, variance: float, out: Matrix
) -> None:
    """Computes ``variance R J J^T R^T``: the covariance of a foot's position or velocity by joint noise."""
    at, columns = m.jacobian[foot], m.columns[foot]
    row = local(3)
    fill_diagonal(out, 0.0)
    for c in range(6, columns):
        for i in range(3):
            row[i] = 0.0
            for k in range(3):
                row[i] += f.R[i, k] * terms[at + k * columns + c]
        for i in range(3):
            for k in range(3):
                out[i, k] += variance * row[i] * row[k]


@compiled(inline=False)
def observe_foot_position(m: FilterModel, f: FilterMemory, terms: Vector, foot: int, z: Vector, S: Matrix) -> float:
    """Computes the innovation ``R c + p - d`` of a stance foot and returns its squared Mahalanobis distance."""
    c, noise, A, B = local(3), local(3, 3), local(3, 3), local(3, 3)
    read_foot_position(m, terms, foot, c)
    multiply(f.R, c, z)
    for i in range(3):
        z[i] += f.p[i] - f.feet[foot, i]
    compute_joint_noise(m, f, terms, foot, m.variance[ENCODER], noise)
    for i in range(3):
        noise[i, i] += m.variance[LEG_KINEMATICS]
    fill_diagonal(A, 1.0)
    fill_diagonal(B, -1.0)
    return compute_innovation(f, POSITION, A, FEET + 3 * foot, B, noise, z, S)


@compiled(inline=False)
def observe_foot_velocity(m: FilterModel, f: FilterMemory, terms: Vector, foot: int, z: Vector, S: Matrix) -> float:
    """Computes the innovation ``v + R (omega x c + c') - u`` of a stance foot and returns its squared distance."""
    c, x, y = local(3), local(3), local(3)
    noise, A, B = local(3, 3), local(3, 3), local(3, 3)
    read_foot_position(m, terms, foot, c)
    cross(f.omega, c, x)
    for i in range(3):
        x[i] += terms[m.velocity[foot] + i]
    multiply(f.R, x, z)
    compute_rolling_velocity(m, f, terms, foot, x, y)
    for i in range(3):
        z[i] += f.v[i] - y[i]
    compute_joint_noise(m, f, terms, foot, m.variance[JOINT_VELOCITY], noise)
    # R [c]x, the derivative with respect to bias and noise of the gyroscope.
    for i in range(3):
        cross(f.R[i], c, B[i])
    for i in range(3):
        for k in range(3):
            outer = B[i, 0] * B[k, 0] + B[i, 1] * B[k, 1] + B[i, 2] * B[k, 2]
            noise[i, k] += m.variance[GYRO] * outer
        noise[i, i] += m.variance[CONTACT_VELOCITY]
    fill_diagonal(A, 1.0)
    return compute_innovation(f, VELOCITY, A, GYRO_BIAS, B, noise, z, S)


@compiled(inline=False)
def clear_foothold(f: FilterMemory, foot: int) -> None:
    """Removes the foothold of a foot from the state."""
    f.has_foothold[foot] = 0
    for i in range(FEET + 3 * foot, FEET + 3 * foot + 3):
        for j in range(len(f.P)):
            f.P[i, j] = 0.0
            f.P[j, i] = 0.0


@compiled(inline=False)
def set_foothold(m: FilterModel, f: FilterMemory, terms: Vector, foot: int) -> None:
    """Adds the present position of a foot to the state as its foothold: ``d = p + R c``, with its covariance."""
    at = FEET + 3 * foot
    c, z, noise, S, A, B = local(3), local(3), local(3, 3), local(3, 3), local(3, 3), local(3, 3)
    read_foot_position(m, terms, foot, c)
    multiply(f.R, c, z)
    for i in range(3):
        f.feet[foot, i] = f.p[i] + z[i]
        for j in range(len(f.P)):
            f.P[at + i, j] = f.P[POSITION + i, j]
    for i in range(3):
        for j in range(len(f.P)):
            f.P[j, at + i] = f.P[j, POSITION + i]
    compute_joint_noise(m, f, terms, foot, m.variance[ENCODER], noise)
    for i in range(3):
        noise[i, i] += m.variance[LEG_KINEMATICS]
        for k in range(3):
            f.P[at + i, at + k] += noise[i, k]
    f.has_foothold[foot] = 1
    f.has_stood[foot] = 1
    if m.flat_ground:
        # Only the height is measured; the other rows are zero.
        fill_diagonal(A, 0.0)
        fill_diagonal(B, 0.0)
        fill_diagonal(noise, 1.0)
        A[2, 2] = 1.0
        B[2, 0] = f.feet[foot, 1]
        B[2, 1] = -f.feet[foot, 0]
        noise[2, 2] = m.variance[GROUND_HEIGHT]
        z[0], z[1], z[2] = 0.0, 0.0, f.feet[foot, 2] - m.radius[foot]
        compute_innovation(f, at, A, ATTITUDE, B, noise, z, S)
        correct(f, z, S, 1.0)
