"""`Sensors`: simulated encoders, IMU and foot force sensors with noise, quantization, bias and delay.

`DepthCamera`: a simulated depth camera on the robot, which measures the terrain as a point cloud.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np
import pinocchio as pin

from ..deprecation import renamed_fields, renamed_overrides, renamed_parameters
from ..dynamics import Dynamics
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number, check_type, check_vector
from ..robot.home import JointPositions
from ..robot.robot import Robot
from ..robot.units import MAX_PLAUSIBLE_DELAY, warn_of_time
from ..strict_attributes import StrictAttributes
from ..urdf.mjcf import import_mujoco
from ..urdf.tree import Array, FrozenArrays, Pose, frozen
from .mujoco_model import add_terrain
from .plant import Plant


@renamed_overrides(play="backlash_state")
class Observable(ABC):
    """Interface of objects that `Sensors` can read: plants, and other sources of the true state of a robot."""

    robot: Robot

    @property
    @abstractmethod
    def q(self) -> Array:
        """True configuration of the robot (nq,) [m, rad]."""

    @property
    @abstractmethod
    def v(self) -> Array:
        """True velocity of the robot (nv,) [m/s, rad/s]."""

    @property
    @abstractmethod
    def time(self) -> float:
        """Present time [s]."""

    @property
    @abstractmethod
    def tau(self) -> Array:
        """Motor torques of the last step (nu,) [N m or N]."""

    @property
    @abstractmethod
    def contact_forces(self) -> Mapping[str, Array]:
        """Ground reaction force by foot, (3,) on the robot, world axes [N]."""

    @property
    def backlash_state(self) -> tuple[Array, Array] | None:
        """Position and velocity of the motors relative to their joints (nu,) each; None without backlash."""
        return None


Observable.register(Plant)  # type: ignore[type-abstract]


def read_motor_state(source: Plant | Observable, joints: JointPositions) -> tuple[Array, Array]:
    """Returns positions and velocities of the motors (nu,) each, divided by gear ratio [rad or m, rad/s or m/s].

    Args:
        source: plant or other source of the state.
        joints: actuated joints of the robot.
    """
    position, velocity = joints.of(source.q), source.v[source.robot.actuated_index]
    if (backlash := source.backlash_state) is not None:
        position, velocity = position + backlash[0], velocity + backlash[1]
    return position, velocity


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoders:
    """Noise of joint sensors on the motors; with backlash they measure the motors, see `Actuators`.

    Standard deviations are per reading, equal for all joints.

    Attributes:
        position_noise: standard deviation of positions [rad or m].
        velocity_noise: standard deviation of velocities [rad/s or m/s].
        resolution: step of quantized positions, 0 for continuous ones [rad or m].
        torque_noise: standard deviation of torques [N m or N].
    """

    position_noise: float = 0.0
    velocity_noise: float = 0.0
    resolution: float = 0.0
    torque_noise: float = 0.0

    def __post_init__(self) -> None:
        _validate_noise(self)


@renamed_fields(
    accelerometer_bias="initial_accelerometer_bias",
    accelerometer_walk="accelerometer_bias_walk",
    gyro_bias="initial_gyro_bias",
    gyro_walk="gyro_bias_walk",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Imu:
    """Noise of an inertial measurement unit fixed to a frame; standard deviations are per reading and axis.

    Attributes:
        frame: one of ``robot.frame_names``; None: the root link.
        gyro_noise: standard deviation of the angular velocity [rad/s].
        accelerometer_noise: standard deviation of the specific force [m/s^2].
        initial_gyro_bias: standard deviation of the initial bias [rad/s].
        initial_accelerometer_bias: standard deviation of the initial bias [m/s^2].
        gyro_bias_walk: random walk of the bias per square root of time [rad/s/sqrt(s)].
        accelerometer_bias_walk: random walk of the bias per square root of time [m/s^2/sqrt(s)].
    """

    frame: str | None = None
    gyro_noise: float = 0.0
    accelerometer_noise: float = 0.0
    initial_gyro_bias: float = 0.0
    initial_accelerometer_bias: float = 0.0
    gyro_bias_walk: float = 0.0
    accelerometer_bias_walk: float = 0.0

    def __post_init__(self) -> None:
        _validate_noise(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FootSensors:
    """Noise of force sensors in the feet; the standard deviation is per reading and foot.

    Attributes:
        noise: standard deviation of the force [N].
    """

    noise: float = 0.0

    def __post_init__(self) -> None:
        _validate_noise(self)


#: Sensors that a robot may lack.
OPTIONAL_SENSORS = ("torque", "foot_forces", "temperature")


@cache
def reading_layout(nu: int, nf: int) -> dict[str, slice]:
    """Returns the slice of each sensor in the array of a reading (4 nu + nf + 6,), see `Measurement.packed`."""
    sizes = {"position": nu, "velocity": nu, "gyro": 3, "accelerometer": 3}
    sizes |= {"torque": nu, "foot_forces": nf, "temperature": nu}
    return {name: slice(end - sizes[name], end) for name, end in zip(sizes, accumulate(sizes.values()), strict=True)}


@dataclass(frozen=True, slots=True, eq=False)
class Measurement(FrozenArrays):
    """One reading of all sensors; None for a sensor that the robot does not have.

    Attributes:
        time: time at which the values were true [s].
        position, velocity: (nu,) of the actuated joints, in torque order [rad or m, rad/s or m/s].
        gyro: (3,) angular velocity, IMU axes [rad/s].
        accelerometer: (3,) specific force, acceleration minus gravity, IMU axes [m/s^2]: the mean since the last
            reading, as of an integrating sensor, which is finite at impacts; at the first reading that of rest.
        torque: (nu,) measured or estimated motor torques [N m or N]; None without torque measurement.
        foot_forces: (nf,) magnitude of the ground reaction force by foot, in the order of ``robot.feet`` [N]; None
            without foot sensors.
        temperature: (nu,) motor temperature [degrees Celsius]; None without temperature sensors.
    """

    time: float
    position: Array
    velocity: Array
    gyro: Array
    accelerometer: Array
    torque: Array | None = None
    foot_forces: Array | None = None
    temperature: Array | None = None
    _packed: tuple[int, int, Array] | None = field(default=None, init=False, repr=False)

    @classmethod
    def from_packed(cls, time: float, nu: int, nf: int, values: Array) -> Measurement:
        """Returns a reading whose sensors are parts of one array, looked up when they are read; see `packed`."""
        out = cls.__new__(cls)
        _set_time(out, time)
        _set_packed(out, (nu, nf, values))
        return out

    def packed(self, nu: int, nf: int) -> Array:
        """Returns all sensors in one array (4 nu + nf + 6,), in the order of the attributes.

        A missing sensor is all NaN, and an array of another shape is replaced by infinities.
        """
        packed = self._packed
        if packed is not None and packed[0] == nu and packed[1] == nf:
            return packed[2]
        layout = reading_layout(nu, nf)
        values = np.empty(layout["temperature"].stop)
        for name, part in layout.items():
            value = getattr(self, name)
            if value is None and name in OPTIONAL_SENSORS:
                values[part] = np.nan
                continue
            try:
                array = np.asarray(value, dtype=np.float64)
            except (TypeError, ValueError):
                array = np.zeros((0, 0))
            values[part] = array if array.shape == (part.stop - part.start,) else np.inf
        return values

    def __getattr__(self, name: str) -> Any:
        """Looks up a sensor of a packed reading at its first access; Python calls this for slots without a value."""
        nu, nf, values = self._packed if name != "_packed" and self._packed is not None else (0, 0, None)
        part = None if values is None else reading_layout(nu, nf).get(name)
        if values is None or part is None:
            raise AttributeError(f"Measurement has no attribute {name!r}")
        is_missing = name in OPTIONAL_SENSORS and np.isnan(values[part]).all()
        array = None if is_missing else values[part]
        object.__setattr__(self, name, array)
        return array


#: Assignments of `Measurement.from_packed`; faster than ``object.__setattr__``.
_set_time, _set_packed = vars(Measurement)["time"].__set__, vars(Measurement)["_packed"].__set__


class Sensors(StrictAttributes, fixed=("robot", "encoders", "imu", "feet", "delay")):
    """Encoders, IMU and foot sensors that read a `Plant`; noise comes from the given generator alone.

    Read them once per tick of the controller. All random numbers are drawn at each reading, used or not, so that a
    generator in the same state gives the same readings of the same motion.

    Args:
        robot: robot of the plant.
        rng: random generator of all noise.
        encoders: noise of the joint sensors; None for sensors without noise.
        imu: frame and noise of the IMU; None: root link, no noise.
        feet: noise of the foot sensors; None: the robot has no foot sensors.
        delay: minimum age of the returned reading [s], the newest one of at least this age; at first the first one.

    Raises:
        ArgumentError: `delay` or `rng` is invalid.
        UnknownNameError: no frame of the IMU's name.
    """

    def __init__(
        self,
        robot: Robot,
        rng: np.random.Generator,
        *,
        encoders: Encoders | None = None,
        imu: Imu | None = None,
        feet: FootSensors | None = None,
        delay: float = 0.0,
    ) -> None:
        check_type("robot", robot, Robot, "a Robot from quaddyn.load")
        self.delay = check_number("delay", delay)
        if not 0.0 <= self.delay < np.inf:
            raise ArgumentError(f"delay: expected a time, 0 or more [s], got {delay}")
        warn_of_time("delay", self.delay, MAX_PLAUSIBLE_DELAY)
        self.robot = robot
        self.encoders, self.imu = Encoders() if encoders is None else encoders, Imu() if imu is None else imu
        self.feet = feet
        expected_types = (
            ("encoders", self.encoders, Encoders),
            ("imu", self.imu, Imu),
            ("feet", feet, FootSensors | None),
        )
        for name, value, expected in expected_types:
            if not isinstance(value, expected):
                raise ArgumentTypeError(
                    f"{name}: expected {getattr(expected, '__name__', expected)}, got {type(value).__name__}"
                )
        self._frame = robot.frame_id(self.imu.frame or robot.bodies[0].name)
        self._model, self._data = robot.model, robot.model.createData()
        self._joints = JointPositions.actuated(robot)
        self.reset(rng)

    def reset(self, rng: np.random.Generator) -> None:
        """Clears all readings and draws new biases.

        Raises:
            ArgumentTypeError: `rng` is not a generator.
        """
        check_type("rng", rng, np.random.Generator, "a numpy.random.Generator")
        self._rng = rng
        self._gyro_bias = self.imu.initial_gyro_bias * rng.standard_normal(3)
        self._accelerometer_bias = self.imu.initial_accelerometer_bias * rng.standard_normal(3)
        self._delayed_readings: deque[Measurement] = deque()
        self._last_reading: tuple[float, Array] | None = None

    def read(self, plant: Plant | Observable) -> Measurement:
        """Takes a reading of the present state of the plant, and returns the reading that is due after the delay.

        Raises:
            ArgumentError: the plant has a different robot, or its time decreased (call `reset` first).
        """
        check_type("plant", plant, Observable, "a plant")
        if plant.robot is not self.robot:
            raise ArgumentError(
                f"plant: expected a plant of the sensors' robot {self.robot.name!r}, got one of {plant.robot.name!r}"
            )
        if self._last_reading is not None and plant.time < self._last_reading[0]:
            raise ArgumentError(
                f"plant: the time of the plant decreased to {plant.time:g} s; call reset of the sensors after "
                "resetting the plant"
            )
        self._delayed_readings.append(self._measure(plant))
        latest_time = plant.time - self.delay + 1e-9
        while len(self._delayed_readings) > 1 and self._delayed_readings[1].time <= latest_time:
            self._delayed_readings.popleft()
        return self._delayed_readings[0]

    def checkpoint(self) -> tuple[Any, ...]:
        """Returns the complete present state, including the generator's, for `restore`."""
        biases = self._gyro_bias.copy(), self._accelerometer_bias.copy()
        return copy.deepcopy(self._rng.bit_generator.state), *biases, tuple(self._delayed_readings), self._last_reading

    def restore(self, checkpoint: tuple[Any, ...]) -> None:
        """Restores a state that `checkpoint` returned."""
        state, gyro, accelerometer, waiting, self._last_reading = checkpoint
        self._rng.bit_generator.state = copy.deepcopy(state)
        self._gyro_bias, self._accelerometer_bias = gyro.copy(), accelerometer.copy()
        self._delayed_readings = deque(waiting)

    def _measure(self, plant: Plant | Observable) -> Measurement:
        """Returns a reading of the present state, with noise."""
        robot, model, data, rng, imu, encoders = self.robot, self._model, self._data, self._rng, self.imu, self.encoders
        q, v, time = plant.q, plant.v, plant.time
        self.robot.algorithms.forwardKinematics(model, data, q, v)
        R = pin.updateFramePlacement(model, data, self._frame).rotation
        twist = pin.getFrameVelocity(model, data, self._frame, pin.LOCAL_WORLD_ALIGNED)
        acceleration = np.zeros(3)
        if self._last_reading is not None and time > self._last_reading[0]:
            acceleration = (twist.linear - self._last_reading[1]) / (time - self._last_reading[0])
            sqrt_dt = np.sqrt(time - self._last_reading[0])
            self._gyro_bias = self._gyro_bias + imu.gyro_bias_walk * sqrt_dt * rng.standard_normal(3)
            self._accelerometer_bias = (
                self._accelerometer_bias + imu.accelerometer_bias_walk * sqrt_dt * rng.standard_normal(3)
            )
        self._last_reading = time, twist.linear.copy()
        true_position, true_velocity = read_motor_state(plant, self._joints)
        position = true_position + encoders.position_noise * rng.standard_normal(robot.nu)
        if encoders.resolution:
            position = encoders.resolution * np.round(position / encoders.resolution)
        velocity = true_velocity + encoders.velocity_noise * rng.standard_normal(robot.nu)
        gyro = R.T @ twist.angular + self._gyro_bias + imu.gyro_noise * rng.standard_normal(3)
        accelerometer = (
            R.T @ (acceleration - model.gravity.linear)
            + self._accelerometer_bias
            + imu.accelerometer_noise * rng.standard_normal(3)
        )
        torque = (
            plant.tau
            if not encoders.torque_noise
            else plant.tau + encoders.torque_noise * rng.standard_normal(robot.nu)
        )
        forces = None
        if self.feet is not None:
            contact_forces = plant.contact_forces
            forces = np.array(
                [math.hypot(*contact_forces[foot].tolist()) if foot in contact_forces else 0.0 for foot in robot.feet]
            )
            forces = frozen(np.abs(forces + self.feet.noise * rng.standard_normal(len(forces))))
        return Measurement(
            time,
            frozen(position),
            frozen(velocity),
            frozen(gyro),
            frozen(accelerometer),
            frozen(torque),
            forces,
        )


