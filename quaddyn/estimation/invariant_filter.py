"""A contact-aided invariant extended Kalman filter, in restricted Python, which is compiled here and exported as C99.

The state is a matrix of the group SE_(2+n)(3) of orientation R, velocity v and position p of the IMU and footholds d of
the n stance feet, all in world axes, together with the biases of gyroscope and accelerometer.  Its error is

    X_hat X^-1 = exp(xi),   xi = (phi, xi_v, xi_p, xi_d1 ...),   zeta = bias_hat - bias

so that, except for the biases, neither the error dynamics nor the measurements of a stance foot depend on the estimate.
Therefore the covariance of yaw and position, which are unobservable, does not shrink, and the filter converges from
large errors.

    phi'  = -R zeta_g                               p + R c = d                    c: foot position from the encoders
    xi_v' = g x phi - v x R zeta_g - R zeta_a       v + R (omega x c + c') = u     u: velocity of a rolling foot's
    center
    xi_p' = xi_v - p x R zeta_g
    xi_d' = -d x R zeta_g

Source: Hartley, Ghaffari, Eustice and Grizzle, *Contact-aided invariant extended Kalman filtering for robot state
estimation*, International Journal of Robotics Research, 2020.  Extensions: a foot is the center of a sphere that rolls
on the plane of the feet, joint velocities are separate measurements, and a foot whose measurement contradicts the
others is ignored.

The module has three parts: parameters and state; propagation between readings (state, covariance and rolling of the
stance feet); corrections by stance feet and external sensors, with the setting and clearing of footholds.
"""

from __future__ import annotations

import math

from ..compiler import (
    IntVector,
    Mat3,
    Matrix,
    Record,
    Vec3,
    Vector,
    block3,
    column3,
    compiled,
    cross,
    diagonal3,
    entry,
    exp3,
    inverse3,
    left_jacobian3,
    mat3,
    matrix,
    norm,
    orthonormalized,
    outer,
    quat,
    quaternion_of,
    rotation_of,
    set_block3,
    skew,
    vec3,
)
from ..dynamics.arguments import MAX_CONFIGURATION_NORM, MAX_UNCHECKED_SPEED, UNIT_NORM_TOLERANCE

# First entry of each part of the error; the footholds follow the biases, three entries each.
ATTITUDE, VELOCITY, POSITION, GYRO_BIAS, ACCELEROMETER_BIAS, FEET = 0, 3, 6, 9, 12, 15


class JointSensors(Record):
    """Places of the measured joints in configurations and velocities."""

    q_index: IntVector  # (nu,) index in q
    v_index: IntVector  # (nu,) index in v
    is_continuous: IntVector  # (nu,) whether a joint is (cos, sin) in q


class FilterVariances(Record):
    """Variances of measurements, and of random walks per time."""

    encoder: float  # joint position [rad^2]
    joint_velocity: float  # joint velocity [rad^2/s^2]
    gyro: float  # gyroscope reading [rad^2/s^2]
    force: float  # accelerometer reading [m^2/s^4]
    gyro_walk: float  # gyroscope bias, per time [rad^2/s^3]
    force_walk: float  # accelerometer bias, per time [m^2/s^5]
    foothold_walk: float  # position of a stance foot, per time [m^2/s]
    contact_velocity: float  # velocity of a stance foot [m^2/s^2]
    leg_kinematics: float  # error of the leg kinematics in the position of a foot [m^2]
    ground_height: float  # height of the ground where `flat_ground` is set [m^2]


class InitialVariances(Record):
    """Variances of the initial state."""

    attitude: float  # roll and pitch [rad^2]
    velocity: float  # [m^2/s^2]
    gyro_bias: float  # [rad^2/s^2]
    force_bias: float  # accelerometer bias [m^2/s^4]


