"""Primitive shapes of URDF and markers as triangles, with z as their axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .parts import Indices, Part

_SEGMENTS = 32


def make_revolved(profile: Sequence[tuple[float, float]], segments: int = _SEGMENTS) -> Part:
    """Returns the solid of revolution of a `profile` of (radius, z) points, bottom to top, about z [m]."""
    angles = np.linspace(0, 2 * np.pi, segments, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rings = [np.column_stack([radius * circle, np.full(segments, z)]) for radius, z in profile]
    index = np.arange(segments)
    next_index = (index + 1) % segments
    triangles: list[Indices] = []
    for ring in range(len(profile) - 1):
        lower, upper = ring * segments, (ring + 1) * segments
        triangles.append(np.stack([lower + index, lower + next_index, upper + next_index], axis=1))
        triangles.append(np.stack([lower + index, upper + next_index, upper + index], axis=1))
    return Part.from_positions(np.concatenate(rings), np.concatenate(triangles), None, None)


def make_sphere(radius: float) -> Part:
    """Returns a sphere of `radius` [m]."""
    angles = np.linspace(-np.pi / 2, np.pi / 2, _SEGMENTS // 2 + 1)
    return make_revolved([(radius * np.cos(a), radius * np.sin(a)) for a in angles])


def make_cylinder(radius: float, length: float) -> Part:
    """Returns a closed, centered cylinder [m]."""
    h = length / 2
    return make_revolved([(0, -h), (radius, -h), (radius, h), (0, h)])


def make_capsule(radius: float, length: float) -> Part:
    """Returns a centered cylinder of `length` between two half spheres [m]."""
    angles = np.linspace(0, np.pi / 2, _SEGMENTS // 4 + 1)
    top = [(radius * np.cos(a), length / 2 + radius * np.sin(a)) for a in angles]
    return make_revolved([*((r, -z) for r, z in reversed(top)), *top])


def make_box(size: tuple[float, float, float]) -> Part:
    """Returns a centered box of full `size` (x, y, z) [m]."""
    corners = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)]) * size
    quads = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
    return Part.from_positions(corners, quads[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3), None, None)


def make_arrow() -> Part:
    """Returns an arrow of length 1 from the origin along z."""
    return make_revolved([(0, 0), (0.025, 0), (0.025, 0.78), (0.075, 0.78), (0, 1)], 20)


def make_cone() -> Part:
    """Returns the open surface of a cone with its tip at the origin, height 1 and radius 1 at z = 1."""
    return make_revolved([(0, 0), (1, 1)])


def make_disc(radius: float) -> Part:
    """Returns a flat disc seen from above [m]."""
    return make_revolved([(radius, 0), (0, 0)])


def make_line(radius: float) -> Part:
    """Returns a thin open cylinder of length 1 from the origin along z."""
    return make_revolved([(radius, 0), (radius, 1)], 8)
