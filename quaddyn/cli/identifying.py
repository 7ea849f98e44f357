"""`quaddyn excite` and `quaddyn identify`: exciting motions, and identification of dynamic parameters from them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.markup import escape

from ..errors import ArgumentError
from ..operating_system import describe_os_error
from ..robot import Robot, load
from ..robot.root import ROOTS
from ..safe_files import read_regular_file
from ..urdf.mjcf import is_mjcf
from ..urdf.tree import Array
from .app import EXIT_REDUCED, JsonOption, MimicOption, PackagesOption, RobotArgument, RobotOption, RootOption, app
from .console import check_writable, err, make_table, out, print_text, progress_bar, use_one_linear_algebra_thread
from .loading import load_robot, print_warnings

if TYPE_CHECKING:
    from ..identification import Identification, MotionRange, Samples, Validation


#: Maximum size of a JSON file of --column [bytes].
MAX_NAMES_SIZE = 1 << 20
#: Maximum number of samples of a motion that `excite` writes.
MAX_SAMPLES = 1_000_000


class MethodName(StrEnum):
    """Methods of fitting base parameters."""

    least_squares = "least_squares"
    weighted = "weighted"
    consistent = "consistent"


@app.command()
def excite(
    source: RobotArgument,
    target: Annotated[Path, typer.Option("--out", metavar="FILE.csv", help="file to write the motion to")],
    package: PackagesOption = None,
    period: Annotated[float, typer.Option(min=0.1, max=3600.0, help="period of the motion [s]")] = 10.0,
    harmonics: Annotated[int, typer.Option(min=3, max=50, help="number of harmonics of each joint")] = 5,
    rate: Annotated[float, typer.Option(min=1.0, max=1e5, help="samples per second")] = 100.0,
    iterations: Annotated[int, typer.Option(min=0, help="number of candidates of the search")] = 300,
    seed: Annotated[int, typer.Option(min=0, help="random seed of the search")] = 0,
    mimic: MimicOption = True,
) -> None:
    """Find a motion within the limits of a robot that excites its dynamic parameters; write it as t, q, v, a.

    The root is fixed: a legged robot hangs in a stand.
    """
    from ..identification import exciting_trajectory

    check_writable(target, (".csv",))
    use_one_linear_algebra_thread()
    if not period * rate <= MAX_SAMPLES:
        raise ArgumentError(
            f"--period, --rate: expected at most {MAX_SAMPLES:,} samples, got {period:g} s at {rate:g} per second"
        )
    robot = load_robot(source, root="fixed", packages=package or (), mimic=mimic)
    with progress_bar("searching", quiet=False) as tick:
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
    worst = int(np.argmax(motion.effort_fractions))
    fraction, joint = motion.effort_fractions[worst], robot.actuated[worst]
    print_text(f"{motion.certificate}")
    print_text(
        f"largest torque according to the file: {fraction:.0%} of the effort limit of {joint}"
        if fraction > 0.0
        else "the file gives no effort limits; check the torques of the motion"
    )
    print_text(f"condition number {before:.3g} -> {after:.3g}; wrote {len(t)} samples to {target}")


@app.command()
def identify(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="samples (.csv, .npz), or a log of any kind, see below")],
    source: RobotOption,
    root: RootOption = None,
    package: PackagesOption = None,
    method: Annotated[MethodName, typer.Option(help="method of the fit")] = MethodName.consistent,
    torque_noise: Annotated[
        float | None, typer.Option(help="standard deviation of the torques [N m]; default: estimated")
    ] = None,
    force_noise: Annotated[
        float | None, typer.Option(help="standard deviation of the contact forces [N]; needs --torque-noise")
    ] = None,
    offsets: Annotated[bool, typer.Option(help="identify a constant torque offset of each actuated joint")] = True,
    prior_weight: Annotated[
        float | None,
        typer.Option(
            help="weight of the parameters of the robot file, for --method consistent; default: 1, or less where they "
            "contradict the data"
        ),
    ] = None,
    held_out: Annotated[
        float, typer.Option(min=0.0, max=0.9, help="fraction of the data for validation instead of the fit")
    ] = 0.2,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FROM=TO|FILE.json",
            help="a joint, foot or column of the data and its name in the robot, or a JSON file of them; repeatable",
        ),
    ] = None,
    cutoff: Annotated[
        float | None,
        typer.Option(
            help="of logs: frequency of the low-pass [Hz], inf for none; default: a tenth of the sampling rate"
        ),
    ] = None,
    start: Annotated[float | None, typer.Option(help="of logs: time of the first row that is used [s]")] = None,
    end: Annotated[float | None, typer.Option(help="of logs: time of the last row that is used [s]")] = None,
    target: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="write all parameters (.json), or the identified robot as URDF (.urdf) or MJCF (.xml); of a robot "
            "from an MJCF, .xml is that file with the identified values",
        ),
    ] = None,
    actuators: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json", help="write friction and rotor inertia for Actuators.load, on top of the robot's"
        ),
    ] = None,
    mimic: MimicOption = True,
    as_json: JsonOption = False,
) -> None:
    """Identify the dynamic parameters of a robot from measured motion; a file of samples may be larger than memory.

    Columns of samples: q 0 .., v 0 .., a 0 .., tau JOINT .. or tau 0 .., and for contact forces f FOOT 0 .. (at the
    foot frame) or g FOOT 0 .. (at the ground); a column t is optional. Logs are files of quaddyn log and Log.save,
    recordings of control loops, tables (.csv, .parquet) with columns such as "time [s]", "position JOINT [rad]",
    "torque JOINT [N m]", and JointState messages in MCAP files and bags (.mcap, .db3, .bag, folders of rosbag2).
    Without --root, the root joint is chosen by the data. Exit code 1 if the fit did not converge, 3 if more than half
    of a torque is not explained, or torques have another scale than those of the robot's file.
    """
    from .. import identification

    check_writable(target, (".json", ".urdf", ".xml"))
    check_writable(actuators, (".json",))
    use_one_linear_algebra_thread()
    names = read_column_names(column or ())
    columns = _read_log(data, names)
    robot = _load_matching_robot(data, columns, names, source, root, package or (), mimic=mimic, quiet=as_json)
    print_warnings(robot, source)
    motion_range, n_held_out = identification.MotionRange(robot), 0
    if columns is not None:
        interval = {"start": -np.inf if start is None else start, "end": np.inf if end is None else end}
        log = identification.samples_from_columns(
            robot, columns, names=names, cutoff=cutoff, source=str(data), **interval
        )
    elif any(option is not None for option in (cutoff, start, end)):
        raise ArgumentError("--cutoff, --start, --end: not accepted with a file of samples; remove the option")

    def read_parts(progress: Callable[[float], object]) -> Iterator[Samples]:
        if columns is None:
            yield from identification.stream_samples(data, robot, progress=progress, names=names)
        else:
            yield log

    def take_fit_samples(part: Samples) -> Samples:
        nonlocal n_held_out
        motion_range.add(part)
        first, rest = identification.split_samples(part, held_out)
        n_held_out += len(rest)
        return first

    with progress_bar("reading", quiet=as_json) as tick:
        fit_samples = (take_fit_samples(part) for part in read_parts(tick))
        result = identification.identify(
            robot,
            fit_samples,
            method=method.value,
            torque_noise=torque_noise,
            force_noise=force_noise,
            offsets=offsets,
            prior_weight=prior_weight,
        )
    validation = None
    if n_held_out:
        with progress_bar("validating", quiet=as_json) as tick:
            validation = result.validate(identification.split_samples(part, held_out)[1] for part in read_parts(tick))
    unexplained = find_unexplained_torques(result, validation)
    causes: tuple[str, ...] = ()
    if unexplained:
        rest = (identification.split_samples(part, held_out)[1] for part in read_parts(lambda fraction: None))
        causes = identification.likely_causes(
            result.base, rest, [name for name in unexplained if name in robot.actuated]
        )
    warnings = fit_warnings(result, validation, motion_range, causes)
    report = result.to_json() | {"doubts": warnings}
    if validation is not None:
        report["held_out"] = {
            "samples": validation.samples,
            "error": validation.error.tolist(),
            "signal": validation.signal.tolist(),
        }
    if not as_json:
        _print_fit(result, validation)
        for warning in warnings:
            err.print(f"[yellow]warning:[/] {escape(warning)}", highlight=False)
    if target is not None:
        if target.suffix.lower() == ".urdf":
            result.save_urdf(target)
        elif target.suffix.lower() == ".xml":
            result.save_mjcf(target, source if Path(source).is_file() and is_mjcf(Path(source).read_bytes()) else None)
        else:
            target.write_text(json.dumps(report, indent=1), encoding="utf-8")
    if actuators is not None:
        _save_actuators(result, source, package or (), actuators, mimic=mimic)
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        for path in filter(None, (target, actuators)):
            print_text(f"wrote {path}")
    doubtful = unexplained or result.scaled_torques
    raise typer.Exit(1 if not result.converged else EXIT_REDUCED if doubtful else 0)


def read_column_names(options: Sequence[str]) -> dict[str, str]:
    """Returns the names of the robot by names in the data, from values of --column.

    Args:
        options: "FROM=TO", or the name of a JSON file with an object of strings.

    Raises:
        ArgumentError: a value is neither.
        OSError: a file cannot be read.
    """
    names: dict[str, str] = {}
    for option in options:
        old, equals, new = option.partition("=")
        if equals and old and new:
            names[old] = new
            continue
        try:
            found = json.loads(read_regular_file(option, MAX_NAMES_SIZE))
        except (ValueError, RecursionError) as error:
            raise ArgumentError(f"--column: {option}: the file is not JSON: {error}") from None
        except OSError as error:
            raise ArgumentError(
                f"--column: expected FROM=TO or a JSON file, got {option!r} ({describe_os_error(error)})"
            ) from None
        if not isinstance(found, dict) or not all(isinstance(name, str) for name in found.values()):
            raise ArgumentError(f'--column: {option}: expected an object such as {{"q_0": "position FL_hip_joint"}}')
        names |= found
    return names


def _read_log(data: Path, names: Mapping[str, str]) -> dict[str, Array] | None:
    """Returns the columns of a log or recording; None for a file of samples."""
    from ..identification.sample_files import is_log
    from ..runtime.run_log import is_recording, load_recording
    from ..simulation.log_files import read_columns

    if not data.is_dir() and is_recording(data):
        return load_recording(data).columns()
    return read_columns(data) if is_log(data, names) else None


def _load_matching_robot(
    data: Path,
    columns: Mapping[str, Array] | None,
    names: Mapping[str, str],
    source: str,
    root: str | None,
    packages: Sequence[Path],
    *,
    mimic: bool,
    quiet: bool,
) -> Robot:
    """Loads the robot; without `root`, with the root joint to which the data belong."""
    from ..identification.log_samples import recorded_root
    from ..identification.sample_files import configuration_size

    robot = load(source, root=root, packages=packages, mimic=mimic)
    if root is not None:
        return robot
    if columns is not None:
        other, why = recorded_root(columns, names, source=str(data))
    else:
        size = configuration_size(data, names)
        if size is None or size == robot.nq:
            return robot
        matching = (each for each in ROOTS if load(source, root=each, packages=packages, mimic=mimic).nq == size)
        other = next(matching, robot.root)
        why = f"the data have {size} coordinates"
    if other == robot.root:
        return robot
    if not quiet:
        print_text(f"root={other} is used, because {why}; pass --root for another root")
    return load(source, root=other, packages=packages, mimic=mimic)


def _save_actuators(
    result: Identification, source: str, packages: Sequence[Path], target: Path, *, mimic: bool
) -> None:
    """Writes the identified friction and rotor inertia; a robot file that has some already must be loaded without."""
    robot = result.base.robot
    if robot.damping.any() or robot.friction.any() or robot.armature.any():
        robot = load(source, root=robot.root, packages=packages, mimic=mimic, damping=0.0, friction=0.0, armature=0.0)
        err.print(
            f"[yellow]note:[/] {escape(str(target))} contains the whole friction and rotor inertia; load the robot "
            "with damping=0, friction=0, armature=0",
            highlight=False,
            soft_wrap=True,
        )
    result.actuators(robot).save(target)


#: Maximum validation error of a torque without a warning, divided by the torque.
MAX_UNEXPLAINED_FRACTION = 0.5
#: Torques below this fraction of the largest one are ignored, since they may be noise.
NOISE_FRACTION = 0.02
#: Maximum number of names listed in a line.
MAX_LISTED_NAMES = 6


def find_unexplained_torques(result: Identification, validation: Validation | None) -> list[str]:
    """Returns the joints and root components whose torque the fit explains by less than half."""
    if validation is None:
        return []
    names = {result.base.robot.velocity_index(joint): joint for joint in result.base.robot.actuated}
    significant = validation.signal > NOISE_FRACTION * validation.signal.max()
    return [
        names.get(int(i), f"root component {i}")
        for i in np.flatnonzero(significant & (validation.error > MAX_UNEXPLAINED_FRACTION * validation.signal))
    ]


def fit_warnings(
    result: Identification, validation: Validation | None, motion_range: MotionRange, causes: Sequence[str] = ()
) -> list[str]:
    """Returns warnings about the data and the fit, one sentence each.

    Args:
        result: the fit.
        validation: its prediction errors; None without samples for validation.
        motion_range: range of the data.
        causes: likely causes of unexplained torques, see `likely_causes`.
    """
    out = [*motion_range.warnings(), *result.remarks]
    if validation is None:
        out.append("the fit was not validated, because no samples were reserved for validation")
    if poorly_fitted := find_unexplained_torques(result, validation):
        words = (
            f"{', '.join(poorly_fitted[:MAX_LISTED_NAMES])}{' ...' if len(poorly_fitted) > MAX_LISTED_NAMES else ''}"
        )
        out.append(
            f"more than {MAX_UNEXPLAINED_FRACTION:.0%} of the torque is not explained for {words}; {'; '.join(causes)}"
        )
    return out


def _print_losses(result: Identification) -> None:
    """Prints identified friction and rotor inertia of the joints next to the values of the file."""
    robot, losses = result.base.robot, result.joint_losses
    if not losses:
        return
    units = escape("viscous [N m s/rad], Coulomb [N m], rotor [kg m^2]")
    columns = ("joint", ">viscous", ">file", ">Coulomb", ">file", ">rotor", ">file")
    table = make_table(*columns, title=f"joints, as identified: {units}")
    for joint, values in losses.items():
        own = robot.tree.joints_by_name[joint]
        found = [f"{x:.3g}{mark}" for x, mark in zip(values.tolist(), result.mark_losses(joint), strict=True)]
        file = (f"{x:.3g}" for x in (own.damping, own.friction, own.armature))
        table.add_row(escape(joint), *(cell for pair in zip(found, file, strict=True) for cell in pair))
    out.print(table)


def _print_fit(result: Identification, validation: Validation | None) -> None:
    """Prints residuals, masses, losses and the quality of the fit."""
    robot, base = result.base.robot, result.base
    weight = f", prior weight {result.prior_weight:g}" if result.prior_weight else ""
    title = f"{escape(robot.name)}: {result.samples:,} samples, {result.method}{weight}"
    table = make_table("~generalized force", ">residual", ">held out", ">measured", title=title)
    names = {robot.velocity_index(joint): joint for joint in robot.actuated}
    for i, noise in enumerate(result.noise):
        validation_cells = (
            ("-", "-") if validation is None else (f"{validation.error[i]:.4g}", f"{validation.signal[i]:.4g}")
        )
        table.add_row(escape(names.get(i, f"root {i}")), f"{noise:.4g}", *validation_cells)
    out.print(table)
    table = make_table("~body", ">mass [kg]", ">in the file", "~com [m]", title="bodies, as identified")
    for body, inertial in zip(robot.bodies, result.inertials.values(), strict=True):
        if body.joint is not None or robot.root != "fixed":
            com = ", ".join(f"{x:.4f}" for x in inertial.com) + result.mark_com(body.name)
            mass = f"{inertial.mass:.4g}{result.mark_mass(body.name)}"
            table.add_row(escape(body.name), mass, f"{body.inertial.mass:.4g}", com)
    out.print(table)
    _print_losses(result)
    if result.ambiguity:
        print_text(f"{result.ambiguity}; --prior-weight 100 keeps it near the file, --json lists all combinations")
    n_uncertain = int(np.count_nonzero(result.deviation > np.abs(result.beta)))
    print_text(f"{base.certificate}")
    print_text(
        f"{result.n_identifiable} of {base.size} base parameters are identifiable from the data, "
        f"{n_uncertain} of them with a standard deviation above their value; condition number {result.condition:.3g}"
    )
    if result.unidentifiable:
        more = (
            f" and {len(result.unidentifiable) - MAX_LISTED_NAMES} more, see --json"
            if len(result.unidentifiable) > MAX_LISTED_NAMES
            else ""
        )
        listed = "; ".join(result.unidentifiable[:MAX_LISTED_NAMES])
        print_text(f"parameters taken from the file, because the data do not identify them: {listed}{more}")
    if result.inconsistent_bodies:
        wrong = escape(", ".join(result.inconsistent_bodies))
        err.print(
            f"[yellow]bodies with physically inconsistent parameters:[/] {wrong}; try --method consistent",
            highlight=False,
        )
    if not result.converged:
        err.print("[red]the fit did not converge[/]")