class FilterModel(Record):
    """Constant parameters of the invariant filter of `BaseEstimator`."""

    dt: float  # between readings [s]
    gravity: Vec3  # world axes [m/s^2]
    imu: Mat3  # rotation from IMU to base axes
    lever: Vec3  # position of the IMU, base axes [m]
    radius: Vector  # (nf,) radii of the foot spheres [m]
    origin: IntVector  # (nf,) index of the position of a foot in the kinematic terms, base axes
    velocity: IntVector  # (nf,) index of its velocity and angular velocity
    jacobian: IntVector  # (nf,) index of its Jacobian, in row-major order
    columns: IntVector  # (nf,) number of columns of the Jacobian; the first six are those of the base
    variance: FilterVariances
    initial_variance: InitialVariances
    innovation_gate: float  # maximum squared Mahalanobis distance of the reading of a foot
    flat_ground: bool  # whether the ground is level at height 0


class FilterState(Record):
    """State, covariance and intermediate results of the invariant filter of `BaseEstimator`."""

    R: Mat3  # rotation from base to world axes
    v: Vec3  # velocity of the IMU, world axes [m/s]
    p: Vec3  # position of the IMU, world axes [m]
    gyro_bias: Vec3  # gyroscope bias, base axes [rad/s]
    force_bias: Vec3  # accelerometer bias, base axes [m/s^2]
    feet: Matrix  # (nf, 3) present or last footholds, world axes [m]
    has_foothold: IntVector  # (nf,) whether the foothold is part of the state
    has_stood: IntVector  # (nf,) whether a foot has ever had a foothold
    normal: Vec3  # unit normal of the ground, from the footholds
    is_slipping: IntVector  # (nf,) whether a foot contradicted the others at the last reading
    omega: Vec3  # angular velocity without its bias, base axes [rad/s]
    has_last_reading: bool  # whether there was a reading since the start
    last_gyro: Vec3  # last reading of the gyroscope, base axes [rad/s]
    last_force: Vec3  # last reading of the accelerometer, base axes [m/s^2]
    odometry_offset: Vec3  # position of the odometry minus that of the state, world axes [m]
    P: Matrix  # (15 + 3 nf, 15 + 3 nf) covariance of (xi, zeta)
    noise_effect: Matrix  # (15 + 3 nf, 3) effect of the gyroscope's noise on the error
    PHt: Matrix  # (15 + 3 nf, 3) covariance times the transposed Jacobian of an innovation
    gain: Matrix  # (15 + 3 nf, 3) Kalman gain
    error: Vector  # (15 + 3 nf,) error that a correction removes


def make_filter_state(n_feet: int) -> FilterState:
    """Returns a state with zeros for a number of feet."""
    n = FEET + 3 * n_feet
    return FilterState.allocate(
        feet=(n_feet, 3), has_foothold=n_feet, has_stood=n_feet, is_slipping=n_feet, P=(n, n), noise_effect=(n, 3),
        PHt=(n, 3), gain=(n, 3), error=n,
    )  # fmt: skip


# Variance added to the footholds' horizontal positions, which makes the plane of collinear feet level [m^2].
COLLINEAR_FEET_VARIANCE = 1e-4
# Squared width of a uniform distribution divided by its variance.
UNIFORM_VARIANCE_RATIO = 12.0


@compiled(inline=False)
def apply_transition(f: FilterState, m: FilterModel) -> None:
    """Computes ``P = Phi P`` with Phi the transition of the error over a period (see `invariant_filter`)."""
    dt, P, R = m.dt, f.P, f.R
    for j in range(len(P)):
        # How the errors of both biases rotate and accelerate the robot, world axes.
        rotation, acceleration = R @ column3(P, GYRO_BIAS, j), R @ column3(P, ACCELEROMETER_BIAS, j)
        velocity, attitude = column3(P, VELOCITY, j), column3(P, ATTITUDE, j)
        add_to_column(P, POSITION, j, (velocity - cross(f.p, rotation)) * dt)
        add_to_column(P, VELOCITY, j, (cross(m.gravity, attitude) - acceleration - cross(f.v, rotation)) * dt)
        add_to_column(P, ATTITUDE, j, -rotation * dt)
        for foot in range(len(f.has_foothold)):
            if f.has_foothold[foot] != 0:
                add_to_column(P, FEET + 3 * foot, j, -cross(vec3(f.feet[foot]), rotation) * dt)


@compiled()
def add_to_column(P: Matrix, i: int, j: int, x: Vec3) -> None:
    """Adds x to three rows from i of column j."""
    P[i, j] += x[0]
    P[i + 1, j] += x[1]
    P[i + 2, j] += x[2]


