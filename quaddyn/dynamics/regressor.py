"""The inverse dynamics as a linear map of its parameters: ``tau = H(q, v, a) delta``.

Source: fast inverse dynamics of a serial robot (the patent's "identification model"); the inertial part after
Khalil and Dombre, *Modeling, Identification and Control of Robots*, 2002, section 12.2.  Per composite body, inertia
and first moments about its joint frame::

    delta_k = [Lxx Lxy Lxz Lyy Lyz Lzz lx ly lz m fv fc Ia]

in [kg m^2], [kg m], [kg], and for the last three viscous friction, Coulomb friction and rotor inertia of the body's
joint in its own units.
"""

from __future__ import annotations

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ..robot.bodies import CompositeBody, point_mass_inertia
from ..robot.configuration import independent_joints
from ..robot.robot import Robot
from ..urdf.tree import Array

#: Pinocchio's order is [m mx my mz Ixx Ixy Iyy Ixz Iyz Izz].
PINOCCHIO_COLUMNS = (4, 5, 7, 6, 8, 9, 1, 2, 3, 0)
N_INERTIAL_COLUMNS, N_COLUMNS = 10, 13


class RegressorColumns:
    """Columns of the bodies of a robot in Pinocchio's regressor, and the entry of v that moves each.

    Attributes:
        bodies: number of bodies, the base included.
        axes: index in v of each body's joint; -1 if the joint does not have exactly one degree of freedom (root,
            world), mimics another (its friction and rotor inertia are added to that one's) or is moved by a loop.
        rotors: entry of v_all of the rotor, by body, for bodies whose joint a closed loop moves.
    """

    def __init__(self, robot: Robot) -> None:
        model = robot.model
        frames = [model.frames[model.getFrameId(body.name, pin.FrameType.BODY)] for body in robot.bodies]
        joints = [int(frame.parentJoint) for frame in frames]
        self.bodies = len(joints)
        independent = independent_joints(robot.bodies)
        self.axes: tuple[int, ...] = tuple(
            robot.velocity_index(b.joint.name) if b.joint is not None and b.joint.name in independent else -1
            for b in robot.bodies
        )
        loops = robot.coupling if robot.coupling is not None and robot.coupling.has_loops else None
        followers = () if loops is None else loops.followers
        self._loops = loops
        self.rotors: tuple[tuple[int, int], ...] = tuple(
            (k, int(model.joints[model.getJointId(b.joint.name)].idx_v))
            for k, b in enumerate(robot.bodies)
            if b.joint is not None and b.joint.name in followers
        )
        # Pinocchio has no columns for a base that is fixed to the world (joint 0); its columns here are zero.
        self._moving_bodies = np.array([k for k, j in enumerate(joints) if j], dtype=np.intp)
        self._pinocchio_columns = np.array(
            [10 * (j - 1) + p for j in joints if j for p in PINOCCHIO_COLUMNS], dtype=np.intp
        )
        # Where Pinocchio's joint frame is rotated from that of the file, the columns refer to parameters in its axes.
        rotations = [(k, frame.placement.rotation) for k, frame in enumerate(frames) if joints[k]]
        self._parameter_rotations = [
            (k, parameter_rotation(R)) for k, R in rotations if not np.array_equal(R, np.eye(3))
        ]
        self._bodies_with_axis = np.array([k for k, axis in enumerate(self.axes) if axis >= 0], dtype=np.intp)
        self._axes = np.array([axis for axis in self.axes if axis >= 0], dtype=np.intp)

    def regressor(self, inertial: Array, q: Array, v: Array, a: Array, *, only_inertial: bool) -> Array:
        """Returns the regressor H in the column order of this package, from Pinocchio's joint torque regressor.

        Args:
            inertial: (nv, 10 (njoints - 1)) Pinocchio's regressor at (q, v, a).
            q: (nq,) configuration.
            v: (nv,) velocity.
            a: (nv,) acceleration.
            only_inertial: whether to leave the friction and rotor columns out.

        Returns:
            (nv, 10 nb) or (nv, 13 nb) for nb bodies.
        """
        nv, width = v.size, N_INERTIAL_COLUMNS if only_inertial else N_COLUMNS
        H = np.zeros((nv, self.bodies, width))
        # For a robot with one joint, Pinocchio returns a vector.
        H[:, self._moving_bodies, :N_INERTIAL_COLUMNS] = inertial.reshape(nv, -1)[:, self._pinocchio_columns].reshape(
            nv, -1, N_INERTIAL_COLUMNS
        )
        for k, rotation in self._parameter_rotations:
            H[:, k, :N_INERTIAL_COLUMNS] = H[:, k, :N_INERTIAL_COLUMNS] @ rotation
        if not only_inertial:
            joint_columns = v[self._axes], np.sign(v[self._axes]), a[self._axes]
            H[self._axes, self._bodies_with_axis, N_INERTIAL_COLUMNS:] = np.stack(joint_columns, axis=-1)
            if self._loops is not None:
                tangent = self._loops.at(q)
                acceleration = tangent.acceleration(v, a)
                for k, rotor in self.rotors:
                    H[:, k, N_COLUMNS - 1] = tangent.G[rotor] * acceleration[rotor]
        return H.reshape(nv, -1)

    def parameters(self, robot: Robot, *, only_inertial: bool) -> Array:
        """Returns the parameters delta, (10 nb,) or (13 nb,), of `robot`."""
        rows: list[NDArray[np.float64]] = []
        follower_armatures = {k: float(robot.model.armature[rotor]) for k, rotor in self.rotors}
        for k, (body, axis) in enumerate(zip(robot.bodies, self.axes, strict=True)):
            rows.append(inertial_parameters(body))
            if not only_inertial:
                joint = (0.0, 0.0, follower_armatures.get(k, 0.0))
                if axis >= 0:
                    joint = (float(robot.damping[axis]), float(robot.friction[axis]), float(robot.armature[axis]))
                rows.append(np.array(joint))
        return np.concatenate(rows)


def inertial_parameters(body: CompositeBody) -> Array:
    """Returns ``[Lxx Lxy Lxz Lyy Lyz Lzz lx ly lz m]`` (10,) of a composite body about its joint frame."""
    mass, com = body.inertial.mass, body.inertial.com
    about_joint = body.inertial.inertia + mass * point_mass_inertia(com)
    return np.array([*about_joint[np.triu_indices(3)], *(mass * com), mass])


def parameter_rotation(R: Array) -> Array:
    """Returns the matrix (10, 10) that rotates `inertial_parameters` to other axes, ``x' = R x``."""
    out = np.zeros((N_INERTIAL_COLUMNS, N_INERTIAL_COLUMNS))
    rows, columns = np.triu_indices(3)
    for j, (row, column) in enumerate(zip(rows, columns, strict=True)):
        L = np.zeros((3, 3))
        L[row, column] = L[column, row] = 1.0
        out[:6, j] = (R @ L @ R.T)[rows, columns]
    out[6:9, 6:9] = R
    out[9, 9] = 1.0
    return out
