"""Joints that mimic others: their coordinates are those of the joints they follow.

A joint with ``<mimic joint="j" multiplier="m" offset="o"/>`` is at ``m q_j + o``, so that it is not independent.  With
the coordinates q of the independent joints, those of all joints are ``q_all = G q + g`` and their velocities
``v_all = G v`` with a constant matrix G, in which every row has one entry.  Then energy, d'Alembert's principle and
the chain rule give the rest: ``M = G^T M_all G``, ``h = G^T h_all``, ``J = J_all G``, ``dJ/dt v = dJ_all/dt v_all``
(Featherstone, *Rigid Body Dynamics Algorithms*, 2008, section 3.2: an explicit, constant constraint).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError
from ..urdf.tree import Array, Finding, FrozenArrays, Joint, Limits, Mimic, Tree, frozen
from .bodies import CompositeBody
from .root import ROOT_SIZES

Index = NDArray[np.intp]
#: No gear is larger, nor its inverse: beyond, nothing is left of one of the two joints.
MAX_MULTIPLIER = 1e6


class Tangent:
    """Coordinates of all joints at some q, and the first and second order relations between their motions.

    ``v_all = G v`` and ``a_all = G a + drift(v)``.

    Args:
        q: (nq_all,) coordinates of all joints.
        G: (nv_all, nv) derivative of the velocities of all joints by those of the independent joints.
    """

    def __init__(self, q: Array, G: Array) -> None:
        self.q, self.G = q, G

    def velocity(self, v: Array) -> Array:
        """Returns the velocities (nv_all,) of all joints at v (nv,)."""
        return np.asarray(self.G @ v)

    def acceleration(self, v: Array, a: Array) -> Array:
        """Returns the accelerations (nv_all,) of all joints at v and a (nv,)."""
        return np.asarray(self.G @ a + self.drift(v))

    def drift(self, v: Array) -> Array:
        """Returns the accelerations (nv_all,) of all joints at v and ``a = 0``: ``dG/dt v``."""
        return np.zeros(len(self.G))

    def rate(self, v: Array) -> Array:
        """Returns the time derivative (nv_all, nv) of G at v (nv,)."""
        return np.zeros_like(self.G)

    def force(self, tau: Array) -> Array:
        """Returns the generalized forces ``G^T tau`` (nv,) with the same power as tau (nv_all,)."""
        return np.asarray(self.columns(tau)[0])

    def columns(self, J: Array) -> Array:
        """Returns ``J G`` (m, nv) for a Jacobian J (m, nv_all)."""
        with np.errstate(over="ignore", invalid="ignore"):  # callers check that results are finite
            return np.asarray(J.reshape(-1, len(self.G)) @ self.G)

    def square(self, M: Array) -> Array:
        """Returns ``G^T M G`` (nv, nv) for M (nv_all, nv_all)."""
        return self.columns(self.columns(M).T).T

    def inertia(self, M: Array) -> Array:
        """Returns ``G^T M G`` (nv, nv) for a symmetric M (nv_all, nv_all), exactly symmetric."""
        out = self.square(M)
        return np.asarray(0.5 * (out + out.T))


@dataclass(frozen=True, slots=True, eq=False)
class MimicCoupling(FrozenArrays):
    """Linear relation between the coordinates of all joints and those of the independent ones, with mimic joints.

    Attributes:
        mimics: `Mimic` by the name of each joint that follows another; its own ``joint`` is independent.
        q_from: (nq_all,) for each entry of q_all, the entry of q that it follows.
        q_scale, q_offset: (nq_all,) ``q_all = q_scale * q[q_from] + q_offset``.
        v_from: (nv_all,) for each entry of v_all, the entry of v that it follows.
        v_scale: (nv_all,) ``v_all = v_scale * v[v_from]``.
        q_index, v_index: (nq,), (nv,) indices of the entries of q and v in q_all and v_all.
        G: (nv_all, nv) the same relation as a matrix, ``v_all = G v``.
        has_loops: False; True for `LoopCoupling`.
    """

    has_loops: ClassVar[Literal[False]] = False
    mimics: Mapping[str, Mimic]
    q_from: Index
    q_scale: Array
    q_offset: Array
    v_from: Index
    v_scale: Array
    q_index: Index
    v_index: Index
    G: Array

    def configuration(self, q: Array) -> Array:
        """Returns the coordinates (..., nq_all) of all joints at q (..., nq)."""
        return np.asarray(np.asarray(q)[..., self.q_from] * self.q_scale + self.q_offset)

    def at(self, q: Array) -> Tangent:
        """Returns the coordinates of all joints at q (nq,), and their tangent."""
        return Tangent(self.configuration(q), self.G)

    def closes(self, q: Array) -> bool:
        """Returns True: mimic joints permit every configuration."""
        return True

    def check(self, q: Array) -> None:
        """Accepts every configuration."""

    def chain(self, entries: Iterable[int]) -> list[int]:
        """Returns the entries of v that these entries of v_all follow, ascending."""
        return sorted({int(self.v_from[k]) for k in entries})

    @property
    def followers(self) -> dict[str, str]:
        """Text for messages about each dependent joint, by its name."""
        return {name: f"mimics {mimic.joint!r}" for name, mimic in self.mimics.items()}

    def diagonal(self, x: Array, power: int = 2) -> Array:
        """Returns coefficients x (nv_all,) of all joints summed over the independent joints (nv,).

        The sum is ``sum |scale|^power x``.  Rotor inertia and viscous friction, coefficients of ``v^2``, take power 2;
        Coulomb friction, of ``|v|``, takes power 1.
        """
        return np.asarray(np.abs(self.G.T) ** power @ x)


def coupling(bodies: Sequence[CompositeBody], root: str) -> MimicCoupling | None:
    """Returns the coupling of joints as `resolve_mimics` leaves them; None if every joint is independent."""
    joints = [body.joint for body in bodies[1:] if body.joint is not None]
    mimics = {joint.name: joint.mimic for joint in joints if joint.mimic is not None}
    if not mimics:
        return None
    nq, nv = ROOT_SIZES[root]
    q_from, v_from = list(range(nq)), list(range(nv))
    own: dict[str, tuple[int, int]] = {}
    for joint in joints:
        if joint.mimic is None:
            own[joint.name] = nq, nv
            nq, nv = nq + joint.nq, nv + joint.nv
    scale, offset, speed = [1.0] * len(q_from), [0.0] * len(q_from), [1.0] * len(v_from)
    for joint in joints:
        mimic = joint.mimic
        q, v = own[joint.name if mimic is None else mimic.joint]
        q_from += range(q, q + joint.nq)
        v_from += range(v, v + joint.nv)
        scale += [1.0 if mimic is None else mimic.multiplier] * joint.nq
        offset += [0.0 if mimic is None else mimic.offset] * joint.nq
        speed += [1.0 if mimic is None else mimic.multiplier] * joint.nv
    free = [True] * ROOT_SIZES[root][1] + [j.mimic is None for j in joints for _ in range(j.nv)]
    free_q = [True] * ROOT_SIZES[root][0] + [j.mimic is None for j in joints for _ in range(j.nq)]
    G = np.zeros((len(v_from), nv))
    G[np.arange(len(v_from)), v_from] = speed
    return MimicCoupling(
        mimics, index_array(q_from), frozen(scale), frozen(offset), index_array(v_from), frozen(speed),
        index_array(np.flatnonzero(free_q)), index_array(np.flatnonzero(free)), frozen(G),
    )  # fmt: skip


def index_array(values: object) -> Index:
    """Returns a read-only array of indices."""
    out = np.array(values, dtype=np.intp)
    out.flags.writeable = False
    return out


# -- resolving the file's words ------------------------------------------------------------------------------------
def remove_mimics(tree: Tree, findings: list[Finding]) -> Tree:
    """Returns the tree in which every joint is independent, and reports it."""
    if not (mimics := [joint for joint in tree.joints if joint.mimic is not None]):
        return tree
    names = ", ".join(joint.name for joint in mimics)
    findings.append(Finding("note", mimics[0].where, f"{names} move independently, because mimic=False"))
    return replace(tree, joints=tuple(replace(j, mimic=None) if j.mimic is not None else j for j in tree.joints))


def resolve_mimics(tree: Tree, findings: list[Finding]) -> Tree:
    """Returns the tree in which mimic joints follow independent joints directly; the limits of the latter are narrowed.

    A continuous joint that follows, or is followed, becomes a revolute joint without limits: its angle counts turns.

    Raises:
        ModelError: an invalid <mimic>: the joint itself, a cycle, a joint that does not exist or has several degrees of
            freedom, or multiplier 0.
    """
    if not any(joint.mimic is not None for joint in tree.joints):
        return tree
    joints = {joint.name: joint for joint in tree.joints}
    mimics = {name: _resolve_mimic(joint, joints) for name, joint in joints.items() if joint.mimic is not None}
    for name in {*mimics, *(mimic.joint for mimic in mimics.values())}:
        if joints[name].type == "continuous":
            limits = replace(joints[name].limits, lower=-np.inf, upper=np.inf)
            joints[name] = replace(joints[name], type="revolute", limits=limits)
    for name, mimic in mimics.items():
        follower, leader = replace(joints[name], mimic=mimic), joints[mimic.joint]
        joints[name] = follower
        joints[mimic.joint] = replace(leader, limits=_narrow_limits(leader, follower, mimic, findings))
        reason = f"joint {name!r} is at {mimic.multiplier:g} * {mimic.joint!r} + {mimic.offset:g}"
        findings.append(Finding("note", follower.where, reason, "pass mimic=False to let it move independently"))
    return replace(tree, joints=tuple(joints[joint.name] for joint in tree.joints))


def _resolve_mimic(joint: Joint, joints: Mapping[str, Joint]) -> Mimic:
    """Returns the independent joint that a joint follows, with total multiplier and offset."""
    if joint.nv != 1:
        raise ModelError(
            f"{joint.where}: a {joint.type} joint cannot mimic another; remove <mimic>, or pass mimic=False"
        )
    multiplier, offset, at, seen = 1.0, 0.0, joint, [joint.name]
    while at.mimic is not None:
        mimic = at.mimic
        where = f"{at.where}: <mimic joint={mimic.joint!r}>"
        if mimic.multiplier == 0.0:
            raise ModelError(
                f"{where}: multiplier=0 would lock joint {at.name!r}; change the type of this joint to fixed"
            )
        # at = multiplier * (m next + o) + offset
        offset += multiplier * mimic.offset
        multiplier *= mimic.multiplier
        if mimic.joint not in joints:
            raise ModelError(
                f"{where}: joint {at.name!r} mimics a joint that does not exist; correct the name, or pass mimic=False"
            )
        if mimic.joint == at.name:
            raise ModelError(f"{where}: joint {at.name!r} mimics itself; remove <mimic>, or pass mimic=False")
        if mimic.joint in seen:
            circle = " -> ".join((*seen[seen.index(mimic.joint) :], mimic.joint))
            raise ModelError(
                f"{where}: joints mimic each other in a circle ({circle}); remove <mimic> from one of them"
            )
        at = joints[mimic.joint]
        seen.append(at.name)
        if at.nv != 1:
            raise ModelError(
                f"{where}: joint {seen[-2]!r} mimics {at.name!r}, a {at.type} joint, which has no single coordinate; "
                "name a revolute, continuous or prismatic joint, or pass mimic=False"
            )
    if not 1.0 / MAX_MULTIPLIER <= abs(multiplier) <= MAX_MULTIPLIER:
        raise ModelError(
            f"{where}: joint {joint.name!r} would follow {at.name!r} with the multiplier {multiplier:g}, but the "
            f"magnitude of a multiplier must be between {1.0 / MAX_MULTIPLIER:g} and {MAX_MULTIPLIER:g}; correct it, "
            "or pass mimic=False"
        )
    return Mimic(at.name, multiplier, offset)


def _narrow_limits(leader: Joint, follower: Joint, mimic: Mimic, findings: list[Finding]) -> Limits:
    """Returns the limits of a followed joint, within those of both joints, in position and velocity."""
    leader_limits, follower_limits = leader.limits, follower.limits
    ends = sorted((x - mimic.offset) / mimic.multiplier for x in (follower_limits.lower, follower_limits.upper))
    velocity = min(leader_limits.velocity, follower_limits.velocity / abs(mimic.multiplier))
    lower, upper = max(leader_limits.lower, ends[0]), min(leader_limits.upper, ends[1])
    if not lower < upper and leader_limits.lower < leader_limits.upper:
        reason = (
            f"no position of {leader.name!r} within its range [{leader_limits.lower:.4g}, {leader_limits.upper:.4g}] "
            f"brings {follower.name!r}, which follows it by {mimic.multiplier:g} * q + {mimic.offset:g}, into its "
            f"range [{follower_limits.lower:.4g}, {follower_limits.upper:.4g}]; the range of {follower.name!r} is "
            "ignored"
        )
        findings.append(Finding("warning", follower.where, reason, "correct the range, or the multiplier's sign"))
        return replace(leader_limits, velocity=velocity)
    return replace(leader_limits, lower=lower, upper=upper, velocity=velocity)
