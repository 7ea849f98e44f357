"""`with_payload`: a robot that carries something."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pinocchio as pin

from ..errors import ArgumentError, UnknownNameError
from ..urdf.tree import Array, Inertial, Pose, frozen
from . import guard
from .arguments import check_vector, number
from .bodies import combine
from .model import body_joint
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

    `Robot.source` stays the file's text, in which there is no payload.

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
        ModelError: no physical robot has what is left of the link, or its base is bolted to the world.
    """
    mass, size = number("mass", mass), number("size", size)
    at = check_vector("place", place, (3,), "in the link's axes")
    if not (np.isfinite(mass) and 0.0 <= size < np.inf):
        raise ArgumentError(f"mass, size: expected a finite mass and a diameter of 0 or more, got {mass}, {size}")
    name = robot.bodies[0].name if link is None else link
    carriers = {own.name: (i, pose) for i, body in enumerate(robot.bodies) for own, pose in body.links}
    if name not in carriers:
        raise UnknownNameError("link", name, carriers)
    index, pose = carriers[name]
    body = robot.bodies[index]
    if mass == 0.0:
        return robot
    center = frozen(pose.apply(at))
    ball = Inertial(mass, center, frozen(0.1 * mass * size**2 * np.eye(3)))
    inertial = combine(((body.inertial, Pose.identity()), (ball, Pose.identity())))
    bodies = (*robot.bodies[:index], replace(body, inertial=inertial), *robot.bodies[index + 1 :])
    guard.judge_bodies(bodies, free=robot.root != "fixed", allow_massless=True)
    model = robot.model.copy()
    joint = body_joint(model, body)
    if joint:  # what is bolted to the world moves nothing
        frame = model.frames[model.getFrameId(body.name, pin.FrameType.BODY)].placement
        own = pin.Inertia(inertial.mass, np.array(inertial.com), np.array(inertial.inertia))
        model.inertias[joint] = frame.act(own)
    told = {**robot.report.provenance, f"{name}.payload": f"argument: {mass:g} kg"}
    return replace(robot, bodies=bodies, model=model, report=replace(robot.report, provenance=told))
