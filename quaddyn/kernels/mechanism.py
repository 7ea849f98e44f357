"""`Mechanism`: a robot's composite bodies in frames chosen so that recursions over them cost few operations.

For a body on a rotating joint: z is the joint axis; x lies along the common normal to the axis of its first child that
is not parallel; the origin is moved along the axis until most offsets have one component.  A constant rotation about
the axis becomes an offset of the joint angle.  A body on a sliding joint takes the axes of its parent, so that it has
the parent's angular motion.  Mass properties are mass m, first moments h and second moments ``K = int r r^T dm`` (the
inertia is ``tr(K) 1 - K``), which transform between frames without a factor two; the mass that a joint cannot rotate, a
line along its axis, is added to its parent (`group_inertias`): the rest are base parameters.

Source of frames and grouping: Khalil and Dombre, *Modeling, Identification and Control of Robots*, 2002, chapters 3, 9.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from ..robot.bodies import CompositeBody
from ..robot.robot import Robot
from ..urdf.tree import Array, FrozenArrays, frozen

#: Standard gravity as in Pinocchio [m/s^2], along -z of the world.
GRAVITY: Final = 9.81
#: Tolerance within which a rotation is a quarter turn, and an offset zero [rad, m].  A pi/2 of eleven digits in a file
#: is outside it: snapping that would cause errors above 1e-12.
SNAP_TOLERANCE: Final = 1e-13

ROTATING_KINDS: Final = ("revolute", "continuous", "driven")
#: Entries of q and v by kind.
COORDINATE_COUNTS: Final = {
    "revolute": (1, 1),
    "continuous": (2, 1),
    "driven": (2, 1),
    "prismatic": (1, 1),
    "planar": (4, 3),
    "floating": (7, 6),
}
#: The ten inertial parameters of a moving body: m, h, and K by rows of its upper triangle.
UPPER_TRIANGLE: Final = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
N_INERTIAL_PARAMETERS: Final = 10


@dataclass(frozen=True, slots=True, eq=False)
class MechanismBody(FrozenArrays):
    """Moving body and the joint that connects it to its parent, in the chosen frame.

    Attributes:
        name: name of the body; None for the two massless steps of a planar root.
        kind: type of the joint; "driven" is a joint moved by a closed loop, whose q are cosine and sine of its angle
            plus beta.
        parent: index of the parent, -1 for the world.
        body_index: index in ``robot.bodies``, -1 for a massless step.
        q, v: its first entry of q and of v.
        file_axes: (3, 3) its axes in the body frame of the file; z is the axis of a rotating joint.
        file_origin: (3,) its origin in the body frame of the file [m].
        rotation_angles: (gamma, alpha, beta) [rad] of ``R_parent_joint = Rz(gamma) Rx(alpha) Rz(beta)``; for a rotating
            joint beta adds to its angle.
        offset: (3,) origin in the parent's frame at zero [m].
        sliding_axis: (3,) direction of a sliding joint in this frame (and in the parent's).
        inertia: (10,) m [kg], h [kg m], K [kg m^2] about the origin; before grouping.
        armature, damping, friction: of a joint with one degree of freedom.
    """

    name: str | None
    kind: str
    parent: int
    body_index: int
    q: int
    v: int
    file_axes: Array
    file_origin: Array
    rotation_angles: tuple[float, float, float]
    offset: Array
    sliding_axis: Array
    inertia: Array
    armature: float = 0.0
    damping: float = 0.0
    friction: float = 0.0


@dataclass(frozen=True, eq=False)
class Mechanism:
    """Tree of moving bodies, parents before children; the world is the parent of the first.

    Attributes:
        name: name of the robot.
        links: the moving bodies.
        nq, nv: sizes of q and v of all joints, dependent ones included (see `JointCoordinateMap`).
        length: unit of length [m] in which kernels compute.
        children: indices of the child bodies of each body.
    """

    name: str
    links: tuple[MechanismBody, ...]
    nq: int
    nv: int
    length: float = 1.0
    children: tuple[tuple[int, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        children: list[list[int]] = [[] for _ in self.links]
        for i, link in enumerate(self.links):
            if link.parent >= 0:
                children[link.parent].append(i)
        object.__setattr__(self, "children", tuple(map(tuple, children)))


def second_moments(body: CompositeBody) -> Array:
    """Returns m, h, K (10,) of a composite body about its joint frame, in the file's axes."""
    inertial = body.inertial
    about = 0.5 * np.trace(inertial.inertia) * np.eye(3) - inertial.inertia
    K = about + inertial.mass * np.outer(inertial.com, inertial.com)
    return pack_inertia(inertial.mass, inertial.mass * inertial.com, K)


def pack_inertia(m: float, h: Array, K: Array) -> Array:
    """Returns the vector (10,) of m, h (3,) and the upper triangle of K (3, 3)."""
    return np.array([m, *h, *(K[i, j] for i, j in UPPER_TRIANGLE)])


def unpack_inertia(p: Array) -> tuple[float, Array, Array]:
    """Returns m, h (3,) and K (3, 3) from their vector (10,)."""
    K = np.empty((3, 3))
    for value, (i, j) in zip(p[4:], UPPER_TRIANGLE, strict=True):
        K[i, j] = K[j, i] = value
    return float(p[0]), p[1:4].copy(), K


def transform_inertia(p: Array, R: Array, t: Array) -> Array:
    """Returns the mass properties (10,) in another frame, where a point r is ``R r + t``."""
    m, h, K = unpack_inertia(p)
    turned = R @ h
    return pack_inertia(m, turned + m * t, R @ K @ R.T + np.outer(turned, t) + np.outer(t, turned) + m * np.outer(t, t))


def rz(angle: float) -> Array:
    """Returns the rotation (3, 3) about z; exact at quarter turns."""
    c, s = _cos_sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def rx(angle: float) -> Array:
    """Returns the rotation (3, 3) about x; exact at quarter turns."""
    c, s = _cos_sin(angle)
    return np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])


