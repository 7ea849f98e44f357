"""Limbs of a robot, found from its tree and geometry alone; `leg_recognition` decides which of them are legs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from ..urdf.tree import FILE_ANGLE_TOLERANCE, Array, KinematicLoop, Pose
from .bodies import Chain, CompositeBody
from .foot_geometry import FootSphere, find_foot_sphere, is_balanced
from .root import WORLD

#: Joints of a limb that may be a leg; one alone is a wheel or a rotating sensor, two that end in a wheel are a caster.
MIN_JOINTS, MAX_JOINTS = 2, 7
#: Legs hang from the base or from a spine of at most this many joints; fingers hang from the end of an arm.
MAX_SPINE = 3
#: Cosine of the angle between axes that count as parallel, and of the angle within which they bend a leg in one plane.
PARALLEL_COSINE, NEARLY_PARALLEL_COSINE = 0.999, 0.8
#: The bending hip and the knee move the foot by levers of at least this fraction of the longest ones of the limb.
MIN_LEVER_FRACTION = 0.3
#: Levers of exactly parallel axes, as a fraction of those of nearly parallel ones, above which the former are chosen.
MIN_PARALLEL_FRACTION = 0.6
#: A body whose end is nearer than this fraction of its length to the line from its joint to where it closes a loop has
#: no foot.
MIN_FREE_END_FRACTION = 0.3
#: Horizontal distance of the foot from the hip of a sprawling leg, as a fraction of its length; and the sine of the
#: angle between its knee axis and the normal of its upright plane.
MIN_SPRAWL, MAX_SPRAWL_SINE = 0.3, 0.3
#: Mass of a body between the joints of a planar base, as a fraction of the mass of all bodies beyond it.
MAX_SLIDE_MASS = 0.02
#: Tolerance of `is_balanced` for rotors beside a leg.
ROTOR_BALANCE = 1e-4
SIDES = {"L": "left", "R": "right"}
#: Where legs of these names are: ahead (1) or behind (-1), and to the left (1) or to the right (-1).
LEG_PLACES = MappingProxyType(
    {
        **{f"{row}{side}": (x, y) for row, x in (("F", 1), ("M", 0), ("R", -1)) for side, y in (("L", 1), ("R", -1))},
        **{"F": (1, 0), "B": (-1, 0), "L": (0, 1), "R": (0, -1)},
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class Limb:
    """Terminal serial chain: body `indices`, contact sphere `contact` at its end, and its `chain` kinematics.

    `hip` and `knee` are positions in the chain: the knee is the first joint that has a long lever and an axis parallel
    to that of an earlier joint, the bending hip; together they bend the leg in its plane (if no two axes are parallel,
    these are the last two joints).  At zero configuration, in the trunk's frame: `origin` (3,) of the first joint and
    `tip` (3,) of the foot [m], `first_axis` (3,) of the first joint and `bending_axis` (3,) of the knee.  `reach` [m]
    is the length of the stretched limb from the bending hip on: the sum of its segments, projected along the normal of
    the leg's plane.  `alone` is whether the robot has no other moving joint, those of a planar base aside.
    """

    indices: tuple[int, ...]
    contact: FootSphere
    chain: Chain
    hip: int
    knee: int
    origin: Array
    tip: Array
    first_axis: Array
    bending_axis: Array
    reach: float
    alone: bool

    @property
    def sprawls(self) -> bool:
        """Whether the limb turns about a vertical axis and bends in the upright plane in which it points outward.

        The knee axis of such a leg, as those of spiders, is perpendicular to that plane, wherever the robot faces.
        """
        x, y, _ = (self.tip - self.origin).tolist()
        outward = math.hypot(x, y)
        along = abs(float(self.bending_axis[0]) * x + float(self.bending_axis[1]) * y)
        is_vertical = abs(float(self.first_axis[2])) > NEARLY_PARALLEL_COSINE
        return is_vertical and outward > MIN_SPRAWL * self.reach and along < MAX_SPRAWL_SINE * outward


def find_limbs(bodies: Sequence[CompositeBody], loops: Sequence[KinematicLoop] = ()) -> list[Limb]:
    """Returns every terminal chain of 2 to 7 one-dof joints on a branching body or on the base.

    Bodies that close `loops` without a foot, such as the rod that bends a knee, are not part of a limb.
    """
    children: list[list[int]] = [[] for _ in bodies]
    depth = [0] * len(bodies)
    trunk, base = trunk_index(bodies), planar_base_index(bodies)
    for i, body in enumerate(bodies[1:], start=1):
        children[body.parent].append(i)
        depth[i] = depth[body.parent] + (i > trunk)
    for loop in loops:
        for link, placement in ((loop.link_a, loop.placement_a), (loop.link_b, loop.placement_b)):
            _remove_drive_bodies(bodies, children, link, placement)
    for i, below in enumerate(children):  # rotors beside the next link of a leg are parts of its drive
        children[i] = [j for j in below if children[j] or not is_balanced_rotor(bodies[j])] or below
    limbs = []
    for leaf in (i for i in range(1, len(bodies)) if not children[i] and i in children[bodies[i].parent]):
        chain: list[int] = []  # from the leaf inward
        i = leaf
        while i > base and len(children[i]) <= 1 and bodies[i].joint.nv == 1:  # type: ignore[union-attr]
            chain.append(i)
            i = bodies[i].parent
        if MIN_JOINTS <= len(chain) <= MAX_JOINTS and depth[i] <= MAX_SPINE:
            contact = find_foot_sphere(bodies[leaf])
            if len(chain) > MIN_JOINTS or not _ends_in_wheel(bodies[leaf], contact):
                limbs.append(make_limb(bodies, tuple(reversed(chain)), contact))
    if len(limbs) == 1 and loops:  # bodies that drive it through loops are parts of it
        limbs = [replace(limbs[0], alone=limbs[0].chain.n == sum(map(len, children)) - base)]
    return limbs


def _remove_drive_bodies(
    bodies: Sequence[CompositeBody], children: list[list[int]], link: str, placement: Pose
) -> None:
    """Removes the bodies that end where a loop is closed, from there inward."""
    found = [(i, pose) for i, body in enumerate(bodies) for x, pose in body.links if x.name == link]
    for i, pose in found:
        point = pose.apply(placement.translation)
        while i in children[bodies[i].parent] and not children[i]:  # another loop may have left it out
            end, length = find_foot_sphere(bodies[i]).center, float(np.linalg.norm(point))
            # The distance of the end from the line between the joint and the point where the loop closes.
            fraction = float(np.clip(end @ point / max(length**2, 1e-300), 0.0, 1.0))
            if float(np.linalg.norm(end - fraction * point)) > MIN_FREE_END_FRACTION * length:
                break
            point = bodies[i].placement.translation
            children[bodies[i].parent].remove(i)
            i = bodies[i].parent


def make_limb(bodies: Sequence[CompositeBody], indices: tuple[int, ...], contact: FootSphere) -> Limb:
    """Returns the limb of these bodies that ends in `contact`."""
    chain = Chain(bodies_in_trunk_frame(bodies), indices, contact.center)
    origins, axes, tip = chain.forward(np.zeros(chain.n))
    revolute = [j is not None and j.type != "prismatic" for j in chain.joints]
    hip, knee = _find_hip_and_knee(origins, axes, tip, revolute)
    segments = np.diff(np.vstack((origins[hip:], tip)), axis=0)
    normal = axes[knee if revolute[knee] else hip]
    reach = float(np.linalg.norm(segments - np.outer(segments @ normal, normal), axis=1).sum())
    alone = sum(b.joint is not None and b.joint.nv == 1 for b in bodies) - planar_base_index(bodies) == chain.n
    return Limb(indices, contact, chain, hip, knee, origins[0], tip, axes[0], axes[knee], reach, alone)


def _find_hip_and_knee(origins: Array, axes: Array, tip: Array, revolute: Sequence[bool]) -> tuple[int, int]:
    """Returns the positions of the bending hip and of the knee: the first parallel pair of axes with long levers.

    The levers of a pair are the distances from its first axis to its second one, and from there to the foot.  A roll
    axis of the hip and one of the ankle are parallel as well, but the lever of the ankle is only the height of a foot.
    """
    n = len(revolute)
    pairs = [(i, j) for j in range(n) for i in reversed(range(j)) if revolute[i] and revolute[j]]
    levers = {
        (i, j): min(
            float(np.linalg.norm(np.cross(axes[j], origins[j] - origins[i]))),
            float(np.linalg.norm(np.cross(axes[j], tip - origins[j]))),
        )
        for i, j in pairs
        if abs(float(axes[i] @ axes[j])) > NEARLY_PARALLEL_COSINE
    }
    parallel = [(i, j) for i, j in levers if abs(float(axes[i] @ axes[j])) > PARALLEL_COSINE]
    size = float(np.linalg.norm(np.diff(np.vstack((origins, tip)), axis=0), axis=1).sum())
    longest = max([0.1 * size, *levers.values()])
    for found in (parallel, list(levers)):
        # Axes of hip and knee that are not exactly parallel precede parallel ones of ankles, whose levers are short.
        if max((levers[pair] for pair in found), default=0.0) > max(0.1 * size, MIN_PARALLEL_FRACTION * longest):
            longest = max(levers[pair] for pair in found)
            return next(pair for pair in found if levers[pair] >= MIN_LEVER_FRACTION * longest)
    return parallel[0] if parallel else (max(n - 2, 0), n - 1)


def _ends_in_wheel(body: CompositeBody, contact: FootSphere) -> bool:
    """Returns whether a body is a wheel: its joint rotates the contact sphere about its center."""
    joint = body.joint
    if joint is None or joint.type == "prismatic":
        return False
    return float(np.linalg.norm(np.cross(joint.axis, contact.center))) <= 0.1 * contact.radius


def is_balanced_rotor(body: CompositeBody) -> bool:
    """Returns whether a body is a rotor, such as the one of a motor: balanced on the axis of its revolute joint."""
    return is_balanced(body, ROTOR_BALANCE)


def trunk_index(bodies: Sequence[CompositeBody]) -> int:
    """Returns the body from which limbs extend: the first with mass where a single chain of joints moves the base."""
    i = planar_base_index(bodies)
    while bodies[i].inertial.mass <= 0.0 and [b.parent for b in bodies].count(i) == 1 and i + 1 < len(bodies):
        i += 1
    return i


def planar_base_index(bodies: Sequence[CompositeBody]) -> int:
    """Returns the body that two slides and a hinge of the file move in the sagittal plane; 0 if there is none.

    The first three joints are those of a planar base: one slides vertically, one horizontally, and one rotates about
    the normal of their plane.  The bodies between them are light.
    """
    first, parents = bodies[1:4], [body.parent for body in bodies]
    if parents[1:4] != [0, 1, 2] or any(parents.count(i) != 1 for i in range(3)) or any(b.joint is None for b in first):
        return 0
    light = MAX_SLIDE_MASS * sum(body.inertial.mass for body in bodies[3:])
    if max(body.inertial.mass for body in first[:2]) > light or any(body.joint.nv != 1 for body in first):  # type: ignore[union-attr]
        return 0
    _, axes, _ = Chain(bodies, (1, 2, 3), np.zeros(3)).forward(np.zeros(3))
    slides = [axis for axis, body in zip(axes, first, strict=True) if body.joint.type == "prismatic"]  # type: ignore[union-attr]
    hinges = [axis for axis, body in zip(axes, first, strict=True) if body.joint.type != "prismatic"]  # type: ignore[union-attr]
    if len(slides) != 2 or len(hinges) != 1 or max(abs(float(axis[2])) for axis in slides) < PARALLEL_COSINE:
        return 0
    return 3 if abs(float(np.cross(*slides) @ hinges[0])) > PARALLEL_COSINE else 0


def trunk_placement(bodies: Sequence[CompositeBody]) -> Pose:
    """Returns the placement of the trunk in the root link's frame; not the identity if the root link is the world."""
    (first, identity), *others = bodies[0].links
    if first.name == WORLD and first.inertial is None and others:
        return others[0][1]
    return identity


