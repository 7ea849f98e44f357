"""Validation: rejects robots that are physically impossible or that the algorithms cannot simulate.

Composite joint bodies are validated, not single links: 48 of 69 files in common use have a dummy link that violates a
rule and has no effect on the body's dynamics.

*Plausibility*: validation detects lengths, angles, masses and inertias that are probably not in SI units.
Each quantity is examined over the whole robot and reported in one finding that names the likely unit, because an author
a file in millimeters has them everywhere.  The reader reports links that are implausible individually.

Effort limits small enough to constrain the robot; much larger ones of a file count as none.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from ..errors import ModelError
from ..urdf.tree import (
    Array,
    BoxShape,
    CapsuleShape,
    CylinderShape,
    Finding,
    Geometry,
    Inertial,
    Joint,
    Link,
    MeshShape,
    SphereShape,
    Tree,
    Where,
    frozen,
)
from ..urdf.values import ROUNDING_PER_MASS
from .algorithms import Algorithms, algorithms
from .bodies import CompositeBody, pseudo_inertia
from .coupling import MimicCoupling
from .robot import Robot

if TYPE_CHECKING:
    from .loops import LoopCoupling


MAX_NV = 200
#: Relative slack on the pseudo-inertia's smallest eigenvalue: rounding in files, not physics.
PSD_TOLERANCE = 1e-9
#: Largest radius of gyration [m]: beyond it the mass is missing, not the body large.
MAX_GYRATION = 100.0
#: Smallest eigenvalue of M scaled to unit diagonal.  Real robots have 1e-7 and more.
MIN_EIGENVALUE = 1e-12
#: Smallest diagonal entry of M, as a fraction of the largest: below it ordinary torques overflow.
MIN_DIAGONAL_RATIO = 1e-14
#: Largest relative error of RNEA(ABA(tau)) = tau.
MAX_ROUND_TRIP_ERROR = 1e-6
N_SAMPLES = 3
#: Value to which a repair raises a negative second moment, as a fraction of the largest.
REPAIRED_MOMENT_FRACTION = 1e-4
#: Joints that one finding lists.
MAX_LISTED_JOINTS = 4
#: Largest plausible Coulomb friction as a fraction of the effort limit; smallest plausible fraction of the velocity
#: limit at which viscous friction equals the effort limit; longest plausible time in which the effort limit accelerates
#: the rotor alone to the velocity limit [s].
MAX_FRICTION_FRACTION, MIN_SPEED_FRACTION, MAX_ACCELERATION_TIME = 0.5, 0.02, 5.0
#: An effort limit beyond this many times weight times size, and a velocity limit [rad/s] beyond this, are void.
MAX_EFFORT_RATIO, MAX_VELOCITY_LIMIT = 30.0, 500.0
#: Gravitational acceleration [m/s^2].
GRAVITY = 9.81
SEED = 0
#: Distance from home at which a robot with closed loops is sampled [rad or m], and how often it is halved where a loop
#: does not close.
SAMPLING_RANGE, MAX_HALVINGS = 0.3, 6


def validate_inertias(
    bodies: Sequence[CompositeBody], *, free: bool, allow_massless: bool, in_loops: Collection[str] = ()
) -> None:
    """Rejects composite bodies whose mass and inertia no mass distribution can have.

    The base is checked only if it moves.

    Args:
        bodies: composite bodies of the robot; the first one is the base.
        free: whether the base moves.
        allow_massless: whether moving bodies without mass are accepted.
        in_loops: names of the joints of closed loops, which may carry bodies without mass; `validate_model` then
            decides on the loop as a whole.

    Raises:
        ModelError: naming the body, its links, the value and what to do.
    """
    for body in bodies if free else bodies[1:]:
        inertial = body.inertial
        where = body.links[0][0].where
        body_text = (
            f"{where}: the body moved by {_describe_joint(body)} ({', '.join(x.name for x, _ in body.links[:4])})"
        )
        if inertial.mass <= 0.0:
            allowed = body.joint is not None and (allow_massless or body.joint.name in in_loops)
            if allowed and not inertial.inertia.any():
                continue
            advice = "give one of its links an <inertial>"
            if body.joint is not None:
                advice += ", or pass allow_massless=True if bodies further out have mass"
            raise ModelError(f"{body_text} has no mass; {advice}")
        if np.trace(inertial.inertia) > 2.0 * inertial.mass * MAX_GYRATION**2:
            advice = "correct <mass> or <inertia>"
            if inertial.mass > MIN_CREDIBLE_MASS:
                scale = 2.0 * inertial.mass * USUAL_GYRATION**2 / float(np.trace(inertial.inertia))
                unit = _likely_units(INERTIAS, scale, USUAL_VALUE_UNCERTAINTY**2)
                advice += f"; inertias seem to be in {unit}, where kg m^2 is expected"
            raise ModelError(
                f"{body_text} has mass {inertial.mass:.3g} kg and an inertia too large for it (radius of gyration "
                f"above {MAX_GYRATION:g} m); {advice}"
            )
        moments = np.linalg.eigvalsh(pseudo_inertia(inertial)[:3, :3])
        largest = max(abs(float(moments[0])), abs(float(moments[-1])))
        if moments[0] < -PSD_TOLERANCE * largest - ROUNDING_PER_MASS * inertial.mass:
            principal = np.linalg.eigvalsh(inertial.inertia)
            values = ", ".join(f"{m:.4g}" for m in principal)
            raise ModelError(
                f"{body_text} has principal moments of inertia ({values}) kg m^2, which is physically impossible "
                f"(second moment {moments[0]:.3g} < 0); correct <inertia>, or pass repair=('inertia',)"
            )


def repair_inertia(bodies: Sequence[CompositeBody]) -> tuple[tuple[CompositeBody, ...], list[Finding]]:
    """Replaces impossible inertias by nearby physical ones and reports each change.

    Negative eigenvalues of the second moment are raised to `REPAIRED_MOMENT_FRACTION` times the largest one; at 0 the
    body would be flat and M might be singular.

    Returns:
        The bodies, and a warning for each of them that was changed.
    """
    out, findings = [], []
    for body in bodies:
        sigma = pseudo_inertia(body.inertial)[:3, :3]
        values, vectors = np.linalg.eigh(sigma)
        if body.inertial.mass > 0.0 and values[0] < -PSD_TOLERANCE * np.abs(values).max():
            raised = np.maximum(values, REPAIRED_MOMENT_FRACTION * np.abs(values).max())
            sigma = (vectors * raised) @ vectors.T
            inertia = np.trace(sigma) * np.eye(3) - sigma
            body = replace(body, inertial=Inertial(body.inertial.mass, body.inertial.com, frozen(inertia)))
            reason = (
                f"the inertia of the body moved by {_describe_joint(body)} is physically impossible (second moment "
                f"{values[0]:.3g} < 0); repair=('inertia',) replaces it by the nearest possible inertia"
            )
            findings.append(Finding("warning", body.links[0][0].where, reason))
        out.append(body)
    return tuple(out), findings


def max_effective_efforts(bodies: Sequence[CompositeBody]) -> dict[str, float]:
    """Returns the largest effort limit that has an effect on a robot of this weight and size, by joint [N m or N]."""
    origins = [np.zeros(3)]
    for body in bodies[1:]:  # at zero configuration, orientation left out: only the size counts
        origins.append(origins[body.parent] + body.placement.translation)
    size = max(float(np.linalg.norm(p)) for p in origins) or 1.0
    largest_force = MAX_EFFORT_RATIO * sum(b.inertial.mass for b in bodies) * GRAVITY
    joints = [body.joint for body in bodies if body.joint is not None]
    return {joint.name: largest_force * (1.0 if joint.type == "prismatic" else size) for joint in joints}


def find_implausible_limits(bodies: Sequence[CompositeBody]) -> list[Finding]:
    """Returns findings on missing limits, and on limits too large for a robot of this weight and size."""
    findings, max_efforts = [], max_effective_efforts(bodies)
    unlimited: dict[str, list[Joint]] = {"effort": [], "velocity": []}
    for body in bodies[1:]:
        joint = body.joint
        if joint is None or joint.type not in ("revolute", "continuous", "prismatic"):
            continue
        for kind, joints in unlimited.items():
            if np.isinf(getattr(joint.limits, kind)):
                joints.append(joint)
        void = []
        if max_efforts[joint.name] < joint.limits.effort < np.inf:
            void.append(
                f"effort={joint.limits.effort:g} (more than {MAX_EFFORT_RATIO:g} times the torque that lifts the "
                "whole robot)"
            )
        if MAX_VELOCITY_LIMIT < joint.limits.velocity < np.inf:
            void.append(f"velocity={joint.limits.velocity:g}")
        if void:
            reason = f"the limits {' and '.join(void)} are too large to have an effect"
            findings.append(Finding("warning", joint.where, reason, "pass the limits of the motors as limits="))
    for kind, joints in unlimited.items():
        if joints:
            listed = ", ".join(joint.name for joint in joints[:MAX_LISTED_JOINTS]) + (
                ", ..." if len(joints) > MAX_LISTED_JOINTS else ""
            )
            reason = f"no {kind} limit is given for {len(joints)} joints ({listed}); they are assumed to be unlimited"
            findings.append(Finding("note", joints[0].where, reason, "pass the limits of the motors as limits="))
    return findings


def find_implausible_losses(bodies: Sequence[CompositeBody]) -> list[Finding]:
    """Returns findings on friction, damping and rotor inertia that the motors of their joints cannot overcome.

    The effort limit is compared with the Coulomb friction, with the viscous friction at a fraction of the velocity
    limit, and with the torque that accelerates the rotor alone to the velocity limit in some seconds.
    """
    losses: dict[str, list[Joint]] = {"friction": [], "damping": [], "armature": []}
    for joint in (body.joint for body in bodies[1:]):
        if joint is None or not 0.0 < joint.limits.effort < np.inf:
            continue
        velocity = joint.limits.velocity if joint.limits.velocity < np.inf else 0.0
        for kind, torque in (
            ("friction", joint.friction / MAX_FRICTION_FRACTION),
            ("damping", joint.damping * MIN_SPEED_FRACTION * velocity),
            ("armature", joint.armature * velocity / MAX_ACCELERATION_TIME),
        ):
            if torque > joint.limits.effort:
                losses[kind].append(joint)
    effects = {
        "friction": f"takes more than {100.0 * MAX_FRICTION_FRACTION:g} % of the effort limit",
        "damping": f"keeps the joint below {100.0 * MIN_SPEED_FRACTION:g} % of its velocity limit at the effort limit",
        "armature": f"needs more than {MAX_ACCELERATION_TIME:g} s at the effort limit to reach the velocity limit",
    }
    findings = []
    for kind, joints in losses.items():
        if joints:
            listed = ", ".join(joint.name for joint in joints[:MAX_LISTED_JOINTS]) + (
                ", ..." if len(joints) > MAX_LISTED_JOINTS else ""
            )
            size = max(getattr(joint, kind) for joint in joints)
            reason = f"{kind}={size:g} of {len(joints)} joints ({listed}) {effects[kind]}"
            findings.append(Finding("warning", joints[0].where, reason, f"pass values in SI units as {kind}="))
    return findings


def validate_dof_count(nv: int, file: str) -> None:
    """Rejects models without degrees of freedom, and those too large for dense dynamics (cost grows with nv^3).

    Raises:
        ModelError: nv is 0 or above `MAX_NV`.
    """
    if nv > MAX_NV:
        raise ModelError(
            f"{file}: the robot has {nv} degrees of freedom, but at most {MAX_NV} are supported; change joints that "
            "you do not need to fixed joints"
        )
    if nv == 0:
        raise ModelError(f"{file}: the robot has a fixed root and no moving joint; pass root='free' or add a joint")


def validate_model(
    model: pin.Model, file: str, coupling: MimicCoupling | LoopCoupling | None = None, home: Array | None = None
) -> dict[str, float]:
    """Checks that M(q) is positive definite and that RNEA(ABA(tau)) equals tau at sampled states.

    Args:
        model: Pinocchio model of all joints.
        file: name of the file, for the message.
        coupling: coupling of the robot's joints; the checks then use the coordinates of the independent joints.
        home: (nq,) configuration in which the loops are closed; states are sampled around it.  None for a robot without
            closed loops.

    Returns:
        The worst values: "smallest eigenvalue of M (unit diagonal)", "condition of M (unit diagonal)" and
        "RNEA(ABA) error".

    Raises:
        ModelError: naming the worst value and the joint.
    """
    data, pinocchio = model.createData(), algorithms(coupling)
    index = np.arange(model.nv) if coupling is None else coupling.v_index
    nv = len(index)
    rng = np.random.default_rng(SEED)
    smallest, condition, error = np.inf, 0.0, 0.0
    for sample in range(N_SAMPLES):
        q = pinocchio.neutral(model) if home is None else home
        if sample:
            q = sample_near_neutral(model, rng) if home is None else _sample_near_home(model, pinocchio, home, rng)
        v = 0.5 * rng.standard_normal(nv)
        M = pinocchio.crba(model, data, q)
        diagonal = np.diag(M)
        if not (np.isfinite(M).all() and (diagonal > MIN_DIAGONAL_RATIO * diagonal.max()).all()):
            j = int(np.argmin(np.where(np.isfinite(diagonal), diagonal, -np.inf)))
            raise ModelError(
                f"{file}: {_joint_of_velocity(model, int(index[j]))} has the diagonal entry {diagonal[j]:.3g} in the "
                "mass matrix, which must be positive; check the axis of the joint and the masses and lengths of the "
                "links that it moves"
            )
        scale = 1.0 / np.sqrt(diagonal)
        scaled = M * np.outer(scale, scale)
        values = np.linalg.eigvalsh(scaled)
        smallest = min(smallest, float(values[0]))
        condition = max(condition, float(values[-1] / max(values[0], 1e-300)))
        if values[0] < MIN_EIGENVALUE:
            _, vectors = np.linalg.eigh(scaled)
            j = int(np.argmax(np.abs(vectors[:, 0])))
            raise ModelError(
                f"{file}: the mass matrix is not positive definite (smallest eigenvalue {values[0]:.2g} at unit "
                f"diagonal, mostly {_joint_of_velocity(model, int(index[j]))}), because some motion of the joints "
                "moves no mass; check the masses of the links that this joint moves"
            )
        # Torques of the size that gravity and unit accelerations need, so that the robot's size has no effect.
        tau = pinocchio.rnea(model, data, q, v, rng.standard_normal(nv))
        back = pinocchio.rnea(model, data, q, v, pinocchio.aba(model, data, q, v, tau))
        size = max(float(np.abs(tau).max()), float(np.abs(pinocchio.rnea(model, data, q, v, np.zeros(nv))).max()))
        error = max(error, float(np.abs(back - tau).max()) / max(size, 1e-300))
        if not error <= MAX_ROUND_TRIP_ERROR:
            raise ModelError(
                f"{file}: inverse and forward dynamics disagree by {error:.2g} (condition of M {condition:.1g}); "
                "reduce the ratio between the largest and the smallest masses and inertias"
            )
    return {
        "smallest eigenvalue of M (unit diagonal)": smallest,
        "condition of M (unit diagonal)": condition,
        "RNEA(ABA) error": error,
    }


def sample_near_neutral(model: pin.Model, rng: np.random.Generator) -> Array:
    """Returns a random configuration near the neutral one, displaced by up to 1 rad or 1 m; limits are ignored."""
    return np.asarray(pin.integrate(model, pin.neutral(model), rng.uniform(-1.0, 1.0, model.nv)))


def _sample_near_home(model: pin.Model, pinocchio: Algorithms, home: Array, rng: np.random.Generator) -> Array:
    """Returns a random configuration near home in which all loops close."""
    displacement = rng.uniform(-SAMPLING_RANGE, SAMPLING_RANGE, len(pinocchio.difference(model, home, home)))
    for _ in range(MAX_HALVINGS):
        q = np.asarray(pinocchio.integrate(model, home, displacement))
        if pinocchio.isNormalized(model, q, 1e-6):
            return q
        displacement *= 0.5
    return home


def _describe_joint(body: CompositeBody) -> str:
    """Returns the joint that moves a body, as text for messages."""
    return f"joint {body.joint.name!r}" if body.joint is not None else "the root"


def _joint_of_velocity(model: pin.Model, index: int) -> str:
    """Returns the joint to which an entry of v belongs, as text for messages."""
    for joint, name in zip(model.joints, model.names, strict=True):
        if joint.idx_v <= index < joint.idx_v + joint.nv and joint.nv:
            return f"joint {name!r}"
    return f"velocity {index}"


#: A position limit of a revolute joint beyond this [rad] is an angle in degrees: joints turn a few times at most.  The
#: smaller bound applies to ranges that are not symmetric, as those of joints that turn several times are.
MAX_REVOLUTE_LIMIT, MAX_UNSYMMETRIC_LIMIT = 4.0 * 2.0 * math.pi, 2.5 * 2.0 * math.pi
#: Up to this [degrees] a limit is an angle in degrees; beyond, the joint is unlimited.
MAX_DEGREES = 1080.0
#: Range below which a revolute joint hardly moves [rad], a turn in degrees that are given as radians; and the number of
#: joints above which it is no coincidence that all ranges are as narrow.
MAX_NARROW_RANGE, MIN_NARROW_JOINTS = 0.12, 3
#: Upper ends of symmetric ranges [rad] that mean "no limit".
UNLIMITED_VALUES = (100.0, 1000.0)
#: Distance from the root to the farthest link [m] above which lengths are in another unit.
MAX_SIZE = 20.0
#: Total mass [kg], and mass per volume of a cube around the robot [kg/m^3], above which masses are in another unit.
#: Robots that stand or reach have 1 to 200 kg/m^3; a cube of solid aluminium has 2,700.
MAX_MASS, MAX_DENSITY = 1e4, 3e3
#: Size of a link divided by its radius of gyration, as robots have it in the median: 3.5 for a thin rod.
USUAL_RATIO = 3.0
#: Distance from the root to the farthest link of most robots [m].
USUAL_SIZE = 0.5
#: Factors between the usual ratio and the median of a robot that are taken for a unit error: lengths in inches give 39,
#: inertias in g m^2 1/32.
MAX_EXCESS, MIN_EXCESS = 10.0, 0.05
#: Radius of gyration of a single link above which a unit error is assumed, as a fraction of the distance from the root
#: to the farthest link; and the fraction of the robot's mass above which a link counts.
MAX_GYRATION_FRACTION, MIN_MASS_FRACTION = 1.5, 0.01
#: Radius of gyration of a moving body divided by its size above which its inertia is wrong: a rod has 0.3, and bodies
#: of correct files have 0.3 in the median and up to 0.7 in 90 %.  The size is taken as at least the second number times
#: the distance from the root to the farthest link.  Bodies whose mass is less than the third number times that of the
#: robot are ignored.
MAX_GYRATION_RATIO, MIN_SPAN_FRACTION, MIN_BODY_MASS_FRACTION = 2.5, 0.1, 0.005
#: Ratio of the usual to the given radius of gyration above which a body is taken for an intended point mass.
MAX_THIN_RATIO = 1e4
#: Radius of gyration of most links [m]; a mass below the second number [kg] is a placeholder.
USUAL_GYRATION, MIN_CREDIBLE_MASS = 0.1, 1e-3
#: Range of a prismatic joint above which it is in another unit [distance from the root to the farthest link].
MAX_TRAVEL_RATIO = 50.0
#: Ratio of a length to the median of the lengths of a file above which it is in another unit, if others are not.
MAX_LENGTH_RATIO = 30.0
#: Factor by which the usual ratio and the usual size may be wrong for a robot.
USUAL_VALUE_UNCERTAINTY = 4.0
#: Lengths of what a unit's name stands for, in metres, and inertias in kg m^2.
LENGTHS = MappingProxyType({"centimeters": 1e-2, "inches": 0.0254, "millimeters": 1e-3})
INERTIAS = MappingProxyType({"g m^2": 1e-3, "kg cm^2": 1e-4, "kg mm^2": 1e-6, "g cm^2": 1e-7, "g mm^2": 1e-9})
#: Mass of a payload [masses of the robot], and its size and its distance from the origin of its link [distance from the
#: root to the farthest link], above which they are in another unit; and the usual size and distance.
MAX_PAYLOAD_MASS, MAX_PAYLOAD_DISTANCE, USUAL_PAYLOAD_DISTANCE = 5.0, 3.0, 0.3


def find_unit_errors(tree: Tree) -> list[Finding]:
    """Returns warnings for a robot whose values contradict each other or its size; each names the likely unit."""
    findings = [*find_angles_in_degrees(tree.joints), *_find_radians_read_as_degrees(tree.joints)]
    where = Where(tree.file, 0, f'<robot name="{tree.name}">')
    size = tree_reach(tree)
    for joint in tree.joints:
        travel = joint.limits.upper - joint.limits.lower
        # Slides without mass before them move the whole robot.
        if (
            joint.type == "prismatic"
            and MAX_SIZE < travel < np.inf
            and travel > MAX_TRAVEL_RATIO * size
            and tree.links_by_name[joint.parent].inertial is not None
        ):
            words = f"the joint slides by {travel:.4g} m, where the robot reaches {size:.3g} m from its root"
            advice = "its limits seem to be in millimeters; convert them to meters, or remove them"
            findings.append(Finding("warning", joint.where, words, advice))
    mass = sum(link.inertial.mass for link in tree.links if link.inertial is not None)
    ratio = _median_length_to_gyration_ratio(tree)
    excess = 1.0 if ratio is None else ratio / USUAL_RATIO
    dense = size > 0.0 and mass > MAX_DENSITY * (2.0 * size) ** 3
    words = f"the robot reaches {size:.3g} m from its root"
    thin = _thin_links(tree)
    if size <= MAX_SIZE and excess > MAX_EXCESS and not dense and 2 * len(thin) < len(tree.links):
        reason = (
            f"the radii of gyration of the {_count(thin, 'link')} ({_list_names(thin)}) are below "
            f"1/{MAX_EXCESS * USUAL_RATIO:g} of their lengths; the mass of {thin[0].name} is {_mass(thin[0]):g} kg"
        )
        advice = "masses seem to be in grams, or inertias too small; correct them, in kg and kg m^2"
        findings.append(Finding("warning", thin[0].where, reason, advice))
    elif size > MAX_SIZE and excess <= MAX_EXCESS and (outliers := _outlying_lengths(tree)):
        element, element_where, length = outliers[0]
        usual = float(np.median([x for _, _, x in _lengths(tree)]))
        unit = _likely_units(LENGTHS, usual / length, USUAL_VALUE_UNCERTAINTY)
        more = f", as are those of {len(outliers) - 1} further elements" if len(outliers) > 1 else ""
        words += f": {element} is {length:.4g} m long, {length / usual:.2g} times the median of the file{more}"
        advice = f"such lengths seem to be in {unit}; convert them to meters"
        findings.append(Finding("warning", element_where, words, advice))
    elif size > MAX_SIZE or (excess > MAX_EXCESS and not dense):
        unit = _likely_units(
            LENGTHS, 1.0 / excess if excess > MAX_EXCESS else USUAL_SIZE / size, USUAL_VALUE_UNCERTAINTY
        )
        if excess > MAX_EXCESS:
            words += f", and its links are {ratio:.3g} times as long as their radii of gyration"
        findings.append(Finding("warning", where, words, f"lengths seem to be in {unit}; convert them to meters"))
    elif mass > MAX_MASS or dense:
        words = f"the robot has a mass of {mass:.4g} kg, and {words}"
        findings.append(Finding("warning", where, words, "masses seem to be in grams; convert them to kilograms"))
    elif excess < MIN_EXCESS:
        unit = _likely_units(INERTIAS, excess**2, USUAL_VALUE_UNCERTAINTY**2)
        words = f"radii of gyration are {1.0 / (excess * USUAL_RATIO):.3g} times as large as the links (in the median)"
        findings.append(Finding("warning", where, words, f"inertias seem to be in {unit}; convert them to kg m^2"))
    elif large := [
        link
        for link in tree.links
        if link.inertial is not None
        and link.inertial.mass > MIN_MASS_FRACTION * mass
        and _radius_of_gyration(link) > MAX_GYRATION_FRACTION * size > 0.0
    ]:
        words = (
            f"the inertia of the {_count(large, 'link')} ({_list_names(large)}) is that of a body larger than the "
            f"robot: its radius of gyration is {_radius_of_gyration(large[0]):.3g} m, where the robot reaches "
            f"{size:.3g} m from its root"
        )
        findings.append(Finding("warning", large[0].where, words, "correct <mass> or <inertia>, in kg and kg m^2"))
    return findings


def find_outlying_inertias(bodies: Sequence[CompositeBody], reach: float) -> list[Finding]:
    """Returns warnings for moving bodies whose inertia contradicts their mass and size, while that of others does not.

    The size of a body is the largest distance from its joint to the joints behind it, to its center of mass and to the
    ends of its shapes.  Since the size of meshes is not known, a large inertia is also compared with the
    distance to the joint before it, and with a fraction of the reach of the robot.

    Args:
        bodies: the bodies of the robot, the first of which is not checked.
        reach: distance from its root to the farthest link [m].
    """
    mass = sum(body.inertial.mass for body in bodies)
    sizes = [_body_extent(body) for body in bodies]
    for body in bodies[1:]:
        sizes[body.parent] = max(sizes[body.parent], float(np.linalg.norm(body.placement.translation)))
    large, thin = list[tuple[CompositeBody, float]](), list[tuple[CompositeBody, float]]()
    for body, size in zip(bodies[1:], sizes[1:], strict=True):
        fraction, gyration = body.inertial.mass / mass if mass else 0.0, _radius_of_gyration(body)
        span = max(size, float(np.linalg.norm(body.placement.translation)), MIN_SPAN_FRACTION * reach)
        if fraction > MIN_BODY_MASS_FRACTION and gyration > MAX_GYRATION_RATIO * span > 0.0:
            large.append((body, span))
        if fraction > MIN_MASS_FRACTION and gyration < size / (MAX_EXCESS * USUAL_RATIO) < MAX_THIN_RATIO * gyration:
            thin.append((body, size))
    findings = list[Finding]()
    for found, word in ((large, "large"), (thin, "small")):
        if found:
            (body, span), names = found[0], _list_names([body.links[0][0] for body, _ in found])
            words = (
                f"the inertia of the {_count(found, 'link')} ({names}) is too {word} for its mass and size: the "
                f"radius of gyration of {body.name} is {_radius_of_gyration(body):.3g} m, and the distances that the "
                f"file gives, of joints, shapes and center of mass, are about {span:.3g} m"
            )
            advice = "correct <mass> or <inertia>, in kg and kg m^2"
            findings.append(Finding("warning", body.links[0][0].where, words, advice))
    return findings


def _body_extent(body: CompositeBody) -> float:
    """Returns the distance from the joint of a body to its center of mass and the ends of its primitive shapes [m]."""
    ends = [float(np.linalg.norm(body.inertial.com))] if body.inertial.mass > 0.0 else []
    for link, placement in body.links:
        shapes = [g for g in (*link.collisions, *link.visuals) if not isinstance(g.shape, MeshShape)]
        ends += [float(np.linalg.norm(placement.translation)) + _shape_end(geometry) for geometry in shapes]
    return max(ends, default=0.0)


def _count(items: Sequence[object], noun: str) -> str:
    """Returns the noun, with the number of items if there are several."""
    return f"{len(items)} {noun}s" if len(items) > 1 else noun


def _list_names(links: Sequence[Link]) -> str:
    """Returns the names of the first links."""
    names = ", ".join(link.name for link in links[:MAX_LISTED_JOINTS])
    return f"{names}, ..." if len(links) > MAX_LISTED_JOINTS else names


def find_payload_unit_errors(
    tree: Tree, mass: float, lengths: Mapping[str, float], *, argument: str = "mass"
) -> list[str]:
    """Returns a sentence about each value of a payload that is too large for the robot; it names the likely unit.

    Args:
        tree: the robot without the payload.
        mass: mass of the payload [kg].
        lengths: distances of the payload from the origin of its link, or its sizes, by name of the argument [m].
        argument: name of the argument that is the mass.
    """
    own_mass = sum(link.inertial.mass for link in tree.links if link.inertial is not None)
    reach, findings = tree_reach(tree), list[str]()
    if mass > MAX_PAYLOAD_MASS * own_mass > 0.0:
        findings.append(
            f"{argument}: {mass:g} kg is {mass / own_mass:.0f} times the mass of the robot, {own_mass:.3g} kg, and "
            "seems to be in grams; pass kilograms"
        )
    for name, length in lengths.items():
        if length > MAX_PAYLOAD_DISTANCE * reach > 0.0:
            unit = _likely_units(LENGTHS, USUAL_PAYLOAD_DISTANCE * reach / length, USUAL_VALUE_UNCERTAINTY)
            findings.append(
                f"{name}: {length:.4g} m is much for a robot that reaches {reach:.3g} m from its root, and seems to be "
                f"in {unit}; pass meters"
            )
    return findings


def find_angles_in_degrees(joints: Sequence[Joint]) -> list[Finding]:
    """Returns one warning if position limits of revolute joints are angles in degrees."""
    found = []
    for joint in joints:
        largest = max(abs(joint.limits.lower), abs(joint.limits.upper))
        is_symmetric = -joint.limits.lower == joint.limits.upper
        smallest = MAX_REVOLUTE_LIMIT if is_symmetric else MAX_UNSYMMETRIC_LIMIT
        if joint.type == "revolute" and smallest < largest <= MAX_DEGREES:
            found.append(joint)
    if all(-joint.limits.lower == joint.limits.upper in UNLIMITED_VALUES for joint in found):
        return []
    limits, names = found[0].limits, ", ".join(joint.name for joint in found[:MAX_LISTED_JOINTS])
    low, high = math.radians(limits.lower), math.radians(limits.upper)
    more = ", ..." if len(found) > MAX_LISTED_JOINTS else ""
    reason = (
        f"the position limits {limits.lower:g} .. {limits.upper:g} rad of {found[0].name!r} span many turns and seem "
        "to be in degrees" + (f", as do those of {len(found)} joints in all ({names}{more})" if len(found) > 1 else "")
    )
    advice = f"convert them to radians ({low:.4g} .. {high:.4g} here), or use a continuous joint"
    return [Finding("warning", found[0].where, reason, advice)]


def _find_radians_read_as_degrees(joints: Sequence[Joint]) -> list[Finding]:
    """Returns one warning if no revolute joint with limits can move by more than a few degrees."""
    limited = [joint for joint in joints if joint.type == "revolute" and np.isfinite(joint.limits.lower)]
    ranges = [joint.limits.upper - joint.limits.lower for joint in limited]
    if len(limited) < MIN_NARROW_JOINTS or not 0.0 < max(ranges) < MAX_NARROW_RANGE:
        return []
    first, low, high = limited[0], limited[0].limits.lower, limited[0].limits.upper
    reason = (
        f"none of the {len(limited)} revolute joints with limits can move by more than {math.degrees(max(ranges)):.2g} "
        f"degrees; the limits seem to be radians that were read as degrees ({low:.3g} .. {high:.3g} rad here, from "
        f"{math.degrees(low):.3g} .. {math.degrees(high):.3g})"
    )
    advice = 'set <compiler angle="radian"/> in an MJCF, or correct the limits'
    return [Finding("warning", first.where, reason, advice)]


def tree_reach(tree: Tree) -> float:
    """Returns the largest distance of a link's far end from the root [m], see `_link_distances`."""
    distances = _link_distances(tree)
    return max(distances[link.name] + _extent(link) for link in tree.links)