def _cos_sin(angle: float) -> tuple[float, float]:
    quarter = angle / (0.5 * math.pi)
    if abs(quarter - round(quarter)) < SNAP_TOLERANCE:
        return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[round(quarter) % 4]
    return math.cos(angle), math.sin(angle)


def zxz_angles(E: Array) -> tuple[float, float, float]:
    """Returns (gamma, alpha, beta) with ``E = Rz(gamma) Rx(alpha) Rz(beta)``, snapped to quarter turns."""
    z = E[:, 2]
    s = math.hypot(z[0], z[1])
    if s < SNAP_TOLERANCE:
        alpha = 0.0 if z[2] > 0.0 else math.pi
        gamma = 0.0
        rest = rx(alpha).T @ E
        return gamma, alpha, _snap_to_quarter_turn(math.atan2(rest[1, 0], rest[0, 0]))
    gamma, alpha = _snap_to_quarter_turn(math.atan2(z[0], -z[1])), _snap_to_quarter_turn(math.atan2(s, z[2]))
    rest = rx(alpha).T @ rz(gamma).T @ E
    return gamma, alpha, _snap_to_quarter_turn(math.atan2(rest[1, 0], rest[0, 0]))


def _snap_to_quarter_turn(angle: float) -> float:
    quarter = round(angle / (0.5 * math.pi))
    return quarter * 0.5 * math.pi if abs(angle - quarter * 0.5 * math.pi) < SNAP_TOLERANCE else angle


def zxz_matrix(turn: tuple[float, float, float]) -> Array:
    """Returns the rotation (3, 3) ``Rz(gamma) Rx(alpha) Rz(beta)`` of three angles [rad]."""
    return rz(turn[0]) @ rx(turn[1]) @ rz(turn[2])


# -- from a robot ------------------------------------------------------------------------------------------------
@dataclass(eq=False)
class _UnframedBody:
    """Body before its frame is chosen: the joint's placement in the parent's file frame and its axis there."""

    name: str | None
    kind: str
    parent: int
    source: int
    q: int
    v: int
    rotation: Array
    translation: Array
    axis: Array
    inertia: Array
    armature: float = 0.0
    damping: float = 0.0
    friction: float = 0.0


