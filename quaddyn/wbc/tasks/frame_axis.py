"""`FrameAxisTask`: the direction of an axis of a frame."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ...compiler import Vector, compiled
from ...dynamics import State
from ...errors import ArgumentError
from ...robot.arguments import check_array
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..contact_points import add_cross
from ..element import ElementKind, Layout, ReferenceResolver, RowCounts
from ..row_writing import Item, add_motion_equality
from ..tick_data import TickContext, frame_kinematics
from .motion_parameters import (
    clear_motion_reference,
    desired_acceleration,
    motion_parameters,
    set_has_reference,
)
from .single_frame_task import ROTATION_AXES, SingleFrameTask
from .task import Gain

AXES = ("x", "y", "z")

#: Smallest length of a reference direction: the squares of smaller numbers are not normal numbers.
MIN_DIRECTION_LENGTH = 1e-150


class FrameAxisTask(SingleFrameTask, fixed=("axis",)):
    r"""Direction of an axis of a frame; rotation about the axis itself is free.

    Rows rx, ry, rz about world axes [rad], two of which are independent.

    .. math::

        P J_\omega\, a + P \dot J_\omega v - (\omega \times n)(n \cdot \omega) = a^\star,
        \qquad x^\star \ominus x = n \times d, \qquad P = I - n n^\top

    With n the axis in the world, d the reference direction, w the angular velocity of the frame and ``P = I - n n^T``:

    - the reference position is d, (3,), of any nonzero length;
    - the error is ``n x d``, perpendicular to n, whose length is the sine of the angle between n and d.  It is zero, at
      an unstable equilibrium, where n points in the opposite direction;
    - the velocity is ``P w``, the Jacobian is P times the frame's angular Jacobian, and the drift is
      ``P drift - (w x n) (n . w)``;
    - only the part of the desired acceleration perpendicular to n is used.

    Use it to point a camera, or to keep a tool or a tray upright.

    Args:
        robot: the robot.
        frame: name of the frame.
        name: name of the task in the controller; the name of the frame if None.
        axis: axis of the frame: "x", "y" or "z".
        stiffness: scalar or (3,) [1/s^2]; ``(3 sqrt(g / l))^2`` with l the leg length if None.
        damping: scalar or (3,) [1/s]; critical damping if None.
        weight: scalar or (3,), relative to the other rows of the level, dimensionless.
        axes: labels of the rows to use; all if None.
    """

    rows_of, units_of, size = ROTATION_AXES, ("rad/s^2",) * 3, 3

    def __init__(
        self,
        robot: Robot,
        frame: str,
        name: str | None = None,
        *,
        axis: str = "x",
        stiffness: Gain | None = None,
        damping: Gain | None = None,
        weight: Gain = 1.0,
        axes: Sequence[str] | None = None,
    ) -> None:
        if axis not in AXES:
            raise ArgumentError(f"axis: expected one of {', '.join(AXES)}, got {axis!r}")
        self.axis = axis
        super().__init__(robot, frame, name, stiffness=stiffness, damping=damping, weight=weight, axes=axes)

    def reference(
        self,
        position: ArrayLike | None = None,
        velocity: ArrayLike | None = None,
        acceleration: ArrayLike | None = None,
    ) -> None:
        """Sets the reference direction and its motion, world axes.

        Args:
            position: (3,) direction, of any nonzero length; unchanged if None.
            velocity: (3,) angular velocity of the direction [rad/s], whose component along the direction is ignored;
                zero if None.
            acceleration: (3,) angular acceleration of the direction [rad/s^2], whose component along the axis is
                ignored; zero if None.

        Raises:
            ArgumentError: a wrong shape, an entry that is not finite, or a direction of zero length.
        """
        super().reference(None if position is None else self._unit_direction(position), velocity, acceleration)

    def _unit_direction(self, direction: object) -> Array:
        """Returns the direction as a unit vector."""
        d = check_array(f"{self.name}.reference: position", direction)
        length = direction_length(*d.tolist()) if d.shape == (3,) else 0.0
        if length == 0.0:
            raise ArgumentError(
                f"{self.name}.reference: position: expected a nonzero vector (3,), got {np.array2string(d)}"
            )
        return d / length

    def _remove_axis_component(self, s: State, rows: Array) -> Array:
        """Returns the components of rows about world axes that are perpendicular to n."""
        n = self.position(s)
        return np.asarray(rows - np.multiply.outer(n, n @ rows))

    def position(self, s: State) -> Array:
        """(3,) n, the axis in the world."""
        return s.placement(self.frame).rotation[:, AXES.index(self.axis)]

    def error(self, s: State) -> Array:
        """(3,) error ``n x d``."""
        return np.cross(self.position(s), self._position)

    def velocity(self, s: State) -> Array:
        """(3,) velocity ``P w`` [rad/s]."""
        return self._remove_axis_component(s, s.velocity(self.frame)[3:])

    def jacobian(self, s: State) -> Array:
        """(3, nv) Jacobian, of rank 2."""
        return self._remove_axis_component(s, s.jacobian(self.frame)[3:])

    def drift(self, s: State) -> Array:
        """(3,) drift [rad/s^2]."""
        n, w = self.position(s), s.velocity(self.frame)[3:]
        return np.asarray(self._remove_axis_component(s, s.drift(self.frame)[3:]) - np.cross(w, n) * (n @ w))

    def desired(self, s: State) -> Array:
        """(3,) desired acceleration, perpendicular to n [rad/s^2]."""
        return self._remove_axis_component(s, super().desired(s))

    def desired_velocity(self, s: State, *, gain: float) -> Array:
        """(3,) desired velocity, perpendicular to n [rad/s]; see `Task.desired_velocity`."""
        return self._remove_axis_component(s, super().desired_velocity(s, gain=gain))

    def bind(self, references: ReferenceResolver) -> tuple[int, int]:
        """Returns the numbers of the frame and of the axis."""
        return references.add_frame(self.frame), AXES.index(self.axis)

    @classmethod
    def declare_layout(cls, counts: RowCounts) -> Layout:
        """Returns the layout of a frame orientation, with one of three axes as the second integer."""
        return super().declare_layout(counts)._replace(second=range(3))


@compiled()
def direction_length(x: float, y: float, z: float) -> float:
    """Returns the length of a direction; 0 if it is too short, infinite or NaN.

    Its arguments are scalars, which is the fastest way to call compiled code.
    """
    length = math.sqrt(x * x + y * y + z * z)
    return length if MIN_DIRECTION_LENGTH < length < math.inf else 0.0  # also of NaN


@compiled()
def direction_divisor(position: Vector) -> float:
    """Returns the length of a reference direction, 0 if it is invalid."""
    return direction_length(position[0], position[1], position[2])


@compiled()
def capture_frame_axis_reference(item: Item, t: TickContext) -> None:
    """Sets the current direction as the reference of the task."""
    p, frame = motion_parameters(item.parameters, 3), frame_kinematics(t.terms, t.model, item.first)
    set_has_reference(p, True)
    for i in range(3):
        p.position[i] = frame.rotation[i, item.second]


@compiled()
def dot_product(n: Vector, x: Vector) -> float:
    """Returns ``n . x``."""
    return float(n[0] * x[0] + n[1] * x[1] + n[2] * x[2])


@compiled(separate="frame axis tasks")
def write_frame_axis_rows(item: Item, t: TickContext) -> None:
    """Writes ``P J_angular a + drift = P a*``, row by row."""
    p, frame, work = motion_parameters(item.parameters, 3), frame_kinematics(t.terms, t.model, item.first), t.work
    n, error, axis_rate, target, row = (
        work.vectors[0],
        work.vectors[1],
        work.vectors[2],
        work.vectors[3],
        work.vectors[4],
    )
    w, J = frame.velocity[3:], frame.jacobian
    for i in range(3):
        n[i] = frame.rotation[i, item.second]
        error[i] = 0.0
        axis_rate[i] = 0.0
    add_cross(n, p.position, error)
    add_cross(w, n, axis_rate)  # dn/dt
    speed_about_axis = dot_product(n, w)
    for i in range(3):
        target[i] = desired_acceleration(p, i, error[i], w[i] - speed_about_axis * n[i]) - frame.drift[3 + i]
    target_along_axis = dot_product(n, target)
    for i in range(3):
        if p.mask[i] != 0.0:
            for k in range(len(frame.chain)):
                jacobian_along_axis = n[0] * J[3, k] + n[1] * J[4, k] + n[2] * J[5, k]
                row[k] = J[3 + i, k] - n[i] * jacobian_along_axis
            value = target[i] - n[i] * target_along_axis + axis_rate[i] * speed_about_axis
            add_motion_equality(t, row, frame.chain, value, p.weight[i], item.element_index, i)


FrameAxisTask.kind = ElementKind(
    10,
    write_frame_axis_rows,
    capture_reference=capture_frame_axis_reference,
    clear_reference=clear_motion_reference,
    reference_divisor=direction_divisor,
    position_note="The position is a direction of any length but zero.",
)
