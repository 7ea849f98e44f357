"""A contact-aided invariant extended Kalman filter, in restricted Python: machine code here, C99 beside a controller.

The state is a matrix of the group SE_(2+n)(3), orientation R, velocity v and position p of the IMU and the places d of
the n standing feet, all in world axes, with the biases of gyroscope and accelerometer beside it.  Its error is

    X_hat X^-1 = exp(xi),   xi = (phi, xi_v, xi_p, xi_d1 ...),   zeta = bias_hat - bias

so that, biases aside, neither the error's motion nor what a standing foot measures depends on the estimate: the filter
does not take yaw and position, which it cannot see, for known, and converges from states that are far off.

    phi'  = -R zeta_g                               p + R c = d                    c: the foot by the encoders
    xi_v' = g x phi - v x R zeta_g - R zeta_a       v + R (omega x c + c') = u     u: how its center rolls
    xi_p' = xi_v - p x R zeta_g
    xi_d' = -d x R zeta_g

Source: Hartley, Ghaffari, Eustice, Grizzle, *Contact-aided invariant extended Kalman filtering for robot state
estimation*, International Journal of Robotics Research, 2020.  Beside it: a foot is the centre of a sphere that rolls,
on the plane of the feet, joint velocities are measurements of their own, and a foot that contradicts the others is left
out.
"""

import math

