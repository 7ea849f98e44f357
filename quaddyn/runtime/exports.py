"""Programs in C and C++ that control robots without Python, and their parts: `export_program`, `export_ros2`, ..."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ..compiler.c99_types import identifier
from ..errors import ArgumentError, ArgumentTypeError, QuaddynError
from ..estimation import BaseEstimator, invariant_filter
from ..exports.source_files import (
    SourceFiles,
    StaticData,
    c_string_list,
    core_files,
    define_constant_array,
    define_robot,
    fill_template,
    validate_c_name,
)
from ..kernels import tick_terms_c
from ..locomotion import FEET, GAITS, Gait, LocomotionController
from ..locomotion.command import FALLEN, NO_GROUND
from ..locomotion.embedded import embedded_walker
from ..locomotion.embedded.embedded_walker import make_embedded_walker
from ..locomotion.fall_detection import SIGN_TEXTS, FallSign
from ..locomotion.modes import LocomotionMode, ModeCode
from ..locomotion.velocity_limits import REASON_TEXTS, LimitReason, allocate_gait_limits
from ..robot.robot import Robot
from ..wbc import WholeBodyController, controller_c
from ..wbc.export import outcome_enum, standing_program
from . import packets, shared_memory
from .faults import FAULT_TEXTS
from .packets import Packets
from .safety import Safety
from .safety_filter import filter_command
from .walking_controller import MAX_COMPENSATED_DELAY, measured_contact_force

Folder = str | os.PathLike[str] | None


def export_safety(safety: Safety, folder: Folder, *, name: str | None = None) -> SourceFiles:
    """Writes a safety layer as C99: its limits, its memory as after a reset, and the function of a tick.

    Args:
        safety: safety layer with its limits.
        folder: folder to write to, created if it does not exist; None: nothing is written.
        name: prefix of files and functions; None: ``ROBOT_safety``.

    Returns:
        The files.

    Raises:
        ArgumentError: `name` is not a C identifier.
        OSError: a file cannot be written.
    """
    if not isinstance(safety, Safety):
        raise ArgumentTypeError(f"safety: expected a Safety, got {type(safety).__name__}")
    robot = safety.robot
    name = validate_c_name(name, f"{robot.name}_safety")
    limits, memory = StaticData(""), StaticData("never", owner="m")
    memory_header, memory_functions = define_robot(memory, Safety(robot, dt=safety.dt).memory, name, robot)
    faults = [(code, *FAULT_TEXTS[code]) for code in sorted(FAULT_TEXTS)]
    codes = [f"    {name.upper()}_{identifier(word).upper()} = {code}" for code, word, _ in faults]
    parts = {
        "LIMITS": limits.define_structure(safety.limit_arrays, "limits", "LimitArrays", const=True),
        "MEMORYFUNCTIONS": memory_functions,
        "UNKNOWN": ", ".join(["NAN"] * (robot.nu + 3)),
        "DEFINITIONS": "\n\n".join([*limits.definitions, *memory.definitions]),
        "NAMES": c_string_list(("none", *(word for _, word, _ in faults))),
        "HASJOINT": _numbers([0, *("{joint}" in text or "{sensor}" in text for _, _, text in faults)]),
        "CODES": ",\n".join(codes),
        "PERIOD": repr(safety.dt),
    }
    for sensor in ("gyro", "accelerometer"):  # a fixed base needs no IMU
        parts[sensor.upper()] = f"required(reading->{sensor}, 3)" if robot.root == "free" else "optional(NULL, 3)"
    files = {
        f"{name}.h": fill_template("safety.h", name, robot, parts),
        f"{name}.c": fill_template("safety.c", name, robot, parts),
        f"{name}_memory.h": memory_header,
        **core_files([filter_command], "runtime_safety_filter", name, "Computation of a tick."),
    }
    return _written(SourceFiles(name, files), folder)


def export_estimator(estimator: BaseEstimator, folder: Folder, *, name: str | None = None) -> SourceFiles:
    """Writes a base state estimator as C99: leg kinematics, sensor noise, and the filter in its present state.

    Args:
        estimator: estimator, preferably before its first update or after a `reset`.
        folder: folder to write to, created if it does not exist; None: nothing is written.
        name: prefix of files and functions; None: ``ROBOT_estimator``.

    Returns:
        The files.

    Raises:
        ArgumentError: `name` is not a C identifier.
        OSError: a file cannot be written.
    """
    if not isinstance(estimator, BaseEstimator):
        raise ArgumentTypeError(f"estimator: expected a BaseEstimator, got {type(estimator).__name__}")
    robot = estimator.robot
    name = validate_c_name(name, f"{robot.name}_estimator")
    model, memory = StaticData(""), StaticData("never", owner="m")
    state = estimator._state.copy()
    for intermediate in (state.noise_effect, state.PHt, state.gain, state.error):
        intermediate[...] = 0.0
    n_terms, configuration = estimator._terms.size, estimator.state()[0]
    memory.members += [f"double terms[{n_terms}], configuration[{robot.nq}], motion[{robot.nv}];"]
    memory.definitions.append(define_constant_array("initial_configuration", configuration, static=True))
    memory.initializations.append("memcpy(m->configuration, initial_configuration, sizeof initial_configuration);")
    memory_header, memory_functions = define_robot(memory, state, name, robot)
    terms = tick_terms_c(robot, robot.feet, name=f"{name}_terms")
    parts = {
        "MODEL": "\n\n".join(
            model.define_structure(record, label, type(record).__name__, const=True)
            for record, label in ((estimator._model, "model"), (estimator._sensors, "sensors"))
        ),
        "MEMORYFUNCTIONS": memory_functions,
        "READING": 2 * robot.nu + 6,
        "TERMS": n_terms,
        "NX": len(state.P),
        "PERIOD": repr(estimator.dt),
        "DEFINITIONS": "\n\n".join([*model.definitions, *memory.definitions]),
    }
    functions = [
        invariant_filter.initialize,
        invariant_filter.initialize_at_rest,
        invariant_filter.read_joints,
        invariant_filter.write_base_state,
        invariant_filter.write_odometry,
        invariant_filter.update_estimate,
    ]
    files = {
        f"{name}.h": fill_template("estimator.h", name, robot, parts),
        f"{name}.c": fill_template("estimator.c", name, robot, parts),
        f"{name}_memory.h": memory_header,
        **core_files(functions, "estimation_invariant_filter", name, "Computation of the filter."),
        f"{name}_terms.h": terms.header,
        f"{name}_terms.c": terms.source,
    }
    return _written(SourceFiles(name, files), folder)


def export_interface(robot: Robot, folder: Folder, *, name: str | None = None) -> SourceFiles:
    """Writes the packets of readings and commands of a robot, and access to its shared memory, as C99.

    Args:
        robot: robot with the joints and feet of the packets.
        folder: folder to write to, created if it does not exist; None: nothing is written.
        name: prefix of files and functions; None: ``ROBOT_interface``.

    Returns:
        The files.

    Raises:
        ArgumentError: `name` is not a C identifier.
        OSError: a file cannot be written.
    """
    if not isinstance(robot, Robot):
        raise ArgumentTypeError(f"robot: expected a Robot from quaddyn.load, got {type(robot).__name__}")
    name = validate_c_name(name, f"{robot.name}_interface")
    nu, nf, layout = robot.nu, len(robot.feet), Packets(robot.nu, len(robot.feet))
    slots, begin = shared_memory.SLOTS, shared_memory.BEGIN
    head = shared_memory.HEAD.pack(shared_memory.MAGIC, shared_memory.VERSION, slots, nu, nf)
    parts = {
        "READING": packets.READING,
        "COMMAND": packets.COMMAND,
        "FORMAT": packets.VERSION,
        "SLOTS": slots,
        "NEWEST": shared_memory.NEWEST,
        "BEGIN": begin,
        "HEAD": len(head),
        "SIZE": begin + slots * (layout.reading_size + layout.command_size),
        "TRIES": shared_memory.TRIES,
        "READINGSIZE": layout.reading_size,
        "COMMANDSIZE": layout.command_size,
        "HEADBYTES": _numbers(head),
    }
    files, marker = {}, f"{name.upper()}_FEET"
    for end in ("h", "c"):
        text = fill_template(f"interface.{end}", name, robot, parts)
        if nf:
            text = text.replace(marker, f"{name.upper()}_NF")
        else:  # C has no arrays of size 0
            text = "".join(line for line in text.splitlines(keepends=True) if marker not in line)
            text = text.replace("joints and of the feet", "joints")
        files[f"{name}.{end}"] = text
    return _written(SourceFiles(name, files), folder)


def export_walker(controller: LocomotionController, folder: Folder, *, name: str | None = None) -> SourceFiles:
    """Writes a locomotion controller on unknown terrain as C99, with its whole-body controller.

    The C controller has the gains, nominal friction and gait of this controller, and starts with a first tick.

    Args:
        controller: controller without terrain map and payload estimate, of a robot without coupled joints.  A righting
            plan is not exported.
        folder: folder to write to, created if it does not exist; None: nothing is written.
        name: prefix of files and functions; None: ``ROBOT_walker``.

    Returns:
        The files.

    Raises:
        ArgumentError: the controller uses a feature that only Python has, or `name` is not a C identifier.
        OSError: a file cannot be written.
    """
    if not isinstance(controller, LocomotionController):
        raise ArgumentTypeError(f"controller: expected a LocomotionController, got {type(controller).__name__}")
    robot, solver = controller.robot, controller.wbc.solver
    name = validate_c_name(name, f"{robot.name}_walker")
    walker = make_embedded_walker(controller._walking)
    data, limits_data = StaticData("wbc_data_model", owner="m"), StaticData("gait")
    memory_header, memory_functions = define_robot(data, walker, name, robot)
    gaits = dict[str, Gait]()
    for gait in _feasible_gaits(controller):
        gaits.setdefault(identifier(gait.name), gait)  # a gait of the controller replaces the standard one of its name
    gait_limits = []
    for word, gait in gaits.items():
        limits = allocate_gait_limits()
        controller._quadruped.capability.velocity_limits.write_gait(limits, gait)
        gait_limits.append(limits_data.define_structure(limits, f"gait_{word}", "GaitLimits", f"gait_{word}_"))
    terms = tick_terms_c(robot, solver.tables.frames, solver.tables.momentum, name=f"{name}_terms")
    upper = name.upper()
    parts = {
        "OUTCOMES": outcome_enum(name),
        "MODES": "\n".join(f"    {upper}_{code.name} = {int(code)}," for code in ModeCode),
        "GAITS": "\n".join(f"    {upper}_GAIT_{word.upper()} = {k}," for k, word in enumerate(gaits)),
        "GAITLIMITS": "\n\n".join(gait_limits),
        "GAITCASES": "\n".join(
            f"    case {upper}_GAIT_{word.upper()}:\n        {name}_core_select_gait(&e, &gait_{word});\n        break;"
            for word in gaits
        ),
        "MEMORYFUNCTIONS": memory_functions,
        "DEFINITIONS": "\n\n".join([*data.definitions, *limits_data.definitions]),
        "FEET": c_string_list(FEET),
        "HOME": define_constant_array(f"{name}_home", robot.q_home),
        "MODENAMES": c_string_list(tuple(LocomotionMode.from_code(code).value for code in ModeCode)),
        "REASONS": c_string_list(tuple(REASON_TEXTS.get(reason, "") for reason in LimitReason)),
        "SIGNS": c_string_list(tuple(SIGN_TEXTS[sign] or FALLEN for sign in FallSign)),
        "NOGROUND": c_string_list((NO_GROUND,)),
        "KKT": robot.nu + robot.nv + 6 * len(solver.names) + solver.tables.model.levels + 1,
        "PERIOD": repr(controller.dt),
    }
    files = {
        f"{name}.h": fill_template("walker.h", name, robot, parts),
        f"{name}.c": fill_template("walker.c", name, robot, parts),
        f"{name}_memory.h": memory_header,
        **core_files(embedded_walker.FUNCTIONS, "locomotion_embedded_embedded_walker", name, "Computation of a tick."),
        f"{name}_terms.h": terms.header,
        f"{name}_terms.c": terms.source,
    }
    parts |= {
        "ABOUT": "locomotion",
        "CONTENT": "gait, footholds, balance, contacts, falls, whole-body control",
        "VARIABLES": ", velocity[3] = {0.3, 0.0, 0.0}",
        "CALL": "velocity, NULL",
        "INPUTS": "(const double[3]){0.0}, (const unsigned char[4]){1, 1, 1, 1}",
        "TORQUES": "Except for the velocity limit on slopes, the torques are those of\nthe Python package, up to fused "
        "products and sums.",
        "SETTERS": f"`velocity` is requested in the heading frame. `{name}.h` says which gaits there are.",
    }
    files |= standing_program(name, robot, parts, data, limits_data)
    return _written(SourceFiles(name, files), folder)


def _feasible_gaits(controller: LocomotionController) -> list[Gait]:
    """Returns the gaits that a robot can perform."""
    out = []
    for gait in dict.fromkeys((controller.gait, *GAITS.values())):
        try:
            controller._quadruped.capability.require_feasible(gait, controller.friction)
        except QuaddynError:
            continue
        out.append(gait)
    return out


def export_program(
    controller: WholeBodyController | LocomotionController,
    folder: Folder,
    *,
    estimator: BaseEstimator | None = None,
    safety: Safety | None = None,
    name: str | None = None,
) -> SourceFiles:
    """Writes a program that controls a robot in another process, such as `RobotProcess`, through shared memory.

    Writes the C files of state estimator, controller, safety layer and interface, see their exports, an example
    ``main.c``, and ``CMakeLists.txt``.  With a `LocomotionController` the robot walks with a velocity that is given as
    arguments of the program; with a `WholeBodyController` it stands and pitches its trunk.

    Args:
        controller: controller of a robot with a free root and feet: a `WholeBodyController` with the default tasks, see
            `quaddyn.wbc.export_c`, or a `LocomotionController`, see `export_walker`.
        folder: folder to write to, created if it does not exist; None: nothing is written.
        estimator: estimator of the same robot and period; None: one with default noise.
        safety: safety layer of the same robot and period; None: one with default limits.
        name: prefix of files and functions; None: the name of the robot.

    Returns:
        The files.

    Raises:
        ArgumentError: `estimator` or `safety` has another robot or period, `controller` cannot be exported, or `name`
            is not a C identifier.
        OSError: a file cannot be written.
    """
    name, files, parts = _controller_files(controller, estimator, safety, name)
    robot, walks = controller.robot, isinstance(controller, LocomotionController)
    files |= export_interface(robot, None, name=f"{name}_interface").files
    parts |= {
        "SOURCES": " ".join(sorted(file for file in files if file.endswith(".c"))),
        "MOTIONTEXT": "The robot walks." if walks else "The robot stands and pitches its trunk.",
        "ARGUMENTS": " [FORWARD LEFT TURN]" if walks else "",
        "ABOUT": "State estimator, controller, safety layer and interface of a robot",
        "PROGRAM": "drive",
    }
    motion = "drive_walk.c" if walks else "drive_stand.c"
    parts["MOTIONCODE"] = fill_template(motion, name, robot, parts).rstrip("\n")
    parts["RESULT"] = fill_template("drive_result.c", name, robot) if walks else ""
    files["main.c"] = fill_template("drive_main.c", name, robot, parts)
    files["CMakeLists.txt"] = fill_template("CMakeLists.txt", name, robot, parts)
    return _written(SourceFiles(name, files), folder)


#: Files of a ROS 2 package by their templates.
_ROS2_FILES = {
    "package.xml": "package.xml",
    "CMakeLists.txt": "CMakeLists.txt",
    "README.md": "README.md",
    "plugin.xml": "{}_plugin.xml",
    "controllers.yaml": "config/{}_controllers.yaml",
    "drive.hpp": "src/{}_drive.hpp",
    "controller.cpp": "src/{}_controller.cpp",
    "node.cpp": "src/{}_node.cpp",
}


def export_ros2(
    controller: WholeBodyController | LocomotionController,
    folder: Folder,
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
        The files.

    Raises:
        ArgumentError: `estimator` or `safety` has another robot or period, the rate of `controller` is not a whole
            number of hertz or it cannot be exported, or `name` is not a C identifier.
        OSError: a file cannot be written.
    """
    name, c_files, parts = _controller_files(controller, estimator, safety, name, lower=True)
    robot = controller.robot
    rate = round(1.0 / controller.dt)
    if abs(rate * controller.dt - 1.0) > 1e-6:
        raise ArgumentError(
            f"controller: ros2_control runs at a whole number of hertz, but the period is {controller.dt:g} s; create "
            f"it with dt=1/{rate}"
        )
    words = "".join(word.capitalize() for word in name.split("_"))
    limits = [float(x) for x in robot.effort_limits]
    parts |= {
        "CLASS": f"{words}Controller",
        "NODE": f"{words}ControllerNode",
        "RATE": rate,
        "LIMITS": ", ".join("infinity" if x == float("inf") else repr(x) for x in limits),
        "SOURCES": " ".join(sorted(f"src/{file}" for file in c_files if file.endswith(".c"))),
    }
    files = {f"src/{file}": text for file, text in c_files.items()}
    files |= {
        file.format(name): fill_template(f"ros2/{template}", name, robot, parts)
        for template, file in _ROS2_FILES.items()
    }
    return _written(SourceFiles(name, files), folder)


