"""Tree of moving bodies: a description after merging fixed links and choosing a root.

Every joint has a constant motion subspace S in the frame of its body: ``V_body = X V_parent + S dq``.  In the order of
Pinocchio's velocities a floating joint has ``S dq = (omega, v)`` for ``dq = (v, omega)``, a planar one
``dq = (v_x, v_y, omega)`` in the moving plane, so that the algorithms do not depend on joint types.

A joint that mimics another has the entries of q and v of that joint, and a subspace scaled by its multiplier: the
Jacobian columns of both are summed in one entry of v.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from ..errors import ModelError
from .algebra import Ad, Array, inverse, mass_properties, rigid_motion, rotation_to, spatial_inertia, swap
from .reader import Description, JointDescription, LinkDescription

Root = Literal["free", "planar", "fixed"]

#: Size of q and of v for each kind of joint.
SIZES = {"revolute": (1, 1), "continuous": (2, 1), "prismatic": (1, 1), "floating": (7, 6), "planar": (4, 3)}

#: Joints of a planar root: along x and z [m], and about y [rad]; gravity acts in this plane.
SAGITTAL = (
    ("root_x", "prismatic", (1.0, 0.0, 0.0)),
    ("root_z", "prismatic", (0.0, 0.0, 1.0)),
    ("root_pitch", "revolute", (0.0, 1.0, 0.0)),
)

#: Gravity [m/s^2] in the world.
GRAVITY = (0.0, 0.0, -9.81)


@dataclass(frozen=True, eq=False)
class Body:
    """Moving body and the joint that connects it to its parent.

    Attributes:
        name: the link directly below the joint; None for the two massless steps of a planar root.
        joint: the joint's name.
        kind: the joint's type.
        parent: index of the parent body, -1 for the world.
        T: (4, 4) placement of the joint frame at zero in the parent body's frame [m]; rotation dimensionless.
        axis: (3,) unit vector of the axis in the joint frame (unused for a floating joint).
        S: (6, n) motion subspace, twists in the body's frame, per unit joint velocity [dimensionless, m].
        G: (6, 6) spatial inertia of all its links, in the body's frame [kg m^2, kg m, kg].
        q: its entries of a configuration.
        v: its entries of a velocity.
        lower: lower position limit [rad or m].
        upper: upper position limit [rad or m].
        root: whether the joint belongs to the chosen root instead of the file.
        mimic_multiplier: the joint is at ``mimic_multiplier * q + mimic_offset``; multiplier, dimensionless.
        mimic_offset: offset in that relation [rad or m].
        is_mimic: whether its coordinate is that of another joint.
    """

    name: str | None
    joint: str
    kind: str
    parent: int
    T: Array
    axis: Array
    S: Array
    G: Array
    q: slice
    v: slice
    lower: float = -np.inf
    upper: float = np.inf
    root: bool = False
    mimic_multiplier: float = 1.0
    mimic_offset: float = 0.0
    is_mimic: bool = False

    @property
    def mass(self) -> float:
        """Mass of the body with all links fixed to it [kg]."""
        return mass_properties(self.G)[0]

    @property
    def com(self) -> Array:
        """Center of mass (3,) in the body's frame [m]; zero without mass."""
        return mass_properties(self.G)[1]

    @property
    def inertia(self) -> Array:
        """Inertia (3, 3) about the center of mass, in the body's axes [kg m^2]."""
        return mass_properties(self.G)[2]


@dataclass(frozen=True, eq=False)
class Model:
    """Tree of bodies, parents before children, and the frames fixed to them.

    Attributes:
        name: the robot's name.
        bodies: the moving bodies.
        frames: by name, the index of the body that carries the frame (-1: the world) and its (4, 4) placement there.
        armature: (nv,) rotor inertia reflected to each joint coordinate [kg m^2 or kg].
        damping: (nv,) viscous friction [N m s/rad or N s/m].
        friction: (nv,) Coulomb friction [N m or N].
        gravity: (3,) gravitational acceleration in the world [m/s^2].
        base: (6, 6) spatial inertia of the links fixed to the world, in the root link's frame [kg m^2, kg m, kg]; None
            with a moving root.
    """

    name: str
    bodies: tuple[Body, ...]
    frames: Mapping[str, tuple[int, Array]]
    armature: Array
    damping: Array
    friction: Array
    gravity: Array
    base: Array | None = None

    @cached_property
    def nq(self) -> int:
        """Size of a configuration."""
        return sum(b.q.stop - b.q.start for b in self.bodies if not b.is_mimic)

    @cached_property
    def nv(self) -> int:
        """Size of a velocity."""
        return sum(b.v.stop - b.v.start for b in self.bodies if not b.is_mimic)

    @cached_property
    def coupled(self) -> bool:
        """Whether any joint mimics another."""
        return any(b.is_mimic for b in self.bodies)

    @cached_property
    def support(self) -> tuple[tuple[int, ...], ...]:
        """For each body the bodies from the root to it, itself included: those whose joints move it."""
        out: list[tuple[int, ...]] = []
        for i, body in enumerate(self.bodies):
            out.append((*(out[body.parent] if body.parent >= 0 else ()), i))
        return tuple(out)


def motion_subspace(kind: str, axis: Array) -> Array:
    """Returns the motion subspace (6, n) of a joint, in its own frame (Featherstone, RBDA 2008, table 4.1)."""
    w, v = np.zeros(3), np.zeros(3)
    if kind in ("revolute", "continuous"):
        return np.concatenate([axis, v])[:, None]
    if kind == "prismatic":
        return np.concatenate([w, axis])[:, None]
    if kind == "floating":
        return swap()
    R = rotation_to(axis)
    return np.stack([[*w, *R[:, 0]], [*w, *R[:, 1]], [*R[:, 2], *v]], axis=1)


