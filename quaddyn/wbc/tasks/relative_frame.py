"""`RelativeFrameTask`: pose of a frame relative to another frame."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...compiler import Matrix, Vector, compiled
from ...contact.contact_set import cross_matrix
from ...dynamics import State
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..contact_points import add_cross
from ..element import ElementKind, Layout, ReferenceResolver, RowCounts
from ..row_writing import Item
from ..tick_data import FrameKinematics, TickContext, frame_kinematics
from .motion_parameters import (
    clear_motion_reference,
    has_reference,
    motion_parameters,
    rotation_error,
    set_has_reference,
    write_motion_rows,
)
from .single_frame_task import (
    PLACEMENT_NOTE,
    POSE_UNITS,
    ROTATION_AXES,
    XYZ,
    placement_divisor,
    rotation_vector_between,
)
from .task import Gain, Task, make_motion_layout, natural_stiffness


class RelativeFrameTask(Task, fixed=("frame", "other")):
    r"""Position and orientation of a frame relative to another frame, in the axes of the other frame.

    .. math::

        R_o^\top \left( \ddot p - \ddot p_o - \alpha_o \times r - \omega_o \times (\omega_o \times r)
            - 2\, \omega_o \times \dot r_{rel} \right) = a^\star, \qquad r = p - p_o

    and the relative angular acceleration in the same way.

    Rows x, y, z [m] and rx, ry, rz [rad]; the reference position has the form of `FrameTask`'s.  With r the vector from
    the origin of the other frame, the relative acceleration is ``a - a_o - alpha_o x r - omega_o x (omega_o x r) - 2
    omega_o x v_rel`` (kinematics in rotating frames), expressed in the axes of the other frame.  Use it to keep two
    hands in a fixed pose relative to each other, or a hand relative to the trunk.

    Args:
        robot: the robot.
        frame: name of the frame.
        other: name of the other frame.
        name: name of the task in the controller; "FRAME from OTHER" if None.
        stiffness: scalar or (6,) [1/s^2]; ``(3 sqrt(g / l))^2`` with l the leg length if None.
        damping: scalar or (6,) [1/s]; critical damping if None.
        weight: scalar or (6,), relative to the other rows of the level, dimensionless.
        axes: labels of the rows to use; all if None.
    """

    def __init__(
        self,
        robot: Robot,
        frame: str,
        other: str,
        name: str | None = None,
        *,
        stiffness: Gain | None = None,
        damping: Gain | None = None,
        weight: Gain = 1.0,
        axes: Sequence[str] | None = None,
    ) -> None:
        self.frame, self.other = frame, other
        for each in (frame, other):
            robot.frame_id(each)  # raises if the robot has no such frame
        kp = natural_stiffness(robot, 3.0) if stiffness is None else stiffness
        super().__init__(
            robot, name or f"{frame} from {other}", XYZ + ROTATION_AXES, POSE_UNITS, 12,
            stiffness=kp, damping=damping, weight=weight, axes=axes,
        )  # fmt: skip

    def position(self, s: State) -> Array:
        """(12,) origin in the other frame [m], then rotation matrix row by row."""
        pose = s.placement(self.other).inverse() @ s.placement(self.frame)
        return np.concatenate((pose.translation, pose.rotation.ravel()))

    def error(self, s: State) -> Array:
        """(6,) position error [m] and rotation vector [rad], axes of the other frame."""
        pose = s.placement(self.other).inverse() @ s.placement(self.frame)
        rotation_vector = rotation_vector_between(self._position[3:].reshape(3, 3), pose.rotation)
        return np.concatenate((self._position[:3] - pose.translation, rotation_vector))

    def velocity(self, s: State) -> Array:
        """(6,) relative velocity [m/s, rad/s], axes of the other frame."""
        return np.asarray(self.jacobian(s) @ s.v)

    def jacobian(self, s: State) -> Array:
        """(6, nv) Jacobian of the relative motion."""
        J, J_o, R_o, r = self._relative_geometry(s)
        return np.vstack((R_o.T @ (J[:3] - J_o[:3] + cross_matrix(r) @ J_o[3:]), R_o.T @ (J[3:] - J_o[3:])))

    def drift(self, s: State) -> Array:
        """(6,) relative acceleration at ``a = 0`` [m/s^2, rad/s^2], axes of the other frame."""
        J, J_o, R_o, r = self._relative_geometry(s)
        d, d_o, v, v_o = s.drift(self.frame), s.drift(self.other), J @ s.v, J_o @ s.v
        w_o = v_o[3:]
        relative_velocity = v[:3] - v_o[:3] - np.cross(w_o, r)
        linear = (
            d[:3]
            - d_o[:3]
            - np.cross(d_o[3:], r)
            - np.cross(w_o, np.cross(w_o, r))
            - 2.0 * np.cross(w_o, relative_velocity)
        )
        angular = d[3:] - d_o[3:] - np.cross(w_o, v[3:])
        return np.concatenate((R_o.T @ linear, R_o.T @ angular))

    def bind(self, references: ReferenceResolver) -> tuple[int, int]:
        """Returns the numbers of both frames."""
        return references.add_frame(self.frame), references.add_frame(self.other)

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Returns a layout of six rows, whose reference has a position and a rotation matrix."""
        return make_motion_layout(6, 12)._replace(first=range(counts.frames), second=range(counts.frames))

    def _relative_geometry(self, s: State) -> tuple[Array, Array, Array, Array]:
        """Returns both Jacobians, the rotation of the other frame, and the vector between the origins, world axes."""
        pose, other_pose = s.placement(self.frame), s.placement(self.other)
        return (
            s.jacobian(self.frame),
            s.jacobian(self.other),
            other_pose.rotation,
            pose.translation - other_pose.translation,
        )


