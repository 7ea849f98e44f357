"""A contact-aided invariant extended Kalman filter, in restricted Python: machine code here, C99 beside a controller.

The state is a matrix of the group SE_(2+n)(3), orientation R, velocity v and position p of the IMU and the places d of
the n stance feet, all in world axes, together with the biases of gyroscope and accelerometer.  Its error is

    X_hat X^-1 = exp(xi),   xi = (phi, xi_v, xi_p, xi_d1 ...),   zeta = bias_hat - bias

so that, except for the biases, neither the error dynamics nor the measurements of a stance foot depend on the estimate:
the filter does not become certain of yaw and position, which are unobservable, and converges from large errors.

    phi'  = -R zeta_g                               p + R c = d                    c: the foot by the encoders
    xi_v' = g x phi - v x R zeta_g - R zeta_a       v + R (omega x c + c') = u     u: how its centre rolls
    xi_p' = xi_v - p x R zeta_g
    xi_d' = -d x R zeta_g

Source: Hartley, Ghaffari, Eustice, Grizzle, *Contact-aided invariant extended Kalman filtering for robot state
estimation*, International Journal of Robotics Research, 2020.  Extensions: a foot is the center of a sphere that rolls
on the plane of the feet, joint velocities are separate measurements, and a foot that contradicts the others is
ignored.
"""

import math

from ..compiler import IntVector, Vector, entry, local
from .filter_correction import (
    clear_foothold,
    compute_innovation,
    correct,
    fill_diagonal,
    observe_foot_position,
    observe_foot_velocity,
    set_foothold,
)
from .filter_propagation import propagate, update_ground_normal
from .filter_state import ACCELEROMETER_BIAS, ATTITUDE, GYRO_BIAS, POSITION, VELOCITY, FilterMemory, FilterModel
from .rotations import compute_exponential, cross, multiply, write_quaternion, write_rotation


@entry("the state estimate")
def initialize(m: FilterModel, f: FilterMemory, q: Vector, v: Vector) -> None:
    """Initializes the filter with the base's pose (7,) and velocity (6,) in q and v; position and yaw are exact."""
    n, x, y = len(f.P), local(3), local(3)
    write_rotation(q[3:7], f.R)
    multiply(f.R, m.lever, x)
    for i in range(3):
        f.p[i] = q[i] + x[i]
        f.omega[i] = v[3 + i]
        f.gyro_bias[i] = 0.0
        f.force_bias[i] = 0.0
    cross(f.omega, m.lever, x)
    for i in range(3):
        x[i] += v[i]
    multiply(f.R, x, f.v)
    for i in range(7):
        f.last_reading[i] = 0.0
    for i in range(3):
        f.odometry_offset[i] = 0.0
    for foot in range(len(f.has_foothold)):
        f.has_foothold[foot] = 0
        f.has_stood[foot] = 0
        f.is_slipping[foot] = 0
    f.normal[0], f.normal[1], f.normal[2] = 0.0, 0.0, 1.0
    for i in range(n):
        for j in range(n):
            f.P[i, j] = 0.0
    for i in range(3):
        f.P[VELOCITY + i, VELOCITY + i] = m.initial_variance[1]
        f.P[GYRO_BIAS + i, GYRO_BIAS + i] = m.initial_variance[2]
        f.P[ACCELEROMETER_BIAS + i, ACCELEROMETER_BIAS + i] = m.initial_variance[3]
    # An error of roll or pitch rotates the robot about itself; as an error about the world origin it also shifts it.
    for k in range(2):
        for i in range(3):
            x[i] = 1.0 if i == k else 0.0
        cross(f.p, x, y)
        for i in range(3):
            for j in range(3):
                f.P[ATTITUDE + i, ATTITUDE + j] += m.initial_variance[0] * x[i] * x[j]
                f.P[POSITION + i, POSITION + j] += m.initial_variance[0] * y[i] * y[j]
                f.P[POSITION + i, ATTITUDE + j] += m.initial_variance[0] * y[i] * x[j]
                f.P[ATTITUDE + i, POSITION + j] += m.initial_variance[0] * x[i] * y[j]


@entry("the state estimate")
def initialize_at_rest(
    m: FilterModel, f: FilterMemory, terms: Vector, accelerometer: Vector, q: Vector, v: Vector
) -> None:
    """Initializes the filter at rest above the origin, lowest foot at height 0, attitude from the direction of gravity.

    Args:
        m: parameters.
        f: state and covariance; written.
        terms: kinematic terms of the feet, see `update_estimate`.
        accelerometer: (3,) specific force, IMU axes [m/s^2].
        q: configuration; the base's pose at its beginning is written.
        v: velocity; the base's velocity at its beginning is set to zero.
    """
    up, axis, E, J, c = local(3), local(3), local(3, 3), local(3, 3), local(3)
    multiply(m.imu, accelerometer, up)
    size = math.sqrt(up[0] * up[0] + up[1] * up[1] + up[2] * up[2])
    for i in range(3):
        up[i] = up[i] / size if size > 0.0 else (1.0 if i == 2 else 0.0)
    # The smallest rotation that takes the measured direction to the world's z axis.
    sine, cosine = math.sqrt(up[0] * up[0] + up[1] * up[1]), up[2]
    angle = math.atan2(sine, cosine)
    scale = angle / sine if sine > 1e-9 else 0.0
    axis[0], axis[1], axis[2] = scale * up[1], -scale * up[0], 0.0
    if sine <= 1e-9 and cosine < 0.0:
        axis[0] = math.pi
    compute_exponential(axis, E, J)
    write_quaternion(E, q[3:7])
    lowest = math.inf
    for foot in range(len(f.has_foothold)):
        for i in range(3):
            c[i] = terms[m.origin[foot] + i]
        lowest = min(lowest, E[2, 0] * c[0] + E[2, 1] * c[1] + E[2, 2] * c[2] - m.radius[foot])
    q[0], q[1], q[2] = 0.0, 0.0, -lowest
    for i in range(6):
        v[i] = 0.0
    initialize(m, f, q, v)


