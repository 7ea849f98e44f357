"""Display of a leg that follows a moving target, on each branch of its inverse kinematics in turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..dynamics import Dynamics
from ..errors import ArgumentError
from ..kinematics import LegKinematics, LegSolution, reachable_curve
from ..kinematics.leg_survey import home_knee
from ..robot.configuration import set_joint_value
from ..urdf.tree import Array
from .report import FRAMES_PER_SECOND

if TYPE_CHECKING:
    from ..viewer import Viewer


def show_branches(
    leg: LegKinematics,
    viewer: Viewer,
    *,
    seconds: float = 12.0,
    realtime: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Array:
    """Shows the foot of a leg following a target along the boundary of its reachable set, once per branch.

    All other joints stay at ``q_home``.

    The caption of the page names the branch, and reports targets out of reach and joints beyond their limits.

    Args:
        leg: kinematics of the leg.
        viewer: viewer of the same robot.
        seconds: duration for all branches together [s].
        realtime: whether to run no faster than the wall clock.
        progress: called with the fraction done (0 to 1) at every frame; None for none.

    Returns:
        (N, 3) target at every frame of one round, base frame [m].

    Raises:
        ArgumentError: `seconds` is less than 0.1 s.
    """
    if not (np.isfinite(seconds) and seconds >= 0.1):
        raise ArgumentError(f"seconds: expected at least 0.1 s, got {seconds}")
    robot, home_branch = leg.robot, home_knee(leg)
    branches = sorted(leg.branches, key=lambda names: names != (home_branch, "below"))  # the branch of q_home first
    n_frames = max(3, round(seconds * FRAMES_PER_SECOND / len(branches)))
    curve = reachable_curve(leg, points=n_frames)
    home = Dynamics(robot).update(robot.q_home, np.zeros(robot.nv))
    to_world = home.placement(robot.tree.root.name).apply
    has_several_hips = len({hip for _, hip in branches}) > 1
    start, frame = time.perf_counter(), 0
    for knee, hip in branches:
        solution = leg.inverse(curve, knee=knee, hip=hip)
        name = f"{leg.name}: knee {knee}" + (f", hip {hip}" if has_several_hips else "")
        viewer.show_trails((leg.name,))
        for i, target in enumerate(curve):
            viewer.show(
                configuration(leg, solution.q[i]),
                points={"target": to_world(target)},
                show_com=False,
                caption=f"{name}{_limit_text(solution, i)}",
                time=frame / FRAMES_PER_SECOND,
            )
            frame += 1
            if progress is not None:
                progress(frame / (n_frames * len(branches)))
            if realtime:
                time.sleep(max(0.0, start + frame / FRAMES_PER_SECOND - time.perf_counter()))
    viewer.show_trails(())
    if realtime:
        viewer.show(robot.q_home, show_com=False, caption="home", time=frame / FRAMES_PER_SECOND)
    return curve


def configuration(leg: LegKinematics, angles: Array) -> Array:
    """Returns the home configuration (nq,), with joint values (n,) of one leg [rad] and its spine joints at zero."""
    robot = leg.robot
    q = np.array(robot.q_home)
    joints = {b.joint.name: b.joint for b in robot.bodies[1:] if b.joint is not None}
    for name, value in zip(leg.joints, angles, strict=True):
        set_joint_value(q, robot.configuration_index(name), joints[name], float(value))
    index = next(i for i, b in enumerate(robot.bodies) if b.joint is not None and b.joint.name == leg.joints[0])
    ancestor = robot.bodies[index].parent
    while ancestor > 0:
        joint = robot.bodies[ancestor].joint
        if joint is not None and joint.nv == 1:
            set_joint_value(q, robot.configuration_index(joint.name), joint, 0.0)
        ancestor = robot.bodies[ancestor].parent
    return q


def _limit_text(solution: LegSolution, i: int) -> str:
    """Returns the part of the caption on reach and joint limits at point `i`; "" if both are satisfied."""
    text = ""
    if not np.asarray(solution.reached)[i]:
        text += f"; out of reach by {np.asarray(solution.distance)[i]:.2g} m: nearest point"
    if not np.asarray(solution.within_limits)[i]:
        text += "; beyond the joint limits"
    return text
