"""`quaddyn excite` and `quaddyn identify`: motion that shows the parameters, and the parameters that motion shows."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from ..errors import ArgumentError
from ..robot import Robot, load
from ..robot.root import ROOTS
from .app import PackagesOption, RobotArgument, RootOption, app
from .console import bar, check_writable, err, out, say

if TYPE_CHECKING:
    from ..identification import Identification, MotionRange, Samples, Validation


#: Most samples of a motion that `excite` writes.
MOST_SAMPLES = 1_000_000


class MethodName(StrEnum):
    """Methods of fitting base parameters."""

    least_squares = "least_squares"
    weighted = "weighted"
    consistent = "consistent"


@app.command()
def excite(
    source: RobotArgument,
    target: Annotated[Path, typer.Option("--out", metavar="FILE.csv", help="where the motion is written")],
    package: PackagesOption = None,
    period: Annotated[float, typer.Option(min=0.1, max=3600.0, help="of the motion [s]")] = 10.0,
    harmonics: Annotated[int, typer.Option(min=3, max=50, help="of each joint")] = 5,
    rate: Annotated[float, typer.Option(min=1.0, max=1e5, help="samples per second")] = 100.0,
    iterations: Annotated[int, typer.Option(min=0, help="candidates tried")] = 300,
    seed: Annotated[int, typer.Option(min=0, help="of the search")] = 0,
) -> None:
    """Find a motion within a robot's limits that tells its parameters apart; write it as t, q, v, a.

    The root is held: a legged robot hangs on a stand.
    """
    from ..identification import exciting_trajectory

    check_writable(target)
    if not period * rate <= MOST_SAMPLES:
        raise ArgumentError(
            f"--period, --rate: {period:g} s of {rate:g} samples a second are more than {MOST_SAMPLES:,}"
        )
    robot = load(source, root="fixed", packages=package or ())
    with bar("searching", quiet=False) as tick:
        motion = exciting_trajectory(
            robot, period=period, harmonics=harmonics, iterations=iterations, seed=seed, progress=tick
        )
    t = np.arange(0.0, period, 1.0 / rate)
    table = np.column_stack([t, *motion.sample(t)])
    names = ["t", *(f"{x} {i}" for x, n in (("q", robot.nq), ("v", robot.nv), ("a", robot.nv)) for i in range(n))]
    with target.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerow(names)
        np.savetxt(file, table, delimiter=",", fmt="%.10g")
    before, after = motion.initial_condition, motion.condition
    say(f"condition number {before:.3g} -> {after:.3g}; wrote {len(t)} samples to {target}")


@app.command()
def identify(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="a CSV or NPZ file of samples")],
    source: Annotated[str, typer.Option("--robot", metavar="NAME|FILE", help="a catalogue name or a URDF file")],
    root: RootOption = None,
    package: PackagesOption = None,
    method: Annotated[MethodName, typer.Option(help="of the fit")] = MethodName.consistent,
    torque_noise: Annotated[float | None, typer.Option(help="of the torques [N m]; default: estimated")] = None,
    force_noise: Annotated[float | None, typer.Option(help="of the contact forces [N]; needs --torque-noise")] = None,
    prior_weight: Annotated[float, typer.Option(help="of the file's own parameters, for consistent")] = 1.0,
    held_out: Annotated[float, typer.Option(min=0.0, max=0.9, help="share of the data kept to judge the fit")] = 0.2,
    target: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="write all parameters (.json), or the robot as it was found (.urdf)"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="machine-readable output")] = False,
) -> None:
    """Identify a robot's parameters from measured motion; the file may be larger than memory.

    Columns: q 0 .., v 0 .., a 0 .., tau JOINT .., and for contact forces f FOOT 0 .. (at the foot's frame) or
    g FOOT 0 .. (at the ground); a time t may stand beside them.  Without --root, the root is the one whose coordinates
    the data has.  Exit code 1 if the fit did not converge.
    """
    from .. import identification

    check_writable(target)
    robot = _robot_of(data, source, root, package or (), quiet=as_json)
    extent, kept = identification.MotionRange(robot), 0

    def learning(part: Samples) -> Samples:
        nonlocal kept
        extent.add(part)
        first, rest = identification.split_samples(part, held_out)
        kept += len(rest)
        return first

    with bar("reading", quiet=as_json) as tick:
        learned = (learning(part) for part in identification.stream_samples(data, robot, progress=tick))
        found = identification.identify(
            robot,
            learned,
            method=method.value,
            torque_noise=torque_noise,
            force_noise=force_noise,
            prior_weight=prior_weight,
        )
    judged = None
    if kept:
        with bar("judging", quiet=as_json) as tick:
            parts = identification.stream_samples(data, robot, progress=tick)
            judged = found.validate(identification.split_samples(part, held_out)[1] for part in parts)
    whole = found.to_json() | {"doubts": doubts(found, judged, extent)}
    if judged is not None:
        whole["held_out"] = {
            "samples": judged.samples,
            "error": judged.error.tolist(),
            "signal": judged.signal.tolist(),
        }
    if not as_json:
        _print(found, judged)
        for doubt in doubts(found, judged, extent):
            err.print(f"[yellow]doubtful:[/] {escape(doubt)}", highlight=False)
    if target is not None:
        if target.suffix.lower() == ".urdf":
            found.save_urdf(target)
        else:
            target.write_text(json.dumps(whole, indent=1), encoding="utf-8")
    if as_json:
        print(json.dumps(whole, indent=2))
    elif target is not None:
        say(f"wrote {target}")
    raise typer.Exit(0 if found.converged else 1)


def _robot_of(data: Path, source: str, root: str | None, packages: Sequence[Path], *, quiet: bool) -> Robot:
    """Loads the robot; without `root`, with the root that has as many coordinates as the data, as `excite` fixes it."""
    from ..identification.sample_files import configuration_size

    robot = load(source, root=root, packages=packages)
    size = configuration_size(data)
    if root is not None or size is None or size == robot.nq:
        return robot
    for other in ROOTS:
        candidate = load(source, root=other, packages=packages)
        if candidate.nq == size:
            if not quiet:
                say(f"root: {other}, as the data has {size} coordinates; --root chooses another one")
            return candidate
    return robot


#: Share of a torque that a fit may leave unexplained before it is doubted.
UNEXPLAINED = 0.5
#: Share of the largest torque below which one may be nothing but noise.
AUDIBLE = 0.02
#: How many names a line lists.
LISTED = 6


def doubts(found: Identification, judged: Validation | None, extent: MotionRange) -> list[str]:
    """Returns warnings about the data, a sentence each."""
    out = list(extent.warnings())
    if judged is None:
        return [*out, "no sample was held out to judge the fit by"]
    names = {found.base.robot.velocity_index(joint): joint for joint in found.base.robot.actuated}
    heard = judged.signal > AUDIBLE * judged.signal.max()
    poor = [
        names.get(int(i), f"root {i}") for i in np.flatnonzero(heard & (judged.error > UNEXPLAINED * judged.signal))
    ]
    if poor:
        words = f"{', '.join(poor[:LISTED])}{' ...' if len(poor) > LISTED else ''}"
        out.append(f"more than {UNEXPLAINED:.0%} is not explained of {words}: units, signs, or the order of joints?")
    return out


def _print_losses(found: Identification) -> None:
    """Prints friction and rotor inertia of the joints with those of the file."""
    robot, losses = found.base.robot, found.joint_losses
    if not losses:
        return
    units = escape("viscous [N m s/rad], Coulomb [N m], rotor [kg m^2]")
    table = Table(title=f"joints, as identified: {units}", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("joint", no_wrap=True)
    for column in ("viscous", "Coulomb", "rotor"):
        table.add_column(column, justify="right", no_wrap=True)
        table.add_column("file", justify="right", no_wrap=True)
    for joint, values in losses.items():
        own = robot.tree.joints_by_name[joint]
        pairs = zip(values.tolist(), (own.damping, own.friction, own.armature), strict=True)
        table.add_row(escape(joint), *(f"{x:.3g}" for pair in pairs for x in pair))
    out.print(table)


def _print(found: Identification, judged: Validation | None) -> None:
    robot, base = found.base.robot, found.base
    table = Table(
        title=f"{escape(robot.name)}: {found.samples:,} samples, {found.method}",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("generalized force")
    for column in ("residual", "held out", "measured"):
        table.add_column(column, justify="right", no_wrap=True)
    names = {robot.velocity_index(joint): joint for joint in robot.actuated}
    for i, noise in enumerate(found.noise):
        unseen = ("-", "-") if judged is None else (f"{judged.error[i]:.4g}", f"{judged.signal[i]:.4g}")
        table.add_row(escape(names.get(i, f"root {i}")), f"{noise:.4g}", *unseen)
    out.print(table)
    table = Table(title="bodies, as identified", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("body")
    for column in ("mass [kg]", "in the file", "com [m]"):
        table.add_column(escape(column), justify="right", no_wrap=True)
    for body, inertial in zip(robot.bodies, found.inertials.values(), strict=True):
        if body.joint is not None or robot.root != "fixed":
            com = ", ".join(f"{x:.4f}" for x in inertial.com)
            table.add_row(escape(body.name), f"{inertial.mass:.4g}", f"{body.inertial.mass:.4g}", com)
    out.print(table)
    _print_losses(found)
    vague = int(np.count_nonzero(found.deviation > np.abs(found.beta)))
    say(f"{base.certificate}")
    say(
        f"{found.n_identifiable} of {base.size} base parameters shown by the data, "
        f"{vague} of them less certain than they are "
        f"large; condition number {found.condition:.3g}"
    )
    if found.unidentifiable:
        more = (
            f" and {len(found.unidentifiable) - LISTED} more, see --json" if len(found.unidentifiable) > LISTED else ""
        )
        listed = "; ".join(found.unidentifiable[:LISTED])
        say(f"kept from the file, since these data do not show them: {listed}{more}")
    if found.inconsistent_bodies:
        wrong = escape(", ".join(found.inconsistent_bodies))
        err.print(f"[yellow]not physical:[/] {wrong}; try --method consistent", highlight=False)
    if not found.converged:
        err.print("[red]the fit did not converge[/]")
