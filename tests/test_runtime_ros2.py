"""ROS 2 by stand-ins with the same fields: names in any order, efforts within limits, and errors for missing parts."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
from raising import raises

import quaddyn as qd
from quaddyn.runtime import MotorCommand, Ros2Interface


class Node:
    """The methods of an rclpy node that are used."""

    def __init__(self) -> None:
        self.heard: dict[str, Any] = {}
        self.said: list[Any] = []
        self.waiting: list[tuple[str, Any]] = []

    def create_subscription(self, kind: object, topic: str, callback: object, queue: int) -> str:
        self.heard[topic] = callback
        return topic

    def create_publisher(self, kind: object, topic: str, queue: int) -> Any:
        self.topic = topic
        return SimpleNamespace(publish=self.said.append)

    def destroy_subscription(self, topic: str) -> None:
        del self.heard[topic]

    def destroy_publisher(self, publisher: object) -> None:
        self.topic = ""

    def spin(self) -> None:
        if self.waiting:
            topic, message = self.waiting.pop(0)
            self.heard[topic](message)


MESSAGES = SimpleNamespace(JointState=object, Imu=object, Float64MultiArray=lambda: SimpleNamespace(data=[]))


def joint_state(names: list[str], at: float, effort: bool = True) -> Any:
    numbers = [float(len(name)) + 0.01 * k for k, name in enumerate(names)]
    stamp = SimpleNamespace(sec=int(at), nanosec=round((at % 1.0) * 1e9))
    return SimpleNamespace(
        header=SimpleNamespace(stamp=stamp), name=names, position=numbers, velocity=[-x for x in numbers],
        effort=[0.5 * x for x in numbers] if effort else [],
    )  # fmt: skip


def imu(*felt: float) -> Any:
    xyz = SimpleNamespace(x=0.1, y=0.2, z=0.3), SimpleNamespace(x=felt[0], y=felt[1], z=felt[2])
    return SimpleNamespace(angular_velocity=xyz[0], linear_acceleration=xyz[1])


def test_readings_are_assigned_by_joint_name_and_time_stamped(go2: qd.Robot) -> None:
    node = Node()
    side = Ros2Interface(go2, node, messages=MESSAGES, spin=node.spin)
    raises(qd.QuaddynError, "JointState: no message has arrived yet", side.read)
    names = ["camera_joint", *go2.actuated[::-1]]
    node.waiting.append(("/joint_states", joint_state(names, 12.25)))
    raises(qd.QuaddynError, "Imu: no message has arrived yet", side.read)
    node.waiting += [("/imu", imu(0.0, 0.0, 9.81)), ("/joint_states", joint_state(names, 12.254))]
    m = side.read()
    message = joint_state(names, 0.0)
    wanted = dict(zip(names, message.position, strict=True))
    assert math.isclose(m.time, 12.254) and m.position.tolist() == [wanted[name] for name in go2.actuated]
    assert np.array_equal(m.velocity, -m.position) and np.array_equal(m.torque, 0.5 * m.position)
    assert m.gyro.tolist() == [0.1, 0.2, 0.3] and m.accelerometer[2] == 9.81
    node.waiting.append(("/joint_states", joint_state(names, 13.0, effort=False)))
    assert side.read().torque is None
    node.waiting.append(("/joint_states", joint_state(names[:-1], 14.0)))
    raises(qd.QuaddynError, f"lacks the joints {go2.actuated[0]}", side.read)
    short = joint_state(names, 15.0)
    short.velocity = []
    node.waiting.append(("/joint_states", short))
    raises(qd.QuaddynError, "0 velocities", side.read)
    side.close()
    assert not node.heard and not node.topic


def test_efforts_include_joint_feedback_in_the_order_of_the_ros_controller_within_limits(go2: qd.Robot) -> None:
    node = Node()
    order = go2.actuated[::-1]
    side = Ros2Interface(go2, node, messages=MESSAGES, spin=node.spin, joints=order, commands="/legs/commands")
    side.write(MotorCommand.from_torques(np.arange(12.0)))
    assert node.topic == "/legs/commands" and node.said[-1].data == np.arange(12.0)[::-1].tolist()
    node.waiting += [("/joint_states", joint_state(list(go2.actuated), 1.0)), ("/imu", imu(0.0, 0.0, 9.81))]
    m = side.read()
    zero = np.zeros(12)
    side.write(MotorCommand.from_targets(m.position + 0.1, zero, np.full(12, 20.0), zero))
    assert np.allclose(node.said[-1].data, 2.0)
    side.write(MotorCommand.from_targets(m.position + 100.0, zero, np.full(12, 1e300), zero, tau=zero))
    assert (np.abs(node.said[-1].data) <= go2.effort_limits[::-1]).all()
    side.write(MotorCommand.from_targets(m.position + 1e10, zero - 1e10, np.full(12, 1e300), np.full(12, 1e300)))
    assert node.said[-1].data == [0.0] * 12, "what cannot be computed is no torque"
    raises(qd.ArgumentError, "tau", side.write, MotorCommand.from_torques(np.full(12, np.nan)))
    joints = (*order[:-1], "missing_joint")
    raises(qd.UnknownNameError, "missing_joint", Ros2Interface, go2, node, messages=MESSAGES, joints=joints)


def test_fixed_arm_needs_no_imu_and_missing_ros_is_reported() -> None:
    arm, node = qd.load("ur5"), Node()
    side = Ros2Interface(arm, node, messages=MESSAGES)  # the node is spun elsewhere
    node.heard["/joint_states"](joint_state(list(arm.actuated), 0.5))
    assert side.read().time == 0.5 and "/imu" not in node.heard
    try:
        import sensor_msgs.msg  # noqa: F401
    except ImportError:
        raises(qd.QuaddynError, "ROS 2 is not available", Ros2Interface, arm, node)