def _link_distances(tree: Tree) -> dict[str, float]:
    """Returns the distance of each link's origin from the root's [m], at zero configuration, frames parallel."""
    origins = {tree.root.name: np.zeros(3)}
    for joint in tree.joints:
        origins[joint.child] = origins[joint.parent] + joint.placement.translation
    return {name: float(np.linalg.norm(origin)) for name, origin in origins.items()}


def _median_length_to_gyration_ratio(tree: Tree) -> float | None:
    """Returns size divided by radius of gyration, the median over the links by mass; None if no link has both."""
    found = [(ratio, link) for link in tree.links if (ratio := _length_to_gyration_ratio(tree, link)) is not None]
    ratios, weights = [ratio for ratio, _ in found], [_mass(link) for _, link in found]
    if not ratios:
        return None
    order = np.argsort(ratios)
    cumulative_mass = np.cumsum(np.array(weights)[order])
    return float(np.array(ratios)[order][np.searchsorted(cumulative_mass, 0.5 * cumulative_mass[-1])])


def _length_to_gyration_ratio(tree: Tree, link: Link) -> float | None:
    """Returns the size of a link divided by its radius of gyration; None if it lacks one of them."""
    gyration = _radius_of_gyration(link)
    offsets = [float(np.linalg.norm(joint.placement.translation)) for joint in tree.children[link.name]]
    length = max([*offsets, _extent(link)])
    return length / gyration if gyration > 0.0 and length > 0.0 else None


