"""`export_ros2`: writes a ROS 2 package with a controller plugin of ros2_control and a message node."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ..errors import ArgumentError
from ..estimation import BaseEstimator
from ..locomotion import FEET, LocomotionController
from ..version import __version__
from ..wbc import WholeBodyController
from ..wbc.c_files import SourceFiles
from .program_export import controller_files
from .safety import Safety
from .walking_controller import MAX_COMPENSATED_DELAY

#: Files of the package by their templates; placeholders begin with QD_.
TEMPLATES = {
    "package.xml": "package.xml",
    "CMakeLists.txt": "CMakeLists.txt",
    "README.md": "README.md",
    "plugin.xml": "QD_NAME_plugin.xml",
    "controllers.yaml": "config/QD_NAME_controllers.yaml",
    "drive.hpp": "src/QD_NAME_drive.hpp",
    "controller.cpp": "src/QD_NAME_controller.cpp",
    "node.cpp": "src/QD_NAME_node.cpp",
}


def export_ros2(
    controller: WholeBodyController | LocomotionController,
    folder: str | os.PathLike[str],
    *,
    estimator: BaseEstimator | None = None,
    safety: Safety | None = None,
    name: str | None = None,
) -> SourceFiles:
    """Writes a ROS 2 package that controls a robot without Python.

    It has a controller plugin of ros2_control, which claims the effort interfaces of all joints, and a node for robots
    without ros2_control, which exchanges messages; both run state estimator, controller and safety layer in C99, see
    `export_program`.  With a `LocomotionController` the robot walks with the velocity of ``cmd_vel``; with a
    `WholeBodyController` it stands.  Contacts of feet are estimated from torques.

    Args:
        controller: see `export_program`.
        folder: see `export_program`.
        estimator: see `export_program`.
        safety: see `export_program`.
        name: prefix of files and functions, converted to lower case; None: the name of the robot.

    Returns:
        The written files.

    Raises:
        ArgumentError: `estimator` or `safety` has another robot or period, the rate of `controller` is not a whole
            number of hertz or it cannot be exported, or `name` is not a C identifier.
        OSError: a file cannot be written.
    """
    source = ros2_package(controller, estimator=estimator, safety=safety, name=name)
    source.write(folder)
    return source


def ros2_package(
    controller: WholeBodyController | LocomotionController,
    *,
    estimator: BaseEstimator | None = None,
    safety: Safety | None = None,
    name: str | None = None,
) -> SourceFiles:
    """Returns the files of `export_ros2` without writing them; same arguments and errors."""
    name, c_files, safety = controller_files(controller, estimator=estimator, safety=safety, name=name, lower=True)
    robot, walks = controller.robot, isinstance(controller, LocomotionController)
    rate = round(1.0 / controller.dt)
    if abs(rate * controller.dt - 1.0) > 1e-6:
        raise ArgumentError(
            f"controller: ros2_control runs at a whole number of hertz, but the period is {controller.dt:g} s; create "
            f"it with dt=1/{rate}"
        )
    folder = Path(__file__).parent / "ros2_package"
    limits = [float(x) for x in robot.effort_limits]
    parts = {
        "QD_NAME": name,
        "QD_UPPER": name.upper(),
        "QD_CLASS": "".join(word.capitalize() for word in name.split("_")) + "Controller",
        "QD_VERSION": __version__,
        "QD_ROBOT": re.sub(r"[^\w .-]", "_", robot.name, flags=re.ASCII),
        "QD_KIND": "walker" if walks else "wbc",
        "QD_LAW": "locomotion controller" if walks else "whole-body controller",
        "QD_RATE": str(rate),
        "QD_MAX_DELAY": repr(MAX_COMPENSATED_DELAY),
        "QD_LIMITS": ", ".join("infinity" if x == float("inf") else repr(x) for x in limits),
        "QD_FEET": ", ".join(str(robot.feet.index(foot)) for foot in FEET) if walks else "",
        "QD_SOURCES": " ".join(sorted(f"src/{file}" for file in c_files if file.endswith(".c"))),
    }
    placeholders = re.compile("|".join(sorted(("QD_MOTION", *parts), key=len, reverse=True)))

    def read(template: str) -> str:
        """Returns a template with its placeholders replaced."""
        text = (folder / template).read_text(encoding="ascii")
        return fill(text)

    def fill(text: str) -> str:
        return placeholders.sub(lambda match: parts[match[0]], text)

    parts["QD_MOTION"] = read("walking.hpp" if walks else "standing.hpp").rstrip("\n")
    files = {f"src/{file}": text for file, text in c_files.items()}
    files |= {fill(file): read(template) for template, file in TEMPLATES.items()}
    return SourceFiles(name, files)
