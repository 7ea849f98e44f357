"""Friction cones: the second-order test, and pyramids for solvers that know only linear rows."""

from __future__ import annotations

from math import cos, pi

import numpy as np

from ..errors import ArgumentError
from ..robot.arguments import check_integer, check_wrench
from ..urdf.tree import Array
from .contact import FACES, FEWEST_FACES, Contact
from .wrench_cones import wrench_facets


def cone_margin(contact: Contact, force: Array) -> float:
    """How far a force is inside the second-order cone, ``mu f_n - |f_t|`` [N]; negative outside.

    For a surface, the linear part of its wrench is judged; where the pressure may lie is `pyramid`'s business.

    Args:
        contact: whose normal and friction count.
        force: (3,) or (6,), on the robot, world axes [N, N m].

    Raises:
        ArgumentError: a force of another shape or not finite.
    """
    force = check_wrench("force", force, "world axes")
    t1, t2, n = contact.axes @ force[:3]
    return float(contact.friction * n - np.hypot(t1, t2))


def pyramid(contact: Contact, *, faces: int = FACES, inner: bool = True, axes: Array | None = None) -> Array:
    """Rows A with ``A f <= 0`` for forces (or wrenches) in a polyhedral friction cone, f in world axes at the contact.

    The inner pyramid lies inside the cone with its edges on it, which makes every answer a true one at the price of
    friction: face centres reach ``mu cos(pi / n)``, 71 % with 4 faces, 92 % with 8, 98 % with 16 (`friction_share`).
    The outer one touches the cone at its face centres and allows ``mu / cos(pi / n)`` at its edges.  Faces are centred
    on t1 and go round to t2.

    A surface, about its centre, has the exact cone of wrenches that pyramids of four faces at its corners can make:
    pressure inside the rectangle and the yaw torque that friction leaves (Caron, Pham and Nakamura 2015, "Stability of
    surface contacts for humanoid robots", prop. 1).  Its rows: -f_n, and then twice two for friction along the axes,
    two for the pressure and four for the moment about the normal, moments over the half sizes, so that all are forces.
    A polygon has as many as it takes, in the same order: see `wrench_facets`.

    Args:
        contact: normal, friction and size.
        faces: n, 3 or more; 4 for a surface.
        inner: the pyramid inside the cone rather than outside.
        axes: (3, 3) rows t1, t2, n in world axes; ``contact.axes`` by default.  For a surface they have to be its own,
            ``contact.axes_at(s.placement(contact.frame).rotation)``.

    Returns:
        (n + 1, 3) for a unilateral point, whose last row is ``-f_n <= 0``; (17, 6) for a rectangle, more for a polygon;
        no rows for a bilateral contact.

    Raises:
        ArgumentError: too few faces, or other than 4 for a surface.
    """
    mu = contact.friction * friction_share(faces, inner=inner)
    if contact.kind == "surface" and faces != 4:
        raise ArgumentError(f"faces: the cone of a surface is known for 4, got {faces}")
    if not contact.unilateral:
        return np.zeros((0, contact.rows))
    axes = contact.axes if axes is None else axes
    if contact.half_size is None:
        angles = 2.0 * np.pi * np.arange(faces) / faces
        local = np.vstack(
            (np.column_stack((np.cos(angles), np.sin(angles), np.full(faces, -mu))), (0.0, 0.0, -1.0)),
        )
        return np.asarray(local @ axes)
    turn = np.kron(np.eye(2), axes)
    if contact.polygon is not None:
        faces_of = wrench_facets(contact.polygon)
        slides = (faces_of[:, [0, 1, 5]] != 0.0).any(axis=1)
        scaled = np.where(slides[:, None], faces_of * (1.0, 1.0, mu, mu, mu, 1.0), faces_of)
        return np.asarray(np.vstack(((0.0, 0.0, -1.0, 0.0, 0.0, 0.0), scaled)) @ turn)
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
    return np.asarray(np.array(rows) @ turn)


def friction_share(faces: int = FACES, *, inner: bool = True) -> float:
    """Share of mu that a pyramid's face centres reach: ``cos(pi / n)`` inside the cone, 1 outside.

    Raises:
        ArgumentError: fewer than three faces.
    """
    count = check_integer("faces", faces, least=FEWEST_FACES)
    return cos(pi / count) if inner else 1.0
