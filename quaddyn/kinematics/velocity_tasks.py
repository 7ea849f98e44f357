"""Tasks on a robot's velocity v, for `quaddyn.hierarchy`: pairs (J, w) with ``J v = w``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from ..dynamics import State
from ..errors import ArgumentError, ArgumentTypeError
from ..hierarchy import LinearTask
from ..robot.arguments import check_sequence
from ..urdf.tree import Array

#: Rows of a frame's Jacobian: linear before angular.
FRAME_ROWS = {"x": 0, "y": 1, "z": 2, "rx": 3, "ry": 4, "rz": 5}


def frame_task(s: State, frame: str, velocity: ArrayLike, *, rows: Iterable[str] = ("x", "y", "z")) -> LinearTask:
    """Returns the task that a frame moves with a given velocity.

    For velocity-level control (source E), pass such pairs to `quaddyn.hierarchy.solve_prioritized` in order of
    priority.

    Args:
        s: a State at the configuration in question.
        frame: name of a foot, link or joint.
        velocity: (len(rows),) desired linear velocity of its origin [m/s] and angular velocity [rad/s], world axes.
        rows: names of the components, out of "x", "y", "z", "rx", "ry", "rz".

    Returns:
        (J, w): (m, nv) and (m,).

    Raises:
        ArgumentError: an unknown row, or a `velocity` of another size or not finite.
        UnknownNameError: no such frame.
    """
    rows = check_sequence("rows", rows, "names of rows")
    unknown = [row for row in rows if row not in FRAME_ROWS]
    if unknown or len(set(rows)) != len(rows):
        raise ArgumentError(f"rows: expected names from {', '.join(FRAME_ROWS)}, each at most once, got {rows}")
    w = _numbers("velocity", velocity)
    if w.shape != (len(rows),):
        raise ArgumentError(f"velocity: expected shape ({len(rows)},), one per row, got {w.shape}")
    return s.jacobian(frame)[[FRAME_ROWS[row] for row in rows]].copy(), w


def joint_task(s: State, rates: Mapping[str, float]) -> LinearTask:
    """Returns the task that joints move at given rates.

    Args:
        s: a State of the robot.
        rates: desired rate by joint name [rad/s or m/s].

    Returns:
        (J, w): (m, nv) and (m,).

    Raises:
        ArgumentError: no joints, or a rate that is not finite.
        UnknownNameError: no such joint, or one with more than one degree of freedom.
    """
    if not isinstance(rates, Mapping) or not rates:
        raise ArgumentError(f"rates: expected a mapping from at least one joint name to its rate, got {rates!r}")
    J = np.zeros((len(rates), s.robot.nv))
    for row, joint in enumerate(rates):
        J[row, s.robot.velocity_index(joint)] = 1.0
    return J, _numbers("rates", list(rates.values()))


def _numbers(name: str, value: ArrayLike) -> Array:
    """Returns `value` as an array of finite floats; raises an error under its name otherwise."""
    try:
        out = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{name}: expected numbers, got {type(value).__name__}") from None
    if not np.isfinite(out).all():
        raise ArgumentError(f"{name}: every entry must be finite, got {value!r}")
    return out
