"""Values of options for shell completion (``quaddyn --install-completion``), and old names of options and subcommands.

Old names work for one more version and print a warning on stderr.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

import typer
from rich.markup import escape

from ..deprecation import RENAMED
from .console import err

#: Function that returns the values which begin with a text.
Completion = Callable[[str], list[str]]


def complete_from(values: Callable[[], Iterable[str]], *, several: bool = False) -> Completion:
    """Returns a function that completes a value.

    Args:
        values: returns all values; called when the shell asks for them, so that it may import.
        several: whether the option accepts several values separated by commas, of which the last one is completed.
    """

    def complete(incomplete: str) -> list[str]:
        done, comma, last = incomplete.rpartition(",") if several else ("", "", incomplete)
        return [done + comma + value for value in values() if value.startswith(last)]

    return complete


def _robots() -> Iterable[str]:
    from ..robot import CATALOGUE

    return CATALOGUE


def _roots() -> Iterable[str]:
    from ..robot.root import ROOTS

    return ROOTS


def _gaits() -> Iterable[str]:
    from ..locomotion import GAITS

    return (*GAITS, "squat", "swing")


def _terrains() -> Iterable[str]:
    from ..demo.locomotion_run import KINDS

    return [f"{kind}=" for kind in KINDS]


def _disturbances() -> Iterable[str]:
    from ..campaigns.walking_campaigns import DISTURBANCES

    return DISTURBANCES


def _contact_detections() -> Iterable[str]:
    from ..campaigns.walking_campaigns import CONTACT_DETECTION_OPTIONS

    return CONTACT_DETECTION_OPTIONS


#: Completion by the name of the option, or of the field of a campaign.
COMPLETIONS: Mapping[str, Completion] = MappingProxyType(
    {
        "compare": complete_from(_robots),
        "robot": complete_from(_robots),
        "root": complete_from(_roots),
        "gait": complete_from(_gaits),
        "plant": complete_from(lambda: ("embedded", "mujoco")),
        "terrain": complete_from(_terrains),
        "leg": complete_from(lambda: ("FL", "FR", "RL", "RR")),
        "disturbance": complete_from(_disturbances),
        "only": complete_from(lambda: ("speed", "push", "friction", "slope", "step", "payload", "delay")),
        "touching": complete_from(_contact_detections),
    }
)


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
