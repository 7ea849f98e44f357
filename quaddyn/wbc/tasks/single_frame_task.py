"""Common base of the tasks on one frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pinocchio as pin

from ...compiler import Vector, compiled
from ...errors import ArgumentError
from ...robot.arguments import check_array
from ...robot.configuration import rotation_matrix
from ...robot.robot import Robot
from ...urdf.tree import Array
from ..element import Layout, ReferenceResolver, RowCounts
from .task import Task, make_motion_layout, natural_stiffness
from .task_gains import Gain

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
