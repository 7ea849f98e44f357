"""`stance_on_soles`: standing on flat feet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pinocchio as pin

from ..errors import ArgumentError
from ..kinematics.inverse import inverse_kinematics
from ..robot.arguments import check_number
from ..robot.robot import Robot
from ..urdf.tree import Array
from .contact import Contact, surfaces

#: Rounds at most, and how far the centre of mass may then be from the middle of the soles [m].
ROUNDS, CENTRED = 10, 1e-6
#: Heights that are tried, the first first, and how far legs must reach too, as shares of that with all joints at zero.
HEIGHTS, REACH = np.linspace(0.92, 0.5, 22), 0.05
#: Where the search begins, knees are bent by so much [rad].
BENT = 0.6


def stance_on_soles(robot: Robot, soles: Iterable[Contact], *, height: float | None = None) -> Array:
    """A configuration that stands with its soles flat on z = 0, the centre of mass above their middle.

    The base is level as in ``robot.q_home``, as are all joints but the legs'; the soles are as far apart as with all
    joints at zero, and point the same way.

    Args:
        robot: with a free root.
        soles: surfaces, such as `Contact.of_sole` of each foot.
        height: distance from the ground to the base frame's origin [m]; by default 92 % of that with all joints at
            zero, or as much lower as it takes for the legs not to be stretched.

    Returns:
        (nq,) q.

    Raises:
        ArgumentError: no soles, contacts that are none, a root that is not free, or legs that cannot stand like that.
    """
    feet = surfaces("soles", soles)
    if not feet:
        raise ArgumentError("soles: expected one at least, got none")
    if robot.root != "free":
        raise ArgumentError(f"robot: expected a free root, got {robot.root!r} of {robot.name!r}")
    start, turns, places, stretched = _start(robot, feet)
    tried = (HEIGHTS * stretched).tolist() if height is None else [check_number("height", height)]
    if not np.isfinite(tried).all():
        raise ArgumentError(f"height: expected a finite number [m], got {height}")
    for z in tried:
        reach = REACH * stretched if height is None else 0.0
        q = _standing(robot, feet, start, turns, places, z)
        if q is not None and (reach == 0.0 or _standing(robot, feet, q, turns, places, z + reach) is not None):
            return q
    raise ArgumentError(
        f"soles: {robot.name!r} cannot stand flat on {[c.name for c in feet]} at {max(tried):.3g} m"
        + (f", nor down to {min(tried):.3g} m" if height is None else "")
    )


def _start(robot: Robot, feet: Sequence[Contact]) -> tuple[Array, list[Array], Array, float]:
    """Where a search begins: q, rotations of the frames, places of the soles (n, 2), and the height at zero."""
    model, neutral, q = robot.model, np.array(robot.neutral), np.array(robot.q_home)
    data = model.createData()
    robot.algorithms.framesForwardKinematics(model, data, neutral)
    turns, places = [], np.empty((len(feet), 3))
    for place, c in zip(places, feet, strict=True):
        frame = data.oMf[robot.frame_id(c.frame)]
        x, y = c.axes_at(frame.rotation)[0, :2]
        x, y = (x, y) / np.hypot(x, y) if np.hypot(x, y) > 0.5 else (1.0, 0.0)
        turns.append(np.array([[x, -y, 0.0], [y, x, 0.0], [0.0, 0.0, 1.0]]) @ c.axes_at(np.eye(3)))
        place[:] = frame.act(np.array(c.offset))
    for leg in robot.legs.values():
        for joint in leg.joints:
            at = robot.configuration_index(joint)
            q[at] = np.clip(neutral[at], robot.lower[at], robot.upper[at])
            if joint == leg.knee:
                way = 1.0 if robot.upper[at] - q[at] >= q[at] - robot.lower[at] else -1.0
                q[at] = np.clip(q[at] + way * BENT, robot.lower[at], robot.upper[at])
    return q, turns, places[:, :2], float(-places[:, 2].mean())


def _standing(
    robot: Robot, feet: Sequence[Contact], start: Array, turns: Sequence[Array], places: Array, height: float
) -> Array | None:
    """The stance at a height of the base [m], None where the legs do not reach."""
    data, q, places = robot.model.createData(), start.copy(), places.copy()
    q[2] = height
    for _ in range(ROUNDS):
        away = np.array(robot.algorithms.centerOfMass(robot.model, data, q))[:2] - places.mean(axis=0)
        places += away
        targets = {}
        for c, R, place in zip(feet, turns, places, strict=True):
            targets[c.frame] = pin.SE3(R, np.array([*place, 0.0]) - R @ c.offset).homogeneous
        found = inverse_kinematics(robot, targets, q0=q, move_root=False, restarts=0)
        if not found.converged:
            return None
        q = found.q
        if float(np.abs(away).max()) < CENTRED:
            break
    return q
