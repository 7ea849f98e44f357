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
from typing import NamedTuple

from ..compiling import IntVector, Matrix, Tensor, Vector, compiled, entry, local

# Where the parts of the error begin; feet follow the biases, three entries each.
ATTITUDE, VELOCITY, POSITION, GYRO_BIAS, ACCELEROMETER_BIAS, FEET = 0, 3, 6, 9, 12, 15
# What makes the plane of feet in a line a level one [m^2].
FLAT = 1e-4
# Entries of `FilterModel.variance`.
(
    ENCODER,  # of a joint position [rad^2]
    RATE,  # of a joint velocity [rad^2/s^2]
    GYRO,  # of a reading [rad^2/s^2]
    FORCE,  # of a reading of the accelerometer [m^2/s^4]
    GYRO_WALK,  # of the bias, by time [rad^2/s^3]
    FORCE_WALK,  # of the bias, by time [m^2/s^5]
    CREEP,  # of a standing foot's place, by time [m^2/s]
    SLIP,  # of a standing foot's velocity [m^2/s^2]
    SHAPE,  # of a foot's place in the trunk's axes: what the model does not know [m^2]
    LEVEL,  # of the ground's height where `floor` says that it is level [m^2]
) = range(10)


class FilterModel(NamedTuple):
    """What does not change from tick to tick."""

    dt: float  # between readings [s]
    gravity: Vector  # (3,) world axes [m/s^2]
    imu: Matrix  # (3, 3) from the IMU's axes to the base's
    lever: Vector  # (3,) the IMU in base axes [m]
    radius: Vector  # (nf,) of the feet [m]
    origin: IntVector  # (nf,) where in the kinematic terms a foot's place begins, base axes
    velocity: IntVector  # (nf,) where its velocity and angular velocity begin
    jacobian: IntVector  # (nf,) where its Jacobian begins, row by row
    columns: IntVector  # (nf,) that the Jacobian has; the first six are the base's
    variance: Vector  # (10,) see above
    doubt: Vector  # (4,) variances at the beginning: attitude, velocity, and the biases
    gate: float  # largest squared Mahalanobis distance of a foot's reading
    floor: bool  # whether feet stand at height 0


class FilterMemory(NamedTuple):
    """State and covariance, with room to work."""

    R: Matrix  # (3, 3) from base to world axes
    v: Vector  # (3,) of the IMU, world axes [m/s]
    p: Vector  # (3,) of the IMU, world axes [m]
    gyro_bias: Vector  # (3,) base axes [rad/s]
    force_bias: Vector  # (3,) of the accelerometer, base axes [m/s^2]
    feet: Matrix  # (nf, 3) places where feet stand, or stood last, world axes [m]
    standing: IntVector  # (nf,) whether a foot has a place
    stepped: IntVector  # (nf,) whether a foot has stood
    normal: Vector  # (3,) of the ground, by the feet's places
    slipping: IntVector  # (nf,) whether it contradicted the others at the last reading
    omega: Vector  # (3,) angular velocity, base axes, less its bias [rad/s]
    before: Vector  # (4,) last reading of the gyroscope, base axes, and whether there was one
    P: Matrix  # (15 + 3 nf, 15 + 3 nf) covariance of (xi, zeta)
    work: Tensor  # (5, 15 + 3 nf, 3)


@compiled()
def cross(a: Vector, b: Vector, out: Vector) -> None:
    """``out = a x b``, apart from both."""
    out[0] = a[1] * b[2] - a[2] * b[1]
    out[1] = a[2] * b[0] - a[0] * b[2]
    out[2] = a[0] * b[1] - a[1] * b[0]


@compiled()
def times(A: Matrix, x: Vector, out: Vector) -> None:
    """``out = A x`` of three rows, apart from both."""
    for i in range(3):
        out[i] = A[i, 0] * x[0] + A[i, 1] * x[1] + A[i, 2] * x[2]


