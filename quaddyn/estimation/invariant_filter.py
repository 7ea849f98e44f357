"""A contact-aided invariant extended Kalman filter, in restricted Python: machine code here, C99 beside a controller.

The state is a matrix of the group SE_(2+n)(3), orientation R, velocity v and position p of the IMU and the places d of
the n standing feet, all in world axes, with the biases of gyroscope and accelerometer beside it.  Its error is

    X_hat X^-1 = exp(xi),   xi = (phi, xi_v, xi_p, xi_d1 ...),   zeta = bias_hat - bias

so that, biases aside, neither the error's motion nor what a standing foot measures depends on the estimate: the filter
does not take yaw and position, which it cannot see, for known, and converges from states that are far off.

    phi'  = -R zeta_g                               p + R c = d                    c: the foot by the encoders
    xi_v' = g x phi - v x R zeta_g - R zeta_a       v + R (omega x c + c') = u     u: how its centre rolls
    xi_p' = xi_v - p x R zeta_g
    xi_d' = -d x R zeta_g

Source: Hartley, Ghaffari, Eustice, Grizzle, *Contact-aided invariant extended Kalman filtering for robot state
estimation*, International Journal of Robotics Research, 2020.  Beside it: a foot is the centre of a sphere that rolls,
on the plane of the feet, joint velocities are measurements of their own, and a foot that contradicts the others is left
out.
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
    """Start from the base's pose (7,) and velocity (6,), which begin q and v: place and yaw are known by definition."""
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
    # An error of roll or pitch turns the robot about itself; as one about the world's origin it shifts it, too.
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
    """Start at rest above the origin, upright as gravity is felt, the lowest foot on height 0.

    Args:
        m: the robot and its noise.
        f: state and covariance, overwritten.
        terms: as of `estimate`.
        accelerometer: (3,) IMU axes [m/s^2].
        q: begins with the base's pose, which is written.
        v: begins with the base's velocity, which becomes zero.
    """
    up, axis, E, J, c = local(3), local(3), local(3, 3), local(3, 3), local(3)
    multiply(m.imu, accelerometer, up)
    size = math.sqrt(up[0] * up[0] + up[1] * up[1] + up[2] * up[2])
    for i in range(3):
        up[i] = up[i] / size if size > 0.0 else (1.0 if i == 2 else 0.0)
    # The shortest turn that takes what is felt to the world's z axis.
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
    """The base's pose (7,) and velocity (6,), into the beginnings of q and v."""
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
    """As `tell`, with the position of odometry."""
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
    """One reading: propagate, then correct by the feet that stand.

    A foot whose place or velocity contradicts the estimate beyond the gate slips: it is left out and stands anew where
    it is.  Where all of them do, none is left out, since then the estimate may be what is wrong; each counts the less.

    Args:
        m: the robot and its noise.
        f: state and covariance.
        terms: kinematic terms of the feet at the joints' positions and velocities, the base at rest in the origin.
        gyro: (3,) IMU axes [rad/s].
        accelerometer: (3,) IMU axes [m/s^2].
        standing: (nf,) which feet are said to stand.
        periods: since the reading before; more than one where readings were lost.
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
    """By the IMU's position as something outside the robot sees it, world axes [m, m^2]."""
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
    """By the base's orientation as something outside the robot sees it.

    Args:
        f: state and covariance.
        difference: (3,) ``log(R_hat R_seen^T)``, world axes [rad].
        variance: of each of its entries [rad^2].
    """
    S, A, B, noise = local(3, 3), local(3, 3), local(3, 3), local(3, 3)
    fill_diagonal(A, 1.0)
    fill_diagonal(B, 0.0)
    fill_diagonal(noise, variance)
    compute_innovation(f, ATTITUDE, A, VELOCITY, B, noise, difference, S)
    correct(f, difference, S, 1.0)
