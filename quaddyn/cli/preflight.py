"""`quaddyn preflight`: tests a robot that hangs in a stand before its first steps."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from ..errors import ArgumentError
from .app import JsonOption, PackagesOption, RobotArgument, app
from .console import print_text
from .loading import load_robot
from .options import renamed_options

#: Exit code if nothing was tested because the user declined.
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
        typer.Option(metavar="ADDRESS:PORT", help="robot that uses the packets of quaddyn; default: a simulated robot"),
    ] = None,
    listen_port: Annotated[
        int, typer.Option(min=0, max=65535, help="local port for its readings; 0: any free port")
    ] = 0,
    bind: Annotated[str, typer.Option(help="local address for its readings")] = "127.0.0.1",
    torque_fraction: Annotated[
        float, typer.Option(help="largest test torque of a joint, divided by its effort limit")
    ] = 0.2,
    assume_hanging: Annotated[
        bool, typer.Option("--assume-hanging", help="do not ask whether the robot hangs freely")
    ] = False,
    package: PackagesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Test a hanging robot: limits, readings, joint order and signs (one joint at a time), gravity, IMU axes.

    Each line of the report states what to inspect on the robot. Without --udp, a simulated robot in a stand is tested
    for demonstration. For robots with another protocol, use quaddyn.runtime.preflight(interface). Exit code 1 if a
    check failed, 3 if the robot does not hang freely according to the answer to the question.
    """
    from .. import runtime

    robot = load_robot(source, packages=package or ())
    if udp is None:
        stand = runtime.HangingRobot(robot)
        report = runtime.preflight(stand, clock=stand, torque_fraction=torque_fraction, prompt=stand.perform)
    else:
        address, _, port = udp.rpartition(":")
        if not address or not port.isdecimal():
            raise ArgumentError(f"--udp: expected ADDRESS:PORT, got {udp!r}")
        if not assume_hanging:
            question = (
                f"Does {robot.name} hang freely with its legs in the air, and is the emergency stop within reach?"
            )
            if not typer.confirm(question):
                print_text("nothing was tested")
                raise typer.Exit(DECLINED)
        interface = runtime.UdpInterface(robot, (address, int(port)), port=listen_port, bind=bind)
        try:
            report = runtime.preflight(
                interface, torque_fraction=torque_fraction, prompt=lambda what: print_text(f"now: {what.value}")
            )
        finally:
            interface.close()
    if as_json:
        print(json.dumps({"passed": report.passed, "checks": [asdict(check) for check in report.checks]}, indent=2))
    else:
        print_text(str(report))
    if not report.passed:
        raise typer.Exit(1)
