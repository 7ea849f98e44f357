"""`PostureTask`: joint positions; and `JointAccelerationTask`: given joint accelerations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ...compiler import Vector, compiled
from ...dynamics import State
from ...robot.robot import Robot
from ...robot.units import JointUnits
from ...urdf.tree import Array
from ..element import ElementKind, Layout, ReferenceResolver, RowCounts
from ..row_writing import Item, add_joint_equality
from ..tick_data import TickContext, TickInputData
from .motion_parameters import clear_motion_reference, desired_acceleration, motion_parameters, set_has_reference
from .task import Gain, Task, make_motion_layout, natural_stiffness


class PostureTask(Task, fixed=("index",)):
    r"""Joint positions [rad or m]: one row per joint.

    .. math::

        a_j = \ddot q_j^\star + D_j\,(\dot q_j^\star - v_j) + K_j\,(q^\star \ominus q)_j

    Use it on the last level, where it determines the joints that other tasks leave free.  The reference position is a
    whole configuration (nq,), of which only the entries of the joints are used; the home configuration by default.

    Args:
        robot: the robot.
        name: name of the task in the controller.
        joints: names of 1-dof joints; the actuated ones if None.
        stiffness: scalar or (rows,) [1/s^2]; ``(2 sqrt(g / l))^2`` with l the leg length if None.
        damping: scalar or (rows,) [1/s]; critical damping if None.
        weight: scalar or (rows,), relative to the other rows of the level, dimensionless.
    """

    def __init__(
        self,
        robot: Robot,
        name: str = "posture",
        *,
        joints: Sequence[str] | None = None,
        stiffness: Gain | None = None,
        damping: Gain | None = None,
        weight: Gain = 1.0,
    ) -> None:
        joint_names = robot.actuated if joints is None else tuple(joints)
        self.index = np.array([robot.velocity_index(joint) for joint in joint_names], dtype=np.intp)
        kp = natural_stiffness(robot, 2.0) if stiffness is None else stiffness
        units = ("rad/s^2",) * len(joint_names)
        self._joint_units = JointUnits(robot)
        super().__init__(
            robot, name, joint_names, units, robot.nq, stiffness=kp, damping=damping, weight=weight, axes=None
        )
        J = np.zeros((len(joint_names), robot.nv))
        J[np.arange(len(joint_names)), self.index] = 1.0
        J.flags.writeable = False
        self._J, self._zero_drift = J, np.zeros(len(joint_names))
        self.reference(robot.q_home)

    def reference(
        self,
        position: ArrayLike | None = None,
        velocity: ArrayLike | None = None,
        acceleration: ArrayLike | None = None,
    ) -> None:
        """Sets the whole reference of the task.

        Args:
            position: (nq,) configuration; unchanged if None.
            velocity: (rows,) reference velocity [rad/s or m/s]; zero if None.
            acceleration: (rows,) feed-forward acceleration [rad/s^2 or m/s^2]; zero if None.

        Raises:
            ArgumentError: a shape does not fit, or an entry is not finite.

        Warns:
            RuntimeWarning: positions far beyond the limits, which seem to be in degrees or millimeters; once.
        """
        super().reference(position, velocity, acceleration)

    def warn_of_units(self, argument: str, position: Array, *, stacklevel: int) -> None:
        """Warns once if joint positions in a configuration (nq,) seem to be in degrees or millimeters."""
        self._joint_units.warn(argument, position, stacklevel=stacklevel + 1)

    def position(self, s: State) -> Array:
        """(nq,) configuration."""
        return s.q

    def error(self, s: State) -> Array:
        """(rows,) position errors [rad or m]."""
        return np.asarray(self.robot.algorithms.difference(self.robot.model, s.q, self._position)[self.index])

    def velocity(self, s: State) -> Array:
        """(rows,) joint velocities [rad/s or m/s]."""
        return s.v[self.index]

    def jacobian(self, s: State) -> Array:
        """(rows, nv) rows of the identity matrix."""
        return self._J

    def drift(self, s: State) -> Array:
        """(rows,) zeros."""
        return self._zero_drift

    def clear_references(self) -> None:
        """Sets the home configuration as the reference."""
        self.reference(self.robot.q_home)

    def bind(self, references: ReferenceResolver) -> tuple[int, int]:
        """Returns the start of the joints' indices in the controller's index table, and -1 (no second reference)."""
        return references.add_joints(self.index), -1

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Returns a layout of one row per joint, whose reference is a configuration."""
        first = range(counts.entries - 3 * counts.rows + 1)
        return make_motion_layout(counts.rows, counts.nq)._replace(first=first, joints=counts.rows)


@compiled(inline=False)
def write_posture_rows(item: Item, t: TickContext) -> None:
    """Writes ``a_j = a*`` of each joint, whose index in v, index in q and entries of q are in the task's list."""
    p, index, q = motion_parameters(item.parameters, item.size), t.model.index, t.q
    for i in range(item.size):
        if p.mask[i] == 0.0:
            continue
        entry = item.first + 3 * i
        jv, jq = index[entry], index[entry + 1]
        error = p.position[jq] - q[jq]
        if index[entry + 2] == 2:  # a continuous joint, whose angle is stored as cosine and sine
            x, y = p.position[jq], p.position[jq + 1]
            error = math.atan2(q[jq] * y - q[jq + 1] * x, q[jq] * x + q[jq + 1] * y)
        add_joint_equality(t, jv, desired_acceleration(p, i, error, t.v[jv]), p.weight[i], item.element_index, i)


@compiled()
def capture_posture_reference(item: Item, t: TickContext) -> None:
    """Sets the current configuration as the reference of the task."""
    p = motion_parameters(item.parameters, item.size)
    set_has_reference(p, True)
    p.position[: len(t.q)] = t.q


@compiled()
def set_home_reference(item: Item, inputs: TickInputData, home: Vector) -> None:
    """Sets the home configuration as the reference of the task."""
    clear_motion_reference(item, inputs, home)
    p = motion_parameters(item.parameters, item.size)
    set_has_reference(p, True)
    p.position[: len(home)] = home


PostureTask.kind = ElementKind(
    7,
    write_posture_rows,
    capture_reference=capture_posture_reference,
    clear_reference=set_home_reference,
    position_note="The position is a whole configuration.",
)


class JointAccelerationTask(PostureTask):
    r"""Joint accelerations [rad/s^2 or m/s^2] without feedback: ``reference(acceleration=a)``.

    .. math::

        a_j = \ddot q_j^\star

    Use it to track accelerations that another controller or planner has computed.

    Args:
        robot: the robot.
        name: name of the task in the controller.
        joints: names of 1-dof joints; the actuated ones if None.
        weight: scalar or (rows,), relative to the other rows of the level, dimensionless.
    """

    def __init__(
        self,
        robot: Robot,
        name: str = "joint acceleration",
        *,
        joints: Sequence[str] | None = None,
        weight: Gain = 1.0,
    ) -> None:
        super().__init__(robot, name, joints=joints, stiffness=0.0, damping=0.0, weight=weight)


JointAccelerationTask.kind = ElementKind(8, write_posture_rows, clear_reference=set_home_reference)
