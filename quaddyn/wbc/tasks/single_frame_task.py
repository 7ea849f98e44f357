"""Tasks on one frame, with their common base.

- `FramePositionTask`: the position of the origin of a frame.
- `FrameOrientationTask`: the orientation of a frame.
- `FrameTask`: position and orientation of a frame.
- `FootTask`: the position of a swing foot, blended with its contact while that is made or broken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from ...compiler import Vector, compiled
from ...dynamics import State
from ...errors import ArgumentError
from ...robot.arguments import check_array
from ...robot.configuration import rotation_matrix
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..element import ElementKind, Layout, ReferenceResolver, RowCounts
from ..row_writing import Item, add_motion_equality
from ..tick import Rows, Tick
from ..tick_data import ContactRole, TickContext, frame_kinematics
from .motion_parameters import (
    clear_motion_reference,
    desired_acceleration,
    has_reference,
    motion_parameters,
    set_has_reference,
    write_motion_rows,
    write_position_state,
    write_rotation_state,
)
from .task import Gain, Task, make_motion_layout, natural_stiffness

XYZ = ("x", "y", "z")
ROTATION_AXES = ("rx", "ry", "rz")
POSE_UNITS = ("m/s^2",) * 3 + ("rad/s^2",) * 3


class SingleFrameTask(Task, fixed=("frame", "frame_id")):
    """Base of the tasks on one frame: constructor, layout and default stiffness.

    Args:
        robot: the robot.
        frame: name of the frame.
        name: name of the task in the controller; the name of the frame if None.
        stiffness: scalar or (rows,) [1/s^2]; ``(frequency_factor^2) g / l`` with l the leg length if None.
        damping: scalar or (rows,) [1/s]; critical damping if None.
        weight: scalar or (rows,), relative to the other rows of the level, dimensionless.
        axes: labels of the rows to use; all if None.

    Attributes:
        rows_of, units_of: names of the rows and their units as accelerations.
        size: number of entries of the reference position.
        frequency_factor: natural frequency of the default stiffness, in units of sqrt(g / l).
    """

    rows_of: tuple[str, ...]
    units_of: tuple[str, ...]
    size: int
    frequency_factor = 3.0

    def __init__(
        self,
        robot: Robot,
        frame: str,
        name: str | None = None,
        *,
        stiffness: Gain | None = None,
        damping: Gain | None = None,
        weight: Gain = 1.0,
        axes: Sequence[str] | None = None,
    ) -> None:
        self.frame = frame
        self.frame_id = robot.frame_id(frame)
        kp = natural_stiffness(robot, self.frequency_factor) if stiffness is None else stiffness
        super().__init__(
            robot, name or frame, self.rows_of, self.units_of, self.size,
            stiffness=kp, damping=damping, weight=weight, axes=axes,
        )  # fmt: skip

    def bind(self, references: ReferenceResolver) -> tuple[int, int]:
        """Returns the number of the frame, and -1."""
        return references.add_frame(self.frame), -1

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Returns the layout that follows from `rows_of` and `size`."""
        return make_motion_layout(len(cls.rows_of), cls.size)._replace(first=range(counts.frames))


def rotation_vector_between(reference: Array, actual: Array) -> Array:
    """Returns the rotation vector of ``reference actual^T`` in world axes [rad]."""
    out: Array = pin.log3(reference @ actual.T)
    return out


def check_rotation_reference(name: str, value: object) -> Array:
    """Returns the (9,) entries of a rotation matrix, row by row, from any representation of a rotation.

    Raises:
        ArgumentError: not a rotation.
    """
    if type(value) is not np.ndarray and (isinstance(value, Mapping | pin.Quaternion) or hasattr(value, "as_matrix")):
        value = rotation_matrix(f"{name}.reference", value)
    R = check_array(f"{name}.reference", value)
    if R.shape == (9,):
        R = R.reshape(3, 3)
    numbers: Any = R.ravel().tolist()
    if R.shape != (3, 3) or not is_rotation(numbers):
        raise ArgumentError(f"{name}.reference: expected a rotation matrix (3, 3), got {np.array2string(R)}")
    return R.ravel()


@compiled()
def is_rotation(R: Vector) -> bool:
    """Returns whether the rows of a matrix are orthonormal to 1e-6 and right-handed.

    Args:
        R: (9,) matrix, row by row; in Python, a list is faster than an array.
    """
    a, b, c = R[0], R[1], R[2]
    d, e, f = R[3], R[4], R[5]
    g, h, i = R[6], R[7], R[8]
    norm_error = max(
        abs(a * a + b * b + c * c - 1.0), abs(d * d + e * e + f * f - 1.0), abs(g * g + h * h + i * i - 1.0)
    )
    orthogonality_error = max(abs(a * d + b * e + c * f), abs(a * g + b * h + c * i), abs(d * g + e * h + f * i))
    determinant = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    is_orthonormal: bool = norm_error < 1e-6 and orthogonality_error < 1e-6
    return is_orthonormal and determinant > 0.0  # False for NaN, which makes the determinant NaN


