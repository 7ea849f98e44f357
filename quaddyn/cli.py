"""The `quaddyn` command: look at robots, judge files, measure legs, run the demo, open the viewer."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO, TypeVar

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from . import __version__
from .errors import ArgumentError, ModelError, QuaddynError
from .robot import CATALOGUE, Robot, load

if TYPE_CHECKING:
    from .agreement import Agreement
    from .demo import DemoReport
    from .kinematics import LegKinematics, LegSurvey

T = TypeVar("T")

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Legged robots: URDF to trusted model, dynamics, torques, motion."
)
out, err = Console(), Console(stderr=True)

RobotArgument = Annotated[str, typer.Argument(metavar="NAME|FILE", help="a catalogue name or a URDF file")]
RootOption = Annotated[str | None, typer.Option(help="free, planar or fixed; default: what suits the robot")]
PackagesOption = Annotated[list[Path] | None, typer.Option("--package", help="a package root for meshes; repeatable")]


def main() -> None:
    """Entry point: errors of ours and of the file system are one line on stderr and exit code 2."""
    try:
        app()
    except (QuaddynError, OSError) as error:
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


def say(text: str) -> None:
    """Print as it is: names of robots and files are no markup."""
    out.print(text, markup=False, highlight=False, soft_wrap=True)


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
    everything: Annotated[bool, typer.Option("--all", help="check the whole catalogue")] = False,
    samples: Annotated[int, typer.Option(min=0, help="random states of the cross-check; 0: the guard alone")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="of the random states")] = 0,
    against: Annotated[str | None, typer.Option(metavar="NAME|FILE", help="what the reference reads instead")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="machine-readable output")] = False,
) -> None:
    """Judge a robot, then compare Pinocchio with the in-house reference, which reads the file on its own.

    Exit code 1 if the guard refuses it or an algorithm disagrees by more than its tolerance.  With --against, the
    reference reads that robot's file: a copy with other numbers is caught, and the links that differ are named.
    """
    if everything == (source is not None):
        raise typer.BadParameter("give one NAME or FILE, or --all")
    names = list(CATALOGUE) if everything else [str(source)]
    other = load(against, root=root, packages=package or ()).source if against is not None else None
    verdicts = []
    for name in _progress(names, "checking"):
        loaded = _load(name, root=root, package=package or [], strict=strict)
        verdicts.append(_cross_check(loaded, samples=samples, seed=seed, source=other) if samples else loaded)
    if as_json:
        print(json.dumps([v.to_json() for v in verdicts], indent=2))
    elif everything:
        _print_summary(verdicts)
    else:
        _print_report(verdicts[0])
    if not all(v.passed for v in verdicts):
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

    _check_writable(record)
    robot = load(source, root=root, packages=package or ())
    with Viewer(robot, open_browser=record is None) as viewer:
        if frames:
            viewer.show_frames((robot.tree.root.name, *robot.feet))
        viewer.show(robot.q_home, com=True)
        for missing in viewer.missing:
            err.print(f"[yellow]not drawn:[/] {escape(str(missing))}", highlight=False)
        if record is not None:
            viewer.record(record)
            say(f"wrote {record}")
            return
        say(f"{robot.name} at {viewer.url}; Ctrl-C ends")
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
    from .agreement import cross_check

    _check_writable(record)
    machine = load(robot, root=root, packages=package or ())
    if not as_json:
        say(str(machine))
    with ExitStack() as stack:
        viewer = None
        if not headless:
            from .viewer import Viewer

            viewer = stack.enter_context(Viewer(machine, open_browser=_is_terminal(sys.stdout)))
            if not as_json:
                say(f"live view: {viewer.url}")
        with _bar("simulating", quiet=as_json) as tick:
            report = main_job.run(
                machine, seconds=seconds, viewer=viewer, realtime=not headless, record=record, progress=tick
            )
        with _bar("cross-checking", quiet=as_json) as tick:
            agreement = cross_check(machine, samples=3, derivatives=False, progress=tick)
        passed = report.passed and agreement.passed
        if as_json:
            print(json.dumps({**_demo_json(report), "agreement": agreement.to_json(), "passed": passed}, indent=2))
        else:
            _print_demo(report, agreement)
            if record is not None:
                say(f"wrote {record}")
        if viewer is not None and _is_terminal(sys.stdin) and _is_terminal(sys.stdout):
            out.print("the view stays open; Ctrl-C ends")
            _wait_for_interrupt()
    raise typer.Exit(0 if passed else 1)


@app.command()
def leg(
    source: RobotArgument,
    name: Annotated[str | None, typer.Option("--leg", metavar="NAME", help="one leg, such as FL; default: all")] = None,
    root: RootOption = None,
    package: PackagesOption = None,
    seconds: Annotated[float, typer.Option(min=0.1, max=3600.0, help="length of the show [s]")] = 12.0,
    samples: Annotated[int, typer.Option(min=1, help="random targets of each leg")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="of the random targets")] = 0,
    record: Annotated[Path | None, typer.Option(help="write the show as a self-contained HTML file and exit")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="machine-readable table; shows nothing")] = False,
) -> None:
    """A robot's legs in numbers; in the viewer, a leg that follows a target on every branch of its kinematics.

    Without --leg the table is of all legs, and the first one moves.
    """
    from .kinematics import LegKinematics, survey

    _check_writable(record)
    robot = load(source, root=root, packages=package or ())
    if not robot.legs:
        raise ArgumentError(f"{robot.name} has no legs")
    legs = [LegKinematics(robot, n) for n in ([name] if name is not None else robot.legs)]
    surveys = [survey(item, samples=samples, seed=seed) for item in _progress(legs, "measuring")]
    if as_json:
        print(json.dumps(_legs_json(robot, surveys), indent=2))
    else:
        _print_legs(robot, surveys)
    if record is not None or not as_json:
        _show_leg(legs[0], seconds=seconds, record=record, quiet=as_json)


# -- printing ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Verdict:
    """What the guard and the cross-check say of one source; `refusal` is empty for an accepted robot."""

    source: str
    robot: Robot | None
    refusal: str
    agreement: Agreement | None

    @property
    def passed(self) -> bool:
        return self.robot is not None and not self.refusal and (self.agreement is None or self.agreement.passed)

    def to_json(self) -> dict[str, object]:
        out: dict[str, object] = {"source": self.source, "accepted": self.robot is not None, "passed": self.passed}
        if self.refusal:
            out["reason"] = self.refusal
        if self.robot is not None:
            report = self.robot.report
            out |= {
                "robot": self.robot.name,
                "root": self.robot.root,
                "findings": [
                    {"level": f.level, "where": str(f.where), "reason": f.reason, "advice": f.advice} for f in report
                ],
                "checks": dict(report.checks),
            }
        if self.agreement is not None:
            out["agreement"] = self.agreement.to_json()
        return out


def _load(name: str, *, root: str | None, package: list[Path], strict: bool) -> _Verdict:
    try:
        return _Verdict(name, load(name, root=root, packages=package, strict=strict), "", None)
    except ModelError as error:
        return _Verdict(name, None, str(error), None)


def _cross_check(loaded: _Verdict, *, samples: int, seed: int, source: bytes | str | None) -> _Verdict:
    from .agreement import cross_check

    if loaded.robot is None:
        return loaded
    try:
        return replace(loaded, agreement=cross_check(loaded.robot, samples=samples, seed=seed, source=source))
    except ModelError as error:  # the guard let pass what the reference's own reader does not
        return replace(loaded, refusal=f"the reference's reader: {error}")


def _print_summary(verdicts: list[_Verdict]) -> None:
    table = Table(title="the catalogue, judged and cross-checked", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in ("name", "verdict", "warnings", "worst error", "of"):
        left = column in ("name", "verdict", "of")
        table.add_column(column, no_wrap=column != "verdict", justify="left" if left else "right")
    for v in verdicts:
        if v.robot is None:
            table.add_row(v.source, f"[red]refused[/]: {escape(v.refusal)}", "", "", "")
            continue
        row = [v.source, "[green]holds[/]" if v.passed else f"[red]fails[/] {escape(v.refusal)}"]
        row.append(str(len(v.robot.report.warnings)))
        if v.agreement is not None:
            worst = max(v.agreement.ratios, key=v.agreement.ratios.__getitem__)
            row += [f"{v.agreement.errors[worst]:.1e}", worst]
        table.add_row(*row)
    out.print(table)


def _print_report(verdict: _Verdict) -> None:
    robot = verdict.robot
    if robot is None:
        out.print(f"[bold red]refused[/]: {escape(verdict.refusal)}", highlight=False, soft_wrap=True)
        return
    for finding in robot.report:
        color = "yellow" if finding.level == "warning" else "dim"
        words = escape(str(finding).partition(": ")[2])
        out.print(f"[{color}]{finding.level}[/]: {words}", highlight=False, soft_wrap=True)
    say(str(robot))
    for leg in robot.legs.values():
        foot, source = leg.foot, robot.report.provenance[f"{leg.name}.radius"]
        knee = f"; knee {leg.knee}, {leg.bend}" if leg.knee is not None else ""
        say(f"  {leg.name}: {', '.join(leg.joints)}{knee}")
        say(f"      foot {foot.frame}, radius {foot.radius:.4g} m: {source}")
    for label, value in robot.report.checks.items():
        out.print(f"  {label}: {value:.2e}", highlight=False)
    out.print(f"  warnings: {len(robot.report.warnings)}", highlight=False)
    if verdict.agreement is not None:
        say(str(verdict.agreement))
    if verdict.passed:
        out.print("[bold green]accepted[/]")
    else:
        out.print(f"[bold red]fails[/] {escape(verdict.refusal)}", highlight=False, soft_wrap=True)


def _demo_json(report: DemoReport) -> dict[str, object]:
    values = {f.name: getattr(report, f.name) for f in fields(report)}
    # JSON knows no infinity: a limit that the file does not give is null.
    values["torques"] = {
        kind: {k: v if math.isfinite(v) else None for k, v in t._asdict().items()} for kind, t in report.torques.items()
    }
    values["checks"] = {name: check._asdict() for name, check in report.checks.items()}
    values["work"] = dict(report.work)
    return values


def _print_demo(report: DemoReport, agreement: Agreement) -> None:
    table = Table(
        title=f"{escape(report.robot)}: {report.motion} for {report.seconds:g} s ({report.steps} steps)",
        show_header=False,
    )
    table.add_column("quantity")
    table.add_column("value", overflow="fold")
    table.add_row("steps/s, control and plant", f"{report.steps_per_second:,.0f} ({report.cpu})")
    table.add_row("steps/s, plant alone", f"{report.plant_steps_per_second:,.0f}")
    for kind, torque in report.torques.items():
        limit = f" of {torque.limit:g}" if torque.limit < float("inf") else ", no limit given"
        table.add_row(escape(f"torque {kind} [N m]"), f"{torque.lowest:.2f} to {torque.highest:.2f}{limit}")
    if report.normal_force is not None and report.weight_mean is not None and report.weight_deviation is not None:
        low, high = report.normal_force
        table.add_row(escape("normal force on a foot [N]"), f"{low:.1f} to {high:.1f}")
        mean, worst = report.weight_mean, report.weight_deviation
        table.add_row(
            "sum of vertical forces / m g", f"{mean:.4f} on average, at most {worst:.3f} off ({report.weight:.1f} N)"
        )
    if report.base_height is not None:
        low, high = report.base_height
        table.add_row(escape("base height [m]"), f"{low:.3f} to {high:.3f}")
    work = ", ".join(f"{name} {value:.4g}" for name, value in report.work.items())
    table.add_row(escape("energy change; work [J]"), f"{report.energy_change:.4g}; {work}")
    table.add_section()
    for name, check in report.checks.items():
        unit = "" if check.unit == "1" else f" {escape(check.unit)}"
        mark = "[green]holds[/]" if check.passed else "[bold red]fails[/]"
        table.add_row(name, f"{check.value:.3g} <= {check.bound:.3g}{unit}  {mark}")
    algorithm = max(agreement.ratios, key=agreement.ratios.__getitem__)
    verdict = "[green]agrees[/]" if agreement.passed else "[bold red]disagrees[/]"
    figures = f"{agreement.errors[algorithm]:.1e} <= {agreement.tolerances[algorithm]:.1e} ({algorithm})"
    table.add_row(f"reference, {len(agreement.errors)} algorithms", f"{figures}  {verdict}")
    out.print(table)
    holds = report.passed and agreement.passed
    out.print("[bold green]every check holds[/]" if holds else "[bold red]a check fails[/]")
    for deviation in agreement.deviations:
        say(str(deviation))


def _legs_json(robot: Robot, surveys: list[LegSurvey]) -> dict[str, object]:
    from .demo.report import cpu_name

    def plain(value: object) -> object:
        # JSON knows no infinity: a limit that the file does not give is null.
        return [v if math.isfinite(v) else None for v in value.tolist()] if hasattr(value, "tolist") else value

    legs = []
    for s in surveys:
        values = {f.name: plain(getattr(s, f.name)) for f in fields(s)}
        values["branches"] = [{"name": b.name, **{f.name: getattr(b, f.name) for f in fields(b)}} for b in s.branches]
        values["reach"] = list(s.reach)
        legs.append(values)
    return {"robot": robot.name, "cpu": cpu_name(), "legs": legs}


def _print_legs(robot: Robot, surveys: list[LegSurvey]) -> None:
    from .demo.report import cpu_name

    sliding = {b.joint.name for b in robot.bodies if b.joint is not None and b.joint.type == "prismatic"}
    table = Table(title=f"the legs of {escape(robot.name)}", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("leg", no_wrap=True)
    table.add_column("quantity")
    table.add_column("value", overflow="fold")
    for s in surveys:
        kind = "closed form" if s.closed_form else "numeric: no closed form fits"
        table.add_row(escape(s.leg), "inverse", kind)
        for i, (joint, low, high, length) in enumerate(zip(s.joints, s.lower, s.upper, s.segments, strict=True), 1):
            unit = "m" if joint in sliding else "rad"
            limits = f"{low:.2f} to {high:.2f} {unit}" if math.isfinite(low) or math.isfinite(high) else "no limits"
            table.add_row(
                "", escape(joint), f"{limits}; {length:.4f} m to the {'next' if i < len(s.joints) else 'foot'}"
            )
        if s.held:
            table.add_row("", "held at home", escape(", ".join(s.held)))
        nearest, farthest = s.reach
        for word, far, point in (("nearest", nearest, s.nearest), ("farthest", farthest, s.farthest)):
            at = ", ".join(f"{x + 0.0:.3f}" for x in point.round(3))
            table.add_row("", f"{word} foot", f"{far:.4f} m from the first joint, at ({at})")
        for b in s.branches:
            home = "; home" if b.home else ""
            table.add_row("", b.name, f"reaches {b.reached:.1%}, within limits {b.within_limits:.1%}{home}")
        table.add_row("", "FK(IK(p)) - p", f"at most {s.error:.1e} m; {s.reached:,} of {s.samples:,} reached")
        table.add_row("", "time per target", f"{s.seconds * 1e6:.2f} us, {s.samples:,} at once", end_section=True)
    out.print(table)
    say(f"targets: the foot at random joint values within the limits, seed {surveys[0].seed}; {cpu_name()}")
    if any(s.reached < s.samples for s in surveys):
        say("not reached: the iteration stopped short of the target")


def _show_leg(item: LegKinematics, *, seconds: float, record: Path | None, quiet: bool) -> None:
    from .demo.leg import show_branches
    from .viewer import Viewer

    live = record is None
    with Viewer(item.robot, serve=live, open_browser=live and _is_terminal(sys.stdout)) as viewer:
        if live:
            say(f"leg {item.name} follows a target: {viewer.url}")
        viewer.clear()
        with _bar("showing", quiet=quiet) as tick:
            show_branches(item, viewer, seconds=seconds, realtime=live, progress=tick)
        if record is not None:
            viewer.record(record, title=f"{item.robot.name}, leg {item.name}")
            if not quiet:
                say(f"wrote {record}")
        elif _is_terminal(sys.stdin) and _is_terminal(sys.stdout):
            out.print("the view stays open; Ctrl-C ends")
            _wait_for_interrupt()


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


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def _check_writable(path: Path | None) -> None:
    """Refuse a page that cannot be written before any work is done for it."""
    if path is None:
        return
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise typer.BadParameter(f"{path} cannot be written: no such folder, no permission, or a folder itself")


def _wait_for_interrupt() -> None:
    try:
        while True:
            time.sleep(1.0)
    except KeyboardInterrupt:
        return
