"""Friction cones: the margin in the second-order cone, and pyramids for solvers with linear constraints."""

from __future__ import annotations

import functools
from math import cos, pi

import numpy as np

from ..errors import ArgumentError
from ..robot.arguments import check_integer, check_wrench
from ..urdf.tree import Array, frozen
from .contact import DEFAULT_FACES, MIN_FACES, Contact
from .wrench_cones import compute_wrench_cone


def cone_margin(contact: Contact, force: Array) -> float:
    """Computes the margin of a force in the second-order cone, ``mu f_n - |f_t|`` [N]; negative outside.

    For a surface contact only the force of its wrench is evaluated; `friction_pyramid` also bounds the center of
    pressure.

    Args:
        contact: contact with the normal and the friction coefficient.
        force: (3,) or (6,), on the robot, world axes [N, N m].

    Raises:
        ArgumentError: a force of another shape or not finite.
    """
    force = check_wrench("force", force, "world axes")
    t1, t2, n = contact.axes @ force[:3]
    return float(contact.friction * n - np.hypot(t1, t2))


def friction_pyramid(
    contact: Contact, *, faces: int = DEFAULT_FACES, inner: bool = True, axes: Array | None = None
) -> Array:
    """Returns rows A with ``A f <= 0`` for forces (or wrenches) in a polyhedral friction cone, world axes.

    The inner pyramid lies inside the cone with its edges on it, so that each of its forces is feasible, but less
    friction is used: face centers reach ``mu cos(pi / n)``, 71 % with 4 faces, 92 % with 8, 98 % with 16
    (`pyramid_friction_ratio`).  The outer one is tangent to the cone at its face centers and reaches ``mu / cos(pi /
    n)`` at its edges.  The first face is centered on t1, the next ones follow towards t2.

    A surface contact, about its center, has the exact cone of the wrenches that pyramids of four faces at its corners
    can exert: pressure inside the rectangle and the yaw torque that friction allows (Caron, Pham and Nakamura 2015,
    "Stability of surface contacts for humanoid robots", prop. 1).  Its rows: -f_n, and then twice two for friction
    along the axes, two for the pressure and four for the moment about the normal; moments are divided by the half
    sizes, so that all rows are forces.  A polygon has as many rows as its cone has faces, in the same order: see
    `compute_wrench_cone`.

    Args:
        contact: contact with normal, friction and size.
        faces: n, 3 or more; must be 4 for a surface.
        inner: True for the pyramid inside the cone, False for the one outside.
        axes: (3, 3) rows t1, t2, n in world axes; None for ``contact.axes``.  For a surface these must be its own axes,
            ``contact.axes_at(s.placement(contact.frame).rotation)``.

    Returns:
        (n + 1, 3) for a unilateral point, whose last row is ``-f_n <= 0``; (17, 6) for a rectangle, more for a polygon;
        no rows for a bilateral contact.

    Raises:
        ArgumentError: too few faces, or other than 4 for a surface.
    """
    mu = contact.friction * pyramid_friction_ratio(faces, inner=inner)
    if contact.kind == "surface" and faces != 4:
        raise ArgumentError(f"faces: expected 4 for a surface contact, got {faces}")
    if not contact.unilateral:
        return np.zeros((0, contact.rows))
    axes = contact.axes if axes is None else axes
    if contact.half_size is None:
        return np.asarray(_compute_local_pyramid(mu, faces) @ axes)
    rotation = np.kron(np.eye(2), axes)
    if contact.polygon is not None:
        cone_rows = compute_wrench_cone(contact.polygon)
        has_friction = (cone_rows[:, [0, 1, 5]] != 0.0).any(axis=1)
        scaled_rows = np.where(has_friction[:, None], cone_rows * (1.0, 1.0, mu, mu, mu, 1.0), cone_rows)
        return np.asarray(np.vstack(((0.0, 0.0, -1.0, 0.0, 0.0, 0.0), scaled_rows)) @ rotation)
    X, Y = contact.half_size
    rows = [(0.0, 0.0, -1.0, 0.0, 0.0, 0.0)]
    for sign in (1.0, -1.0):
        rows += [
            (sign, 0.0, -mu, 0.0, 0.0, 0.0),
            (0.0, sign, -mu, 0.0, 0.0, 0.0),
            (0.0, 0.0, -1.0, sign / Y, 0.0, 0.0),
            (0.0, 0.0, -1.0, 0.0, sign / X, 0.0),
        ]
        # sign tau_z <= mu (X + Y) f_z - |Y f_x + sign mu tau_x| - |X f_y + sign mu tau_y|
        for a in (1.0, -1.0):
            for b in (1.0, -1.0):
                row = (a * Y, b * X, -mu * (X + Y), a * sign * mu, b * sign * mu, sign)
                rows.append(tuple(x / (X + Y) for x in row))
    return np.asarray(np.array(rows) @ rotation)


@functools.lru_cache(maxsize=64)  # the feet of a robot have the same friction
def _compute_local_pyramid(mu: float, faces: int) -> Array:
    """Returns the rows (faces + 1, 3) of the pyramid of a point in contact axes, for a ratio of forces at its faces."""
    angles = 2.0 * np.pi * np.arange(faces) / faces
    rows = np.column_stack((np.cos(angles), np.sin(angles), np.full(faces, -mu)))
    return frozen(np.vstack((rows, (0.0, 0.0, -1.0))))


def pyramid_friction_ratio(faces: int = DEFAULT_FACES, *, inner: bool = True) -> float:
    """Returns the fraction of mu that the face centers of a pyramid reach: ``cos(pi / n)`` inside the cone, 1 outside.

    Args:
        faces: number of faces, 3 or more.
        inner: whether the pyramid is inside the cone.

    Raises:
        ArgumentError: fewer than three faces.
    """
    count = check_integer("faces", faces, least=MIN_FACES)
    return cos(pi / count) if inner else 1.0
