"""`ComTask`: the position of the center of mass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...compiler import compiled
from ...compiler.lanes import clear
from ...dynamics import State
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..element import Layout, RowCounts
from ..element_kind import ElementKind
from ..row_writing import Item, add_motion_equality, finish_equality
from ..tick_data import TickContext
from .motion_parameters import (
    clear_motion_reference,
    desired_acceleration,
    motion_parameters,
    set_has_reference,
)
from .single_frame_task import XYZ
from .task import Task, make_motion_layout, natural_stiffness
from .task_gains import Gain


class ComTask(Task):
    r"""Position of the center of mass in world axes [m]: rows x, y, z.

    .. math::

        J_c\, a + \dot J_c v = a^\star, \qquad x^\star \ominus x = c^\star - c

    Use it on level 1 of a floating-base robot to keep its balance or to track a planned trajectory.  Under a floating
    root the same row is written by the forces that move the center of mass, ``sum_i f_i / m + g = a*``.

    Args:
        robot: the robot.
        name: name of the task in the controller.
        stiffness: scalar or (3,) [1/s^2]; ``(2.5 sqrt(g / l))^2`` with l the leg length if None.
        damping: scalar or (3,) [1/s]; critical damping if None.
        weight: scalar or (3,), relative to the other rows of the level, dimensionless.
        axes: labels of the rows to use; all if None.

    Source: Orin, Goswami, Lee 2013, "Centroidal dynamics of a humanoid robot".
    """

    def __init__(
        self,
        robot: Robot,
        name: str = "com",
        *,
        stiffness: Gain | None = None,
        damping: Gain | None = None,
        weight: Gain = 1.0,
        axes: Sequence[str] | None = None,
    ) -> None:
        kp = natural_stiffness(robot, 2.5) if stiffness is None else stiffness
        super().__init__(robot, name, XYZ, ("m/s^2",) * 3, 3, stiffness=kp, damping=damping, weight=weight, axes=axes)

    def position(self, s: State) -> Array:
        """(3,) position of the center of mass [m]."""
        return s.com

    def error(self, s: State) -> Array:
        """(3,) reference position minus current position [m]."""
        return np.asarray(self._position - s.com)

    def velocity(self, s: State) -> Array:
        """(3,) velocity of the center of mass [m/s]."""
        return s.com_velocity

    def jacobian(self, s: State) -> Array:
        """(3, nv) Jacobian of the center of mass."""
        return s.com_jacobian

    def drift(self, s: State) -> Array:
        """(3,) acceleration of the center of mass at ``a = 0`` [m/s^2]."""
        return s.com_drift

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Returns a layout of three rows and a (3,) reference position."""
        return make_motion_layout(3, 3)._replace(com=True)


@compiled()
def capture_com_reference(item: Item, t: TickContext) -> None:
    """Sets the current center of mass as the reference of the task."""
    p = motion_parameters(item.parameters, 3)
    set_has_reference(p, True)
    p.position[:3] = t.terms.com[:3]


@compiled(inline=False)
def write_com_rows(item: Item, t: TickContext) -> None:
    """Writes ``J_com a + drift = a*``; under a floating root as ``sum_i f_i / m + g = a*``."""
    p, terms, rows = motion_parameters(item.parameters, 3), t.terms, t.rows
    for i in range(3):
        if p.mask[i] == 0.0:
            continue
        target = desired_acceleration(p, i, p.position[i] - terms.com[i], terms.com_velocity[i])
        if not t.model.floating:
            all_velocities = t.work.all_velocities
            add_motion_equality(
                t,
                terms.com_jacobian[i],
                all_velocities,
                target - terms.com_drift[i],
                p.weight[i],
                item.element_index,
                i,
            )
            continue
        A, scale, count = rows.A[rows.n_equalities], t.model.mass / t.model.total_mass, 0
        clear(A, t.maps.n + 1)
        for c in range(len(t.contacts.size)):
            if t.maps.force[c] >= 0:
                A[t.maps.force[c] + i] = scale
                count += 1
        A[t.maps.n] = t.model.gravity[i]
        finish_equality(rows, t.maps.n, target, scale * count, p.weight[i], item.element_index, i)


ComTask.kind = ElementKind(
    1, write_com_rows, capture_reference=capture_com_reference, clear_reference=clear_motion_reference
)