@compiled(inline=False)
def transpose_in_place(P: Matrix) -> None:
    """Transposes a square matrix."""
    for i in range(len(P)):
        for j in range(i):
            P[i, j], P[j, i] = P[j, i], P[i, j]


@compiled(inline=False)
def add_process_noise(f: FilterState, m: FilterModel, gyro: float, force: float) -> None:
    """Adds the covariance that noise of these variances of gyroscope and accelerometer causes within a period."""
    dt, P, N = m.dt, f.P, f.noise_effect
    # Column k: effect of component k of the gyroscope's noise in world axes, where isotropic noise is as in base axes.
    for k in range(3):
        axis = vec3(1.0 if k == 0 else 0.0, 1.0 if k == 1 else 0.0, 1.0 if k == 2 else 0.0)
        for i in range(len(P)):
            N[i, k] = 0.0
        add_to_column(N, ATTITUDE, k, axis)
        add_to_column(N, VELOCITY, k, cross(f.v, axis))
        add_to_column(N, POSITION, k, cross(f.p, axis))
        for foot in range(len(f.has_foothold)):
            if f.has_foothold[foot] != 0:
                add_to_column(N, FEET + 3 * foot, k, cross(vec3(f.feet[foot]), axis))
    for i in range(len(P)):
        for j in range(i + 1):
            x = gyro * dt * dt * (vec3(N[i]) @ vec3(N[j]))
            P[i, j] += x
            if j < i:
                P[j, i] += x
    for i in range(3):
        P[VELOCITY + i, VELOCITY + i] += force * dt * dt
        P[GYRO_BIAS + i, GYRO_BIAS + i] += m.variance.gyro_walk * dt
        P[ACCELEROMETER_BIAS + i, ACCELEROMETER_BIAS + i] += m.variance.force_walk * dt
        for foot in range(len(f.has_foothold)):
            if f.has_foothold[foot] != 0:
                P[FEET + 3 * foot + i, FEET + 3 * foot + i] += m.variance.foothold_walk * dt


@compiled(inline=False)
def propagate(
    m: FilterModel, f: FilterState, terms: Vector, gyro: Vector, accelerometer: Vector, remaining: int
) -> None:
    """Propagates state, covariance and rolling stance feet over a period by the IMU.

    With more than one period remaining until the present reading, the missing readings are interpolated.  Their
    variance is that of a uniform distribution between both readings.  An impact in a period without a reading
    accelerates a legged robot about as much as gravity does; this acceleration is added to their standard deviation.
    """
    dt = m.dt
    omega, force = m.imu @ vec3(gyro), m.imu @ vec3(accelerometer)
    # Without an earlier reading, the present one is used for the whole period.
    last_omega = f.last_gyro if f.has_last_reading else omega
    last_force = f.last_force if f.has_last_reading else force
    gyro_variance, force_variance = m.variance.gyro, m.variance.force
    if remaining > 1:
        gyro_change, force_change = omega - last_omega, force - last_force
        omega -= gyro_change * (remaining - 1) / remaining
        force -= force_change * (remaining - 1) / remaining
        gyro_variance += gyro_change @ gyro_change / UNIFORM_VARIANCE_RATIO
        force_variance += force_change @ force_change / UNIFORM_VARIANCE_RATIO + m.gravity @ m.gravity
    apply_transition(f, m)
    transpose_in_place(f.P)
    apply_transition(f, m)
    add_process_noise(f, m, gyro_variance, force_variance)
    f.last_gyro = omega
    f.last_force = force
    f.has_last_reading = True
    f.omega = omega - f.gyro_bias
    # Midpoint rule: the robot has rotated with the mean of the rates at both ends.
    R = orthonormalized(f.R @ exp3(((omega + last_omega) * 0.5 - f.gyro_bias) * dt))
    f.R = R
    acceleration = R @ (force - f.force_bias) + m.gravity
    f.p += (f.v + acceleration * (0.5 * dt)) * dt
    f.v += acceleration * dt
    for foot in range(len(f.has_foothold)):
        if f.has_foothold[foot] != 0:
            f.feet[foot] += compute_rolling_velocity(m, f, terms, foot) * dt


