"""`TorqueRate`: torques that change slowly."""

from __future__ import annotations

import numpy as np

from ...compiler import compiled
from ...errors import ArgumentError
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..block import Vector as Numbers
from ..codes import TORQUE_RATE
from ..data import Instant
from ..element import Layout, RowCounts
from ..rows import Item, bound_torque
from .constraint import Constraint


class TorqueRate(Constraint):
    r"""Torques change by at most ``rate dt`` from one tick to the next; free on the first.

    .. math::

        |\tau_i(t) - \tau_i(t - dt)| \le r_i\, dt

    For robots close to their torque limits.  Ramps of contacts move bounds, and where those bounds leave a level above
    a single choice, or nearly so, the strict optimum passes through what they open up as steeply as their faces are
    flat: without a jump, but tens of percent of ``m g l / 4`` in a millisecond.  Within a rate of 5 % per millisecond
    lower levels take longer, and upper ones give up nothing.

    Args:
        robot: the robot.
        rate: (nu,) or scalar [N m/s].
        name: by which the controller knows it.

    Attributes:
        rate: (nu,) [N m/s]; may be set at any time, entries too.
    """

    code = TORQUE_RATE
    unit = "N m"
    rate = Numbers(least=0.0)

    def __init__(self, robot: Robot, rate: Array | float, *, name: str = "torque rate") -> None:
        super().__init__(name, robot.nu, robot=robot)
        given = np.asarray(rate, dtype=np.float64)
        if given.shape not in ((), (robot.nu,)) or not (np.isfinite(given).all() and (given > 0.0).all()):
            raise ArgumentError(f"rate: expected a positive number or {robot.nu} of them [N m/s], got {rate}")
        self.rate = given
        self._names = tuple(f"{joint} torque rate" for joint in robot.actuated)

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """A limit and a row for every motor."""
        return Layout(0, counts.nu, limits=counts.nu)

    def row_name(self, contact: str, row: int) -> str:
        """Name of a row, for explanations."""
        return self._names[row]


@compiled(inline=False)
def torque_rate_rows(item: Item, t: Instant) -> None:
    """``|tau_i - before_i| <= rate_i dt``, from the second tick on."""
    weight, rate = 1.0 / (t.model.mass * t.model.length), item.numbers
    if t.inputs.started[0] != 0:
        for i in range(len(t.model.actuated)):
            step, before = rate[i] * t.model.period, t.inputs.torque_before[i]
            bound_torque(t, i, before - step, before + step, weight, item.number, i)