@compiled(inline=False)
def exponentials(phi: Vector, E: Matrix, J: Matrix) -> None:
    """``exp(phi)`` and its left Jacobian, by which vectors turn along."""
    square = phi[0] * phi[0] + phi[1] * phi[1] + phi[2] * phi[2]
    angle = math.sqrt(square)
    a, b, c = 1.0 - square / 6.0, 0.5 - square / 24.0, 1.0 / 6.0 - square / 120.0
    if angle > 1e-3:
        a = math.sin(angle) / angle
        b = (1.0 - math.cos(angle)) / square
        c = (1.0 - a) / square
    for i in range(3):
        for k in range(3):
            outer = phi[i] * phi[k]
            E[i, k] = b * outer
            J[i, k] = c * outer
        E[i, i] += 1.0 - b * square
        J[i, i] += 1.0 - c * square
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        E[k, j] += a * phi[i]
        E[j, k] -= a * phi[i]
        J[k, j] += b * phi[i]
        J[j, k] -= b * phi[i]


@compiled(inline=False)
def turn(f: FilterMemory, phi: Vector) -> None:
    """``R = R exp(phi)``, and the rows of R of unit length and at right angles, as rounding leaves them not."""
    E, J, rows = local(3, 3), local(3, 3), local(3, 3)
    exponentials(phi, E, J)
    for i in range(3):
        for k in range(3):
            rows[i, k] = f.R[i, 0] * E[0, k] + f.R[i, 1] * E[1, k] + f.R[i, 2] * E[2, k]
    orthonormal(rows, f.R)


@compiled(inline=False)
def orthonormal(rows: Matrix, R: Matrix) -> None:
    """The rotation that is nearest to a matrix that is nearly one, by a step of Newton's method for polar factors."""
    cofactors = local(3, 3)
    for i in range(3):
        cross(rows[(i + 1) % 3], rows[(i + 2) % 3], cofactors[i])
    determinant = rows[0, 0] * cofactors[0, 0] + rows[0, 1] * cofactors[0, 1] + rows[0, 2] * cofactors[0, 2]
    for i in range(3):
        for k in range(3):
            R[i, k] = 0.5 * (rows[i, k] + cofactors[i, k] / determinant)


# -- beginning and end -------------------------------------------------------------------------------------------


@compiled(inline=False)
def rotation(q: Vector, R: Matrix) -> None:
    """Of a unit quaternion (x, y, z, w) that begins a vector."""
    x, y, z, w = q[0], q[1], q[2], q[3]
    R[0, 0], R[0, 1], R[0, 2] = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)
    R[1, 0], R[1, 1], R[1, 2] = 2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)
    R[2, 0], R[2, 1], R[2, 2] = 2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)


@compiled(inline=False)
def quaternion(R: Matrix, q: Vector) -> None:
    """(x, y, z, w) of a rotation, by the largest of its squares (Shepperd 1978)."""
    trace = R[0, 0] + R[1, 1] + R[2, 2]
    if trace > 0.0:
        s = 2.0 * math.sqrt(1.0 + trace)
        q[0], q[1], q[2] = (R[2, 1] - R[1, 2]) / s, (R[0, 2] - R[2, 0]) / s, (R[1, 0] - R[0, 1]) / s
        q[3] = 0.25 * s
    else:
        i = 0
        if R[1, 1] > R[0, 0]:
            i = 1
        if R[2, 2] > R[i, i]:
            i = 2
        j, k = (i + 1) % 3, (i + 2) % 3
        s = 2.0 * math.sqrt(max(1.0 + R[i, i] - R[j, j] - R[k, k], 0.0))
        q[i], q[j], q[k] = 0.25 * s, (R[j, i] + R[i, j]) / s, (R[k, i] + R[i, k]) / s
        q[3] = (R[k, j] - R[j, k]) / s
    length = math.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    for i in range(4):
        q[i] /= length


