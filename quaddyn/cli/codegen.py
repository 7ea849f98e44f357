"""`quaddyn codegen`: a robot's dynamics as C99 files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ArgumentError, UnknownNameError
from ..robot import CATALOGUE, Robot
from .app import PackagesOption, RobotArgument, RootOption, app
from .console import print_text, progress
from .loading import load_robot
from .options import complete_from, renamed_options

if TYPE_CHECKING:
    from ..exports.source_files import SourceFiles


def _target_names() -> tuple[str, ...]:
    from ..kernels.operations import OPERATIONS

    return (*OPERATIONS, *TARGET_WRITERS)


@app.command(
    cls=renamed_options(
        "codegen",
        {
            "--float": "--single-precision",
            "--force": "--external-force",
            "--runtime": "--runtime-parameters",
            "--no-runtime": "--no-runtime-parameters",
            "--what": "--target",
        },
    )
)
def codegen(
    source: RobotArgument,
    target: Annotated[
        str,
        typer.Option(
            help="operations separated by commas, such as rnea, nle, gravity, crba, aba; or one of controller, walker, "
            "safety, estimator, interface, program, walking_program, ros2",
            autocompletion=complete_from(_target_names, several=True),
        ),
    ] = "rnea",
    out: Annotated[
        Path, typer.Option(help="folder to write to; created if it does not exist", file_okay=False)
    ] = Path(),
    frame: Annotated[list[str] | None, typer.Option(help="frame of operations such as frame_drift; repeatable")] = None,
    external_force: Annotated[
        list[str] | None, typer.Option(help="frame at which an external force acts; repeatable")
    ] = None,
    single_precision: Annotated[bool, typer.Option("--single-precision", help="use float instead of double")] = False,
    runtime_parameters: Annotated[
        bool, typer.Option(help="make mass properties an argument of the functions instead of constants")
    ] = False,
    friction: Annotated[bool, typer.Option(help="include joint friction in the dynamics")] = False,
    dt: Annotated[
        float | None,
        typer.Option(help="period of controller, walker, safety layer, estimator or program [s]; default: 0.001"),
    ] = None,
    root: RootOption = None,
    package: PackagesOption = None,
) -> None:
    """Write C99 code of a robot: one function, one .c and one .h file per operation, with operation counts.

    The functions allocate no memory, call only sin and cos, and have no branches. "controller" is the whole-body
    controller with default arguments, with an example, CMakeLists.txt and a README; see `quaddyn.wbc.export_c` for
    other controllers. "walker" is the locomotion controller on unknown terrain with its whole-body controller; see
    `quaddyn.runtime.export_walker`. "safety" is the safety layer with the limits of the robot, to be called between
    controller and motors; "estimator" is the state estimator; "interface" encodes and decodes the packets of a robot in
    another process or behind UDP. "program" has the controller and these three, with an example that controls such a
    robot; "walking_program" has the walker in place of the controller. "ros2" is a ROS 2 package with a controller
    plugin of ros2_control and a message node, with which a quadruped walks and another robot stands. See
    `quaddyn.runtime.export_safety` and the similar functions.
    """
    if out.suffix in (".c", ".h") and not out.is_dir():
        raise ArgumentError(f"--out: expected a folder, in which files are named after the robot, got {str(out)!r}")
    from ..kernels import c_files
    from ..kernels.operations import OPERATIONS

    robot = load_robot(source, root=root, packages=package or ())
    if target.strip() in TARGET_WRITERS:
        if frame or external_force or single_precision or runtime_parameters or friction:
            raise ArgumentError(
                "--frame, --external-force, --single-precision, --runtime-parameters, --friction: not accepted with "
                f"--target {target.strip()}; accepted only with operations such as rnea"
            )
        if target.strip() == "interface" and dt is not None:
            raise ArgumentError("--dt: not accepted with --target interface, which is not periodic; remove the option")
        TARGET_WRITERS[target.strip()](robot, source, out, 1e-3 if dt is None else dt)
        return
    if dt is not None:
        raise ArgumentError(
            f"--dt: not accepted with --target {target}; accepted only with controller, walker, safety, estimator, "
            "program, walking_program and ros2"
        )
    jobs: list[tuple[str, str | None]] = []
    for name in (x.strip() for x in target.split(",")):
        if name in TARGET_WRITERS:
            raise ArgumentError(
                f"--target: {name} cannot be combined with other targets, got {target}; call codegen once for each"
            )
        if name not in OPERATIONS:
            raise UnknownNameError("--target", name, (*OPERATIONS, *TARGET_WRITERS))
        frames = frame or list(robot.feet)
        if OPERATIONS[name].needs_frame:
            if not frames:
                raise ArgumentError(
                    f"--frame: required for {name}, because {robot.name!r} has no feet, which are the default; name "
                    "a frame of the robot"
                )
            jobs += [(name, f) for f in frames]
        else:
            jobs.append((name, None))
    if frame and all(about is None for _, about in jobs):
        raise ArgumentError(
            f"--frame: not accepted with --target {target}, which uses no frame; remove the option, or use "
            "--external-force for the frame at which a force acts"
        )
    files = {}
    for name, about in progress(jobs, "tracing"):
        written = c_files(
            robot,
            name,
            dtype="float32" if single_precision else "float64",
            parameters="runtime" if runtime_parameters else "folded",
            friction=friction,
            frame=about,
            forces=tuple(external_force or ()),
        )
        files[written.name] = written
    out.mkdir(parents=True, exist_ok=True)
    for written in files.values():
        (out / f"{written.name}.h").write_text(written.header, encoding="ascii")
        (out / f"{written.name}.c").write_text(written.source, encoding="ascii")
        counts = next(line for line in written.source.splitlines() if "Operations:" in line)
        print_text(f"{out / written.name}.c, .h: {counts.partition('Operations: ')[2]}")


def _controller(robot: Robot, source: str, out: Path, dt: float) -> None:
    """Writes the default whole-body controller of a robot."""
    from ..wbc import WholeBodyController, export_c

    written = export_c(WholeBodyController(robot, dt=dt), out, name=_name(robot, source, "wbc"))
    for file, text in written.files.items():
        print_text(f"{out / file}: {len(text) / 1000.0:.0f} kB")
    kilobytes = {what: f"{size / 1000.0:.0f} kB" for what, size in written.memory.items()}
    print_text(
        f"memory: {kilobytes['constant']} constant, {kilobytes['set']} set, {kilobytes['zero']} zero at the start"
    )


def _safety(robot: Robot, source: str, out: Path, dt: float) -> None:
    """Writes the safety layer of a robot."""
    from ..runtime import Safety, export_safety

    _print_files(export_safety(Safety(robot, dt=dt), out, name=_name(robot, source, "safety")), out)


def _estimator(robot: Robot, source: str, out: Path, dt: float) -> None:
    """Writes the state estimator of a robot."""
    from ..estimation import BaseEstimator
    from ..runtime import export_estimator

    _print_files(export_estimator(BaseEstimator(robot, dt=dt), out, name=_name(robot, source, "estimator")), out)


def _interface(robot: Robot, source: str, out: Path, dt: float) -> None:
    """Writes the packet encoder and decoder of a robot."""
    from ..runtime import export_interface

    _print_files(export_interface(robot, out, name=_name(robot, source, "interface")), out)


def _walker(robot: Robot, source: str, out: Path, dt: float) -> None:
    """Writes the default locomotion controller of a robot."""
    from ..locomotion import LocomotionController
    from ..runtime import export_walker

    _print_files(export_walker(LocomotionController(robot, dt=dt), out, name=_name(robot, source, "walker")), out)


def _program(robot: Robot, source: str, out: Path, dt: float, *, walks: bool = False) -> None:
    """Writes a program that controls a robot: controller, safety layer, estimator and interface."""
    from ..locomotion import LocomotionController
    from ..runtime import export_program
    from ..wbc import WholeBodyController

    name = _name(robot, source)
    controller = LocomotionController(robot, dt=dt) if walks else WholeBodyController(robot, dt=dt)
    _print_files(export_program(controller, out, name=name), out)
    print_text(f"cc -std=c99 -O2 {out}/*.c -lm -o {name}_drive")


def _walking_program(robot: Robot, source: str, out: Path, dt: float) -> None:
    """Writes a program with which a robot walks."""
    _program(robot, source, out, dt, walks=True)


def _print_files(written: SourceFiles, out: Path) -> None:
    """Prints the written files with their sizes."""
    for file, text in written.files.items():
        print_text(f"{out / file}: {len(text) / 1000.0:.0f} kB")


def _ros2(robot: Robot, source: str, out: Path, dt: float) -> None:
    """Writes a ROS 2 package, with which a quadruped walks and another robot stands."""
    from ..demo import supports_locomotion
    from ..locomotion import LocomotionController
    from ..runtime import export_ros2
    from ..wbc import WholeBodyController

    kind = LocomotionController if supports_locomotion(robot) else WholeBodyController
    _print_files(export_ros2(kind(robot, dt=dt), out, name=_name(robot, source)), out)


def _name(robot: Robot, source: str, what: str = "") -> str:
    """Returns the prefix of C identifiers: the catalogue name of the robot, or its own name, and `what`."""
    from ..exports.source_files import make_c_name

    name = source if source in CATALOGUE else robot.name
    return make_c_name(f"{name}_{what}" if what else name)


#: Targets other than single operations, and the function that writes each.
TARGET_WRITERS = {
    "controller": _controller,
    "walker": _walker,
    "safety": _safety,
    "estimator": _estimator,
    "interface": _interface,
    "program": _program,
    "walking_program": _walking_program,
    "ros2": _ros2,
}
