"""`TorqueRate`: bounds of the rate of change of joint torques."""

from __future__ import annotations

import numpy as np

from ...compiler import compiled
from ...errors import ArgumentError
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..element import Layout, RowCounts
from ..element_kind import ElementKind
from ..parameter_block import VectorParameter
from ..row_writing import Item, add_torque_bounds
from ..tick_data import TickContext
from .constraint import Constraint


class TorqueRate(Constraint):
    r"""Joint torques that change by at most ``rate dt`` from one tick to the next; unbounded on the first tick.

    .. math::

        |\tau_i(t) - \tau_i(t - dt)| \le r_i\, dt

    Use it for robots that work close to their torque limits.  The ramps of contacts move bounds.  Where those bounds
    leave a level above nearly a single solution, the strict optimum traverses the feasible set that they open quickly:
    continuously, but with tens of percent of ``m g l / 4`` in a millisecond.  With a rate of 5 % per millisecond, lower
    levels take longer to converge, and upper levels lose nothing.

    Args:
        robot: the robot.
        rate: (nu,) or scalar [N m/s].
        name: name of the constraint in the controller.

    Attributes:
        rate: (nu,) [N m/s]; may be set at any time, also entry by entry.

    Raises:
        ArgumentError: a rate that is not positive and finite.
    """

    unit = "N m"
    rate = VectorParameter(minimum=0.0)

    def __init__(self, robot: Robot, rate: Array | float, *, name: str = "torque rate") -> None:
        super().__init__(name, robot.nu, robot=robot)
        given = np.asarray(rate, dtype=np.float64)
        if given.shape not in ((), (robot.nu,)) or not (np.isfinite(given).all() and (given > 0.0).all()):
            raise ArgumentError(f"rate: expected a positive number or {robot.nu} positive numbers [N m/s], got {rate}")
        self.rate = given
        self._names = tuple(f"{joint} torque rate" for joint in robot.actuated)

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Returns a layout of one parameter and one limit per motor."""
        return Layout(0, counts.nu, limits=counts.nu)

    def row_name(self, contact: str, row: int) -> str:
        """Returns the name of a row for explanations."""
        return self._names[row]


@compiled(inline=False)
def write_torque_rate_rows(item: Item, t: TickContext) -> None:
    """Writes ``|tau_i - previous_i| <= rate_i dt``, from the second tick on."""
    weight, rate = 1.0 / (t.model.mass * t.model.length), item.parameters
    if t.inputs.previous.exists:
        for i in range(len(t.model.actuated)):
            step, previous = rate[i] * t.model.period, t.inputs.previous.torque[i]
            add_torque_bounds(t, i, previous - step, previous + step, weight, item.element_index, i)


TorqueRate.kind = ElementKind(105, write_torque_rate_rows)
