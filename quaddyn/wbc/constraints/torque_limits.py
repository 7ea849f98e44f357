"""`TorqueLimits`: joint torques within the limits of the motors."""

from __future__ import annotations

from ...compiler import compiled
from ...deprecation import renamed_parameters
from ...robot.arguments import check_positive
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..element import Layout, RowCounts
from ..element_kind import ElementKind
from ..parameter_block import VectorParameter
from ..row_writing import Item, add_torque_bounds
from ..tick_data import TickContext
from .constraint import Constraint, check_motor_values

#: Limits from this value on mean "no limit" in robot files [N m].
NO_LIMIT = 1e17


class TorqueLimits(Constraint):
    r"""Joint torques within the limits of the robot.

    .. math::

        |\tau_i| \le \sigma\, \tau_{max,i}

    with sigma the usable fraction of the limits.  Use it on level 0 of every controller.

    Args:
        robot: the robot.
        limits: (nu,) or scalar, largest torques [N m]; ``robot.effort_limits`` if None.
        scale: sigma, fraction of the limits that may be used, dimensionless.
        name: name of the constraint in the controller.

    Attributes:
        limits: (nu,) limits times sigma [N m]; never None; may be set at any time, also entry by entry.
    """

    unit = "N m"
    limits = VectorParameter(minimum=0.0)

    @renamed_parameters(share="scale")
    def __init__(
        self, robot: Robot, *, limits: Array | float | None = None, scale: float = 1.0, name: str = "torque"
    ) -> None:
        super().__init__(name, robot.nu, robot=robot)
        bound = check_motor_values(robot, "limits", robot.effort_limits if limits is None else limits)
        self.limits = bound * check_positive("scale", scale, zero=True)
        self._names = tuple(f"{joint} torque limit" for joint in robot.actuated)

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Returns a layout of one parameter and one limit per motor."""
        return Layout(0, counts.nu, limits=counts.nu)

    def row_name(self, contact: str, row: int) -> str:
        """Returns the name of a row for explanations."""
        return self._names[row]


@compiled(inline=False)
def write_torque_limit_rows(item: Item, t: TickContext) -> None:
    """Writes ``|tau_i| <= limit_i``."""
    weight, limits = 1.0 / (t.model.mass * t.model.length), item.parameters
    for i in range(len(t.model.actuated)):
        if limits[i] < NO_LIMIT:
            add_torque_bounds(t, i, -limits[i], limits[i], weight, item.element_index, i)


TorqueLimits.kind = ElementKind(104, write_torque_limit_rows)
