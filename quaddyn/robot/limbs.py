"""Which limbs are legs, where their feet are, and what they are called: from the tree and the geometry alone."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..urdf.tree import FILE_ANGLE_TOLERANCE, Array, Loop, Pose
from .bodies import Body
from .chain import Chain
from .contact import Contact, find_contact
from .root import WORLD

#: Joints of a limb that may be a leg; one alone is a wheel or a rotating sensor, two that end in a wheel are a caster.
MIN_JOINTS, MAX_JOINTS = 2, 7
#: A lone serial chain of at most this many joints is taken for a leg, a longer one for an arm.
MAX_LONE_LEG = 4
#: Legs hang from the base or from a spine of at most this many joints; fingers hang from the end of an arm.
MAX_SPINE = 3
#: The longest leg of a quadruped is at most this many times as long as the shortest.
MAX_UNLIKE = 2.5

#: A body that reaches less than this share of its length beyond where it closes a loop has no foot.
END_OF_DRIVE = 0.3
SIDES = {"L": "left", "R": "right"}


@dataclass(frozen=True, slots=True, eq=False)
class Limb:
    """A terminal serial chain: body `indices`, its `contact` at the end, and its `chain` kinematics.

    `hip` and `knee` are positions in the chain: the knee is the first joint whose axis is parallel to that of an
    earlier one, the bending hip; together they bend the leg in its plane (where no two are parallel, the last two
    joints count).  At zero configuration, in the trunk's frame: `origin` (3,) of the first joint and `tip` (3,) of
    the foot [m], `bending_axis` (3,) of the knee.  `reach` [m] is the length of the stretched limb from the bending
    hip on: the sum of its segments, seen along the axis that is normal to the leg's plane.  `alone` tells that nothing
    else moves.
    """

    indices: tuple[int, ...]
    contact: Contact
    chain: Chain
    hip: int
    knee: int
    origin: Array
    tip: Array
    bending_axis: Array
    reach: float
    alone: bool


def find_limbs(bodies: Sequence[Body], loops: Sequence[Loop] = ()) -> list[Limb]:
    """Every terminal chain of 2 to 7 one-dof joints that hangs from a branching body or from the base.

    What closes `loops` without a foot of its own, such as the rod that bends a knee, is no part of a limb.
    """
    children: list[list[int]] = [[] for _ in bodies]
    depth = [0] * len(bodies)
    for i, body in enumerate(bodies[1:], start=1):
        children[body.parent].append(i)
        depth[i] = depth[body.parent] + 1
    for loop in loops:
        for link, placement in ((loop.link_a, loop.placement_a), (loop.link_b, loop.placement_b)):
            _without_drive(bodies, children, link, placement)
    for i, below in enumerate(children):  # rotors beside the next link of a leg are parts of its drive
        children[i] = [j for j in below if children[j] or not spins(bodies[j])] or below
    limbs = []
    for leaf in (i for i in range(1, len(bodies)) if not children[i] and i in children[bodies[i].parent]):
        run: list[int] = []
        at = leaf
        while at > 0 and len(children[at]) <= 1 and bodies[at].joint.nv == 1:  # type: ignore[union-attr]
            run.append(at)
            at = bodies[at].parent
        if MIN_JOINTS <= len(run) <= MAX_JOINTS and depth[at] <= MAX_SPINE:
            contact = find_contact(bodies[leaf])
            if len(run) > MIN_JOINTS or not _rolls(bodies[leaf], contact):
                limbs.append(make_limb(bodies, tuple(reversed(run)), contact))
    if len(limbs) == 1 and loops:  # what drives it by loops is a part of it
        limbs = [replace(limbs[0], alone=limbs[0].chain.n == sum(map(len, children)))]
    return limbs


def _without_drive(bodies: Sequence[Body], children: list[list[int]], link: str, placement: Pose) -> None:
    """Leave out the bodies that end where a loop is closed, from there on inwards."""
    found = [(i, pose) for i, body in enumerate(bodies) for x, pose in body.links if x.name == link]
    for i, pose in found:
        point = pose.apply(placement.translation)
        while i in children[bodies[i].parent] and not children[i]:  # another loop may have left it out
            beyond = float(np.linalg.norm(find_contact(bodies[i]).centre - point))
            if beyond > END_OF_DRIVE * float(np.linalg.norm(point)):
                break
            point = bodies[i].placement.translation
            children[bodies[i].parent].remove(i)
            i = bodies[i].parent


def make_limb(bodies: Sequence[Body], indices: tuple[int, ...], contact: Contact) -> Limb:
    """The limb of these bodies that ends in `contact`."""
    chain = Chain(_on_trunk(bodies), indices, contact.centre)
    origins, axes, tip = chain.forward(np.zeros(chain.n))
    revolute = [j is not None and j.type != "prismatic" for j in chain.joints]
    parallel = [
        (i, j)
        for j in range(chain.n)
        for i in reversed(range(j))
        if revolute[i] and revolute[j] and abs(float(axes[i] @ axes[j])) > 0.999
    ]
    hip, knee = parallel[0] if parallel else (max(chain.n - 2, 0), chain.n - 1)
    segments = np.diff(np.vstack((origins[hip:], tip)), axis=0)
    normal = axes[knee if revolute[knee] else hip]
    reach = float(np.linalg.norm(segments - np.outer(segments @ normal, normal), axis=1).sum())
    alone = sum(b.joint is not None and b.joint.nv == 1 for b in bodies) == chain.n
    return Limb(indices, contact, chain, hip, knee, origins[0], tip, axes[knee], reach, alone)


def _rolls(body: Body, contact: Contact) -> bool:
    """Whether this body is a wheel: its joint turns the contact sphere on the spot."""
    joint = body.joint
    if joint is None or joint.type == "prismatic":
        return False
    return float(np.linalg.norm(np.cross(joint.axis, contact.centre))) <= 0.1 * contact.radius


def spins(body: Body) -> bool:
    """Whether this body is balanced on its own revolute joint's axis, as rotors and wheels are."""
    joint, inertial = body.joint, body.inertial
    if joint is None or joint.type not in ("revolute", "continuous") or inertial.mass <= 0.0:
        return False
    off = float(np.linalg.norm(np.cross(joint.axis, inertial.com)))
    return off**2 * inertial.mass <= 1e-4 * float(np.trace(inertial.inertia))


