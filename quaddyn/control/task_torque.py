"""`TaskTorque`: output of a Cartesian controller: joint torques, task error and diagnostics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ..deprecation import renamed_attributes
from ..dynamics import State
from ..urdf.tree import Array
from .load_distribution import distribute_load


@renamed_attributes(saturated="saturated_joints", singular="is_singular")
@dataclass(frozen=True, slots=True, eq=False)
class TaskTorque:
    """Torques of a Cartesian controller, with the error of its task and diagnostics.

    Attributes:
        tau: (nu,) torques within ``robot.effort_limits`` [N m].
        saturated_joints: names of the joints whose torque was clamped; if there are any, the controller's laws do not
            hold.
        force: (k,) force of the actuators along the task's rows, without gravity compensation [N, N m].
        error: (k,) error of the task, desired minus actual [m, rad].
        frequencies: (k,) undamped natural frequencies of the controlled task, ascending [rad/s].  The damping ratio is
            reached only while ``frequency * period`` of the loop is small: at 0.02 it is within 3 %.
        is_singular: whether the task's inertia had to be bounded: the limb can hardly move in some direction.
        forces: (3,) by stance foot, contact force that the torques require, on the robot, world axes [N].
        residual: largest unbalanced generalized force in a row without an actuator [N, N m].
        margin: smallest ``mu f_n - |f_t|`` over the stance feet [N].
    """

    tau: Array
    saturated_joints: tuple[str, ...]
    force: Array
    error: Array
    frequencies: Array
    is_singular: bool
    forces: Mapping[str, Array]
    residual: float
    margin: float

    @property
    def ok(self) -> bool:
        """Whether the controller's laws hold: no torque was clamped, and the posture is not singular."""
        return not (self.saturated_joints or self.is_singular)


def make_task_torque(
    s: State,
    generalized_force: Array,
    stance: Iterable[str],
    *,
    friction: float,
    force: Array,
    error: Array,
    frequencies: Array,
    is_singular: bool,
) -> TaskTorque:
    """Distributes a generalized force (nv,) over actuators and stance feet, and clamps the torques to their limits."""
    robot = s.robot
    distribution = distribute_load(s, generalized_force, stance, friction=friction)
    tau = np.minimum(np.maximum(distribution.tau, -robot.effort_limits), robot.effort_limits)
    return TaskTorque(
        tau=tau,
        saturated_joints=tuple(robot.actuated[i] for i in np.flatnonzero(tau != distribution.tau)),
        force=force,
        error=error,
        frequencies=frequencies,
        is_singular=is_singular,
        forces=distribution.forces,
        residual=distribution.residual,
        margin=distribution.margin,
    )
