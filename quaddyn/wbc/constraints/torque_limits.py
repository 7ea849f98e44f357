"""`TorqueLimits`: torques within the limits of the motors."""

from __future__ import annotations

from ...compiler import compiled
from ...deprecation import renamed_parameters
from ...robot.arguments import positive
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..block import Vector as Numbers
from ..codes import TORQUE_LIMITS
from ..data import Instant
from ..element import Layout, RowCounts
from ..rows import Item, bound_torque
from .constraint import Constraint, per_motor

#: Limits from here on are what files write for "none" [N m].
NO_LIMIT = 1e17


class TorqueLimits(Constraint):
    r"""Torques within the robot's limits.

    .. math::

        |\tau_i| \le \sigma\, \tau_{max,i}

    with sigma the share of the limits that may be used.

    Args:
        robot: the robot.
        limits: (nu,) or scalar [N m]; ``robot.effort_limits`` by default.
        share: of the limits that may be used.
        name: by which the controller knows it.

    Attributes:
        limits: (nu,) [N m]; may be set at any time, entries too.
    """

    code = TORQUE_LIMITS
    unit = "N m"
    limits = Numbers(least=0.0)

    @renamed_parameters(share="scale")
    def __init__(
        self, robot: Robot, *, limits: Array | float | None = None, scale: float = 1.0, name: str = "torque"
    ) -> None:
        super().__init__(name, robot.nu, robot=robot)
        bound = per_motor(robot, "limits", robot.effort_limits if limits is None else limits)
        self.limits = bound * positive("share", scale, zero=True)
        self._names = tuple(f"{joint} torque limit" for joint in robot.actuated)

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """A limit and a row for every motor."""
        return Layout(0, counts.nu, limits=counts.nu)

    def row_name(self, contact: str, row: int) -> str:
        """Name of a row, for explanations."""
        return self._names[row]


@compiled(inline=False)
def torque_limit_rows(item: Item, t: Instant) -> None:
    """``|tau_i| <= limit_i``."""
    weight, limits = 1.0 / (t.model.mass * t.model.length), item.numbers
    for i in range(len(t.model.actuated)):
        if limits[i] < NO_LIMIT:
            bound_torque(t, i, -limits[i], limits[i], weight, item.number, i)
