"""`preflight`: readings, limits, order and signs of joints, IMU and gravity, before a robot stands for the first time.

What a program can tell it tells; what only a person sees it says what to look at.  A swap that motors and encoders
share, for instance, is seen by nobody but the one who watches which leg moves.
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
from ..robot.arguments import number, several
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

#: How long readings at rest are looked at, and how long a joint's torque rises at most [s].
RESTING, RISING = 1.0, 1.0
#: How far a joint is to move [rad or m], how long it is then looked at, and may take to come to rest [s].
WIGGLE, SETTLING, CALMING = 0.06, 0.4, 8.0
#: Duration of the way to the home pose, and of holding it [s].
MOVING, HOLDING = 2.0, 1.0
#: How far the trunk is to be leaned [rad], and how long a person may take for it [s].
LEAN, PATIENCE = 0.25, 20.0
#: What is asked of readings at rest: share that is new, gyroscope [rad/s], 1 g to within [m/s^2], angle [rad].
FRESH, STILL, ONE_G, UPRIGHT = 0.9, 0.05, 0.5, 0.3
#: What feet in the air may read, beside 5 % of the weight [N].
UNLOADED = 2.0
#: The vertical of a trunk that is level, its axes.
UP = np.array([0.0, 0.0, 1.0])
#: What may be between measured torques and gravity: a share of it, and of the effort limits.
SHARE, FLOOR = 0.15, 0.03


Steps = Generator[MotorCommand, Measurement, None]


class _Preflight(Controller):
    """The steps one after the other, a tick at a time."""

    def __init__(
        self,
        robot: Robot,
        dt: float,
        share: float,
        ask: Callable[[OperatorPrompt], object] | None,
        joints: Sequence[str],
    ) -> None:
        self.robot, self.dt, self._ask = robot, dt, ask
        self._wiggled = [robot.actuated.index(name) for name in joints]
        pd = JointPD(robot, dt=dt)
        self._kp, self._kd = pd.kp, pd.kd
        known = np.isfinite(robot.effort_limits)
        self.most = share * np.where(known, robot.effort_limits, 2.0 * pd.kp * WIGGLE / share)
        self._loose = MotorCommand.from_damping(pd.kd)
        self.checks: list[PreflightCheck] = []
        self.done = False
        self._steps: Steps | None = None

    def compute(
        self, measurement: Measurement, stage: Stage, velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    ) -> MotorCommand:
        """The next tick; damping when all is done."""
        if self.done:
            return self._loose
        try:
            if self._steps is None:
                self._steps = self._all(measurement)
                return next(self._steps)
            return self._steps.send(measurement)
        except StopIteration:
            self.done = True
            return self._loose

    def _say(self, name: str, passed: bool | None, found: str, look: str = "") -> bool:
        self.checks.append(PreflightCheck(name, passed, found, look))
        return passed is not False

    def _loosely(self, seconds: float) -> Generator[MotorCommand, Measurement, list[Measurement]]:
        """Readings under damping alone."""
        out = []
        for _ in range(max(2, round(seconds / self.dt))):
            out.append((yield self._loose))
        return out

    def _at_rest(self) -> Generator[MotorCommand, Measurement, list[Measurement]]:
        """Readings under damping, once joints have come to rest or `CALMING` is over."""
        readings: list[Measurement] = []
        for _ in range(round(CALMING / SETTLING)):
            readings = yield from self._loosely(SETTLING)
            if np.abs(np.mean([m.velocity for m in readings], axis=0)).max() < STILL:
                break
        return readings

    def _all(self, m: Measurement) -> Steps:
        yield from self._at_rest()
        readings = yield from self._loosely(RESTING)
        self._limits(readings[-1])
        sound = self._readings(readings)
        up = self._level(readings) if self.robot.root == "free" else True
        if not sound:
            self._say("order and signs of joints", None, "not tried: readings are not sound")
            return
        moved = True
        for i in self._wiggled:
            as_asked = yield from self._wiggle(i)
            moved = moved and as_asked
        if len(self._wiggled) < self.robot.nu:
            self._say("gravity", None, "not tried: not all joints were moved before")
        elif moved:
            yield from self._gravity(readings)
        else:
            self._say("gravity", None, "not tried: a joint does not move as it must")
        if self.robot.root == "free":
            if not up:
                self._say("IMU axes", None, "not tried: at rest it is not level already")
            elif self._ask is None:
                self._say("IMU axes", None, "not tried: nobody leans the trunk", OperatorPrompt.NOSE_DOWN.value)
            else:
                yield from self._axes(self._ask)

    # -- at rest -------------------------------------------------------------------------------------------------
    def _limits(self, m: Measurement) -> None:
        robot = self.robot
        for name, values in (("effort", robot.effort_limits), ("velocity", robot.velocity_limits)):
            missing = [joint for joint, x in zip(robot.actuated, values, strict=True) if not np.isfinite(x)]
            least = f"{np.min(values):.3g} to {np.max(values):.3g} {'N m' if name == 'effort' else 'rad/s'}"
            self._say(
                f"{name} limits",
                not missing,
                f"none for {', '.join(missing)}; give them to quaddyn.load" if missing else least,
                "are they those of your motors at your battery's voltage?",
            )
        beyond = np.maximum(robot.lower_position_limits - m.position, m.position - robot.upper_position_limits)
        worst = int(np.argmax(beyond))
        inside = bool(beyond[worst] < 0.1)
        where = f"{robot.actuated[worst]} reads {m.position[worst]:+.2f}, {beyond[worst]:.2f} beyond its limit"
        self._say("positions", inside, "all within limits" if inside else where, "order and zero of the encoders")

    def _readings(self, readings: list[Measurement]) -> bool:
        times = np.array([m.time for m in readings])
        new = float(np.mean(np.diff(times) > 0.0))
        fresh = new >= FRESH
        found = f"{100.0 * new:.0f} % of {len(times)} ticks of {1e3 * self.dt:g} ms brought a new one"
        look = "does the robot send as often as that? is this machine, or the link, busy with something else?"
        sound = self._say("readings", fresh, found, "" if fresh else look)
        speed = np.abs(np.mean([m.velocity for m in readings], axis=0))
        fast = int(np.argmax(speed))
        at_rest = bool(speed[fast] < 5.0 * STILL)
        said = f"at most {speed[fast]:.3f} rad/s on average, {self.robot.actuated[fast]}"
        self._say("joint velocities at rest", at_rest, said, "" if at_rest else "does the robot hang still?")
        m = readings[-1]
        if m.temperature is not None:
            hot = float(np.max(m.temperature))
            self._say("motor temperatures", hot < 60.0, f"at most {hot:.0f} degrees Celsius")
        if m.foot_forces is not None:
            weight = self.robot.mass * float(np.linalg.norm(self.robot.model.gravity.linear))
            most = float(
                np.max(np.abs(np.mean([m.foot_forces for m in readings if m.foot_forces is not None], axis=0)))
            )
            unloaded = most < max(0.05 * weight, UNLOADED)
            self._say("foot sensors in the air", unloaded, f"at most {most:.1f} N", "press each foot: does it rise?")
        return sound and at_rest

    def _level(self, readings: list[Measurement]) -> bool:
        """What the IMU says at rest; the mean reading is kept."""
        felt = np.mean([m.accelerometer for m in readings], axis=0)
        self._bias = np.mean([m.gyro for m in readings], axis=0)
        size, turn = float(np.linalg.norm(felt)), float(np.linalg.norm(self._bias))
        self._say("gyroscope at rest", turn < STILL, f"{turn:.4f} rad/s", "" if turn < STILL else "does it hang still?")
        one = abs(size - 9.81) < ONE_G
        self._say("accelerometer at rest", one, f"{size:.2f} m/s^2, expected 9.81", "" if one else "are units m/s^2?")
        if not one:
            return False
        angle = between(felt / size, UP)
        axis = int(np.argmax(np.abs(felt)))
        points = f"{'+-'[int(felt[axis] < 0.0)]}{'xyz'[axis]}"
        return self._say(
            "IMU vertical",
            angle < UPRIGHT,
            f"{np.rad2deg(angle):.0f} degrees off the trunk's +z; its {points} axis points up",
            "is the trunk level? is the IMU turned in its mount? Safety(imu_rotation=), BaseEstimator(imu=)",
        )

    # -- joints --------------------------------------------------------------------------------------------------
    def _wiggle(self, i: int) -> Generator[MotorCommand, Measurement, bool]:
        """A torque that rises on one joint until something moves."""
        robot, name = self.robot, self.robot.actuated[i]
        before = np.mean([m.position for m in (yield from self._at_rest())[-10:]], axis=0)
        room = robot.upper_position_limits[i] - before[i], before[i] - robot.lower_position_limits[i]
        sign = 1.0 if room[0] > 0.2 or room[0] > room[1] else -1.0
        moved, tau, none, k = np.zeros(robot.nu), np.zeros(robot.nu), np.zeros(robot.nu), 0
        damping = np.where(np.arange(robot.nu) == i, 0.3, 1.0) * self._kd
        for k in range(round(RISING / self.dt)):
            tau[i] = sign * self.most[i] * min(1.0, 1.2 * (k + 1) * self.dt / RISING)
            m = yield MotorCommand(tau.copy(), none, none, none, damping)
            moved = m.position - before
            if np.abs(moved).max() > WIGGLE:
                break
        found, way = self._pushed(i, moved, before, (k + 1) * self.dt)
        look = f"{self._motion(i, sign, before)}, and nothing else"
        label = f"order and sign of {name}"
        if np.abs(moved).max() < 0.5 * WIGGLE:
            said = (
                f"did not move under {abs(tau[i]):.1f} N m; is the motor on, does it rest on a stop, is it too little?"
            )
            passed = self._say(label, False, said, look)
        elif found != i:
            other = robot.actuated[found]
            said = f"a torque on it moved {other} by {moved[found]:+.2f} rad: motors or encoders are in another order"
            passed = self._say(label, False, said, look)
        else:
            said = f"{tau[i]:+.1f} N m moved it by {moved[i]:+.2f} rad" + (
                "" if way == sign else ": torque or encoder counts the wrong way"
            )
            passed = self._say(label, way == sign, said, look)
        return passed

    def _pushed(self, i: int, moved: Array, position: Array, duration: float) -> tuple[int, float]:
        """The joint that a torque on joint i has acted on, and the sign of its motion.

        It is the one that moves most, but joints that hang move along by their inertia: if another one moves most,
        each is asked how the model would answer to a torque on it that rises for so long [s], against inertia, damping
        and gravity, and the one that explains the motion best counts.
        """
        most = int(np.argmax(np.abs(moved)))
        if most == i:
            return i, float(np.sign(moved[i]))
        dyn, q, at = Dynamics(self.robot), self._posed(position), self.robot.actuated_index
        block, still = np.ix_(at, at), np.zeros(self.robot.nv)
        K = dyn.rnea_derivatives(q, still, still)[0][block]
        ways = np.linalg.pinv(6.0 / duration**2 * dyn.crba(q)[block] + 2.0 / duration * np.diag(self._kd) + K)
        match = moved @ (ways / np.maximum(np.linalg.norm(ways, axis=0), 1e-12))
        found = int(np.argmax(np.abs(match)))
        return found, float(np.sign(match[found]))

    def _posed(self, position: Array) -> Array:
        """(nq,) with these joints and the trunk level at the origin."""
        q = self.robot.configuration(joints=position)
        if self.robot.root == "free":
            q[:7] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
        return q

    def _motion(self, i: int, sign: float, position: Array) -> str:
        """What is seen of a joint's motion."""
        robot, name = self.robot, self.robot.actuated[i]
        leg = next((leg for leg in robot.legs.values() if name in leg.joints), None)
        if leg is None:
            return f"{name} turns {'forward' if sign > 0 else 'backward'} about its axis"
        way = sign * Dynamics(robot).frame_jacobian(self._posed(position), leg.name)[:3, robot.velocity_index(name)]
        size = float(np.linalg.norm(way))
        words = [
            word[0] if x > 0.0 else word[1]
            for x, word in zip(way, (("forward", "backward"), ("left", "right"), ("up", "down")), strict=True)
            if abs(x) > 0.35 * size
        ]
        return f"foot {leg.name} moves {' and '.join(words)}" if size > 1e-6 else f"leg {leg.name} turns"

    def _gravity(self, readings: list[Measurement]) -> Steps:
        """Held at home, torques must be those that the model's masses weigh."""
        robot, pd = self.robot, (self._kp, self._kd)
        m = readings[-1]
        start = m.position
        for m in (yield from self._at_rest()):
            start = m.position
        lower, upper = robot.lower_position_limits + 0.1, robot.upper_position_limits - 0.1
        home = np.array([robot.decompose(robot.q_home).joints[name] for name in robot.actuated])
        home = np.where(lower < upper, np.clip(home, lower, upper), home)
        held: list[tuple[Array, Array]] = []
        for k in range(round((MOVING + HOLDING) / self.dt)):
            s = min(1.0, k * self.dt / MOVING)
            goal = start + s * s * (3.0 - 2.0 * s) * (home - start)
            command = MotorCommand.from_targets(goal, np.zeros(robot.nu), *pd)
            m = yield command
            if k * self.dt > MOVING + 0.5 * HOLDING:
                torque = command.compute_torque(m.position, m.velocity) if m.torque is None else m.torque
                held.append((m.position, np.asarray(torque)))
        position, torque = (np.mean([each[j] for each in held], axis=0) for j in (0, 1))
        q = self._posed(position)
        if robot.root == "free":
            felt = pin.Quaternion.FromTwoVectors(m.accelerometer, np.array([0.0, 0.0, 1.0]))
            q[3:7] = felt.coeffs()
        wanted = Dynamics(robot).gravity(q)[robot.actuated_index]
        effort = np.where(np.isfinite(robot.effort_limits), robot.effort_limits, self.most)
        allowed = SHARE * np.abs(wanted) + FLOOR * effort + robot.friction[robot.actuated_index]
        apart = np.abs(torque - wanted)
        worst = int(np.argmax(apart / allowed))
        scale = float(torque @ wanted / max(float(wanted @ wanted), 1e-9))
        fine = bool((apart <= allowed).all())
        said = f"torques that hold it are {scale:.2f} times the model's"
        if not fine:
            said += f"; {robot.actuated[worst]} gives {torque[worst]:+.2f} N m, the model {wanted[worst]:+.2f}"
        self._say("gravity", fine, said, "torque constants, gears, masses of what is mounted on the legs")
        yield from self._at_rest()

    # -- the IMU's axes ------------------------------------------------------------------------------------------
    def _axes(self, ask: Callable[[OperatorPrompt], object]) -> Steps:
        """Leaned by a person: where gravity goes, and whether the gyroscope says the same."""
        for what, axis in ((OperatorPrompt.NOSE_DOWN, 0), (OperatorPrompt.LEFT_DOWN, 1)):
            ask(what)
            m = yield self._loose
            felt: Array | None = None
            up: Array | None = None
            carried: Array | None = None
            last, waited = m.time, 0.0
            window: list[Array] = []
            while waited < PATIENCE:
                m = yield self._loose
                waited += self.dt
                sensed = direction(m.accelerometer)
                if sensed is not None:  # a sensor that drops out for a moment says nothing
                    window = [*window[-9:], sensed]
                    felt = direction(np.mean(window, axis=0))
                if up is None:
                    up = carried = sensed
                elif carried is not None:
                    carried = direction(carried + (m.time - last) * np.cross(carried, m.gyro - self._bias))
                last = m.time
                if between(felt, up) > LEAN:
                    break
            label = f"IMU axes, {what.name.lower().replace('_', ' ')}"
            way = np.zeros(3) if felt is None or up is None else felt - up
            seen, angle = int(np.argmax(np.abs(way))), between(felt, carried)
            if waited >= PATIENCE:
                self._say(label, None, "the trunk was not leaned far enough", what.value)
            elif seen != axis or way[axis] > 0.0:
                to = f"{'+-'[int(way[seen] < 0.0)]}{'xyz'[seen]}"
                self._say(label, False, f"gravity went to {to}, expected -{'xyz'[axis]}", "turned or mirrored mount")
            elif angle > 0.1:
                off = f"the gyroscope turned the vertical {np.rad2deg(angle):.0f} degrees elsewhere than gravity went"
                self._say(label, False, off, "order, signs and units of its axes")
            else:
                self._say(label, True, f"gyroscope and gravity agree to {np.rad2deg(angle):.1f} degrees")
            ask(OperatorPrompt.LEVEL)
            for _ in range(round(PATIENCE / self.dt)):
                m = yield self._loose
                felt, turning = direction(m.accelerometer), float(np.linalg.norm(m.gyro - self._bias))
                if felt is not None and between(felt, UP) < 0.5 * LEAN and turning < 2.0 * STILL:
                    break


