"""Arguments of a `LocomotionController`, checked."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import number, several
from ..robot.robot import Robot
from ..urdf.tree import Array
from ..wbc import WholeBodyController
from .morphology import FEET


def validate_feet(measured_contacts: Collection[str]) -> tuple[str, ...]:
    """Names of feet that feel the ground; a mapping says of each foot whether, which is not the same."""
    if isinstance(measured_contacts, Mapping):
        raise ArgumentTypeError(
            "measured_contacts: expected the names of the feet in contact, got a mapping; pass its keys that are True"
        )
    names = several("measured_contacts", measured_contacts, "names of feet")
    for name in names:
        if name not in FEET:
            raise UnknownNameError("foot", name, FEET)
    return names


def validate_jump(
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


def validate_wbc(wbc: object, robot: Robot, dt: float) -> None:
    """Refuse what cannot serve a locomotion controller of `robot` and period `dt` [s]."""
    if not isinstance(wbc, WholeBodyController):
        raise ArgumentTypeError(f"wbc: expected a WholeBodyController, got {type(wbc).__name__}")
    if wbc.robot is not robot:
        raise ArgumentError("wbc: it is of another robot; load the robot once and use that Robot for both")
    if wbc.dt != dt:
        raise ArgumentError(f"wbc: expected the controller's period, dt={dt} s, got {wbc.dt} s")
    missing = [name for name in ("com", "base", "forces", *FEET) if name not in wbc.tasks]
    if missing:
        raise ArgumentError(
            f"wbc: the tasks {', '.join(missing)} are missing, whose references locomotion sets; add them"
        )
    missing = [name for name in FEET if name not in wbc.contacts]
    if missing:
        raise ArgumentError(f"wbc: the contacts {', '.join(missing)} are missing, on which the robot stands; add them")


def is_estimated(option: str, value: object, other: str | None = None) -> bool:
    """Whether an option is "estimated", and not the only `other` that it may be."""
    if value not in ("estimated", other):
        raise UnknownNameError(option, value, ("estimated",) if other is None else ("estimated", other))
    return value == "estimated"


def parse_friction(friction: float | str, assumed: float) -> tuple[float, bool, bool]:
    """Coulomb's coefficient, whether it is that of the ground instead of an assumption, and whether slips count."""
    if isinstance(friction, str):
        return assumed, False, is_estimated("friction", friction, "nominal")
    return number("friction", friction), True, True
