"""`FramePositionTask`: the position of the origin of a frame."""

from __future__ import annotations

import numpy as np

from ...compiler import compiled
from ...dynamics import State
from ...urdf.tree import Array
from ..element_kind import ElementKind
from ..row_writing import Item
from ..tick_data import TickContext, frame_kinematics
from .motion_parameters import (
    clear_motion_reference,
    motion_parameters,
    set_has_reference,
    write_motion_rows,
    write_position_state,
)
from .single_frame_task import XYZ, SingleFrameTask


class FramePositionTask(SingleFrameTask):
    r"""Position of the origin of a frame in world axes [m]: rows x, y, z.

    .. math::

        J_p\, a + \dot J_p v = a^\star, \qquad x^\star \ominus x = p^\star - p

    Use it where the orientation of the frame does not matter, as for a hand that reaches for a point.

    Args:
        robot: the robot.
        frame: name of the frame.
        name: name of the task in the controller; the name of the frame if None.
        stiffness: scalar or (3,) [1/s^2]; ``(4 sqrt(g / l))^2`` with l the leg length if None.
        damping: scalar or (3,) [1/s]; critical damping if None.
        weight: scalar or (3,), relative to the other rows of the level, dimensionless.
        axes: labels of the rows to use; all if None.
    """

    rows_of, units_of, size, frequency_factor = XYZ, ("m/s^2",) * 3, 3, 4.0

    def position(self, s: State) -> Array:
        """(3,) origin of the frame [m]."""
        return s.placement(self.frame).translation

    def error(self, s: State) -> Array:
        """(3,) reference position minus current position [m]."""
        return np.asarray(self._position - self.position(s))

    def velocity(self, s: State) -> Array:
        """(3,) linear velocity [m/s]."""
        return s.velocity(self.frame)[:3]

    def jacobian(self, s: State) -> Array:
        """(3, nv) linear Jacobian."""
        return s.jacobian(self.frame)[:3]

    def drift(self, s: State) -> Array:
        """(3,) linear acceleration at ``a = 0`` [m/s^2]."""
        return s.drift(self.frame)[:3]


@compiled()
def capture_frame_position_reference(item: Item, t: TickContext) -> None:
    """Sets the current origin as the reference of the task."""
    p, frame = motion_parameters(item.parameters, 3), frame_kinematics(t.terms, t.model, item.first)
    set_has_reference(p, True)
    p.position[:3] = frame.origin[:3]


@compiled(inline=False)
def write_frame_position_rows(item: Item, t: TickContext) -> None:
    """Writes the rows ``J a + drift = a*`` of the linear acceleration of the frame's origin to `item`."""
    p, frame, task_state = (
        motion_parameters(item.parameters, 3),
        frame_kinematics(t.terms, t.model, item.first),
        t.work.task_state,
    )
    write_position_state(p, frame.origin, frame.velocity, frame.drift, task_state)
    write_motion_rows(t, item, p, frame.jacobian, frame.chain, task_state)


FramePositionTask.kind = ElementKind(
    2,
    write_frame_position_rows,
    capture_reference=capture_frame_position_reference,
    clear_reference=clear_motion_reference,
)
