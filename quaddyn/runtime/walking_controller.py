"""`Walker`: estimator, dynamics and locomotion as one controller for a loop."""

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
from ..robot.arguments import number
from ..robot.joint_positions import JointPositions
from ..robot.robot import Robot
from ..simulation.sensors import Measurement
from ..urdf.tree import Array
from ..wbc import Command
from .controller import Controller
from .motor_command import MotorCommand
from .stages import Stage

#: Height of the crouch from which a robot rises, as a share of that at home, and how long folding its legs takes [s].
CROUCH, FOLDING = 0.6, 1.0
#: How long it then rests and feels for gravity, as a share of that.
RESTING = 0.3
#: Largest delay that is made up for, and longest gap between readings [s]: what the model expects is not what happens
#: for long.
LATEST = 0.05
#: How many readings that do not come are made up for, one after the other.
AWAITED = 5
#: Share of the robot's weight that says that a foot stands.
STANDING = 0.05


class WalkingController(Controller, fixed=("robot", "dt", "locomotion", "estimator")):
    """Stands up, walks and lies down on readings alone: encoders, an IMU and, where there are any, foot sensors.

    To stand up, legs fold under the trunk by springs and dampers in the joints; then `LocomotionController` rises.

    Args:
        robot: a quadruped with a free root.
        dt: control period [s].
        gait: to move with.
        friction: of `LocomotionController`.
        imu: frame of the IMU; the root link by default.
        delay: age of readings when their commands reach the motors [s], made up for by `BaseEstimator.ahead`; so are
            readings that do not come, whichever it is.

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
        self.robot, self.dt = robot, number("dt", dt)
        self.locomotion = LocomotionController(robot, dt=self.dt, gait=gait, friction=friction)
        self.estimator = BaseEstimator(robot, dt=self.dt, imu=imu)
        if not 0.0 <= number("delay", delay) <= LATEST:
            raise ArgumentError(f"delay: expected a time from 0 to {LATEST} s, got {delay}")
        self._options = {"dt": self.dt, "gait": gait, "friction": friction, "imu": imu, "delay": delay}
        self._late = round(delay / self.dt)
        self._sent = deque[Command | None](maxlen=self._late + AWAITED)
        self._dynamics, self._pd = Dynamics(robot), JointPD(robot, dt=self.dt)
        self._joints = JointPositions.actuated(robot)
        self._crouch, self._weight = self._folded(), robot.mass * float(np.linalg.norm(robot.model.gravity.linear))
        self._status = ""
        self._estimate: tuple[Array, Array] | None = None
        self._begin(self._joints.of(robot.q_home))

    def _begin(self, position: Array) -> None:
        self._start, self._folding, self._rising = np.array(position), 0.0, False
        self._felt = np.zeros(3)
        self._standing: tuple[str, ...] = self.robot.feet
        self._done = False
        self._status, self._failure, self._estimate = "", "", None
        self._sent.clear()
        self._read, self._repeated = math.nan, 0

    def _folded(self) -> Array:
        """(nu,) joints of a crouch: feet where they are at home, nearer to the trunk."""
        robot = self.robot
        position = np.array(self._joints.of(robot.q_home))
        place = {name: i for i, name in enumerate(robot.actuated)}
        up = pin.Quaternion(*robot.q_home[[6, 3, 4, 5]].tolist()).toRotationMatrix()[2]
        for name, leg in robot.legs.items():
            own = [place[joint] for joint in leg.joints]
            kinematics = LegKinematics(robot, name)
            foot = kinematics.forward(position[own])
            found = kinematics.inverse(foot - (1.0 - CROUCH) * float(foot @ up) * up)
            if found.reached and found.within_limits:
                position[own] = found.q
        return position

    @property
    def configuration(self) -> dict[str, object]:
        """What a log says of it."""
        return {"kind": "WalkingController", **self._options}

    @property
    def status(self) -> str:
        """Outcome of whole-body control; the mode where that had no say, "folding" before it stands up."""
        return self._status

    @property
    def estimated_state(self) -> tuple[Array, Array] | None:
        """What the `BaseEstimator` believes; None while legs fold."""
        return self._estimate

    @property
    def is_settled(self) -> bool:
        """Whether it stands, or lies, as the stage asks for."""
        return self._done

    @property
    def failure_reason(self) -> str:
        """That the robot has fallen."""
        return self._failure

    def warmup(self) -> None:
        """Compile what is compiled at first use, and run all stages once on paper."""
        self.locomotion.warmup(quiet=True)
        home, zero = self._joints.of(self.robot.q_home), np.zeros(self.robot.nu)
        still = Measurement(0.0, home, zero, np.zeros(3), -np.array(self.robot.model.gravity.linear))
        self.reset(still)
        self._rising = True
        for _ in range(20):
            self.compute(still, Stage.RUN, (0.1, 0.0, 0.0))
        self.reset(still)

    def reset(self, measurement: Measurement) -> None:
        """Begin anew from a reading, to fold the legs first."""
        self.locomotion.reset()
        self._begin(measurement.position)
        self.estimator.initialize_at_rest(measurement.position, measurement.accelerometer)

    def compute(
        self, measurement: Measurement, stage: Stage, velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    ) -> MotorCommand:
        """One tick; see `Controller.compute`."""
        m = measurement
        if stage is Stage.STAND_UP and not self._rising:
            self._done = False
            return self._fold(m)
        touching = self._touching(m)
        q, v = self._believed(m, self._standing if touching is None else touching)
        if stage is Stage.LIE_DOWN:
            self.locomotion.lie_down()
        elif self.locomotion.mode in (LocomotionMode.LYING, LocomotionMode.LOWERING):
            self.locomotion.stand_up()
        wanted = velocity if stage is Stage.RUN else (0.0, 0.0, 0.0)
        command = self.locomotion.compute(self._dynamics.update(q, v), wanted, measured_contacts=touching)
        whole = command.wbc_command
        self._sent.append(whole)
        self._estimate, self._status = (q, v), command.mode.value if whole is None else whole.status.outcome
        self._standing = command.contacts
        resting = LocomotionMode.LYING if stage is Stage.LIE_DOWN else LocomotionMode.STANDING
        self._done = command.mode is resting
        self._failure = "the robot has fallen" if command.mode is LocomotionMode.FALLEN else ""
        if stage is Stage.LIE_DOWN and self._done:
            self._rising = False
        return MotorCommand.from_torques(command.tau)

    def _believed(self, m: Measurement, standing: tuple[str, ...]) -> tuple[Array, Array]:
        """The state (q, v) in which the next command meets the robot.

        A reading that came before is not taken for a new one: what the model expects goes on meanwhile.  One that
        comes after others were lost stands for them, too.
        """
        passed = (m.time - self._read) / self.dt
        periods = round(passed) if 0.0 <= passed * self.dt <= LATEST else 1
        self._read = m.time
        self._repeated = min(self._repeated + 1, AWAITED) if periods == 0 else 0
        if periods:
            self.estimator.update(m.position, m.velocity, m.gyro, m.accelerometer, standing, periods=periods)
        q, v = self.estimator.odometry()
        ahead = self._late + self._repeated
        if ahead:
            none = np.zeros(self.robot.nv)
            sent = list(self._sent)[-ahead:]
            q, v = self.estimator.predict([none if each is None else each.acceleration for each in sent])
        return q, v

    def _fold(self, m: Measurement) -> MotorCommand:
        """Joints on their way to the crouch; there, at rest, gravity says which way is up, and rising begins."""
        self._status, self._estimate = "folding", None
        self._folding += self.dt / FOLDING
        share = min(self._folding, 1.0)
        share = share * share * (3.0 - 2.0 * share)
        position = self._start + share * (self._crouch - self._start)
        if self._folding >= 1.0:
            self._felt = self._felt + m.accelerometer
        if self._folding >= 1.0 + RESTING:
            self.estimator.initialize_at_rest(m.position, self._felt)
            self._rising, self._read = True, m.time
        return MotorCommand.from_targets(position, np.zeros(self.robot.nu), self._pd.kp, self._pd.kd)

    def _touching(self, m: Measurement) -> tuple[str, ...] | None:
        """Feet that feel a part of the weight; None where feet feel nothing at all."""
        forces = [] if m.foot_forces is None else m.foot_forces.tolist()
        if m.foot_forces is None or not all(map(math.isfinite, forces)):
            return None
        least = STANDING * self._weight
        return tuple([foot for foot, force in zip(self.robot.feet, forces, strict=True) if force > least])


def make_walking_controller(robot: Robot, configuration: dict[str, Any]) -> WalkingController:
    """The walker that a log tells of, see `Walker.configuration`."""
    options = {name: value for name, value in configuration.items() if name != "kind"}
    return WalkingController(robot, **options)
