"""`quaddyn view`, `quaddyn demo` and `quaddyn leg`: commands that show robots in the viewer."""

from __future__ import annotations

import json
import math
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ..errors import ArgumentError, UnknownNameError
from .app import (
    EXIT_INTERRUPTED_AFTER_REPORT,
    EXIT_REDUCED,
    LOOPBACK_ADDRESS,
    HostOption,
    JsonOption,
    PackagesOption,
    PlantOption,
    PortOption,
    RecordOption,
    RobotArgument,
    RobotOption,
    RootOption,
    app,
)
from .console import (
    PAGE_ENDINGS,
    check_writable,
    err,
    is_terminal,
    out,
    page_addresses,
    print_text,
    progress,
    progress_bar,
    wait_for_interrupt,
)
from .loading import load_robot
from .options import COMPLETIONS, renamed_options
from .tables import demo_json, legs_json, print_demo, print_legs, print_reduced_requests

if TYPE_CHECKING:
    from ..demo import RequestedValue
    from ..kinematics import LegKinematics


@app.command()
def view(
    source: RobotArgument,
    root: RootOption = None,
    package: PackagesOption = None,
    record: RecordOption = None,
    frames: Annotated[bool, typer.Option(help="draw the axes of base and feet")] = False,
    port: PortOption = 0,
    host: HostOption = LOOPBACK_ADDRESS,
) -> None:
    """Show a robot in its home configuration in the browser, with a slider for every joint."""
    from ..viewer import JointSliders, Viewer

    check_writable(record, PAGE_ENDINGS)
    robot = load_robot(source, root=root, packages=package or ())
    with Viewer(robot, open_browser=record is None, port=port, host=host) as viewer:
        if frames:
            viewer.show_frames((robot.tree.root.name, *robot.feet))
        viewer.show(robot.q_home, show_com=True)
        for missing in viewer.missing_meshes:
            err.print(f"[yellow]not drawn:[/] {escape(str(missing))}", highlight=False)
        if record is not None:
            viewer.record(record)
            print_text(f"wrote {record}")
            return
        print_text(f"{robot.name} at {page_addresses(viewer)}; press Ctrl-C to quit")
        sliders = JointSliders(viewer)
        wait_for_interrupt(sliders.update)


