"""The `quaddyn` command: its entry point and the options that several subcommands share."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ..errors import QuaddynError
from ..robot import CATALOGUE
from ..version import __version__
from .console import err, out

#: Exit codes: a bad argument or file, and an interrupt (128 + SIGINT, as shells count).
BAD, INTERRUPTED = 2, 130
#: What the demo exits with where every check holds, but limits cut off more than a tenth of what was asked for.
CUT = 3
#: What a command exits with that was interrupted and has printed what it had; `main` makes `INTERRUPTED` of it.
REPORTED = -INTERRUPTED

#: What typer raises for a bad command line: click's own class or its copy in typer, as the version has it.
CommandLineError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

app = typer.Typer(
    no_args_is_help=True,
    help="Legged robots: URDF to trusted model, dynamics, torques, motion.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,  # or Rich takes the units in brackets for markup
)


def robot_names(incomplete: str) -> list[str]:
    """Returns the catalogue names that begin with `incomplete`, for shell completion."""
    return [name for name in CATALOGUE if name.startswith(incomplete)]


RobotArgument = Annotated[
    str, typer.Argument(metavar="NAME|FILE", help="a catalogue name or a URDF file", autocompletion=robot_names)
]
RootOption = Annotated[str | None, typer.Option(help="free, planar or fixed; default: what suits the robot")]
PackagesOption = Annotated[list[Path] | None, typer.Option("--package", help="a package root for meshes; repeatable")]
PortOption = Annotated[int, typer.Option(min=0, max=65535, help="of the live page; 0: a free one")]


def main() -> None:
    """Runs the command line.

    Errors of this package, of the file system and of the command line are printed as one line on stderr, or with --json
    as an object on stdout, with exit code 2. Ctrl-C gives exit code 130, after printing the results so far.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal or a pipe cannot spell is shown by its code
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(standalone_mode=False)
    except CommandLineError as error:
        if wants_json():
            tell(error)
        else:
            error.show()
        code = error.exit_code
    except (QuaddynError, OSError) as error:
        tell(error)
        code = BAD
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:  # some versions of typer turn the exception into this by themselves
        if wants_json():
            said = {"type": "KeyboardInterrupt", "message": "interrupted"}
            print(json.dumps({"error": said, "exit_code": INTERRUPTED}))
        else:
            err.print("interrupted", highlight=False)
    sys.exit(INTERRUPTED if code == REPORTED else code if isinstance(code, int) else 0)


def wants_json() -> bool:
    """Returns whether the option --json is given."""
    return "--json" in sys.argv[1:]


def tell(error: Exception) -> None:
    """Prints an error as text, or as JSON with --json."""
    message = error.format_message() if isinstance(error, CommandLineError) else str(error)
    if wants_json():
        print(json.dumps({"error": {"type": type(error).__name__, "message": message}, "exit_code": BAD}, indent=2))
    else:
        err.print(f"[bold red]error:[/] {escape(message)}", highlight=False, soft_wrap=True)


@app.callback(invoke_without_command=True)
def version_option(version: Annotated[bool, typer.Option("--version", help="print the version")] = False) -> None:
    """Legged robots: URDF to trusted model, dynamics, torques, motion."""
    if version:
        out.print(__version__)
        raise typer.Exit