@entry("the state estimate")
def begin(m: FilterModel, f: FilterMemory, q: Vector, v: Vector) -> None:
    """Start from the base's pose (7,) and velocity (6,), which begin q and v: place and yaw are known by definition."""
    n, x, y = len(f.P), local(3), local(3)
    rotation(q[3:7], f.R)
    times(f.R, m.lever, x)
    for i in range(3):
        f.p[i] = q[i] + x[i]
        f.omega[i] = v[3 + i]
        f.gyro_bias[i] = 0.0
        f.force_bias[i] = 0.0
    cross(f.omega, m.lever, x)
    for i in range(3):
        x[i] += v[i]
    times(f.R, x, f.v)
    for i in range(4):
        f.before[i] = 0.0
    for foot in range(len(f.standing)):
        f.standing[foot] = 0
        f.stepped[foot] = 0
        f.slipping[foot] = 0
    f.normal[0], f.normal[1], f.normal[2] = 0.0, 0.0, 1.0
    for i in range(n):
        for j in range(n):
            f.P[i, j] = 0.0
    for i in range(3):
        f.P[VELOCITY + i, VELOCITY + i] = m.doubt[1]
        f.P[GYRO_BIAS + i, GYRO_BIAS + i] = m.doubt[2]
        f.P[ACCELEROMETER_BIAS + i, ACCELEROMETER_BIAS + i] = m.doubt[3]
    # An error of roll or pitch turns the robot about itself; as one about the world's origin it shifts it, too.
    for k in range(2):
        for i in range(3):
            x[i] = 1.0 if i == k else 0.0
        cross(f.p, x, y)
        for i in range(3):
            for j in range(3):
                f.P[ATTITUDE + i, ATTITUDE + j] += m.doubt[0] * x[i] * x[j]
                f.P[POSITION + i, POSITION + j] += m.doubt[0] * y[i] * y[j]
                f.P[POSITION + i, ATTITUDE + j] += m.doubt[0] * y[i] * x[j]
                f.P[ATTITUDE + i, POSITION + j] += m.doubt[0] * x[i] * y[j]


@entry("the state estimate")
def rest(m: FilterModel, f: FilterMemory, terms: Vector, accelerometer: Vector, q: Vector, v: Vector) -> None:
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
    times(m.imu, accelerometer, up)
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
    exponentials(axis, E, J)
    quaternion(E, q[3:7])
    lowest = math.inf
    for foot in range(len(f.standing)):
        for i in range(3):
            c[i] = terms[m.origin[foot] + i]
        lowest = min(lowest, E[2, 0] * c[0] + E[2, 1] * c[1] + E[2, 2] * c[2] - m.radius[foot])
    q[0], q[1], q[2] = 0.0, 0.0, -lowest
    for i in range(6):
        v[i] = 0.0
    begin(m, f, q, v)


@entry("the state estimate")
def tell(m: FilterModel, f: FilterMemory, q: Vector, v: Vector) -> None:
    """The base's pose (7,) and velocity (6,), into the beginnings of q and v."""
    x, y = local(3), local(3)
    times(f.R, m.lever, x)
    cross(f.omega, m.lever, y)
    quaternion(f.R, q[3:7])
    for i in range(3):
        q[i] = f.p[i] - x[i]
        v[i] = f.R[0, i] * f.v[0] + f.R[1, i] * f.v[1] + f.R[2, i] * f.v[2] - y[i]
        v[3 + i] = f.omega[i]


# -- from reading to reading -------------------------------------------------------------------------------------


@compiled(inline=False)
def transition(f: FilterMemory, m: FilterModel) -> None:
    """``P = Phi P`` with Phi the transition of the error over a period."""
    n, dt = len(f.P), m.dt
    column, by_gyro, by_force, shift = local(3), local(3), local(3), local(3)
    for j in range(n):
        # What the errors of both biases turn and accelerate, world axes.
        for i in range(3):
            column[i] = f.P[GYRO_BIAS + i, j]
        times(f.R, column, by_gyro)
        for i in range(3):
            column[i] = f.P[ACCELEROMETER_BIAS + i, j]
        times(f.R, column, by_force)
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
        for foot in range(len(f.standing)):
            if f.standing[foot] != 0:
                cross(f.feet[foot], by_gyro, shift)
                for i in range(3):
                    f.P[FEET + 3 * foot + i, j] -= dt * shift[i]


@compiled(inline=False)
def transpose(P: Matrix) -> None:
    """In place."""
    for i in range(len(P)):
        for j in range(i):
            P[i, j], P[j, i] = P[j, i], P[i, j]


@compiled(inline=False)
def spread(f: FilterMemory, m: FilterModel) -> None:
    """Add what the sensors' noise does to the error over a period."""
    dt, P, N = m.dt, f.P, f.work[0]
    # By a component of the gyroscope's noise in world axes: as by its bias, R being no matter for what is isotropic.
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
        for foot in range(len(f.standing)):
            cross(f.feet[foot], axis, shift)
            for i in range(3):
                N[FEET + 3 * foot + i, k] = shift[i] if f.standing[foot] != 0 else 0.0
    turning = m.variance[GYRO] * dt * dt
    for i in range(len(P)):
        for j in range(i + 1):
            x = turning * (N[i, 0] * N[j, 0] + N[i, 1] * N[j, 1] + N[i, 2] * N[j, 2])
            P[i, j] += x
            if j < i:
                P[j, i] += x
    for i in range(3):
        P[VELOCITY + i, VELOCITY + i] += m.variance[FORCE] * dt * dt
        P[GYRO_BIAS + i, GYRO_BIAS + i] += m.variance[GYRO_WALK] * dt
        P[ACCELEROMETER_BIAS + i, ACCELEROMETER_BIAS + i] += m.variance[FORCE_WALK] * dt
        for foot in range(len(f.standing)):
            if f.standing[foot] != 0:
                P[FEET + 3 * foot + i, FEET + 3 * foot + i] += m.variance[CREEP] * dt