def trunk(bodies: Sequence[Body]) -> Pose:
    """Placement of the trunk in the root link's frame: not the identity where the root link is the world itself."""
    (first, identity), *others = bodies[0].links
    if first.name == WORLD and first.inertial is None and others:
        return others[0][1]
    return identity


def _on_trunk(bodies: Sequence[Body]) -> Sequence[Body]:
    """The bodies, placed in the trunk's frame: which way is forward and up is the trunk's affair, not the world's."""
    base = trunk(bodies)
    if base is bodies[0].links[0][1]:
        return bodies
    to_trunk = base.inverse()
    return [replace(b, placement=to_trunk @ b.placement) if b.parent == 0 else b for b in bodies]


def directions(limbs: Sequence[Limb]) -> tuple[Array, Array]:
    """Forward and left unit vectors of the base frame, judged by the knees.

    Knees bend in the sagittal plane, so their axes point sideways.  Knee axes along y mean the usual base frame
    (x forward, y left); along x they mean y forward and -x left.  Axes that point as much along x as along y mean the
    usual frame.
    """
    share = sum((np.abs(limb.bending_axis) for limb in limbs), np.zeros(3))
    if share[0] > share[1] * (1.0 + FILE_ANGLE_TOLERANCE):
        return np.array([0.0, 1.0, 0.0]), np.array([-1.0, 0.0, 0.0])
    return np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])


