"""`flat_foot_stance`: a configuration with flat feet on level ground."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pinocchio as pin

from ..errors import ArgumentError
from ..kinematics.inverse import inverse_kinematics
from ..robot.arguments import check_number
from ..robot.configuration import set_joint_value
from ..robot.robot import Robot
from ..urdf.tree import Array
from .contact import Contact, check_surfaces

#: Maximum number of iterations, and largest distance of the center of mass from the centroid of the soles [m].
MAX_ITERATIONS, CENTERING_TOLERANCE = 10, 1e-6
#: Heights that are tried in this order, and the additional height that the legs must be able to reach, as fractions of
#: the height with all joints at zero.
HEIGHT_FRACTIONS, REACH_RESERVE_FRACTION = np.linspace(0.92, 0.5, 22), 0.05
#: Knee angle at the start of the search [rad].
INITIAL_KNEE_BEND = 0.6


def flat_foot_stance(robot: Robot, soles: Iterable[Contact], *, height: float | None = None) -> Array:
    """Computes a configuration with the soles flat on z = 0 and the center of mass above their centroid.

    Legs that cannot move level soles sideways, for want of an ankle that rolls, have it above a line through it.

    The base is level as in ``robot.q_home``, and all joints except those of the legs have their values of ``q_home``;
    the relative positions and orientations of the soles are those with all joints at zero.

    Args:
        robot: a robot with a free root.
        soles: surface contacts, such as `Contact.from_sole` of each foot.
        height: distance from the ground to the base frame's origin [m]; None for 92 % of the height with all joints at
            zero, or the largest lower height at which the legs are not stretched.

    Returns:
        (nq,) q.

    Raises:
        ArgumentError: no soles, contacts that are not surfaces, a root that is not free, or legs that cannot reach such
            a stance.
    """
    feet = check_surfaces("soles", soles)
    if not feet:
        raise ArgumentError("soles: expected at least one sole, got none")
    if robot.root != "free":
        raise ArgumentError(f"robot: expected a free root, got {robot.root!r} of {robot.name!r}")
    start, rotations, positions, full_height = _initial_guess(robot, feet)
    heights = (HEIGHT_FRACTIONS * full_height).tolist() if height is None else [check_number("height", height)]
    if not np.isfinite(heights).all():
        raise ArgumentError(f"height: expected a finite number [m], got {height}")
    # Legs without a joint that rolls the ankle move level soles forward only.
    for centered in (np.ones(2), *np.eye(2)):
        for base_height in heights:
            height_reserve = REACH_RESERVE_FRACTION * full_height if height is None else 0.0
            q = _solve_stance(robot, feet, start, rotations, positions, base_height, centered)
            if q is not None and (
                height_reserve == 0.0
                or _solve_stance(robot, feet, q, rotations, positions, base_height + height_reserve, centered)
                is not None
            ):
                return q
    raise ArgumentError(
        f"soles: {robot.name!r} has no stance with flat feet within its joint limits on {[c.name for c in feet]} at "
        f"{max(heights):.3g} m" + (f" or lower, down to {min(heights):.3g} m" if height is None else "")
    )


def _initial_guess(robot: Robot, feet: Sequence[Contact]) -> tuple[Array, list[Array], Array, float]:
    """Returns the start of the search: q, frame rotations, sole positions (n, 2) and height of the base at zero [m]."""
    model, neutral, q = robot.model, np.array(robot.neutral), np.array(robot.q_home)
    data = model.createData()
    robot.algorithms.framesForwardKinematics(model, data, neutral)
    rotations, positions = [], np.empty((len(feet), 3))
    for position, c in zip(positions, feet, strict=True):
        frame = data.oMf[robot.frame_id(c.frame)]
        cosine, sine = c.axes_at(frame.rotation)[0, :2]
        cosine, sine = (cosine, sine) / np.hypot(cosine, sine) if np.hypot(cosine, sine) > 0.5 else (1.0, 0.0)
        rotations.append(np.array([[cosine, -sine, 0.0], [sine, cosine, 0.0], [0.0, 0.0, 1.0]]) @ c.axes_at(np.eye(3)))
        position[:] = frame.act(np.array(c.offset))
    for leg in robot.legs.values():
        for joint in leg.joints:
            index, record = robot.configuration_index(joint), robot.tree.joints_by_name[joint]
            low, high = record.limits.lower, record.limits.upper
            value = float(np.clip(0.0, low, high))
            if joint == leg.knee:
                direction = 1.0 if high - value >= value - low else -1.0
                value = float(np.clip(value + direction * INITIAL_KNEE_BEND, low, high))
            set_joint_value(q, index, record, value)
    return q, rotations, positions[:, :2], float(-positions[:, 2].mean())


def _solve_stance(
    robot: Robot,
    feet: Sequence[Contact],
    start: Array,
    rotations: Sequence[Array],
    positions: Array,
    height: float,
    centered: Array,
) -> Array | None:
    """Returns the stance at a height of the base [m], None where the legs do not reach.

    `centered` (2,) is 1 for the axes x and y of the world along which the soles move below the center of mass.
    """
    data, q, positions = robot.model.createData(), start.copy(), positions.copy()
    q[2] = height
    for _ in range(MAX_ITERATIONS):
        com_offset = np.array(robot.algorithms.centerOfMass(robot.model, data, q))[:2] - positions.mean(axis=0)
        com_offset *= centered
        positions += com_offset
        targets = {}
        for c, R, position in zip(feet, rotations, positions, strict=True):
            targets[c.frame] = pin.SE3(R, np.array([*position, 0.0]) - R @ c.offset).homogeneous
        solution = inverse_kinematics(robot, targets, q0=q, move_root=False, restarts=0)
        if not solution.converged:
            return None
        q = solution.q
        if float(np.abs(com_offset).max()) < CENTERING_TOLERANCE:
            break
    return q