@compiled()
def rotate_to_frame(R: Matrix, x: float, y: float, z: float, out: Vector) -> None:
    """Computes ``out = R^T (x, y, z)``."""
    for i in range(3):
        out[i] = R[0, i] * x + R[1, i] * y + R[2, i] * z


@compiled()
def relative_rotation(frame: FrameKinematics, other: FrameKinematics, out: Matrix) -> None:
    """Computes ``out = R_other^T R``."""
    A, B = other.rotation, frame.rotation
    for i in range(3):
        for j in range(3):
            out[i, j] = A[0, i] * B[0, j] + A[1, i] * B[1, j] + A[2, i] * B[2, j]


@compiled()
def capture_relative_frame_reference(item: Item, t: TickContext) -> None:
    """Sets the current relative pose as the reference of the task."""
    p, relative_R = motion_parameters(item.parameters, 6), t.work.matrix3
    frame, other = frame_kinematics(t.terms, t.model, item.first), frame_kinematics(t.terms, t.model, item.second)
    set_has_reference(p, True)
    a, b = frame.origin, other.origin
    rotate_to_frame(other.rotation, a[0] - b[0], a[1] - b[1], a[2] - b[2], p.position)
    relative_rotation(frame, other, relative_R)
    for i in range(3):
        for j in range(3):
            p.position[3 + 3 * i + j] = relative_R[i, j]


@compiled()
def add_chain_jacobian(frame: FrameKinematics, sign: float, J: Matrix) -> None:
    """Adds ``sign J_frame`` to J over all velocities."""
    for k in range(len(frame.chain)):
        for i in range(6):
            J[i, frame.chain[k]] += sign * frame.jacobian[i, k]


@compiled(separate="relative frame tasks")
def write_relative_frame_rows(item: Item, t: TickContext) -> None:
    """Writes ``J a + drift = a*`` of the relative motion of the frame."""
    p, work, task_state, relative_R = motion_parameters(item.parameters, 6), t.work, t.work.task_state, t.work.matrix3
    frame, other = frame_kinematics(t.terms, t.model, item.first), frame_kinematics(t.terms, t.model, item.second)
    r, x, y, relative_velocity, J, Jo = (
        work.vectors[0],
        work.vectors[1],
        work.vectors[2],
        work.vectors[3],
        work.J,
        work.J_other,
    )
    omega_o, R, nv = other.velocity[3:], other.rotation, len(t.v)
    for i in range(3):
        r[i] = frame.origin[i] - other.origin[i]
    for i in range(6):
        for j in range(nv):
            J[i, j] = 0.0
            Jo[i, j] = 0.0
    add_chain_jacobian(other, 1.0, Jo)
    add_chain_jacobian(other, -1.0, J)
    add_chain_jacobian(frame, 1.0, J)
    for j in range(nv):
        a0, a1, a2 = Jo[3, j], Jo[4, j], Jo[5, j]
        linear0 = J[0, j] + r[1] * a2 - r[2] * a1
        linear1 = J[1, j] + r[2] * a0 - r[0] * a2
        linear2 = J[2, j] + r[0] * a1 - r[1] * a0
        rotate_to_frame(R, linear0, linear1, linear2, x)
        rotate_to_frame(R, J[3, j], J[4, j], J[5, j], y)
        for i in range(3):
            J[i, j] = x[i]
            J[3 + i, j] = y[i]
    x[:3] = 0.0
    add_cross(omega_o, r, x)
    for i in range(3):
        relative_velocity[i] = frame.velocity[i] - other.velocity[i] - x[i]
        y[i] = 0.0
    rotate_to_frame(R, relative_velocity[0], relative_velocity[1], relative_velocity[2], task_state[1])
    omega, alpha = frame.velocity[3:], frame.drift[3:]
    rotate_to_frame(R, omega[0] - omega_o[0], omega[1] - omega_o[1], omega[2] - omega_o[2], task_state[1, 3:])
    add_cross(omega_o, x, y)  # spin x (spin x r)
    add_cross(other.drift[3:], r, y)
    x[:3] = 0.0
    add_cross(omega_o, relative_velocity, x)
    for i in range(3):
        y[i] = frame.drift[i] - other.drift[i] - y[i] - 2.0 * x[i]
        x[i] = 0.0
    rotate_to_frame(R, y[0], y[1], y[2], task_state[2])
    add_cross(omega_o, omega, x)
    for i in range(3):
        y[i] = alpha[i] - other.drift[3 + i] - x[i]
    rotate_to_frame(R, y[0], y[1], y[2], task_state[2, 3:])
    rotate_to_frame(R, r[0], r[1], r[2], x)
    for i in range(3):
        task_state[0, i] = p.position[i] - x[i]
        task_state[0, 3 + i] = 0.0
    relative_rotation(frame, other, relative_R)
    if has_reference(p):
        rotation_error(p.position[3:], relative_R, task_state[0, 3:])
    write_motion_rows(t, item, p, J, work.all_velocities, task_state)


RelativeFrameTask.kind = ElementKind(
    6,
    write_relative_frame_rows,
    capture_reference=capture_relative_frame_reference,
    clear_reference=clear_motion_reference,
    reference_divisor=placement_divisor,
    position_note=PLACEMENT_NOTE,
)
