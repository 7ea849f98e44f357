"""`TaskTorque`: what a Cartesian controller asks of the motors, and what it thought while it did."""

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
    """Torques of a Cartesian controller.

    Attributes:
        tau: (nu,) torques within ``robot.effort_limits`` [N m].
        saturated: names of the joints whose torque was cut; while there are any, the controller's laws do not hold.
        force: (k,) force that the actuators make on the task's rows, gravity compensation aside [N, N m].
        error: (k,) the task's error, wanted less actual [m, rad].
        frequencies: (k,) undamped natural frequencies of the controlled task, rising [rad/s].  The damping asked for
            arrives while ``frequency * period`` of the loop stays small: at 0.02 its ratio is within 3 % of it.
        singular: whether the task's inertia had to be bounded: in some direction the limb can hardly move.
        forces: (3,) force that the balance counts on, by stance foot, on the robot, world axes [N].
        residual: largest row without an actuator that nothing balances [N, N m].
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
        """Whether the controller's laws hold: no torque was cut, and the posture is not singular."""
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
    """Distribute a load (nv,) over actuators and stance feet, and cut the torques at their limits."""
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
