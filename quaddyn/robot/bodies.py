"""Composite joint bodies: links joined by fixed joints are one rigid body.

A `Chain` computes the forward kinematics of one serial limb for many configurations at once, in NumPy.
"""

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


def joint_indices(bodies: Sequence[CompositeBody], root: str, *, dependent: bool = False) -> dict[str, tuple[int, int]]:
    """Returns, by name of moving joint, the indices in q and in v of its first coordinate.

    Args:
        bodies: bodies of a robot in the order of its model.
        root: type of the root.
        dependent: whether dependent joints are included; the indices are then those in q_all and v_all.
    """
    first_indices = {}
    q, v = ROOT_SIZES[root]
    for body in bodies[1:]:
        assert body.joint is not None
        if dependent or body.joint.independent:
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


class Chain:
    """Serial chain of 1-dof joints with a tip on its last body.

    Args:
        bodies: composite bodies of the robot.
        indices: indices of the bodies that the joints of the chain move, from the first to the last.
        tip: (3,) point on the last body, in its frame [m].
    """

    def __init__(self, bodies: Sequence[CompositeBody], indices: Sequence[int], tip: Array) -> None:
        self.indices = tuple(indices)
        self.joints = tuple(bodies[i].joint for i in indices)
        self.tip = tip
        start = Pose.identity()
        above = bodies[indices[0]].parent
        while above > 0:  # a limb that hangs from a moving body, such as a spine: that body at its zero
            start = bodies[above].placement @ start
            above = bodies[above].parent
        placements = [bodies[i].placement for i in indices]
        placements[0] = start @ placements[0]
        self._placements = placements
        self._axes = [bodies[i].joint.axis for i in indices]  # type: ignore[union-attr]
        self._slides = [bodies[i].joint.type == "prismatic" for i in indices]  # type: ignore[union-attr]
        K = [np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]]) for a in self._axes]
        self._K, self._K2 = np.array(K), np.array([each @ each for each in K])

    @property
    def n(self) -> int:
        """Number of joints."""
        return len(self.indices)

    @property
    def lower(self) -> Array:
        """(n,) lower limits [rad or m]."""
        return np.array([j.limits.lower if j is not None else -np.inf for j in self.joints])

    @property
    def upper(self) -> Array:
        """(n,) upper limits [rad or m]."""
        return np.array([j.limits.upper if j is not None else np.inf for j in self.joints])

    @property
    def content(self) -> bytes:
        """All numbers on which forward kinematics and limits depend, as bytes: equal for equal chains."""
        poses = [part for pose in self._placements for part in (pose.rotation.ravel(), pose.translation)]
        return np.concatenate([*poses, *self._axes, self._slides, self.tip, self.lower, self.upper]).tobytes()

    def postures(self, counts: Sequence[int]) -> Array:
        """Returns a grid (k, n) of joint values within the limits, over one turn at most [rad or m].

        Args:
            counts: (n,) number of values of each joint.
        """
        ends = zip(np.maximum(self.lower, -np.pi), np.minimum(self.upper, np.pi), counts, strict=True)
        return np.stack(np.meshgrid(*(np.linspace(*each) for each in ends), indexing="ij"), axis=-1).reshape(-1, self.n)

    def forward(self, q: Array) -> tuple[Array, Array, Array]:
        """Returns joint origins, joint axes and tip in the base frame.

        Args:
            q: (..., n) joint values [rad or m]; for a continuous joint its angle.

        Returns:
            Joint origins (..., n, 3) [m], joint axes (..., n, 3), tip (..., 3) [m].
        """
        q = np.asarray(q, dtype=np.float64)
        origins, axes = np.empty((*q.shape, 3)), np.empty((*q.shape, 3))
        angles = q[..., None, None]
        turns = np.eye(3) + np.sin(angles) * self._K + (1.0 - np.cos(angles)) * self._K2
        R, p = np.eye(3), np.zeros(3)
        for i, (placement, axis) in enumerate(zip(self._placements, self._axes, strict=True)):
            p = p + R @ placement.translation
            R = R @ placement.rotation
            axes[..., i, :] = R @ axis
            if self._slides[i]:
                p = p + axes[..., i, :] * q[..., i, None]
            else:
                R = R @ turns[..., i, :, :]
            origins[..., i, :] = p
        return origins, axes, np.asarray(p + R @ self.tip)
