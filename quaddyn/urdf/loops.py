"""Reader of kinematic loops in a URDF: tags beyond its specification that other tools read and write.

- ``<loop_joint name="..." type="spherical|revolute|fixed">`` with ``<link1 link="..." xyz="..." rpy="..."/>``,
  ``<link2 .../>`` and, of a revolute joint, ``<axis xyz="..."/>`` in both frames alike (Isaac Sim, earlier Drake).  The
  attribute ``dependent``, an extension of quaddyn, names the dependent joints.
- ``<drake:ball_constraint>`` with bodies A and B and points of theirs (Drake).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .tree import Array, KinematicLoop, Pose, frozen
from .values import ElementReader
from .xml import XmlElement

#: Kinds of loops by the joint type that the tag names.
KINDS = {"spherical": "point", "ball": "point", "revolute": "revolute", "continuous": "revolute", "fixed": "weld"}
DRAKE_TAG = "drake:ball_constraint"


def read_loops(reader: ElementReader, root: XmlElement, rotation: Callable[..., Array]) -> list[KinematicLoop]:
    """Returns the loops of a document, in its order.

    Args:
        reader: reader that collects the findings.
        root: the <robot> element.
        rotation: function that returns the rotation matrix of roll, pitch and yaw.

    Raises:
        ModelError: a tag does not name the links or the type of its loop.
    """
    out: list[KinematicLoop] = []
    for element in root:
        if element.tag == "loop_joint":
            out.append(_read_loop_joint(reader, element, rotation))
        elif element.tag.rsplit("}")[-1] in ("ball_constraint", DRAKE_TAG):
            out.append(_read_ball_constraint(reader, element, f"ball_constraint_{len(out) + 1}"))
        if out and any(out[-1].name == other.name for other in out[:-1]):
            raise reader.make_error(element, "another loop has the same name", "rename one of them")
    return out


def _read_loop_joint(reader: ElementReader, element: XmlElement, rotation: Callable[..., Array]) -> KinematicLoop:
    reader.report_unknown(element)
    name, loop_type = reader.read_name(element), reader.read_text(element, "type")
    if loop_type not in KINDS:
        raise reader.make_error(
            element, f"type={loop_type!r} is not a type of loop joint", f"use one of {', '.join(KINDS)}"
        )
    turn = np.eye(3)
    axis = reader.find_unique(element, "axis")
    if KINDS[loop_type] == "revolute":
        xyz = np.array((1.0, 0.0, 0.0) if axis is None else reader.read_vector(axis, "xyz", 3, bound=1e3))
        if not np.linalg.norm(xyz) > 1e-3:
            raise reader.make_error(element, "the <axis> has length 0", "give a unit vector")
        turn = rotation_of_z_to(xyz / np.linalg.norm(xyz))
    ends = []
    for tag in ("link1", "link2"):
        end = reader.find_required(element, tag)
        xyz_here = reader.read_vector(end, "xyz", 3, default=(0.0, 0.0, 0.0))
        rpy = reader.read_vector(end, "rpy", 3, default=(0.0, 0.0, 0.0), bound=1e4)
        ends.append((reader.read_text(end, "link"), Pose.of(rotation(*rpy) @ turn, xyz_here)))
    (link_a, at_a), (link_b, at_b) = ends
    dependent = tuple(element.attrib.get("dependent", "").split())
    return KinematicLoop(name, KINDS[loop_type], link_a, link_b, at_a, at_b, dependent, element.where)


def _read_ball_constraint(reader: ElementReader, element: XmlElement, name: str) -> KinematicLoop:
    links, poses = [], []
    for body, point in (("body_A", "p_AP"), ("body_B", "p_BQ")):
        found = {child.tag.rsplit("_constraint_")[-1]: child for child in element}
        if body not in found or point not in found:
            raise reader.make_error(
                element, f"the constraint lacks {body} or {point}", "add both, which Drake's documentation requires"
            )
        links.append(reader.read_text(found[body], "name"))
        poses.append(Pose.of(np.eye(3), reader.read_vector(found[point], "value", 3)))
    return KinematicLoop(name, "point", links[0], links[1], poses[0], poses[1], (), element.where)


def rotation_of_z_to(axis: Array) -> Array:
    """(3, 3) the shortest rotation that turns z into a unit axis."""
    x, y, z = (float(a) for a in axis)
    angle = math.atan2(math.hypot(x, y), z)
    if math.hypot(x, y) == 0.0:
        return frozen(np.eye(3) if z > 0.0 else np.diag([1.0, -1.0, -1.0]))
    n = np.array([-y, x, 0.0]) / math.hypot(x, y)
    V = np.array([[0.0, 0.0, n[1]], [0.0, 0.0, -n[0]], [-n[1], n[0], 0.0]])
    return frozen(np.eye(3) + math.sin(angle) * V + (1.0 - math.cos(angle)) * V @ V)
