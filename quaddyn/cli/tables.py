"""Results of commands as printed tables and as JSON data; `validate` and `add_cross_check` make those of `check`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from ..errors import ModelError, UnreadableFileError
from ..robot import Robot, load
from .console import make_table, out, print_text

if TYPE_CHECKING:
    from ..demo import DemoReport, RequestedValue
    from ..kinematics import LegSurvey
    from ..verification import VerificationReport


@dataclass(frozen=True)
class Verdict:
    """Result of validation and cross-check of one robot."""

    source: str  # catalogue name or file
    robot: Robot | None  # the loaded robot; None if validation rejected it
    refusal: str  # reason of the rejection; "" for an accepted robot
    agreement: VerificationReport | None  # result of the cross-check; None without one

    @property
    def passed(self) -> bool:
        """Whether validation accepts the robot and the cross-check, if one was made, finds agreement."""
        return self.robot is not None and not self.refusal and (self.agreement is None or self.agreement.passed)

    @property
    def failure_reason(self) -> str:
        """Reason of the rejection, or what the cross-check found to differ; "" if the robot has passed."""
        if self.refusal or self.passed or self.agreement is None:
            return self.refusal
        links = list(dict.fromkeys(deviation.name for deviation in self.agreement.deviations))
        reasons = [
            f"{text} {', '.join(names[:4])}{f' and {len(names) - 4} more' if len(names) > 4 else ''}"
            for text, names in (
                ("differences in", links),
                ("different results of", list(self.agreement.failed_algorithms)),
            )
            if names
        ]
        return "; ".join(reasons) or "MuJoCo's importer disagrees"

    def to_json(self) -> dict[str, object]:
        """Returns the result as JSON data."""
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
                "checks": dict(report.check_results),
            }
        if self.agreement is not None:
            out["agreement"] = self.agreement.to_json()
        return out


def validate(name: str, **options: Any) -> Verdict:
    """Validates a robot by loading it, and returns the result.

    Raises:
        UnreadableFileError: there is no such file, or it cannot be opened.
        UnknownNameError: there is no such robot.
    """
    try:
        return Verdict(name, load(name, **options), "", None)
    except UnreadableFileError:  # a wrong argument, not a result
        raise
    except ModelError as error:
        return Verdict(name, None, str(error), None)


def add_cross_check(loaded: Verdict, *, samples: int, seed: int, source: bytes | str | None) -> Verdict:
    """Returns a validation result, completed by a cross-check against the reference.

    Args:
        loaded: result of `validate`.
        samples: number of random states.
        seed: seed of the random states.
        source: robot that the reference reads instead; None: the same robot.
    """
    from ..verification import cross_check

    if loaded.robot is None:
        return loaded
    try:
        return replace(loaded, agreement=cross_check(loaded.robot, samples=samples, seed=seed, source=source))
    except ModelError as error:  # accepted by validation, but not by the reader of the reference
        return replace(loaded, refusal=f"the reader of the reference rejects the file: {error}")


def print_robots(rows: list[dict[str, object]]) -> None:
    """Prints the robots of the catalogue as a table."""
    columns = ("name", "kind", "root", ">dof", ">mass\n[kg]", ">legs", "feet")
    table = make_table(*columns, title=f"{len(rows)} robots: quaddyn.load(name)")
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


def print_summary(verdicts: list[Verdict]) -> None:
    """Prints one line for each of several robots."""
    columns = ("name", "~verdict", ">warnings", ">worst error", "in")
    table = make_table(*columns, title="the catalogue, validated and cross-checked")
    for v in verdicts:
        if v.robot is None:
            table.add_row(v.source, f"[red]rejected[/]: {escape(v.refusal)}", "", "", "")
            continue
        row = [v.source, "[green]passed[/]" if v.passed else f"[red]failed[/]: {escape(v.failure_reason)}"]
        row.append(str(len(v.robot.report.warnings)))
        if v.agreement is not None:
            worst = max(v.agreement.ratios, key=v.agreement.ratios.__getitem__)
            row += [f"{v.agreement.errors[worst]:.1e}", worst]
        table.add_row(*row)
    out.print(table)


def print_report(verdict: Verdict) -> None:
    """Prints the result of validation and cross-check of one robot."""
    robot = verdict.robot
    if robot is None:
        out.print(f"[bold red]rejected[/]: {escape(verdict.refusal)}", highlight=False, soft_wrap=True)
        return
    for finding in robot.report:
        color = "yellow" if finding.level == "warning" else "dim"
        text = escape(str(finding).partition(": ")[2])
        out.print(f"[{color}]{finding.level}[/]: {text}", highlight=False, soft_wrap=True)
    print_text(str(robot))
    for leg in robot.legs.values():
        foot, source = leg.foot, robot.report.provenance[f"{leg.name}.radius"]
        knee = f"; knee {leg.knee}, {leg.knee_direction}" if leg.knee is not None else ""
        print_text(f"  {leg.name}: {', '.join(leg.joints)}{knee}")
        print_text(f"      foot {foot.frame}, radius {foot.radius:.4g} m: {source}")
    for label, value in robot.report.check_results.items():
        out.print(f"  {label}: {value:.2e}", highlight=False)
    out.print(f"  warnings: {len(robot.report.warnings)}", highlight=False)
    if verdict.agreement is not None:
        print_text(str(verdict.agreement))
    if verdict.passed:
        out.print("[bold green]accepted[/]")
    else:
        out.print(f"[bold red]failed[/]: {escape(verdict.failure_reason)}", highlight=False, soft_wrap=True)


def demo_json(report: DemoReport) -> dict[str, object]:
    """Returns the report of a demo as JSON data."""
    values = {f.name: getattr(report, f.name) for f in fields(report)}
    # JSON has no infinity; a limit that the file does not give becomes null.
    values["torques"] = {
        kind: {k: v if math.isfinite(v) else None for k, v in t._asdict().items()} for kind, t in report.torques.items()
    }
    values["checks"] = {name: check._asdict() for name, check in report.checks.items()}
    values["work"] = dict(report.work)
    values["unmeasured_checks"] = list(report.unmeasured_checks)
    values["requests"] = [{**request._asdict(), "is_reduced": request.is_reduced} for request in report.requests]
    return values


def print_reduced_requests(requests: Iterable[RequestedValue]) -> None:
    """Prints each requested value that a limit reduced by much, with the limit."""
    for request in requests:
        if request.is_reduced:
            reason = f", limited by: {request.limit_reason}" if request.limit_reason else ""
            text = (
                f"{request.name} [{request.unit}]: {request.planned:.3f} of {request.requested:.3f} requested{reason}"
            )
            out.print(f"[bold yellow]{escape(text)}[/]", highlight=False, soft_wrap=True)


def print_demo(report: DemoReport, agreement: VerificationReport) -> None:
    """Prints the report of a demo: requested values, measured figures, and the limit of each check."""
    print_text(f"{report.robot}: {report.motion} for {report.seconds:g} s, {report.steps} steps on {report.cpu}")
    table = Table(show_header=False, box=None, padding=(0, 1, 0, 0))
    table.add_column("quantity", overflow="fold")
    table.add_column("value", overflow="fold")
    for request in report.requests:
        if request.unit in ("m/s", "rad/s"):  # below, with the measured velocity
            continue
        text = f"{request.planned:.3f} of {request.requested:.3f} requested"
        table.add_row(
            escape(f"{request.name} [{request.unit}]"), f"[bold yellow]{text}[/]" if request.is_reduced else text
        )
    if report.requested_velocity is not None and any(report.requested_velocity):
        label = escape("forward, left [m/s], turn [rad/s]")
        for word, values in (
            ("requested", report.requested_velocity),
            ("commanded", report.clamped_velocity),
            ("measured", report.measured_velocity),
        ):
            if values is None and report.mean_velocity is not None:
                word, values = "mean", report.mean_velocity
            numbers = "nothing: no full gait cycle" if values is None else "{:+.3f}, {:+.3f}, {:+.3f}".format(*values)
            table.add_row(label, f"{word} {numbers}")
            label = ""
        if report.measured_velocity is None and report.mean_velocity is not None:
            table.add_row("", "not checked: the reference varies")
    limit_reasons = dict.fromkeys(filter(None, (report.limit_reason, *(r.limit_reason for r in report.requests))))
    if limit_reasons:
        table.add_row("limited by", f"[bold yellow]{escape(', '.join(limit_reasons))}[/]")
    if report.jump_summary and not any(request.name == "height of the jump" for request in report.requests):
        table.add_row("jump", escape(report.jump_summary.removeprefix("jump ")))
    for kind, torque in report.torques.items():
        largest = max(-torque.lowest, torque.highest)
        limit = f"{100.0 * largest / torque.limit:.0f} % of limit {torque.limit:g}"
        limit = limit if math.isfinite(torque.limit) else "no effective limit"
        table.add_row(escape(f"torque {kind} [N m]"), f"{torque.lowest:.2f} to {torque.highest:.2f}, {limit}")
    if report.normal_force is not None and report.weight_mean is not None and report.weight_deviation is not None:
        low, high = report.normal_force
        table.add_row(escape("normal force on a foot [N]"), f"{low:.1f} to {high:.1f}")
        mean, worst = report.weight_mean, report.weight_deviation
        table.add_row(
            escape(f"vertical forces / weight of {report.weight:.1f} N [1]"),
            f"mean {mean:.4f}, deviation up to {worst:.3f}",
        )
    if report.base_height is not None:
        low, high = report.base_height
        table.add_row(escape("base height [m]"), f"{low:.3f} to {high:.3f}")
    work = "".join(f"; {name} {value:.4g}" for name, value in report.work.items())
    table.add_row(escape(f"energy change{'; work' if work else ''} [J]"), f"{report.energy_change:.4g}{work}")
    speeds = f"{report.steps_per_second:,.0f}, plant alone {report.plant_steps_per_second:,.0f}"
    table.add_row(escape("speed of control and plant [steps/s]"), speeds)
    for name, check in report.checks.items():
        unit = "" if check.unit == "1" else f" {escape(check.unit)}"
        mark = "[green]passed[/]" if check.passed else "[bold red]failed[/]"
        table.add_row(name, f"{check.value:.3g} <= {check.limit:.3g}{unit}  {mark}")
    algorithm = max(agreement.ratios, key=agreement.ratios.__getitem__)
    verdict = "[green]agrees[/]" if agreement.passed else "[bold red]disagrees[/]"
    figures = f"{agreement.errors[algorithm]:.1e} <= {agreement.tolerances[algorithm]:.1e}"
    table.add_row(f"reference, worst of {len(agreement.errors)}: {algorithm}", f"{figures}  {verdict}")
    out.print(table)
    passed = report.passed and agreement.passed
    if passed and report.reduced_requests:
        out.print(f"[yellow]all checks passed, but limits reduced the request: {', '.join(report.reduced_requests)}[/]")
    elif passed and report.unmeasured_checks:
        out.print(f"[yellow]all measured checks passed; not measured: {', '.join(report.unmeasured_checks)}[/]")
    elif passed:
        out.print("[bold green]all checks passed[/]")
    else:
        failed = (*report.failed_checks, *(() if agreement.passed else ("agreement with the reference",)))
        out.print(f"[bold red]failed: {escape(', '.join(failed))}[/]", highlight=False)
    for deviation in agreement.deviations:
        print_text(str(deviation))


def legs_json(robot: Robot, surveys: list[LegSurvey]) -> dict[str, object]:
    """Returns the surveys of legs as JSON data."""
    from ..operating_system import cpu_name

    def plain(value: object) -> object:
        # JSON has no infinity; a limit that the file does not give becomes null.
        return [v if math.isfinite(v) else None for v in value.tolist()] if hasattr(value, "tolist") else value

    legs = []
    for s in surveys:
        values = {f.name: plain(getattr(s, f.name)) for f in fields(s)}
        values["branches"] = [{"name": b.name, **{f.name: getattr(b, f.name) for f in fields(b)}} for b in s.branches]
        values["reach"] = list(s.reach)
        legs.append(values)
    return {"robot": robot.name, "cpu": cpu_name(), "legs": legs}


def print_legs(robot: Robot, surveys: list[LegSurvey]) -> None:
    """Prints limits, reach and branches of the legs of a robot as a table."""
    from ..operating_system import cpu_name

    prismatic_joints = {b.joint.name for b in robot.bodies if b.joint is not None and b.joint.type == "prismatic"}
    table = make_table("leg", "~quantity", "~value", title=f"the legs of {escape(robot.name)}")
    for s in surveys:
        kind = "closed form" if s.closed_form else "numeric: no closed form applies"
        table.add_row(escape(s.leg), "inverse", kind)
        for i, (joint, low, high, length) in enumerate(zip(s.joints, s.lower, s.upper, s.segments, strict=True), 1):
            unit = "m" if joint in prismatic_joints else "rad"
            limits = f"{low:.2f} to {high:.2f} {unit}" if math.isfinite(low) or math.isfinite(high) else "no limits"
            table.add_row(
                "", escape(joint), f"{limits}; {length:.4f} m to the {'next' if i < len(s.joints) else 'foot'}"
            )
        if s.fixed_joints:
            table.add_row("", "fixed at home", escape(", ".join(s.fixed_joints)))
        nearest, farthest = s.reach
        for label, distance, point in (("nearest", nearest, s.nearest), ("farthest", farthest, s.farthest)):
            coordinates = ", ".join(f"{x + 0.0:.3f}" for x in point.round(3))
            table.add_row("", f"{label} foot", f"{distance:.4f} m from the first joint, at ({coordinates})")
        for b in s.branches:
            home = "; home" if b.contains_home else ""
            table.add_row(
                "", b.name, f"reaches {b.reached_fraction:.1%}, within limits {b.fraction_within_limits:.1%}{home}"
            )
        table.add_row("", "FK(IK(p)) - p", f"at most {s.max_error:.1e} m; {s.n_reached:,} of {s.samples:,} reached")
        table.add_row(
            "", "time per target", f"{s.seconds_per_target * 1e6:.2f} us, {s.samples:,} at once", end_section=True
        )
    out.print(table)
    print_text(f"targets: the foot at random joint values within the limits, seed {surveys[0].seed}; {cpu_name()}")
    if any(s.n_reached < s.samples for s in surveys):
        print_text("targets that were not reached: the iteration ended before it converged")