#: Sentence about the reference position of a placement, for controllers in C.
PLACEMENT_NOTE = "The position is the origin, then the rotation matrix row by row."


@compiled(inline=False)
def rotation_divisor(position: Vector) -> float:
    """Returns 1 if a reference (9,) is a rotation matrix, row by row, else 0."""
    return 1.0 if is_rotation(position) else 0.0


@compiled()
def placement_divisor(position: Vector) -> float:
    """Returns 1 if a reference (12,) is an origin and a rotation matrix, row by row, else 0."""
    return rotation_divisor(position[3:])


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

    has_height = True

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
    has_height = True

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


class FootTask(FramePositionTask):
    r"""Position of a swing foot: the center of its sphere, world axes [m].

    The task is active only while the foot is not in contact.  While the contact is made or broken, task and contact are
    blended.  With s the activation of the contact, which goes from 0 to 1, J_c its Jacobian, and the acceleration that
    it prescribes,

    .. math::

        \left((1 - s)\, J_p + s\, J_c\right) a =
        (1 - s)\,(a^\star - \dot J_p v) + s\,(-d\, J_c v - \dot J_c v), \qquad w = \frac{w^\star}{1 - s}

    with the weight w: the weighted row tends to the strict constraint as s tends to 1; see `quaddyn.wbc.controller`.
    Without a reference the foot keeps the position at which it was lifted.

    Args:
        robot: the robot.
        frame: name of the foot's frame.
        name: name of the task in the controller; the name of the frame if None.
        stiffness: scalar or (3,) [1/s^2]; ``(4 sqrt(g / l))^2`` with l the leg length if None.
        damping: scalar or (3,) [1/s]; critical damping if None.
        weight: scalar or (3,), relative to the other rows of the level, dimensionless.
        axes: labels of the rows to use; all if None.
    """

    def rows(self, tick: Tick) -> list[Rows]:
        """Returns the rows in Python, for derived classes; the same rows as those of `write_foot_rows`."""
        contact = tick.foot(self.frame)
        if contact is None or not contact.is_motion_constrained:
            return super().rows(tick)
        s, activation, damping = tick.state, contact.activation, tick.contact_damping
        if activation >= 1.0 or contact.size != 3 or damping is None:
            return []
        J = (1.0 - activation) * self.jacobian(s) + activation * contact.jacobian
        target = (1.0 - activation) * (self.desired(s) - self.drift(s))
        target -= activation * (damping * contact.velocity + contact.drift)
        return [Rows(self.row_names, "m/s^2", target, target, acceleration=J, weights=self.weight / (1.0 - activation))]

    def bind(self, references: ReferenceResolver) -> tuple[int, int]:
        """Returns the numbers of the frame and of the contact of the same foot."""
        return references.add_frame(self.frame), references.foot_contact_number(self.frame)

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Returns the layout of a frame position, with a contact as the second integer (-1 for none)."""
        return super().declare_layout(counts)._replace(second=range(-1, counts.contacts))


@compiled(inline=False)
def write_foot_rows(item: Item, t: TickContext) -> None:
    """Writes the rows of a swing foot; blended ones while its contact is made or broken, none while it is closed."""
    c = item.second
    if c < 0 or t.points.first_force[c] < 0 or t.contacts.role[c] > ContactRole.BILATERAL:
        write_frame_position_rows(item, t)
    elif t.model.contact_motion_start >= 0 and t.contacts.activation[c] < 1.0 and t.contacts.size[c] == 3:
        write_blended_foot_rows(item, t, c, t.contacts.activation[c])


@compiled(inline=False)
def write_blended_foot_rows(item: Item, t: TickContext, c: int, activation: float) -> None:
    """Writes the rows that are blended from the task to contact c as the activation s of c goes from 0 to 1.

    The guided point moves from the center of the sphere to the contact point, the desired acceleration from the task's
    to the contact's, and the weight from the task's to infinity, ``weight / (1 - s)``.
    """
    p, frame, task_state = (
        motion_parameters(item.parameters, 3),
        frame_kinematics(t.terms, t.model, item.first),
        t.work.task_state,
    )
    write_position_state(p, frame.origin, frame.velocity, frame.drift, task_state)
    task_fraction, row, J = 1.0 - activation, t.work.vectors[4], t.points.jacobian[c]
    for i in range(3):
        target = task_fraction * (desired_acceleration(p, i, task_state[0, i], task_state[1, i]) - task_state[2, i])
        target += activation * (t.points.target[c, i] - t.points.drift[c, i])
        for k in range(len(frame.chain)):
            row[k] = task_fraction * frame.jacobian[i, k] + activation * J[i, k]
        add_motion_equality(t, row, frame.chain, target, p.weight[i] / task_fraction, item.element_index, i)


@compiled()
def capture_foot_reference(item: Item, t: TickContext) -> None:
    """Sets the current position as the reference of the task, unless the contact of the foot is closed."""
    if item.second < 0 or t.contacts.activation[item.second] < 1.0:
        capture_frame_position_reference(item, t)


FootTask.kind = ElementKind(
    3, write_foot_rows, capture_reference=capture_foot_reference, clear_reference=clear_motion_reference
)
