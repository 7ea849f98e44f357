"""The argument `base` of `load`: a rotation of the base frame, applied to the document."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from ..errors import ArgumentError, ArgumentTypeError, ModelError
from ..urdf.tree import Array, Tree
from .root import is_held_by_world
from .source import insert_element

#: Names of the link that is the base frame then, and of the fixed joint from it to the file's own root link.
BASE_LINK, BASE_JOINT = "turned_base", "turned_base_joint"
#: Largest deviation of the product of a rotation matrix with its transpose from the identity.
ORTHOGONALITY_TOLERANCE = 1e-5


def base_rotation_matrix(base: ArrayLike | Sequence[float]) -> Array:
    """Returns the rotation (3, 3) from the base frame of the file to the rotated one.

    Args:
        base: (3, 3) rotation matrix, or (3,) roll, pitch and yaw as in URDF [rad].

    Raises:
        ArgumentError: not a rotation.
        ArgumentTypeError: not numbers.
    """
    try:
        given = np.array(base, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"base: expected numbers, got {type(base).__name__}") from None
    if given.shape not in ((3,), (3, 3)) or not np.isfinite(given).all():
        raise ArgumentError(
            f"base: expected a (3, 3) rotation matrix or (3,) roll, pitch, yaw [rad], finite, got shape {given.shape}"
        )
    if given.shape == (3,):
        return np.asarray(pin.rpy.rpyToMatrix(*given.tolist()))
    if np.abs(given @ given.T - np.eye(3)).max() > ORTHOGONALITY_TOLERANCE or np.linalg.det(given) < 0.0:
        raise ArgumentError(f"base: expected a rotation matrix (orthonormal rows, determinant 1), got {given.tolist()}")
    return given


def rotate_document(source: str | bytes, tree: Tree, rotation: Array) -> str | bytes:
    """Returns the document of `tree` with a new massless root link, rotated against the old one and fixed to it.

    If a joint of the file attaches the robot to the world, that joint carries the new link.  Everything else in the
    document keeps its line number.

    Raises:
        ModelError: the file has a link or a joint of this name, or the joint above the robot is not found in the text.
    """
    if BASE_LINK in tree.links_by_name or BASE_JOINT in tree.joints_by_name:
        raise ModelError(
            f"{tree.file}: base= adds a link {BASE_LINK!r} and a joint {BASE_JOINT!r}, but the file already has one "
            "of this name; rename it, or rotate the base frame in the file and omit base="
        )
    carried = tree.root.name
    if is_held_by_world(tree):
        carried = tree.joints[0].child
        source = _attach_base_link(source, carried, tree.file)
    rpy = " ".join(repr(float(x) + 0.0) for x in pin.rpy.matrixToRpy(rotation))
    link = f'<link name="{BASE_LINK}"/>'
    joint = f'<joint name="{BASE_JOINT}" type="fixed"><origin xyz="0 0 0" rpy="{rpy}"/>'
    from xml.sax.saxutils import quoteattr  # imports urllib and ssl

    ends = f'<parent link="{BASE_LINK}"/><child link={quoteattr(carried)}/></joint>'
    return insert_element(source, link + joint + ends)


def _attach_base_link(source: str | bytes, link: str, file: str) -> str | bytes:
    """Returns the document in which the joint that carries `link` carries the new base link instead."""
    from xml.sax.saxutils import escape  # imports urllib and ssl

    pattern = rf"""(<child\s+link\s*=\s*)(["']){re.escape(escape(link))}\2"""
    replacement = rf"\g<1>\g<2>{BASE_LINK}\g<2>"
    if isinstance(source, str):
        out, count = re.subn(pattern, replacement, source)
        found: str | bytes = out
    else:
        found, count = re.subn(pattern.encode(), replacement.encode(), source)
    if not count:
        raise ModelError(
            f"{file}: base: the file has no <child link=...> element for link {link!r}, so its joint cannot be "
            "rotated; omit base= and rotate the <origin> of this joint in the file"
        )
    return found
