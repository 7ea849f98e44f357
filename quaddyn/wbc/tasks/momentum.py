"""`MomentumTask`: momentum about the center of mass; and `ComTask`: the position of the center of mass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...compiler import compiled
from ...compiler.lanes import clear
from ...dynamics import State
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..element import ElementKind, Layout, RowCounts
from ..row_writing import Item, add_motion_equality, finish_equality
from ..tick_data import TickContext
from .motion_parameters import (
    clear_motion_reference,
    desired_acceleration,
    motion_parameters,
    set_has_reference,
    write_motion_rows,
)
from .single_frame_task import ROTATION_AXES, XYZ
from .task import Gain, Task, make_motion_layout, natural_stiffness


class MomentumTask(Task):
    r"""Momentum about the center of mass in world axes: rows x, y, z [N], rx, ry, rz [N m].

    .. math::

        A_G(q)\, a + \dot A_G v = \dot h_G^\star + D\,(h_G^\star - h_G)

    The "velocity" of this task is the momentum h_G (linear [kg m/s], angular [kg m^2/s]), and its "acceleration" is the
    rate of change ``A_G a + dA_G/dt v``.  The task has no position, so its stiffness is 0.  By default it has only the
    angular rows.  Use it to damp rotations of the whole robot, as in jumps and fast arm motions.

    Args:
        robot: the robot.
        name: name of the task in the controller.
        damping: scalar or (6,) [1/s]; ``2 sqrt(g / l)`` with l the leg length if None.
        weight: scalar or (6,), relative to the other rows of the level [m/s^2 per N]; ``1 / mass`` if None, which makes
            the rows accelerations.
        axes: labels of the rows to use; the angular ones by default, all if None.

    Source: Orin, Goswami, Lee 2013, "Centroidal dynamics of a humanoid robot".
    """

    def __init__(
        self,
        robot: Robot,
        name: str = "momentum",
        *,
        damping: Gain | None = None,
        weight: Gain | None = None,
        axes: Sequence[str] | None = ROTATION_AXES,
    ) -> None:
        units = ("N",) * 3 + ("N m",) * 3
        kd = 2.0 * np.sqrt(natural_stiffness(robot, 1.0)) if damping is None else damping
        super().__init__(
            robot,
            name,
            XYZ + ROTATION_AXES,
            units,
            0,
            stiffness=0.0,
            damping=kd,
            weight=1.0 / robot.mass if weight is None else weight,
            axes=axes,
        )
        self._data = robot.model.createData()

    def position(self, s: State) -> Array:
        """(0,) empty: the task has no position."""
        return np.zeros(0)

    def error(self, s: State) -> Array:
        """(6,) zeros."""
        return np.zeros(6)

    def velocity(self, s: State) -> Array:
        """(6,) centroidal momentum [kg m/s, kg m^2/s]."""
        return s.centroidal_momentum

    def jacobian(self, s: State) -> Array:
        """(6, nv) centroidal momentum matrix A_G."""
        A: Array = self.robot.algorithms.computeCentroidalMap(self.robot.model, self._data, s.q)
        return A.reshape(6, -1).copy()

    def drift(self, s: State) -> Array:
        """(6,) rate of change of the momentum at ``a = 0``, ``dA_G/dt v`` [N, N m]."""
        model, zero = self.robot.model, np.zeros(self.robot.nv)
        rate: Array = self.robot.algorithms.computeCentroidalMomentumTimeVariation(
            model, self._data, s.q, s.v, zero
        ).vector
        return rate.copy()

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Returns a layout of six rows without a reference position."""
        return make_motion_layout(6)._replace(momentum=True)


@compiled(inline=False)
def write_momentum_rows(item: Item, t: TickContext) -> None:
    """Writes ``A_G a + dA_G/dt v = a*``."""
    p, task_state = motion_parameters(item.parameters, 6), t.work.task_state
    for i in range(6):
        task_state[0, i] = 0.0
        task_state[1, i] = t.terms.momentum[i]
        task_state[2, i] = t.terms.momentum_drift[i]
    write_motion_rows(t, item, p, t.terms.momentum_matrix, t.work.all_velocities, task_state)


MomentumTask.kind = ElementKind(9, write_momentum_rows, clear_reference=clear_motion_reference)


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

    has_height = True

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
