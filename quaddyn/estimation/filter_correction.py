"""Corrections of the invariant filter by stance feet and external sensors; setting and clearing of footholds."""

from ..compiler import (
    Mat3,
    Vec3,
    Vector,
    block3,
    column3,
    compiled,
    cross,
    diagonal3,
    exp3,
    inverse3,
    left_jacobian3,
    mat3,
    matrix,
    orthonormalized,
    outer,
    set_block3,
    vec3,
)
from .filter_propagation import compute_rolling_velocity
from .filter_state import (
    ACCELEROMETER_BIAS,
    ATTITUDE,
    FEET,
    GYRO_BIAS,
    POSITION,
    VELOCITY,
    FilterModel,
    FilterState,
)


@compiled(inline=False)
def evaluate_innovation(f: FilterState, a: int, A: Mat3, b: int, B: Mat3, noise: Mat3, z: Vec3) -> tuple[float, Mat3]:
    """Returns the squared Mahalanobis distance of an innovation, and the inverse of its covariance.

    The innovation is ``z = A error[a : a + 3] + B error[b : b + 3] + noise``.  ``f.PHt`` becomes P H^T, which
    `apply_correction` uses.

    Args:
        f: state and covariance.
        a: first entry of the error that A applies to.
        A: Jacobian of the innovation by these entries.
        b: first entry of the error that B applies to.
        B: Jacobian of the innovation by these entries.
        noise: covariance of the measurement.
        z: the innovation.
    """
    G = f.PHt
    for i in range(len(f.P)):
        G[i] = A @ vec3(f.P[i, a : a + 3]) + B @ vec3(f.P[i, b : b + 3])
    total = noise + A @ mat3(G[a : a + 3]) + B @ mat3(G[b : b + 3])
    S = inverse3((total + total.T) * 0.5)
    return z @ (S @ z), S


@compiled(inline=False)
def apply_correction(f: FilterState, z: Vec3, S: Mat3, weight: float) -> None:
    """Corrects state and covariance by the innovation of the last call of `evaluate_innovation`.

    A correction of the attitude rotates the whole path since the start, and the footholds with it: positions move in
    proportion to the path's length.  The position of the odometry does not: `FilterState.odometry_offset` compensates
    the motion.

    Args:
        f: state and covariance.
        z: the innovation.
        S: inverse of its covariance.
        weight: factor of the correction; below 1 for noise that is larger than modeled.
    """
    G, K, error, n = f.PHt, f.gain, f.error, len(f.P)
    for i in range(n):
        gain = S @ vec3(G[i]) * weight
        K[i] = gain
        error[i] = gain @ z
    for i in range(n):
        for j in range(i + 1):
            entry = f.P[i, j] - vec3(K[i]) @ vec3(G[j])
            f.P[i, j] = entry
            f.P[j, i] = entry
    # X = exp(-xi) X, and biases less their errors.
    rotation = -vec3(error[ATTITUDE : ATTITUDE + 3])
    E, J = exp3(rotation), left_jacobian3(rotation)
    f.R = orthonormalized(E @ f.R)
    f.v = E @ f.v - J @ vec3(error[VELOCITY : VELOCITY + 3])
    position_change, n_footholds = f.p, 0.0
    f.p = E @ f.p - J @ vec3(error[POSITION : POSITION + 3])
    position_change -= f.p
    foothold_change = vec3(0.0, 0.0, 0.0)
    for foot in range(len(f.has_foothold)):
        if f.has_foothold[foot] != 0:
            before = vec3(f.feet[foot])
            f.feet[foot] = E @ before - J @ vec3(error[FEET + 3 * foot : FEET + 3 * foot + 3])
            foothold_change += before - vec3(f.feet[foot])
            n_footholds += 1.0
    f.odometry_offset += foothold_change / n_footholds if n_footholds > 0.0 else position_change
    f.gyro_bias -= vec3(error[GYRO_BIAS : GYRO_BIAS + 3])
    f.force_bias -= vec3(error[ACCELEROMETER_BIAS : ACCELEROMETER_BIAS + 3])
    f.omega += vec3(error[GYRO_BIAS : GYRO_BIAS + 3])