@app.command(cls=renamed_options("demo", {"--drive": "--teleop", "--ground": "--terrain"}))
def demo(
    robot: RobotOption = "go2",
    root: RootOption = None,
    package: PackagesOption = None,
    gait: Annotated[
        str | None,
        typer.Option(
            help="stand, crawl, walk, trot, pace, bound, running_trot, pronk or gallop; squat or swing: no locomotion",
            autocompletion=COMPLETIONS["gait"],
        ),
    ] = None,
    plant: PlantOption = "embedded",
    velocity: Annotated[
        str | None, typer.Option(metavar="VX,VY,WZ", help="forward, leftward [m/s] and yaw rate [rad/s]")
    ] = None,
    terrain: Annotated[
        str | None,
        typer.Option(
            metavar="KIND=NUMBERS",
            help="slope=DEGREES[,DIRECTION], stairs=RISE,TREAD or waves=HEIGHT,LENGTH [m]; default: a level floor",
            autocompletion=COMPLETIONS["terrain"],
        ),
    ] = None,
    blind: Annotated[bool, typer.Option("--blind", help="the controller has no terrain map")] = False,
    push: Annotated[
        list[str] | None,
        typer.Option(metavar="N@T", help="push of N newtons to the left for 0.1 s at the time T [s]; repeatable"),
    ] = None,
    jump: Annotated[
        str | None,
        typer.Option(
            metavar="HEIGHT[,FORWARD[,DEGREES]]",
            help="jump once: height and distance [m], turn in degrees; height 0: chosen by the jump plan",
        ),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, max=3600.0, help="simulated time [s]; default: 8, or 3600 with --teleop")
    ] = None,
    teleop: Annotated[
        bool,
        typer.Option(
            "--teleop", help="command the robot by keys or a gamepad on the live page until Ctrl-C; sliders set gains"
        ),
    ] = False,
    headless: Annotated[bool, typer.Option("--headless", help="no viewer, as fast as possible")] = False,
    port: PortOption = 0,
    host: HostOption = LOOPBACK_ADDRESS,
    record: Annotated[Path | None, typer.Option(help="write the motion as a self-contained HTML file")] = None,
    video: Annotated[
        Path | None, typer.Option(help="write the motion as .mp4 or .webm, drawn by a browser without a window")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="write torques, forces, velocity and height as PNG, PDF or SVG (extra: plot)")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Simulate a quadruped that stands up, trots and stops, in the viewer; print measured figures and checks.

    A robot that is not a quadruped with a free root, or cannot step sideways, squats; one with a fixed root swings its
    joints. Exit code 0 if all checks passed; 3 if they passed, but limits reduced a requested velocity or jump by more
    than 10 %.
    """
    os.environ.setdefault("MUJOCO_GL", "disable")  # MuJoCo renders nothing here, so its OpenGL need not be loaded
    from .. import demo as demos
    from ..locomotion import GAITS
    from ..verification import cross_check

    check_writable(record, PAGE_ENDINGS)
    for path in (video, plot):
        check_writable(path)
    if video is not None:
        from ..viewer import check_video

        check_video(video)
    demos.check_plot(plot)
    demos.check_plant(plant)
    model = load_robot(robot, root=root, packages=package or ())
    is_locomotion = demos.supports_locomotion(model) if gait is None else gait not in ("squat", "swing")
    if not is_locomotion:
        motion = "swing" if model.root == "fixed" else "squat"
        if gait not in (None, motion):
            raise ArgumentError(f"--gait: expected {motion} for {model.name} with root={model.root!r}, got {gait}")
    elif gait is not None and gait not in GAITS:
        raise UnknownNameError("gait", gait, (*GAITS, "squat", "swing"))
    if not is_locomotion and (
        velocity is not None or push or jump is not None or teleop or terrain is not None or plant != "embedded"
    ):
        raise ArgumentError(
            "--velocity, --terrain, --push, --jump, --teleop, --plant: accepted only for locomotion of a quadruped; "
            "remove these options, or pass --gait with a gait of locomotion"
        )
    if teleop and headless:
        raise ArgumentError("--teleop: requires the live viewer page, which receives the keys; remove --headless")
    if seconds is None:
        seconds = 3600.0 if teleop else 8.0
    requested_velocity = None if velocity is None else _parse_numbers("velocity", velocity, 3)
    pushes = [demos.Push.parse(text) for text in push or ()]
    jump_request = None if jump is None else demos.JumpRequest.parse(jump)
    with ExitStack() as stack:
        page = record
        if page is None and video is not None:
            page = Path(stack.enter_context(TemporaryDirectory())) / "page.html"
        viewer = None
        if not headless:
            from ..viewer import Viewer

            viewer = stack.enter_context(Viewer(model, open_browser=is_terminal(sys.stdout), port=port, host=host))
        with progress_bar("simulating", quiet=as_json) as tick:

            def on_start(requests: tuple[RequestedValue, ...]) -> None:
                """Prints the values that limits reduce, before anything else."""
                if not as_json:
                    print_reduced_requests(requests)

            page_lines = [] if viewer is None else [f"live view: {page_addresses(viewer)}"]
            banner = [] if as_json else [str(model), *page_lines]

            def on_progress(fraction: float) -> None:
                """Updates the progress bar; the first call, after validation of all arguments, prints the robot."""
                while banner:
                    print_text(banner.pop(0))
                tick(fraction)

            if is_locomotion:
                report = demos.run_locomotion_demo(
                    model,
                    gait=gait or "trot",
                    plant=plant,
                    velocity=requested_velocity,
                    pushes=pushes,
                    jump=jump_request,
                    terrain=terrain,
                    blind=blind,
                    duration=seconds,
                    viewer=viewer,
                    realtime=not headless,
                    teleop=teleop,
                    record=page,
                    plot=plot,
                    progress=on_progress,
                    on_start=on_start,
                )
            else:
                report = demos.run_squat_demo(
                    model,
                    duration=seconds,
                    viewer=viewer,
                    realtime=not headless,
                    record=page,
                    plot=plot,
                    progress=on_progress,
                )
            on_progress(1.0)
        if video is not None and page is not None:
            from ..viewer import render_video

            if not as_json:
                print_text(f"rendering {video}: every frame is drawn by the browser, which takes minutes")
            with progress_bar("rendering", quiet=as_json, prints_lines=True) as tick:
                render_video(page, video, progress=tick)
        with progress_bar("cross-checking", quiet=as_json) as tick:
            agreement = cross_check(model, samples=3, n_derivative_samples=0, progress=tick)
        passed = report.passed and agreement.passed
        if as_json:
            print(json.dumps({**demo_json(report), "agreement": agreement.to_json(), "passed": passed}, indent=2))
        else:
            print_demo(report, agreement)
            for path in (record, video, plot):
                if path is not None:
                    print_text(f"wrote {path}")
        if report.interrupted:
            raise typer.Exit(EXIT_INTERRUPTED_AFTER_REPORT)
        if viewer is not None and not teleop and is_terminal(sys.stdin) and is_terminal(sys.stdout):
            out.print("the view stays open until Ctrl-C")
            wait_for_interrupt()
    raise typer.Exit(1 if not passed else EXIT_REDUCED if report.reduced_requests else 0)


def _parse_numbers(name: str, text: str, count: int) -> list[float]:
    """Returns the numbers of an option with `count` values, separated by commas."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise ArgumentError(f"--{name}: expected {count} finite numbers, separated by commas; got {text!r}")
    return numbers


