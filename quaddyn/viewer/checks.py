"""Validation of arguments of the viewer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..locomotion import Foothold
from ..robot.arguments import check_positive
from ..robot.robot import Robot
from ..simulation.records import ContactPoint
from ..urdf.tree import Array

#: Name of the robot that shows a reference configuration.
REFERENCE_ROBOT = "reference"


def validate_configuration(name: str, robot: Robot, value: ArrayLike) -> Array:
    """Returns a configuration (nq,) with unit quaternions, or raises."""
    q = validate_vector(name, value, (robot.nq,))
    if not robot.algorithms.isNormalized(robot.model, q, 1e-3):
        raise ArgumentError(
            f"{name}: a quaternion, or the cosine and sine of a continuous joint, does not have norm 1; divide it by "
            "its norm"
        )
    return q


def validate_configurations(robots: Mapping[str, Robot], values: Mapping[str, ArrayLike] | None) -> dict[str, Array]:
    """Returns the configurations of further robots by name, or raises."""
    if values is not None and not isinstance(values, Mapping):
        raise ArgumentTypeError(f"robots: expected a mapping {{name: q}}, got {type(values).__name__}")
    configurations = {}
    for name, q in (values or {}).items():
        if name not in robots or name == REFERENCE_ROBOT:
            raise UnknownNameError("robot of the viewer", name, [n for n in robots if n != REFERENCE_ROBOT])
        configurations[name] = validate_configuration(f"robots[{name!r}]", robots[name], q)
    return configurations


def validate_contact_points(contacts: Iterable[ContactPoint]) -> tuple[ContactPoint, ...]:
    """Returns the contacts of a plant as a tuple, or raises."""
    points = tuple(contacts)
    for contact in points:
        if not isinstance(contact, ContactPoint):
            raise ArgumentTypeError(f"contacts: expected ContactPoint objects of a plant, got {type(contact).__name__}")
    return points


def validate_footholds(footholds: Mapping[str, Foothold] | None) -> tuple[Foothold, ...]:
    """Returns the footholds of a `LocomotionCommand`, or raises."""
    if footholds is not None and not isinstance(footholds, Mapping):
        raise ArgumentTypeError(
            f"footholds: expected the footholds of a LocomotionCommand, got {type(footholds).__name__}"
        )
    selected = tuple((footholds or {}).values())
    for foothold in selected:
        if not isinstance(foothold, Foothold):
            raise ArgumentTypeError(
                f"footholds: expected the footholds of a LocomotionCommand, got {type(foothold).__name__}"
            )
    return selected


def validate_names(names: Iterable[str]) -> Iterable[str]:
    """Returns the names unchanged; raises for a single string instead of several names."""
    if isinstance(names, str):  # a string is an iterable of strings, too
        raise ArgumentTypeError("names: expected a sequence of names, got a single string")
    return names


def validate_vector(name: str, value: ArrayLike, *shapes: tuple[int, ...]) -> Array:
    """Returns `value` as an array of finite numbers of one of the given shapes, or raises."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(f"{name}: expected numbers: {error}") from None
    if array.shape not in shapes:
        raise ArgumentError(f"{name}: expected shape {' or '.join(map(str, shapes))}, got {array.shape}")
    if not np.isfinite(array).all():
        raise ArgumentError(f"{name}: expected finite numbers, got {array}")
    return array


def validate_direction(name: str, value: ArrayLike) -> Array:
    """Returns a unit vector (3,), or raises."""
    vector = validate_vector(name, value, (3,))
    length = float(np.linalg.norm(vector))
    if not length > 0.0:
        raise ArgumentError(f"{name}: expected a vector of nonzero length, got {vector}")
    return vector / length


def validate_points(name: str, value: ArrayLike) -> Array:
    """Returns points (n, 3), or raises."""
    count = np.shape(value)[:1]
    return validate_vector(name, value, (count[0] if count else 0, 3))


def find_friction(friction: float | Mapping[str, float], name: str) -> float:
    """Returns the friction coefficient of one contact, or raises."""
    value = friction.get(name) if isinstance(friction, Mapping) else friction
    if value is None:
        raise ArgumentError(f"friction: expected a coefficient for every contact, but that of {name!r} is missing")
    return check_positive("friction", value)