def build_model(
    description: Description,
    root: Root,
    *,
    frames: Mapping[str, tuple[str, Array]] | None = None,
    gravity: Array | tuple[float, ...] = GRAVITY,
) -> Model:
    """Merges fixed links, chooses the root, and assigns the entries of q and v.

    A link without mass and shape above the robot is removed if the root moves and the joint below it floats, or is
    fixed and the link is called "world": `root` replaces them, and q holds the pose of the link below.  A floating
    joint there becomes fixed if `root` is "fixed".

    Args:
        description: content of the file.
        root: "free", "planar" (sagittal x, z, pitch) or "fixed".
        frames: extra frames by name: a link and (3,) an offset in it [m]; they take precedence over links of the same
            name; None for no extra frames.
        gravity: (3,) gravitational acceleration [m/s^2].

    Raises:
        ModelError: a moving root would move the link "world".
    """
    links, joints = _without_world_link(description, root)
    bodies: list[Body] = []
    inertias: list[Array] = []
    own = {"free": [("root_joint", "floating")], "planar": [(name, kind) for name, kind, _ in SAGITTAL], "fixed": []}
    coordinate_slices: dict[str, tuple[slice, slice]] = {}
    nq = nv = 0
    for joint_name, kind in [*own[root], *((j.name, j.type) for j in joints if j.type != "fixed" and j.leader is None)]:
        coordinate_slices[joint_name] = slice(nq, nq + SIZES[kind][0]), slice(nv, nv + SIZES[kind][1])
        nq, nv = coordinate_slices[joint_name][0].stop, coordinate_slices[joint_name][1].stop

    def add_body(
        name: str | None, joint_name: str, kind: str, parent: int, T: Array, axis: Array, joint: JointDescription | None
    ) -> int:
        q, v = coordinate_slices[joint_name if joint is None or joint.leader is None else joint.leader]
        S, G = motion_subspace(kind, axis), np.zeros((6, 6))
        if joint is None:
            bodies.append(Body(name, joint_name, kind, parent, T, axis, S, G, q, v, root=True))
        else:
            ends, follows = (joint.lower, joint.upper), joint.leader is not None
            S = joint.gear * S
            bodies.append(
                Body(name, joint_name, kind, parent, T, axis, S, G, q, v, *ends, False, joint.gear, joint.bias, follows)
            )
        inertias.append(G.copy())
        return len(bodies) - 1

    at, base = -1, links[0]
    if root == "free":
        at = add_body(base.name, "root_joint", "floating", -1, np.eye(4), np.zeros(3), None)
    elif root == "planar":
        for joint_name, kind, axis in SAGITTAL:
            name = base.name if joint_name == "root_pitch" else None
            at = add_body(name, joint_name, kind, at, np.eye(4), np.array(axis), None)
    joint_frames = {body.joint: (i, np.eye(4)) for i, body in enumerate(bodies)}
    link_frames = {base.name: (at, np.eye(4))}
    world_fixed_inertia = np.zeros((6, 6))
    damping, friction = np.zeros(nv), np.zeros(nv)
    _add_inertia(inertias, world_fixed_inertia, *link_frames[base.name], base)
    for joint, link in zip(joints, links[1:], strict=True):
        at, T = link_frames[joint.parent]
        T = T @ joint.T
        if joint.type != "fixed":
            at, T = add_body(link.name, joint.name, joint.type, at, T, joint.axis, joint), np.eye(4)
            # Powers: damping (gear v)^2 and friction |gear v|.
            damping[bodies[at].v] += joint.damping * joint.gear**2
            friction[bodies[at].v] += joint.friction * abs(joint.gear)
        joint_frames[joint.name] = link_frames[link.name] = (at, T)
        _add_inertia(inertias, world_fixed_inertia, at, T, link)
    extra = {
        name: (link_frames[link][0], link_frames[link][1] @ rigid_motion(np.eye(3), offset))
        for name, (link, offset) in (frames or {}).items()
    }
    moving = tuple(replace(b, G=G) for b, G in zip(bodies, inertias, strict=True))
    known = {**joint_frames, **link_frames, **extra}
    weight = world_fixed_inertia if root == "fixed" else None
    return Model(description.name, moving, known, np.zeros(nv), damping, friction, np.array(gravity), weight)


def _add_inertia(inertias: list[Array], world_fixed_inertia: Array, body: int, T: Array, link: LinkDescription) -> None:
    """Adds the inertia of a link, placed by T in its body, to the body's: ``G += Ad(T^-1)^T G_link Ad(T^-1)``."""
    X = Ad(inverse(T))
    G = inertias[body] if body >= 0 else world_fixed_inertia
    G += X.T @ spatial_inertia(link.mass, link.com, link.inertia) @ X


def _without_world_link(
    description: Description, root: Root
) -> tuple[tuple[LinkDescription, ...], tuple[JointDescription, ...]]:
    links, joints = description.links, description.joints
    world, first = links[0], [j for j in joints if j.parent == links[0].name]
    alone = world.bare and len(first) == 1
    floats = alone and first[0].type == "floating"
    if root == "fixed":
        if floats:
            held = replace(first[0], type="fixed")
            return links, (held, *joints[1:])
        return links, joints
    if floats or (alone and world.name == "world" and first[0].type == "fixed"):
        return links[1:], joints[1:]
    if world.name == "world" and first:
        raise ModelError(f"reference: the link 'world' would move with a {root} root; pass root='fixed'")
    return links, joints
