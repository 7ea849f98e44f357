"""`BaseEstimator`: pose and velocity of the base from encoders, an IMU, and the stance feet."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import pinocchio as pin

from ..deprecation import renamed_attributes, renamed_parameters
from ..dynamics.arguments import check_unit_norms
from ..dynamics.state_terms import make_tick_terms
from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import Numbers, check_integer, check_number, check_sequence, check_vector
from ..robot.configuration import rotation_matrix
from ..robot.home import JointPositions
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array
from . import invariant_filter as core
from .invariant_filter import FEET, FilterModel, FilterVariances, InitialVariances, JointSensors, make_filter_state
from .sensor_noise import SensorNoise


@renamed_attributes(
    see="correct_pose", ahead="predict", start="initialize_at_rest", floor="flat_ground", slipping="slipping_feet"
)
class BaseEstimator(StrictAttributes, fixed=("robot", "dt", "noise", "flat_ground", "_model", "_terms")):
    """State estimator of the base: a contact-aided invariant extended Kalman filter.

    See `quaddyn.estimation.invariant_filter` for the equations.  The IMU propagates the estimate from reading to
    reading; each stance foot measures that the lowest point of its sphere does not move.  Attitude except yaw, velocity
    and the biases of gyroscope and accelerometer are observable; yaw and position drift, with the uncertainty in the
    covariance, unless `correct_pose` provides them.

    There are two position estimates, as in ROS REP 105.  `state` has the best estimate relative to the start: a
    correction of the attitude rotates the whole path since the start, so that it may jump, by centimeters after fifty
    meters.  `odometry` never jumps, since stance feet stay in place: use it for walking, and `state` for localization.

    On a robot with closed kinematic loops, readings are of the actuated joints, and the other joints are computed from
    them; a reading for which a loop cannot be closed is rejected.

    A foot whose measurement contradicts the others slips (`slipping_feet`): its measurement is not used, and its
    foothold is set anew at its present position.

    Args:
        robot: a robot with a free root and feet.
        dt: time between readings [s].
        imu: name of the frame of the IMU; None for the root link.
        noise: standard deviations of the sensors; None for those of a commercial quadruped.
        flat_ground: whether the ground is level at height 0: then the height does not drift.

    Attributes:
        robot: as given.
        dt: as given [s].
        flat_ground: as given.

    Raises:
        ArgumentTypeError: `robot` is not a Robot, or `noise` not a `SensorNoise`.
        ArgumentError: the robot has no free root or no feet, or a number is out of range.
        UnknownNameError: there is no such frame.
    """

    @renamed_parameters(floor="flat_ground")
    def __init__(
        self,
        robot: Robot,
        *,
        dt: float = 1e-3,
        imu: str | None = None,
        noise: SensorNoise | None = None,
        flat_ground: bool = False,
    ) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        if robot.root != "free" or not robot.feet:
            found = f"root={robot.root!r}" if robot.root != "free" else "no feet"
            raise ArgumentError(f"robot: expected a robot with root='free' and feet, got {robot.name!r} with {found}")
        if not (np.isfinite(check_number("dt", dt)) and dt > 0.0):
            raise ArgumentError(f"dt: expected a positive number, got {dt}")
        noise = SensorNoise() if noise is None else noise
        if not isinstance(noise, SensorNoise):
            raise ArgumentTypeError(f"noise: expected a SensorNoise, got {type(noise).__name__}")
        self.robot, self.dt, self.noise, self.flat_ground = robot, float(dt), noise, bool(flat_ground)
        self._terms = make_tick_terms(robot, robot.feet)
        self._model = self._make_model(imu or robot.bodies[0].name)
        joints = JointPositions.actuated(robot)
        self._sensors = JointSensors.from_values(
            q_index=joints.at, v_index=robot.actuated_index, is_continuous=joints.turning
        )
        # Joints as measured, or as set where they have no encoders, with the base at rest in the origin.
        self._joint_q, self._joint_v = np.array(robot.neutral), np.zeros(robot.nv)
        self._term_values = np.zeros(self._terms.size)
        self._state = make_filter_state(len(robot.feet))
        self._read_joints = core.read_joints.bind(self._sensors)
        self._estimate = core.update_estimate.bind(self._model, self._state, self._sensors)
        self._write_odometry = core.write_odometry.bind(self._model, self._state)
        self.reset(robot.q_home)

    def _make_model(self, imu: str) -> FilterModel:
        """Returns the parameters of the compiled filter, with the IMU at a frame."""
        robot, layout = self.robot, self._terms.layout
        data, upright = robot.model.createData(), np.array(robot.q_home)
        upright[:7] = robot.neutral[:7]
        robot.algorithms.framesForwardKinematics(robot.model, data, upright)
        mount = data.oMf[robot.frame_id(imu)]  # root joint and IMU are both fixed to the base
        frames = [layout.frames[foot] for foot in robot.feet]
        return FilterModel.from_values(
            dt=self.dt,
            gravity=robot.model.gravity.linear,
            imu=mount.rotation,
            lever=mount.translation,
            radius=[robot.legs[foot].foot.radius for foot in robot.feet],
            origin=[each.origin for each in frames],
            velocity=[each.velocity for each in frames],
            jacobian=[each.jacobian for each in frames],
            columns=[len(each.chain) for each in frames],
            variance=FilterVariances(*map(np.array, self.noise.variances())),
            initial_variance=InitialVariances(*map(np.array, self.noise.initial_variances())),
            innovation_gate=self.noise.innovation_gate,
            flat_ground=self.flat_ground,
        )

    # -- initialization ----------------------------------------------------------------------------------------------
    def reset(self, q: Array, v: Array | None = None) -> None:
        """Initializes the estimate with a state; the uncertainty is that of `SensorNoise`, position and yaw are exact.

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity; None for a robot at rest.

        Raises:
            ArgumentError: a wrong shape, or a value that is not finite.
        """
        robot = self.robot
        v = np.zeros(robot.nv) if v is None else v
        q = check_vector("q", q, (robot.nq,), f"nq of {robot.name}")
        check_unit_norms(robot, q)
        v = check_vector("v", v, (robot.nv,), f"nv of {robot.name}")
        self._joint_q[7:], self._joint_v[6:] = q[7:], v[6:]  # joints without encoders keep these values
        core.initialize(self._model, self._state, np.array(q), np.array(v))

    def initialize_at_rest(self, position: Array, accelerometer: Array) -> None:
        """Initializes the estimate at rest above the origin, lowest foot at height 0, attitude from gravity.

        Args:
            position: (nu,) positions of the actuated joints [rad or m].
            accelerometer: (3,) specific force, IMU axes [m/s^2], preferably the mean of several readings.

        Raises:
            ArgumentError: a wrong shape, or a value that is not finite.
        """
        robot = self.robot
        position = check_vector("position", position, (robot.nu,), f"nu of {robot.name}")
        accelerometer = check_vector("accelerometer", accelerometer, (3,), "x, y, z")
        self._compute_terms(np.concatenate((position, np.zeros(robot.nu + 3), accelerometer)))
        q, v = self._joint_q.copy(), self._joint_v.copy()
        core.initialize_at_rest(self._model, self._state, self._term_values, np.ascontiguousarray(accelerometer), q, v)

    # -- readings ------------------------------------------------------------------------------------------------
    @renamed_parameters(standing="stance")
    def update(
        self,
        position: Array,
        velocity: Array,
        gyro: Array,
        accelerometer: Array,
        stance: Iterable[str],
        *,
        periods: int = 1,
    ) -> tuple[Array, Array]:
        """Updates the estimate with one reading.

        Args:
            position: (nu,) positions of the actuated joints [rad or m].
            velocity: (nu,) velocities of the actuated joints [rad/s or m/s].
            gyro: (3,) angular velocity, IMU axes [rad/s].
            accelerometer: (3,) specific force, IMU axes [m/s^2].
            stance: names of the stance feet.
            periods: number of periods `dt` since the last reading; more than one if readings were lost.

        Returns:
            q (nq,) and v (nv,) as in `state`; joints as measured, yaw and position relative to the start.

        Raises:
            ArgumentError: a wrong shape, or a value that is not finite; the estimate is unchanged.
            UnknownNameError: there is no such foot; the estimate is unchanged.
        """
        robot = self.robot
        position = check_vector("position", position, (robot.nu,), f"nu of {robot.name}")
        velocity = check_vector("velocity", velocity, (robot.nu,), f"nu of {robot.name}")
        gyro = check_vector("gyro", gyro, (3,), "x, y, z")
        accelerometer = check_vector("accelerometer", accelerometer, (3,), "x, y, z")
        feet = check_sequence("stance", stance, "names of feet")
        for foot in feet:
            if foot not in robot.legs:
                raise UnknownNameError("foot", foot, robot.feet)
        periods = check_integer("periods", periods)
        self.read(np.concatenate((position, velocity, gyro, accelerometer)), self.stance_mask(feet), periods)
        return self.state()

    def stance_mask(self, feet: Collection[str]) -> int:
        """Returns the mask of feet for `read`: 1 for the first of ``robot.feet``, 2 for the second, and so on."""
        return sum(1 << i for i, foot in enumerate(self.robot.feet) if foot in feet)

    def read(self, reading: Array, stance: int, periods: int) -> None:
        """Updates the estimate with one reading, as `update` does, in a control loop.

        Args:
            reading: positions (nu,), velocities (nu,), gyroscope (3,) and accelerometer (3,), see `update`; numbers
                after them are not read, so that it may be a `Measurement.packed`.
            stance: mask of the stance feet, see `stance_mask`.
            periods: number of periods `dt` since the last reading.

        Raises:
            ArgumentError: a value is not finite; the estimate is unchanged.
        """
        self._compute_terms(reading)
        self._estimate(self._term_values, reading, stance, periods)

    def _compute_terms(self, reading: Array) -> None:
        """Computes the kinematic terms of the feet, with the base at rest in the origin; see `read`."""
        if not self._read_joints(reading, self._joint_q, self._joint_v):
            joints = self.robot.nu, f"nu of {self.robot.name}"
            imu, start = (3, "x, y, z"), 0
            for name, (size, meaning) in zip(
                ("position", "velocity", "gyro", "accelerometer"), (joints, joints, imu, imu), strict=True
            ):
                check_vector(name, reading[start : start + size], (size,), meaning)
                start += size
        self._terms.compute(self._joint_q, self._joint_v, self._term_values)

    def state(self) -> tuple[Array, Array]:
        """Returns the estimate q (nq,) and v (nv,) at the last reading."""
        q, v = self._joint_q.copy(), self._joint_v.copy()
        core.write_base_state(self._model, self._state, q, v)
        return q, v

    def odometry(self) -> tuple[Array, Array]:
        """Returns the estimate q (nq,) and v (nv,) with a position that never jumps, for walking."""
        q, v = self._joint_q.copy(), self._joint_v.copy()
        self._write_odometry(q, v)
        return q, v

    def correct_pose(
        self,
        position: Numbers | None = None,
        orientation: object = None,
        *,
        position_noise: float = 0.01,
        orientation_noise: float = 0.02,
    ) -> tuple[Array, Array]:
        """Corrects the estimate by a measured pose of the base at the last reading, for example from motion capture.

        Args:
            position: (3,) position of the base, world axes [m]; None if not measured.
            orientation: quaternion x, y, z, w or rotation matrix (3, 3) of the base; None if not measured.
            position_noise: standard deviation per axis [m].
            orientation_noise: standard deviation per axis [rad].

        Returns:
            q (nq,) and v (nv,) as in `state`.

        Raises:
            ArgumentError: a wrong shape, a value that is not finite, or a standard deviation that is not positive.
        """
        f = self._state
        for name, value in (("position_noise", position_noise), ("orientation_noise", orientation_noise)):
            if not (np.isfinite(check_number(name, value)) and value > 0.0):
                raise ArgumentError(f"{name}: expected a positive standard deviation, got {value}")
        measured = None if position is None else check_vector("position", position, (3,), "x, y, z")
        if orientation is not None:
            R = rotation_matrix("orientation", orientation)
            core.correct_attitude(f, np.array(pin.log3(np.asarray(f.R) @ R.T)), float(orientation_noise) ** 2)
        if measured is not None:
            core.correct_position(f, measured + np.asarray(f.R @ self._model.lever), float(position_noise) ** 2)
        return self.state()

    def predict(self, accelerations: Iterable[Array]) -> tuple[Array, Array]:
        """Predicts `odometry` some periods after the last reading, for readings with delay; the estimate is unchanged.

        Args:
            accelerations: (nv,) acceleration of each period since, oldest first, such as `Command.acceleration` of the
                torques that were commanded meanwhile.

        Returns:
            q (nq,) and v (nv,).

        Raises:
            ArgumentError: a wrong shape, or a value that is not finite.
        """
        robot, (q, v) = self.robot, self.odometry()
        for each in accelerations:
            a = check_vector("accelerations", each, (robot.nv,), f"nv of {robot.name}")
            v = v + self.dt * a
            q = robot.algorithms.integrate(robot.model, q, self.dt * v)
        return q, v

    # -- results -------------------------------------------------------------------------------------------
    @property
    def gyro_bias(self) -> Array:
        """(3,) estimated bias of the gyroscope, base axes [rad/s]."""
        return np.array(self._state.gyro_bias)

    @property
    def accelerometer_bias(self) -> Array:
        """(3,) estimated bias of the accelerometer, base axes [m/s^2]."""
        return np.array(self._state.force_bias)

    @property
    def covariance(self) -> Array:
        """(15, 15) covariance of the invariant errors of attitude, velocity, position and both biases.

        With R, v and p of the IMU these errors are, to first order, ``phi`` in ``R_hat = exp(phi) R``, then ``v_hat -
        exp(phi) v``, ``p_hat - exp(phi) p``, and estimated minus true biases; world axes except for the biases.
        """
        return self._state.P[:FEET, :FEET].copy()

    @property
    def slipping_feet(self) -> tuple[str, ...]:
        """Names of the feet that contradicted the estimate at the last reading."""
        return tuple(foot for foot, slips in zip(self.robot.feet, self._state.is_slipping, strict=True) if slips)
