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
        share: float,
        prompt: Callable[[OperatorPrompt], object] | None,
        joints: Sequence[str],
    ) -> None:
        self.robot, self.dt, self._prompt = robot, dt, prompt
        self._tested_joints = [robot.actuated.index(name) for name in joints]
        pd = JointPD(robot, dt=dt)
        self._kp, self._kd = pd.kp, pd.kd
        known = np.isfinite(robot.effort_limits)
        self.max_torque = share * np.where(known, robot.effort_limits, 2.0 * pd.kp * TEST_DISPLACEMENT / share)
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

    def _add_check(self, name: str, passed: bool | None, found: str, look: str = "") -> bool:
        self.checks.append(PreflightCheck(name, passed, found, look))
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
        yield from self._wait_for_rest()
        readings = yield from self._read_damped(REST_TIME)
        self._check_limits(readings[-1])
        sound = self._check_readings(readings)
        up = self._check_imu_at_rest(readings) if self.robot.root == "free" else True
        if not sound:
            self._add_check("order and signs of joints", None, "not tried: readings are not sound")
            return
        moved = True
        for i in self._tested_joints:
            as_asked = yield from self._excite_joint(i)
            moved = moved and as_asked
        if len(self._tested_joints) < self.robot.nu:
            self._add_check("gravity", None, "not tried: not all joints were moved before")
        elif moved:
            yield from self._check_gravity(readings)
        else:
            self._add_check("gravity", None, "not tried: a joint does not move as it must")
        if self.robot.root == "free":
            if not up:
                self._add_check("IMU axes", None, "not tried: at rest it is not level already")
            elif self._prompt is None:
                self._add_check("IMU axes", None, "not tried: nobody leans the trunk", OperatorPrompt.NOSE_DOWN.value)
            else:
                yield from self._check_imu_axes(self._prompt)

    # -- at rest -------------------------------------------------------------------------------------------------
    def _check_limits(self, m: Measurement) -> None:
        robot = self.robot
        for name, values in (("effort", robot.effort_limits), ("velocity", robot.velocity_limits)):
            missing = [joint for joint, x in zip(robot.actuated, values, strict=True) if not np.isfinite(x)]
            least = f"{np.min(values):.3g} to {np.max(values):.3g} {'N m' if name == 'effort' else 'rad/s'}"
            self._add_check(
                f"{name} limits",
                not missing,
                f"none for {', '.join(missing)}; give them to quaddyn.load" if missing else least,
                "are they those of your motors at your battery's voltage?",
            )
        beyond = np.maximum(robot.lower_position_limits - m.position, m.position - robot.upper_position_limits)
        worst = int(np.argmax(beyond))
        inside = bool(beyond[worst] < 0.1)
        where = f"{robot.actuated[worst]} reads {m.position[worst]:+.2f}, {beyond[worst]:.2f} beyond its limit"
        self._add_check("positions", inside, "all within limits" if inside else where, "order and zero of the encoders")

    def _check_readings(self, readings: list[Measurement]) -> bool:
        times = np.array([m.time for m in readings])
        new = float(np.mean(np.diff(times) > 0.0))
        fresh = new >= MIN_NEW_FRACTION
        found = f"{100.0 * new:.0f} % of {len(times)} ticks of {1e3 * self.dt:g} ms brought a new one"
        look = "does the robot send as often as that? is this machine, or the link, busy with something else?"
        sound = self._add_check("readings", fresh, found, "" if fresh else look)
        speed = np.abs(np.mean([m.velocity for m in readings], axis=0))
        fast = int(np.argmax(speed))
        at_rest = bool(speed[fast] < 5.0 * REST_RATE)
        said = f"at most {speed[fast]:.3f} rad/s on average, {self.robot.actuated[fast]}"
        self._add_check("joint velocities at rest", at_rest, said, "" if at_rest else "does the robot hang still?")
        m = readings[-1]
        if m.temperature is not None:
            hot = float(np.max(m.temperature))
            self._add_check("motor temperatures", hot < 60.0, f"at most {hot:.0f} degrees Celsius")
        if m.foot_forces is not None:
            weight = self.robot.mass * float(np.linalg.norm(self.robot.model.gravity.linear))
            most = float(
                np.max(np.abs(np.mean([m.foot_forces for m in readings if m.foot_forces is not None], axis=0)))
            )
            unloaded = most < max(0.05 * weight, MAX_UNLOADED_FORCE)
            self._add_check(
                "foot sensors in the air", unloaded, f"at most {most:.1f} N", "press each foot: does it rise?"
            )
        return sound and at_rest

    def _check_imu_at_rest(self, readings: list[Measurement]) -> bool:
        """Checks the IMU at rest; stores the mean gyroscope reading as its bias."""
        felt = np.mean([m.accelerometer for m in readings], axis=0)
        self._bias = np.mean([m.gyro for m in readings], axis=0)
        size, turn = float(np.linalg.norm(felt)), float(np.linalg.norm(self._bias))
        self._add_check(
            "gyroscope at rest",
            turn < REST_RATE,
            f"{turn:.4f} rad/s",
            "" if turn < REST_RATE else "does it hang still?",
        )
        one = abs(size - 9.81) < GRAVITY_TOLERANCE
        self._add_check(
            "accelerometer at rest", one, f"{size:.2f} m/s^2, expected 9.81", "" if one else "are units m/s^2?"
        )
        if not one:
            return False
        angle = angle_between(felt / size, VERTICAL)
        axis = int(np.argmax(np.abs(felt)))
        points = f"{'+-'[int(felt[axis] < 0.0)]}{'xyz'[axis]}"
        return self._add_check(
            "IMU vertical",
            angle < MAX_REST_TILT,
            f"{np.rad2deg(angle):.0f} degrees off the trunk's +z; its {points} axis points up",
            "is the trunk level? is the IMU turned in its mount? Safety(imu_rotation=), BaseEstimator(imu=)",
        )

    # -- joints --------------------------------------------------------------------------------------------------
    def _excite_joint(self, i: int) -> Generator[MotorCommand, Measurement, bool]:
        """Applies a rising torque to one joint until a joint moves, and checks which one and in which direction."""
        robot, name = self.robot, self.robot.actuated[i]
        before = np.mean([m.position for m in (yield from self._wait_for_rest())[-10:]], axis=0)
        room = robot.upper_position_limits[i] - before[i], before[i] - robot.lower_position_limits[i]
        sign = 1.0 if room[0] > 0.2 or room[0] > room[1] else -1.0
        moved, tau, none, k = np.zeros(robot.nu), np.zeros(robot.nu), np.zeros(robot.nu), 0
        damping = np.where(np.arange(robot.nu) == i, 0.3, 1.0) * self._kd
        for k in range(round(TORQUE_RAMP_TIME / self.dt)):
            tau[i] = sign * self.max_torque[i] * min(1.0, 1.2 * (k + 1) * self.dt / TORQUE_RAMP_TIME)
            m = yield MotorCommand(tau.copy(), none, none, none, damping)
            moved = m.position - before
            if np.abs(moved).max() > TEST_DISPLACEMENT:
                break
        found, way = self._identify_moved_joint(i, moved, before, (k + 1) * self.dt)
        look = f"{self._describe_motion(i, sign, before)}, and nothing else"
        label = f"order and sign of {name}"
        if np.abs(moved).max() < 0.5 * TEST_DISPLACEMENT:
            said = (
                f"did not move under {abs(tau[i]):.1f} N m; is the motor on, does it rest on a stop, is it too little?"
            )
            passed = self._add_check(label, False, said, look)
        elif found != i:
            other = robot.actuated[found]
            said = f"a torque on it moved {other} by {moved[found]:+.2f} rad: motors or encoders are in another order"
            passed = self._add_check(label, False, said, look)
        else:
            said = f"{tau[i]:+.1f} N m moved it by {moved[i]:+.2f} rad" + (
                "" if way == sign else ": torque or encoder counts the wrong way"
            )
            passed = self._add_check(label, way == sign, said, look)
        return passed

    def _identify_moved_joint(self, i: int, moved: Array, position: Array, duration: float) -> tuple[int, float]:
        """Returns the joint on which a torque on joint i has acted, and the sign of its motion.

        Usually it is the joint that moves most.  Hanging joints also move by their inertial coupling: if another joint
        moves most, the motion is compared with the model's response to a torque ramp of this duration [s] on each joint
        (inertia, damping and gravity), and the best match is returned.
        """
        most = int(np.argmax(np.abs(moved)))
        if most == i:
            return i, float(np.sign(moved[i]))
        dyn, q, at = Dynamics(self.robot), self._configuration(position), self.robot.actuated_index
        block, still = np.ix_(at, at), np.zeros(self.robot.nv)
        K = dyn.rnea_derivatives(q, still, still)[0][block]
        ways = np.linalg.pinv(6.0 / duration**2 * dyn.crba(q)[block] + 2.0 / duration * np.diag(self._kd) + K)
        match = moved @ (ways / np.maximum(np.linalg.norm(ways, axis=0), 1e-12))
        found = int(np.argmax(np.abs(match)))
        return found, float(np.sign(match[found]))

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
        way = (
            sign
            * Dynamics(robot).frame_jacobian(self._configuration(position), leg.name)[:3, robot.velocity_index(name)]
        )
        size = float(np.linalg.norm(way))
        words = [
            word[0] if x > 0.0 else word[1]
            for x, word in zip(way, (("forward", "backward"), ("left", "right"), ("up", "down")), strict=True)
            if abs(x) > 0.35 * size
        ]
        return f"foot {leg.name} moves {' and '.join(words)}" if size > 1e-6 else f"leg {leg.name} turns"

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
        held: list[tuple[Array, Array]] = []
        for k in range(round((MOVE_TIME + HOLD_TIME) / self.dt)):
            s = min(1.0, k * self.dt / MOVE_TIME)
            goal = start + s * s * (3.0 - 2.0 * s) * (home - start)
            command = MotorCommand.from_targets(goal, np.zeros(robot.nu), *pd)
            m = yield command
            if k * self.dt > MOVE_TIME + 0.5 * HOLD_TIME:
                torque = command.compute_torque(m.position, m.velocity) if m.torque is None else m.torque
                held.append((m.position, np.asarray(torque)))
        position, torque = (np.mean([each[j] for each in held], axis=0) for j in (0, 1))
        q = self._configuration(position)
        if robot.root == "free":
            felt = pin.Quaternion.FromTwoVectors(m.accelerometer, np.array([0.0, 0.0, 1.0]))
            q[3:7] = felt.coeffs()
        wanted = Dynamics(robot).gravity(q)[robot.actuated_index]
        effort = np.where(np.isfinite(robot.effort_limits), robot.effort_limits, self.max_torque)
        allowed = (
            GRAVITY_TOLERANCE_FRACTION * np.abs(wanted)
            + TORQUE_TOLERANCE_FRACTION * effort
            + robot.friction[robot.actuated_index]
        )
        apart = np.abs(torque - wanted)
        worst = int(np.argmax(apart / allowed))
        scale = float(torque @ wanted / max(float(wanted @ wanted), 1e-9))
        fine = bool((apart <= allowed).all())
        said = f"torques that hold it are {scale:.2f} times the model's"
        if not fine:
            said += f"; {robot.actuated[worst]} gives {torque[worst]:+.2f} N m, the model {wanted[worst]:+.2f}"
        self._add_check("gravity", fine, said, "torque constants, gears, masses of what is mounted on the legs")
        yield from self._wait_for_rest()

    # -- the IMU's axes ------------------------------------------------------------------------------------------
    def _check_imu_axes(self, prompt: Callable[[OperatorPrompt], object]) -> Steps:
        """Checks accelerometer and gyroscope while a person tilts the trunk as prompted."""
        for what, axis in ((OperatorPrompt.NOSE_DOWN, 0), (OperatorPrompt.LEFT_DOWN, 1)):
            prompt(what)
            m = yield self._damping
            felt: Array | None = None
            up: Array | None = None
            carried: Array | None = None
            last, waited = m.time, 0.0
            window: list[Array] = []
            while waited < MAX_PERSON_TIME:
                m = yield self._damping
                waited += self.dt
                sensed = unit_vector(m.accelerometer)
                if sensed is not None:  # ignores a sensor that drops out for a moment
                    window = [*window[-9:], sensed]
                    felt = unit_vector(np.mean(window, axis=0))
                if up is None:
                    up = carried = sensed
                elif carried is not None:
                    carried = unit_vector(carried + (m.time - last) * np.cross(carried, m.gyro - self._bias))
                last = m.time
                if angle_between(felt, up) > LEAN_ANGLE:
                    break
            label = f"IMU axes, {what.name.lower().replace('_', ' ')}"
            way = np.zeros(3) if felt is None or up is None else felt - up
            seen, angle = int(np.argmax(np.abs(way))), angle_between(felt, carried)
            if waited >= MAX_PERSON_TIME:
                self._add_check(label, None, "the trunk was not leaned far enough", what.value)
            elif seen != axis or way[axis] > 0.0:
                to = f"{'+-'[int(way[seen] < 0.0)]}{'xyz'[seen]}"
                self._add_check(
                    label, False, f"gravity went to {to}, expected -{'xyz'[axis]}", "turned or mirrored mount"
                )
            elif angle > 0.1:
                off = f"the gyroscope turned the vertical {np.rad2deg(angle):.0f} degrees elsewhere than gravity went"
                self._add_check(label, False, off, "order, signs and units of its axes")
            else:
                self._add_check(label, True, f"gyroscope and gravity agree to {np.rad2deg(angle):.1f} degrees")
            prompt(OperatorPrompt.LEVEL)
            for _ in range(round(MAX_PERSON_TIME / self.dt)):
                m = yield self._damping
                felt, turning = unit_vector(m.accelerometer), float(np.linalg.norm(m.gyro - self._bias))
                if felt is not None and angle_between(felt, VERTICAL) < 0.5 * LEAN_ANGLE and turning < 2.0 * REST_RATE:
                    break


def unit_vector(x: Array) -> Array | None:
    """Returns the unit vector (3,) of x; None if x has no length, as an accelerometer in free fall or without power."""
    length = float(np.linalg.norm(x))
    return x / length if length > 1e-3 else None


def angle_between(x: Array | None, y: Array | None) -> float:
    """Returns the angle between two directions [rad]; 0 if one of them is unknown."""
    return 0.0 if x is None or y is None else math.acos(float(np.clip(x @ y, -1.0, 1.0)))


class _PreflightOperator(Operator):
    """Operator that runs the loop until the checks are completed or a fault occurs."""

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
        raise ArgumentError(f"interface: {robot.name!r} cannot be checked: it needs a free or fixed root and motors")
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
        checks.append(PreflightCheck("safety layer", False, str(report.fault), "the robot was damped at once"))
    return PreflightReport(tuple(checks))
