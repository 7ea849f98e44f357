"""`WalkingController`: state estimator, dynamics and locomotion as one controller for a loop."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
import pinocchio as pin

from ..control import JointPD
from ..dynamics import Dynamics
from ..errors import ArgumentError
from ..estimation import BaseEstimator
from ..kinematics import LegKinematics
from ..locomotion import LocomotionController
from ..locomotion.modes import LocomotionMode
from ..robot.arguments import check_number
from ..robot.joint_positions import JointPositions
from ..robot.robot import Robot
from ..simulation.sensors import Measurement
from ..urdf.tree import Array
from ..wbc import Command
from .controller import Controller
from .motor_command import MotorCommand
from .stages import Stage

#: Height of the crouch before rising as a fraction of the home height, and duration of folding the legs [s].
CROUCH_HEIGHT_FRACTION, FOLDING_TIME = 0.6, 1.0
#: Time at rest in the crouch, in which gravity is measured, as a fraction of `FOLDING_TIME`.
REST_TIME_FRACTION = 0.3
#: Largest compensated delay and longest bridged gap between readings [s], since predictions of the model soon diverge.
MAX_COMPENSATED_DELAY = 0.05
#: Largest number of consecutive missing readings that are bridged by prediction.
MAX_MISSED_READINGS = 5
#: Foot force above which a foot is in contact, as a fraction of the robot's weight.
STANCE_WEIGHT_FRACTION = 0.05


class WalkingController(Controller, fixed=("robot", "dt", "locomotion", "estimator")):
    """Controller that stands up, walks and lies down from sensor readings: encoders, IMU and optional foot sensors.

    To stand up, PD targets first fold the legs under the trunk; then `LocomotionController` raises it.

    Args:
        robot: a quadruped with a free root.
        dt: control period [s].
        gait: name of the gait.
        friction: as of `LocomotionController`.
        imu: frame of the IMU; None: the root link.
        delay: age of a reading when its command reaches the motors [s], compensated by prediction with
            `BaseEstimator`, as are readings that do not arrive.

    Attributes:
        robot: as given.
        dt: as given [s].
        locomotion: the `LocomotionController`.
        estimator: the `BaseEstimator`.

    Raises:
        ArgumentError: a robot that cannot walk, or an option out of range.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        dt: float = 2e-3,
        gait: str = "trot",
        friction: float | str = "estimated",
        imu: str | None = None,
        delay: float = 0.0,
    ) -> None:
        self.robot, self.dt = robot, check_number("dt", dt)
        self.locomotion = LocomotionController(robot, dt=self.dt, gait=gait, friction=friction)
        self.estimator = BaseEstimator(robot, dt=self.dt, imu=imu)
        if not 0.0 <= check_number("delay", delay) <= MAX_COMPENSATED_DELAY:
            raise ArgumentError(f"delay: expected a time from 0 to {MAX_COMPENSATED_DELAY} s, got {delay}")
        self._options = {"dt": self.dt, "gait": gait, "friction": friction, "imu": imu, "delay": delay}
        self._delay_ticks = round(delay / self.dt)
        self._sent_commands = deque[Command | None](maxlen=self._delay_ticks + MAX_MISSED_READINGS)
        self._dynamics, self._pd = Dynamics(robot), JointPD(robot, dt=self.dt)
        self._joints = JointPositions.actuated(robot)
        self._crouch, self._weight = (
            self._crouch_position(),
            robot.mass * float(np.linalg.norm(robot.model.gravity.linear)),
        )
        self._status = ""
        self._estimate: tuple[Array, Array] | None = None
        self._restart(self._joints.of(robot.q_home))

    def _restart(self, position: Array) -> None:
        self._start, self._folding, self._rising = np.array(position), 0.0, False
        self._gravity_sum = np.zeros(3)
        self._standing: tuple[str, ...] = self.robot.feet
        self._is_done = False
        self._status, self._failure, self._estimate = "", "", None
        self._sent_commands.clear()
        self._read, self._repeated = math.nan, 0

    def _crouch_position(self) -> Array:
        """Returns the joint positions (nu,) of a crouch: feet below their home positions, closer to the trunk."""
        robot = self.robot
        position = np.array(self._joints.of(robot.q_home))
        place = {name: i for i, name in enumerate(robot.actuated)}
        up = pin.Quaternion(*robot.q_home[[6, 3, 4, 5]].tolist()).toRotationMatrix()[2]
        for name, leg in robot.legs.items():
            own = [place[joint] for joint in leg.joints]
            kinematics = LegKinematics(robot, name)
            foot = kinematics.forward(position[own])
            found = kinematics.inverse(foot - (1.0 - CROUCH_HEIGHT_FRACTION) * float(foot @ up) * up)
            if found.reached and found.within_limits:
                position[own] = found.q
        return position

    @property
    def configuration(self) -> dict[str, object]:
        """Description of the controller for the log."""
        return {"kind": "WalkingController", **self._options}

    @property
    def status(self) -> str:
        """Outcome of whole-body control, else the locomotion mode; "folding" while the legs fold."""
        return self._status

    @property
    def estimated_state(self) -> tuple[Array, Array] | None:
        """State (q, v) of the `BaseEstimator`; None while the legs fold."""
        return self._estimate

    @property
    def is_settled(self) -> bool:
        """Whether the robot stands or lies, as the stage requires."""
        return self._is_done

    @property
    def failure_reason(self) -> str:
        """Reason "the robot has fallen" after a fall, else ""."""
        return self._failure

    def warmup(self) -> None:
        """Compiles everything, and computes some ticks of each stage without a robot."""
        self.locomotion.warmup(quiet=True)
        home, zero = self._joints.of(self.robot.q_home), np.zeros(self.robot.nu)
        still = Measurement(0.0, home, zero, np.zeros(3), -np.array(self.robot.model.gravity.linear))
        self.reset(still)
        self._rising = True
        for _ in range(20):
            self.compute(still, Stage.RUN, (0.1, 0.0, 0.0))
        self.reset(still)

    def reset(self, measurement: Measurement) -> None:
        """Resets to a reading; the legs fold first."""
        self.locomotion.reset()
        self._restart(measurement.position)
        self.estimator.initialize_at_rest(measurement.position, measurement.accelerometer)

    def compute(
        self, measurement: Measurement, stage: Stage, velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    ) -> MotorCommand:
        """Computes the command of one tick; see `Controller.compute`."""
        m = measurement
        if stage is Stage.STAND_UP and not self._rising:
            self._is_done = False
            return self._fold_legs(m)
        touching = self._feet_in_contact(m)
        q, v = self._estimate_state(m, self._standing if touching is None else touching)
        if stage is Stage.LIE_DOWN:
            self.locomotion.lie_down()
        elif self.locomotion.mode in (LocomotionMode.LYING, LocomotionMode.LOWERING):
            self.locomotion.stand_up()
        wanted = velocity if stage is Stage.RUN else (0.0, 0.0, 0.0)
        command = self.locomotion.compute(self._dynamics.update(q, v), wanted, measured_contacts=touching)
        whole = command.wbc_command
        self._sent_commands.append(whole)
        self._estimate, self._status = (q, v), command.mode.value if whole is None else whole.status.outcome
        self._standing = command.contacts
        resting = LocomotionMode.LYING if stage is Stage.LIE_DOWN else LocomotionMode.STANDING
        self._is_done = command.mode is resting
        self._failure = "the robot has fallen" if command.mode is LocomotionMode.FALLEN else ""
        if stage is Stage.LIE_DOWN and self._is_done:
            self._rising = False
        return MotorCommand.from_torques(command.tau)

    def _estimate_state(self, m: Measurement, standing: tuple[str, ...]) -> tuple[Array, Array]:
        """Returns the state (q, v) predicted for the time at which the next command reaches the motors.

        A repeated reading is not used again: the prediction of the model continues.  A reading after lost ones covers
        their periods, too.
        """
        passed = (m.time - self._read) / self.dt
        periods = round(passed) if 0.0 <= passed * self.dt <= MAX_COMPENSATED_DELAY else 1
        self._read = m.time
        self._repeated = min(self._repeated + 1, MAX_MISSED_READINGS) if periods == 0 else 0
        if periods:
            self.estimator.update(m.position, m.velocity, m.gyro, m.accelerometer, standing, periods=periods)
        q, v = self.estimator.odometry()
        ahead = self._delay_ticks + self._repeated
        if ahead:
            none = np.zeros(self.robot.nv)
            sent = list(self._sent_commands)[-ahead:]
            q, v = self.estimator.predict([none if each is None else each.acceleration for each in sent])
        return q, v

    def _fold_legs(self, m: Measurement) -> MotorCommand:
        """Moves the joints to the crouch and rests there; the accelerometer then initializes the estimator."""
        self._status, self._estimate = "folding", None
        self._folding += self.dt / FOLDING_TIME
        share = min(self._folding, 1.0)
        share = share * share * (3.0 - 2.0 * share)
        position = self._start + share * (self._crouch - self._start)
        if self._folding >= 1.0:
            self._gravity_sum = self._gravity_sum + m.accelerometer
        if self._folding >= 1.0 + REST_TIME_FRACTION:
            self.estimator.initialize_at_rest(m.position, self._gravity_sum)
            self._rising, self._read = True, m.time
        return MotorCommand.from_targets(position, np.zeros(self.robot.nu), self._pd.kp, self._pd.kd)

    def _feet_in_contact(self, m: Measurement) -> tuple[str, ...] | None:
        """Returns the feet whose sensors measure a part of the weight; None without valid foot sensors."""
        forces = [] if m.foot_forces is None else m.foot_forces.tolist()
        if m.foot_forces is None or not all(map(math.isfinite, forces)):
            return None
        least = STANCE_WEIGHT_FRACTION * self._weight
        return tuple([foot for foot, force in zip(self.robot.feet, forces, strict=True) if force > least])


def make_walking_controller(robot: Robot, configuration: dict[str, Any]) -> WalkingController:
    """Makes the controller that a log describes, see `WalkingController.configuration`."""
    options = {name: value for name, value in configuration.items() if name != "kind"}
    return WalkingController(robot, **options)
