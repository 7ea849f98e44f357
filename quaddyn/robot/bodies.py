"""Composite joint bodies: links joined by fixed joints are one rigid body."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..urdf.tree import Array, Inertial, Joint, KinematicLoop, Link, Pose, Tree, frozen
from .root import ROOT_SIZES


@dataclass(frozen=True, slots=True, eq=False)
class CompositeBody:
    """Rigid body moved by one joint.

    Attributes:
        name: the link directly below the joint (the root link for the base).
        joint: the joint that moves the body, None for the base.
        parent: index of the parent body; -1 for the base.
        placement: joint frame (at zero configuration) in the frame of the parent body.
        inertial: mass, center of mass and inertia of all its links together, in the body frame (= joint frame).
        links: (link, its placement in the body frame), the first one at the identity.
    """

    name: str
    joint: Joint | None
    parent: int
    placement: Pose
    inertial: Inertial
    links: tuple[tuple[Link, Pose], ...]


def merge_fixed_links(tree: Tree) -> tuple[CompositeBody, ...]:
    """Returns the composite bodies of `tree`, parents before children, in Pinocchio's joint order.

    ``bodies[0]`` is the base (the root link and all links fixed to it); ``bodies[i]`` is moved by the i-th moving
    joint.
    """
    owner: dict[str, int] = {tree.root.name: 0}
    pose: dict[str, Pose] = {tree.root.name: Pose.identity()}
    members: list[list[tuple[Link, Pose]]] = [[(tree.root, Pose.identity())]]
    heads: list[tuple[str, Joint | None, int, Pose]] = [(tree.root.name, None, -1, Pose.identity())]
    for joint in tree.joints:
        body, placement = owner[joint.parent], pose[joint.parent] @ joint.placement
        if joint.type == "fixed":
            owner[joint.child], pose[joint.child] = body, placement
            members[body].append((tree.links_by_name[joint.child], placement))
        else:
            owner[joint.child], pose[joint.child] = len(heads), Pose.identity()
            members.append([(tree.links_by_name[joint.child], Pose.identity())])
            heads.append((joint.child, joint, body, placement))
    return tuple(
        CompositeBody(
            name, joint, parent, placement, combine_inertials((link.inertial, p) for link, p in parts), tuple(parts)
        )
        for (name, joint, parent, placement), parts in zip(heads, members, strict=True)
    )


def joints_in_loops(tree: Tree, loops: Iterable[KinematicLoop]) -> frozenset[str]:
    """Returns the joints of `tree` that lie between the two ends of a loop."""
    out: set[str] = set()
    for loop in loops:
        sides = []
        for end in (loop.link_a, loop.link_b):
            above: set[str] = set()
            while end in tree.parent_joint:
                above.add(tree.parent_joint[end].name)
                end = tree.parent_joint[end].parent
            sides.append(above)
        out |= sides[0] ^ sides[1]
    return frozenset(out)


def joint_indices(bodies: Sequence[CompositeBody], root: str) -> dict[str, tuple[int, int]]:
    """Returns, by name of independent moving joint, the indices in q and in v of its first coordinate."""
    first_indices = {}
    q, v = ROOT_SIZES[root]
    for body in bodies[1:]:
        assert body.joint is not None
        if body.joint.independent:
            first_indices[body.joint.name] = (q, v)
            q, v = q + body.joint.nq, v + body.joint.nv
    return first_indices


def all_joint_indices(bodies: Sequence[CompositeBody], root: str) -> dict[str, tuple[int, int]]:
    """Returns, by name of moving joint, the indices in q_all and v_all of its first coordinate."""
    first_indices = {}
    q, v = ROOT_SIZES[root]
    for body in bodies[1:]:
        assert body.joint is not None
        first_indices[body.joint.name] = (q, v)
        q, v = q + body.joint.nq, v + body.joint.nv
    return first_indices


def combine_inertials(parts: Iterable[tuple[Inertial | None, Pose]]) -> Inertial:
    """Returns mass, center of mass and inertia about it of rigidly joined `parts`, in the frame of their poses."""
    transformed = [(i.mass, p.apply(i.com), p.rotation @ i.inertia @ p.rotation.T) for i, p in parts if i is not None]
    mass = float(sum(m for m, _, _ in transformed))
    com = np.zeros(3)
    if mass:
        com = sum((m * c for m, c, _ in transformed), np.zeros(3)) / mass
    # About the common com directly: going through the origin would cancel digits, and point masses would not be points.
    inertia = sum((about + m * point_mass_inertia(c - com) for m, c, about in transformed), np.zeros((3, 3)))
    return Inertial(mass, frozen(com), frozen(0.5 * (inertia + inertia.T)))


def point_mass_inertia(point: Array) -> Array:
    """Returns the inertia (3, 3) of a unit mass at `point` about the origin: ``|p|^2 1 - p p^T``."""
    return np.asarray(np.dot(point, point) * np.eye(3) - np.outer(point, point))


def pseudo_inertia(inertial: Inertial) -> Array:
    """Returns the (4, 4) pseudo-inertia ``[[Sigma, m c], [m c^T, m]]`` about the center of mass.

    Source: Wensing, Kim and Slotine 2018.

    It is positive semi-definite exactly if a mass distribution with these properties exists.  About the center of mass
    it is block diagonal, so that a distant origin does not cost digits.
    """
    out = np.zeros((4, 4))
    out[:3, :3] = 0.5 * np.trace(inertial.inertia) * np.eye(3) - inertial.inertia
    out[3, 3] = inertial.mass
    return out