@compiled(inline=False)
def update_ground_normal(f: FilterState) -> None:
    """Computes the normal of the plane through the footholds by least squares; vertical for fewer than three."""
    x, y, z, n = 0.0, 0.0, 0.0, 0.0
    for foot in range(len(f.has_stood)):
        if f.has_stood[foot] != 0:
            x += f.feet[foot, 0]
            y += f.feet[foot, 1]
            z += f.feet[foot, 2]
            n += 1.0
    f.normal = vec3(0.0, 0.0, 1.0)
    if n < 3.0:
        return
    # Collinear feet do not determine the slope across their line: it is taken as level.
    xx, xy, yy, xz, yz = COLLINEAR_FEET_VARIANCE, 0.0, COLLINEAR_FEET_VARIANCE, 0.0, 0.0
    for foot in range(len(f.has_stood)):
        if f.has_stood[foot] != 0:
            a, b, c = f.feet[foot, 0] - x / n, f.feet[foot, 1] - y / n, f.feet[foot, 2] - z / n
            xx += a * a
            xy += a * b
            yy += b * b
            xz += a * c
            yz += b * c
    determinant = xx * yy - xy * xy
    a, b = (yy * xz - xy * yz) / determinant, (xx * yz - xy * xz) / determinant
    length = math.sqrt(1.0 + a * a + b * b)
    f.normal = vec3(-a, -b, 1.0) / length


@compiled(inline=False)
def compute_rolling_velocity(m: FilterModel, f: FilterState, terms: Vector, foot: int) -> Vec3:
    """Returns the velocity of the center of a foot's sphere that rolls on the ground, world axes [m/s]."""
    start = m.velocity[foot] + 3
    omega = f.R @ (vec3(terms[start : start + 3]) + f.omega)
    return cross(omega, f.normal) * m.radius[foot]


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


@entry("the state estimate")
def read_joints(s: JointSensors, reading: Vector, q: Vector, v: Vector) -> bool:
    """Writes measured joints into a configuration and a velocity unless a number of the reading is not finite.

    Args:
        s: places of the joints.
        reading: positions (nu,), velocities (nu,), gyroscope (3,) and accelerometer (3,), as in `Measurement.packed`.
        q: (nq,) configuration, changed.
        v: (nv,) velocity, changed.

    Returns:
        Whether all these numbers are finite.
    """
    n = len(s.q_index)
    for i in range(2 * n + 6):
        if not math.isfinite(reading[i]):
            return False
    for i in range(n):
        k = s.q_index[i]
        if s.is_continuous[i] != 0:
            q[k] = math.cos(reading[i])
            q[k + 1] = math.sin(reading[i])
        else:
            q[k] = reading[i]
        v[s.v_index[i]] = reading[n + i]
    return True


@entry("the state estimate")
def find_loaded_feet(forces: Vector, first: int, n: int, min_force: float) -> int:
    """Returns the mask of the feet whose forces exceed a minimum, 1 for the first foot; -1 if one is not finite.

    Args:
        forces: array that contains the forces of the feet [N].
        first: index of the first of them.
        n: number of feet.
        min_force: minimum force [N].
    """
    mask, bit = 0, 1
    for i in range(first, first + n):
        if not math.isfinite(forces[i]):
            return -1
        if forces[i] > min_force:
            mask += bit
        bit *= 2
    return mask


@entry("the state estimate")
def is_valid_state(q: Vector, v: Vector) -> bool:
    """Returns whether q and v are valid for `Dynamics.update_validated`; by `Dynamics.update` some others are, too."""
    square, energy, pose = 0.0, 0.0, q[3] * q[3] + q[4] * q[4] + q[5] * q[5] + q[6] * q[6]
    for i in range(len(q)):
        square += q[i] * q[i]
    for i in range(len(v)):
        energy += v[i] * v[i]
    return (
        square < MAX_CONFIGURATION_NORM * MAX_CONFIGURATION_NORM
        and energy < MAX_UNCHECKED_SPEED * MAX_UNCHECKED_SPEED
        and abs(pose - 1.0) < UNIT_NORM_TOLERANCE
    )


