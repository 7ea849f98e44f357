"""Descriptions of the rigid bodies of a robot for the page: mass, box of equal inertia, joint with its limits."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from ..robot.bodies import CompositeBody
from ..robot.robot import Robot
from ..urdf.tree import Array, Inertial, Pose


def describe_body(
    robot: Robot, body: CompositeBody, placement: Pose, effort_limits: dict[str, float]
) -> dict[str, object]:
    """Returns the description of a body as JSON data.

    Args:
        robot: robot of the body.
        body: body to describe.
        placement: placement of the body in the frame of its slot.
        effort_limits: effective effort limit by joint [N m or N].

    Returns:
        Names of robot, body and links; mass [kg]; center of mass (3,) [m] and quaternion (x, y, z, w) of the principal
        axes in the frame of the slot; sides (3,) of the homogeneous box of equal mass and inertia [m]; the joint with
        its limits, where None stands for no limit, or None for the base.
    """
    axes, sides = inertia_box(body.inertial)
    return {
        "robot": robot.name,
        "name": body.name,
        "links": [link.name for link, _ in body.links[1:]],
        "mass": body.inertial.mass,
        "com": placement.apply(body.inertial.com).tolist(),
        "axes": pin.Quaternion(placement.rotation @ axes).coeffs().tolist(),
        "box": sides.tolist(),
        "joint": _describe_joint(robot, body, effort_limits),
    }


def _describe_joint(robot: Robot, body: CompositeBody, effort_limits: dict[str, float]) -> dict[str, object] | None:
    """Returns the description of the joint that moves a body; None for the base."""
    joint = body.joint
    if joint is None:
        return None
    limits = {name: getattr(joint.limits, name) for name in ("lower", "upper", "velocity")}
    return {
        "name": joint.name,
        "type": joint.type,
        "unit": "m" if joint.type == "prismatic" else "rad",
        **{name: value if np.isfinite(value) else None for name, value in limits.items()},
        "effort": effort_limits.get(joint.name),
        "actuated": joint.name in robot.actuated,
    }


def inertia_box(inertial: Inertial) -> tuple[Array, Array]:
    """Returns principal axes (3, 3) as columns, and sides (3,) of the homogeneous box of equal mass and inertia [m]."""
    moments, axes = np.linalg.eigh(inertial.inertia)
    if np.linalg.det(axes) < 0.0:
        axes[:, 0] *= -1.0
    second_moments = np.maximum(0.5 * moments.sum() - moments, 0.0)  # integral of x^2 dm along each axis
    return axes, np.sqrt(12.0 * second_moments / max(inertial.mass, 1e-12))