def direction(x: Array) -> Array | None:
    """(3,) of length 1; None of what has no length to speak of, as an accelerometer's in a fall or without power."""
    length = float(np.linalg.norm(x))
    return x / length if length > 1e-3 else None


def between(x: Array | None, y: Array | None) -> float:
    """Angle between two directions [rad]; 0 where one of them is not known."""
    return 0.0 if x is None or y is None else math.acos(float(np.clip(x @ y, -1.0, 1.0)))


class _UntilDone(Operator):
    """Wants the loop to run until the steps are over, or something is wrong."""

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
    """Look a robot over that hangs in a stand with its legs in the air.

    Readings at rest, limits, then one joint at a time by a torque that rises until something moves, under damping; if
    all are in order and of the right sign, the home pose is held and torques are compared with the model's gravity; at
    last the trunk is leaned for the IMU's axes.  Nothing stiff is commanded before signs are known.

    Args:
        interface: the robot.
        clock: that of the machine by default; a simulated robot is its own.
        dt: period [s].
        torque_fraction: largest torque on a joint that is tested, as a fraction of its effort limit.
        joints: names of those to wiggle; all by default, and gravity only after all.
        prompt: is told what a person should do, and returns at once; without it the trunk is not leaned.
        limits: of the safety layer meanwhile; twice the wiggling torque, and nothing about the vertical, by default.

    Returns:
        What was found; a fault of the safety layer is one of the checks.

    Raises:
        ArgumentError: a share that is none, or a robot that cannot hang.
        UnknownNameError: a joint that is none.
    """
    if not 0.0 < number("torque_fraction", torque_fraction) <= 1.0:
        raise ArgumentError(
            f"torque_fraction: expected a fraction of the effort limits, above 0 and up to 1, got {torque_fraction}"
        )
    robot = interface.robot
    if robot.root == "planar" or not robot.nu:
        raise ArgumentError(
            f"interface: {robot.name!r} cannot be looked over: a free or fixed root and motors are needed"
        )
    joints = robot.actuated if joints is None else several("joints", joints, "joint names")
    for name in joints:
        if name not in robot.actuated:
            raise UnknownNameError("actuated joint", name, robot.actuated)
    steps = _Preflight(robot, number("dt", dt), torque_fraction, prompt, joints)
    if limits is None:
        limits = SafetyLimits(
            max_torque=np.minimum(robot.effort_limits, np.maximum(2.0 * steps.most, 1e-6)),
            max_tilt=math.pi,
            max_tilt_drift_rate=math.inf,
            max_torque_tracking_error=math.inf,
            max_overtravel=math.inf,
            max_reading_age=0.1,
        )
    operator = _UntilDone(steps)
    safety = Safety(robot, dt=dt, limits=limits)
    loop = operator.loop = ControlLoop(interface, steps, operator=operator, safety=safety, clock=clock)
    report = loop.run()
    checks = list(steps.checks)
    if report.fault is not None:
        checks.append(PreflightCheck("safety layer", False, str(report.fault), "the robot was damped at once"))
    return PreflightReport(tuple(checks))