@entry("the state estimate")
def initialize(m: FilterModel, f: FilterState, q: Vector, v: Vector) -> None:
    """Initializes the filter by the base's pose (7,) and velocity (6,) in q and v; position and yaw are exact."""
    n, R, lever, omega = len(f.P), rotation_of(quat(q[3:7])), m.lever, vec3(v[3:6])
    p = vec3(q[0:3]) + R @ lever
    zero = vec3(0.0, 0.0, 0.0)
    f.R = R
    f.p = p
    f.omega = omega
    f.v = R @ (vec3(v[0:3]) + cross(omega, lever))
    f.gyro_bias = zero
    f.force_bias = zero
    f.odometry_offset = zero
    f.normal = vec3(0.0, 0.0, 1.0)
    f.has_last_reading = False
    for foot in range(len(f.has_foothold)):
        f.has_foothold[foot] = 0
        f.has_stood[foot] = 0
        f.is_slipping[foot] = 0
    for i in range(n):
        for j in range(n):
            f.P[i, j] = 0.0
    set_block3(f.P, VELOCITY, VELOCITY, diagonal3(m.initial_variance.velocity))
    set_block3(f.P, GYRO_BIAS, GYRO_BIAS, diagonal3(m.initial_variance.gyro_bias))
    set_block3(f.P, ACCELEROMETER_BIAS, ACCELEROMETER_BIAS, diagonal3(m.initial_variance.force_bias))
    # An error of roll or pitch rotates the robot about itself: about the world's origin, it moves the position, too.
    tilt_axes = mat3(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0)
    position_by_tilt = skew(p) @ tilt_axes
    set_block3(f.P, ATTITUDE, ATTITUDE, tilt_axes * m.initial_variance.attitude)
    set_block3(f.P, POSITION, POSITION, position_by_tilt @ position_by_tilt.T * m.initial_variance.attitude)
    set_block3(f.P, POSITION, ATTITUDE, position_by_tilt * m.initial_variance.attitude)
    set_block3(f.P, ATTITUDE, POSITION, position_by_tilt.T * m.initial_variance.attitude)


@entry("the state estimate")
def initialize_at_rest(
    m: FilterModel, f: FilterState, terms: Vector, accelerometer: Vector, q: Vector, v: Vector
) -> None:
    """Initializes the filter at rest above the origin, with the attitude from gravity and the lowest foot at height 0.

    Args:
        m: parameters of the robot and its noise.
        f: state and covariance; overwritten.
        terms: kinematic terms of the feet, see `update_estimate`.
        accelerometer: (3,) specific force, IMU axes [m/s^2].
        q: configuration whose first entries, the base's pose (7,), are written.
        v: velocity whose first entries, the base's velocity (6,), become zero.
    """
    specific_force = m.imu @ vec3(accelerometer)
    up = specific_force / norm(specific_force) if norm(specific_force) > 0.0 else vec3(0.0, 0.0, 1.0)
    # The shortest rotation that takes the measured vertical to the world's z axis.
    sine, cosine = math.sqrt(up[0] * up[0] + up[1] * up[1]), up[2]
    scale = math.atan2(sine, cosine) / sine if sine > 1e-9 else 0.0
    R = exp3(vec3(math.pi if sine <= 1e-9 and cosine < 0.0 else scale * up[1], -scale * up[0], 0.0))
    lowest = math.inf
    for foot in range(len(f.has_foothold)):
        start = m.origin[foot]
        lowest = min(lowest, R[2] @ vec3(terms[start : start + 3]) - m.radius[foot])
    q[0:3] = vec3(0.0, 0.0, -lowest)
    q[3:7] = quaternion_of(R)
    for i in range(6):
        v[i] = 0.0
    initialize(m, f, q, v)


@entry("the state estimate")
def write_base_state(m: FilterModel, f: FilterState, q: Vector, v: Vector) -> None:
    """Writes the base's pose (7,) and velocity (6,) to the beginnings of q and v."""
    R, lever, omega = f.R, m.lever, f.omega
    q[0:3] = f.p - R @ lever
    q[3:7] = quaternion_of(R)
    v[0:3] = R.T @ f.v - cross(omega, lever)
    v[3:6] = omega


