"""Propagation of the invariant filter between readings: state, covariance, and rolling of the feet."""

import math

from ..compiler import Matrix, Vector, compiled, local
from .filter_state import (
    ACCELEROMETER_BIAS,
    ATTITUDE,
    FEET,
    FOOTHOLD_WALK,
    FORCE,
    FORCE_WALK,
    GYRO,
    GYRO_BIAS,
    GYRO_WALK,
    POSITION,
    VELOCITY,
    FilterMemory,
    FilterModel,
    rotate_frame,
)
from .rotations import cross, multiply

# Variance added to the positions of the feet, so that collinear feet give a level plane [m^2].
COLLINEAR_FEET_VARIANCE = 1e-4
# Squared width of a uniform distribution divided by its variance.
UNIFORM_VARIANCE_RATIO = 12.0


@compiled(inline=False)
def apply_transition(f: FilterMemory, m: FilterModel) -> None:
    """Computes ``P = Phi P`` with the transition matrix Phi of the error over a period."""
    n, dt = len(f.P), m.dt
    column, by_gyro, by_force, shift = local(3), local(3), local(3), local(3)
    for j in range(n):
        # Rotation rate and acceleration by the errors of both biases, world axes.
        for i in range(3):
            column[i] = f.P[GYRO_BIAS + i, j]
        multiply(f.R, column, by_gyro)
        for i in range(3):
            column[i] = f.P[ACCELEROMETER_BIAS + i, j]
        multiply(f.R, column, by_force)
        cross(f.p, by_gyro, shift)
        for i in range(3):
            f.P[POSITION + i, j] += dt * (f.P[VELOCITY + i, j] - shift[i])
        for i in range(3):
            column[i] = f.P[ATTITUDE + i, j]
        cross(m.gravity, column, shift)
        for i in range(3):
            f.P[VELOCITY + i, j] += dt * (shift[i] - by_force[i])
        cross(f.v, by_gyro, shift)
        for i in range(3):
            f.P[VELOCITY + i, j] -= dt * shift[i]
            f.P[ATTITUDE + i, j] -= dt * by_gyro[i]
        for foot in range(len(f.has_foothold)):
            if f.has_foothold[foot] != 0:
                cross(f.feet[foot], by_gyro, shift)
                for i in range(3):
                    f.P[FEET + 3 * foot + i, j] -= dt * shift[i]


@compiled(inline=False)
def transpose_in_place(P: Matrix) -> None:
    """Transposes a square matrix in place."""
    for i in range(len(P)):
        for j in range(i):
            P[i, j], P[j, i] = P[j, i], P[i, j]


@compiled(inline=False)
def add_process_noise(f: FilterMemory, m: FilterModel, gyro: float, force: float) -> None:
    """Adds the covariance of the process noise over a period, for given variances of gyroscope and accelerometer."""
    dt, P, N = m.dt, f.P, f.scratch[0]
    # The effect of the gyroscope noise is that of its bias; in world axes, since the noise is isotropic.
    axis, shift = local(3), local(3)
    for k in range(3):
        for i in range(3):
            axis[i] = 1.0 if i == k else 0.0
            N[ATTITUDE + i, k] = axis[i]
        cross(f.v, axis, shift)
        for i in range(3):
            N[VELOCITY + i, k] = shift[i]
        cross(f.p, axis, shift)
        for i in range(3):
            N[POSITION + i, k] = shift[i]
            N[GYRO_BIAS + i, k] = 0.0
            N[ACCELEROMETER_BIAS + i, k] = 0.0
        for foot in range(len(f.has_foothold)):
            cross(f.feet[foot], axis, shift)
            for i in range(3):
                N[FEET + 3 * foot + i, k] = shift[i] if f.has_foothold[foot] != 0 else 0.0
    turning = gyro * dt * dt
    for i in range(len(P)):
        for j in range(i + 1):
            x = turning * (N[i, 0] * N[j, 0] + N[i, 1] * N[j, 1] + N[i, 2] * N[j, 2])
            P[i, j] += x
            if j < i:
                P[j, i] += x
    for i in range(3):
        P[VELOCITY + i, VELOCITY + i] += force * dt * dt
        P[GYRO_BIAS + i, GYRO_BIAS + i] += m.variance[GYRO_WALK] * dt
        P[ACCELEROMETER_BIAS + i, ACCELEROMETER_BIAS + i] += m.variance[FORCE_WALK] * dt
        for foot in range(len(f.has_foothold)):
            if f.has_foothold[foot] != 0:
                P[FEET + 3 * foot + i, FEET + 3 * foot + i] += m.variance[FOOTHOLD_WALK] * dt


