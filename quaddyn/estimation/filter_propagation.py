"""Propagation of the invariant filter between readings: state, covariance, and rolling of the stance feet."""

import math

from ..compiler import Matrix, Vec3, Vector, column3, compiled, cross, exp3, orthonormalized, vec3
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
