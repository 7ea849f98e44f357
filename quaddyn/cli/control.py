"""`quaddyn replay`: one tick of whole-body control out of a file, or one case of a campaign."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from ..errors import ArgumentError
from .app import app
from .campaigning import CampaignOption, replay_case
from .console import out, say
from .renamed_options import renamed_options

if TYPE_CHECKING:
    from ..wbc import TickReplay


@app.command(cls=renamed_options("replay", {"--last": "--include-last-level"}))
def replay(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|STORE#17", help="as written by WholeBodyController.save_tick; or a case of a campaign's store"
        ),
    ],
    record: Annotated[
        Path | None, typer.Option(help="of a case: write its motion as a self-contained HTML file")
    ] = None,
    campaign: CampaignOption = None,
    include_last_level: Annotated[
        bool, typer.Option("--include-last-level", help="explain the residuals of the last level, too")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="machine-readable report")] = False,
) -> None:
    """Solve a saved tick of whole-body control again, or run a campaign's case again in the viewer.

    Exit code 1 if the answer is another one: of a tick beyond rounding, of a case by one bit.
    """
    store, _, number = str(file).rpartition("#")
    if store and number.isdecimal() and not file.exists():
        replay_case(Path(store), int(number), record, named=campaign, as_json=as_json)
        return
    if campaign is not None:
        raise ArgumentError("--campaign goes with a case of a campaign, such as runs.db#17")
    if record is not None:
        raise ArgumentError("--record goes with a case of a campaign, such as runs.db#17")
    from ..wbc import replay as solve_again

    again = solve_again(file)
    tick, command = again.record, again.command
    if as_json:
        out.print_json(
            json.dumps(
                {
                    "robot": tick.robot,
                    "tick": tick.tick,
                    "identical": again.identical,
                    "rounding": again.equal_to_rounding,
                    "difference": again.difference,
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
        _print(again)
        say(command.explain(include_last_level=include_last_level))
        same = "bit for bit" if again.identical else f"but for {again.difference:.3g} N m"
        say(f"the answer of then, {same}" + ("" if tick.is_same_version else "; it was saved by other sources"))
    if not again.equal_to_rounding:
        raise typer.Exit(1)


def _print(again: TickReplay) -> None:
    """Torques and forces of the tick."""
    record, command = again.record, again.command
    say(f"{record.robot}, tick {record.tick}; contacts {', '.join(command.forces) or 'none'}")
    torques = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    torques.add_column("joint", no_wrap=True)
    torques.add_column("torque [N m]", justify="right")
    for joint, tau in zip(record.joints, command.tau.tolist(), strict=True):
        torques.add_row(escape(joint), f"{tau:+.4f}")
    out.print(torques)
    if not command.forces:
        return
    forces = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in ("contact", "share", "x [N]", "y [N]", "z [N]"):
        forces.add_column(column, justify="left" if column == "contact" else "right")
    for name, force in command.forces.items():
        forces.add_row(escape(name), f"{record.contact_activations[name]:.2f}", *(f"{f:+.3f}" for f in force[:3]))
    out.print(forces)