def build_mechanism(robot: Robot, *, keep_file_axes: bool = False) -> Mechanism:
    """Builds the mechanism of a robot: its composite bodies in the frames that this module describes.

    Lengths are in meters (see `rescale_lengths`).  Each body has its own mass properties, none of which are moved to
    its parent yet (see `group_inertias`).

    Args:
        robot: the robot.
        keep_file_axes: whether each body keeps its origin in the file, and a rotating body has as its x axis the file's
            axis that follows the one nearest to the joint axis in the cyclic order x, y, z.
    """
    raws = _unframed_bodies(robot)
    body_axes = _choose_body_axes(raws, keep_file_axes)
    shifts = [0.0] * len(raws) if keep_file_axes else _choose_axis_shifts(raws, body_axes)
    links = []
    for i, raw in enumerate(raws):
        B, o = body_axes[i], body_axes[i][:, 2] * shifts[i]
        A, b = (
            (body_axes[raw.parent], body_axes[raw.parent][:, 2] * shifts[raw.parent])
            if raw.parent >= 0
            else (np.eye(3), 0.0)
        )
        if (
            raw.kind == "prismatic"
            and not keep_file_axes
            and not any(r.parent == i for r in raws)
            and raw.inertia[0] > 0.0
        ):
            o = raw.inertia[1:4] / raw.inertia[0]  # a sliding leaf has its origin at its center of mass
        offset = A.T @ (raw.translation + raw.rotation @ o - b)
        slide = B.T @ raw.axis if raw.kind == "prismatic" else np.zeros(3)
        links.append(
            MechanismBody(
                name=raw.name,
                kind=raw.kind,
                parent=raw.parent,
                body_index=raw.source,
                q=raw.q,
                v=raw.v,
                file_axes=frozen(B),
                file_origin=frozen(o),
                rotation_angles=(0.0, 0.0, 0.0) if raw.kind == "prismatic" else zxz_angles(A.T @ raw.rotation @ B),
                offset=frozen(_zero_rounding(offset)),
                sliding_axis=frozen(_zero_rounding(slide)),
                inertia=frozen(_drop_rounding(transform_inertia(raw.inertia, B.T, -B.T @ o))),
                armature=raw.armature,
                damping=raw.damping,
                friction=raw.friction,
            )
        )
    sizes = [sum(COORDINATE_COUNTS[link.kind][k] for link in links) for k in (0, 1)]
    return Mechanism(robot.name, tuple(links), *sizes)


def _zero_rounding(x: Array) -> Array:
    """Returns `x` with entries at rounding level set to zero."""
    return np.where(np.abs(x) < SNAP_TOLERANCE, 0.0, x)


def _drop_rounding(p: Array) -> Array:
    """Returns mass properties with first and second moments at rounding level set to zero."""
    out = p.copy()
    for part in (slice(1, 4), slice(4, N_INERTIAL_PARAMETERS)):
        out[part][np.abs(p[part]) <= 2e-15 * np.abs(p[part]).max()] = 0.0
    return out


def _unframed_bodies(robot: Robot) -> list[_UnframedBody]:
    """Returns all moving bodies before their frames are chosen."""
    eye, zero, nothing = np.eye(3), np.zeros(3), np.zeros(N_INERTIAL_PARAMETERS)
    raws: list[_UnframedBody] = []
    base, q, v = robot.bodies[0], 0, 0
    if robot.root == "free":
        raws.append(_UnframedBody(base.name, "floating", -1, 0, 0, 0, eye, zero, zero, second_moments(base)))
        q, v = 7, 6
    elif robot.root == "planar":
        raws.append(_UnframedBody(None, "prismatic", -1, -1, 0, 0, eye, zero, np.array([1.0, 0.0, 0.0]), nothing))
        raws.append(_UnframedBody(None, "prismatic", 0, -1, 1, 1, eye, zero, np.array([0.0, 0.0, 1.0]), nothing))
        pitch = np.array([0.0, 1.0, 0.0])
        raws.append(_UnframedBody(base.name, "revolute", 1, 0, 2, 2, eye, zero, pitch, second_moments(base)))
        q, v = 3, 3
    index_of = {0: len(raws) - 1}
    for i, body in enumerate(robot.bodies[1:], start=1):
        joint = body.joint
        assert joint is not None
        kind = "driven" if joint.loop is not None and joint.type == "revolute" else joint.type
        nq, nv = COORDINATE_COUNTS[kind]
        joint_parameters = (joint.armature, joint.damping, joint.friction) if nv == 1 else (0.0, 0.0, 0.0)
        pose = body.placement
        raws.append(
            _UnframedBody(
                body.name,
                kind,
                index_of[body.parent],
                i,
                q,
                v,
                pose.rotation,
                pose.translation,
                joint.axis,
                second_moments(body),
                *joint_parameters,
            )
        )
        index_of[i] = len(raws) - 1
        q, v = q + nq, v + nv
    return raws


