"""`Sensors`: readings of encoders, an IMU and feet from a true state: noisy, quantized, biased, late."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pinocchio as pin

from ..deprecation import renamed_fields, renamed_overrides
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import number
from ..robot.joint_positions import JointPositions
from ..robot.robot import Robot
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array, FrozenArrays, frozen
from .plant import Plant


@renamed_overrides(play="backlash_state")
class Observable(ABC):
    """What `Sensors` can read: every `Plant`, and others that know their robot's true state."""

    robot: Robot

    @property
    @abstractmethod
    def q(self) -> Array:
        """(nq,) configuration."""

    @property
    @abstractmethod
    def v(self) -> Array:
        """(nv,) velocity."""

    @property
    @abstractmethod
    def time(self) -> float:
        """[s]."""

    @property
    @abstractmethod
    def tau(self) -> Array:
        """(nu,) torques that the motors delivered last [N m]."""

    @property
    @abstractmethod
    def contact_forces(self) -> Mapping[str, Array]:
        """(3,) by foot, on the robot, world axes [N]."""

    @property
    def backlash_state(self) -> tuple[Array, Array] | None:
        """(nu,) by how much motors are ahead of their joints, and how much faster they turn; None: not at all."""
        return None


Observable.register(Plant)  # type: ignore[type-abstract]


def at_motors(world: Plant | Observable, joints: JointPositions) -> tuple[Array, Array]:
    """(nu,) positions and (nu,) velocities of the motors, gear ratio divided out [rad or m, rad/s or m/s].

    Args:
        world: where the robot is.
        joints: the actuated ones of the robot.
    """
    position, velocity = joints.of(world.q), world.v[world.robot.actuated_index]
    if (play := world.backlash_state) is not None:
        position, velocity = position + play[0], velocity + play[1]
    return position, velocity


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoders:
    """Joint sensors, on the motors: where gears have backlash they read motors, see `Actuators`.

    Standard deviations are per reading, for all joints.

    Attributes:
        position_noise: [rad or m].
        velocity_noise: [rad/s or m/s].
        resolution: positions are whole multiples of it, 0 for a continuous reading [rad or m].
        torque_noise: [N m or N].
    """

    position_noise: float = 0.0
    velocity_noise: float = 0.0
    resolution: float = 0.0
    torque_noise: float = 0.0

    def __post_init__(self) -> None:
        _check(self)


@renamed_fields(
    accelerometer_bias="initial_accelerometer_bias",
    accelerometer_walk="accelerometer_bias_walk",
    gyro_bias="initial_gyro_bias",
    gyro_walk="gyro_bias_walk",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Imu:
    """An inertial measurement unit fixed to a frame; standard deviations are per reading and axis.

    Attributes:
        frame: any of ``robot.frame_names``; None for the root link.
        gyro_noise: [rad/s].
        accelerometer_noise: [m/s^2].
        initial_gyro_bias: of the bias at the start [rad/s].
        initial_accelerometer_bias: of the bias at the start [m/s^2].
        gyro_bias_walk: growth of the bias per square root of time [rad/s/sqrt(s)].
        accelerometer_bias_walk: growth of the bias per square root of time [m/s^2/sqrt(s)].
    """

    frame: str | None = None
    gyro_noise: float = 0.0
    accelerometer_noise: float = 0.0
    initial_gyro_bias: float = 0.0
    initial_accelerometer_bias: float = 0.0
    gyro_bias_walk: float = 0.0
    accelerometer_bias_walk: float = 0.0

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FootSensors:
    """Force sensors in the feet; the standard deviation is per reading and foot.

    Attributes:
        noise: [N].
    """

    noise: float = 0.0

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True, slots=True, eq=False)
class Measurement(FrozenArrays):
    """One reading of all sensors; None stands for a sensor that the robot does not have.

    Attributes:
        time: at which it was true, by the robot's clock [s].
        position, velocity: (nu,) of the actuated joints, in torque order [rad or m, rad/s or m/s].
        gyro: (3,) angular velocity of the IMU, its axes [rad/s].
        accelerometer: (3,) specific force, acceleration less gravity, its axes [m/s^2]; the mean since the reading
            before, which is what an integrating sensor gives and finite at impacts; at the first reading that of rest.
        torque: (nu,) as the motors measure or estimate it [N m or N].
        foot_forces: (nf,) magnitude of the ground's force by foot, in the order of ``robot.feet`` [N].
        temperature: (nu,) of the motors [degrees Celsius].
    """

    time: float
    position: Array
    velocity: Array
    gyro: Array
    accelerometer: Array
    torque: Array | None = None
    foot_forces: Array | None = None
    temperature: Array | None = None


