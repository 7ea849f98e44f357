"""Comparison of the robot with the reference, body by body: reports which quantity of which body or joint differs.

Both of the robot's representations are compared, its bodies and its Pinocchio model, since both are used downstream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pinocchio as pin

from ..reference import Body as Oracle
from ..reference import Reference
from ..reference.algebra import mass_properties, spatial_inertia, swap
from ..robot.bodies import CompositeBody, merge_fixed_links
from ..robot.model import body_joint, independent_joint_losses
from ..robot.robot import Robot
from ..urdf.tree import Array, Inertial
from .report import Deviation

#: Kinds of deviations in structure, after which there is no common configuration.
STRUCTURE = frozenset({"joint", "frame", "type", "parent"})

#: Order of kinds of deviations in a report; those of equal order are sorted by their error.
DISPLAY_ORDER = {
    "joint": 0, "type": 1, "parent": 2, "gravity": 3, "mass": 4, "center of mass": 4, "inertia": 4, "placement": 4,
    "axis": 4, "frame": 7,
}  # fmt: skip
JOINTS, LIMITS = 5, 6

#: The joint that carries the base, by kind of root.
ROOT_BODY = {"free": "root_joint", "planar": "root_pitch"}


class _Comparison(NamedTuple):
    """Values of a quantity on both sides and their relative difference; formatted as text only if reported."""

    name: str
    quantity: str
    ours: Array | float
    theirs: Array | float
    error: float


def find_deviations(robot: Robot, oracle: Reference, tolerance: float) -> tuple[Deviation, ...]:
    """Returns all quantities that differ by more than `tolerance`, the most important first.

    First the structure (joints, their types and parents), without which there is no common motion; if it differs, only
    structure and frames are returned.  Then gravity, inertia and geometry, friction and rotors, limits, each with the
    largest relative difference first, and last the frames that one side lacks.
    """
    found = [*_compare_structure(robot, oracle)]
    moving = {body.name for body in oracle.model.bodies if not body.root}
    if all(d.quantity == "frame" for d in found) and moving == {body.name for body in robot.bodies[1:]}:
        wrong = (c for c in _compare_numbers(robot, oracle) if not c.error <= tolerance)
        found += [Deviation(c.name, c.quantity, _format_value(c.ours), _format_value(c.theirs), c.error) for c in wrong]
    unique: dict[tuple[str, str], Deviation] = {}
    for d in sorted(found, key=lambda d: (_display_order(d.quantity), -d.error)):
        unique.setdefault((d.name, d.quantity), d)
    return tuple(unique.values())


def _display_order(quantity: str) -> int:
    return DISPLAY_ORDER.get(quantity, LIMITS if quantity.endswith("limit") else JOINTS)


def apply_arguments(robot: Robot, oracle: Reference) -> Reference:
    """Returns the reference with the values that override the file: arguments of `load`, and repaired inertias."""
    provenance, body_index = robot.report.provenance, {b.joint: i for i, b in enumerate(oracle.model.bodies)}
    damping, friction = oracle.model.damping.copy(), oracle.model.friction.copy()
    bodies = list(oracle.model.bodies)
    leaders = {body.v.start: i for i, body in enumerate(bodies) if not body.is_mimic}
    for body in oracle.model.bodies:
        i = leaders[body.v.start]  # whose coordinate it is
        if body.root or bodies[i].joint not in robot.joint_names:
            continue
        at = robot.velocity_index(bodies[i].joint)
        if provenance.get(f"{body.joint}.damping") == "argument damping":
            damping[body.v] = robot.damping[at]
        if provenance.get(f"{body.joint}.friction") == "argument friction":
            friction[body.v] = robot.friction[at]
        q = robot.configuration_index(bodies[i].joint)
        if "argument limits" in (provenance.get(f"{body.joint}.lower"), provenance.get(f"{body.joint}.upper")):
            bodies[i] = replace(bodies[i], lower=float(robot.lower[q]), upper=float(robot.upper[q]))
    for ours, merged in zip(robot.bodies, merge_fixed_links(robot.tree), strict=True):
        repaired = not np.array_equal(ours.inertial.inertia, merged.inertial.inertia)
        joint = ours.joint.name if ours.joint is not None else ROOT_BODY.get(robot.root, "")
        if repaired and joint in body_index:
            bodies[body_index[joint]] = replace(bodies[body_index[joint]], G=_spatial_inertia(ours.inertial))
    model = replace(oracle.model, bodies=tuple(bodies))
    armature = robot.armature if robot.armature.shape == (oracle.nv,) else None
    return Reference(model, armature=armature, damping=damping, friction=friction)


def _compare_structure(robot: Robot, oracle: Reference) -> Iterator[Deviation]:
    theirs = {body.joint: body for body in oracle.model.bodies if not body.root}
    independent = tuple(body.joint for body in oracle.model.bodies if not (body.root or body.is_mimic))
    yield from _find_missing("joint", robot.joint_names, independent)
    yield from _find_missing("frame", robot.frame_names, tuple(oracle.model.frames))
    moved = False
    for body in robot.bodies[1:]:
        assert body.joint is not None
        other = theirs.get(body.joint.name)
        if other is None:
            continue
        if other.kind != body.joint.type:
            yield Deviation(body.joint.name, "type", body.joint.type, other.kind, np.inf)
        above = robot.bodies[body.parent].name
        other_above = oracle.model.bodies[other.parent].name if other.parent >= 0 else robot.bodies[0].name
        if other_above != above:
            moved = True
            yield Deviation(body.name, "parent", above, str(other_above), np.inf)
    if not moved and set(robot.joint_names) == set(independent):
        for i, (a, b) in enumerate(zip(robot.joint_names, independent, strict=True)):
            if a != b:
                yield Deviation(a, "joint", f"number {i}", f"{b} in its place", np.inf)


def _find_missing(what: str, ours: tuple[str, ...], theirs: tuple[str, ...]) -> Iterator[Deviation]:
    for name in ours:
        if name not in theirs:
            yield Deviation(name, what, "present", "missing", np.inf)
    for name in theirs:
        if name not in ours:
            yield Deviation(name, what, "missing", "present", np.inf)


def _compare_numbers(robot: Robot, oracle: Reference) -> Iterator[_Comparison]:
    model, data = robot.model, robot.model.createData()
    yield _compare_vectors("world", "gravity", model.gravity.linear, oracle.model.gravity)
    neutral = pin.neutral(model)
    pin.computeJointJacobians(model, data, neutral)
    pin.updateFramePlacements(model, data)
    carried = {body.name: body for body in oracle.model.bodies if body.name is not None}
    for ours in robot.bodies:
        theirs = carried.get(ours.name)
        if theirs is None:  # fixed to the world: Pinocchio's model has no such body
            assert oracle.model.base is not None
            yield from _compare_inertials(ours.name, ours.inertial, oracle.model.base)
            continue
        yield from _compare_inertials(ours.name, ours.inertial, theirs.G)
        yield from _compare_inertials(ours.name, _model_inertial(robot, ours), theirs.G)
        frame = model.getFrameId(ours.name, pin.FrameType.BODY)
        # Pinocchio returns a vector for a robot with one joint.
        J = np.reshape(pin.getFrameJacobian(model, data, frame, pin.LOCAL), (6, model.nv))
        joint = model.joints[body_joint(model, ours)]
        yield _compare_vectors(
            ours.name, "axis", theirs.mimic_multiplier * J[:, joint.idx_v : joint.idx_v + joint.nv], swap() @ theirs.S
        )
        yield _compare_vectors(ours.name, "placement", _placement_in_parent(robot, data, oracle, theirs), theirs.T)
        if not (theirs.root or theirs.is_mimic):
            yield from _compare_limits(robot, theirs)
    for name, (body, T) in oracle.model.frames.items():
        if name in robot.frame_names:
            yield _compare_vectors(name, "placement", _placement_in_body(robot, oracle, name, body), T)
    yield from _compare_joint_losses(robot, oracle)


def _compare_inertials(name: str, ours: Inertial, G: Array) -> Iterator[_Comparison]:
    """Compares mass, center of mass and inertia of a body with the reference's spatial inertia."""
    theirs = Inertial(*mass_properties(G))
    yield _compare_vectors(name, "mass", np.array([ours.mass]), np.array([theirs.mass]))
    # A length and an inertia to measure by: of the body about its joint, so that a point mass has them too.
    size = float(np.abs(G[:3, :3]).max())
    length = np.sqrt(size / theirs.mass) if theirs.mass else 1.0
    yield _compare_vectors(name, "center of mass", ours.com, theirs.com, length)
    yield _compare_vectors(name, "inertia", ours.inertia, theirs.inertia, size)


