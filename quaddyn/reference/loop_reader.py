"""Independent second reader of the tags that close kinematic loops, to detect errors of the package's own reader."""

from __future__ import annotations

import os
from dataclasses import dataclass

import defusedxml.ElementTree
import numpy as np

from ..errors import ModelError
from .algebra import Array, rigid_motion, roll_pitch_yaw, rotation
from .reader import content, numbers, required_attribute

KINDS = {"spherical": "point", "ball": "point", "revolute": "revolute", "continuous": "revolute", "fixed": "weld"}


@dataclass(frozen=True, eq=False)
class LoopDescription:
    """Loop closure between frames (4, 4) on two links: "point", "revolute" (about the frames' z axes) or "weld"."""

    name: str
    kind: str
    link_a: str
    link_b: str
    T_a: Array
    T_b: Array


def read_loops(source: str | bytes | os.PathLike[str]) -> tuple[LoopDescription, ...]:
    """Returns the loop closures of a URDF in the order of the file.

    Raises:
        ModelError: a tag that this reader does not support.
    """
    out = []
    for element in defusedxml.ElementTree.fromstring(content(source)):
        if element.tag == "loop_joint":
            kind = KINDS.get(required_attribute(element, "type"))
            ends = [element.find(tag) for tag in ("link1", "link2")]
            if kind is None or None in ends:
                raise ModelError(f"reference reader: loop {element.get('name')!r} has an unsupported form")
            axis_rotation, axis = np.eye(3), element.find("axis")
            if kind == "revolute":
                axis_rotation = _rotation_to(np.array([1.0, 0.0, 0.0]) if axis is None else numbers(axis, "xyz", 3))
            links = [required_attribute(end, "link") for end in ends]
            T = [
                rigid_motion(
                    roll_pitch_yaw(numbers(end, "rpy", 3, (0.0, 0.0, 0.0))) @ axis_rotation,
                    numbers(end, "xyz", 3, (0.0, 0.0, 0.0)),
                )
                for end in ends
            ]
            out.append(LoopDescription(required_attribute(element, "name"), kind, links[0], links[1], T[0], T[1]))
        elif str(element.tag).endswith("ball_constraint"):
            parts = {str(child.tag).split("ball_constraint_")[-1]: child for child in element}
            links = [required_attribute(parts[body], "name") for body in ("body_A", "body_B")]
            T = [rigid_motion(np.eye(3), numbers(parts[point], "value", 3)) for point in ("p_AP", "p_BQ")]
            out.append(LoopDescription(f"ball_constraint_{len(out) + 1}", "point", links[0], links[1], T[0], T[1]))
    return tuple(out)


def _rotation_to(axis: Array) -> Array:
    """Returns a rotation (3, 3) that maps z to the axis."""
    z, axis = np.array([0.0, 0.0, 1.0]), axis / np.sqrt(axis @ axis)
    about = np.cross(z, axis)
    s = float(np.sqrt(about @ about))
    if s < 1e-12:
        return np.eye(3) if axis[2] > 0.0 else np.diag([1.0, -1.0, -1.0])
    return rotation(about / s, float(axis[2]), s)
