"""`quaddyn robots` and `quaddyn check`: the robot catalogue, and validation of robots."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ..robot import CATALOGUE, load
from .app import EXIT_INTERRUPTED_AFTER_REPORT, JsonOption, PackagesOption, RootOption, app
from .console import err, progress
from .options import COMPLETIONS
from .tables import Verdict, add_cross_check, print_report, print_robots, print_summary, validate


@app.command()
def robots(as_json: JsonOption = False) -> None:
    """List the robots of the catalogue with degrees of freedom, mass, legs and feet."""
    rows = []
    for name, entry in progress(list(CATALOGUE.items()), "loading"):
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
    print_robots(rows)


@app.command()
def check(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|FILE", help="a catalogue name or a URDF file", autocompletion=COMPLETIONS["robot"]
        ),
    ] = None,
    root: RootOption = None,
    package: PackagesOption = None,
    damping: Annotated[float | None, typer.Option(min=0.0, help="viscous damping of every joint [N m s/rad]")] = None,
    friction: Annotated[float | None, typer.Option(min=0.0, help="Coulomb friction of every joint [N m]")] = None,
    armature: Annotated[float | None, typer.Option(min=0.0, help="rotor inertia at every joint [kg m^2]")] = None,
    strict: Annotated[bool, typer.Option(help="reject the robot if there are warnings")] = False,
    everything: Annotated[bool, typer.Option("--all", help="check the whole catalogue")] = False,
    samples: Annotated[int, typer.Option(min=0, help="random states of the cross-check; 0: validation only")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="seed of the random states")] = 0,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE", help="robot that the reference reads instead", autocompletion=COMPLETIONS["robot"]
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Validate a robot, and compare Pinocchio with the independent reference, which has its own file reader.

    Exit code 1 if validation rejects the robot, or an algorithm disagrees by more than its tolerance. With --against,
    the reference reads that robot instead: use it to find the links in which two versions of a file differ.
    """
    if everything == (source is not None):
        raise typer.BadParameter("expected either the NAME or FILE of a robot, or the option --all")
    names = list(CATALOGUE) if everything else [str(source)]
    other = load(against, root=root, packages=package or ()).source if against is not None else None
    verdicts, interrupted = list[Verdict](), False
    try:
        for name in progress(names, "checking"):
            loaded = validate(
                name,
                root=root,
                packages=package or [],
                strict=strict,
                damping=damping,
                friction=friction,
                armature=armature,
            )
            verdicts.append(add_cross_check(loaded, samples=samples, seed=seed, source=other) if samples else loaded)
    except KeyboardInterrupt:
        if not verdicts:
            raise
        interrupted = True
    if as_json:
        print(json.dumps([v.to_json() for v in verdicts], indent=2))
    elif everything:
        print_summary(verdicts)
    else:
        print_report(verdicts[0])
    if interrupted:
        err.print("interrupted", highlight=False)
        raise typer.Exit(EXIT_INTERRUPTED_AFTER_REPORT)
    if not all(v.passed for v in verdicts):
        raise typer.Exit(1)
