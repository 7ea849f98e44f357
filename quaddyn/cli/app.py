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
from ..operating_system import describe_os_error
from ..version import __version__
from .console import err, out
from .options import COMPLETIONS

#: Exit codes for an invalid argument or file, and for an interrupt (128 + SIGINT, as in shells).
EXIT_BAD_INPUT, EXIT_INTERRUPTED = 2, 130
#: Exit code of the demo if all checks passed, but limits reduced a requested value by more than 10 %.
EXIT_REDUCED = 3
#: Exit code of a command that was interrupted and has printed its results so far; `main` replaces it by
#: `EXIT_INTERRUPTED`.
EXIT_INTERRUPTED_AFTER_REPORT = -EXIT_INTERRUPTED

#: Exception of typer for an invalid command line: click's class, or its copy in typer, depending on the version.
CommandLineError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

app = typer.Typer(
    no_args_is_help=True,
    help="Dynamics, whole-body control, locomotion and simulation of legged robots.",
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,  # otherwise Rich interprets units in brackets as markup
)


RobotArgument = Annotated[
    str,
    typer.Argument(metavar="NAME|FILE", help="a catalogue name or a URDF file", autocompletion=COMPLETIONS["robot"]),
]
RobotOption = Annotated[
    str,
    typer.Option(
        "--robot", metavar="NAME|FILE", help="a catalogue name or a URDF file", autocompletion=COMPLETIONS["robot"]
    ),
]
PlantOption = Annotated[str, typer.Option(help="embedded or mujoco", autocompletion=COMPLETIONS["plant"])]
RecordOption = Annotated[Path | None, typer.Option(help="write a self-contained HTML file and exit")]
JsonOption = Annotated[bool, typer.Option("--json", help="machine-readable report")]
RootOption = Annotated[
    str | None,
    typer.Option(
        help="root joint: free, planar or fixed; default: by the kind of robot", autocompletion=COMPLETIONS["root"]
    ),
]
PackagesOption = Annotated[
    list[Path] | None, typer.Option("--package", help="ROS package folder to find meshes in; repeatable")
]
MimicOption = Annotated[
    bool, typer.Option("--mimic/--no-mimic", help="whether joints with <mimic> follow others, or move independently")
]
PortOption = Annotated[int, typer.Option(min=0, max=65535, help="port of the live page; 0: any free port")]
#: Default address of the live page, which only this machine can open.
LOOPBACK_ADDRESS = "127.0.0.1"
HostOption = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        help="address on which the live page is served; 0.0.0.0: other machines can open it, too, by its address with "
        "the token, unencrypted",
    ),
]


def main() -> None:
    """Runs the command line.

    Errors of this package, of the file system and of the command line are printed as one line on stderr, or with --json
    as an object on stdout, with exit code 2. Ctrl-C gives exit code 130, after printing the results so far.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # print characters outside the encoding as escapes
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(standalone_mode=False)
    except CommandLineError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help text
            error.show()
        else:
            print_error(error)
        code = error.exit_code
    except (QuaddynError, OSError) as error:
        print_error(error)
        code = EXIT_BAD_INPUT
    except (KeyboardInterrupt, typer.Abort):
        code = EXIT_INTERRUPTED
    if code == EXIT_INTERRUPTED:  # some versions of typer return it instead of raising
        if wants_json():
            error_fields = {"type": "KeyboardInterrupt", "message": "interrupted"}
            print(json.dumps({"error": error_fields, "exit_code": EXIT_INTERRUPTED}))
        else:
            err.print("interrupted", highlight=False)
    sys.exit(EXIT_INTERRUPTED if code == EXIT_INTERRUPTED_AFTER_REPORT else code if isinstance(code, int) else 0)


def wants_json() -> bool:
    """Returns whether the option --json is given."""
    return "--json" in sys.argv[1:]


def print_error(error: Exception) -> None:
    """Prints an error as text, or as JSON with --json."""
    message = describe_error(error)
    if wants_json():
        print(
            json.dumps(
                {"error": {"type": type(error).__name__, "message": message}, "exit_code": EXIT_BAD_INPUT}, indent=2
            )
        )
    else:
        err.print(f"[bold red]error:[/] {escape(message)}", highlight=False, soft_wrap=True)
        if isinstance(error, CommandLineError) and (context := getattr(error, "ctx", None)) is not None:
            err.print(f"help: {context.command_path} --help", highlight=False, soft_wrap=True, markup=False)


def describe_error(error: Exception) -> str:
    """Returns the message of an error, which begins with the option, argument or file concerned."""
    if isinstance(error, OSError):
        return describe_os_error(error)
    if not isinstance(error, CommandLineError):
        return str(error)
    message = str(error.message).removeprefix("Value error, ").rstrip(".")
    message = message[:1].lower() + message[1:]
    parameter = getattr(error, "param", None)
    if parameter is not None:
        is_option = parameter.param_type_name == "option"
        name = max(parameter.opts, key=len) if is_option else parameter.metavar or parameter.name
        missing = "required option" if is_option else "required argument"
        return f"{name}: {message or f'{missing} is missing'}"
    if (name := getattr(error, "option_name", None)) is None:
        return message
    if not hasattr(error, "possibilities"):
        return f"{name}: a value is required"
    near = sorted(error.possibilities or ())
    return f"{name}: no such option" + (f"; did you mean {' or '.join(near)}?" if near else "")


@app.callback(invoke_without_command=True)
def version_option(version: Annotated[bool, typer.Option("--version", help="print the version")] = False) -> None:
    """Dynamics, whole-body control, locomotion and simulation of legged robots."""
    if version:
        out.print(__version__)
        raise typer.Exit
