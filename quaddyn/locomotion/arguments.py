"""Arguments of a `LocomotionController`, checked."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import number, several
from ..robot.robot import Robot
from ..urdf.tree import Array
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


def asked_jump(
    height: float | None, distance: Sequence[float] | Array, turn: float
) -> tuple[float | None, tuple[float, float], float]:
    """A jump that is asked for, as floats: height [m], distance forward and leftward [m], turn to the left [rad]."""
    if height is not None:
        height = number("height", height)
        if not (math.isfinite(height) and height > 0.0):
            raise ArgumentError(f"height: expected a rise above 0 m, or None, got {height}")
    way, turn = [number("distance", x) for x in several("distance", distance, "numbers")], number("turn", turn)
    if len(way) != 2 or not all(map(math.isfinite, (*way, turn))):
        raise ArgumentError(
            "distance, turn: expected two finite lengths, forward and leftward [m], and a finite angle [rad], got "
            f"{tuple(way)} and {turn}"
        )
    return height, (way[0], way[1]), turn


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
    missing = [name for name in FEET if name not in whole_body.contacts]
    if missing:
        raise ArgumentError(f"whole_body: without the contacts {', '.join(missing)}, on which it is to stand")


def is_estimated(option: str, value: object, other: str | None = None) -> bool:
    """Whether an option is "estimated", and not the only `other` that it may be."""
    if value not in ("estimated", other):
        raise UnknownNameError(option, value, ("estimated",) if other is None else ("estimated", other))
    return value == "estimated"


def asked_friction(friction: float | str, assumed: float) -> tuple[float, bool, bool]:
    """Coulomb's coefficient, whether it is that of the ground instead of an assumption, and whether slips count."""
    if isinstance(friction, str):
        return assumed, False, is_estimated("friction", friction, "assumed")
    return number("friction", friction), True, True
