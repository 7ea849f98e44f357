"""Joints near the limits of their range; compiled.

A stop is an inelastic contact without friction: the joint may reach its limit and stay there, but not pass it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiler import IntVector, Vector, compiled
from ..robot.robot import Robot
from .terrain import CollisionBuffer


class JointStops(NamedTuple):
    """Finite position limits of the joints.

    Attributes:
        q: (n,) entry of q of each limit.
        v: (n,) entry of v.
        sides: (n,) 1 for a lower limit, -1 for an upper one.
        ends: (n,) limit [rad or m].
    """

    q: IntVector
    v: IntVector
    sides: Vector
    ends: Vector


def make_joint_stops(robot: Robot, *, enabled: bool = True) -> JointStops:
    """Returns all finite position limits of a robot's joints; none unless `enabled`."""
    limits = [
        (q, v, side, ends[q])
        for v, (q, entries) in robot.one_dof_joints.items()
        if enabled and entries == 1
        for side, ends in ((1.0, robot.lower), (-1.0, robot.upper))
        if np.isfinite(ends[q])
    ]
    table = np.array(limits, dtype=np.float64).reshape(-1, 4)
    q, v = table[:, :2].astype(np.int64).T
    return JointStops(q.copy(), v.copy(), table[:, 2].copy(), table[:, 3].copy())


@compiled()
def find_joint_stops(
    stops: JointStops, q: Vector, v: Vector, reach: float, dt: float, contacts: CollisionBuffer, k: int
) -> int:
    """Adds contacts for stops that a joint could reach within dt [s], or is closer to than `reach`, after k contacts.

    Stop j is entered as sphere -1 - j, without friction.

    Returns:
        The number of contacts; those that exceed the capacity are not written.
    """
    for j in range(len(stops.q)):
        gap = stops.sides[j] * (q[stops.q[j]] - stops.ends[j])
        if gap < reach + dt * abs(v[stops.v[j]]):
            if k < len(contacts.gaps):
                contacts.gaps[k], contacts.friction[k], contacts.spheres[k], contacts.surfaces[k] = gap, 0.0, -1 - j, 0
                for a in range(3):
                    contacts.normals[k, a] = 0.0
            k += 1
    return k
