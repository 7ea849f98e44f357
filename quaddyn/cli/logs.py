"""`quaddyn log`: what a loop has recorded."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape

from ..errors import ArgumentError
from .app import PackagesOption, PortOption, app
from .console import check_writable, err, out, say, wait_for_interrupt
from .renamed_options import renamed_commands

log_app = typer.Typer(
    cls=renamed_commands("log", {"mcap": "export-mcap", "motors": "fit-actuators"}),
    no_args_is_help=True,
    help="Recordings of quaddyn.runtime.Recording: show, plot, view, replay, compare, convert, fit motors.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(log_app, name="log")

FileArgument = Annotated[Path, typer.Argument(help="a recording", dir_okay=False)]
#: Pictures a second, those of `wait_for_interrupt`.
FPS = 30.0
JsonOption = Annotated[bool, typer.Option("--json", help="machine-readable report")]


@log_app.command()
def show(file: FileArgument, as_json: JsonOption = False) -> None:
    """Say what a recording holds: stages, faults, lateness."""
    from ..runtime import load_recording

    log = load_recording(file)
    if as_json:
        about = {**log.metadata, "robot": log.name}
        stages = [stage.value for stage in log.stages]
        counts = {name: stages.count(name) for name in dict.fromkeys(stages)}
        out.print_json(
            json.dumps({**about, "ticks": len(log), "stages": counts, "statuses": log.statuses, "faults": log.faults})
        )
    else:
        say(str(log))


@log_app.command()
def plot(
    file: FileArgument,
    to: Annotated[Path, typer.Option("--out", help="PNG, PDF or SVG file to write")] = Path("log.png"),
) -> None:
    """Draw positions, velocities, torques, foot forces and lateness over time."""
    from ..runtime import load_recording

    check_writable(to)
    say(f"wrote {load_recording(file).plot(to)}")


@log_app.command()
def view(
    file: FileArgument,
    record: Annotated[Path | None, typer.Option(help="write a self-contained HTML file and exit")] = None,
    robot: Annotated[
        str | None, typer.Option("--robot", metavar="NAME|FILE", help="the robot's own file, for its meshes")
    ] = None,
    package: PackagesOption = None,
    port: PortOption = 0,
) -> None:
    """Play a recording in the browser: where the controller believed the robot to be, torques, stage and faults."""
    from ..runtime import load_recording
    from ..viewer import Viewer

    check_writable(record)
    log = load_recording(file)
    if not len(log):
        raise ArgumentError(f"{file}: holds no tick")
    machine = log.robot(robot, packages=package or ())
    r, began = log.records, float(log.records["begun"][0])
    frames = range(0, len(log), max(1, round(1.0 / (FPS * log.metadata["dt"]))))
    with Viewer(machine, open_browser=record is None, fps=FPS, port=port) as viewer:

        def show_tick(i: int) -> None:
            q, v = log.state(i, machine)
            words = [log.stages[i].value, r["status"][i].decode(), r["reason"][i].decode()]
            given = np.where(np.isfinite(r["command_tau"][i]), r["command_tau"][i], 0.0)
            text = " | ".join(word for word in words if word)
            viewer.show(q, v=v, tau=given, caption=text, time=float(r["begun"][i]) - began)

        for missing in viewer.missing_meshes:
            err.print(f"[yellow]not drawn:[/] {escape(str(missing))}", highlight=False)
        if record is not None:
            for i in frames:
                show_tick(i)
            viewer.record(record, title=f"{log.name}, {file.name}")
            say(f"wrote {record}")
            return
        say(f"{log.name} at {viewer.url}; Ctrl-C ends")
        turn = itertools.cycle(frames)

        def go_on() -> None:
            viewer.wait_while_paused()
            if (i := next(turn)) == 0:
                viewer.clear_recording()
            show_tick(i)

        wait_for_interrupt(go_on)


@log_app.command()
def export_mcap(
    file: FileArgument,
    to: Annotated[Path, typer.Option("--out", help="MCAP file to write")] = Path("log.mcap"),
) -> None:
    """Write a recording as MCAP, for Foxglove and PlotJuggler."""
    from ..runtime import load_recording

    check_writable(to)
    say(f"wrote {load_recording(file).to_mcap(to)}")


@log_app.command()
def replay(file: FileArgument, as_json: JsonOption = False) -> None:
    """Feed the recorded readings to the controller again; exit code 1 if a command is another one by a bit."""
    from ..runtime import load_recording

    again = load_recording(file).replay()
    if as_json:
        found = {
            "ticks": again.ticks,
            "differing": again.n_different,
            "largest": again.max_difference,
            "first": again.first_different,
        }
        out.print_json(json.dumps({**found, "identical": again.identical}))
    else:
        same = "all the same bit for bit"
        differ = (
            f"{again.n_different} of them differ, from tick {again.first_different}, torques by up to "
            f"{again.max_difference:.3g} N m"
        )
        say(f"{again.ticks} ticks computed again: {same if again.identical else differ}")
    if not again.identical:
        raise typer.Exit(1)


@log_app.command()
def compare(file: FileArgument, other: FileArgument, as_json: JsonOption = False) -> None:
    """Compare two recordings tick by tick; exit code 1 if they differ."""
    from ..runtime import load_recording

    found = load_recording(file).compare(load_recording(other))
    if as_json:
        out.print_json(json.dumps(found))
    else:
        for name, gap in found.items():
            say(f"{name:<24} {gap:.3g}")
    if any(found.values()):
        raise typer.Exit(1)


@log_app.command()
def fit_actuators(file: FileArgument, as_json: JsonOption = False) -> None:
    """Fit delay and torque-speed line of every motor to a recording, from torques as the motors measure them.

    Friction needs the torques at the joints as well: see quaddyn.identification.fit_actuators.
    """
    from ..runtime import load_recording

    found = load_recording(file).fit_actuators()
    if not as_json:
        say(str(found))
        return
    table = {name: getattr(found, name).tolist() for name in found.__slots__ if name != "names"}
    known = {name: [x if np.isfinite(x) else None for x in row] for name, row in table.items()}
    out.print_json(json.dumps({"joints": list(found.names), **known}))
