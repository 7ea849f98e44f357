"""The ROS 2 package: its files name each other, and plugin and node compile and control a simulated robot.

Debian has no packages of ROS 2, so that the headers are those of `tests/ros2_stand_in`. If AMENT_PREFIX_PATH names an
installation of ROS 2, the package is also built with it.
"""

from __future__ import annotations

import ast
import ctypes
import json
import math
import os
import re
import shutil
import struct
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from raising import raises
from test_runtime_log import run as run
from typer.testing import CliRunner

import quaddyn as qd
from quaddyn.cli import app
from quaddyn.exports.source_files import c_string_list
from quaddyn.runtime import MotorCommand, Ros2Interface, export_ros2, load_recording
from quaddyn.runtime.run_log import RunLog
from quaddyn.simulation import Imu, Log, Sensors
from quaddyn.simulation.mcap_file import (
    MESSAGES as ROS_MESSAGES,
)
from quaddyn.simulation.mcap_file import (
    NUMBERS,
    decode_cdr,
    encode_cdr,
    encode_json,
    make_schema,
    make_simple_shapes_urdf,
    read_messages,
    write_messages,
)
from quaddyn.urdf import parse

STAND_IN = Path(__file__).parent / "ros2_stand_in"
DT = 0.002
#: CMake targets that the package links, by package.
TARGETS = {
    "ament_cmake": (), "controller_interface": ("controller_interface::controller_interface",),
    "geometry_msgs": (), "hardware_interface": ("hardware_interface::hardware_interface",),
    "pluginlib": ("pluginlib::pluginlib",), "rclcpp": ("rclcpp::rclcpp",),
    "rclcpp_lifecycle": ("rclcpp_lifecycle::rclcpp_lifecycle",), "sensor_msgs": (), "std_msgs": (),
}  # fmt: skip


def test_names_in_c_are_those_of_the_robot() -> None:
    """C reads "??" and a further sign as one sign (a trigraph), unless a backslash is between them."""
    names = ["plain", "a??/b", "???", 'a"b', "a\\b", "a, b", "c??"]
    text = c_string_list(names)
    assert "??" not in text and ast.literal_eval(f"[{text}]".replace("\\?", "?")) == names
    assert c_string_list(["\u00e9"]) == r'"\\xe9"' and c_string_list([]) == "NULL"


def test_files_of_the_package_name_each_other(tmp_path: Path) -> None:
    robot = qd.load("small_quadruped")
    source = export_ros2(qd.WholeBodyController(robot, dt=DT), tmp_path, name="Small")
    assert source.name == "small"  # names of ROS 2 packages are in lower case
    assert {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()} == set(source.files)
    assert not any("QD_" in text or "QD_" in file for file, text in source.files.items())
    package = ElementTree.fromstring(source.files["package.xml"])
    cmake = source.files["CMakeLists.txt"]
    assert package.findtext("name") == "small_control" and "project(small_control C CXX)" in cmake
    depends = {each.text for each in package.iter() if each.tag in ("depend", "buildtool_depend")}
    assert depends == set(re.findall(r"find_package\((\w+) REQUIRED\)", cmake)) == set(TARGETS)
    plugin = ElementTree.fromstring(source.files["small_plugin.xml"]).find("class")
    assert plugin is not None and plugin.attrib["name"] == "small_control/SmallController"
    code = source.files["src/small_controller.cpp"]
    assert (
        plugin.attrib["type"] == "small::SmallController" and "PLUGINLIB_EXPORT_CLASS(small::SmallController," in code
    )
    config = source.files["config/small_controllers.yaml"]
    assert "update_rate: 500\n" in config and "type: small_control/SmallController" in config
    listed = re.search(r"add_library\(small_core STATIC ([^)]+)\)", cmake)
    assert listed is not None
    assert set(listed[1].split()) == {file for file in source.files if file.endswith(".c")}
    assert all(f'"{name}"' in source.files["src/small_safety.c"] for name in robot.actuated)
    limits = re.search(r"effort_limits = \{([^}]+)\}", source.files["src/small_drive.hpp"])
    assert limits is not None and [float(x) for x in limits[1].split(",")] == robot.effort_limits.tolist()