@compiled(inline=False)
def propagate(m: FilterModel, f: FilterMemory, terms: Vector, gyro: Vector, accelerometer: Vector) -> None:
    """State and covariance to the present reading, by the IMU; standing feet roll along."""
    dt = m.dt
    omega, force, phi, x, y = local(3), local(3), local(3), local(3), local(3)
    times(m.imu, gyro, omega)
    times(m.imu, accelerometer, force)
    transition(f, m)
    transpose(f.P)
    transition(f, m)
    spread(f, m)
    for i in range(3):
        # The mean of both ends is what has turned the robot in between.
        mean = 0.5 * (omega[i] + f.before[i]) if f.before[3] != 0.0 else omega[i]
        f.before[i] = omega[i]
        f.omega[i] = omega[i] - f.gyro_bias[i]
        phi[i] = dt * (mean - f.gyro_bias[i])
        force[i] -= f.force_bias[i]
    f.before[3] = 1.0
    turn(f, phi)
    times(f.R, force, x)
    for i in range(3):
        acceleration = x[i] + m.gravity[i]
        f.p[i] += dt * (f.v[i] + 0.5 * dt * acceleration)
        f.v[i] += dt * acceleration
    for foot in range(len(f.standing)):
        if f.standing[foot] != 0:
            rolling(m, f, terms, foot, x, y)
            for i in range(3):
                f.feet[foot, i] += dt * y[i]


@compiled(inline=False)
def level(f: FilterMemory) -> None:
    """The normal of the plane through the places of all feet, by least squares; vertical until three have stood."""
    x, y, z, n = 0.0, 0.0, 0.0, 0.0
    for foot in range(len(f.stepped)):
        if f.stepped[foot] != 0:
            x += f.feet[foot, 0]
            y += f.feet[foot, 1]
            z += f.feet[foot, 2]
            n += 1.0
    f.normal[0], f.normal[1], f.normal[2] = 0.0, 0.0, 1.0
    if n < 3.0:
        return
    # Feet in a line say nothing across it: there the ground is level.
    xx, xy, yy, xz, yz = FLAT, 0.0, FLAT, 0.0, 0.0
    for foot in range(len(f.stepped)):
        if f.stepped[foot] != 0:
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
def rolling(m: FilterModel, f: FilterMemory, terms: Vector, foot: int, x: Vector, out: Vector) -> None:
    """Velocity of the centre of a sphere that rolls on the ground, world axes; x is overwritten."""
    at = m.velocity[foot] + 3
    spin = local(3)
    for i in range(3):
        spin[i] = terms[at + i] + f.omega[i]
    times(f.R, spin, x)
    cross(x, f.normal, out)
    for i in range(3):
        out[i] *= m.radius[foot]


# -- measurements ------------------------------------------------------------------------------------------------


@compiled(inline=False)
def inverse(S: Matrix, out: Matrix) -> None:
    """Of a symmetric matrix of three rows; what is singular gives zeros."""
    for i in range(3):
        cross(S[(i + 1) % 3], S[(i + 2) % 3], out[i])
    determinant = S[0, 0] * out[0, 0] + S[0, 1] * out[0, 1] + S[0, 2] * out[0, 2]
    scale = 1.0 / determinant if determinant > 0.0 else 0.0
    for i in range(3):
        for k in range(3):
            out[i, k] *= scale


@compiled(inline=False)
def innovate(f: FilterMemory, a: int, A: Matrix, b: int, B: Matrix, noise: Matrix, z: Vector, S: Matrix) -> float:
    """Squared Mahalanobis distance of an innovation ``z = A error[a:] + B error[b:] + noise``.

    Args:
        f: whose ``work[1]`` becomes P H^T; and S, here, the inverse of the innovation's covariance.
        a: where the entries of the error begin that A is for.
        A: (3, 3).
        b: the same of B.
        B: (3, 3).
        noise: (3, 3) covariance.
        z: (3,).
        S: (3, 3) is written.
    """
    G, total = f.work[1], local(3, 3)
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
    inverse(total, S)
    distance = 0.0
    for i in range(3):
        for k in range(3):
            distance += z[i] * S[i, k] * z[k]
    return distance


