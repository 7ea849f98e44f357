"""Closed kinematic loops as a coupling: coordinates of all joints as a function of those of the independent ones.

`PlanarLoop`: a loop of parallel axes in which three pivots follow all others: a four-bar or a five-bar linkage.

At given angles of the other pivots the bars between two of the three are one stiff side, so that the three are the
corners of a triangle of known sides.  It has two mirror images, which meet only where it is flat and the loop singular:
the one of home is the one that continuous motion keeps.

Source: McCarthy and Soh, *Geometric Design of Linkages*, 2011, chapter 2 (the four-bar by its diagonal).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import pinocchio as pin

from ..errors import ArgumentError, ModelError
from ..urdf.tree import Array, Joint, KinematicLoop, Pose, Tree
from .coupling import Index, Tangent, index_array
from .loop_solver import Closures, ClosureWorkspace, close_loops, loop_drift, loop_residual, make_closure_workspace

#: Largest angle between axes that count as parallel [rad]; least length of a bar, as a fraction of the loop's size.
PARALLEL_TOLERANCE, MIN_BAR_LENGTH = 1e-10, 1e-7
#: How near to flat a loop that can turn all around may come (a cosine): a parallelogram is flat up to rounding.
FLATNESS_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class PlanarLoop:
    """Pivots around a planar loop in their order along it, and the bars between them.

    Attributes:
        joints: per pivot its joint, as an index of `Closures`; -1 where the tree is cut.
        senses: per pivot 1 if its joint rotates the bar after it against the one before it, -1 for the opposite sense.
        bars: per pivot the bar to the next pivot with all joints at home: x + i y in the plane, divided by the loop
            size.
        corners: the three dependent pivots, as indices of `joints`; further pivots are between the first and the
            second.
        mirrored: 1 if the corners are counterclockwise at home, -1 if clockwise.
        ends: coordinates of the independent joint at which the loop is flat, on either side of home; infinite if there
            are none, and with several independent joints.
    """

    joints: tuple[int, ...]
    senses: tuple[int, ...]
    bars: tuple[complex, ...]
    corners: tuple[int, int, int]
    mirrored: int
    ends: tuple[float, float]

    @property
    def independent(self) -> int:
        """The joint that all others follow; -1 if there are several, for which `ends` is not defined."""
        free = [i for k, i in enumerate(self.joints) if k not in self.corners]
        return free[0] if len(free) == 1 else -1

    def side(self, corner: int) -> range:
        """Returns the pivots from a corner (0, 1, 2) to before the next one; n or more stands for the pivot minus n."""
        first, last = self.corners[corner], self.corners[(corner + 1) % 3]
        return range(first, last if last > first else last + len(self.joints))


def find_planar_loop(closures: Closures, group: int) -> PlanarLoop | None:
    """Returns the loop of a group of joints if it is planar with three dependent pivots, else None."""
    c, joints = closures, range(int(closures.joints[group]), int(closures.joints[group + 1]))
    loops = range(int(c.loops[group]), int(c.loops[group + 1]))
    if len(loops) != 1 or c.rows[loops[0]] == 1 or any(c.slides[i] for i in joints):
        return None
    (loop,) = loops
    poses, end = _placements_at_home(c, group)
    axes = {i: poses[i, :9].reshape(3, 3).T @ c.axes[i] for i in joints}
    sides = [_joints_inward(c, int(joint)) for joint in c.sides[loop]]
    normal = axes[joints[0]]
    every = [*axes.values(), *([end[6:9]] if c.rows[loop] == 5 else [])]
    if any(np.linalg.norm(np.cross(normal, axis)) > PARALLEL_TOLERANCE for axis in every):
        return None

    across = np.cross(normal, np.eye(3)[int(np.argmin(np.abs(normal)))])
    across /= np.linalg.norm(across)
    along = np.cross(across, normal)

    def flat(point: Array) -> complex:
        return complex(point @ along, point @ across) / float(c.size[group])

    # Out along one side, over the cut, and back along the other.
    around = sides[0][::-1] + ([-1] if c.rows[loop] < 6 else []) + sides[1]
    turns = [1] * len(sides[0]) + ([1] if c.rows[loop] < 6 else []) + [-1] * len(sides[1])
    senses = [t if i < 0 else t * round(float(axes[i] @ normal)) for i, t in zip(around, turns, strict=True)]
    points = [flat(end[9:] if i < 0 else poses[i, 9:]) for i in around]
    bars = [b - a for a, b in zip(points, points[1:] + points[:1], strict=True)]
    following = [k for k, i in enumerate(around) if i < 0 or c.own[i] < 0]
    if len(following) != 3:
        return None
    # The longest chain of other pivots lies between the first two.
    gaps = [(following[(k + 1) % 3] - following[k]) % len(around) for k in range(3)]
    first = int(np.argmax(gaps))
    corners = following[first], following[(first + 1) % 3], following[(first + 2) % 3]
    base, third = points[corners[1]] - points[corners[0]], points[corners[2]] - points[corners[1]]
    if min(abs(base), abs(third), abs(base + third)) < MIN_BAR_LENGTH:
        return None
    start = bars[corners[0]] / abs(bars[corners[0]]) if bars[corners[0]] else 1.0
    bars = [_remove_rounding(bar / start) for bar in bars]  # that bar along x: a number less
    mirrored = 1 if _cross(base, third) > 0.0 else -1
    found = PlanarLoop(tuple(around), tuple(senses), tuple(bars), corners, mirrored, (-math.inf, math.inf))
    return replace(found, ends=_flat_positions(c, found))


def _flat_positions(c: Closures, loop: PlanarLoop) -> tuple[float, float]:
    """Returns `PlanarLoop.ends`: the squared side with the pivot, ``A + B cos(t)``, is bounded by the other sides."""
    if loop.independent < 0:
        return -math.inf, math.inf
    bar_indices = [k % len(loop.joints) for k in loop.side(0)]
    a, b = (loop.bars[k] for k in bar_indices)
    others = [abs(loop.bars[loop.corners[k]]) for k in (1, 2)]
    A, B = abs(a) ** 2 + abs(b) ** 2, 2.0 * abs(a) * abs(b)
    if B == 0.0:
        return -math.inf, math.inf
    least, most = (((others[0] + sign * others[1]) ** 2 - A) / B for sign in (-1.0, 1.0))
    home = math.atan2((b / a).imag, (b / a).real)
    near = math.acos(min(most, 1.0)) if most < 1.0 + FLATNESS_TOLERANCE else None
    far = math.acos(max(least, -1.0)) if least > -1.0 - FLATNESS_TOLERANCE else None
    # |t| >= near, |t| <= far; without the first the loop passes t = 0, without the second t = pi.
    if near is None and far is None:
        return -math.inf, math.inf
    if near is None:
        assert far is not None
        low, high = -far, far
    else:
        low, high = near, (2.0 * math.pi - near if far is None else far)
        if home < 0.0:
            low, high = -high, -low
    sense = loop.senses[bar_indices[1]]
    ends = sorted(float(c.home[loop.independent]) + sense * (t - home) for t in (low, high))
    return ends[0], ends[1]


def _cross(a: complex, b: complex) -> float:
    return (a.conjugate() * b).imag


def _remove_rounding(x: complex) -> complex:
    """Returns `x` without parts that are rounding errors relative to the loop size."""
    return complex(*(0.0 if abs(part) < 1e-16 else part for part in (x.real, x.imag)))


def _joints_inward(c: Closures, joint: int) -> list[int]:
    """Returns the joints from this one inward."""
    out = []
    while joint >= 0:
        out.append(joint)
        joint = int(c.parent[joint])
    return out


def _placements_at_home(c: Closures, group: int) -> tuple[Array, Array]:
    """Returns placements (n, 12) of a group's joints and (12,) of its last loop's closing point, in its base body."""
    work, rows = make_closure_workspace(c), int(c.rows.sum())
    loop_residual(c, work, group, c.home, np.zeros((rows, len(c.q))), np.zeros(rows))
    return work.poses, work.ends[0]


#: How far from where a loop is flat it closes for sure [rad].
END_MARGIN = 1e-3
#: Rows of each kind of loop.
CONSTRAINT_COUNTS = {"point": 3, "revolute": 5, "weld": 6, "gear": 1}


class LoopCoupling:
    """Relation between the coordinates of all joints and those of the independent ones, with closed loops.

    ``q_all = gamma(q)`` on the branch of home, ``v_all = G(q) v`` and ``a_all = G a + g(q, v)`` (Featherstone, *Rigid
    Body Dynamics Algorithms*, 2008, section 3.2: an explicit constraint).

    Attributes:
        loops: loops of the tree, and mimic joints as loops of the kind "gear" with one constraint.
        followers: text for messages about each dependent joint, by its name.
        closures: the loops as arrays.
        planar: by group of joints, the loop if it is planar with a closed-form solution, else None.
        q_from, v_from: (nq_all,), (nv_all,) the entry of q or v for each entry of q_all or v_all; -1 for dependent
            joints.
        q_index, v_index: (nq,), (nv,) indices of the entries of q and v in q_all and v_all.
        has_loops: True; False for `MimicCoupling`.
    """

    has_loops: ClassVar[Literal[True]] = True

    def __init__(self, loops: Sequence[KinematicLoop], followers: Mapping[str, str], closures: Closures) -> None:
        self.loops, self.closures = tuple(loops), closures
        gears = {loop.name for loop in loops if loop.kind == "gear"}
        self.followers = {
            name: f"is moved by {loop}" if loop in gears else f"is moved by loop {loop!r}"
            for name, loop in followers.items()
        }
        self.q_index, self.v_index = index_array(closures.q_index), index_array(closures.v_index)
        sizes = [len(at) + int((closures.own < 0).sum()) for at in (self.q_index, self.v_index)]
        self.q_from, self.v_from = (
            _inverse_index(at, n) for at, n in zip((self.q_index, self.v_index), sizes, strict=True)
        )
        self._last: tuple[bytes, Tangent, int] = b"", Tangent(np.zeros(0), np.zeros((0, 0))), -1
        self._reach = _moving_entries(closures)
        self.planar: tuple[PlanarLoop | None, ...] = tuple(
            find_planar_loop(closures, g) for g in range(len(closures.size))
        )
        self._clear = _closed_intervals(closures, self.planar)

    def at(self, q: Array) -> Tangent:
        """Returns the coordinates of all joints at q (nq,), and their tangent; NaN if a loop does not close."""
        return self._found(q)[0]

    def _found(self, q: Array) -> tuple[Tangent, int]:
        """Returns the result of `at`, and a loop that does not close, or -1; the result for the last q is cached."""
        q = np.ascontiguousarray(q, dtype=np.float64)
        key, last = q.tobytes(), self._last  # replaced as a whole: threads see one or the other
        if last[0] != key:
            last = self._last = key, *self._close(q)
        return last[1], last[2]

    def configuration(self, q: Array) -> Array:
        """Returns the coordinates (..., nq_all) of all joints at q (..., nq)."""
        q = np.asarray(q, dtype=np.float64)
        if q.ndim == 1:
            return self.at(q).q
        rows = [self._close(np.ascontiguousarray(row))[0].q for row in q.reshape(-1, q.shape[-1])]
        return np.array(rows).reshape(*q.shape[:-1], len(self.q_from))

    def closes(self, q: Array) -> bool:
        """Returns whether all loops close at q (nq,), on the branch of home."""
        if self._clear is not None:
            index, low, high = self._clear
            angles = np.asarray(q, dtype=np.float64)[index]
            if ((low < angles) & (angles < high)).all():
                return True
        return self._found(q)[1] < 0

    def check(self, q: Array) -> None:
        """Raises an error for a configuration at which a loop does not close.

        Raises:
            ArgumentError: naming the loop.
        """
        if not self.closes(q):
            loop = self.loops[self._found(q)[1]]
            raise ArgumentError(
                f"q: loop {loop.name!r} does not close at q on the branch of home: no motion of its joints "
                "leads from home to q; keep the independent joints within robot.lower and robot.upper"
            )

    @property
    def spatial(self) -> KinematicLoop | None:
        """A loop without a closed-form solution; None if there is none."""
        return next((self.loops[self.closures.loops[g]] for g, x in enumerate(self.planar) if x is None), None)

    def alike(self, other: LoopCoupling) -> bool:
        """Returns whether all arrays are equal to those of another coupling."""
        return all(np.array_equal(a, b) for a, b in zip(self.closures, other.closures, strict=True))

    def chain(self, entries: Iterable[int]) -> list[int]:
        """Returns the entries of v that these entries of v_all follow, ascending."""
        return sorted({k for entry in entries for k in self._reach[int(entry)]})

    def residual(self, q_all: Array) -> float:
        """Returns the largest closure error of the loops with all joints at q_all (nq_all,) [m, rad]."""
        work, c = make_closure_workspace(self.closures), self.closures
        K, e = np.zeros((int(c.rows.sum()), len(c.q))), np.zeros(int(c.rows.sum()))
        max_error = 0.0
        for g, size in enumerate(c.size):
            e[:] = 0.0
            loop_residual(c, work, g, np.ascontiguousarray(q_all[c.q]), K, e)
            max_error = max(max_error, float(np.abs(e).max()) * max(float(size), 1.0))
        return max_error

    def _close(self, q: Array) -> tuple[Tangent, int]:
        c, work = self.closures, make_closure_workspace(self.closures)
        q_all, G = np.empty(len(self.q_from)), np.empty((len(self.v_from), len(self.v_index)))
        failed = close_loops(c, work, q, q_all, G)
        return LoopTangent(q_all, G, c, work), failed


class LoopTangent(Tangent):
    """Tangent of closed loops at a configuration."""

    def __init__(self, q: Array, G: Array, closures: Closures, work: ClosureWorkspace) -> None:
        super().__init__(q, G)
        self._closures, self._workspace = closures, work

    def drift(self, v: Array) -> Array:
        """Returns the accelerations (nv_all,) of all joints at v and ``a = 0``."""
        out, v_all = np.empty(len(self.G)), self.velocity(v)
        loop_drift(self._closures, make_closure_workspace(self._closures), self.q, v_all, out)
        return out

    def rate(self, v: Array) -> Array:
        """Returns the time derivative (nv_all, nv) of G, with ``v_all = G v``, at v.

        Column k is a quarter of ``drift(v + e_k) - drift(v - e_k)``, which is exact as the drift is quadratic in v.
        """
        columns = [0.25 * (self.drift(v + e) - self.drift(v - e)) for e in np.eye(len(v))]
        return np.stack(columns, axis=1)


def _closed_intervals(c: Closures, planar: Sequence[PlanarLoop | None]) -> tuple[Index, Array, Array] | None:
    """Returns entries of q, and the intervals in which every loop certainly closes; None if unknown for a loop."""
    found: list[tuple[int, float, float]] = []
    for loop in planar:
        if loop is None or loop.independent < 0:
            return None
        low, high = loop.ends
        found.append((int(np.flatnonzero(c.q_index == c.q[loop.independent])[0]), low + END_MARGIN, high - END_MARGIN))
    index, lows, highs = zip(*found, strict=True)
    return index_array(index), np.array(lows), np.array(highs)


def _inverse_index(index: Index, size: int) -> Index:
    out = np.full(size, -1, dtype=np.intp)
    out[index] = np.arange(len(index))
    return index_array(out)


def _moving_entries(c: Closures) -> list[tuple[int, ...]]:
    """Returns, per entry of v_all, the entries of v that move it."""
    out: list[tuple[int, ...]] = [
        (int(k),) for k in _inverse_index(index_array(c.v_index), len(c.v_index) + int((c.own < 0).sum()))
    ]
    for g in range(len(c.size)):
        group = range(c.joints[g], c.joints[g + 1])
        movers = tuple(int(c.own[i]) for i in group if c.own[i] >= 0)
        for i in group:
            if c.own[i] < 0:
                out[int(c.v[i])] = movers
    return out


# -- making ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class LoopCut:
    """Cut of a loop: by side, the number of the joint that carries the frame, and its placement (12,) there."""

    loop: KinematicLoop
    joints: tuple[int, int]
    placements: tuple[Array, Array]


def cut_loops(model: pin.Model, loops: Iterable[KinematicLoop]) -> list[LoopCut]:
    """Returns the cuts of loops in the joint numbers of a model."""
    out = []
    for loop in loops:
        frames = [model.frames[model.getFrameId(link, pin.FrameType.BODY)] for link in (loop.link_a, loop.link_b)]
        placed = [
            frame.placement * pin.SE3(at.rotation.copy(), at.translation.copy())
            for frame, at in zip(frames, (loop.placement_a, loop.placement_b), strict=True)
        ]
        a, b = (int(frame.parentJoint) for frame in frames)
        out.append(LoopCut(loop, (a, b), (_flatten_placement(placed[0]), _flatten_placement(placed[1]))))
    return out


def mimic_constraints(model: pin.Model, joints: Iterable[Joint]) -> list[LoopCut]:
    """Returns mimic joints in the joint numbers of a model, as loops with a single constraint."""
    out = []
    for joint in joints:
        if joint.mimic is not None:
            name, here = f"<mimic joint={joint.mimic.joint!r}>", Pose.of(np.eye(3), np.zeros(3))
            loop = KinematicLoop(name, "gear", joint.child, joint.child, here, here, (), joint.where)
            ends = int(model.getJointId(joint.mimic.joint)), int(model.getJointId(joint.name))
            out.append(
                LoopCut(loop, ends, (np.array([joint.mimic.multiplier, joint.mimic.offset, *[0.0] * 10]), np.zeros(12)))
            )
    return out


def loop_branches(model: pin.Model, cut: LoopCut) -> tuple[list[int], list[int], int]:
    """Returns the joints of both sides of a loop, outermost first, and the joint whose body they start from."""
    a, b = (_ancestors(model, joint) for joint in cut.joints)
    base = next(joint for joint in a if joint in set(b))
    return a[: a.index(base)], b[: b.index(base)], base


def group_loops(model: pin.Model, found: Sequence[LoopCut]) -> list[tuple[list[LoopCut], list[int], int]]:
    """Returns groups of loops that share joints: loops, joints (parents first), and the joint at their base."""
    around = {id(cut): _involved_joints(model, cut) for cut in found}
    left = [([cut], around[id(cut)]) for cut in found]
    joined: list[tuple[list[LoopCut], set[int]]] = []
    for of, joints in left:
        for other in [each for each in joined if each[1] & joints]:
            joined.remove(other)
            of, joints = other[0] + of, other[1] | joints
        joined.append((of, joints))
    out = []
    for of, every in joined:
        joints = set().union(*(around[id(cut)] for cut in of if cut.loop.kind != "gear"))
        if not joints:
            out.append((of, sorted(every), 0))
            continue
        trail = [joint for joint in _ancestors(model, min(joints)) if joint not in joints]
        # Every joint between the group's base and its ends counts, also one that two loops have before they part.
        base = next(b for b in trail if all(b in _ancestors(model, j) for j in joints))
        between = {k for j in joints for k in _ancestors(model, j)[: _ancestors(model, j).index(base)]}
        out.append((sorted(of, key=found.index), sorted(between) + sorted(every - between), base))
    members = [joint for _, group, _ in out for joint in group]
    for cut in found:
        if shared := [model.names[joint] for joint in around[id(cut)] if members.count(joint) > 1]:
            raise ModelError(
                f"{cut.loop.where}: joint {shared[0]!r} lies before two loops of which only one contains a joint that "
                "it mimics or that mimics it; load the robot with mimic=False, or leave loops open by loops=False"
            )
    return out


def _involved_joints(model: pin.Model, cut: LoopCut) -> set[int]:
    """Returns the joints of a loop: those of both branches, or the two of a gear."""
    if cut.loop.kind == "gear":
        return set(cut.joints)
    a, b, _ = loop_branches(model, cut)
    return {*a, *b}


def make_closures(
    model: pin.Model, found: Sequence[LoopCut], home: Array, dependent: Iterable[str], joints: Mapping[str, Joint]
) -> tuple[list[LoopCut], Closures]:
    """Returns the loops as arrays, and the loops in the order of these arrays.

    Args:
        model: Pinocchio model of all joints.
        found: the loops.
        home: (nq_all,) configuration in which they are closed.
        dependent: names of the dependent joints.
        joints: joints of the tree, by name.
    """
    names, following = list(model.names), set(dependent)
    free_q = np.ones(model.nq, dtype=np.bool_)
    free_v = np.ones(model.nv, dtype=np.bool_)
    for name in following:
        joint = model.joints[names.index(name)]
        free_q[joint.idx_q], free_v[joint.idx_v] = False, False
    own_v = np.cumsum(free_v) - 1
    order: list[LoopCut] = []
    starts, loop_starts, sizes, numbers = [0], [0], [], []
    rows: list[list[float]] = []
    axes, sides, frames = [], [], []
    for of, group, base in group_loops(model, found):
        order += of
        index = {joint: starts[-1] + k for k, joint in enumerate(group)}
        local = index | {base: -1}  # also where the base's own joint is one that others mimic
        counts = [0, 0]
        placements = []
        for joint in group:
            j, name = model.joints[joint], names[joint]
            follows = name in following
            numbers.append((
                j.idx_q, j.idx_v, -1 if follows else own_v[j.idx_v], counts[follows],
                local.get(int(model.parents[joint]), -1), int(joints[name].type == "prismatic"),
            ))  # fmt: skip
            counts[follows] += 1
            placements.append(model.jointPlacements[joint])
            rows.append(_flatten_placement(placements[-1]).tolist())
            axes.append(joints[name].axis)
        for cut in of:
            sides.append([(index if cut.loop.kind == "gear" else local)[joint] for joint in cut.joints])
            frames += list(cut.placements)
        lengths = [float(np.linalg.norm(at[9:])) for cut in of for at in cut.placements]
        lengths += [float(np.linalg.norm(p.translation)) for p, joint in zip(placements, group, strict=True)]
        sizes.append(1.0 if all(cut.loop.kind == "gear" for cut in of) else max(max(lengths), 1e-6))
        starts.append(starts[-1] + len(group))
        loop_starts.append(loop_starts[-1] + len(of))
    columns = np.array(numbers, dtype=np.int64).reshape(-1, 6).T.copy()
    q, v, own, column, parent, slides = (_int_array(x) for x in columns)
    return order, Closures(
        _int_array(starts), _int_array(loop_starts), np.array(sizes), q, v, own, column, parent, slides,
        np.array(rows).reshape(-1, 12), np.array(axes).reshape(-1, 3), np.ascontiguousarray(home[q]),
        np.array(sides, dtype=np.int64).reshape(-1, 2), np.array(frames).reshape(-1, 12),
        _int_array([CONSTRAINT_COUNTS[cut.loop.kind] for cut in order]),
        _int_array(np.flatnonzero(free_q)), _int_array(np.flatnonzero(free_v)),
    )  # fmt: skip


def loop_coupling(model: pin.Model, tree: Tree, q_home: Array) -> LoopCoupling:
    """Returns the coupling of a tree with closed loops."""
    followers = {joint.name: joint.loop for joint in tree.joints if joint.loop is not None}
    q_all = np.full(model.nq, np.nan)
    for joint in tree.joints:
        if joint.loop is not None:
            q_all[model.joints[model.getJointId(joint.name)].idx_q] = joint.at_home
    q_all[np.isnan(q_all)] = q_home
    order, numbers = make_closures(
        model,
        cut_loops(model, tree.loops) + mimic_constraints(model, tree.joints),
        q_all,
        followers,
        tree.joints_by_name,
    )
    return LoopCoupling([cut.loop for cut in order], followers, numbers)


def _int_array(values: object) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def _flatten_placement(at: pin.SE3) -> Array:
    return np.array([*at.rotation.ravel(order="F"), *at.translation])


def _ancestors(model: pin.Model, joint: int) -> list[int]:
    """Returns a joint and all joints before it, the world (0) last."""
    out = [joint]
    while out[-1]:
        out.append(int(model.parents[out[-1]]))
    return out
