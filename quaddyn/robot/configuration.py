"""`Configuration`: base position and orientation, and joint values by name; conversions of rotations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..urdf.tree import Array, FrozenArrays, Joint, frozen
from .arguments import check_number, check_sequence, check_vector
from .bodies import CompositeBody

#: What four or three numbers that stand for a rotation may be called.
ROTATION_FORMATS = {"xyzw": 4, "wxyz": 4, "rpy": 3, "rotation_vector": 3}
#: Norm of a quaternion from measurements or a file, which is then divided by it.
QUATERNION_TOLERANCE = 1e-3
#: Deviation from orthonormality of a rotation matrix.
ORTHONORMALITY_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Configuration(FrozenArrays):
    """Configuration in parts; `Robot.decompose` creates it, `Robot.configuration` is the inverse.

    Attributes:
        position: (3,) position of the base in the world [m]; None for a fixed root.
        orientation: (3, 3) rotation matrix of the base in the world; None for a fixed root.
        joints: value of each independent 1-dof joint by name [rad or m].
    """

    position: Array | None
    orientation: Array | None
    joints: Mapping[str, float]

    def quaternion(self, order: str) -> Array:
        """Returns the orientation of the base as a quaternion (4,).

        Args:
            order: "xyzw" (Pinocchio, ROS, scipy) or "wxyz" (MuJoCo, Eigen's constructor, Isaac).

        Raises:
            ArgumentError: another order, or a fixed base.
        """
        if order not in ("xyzw", "wxyz"):
            raise ArgumentError(f"order: expected 'xyzw' or 'wxyz', got {order!r}")
        x, y, z, w = pin.Quaternion(self._rotation()).coeffs().tolist()
        return np.array([x, y, z, w] if order == "xyzw" else [w, x, y, z])

    @property
    def rpy(self) -> Array:
        """(3,) roll, pitch and yaw [rad]: about x, then y, then z of the world."""
        return np.asarray(pin.rpy.matrixToRpy(self._rotation()))

    def _rotation(self) -> Array:
        if self.orientation is None:
            raise ArgumentError("orientation: not accepted for a robot with a fixed base, whose q has no orientation")
        return self.orientation.copy()


def rotation_matrix(name: str, value: object) -> Array:
    """Returns a rotation as a matrix (3, 3).

    Args:
        name: name of the argument, for the message.
        value: a rotation matrix; an object with ``as_matrix()``, such as scipy's ``Rotation``; a ``pin.Quaternion``; or
            {"wxyz": ...}, {"xyzw": ...}, {"rpy": ...} [rad] or {"rotation_vector": ...} [rad].

    Raises:
        ArgumentTypeError: none of these types.
        ArgumentError: four or three numbers of unnamed order, a matrix that is not a rotation, or a quaternion without
            unit norm.
    """
    if isinstance(value, pin.Quaternion):
        value = {"xyzw": value.coeffs()}
    elif hasattr(value, "as_matrix"):
        value = value.as_matrix()
    if isinstance(value, Mapping):
        if len(value) != 1 or next(iter(value)) not in ROTATION_FORMATS:
            raise ArgumentError(
                f"{name}: expected one of {', '.join(ROTATION_FORMATS)} as the only key, got {list(value)}"
            )
        order, given = next(iter(value.items()))
        numbers = check_vector(f"{name}[{order!r}]", given, (ROTATION_FORMATS[order],), order)
        if order == "rpy":
            return np.asarray(pin.rpy.rpyToMatrix(*numbers.tolist()))
        if order == "rotation_vector":
            return np.asarray(pin.exp3(numbers))
        length = math.hypot(*numbers)
        if not abs(length - 1.0) <= QUATERNION_TOLERANCE:
            raise ArgumentError(
                f"{name}[{order!r}]: expected a quaternion of unit length, got {given} of length {length:.6g}"
            )
        x, y, z, w = (numbers / length).tolist() if order == "xyzw" else np.roll(numbers / length, -1).tolist()
        return np.asarray(pin.Quaternion(w, x, y, z).toRotationMatrix())
    shape = np.shape(value) if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) else None
    if shape == (4,):
        raise ArgumentError(
            f'{name}: four numbers are ambiguous, because two orders of quaternions are in use; pass {{"wxyz": ...}} '
            f'or {{"xyzw": ...}}'
        )
    if shape == (3,):
        raise ArgumentError(f'{name}: three numbers are ambiguous; pass {{"rpy": ...}} or {{"rotation_vector": ...}}')
    if shape is None:
        raise ArgumentTypeError(f"{name}: expected a rotation matrix, a Rotation or a dict, got {type(value).__name__}")
    R = check_vector(name, value, (3, 3), "a rotation matrix")
    if not (np.abs(R @ R.T - np.eye(3)).max() <= ORTHONORMALITY_TOLERANCE and np.linalg.det(R) > 0.0):
        raise ArgumentError(f"{name}: expected a rotation matrix, got {np.array2string(R)}")
    return R


def set_joint_value(q: Array, index: int, joint: Joint, value: float) -> None:
    """Writes a joint value into a configuration: the angle of a continuous joint as (cos, sin)."""
    if joint.type == "continuous":
        q[index], q[index + 1] = np.cos(value), np.sin(value)
    else:
        q[index] = value


def joint_value(q: Array, index: int, joint: Joint) -> float:
    """Returns the value of a 1-dof joint in a configuration [rad or m]; the inverse of `set_joint_value`."""
    return float(np.arctan2(q[index + 1], q[index])) if joint.type == "continuous" else float(q[index])


def independent_joints(bodies: Iterable[CompositeBody]) -> dict[str, Joint]:
    """Returns the 1-dof joints by name, without those that mimic others or that loops move."""
    joints = [body.joint for body in bodies if body.joint is not None]
    return {joint.name: joint for joint in joints if joint.nv == 1 and joint.independent}


def set_base(q: Array, root: str, position: ArrayLike | None, orientation: object) -> None:
    """Writes position and orientation of the base into q; None leaves a part unchanged.

    Raises:
        ArgumentError: the base is fixed, or planar and the pose is out of its plane.
    """
    if root == "fixed":
        if position is not None or orientation is not None:
            raise ArgumentError('position, orientation: the base is fixed; load with root="free" to place it')
        return
    flat = root == "planar"
    if position is not None:
        base_position = check_vector(
            "position", position, (2,) if flat and np.shape(position) == (2,) else (3,), "of the base"
        )
        if flat and len(base_position) == 3:
            if base_position[1] != 0.0:
                raise ArgumentError(
                    "position: expected y = 0, because a planar base moves only along x and z, got y = "
                    f"{base_position[1]}"
                )
            base_position = base_position[[0, 2]]
        q[: len(base_position)] = base_position
    if orientation is None:
        return
    if not flat:
        q[3:7] = pin.Quaternion(rotation_matrix("orientation", orientation)).coeffs()
    elif isinstance(orientation, int | float | np.integer | np.floating):
        q[2] = check_number("orientation", orientation)
    else:
        R = rotation_matrix("orientation", orientation)
        if abs(R[1, 1] - 1.0) > ORTHONORMALITY_TOLERANCE:
            raise ArgumentError("orientation: a planar base rotates about y only; pass the pitch [rad]")
        q[2] = math.atan2(R[0, 2], R[0, 0])


def joint_values(
    joints: Mapping[str, float] | ArrayLike, known: Iterable[str], order: Sequence[str]
) -> dict[str, float]:
    """Returns joint values by name, from a mapping, or from one number for each name in `order`.

    Raises:
        UnknownNameError: a name that is not a 1-dof joint.
        ArgumentError: another number of values, or one that is not finite.
    """
    known = tuple(known)
    if not isinstance(joints, Mapping):
        names = check_sequence("order", order, "joint names")
        values = check_vector("joints", joints, (len(names),), "one for each joint of the order")
        joints = dict(zip(names, values.tolist(), strict=True))
    out = {}
    for joint, value in joints.items():
        if joint not in known:
            raise UnknownNameError("joint", joint, known)
        out[joint] = check_number(f"joints[{joint!r}]", value)
        if not math.isfinite(out[joint]):
            raise ArgumentError(f"joints[{joint!r}]: expected a finite value, got {value}")
    return out


def base_pose(q: Array, root: str) -> tuple[Array | None, Array | None]:
    """Returns position (3,) [m] and rotation matrix (3, 3) of the base; None for a fixed root."""
    if root == "fixed":
        return None, None
    if root == "planar":
        c, s = math.cos(q[2]), math.sin(q[2])
        return frozen([q[0], 0.0, q[1]]), frozen([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])
    return frozen(q[:3]), frozen(pin.Quaternion(q[3:7].copy()).toRotationMatrix())


def decompose_configuration(
    q: Array, root: str, first_indices: Mapping[str, tuple[int, int]], joints: Mapping[str, Joint]
) -> Configuration:
    """Returns the base pose and the value of each joint in a configuration (nq,)."""
    values = {name: joint_value(q, first_indices[name][0], joint) for name, joint in joints.items()}
    return Configuration(*base_pose(q, root), values)


def random_joint_values(rng: np.random.Generator, joints: Mapping[str, Joint]) -> dict[str, float]:
    """Returns joint values uniform within the limits; without limits within half a turn or 1 m of zero."""
    out = {}
    for name, joint in joints.items():
        most = 1.0 if joint.type == "prismatic" else np.pi
        low, high = joint.limits.lower, joint.limits.upper
        bounded = joint.type != "continuous" and np.isfinite(low) and np.isfinite(high)
        out[name] = float(rng.uniform(*((low, high) if bounded else (-most, most))))
    return out


def rotate_configuration(q: Array, R: Array) -> Array:
    """Returns a configuration (nq,) of a robot with a free root, rotated about the world's origin by R (3, 3)."""
    q = np.array(q)
    q[3:7] = pin.Quaternion(R @ pin.Quaternion(q[3:7]).toRotationMatrix()).coeffs()
    q[:3] = R @ q[:3]
    return q