@compiled(inline=False)
def propagate(
    m: FilterModel, f: FilterMemory, terms: Vector, gyro: Vector, accelerometer: Vector, remaining: int
) -> None:
    """Propagates state and covariance over a period by the IMU; stance feet roll.

    With more than one period remaining until the present reading, lost readings are interpolated.  They may have had
    any value between both readings, and unmeasured impacts accelerate a legged robot by about its weight.

    Args:
        m: parameters.
        f: state and covariance; updated.
        terms: kinematic terms of the feet, see `update_estimate`.
        gyro: (3,) angular velocity, IMU axes [rad/s].
        accelerometer: (3,) specific force, IMU axes [m/s^2].
        remaining: number of periods until the present reading.
    """
    dt = m.dt
    omega, force, phi, x, y = local(3), local(3), local(3), local(3), local(3)
    multiply(m.imu, gyro, omega)
    multiply(m.imu, accelerometer, force)
    turning, throwing = m.variance[GYRO], m.variance[FORCE]
    if remaining > 1:
        for i in range(3):
            change = omega[i] - f.last_reading[i] if f.last_reading[6] != 0.0 else 0.0
            omega[i] -= change * (remaining - 1) / remaining
            turning += change * change / UNIFORM_VARIANCE_RATIO
            change = force[i] - f.last_reading[3 + i] if f.last_reading[6] != 0.0 else 0.0
            force[i] -= change * (remaining - 1) / remaining
            throwing += change * change / UNIFORM_VARIANCE_RATIO + m.gravity[i] * m.gravity[i]
    apply_transition(f, m)
    transpose_in_place(f.P)
    apply_transition(f, m)
    add_process_noise(f, m, turning, throwing)
    for i in range(3):
        # The rotation between two readings is that of their mean.
        mean = 0.5 * (omega[i] + f.last_reading[i]) if f.last_reading[6] != 0.0 else omega[i]
        f.last_reading[i] = omega[i]
        f.last_reading[3 + i] = force[i]
        f.omega[i] = omega[i] - f.gyro_bias[i]
        phi[i] = dt * (mean - f.gyro_bias[i])
        force[i] -= f.force_bias[i]
    f.last_reading[6] = 1.0
    rotate_frame(f, phi)
    multiply(f.R, force, x)
    for i in range(3):
        acceleration = x[i] + m.gravity[i]
        f.p[i] += dt * (f.v[i] + 0.5 * dt * acceleration)
        f.v[i] += dt * acceleration
    for foot in range(len(f.has_foothold)):
        if f.has_foothold[foot] != 0:
            compute_rolling_velocity(m, f, terms, foot, x, y)
            for i in range(3):
                f.feet[foot, i] += dt * y[i]


@compiled(inline=False)
def update_ground_normal(f: FilterMemory) -> None:
    """Fits the ground normal to all footholds by least squares; vertical until three feet have had one."""
    x, y, z, n = 0.0, 0.0, 0.0, 0.0
    for foot in range(len(f.has_stood)):
        if f.has_stood[foot] != 0:
            x += f.feet[foot, 0]
            y += f.feet[foot, 1]
            z += f.feet[foot, 2]
            n += 1.0
    f.normal[0], f.normal[1], f.normal[2] = 0.0, 0.0, 1.0
    if n < 3.0:
        return
    # Across a line of feet the ground is assumed level.
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
    f.normal[0], f.normal[1], f.normal[2] = -a / length, -b / length, 1.0 / length


@compiled(inline=False)
def compute_rolling_velocity(m: FilterModel, f: FilterMemory, terms: Vector, foot: int, x: Vector, out: Vector) -> None:
    """Computes the velocity of the center of a foot sphere that rolls on the ground, world axes; x is scratch."""
    at = m.velocity[foot] + 3
    spin = local(3)
    for i in range(3):
        spin[i] = terms[at + i] + f.omega[i]
    multiply(f.R, spin, x)
    cross(x, f.normal, out)
    for i in range(3):
        out[i] *= m.radius[foot]
