"""`with_payload`: adds a payload to a robot."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..deprecation import renamed_parameters
from ..errors import ArgumentError, ModelError, UnknownNameError
from ..urdf.tree import Array, Inertial, Pose, frozen
from .arguments import check_number, check_vector
from .bodies import combine_inertials
from .inertial_update import with_inertials
from .plausibility import find_payload_unit_errors
from .robot import Robot


@renamed_parameters(place="position", size="diameter")
def with_payload(
    robot: Robot,
    mass: float,
    position: Sequence[float] | Array = (0.0, 0.0, 0.0),
    *,
    link: str | None = None,
    diameter: float = 0.0,
) -> Robot:
    """Returns a robot with a ball fixed to one of its links; all else, its home configuration included, is unchanged.

    `Robot.source` contains the payload as well: the inertia of the link there is that of link and ball.

    Args:
        robot: the robot that carries the payload.
        mass: mass of the ball [kg]; negative if the robot is lighter than its file states.
        position: (3,) center of the ball in the axes of the link [m].
        link: name of the link that carries the ball.  None: the root link.
        diameter: diameter of the ball [m], used only for its inertia; 0 for a point mass.

    Returns:
        A new `Robot`; the given one is unchanged.

    Raises:
        ArgumentError: a value that is not finite, or a negative diameter.
        UnknownNameError: no such link.
        ModelError: the total mass and inertia of the link, and of links fixed to it, are physically impossible.

    Warns:
        RuntimeWarning: a mass, distance or diameter so large for the robot that it seems to be in another unit.
    """
    mass, diameter = check_number("mass", mass), check_number("diameter", diameter)
    at = check_vector("position", position, (3,), "in the link's axes")
    if not (np.isfinite(mass) and 0.0 <= diameter < np.inf):
        raise ArgumentError(
            f"mass, diameter: expected a finite mass and a diameter of 0 or more, got {mass}, {diameter}"
        )
    name = robot.bodies[0].name if link is None else link
    carriers = {body_link.name: (body, pose) for body in robot.bodies for body_link, pose in body.links}
    if name not in carriers:
        raise UnknownNameError("link", name, carriers)
    body, pose = carriers[name]
    if mass == 0.0:
        return robot
    body_mass = body.inertial.mass
    if body_mass + mass <= 0.0:
        raise ModelError(
            f"mass: {mass:g} kg would make the total mass zero or negative: link {name!r} and the links fixed to it "
            f"have {body_mass:.4g} kg"
        )
    for text in find_payload_unit_errors(
        robot.tree, mass, {"position": float(np.linalg.norm(at)), "diameter": diameter}
    ):
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    ball = Inertial(mass, frozen(pose.apply(at)), frozen(0.1 * mass * diameter**2 * np.eye(3)))
    whole = combine_inertials(((body.inertial, Pose.identity()), (ball, Pose.identity())))
    try:
        loaded = with_inertials(robot, {body.name: whole}, said="payload")
    except ModelError as error:
        raise ModelError(
            f"mass: with {mass:g} kg at {at.tolist()} m, link {name!r} has an impossible inertia; choose another "
            f"mass, position or diameter ({error})"
        ) from None
    provenance = {**loaded.report.provenance, f"{name}.payload": f"argument mass: {mass:g} kg"}
    return replace(loaded, report=replace(loaded.report, provenance=provenance), poses=robot.poses)