def _thin_links(tree: Tree) -> list[Link]:
    """Returns links whose radius of gyration is too small for their size."""
    return [link for link in tree.links if (_length_to_gyration_ratio(tree, link) or 0.0) > MAX_EXCESS * USUAL_RATIO]


def _mass(link: Link) -> float:
    """Returns the mass of a link [kg]; 0 without an <inertial>."""
    return 0.0 if link.inertial is None else link.inertial.mass


def _lengths(tree: Tree) -> list[tuple[str, Where, float]]:
    """Returns a description, the element and the length [m] of each origin, shape and center of mass that has one."""
    lengths = [
        (f"the origin of joint {joint.name!r}", joint.where, float(np.linalg.norm(joint.placement.translation)))
        for joint in tree.joints
    ]
    for link in tree.links:
        shapes = ((f"a shape of link {link.name!r}", g.where, _shape_end(g)) for g in (*link.collisions, *link.visuals))
        lengths += shapes
        if link.inertial is not None:
            com = float(np.linalg.norm(link.inertial.com))
            lengths.append((f"the center of mass of link {link.name!r}", link.where, com))
    return [each for each in lengths if each[2] > 0.0]


def _outlying_lengths(tree: Tree) -> list[tuple[str, Where, float]]:
    """Returns the lengths that are much larger than the median of the file, if they are a minority, longest first."""
    lengths = _lengths(tree)
    usual = float(np.median([length for _, _, length in lengths]))
    found = [each for each in lengths if each[2] > MAX_LENGTH_RATIO * usual]
    return sorted(found, key=lambda each: -each[2]) if 2 * len(found) < len(lengths) else []


