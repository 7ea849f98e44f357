"""`ComTask`: the centre of mass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...compiler import compiled
from ...compiler.lanes import clear
from ...dynamics import State
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..codes import COM
from ..data import Instant
from ..element import Layout, RowCounts
from ..rows import Item, finish_equality, want_motion
from .gains import Gain
from .motion import desired, motion_parameters
from .of_frame import XYZ
from .task import Task, motion_layout, natural_gain


class ComTask(Task):
    r"""The centre of mass, world axes [m]: rows x, y, z.

    .. math::

        J_c\, a + \dot J_c v = a^\star, \qquad x^\star \ominus x = c^\star - c

    Under a floating root the same row is written by what moves it, ``sum_i f_i / m + g = a*``.

    Stiffness by default: (2.5 sqrt(g / l))^2, with l the leg's length.
    """

    code = COM

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
        kp = natural_gain(robot, 2.5) if stiffness is None else stiffness
        super().__init__(robot, name, XYZ, ("m/s^2",) * 3, 3, stiffness=kp, damping=damping, weight=weight, axes=axes)

    def position(self, s: State) -> Array:
        """(3,) centre of mass [m]."""
        return s.com

    def error(self, s: State) -> Array:
        """(3,) [m]."""
        return np.asarray(self._position - s.com)

    def velocity(self, s: State) -> Array:
        """(3,) [m/s]."""
        return s.com_velocity

    def jacobian(self, s: State) -> Array:
        """(3, nv)."""
        return s.com_jacobian

    def drift(self, s: State) -> Array:
        """(3,) [m/s^2]."""
        return s.com_drift

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Three rows and a point."""
        return motion_layout(3, 3)._replace(com=True)


@compiled()
def com_capture(item: Item, t: Instant) -> None:
    """The present centre of mass becomes the reference."""
    p = motion_parameters(item.numbers, 3)
    p.given[0] = 1.0
    for i in range(3):
        p.position[i] = t.terms.com[i]


@compiled(inline=False)
def com_rows(item: Item, t: Instant) -> None:
    """``J_com a + drift = a*``; under a floating root by what moves it, ``sum_i f_i / m + g = a*``."""
    p, terms, rows = motion_parameters(item.numbers, 3), t.terms, t.rows
    for i in range(3):
        if p.mask[i] == 0.0:
            continue
        wanted = desired(p, i, p.position[i] - terms.com[i], terms.com_velocity[i])
        if not t.model.floating:
            everything = t.work.everything
            want_motion(t, terms.com_jacobian[i], everything, wanted - terms.com_drift[i], p.weight[i], item.number, i)
            continue
        A, share, count = rows.A[rows.count[0]], t.model.mass / t.model.moved_mass, 0
        clear(A, t.maps.n + 1)
        for c in range(len(t.contacts.size)):
            if t.maps.force[c] >= 0:
                A[t.maps.force[c] + i] = share
                count += 1
        A[t.maps.n] = t.model.gravity[i]
        finish_equality(rows, t.maps.n, wanted, share * count, p.weight[i], item.number, i)
