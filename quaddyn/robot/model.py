"""Builds the ``pin.Model`` of a `Tree` and a root, joint by joint, so that Pinocchio does not read the file.

The result equals that of Pinocchio's importer for a valid file: same joint order, joint models and frames.  Intended
differences: a planar joint obeys its axis (the importer ignores it), a continuous joint about an unaligned axis rotates
about z in a rotated joint frame, limits that mean "none" are infinite, damping and Coulomb friction are set, and foot
frames are added.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from ..urdf.tree import Array, Inertial, Joint, Pose, Tree
from .bodies import CompositeBody
from .coupling import MimicCoupling
from .robot import Foot

if TYPE_CHECKING:
    from .loops import LoopCoupling

_AXES = {(1.0, 0.0, 0.0): "X", (0.0, 1.0, 0.0): "Y", (0.0, 0.0, 1.0): "Z"}
_REVOLUTE = {"X": pin.JointModelRX, "Y": pin.JointModelRY, "Z": pin.JointModelRZ}
_PRISMATIC = {"X": pin.JointModelPX, "Y": pin.JointModelPY, "Z": pin.JointModelPZ}
_CONTINUOUS = {"X": pin.JointModelRUBX, "Y": pin.JointModelRUBY, "Z": pin.JointModelRUBZ}

#: The joints of a planar root: sagittal x and z [m], and pitch about y [rad]; gravity acts in this plane.
PLANAR_ROOT = (("root_x", pin.JointModelPX), ("root_z", pin.JointModelPZ), ("root_pitch", pin.JointModelRY))


def to_se3(pose: Pose) -> pin.SE3:
    """Returns a placement as Pinocchio's type."""
    return pin.SE3(pose.rotation.copy(), pose.translation.copy())


def joint_model(joint: Joint) -> pin.JointModel:
    """Returns Pinocchio's joint model: the aligned, faster one if the axis is exactly +x, +y or +z."""
    if joint.type == "floating":
        return pin.JointModelFreeFlyer()
    if joint.type == "planar":
        return pin.JointModelPlanar()
    letter = _AXES.get(tuple(joint.axis))
    if joint.type == "continuous":
        return _CONTINUOUS[letter or "Z"]()  # see `joint_frame_rotation`
    aligned, free = {
        "revolute": (_REVOLUTE, pin.JointModelRevoluteUnaligned),
        "prismatic": (_PRISMATIC, pin.JointModelPrismaticUnaligned),
    }[joint.type]
    return aligned[letter]() if letter else free(*joint.axis.tolist())


def joint_frame_rotation(joint: Joint) -> pin.SE3:
    """Returns Pinocchio's joint frame in the joint frame of the file, for joint models that support only the z axis.

    These are planar joints (the importer ignores their axis), and continuous joints about an axis that is not aligned
    (their joint model cannot be given one from Python).
    """
    if joint.type == "planar" or (joint.type == "continuous" and tuple(joint.axis) not in _AXES):
        return pin.SE3(rotation_to(joint.axis), np.zeros(3))
    return pin.SE3.Identity()


def rotation_to(axis: Array) -> Array:
    """Returns the smallest rotation (3, 3) from z to `axis`; its first two columns span the plane normal to `axis`."""
    z = np.array([0.0, 0.0, 1.0])
    v, c = np.cross(z, axis), float(axis[2])
    if c < -1.0 + 1e-12:
        return np.diag([1.0, -1.0, -1.0])
    V = np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])
    return np.asarray(np.eye(3) + V + V @ V / (1.0 + c))