def _validate_noise(sensor: Encoders | Imu | FootSensors) -> None:
    """Raises if a standard deviation is negative or not finite."""
    for name in sensor.__slots__:
        value = getattr(sensor, name)
        if name == "frame":
            continue
        value = check_number(name, value)
        if not 0.0 <= value < np.inf:
            raise ArgumentError(f"{name}: expected a finite number, 0 or more, got {value}")
        object.__setattr__(sensor, name, value)


#: Maximum number of pixels.
MAX_PIXELS = 1_000_000


class DepthCamera(StrictAttributes, fixed=("robot", "frame", "placement", "resolution")):
    """Depth camera fixed to a link; it measures the terrain of the plant, and the robot does not occlude it.

    Camera axes are the optical ones: z forward, x right, y down. Rays are cast by MuJoCo for any plant. A camera has
    mutable buffers; use one per thread.

    Args:
        robot: robot that carries the camera.
        rng: random generator of the noise.
        frame: frame to which the camera is fixed; None: the root link.
        placement: placement of the camera axes in that frame; None: ``camera_pose(0.5)``, ahead and down.
        resolution: number of pixel columns and rows.
        field_of_view: horizontal field of view [rad].
        depth_range: minimum and maximum measurable distance [m].
        noise: standard deviation of a distance as a fraction of the distance.

    Raises:
        ArgumentTypeError: `robot`, `rng` or `placement` has a wrong type.
        ArgumentError: an argument is out of range.
        UnknownNameError: no frame of that name.
        QuaddynError: MuJoCo is not installed.
    """

    @renamed_parameters(range="depth_range", view="field_of_view")
    def __init__(
        self,
        robot: Robot,
        rng: np.random.Generator,
        *,
        frame: str | None = None,
        placement: Pose | None = None,
        resolution: tuple[int, int] = (106, 60),
        field_of_view: float = 1.5,
        depth_range: tuple[float, float] = (0.1, 4.0),
        noise: float = 0.01,
    ) -> None:
        check_type("robot", robot, Robot, "a Robot from quaddyn.load")
        check_type("rng", rng, np.random.Generator, "a numpy.random.Generator")
        self.robot, self.frame = robot, frame or robot.bodies[0].name
        robot.frame_id(self.frame)
        self.placement = camera_pose(0.5) if placement is None else placement
        if not isinstance(self.placement, Pose):
            raise ArgumentTypeError(f"placement: expected a Pose, got {type(placement).__name__}")
        columns, rows = (int(n) for n in check_vector("resolution", resolution, (2,), "columns and rows"))
        if not (columns > 0 and rows > 0 and columns * rows <= MAX_PIXELS):
            raise ArgumentError(f"resolution: expected 1 to {MAX_PIXELS:,} pixels, got {resolution}")
        self.resolution = (columns, rows)
        if not 0.0 < check_number("field_of_view", field_of_view) < np.pi:
            raise ArgumentError(f"field_of_view: expected an angle between 0 and pi [rad], got {field_of_view}")
        self._near, self._far = check_vector("depth_range", depth_range, (2,), "minimum and maximum").tolist()
        if not 0.0 <= self._near < self._far:
            raise ArgumentError(f"depth_range: expected 0 <= minimum < maximum [m], got {depth_range}")
        self._noise = check_number("noise", noise)
        if not 0.0 <= self._noise < np.inf:
            raise ArgumentError(f"noise: expected a fraction, 0 or more, got {noise}")
        self._rng, self._dynamics = rng, Dynamics(robot)
        half = np.tan(0.5 * field_of_view)
        x, y = np.meshgrid(np.linspace(-half, half, columns), np.linspace(-half, half, rows) * rows / columns)
        rays = np.stack((x, y, np.ones(x.shape)), axis=-1).reshape(-1, 3)
        self._rays = rays / np.linalg.norm(rays, axis=1, keepdims=True)
        self._scene: Any = None
        self._terrain: object = None
        import_mujoco()

    def pose(self, plant: Plant) -> Pose:
        """Returns the true pose of the camera axes in the world."""
        return self._dynamics.update(plant.q, plant.v).placement(self.frame) @ self.placement

    def read(self, plant: Plant) -> Array:
        """Measures the distance to the terrain along the ray of each pixel.

        Returns:
            (rows * columns, 3) points in camera axes [m], row by row; NaN where nothing is within range.

        Raises:
            ArgumentError: a plant of a different robot.
        """
        check_type("plant", plant, Plant, "a plant")
        if plant.robot is not self.robot:
            raise ArgumentError(
                f"plant: expected a plant of the camera's robot {self.robot.name!r}, got one of {plant.robot.name!r}"
            )
        mujoco = import_mujoco()
        if self._terrain is not plant.terrain:
            spec = mujoco.MjSpec()
            add_terrain(spec, plant.terrain, 1.0)
            model = spec.compile()
            self._scene, self._terrain = (model, mujoco.MjData(model)), plant.terrain
            mujoco.mj_forward(*self._scene)
        pose, n = self.pose(plant), len(self._rays)
        distances, hit = np.full(n, -1.0), np.full(n, -1, dtype=np.int32)
        rays = np.ascontiguousarray(self._rays @ pose.rotation.T)
        model, data = self._scene
        arguments: dict[str, Any] = {
            "m": model, "d": data, "pnt": pose.translation, "vec": rays.ravel(), "geomgroup": None, "flg_static": True,
            "bodyexclude": -1, "geomid": hit, "dist": distances, "nray": n, "cutoff": self._far,
        }  # fmt: skip
        if "normal" in (mujoco.mj_multiRay.__doc__ or ""):  # a further argument since MuJoCo 3.4
            arguments["normal"] = None
        mujoco.mj_multiRay(**arguments)
        distances = np.where((distances >= self._near) & (distances <= self._far), distances, np.nan)
        if self._noise:
            distances *= 1.0 + self._noise * self._rng.standard_normal(n)
        return np.asarray(self._rays * distances[:, None])


@renamed_parameters(at="position", down="pitch")
def camera_pose(pitch: float, *, position: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Pose:
    """Returns the placement of a camera that looks along x, pitched down, in a frame with x ahead and z up.

    Args:
        pitch: angle of the optical axis below the x axis [rad].
        position: (3,) position of the camera in the frame [m].
    """
    s, c = np.sin(check_number("pitch", pitch)), np.cos(pitch)
    ahead, right = np.array([c, 0.0, -s]), np.array([0.0, -1.0, 0.0])
    return Pose.of(
        np.column_stack((right, np.cross(ahead, right), ahead)), check_vector("position", position, (3,), "a position")
    )
