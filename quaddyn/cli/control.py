"""`quaddyn replay`: repeats a saved tick of whole-body control, or a case of a campaign."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ..errors import ArgumentError
from .app import JsonOption, app
from .campaigning import CampaignOption, replay_case
from .console import make_table, out, print_text
from .options import renamed_options

if TYPE_CHECKING:
    from ..wbc import TickReplay


@app.command(cls=renamed_options("replay", {"--last": "--include-last-level"}))
def replay(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|STORE#17",
            help="file of WholeBodyController.save_tick, or case number 17 of a campaign's store",
        ),
    ],
    record: Annotated[
        Path | None, typer.Option(help="write the motion of a case as a self-contained HTML file")
    ] = None,
    campaign: CampaignOption = None,
    include_last_level: Annotated[
        bool, typer.Option("--include-last-level", help="also explain the residuals of the last priority level")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Solve a saved tick of whole-body control again, or run a campaign's case again in the viewer.

    Exit code 1 if the result differs: for a tick by more than rounding, for a case by any bit.
    """
    store, _, number = str(file).rpartition("#")
    if store and number.isdecimal() and not file.exists():
        replay_case(Path(store), int(number), record, named=campaign, as_json=as_json)
        return
    if campaign is not None:
        raise ArgumentError(f"--campaign: only accepted with a case of a campaign, such as runs.db#17; got {file}")
    if record is not None:
        raise ArgumentError(f"--record: only accepted with a case of a campaign, such as runs.db#17; got {file}")
    from ..wbc import replay as replay_tick

    replayed = replay_tick(file)
    tick, command = replayed.record, replayed.command
    if as_json:
        out.print_json(
            json.dumps(
                {
                    "robot": tick.robot,
                    "tick": tick.tick,
                    "identical": replayed.identical,
                    "rounding": replayed.equal_to_rounding,
                    "difference": replayed.difference,
                    "same_code": tick.is_same_version,
                    "outcome": command.status.outcome,
                    "violation": command.status.violation,
                    "kkt": command.status.kkt if command.status.kkt < float("inf") else None,
                    "tau": dict(zip(tick.joints, command.tau.tolist(), strict=True)),
                    "forces": {name: force.tolist() for name, force in command.forces.items()},
                    "explanation": command.explain(include_last_level=include_last_level, max_lines=None).splitlines(),
                }
            )
        )
    else:
        _print_tick(replayed)
        print_text(command.explain(include_last_level=include_last_level))
        difference = "identical to the saved one" if replayed.identical else f"differs by {replayed.difference:.3g} N m"
        print_text(
            f"solution: {difference}"
            + ("" if tick.is_same_version else "; it was saved by another version of the package")
        )
    if not replayed.equal_to_rounding:
        raise typer.Exit(1)


def _print_tick(replayed: TickReplay) -> None:
    """Prints torques and contact forces of the tick as tables."""
    record, command = replayed.record, replayed.command
    print_text(f"{record.robot}, tick {record.tick}; contacts {', '.join(command.forces) or 'none'}")
    torques = make_table("joint", ">torque [N m]")
    for joint, tau in zip(record.joints, command.tau.tolist(), strict=True):
        torques.add_row(escape(joint), f"{tau:+.4f}")
    out.print(torques)
    if not command.forces:
        return
    forces = make_table("~contact", ">activation", ">x [N]", ">y [N]", ">z [N]")
    for name, force in command.forces.items():
        forces.add_row(escape(name), f"{record.contact_activations[name]:.2f}", *(f"{f:+.3f}" for f in force[:3]))
    out.print(forces)
