"""`WalkingController`: state estimator, dynamics and locomotion controller, combined for a control loop."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
import pinocchio as pin

from ..control import JointPD
from ..dynamics import Dynamics, State
from ..errors import ArgumentError
from ..estimation import BaseEstimator
from ..estimation.invariant_filter import find_loaded_feet, is_valid_state
from ..kinematics import LegKinematics
from ..locomotion import LocomotionCommand, LocomotionController
from ..locomotion.modes import LocomotionMode
from ..robot.arguments import check_number
from ..robot.home import JointPositions
from ..robot.robot import Robot
from ..simulation.sensors import Measurement, reading_layout
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
#: Members of enumerations that every tick reads: Python 3.11 needs 0.3 us to look one up.
STAND_UP, LIE_DOWN, RUN = Stage.STAND_UP, Stage.LIE_DOWN, Stage.RUN
LYING, LOWERING, STANDING, FALLEN = (
    LocomotionMode.LYING, LocomotionMode.LOWERING, LocomotionMode.STANDING, LocomotionMode.FALLEN
)  # fmt: skip


def measured_contact_force(robot: Robot) -> float:
    """Returns the force of a foot sensor above which the foot is in contact [N]."""
    return STANCE_WEIGHT_FRACTION * robot.mass * float(np.linalg.norm(robot.model.gravity.linear))


class WalkingController(Controller, fixed=("robot", "dt", "locomotion", "estimator")):
    """Controller that stands up, walks and lies down from sensor readings: encoders, IMU and optional foot sensors.

    To stand up, PD targets first fold the legs under the trunk; then `LocomotionController` raises it.

    Args:
        robot: a quadruped with a free root.
        dt: control period [s].
        gait: name of the gait.
        friction: friction coefficient of the ground, or "estimated" or "nominal"; see `LocomotionController`.
        imu: frame of the IMU; None: the root link.
        delay: age of a reading when its command reaches the motors [s], compensated by prediction with
            `BaseEstimator`, as are readings that do not arrive.

    Attributes:
        robot: the robot.
        dt: control period [s].
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
        self._crouch, self._contact_force = self._crouch_position(), measured_contact_force(robot)
        self._sizes = robot.nu, len(robot.feet)
        self._foot_sensors = reading_layout(*self._sizes)["foot_forces"].start
        self._feet_by_mask = tuple(
            tuple(foot for i, foot in enumerate(robot.feet) if mask >> i & 1) for mask in range(1 << len(robot.feet))
        )
        self._status = ""
        self._estimate: tuple[Array, Array] | None = None
        self._run_command: LocomotionCommand | None = None
        self._restart(self._joints.of(robot.q_home))

    def _restart(self, position: Array) -> None:
        """Resets all state; the legs fold from the joint positions (nu,) on."""
        self._start_position, self._folding_progress, self._has_folded = np.array(position), 0.0, False
        self._gravity_sum = np.zeros(3)
        self._stance_feet: tuple[str, ...] = self.robot.feet
        self._is_settled = self._is_lying = False
        self._status, self._failure_reason, self._estimate, self._run_command = "", "", None, None
        self._sent_commands.clear()
        self._last_reading_time, self._n_missing_readings = math.nan, 0

    def _crouch_position(self) -> Array:
        """Returns the joint positions (nu,) of a crouch: feet below their home positions, closer to the trunk."""
        robot = self.robot
        position = np.array(self._joints.of(robot.q_home))
        index = {name: i for i, name in enumerate(robot.actuated)}
        up = pin.Quaternion(*robot.q_home[[6, 3, 4, 5]].tolist()).toRotationMatrix()[2]
        for name, leg in robot.legs.items():
            leg_indices = [index[joint] for joint in leg.joints]
            kinematics = LegKinematics(robot, name)
            foot = kinematics.forward(position[leg_indices])
            solution = kinematics.inverse(foot - (1.0 - CROUCH_HEIGHT_FRACTION) * float(foot @ up) * up)
            if solution.reached and solution.within_limits:
                position[leg_indices] = solution.q
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
        return self._is_settled

    @property
    def failure_reason(self) -> str:
        """Reason "the robot has fallen" after a fall, else ""."""
        return self._failure_reason

    @property
    def velocity_limit(self) -> str:
        """Text of the last `LocomotionCommand` if it limits the velocity that the operator requested, else ""."""
        command = self._run_command
        return str(command) if command is not None and command.is_limited else ""

    def warmup(self) -> None:
        """Compiles everything, and computes some ticks of each stage without a robot."""
        self.locomotion.warmup(quiet=True)
        home, zero = self._joints.of(self.robot.q_home), np.zeros(self.robot.nu)
        reading = Measurement(0.0, home, zero, np.zeros(3), -np.array(self.robot.model.gravity.linear))
        self.reset(reading)
        self._has_folded = True
        for _ in range(20):
            self.compute(reading, Stage.RUN, (0.1, 0.0, 0.0))
        self.reset(reading)

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
        if stage is STAND_UP and not self._has_folded:
            self._is_settled = False
            return self._fold_legs(m)
        mask = self._feet_in_contact(m)
        measured_contacts = None if mask < 0 else self._feet_by_mask[mask]
        state = self._estimate_state(m, self.estimator.stance_mask(self._stance_feet) if mask < 0 else mask)
        if stage is LIE_DOWN:
            self.locomotion.lie_down()
        elif self._is_lying and self.locomotion.mode is not FALLEN:
            self.locomotion.stand_up()
        requested_velocity = velocity if stage is RUN else (0.0, 0.0, 0.0)
        command = self.locomotion.compute(state, requested_velocity, measured_contacts=measured_contacts)
        wbc_command = command.wbc_command
        self._run_command = command if stage is RUN else None
        self._sent_commands.append(wbc_command)
        self._estimate = state.writable_coordinates()
        self._status = command.mode.value if wbc_command is None else wbc_command.outcome
        mode, self._stance_feet = command.mode, command.contacts
        self._is_lying = mode is LYING or mode is LOWERING
        self._is_settled = mode is (LYING if stage is LIE_DOWN else STANDING)
        self._failure_reason = "the robot has fallen" if mode is FALLEN else ""
        if stage is LIE_DOWN and self._is_settled:
            self._has_folded = False
        return MotorCommand.from_torques(command.tau)

    def _estimate_state(self, m: Measurement, stance: int) -> State:
        """Returns the state predicted for the time at which the next command reaches the motors.

        A repeated reading is not used again: the prediction of the model continues.  A reading after lost ones covers
        their periods, too.
        """
        elapsed_periods = (m.time - self._last_reading_time) / self.dt
        periods = round(elapsed_periods) if 0.0 <= elapsed_periods * self.dt <= MAX_COMPENSATED_DELAY else 1
        self._last_reading_time = m.time
        self._n_missing_readings = min(self._n_missing_readings + 1, MAX_MISSED_READINGS) if periods == 0 else 0
        if periods:
            self.estimator.read(m.packed(*self._sizes), stance, periods)
        n_predicted = self._delay_ticks + self._n_missing_readings
        if n_predicted:
            zero = np.zeros(self.robot.nv)
            commands = list(self._sent_commands)[-n_predicted:]
            q, v = self.estimator.predict([zero if each is None else each.acceleration for each in commands])
        else:
            q, v = self.estimator.odometry()
        return self._dynamics.update_validated(q, v) if is_valid_state(q, v) else self._dynamics.update(q, v)

    def _fold_legs(self, m: Measurement) -> MotorCommand:
        """Moves the joints to the crouch and rests there; the accelerometer then initializes the estimator."""
        self._status, self._estimate = "folding", None
        self._folding_progress += self.dt / FOLDING_TIME
        fraction = min(self._folding_progress, 1.0)
        fraction = fraction * fraction * (3.0 - 2.0 * fraction)
        position = self._start_position + fraction * (self._crouch - self._start_position)
        if self._folding_progress >= 1.0:
            self._gravity_sum = self._gravity_sum + m.accelerometer
        if self._folding_progress >= 1.0 + REST_TIME_FRACTION:
            self.estimator.initialize_at_rest(m.position, self._gravity_sum)
            self._has_folded, self._last_reading_time = True, m.time
        return MotorCommand.from_targets(position, np.zeros(self.robot.nu), self._pd.kp, self._pd.kd)

    def _feet_in_contact(self, m: Measurement) -> int:
        """Returns the mask of the feet whose sensors measure a part of the weight; -1 without valid foot sensors."""
        reading, n_feet = m.packed(*self._sizes), self._sizes[1]
        mask: int = find_loaded_feet(reading, self._foot_sensors, n_feet, self._contact_force)
        return mask


def make_walking_controller(robot: Robot, configuration: dict[str, Any]) -> WalkingController:
    """Makes the controller that a log describes, see `WalkingController.configuration`."""
    options = {name: value for name, value in configuration.items() if name != "kind"}
    return WalkingController(robot, **options)