@compiled()
def compute_foot_position(m: FilterModel, terms: Vector, foot: int) -> Vec3:
    """Returns the position of a foot's center relative to the IMU, base axes [m]."""
    start = m.origin[foot]
    return vec3(terms[start : start + 3]) - m.lever


@compiled(inline=False)
def compute_encoder_noise(m: FilterModel, f: FilterState, terms: Vector, foot: int, variance: float) -> Mat3:
    """Returns ``variance R J J^T R^T``: covariance of a foot's position by noise of the joints, world axes."""
    jacobian = matrix(terms, m.jacobian[foot], 3, m.columns[foot])
    R, total = f.R, diagonal3(0.0)
    for c in range(6, m.columns[foot]):
        column = R @ column3(jacobian, 0, c)
        total += outer(column, column) * variance
    return total


@compiled(inline=False)
def observe_foot_position(m: FilterModel, f: FilterState, terms: Vector, foot: int) -> tuple[float, Vec3, Mat3]:
    """Returns the innovation ``R c + p - d`` of a stance foot: squared distance, value, inverse of the covariance."""
    z = f.R @ compute_foot_position(m, terms, foot) + f.p - vec3(f.feet[foot])
    noise = compute_encoder_noise(m, f, terms, foot, m.variance.encoder) + diagonal3(m.variance.leg_kinematics)
    distance, S = evaluate_innovation(f, POSITION, diagonal3(1.0), FEET + 3 * foot, diagonal3(-1.0), noise, z)
    return distance, z, S


@compiled(inline=False)
def observe_foot_velocity(m: FilterModel, f: FilterState, terms: Vector, foot: int) -> tuple[float, Vec3, Mat3]:
    """Returns the innovation ``v + R (omega x c + c') - u`` of a stance foot, as `observe_foot_position` does."""
    R, c, start = f.R, compute_foot_position(m, terms, foot), m.velocity[foot]
    z = f.v + R @ (cross(f.omega, c) + vec3(terms[start : start + 3])) - compute_rolling_velocity(m, f, terms, foot)
    # R [c]x, the Jacobian by the gyroscope's bias and noise: its rows are those of R crossed with c.
    B = mat3(cross(R[0], c), cross(R[1], c), cross(R[2], c))
    noise = compute_encoder_noise(m, f, terms, foot, m.variance.joint_velocity) + B @ B.T * m.variance.gyro
    noise += diagonal3(m.variance.contact_velocity)
    distance, S = evaluate_innovation(f, VELOCITY, diagonal3(1.0), GYRO_BIAS, B, noise, z)
    return distance, z, S


@compiled(inline=False)
def clear_foothold(f: FilterState, foot: int) -> None:
    """Removes a foothold from the state: its error becomes zero and uncorrelated."""
    f.has_foothold[foot] = 0
    for i in range(FEET + 3 * foot, FEET + 3 * foot + 3):
        for j in range(len(f.P)):
            f.P[i, j] = 0.0
            f.P[j, i] = 0.0


@compiled(inline=False)
def set_foothold(m: FilterModel, f: FilterState, terms: Vector, foot: int) -> None:
    """Sets a foothold to the foot's position ``d = p + R c``, whose error is that of p and of the encoders."""
    start = FEET + 3 * foot
    f.feet[foot] = f.p + f.R @ compute_foot_position(m, terms, foot)
    for i in range(3):
        for j in range(len(f.P)):
            f.P[start + i, j] = f.P[POSITION + i, j]
    for i in range(3):
        for j in range(len(f.P)):
            f.P[j, start + i] = f.P[j, POSITION + i]
    noise = compute_encoder_noise(m, f, terms, foot, m.variance.encoder) + diagonal3(m.variance.leg_kinematics)
    set_block3(f.P, start, start, block3(f.P, start, start) + noise)
    f.has_foothold[foot] = 1
    f.has_stood[foot] = 1
    if m.flat_ground:
        # Only the height is measured: the other rows are zero, with any variance.
        A = mat3(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
        B = mat3(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, f.feet[foot, 1], -f.feet[foot, 0], 0.0)
        noise = mat3(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, m.variance.ground_height)
        z = vec3(0.0, 0.0, f.feet[foot, 2] - m.radius[foot])
        _, S = evaluate_innovation(f, start, A, ATTITUDE, B, noise, z)
        apply_correction(f, z, S, 1.0)
