"""What the invariant filter is told of a robot, and what it remembers."""

from typing import NamedTuple

from ..compiler import IntVector, Matrix, Tensor, Vector

# Where the parts of the error begin; feet follow the biases, three entries each.
ATTITUDE, VELOCITY, POSITION, GYRO_BIAS, ACCELEROMETER_BIAS, FEET = 0, 3, 6, 9, 12, 15
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
    before: Vector  # (7,) last reading of gyroscope and accelerometer, base axes, and whether there was one
    shift: Vector  # (3,) from the position to that of odometry, world axes [m]
    P: Matrix  # (15 + 3 nf, 15 + 3 nf) covariance of (xi, zeta)
    work: Tensor  # (5, 15 + 3 nf, 3)
