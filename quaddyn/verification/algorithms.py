"""Relative errors of every algorithm of `Dynamics` and `State` against the reference, at one random state.

The joint-space inertia M is also compared with MuJoCo's, as a further check of the file readers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, tostring

import defusedxml.ElementTree
import numpy as np

from ..dynamics import Dynamics
from ..dynamics.compiled import PinocchioKernels
from ..dynamics.state import ReferenceFrame as Axes
from ..kernels import Kernels
from ..reference import ClosedReference, Reference
from ..reference.reader import content, read_urdf
from ..urdf.mjcf import has_mujoco, import_mujoco
from ..urdf.tree import Array
from .report import ThirdOpinion

#: Algorithms that solve with M, whose results differ by up to rounding times the condition number of the matrices that
#: they and the reference solve with.
ILL_CONDITIONED = frozenset({"aba", "mass_inverse", "aba_derivatives", "aba (Lie group)", "aba (compiled)"})

#: Minimum divisor of relative errors, as a fraction of the result's typical magnitude (see `ResultScales`): terms that
#: cancel leave rounding errors which are large relative to their sum.
MIN_SIZE_FRACTION = 1e-3


#: Reference implementations.
Oracle = Reference | ClosedReference

#: The coordinates in which frames are compared.
COMPARED_FRAMES: tuple[Axes, ...] = ("local_world_aligned", "local", "world")


@dataclass(frozen=True, eq=False)
class Sample:
    """Random state: `q` (nq,), `v`, `a`, `tau` (nv,), and external forces `fext` (6,) by frame, along world axes."""

    q: Array
    v: Array
    a: Array
    tau: Array
    fext: Mapping[str, Array]


@dataclass(frozen=True)
class ResultScales:
    """Typical magnitudes of results at one state, from the mass m, the largest entry I of M and the fastest joint v."""

    force: float  # generalized forces and energies: ``m g l`` with ``l = sqrt(I / m)``
    coriolis: float  # ``I v``
    momentum: float  # ``m v``
    drift: float  # accelerations due to velocities, sums of their products: ``v^2``
    acceleration: float  # acceleration of the lightest joint due to `force`
    length: float = 1.0  # positions and Jacobians: 1 in SI units


def result_scales(oracle: Oracle, at: Sample) -> ResultScales:
    """Returns the `ResultScales` at a state."""
    mass, M, fast = sum(body.mass for body in oracle.model.bodies), oracle.crba(at.q), float(np.abs(at.v).max())
    inertia = float(np.abs(M).max())
    force = 9.81 * float(np.sqrt(mass * inertia))
    return ResultScales(force, inertia * fast, mass * fast, fast * fast, force / float(np.diag(M).min()))


def relative_error(ours: object, reference: object, natural: float = 0.0) -> float:
    """Returns the largest difference relative to the largest entry of `reference`.

    The divisor is at least `MIN_SIZE_FRACTION` of the typical magnitude `natural`.  Infinite if shapes differ or `ours`
    is not finite.
    """
    a, b = np.asarray(ours, dtype=float), np.asarray(reference, dtype=float)
    if a.shape != b.shape or not np.isfinite(a).all():
        return float("inf")
    difference = float(np.abs(a - b).max(initial=0.0))
    size = max(float(np.abs(b).max(initial=0.0)), MIN_SIZE_FRACTION * natural)
    return difference / size if size > 0.0 else (float("inf") if difference else 0.0)


class Errors(dict[str, float]):
    """Largest relative error of each algorithm."""

    def add(self, algorithm: str, ours: object, reference: object, natural: float = 0.0) -> None:
        """Updates the error of an algorithm by one comparison, see `relative_error`."""
        self[algorithm] = max(self.get(algorithm, 0.0), relative_error(ours, reference, natural))


#: Name under which all results of `Dynamics.update` are reported.
STATE_ALGORITHM = "update (State)"


def compare(dynamics: Dynamics, oracle: Oracle, at: Sample, *, derivatives: bool) -> dict[str, float]:
    """Returns the relative error of every algorithm at one state.

    Args:
        dynamics: the dynamics under test.
        oracle: the reference.
        at: the state.
        derivatives: whether to compare the derivatives too.
    """
    out, sizes, state = Errors(), result_scales(oracle, at), dynamics.update(at.q, at.v)
    q, v, a, tau, fext = at.q, at.v, at.a, at.tau, at.fext

    def check(algorithm: str, *args: object, natural: float = 0.0, attribute: str = "", **options: object) -> Array:
        """Compares an algorithm, and the attribute of `State` with the same value; returns the reference's result."""
        expected: Array = getattr(oracle, algorithm)(*args, **options)
        out.add(algorithm, getattr(dynamics, algorithm)(*args, **options), expected, natural)
        if attribute:
            out.add(STATE_ALGORITHM, getattr(state, attribute), expected, natural)
        return expected

    check("rnea", q, v, a, fext=fext, natural=sizes.force)
    check("crba", q, attribute="M")
    check("nle", q, v, natural=sizes.force, attribute="h")
    check("gravity", q, natural=sizes.force, attribute="gravity")
    check("coriolis", q, v, natural=sizes.coriolis)
    check("joint_friction", v)
    H, delta = check("regressor", q, v, a), oracle.parameters()
    computed_H, computed_delta = dynamics.regressor(q, v, a), dynamics.parameters()
    inertial_columns = H.reshape(oracle.nv, -1, 13)[:, :, :10].reshape(oracle.nv, -1)
    out.add("regressor", dynamics.regressor(q, v, a, inertial=True), inertial_columns)
    out.add("parameters", computed_delta, delta)
    out.add("parameters", dynamics.parameters(inertial=True), delta.reshape(-1, 13)[:, :10].ravel())
    out.add("regressor @ parameters", computed_H @ computed_delta, H @ delta, sizes.force)
    check("aba", q, v, tau, fext=fext)
    if oracle.has_lie_group(q):
        out.add("aba (Lie group)", dynamics.aba(q, v, tau, fext=fext), oracle.lie_group(q, v, tau, fext=fext))
    check("mass_inverse", q)
    check("center_of_mass", q, natural=sizes.length, attribute="com")
    J = check("com_jacobian", q, natural=sizes.length, attribute="com_jacobian")
    out.add(STATE_ALGORITHM, state.com_velocity, J @ v, sizes.length)
    out.add(STATE_ALGORITHM, state.com_drift, oracle.com_drift(q, v), sizes.drift)
    check("centroidal_momentum", q, v, natural=sizes.momentum, attribute="centroidal_momentum")
    for ours, in_state, energy in zip(dynamics.energy(q, v), state.energy, oracle.energy(q, v), strict=True):
        out.add("energy", ours, energy, sizes.force)
        out.add(STATE_ALGORITHM, in_state, energy, sizes.force)
    for name in fext:
        T = oracle.frame_placement(q, name)
        out.add("frame_placement", dynamics.frame_placement(q, name).homogeneous, T, sizes.length)
        out.add(STATE_ALGORITHM, state.placement(name).homogeneous, T, sizes.length)
        for axes in COMPARED_FRAMES:
            J = check("frame_jacobian", q, name, natural=sizes.length, reference=axes)
            V = check("frame_velocity", q, v, name, natural=sizes.length, reference=axes)
            drift = check("frame_drift", q, v, name, natural=sizes.drift, reference=axes)
            out.add(STATE_ALGORITHM, state.jacobian(name, reference=axes), J, sizes.length)
            out.add(STATE_ALGORITHM, state.velocity(name, reference=axes), V, sizes.length)
            out.add(STATE_ALGORITHM, state.drift(name, reference=axes), drift, sizes.drift)
    if derivatives and isinstance(oracle, Reference):
        for algorithm, third, natural in (
            ("rnea_derivatives", a, sizes.force),
            ("aba_derivatives", tau, sizes.acceleration),
        ):
            ours, expected = (getattr(each, algorithm)(q, v, third) for each in (dynamics, oracle))
            for x, y in zip(ours, expected, strict=True):
                out.add(algorithm, x, y, natural)
    return dict(out)


def compare_kernels(fast: Kernels | PinocchioKernels, oracle: Oracle, at: Sample) -> dict[str, float]:
    """Returns the relative error of compiled `rnea`, `crba` and `aba` at one state, without external forces."""
    out, sizes = Errors(), result_scales(oracle, at)
    q, v, a, tau = at.q, at.v, at.a, at.tau
    out.add("rnea (compiled)", fast.rnea(q, v, a), oracle.rnea(q, v, a), sizes.force)
    out.add("crba (compiled)", fast.crba(q), oracle.crba(q))
    out.add("aba (compiled)", fast.aba(q, v, tau), oracle.aba(q, v, tau))
    return dict(out)


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
