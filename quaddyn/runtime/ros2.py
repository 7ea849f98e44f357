"""`Ros2Interface`: a robot behind ROS 2 topics: joint states and an IMU come in, efforts go out.

The messages are sensor_msgs/JointState, sensor_msgs/Imu and std_msgs/Float64MultiArray, which is what
``effort_controllers/JointGroupEffortController`` of ros2_control takes.  rclpy is needed on the machine alone: whoever
gives the node and the kinds of messages needs no import of ours.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..errors import QuaddynError
from ..robot.joint_positions import JointPositions
from ..robot.robot import Robot
from ..simulation.sensors import Measurement
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array, frozen
from .interface import RobotInterface
from .motor_command import MotorCommand

#: Callbacks that are let through in one call: a flood ends none.
MOST = 16


def _messages() -> Any:
    try:
        sensors, plain = importlib.import_module("sensor_msgs.msg"), importlib.import_module("std_msgs.msg")
    except ImportError as error:
        raise QuaddynError(f"ROS 2 is not there ({error}); source its setup file, or pass messages=") from None
    return SimpleNamespace(JointState=sensors.JointState, Imu=sensors.Imu, Float64MultiArray=plain.Float64MultiArray)


class Ros2Interface(RobotInterface, StrictAttributes, fixed=("robot", "node", "joints")):
    """Topics as a robot.

    Effort controllers know torques alone: springs and dampers of a command act here, at the newest reading, once per
    tick, and torques are cut at the robot's limits.

    Args:
        robot: with the joint names of the messages.
        node: an ``rclpy.node.Node``.
        joint_states: topic of readings; names may be in any order, and more than the robot's.
        imu: topic of the IMU; not listened to under a fixed root.
        commands: topic of the efforts.
        joints: names in the order of the controller's efforts; ``robot.actuated`` by default.
        messages: what has `JointState`, `Imu` and `Float64MultiArray`; those of ROS 2 by default.
        spin: lets one callback of the node through, if there is one, and does not wait; none where somebody else spins
            the node, and rclpy's by default where `messages` are ROS 2's.
        queue: depth of the topics' queues.

    Attributes:
        robot: as given.
        node: as given.
        joints: names in the order of the efforts.

    Raises:
        QuaddynError: ROS 2 is not there.
        UnknownNameError: a joint that is none of the robot's.
    """

    def __init__(
        self,
        robot: Robot,
        node: Any,
        *,
        joint_states: str = "/joint_states",
        imu: str = "/imu",
        commands: str = "/effort_controller/commands",
        joints: Sequence[str] | None = None,
        messages: Any = None,
        spin: Callable[[], object] | None = None,
        queue: int = 1,
    ) -> None:
        self.robot, self.node = robot, node
        self.joints = robot.actuated if joints is None else tuple(joints)
        self._order = robot.joint_permutation(self.joints)
        if messages is None:
            messages = _messages()
            spin = _spinning(node) if spin is None else spin
        self._spin, self._kind = spin, messages.Float64MultiArray
        self._turning = JointPositions.actuated(robot).turning
        self._state: tuple[float, Array, Array, Array | None] | None = None
        self._felt: tuple[Array, Array] | None = None
        self._places: tuple[list[str], list[int]] = [], []
        self._wrong = ""
        self._subscriptions = [node.create_subscription(messages.JointState, joint_states, self._hear, queue)]
        if robot.root != "fixed":
            self._subscriptions.append(node.create_subscription(messages.Imu, imu, self._feel, queue))
        self._publisher = node.create_publisher(self._kind, commands, queue)

    def read(self) -> Measurement:
        """The newest reading, at the stamp of its joint state.

        Raises:
            QuaddynError: nothing has come yet on a topic, or a joint is not in the message.
        """
        for _ in range(MOST if self._spin is not None else 0):
            before = self._state, self._felt
            self._spin()  # type: ignore[misc]
            if before[0] is self._state and before[1] is self._felt:
                break
        if self._wrong:
            raise QuaddynError(self._wrong)
        if self._state is None:
            raise QuaddynError("JointState: none has come yet")
        if self._felt is None and self.robot.root != "fixed":
            raise QuaddynError("Imu: none has come yet")
        time, position, velocity, torque = self._state
        gyro, accelerometer = (np.zeros(3), np.zeros(3)) if self._felt is None else self._felt
        return Measurement(time, position, velocity, gyro, accelerometer, torque)

    def write(self, command: MotorCommand) -> None:
        """Publish the torques that a command asks for at the newest reading; errors as of `MotorCommand.validated`."""
        given = command.validated(self.robot.nu)
        tau = given.tau
        if self._state is not None:
            with np.errstate(all="ignore"):
                tau = given.compute_torque(self._state[1], self._state[2], self._turning)
            tau = np.where(np.isfinite(tau), tau, 0.0)
        tau = np.clip(tau, -self.robot.effort_limits, self.robot.effort_limits)
        message = self._kind()
        message.data = tau[self._order].tolist()
        self._publisher.publish(message)

    def close(self) -> None:
        """Leave the topics."""
        for subscription in self._subscriptions:
            self.node.destroy_subscription(subscription)
        self.node.destroy_publisher(self._publisher)
        self._subscriptions = []

    # -- what comes in -------------------------------------------------------------------------------------------
    def _hear(self, message: Any) -> None:
        names = list(message.name)
        if names != self._places[0]:
            missing = [joint for joint in self.robot.actuated if joint not in names]
            if missing:
                self._wrong = f"JointState: without {', '.join(missing)}; its joints are {', '.join(names)}"
                return
            self._places = names, [names.index(joint) for joint in self.robot.actuated]
        self._wrong = ""
        stamp, count = message.header.stamp, len(names)
        if len(message.position) != count or len(message.velocity) != count:
            self._wrong = (
                f"JointState: {count} names, {len(message.position)} positions, {len(message.velocity)} velocities"
            )
            return
        at = self._places[1]
        torque = frozen(np.asarray(message.effort, dtype=np.float64)[at]) if len(message.effort) == count else None
        position, velocity = (np.asarray(part, dtype=np.float64)[at] for part in (message.position, message.velocity))
        self._state = stamp.sec + 1e-9 * stamp.nanosec, frozen(position), frozen(velocity), torque

    def _feel(self, message: Any) -> None:
        parts = message.angular_velocity, message.linear_acceleration
        gyro, accelerometer = (frozen([each.x, each.y, each.z]) for each in parts)
        self._felt = gyro, accelerometer


def _spinning(node: Any) -> Callable[[], object]:
    rclpy = importlib.import_module("rclpy")
    return lambda: rclpy.spin_once(node, timeout_sec=0.0)
