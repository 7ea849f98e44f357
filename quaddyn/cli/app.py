"""The `quaddyn` command itself: its entry point and what its subcommands share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ..errors import QuaddynError
from ..version import __version__
from .console import err, out

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Legged robots: URDF to trusted model, dynamics, torques, motion."
)
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