def build_pinocchio_model(tree: Tree, root: str, repaired: Iterable[CompositeBody] | None = None) -> pin.Model:
    """Returns the Pinocchio model of `tree` on a "free", "planar" or "fixed" root.

    The inertias of `repaired` bodies, if given, replace the sums over the links.
    """
    model = pin.Model()
    model.name = tree.name
    joint_id, frame_id, placement = 0, 0, pin.SE3.Identity()
    if root == "free":
        joint_id = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "root_joint")
        frame_id = model.addJointFrame(joint_id, 0)
    elif root == "planar":
        for name, kind in PLANAR_ROOT:
            joint_id = model.addJoint(joint_id, kind(), pin.SE3.Identity(), name)
            frame_id = model.addJointFrame(joint_id, frame_id)
    # per link: the joint that carries it, its body frame, and its placement in that joint's frame
    at = {tree.root.name: _add_body_frame(model, tree, tree.root.name, joint_id, frame_id, placement)}
    for joint in tree.joints:
        parent_joint, parent_frame, parent_placement = at[joint.parent]
        here = parent_placement * to_se3(joint.placement)
        if joint.type == "fixed":
            frame = pin.Frame(joint.name, parent_joint, parent_frame, here, pin.FrameType.FIXED_JOINT)
            at[joint.child] = _add_body_frame(model, tree, joint.child, parent_joint, model.addFrame(frame), here)
            continue
        turn = joint_frame_rotation(joint)
        lower, upper = np.full(joint.nq, -np.inf), np.full(joint.nq, np.inf)
        if joint.nq == 1:
            lower[0], upper[0] = joint.limits.lower, joint.limits.upper
        elif joint.type != "floating":  # cos and sin of a continuous or planar joint
            lower[-2:], upper[-2:] = -1.01, 1.01
        moving = model.addJoint(
            parent_joint,
            joint_model(joint),
            here * turn,
            joint.name,
            np.full(joint.nv, joint.limits.effort),
            np.full(joint.nv, joint.limits.velocity),
            lower,
            upper,
        )
        frame_id = model.addFrame(pin.Frame(joint.name, moving, parent_frame, turn.inverse(), pin.FrameType.JOINT))
        at[joint.child] = _add_body_frame(model, tree, joint.child, moving, frame_id, turn.inverse())
        for i in range(joint.nv):
            v = model.joints[moving].idx_v + i
            model.armature[v], model.damping[v] = joint.armature, joint.damping
            model.upperDryFrictionLimit[v], model.lowerDryFrictionLimit[v] = joint.friction, -joint.friction
    for body in repaired or ():
        joint_id, _, placement = at[body.name]
        model.inertias[joint_id] = placement.act(_to_pinocchio_inertia(body.inertial))
    return model


def independent_joint_losses(
    model: pin.Model, coupling: MimicCoupling | LoopCoupling | None
) -> tuple[Array, Array, Array]:
    """Returns damping, Coulomb friction and rotor inertia (nv,) in the coordinates of the independent joints.

    Rotors that closed loops move contribute through M only; friction of such joints is left out.
    """
    damping, friction, armature = model.damping, model.upperDryFrictionLimit, model.armature
    if coupling is None:
        return damping, friction, armature
    if coupling.has_loops:
        return damping[coupling.v_index], friction[coupling.v_index], armature[coupling.v_index]
    return coupling.diagonal(damping), coupling.diagonal(friction, power=1), coupling.diagonal(armature)


def _to_pinocchio_inertia(inertial: Inertial | None) -> pin.Inertia:
    out = pin.Inertia.Zero()
    if inertial is not None:  # set by field: the constructor would validate single links
        out.mass, out.lever, out.inertia = inertial.mass, inertial.com.copy(), inertial.inertia.copy()
    return out


def _add_body_frame(
    model: pin.Model, tree: Tree, link: str, joint_id: int, frame_id: int, placement: pin.SE3
) -> tuple[int, int, pin.SE3]:
    inertia = _to_pinocchio_inertia(tree.links_by_name[link].inertial)
    frame = pin.Frame(link, joint_id, frame_id, placement, pin.FrameType.BODY, inertia)
    return joint_id, model.addFrame(frame), placement


def add_feet(model: pin.Model, feet: Iterable[Foot]) -> None:
    """Adds a frame with each foot's name at the center of its contact sphere, with the axes of its link."""
    for foot in feet:
        parent = model.getFrameId(foot.frame, pin.FrameType.BODY)
        carrier = model.frames[parent]
        center = carrier.placement * pin.SE3(np.eye(3), foot.offset.copy())
        model.addFrame(pin.Frame(foot.name, carrier.parentJoint, parent, center, pin.FrameType.OP_FRAME))


def body_joint(model: pin.Model, body: CompositeBody) -> int:
    """Returns the index of the joint of `model` that carries `body` (0, the universe, for a fixed base)."""
    return int(model.frames[model.getFrameId(body.name, pin.FrameType.BODY)].parentJoint)
