"""`quaddyn log`: shows, plots, replays, compares and converts recordings of control loops and logs of simulations."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.markup import escape

from ..errors import ArgumentError
from .app import LOOPBACK_ADDRESS, HostOption, JsonOption, PackagesOption, PortOption, RecordOption, app
from .console import PAGE_ENDINGS, check_writable, err, out, page_addresses, print_text, wait_for_interrupt
from .options import COMPLETIONS, renamed_commands

if TYPE_CHECKING:
    from ..robot.robot import Robot
    from ..urdf.tree import Array

log_app = typer.Typer(
    cls=renamed_commands("log", {"export-mcap": "mcap", "motors": "fit-actuators"}),
    no_args_is_help=True,
    help="Show, plot, view, replay, compare and convert recordings of control loops and logs of simulations.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(log_app, name="log")

FileArgument = Annotated[Path, typer.Argument(help="file of a recording", dir_okay=False)]
LogArgument = Annotated[Path, typer.Argument(help="file of a recording or of a log of a simulation", dir_okay=False)]


class EncodingName(StrEnum):
    """Encodings of the messages of an MCAP file."""

    ros2 = "ros2"
    json = "json"


#: Frames per second of the viewer, equal to the call rate of `wait_for_interrupt`.
FPS = 30.0


@log_app.command()
def show(file: LogArgument, as_json: JsonOption = False) -> None:
    """Summarize a log: statuses and, of recordings, stages, faults and lateness of the ticks."""
    from ..runtime import load_log
    from ..simulation import Log

    log = load_log(file)
    if not as_json:
        print_text(str(log))
    elif isinstance(log, Log):
        start = log.initial_checkpoint
        report = {"robot": start.robot, "dt": start.dt * log.steps_per_tick, "root": log.root, "ticks": len(log.time)}
        out.print_json(json.dumps({**report, "statuses": dict(Counter(filter(None, log.status)))}))
    else:
        metadata = {**log.metadata, "robot": log.name}
        stages = [stage.value for stage in log.stages]
        counts = {name: stages.count(name) for name in dict.fromkeys(stages)}
        out.print_json(
            json.dumps(
                {**metadata, "ticks": len(log), "stages": counts, "statuses": log.statuses, "faults": log.faults}
            )
        )


@log_app.command()
def plot(
    file: LogArgument,
    to: Annotated[Path, typer.Option("--out", help="PNG, PDF or SVG file to write")] = Path("log.png"),
) -> None:
    """Draw positions, velocities, torques, forces and, of recordings, lateness over time."""
    from ..demo.report import KINDS
    from ..runtime import load_log

    check_writable(to, KINDS)
    load_log(file).plot(to)
    print_text(f"wrote {to}")


@log_app.command()
def csv(
    file: LogArgument, to: Annotated[Path, typer.Option("--out", help="CSV file to write")] = Path("log.csv")
) -> None:
    """Write all quantities of a log as a table, whose columns are named with units."""
    from ..runtime import load_log

    check_writable(to, (".csv",))
    print_text(f"wrote {load_log(file).to_csv(to)}")


@log_app.command()
def parquet(
    file: LogArgument, to: Annotated[Path, typer.Option("--out", help="Parquet file to write")] = Path("log.parquet")
) -> None:
    """Write all quantities of a log as Parquet, for pandas and others; needs the extra quaddyn[export]."""
    from ..runtime import load_log

    check_writable(to, (".parquet",))
    print_text(f"wrote {load_log(file).to_parquet(to)}")


@log_app.command()
def mcap(
    file: LogArgument,
    to: Annotated[Path, typer.Option("--out", help="MCAP file to write")] = Path("log.mcap"),
    encoding: Annotated[
        EncodingName, typer.Option(help="encoding of the messages; rosbag2 reads ros2 only")
    ] = EncodingName.ros2,
) -> None:
    """Write a log as MCAP, for Foxglove, PlotJuggler and rosbag2; needs the extra quaddyn[mcap]."""
    from ..runtime import load_log

    check_writable(to, (".mcap",))
    print_text(f"wrote {load_log(file).to_mcap(to, encoding=encoding.value)}")


@log_app.command()
def view(
    file: LogArgument,
    record: RecordOption = None,
    robot: Annotated[
        str | None,
        typer.Option(
            "--robot",
            metavar="NAME|FILE",
            help="robot file with the meshes; default: the model in the log",
            autocompletion=COMPLETIONS["robot"],
        ),
    ] = None,
    package: PackagesOption = None,
    port: PortOption = 0,
    host: HostOption = LOOPBACK_ADDRESS,
) -> None:
    """Play a log in the browser: state, torques, contact forces, stage, faults, status and mode.

    Recordings of robots show measured torques, else the commanded ones, and measured foot forces as vertical forces.
    """
    from ..runtime import load_log
    from ..simulation import Log
    from ..viewer import Viewer

    check_writable(record, PAGE_ENDINGS)
    log = load_log(file)
    times = log.time if isinstance(log, Log) else log.records["begun"]
    if not len(times):
        raise ArgumentError(f"{file}: the log contains no ticks")
    model, start_time = log.robot(robot, packages=package or ()), float(times[0])
    name = log.initial_checkpoint.robot if isinstance(log, Log) else log.name
    dt = log.initial_checkpoint.dt * log.steps_per_tick if isinstance(log, Log) else log.metadata["dt"]
    frames = range(0, len(times), max(1, round(1.0 / (FPS * dt))))
    commanded_torques = log.tau if isinstance(log, Log) else log.commanded_torques
    with Viewer(model, open_browser=record is None, fps=FPS, port=port, host=host) as viewer:

        def show_tick(i: int) -> None:
            forces = None
            if isinstance(log, Log):
                q, v, tau = log.q[i], log.v[i], log.tau[i]
                caption_parts = [texts[i] for texts in log.text_columns().values()]
                forces = {foot: log.forces[i, s] for s, foot in enumerate(log.spheres) if foot in model.feet}
            else:
                records = log.records
                q, v = log.state(i, model)
                tau = records["torque"][i] if np.isfinite(records["torque"][i]).all() else commanded_torques[i]
                tau = np.where(np.isfinite(tau), tau, 0.0)
                caption_parts = [log.stages[i].value, records["status"][i].decode(), records["reason"][i].decode()]
                if v is None and model.root == "free" and model.legs:
                    put_feet_on_floor(model, q)
                    caption_parts.append("base not estimated")
                if np.isfinite(records["foot_forces"][i]).all():
                    forces = {
                        foot: np.array([0.0, 0.0, force])
                        for foot, force in zip(log.metadata["feet"], records["foot_forces"][i], strict=True)
                    }
            text = " | ".join(word for word in caption_parts if word)
            viewer.show(q, v=v, tau=tau, forces=forces, caption=text, time=float(times[i]) - start_time)

        for missing_mesh in viewer.missing_meshes:
            err.print(f"[yellow]not drawn:[/] {escape(str(missing_mesh))}", highlight=False)
        if record is not None:
            for i in frames:
                show_tick(i)
            viewer.record(record, title=f"{name}, {file.name}")
            print_text(f"wrote {record}")
            return
        print_text(f"{name} at {page_addresses(viewer)}; press Ctrl-C to quit")
        frame_cycle = itertools.cycle(frames)

        def show_next() -> None:
            viewer.wait_while_paused()
            if (i := next(frame_cycle)) == 0:
                viewer.clear_recording()
            show_tick(i)

        wait_for_interrupt(show_next)


def put_feet_on_floor(robot: Robot, q: Array) -> None:
    """Changes the height of the base in a configuration (nq,) so that the lowest foot touches the floor z = 0."""
    from ..dynamics import Dynamics

    dynamics, feet = Dynamics(robot), [leg.foot for leg in robot.legs.values()]
    q[2] -= min(dynamics.frame_placement(q, foot.name).translation[2] - foot.radius for foot in feet)


@log_app.command()
def replay(file: FileArgument, as_json: JsonOption = False) -> None:
    """Repeat the recorded ticks with the recorded readings; exit code 1 if any command differs by any bit."""
    from ..runtime import load_recording

    log_replay = load_recording(file).replay()
    if as_json:
        counts = {
            "ticks": log_replay.ticks,
            "differing": log_replay.n_different,
            "largest": log_replay.max_difference,
            "first": log_replay.first_different,
        }
        out.print_json(json.dumps({**counts, "identical": log_replay.identical}))
    else:
        same = "all identical"
        different = (
            f"{log_replay.n_different} of them differ, from tick {log_replay.first_different}, torques by up to "
            f"{log_replay.max_difference:.3g} N m"
        )
        print_text(f"{log_replay.ticks} ticks computed again: {same if log_replay.identical else different}")
    if not log_replay.identical:
        raise typer.Exit(1)


@log_app.command()
def compare(file: FileArgument, other: FileArgument, as_json: JsonOption = False) -> None:
    """Compare two recordings tick by tick; exit code 1 if they differ."""
    from ..runtime import load_recording

    differences = load_recording(file).compare(load_recording(other))
    if as_json:
        out.print_json(json.dumps(differences))
    else:
        for name, difference in differences.items():
            print_text(f"{name:<24} {difference:.3g}")
    if any(differences.values()):
        raise typer.Exit(1)


@log_app.command()
def fit_actuators(
    file: FileArgument,
    to: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.json", help="write the motors for Actuators.load")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fit delay and torque-speed line of every motor to the commanded and motor torques of a recording.

    To fit friction, joint torques are needed as well: see quaddyn.identification.fit_actuators.
    """
    from ..runtime import load_recording

    check_writable(to, (".json",))
    log = load_recording(file)
    fit = log.fit_actuators()
    if to is not None:
        fit.actuators(log.robot(), period=log.metadata["dt"]).save(to)
    if not as_json:
        print_text(str(fit))
        if to is not None:
            print_text(f"wrote {to}")
        return
    table = {name: getattr(fit, name).tolist() for name in fit.__slots__ if name != "names"}
    finite_values = {name: [x if np.isfinite(x) else None for x in row] for name, row in table.items()}
    out.print_json(json.dumps({"joints": list(fit.names), **finite_values}))