from ..compiler import (
    IntVector,
    Vector,
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
from .filter_correction import (
    clear_foothold,
    correct,
    innovation,
    observe_foot_position,
    observe_foot_velocity,
    set_foothold,
)
from .filter_memory import ACCELEROMETER_BIAS, ATTITUDE, GYRO_BIAS, POSITION, VELOCITY, FilterMemory, FilterModel
from .filter_propagation import level, propagate


@entry("the state estimate")
def begin(m: FilterModel, f: FilterMemory, q: Vector, v: Vector) -> None:
    """Starts from the base's pose (7,) and velocity (6,) in q and v; position and yaw are exact by definition."""
    n, R, lever, omega = len(f.P), rotation_of(quat(q[3:7])), vec3(m.lever), vec3(v[3:6])
    p = vec3(q[0:3]) + R @ lever
    zero = vec3(0.0, 0.0, 0.0)
    f.R[:] = R
    f.p[:] = p
    f.omega[:] = omega
    f.v[:] = R @ (vec3(v[0:3]) + cross(omega, lever))
    f.gyro_bias[:] = zero
    f.force_bias[:] = zero
    f.shift[:] = zero
    f.normal[:] = vec3(0.0, 0.0, 1.0)
    for i in range(7):
        f.before[i] = 0.0
    for foot in range(len(f.standing)):
        f.standing[foot] = 0
        f.stepped[foot] = 0
        f.slipping[foot] = 0
    for i in range(n):
        for j in range(n):
            f.P[i, j] = 0.0
    set_block3(f.P, VELOCITY, VELOCITY, diagonal3(m.doubt[1]))
    set_block3(f.P, GYRO_BIAS, GYRO_BIAS, diagonal3(m.doubt[2]))
    set_block3(f.P, ACCELEROMETER_BIAS, ACCELEROMETER_BIAS, diagonal3(m.doubt[3]))
    # An error of roll or pitch rotates the robot about itself: about the world's origin, it moves the position, too.
    tilt = mat3(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0)
    moved = skew(p) @ tilt
    set_block3(f.P, ATTITUDE, ATTITUDE, tilt * m.doubt[0])
    set_block3(f.P, POSITION, POSITION, moved @ moved.T * m.doubt[0])
    set_block3(f.P, POSITION, ATTITUDE, moved * m.doubt[0])
    set_block3(f.P, ATTITUDE, POSITION, moved.T * m.doubt[0])


@entry("the state estimate")
def rest(m: FilterModel, f: FilterMemory, terms: Vector, accelerometer: Vector, q: Vector, v: Vector) -> None:
    """Starts at rest above the origin, upright by the measured gravity, the lowest foot at height 0.

    Args:
        m: parameters of the robot and its noise.
        f: state and covariance, overwritten.
        terms: as of `estimate`.
        accelerometer: (3,) IMU axes [m/s^2].
        q: begins with the base's pose, which is written.
        v: begins with the base's velocity, which becomes zero.
    """
    force = mat3(m.imu) @ vec3(accelerometer)
    up = force / norm(force) if norm(force) > 0.0 else vec3(0.0, 0.0, 1.0)
    # The shortest rotation that takes the measured vertical to the world's z axis.
    sine, cosine = math.sqrt(up[0] * up[0] + up[1] * up[1]), up[2]
    scale = math.atan2(sine, cosine) / sine if sine > 1e-9 else 0.0
    R = exp3(vec3(math.pi if sine <= 1e-9 and cosine < 0.0 else scale * up[1], -scale * up[0], 0.0))
    lowest = math.inf
    for foot in range(len(f.standing)):
        at = m.origin[foot]
        lowest = min(lowest, R[2] @ vec3(terms[at : at + 3]) - m.radius[foot])
    q[0:3] = vec3(0.0, 0.0, -lowest)
    q[3:7] = quaternion_of(R)
    for i in range(6):
        v[i] = 0.0
    begin(m, f, q, v)


@entry("the state estimate")
def tell(m: FilterModel, f: FilterMemory, q: Vector, v: Vector) -> None:
    """Writes the base's pose (7,) and velocity (6,) to the beginnings of q and v."""
    R, lever, omega = mat3(f.R), vec3(m.lever), vec3(f.omega)
    q[0:3] = vec3(f.p) - R @ lever
    q[3:7] = quaternion_of(R)
    v[0:3] = R.T @ vec3(f.v) - cross(omega, lever)
    v[3:6] = omega


@entry("the state estimate")
def odometry(m: FilterModel, f: FilterMemory, q: Vector, v: Vector) -> None:
    """Writes the base's pose and velocity as `tell` does, with the position of odometry."""
    tell(m, f, q, v)
    q[0:3] += vec3(f.shift)


@entry("the state estimate")
def estimate(
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
    level(f)
    for k in range(periods):
        propagate(m, f, terms, gyro, accelerometer, periods - k)
    number, contradicting = 0, 0
    for foot in range(len(f.standing)):
        f.slipping[foot] = 0
        if standing[foot] == 0:
            if f.standing[foot] != 0:
                clear_foothold(f, foot)
            continue
        if f.standing[foot] == 0:
            set_foothold(m, f, terms, foot)
        number += 1
        by_position, _, _ = observe_foot_position(m, f, terms, foot)
        by_velocity, _, _ = observe_foot_velocity(m, f, terms, foot)
        if not max(by_position, by_velocity) <= m.gate:
            f.slipping[foot] = 1
            contradicting += 1
    for foot in range(len(f.standing)):
        if f.standing[foot] == 0:
            continue
        if f.slipping[foot] != 0 and contradicting < number:
            clear_foothold(f, foot)
            set_foothold(m, f, terms, foot)
            continue
        distance, z, S = observe_foot_position(m, f, terms, foot)
        correct(f, z, S, min(1.0, m.gate / distance) if distance > 0.0 else 1.0)
        distance, z, S = observe_foot_velocity(m, f, terms, foot)
        correct(f, z, S, min(1.0, m.gate / distance) if distance > 0.0 else 1.0)


@entry("the state estimate")
def correct_position(f: FilterMemory, position: Vector, variance: float) -> None:
    """Corrects by an external measurement of the IMU's position (3,), world axes [m], of this variance [m^2]."""
    p = vec3(f.p)
    z = p - vec3(position)
    # p_hat - p = xi_p + phi x p
    _, S = innovation(f, POSITION, diagonal3(1.0), ATTITUDE, -skew(p), diagonal3(variance), z)
    correct(f, z, S, 1.0)


@entry("the state estimate")
def correct_attitude(f: FilterMemory, difference: Vector, variance: float) -> None:
    """Corrects by an external measurement of the base's orientation.

    Args:
        f: state and covariance.
        difference: (3,) ``log(R_hat R_measured^T)``, world axes [rad].
        variance: of each of its entries [rad^2].
    """
    z = vec3(difference)
    _, S = innovation(f, ATTITUDE, diagonal3(1.0), VELOCITY, diagonal3(0.0), diagonal3(variance), z)
    correct(f, z, S, 1.0)