def _choose_body_axes(raws: Sequence[_UnframedBody], keep_file_axes: bool) -> list[Array]:
    """Returns, per body, its axes in its file frame: parents first, since a sliding body takes its parent's."""
    own: list[Array] = []
    for i, raw in enumerate(raws):
        if raw.kind == "floating":
            own.append(np.eye(3))
        elif raw.kind == "planar":
            own.append(_rotation_to(raw.axis))
        elif raw.kind == "prismatic":
            above = own[raw.parent] if raw.parent >= 0 else np.eye(3)
            own.append(raw.rotation.T @ above)
        else:
            own.append(
                _axes_from_z_and_x(
                    raw.axis, _next_axis_of_file(raw.axis) if keep_file_axes else _choose_x_direction(raws, i)
                )
            )
    return own


def _rotation_to(axis: Array) -> Array:
    """Returns the axes (3, 3) of a planar joint: z rotated to `axis` by the smallest angle, as in Pinocchio's model."""
    v, c = np.cross([0.0, 0.0, 1.0], axis), float(axis[2])
    if c < -1.0 + 1e-12:
        return np.diag([1.0, -1.0, -1.0])
    V = np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])
    return np.asarray(np.eye(3) + V + V @ V / (1.0 + c))


def _next_axis_of_file(z: Array) -> Array:
    """Returns the file's axis that follows the one nearest to z."""
    return np.asarray(np.eye(3)[(int(np.argmax(np.abs(z))) + 1) % 3])


def _choose_x_direction(raws: Sequence[_UnframedBody], i: int) -> Array:
    """Returns a direction for the x axis of body i in its file frame, not parallel to its joint axis."""
    z = raws[i].axis
    children = [raw for raw in raws if raw.parent == i]
    candidates = [np.cross(z, c.rotation @ c.axis) for c in children if c.kind in ROTATING_KINDS]
    candidates += [c.translation for c in children if c.kind in ROTATING_KINDS]
    candidates += [c.rotation @ c.axis for c in children if c.kind == "prismatic"]
    if not children:
        candidates.append(raws[i].inertia[1:4])
    candidates += [*np.eye(3)]
    return next(w for w in candidates if math.hypot(*np.cross(z, w)) > 1e-9 * max(1e-3, math.hypot(*w)))


def _axes_from_z_and_x(z: Array, x: Array) -> Array:
    """Returns the axes (3, 3) with this z and with x as close to `x` as possible; rounding errors become zero."""
    y = np.cross(z, x)
    y = _zero_rounding(y / math.hypot(*y))
    y = y / math.hypot(*y)
    return np.stack([_zero_rounding(np.cross(y, z)), y, z], axis=1)


def _choose_axis_shifts(raws: Sequence[_UnframedBody], own: Sequence[Array]) -> list[float]:
    """Returns the distance by which each origin is shifted along its joint axis [m], so that few offsets are non-zero.

    Found by coordinate descent.  The offset of body i, in its parent's frame, is ``start + s_i along - s_parent z``.
    """
    shifts = [0.0] * len(raws)
    child_indices: list[list[int]] = [[] for _ in raws]
    depth = [0] * len(raws)
    start: list[list[float]] = []
    along: list[list[float]] = []
    for i, raw in enumerate(raws):
        A = own[raw.parent] if raw.parent >= 0 else np.eye(3)
        start.append((A.T @ raw.translation).tolist())
        along.append((A.T @ raw.rotation @ own[i][:, 2]).tolist())
        if raw.parent >= 0:
            child_indices[raw.parent].append(i)
            depth[i] = depth[raw.parent] + 1
    is_rotating = [raw.kind in ROTATING_KINDS for raw in raws]

    def offset(i: int, s: float, above: float) -> tuple[float, float, float]:
        (x, y, z), (a, b, c) = start[i], along[i]
        return x + s * a, y + s * b, z + s * c - above

    def move_with_parallel_bodies(i: int, s: float) -> dict[int, float]:
        """Returns shifts that move origin i to s together with the bodies below it on parallel axes."""
        out, step = {i: s}, s - shifts[i]
        for c in child_indices[i]:
            if is_rotating[c] and 1.0 - abs(along[c][2]) < SNAP_TOLERANCE:
                out |= move_with_parallel_bodies(c, shifts[c] + step * round(along[c][2]))
        return out

    def count_components(bodies: set[int], moves: dict[int, float]) -> float:
        """Returns the weighted number of non-zero offset components; shared and outer ones weigh less."""
        at = [(c, moves.get(c, shifts[c]), moves.get(raws[c].parent, shifts[raws[c].parent])) for c in bodies]
        weight = [0.99 if len(child_indices[raws[c].parent]) > 1 else 1.0 - 1e-4 * depth[c] for c, _, _ in at]
        return sum(
            w * (abs(x) > SNAP_TOLERANCE)
            for w, (c, s, above) in zip(weight, at, strict=True)
            for x in offset(c, s, above)
        )

    def gain(moves: dict[int, float]) -> tuple[float, float]:
        affected = {c for i in moves for c in (i, *child_indices[i]) if raws[c].parent >= 0}
        return count_components(affected, moves) - count_components(affected, {}), sum(abs(s) for s in moves.values())

    for _, i in itertools.product(range(3), [i for i in range(len(raws)) if is_rotating[i]]):
        candidates = {shifts[i]: None, 0.0: None}
        for c in child_indices[i]:
            *_, z = offset(c, shifts[c], 0.0)
            candidates[z] = None
        if raws[i].parent >= 0:
            at = offset(i, 0.0, shifts[raws[i].parent])
            candidates |= {-a / r: None for a, r in zip(at, along[i], strict=True) if abs(r) > 1e-6}
        moves = [{i: s} for s in candidates] + [move_with_parallel_bodies(i, s) for s in candidates]
        for c, s in min(moves, key=gain).items():
            shifts[c] = s
    return shifts


