"""Arguments of a `LocomotionController`, checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import several
from ..robot.robot import Robot
from ..wbc import WholeBodyController
from .proportions import FEET


def named_feet(touching: Collection[str]) -> tuple[str, ...]:
    """Names of feet that feel the ground; a mapping says of each foot whether, which is not the same."""
    if isinstance(touching, Mapping):
        raise ArgumentTypeError("touching: expected the names of the feet that feel the ground, got a mapping")
    names = several("touching", touching, "names of feet")
    for name in names:
        if name not in FEET:
            raise UnknownNameError("foot", name, FEET)
    return names


def check_whole_body(whole_body: object, robot: Robot, dt: float) -> None:
    """Refuse what cannot serve a locomotion controller of `robot` and period `dt` [s]."""
    if not isinstance(whole_body, WholeBodyController):
        raise ArgumentTypeError(f"whole_body: expected a WholeBodyController, got {type(whole_body).__name__}")
    if whole_body.robot is not robot:
        raise ArgumentError("whole_body: of another robot than the controller's; load once and use that Robot for both")
    if whole_body.dt != dt:
        raise ArgumentError(f"whole_body: expected the controller's period, dt={dt} s, got {whole_body.dt} s")
    missing = [name for name in ("com", "base", "forces", *FEET) if name not in whole_body.tasks]
    if missing:
        raise ArgumentError(f"whole_body: without the tasks {', '.join(missing)}, which locomotion guides")


def is_estimated(option: str, value: str | None) -> bool:
    """Whether an option asks for an estimate, which is the only word that it takes."""
    if value not in (None, "estimated"):
        raise UnknownNameError(option, value, ("estimated",))
    return value is not None
