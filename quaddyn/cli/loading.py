"""Robots of the commands: `load_robot` loads one and prints the warnings of its validation on stderr."""

from __future__ import annotations

import shlex
from typing import Any

from rich.markup import escape

from ..campaigns import Campaign
from ..campaigns.campaign import load_cached_robot
from ..robot import CATALOGUE, Robot, load
from .console import err

#: Maximum number of warnings that are printed; `quaddyn check` prints all.
MAX_PRINTED_WARNINGS = 3


def load_robot(source: str, **options: Any) -> Robot:
    """Loads a robot and prints its warnings, see `print_warnings`.

    Args:
        source: catalogue name or file.
        **options: options of `quaddyn.load`.
    """
    robot = load(source, **options)
    print_warnings(robot, source)
    return robot


def print_warnings(robot: Robot, source: str) -> None:
    """Prints the first warnings about a robot on stderr, and the command that prints all of them.

    Nothing is printed for robots of the catalogue, whose warnings are known, nor for cosmetic warnings (see `Finding`).
    """
    found = [] if source in CATALOGUE else [each for each in robot.report.warnings if not each.cosmetic]
    for each in found[:MAX_PRINTED_WARNINGS]:
        severity, _, text = str(each).partition(": ")
        err.print(f"[yellow]{severity}:[/] {escape(text)}", highlight=False, soft_wrap=True)
    if found:
        name = source if "<" not in source else robot.name
        text = f"{len(found)} warning{'s' * (len(found) > 1)} about the model; see quaddyn check {shlex.quote(name)}"
        err.print(text, markup=False, highlight=False, soft_wrap=True)


def print_campaign_warnings(campaign: Campaign[Any]) -> None:
    """Prints the warnings about the robots of a campaign that has the attribute ``robots``, see `print_warnings`."""
    for source in dict.fromkeys(getattr(campaign, "robots", ())):
        if source not in CATALOGUE:
            print_warnings(load_cached_robot(source), source)
