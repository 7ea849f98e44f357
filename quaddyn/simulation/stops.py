"""Where joints are near the ends of their ranges: compiled.

A stop is a contact without friction: the joint may come up to its end and stay there, but not go on.  It is inelastic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiler import IntVector, Vector, compiled
from ..robot.robot import Robot
from .collisions import Touching


class Stops(NamedTuple):
    """Ends of joints' ranges.

    Attributes:
        q: (n,) entry of q of each.
        v: (n,) entry of v.
        sides: (n,) 1 for a lower end, -1 for an upper one.
        ends: (n,) [rad or m].
    """

    q: IntVector
    v: IntVector
    sides: Vector
    ends: Vector


def stops_of(robot: Robot, *, wanted: bool = True) -> Stops:
    """All finite ends of a robot's joints; none unless they are `wanted`."""
    found = [
        (q, v, side, ends[q])
        for v, (q, entries) in robot.one_dof_joints.items()
        if wanted and entries == 1
        for side, ends in ((1.0, robot.lower), (-1.0, robot.upper))
        if np.isfinite(ends[q])
    ]
    table = np.array(found, dtype=np.float64).reshape(-1, 4)
    q, v = table[:, :2].astype(np.int64).T
    return Stops(q.copy(), v.copy(), table[:, 2].copy(), table[:, 3].copy())


@compiled()
def near_stops(stops: Stops, q: Vector, v: Vector, reach: float, dt: float, found: Touching, k: int) -> int:
    """Note those that a joint could come to within dt, or is no farther from than `reach`, after k contacts.

    Stop j is noted as sphere -1 - j, without friction.

    Returns:
        How many contacts there are then; those that there is no room for are left out.
    """
    for j in range(len(stops.q)):
        gap = stops.sides[j] * (q[stops.q[j]] - stops.ends[j])
        if gap < reach + dt * abs(v[stops.v[j]]):
            if k < len(found.gaps):
                found.gaps[k], found.friction[k], found.spheres[k], found.surfaces[k] = gap, 0.0, -1 - j, 0
                for a in range(3):
                    found.normals[k, a] = 0.0
            k += 1
    return k