def test_robots_without_a_free_root_are_rejected() -> None:
    robot = qd.load("go2", root="fixed")
    raises(qd.ArgumentError, "requires a free root and feet", export_ros2, qd.WholeBodyController(robot), None)


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of Go2, built by its CMakeLists.txt with the stand-ins."""
    folder = tmp_path_factory.mktemp("ros2")
    result = CliRunner().invoke(app, ["codegen", "go2", "--target", "ros2", "--dt", str(DT), "--out", str(folder)])
    assert result.exit_code == 0, result.output
    for package, targets in TARGETS.items():
        lines = [f"set({package}_TARGETS stand_in_{package})"]
        for target in (f"stand_in_{package}", *targets):
            lines.append(f"add_library({target} INTERFACE IMPORTED)")
            lines.append(f'target_include_directories({target} INTERFACE "{STAND_IN}")')
        if package == "ament_cmake":
            lines.append("macro(ament_package)\nendmacro()")
        if package == "pluginlib":
            lines.append("macro(pluginlib_export_plugin_description_file)\nendmacro()")
        path = folder / "cmake" / package / f"{package}Config.cmake"
        path.parent.mkdir(parents=True)
        path.write_text("\n".join(lines), encoding="utf-8")
    flags = "-Wall -Wextra -Wpedantic -Werror"
    for command in (
        ["cmake", "-S", str(folder), "-B", str(folder / "build"), f"-DCMAKE_PREFIX_PATH={folder / 'cmake'}",
         f"-DCMAKE_CXX_FLAGS={flags}", "-DCMAKE_C_FLAGS_RELEASE=-O1", "-DCMAKE_CXX_FLAGS_RELEASE=-O1"],
        ["cmake", "--build", str(folder / "build")],
    ):  # fmt: skip
        run = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=900)
        assert run.returncode == 0, run.stdout + run.stderr
    return folder


def compile_driver(build: Path, source: str, *options: str) -> ctypes.CDLL:
    """A library with a driver of the tests and the generated core."""
    library = build / f"lib{Path(source).stem}{len(options)}{'h' if '-DSTAND_IN_HUMBLE' in options else ''}.so"
    command = [
        "g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared", f"-I{build / 'src'}",
        f"-I{STAND_IN}", *options, str(STAND_IN / source), "-o", str(library), f"{build}/build/libgo2_core.a", "-lm",
    ]  # fmt: skip
    run = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300)
    assert run.returncode == 0, run.stderr
    return ctypes.CDLL(str(library))


def doubles(values: Any) -> Any:
    values = np.ascontiguousarray(values, dtype=np.float64)
    return values.ctypes.data_as(ctypes.POINTER(ctypes.c_double)), values


def walk(robot: qd.Robot, step: Callable[[float, Any], np.ndarray], seconds: float) -> qd.Simulation:
    """Simulates a robot with torques that are computed from readings."""
    plant = qd.Simulation(robot, dt=DT)
    sensors = Sensors(robot, np.random.default_rng(0), imu=Imu())
    for _ in range(round(seconds / DT)):
        plant.step(step(plant.time, sensors.read(plant)))
    return plant


@pytest.mark.slow
@pytest.mark.parametrize("version", ["jazzy", "humble"])
def test_plugin_of_ros2_control_lets_a_simulated_robot_walk(build: Path, go2: qd.Robot, version: str) -> None:
    options = ("-DSTAND_IN_HUMBLE",) if version == "humble" else ()
    library = compile_driver(build, "plugin_driver.cpp", *options, str(build / "src" / "go2_controller.cpp"))
    library.interface_names.restype = ctypes.c_char_p
    library.request.argtypes = [ctypes.c_double] * 3
    library.update.argtypes = [ctypes.c_double, *[ctypes.POINTER(ctypes.c_double)] * 2]
    assert library.start(1000) == 2  # the controller was exported for 500 Hz
    assert library.start(500) == 0
    assert library.interface_names(0).decode().split() == [f"{joint}/effort" for joint in go2.actuated]
    names = library.interface_names(1).decode().split()
    effort, out = doubles(np.ones(go2.nu))

    def step(time: float, reading: Any) -> np.ndarray:
        if abs(time - 1.5) < 0.5 * DT:
            library.request(0.3, 0.0, 0.0)
        if abs(time - 1.9) < 0.5 * DT:
            library.request(0.3, 0.0, 0.0)
        values = dict(zip((f"{joint}/position" for joint in go2.actuated), reading.position, strict=True))
        values |= dict(zip((f"{joint}/velocity" for joint in go2.actuated), reading.velocity, strict=True))
        for what, vector in (("angular_velocity", reading.gyro), ("linear_acceleration", reading.accelerometer)):
            values |= {f"imu/{what}.{axis}": x for axis, x in zip("xyz", vector, strict=True)}
        pointer, kept = doubles([values[name] for name in names])
        library.update(time + 1.0, pointer, effort)
        del kept
        return out.copy()

    plant = walk(go2, step, 3.5)
    assert plant.q[2] > 0.8 * go2.q_home[2] and plant.q[6] > 0.9  # upright
    assert 0.1 < plant.q[0] < 0.6  # it walked for about one second, until the request timed out
    assert np.abs(plant.v[:2]).max() < 0.15
    library.stop(effort)
    assert not out.any()


@pytest.mark.slow
def test_node_lets_a_simulated_robot_stand(build: Path, go2: qd.Robot) -> None:
    source, kind = build / "src" / "go2_node.cpp", "go2::Go2ControllerNode"
    library = compile_driver(build, "node_driver.cpp", f'-DNODE_SOURCE="{source}"', f"-DNODE_CLASS={kind}")
    number = ctypes.POINTER(ctypes.c_double)
    library.exchange.argtypes = [ctypes.c_double, ctypes.c_int, ctypes.c_void_p, *[number] * 5]
    library.start_node()
    order = go2.joint_permutation(go2.actuated[::-1])  # joint states may have another order
    names = (ctypes.c_char_p * go2.nu)(*(go2.actuated[i].encode() for i in order))
    effort, out = doubles(np.ones(go2.nu))

    def step(time: float, reading: Any) -> np.ndarray:
        arrays = [
            doubles(x) for x in (reading.position[order], reading.velocity[order], reading.gyro, reading.accelerometer)
        ]
        assert library.exchange(time + 1.0, go2.nu, names, *(pointer for pointer, _ in arrays), effort) == step.count
        step.count += 1  # type: ignore[attr-defined]
        return out.copy()

    step.count = 1  # type: ignore[attr-defined]
    plant = walk(go2, step, 1.5)
    assert plant.q[2] > 0.9 * go2.q_home[2] and plant.q[6] > 0.99 and np.abs(plant.q[:2]).max() < 0.05


@pytest.mark.slow
@pytest.mark.skipif("AMENT_PREFIX_PATH" not in os.environ, reason="needs an installation of ROS 2")
def test_package_is_built_by_ros2(tmp_path: Path, go2: qd.Robot) -> None:
    assert shutil.which("colcon") is not None
    export_ros2(qd.LocomotionController(go2, dt=DT), tmp_path / "src" / "go2_control", name="go2")
    run = subprocess.run(["colcon", "build"], cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=900)
    assert run.returncode == 0, run.stdout + run.stderr


# -- ros 2 by stand-ins with the same fields --------------------------------------------------------------------------
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


# -- logs as ros 2 messages -------------------------------------------------------------------------------------------
STANDARD = [kind for kind in ROS_MESSAGES if not kind.startswith("quaddyn/")]


def random_value(kind: str, rng: np.random.Generator) -> Any:
    """A value of a field."""
    if kind.endswith("]"):
        element, _, size = kind[:-1].partition("[")
        return [random_value(element, rng) for _ in range(int(size) if size else int(rng.integers(0, 4)))]
    if kind in ROS_MESSAGES:
        return {name: random_value(field, rng) for field, name in ROS_MESSAGES[kind]}
    if kind == "string":
        return "".join(chr(int(c)) for c in rng.integers(32, 0x2FF, int(rng.integers(0, 9))))
    if kind == "float64":
        return float(rng.standard_normal() * 10.0 ** rng.integers(-9, 9))
    return bool(rng.integers(0, 2)) if kind == "bool" else int(rng.integers(0, 200))


def plain(message: Any) -> Any:
    """A message of rosbags as dictionaries, lists and numbers."""
    if hasattr(message, "__msgtype__"):
        fields = {name: getattr(message, name) for name in message.__dataclass_fields__ if name != "__msgtype__"}
        return {name: plain(value) for name, value in fields.items()}
    if isinstance(message, np.ndarray | list):
        return [plain(entry) for entry in message]
    return message.item() if isinstance(message, np.generic) else message


def typestore(kind: str) -> Any:
    """Types that rosbags reads from the schema of a message type."""
    typesys = pytest.importorskip("rosbags.typesys")
    store = typesys.get_typestore(typesys.Stores.EMPTY)
    store.register(typesys.get_types_from_msg(make_schema(kind, "ros2msg").decode(), kind))
    return store


@pytest.mark.parametrize("kind", ROS_MESSAGES)
def test_bytes_and_schema_of_every_message_agree_with_rosbags(kind: str) -> None:
    store, rng = typestore(kind), np.random.default_rng(0)
    for _ in range(20):
        content = random_value(kind, rng)
        data = encode_cdr(kind, content)
        message = store.deserialize_cdr(data, kind)
        assert plain(message) == content and decode_cdr(kind, data) == content
        assert bytes(store.serialize_cdr(message, kind)) == data
        assert decode_cdr(kind, bytes(store.serialize_cdr(message, kind, little_endian=False))) == content


@pytest.mark.parametrize("kind", STANDARD)
def test_definitions_of_standard_messages_are_those_of_ros2(kind: str) -> None:
    """The hash of a type (REP-2011) covers names, types and order of all fields, also of nested messages."""
    typesys = pytest.importorskip("rosbags.typesys")
    official = typesys.get_typestore(typesys.Stores.ROS2_JAZZY)
    assert typestore(kind).hash_rihs01(kind) == official.hash_rihs01(kind)


def test_invalid_messages_are_rejected_with_the_type() -> None:
    kind = "sensor_msgs/msg/JointState"
    content = {"header": {"stamp": {"sec": 1, "nanosec": 2}, "frame_id": "a"}, "name": ["j"]}
    content |= {"position": [1.0], "velocity": [], "effort": []}
    data = encode_cdr(kind, content)
    for end in range(len(data)):
        if end not in (len(data) - 4, len(data)):
            raises(qd.ArgumentError, f"not a message of type {kind}", decode_cdr, kind, data[:end])
    for damaged in (b"\x00\x03" + data[2:], data[:12] + b"\xff\xff\xff\x7f" + data[16:]):
        raises(qd.ArgumentError, "not a message", decode_cdr, kind, damaged)
    with pytest.raises(qd.ArgumentError, match="orientation_covariance: expected 9 entries, got 8"):
        encode_cdr("sensor_msgs/msg/Imu", random_value("sensor_msgs/msg/Imu", np.random.default_rng(0)) | {
            "orientation_covariance": [0.0] * 8})  # fmt: skip
    raises(qd.ArgumentError, r"Time\.sec", encode_cdr, "builtin_interfaces/msg/Time", {"sec": 2**31, "nanosec": 0})
    assert set(NUMBERS.values()) == {x for x in NUMBERS.values() if struct.calcsize(x)}


def test_json_has_empty_arrays_in_place_of_values_that_are_not_finite() -> None:
    content = {"position": [1.0, np.nan], "effort": [2.0], "v": {"x": np.inf, "y": 0.0}, "late": np.nan, "name": ["a"]}
    expected = {"position": [], "effort": [2.0], "v": {}, "late": None, "name": ["a"]}
    assert json.loads(encode_json(content)) == expected


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """A robot that falls and lands, read from a file."""
    robot = qd.load("go2")
    sim = qd.Simulation(robot, dt=2e-3)
    q = np.array(sim.q)
    q[2], q[3:7] = q[2] + 0.1, np.array([0.1, 0.2, 0.3, 0.9]) / np.linalg.norm([0.1, 0.2, 0.3, 0.9])
    sim.reset(q, 0.1 * np.arange(robot.nv, dtype=float))
    log = sim.run(lambda plant: 0.5 * np.ones(12), 0.2)
    return Log.load(log.save(tmp_path_factory.mktemp("log") / "run.npz"))


def read_with_rosbags(path: Path) -> dict[str, list[tuple[int, Any]]]:
    """All messages of a file by topic: time [ns] and fields."""
    highlevel, out = pytest.importorskip("rosbags.highlevel"), {}
    with highlevel.AnyReader([path]) as reader:
        for connection, stamp, data in reader.messages():
            message = reader.deserialize(data, connection.msgtype)
            out.setdefault(connection.topic, []).append((stamp, plain(message)))
    return out


def test_rosbags_reads_the_log_of_a_simulation(log: Log, tmp_path: Path) -> None:
    found = read_with_rosbags(log.to_mcap(tmp_path / "run.mcap"))
    feet = {f"/contact/{name}": s for s, name in enumerate(log.spheres)}
    assert {"/joint_states", "/base", "/base_velocity", "/odom", "/tf", "/tf_static", *feet} <= set(found)
    for i, (stamp, joints) in enumerate(found["/joint_states"]):
        assert (
            stamp
            == round(1e9 * log.time[i])
            == 10**9 * joints["header"]["stamp"]["sec"] + (joints["header"]["stamp"]["nanosec"])
        )
        assert joints["name"] == list(log.joint_names) and joints["position"] == log.q[i, 7:].tolist()
        assert joints["velocity"] == log.v[i, 6:].tolist() and joints["effort"] == log.tau[i].tolist()
    for i, (_, odometry) in enumerate(found["/odom"]):
        pose, twist = odometry["pose"]["pose"], odometry["twist"]["twist"]
        assert [*pose["position"].values(), *pose["orientation"].values()] == log.q[i, :7].tolist()
        assert [*twist["linear"].values(), *twist["angular"].values()] == log.v[i, :6].tolist()
        assert odometry["child_frame_id"] == "base" and odometry["header"]["frame_id"] == "world"
    for topic, s in feet.items():
        forces = [list(message["wrench"]["force"].values()) for _, message in found[topic]]
        np.testing.assert_array_equal(forces, log.forces[:, s])
    assert len(found["/joint_states"]) == len(found["/odom"]) == len(log.time)


def link_placements(messages: dict[str, list[tuple[int, Any]]], tick: int) -> dict[str, np.ndarray]:
    """Homogeneous transformations of all links in the world, from /tf and /tf_static."""
    transforms = [*messages["/tf_static"][0][1]["transforms"], *messages["/tf"][tick][1]["transforms"]]
    parents = {t["child_frame_id"]: (t["header"]["frame_id"], t["transform"]) for t in transforms}
    assert len(parents) == len(transforms)

    def place(link: str) -> np.ndarray:
        if link == "world":
            return np.eye(4)
        parent, transform = parents[link]
        rotation, translation = transform["rotation"], transform["translation"]
        local = pin.SE3(pin.Quaternion(*(rotation[k] for k in "wxyz")), np.array([translation[k] for k in "xyz"]))
        return place(parent) @ local.homogeneous

    return {link: place(link) for link in parents}


@pytest.mark.parametrize("name", ["go2", "solo8", "ur5", "two_link_leg"])
def test_transforms_place_every_link_of_the_description(name: str, tmp_path: Path) -> None:
    """With /tf, /tf_static and /robot_description a viewer of ROS 2 draws the robot."""
    robot = qd.load(name)
    sim, rng = qd.Simulation(robot, dt=5e-3), np.random.default_rng(0)
    log = sim.run(lambda plant: rng.uniform(-1.0, 1.0, robot.nu), 0.05)
    found = read_with_rosbags(log.to_mcap(tmp_path / "run.mcap"))
    ((_, description),) = found["/robot_description"]
    links = {element.get("name") for element in ElementTree.fromstring(description["data"]).iter("link")}
    assert len(found["/tf"]) == 5  # every second tick of 5 ms
    for i in (0, 4):
        placements, dyn = link_placements(found, i), qd.Dynamics(robot)
        assert set(placements) | {"world"} == links | {"world"}
        for link, placement in placements.items():
            np.testing.assert_allclose(placement, dyn.frame_placement(log.q[2 * i], link).homogeneous, atol=1e-9)


def test_file_contains_a_foxglove_layout_and_shapes_without_mesh_files(log: Log, tmp_path: Path) -> None:
    reader = pytest.importorskip("mcap.reader")
    with log.to_mcap(tmp_path / "run.mcap").open("rb") as file:
        opened = reader.make_reader(file)
        attached = {each.name: each for each in opened.iter_attachments()}
        channels = {each.topic: each for each in opened.get_summary().channels.values()}
        assert opened.get_header().profile == "ros2"
    layout = json.loads(attached["foxglove_layout.json"].data)
    scene = layout["configById"]["3D!robot"]
    assert scene["layers"]["robot"]["topic"] == "/robot_shapes" and scene["followTf"] == "base"
    drawn = json.dumps(layout["layout"])
    assert all(panel in drawn for panel in layout["configById"])
    topics = {line["value"].split(".")[0] for panel in layout["configById"].values() for line in panel.get("paths", ())}
    assert topics <= set(channels)
    assert b"<robot" in attached["robot.urdf"].data
    for topic in ("/robot_description", "/tf_static"):
        assert "durability: 1" in channels[topic].metadata["offered_qos_profiles"]
    robot = qd.load("go2")
    shapes = ElementTree.fromstring(make_simple_shapes_urdf(robot))
    assert not list(shapes.iter("mesh"))
    drawn_links = {link.get("name") for link in shapes.findall("link") if link.find("visual") is not None}
    assert {"base", *(f"{leg}_{part}" for leg in robot.feet for part in ("hip", "thigh", "calf"))} <= drawn_links
    tree = parse(make_simple_shapes_urdf(robot))
    assert [link.name for link in tree.links] == [link.name for link in robot.tree.links]
    for drawn_joint, joint in zip(tree.joints, robot.tree.joints, strict=True):
        assert (drawn_joint.name, drawn_joint.type, drawn_joint.child) == (joint.name, joint.type, joint.child)
        np.testing.assert_allclose(
            drawn_joint.placement.homogeneous, joint.placement.homogeneous, atol=1e-8, err_msg=joint.name
        )


def test_rosbags_reads_a_recording_of_a_control_loop(run: Path, tmp_path: Path) -> None:
    recording = load_recording(run)
    short = RunLog(recording.metadata, recording.records[::20])
    found, r = read_with_rosbags(short.to_mcap(tmp_path / "log.mcap")), short.records
    for i, (stamp, joints) in enumerate(found["/joint_states"]):
        assert stamp == round(1e9 * (r["begun"][i] - r["begun"][0]))
        assert joints["position"] == r["position"][i].tolist() and joints["velocity"] == r["velocity"][i].tolist()
    for i, (_, imu) in enumerate(found["/imu"]):
        assert list(imu["angular_velocity"].values()) == r["gyro"][i].tolist()
        assert list(imu["linear_acceleration"].values()) == r["accelerometer"][i].tolist()
        assert imu["orientation_covariance"][0] == -1.0
    estimated = np.flatnonzero(np.isfinite(r["q"]).all(axis=1))
    assert 0 < len(estimated) == len(found["/odom"])
    for i, (_, odometry) in zip(estimated, found["/odom"], strict=True):
        assert list(odometry["twist"]["twist"]["angular"].values()) == r["v"][i, 3:6].tolist()
    for i, (_, tick) in enumerate(found["/tick"]):
        assert tick["number"] == r["last"][i] and tick["status"].encode() == r["status"][i]
    assert [m["force"] for _, m in found["/feet"]] == r["foot_forces"].tolist()


@pytest.mark.parametrize("encoding", ["ros2", "json"])
def test_messages_are_read_back_from_both_encodings(log: Log, encoding: Any, tmp_path: Path) -> None:
    path = log.to_mcap(tmp_path / "run.mcap", encoding=encoding)
    kinds = ("sensor_msgs/msg/JointState", "nav_msgs/msg/Odometry")
    found = list(read_messages(path, kinds))
    assert [topic for topic, *_ in found] == ["/joint_states", "/odom"] * len(log.time)
    assert found[2][3]["position"] == log.q[1, 7:].tolist() and found[2][2] == pytest.approx(log.time[1])


def test_invalid_mcap_files_are_rejected_by_name(log: Log, tmp_path: Path) -> None:
    path = log.to_mcap(tmp_path / "run.mcap")
    data = path.read_bytes()
    middle = len(data) // 2
    for content in (b"", b"nonsense", data[:middle], data[:middle] + bytes(200) + data[middle + 200 :]):
        path.write_bytes(content)
        raises(qd.ArgumentError, f"^{path}.*damaged", list, read_messages(path, ("sensor_msgs/msg/JointState",)))
    raises(qd.ArgumentError, "encoding: expected", log.to_mcap, path, encoding="xml")


def test_topics_have_names_that_ros2_accepts(tmp_path: Path) -> None:
    kind, content = "std_msgs/msg/String", {"data": "x"}
    topics = ("/contact/shank 1", "/contact/shank-1", "/contact/shank_1")
    ticks = [(0.01 * i, [(topic, kind, "", content) for topic in topics]) for i in range(2)]
    names = [topic for topic, *_ in read_messages(write_messages(tmp_path / "x.mcap", ticks), (kind,))]
    assert len(set(names)) == 3 and names[:3] == names[3:] and names[0] == "/contact/shank_1"
    assert all(re.fullmatch("[A-Za-z0-9_/]+", name) for name in names)
    written = write_messages(tmp_path / "x.mcap", ticks, encoding="json")
    assert [topic for topic, *_ in read_messages(written, (kind,))][:3] == list(topics)
