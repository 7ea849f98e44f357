"""Old names of options and subcommands, which work for one more version and print a warning on stderr."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import typer
from rich.markup import escape

from ..deprecation import RENAMED
from .console import err


def warn_renamed(old: str, new: str) -> None:
    """Prints a warning that `old` is now called `new`."""
    text = escape(f"{old} is now {new}; the old name will be removed in the next version")
    err.print(f"[yellow]warning:[/] {text}", highlight=False, soft_wrap=True)


def with_new_names(arguments: Sequence[str], renamed: Mapping[str, str]) -> list[str]:
    """Returns command line arguments with new option names in place of old ones, and warns of each old one.

    Args:
        arguments: words of the command line; those after "--" are positional and remain unchanged.
        renamed: new name by old name, such as {"--drive": "--teleop"}.
    """
    out = list(arguments)
    for i, word in enumerate(out):
        if word == "--":
            break
        option, equals, value = word.partition("=")
        if option in renamed:
            warn_renamed(option, renamed[option])
            out[i] = renamed[option] + equals + value
    return out


class RenamedOptionsCommand(typer.core.TyperCommand):
    """Command that also accepts old names of its options."""

    renamed: ClassVar[Mapping[str, str]] = {}

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parses the arguments after replacing old option names."""
        return super().parse_args(ctx, with_new_names(args, self.renamed))


def renamed_options(command: str, renamed: Mapping[str, str]) -> type[RenamedOptionsCommand]:
    """Returns a command class for ``app.command(cls=...)`` that also accepts old names of options.

    Args:
        command: name of the command after ``quaddyn``, such as "demo".
        renamed: new name by old name, such as {"--drive": "--teleop"}.
    """
    RENAMED.update({f"quaddyn {command} {old}": new for old, new in renamed.items()})
    return type("Command", (RenamedOptionsCommand,), {"renamed": dict(renamed)})


def renamed_commands(group: str, renamed: Mapping[str, str]) -> type[typer.core.TyperGroup]:
    """Returns a group class for ``typer.Typer(cls=...)`` that also accepts old names of its subcommands.

    Args:
        group: name of the group after ``quaddyn``, such as "log".
        renamed: new name by old name, such as {"motors": "fit-actuators"}.
    """
    RENAMED.update({f"quaddyn {group} {old}": new for old, new in renamed.items()})

    class Group(typer.core.TyperGroup):
        def resolve_command(self, ctx, args):  # type: ignore[no-untyped-def]
            if args and args[0] in renamed:
                warn_renamed(f"{group} {args[0]}", f"{group} {renamed[args[0]]}")
                args = [renamed[args[0]], *args[1:]]
            return super().resolve_command(ctx, args)

    return Group
