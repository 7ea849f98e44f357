"""Validation of arguments of the viewer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from ..errors import ArgumentError, ArgumentTypeError
from ..locomotion import Foothold
from ..robot.arguments import check_positive
from ..robot.robot import Robot
from ..simulation.records import ContactPoint
from ..urdf.tree import Array


def configuration(name: str, robot: Robot, value: ArrayLike) -> Array:
    """Returns a configuration (nq,) with unit quaternions, or raises."""
    q = vector(name, value, (robot.nq,))
    if not robot.algorithms.isNormalized(robot.model, q, 1e-3):
        raise ArgumentError(
            f"{name}: a quaternion (or the cosine and sine of a continuous joint) is not of unit length"
        )
    return q


def contact_points(contacts: Iterable[ContactPoint]) -> tuple[ContactPoint, ...]:
    """Returns the contacts of a plant as a tuple, or raises."""
    found = tuple(contacts)
    for contact in found:
        if not isinstance(contact, ContactPoint):
            raise ArgumentTypeError(f"contacts: expected the contacts of a plant, got {type(contact).__name__}")
    return found


def footholds(given: Mapping[str, Foothold] | None) -> tuple[Foothold, ...]:
    """Returns the footholds of a `LocomotionCommand`, or raises."""
    if given is not None and not isinstance(given, Mapping):
        raise ArgumentTypeError(f"footholds: expected those of a LocomotionCommand, got {type(given).__name__}")
    found = tuple((given or {}).values())
    for foothold in found:
        if not isinstance(foothold, Foothold):
            raise ArgumentTypeError(f"footholds: expected those of a LocomotionCommand, got {type(foothold).__name__}")
    return found


def names(given: Iterable[str]) -> Iterable[str]:
    """Returns several names as a tuple, or raises for a single string."""
    if isinstance(given, str):  # a string is an iterable of strings too
        raise ArgumentTypeError("names: expected several names, got one string")
    return given


def vector(name: str, value: ArrayLike, *shapes: tuple[int, ...]) -> Array:
    """Returns finite numbers of one of these shapes, or raises."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(f"{name}: expected numbers: {error}") from None
    if array.shape not in shapes:
        raise ArgumentError(f"{name}: expected shape {' or '.join(map(str, shapes))}, got {array.shape}")
    if not np.isfinite(array).all():
        raise ArgumentError(f"{name}: expected finite numbers, got {array}")
    return array


def direction(name: str, value: ArrayLike) -> Array:
    """Returns a unit vector (3,), or raises."""
    along = vector(name, value, (3,))
    length = float(np.linalg.norm(along))
    if not length > 0.0:
        raise ArgumentError(f"{name}: expected a direction, got {along}")
    return along / length


def rows(name: str, value: ArrayLike) -> Array:
    """Returns points (n, 3), or raises."""
    count = np.shape(value)[:1]
    return vector(name, value, (count[0] if count else 0, 3))


def friction_of(friction: float | Mapping[str, float], name: str) -> float:
    """Returns the friction coefficient of one contact, or raises."""
    value = friction.get(name) if isinstance(friction, Mapping) else friction
    if value is None:
        raise ArgumentError(f"friction: no coefficient for {name!r}")
    return check_positive("friction", value)
