"""Parameters and state of the invariant filter."""

from typing import NamedTuple

from ..compiler import IntVector, Matrix, Tensor, Vector

# First entry of each part of the error; the footholds follow the biases, three entries each.
ATTITUDE, VELOCITY, POSITION, GYRO_BIAS, ACCELEROMETER_BIAS, FEET = 0, 3, 6, 9, 12, 15
# Entries of `FilterModel.variance`.
(
    ENCODER,  # joint position [rad^2]
    JOINT_VELOCITY,  # joint velocity [rad^2/s^2]
    GYRO,  # gyroscope reading [rad^2/s^2]
    FORCE,  # accelerometer reading [m^2/s^4]
    GYRO_WALK,  # gyroscope bias, per time [rad^2/s^3]
    FORCE_WALK,  # accelerometer bias, per time [m^2/s^5]
    FOOTHOLD_WALK,  # position of a stance foot, per time [m^2/s]
    CONTACT_VELOCITY,  # velocity of a stance foot [m^2/s^2]
    LEG_KINEMATICS,  # error of the leg kinematics in the position of a foot [m^2]
    GROUND_HEIGHT,  # height of the ground where `flat_ground` is set [m^2]
) = range(10)


class FilterModel(NamedTuple):
    """Constant parameters of the invariant filter of `BaseEstimator`."""

    dt: float  # between readings [s]
    gravity: Vector  # (3,) world axes [m/s^2]
    imu: Matrix  # (3, 3) rotation from IMU to base axes
    lever: Vector  # (3,) position of the IMU, base axes [m]
    radius: Vector  # (nf,) radii of the foot spheres [m]
    origin: IntVector  # (nf,) index of the position of a foot in the kinematic terms, base axes
    velocity: IntVector  # (nf,) index of its velocity and angular velocity
    jacobian: IntVector  # (nf,) index of its Jacobian, in row-major order
    columns: IntVector  # (nf,) number of columns of the Jacobian; the first six are those of the base
    variance: Vector  # (10,) variances in the order above
    initial_variance: Vector  # (4,) initial variances of attitude, velocity and both biases
    innovation_gate: float  # maximum squared Mahalanobis distance of the reading of a foot
    flat_ground: bool  # whether the ground is level at height 0


class FilterMemory(NamedTuple):
    """State, covariance and scratch arrays of the invariant filter of `BaseEstimator`."""

    R: Matrix  # (3, 3) rotation from base to world axes
    v: Vector  # (3,) velocity of the IMU, world axes [m/s]
    p: Vector  # (3,) position of the IMU, world axes [m]
    gyro_bias: Vector  # (3,) gyroscope bias, base axes [rad/s]
    force_bias: Vector  # (3,) accelerometer bias, base axes [m/s^2]
    feet: Matrix  # (nf, 3) present or last footholds, world axes [m]
    has_foothold: IntVector  # (nf,) whether the foothold is part of the state
    has_stood: IntVector  # (nf,) whether a foot has ever had a foothold
    normal: Vector  # (3,) unit normal of the ground, from the footholds
    is_slipping: IntVector  # (nf,) whether a foot contradicted the others at the last reading
    omega: Vector  # (3,) angular velocity without its bias, base axes [rad/s]
    last_reading: Vector  # (7,) last reading of gyroscope and accelerometer, base axes, and 1 if there was one
    odometry_offset: Vector  # (3,) position of the odometry minus that of the state, world axes [m]
    P: Matrix  # (15 + 3 nf, 15 + 3 nf) covariance of (xi, zeta)
    scratch: Tensor  # (5, 15 + 3 nf, 3)
