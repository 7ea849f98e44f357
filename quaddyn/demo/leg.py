"""A leg that follows a moving target, on one branch of its inverse kinematics after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from ..errors import ArgumentError
from ..kinematics import LegKinematics, LegSolution, reachable_curve
from ..kinematics.leg_survey import home_knee
from ..robot.configuration import set_joint_value
from ..urdf.tree import Array

if TYPE_CHECKING:
    from ..viewer import Viewer

FRAMES_PER_SECOND = 30.0


def show_branches(
    leg: LegKinematics,
    viewer: Viewer,
    *,
    seconds: float = 12.0,
    realtime: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Array:
    """Moves a target along the boundary of the reachable set once per branch; the leg follows, the rest stays at home.

    The caption of the page names the branch, and states where the target is out of reach or the joints beyond their
    limits.

    Args:
        leg: kinematics of the leg.
        viewer: viewer of the same robot.
        seconds: duration for all branches together [s].
        realtime: whether to keep the pace of the wall clock.
        progress: called with the fraction done (0 to 1) at every frame; None for none.

    Returns:
        (N, 3) target at every frame of one round, base frame [m].

    Raises:
        ArgumentError: `seconds` is less than 0.1 s.
    """
    if not (np.isfinite(seconds) and seconds >= 0.1):
        raise ArgumentError(f"seconds: expected at least 0.1 s, got {seconds}")
    robot, home = leg.robot, home_knee(leg)
    branches = sorted(leg.branches, key=lambda names: names != (home, "below"))  # that of home first
    frames = max(3, round(seconds * FRAMES_PER_SECOND / len(branches)))
    curve = reachable_curve(leg, points=frames)
    world = _base(leg).act
    named = len({hip for _, hip in branches}) > 1
    start, k = time.perf_counter(), 0
    for knee, hip in branches:
        found = leg.inverse(curve, knee=knee, hip=hip)
        name = f"{leg.name}: knee {knee}" + (f", hip {hip}" if named else "")
        viewer.show_trails((leg.name,))
        for i, target in enumerate(curve):
            viewer.show(
                configuration(leg, found.q[i]),
                points={"target": world(target)},
                show_com=False,
                caption=f"{name}{_remark(found, i)}",
                time=k / FRAMES_PER_SECOND,
            )
            k += 1
            if progress is not None:
                progress(k / (frames * len(branches)))
            if realtime:
                time.sleep(max(0.0, start + k / FRAMES_PER_SECOND - time.perf_counter()))
    viewer.show_trails(())
    if realtime:
        viewer.show(robot.q_home, show_com=False, caption="home", time=k / FRAMES_PER_SECOND)
    return curve


def configuration(leg: LegKinematics, angles: Array) -> Array:
    """Returns the home configuration (nq,) with joint values (n,) of one leg [rad], and the spine before it at zero."""
    robot = leg.robot
    q = np.array(robot.q_home)
    joints = {b.joint.name: b.joint for b in robot.bodies[1:] if b.joint is not None}
    for name, value in zip(leg.joints, angles, strict=True):
        set_joint_value(q, robot.configuration_index(name), joints[name], float(value))
    index = next(i for i, b in enumerate(robot.bodies) if b.joint is not None and b.joint.name == leg.joints[0])
    above = robot.bodies[index].parent
    while above > 0:
        joint = robot.bodies[above].joint
        if joint is not None and joint.nv == 1:
            set_joint_value(q, robot.configuration_index(joint.name), joint, 0.0)
        above = robot.bodies[above].parent
    return q


def _base(leg: LegKinematics) -> pin.SE3:
    """Returns the placement of the base in the home configuration."""
    robot = leg.robot
    data = robot.model.createData()
    robot.algorithms.framesForwardKinematics(robot.model, data, robot.q_home)
    return data.oMf[robot.frame_id(robot.tree.root.name)]


def _remark(found: LegSolution, i: int) -> str:
    """Returns the text about reach and limits at point i."""
    out = ""
    if not np.asarray(found.reached)[i]:
        out += f"; out of reach by {np.asarray(found.distance)[i]:.2g} m: nearest point"
    if not np.asarray(found.within_limits)[i]:
        out += "; beyond the joint limits"
    return out
