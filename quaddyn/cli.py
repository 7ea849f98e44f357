"""The `quaddyn` command: look at robots, judge files, run the demo, open the viewer."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from . import __version__
from .errors import ModelError, QuaddynError
from .robot import CATALOGUE, Robot, load

if TYPE_CHECKING:
    from .demo import DemoReport

T = TypeVar("T")

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Legged robots: URDF to trusted model, dynamics, torques, motion."
)
out, err = Console(), Console(stderr=True)

RobotArgument = Annotated[str, typer.Argument(metavar="NAME|FILE", help="a catalogue name or a URDF file")]
RootOption = Annotated[str | None, typer.Option(help="free, planar or fixed; default: what suits the robot")]
PackagesOption = Annotated[list[Path] | None, typer.Option("--package", help="a package root for meshes; repeatable")]


def main() -> None:
    """Entry point: errors of ours are one line on stderr and exit code 2."""
    try:
        app()
    except QuaddynError as error:
        err.print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


@app.callback(invoke_without_command=True)
def version_option(version: Annotated[bool, typer.Option("--version", help="print the version")] = False) -> None:
    """Legged robots: URDF to trusted model, dynamics, torques, motion."""
    if version:
        out.print(__version__)
        raise typer.Exit


@app.command()
def robots(as_json: Annotated[bool, typer.Option("--json", help="machine-readable output")] = False) -> None:
    """List the catalogue: degrees of freedom, mass, legs and feet of every robot."""
    rows = []
    for name, entry in _progress(list(CATALOGUE.items()), "loading"):
        robot = load(name)
        rows.append(
            {
                "name": name,
                "kind": entry.kind,
                "root": robot.root,
                "dof": robot.nv,
                "joints": robot.nu,
                "mass": round(robot.mass, 3),
                "legs": {n: leg.n for n, leg in robot.legs.items()},
                "feet": {n: leg.foot.frame for n, leg in robot.legs.items()},
            }
        )
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = Table(title=f"{len(rows)} robots: quaddyn.load(name)", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in ("name", "kind", "root", "dof", "mass [kg]"):
        table.add_column(column, justify="right" if column in ("dof", "mass [kg]") else "left", no_wrap=True)
    table.add_column("legs", justify="right", no_wrap=True)
    table.add_column("feet", no_wrap=True)
    for row in rows:
        legs = row["legs"]
        assert isinstance(legs, dict)
        joints = sorted(set(legs.values()))
        table.add_row(
            str(row["name"]),
            str(row["kind"]),
            str(row["root"]),
            str(row["dof"]),
            f"{row['mass']:.2f}",
            f"{len(legs)} x {', '.join(map(str, joints))}" if legs else "-",
            " ".join(legs) or "-",
        )
    out.print(table)


@app.command()
def check(
    source: Annotated[str | None, typer.Argument(metavar="NAME|FILE", help="a catalogue name or a URDF file")] = None,
    root: RootOption = None,
    package: PackagesOption = None,
    strict: Annotated[bool, typer.Option(help="warnings refuse the robot")] = False,
    everything: Annotated[bool, typer.Option("--all", help="judge the whole catalogue")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="machine-readable output")] = False,
) -> None:
    """Judge a robot: what the guard found, and the figures of its checks.  Exit code 1 if it is refused."""
    if everything == (source is not None):
        raise typer.BadParameter("give one NAME or FILE, or --all")
    names = list(CATALOGUE) if everything else [str(source)]
    results: list[tuple[str, Robot | None, str]] = []
    for name in _progress(names, "judging") if everything else names:
        try:
            results.append((name, load(name, root=root, packages=package or (), strict=strict), ""))
        except ModelError as error:
            results.append((name, None, str(error)))
    if as_json:
        print(json.dumps([_verdict(*r) for r in results], indent=2))
    elif everything:
        _print_summary(results)
    else:
        _print_report(*results[0])
    if any(robot is None for _, robot, _ in results):
        raise typer.Exit(1)


@app.command()
def view(
    source: RobotArgument,
    root: RootOption = None,
    package: PackagesOption = None,
    record: Annotated[Path | None, typer.Option(help="write a self-contained HTML file and exit")] = None,
    frames: Annotated[bool, typer.Option(help="draw the axes of base and feet")] = False,
) -> None:
    """Show a robot in its home configuration in the browser."""
    from .viewer import Viewer

    robot = load(source, root=root, packages=package or ())
    with Viewer(robot, open_browser=record is None) as viewer:
        if frames:
            viewer.show_frames((robot.tree.root.name, *robot.feet))
        viewer.show(robot.q_home, com=True)
        for missing in viewer.missing:
            err.print(f"[yellow]not drawn:[/] {escape(str(missing))}", highlight=False)
        if record is not None:
            viewer.record(record)
            out.print(f"wrote {record}")
            return
        out.print(f"{robot.name} at [link={viewer.url}]{viewer.url}[/link]; Ctrl-C ends", highlight=False)
        _wait_for_interrupt()


@app.command()
def demo(
    robot: Annotated[str, typer.Option("--robot", metavar="NAME|FILE", help="a catalogue name or a URDF file")] = "go2",
    root: RootOption = None,
    package: PackagesOption = None,
    seconds: Annotated[float, typer.Option(min=0.1, max=3600.0, help="simulated time [s]")] = 8.0,
    headless: Annotated[bool, typer.Option("--headless", help="no viewer, as fast as possible")] = False,
    record: Annotated[Path | None, typer.Option(help="write the motion as a self-contained HTML file")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="machine-readable report")] = False,
) -> None:
    """Stand and squat on torques computed by this package; the viewer shows it, a table proves it.

    Exit code 0 only if every check holds.
    """
    from . import demo as main_job

    machine = load(robot, root=root, packages=package or ())
    if not as_json:
        out.print(str(machine), highlight=False, soft_wrap=True)
    with ExitStack() as stack:
        viewer = None
        if not headless:
            from .viewer import Viewer

            viewer = stack.enter_context(Viewer(machine, open_browser=sys.stdout.isatty()))
            if not as_json:
                out.print(f"live view: [link={viewer.url}]{viewer.url}[/link]", highlight=False)
        with _bar("simulating", quiet=as_json) as tick:
            report = main_job.run(
                machine, seconds=seconds, viewer=viewer, realtime=not headless, record=record, progress=tick
            )
        if as_json:
            print(json.dumps(_demo_json(report), indent=2))
        else:
            _print_demo(report)
            if record is not None:
                out.print(f"wrote {record}", highlight=False)
        if viewer is not None and sys.stdin.isatty() and sys.stdout.isatty():
            out.print("the view stays open; Ctrl-C ends")
            _wait_for_interrupt()
    raise typer.Exit(0 if report.passed else 1)


# -- printing ------------------------------------------------------------------------------------------------------
def _verdict(name: str, robot: Robot | None, refusal: str) -> dict[str, object]:
    if robot is None:
        return {"source": name, "accepted": False, "reason": refusal}
    findings = [
        {"level": f.level, "where": str(f.where), "reason": f.reason, "advice": f.advice} for f in robot.report.findings
    ]
    return {
        "source": name,
        "accepted": True,
        "robot": robot.name,
        "root": robot.root,
        "findings": findings,
        "checks": dict(robot.report.checks),
    }


def _print_summary(results: list[tuple[str, Robot | None, str]]) -> None:
    table = Table(title="the guard's verdict on the catalogue")
    for column in ("name", "verdict", "warnings", "RNEA(ABA) error", "condition of M"):
        table.add_column(column, no_wrap=True, justify="left" if column in ("name", "verdict") else "right")
    for name, robot, refusal in results:
        if robot is None:
            table.add_row(name, f"[red]refused[/]: {escape(refusal)}", "", "", "")
            continue
        checks = robot.report.checks
        error, condition = checks["RNEA(ABA) error"], checks["condition of M (unit diagonal)"]
        table.add_row(name, "[green]accepted[/]", str(len(robot.report.warnings)), f"{error:.1e}", f"{condition:.1e}")
    out.print(table)


def _print_report(name: str, robot: Robot | None, refusal: str) -> None:
    if robot is None:
        out.print(f"[bold red]refused[/]: {escape(refusal)}", highlight=False, soft_wrap=True)
        return
    for finding in robot.report:
        color = "yellow" if finding.level == "warning" else "dim"
        out.print(
            f"[{color}]{finding.level}[/]: {escape(str(finding).partition(': ')[2])}", highlight=False, soft_wrap=True
        )
    out.print(f"[bold]{robot}[/]", highlight=False, soft_wrap=True)
    for leg in robot.legs.values():
        foot, source = leg.foot, robot.report.provenance[f"{leg.name}.radius"]
        out.print(
            f"  {leg.name}: {', '.join(leg.joints)}; knee {leg.knee} bends {leg.bend}", highlight=False, soft_wrap=True
        )
        out.print(
            f"      foot {foot.frame}, radius {foot.radius:.4g} m: {escape(source)}", highlight=False, soft_wrap=True
        )
    for label, value in robot.report.checks.items():
        out.print(f"  {label}: {value:.2e}", highlight=False)
    out.print(f"  warnings: {len(robot.report.warnings)}", highlight=False)
    out.print("[bold green]accepted[/]")


def _demo_json(report: DemoReport) -> dict[str, object]:
    values = {f.name: getattr(report, f.name) for f in fields(report)}
    # JSON knows no infinity: a limit that the file does not give is null.
    values["torques"] = {
        kind: {k: v if math.isfinite(v) else None for k, v in t._asdict().items()} for kind, t in report.torques.items()
    }
    values["checks"] = {name: check._asdict() for name, check in report.checks.items()}
    values["work"] = dict(report.work)
    return {**values, "passed": report.passed}


def _print_demo(report: DemoReport) -> None:
    table = Table(
        title=f"{report.robot}: {report.motion} for {report.seconds:g} s ({report.steps} steps)", show_header=False
    )
    table.add_column("quantity")
    table.add_column("value", overflow="fold")
    table.add_row("steps/s, control and plant", f"{report.steps_per_second:,.0f} ({report.cpu})")
    table.add_row("steps/s, plant alone", f"{report.plant_steps_per_second:,.0f}")
    for kind, torque in report.torques.items():
        limit = f" of {torque.limit:g}" if torque.limit < float("inf") else ", no limit given"
        table.add_row(f"torque {kind} [N m]", f"{torque.lowest:.2f} to {torque.highest:.2f}{limit}")
    if report.normal_force is not None and report.weight_mean is not None and report.weight_deviation is not None:
        low, high = report.normal_force
        table.add_row("normal force on a foot [N]", f"{low:.1f} to {high:.1f}")
        mean, worst = report.weight_mean, report.weight_deviation
        table.add_row(
            "sum of vertical forces / m g", f"{mean:.4f} on average, at most {worst:.3f} off ({report.weight:.1f} N)"
        )
    if report.base_height is not None:
        low, high = report.base_height
        table.add_row("base height [m]", f"{low:.3f} to {high:.3f}")
    work = ", ".join(f"{name} {value:.4g}" for name, value in report.work.items())
    table.add_row("energy change; work [J]", f"{report.energy_change:.4g}; {work}")
    table.add_section()
    for name, check in report.checks.items():
        unit = "" if check.unit == "1" else f" {escape(check.unit)}"
        mark = "[green]holds[/]" if check.passed else "[bold red]fails[/]"
        table.add_row(name, f"{check.value:.3g} <= {check.bound:.3g}{unit}  {mark}")
    out.print(table)
    out.print("[bold green]every check holds[/]" if report.passed else "[bold red]a check fails[/]")


# -- progress ------------------------------------------------------------------------------------------------------
def _progress(items: list[T], title: str) -> Iterator[T]:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, console=err, transient=True) as progress:
        yield from progress.track(items, description=title)


@contextmanager
def _bar(title: str, *, quiet: bool) -> Iterator[Callable[[float], None]]:
    """A progress bar on stderr; yields the callable that takes the share done."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=quiet) as progress:
        task = progress.add_task(title, total=1.0)
        yield lambda share: progress.update(task, completed=share)


def _wait_for_interrupt() -> None:
    try:
        while True:
            time.sleep(1.0)
    except KeyboardInterrupt:
        return