@app.command()
def leg(
    source: RobotArgument,
    name: Annotated[
        str | None,
        typer.Option(
            "--leg", metavar="NAME", help="leg, such as FL; default: all legs", autocompletion=COMPLETIONS["leg"]
        ),
    ] = None,
    root: RootOption = None,
    package: PackagesOption = None,
    seconds: Annotated[float, typer.Option(min=0.1, max=3600.0, help="duration of the animation [s]")] = 12.0,
    samples: Annotated[int, typer.Option(min=1, help="number of random targets of each leg")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="seed of the random targets")] = 0,
    record: Annotated[
        Path | None, typer.Option(help="write the animation as a self-contained HTML file and exit")
    ] = None,
    port: PortOption = 0,
    host: HostOption = LOOPBACK_ADDRESS,
    as_json: Annotated[bool, typer.Option("--json", help="machine-readable table, without animation")] = False,
) -> None:
    """Print limits, reach and inverse kinematics branches of the legs, and show them in the viewer.

    In the viewer, the foot follows a target on each branch in turn. Without --leg, the table has all legs, and the
    first one moves.
    """
    from ..kinematics import LegKinematics, survey_leg

    check_writable(record, PAGE_ENDINGS)
    robot = load_robot(source, root=root, packages=package or ())
    if not robot.legs:
        raise ArgumentError(f"{robot.name} has no legs; the command needs a robot with legs")
    legs = [LegKinematics(robot, n) for n in ([name] if name is not None else robot.legs)]
    surveys = [survey_leg(item, samples=samples, seed=seed) for item in progress(legs, "measuring")]
    if as_json:
        print(json.dumps(legs_json(robot, surveys), indent=2))
    else:
        print_legs(robot, surveys)
    if record is not None or not as_json:
        _show_leg(legs[0], seconds=seconds, record=record, port=port, host=host, quiet=as_json)


def _show_leg(item: LegKinematics, *, seconds: float, record: Path | None, port: int, host: str, quiet: bool) -> None:
    """Shows or records a leg that follows a target on each branch of its inverse kinematics."""
    from ..demo.leg import show_branches
    from ..viewer import Viewer

    live = record is None
    with Viewer(item.robot, serve=live, open_browser=live and is_terminal(sys.stdout), port=port, host=host) as viewer:
        if live:
            print_text(f"leg {item.name} follows a target: {page_addresses(viewer)}")
        viewer.clear_recording()
        with progress_bar("showing", quiet=quiet) as tick:
            show_branches(item, viewer, seconds=seconds, realtime=live, progress=tick)
        if record is not None:
            viewer.record(record, title=f"{item.robot.name}, leg {item.name}")
            if not quiet:
                print_text(f"wrote {record}")
        elif is_terminal(sys.stdin) and is_terminal(sys.stdout):
            out.print("the view stays open until Ctrl-C")
            wait_for_interrupt()
