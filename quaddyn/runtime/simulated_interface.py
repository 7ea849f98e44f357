"""`SimulatedInterface` and `PlantInterface`: simulated robots, which are also the clock of the control loop."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from ..deprecation import renamed_overrides
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.home import JointPositions
from ..robot.robot import Robot
from ..simulation.plant import Plant
from ..simulation.sensors import Encoders, FootSensors, Imu, Measurement, Observable, Sensors, read_motor_state
from ..urdf.tree import Array
from .clock import Clock
from .interface import RobotInterface
from .motor_command import MotorCommand


def make_noisy_sensors(robot: Robot, seed: int = 0) -> Sensors:
    """Returns sensors with typical noise: encoders, an IMU at the root link, and foot sensors if the robot has feet.

    Args:
        robot: the robot.
        seed: seed of the noise.
    """
    return Sensors(
        robot,
        np.random.default_rng(seed),
        encoders=Encoders(position_noise=3e-4, velocity_noise=0.05, torque_noise=0.2),
        imu=Imu(gyro_noise=0.01, accelerometer_noise=0.1),
        feet=FootSensors(noise=1.0) if robot.feet else None,
    )


@renamed_overrides(world="simulator", asked="commanded_torque")
class SimulatedInterface(RobotInterface, Clock, fixed=("robot", "sensors")):
    """Simulated robot whose time advances while the loop waits; pass it as the clock of the loop, too.

    The motors follow the last command at every step of the simulator, as motor drives do: stiffness and damping act on
    the true motor positions at its rate.

    Args:
        robot: the simulated robot.
        sensors: sensors of `read`; None: perfect ones with foot sensors.

    Raises:
        ArgumentError: sensors of another robot.
    """

    def __init__(self, robot: Robot, sensors: Sensors | None) -> None:
        if sensors is None:
            sensors = Sensors(robot, np.random.default_rng(0), feet=FootSensors() if robot.feet else None)
        elif not isinstance(sensors, Sensors):
            raise ArgumentTypeError(f"sensors: expected Sensors, got {type(sensors).__name__}")
        elif sensors.robot is not robot:
            raise ArgumentError(
                f"sensors: expected Sensors of the plant's robot, got Sensors of another robot, {sensors.robot.name!r}"
            )
        self.robot, self.sensors = robot, sensors
        self._command = MotorCommand.zero(robot.nu)
        self._joints = JointPositions.actuated(robot)

    @property
    @abstractmethod
    def simulator(self) -> Plant | Observable:
        """The simulated plant or system."""

    @property
    @abstractmethod
    def step_time(self) -> float:
        """Duration of one `step` [s]."""

    @abstractmethod
    def step(self) -> None:
        """Advances the simulator by one step under the last command."""

    @property
    def command(self) -> MotorCommand:
        """The last command written; zero torque at first."""
        return self._command

    def read(self) -> Measurement:
        """Returns a reading of the present state, or the due one of delayed sensors."""
        return self.sensors.read(self.simulator)

    def write(self, command: MotorCommand) -> None:
        """Sets the command that the motors follow from now on.

        Raises:
            ArgumentError: see `MotorCommand.validated`.
        """
        self._command = command.validated(self.robot.nu)

    def commanded_torque(self) -> Array:
        """Returns the torques (nu,) that the last command produces in the present state [N m]."""
        position, velocity = read_motor_state(self.simulator, self._joints)
        return self._command.compute_torque(position, velocity, self._joints.turning)

    def now(self) -> float:
        """Returns the simulator's time [s]."""
        return self.simulator.time

    def sleep_until(self, time: float) -> None:
        """Simulates until `time` [s], to the nearest step."""
        while self.simulator.time < time - 0.5 * self.step_time:
            self.step()


class PlantInterface(SimulatedInterface, fixed=("plant",)):
    """Simulated robot in a `Plant`.

    Args:
        plant: a `Simulation` or `MujocoPlant`.
        sensors: sensors of the same robot; None: perfect sensors.

    Raises:
        ArgumentError: `plant` is not a plant, or sensors of another robot.
    """

    def __init__(self, plant: Plant, *, sensors: Sensors | None = None) -> None:
        if not isinstance(plant, Plant):
            raise ArgumentTypeError(f"plant: expected a Simulation or MujocoPlant, got {type(plant).__name__}")
        super().__init__(plant.robot, sensors)
        self.plant = plant

    @property
    def simulator(self) -> Plant:
        """The plant."""
        return self.plant

    @property
    def step_time(self) -> float:
        """Time step of the plant [s]."""
        return self.plant.dt

    def step(self) -> None:
        """Advances the plant by one step under the last command."""
        self.plant.step(self.commanded_torque())