def bodies_in_trunk_frame(bodies: Sequence[CompositeBody]) -> Sequence[CompositeBody]:
    """Returns the bodies with placements in the trunk's frame, whose axes define the forward and upward directions."""
    base = trunk_placement(bodies)
    if base is bodies[0].links[0][1]:
        return bodies
    to_trunk = base.inverse()
    return [replace(b, placement=to_trunk @ b.placement) if b.parent == 0 else b for b in bodies]


def forward_and_left(limbs: Mapping[str, Limb]) -> tuple[Array, Array]:
    """Returns forward and left unit vectors of the base frame, for legs by name.

    Knees bend in the sagittal plane, so that their axes point sideways: knee axes along y mean that the robot faces
    along x, knee axes along x that it faces along y; axes with equal parts along x and y mean x.  The sign follows from
    the names of the legs: front legs are ahead of rear ones, and left legs to the left of right ones.  Legs with other
    names mean the positive axis.  If all legs sprawl (`Limb.sprawls`), the names also decide between x and y.
    """
    middle = sum((limb.origin for limb in limbs.values()), np.zeros(3)) / max(len(limbs), 1)
    sizes = [0.0, 0.0]  # by axis: how far the legs are where their names say, if the robot faces along it [m]
    for name, limb in limbs.items():
        ahead, aside = LEG_PLACES.get(name, (0, 0))
        x, y, _ = (limb.origin - middle).tolist()
        sizes[0] += ahead * x + aside * y
        sizes[1] += ahead * y - aside * x
    if limbs and all(limb.sprawls for limb in limbs.values()):
        along_y = abs(sizes[1]) > abs(sizes[0]) * (1.0 + FILE_ANGLE_TOLERANCE)
    else:
        fractions = sum((np.abs(limb.bending_axis) for limb in limbs.values()), np.zeros(3))
        along_y = bool(fractions[0] > fractions[1] * (1.0 + FILE_ANGLE_TOLERANCE))
    forward = np.array([0.0, 1.0, 0.0]) if along_y else np.array([1.0, 0.0, 0.0])
    left = np.array([-1.0, 0.0, 0.0]) if along_y else np.array([0.0, 1.0, 0.0])
    return (0.0 - forward, 0.0 - left) if sizes[along_y] < 0.0 else (forward, left)


def leg_forward_and_left(limb: Limb, forward: Array, left: Array) -> tuple[Array, Array]:
    """Returns forward and left unit vectors for one leg of a robot that faces along `forward` (3,), with `left` (3,).

    They are those of the robot, except for a leg that bends sideways, such as those at the sides of a robot with one
    leg in front and one behind: its forward vector points outward.
    """
    up = np.cross(forward, left)
    axis = limb.bending_axis - float(limb.bending_axis @ up) * up
    length = float(np.linalg.norm(axis))
    if abs(float(axis @ left)) >= 0.5 * length:
        return forward, left
    outward = np.cross(up, axis) / length
    if float(outward @ (limb.tip - limb.origin)) < 0.0:
        outward = -outward
    return outward, np.cross(up, outward)
