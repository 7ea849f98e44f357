"""`MomentumTask`: momentum about the centre of mass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...compiler import compiled
from ...dynamics import State
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..codes import MOMENTUM
from ..data import Instant
from ..element import Layout, RowCounts
from ..rows import Item
from .gains import Gain
from .motion import motion_parameters, motion_rows
from .of_frame import TURNS, XYZ
from .task import Task, motion_layout, natural_gain


class MomentumTask(Task):
    r"""Momentum about the centre of mass, world axes: rows x, y, z [N], rx, ry, rz [N m].

    .. math::

        A_G(q)\, a + \dot A_G v = \dot h_G^\star + D\,(h_G^\star - h_G)

    Its "velocity" is the momentum h_G (linear [kg m/s], angular [kg m^2/s]), its "acceleration" the rate of change
    ``A_G a + dA_G/dt v`` (Orin, Goswami, Lee 2013); there is no position, so stiffness is 0.  By default the angular
    part alone, damped by ``2 sqrt(g / l)``, with weight ``1 / m`` that makes rows accelerations.
    """

    code = MOMENTUM

    def __init__(
        self,
        robot: Robot,
        name: str = "momentum",
        *,
        damping: Gain | None = None,
        weight: Gain | None = None,
        axes: Sequence[str] | None = TURNS,
    ) -> None:
        units = ("N",) * 3 + ("N m",) * 3
        kd = 2.0 * np.sqrt(natural_gain(robot, 1.0)) if damping is None else damping
        super().__init__(
            robot,
            name,
            XYZ + TURNS,
            units,
            0,
            stiffness=0.0,
            damping=kd,
            weight=1.0 / robot.mass if weight is None else weight,
            axes=axes,
        )
        self._data = robot.model.createData()

    def position(self, s: State) -> Array:
        """(0,) there is none."""
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
        """(6,) ``dA_G/dt v`` [N, N m]."""
        model, zero = self.robot.model, np.zeros(self.robot.nv)
        rate: Array = self.robot.algorithms.computeCentroidalMomentumTimeVariation(
            model, self._data, s.q, s.v, zero
        ).vector
        return rate.copy()

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Six rows without a reference position."""
        return motion_layout(6)._replace(momentum=True)


@compiled(inline=False)
def momentum_rows(item: Item, t: Instant) -> None:
    """``A_G a + dA_G/dt v = a*``."""
    p, found = motion_parameters(item.numbers, 6), t.work.found
    for i in range(6):
        found[0, i] = 0.0
        found[1, i] = t.terms.momentum[i]
        found[2, i] = t.terms.momentum_drift[i]
    motion_rows(t, item, p, t.terms.momentum_matrix, t.work.everything, found)