@compiled(inline=False)
def correct(f: FilterMemory, z: Vector, S: Matrix, weight: float) -> None:
    """Correct state and covariance by an innovation that `innovate` has just been called for.

    A weight below 1 stands for noise that is so much larger than was thought.
    """
    G, K, n = f.work[1], f.work[2], len(f.P)
    error = f.work[3]
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
    # X = exp(-xi) X, and biases less their errors.
    phi, E, J, rows = local(3), local(3, 3), local(3, 3), local(3, 3)
    for i in range(3):
        phi[i] = -error[ATTITUDE + i, 0]
    exponentials(phi, E, J)
    for i in range(3):
        for k in range(3):
            rows[i, k] = E[i, 0] * f.R[0, k] + E[i, 1] * f.R[1, k] + E[i, 2] * f.R[2, k]
    orthonormal(rows, f.R)
    move(f.v, error, VELOCITY, E, J)
    move(f.p, error, POSITION, E, J)
    for foot in range(len(f.standing)):
        if f.standing[foot] != 0:
            move(f.feet[foot], error, FEET + 3 * foot, E, J)
    for i in range(3):
        f.gyro_bias[i] -= error[GYRO_BIAS + i, 0]
        f.force_bias[i] -= error[ACCELEROMETER_BIAS + i, 0]
        f.omega[i] += error[GYRO_BIAS + i, 0]


@compiled(inline=False)
def move(x: Vector, error: Matrix, at: int, E: Matrix, J: Matrix) -> None:
    """``x = E x - J xi``, a column of the state."""
    before, xi = local(3), local(3)
    for i in range(3):
        before[i] = x[i]
        xi[i] = error[at + i, 0]
    for i in range(3):
        x[i] = E[i, 0] * before[0] + E[i, 1] * before[1] + E[i, 2] * before[2]
        x[i] -= J[i, 0] * xi[0] + J[i, 1] * xi[1] + J[i, 2] * xi[2]


@compiled()
def fill_diagonal(A: Matrix, x: float) -> None:
    """``A = x I``."""
    for i in range(3):
        for k in range(3):
            A[i, k] = x if i == k else 0.0


@compiled(inline=False)
def place_of(m: FilterModel, terms: Vector, foot: int, c: Vector) -> None:
    """A foot's centre from the IMU, base axes."""
    for i in range(3):
        c[i] = terms[m.origin[foot] + i] - m.lever[i]


@compiled(inline=False)
def by_joints(m: FilterModel, f: FilterMemory, terms: Vector, foot: int, variance: float, out: Matrix) -> None:
    """``variance R J J^T R^T`` of a foot, world axes: what the joints' noise makes of its place or velocity."""
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
def look_at_place(m: FilterModel, f: FilterMemory, terms: Vector, foot: int, z: Vector, S: Matrix) -> float:
    """The innovation ``R c + p - d`` of a standing foot; its squared distance."""
    c, noise, A, B = local(3), local(3, 3), local(3, 3), local(3, 3)
    place_of(m, terms, foot, c)
    times(f.R, c, z)
    for i in range(3):
        z[i] += f.p[i] - f.feet[foot, i]
    by_joints(m, f, terms, foot, m.variance[ENCODER], noise)
    for i in range(3):
        noise[i, i] += m.variance[SHAPE]
    fill_diagonal(A, 1.0)
    fill_diagonal(B, -1.0)
    return innovate(f, POSITION, A, FEET + 3 * foot, B, noise, z, S)


