"""`preflight`: checks readings, limits, joint order, signs, IMU and gravity before a robot stands for the first time.

Results that a program can decide are reported as passed or failed.  For the others, the report states what a person has
to inspect: a swap that motors and encoders share, for instance, is visible only as the wrong leg moving.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence

import numpy as np
import pinocchio as pin

from ..control import JointPD
from ..deprecation import renamed_parameters
from ..dynamics import Dynamics
from ..errors import ArgumentError, UnknownNameError
from ..robot.arguments import check_number, check_sequence
from ..robot.robot import Robot
from ..simulation.sensors import Measurement
from ..urdf.tree import Array
from .clock import Clock
from .controller import Controller
from .interface import RobotInterface
from .loop import ControlLoop
from .motor_command import MotorCommand
from .operator import Operator
from .preflight_report import OperatorPrompt, PreflightCheck, PreflightReport
from .safety import Safety
from .safety_limits import SafetyLimits
from .stages import Stage

#: Duration of the readings at rest, and longest torque ramp of a joint [s].
REST_TIME, TORQUE_RAMP_TIME = 1.0, 1.0
#: Displacement at which a test ends [rad or m], time of one test for rest, and longest time to come to rest [s].
TEST_DISPLACEMENT, SETTLING_TIME, MAX_SETTLING_TIME = 0.06, 0.4, 8.0
#: Duration of the motion to the home pose, and of holding it [s].
MOVE_TIME, HOLD_TIME = 2.0, 1.0
#: Tilt of the trunk that is requested [rad], and longest time for it [s].
LEAN_ANGLE, MAX_PERSON_TIME = 0.25, 20.0
#: Requirements at rest: fraction of new readings, gyroscope rate [rad/s], deviation from 1 g [m/s^2], tilt [rad].
MIN_NEW_FRACTION, REST_RATE, GRAVITY_TOLERANCE, MAX_REST_TILT = 0.9, 0.05, 0.5, 0.3
#: Largest force of an unloaded foot sensor, or 5 % of the weight if that is more [N].
MAX_UNLOADED_FORCE = 2.0
#: Vertical of a level trunk in its axes.
VERTICAL = np.array([0.0, 0.0, 1.0])
#: Tolerance of the gravity check: fractions of the gravity torque and of the effort limit.
GRAVITY_TOLERANCE_FRACTION, TORQUE_TOLERANCE_FRACTION = 0.15, 0.03


Steps = Generator[MotorCommand, Measurement, None]


class _Preflight(Controller):
    """Controller that performs the checks one after the other, one tick at a time."""

    def __init__(
        self,
        robot: Robot,
        dt: float,
        torque_fraction: float,
        prompt: Callable[[OperatorPrompt], object] | None,
        joints: Sequence[str],
    ) -> None:
        self.robot, self.dt, self._prompt = robot, dt, prompt
        self._tested_joints = [robot.actuated.index(name) for name in joints]
        pd = JointPD(robot, dt=dt)
        self._kp, self._kd = pd.kp, pd.kd
        has_limit = np.isfinite(robot.effort_limits)
        self.max_torque = torque_fraction * np.where(
            has_limit, robot.effort_limits, 2.0 * pd.kp * TEST_DISPLACEMENT / torque_fraction
        )
        self._damping = MotorCommand.from_damping(pd.kd)
        self.checks: list[PreflightCheck] = []
        self.done = False
        self._steps: Steps | None = None

    def compute(
        self, measurement: Measurement, stage: Stage, velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    ) -> MotorCommand:
        """Returns the command of the next tick; damping after the last check."""
        if self.done:
            return self._damping
        try:
            if self._steps is None:
                self._steps = self._run_checks(measurement)
                return next(self._steps)
            return self._steps.send(measurement)
        except StopIteration:
            self.done = True
            return self._damping

    def _add_check(self, name: str, passed: bool | None, result: str, hint: str = "") -> bool:
        self.checks.append(PreflightCheck(name, passed, result, hint))
        return passed is not False

    def _read_damped(self, seconds: float) -> Generator[MotorCommand, Measurement, list[Measurement]]:
        """Collects readings for a time [s] under damping."""
        out = []
        for _ in range(max(2, round(seconds / self.dt))):
            out.append((yield self._damping))
        return out

    def _wait_for_rest(self) -> Generator[MotorCommand, Measurement, list[Measurement]]:
        """Collects readings under damping until the joints rest or `MAX_SETTLING_TIME` has passed."""
        readings: list[Measurement] = []
        for _ in range(round(MAX_SETTLING_TIME / SETTLING_TIME)):
            readings = yield from self._read_damped(SETTLING_TIME)
            if np.abs(np.mean([m.velocity for m in readings], axis=0)).max() < REST_RATE:
                break
        return readings

    def _run_checks(self, m: Measurement) -> Steps:
        """Performs all checks; yields a command for each tick and is sent the reading."""
        yield from self._wait_for_rest()
        readings = yield from self._read_damped(REST_TIME)
        self._check_limits(readings[-1])
        readings_ok = self._check_readings(readings)
        imu_ok = self._check_imu_at_rest(readings) if self.robot.root == "free" else True
        if not readings_ok:
            self._add_check("order and signs of joints", None, "not tried, because a check of the readings failed")
            return
        joints_ok = True
        for i in self._tested_joints:
            joint_ok = yield from self._excite_joint(i)
            joints_ok = joints_ok and joint_ok
        if len(self._tested_joints) < self.robot.nu:
            self._add_check("gravity", None, "not tried, because not all joints were moved before")
        elif joints_ok:
            yield from self._check_gravity(readings)
        else:
            self._add_check("gravity", None, "not tried, because a joint failed the check of its order and sign")
        if self.robot.root == "free":
            if not imu_ok:
                self._add_check("IMU axes", None, "not tried, because the IMU failed a check at rest")
            elif self._prompt is None:
                self._add_check(
                    "IMU axes",
                    None,
                    "not tried, because there is no operator who leans the trunk",
                    OperatorPrompt.NOSE_DOWN.value,
                )
            else:
                yield from self._check_imu_axes(self._prompt)

    # -- at rest -------------------------------------------------------------------------------------------------
    def _check_limits(self, m: Measurement) -> None:
        """Checks that the model has limits, and that the positions are within them."""
        robot = self.robot
        for name, values in (("effort", robot.effort_limits), ("velocity", robot.velocity_limits)):
            missing = [joint for joint, x in zip(robot.actuated, values, strict=True) if not np.isfinite(x)]
            range_text = f"{np.min(values):.3g} to {np.max(values):.3g} {'N m' if name == 'effort' else 'rad/s'}"
            self._add_check(
                f"{name} limits",
                not missing,
                f"missing for {', '.join(missing)}; pass limits= to quaddyn.load" if missing else range_text,
                "are they those of your motors at your battery's voltage?",
            )
        overtravel = np.maximum(robot.lower_position_limits - m.position, m.position - robot.upper_position_limits)
        worst = int(np.argmax(overtravel))
        within_limits = bool(overtravel[worst] < 0.1)
        text = f"{robot.actuated[worst]} measures {m.position[worst]:+.2f}, {overtravel[worst]:.2f} beyond its limit"
        self._add_check(
            "positions", within_limits, "all within limits" if within_limits else text, "order and zero of the encoders"
        )

    def _check_readings(self, readings: list[Measurement]) -> bool:
        """Checks rate of readings, joint velocities, temperatures and foot sensors at rest."""
        times = np.array([m.time for m in readings])
        new_fraction = float(np.mean(np.diff(times) > 0.0))
        is_fresh = new_fraction >= MIN_NEW_FRACTION
        text = f"{100.0 * new_fraction:.0f} % of {len(times)} ticks of {1000.0 * self.dt:g} ms had a new reading"
        hint = "does the robot send readings at this rate? is the computer or the link overloaded?"
        readings_ok = self._add_check("readings", is_fresh, text, "" if is_fresh else hint)
        speed = np.abs(np.mean([m.velocity for m in readings], axis=0))
        fastest = int(np.argmax(speed))
        at_rest = bool(speed[fastest] < 5.0 * REST_RATE)
        speed_text = f"at most {speed[fastest]:.3f} rad/s on average, {self.robot.actuated[fastest]}"
        self._add_check(
            "joint velocities at rest", at_rest, speed_text, "" if at_rest else "does the robot hang still?"
        )
        m = readings[-1]
        if m.temperature is not None:
            max_temperature = float(np.max(m.temperature))
            self._add_check(
                "motor temperatures", max_temperature < 60.0, f"at most {max_temperature:.0f} degrees Celsius"
            )
        if m.foot_forces is not None:
            weight = self.robot.mass * float(np.linalg.norm(self.robot.model.gravity.linear))
            max_force = float(
                np.max(np.abs(np.mean([m.foot_forces for m in readings if m.foot_forces is not None], axis=0)))
            )
            unloaded = max_force < max(0.05 * weight, MAX_UNLOADED_FORCE)
            self._add_check(
                "foot sensors in the air",
                unloaded,
                f"at most {max_force:.1f} N",
                "press each foot: does its reading rise?",
            )
        return readings_ok and at_rest

    def _check_imu_at_rest(self, readings: list[Measurement]) -> bool:
        """Checks the IMU at rest; stores the mean gyroscope reading as its bias."""
        specific_force = np.mean([m.accelerometer for m in readings], axis=0)
        self._bias = np.mean([m.gyro for m in readings], axis=0)
        magnitude, rate = float(np.linalg.norm(specific_force)), float(np.linalg.norm(self._bias))
        self._add_check(
            "gyroscope at rest",
            rate < REST_RATE,
            f"{rate:.4f} rad/s",
            "" if rate < REST_RATE else "does the robot hang still?",
        )
        is_one_g = abs(magnitude - 9.81) < GRAVITY_TOLERANCE
        is_in_g = abs(9.81 * magnitude - 9.81) < GRAVITY_TOLERANCE
        advice = "the readings are in units of g; multiply them by 9.81" if is_in_g else "are the readings in m/s^2?"
        self._add_check(
            "accelerometer at rest",
            is_one_g,
            f"{magnitude:.2f} m/s^2, expected 9.81",
            "" if is_one_g else advice,
        )
        if not is_one_g:
            return False
        angle = angle_between(specific_force / magnitude, VERTICAL)
        axis = int(np.argmax(np.abs(specific_force)))
        axis_text = f"{'+-'[int(specific_force[axis] < 0.0)]}{'xyz'[axis]}"
        return self._add_check(
            "IMU vertical",
            angle < MAX_REST_TILT,
            f"{np.rad2deg(angle):.0f} degrees off the trunk's +z; its {axis_text} axis points up",
            "is the trunk level? is the IMU rotated in its mount? pass its rotation as Safety(imu_rotation=) and "
            "BaseEstimator(imu=)",
        )

    # -- joints --------------------------------------------------------------------------------------------------
    def _excite_joint(self, i: int) -> Generator[MotorCommand, Measurement, bool]:
        """Applies a rising torque to one joint until a joint moves, and checks which one and in which direction."""
        robot, name = self.robot, self.robot.actuated[i]
        start_position = np.mean([m.position for m in (yield from self._wait_for_rest())[-10:]], axis=0)
        distances_to_limits = (
            robot.upper_position_limits[i] - start_position[i],
            start_position[i] - robot.lower_position_limits[i],
        )
        sign = 1.0 if distances_to_limits[0] > 0.2 or distances_to_limits[0] > distances_to_limits[1] else -1.0
        displacement, tau, zero, k = np.zeros(robot.nu), np.zeros(robot.nu), np.zeros(robot.nu), 0
        damping = np.where(np.arange(robot.nu) == i, 0.3, 1.0) * self._kd
        for k in range(round(TORQUE_RAMP_TIME / self.dt)):
            tau[i] = sign * self.max_torque[i] * min(1.0, 1.2 * (k + 1) * self.dt / TORQUE_RAMP_TIME)
            m = yield MotorCommand(tau.copy(), zero, zero, zero, damping)
            displacement = m.position - start_position
            if np.abs(displacement).max() > TEST_DISPLACEMENT:
                break
        moved_joint, direction = self._identify_moved_joint(i, displacement, start_position, (k + 1) * self.dt)
        hint = f"{self._describe_motion(i, sign, start_position)}, and nothing else"
        label = f"order and sign of {name}"
        if np.abs(displacement).max() < 0.5 * TEST_DISPLACEMENT:
            text = (
                f"the joint did not move under {abs(tau[i]):.1f} N m; is the motor on? is the joint at a mechanical "
                "stop? is the torque too small?"
            )
            passed = self._add_check(label, False, text, hint)
        elif moved_joint != i:
            other = robot.actuated[moved_joint]
            moved_by = displacement[moved_joint]
            text = f"a torque on it moved {other} by {moved_by:+.2f} rad; motors or encoders are in a different order"
            passed = self._add_check(label, False, text, hint)
        else:
            text = f"{tau[i]:+.1f} N m moved it by {displacement[i]:+.2f} rad" + (
                "" if direction == sign else "; the sign of the torque or of the encoder is wrong"
            )
            passed = self._add_check(label, direction == sign, text, hint)
        return passed

    def _identify_moved_joint(self, i: int, displacement: Array, position: Array, duration: float) -> tuple[int, float]:
        """Returns the joint on which a torque on joint i has acted, and the sign of its motion.

        Usually it is the joint that moves most.  Hanging joints also move by their inertial coupling: if another joint
        moves most, the motion is compared with the model's response to a torque ramp of this duration [s] on each joint
        (inertia, damping and gravity), and the best match is returned.
        """
        most_moved = int(np.argmax(np.abs(displacement)))
        if most_moved == i:
            return i, float(np.sign(displacement[i]))
        dyn, q, indices = Dynamics(self.robot), self._configuration(position), self.robot.actuated_index
        block, zero = np.ix_(indices, indices), np.zeros(self.robot.nv)
        K = dyn.rnea_derivatives(q, zero, zero)[0][block]
        responses = np.linalg.pinv(6.0 / duration**2 * dyn.crba(q)[block] + 2.0 / duration * np.diag(self._kd) + K)
        match = displacement @ (responses / np.maximum(np.linalg.norm(responses, axis=0), 1e-12))
        best = int(np.argmax(np.abs(match)))
        return best, float(np.sign(match[best]))

    def _configuration(self, position: Array) -> Array:
        """Returns the configuration (nq,) with these joint positions and a level trunk at the origin."""
        q = self.robot.configuration(joints=position)
        if self.robot.root == "free":
            q[:7] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
        return q

    def _describe_motion(self, i: int, sign: float, position: Array) -> str:
        """Returns the visible motion of a joint in words, for the person at the robot."""
        robot, name = self.robot, self.robot.actuated[i]
        leg = next((leg for leg in robot.legs.values() if name in leg.joints), None)
        if leg is None:
            return f"{name} turns {'forward' if sign > 0 else 'backward'} about its axis"
        foot_velocity = (
            sign
            * Dynamics(robot).frame_jacobian(self._configuration(position), leg.name)[:3, robot.velocity_index(name)]
        )
        size = float(np.linalg.norm(foot_velocity))
        directions = [
            word[0] if x > 0.0 else word[1]
            for x, word in zip(foot_velocity, (("forward", "backward"), ("left", "right"), ("up", "down")), strict=True)
            if abs(x) > 0.35 * size
        ]
        return f"foot {leg.name} moves {' and '.join(directions)}" if size > 1e-6 else f"leg {leg.name} turns"

    def _check_gravity(self, readings: list[Measurement]) -> Steps:
        """Holds the home pose and compares the torques with the gravity torques of the model."""
        robot, pd = self.robot, (self._kp, self._kd)
        m = readings[-1]
        start = m.position
        for m in (yield from self._wait_for_rest()):
            start = m.position
        lower, upper = robot.lower_position_limits + 0.1, robot.upper_position_limits - 0.1
        home = np.array([robot.decompose(robot.q_home).joints[name] for name in robot.actuated])
        home = np.where(lower < upper, np.clip(home, lower, upper), home)
        samples: list[tuple[Array, Array]] = []
        for k in range(round((MOVE_TIME + HOLD_TIME) / self.dt)):
            s = min(1.0, k * self.dt / MOVE_TIME)
            goal = start + s * s * (3.0 - 2.0 * s) * (home - start)
            command = MotorCommand.from_targets(goal, np.zeros(robot.nu), *pd)
            m = yield command
            if k * self.dt > MOVE_TIME + 0.5 * HOLD_TIME:
                torque = command.compute_torque(m.position, m.velocity) if m.torque is None else m.torque
                samples.append((m.position, np.asarray(torque)))
        position, torque = (np.mean([each[j] for each in samples], axis=0) for j in (0, 1))
        q = self._configuration(position)
        if robot.root == "free":
            attitude = pin.Quaternion.FromTwoVectors(m.accelerometer, np.array([0.0, 0.0, 1.0]))
            q[3:7] = attitude.coeffs()
        gravity_torque = Dynamics(robot).gravity(q)[robot.actuated_index]
        effort = np.where(np.isfinite(robot.effort_limits), robot.effort_limits, self.max_torque)
        tolerance = (
            GRAVITY_TOLERANCE_FRACTION * np.abs(gravity_torque)
            + TORQUE_TOLERANCE_FRACTION * effort
            + robot.friction[robot.actuated_index]
        )
        error = np.abs(torque - gravity_torque)
        worst = int(np.argmax(error / tolerance))
        scale = float(torque @ gravity_torque / max(float(gravity_torque @ gravity_torque), 1e-9))
        passed = bool((error <= tolerance).all())
        text = f"the measured holding torques are {scale:.2f} times those of the model"
        if not passed:
            text += (
                f"; {robot.actuated[worst]} measures {torque[worst]:+.2f} N m, the model predicts "
                f"{gravity_torque[worst]:+.2f} N m"
            )
        self._add_check(
            "gravity", passed, text, "check torque constants, gear ratios and the masses of parts mounted on the legs"
        )
        yield from self._wait_for_rest()

    # -- the IMU's axes ------------------------------------------------------------------------------------------
    def _check_imu_axes(self, prompt: Callable[[OperatorPrompt], object]) -> Steps:
        """Checks accelerometer and gyroscope while a person tilts the trunk as prompted."""
        for requested, axis in ((OperatorPrompt.NOSE_DOWN, 0), (OperatorPrompt.LEFT_DOWN, 1)):
            prompt(requested)
            m = yield self._damping
            filtered: Array | None = None
            up: Array | None = None
            integrated: Array | None = None
            last, waited = m.time, 0.0
            window: list[Array] = []
            while waited < MAX_PERSON_TIME:
                m = yield self._damping
                waited += self.dt
                measured = unit_vector(m.accelerometer)
                if measured is not None:  # ignores a sensor that drops out for a moment
                    window = [*window[-9:], measured]
                    filtered = unit_vector(np.mean(window, axis=0))
                if up is None:
                    up = integrated = measured
                elif integrated is not None:
                    integrated = unit_vector(integrated + (m.time - last) * np.cross(integrated, m.gyro - self._bias))
                last = m.time
                if angle_between(filtered, up) > LEAN_ANGLE:
                    break
            label = f"IMU axes, {requested.name.lower().replace('_', ' ')}"
            change = np.zeros(3) if filtered is None or up is None else filtered - up
            tilt_axis, angle = int(np.argmax(np.abs(change))), angle_between(filtered, integrated)
            if waited >= MAX_PERSON_TIME:
                self._add_check(label, None, "the trunk was not leaned far enough", requested.value)
            elif tilt_axis != axis or change[axis] > 0.0:
                direction_text = f"{'+-'[int(change[tilt_axis] < 0.0)]}{'xyz'[tilt_axis]}"
                self._add_check(
                    label,
                    False,
                    f"the measured gravity moved to {direction_text}, expected -{'xyz'[axis]}",
                    "check whether the IMU is mounted rotated or its axes are mirrored",
                )
            elif angle > 0.1:
                text = (
                    f"the vertical integrated from the gyroscope differs by {np.rad2deg(angle):.0f} degrees from "
                    "the measured gravity"
                )
                self._add_check(label, False, text, "check the order, signs and units of the gyroscope axes")
            else:
                self._add_check(label, True, f"gyroscope and gravity agree to {np.rad2deg(angle):.1f} degrees")
            prompt(OperatorPrompt.LEVEL)
            for _ in range(round(MAX_PERSON_TIME / self.dt)):
                m = yield self._damping
                filtered, rate = unit_vector(m.accelerometer), float(np.linalg.norm(m.gyro - self._bias))
                if (
                    filtered is not None
                    and angle_between(filtered, VERTICAL) < 0.5 * LEAN_ANGLE
                    and rate < 2.0 * REST_RATE
                ):
                    break


def unit_vector(x: Array) -> Array | None:
    """Returns the unit vector (3,) of x; None if x has no length, as an accelerometer in free fall or without power."""
    length = float(np.linalg.norm(x))
    return x / length if length > 1e-3 else None


def angle_between(x: Array | None, y: Array | None) -> float:
    """Returns the angle between two directions [rad]; 0 if one of them is unknown."""
    return 0.0 if x is None or y is None else math.acos(float(np.clip(x @ y, -1.0, 1.0)))


class _PreflightOperator(Operator):
    """Operator that requests RUN, and a stop once the checks are completed or a fault occurs."""

    def __init__(self, steps: _Preflight) -> None:
        super().__init__()
        self.steps = steps
        self.loop: ControlLoop | None = None
        self.walk()

    def read_device(self, now: float) -> None:
        if self.loop is not None and (self.steps.done or self.loop.safety.fault is not None):
            self.loop.request_stop()


@renamed_parameters(share="torque_fraction", ask="prompt")
def preflight(
    interface: RobotInterface,
    *,
    clock: Clock | None = None,
    dt: float = 4e-3,
    torque_fraction: float = 0.2,
    joints: Sequence[str] | None = None,
    prompt: Callable[[OperatorPrompt], object] | None = None,
    limits: SafetyLimits | None = None,
) -> PreflightReport:
    """Checks a robot that hangs in a stand with its legs in the air.

    First readings at rest and limits, then one joint at a time with a rising torque under damping until it moves.  If
    all joints are in order and of the right sign, the home pose is held and the torques are compared with the model's
    gravity torques.  Finally the trunk is tilted to check the IMU axes.  Stiff targets are commanded only after the
    signs have been checked.

    Args:
        interface: the robot.
        clock: None: the system clock; a simulated robot is its own clock.
        dt: period [s].
        torque_fraction: largest test torque of a joint as a fraction of its effort limit.
        joints: names of the joints to test; None: all.  Gravity is checked only after all joints.
        prompt: called with the action requested from a person, returns at once; None: the trunk is not tilted.
        limits: limits of the safety layer; None: twice the test torque, and no limits of tilt and position.

    Returns:
        The checks; a fault of the safety layer is one of them.

    Raises:
        ArgumentError: a fraction out of range, or a robot that cannot hang.
        UnknownNameError: a joint that the robot does not have.
    """
    if not 0.0 < check_number("torque_fraction", torque_fraction) <= 1.0:
        raise ArgumentError(
            f"torque_fraction: expected a fraction of the effort limits, above 0 and up to 1, got {torque_fraction}"
        )
    robot = interface.robot
    if robot.root == "planar" or not robot.nu:
        raise ArgumentError(
            f"interface: expected a robot with a free or fixed root and with motors, got {robot.name!r}"
        )
    joints = robot.actuated if joints is None else check_sequence("joints", joints, "joint names")
    for name in joints:
        if name not in robot.actuated:
            raise UnknownNameError("actuated joint", name, robot.actuated)
    steps = _Preflight(robot, check_number("dt", dt), torque_fraction, prompt, joints)
    if limits is None:
        limits = SafetyLimits(
            max_torque=np.minimum(robot.effort_limits, np.maximum(2.0 * steps.max_torque, 1e-6)),
            max_tilt=math.pi,
            max_tilt_drift_rate=math.inf,
            max_torque_tracking_error=math.inf,
            max_overtravel=math.inf,
            max_reading_age=0.1,
        )
    operator = _PreflightOperator(steps)
    safety = Safety(robot, dt=dt, limits=limits)
    loop = operator.loop = ControlLoop(interface, steps, operator=operator, safety=safety, clock=clock)
    report = loop.run()
    checks = list(steps.checks)
    if report.fault is not None:
        checks.append(
            PreflightCheck("safety layer", False, str(report.fault), "the robot was damped and the preflight ended")
        )
    return PreflightReport(tuple(checks))
