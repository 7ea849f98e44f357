"""From limbs to `Leg` and `Foot` records and back; the caller's word goes before detection."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import ArgumentError, UnknownNameError
from ..urdf.tree import frozen
from .bodies import Body
from .contact import Contact, find_contact, on_link
from .limbs import Limb, find_limbs, make_limb
from .robot import Foot, Robot


def choose_limbs(
    bodies: Sequence[Body],
    found: Mapping[str, Limb],
    legs: Mapping[str, Sequence[str]] | None,
    feet: Mapping[str, str | Foot] | None,
) -> dict[str, Limb]:
    """The legs by name: as `found`, or as the caller says."""
    limbs = dict(found) if legs is None else _given_limbs(bodies, legs)
    for name, foot in (feet or {}).items():
        if name not in limbs:
            raise UnknownNameError("leg in feet=", name, limbs)
        limb = limbs[name]
        body = bodies[limb.indices[-1]]
        frame = foot.frame if isinstance(foot, Foot) else foot
        by_name = {link.name: (link, pose) for link, pose in body.links}
        if frame not in by_name:
            raise UnknownNameError(f"link of the last body of leg {name!r}", frame, by_name)
        link, pose = by_name[frame]
        contact = on_link(body, link)
        if isinstance(foot, Foot):
            if not (np.isfinite(foot.radius) and foot.radius >= 0.0 and np.shape(foot.offset) == (3,)):
                raise ArgumentError(f"feet[{name!r}]: radius {foot.radius} must be finite and >= 0, offset (3,)")
            contact = Contact(link, frozen(foot.offset), pose.apply(frozen(foot.offset)), foot.radius, "argument feet")
        limbs[name] = make_limb(bodies, limb.indices, contact)
    return limbs


def _given_limbs(bodies: Sequence[Body], legs: Mapping[str, Sequence[str]]) -> dict[str, Limb]:
    index = {b.joint.name: i for i, b in enumerate(bodies) if b.joint is not None and b.joint.nv == 1}
    detected = {limb.indices[-1]: limb.contact for limb in find_limbs(bodies)}
    out = {}
    for name, joints in legs.items():
        for joint in joints:
            if joint not in index:
                raise UnknownNameError(f"joint of leg {name!r}", joint, index)
        run = tuple(index[j] for j in joints)
        if not run or any(bodies[b].parent != a for a, b in itertools.pairwise(run)):
            raise ArgumentError(f"legs[{name!r}]: {list(joints)} is not a serial chain, hip first")
        out[name] = make_limb(bodies, run, detected.get(run[-1]) or find_contact(bodies[run[-1]]))
    return out


def make_foot(name: str, limb: Limb, given: str | Foot | None, provenance: dict[str, str]) -> Foot:
    """The foot record of a leg; its provenance is added."""
    contact = limb.contact
    provenance[f"{name}.frame"] = "geometry" if given is None else "argument feet"
    provenance[f"{name}.radius"] = contact.source
    return Foot(name, contact.link.name, contact.radius, frozen(contact.offset))


def limbs_of(robot: Robot) -> dict[str, Limb]:
    """The limbs behind `robot.legs`, with their kinematics."""
    out = {}
    index = {b.joint.name: i for i, b in enumerate(robot.bodies) if b.joint is not None}
    for name, leg in robot.legs.items():
        run = tuple(index[j] for j in leg.joints)
        body = robot.bodies[run[-1]]
        link, pose = next((x, p) for x, p in body.links if x.name == leg.foot.frame)
        contact = Contact(link, leg.foot.offset, pose.apply(leg.foot.offset), leg.foot.radius, "robot")
        out[name] = make_limb(robot.bodies, run, contact)
    return out