class Sensors(StrictAttributes, fixed=("robot", "encoders", "imu", "feet", "delay")):
    """Encoders, an IMU and feet that read any `Plant`; the noise comes from the given generator alone.

    Read them once per tick of the controller.  Everything random is drawn at each reading, used or not, so that a
    generator in the same state gives the same readings of the same motion.

    Args:
        robot: the plant's.
        rng: of all noise.
        encoders: perfect ones by default.
        imu: a perfect one in the root link by default.
        feet: that feel the ground; None: they do not.
        delay: age of what is handed out [s]: the newest reading at least so old, or the first.

    Raises:
        ArgumentError: `delay` or `rng` is not what it must be.
        UnknownNameError: the IMU's frame.
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
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        self.delay = number("delay", delay)
        if not 0.0 <= self.delay < np.inf:
            raise ArgumentError(f"delay: expected a time, 0 or more [s], got {delay}")
        self.robot = robot
        self.encoders, self.imu = Encoders() if encoders is None else encoders, Imu() if imu is None else imu
        self.feet = feet
        wanted = ("encoders", self.encoders, Encoders), ("imu", self.imu, Imu), ("feet", feet, FootSensors | None)
        for name, value, kind in wanted:
            if not isinstance(value, kind):
                raise ArgumentTypeError(
                    f"{name}: expected {getattr(kind, '__name__', kind)}, got {type(value).__name__}"
                )
        self._frame = robot.frame_id(self.imu.frame or robot.bodies[0].name)
        self._model, self._data = robot.model, robot.model.createData()
        self._joints = JointPositions.actuated(robot)
        self.reset(rng)

    def reset(self, rng: np.random.Generator) -> None:
        """Forget all readings and draw new biases.

        Raises:
            ArgumentTypeError: `rng` is no generator.
        """
        if not isinstance(rng, np.random.Generator):
            raise ArgumentTypeError(f"rng: expected a numpy.random.Generator, got {type(rng).__name__}")
        self._rng = rng
        self._gyro_bias = self.imu.initial_gyro_bias * rng.standard_normal(3)
        self._accelerometer_bias = self.imu.initial_accelerometer_bias * rng.standard_normal(3)
        self._waiting: deque[Measurement] = deque()
        self._before: tuple[float, Array] | None = None

    def read(self, plant: Plant | Observable) -> Measurement:
        """Take a reading of the plant's present state, and hand out the one that is due.

        Raises:
            ArgumentError: the plant's robot is another, or its time has gone back (then `reset` first).
        """
        if not isinstance(plant, Observable):
            raise ArgumentTypeError(f"plant: expected a plant, got {type(plant).__name__}")
        if plant.robot is not self.robot:
            raise ArgumentError(f"plant: of robot {plant.robot.name!r}, not of the sensors' {self.robot.name!r}")
        if self._before is not None and plant.time < self._before[0]:
            raise ArgumentError(f"plant: its time went back to {plant.time:g} s; reset the sensors too")
        self._waiting.append(self._sense(plant))
        due = plant.time - self.delay + 1e-9
        while len(self._waiting) > 1 and self._waiting[1].time <= due:
            self._waiting.popleft()
        return self._waiting[0]

    def checkpoint(self) -> tuple[Any, ...]:
        """All of the present state, the generator's included, to `restore` later."""
        biases = self._gyro_bias.copy(), self._accelerometer_bias.copy()
        return copy.deepcopy(self._rng.bit_generator.state), *biases, tuple(self._waiting), self._before

    def restore(self, checkpoint: tuple[Any, ...]) -> None:
        """Go on from a checkpoint as if nothing had happened since."""
        state, gyro, accelerometer, waiting, self._before = checkpoint
        self._rng.bit_generator.state = copy.deepcopy(state)
        self._gyro_bias, self._accelerometer_bias = gyro.copy(), accelerometer.copy()
        self._waiting = deque(waiting)

    def _sense(self, plant: Plant | Observable) -> Measurement:
        robot, model, data, rng, imu, encoders = self.robot, self._model, self._data, self._rng, self.imu, self.encoders
        q, v, time = plant.q, plant.v, plant.time
        self.robot.algorithms.forwardKinematics(model, data, q, v)
        R = pin.updateFramePlacement(model, data, self._frame).rotation
        twist = pin.getFrameVelocity(model, data, self._frame, pin.LOCAL_WORLD_ALIGNED)
        acceleration = np.zeros(3)
        if self._before is not None and time > self._before[0]:
            acceleration = (twist.linear - self._before[1]) / (time - self._before[0])
            root = np.sqrt(time - self._before[0])
            self._gyro_bias = self._gyro_bias + imu.gyro_bias_walk * root * rng.standard_normal(3)
            self._accelerometer_bias = (
                self._accelerometer_bias + imu.accelerometer_bias_walk * root * rng.standard_normal(3)
            )
        self._before = time, twist.linear.copy()
        true, turning = at_motors(plant, self._joints)
        position = true + encoders.position_noise * rng.standard_normal(robot.nu)
        if encoders.resolution:
            position = encoders.resolution * np.round(position / encoders.resolution)
        velocity = turning + encoders.velocity_noise * rng.standard_normal(robot.nu)
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
            felt = plant.contact_forces
            forces = np.array([math.hypot(*felt[foot].tolist()) if foot in felt else 0.0 for foot in robot.feet])
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


def _check(sensor: Encoders | Imu | FootSensors) -> None:
    for name in sensor.__slots__:
        value = getattr(sensor, name)
        if name == "frame":
            continue
        value = number(name, value)
        if not 0.0 <= value < np.inf:
            raise ArgumentError(f"{name}: expected a finite number, 0 or more, got {value}")
        object.__setattr__(sensor, name, value)