# -- grouping ----------------------------------------------------------------------------------------------------
def group_inertias(links: Sequence[MechanismBody], inertias: Array, world: Array | None = None) -> Array:
    """Returns mass properties (n, 10) in which the load that a joint cannot move is added to the parent.

    A line of mass along the axis of a rotating joint (m, h_z, K_zz) moves with the parent; so does K_zz of a body on a
    planar joint, and all of K on a sliding joint, which does not rotate.  The map is linear and exact.

    Args:
        links: the bodies.
        inertias: (n, 10) mass properties.
        world: (10,) is increased by the loads that the world carries.
    """
    out = np.array(inertias, dtype=np.float64)
    for i in range(len(links) - 1, -1, -1):
        link, line = links[i], np.zeros(N_INERTIAL_PARAMETERS)
        if link.kind in ROTATING_KINDS:
            keep = [0, 3, 9]
        elif link.kind == "planar":
            keep = [9]
        elif link.kind == "prismatic":
            keep = [4, 5, 6, 7, 8, 9]
        else:
            continue
        line[keep] = out[i][keep]
        out[i][keep] = 0.0
        above = out[link.parent] if link.parent >= 0 else world
        if above is None:
            continue
        if link.kind in ROTATING_KINDS:
            above += transform_inertia(line, zxz_matrix(link.rotation_angles), link.offset)
        else:  # a couple: second moments alone, wherever the body is
            above += transform_inertia(line, zxz_matrix(link.rotation_angles), np.zeros(3))
    return out


def rescale_lengths(mechanism: Mechanism, length: float) -> Mechanism:
    """Returns the same mechanism with lengths in units of `length` [m], and mass in the unit that keeps torques in N m.

    With length L the unit of mass is ``1 / L^2`` kg: m becomes ``m L^2``, h ``h L``, K stays; forces in ``N m / L``.
    """
    scale = np.array([length**2, length, length, length, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    links = tuple(
        replace(x, offset=frozen(_snap_to_unit(x.offset / length)), inertia=frozen(x.inertia * scale))
        for x in mechanism.links
    )
    return replace(mechanism, links=links, length=length)


def _snap_to_unit(x: Array) -> Array:
    """Returns `x` with entries that are +-1 up to rounding made exact."""
    return np.where(np.abs(np.abs(x) - 1.0) < SNAP_TOLERANCE, np.sign(x), x)


def most_common_offset(mechanism: Mechanism) -> float:
    """Returns the most frequent size of an offset [m] that a kernel multiplies by.

    An offset that all children of a body share counts once.
    """
    sizes: list[float] = []
    for children in mechanism.children:
        known: set[tuple[int, float]] = set()
        for c in children:
            known |= {(k, abs(float(x))) for k, x in enumerate(mechanism.links[c].offset) if x}
        sizes += [x for _, x in known]
    counts: dict[float, int] = {}
    for x in sizes:
        key = next((k for k in counts if abs(k - x) <= SNAP_TOLERANCE * k), x)
        counts[key] = counts.get(key, 0) + 1
    return max(counts, key=lambda k: (counts[k], k), default=1.0)
