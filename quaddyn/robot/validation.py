"""Validation: rejects robots that are physically impossible or that the algorithms cannot simulate.

Composite joint bodies are validated, not single links: 48 of 69 files in common use have a dummy link that violates a
rule and has no effect on the body's dynamics.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin

from ..errors import ModelError
from ..urdf.tree import Array, Finding, Inertial, Joint, frozen
from ..urdf.values import ROUNDING_PER_MASS
from .algorithms import Algorithms, algorithms
from .bodies import CompositeBody, pseudo_inertia
from .coupling import MimicCoupling

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
            raise ModelError(
                f"{body_text} has mass {inertial.mass:.3g} kg and an inertia too large for it (radius of gyration "
                f"above {MAX_GYRATION:g} m); correct <mass> or <inertia>"
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
