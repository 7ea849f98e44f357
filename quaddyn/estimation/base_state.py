"""`BaseEstimator`: where the base is and how it moves, from encoders, an IMU, and which feet stand."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pinocchio as pin

from ..attributes import StrictAttributes
from ..dynamics.arguments import check_unit
from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import check_vector, number, several
from ..robot.joint_positions import JointPositions
from ..robot.robot import Robot
from ..urdf.tree import Array


class BaseEstimator(StrictAttributes, fixed=("robot", "dt", "floor", "gravity_rate", "leg_rate", "settling")):
    """A complementary filter: the IMU is quick, standing feet and gravity are right in the long run.

    *Attitude*: the gyroscope is integrated; the accelerometer, whose mean over some steps points up, pulls roll and
    pitch, and the gyroscope's bias, with the rate `gravity_rate` (Mahony, Hamel, Pflimlin 2008, "Nonlinear
    complementary filters on the special orthogonal group").  Yaw drifts: nothing here sees it.
    *Velocity*: the accelerometer is integrated; each foot that stands says that the lowest point of its sphere is at
    rest, ``v = -(omega x p + J qdot)``, and pulls with `leg_rate`, the more the longer it has stood (a foot that has
    just landed may still slip; Bloesch et al. 2013, "State estimation for legged robots", weighs the same way).
    *Position*: the velocity is integrated; each standing foot stays where it landed, `leg_rate` again.  On level
    ground, `floor=True` says that it landed at height 0, and the height does not drift.

    Args:
        robot: any with a free root and feet.
        dt: between updates [s].
        imu: frame of the IMU; the root link by default.
        gravity_rate: of the correction by gravity [1/s].
        leg_rate: of the correction by standing feet [1/s].
        settling: how long a foot stands until it counts in full [s].
        floor: whether feet stand at height 0.

    Raises:
        ArgumentTypeError: no robot.
        ArgumentError: a robot without free root, or a number out of range.
        UnknownNameError: no such frame.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        dt: float = 1e-3,
        imu: str | None = None,
        gravity_rate: float = 0.1,
        leg_rate: float = 50.0,
        settling: float = 0.02,
        floor: bool = False,
    ) -> None:
        if not isinstance(robot, Robot):
            raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
        if robot.root != "free":
            raise ArgumentError(f'robot: expected root="free", {robot.name!r} has root={robot.root!r}')
        for name, value in (
            ("dt", dt),
            ("gravity_rate", gravity_rate),
            ("leg_rate", leg_rate),
            ("settling", settling),
        ):
            if not (np.isfinite(number(name, value)) and value > 0.0):
                raise ArgumentError(f"{name}: expected a positive number, got {value}")
        self.robot, self.dt, self.floor = robot, float(dt), bool(floor)
        self.gravity_rate, self.leg_rate, self.settling = float(gravity_rate), float(leg_rate), float(settling)
        self._model, self._data = robot.model, robot.model.createData()
        q = np.array(robot.neutral)
        robot.algorithms.framesForwardKinematics(self._model, self._data, q)
        # Root joint and IMU are both fixed to the base.
        self._imu = self._data.oMf[robot.frame_id(imu or robot.bodies[0].name)].copy()
        self._gravity = -np.array(robot.model.gravity.linear)
        self._joints = [(robot.configuration_index(n), robot.velocity_index(n)) for n in robot.actuated]
        self._turning = JointPositions.actuated(robot).turning.tolist()
        self.reset(robot.q_home)

    def reset(self, q: Array, v: Array | None = None) -> None:
        """Start from a state.

        Args:
            q: (nq,) configuration.
            v: (nv,) velocity; at rest by default.

        Raises:
            ArgumentError: a wrong shape, or not finite.
        """
        robot = self.robot
        v = np.zeros(robot.nv) if v is None else v
        q = check_vector("q", q, (robot.nq,), f"nq of {robot.name}")
        check_unit(robot, q)
        v = check_vector("v", v, (robot.nv,), f"nv of {robot.name}")
        self._q, self._v = np.array(q), np.array(v)
        self._R = pin.Quaternion(*self._q[[6, 3, 4, 5]].tolist()).toRotationMatrix()
        self._p, self._velocity = self._q[:3].copy(), self._R @ self._v[:3]
        self._bias = np.zeros(3)
        self._anchors: dict[str, Array] = {}
        self._stood: dict[str, float] = {}

    @property
    def gyro_bias(self) -> Array:
        """(3,) of the gyroscope, base axes [rad/s]."""
        return self._bias.copy()

    def update(
        self, position: Array, velocity: Array, gyro: Array, accelerometer: Array, standing: Iterable[str]
    ) -> tuple[Array, Array]:
        """One reading.

        Args:
            position: (nu,) of the actuated joints [rad or m].
            velocity: (nu,) [rad/s or m/s].
            gyro: (3,) angular velocity, IMU axes [rad/s].
            accelerometer: (3,) specific force, IMU axes [m/s^2].
            standing: the feet that stand.

        Returns:
            q (nq,) and v (nv,); joints as read, yaw and position relative to where it began.

        Raises:
            ArgumentError: a wrong shape, or not finite; the estimate is what it was.
            UnknownNameError: no such foot; the estimate is what it was.
        """
        robot, dt = self.robot, self.dt
        position = check_vector("position", position, (robot.nu,), f"nu of {robot.name}")
        velocity = check_vector("velocity", velocity, (robot.nu,), f"nu of {robot.name}")
        gyro = check_vector("gyro", gyro, (3,), "x, y, z")
        accelerometer = check_vector("accelerometer", accelerometer, (3,), "x, y, z")
        feet = frozenset(several("standing", standing, "names of feet"))
        for foot in feet:
            if foot not in robot.legs:
                raise UnknownNameError("foot", foot, robot.feet)
        to_base = self._imu.rotation
        turning, force = to_base @ gyro, to_base @ accelerometer

        up = self._R[2]  # the vertical in base axes
        felt = force / max(float(np.linalg.norm(force)), 1e-9)
        lean = _cross(felt, up)
        self._bias -= 0.1 * self.gravity_rate * dt * lean
        omega = turning - self._bias
        self._R = self._R @ pin.exp3((omega + self.gravity_rate * lean) * dt)
        # The IMU's own acceleration less what turning about the base's origin adds (the part of omega x r alone).
        lever = self._imu.translation
        force = force - _cross(omega, _cross(omega, lever))
        acceleration = self._R @ force - self._gravity
        before = self._velocity.copy()
        self._velocity = self._velocity + dt * acceleration
        self._p = self._p + 0.5 * dt * (before + self._velocity)
        self._correct(position, velocity, omega, feet)

        q, v = self._q, self._v
        q[:3] = self._p
        q[3:7] = pin.Quaternion(self._R).normalized().coeffs()
        v[:3], v[3:6] = self._R.T @ self._velocity, omega
        return q.copy(), v.copy()

    def _correct(self, position: Array, velocity: Array, omega: Array, standing: frozenset[str]) -> None:
        """By the feet that stand."""
        robot, model, data, dt = self.robot, self._model, self._data, self.dt
        for angle, rate, (i, j), turns in zip(
            position.tolist(), velocity.tolist(), self._joints, self._turning, strict=True
        ):
            if turns:
                self._q[i], self._q[i + 1] = np.cos(angle), np.sin(angle)
            else:
                self._q[i] = angle
            self._v[j] = rate
        if standing:
            q, v = self._q.copy(), self._v.copy()
            q[:7], v[:6] = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0), 0.0
            robot.algorithms.forwardKinematics(model, data, q, v)
        pull, shift, total = np.zeros(3), np.zeros(3), 0.0
        for foot in robot.feet:
            if foot not in standing:
                self._stood[foot] = 0.0
                self._anchors.pop(foot, None)
                continue
            frame = robot.frame_id(foot)
            centre = pin.updateFramePlacement(model, data, frame).translation
            twist = pin.getFrameVelocity(model, data, frame, pin.LOCAL_WORLD_ALIGNED)
            lever = -robot.legs[foot].foot.radius * self._R[2]
            lowest = centre + lever
            rolling = twist.linear + _cross(twist.angular, lever)
            measured = -self._R @ (rolling + _cross(omega, lowest))
            place = self._R @ lowest
            if foot not in self._anchors:
                self._anchors[foot] = self._p + place
                if self.floor:
                    self._anchors[foot][2] = 0.0
            # A rolling foot's lowest point moves along with the sphere's centre.
            self._anchors[foot][:2] += dt * (self._R @ _cross(twist.angular + omega, -lever))[:2]
            weight = min(1.0, self._stood.get(foot, 0.0) / self.settling)
            self._stood[foot] = self._stood.get(foot, 0.0) + dt
            pull += weight * (measured - self._velocity)
            shift += weight * (self._anchors[foot] - place - self._p)
            total += weight
        if total > 0.0:
            share = min(1.0, self.leg_rate * dt)
            self._velocity = self._velocity + share / total * min(1.0, total) * pull
            self._p = self._p + share / total * min(1.0, total) * shift


def _cross(a: Array, b: Array) -> Array:
    """The vector product of two (3,) vectors; `numpy.cross` is made for many and takes ten times as long for one."""
    (ax, ay, az), (bx, by, bz) = a.tolist(), b.tolist()
    return np.array([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx])