@compiled(inline=False)
def look_at_velocity(m: FilterModel, f: FilterMemory, terms: Vector, foot: int, z: Vector, S: Matrix) -> float:
    """The innovation ``v + R (omega x c + c') - u`` of a standing foot; its squared distance."""
    c, x, y = local(3), local(3), local(3)
    noise, A, B = local(3, 3), local(3, 3), local(3, 3)
    place_of(m, terms, foot, c)
    cross(f.omega, c, x)
    for i in range(3):
        x[i] += terms[m.velocity[foot] + i]
    times(f.R, x, z)
    rolling(m, f, terms, foot, x, y)
    for i in range(3):
        z[i] += f.v[i] - y[i]
    by_joints(m, f, terms, foot, m.variance[RATE], noise)
    # R [c]x, by which the gyroscope's bias and noise count.
    for i in range(3):
        cross(f.R[i], c, B[i])
    for i in range(3):
        for k in range(3):
            outer = B[i, 0] * B[k, 0] + B[i, 1] * B[k, 1] + B[i, 2] * B[k, 2]
            noise[i, k] += m.variance[GYRO] * outer
        noise[i, i] += m.variance[SLIP]
    fill_diagonal(A, 1.0)
    return innovate(f, VELOCITY, A, GYRO_BIAS, B, noise, z, S)


@compiled(inline=False)
def forget(f: FilterMemory, foot: int) -> None:
    """Let go of a foot's place."""
    f.standing[foot] = 0
    for i in range(FEET + 3 * foot, FEET + 3 * foot + 3):
        for j in range(len(f.P)):
            f.P[i, j] = 0.0
            f.P[j, i] = 0.0


@compiled(inline=False)
def anchor(m: FilterModel, f: FilterMemory, terms: Vector, foot: int) -> None:
    """A foot stands where it is: ``d = p + R c``, and so does its error."""
    at = FEET + 3 * foot
    c, z, noise, S, A, B = local(3), local(3), local(3, 3), local(3, 3), local(3, 3), local(3, 3)
    place_of(m, terms, foot, c)
    times(f.R, c, z)
    for i in range(3):
        f.feet[foot, i] = f.p[i] + z[i]
        for j in range(len(f.P)):
            f.P[at + i, j] = f.P[POSITION + i, j]
    for i in range(3):
        for j in range(len(f.P)):
            f.P[j, at + i] = f.P[j, POSITION + i]
    by_joints(m, f, terms, foot, m.variance[ENCODER], noise)
    for i in range(3):
        noise[i, i] += m.variance[SHAPE]
        for k in range(3):
            f.P[at + i, at + k] += noise[i, k]
    f.standing[foot] = 1
    f.stepped[foot] = 1
    if m.floor:
        # Only the height: the other rows measure nothing.
        fill_diagonal(A, 0.0)
        fill_diagonal(B, 0.0)
        fill_diagonal(noise, 1.0)
        A[2, 2] = 1.0
        B[2, 0] = f.feet[foot, 1]
        B[2, 1] = -f.feet[foot, 0]
        noise[2, 2] = m.variance[LEVEL]
        z[0], z[1], z[2] = 0.0, 0.0, f.feet[foot, 2] - m.radius[foot]
        innovate(f, at, A, ATTITUDE, B, noise, z, S)
        correct(f, z, S, 1.0)


@entry("the state estimate")
def estimate(
    m: FilterModel, f: FilterMemory, terms: Vector, gyro: Vector, accelerometer: Vector, standing: IntVector
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
    """
    z, S = local(3), local(3, 3)
    level(f)
    propagate(m, f, terms, gyro, accelerometer)
    number, contradicting = 0, 0
    for foot in range(len(f.standing)):
        f.slipping[foot] = 0
        if standing[foot] == 0:
            if f.standing[foot] != 0:
                forget(f, foot)
            continue
        if f.standing[foot] == 0:
            anchor(m, f, terms, foot)
        number += 1
        distance = max(look_at_place(m, f, terms, foot, z, S), look_at_velocity(m, f, terms, foot, z, S))
        if not distance <= m.gate:
            f.slipping[foot] = 1
            contradicting += 1
    for foot in range(len(f.standing)):
        if f.standing[foot] == 0:
            continue
        if f.slipping[foot] != 0 and contradicting < number:
            forget(f, foot)
            anchor(m, f, terms, foot)
            continue
        distance = look_at_place(m, f, terms, foot, z, S)
        correct(f, z, S, min(1.0, m.gate / distance) if distance > 0.0 else 1.0)
        distance = look_at_velocity(m, f, terms, foot, z, S)
        correct(f, z, S, min(1.0, m.gate / distance) if distance > 0.0 else 1.0)


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
    innovate(f, POSITION, A, ATTITUDE, B, noise, z, S)
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
    innovate(f, ATTITUDE, A, VELOCITY, B, noise, difference, S)
    correct(f, difference, S, 1.0)