@entry("the state estimate")
def write_odometry(m: FilterModel, f: FilterState, q: Vector, v: Vector) -> None:
    """Writes the base's pose and velocity as `write_base_state` does, but with the position of the odometry."""
    write_base_state(m, f, q, v)
    q[0:3] += f.odometry_offset


@entry("the state estimate")
def update_estimate(
    m: FilterModel,
    f: FilterState,
    s: JointSensors,
    terms: Vector,
    reading: Vector,
    in_stance: int,
    periods: int,
) -> None:
    """Updates the estimate by one reading: propagation, then corrections by the stance feet.

    A foot whose position or velocity contradicts the estimate beyond the gate slips: its measurement is not used, and
    its foothold starts again at its present position.  If all feet contradict the estimate, the estimate may be wrong:
    all are used with a smaller weight.

    Args:
        m: parameters.
        f: state and covariance; updated.
        s: places of the joints.
        terms: kinematic terms of the feet at the joints' positions and velocities, the base at rest in the origin.
        reading: see `read_joints`; gyroscope [rad/s] and accelerometer [m/s^2] in IMU axes.
        in_stance: mask of the stance feet, 1 for the first foot, 2 for the second, and so on.
        periods: number of periods since the last reading; more than one if readings were lost.
    """
    imu = 2 * len(s.q_index)
    gyro, accelerometer = reading[imu : imu + 3], reading[imu + 3 : imu + 6]
    update_ground_normal(f)
    for k in range(periods):
        propagate(m, f, terms, gyro, accelerometer, periods - k)
    n_stance, n_contradicting, bit = 0, 0, 1
    for foot in range(len(f.has_foothold)):
        f.is_slipping[foot] = 0
        is_in_stance = in_stance & bit != 0
        bit *= 2
        if not is_in_stance:
            if f.has_foothold[foot] != 0:
                clear_foothold(f, foot)
            continue
        if f.has_foothold[foot] == 0:
            set_foothold(m, f, terms, foot)
        n_stance += 1
        position_distance, _, _ = observe_foot_position(m, f, terms, foot)
        velocity_distance, _, _ = observe_foot_velocity(m, f, terms, foot)
        if not max(position_distance, velocity_distance) <= m.innovation_gate:
            f.is_slipping[foot] = 1
            n_contradicting += 1
    for foot in range(len(f.has_foothold)):
        if f.has_foothold[foot] == 0:
            continue
        if f.is_slipping[foot] != 0 and n_contradicting < n_stance:
            clear_foothold(f, foot)
            set_foothold(m, f, terms, foot)
            continue
        distance, z, S = observe_foot_position(m, f, terms, foot)
        apply_correction(f, z, S, min(1.0, m.innovation_gate / distance) if distance > 0.0 else 1.0)
        distance, z, S = observe_foot_velocity(m, f, terms, foot)
        apply_correction(f, z, S, min(1.0, m.innovation_gate / distance) if distance > 0.0 else 1.0)


@entry("the state estimate")
def correct_position(f: FilterState, position: Vector, variance: float) -> None:
    """Corrects the estimate by a measured position of the IMU (3,), world axes [m], of a given variance [m^2]."""
    p = f.p
    z = p - vec3(position)
    # p_hat - p = xi_p + phi x p
    _, S = evaluate_innovation(f, POSITION, diagonal3(1.0), ATTITUDE, -skew(p), diagonal3(variance), z)
    apply_correction(f, z, S, 1.0)


@entry("the state estimate")
def correct_attitude(f: FilterState, difference: Vector, variance: float) -> None:
    """Corrects the estimate by a measured orientation of the base.

    Args:
        f: state and covariance.
        difference: (3,) ``log(R_hat R_measured^T)``, world axes [rad].
        variance: variance of each entry of `difference` [rad^2].
    """
    z = vec3(difference)
    _, S = evaluate_innovation(f, ATTITUDE, diagonal3(1.0), VELOCITY, diagonal3(0.0), diagonal3(variance), z)
    apply_correction(f, z, S, 1.0)