@entry("the state estimate")
def write_base_state(m: FilterModel, f: FilterMemory, q: Vector, v: Vector) -> None:
    """Writes the base's pose (7,) and velocity (6,) to the beginnings of q and v."""
    x, y = local(3), local(3)
    multiply(f.R, m.lever, x)
    cross(f.omega, m.lever, y)
    write_quaternion(f.R, q[3:7])
    for i in range(3):
        q[i] = f.p[i] - x[i]
        v[i] = f.R[0, i] * f.v[0] + f.R[1, i] * f.v[1] + f.R[2, i] * f.v[2] - y[i]
        v[3 + i] = f.omega[i]


@entry("the state estimate")
def write_odometry(m: FilterModel, f: FilterMemory, q: Vector, v: Vector) -> None:
    """Writes the base's pose and velocity as `write_base_state`, with the position of odometry."""
    write_base_state(m, f, q, v)
    for i in range(3):
        q[i] += f.odometry_offset[i]


@entry("the state estimate")
def update_estimate(
    m: FilterModel,
    f: FilterMemory,
    terms: Vector,
    gyro: Vector,
    accelerometer: Vector,
    standing: IntVector,
    periods: int,
) -> None:
    """Updates the estimate by one reading: propagation, then corrections by the stance feet.

    A foot whose position or velocity contradicts the estimate beyond the gate slips: its measurement is not used, and
        its
    foothold starts again at its present position.  If all feet contradict the estimate, the estimate may be wrong: all
    are used with a smaller weight.

    Args:
        m: parameters.
        f: state and covariance; updated.
        terms: kinematic terms of the feet at the joints' positions and velocities, the base at rest in the origin.
        gyro: (3,) angular velocity, IMU axes [rad/s].
        accelerometer: (3,) specific force, IMU axes [m/s^2].
        standing: (nf,) whether each foot is in stance.
        periods: number of periods since the last reading; more than one if readings were lost.
    """
    z, S = local(3), local(3, 3)
    update_ground_normal(f)
    for k in range(periods):
        propagate(m, f, terms, gyro, accelerometer, periods - k)
    number, contradicting = 0, 0
    for foot in range(len(f.has_foothold)):
        f.is_slipping[foot] = 0
        if standing[foot] == 0:
            if f.has_foothold[foot] != 0:
                clear_foothold(f, foot)
            continue
        if f.has_foothold[foot] == 0:
            set_foothold(m, f, terms, foot)
        number += 1
        distance = max(observe_foot_position(m, f, terms, foot, z, S), observe_foot_velocity(m, f, terms, foot, z, S))
        if not distance <= m.innovation_gate:
            f.is_slipping[foot] = 1
            contradicting += 1
    for foot in range(len(f.has_foothold)):
        if f.has_foothold[foot] == 0:
            continue
        if f.is_slipping[foot] != 0 and contradicting < number:
            clear_foothold(f, foot)
            set_foothold(m, f, terms, foot)
            continue
        distance = observe_foot_position(m, f, terms, foot, z, S)
        correct(f, z, S, min(1.0, m.innovation_gate / distance) if distance > 0.0 else 1.0)
        distance = observe_foot_velocity(m, f, terms, foot, z, S)
        correct(f, z, S, min(1.0, m.innovation_gate / distance) if distance > 0.0 else 1.0)


@entry("the state estimate")
def correct_position(f: FilterMemory, position: Vector, variance: float) -> None:
    """Corrects the estimate by a measured position of the IMU, world axes [m, m^2]."""
    z, S, A, B, noise = local(3), local(3, 3), local(3, 3), local(3, 3), local(3, 3)
    for i in range(3):
        z[i] = f.p[i] - position[i]
    fill_diagonal(A, 1.0)
    # p_hat - p = xi_p + phi x p
    B[0, 0], B[0, 1], B[0, 2] = 0.0, f.p[2], -f.p[1]
    B[1, 0], B[1, 1], B[1, 2] = -f.p[2], 0.0, f.p[0]
    B[2, 0], B[2, 1], B[2, 2] = f.p[1], -f.p[0], 0.0
    fill_diagonal(noise, variance)
    compute_innovation(f, POSITION, A, ATTITUDE, B, noise, z, S)
    correct(f, z, S, 1.0)


@entry("the state estimate")
def correct_attitude(f: FilterMemory, difference: Vector, variance: float) -> None:
    """Corrects the estimate by a measured orientation of the base.

    Args:
        f: state and covariance; updated.
        difference: (3,) ``log(R_hat R_measured^T)``, world axes [rad].
        variance: variance of each entry [rad^2].
    """
    S, A, B, noise = local(3, 3), local(3, 3), local(3, 3), local(3, 3)
    fill_diagonal(A, 1.0)
    fill_diagonal(B, 0.0)
    fill_diagonal(noise, variance)
    compute_innovation(f, ATTITUDE, A, VELOCITY, B, noise, difference, S)
    correct(f, difference, S, 1.0)