def _spatial_inertia(inertial: Inertial) -> Array:
    return spatial_inertia(inertial.mass, inertial.com, inertial.inertia)


def _model_inertial(robot: Robot, body: CompositeBody) -> Inertial:
    """Returns the inertial properties of a body in Pinocchio's model, in the body's frame."""
    frame = robot.model.frames[robot.model.getFrameId(body.name, pin.FrameType.BODY)]
    inertia = frame.placement.actInv(robot.model.inertias[body_joint(robot.model, body)])
    return Inertial(inertia.mass, inertia.lever, inertia.inertia)


def _placement_in_parent(robot: Robot, data: pin.Data, oracle: Reference, body: Oracle) -> Array:
    """Returns the placement (4, 4) of a body in its parent at the neutral configuration, in Pinocchio's model."""
    # The massless steps of a planar root coincide with the world there.
    above = oracle.model.bodies[body.parent].name if body.parent >= 0 else None
    here = data.oMf[robot.model.getFrameId(body.name, pin.FrameType.BODY)]
    if above is not None:
        here = data.oMf[robot.model.getFrameId(above, pin.FrameType.BODY)].actInv(here)
    return np.array(here.homogeneous)


def _placement_in_body(robot: Robot, oracle: Reference, name: str, body: int) -> Array:
    """Returns the placement (4, 4) of a frame in the body that carries it, in Pinocchio's model."""
    frames = robot.model.frames
    placement = frames[robot.frame_id(name)].placement
    carrier = oracle.model.bodies[body].name if body >= 0 else None
    if carrier is not None:
        placement = frames[robot.model.getFrameId(carrier, pin.FrameType.BODY)].placement.actInv(placement)
    return np.array(placement.homogeneous)


