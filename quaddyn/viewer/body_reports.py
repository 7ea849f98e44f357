"""Texts about the rigid bodies of a robot for the page.

They describe mass, box of equal inertia and joint with its limits of each body, and the active limits and deficits of
tasks at the last tick of whole-body control.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pinocchio as pin

from ..locomotion import LocomotionCommand
from ..robot.arguments import check_type
from ..robot.bodies import CompositeBody
from ..robot.robot import Robot
from ..urdf.tree import Array, Inertial, Pose
from ..wbc import Command

#: Index and text of each body.
BodyTexts = list[tuple[int, str]]
#: Smallest deficit that is listed, in the unit of the row.
MIN_DEFICIT = 1e-2
#: Largest number of lines of one body.
MAX_LINES_PER_BODY = 8


class BodyReports:
    """Active limits, and deficits of tasks, by body.

    Args:
        robot: robot of the commands.
        joints: index of the Pinocchio joint that carries each body.
    """

    def __init__(self, robot: Robot, joints: Sequence[int]) -> None:
        frames = {name: int(robot.model.frames[robot.frame_id(name)].parentJoint) for name in robot.frame_names}
        self._bodies = {name: joints.index(joint) for name, joint in frames.items() if joint in joints}

    def describe(self, command: Command | LocomotionCommand | None) -> BodyTexts | None:
        """Returns the report of a tick; rows that belong to no link or joint are those of the base.

        Args:
            command: command of the tick; None for none.

        Returns:
            Index and lines of text of each body with an active limit or a deficit; None without a command of
            whole-body control.

        Raises:
            ArgumentTypeError: not a command of whole-body control.
        """
        if isinstance(command, LocomotionCommand):
            command = command.wbc_command
        if command is None:
            return None
        check_type("command", command, Command, "a command of whole-body control or locomotion")
        lines: dict[int, list[str]] = {}
        for row, text in _find_rows(command):
            lines.setdefault(self._find_body(row), []).append(text)
        return [(body, "\n".join(texts[:MAX_LINES_PER_BODY])) for body, texts in sorted(lines.items())]

    def _find_body(self, row: str) -> int:
        """Returns the index of the body whose link, joint or foot a row is named after; 0 for none."""
        words = row.split(" ")
        for count in range(len(words), 0, -1):
            if (body := self._bodies.get(" ".join(words[:count]))) is not None:
                return body
        return 0


def _find_rows(command: Command) -> Iterator[tuple[str, str]]:
    """Yields name and text of each active or violated limit, and of each row with a deficit.

    The last of three or more levels is left out, which only determines the freedom that the others leave.
    """
    details = command.details
    for name in command.levels[0].active:
        yield name, f"{name}: active"
    levels = details.problem.levels
    for level, groups in enumerate(levels[: -1 if len(levels) > 2 else None]):
        for group in groups:
            y = group.A @ details.x
            deficits = np.maximum(group.lower - y, 0.0) + np.maximum(y - group.upper, 0.0)
            for row in np.flatnonzero(deficits > MIN_DEFICIT).tolist():
                kind = "short of its target" if group.is_equality[row] else "beyond the limit"
                yield group.names[row], f"{group.names[row]}: {deficits[row]:.2g} {group.unit} {kind} (level {level})"


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