def name_legs(limbs: Sequence[Limb]) -> dict[str, Limb]:
    """Choose the legs among `limbs` and name them.

    Four that stand as front and rear pairs, left and right, are a quadruped: FL, FR, RL, RR.  Otherwise six make a
    hexapod (FL, FR, ML, MR, RL, RR), a mirrored pair lower than all else a biped (L, R), and a lone chain of at most
    4 joints a "leg".
    """
    best: tuple[tuple[float, float], dict[str, Limb]] | None = None
    for four in itertools.combinations(limbs, 4) if len(limbs) <= 16 else ():
        named = _rows(four, ("F", "R"))
        if named is not None:
            # Alike limbs first (an arm is no leg), then the lowest feet.
            reaches = np.array([x.reach for x in four])
            joints = [x.chain.n for x in four]
            unlike = round(float(np.ptp(reaches) / reaches.max()) + max(joints) - min(joints), 3)
            cost = (unlike, sum(float(x.tip[2]) for x in four))
            if best is None or cost < best[0]:
                best = (cost, named)
    if best is not None:
        six = _rows(limbs, ("F", "M", "R")) if len(limbs) == 6 and best[0][0] < 0.3 else None
        return six if six is not None and _alike(limbs) and _level(limbs) else best[1]
    pairs = [p for p in itertools.combinations(limbs, 2) if _mirrored(*p)] if len(limbs) <= 16 else []
    if pairs:
        low = min(pairs, key=lambda p: sum(float(x.tip[2]) for x in p))
        height = max(float(x.tip[2]) for x in low) + 0.1 * low[0].reach
        if any(_alike((*low, x)) and float(x.tip[2]) < height for x in limbs if x not in low):
            return {}  # a third one like them, such as a finger
        _, left = directions(low)
        right_limb, left_limb = sorted(low, key=lambda x: float(x.origin @ left))
        return {"L": left_limb, "R": right_limb}
    if len(limbs) == 1 and limbs[0].alone and limbs[0].chain.n <= MAX_LONE_LEG:
        return {"leg": limbs[0]}
    return {}


def _alike(limbs: Sequence[Limb]) -> bool:
    reaches = [x.reach for x in limbs]
    return len({x.chain.n for x in limbs}) == 1 and max(reaches) < 1.2 * min(reaches)


def _level(limbs: Sequence[Limb]) -> bool:
    return float(np.ptp([x.tip[2] for x in limbs])) < 0.5 * max(x.reach for x in limbs)


def _mirrored(a: Limb, b: Limb) -> bool:
    _, left = directions((a, b))
    mirror = np.eye(3) - 2.0 * np.outer(left, left)
    size = max(a.reach, b.reach)
    apart = abs(float((a.origin - b.origin) @ left))
    return _alike((a, b)) and apart > 0.02 * size and bool(np.linalg.norm(mirror @ a.origin - b.origin) < 0.1 * size)


def _rows(limbs: Sequence[Limb], rows: tuple[str, ...]) -> dict[str, Limb] | None:
    """Name `limbs` row by row, front to rear, left before right; None unless they stand like that."""
    forward, left = directions(limbs)
    ordered = sorted(limbs, key=lambda x: -float(x.origin @ forward))
    along = np.array([float(x.origin @ forward) for x in ordered]).reshape(len(rows), 2)
    named = {}
    for i, row in enumerate(rows):
        pair = sorted(ordered[2 * i : 2 * i + 2], key=lambda x: -float(x.origin @ left))
        across = [float(x.origin @ left) for x in pair]
        middle = np.mean([float(x.origin @ left) for x in limbs])
        if not across[0] > middle > across[1]:
            return None
        if pair[0].chain.n != pair[1].chain.n or not 0.8 < pair[0].reach / max(pair[1].reach, 1e-9) < 1.25:
            return None
        if np.ptp(along[i]) > 0.25 * np.ptp(along) or (across[0] - across[1]) < 0.02 * np.ptp(along):
            return None
        named[row + "L"], named[row + "R"] = pair
    if max(x.reach for x in limbs) > MAX_UNLIKE * min(x.reach for x in limbs):
        return None
    gaps = -np.diff(along.mean(axis=1))
    width = max(float(abs((x.origin - y.origin) @ left)) for x in limbs for y in limbs)
    if gaps.min() <= 0.2 * width:  # arms above legs stand in one row
        return None
    return named
