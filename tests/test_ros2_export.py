"""The ROS 2 package: its files name each other, and plugin and node compile and control a simulated robot.

Debian has no packages of ROS 2, so that the headers are those of `tests/ros2_stand_in`. If AMENT_PREFIX_PATH names an
installation of ROS 2, the package is also built with it.
"""

from __future__ import annotations

import ast
import ctypes
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from raising import raises
from typer.testing import CliRunner

import quaddyn as qd
from quaddyn.cli import app
from quaddyn.exports.source_files import c_string_list
from quaddyn.runtime import export_ros2
from quaddyn.simulation import Imu, Sensors

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
