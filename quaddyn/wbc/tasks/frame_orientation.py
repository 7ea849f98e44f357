"""`FrameOrientationTask`: the orientation of a frame."""

from __future__ import annotations

from numpy.typing import ArrayLike

from ...compiler import compiled
from ...dynamics import State
from ...urdf.tree import Array
from ..element_kind import ElementKind
from ..row_writing import Item
from ..tick_data import TickContext, frame_kinematics
from .motion_parameters import (
    clear_motion_reference,
    has_reference,
    motion_parameters,
    set_has_reference,
    write_motion_rows,
    write_rotation_state,
)
from .single_frame_task import (
    ROTATION_AXES,
    SingleFrameTask,
    check_rotation_reference,
    rotation_divisor,
    rotation_vector_between,
)


class FrameOrientationTask(SingleFrameTask):
    r"""Orientation of a frame: rows rx, ry, rz about world axes [rad].

    .. math::

        J_\omega\, a + \dot J_\omega v = a^\star, \qquad x^\star \ominus x = \log (R^\star R^\top)

    Use it on level 1 to keep the trunk of a legged robot level.  The reference position is the (3, 3) rotation matrix
    R* of the frame in the world; the error is the rotation vector of ``R* R^T``.

    Args:
        robot: the robot.
        frame: name of the frame.
        name: name of the task in the controller; the name of the frame if None.
        stiffness: scalar or (3,) [1/s^2]; ``(3 sqrt(g / l))^2`` with l the leg length if None.
        damping: scalar or (3,) [1/s]; critical damping if None.
        weight: scalar or (3,), relative to the other rows of the level, dimensionless.
        axes: labels of the rows to use; all if None.

    Source: Murray, Li, Sastry 1994, *A Mathematical Introduction to Robotic Manipulation*, section 2.2.
    """

    rows_of, units_of, size = ROTATION_AXES, ("rad/s^2",) * 3, 9

    def reference(
        self,
        position: ArrayLike | None = None,
        velocity: ArrayLike | None = None,
        acceleration: ArrayLike | None = None,
    ) -> None:
        """Sets the whole reference, world axes.

        Args:
            position: (3, 3) rotation matrix, or another representation of a rotation; unchanged if None.
            velocity: (3,) angular velocity [rad/s]; zero if None.
            acceleration: (3,) angular acceleration [rad/s^2]; zero if None.
        """
        super().reference(
            None if position is None else check_rotation_reference(self.name, position), velocity, acceleration
        )

    def position(self, s: State) -> Array:
        """(9,) rotation matrix, row by row."""
        return s.placement(self.frame).rotation.ravel()

    def error(self, s: State) -> Array:
        """(3,) rotation vector, world axes [rad]."""
        return rotation_vector_between(self._position.reshape(3, 3), s.placement(self.frame).rotation)

    def velocity(self, s: State) -> Array:
        """(3,) angular velocity [rad/s]."""
        return s.velocity(self.frame)[3:]

    def jacobian(self, s: State) -> Array:
        """(3, nv) angular Jacobian."""
        return s.jacobian(self.frame)[3:]

    def drift(self, s: State) -> Array:
        """(3,) angular acceleration at ``a = 0`` [rad/s^2]."""
        return s.drift(self.frame)[3:]


@compiled()
def capture_frame_orientation_reference(item: Item, t: TickContext) -> None:
    """Sets the current orientation as the reference of the task."""
    p, frame = motion_parameters(item.parameters, 3), frame_kinematics(t.terms, t.model, item.first)
    set_has_reference(p, True)
    for i in range(3):
        for j in range(3):
            p.position[3 * i + j] = frame.rotation[i, j]


@compiled(inline=False)
def write_frame_orientation_rows(item: Item, t: TickContext) -> None:
    """Writes ``J_angular a + drift = a*``."""
    p, frame, task_state = (
        motion_parameters(item.parameters, 3),
        frame_kinematics(t.terms, t.model, item.first),
        t.work.task_state,
    )
    write_rotation_state(
        p.position, has_reference(p), frame.rotation, frame.velocity[3:], frame.drift[3:], task_state, 0
    )
    write_motion_rows(t, item, p, frame.jacobian[3:], frame.chain, task_state)


FrameOrientationTask.kind = ElementKind(
    4,
    write_frame_orientation_rows,
    capture_reference=capture_frame_orientation_reference,
    clear_reference=clear_motion_reference,
    reference_divisor=rotation_divisor,
    position_note="The position is a rotation matrix, row by row.",
)
