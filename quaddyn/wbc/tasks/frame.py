"""`FrameTask`: position and orientation of a frame."""

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
    has_reference,
    motion_parameters,
    set_has_reference,
    write_motion_rows,
    write_position_state,
    write_rotation_state,
)
from .single_frame_task import (
    PLACEMENT_NOTE,
    POSE_UNITS,
    ROTATION_AXES,
    XYZ,
    SingleFrameTask,
    check_rotation_reference,
    placement_divisor,
    rotation_vector_between,
)


class FrameTask(SingleFrameTask):
    r"""Position and orientation of a frame: rows x, y, z [m] and rx, ry, rz [rad], world axes.

    .. math::

        \begin{bmatrix} J_p \\ J_\omega \end{bmatrix} a
        + \begin{bmatrix} \dot J_p \\ \dot J_\omega \end{bmatrix} v = a^\star,
        \qquad x^\star \ominus x = \begin{bmatrix} p^\star - p \\ \log (R^\star R^\top) \end{bmatrix}

    Use it to move a hand or tool along a planned trajectory of poses.  The reference position is (12,): the origin,
    then the rotation matrix row by row; `pose_reference` takes them separately.

    Args:
        robot: the robot.
        frame: name of the frame.
        name: name of the task in the controller; the name of the frame if None.
        stiffness: scalar or (6,) [1/s^2]; ``(3 sqrt(g / l))^2`` with l the leg length if None.
        damping: scalar or (6,) [1/s]; critical damping if None.
        weight: scalar or (6,), relative to the other rows of the level, dimensionless.
        axes: labels of the rows to use; all if None.

    Source: Khatib 1987; Murray, Li, Sastry 1994, section 2.2, for the rotation error.
    """

    rows_of, units_of, size = XYZ + ROTATION_AXES, POSE_UNITS, 12

    def pose_reference(
        self,
        translation: Array,
        rotation: Array,
        velocity: Array | None = None,
        acceleration: Array | None = None,
    ) -> None:
        """Sets the whole reference, world axes.

        Args:
            translation: (3,) origin of the frame [m].
            rotation: (3, 3) rotation of the frame.
            velocity: (6,) linear [m/s] and angular [rad/s] velocity; zero if None.
            acceleration: (6,) linear [m/s^2] and angular [rad/s^2] acceleration; zero if None.
        """
        rotation_entries = check_rotation_reference(self.name, rotation)
        self.reference(
            np.concatenate((np.asarray(translation, dtype=np.float64), rotation_entries)), velocity, acceleration
        )

    def position(self, s: State) -> Array:
        """(12,) origin [m], then rotation matrix row by row."""
        pose = s.placement(self.frame)
        return np.concatenate((pose.translation, pose.rotation.ravel()))

    def error(self, s: State) -> Array:
        """(6,) position error [m] and rotation vector [rad]."""
        pose = s.placement(self.frame)
        rotation_vector = rotation_vector_between(self._position[3:].reshape(3, 3), pose.rotation)
        return np.concatenate((self._position[:3] - pose.translation, rotation_vector))

    def velocity(self, s: State) -> Array:
        """(6,) linear [m/s] and angular [rad/s] velocity."""
        return s.velocity(self.frame)

    def jacobian(self, s: State) -> Array:
        """(6, nv) Jacobian of the frame, linear rows first."""
        return s.jacobian(self.frame)

    def drift(self, s: State) -> Array:
        """(6,) acceleration of the frame at ``a = 0`` [m/s^2, rad/s^2]."""
        return s.drift(self.frame)


@compiled()
def capture_frame_reference(item: Item, t: TickContext) -> None:
    """Sets the current pose as the reference of the task."""
    p, frame = motion_parameters(item.parameters, 6), frame_kinematics(t.terms, t.model, item.first)
    set_has_reference(p, True)
    for i in range(3):
        p.position[i] = frame.origin[i]
        for j in range(3):
            p.position[3 + 3 * i + j] = frame.rotation[i, j]


@compiled(inline=False)
def write_frame_rows(item: Item, t: TickContext) -> None:
    """Writes ``J a + drift = a*`` of the origin, then of the rotation."""
    p, frame, task_state = (
        motion_parameters(item.parameters, 6),
        frame_kinematics(t.terms, t.model, item.first),
        t.work.task_state,
    )
    write_position_state(p, frame.origin, frame.velocity, frame.drift, task_state)
    write_rotation_state(
        p.position[3:], has_reference(p), frame.rotation, frame.velocity[3:], frame.drift[3:], task_state, 3
    )
    write_motion_rows(t, item, p, frame.jacobian, frame.chain, task_state)


FrameTask.kind = ElementKind(
    5,
    write_frame_rows,
    capture_reference=capture_frame_reference,
    clear_reference=clear_motion_reference,
    reference_divisor=placement_divisor,
    position_note=PLACEMENT_NOTE,
)