def _radius_of_gyration(link: Link | CompositeBody) -> float:
    """Returns the mean radius of gyration of a link or body about its center of mass [m]; 0 without mass."""
    if link.inertial is None or not link.inertial.mass > 0.0:
        return 0.0
    return math.sqrt(max(float(np.trace(link.inertial.inertia)), 0.0) / (2.0 * link.inertial.mass))


def _extent(link: Link) -> float:
    """Returns the distance from a link's origin to the end of its shapes and center of mass [m]; meshes are points."""
    ends = [_shape_end(geometry) for geometry in (*link.collisions, *link.visuals)]
    if link.inertial is not None:
        ends.append(float(np.linalg.norm(link.inertial.com)))
    return max(ends, default=0.0)


def _shape_end(geometry: Geometry) -> float:
    """Returns the distance from the link's origin to the far end of a shape [m]."""
    at = float(np.linalg.norm(geometry.placement.translation))
    match geometry.shape:
        case SphereShape(radius):
            return at + radius
        case BoxShape(size):
            return at + 0.5 * float(np.linalg.norm(size))
        case CylinderShape(radius, length):
            return at + math.hypot(radius, 0.5 * length)
        case CapsuleShape(radius, length):
            return at + radius + 0.5 * length
        case MeshShape():
            return at


def _likely_units(units: Mapping[str, float], estimate: float, uncertainty: float) -> str:
    """Returns the units whose size may be `estimate`, known up to a factor `uncertainty`; at least the nearest one."""
    distance = {name: abs(math.log(size / estimate)) for name, size in units.items()}
    nearest = min(distance.values())
    return " or ".join(name for name, far in distance.items() if far <= max(nearest, math.log(uncertainty)))


def effective_effort_limits(robot: Robot) -> dict[str, float]:
    """Returns the effort limit of each actuated joint that has an effective one [N m or N]; the others have none."""
    largest = max_effective_efforts(robot.bodies)
    limits = zip(robot.actuated, robot.effort_limits.tolist(), strict=True)
    return {name: limit for name, limit in limits if 0.0 < limit <= largest.get(name, np.inf) and np.isfinite(limit)}