def _controller_files(
    controller: WholeBodyController | LocomotionController,
    estimator: BaseEstimator | None,
    safety: Safety | None,
    name: str | None,
    *,
    lower: bool = False,
) -> tuple[str, dict[str, str], dict[str, object]]:
    """Returns prefix, C files of controller, estimator, safety layer and their drive, and texts of placeholders.

    Arguments and errors are those of `export_program`; with `lower` the prefix is converted to lower case.
    """
    if not isinstance(controller, WholeBodyController | LocomotionController):
        raise ArgumentTypeError(
            "controller: expected a WholeBodyController or a LocomotionController, got " + type(controller).__name__
        )
    robot, walks = controller.robot, isinstance(controller, LocomotionController)
    name = validate_c_name(name, robot.name)
    name = name.lower() if lower else name
    if robot.root != "free" or not robot.feet:
        raise ArgumentError(
            f"controller: the program requires a free root and feet, which {robot.name!r} does not have"
        )
    estimator = BaseEstimator(robot, dt=controller.dt) if estimator is None else estimator
    safety = Safety(robot, dt=controller.dt) if safety is None else safety
    for argument, part in (("estimator", estimator), ("safety", safety)):
        if part.robot is not robot or part.dt != controller.dt:
            raise ArgumentError(f"{argument}: expected the robot and the period of the controller; create it with them")
    if isinstance(controller, LocomotionController):
        source = export_walker(controller, None, name=f"{name}_walker").files
    else:
        source = controller_c(controller, name=f"{name}_wbc").files
    files = {file: text for file, text in source.items() if file.endswith((".c", ".h")) and file != "main.c"}
    files |= export_safety(safety, None, name=f"{name}_safety").files
    files |= export_estimator(estimator, None, name=f"{name}_estimator").files
    parts: dict[str, object] = {
        "KIND": "walker" if walks else "wbc",
        "LAW": "locomotion controller" if walks else "whole-body controller",
        "DAMPING": ", ".join(map(repr, safety.limit_arrays.fault_damping.tolist())),
        "MAXDELAY": repr(MAX_COMPENSATED_DELAY),
    }
    if walks:
        parts["FOOTINDEX"] = _numbers([robot.feet.index(foot) for foot in FEET])
        parts["CONTACTFORCE"] = repr(measured_contact_force(robot))
    motion = "drive_walking.c" if walks else "drive_standing.c"
    parts["MOTION"] = fill_template(motion, name, robot, parts).rstrip("\n")
    files |= {f"{name}_{file}": fill_template(file, name, robot, parts) for file in ("drive.h", "drive.c")}
    return name, files, parts


def _numbers(values: Iterable[Any]) -> str:
    """Returns integers as the entries of a C array."""
    return ", ".join(str(int(x)) for x in values)


def _written(source: SourceFiles, folder: Folder) -> SourceFiles:
    """Returns source files after writing them to a folder, unless it is None."""
    if folder is not None:
        source.write(folder)
    return source
