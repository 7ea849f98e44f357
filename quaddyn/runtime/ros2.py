"""`Ros2Interface`: access to a robot by ROS 2 topics, with joint states and an IMU as input and efforts as output.

The messages are sensor_msgs/JointState, sensor_msgs/Imu and std_msgs/Float64MultiArray; the last is the input of
``effort_controllers/JointGroupEffortController`` of ros2_control. This module imports rclpy only if the caller does not
pass the message types.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..errors import QuaddynError
from ..robot.home import JointPositions
from ..robot.robot import Robot
from ..simulation.sensors import Measurement
from ..strict_attributes import StrictAttributes
from ..urdf.tree import Array, frozen
from .interface import RobotInterface
from .motor_command import MotorCommand

#: Largest number of callbacks per read, so that a flood of messages cannot block it.
MAX_CALLBACKS_PER_READ = 16


def _messages() -> Any:
    """Returns the message types of ROS 2."""
    try:
        sensors, plain = importlib.import_module("sensor_msgs.msg"), importlib.import_module("std_msgs.msg")
    except ImportError as error:
        raise QuaddynError(f"ROS 2 is not available ({error}); source its setup file, or pass messages=") from None
    return SimpleNamespace(JointState=sensors.JointState, Imu=sensors.Imu, Float64MultiArray=plain.Float64MultiArray)


class Ros2Interface(RobotInterface, StrictAttributes, fixed=("robot", "node", "joints")):
    """Access to a robot by ROS 2 topics.

    Effort controllers accept torques only.  PD targets of a command are therefore evaluated here, at the newest
    reading, once per tick, and the torques are clamped to the robot's limits.

    Args:
        robot: robot with the joint names of the messages.
        node: the ``rclpy.node.Node`` that subscribes and publishes.
        joint_states: topic of the joint states; names may be in any order and include other joints.
        imu: topic of the IMU; not subscribed with a fixed root.
        commands: topic of the efforts.
        joints: joint names in the order of the efforts that the ROS 2 controller expects; None: ``robot.actuated``.
        messages: object with `JointState`, `Imu` and `Float64MultiArray`; None: those of ROS 2.
        spin: function that runs at most one callback of the node without waiting; None: that of rclpy if `messages` is
            None, otherwise the node must be spun elsewhere.
        queue: size of the queue of each topic.

    Attributes:
        robot: the robot.
        node: the node.
        joints: joint names in the order of the efforts, by default ``robot.actuated``.

    Raises:
        QuaddynError: ROS 2 is not available.
        UnknownNameError: a joint that the robot does not have.
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
            spin = _default_spin(node) if spin is None else spin
        self._spin, self._kind = spin, messages.Float64MultiArray
        self._turning = JointPositions.actuated(robot).turning
        self._state: tuple[float, Array, Array, Array | None] | None = None
        self._imu_reading: tuple[Array, Array] | None = None
        self._joint_indices: tuple[list[str], list[int]] = [], []
        self._error = ""
        self._subscriptions = [node.create_subscription(messages.JointState, joint_states, self._on_joint_state, queue)]
        if robot.root != "fixed":
            self._subscriptions.append(node.create_subscription(messages.Imu, imu, self._on_imu, queue))
        self._publisher = node.create_publisher(self._kind, commands, queue)

    def read(self) -> Measurement:
        """Returns the newest reading, with the time stamp of its joint state.

        Raises:
            QuaddynError: no message has arrived yet on a topic, or a joint is missing in the message.
        """
        for _ in range(MAX_CALLBACKS_PER_READ if self._spin is not None else 0):
            before = self._state, self._imu_reading
            self._spin()  # type: ignore[misc]
            if before[0] is self._state and before[1] is self._imu_reading:
                break
        if self._error:
            raise QuaddynError(self._error)
        if self._state is None:
            raise QuaddynError("JointState: no message has arrived yet")
        if self._imu_reading is None and self.robot.root != "fixed":
            raise QuaddynError("Imu: no message has arrived yet")
        time, position, velocity, torque = self._state
        gyro, accelerometer = (np.zeros(3), np.zeros(3)) if self._imu_reading is None else self._imu_reading
        return Measurement(time, position, velocity, gyro, accelerometer, torque)

    def write(self, command: MotorCommand) -> None:
        """Publishes the torques of a command, computed with the newest measured joint positions and velocities.

        Raises:
            ArgumentError: see `MotorCommand.validated`.
        """
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
        """Unsubscribes from the topics."""
        for subscription in self._subscriptions:
            self.node.destroy_subscription(subscription)
        self.node.destroy_publisher(self._publisher)
        self._subscriptions = []

    # -- what comes in -------------------------------------------------------------------------------------------
    def _on_joint_state(self, message: Any) -> None:
        """Stores positions, velocities and efforts of a joint state message."""
        names = list(message.name)
        if names != self._joint_indices[0]:
            missing = [joint for joint in self.robot.actuated if joint not in names]
            if missing:
                self._error = (
                    f"JointState: the message lacks the joints {', '.join(missing)}; its joints are {', '.join(names)}"
                )
                return
            self._joint_indices = names, [names.index(joint) for joint in self.robot.actuated]
        self._error = ""
        stamp, count = message.header.stamp, len(names)
        if len(message.position) != count or len(message.velocity) != count:
            self._error = (
                f"JointState: expected as many positions and velocities as names, got {count} names, "
                f"{len(message.position)} positions and {len(message.velocity)} velocities"
            )
            return
        at = self._joint_indices[1]
        torque = frozen(np.asarray(message.effort, dtype=np.float64)[at]) if len(message.effort) == count else None
        position, velocity = (np.asarray(part, dtype=np.float64)[at] for part in (message.position, message.velocity))
        self._state = stamp.sec + 1e-9 * stamp.nanosec, frozen(position), frozen(velocity), torque

    def _on_imu(self, message: Any) -> None:
        """Stores angular velocity and specific force of an IMU message."""
        parts = message.angular_velocity, message.linear_acceleration
        gyro, accelerometer = (frozen([each.x, each.y, each.z]) for each in parts)
        self._imu_reading = gyro, accelerometer


def _default_spin(node: Any) -> Callable[[], object]:
    """Returns a function that runs one callback of a node by rclpy."""
    rclpy = importlib.import_module("rclpy")
    return lambda: rclpy.spin_once(node, timeout_sec=0.0)
