"""`quaddyn preflight`: a robot that hangs in a stand, looked over before its first step."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from ..errors import ArgumentError
from ..robot import load
from .app import PackagesOption, RobotArgument, app
from .console import say
from .renamed_options import renamed_options

#: Exit code where nothing was tried, since a person said no.
DECLINED = 3


@app.command(
    cls=renamed_options(
        "preflight", {"--listen": "--listen-port", "--share": "--torque-fraction", "--yes": "--assume-hanging"}
    )
)
def preflight(
    source: RobotArgument,
    udp: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS:PORT", help="a robot that speaks quaddyn's packets; default: a simulated one"),
    ] = None,
    listen_port: Annotated[
        int, typer.Option(min=0, max=65535, help="port to which it sends readings; 0: a free one")
    ] = 0,
    bind: Annotated[str, typer.Option(help="address to listen at")] = "127.0.0.1",
    torque_fraction: Annotated[
        float, typer.Option(help="largest test torque of a joint, divided by its effort limit")
    ] = 0.2,
    assume_hanging: Annotated[
        bool, typer.Option("--assume-hanging", help="do not ask whether the robot hangs free")
    ] = False,
    package: PackagesOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="machine-readable report")] = False,
) -> None:
    """Look a robot over: limits, readings, order and signs by wiggling one joint at a time, gravity, IMU axes.

    Every line says what to look at on the real robot.  Without --udp the robot is a simulated one in a stand, to see
    what comes.  Robots with another protocol: quaddyn.runtime.preflight(interface).  Exit code 1 if anything failed,
    3 if the question whether the robot hangs free is answered with no.
    """
    from .. import runtime

    robot = load(source, packages=package or ())
    if udp is None:
        stand = runtime.HangingRobot(robot)
        report = runtime.preflight(stand, clock=stand, torque_fraction=torque_fraction, prompt=stand.perform)
    else:
        address, _, port = udp.rpartition(":")
        if not address or not port.isdecimal():
            raise ArgumentError(f"--udp: expected ADDRESS:PORT, got {udp!r}")
        if not assume_hanging:
            hangs = f"Does {robot.name} hang free, its legs in the air, with the emergency stop at hand?"
            if not typer.confirm(hangs):
                say("nothing was tried")
                raise typer.Exit(DECLINED)
        side = runtime.UdpInterface(robot, (address, int(port)), port=listen_port, bind=bind)
        try:
            report = runtime.preflight(
                side, torque_fraction=torque_fraction, prompt=lambda what: say(f"now: {what.value}")
            )
        finally:
            side.close()
    if as_json:
        print(json.dumps({"passed": report.passed, "checks": [asdict(check) for check in report.checks]}, indent=2))
    else:
        say(str(report))
    if not report.passed:
        raise typer.Exit(1)
