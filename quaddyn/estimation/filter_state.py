"""Parameters and state of the invariant filter."""

from ..compiler import IntVector, Mat3, Matrix, Record, Vec3, Vector

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
