"""`quaddyn codegen`: a robot's dynamics as C99 files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ArgumentError, UnknownNameError
from ..kernels.c_source import identifier
from ..robot import CATALOGUE, Robot, load
from .app import PackagesOption, RobotArgument, RootOption, app
from .console import progress, say

if TYPE_CHECKING:
    from ..runtime.c_files import SourceFiles


@app.command()
def codegen(
    source: RobotArgument,
    what: Annotated[
        str,
        typer.Option(
            help="operations, separated by commas: rnea, nle, gravity, crba, aba, ...; or one of: controller, "
            "safety, estimator, interface, program"
        ),
    ] = "rnea",
    out: Annotated[Path, typer.Option(help="folder to write to; made if it is missing", file_okay=False)] = Path(),
    frame: Annotated[list[str] | None, typer.Option(help="for operations about a frame; repeatable")] = None,
    force: Annotated[list[str] | None, typer.Option(help="frame at which a force acts; repeatable")] = None,
    single: Annotated[bool, typer.Option("--float", help="float instead of double")] = False,
    runtime: Annotated[bool, typer.Option(help="mass properties as an argument instead of constants")] = False,
    friction: Annotated[bool, typer.Option(help="joint friction is part of the dynamics")] = False,
    dt: Annotated[
        float | None,
        typer.Option(help="period of a controller, safety layer, ... [s]; 0.001 by default"),
    ] = None,
    root: RootOption = None,
    package: PackagesOption = None,
) -> None:
    """Write a robot's dynamics as C99: one function, one .c and one .h per operation; operation counts in the banner.

    The functions allocate nothing, call nothing but sin and cos, and have no branches.  "controller" is the whole-body
    controller as it is by default, with an example, CMakeLists.txt and a README; see `quaddyn.wbc.export_c` for others.
    "safety" is the safety layer with the robot's limits, to stand between it and the motors, "estimator" the state
    estimate, "interface" the packets of a robot in another process or behind UDP; "program" is all of these, and an
    example that drives such a robot.  See `quaddyn.runtime.export_safety` and the like.
    """
    from ..kernels import c_files
    from ..kernels.operations import RECIPES

    robot = load(source, root=root, packages=package or ())
    if what.strip() in WHOLE:
        if frame or force or single or runtime or friction:
            raise ArgumentError(f"--frame, --force, --float, --runtime, --friction: not of a {what.strip()}")
        if what.strip() == "interface" and dt is not None:
            raise ArgumentError("--dt: an interface has no period")
        WHOLE[what.strip()](robot, source, out, 1e-3 if dt is None else dt)
        return
    if dt is not None:
        raise ArgumentError("--dt: of a controller, safety layer, estimator or program alone")
    jobs: list[tuple[str, str | None]] = []
    for name in (x.strip() for x in what.split(",")):
        if name in WHOLE:
            raise ArgumentError(f"--what: {name} is written alone, not together with others")
        if name not in RECIPES:
            raise UnknownNameError("--what", name, (*RECIPES, *WHOLE))
        frames = frame or list(robot.feet)
        if RECIPES[name].framed:
            if not frames:
                raise ArgumentError(f"--frame: {robot.name!r} has no feet, so {name} needs the name of a frame")
            jobs += [(name, f) for f in frames]
        else:
            jobs.append((name, None))
    if frame and all(about is None for _, about in jobs):
        raise ArgumentError(f"--frame: of {what}, none is about a frame; a force acts where --force says")
    files = {}
    for name, about in progress(jobs, "tracing"):
        written = c_files(
            robot,
            name,
            dtype="float32" if single else "float64",
            parameters="runtime" if runtime else "folded",
            friction=friction,
            frame=about,
            forces=tuple(force or ()),
        )
        files[written.name] = written
    out.mkdir(parents=True, exist_ok=True)
    for written in files.values():
        (out / f"{written.name}.h").write_text(written.header, encoding="ascii")
        (out / f"{written.name}.c").write_text(written.source, encoding="ascii")
        counts = next(line for line in written.source.splitlines() if "Operations:" in line)
        say(f"{out / written.name}.c, .h: {counts.partition('Operations: ')[2]}")


def _controller(robot: Robot, source: str, out: Path, dt: float) -> None:
    """Write the default controller of a robot; called by its name in the catalogue where it has one."""
    from ..wbc import WholeBodyController, export_c

    written = export_c(WholeBodyController(robot, dt=dt), out, name=_name(robot, source, "wbc"))
    for file, text in written.files.items():
        say(f"{out / file}: {len(text) / 1000.0:.0f} kB")
    kilobytes = {what: f"{size / 1000.0:.0f} kB" for what, size in written.memory.items()}
    say(f"memory: {kilobytes['constant']} constant, {kilobytes['set']} set, {kilobytes['zero']} zero at the start")


def _safety(robot: Robot, source: str, out: Path, dt: float) -> None:
    """Write the safety layer of a robot, named like its controller."""
    from ..runtime import Safety, export_safety

    _tell(export_safety(Safety(robot, dt=dt), out, name=_name(robot, source, "safety")), out)


def _estimator(robot: Robot, source: str, out: Path, dt: float) -> None:
    """Write the state estimate of a robot."""
    from ..estimation import BaseEstimator
    from ..runtime import export_estimator

    _tell(export_estimator(BaseEstimator(robot, dt=dt), out, name=_name(robot, source, "estimator")), out)


def _interface(robot: Robot, source: str, out: Path, dt: float) -> None:
    """Write the packets of a robot."""
    from ..runtime import export_interface

    _tell(export_interface(robot, out, name=_name(robot, source, "interface")), out)


def _program(robot: Robot, source: str, out: Path, dt: float) -> None:
    """Write a program that drives a robot."""
    from ..runtime import export_program
    from ..wbc import WholeBodyController

    name = identifier(source if source in CATALOGUE else robot.name).lstrip("_")
    _tell(export_program(WholeBodyController(robot, dt=dt), out, name=name), out)
    say(f"cc -std=c99 -O2 {out}/*.c -lm -o {name}_drive")


def _tell(written: SourceFiles, out: Path) -> None:
    for file, text in written.files.items():
        say(f"{out / file}: {len(text) / 1000.0:.0f} kB")


def _name(robot: Robot, source: str, what: str) -> str:
    return identifier(f"{source if source in CATALOGUE else robot.name}_{what}").lstrip("_")


#: What is written whole, each by its own function.
WHOLE = {
    "controller": _controller,
    "safety": _safety,
    "estimator": _estimator,
    "interface": _interface,
    "program": _program,
}
