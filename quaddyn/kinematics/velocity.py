"""Tasks on a robot's velocity v, ready for `quaddyn.hierarchy`: pairs (J, w) with ``J v = w``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..dynamics import State
from ..errors import ArgumentError
from ..hierarchy import Task
from ..urdf.tree import Array

#: Rows of a frame's Jacobian: linear before angular.
ROWS = {"x": 0, "y": 1, "z": 2, "rx": 3, "ry": 4, "rz": 5}


def frame_task(s: State, frame: str, velocity: Array, *, rows: tuple[str, ...] = ("x", "y", "z")) -> Task:
    """A frame moves with `velocity`.

    Velocity-level control of source E: hand such pairs to `quaddyn.hierarchy.prioritized` in order of importance.

    Args:
        s: a State at the configuration in question.
        frame: a foot, link or joint.
        velocity: (len(rows),) wanted linear velocity of its origin [m/s] and angular velocity [rad/s], world axes.
        rows: which components, out of "x", "y", "z", "rx", "ry", "rz".

    Returns:
        (J, w): (m, nv) and (m,).

    Raises:
        ArgumentError: an unknown row, or `velocity` of another size.
        UnknownNameError: no such frame.
    """
    unknown = [row for row in rows if row not in ROWS]
    if unknown or len(set(rows)) != len(rows):
        raise ArgumentError(f"rows: expected each of {', '.join(ROWS)} at most once, got {rows}")
    w = np.asarray(velocity, dtype=np.float64)
    if w.shape != (len(rows),):
        raise ArgumentError(f"velocity: expected shape ({len(rows)},), one per row, got {w.shape}")
    return s.jacobian(frame)[[ROWS[row] for row in rows]].copy(), w


def joint_task(s: State, rates: Mapping[str, float]) -> Task:
    """Joints move at these rates.

    Args:
        s: a State of the robot.
        rates: wanted rate by joint name [rad/s or m/s].

    Returns:
        (J, w): (m, nv) and (m,).

    Raises:
        ArgumentError: no joint at all.
        UnknownNameError: no such joint, or one with more than one degree of freedom.
    """
    if not rates:
        raise ArgumentError("rates: expected at least one joint")
    J = np.zeros((len(rates), s.robot.nv))
    for row, joint in enumerate(rates):
        J[row, s.robot.velocity_index(joint)] = 1.0
    return J, np.array(list(rates.values()), dtype=np.float64)
