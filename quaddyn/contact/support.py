"""The support polygon, the area in which the center of mass can be supported on level ground.

`compute_center_of_pressure` computes the center of pressure of a surface contact.
"""

from __future__ import annotations

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError
from ..urdf.tree import Array

#: Distance below which a corner is attributed to rounding, as a fraction of the largest coordinate.  Positions from
#: forward kinematics carry the rounding of some hundred operations, each of 1.1e-16 of the coordinate.
ROUNDING_TOLERANCE = 1e-12


def support_polygon(points: Array) -> Array:
    """Computes the convex hull of points in the plane (Andrew 1979, monotone chain).

    A corner whose distance from the line between its neighbors is less than `ROUNDING_TOLERANCE` of the largest
    coordinate is dropped, so that the number of corners does not depend on how the processor rounds.

    Args:
        points: (m, 2) points, such as contact positions seen from above [m].

    Returns:
        (h, 2) corners [m], counter-clockwise from the one with the smallest x (of several, the one with the smallest
        y), without points on an edge; one or two rows where the points do not span an area, none without points.

    Raises:
        ArgumentError: another shape, or a point that is not finite.
    """
    points = _check_plane_points("points", points)
    ordered = np.unique(points, axis=0)
    if len(ordered) <= 1:
        return ordered

    def half_hull(line: Array) -> list[Array]:
        out: list[Array] = []
        for p in line:
            while len(out) >= 2 and _signed_area(out[-2], out[-1], p) <= 0.0:
                out.pop()
            out.append(p)
        return out[:-1]

    tolerance = ROUNDING_TOLERANCE * float(np.abs(points).max())
    hull = _remove_rounded_corners(np.array(half_hull(ordered) + half_hull(ordered[::-1])), tolerance)
    leftmost = np.flatnonzero(hull[:, 0] <= hull[:, 0].min() + tolerance)
    return np.roll(hull, -int(leftmost[np.argmin(hull[leftmost, 1])]), axis=0)


def support_margin(polygon: Array, point: Array) -> float:
    """Returns the distance of a point from the edge of a support polygon [m]: positive inside, negative outside.

    Args:
        polygon: (h, 2) corners as from `support_polygon` [m]; with fewer than three corners every point is outside.
        point: (2,) such as the ground projection of the center of mass, or a zero-moment point [m].

    Returns:
        The distance [m]; -inf without corners.

    Raises:
        ArgumentError: another shape, or an entry that is not finite.
    """
    polygon, point = _check_plane_points("polygon", polygon), _check_plane_points("point", [point])[0]
    if not len(polygon):
        return -np.inf
    edges = np.roll(polygon, -1, axis=0) - polygon
    squared_lengths = (edges * edges).sum(axis=1)
    offset = point - polygon
    alpha = np.clip((offset * edges).sum(axis=1) / np.where(squared_lengths > 0.0, squared_lengths, 1.0), 0.0, 1.0)
    distance = float(np.hypot(*(offset - alpha[:, None] * edges).T).min())
    inside = len(polygon) > 2 and bool((edges[:, 0] * offset[:, 1] - edges[:, 1] * offset[:, 0] >= 0.0).all())
    return distance if inside else -distance


def _check_plane_points(name: str, value: object) -> Array:
    """Returns `value` as finite points (m, 2) [m]; raises `ArgumentError` under the given name otherwise."""
    try:
        points = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{name}: expected an array (n, 2) of x and y, got {str(value)[:60]!r}") from None
    if points.ndim != 2 or points.shape[1] != 2 or not np.isfinite(points).all():
        raise ArgumentError(f"{name}: expected finite x and y [m], got {str(value)[:60]!r} of shape {points.shape}")
    return points


def _remove_rounded_corners(hull: Array, tolerance: float) -> Array:
    """Removes corners nearer than `tolerance` [m] to the line between their neighbors, the nearest one first."""
    while len(hull) > 1:
        before = np.roll(hull, 1, axis=0)
        chord, offset = np.roll(hull, -1, axis=0) - before, hull - before
        length = np.hypot(*chord.T)
        area = np.abs(chord[:, 0] * offset[:, 1] - chord[:, 1] * offset[:, 0])
        height = np.where(length > tolerance, area / np.where(length > 0.0, length, 1.0), np.hypot(*offset.T))
        closest = int(np.argmin(height))
        if height[closest] > tolerance:
            break
        hull = np.delete(hull, closest, axis=0)
    return hull


def _signed_area(a: Array, b: Array, c: Array) -> float:
    """Returns twice the signed area of the triangle a, b, c: positive for a left turn, zero (to rounding) on a line."""
    ux, uy = b - a
    vx, vy = c - a
    area = ux * vy - uy * vx
    rounding_error = 4.0 * np.finfo(float).eps * (abs(ux * vy) + abs(uy * vx))
    return float(area) if abs(area) > rounding_error else 0.0


def compute_center_of_pressure(center: Array, normal: Array, wrench: Array) -> Array | None:
    """Computes the center of pressure of a surface (Sardain and Bessonnet 2004, "Forces acting on a biped robot").

    Args:
        center: (3,) center of the surface, world axes [m].
        normal: (3,) unit normal of the surface, out of the ground, world axes.
        wrench: (6,) force and moment about the center, on the robot, world axes [N, N m].

    Returns:
        (3,) in the plane of the surface, world axes [m]; None where the normal force is not positive.
    """
    normal_force = float(normal @ wrench[:3])
    return np.asarray(center + np.cross(normal, wrench[3:]) / normal_force) if normal_force > 0.0 else None