def _compare_limits(robot: Robot, body: Oracle) -> Iterator[_Comparison]:
    q = robot.configuration_index(body.joint)
    for side, ours, theirs in (("lower", robot.lower[q], body.lower), ("upper", robot.upper[q], body.upper)):
        if ours != theirs:
            error = abs(ours - theirs) / max(abs(theirs), 1.0) if np.isfinite([ours, theirs]).all() else np.inf
            yield _Comparison(body.joint, f"{side} limit", ours, theirs, error)


def _compare_joint_losses(robot: Robot, oracle: Reference) -> Iterator[_Comparison]:
    """Compares damping, friction and armature of each joint; the armature in Pinocchio's model, too."""
    model = oracle.model
    pairs = (
        ("damping", robot.damping, model.damping),
        ("friction", robot.friction, model.friction),
        ("armature", robot.armature, model.armature),
        ("armature", independent_joint_losses(robot.model, robot.coupling)[2], model.armature),
    )
    for body in model.bodies:
        for quantity, ours, theirs in pairs:
            yield _compare_vectors(body.joint, quantity, ours[body.v], theirs[body.v])


def _compare_vectors(name: str, quantity: str, ours: Array, theirs: Array, natural: float = 0.0) -> _Comparison:
    """Compares two values, relative to the reference's largest entry or its typical magnitude `natural`."""
    difference = float(np.abs(np.asarray(ours) - theirs).max(initial=0.0))
    size = max(float(np.abs(theirs).max(initial=0.0)), natural)
    error = difference / size if size > 0.0 else (np.inf if difference else 0.0)
    return _Comparison(name, quantity, ours, theirs, error)


def _format_value(value: Array | float) -> str:
    with np.printoptions(precision=6, suppress=False, linewidth=10**6):
        return str(np.asarray(value).tolist() if np.size(value) == 1 else np.asarray(value)).replace("\n", "")
