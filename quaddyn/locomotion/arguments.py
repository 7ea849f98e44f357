"""Validation of the arguments of `LocomotionController`."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..robot.arguments import check_number, check_sequence
from ..robot.robot import Robot
from ..urdf.tree import Array
from ..wbc import WholeBodyController
from .morphology import FEET


def validate_feet(measured_contacts: Collection[str]) -> tuple[str, ...]:
    """Returns the names of feet in contact as a tuple.

    Raises:
        ArgumentTypeError: a mapping, or not a collection of names.
        UnknownNameError: a name that is not one of `FEET`.
    """
    if isinstance(measured_contacts, tuple):  # of a control loop, at every tick
        names: tuple[str, ...] = measured_contacts
    elif isinstance(measured_contacts, Mapping):
        raise ArgumentTypeError(
            "measured_contacts: expected the names of the feet in contact, got a mapping; pass its keys that are True"
        )
    else:
        names = check_sequence("measured_contacts", measured_contacts, "names of feet")
    for name in names:
        if name not in FEET:
            raise UnknownNameError("foot", name, FEET)
    return names


def validate_jump(
    height: float | None, distance: Sequence[float] | Array, turn: float
) -> tuple[float | None, tuple[float, float], float]:
    """Returns a requested jump as floats: height [m] or None, distance (2,) [m] and turn [rad].

    Raises:
        ArgumentError: the height is not positive, or a number is not finite.
        ArgumentTypeError: an argument is not a number.
    """
    if height is not None:
        height = check_number("height", height)
        if not (math.isfinite(height) and height > 0.0):
            raise ArgumentError(f"height: expected a height above 0 m, or None for the default, got {height}")
    displacement, turn = (
        [check_number("distance", x) for x in check_sequence("distance", distance, "numbers")],
        check_number("turn", turn),
    )
    if len(displacement) != 2 or not all(map(math.isfinite, (*displacement, turn))):
        raise ArgumentError(
            "distance, turn: expected two finite lengths, forward and leftward [m], and a finite angle [rad], got "
            f"{tuple(displacement)} and {turn}"
        )
    return height, (displacement[0], displacement[1]), turn


def validate_wbc(wbc: object, robot: Robot, dt: float) -> None:
    """Rejects a whole-body controller that cannot serve a locomotion controller.

    Args:
        wbc: the whole-body controller.
        robot: robot of the locomotion controller.
        dt: control period of the locomotion controller [s].

    Raises:
        ArgumentTypeError: `wbc` is not a WholeBodyController.
        ArgumentError: it is of another robot or period, or tasks or contacts are missing.
    """
    if not isinstance(wbc, WholeBodyController):
        raise ArgumentTypeError(f"wbc: expected a WholeBodyController, got {type(wbc).__name__}")
    if wbc.robot is not robot:
        raise ArgumentError(
            "wbc: belongs to another Robot object; load the robot once and use that object for both controllers"
        )
    if wbc.dt != dt:
        raise ArgumentError(f"wbc: expected the controller's period, dt={dt} s, got {wbc.dt} s")
    missing = [name for name in ("com", "base", "forces", *FEET) if name not in wbc.tasks]
    if missing:
        raise ArgumentError(
            f"wbc: tasks are missing whose references the locomotion controller sets: {', '.join(missing)}"
        )
    missing = [name for name in FEET if name not in wbc.contacts]
    if missing:
        raise ArgumentError(f"wbc: expected a contact for every foot; missing contacts: {', '.join(missing)}")


def is_estimated(option: str, value: object, other: str | None = None) -> bool:
    """Returns whether an option is "estimated".

    Args:
        option: name of the option, for the error message.
        value: value of the option.
        other: the only other value allowed.

    Raises:
        UnknownNameError: the value is neither "estimated" nor `other`.
    """
    if value not in ("estimated", other):
        raise UnknownNameError(option, value, ("estimated",) if other is None else ("estimated", other))
    return value == "estimated"


def parse_friction(friction: float | str, assumed: float) -> tuple[float, bool, bool]:
    """Returns the friction coefficient, whether it is given for this ground, and whether slips are detected.

    Args:
        friction: a coefficient, "estimated" or "nominal".
        assumed: coefficient that is assumed if none is given.
    """
    if isinstance(friction, str):
        return assumed, False, is_estimated("friction", friction, "nominal")
    return check_number("friction", friction), True, True
