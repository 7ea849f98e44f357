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
"""

import math

from ..compiler import (
    Vector,
    compiled,
    cross,
    diagonal3,
    entry,
    exp3,
    mat3,
    norm,
    quat,
    quaternion_of,
    rotation_of,
    set_block3,
    skew,
    vec3,
)
from ..dynamics.arguments import MAX_CONFIGURATION_NORM, MAX_UNCHECKED_SPEED, UNIT_NORM_TOLERANCE
from .filter_correction import (
    apply_correction,
    clear_foothold,
    evaluate_innovation,
    observe_foot_position,
    observe_foot_velocity,
    set_foothold,
)
from .filter_propagation import propagate, update_ground_normal
from .filter_state import (
    ACCELEROMETER_BIAS,
    ATTITUDE,
    GYRO_BIAS,
    POSITION,
    VELOCITY,
    FilterModel,
    FilterState,
    JointSensors,
)


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


@compiled()
def is_valid_state(q: Vector, v: Vector) -> bool:
    """Returns whether `Dynamics.update` accepts a configuration and a velocity, which may be false for a valid one."""
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
def write_odometry(m: FilterModel, f: FilterState, q: Vector, v: Vector) -> bool:
    """Writes the base's pose and velocity as `write_base_state` does, but with the position of the odometry.

    Returns:
        Whether `Dynamics.update` accepts the state (q, v).
    """
    write_base_state(m, f, q, v)
    q[0:3] += f.odometry_offset
    return is_valid_state(q, v)


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
