"""Conversion between limbs and `Leg` and `Foot` records; arguments of the caller override detection."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError, UnknownNameError
from ..urdf.tree import Array, Finding, KinematicLoop, frozen
from .bodies import CompositeBody
from .foot_geometry import FootSphere, find_foot_sphere, foot_sphere_on_link, turns_freely
from .limbs import Limb, find_limbs, is_balanced_rotor, make_limb
from .robot import Foot, Robot
from .root import RESERVED_NAMES
from .validation import GRAVITY

#: Largest torques of all legs together, as a fraction of weight times leg length, below which a robot does not walk.
MIN_EFFORT_FRACTION = 0.15
#: Radius of a foot as a fraction of the length of its leg, above and below which it is in another unit.
MAX_FOOT_RATIO, MIN_FOOT_RATIO = 0.7, 2e-4
#: Offset of a joint or center of mass, as a ratio to that of another leg and in m, above which its unit is wrong.
MAX_OFFSET_RATIO, MIN_OUTLYING_OFFSET = 8.0, 0.2
#: Ratio of masses or effort limits of a left and a right leg above which one of them is wrong, and the fraction of the
#: mass of the robot above which masses are compared.
MAX_LEG_RATIO, MIN_LEG_MASS_FRACTION = 2.0, 0.005
#: Distance of a hip from the mirror image of the hip on the other side, as a fraction of the length of the leg, above
#: which one of them is wrong.
MAX_HIP_OFFSET = 0.03
#: Distance of a wheel's contact from its axis at most, as a fraction of its radius.
WHEEL_OFFSET = 0.1


def select_limbs(
    bodies: Sequence[CompositeBody],
    found: Mapping[str, Limb],
    legs: Mapping[str, Sequence[str]] | None,
    feet: Mapping[str, str | Foot] | None,
    loops: Sequence[KinematicLoop] = (),
) -> dict[str, Limb]:
    """Returns the legs by name: those of the argument `legs` if given, otherwise those `found` by leg recognition."""
    limbs = dict(found) if legs is None else _limbs_from_argument(bodies, legs, feet or {}, loops)
    if feet is not None and not isinstance(feet, Mapping):
        raise ArgumentTypeError(f"feet: expected a mapping from leg to link name or Foot, got {type(feet).__name__}")
    for name, foot in (feet or {}).items():
        if name not in limbs:
            raise UnknownNameError("leg in feet=", name, limbs)
        if not isinstance(foot, str | Foot):
            raise ArgumentTypeError(f"feet[{name!r}]: expected a link name or a Foot, got {type(foot).__name__}")
        limb = limbs[name]
        body = bodies[limb.indices[-1]]
        frame = foot.frame if isinstance(foot, Foot) else foot
        by_name = {link.name: (link, pose) for link, pose in body.links}
        if frame not in by_name:
            raise UnknownNameError(f"link in feet[{name!r}] (of the leg's last body)", frame, by_name)
        link, pose = by_name[frame]
        contact = foot_sphere_on_link(body, link)
        if isinstance(foot, Foot):
            if not (np.isfinite(foot.radius) and foot.radius >= 0.0):
                raise ArgumentError(f"feet[{name!r}]: expected a finite radius >= 0, got {foot.radius}")
            if np.shape(foot.offset) != (3,) or not np.isfinite(foot.offset).all():
                raise ArgumentError(f"feet[{name!r}]: expected an offset of three finite numbers, got {foot.offset}")
            contact = FootSphere(
                link, frozen(foot.offset), pose.apply(frozen(foot.offset)), foot.radius, "argument feet"
            )
        limbs[name] = make_limb(bodies, limb.indices, contact)
    return limbs


def _limbs_from_argument(
    bodies: Sequence[CompositeBody],
    legs: Mapping[str, Sequence[str]],
    feet: Mapping[str, str | Foot],
    loops: Sequence[KinematicLoop],
) -> dict[str, Limb]:
    """Returns the limbs that the argument `legs` names."""
    index = {b.joint.name: i for i, b in enumerate(bodies) if b.joint is not None and b.joint.nv == 1}
    detected = {limb.indices[-1]: limb.contact for limb in find_limbs(bodies, loops)}
    if not isinstance(legs, Mapping):
        raise ArgumentTypeError(f"legs: expected a mapping from leg to joint names, got {type(legs).__name__}")
    out: dict[str, Limb] = {}
    owner: dict[str, str] = {}
    for name, joints in legs.items():
        if not isinstance(name, str) or not name or name in RESERVED_NAMES:
            raise ArgumentError(f"legs: {name!r} is not accepted as the name of a leg; use another name")
        if isinstance(joints, str):
            raise ArgumentTypeError(
                f"legs[{name!r}]: expected a sequence of joint names, hip first, got the single string {joints!r}"
            )
        for joint in joints:
            if owner.setdefault(joint, name) != name:
                raise ArgumentError(
                    f"legs: joint {joint!r} belongs to {owner[joint]!r} and to {name!r}; name it in one leg only"
                )
            if joint not in index:
                raise UnknownNameError(f"joint in legs[{name!r}]", joint, index)
        run = tuple(index[j] for j in joints)
        if not run or any(bodies[b].parent != a for a, b in itertools.pairwise(run)):
            raise ArgumentError(
                f"legs[{name!r}]: {list(joints)} is not a serial chain; name its joints from the hip to the foot"
            )
        beyond = [
            b.joint.name for b in bodies if b.joint is not None and b.parent == run[-1] and not is_balanced_rotor(b)
        ]
        if beyond and run[-1] not in detected and name not in feet:
            raise ArgumentError(
                f"legs[{name!r}]: {list(joints)} ends before the end of the leg; the next joint is {beyond[0]!r}: "
                "name all joints from the hip to the foot, or pass the link of the foot as feet="
            )
        out[name] = make_limb(bodies, run, detected.get(run[-1]) or find_foot_sphere(bodies[run[-1]]))
    return out


def make_foot(name: str, limb: Limb, given: str | Foot | None, provenance: dict[str, str]) -> Foot:
    """Returns the foot record of a leg and adds its origin to `provenance`."""
    contact = limb.contact
    provenance[f"{name}.frame"] = "geometry" if given is None else "argument feet"
    provenance[f"{name}.radius"] = contact.source
    return Foot(name, contact.link.name, contact.radius, frozen(contact.offset))


def find_guessed_feet(limbs: Mapping[str, Limb]) -> list[Finding]:
    """Returns one warning for each reason for which contact points are assumed, and one note on feet of radius 0."""
    feet: dict[str, list[str]] = {}
    for name, limb in limbs.items():
        if limb.contact.guess or limb.contact.radius == 0.0:
            feet.setdefault(limb.contact.guess, []).append(name)
    out = []
    for guess, names in feet.items():
        feet_named = f"{'foot' if len(names) == 1 else 'feet'} {', '.join(names)}"
        contact = limbs[names[0]].contact
        reason = f"the contact point of {feet_named} is assumed, not read from the file: {guess}"
        if not guess:
            reason = f"the contact of {feet_named} is a point of radius 0 ({contact.source.rpartition(', ')[0]})"
        advice = "pass feet= with the radius and offset of each Foot"
        out.append(Finding("warning" if guess else "note", contact.link.where, reason, advice))
    return out


def find_weak_legs(bodies: Sequence[CompositeBody], limbs: Mapping[str, Limb]) -> list[Finding]:
    """Returns a warning if the effort limits of the legs are too low for the weight of the robot, as placeholders are.

    The largest torques of all legs together are compared with the weight of the robot times the length of a leg.
    """
    efforts = [
        max((j.limits.effort for j in limb.chain.joints if j is not None and j.type != "prismatic"), default=np.inf)
        for limb in limbs.values()
    ]
    mass = sum(body.inertial.mass for body in bodies)
    required = GRAVITY * mass * max((limb.reach for limb in limbs.values()), default=0.0)
    if not 0.0 < sum(efforts) < MIN_EFFORT_FRACTION * required:
        return []
    joint = next(iter(limbs.values())).chain.joints[0]
    assert joint is not None
    reason = (
        f"the effort limits of the legs, {max(efforts):g} N m at most, seem to be placeholders or torques before the "
        f"gear: the weight of the robot times the length of its legs is {required:.3g} N m"
    )
    return [Finding("warning", joint.where, reason, "pass the limits of the motors as limits=")]


def find_leg_unit_errors(bodies: Sequence[CompositeBody], limbs: Mapping[str, Limb]) -> list[Finding]:
    """Returns warnings for feet of a size that contradicts their legs, and for legs that contradict each other."""
    out, by_size = [], dict[str, list[str]]()
    for name, limb in limbs.items():
        size = limb.contact.radius / limb.reach if limb.reach > 0.0 else 0.0
        if size > MAX_FOOT_RATIO:
            by_size.setdefault("in millimeters, or its mesh lacks scale=", []).append(name)
        elif 0.0 < size < MIN_FOOT_RATIO:
            by_size.setdefault("scaled to meters twice", []).append(name)
    for words, names in by_size.items():
        limb = limbs[names[0]]
        reason = (
            f"the radius of {'foot' if len(names) == 1 else 'feet'} {', '.join(names)} is {limb.contact.radius:.3g} m, "
            f"and the leg {limb.reach:.3g} m long; its shape seems to be {words}"
        )
        out.append(Finding("warning", limb.contact.link.where, reason, "correct the shape, or pass feet="))
    same_build = len(limbs) > 1 and len({limb.chain.n for limb in limbs.values()}) == 1
    for ranks in zip(*(limb.indices for limb in limbs.values()), strict=True) if same_build else ():
        for words, vectors in (
            ("the origin of joint {joint!r} is at", [bodies[i].placement.translation for i in ranks]),
            ("the center of mass of body {body!r} is at", [bodies[i].inertial.com for i in ranks]),
        ):
            lengths = [float(np.linalg.norm(vector)) for vector in vectors]
            largest, usual = max(lengths), sorted(lengths)[(len(lengths) - 1) // 2]
            body = bodies[ranks[lengths.index(largest)]]
            if body.joint is not None and largest > max(MAX_OFFSET_RATIO * usual, MIN_OUTLYING_OFFSET):
                reason = (
                    f"{words.format(joint=body.joint.name, body=body.name)} {largest:.3g} m, where that of another leg "
                    f"is at {usual:.3g} m; it seems to be in another unit"
                )
                out.append(Finding("warning", body.joint.where, reason, "convert it to meters"))
    return out


def find_unlike_legs(bodies: Sequence[CompositeBody], limbs: Mapping[str, Limb]) -> list[Finding]:
    """Returns warnings for left and right legs that differ in a mass, an effort limit or the position of the hip.

    Hips are compared where there are several pairs of legs: the lines from right to left hip are parallel then.
    """
    pairs = {
        name: right
        for name in limbs
        if name.endswith("L") and (right := f"{name[:-1]}R") in limbs and limbs[name].chain.n == limbs[right].chain.n
    }
    out, total = [], sum(body.inertial.mass for body in bodies)
    advice = "correct the file, unless the legs are meant to differ"
    for left, right in pairs.items():
        for ranks in zip(limbs[left].indices, limbs[right].indices, strict=True):
            chosen = [bodies[i] for i in ranks]
            masses = [body.inertial.mass for body in chosen]
            efforts = [body.joint.limits.effort for body in chosen if body.joint is not None]
            for what, unit, values, least in (
                ("the mass of link", "kg", masses, MIN_LEG_MASS_FRACTION * total),
                ("the effort limit of joint", "N m", efforts, 0.0),
            ):
                low, high = min(values), max(values)
                joint = chosen[values.index(high)].joint
                if joint is None or not (least < high < np.inf and 0.0 < MAX_LEG_RATIO * low < high):
                    continue
                names = [body.name if unit == "kg" or body.joint is None else body.joint.name for body in chosen]
                reason = (
                    f"{what} {names[0]} is {values[0]:.3g} {unit}, and that of {names[1]}, the same on the other side, "
                    f"{values[1]:.3g} {unit}"
                )
                out.append(Finding("warning", joint.where, reason, advice))
    across = {left: limbs[left].origin - limbs[right].origin for left, right in pairs.items()}
    if len(across) < 2:
        return out
    # The pair whose line deviates most is named: with three pairs, it is the odd one.
    deviations = {
        name: min(_distance_to_line(line, other) for key, other in across.items() if key != name)
        for name, line in across.items()
    }
    name = max(deviations, key=lambda key: deviations[key])
    if deviations[name] > MAX_HIP_OFFSET * limbs[name].reach:
        first = limbs[name].chain.joints[0]
        assert first is not None
        reason = (
            f"the hips of legs {name} and {pairs[name]} are {deviations[name]:.3g} m from being mirror images of each "
            "other, or those of another pair of legs are"
        )
        out.append(Finding("warning", first.where, reason, advice))
    return out


def _distance_to_line(point: Array, direction: Array) -> float:
    """Returns the distance of a point (3,) from the line through the origin along a vector (3,) [m]."""
    length = float(np.linalg.norm(direction))
    return float(np.linalg.norm(np.cross(point, direction))) / length if length > 0.0 else 0.0


def find_wheels(robot: Robot) -> dict[str, str]:
    """Returns, by leg, the joint that rotates its foot as a wheel: the last one, if it turns freely."""
    out = {}
    for name, leg in robot.legs.items():
        body = next(b for b in robot.bodies if b.joint is not None and b.joint.name == leg.joints[-1])
        pose = next(p for x, p in body.links if x.name == leg.foot.frame)
        joint = body.joint
        if joint is not None and turns_freely(joint):
            off = np.linalg.norm(np.cross(joint.axis, pose.apply(leg.foot.offset)))
            if off <= WHEEL_OFFSET * leg.foot.radius:
                out[name] = joint.name
    return out


def make_limbs(robot: Robot) -> dict[str, Limb]:
    """Returns the limbs of `robot.legs`, with their kinematics."""
    out = {}
    index = {b.joint.name: i for i, b in enumerate(robot.bodies) if b.joint is not None}
    for name, leg in robot.legs.items():
        run = tuple(index[j] for j in leg.joints)
        body = robot.bodies[run[-1]]
        link, pose = next((x, p) for x, p in body.links if x.name == leg.foot.frame)
        contact = FootSphere(link, leg.foot.offset, pose.apply(leg.foot.offset), leg.foot.radius, "robot")
        out[name] = make_limb(robot.bodies, run, contact)
    return out
