"""Comparison of the joint-space inertia M with MuJoCo's, as a further check of the file readers."""

from __future__ import annotations

import os
from xml.etree.ElementTree import Element, SubElement, tostring

import defusedxml.ElementTree
import numpy as np

from ..reference import Reference
from ..reference.reader import content, read_urdf
from ..urdf.mjcf import has_mujoco, import_mujoco
from .report import ThirdOpinion

#: Joint types that MuJoCo has, with one degree of freedom.
MUJOCO_JOINT_TYPES = ("revolute", "continuous", "prismatic")

#: First version of MuJoCo whose importer preserves inertias to rounding; earlier ones convert them to principal axes
#: with errors of 1e-9, and of 1e-2 where they merge links.
MIN_MUJOCO_VERSION = (3, 14)

N_SAMPLES = 3


def compare_with_mujoco(
    oracle: Reference, source: str | bytes | os.PathLike[str], rng: np.random.Generator, tolerance: float
) -> ThirdOpinion:
    """Compares the joints' block of the reference's M with the one that MuJoCo's importer yields.

    MuJoCo reads a URDF with its root link fixed to the world.  The block of M of the joints, which is M with the base
    fixed, is the same for every root.

    Args:
        oracle: the reference.
        source: the URDF, as text, bytes or path.
        rng: random generator of configurations.
        tolerance: largest relative error that counts as agreement.
    """
    if not has_mujoco():
        return ThirdOpinion("not compared: MuJoCo is not installed")
    mujoco = import_mujoco()
    version = tuple(int(part) for part in mujoco.__version__.split(".")[:2])
    if version < MIN_MUJOCO_VERSION:
        return ThirdOpinion(f"not compared: MuJoCo {mujoco.__version__} rounds the inertias that it imports")
    try:
        model = mujoco.MjModel.from_xml_string(_strip_urdf(source))
    except ValueError as error:
        return ThirdOpinion(f"refused: {' '.join(str(error).split())[:120]}")
    for link in read_urdf(source, mimic="independent").links:
        if not link.mass and link.inertia.any():
            return ThirdOpinion(f"not compared: MuJoCo drops the inertia of {link.name!r}, a link without mass")
    if oracle.model.coupled:
        return ThirdOpinion("not compared: joints mimic others, which MuJoCo's M does not model")
    bodies = [b for b in oracle.model.bodies if not b.root and b.kind in MUJOCO_JOINT_TYPES]
    joints = {body.joint: mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, body.joint) for body in bodies}
    if not bodies or min(joints.values()) < 0 or any(b.kind == "planar" for b in oracle.model.bodies):
        return ThirdOpinion("not compared: no joint, or one that MuJoCo does not have")
    ours = [body.v.start for body in bodies]
    theirs = [int(model.jnt_dofadr[joints[body.joint]]) for body in bodies]
    data, worst = mujoco.MjData(model), 0.0
    for _ in range(N_SAMPLES):
        q = oracle.random_configuration(rng)
        for body in bodies:
            coordinates = q[body.q]
            angle = coordinates[0] if body.kind != "continuous" else np.arctan2(coordinates[1], coordinates[0])
            data.qpos[model.jnt_qposadr[joints[body.joint]]] = angle
        mujoco.mj_forward(model, data)
        M = np.zeros((model.nv, model.nv))
        for row, e in zip(M, np.eye(model.nv), strict=True):
            mujoco.mj_mulM(model, data, row, e)
        # MuJoCo has no rotor inertia here: armature is not part of the file.
        reference = oracle.crba(q)[np.ix_(ours, ours)] - np.diag(oracle.model.armature[ours])
        worst = max(worst, float(np.abs(M[np.ix_(theirs, theirs)] - reference).max() / np.abs(reference).max()))
    return ThirdOpinion("agrees" if worst <= tolerance else "disagrees", worst)


def _strip_urdf(source: str | bytes | os.PathLike[str]) -> str:
    """Returns the URDF without elements that do not affect M: shapes, limits and couplings."""
    robot: Element = defusedxml.ElementTree.fromstring(content(source))
    for tag, superfluous in (("link", ("visual", "collision")), ("joint", ("limit", "mimic", "dynamics"))):
        for element in robot.iter(tag):
            for name in superfluous:
                for child in element.findall(name):
                    element.remove(child)
    for options in robot.findall("mujoco"):
        robot.remove(options)
    # Options that would alter inertias are disabled.
    exact = {"balanceinertia": "false", "boundmass": "0", "boundinertia": "0", "fusestatic": "false"}
    SubElement(SubElement(robot, "mujoco"), "compiler", exact)
    return tostring(robot, encoding="unicode")
