"""`PostureTask`: joint positions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...compiler import compiled
from ...dynamics import State
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..codes import POSTURE
from ..data import Instant
from ..element import Layout, ReferenceResolver, RowCounts
from ..rows import Item, want_joint
from .gains import Gain
from .motion import desired, motion_parameters
from .task import Task, motion_layout, natural_gain


class PostureTask(Task, fixed=("index",)):
    r"""Joint positions [rad or m]: one row per joint.

    .. math::

        a_j = \ddot q_j^\star + D_j\,(\dot q_j^\star - v_j) + K_j\,(q^\star \ominus q)_j

    The reference position is a whole configuration (nq,), of which only the joints are used; home by default.
    Stiffness by default: (2 sqrt(g / l))^2.

    Args:
        robot: the robot.
        name: by which the controller knows it.
        joints: names of 1-dof joints; the actuated ones by default.
        stiffness, damping, weight: see `Task`.
    """

    code = POSTURE

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
        chosen = robot.actuated if joints is None else tuple(joints)
        self.index = np.array([robot.velocity_index(joint) for joint in chosen], dtype=np.intp)
        kp = natural_gain(robot, 2.0) if stiffness is None else stiffness
        units = ("rad/s^2",) * len(chosen)
        super().__init__(robot, name, chosen, units, robot.nq, stiffness=kp, damping=damping, weight=weight, axes=None)
        J = np.zeros((len(chosen), robot.nv))
        J[np.arange(len(chosen)), self.index] = 1.0
        J.flags.writeable = False
        self._J, self._none = J, np.zeros(len(chosen))
        self.reference(robot.q_home)

    def position(self, s: State) -> Array:
        """(nq,) the configuration."""
        return s.q

    def error(self, s: State) -> Array:
        """(rows,) [rad or m]."""
        return np.asarray(self.robot.algorithms.difference(self.robot.model, s.q, self._position)[self.index])

    def velocity(self, s: State) -> Array:
        """(rows,) [rad/s or m/s]."""
        return s.v[self.index]

    def jacobian(self, s: State) -> Array:
        """(rows, nv) rows of the identity."""
        return self._J

    def drift(self, s: State) -> Array:
        """(rows,) zeros."""
        return self._none

    def clear_references(self) -> None:
        """Back to home."""
        self.reference(self.robot.q_home)

    def bind(self, references: ReferenceResolver) -> tuple[int, int]:
        """The list of its joints."""
        return references.add_joints(self.index), -1

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """One row per joint; the reference is a configuration."""
        first = range(counts.entries - 3 * counts.rows + 1)
        return motion_layout(counts.rows, counts.nq)._replace(first=first, joints=counts.rows)


@compiled(inline=False)
def posture_rows(item: Item, t: Instant) -> None:
    """``a_j = a*`` of each joint; of each, `index` has its place in v, in q, and how many entries of q it has."""
    p, index, q = motion_parameters(item.numbers, item.size), t.model.index, t.q
    for i in range(item.size):
        if p.mask[i] == 0.0:
            continue
        at = item.first + 3 * i
        jv, jq = index[at], index[at + 1]
        error = p.position[jq] - q[jq]
        if index[at + 2] == 2:  # an angle without end, as cosine and sine
            x, y = p.position[jq], p.position[jq + 1]
            error = math.atan2(q[jq] * y - q[jq + 1] * x, q[jq] * x + q[jq + 1] * y)
        want_joint(t, jv, desired(p, i, error, t.v[jv]), p.weight[i], item.number, i)


@compiled()
def posture_capture(item: Item, t: Instant) -> None:
    """The present configuration becomes the reference."""
    p = motion_parameters(item.numbers, item.size)
    p.given[0] = 1.0
    for i in range(len(t.q)):
        p.position[i] = t.q[i]
