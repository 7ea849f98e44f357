"""`with_payload`: a robot that carries something."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..errors import ArgumentError, ModelError, UnknownNameError
from ..urdf.tree import Array, Inertial, Pose, frozen
from .arguments import check_vector, number
from .bodies import combine
from .changed import with_inertials
from .robot import Robot


def with_payload(
    robot: Robot,
    mass: float,
    place: Sequence[float] | Array = (0.0, 0.0, 0.0),
    *,
    link: str | None = None,
    size: float = 0.0,
) -> Robot:
    """A robot with a ball fixed to one of its links; all else, home included, is the robot's own.

    `Robot.source` says it too: the link's inertia there is that of both.

    Args:
        robot: that carries it.
        mass: [kg]; negative where the robot is lighter than its file says.
        place: (3,) of the ball's centre in the link's axes [m].
        link: that carries it; the root link by default.
        size: diameter of the ball, which counts for its inertia alone [m].

    Returns:
        Another `Robot`; this one is unchanged.

    Raises:
        ArgumentError: not finite, or a diameter below zero.
        UnknownNameError: no such link.
        ModelError: the resulting mass and inertia of the link and the links fixed to it are not physically possible.
    """
    mass, size = number("mass", mass), number("size", size)
    at = check_vector("place", place, (3,), "in the link's axes")
    if not (np.isfinite(mass) and 0.0 <= size < np.inf):
        raise ArgumentError(f"mass, size: expected a finite mass and a diameter of 0 or more, got {mass}, {size}")
    name = robot.bodies[0].name if link is None else link
    carriers = {own.name: (body, pose) for body in robot.bodies for own, pose in body.links}
    if name not in carriers:
        raise UnknownNameError("link", name, carriers)
    body, pose = carriers[name]
    if mass == 0.0:
        return robot
    own = body.inertial.mass
    if own + mass <= 0.0:
        raise ModelError(
            f"mass: {mass:g} kg takes all there is or more: link {name!r} and what is fixed to it have {own:.4g} kg"
        )
    ball = Inertial(mass, frozen(pose.apply(at)), frozen(0.1 * mass * size**2 * np.eye(3)))
    whole = combine(((body.inertial, Pose.identity()), (ball, Pose.identity())))
    try:
        loaded = with_inertials(robot, {body.name: whole}, said="payload")
    except ModelError as error:
        raise ModelError(
            f"mass: with {mass:g} kg at {at.tolist()} m, link {name!r} has an inertia that no body has; choose another "
            f"mass, place or size ({error})"
        ) from None
    told = {**loaded.report.provenance, f"{name}.payload": f"argument: {mass:g} kg"}
    return replace(loaded, report=replace(loaded.report, provenance=told))
