"""Closes kinematic loops: converts a robot with open branches, and the loops between them, to one with closed loops.

Before loops are closed, their home configuration, the rank of their constraints and the dependent joints are
determined.  The range of an independent joint is where the loops close within the limits of all joints.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike, NDArray

from ..errors import ArgumentError, ModelError, UnknownNameError
from ..urdf.loops import rotation_of_z_to
from ..urdf.reader import parse
from ..urdf.tree import Array, Finding, Joint, KinematicLoop, Limits, Pose, Tree, Where, first_largest, frozen
from .arguments import check_sequence, check_vector
from .bodies import merge_fixed_links
from .home import make_legs, validate_home
from .legs import make_limbs
from .loop_solver import loop_residual, make_closure_workspace
from .loops import LoopCoupling, LoopCut, cut_loops, loop_branches, make_closures, mimic_constraints
from .model import add_feet, build_pinocchio_model, independent_joint_losses
from .robot import Robot
from .source import insert_element

Mask = NDArray[np.bool_]

#: Iterations of Gauss and Newton's method, the longest of its steps, and the residual at its end (of the loop's size).
MAX_ITERATIONS, MAX_STEP, CLOSURE_TOLERANCE = 200, 0.3, 1e-13
#: Correction of a loop that does not close exactly at which the iteration ends.
MIN_CORRECTION = 1e-9
#: Residual at zero coordinates up to which a file was drawn with closed loops.
ZERO_CLOSURE_TOLERANCE = 1e-6
#: Residual up to which redundant loops count as closed where they cannot all close exactly, because of rounded numbers;
#: singular values of K that rounding leaves of zeros, as fractions of the largest.
ROUNDED_CLOSURE_TOLERANCE, ROUNDED_RANK_TOLERANCE = 1e-6, 1e-5
#: Number of steps from there to the requested home.
N_CONTINUATION_STEPS = 60
#: Singular values of K, as fractions of the largest: nonzero above the first, zero below the second, ambiguous between.
MIN_NONZERO_SINGULAR_VALUE, MAX_ZERO_SINGULAR_VALUE = 1e-4, 1e-7
#: A column of K is independent of others if more than this fraction of it is orthogonal to them.
INDEPENDENCE_TOLERANCE = 1e-3
#: Disturbances of home, and how many are tried.
PERTURBATION, N_PERTURBATIONS = 0.05, 6


class LoopAnalysis:
    """Loops and joints of a robot before its loops are closed.

    Args:
        model: Pinocchio model of all joints.
        found: the loops.
        q_all: (nq_all,) home configuration of the open tree.
        joints: joints of the tree, by name.
        actuated: names of joints with motors.
        legs: names of joints of legs.
    """

    def __init__(
        self,
        model: pin.Model,
        found: Sequence[LoopCut],
        q_all: Array,
        joints: Mapping[str, Joint],
        actuated: Collection[str],
        legs: Collection[str],
    ) -> None:
        self.q_all = q_all
        self.cuts, self.numbers = make_closures(model, found, q_all, (), joints)
        self.work = make_closure_workspace(self.numbers)
        by_q = {model.joints[i].idx_q: model.names[i] for i in range(1, model.njoints)}
        self.names = [by_q[int(at)] for at in self.numbers.q]
        self.joints, self.actuated, self.legs = joints, actuated, legs
        #: Groups whose loops close only up to the rounding of the file.
        self.rounded: set[int] = set()

    def is_closed(self, g: int, residual: float) -> bool:
        """Returns whether a group with this residual counts as closed."""
        return residual <= (ROUNDED_CLOSURE_TOLERANCE if g in self.rounded else CLOSURE_TOLERANCE)

    def linear(self, g: int, x: Array) -> tuple[Array, Array]:
        """Returns K by the group's joints, with lengths divided by the loop size, and e."""
        c = self.numbers
        rows = self.rows(g)
        K, e = np.zeros((rows, len(c.q))), np.zeros(rows)
        loop_residual(c, self.work, g, np.ascontiguousarray(x), K, e)
        return K[:, self.members(g)] * self.scale(g), e

    def members(self, g: int) -> slice:
        """Returns the joints of a group as a slice."""
        return slice(int(self.numbers.joints[g]), int(self.numbers.joints[g + 1]))

    def rows(self, g: int) -> int:
        """Returns the number of constraints of a group."""
        return int(self.numbers.rows[self.numbers.loops[g] : self.numbers.loops[g + 1]].sum())

    def scale(self, g: int) -> Array:
        """Returns, per joint of the group, the unit of its coordinate: the loop size if prismatic, otherwise 1."""
        return np.where(self.numbers.slides[self.members(g)] == 1, self.numbers.size[g], 1.0)

    def solve(self, g: int, x: Array, free: Mask) -> tuple[Array, float]:
        """Returns coordinates near x at which the group is closed, and the residual; only `free` joints move."""
        x = x.copy()
        part = x[self.members(g)]  # a view
        best, closed = np.inf, False
        for _ in range(MAX_ITERATIONS):
            K, e = self.linear(g, x)
            size = float(np.abs(e).max())
            best = min(best, size)
            if closed or not np.isfinite(size):
                return x, size
            move = np.linalg.lstsq(K[:, free], -e, rcond=ROUNDED_RANK_TOLERANCE)[0]
            # and once more, to the last digit
            closed = size <= CLOSURE_TOLERANCE or (
                g in self.rounded and self.is_closed(g, size) and float(np.abs(move).max()) < MIN_CORRECTION
            )
            move *= min(1.0, MAX_STEP / max(float(np.abs(move).max()), 1e-300))
            part[free] += move * self.scale(g)[free]
        return x, best


@dataclass(frozen=True)
class ClosedGroup:
    """Loops that share joints: names of their dependent and independent joints, rank, and number of constraints.

    `gap` is the distance that rounding in the file leaves between the frames at home [m]; 0 for exact loops.
    """

    cuts: tuple[LoopCut, ...]
    dependent: tuple[str, ...]
    independent: tuple[str, ...]
    rank: int
    rows: int
    gap: float = 0.0


@dataclass(frozen=True)
class LoopVerdict:
    """Home (nq_all,) of the loops, `followers` (the loop by dependent joint), and the largest `residual` there [m]."""

    q_all: Array
    followers: Mapping[str, str]
    groups: tuple[ClosedGroup, ...]
    residual: float


def validate_loops(assembly: LoopAnalysis) -> LoopVerdict:
    """Finds the home configuration and the dependent joints of all loops.

    Raises:
        ModelError: a loop that does not close, is singular at home, or whose rank is undetermined there.
    """
    c = assembly.numbers
    x, found, worst = np.ascontiguousarray(c.home.copy()), [], 0.0
    followers: dict[str, str] = {}
    for g in range(len(c.size)):
        cuts = tuple(assembly.cuts[c.loops[g] : c.loops[g + 1]])
        try:
            x, residual, rank = _find_home_and_rank(assembly, g, x, cuts)
        except ModelError:
            assembly.rounded.add(g)
            try:
                x, residual, rank = _find_home_and_rank(assembly, g, x, cuts)
            except ModelError:
                assembly.rounded.remove(g)
            if g not in assembly.rounded:
                raise
        worst = max(worst, residual * float(c.size[g]))
        names = assembly.names[assembly.members(g)]
        K, _ = assembly.linear(g, x)
        chosen = _choose_dependent_joints(assembly, names, K, rank, cuts, _mimic_joints(assembly, g))
        followers |= dict.fromkeys(chosen, cuts[0].loop.name)
        others = tuple(name for name in names if name not in chosen)
        gap = residual * float(c.size[g]) if g in assembly.rounded else 0.0
        found.append(ClosedGroup(cuts, tuple(chosen), others, rank, assembly.rows(g), gap))
    q_all = assembly.q_all.copy()
    q_all[c.q] = x
    return LoopVerdict(q_all, followers, tuple(found), worst)


def _find_home_and_rank(assembly: LoopAnalysis, g: int, x: Array, cuts: Sequence[LoopCut]) -> tuple[Array, float, int]:
    """Returns closed coordinates near home, the residual, and the rank of K there."""
    x, residual = _find_home(assembly, g, x, cuts)
    return x, residual, _constraint_rank(assembly, g, x, cuts)


def _find_home(assembly: LoopAnalysis, g: int, x: Array, cuts: Sequence[LoopCut]) -> tuple[Array, float]:
    """Returns closed coordinates as close to home as possible, on the branch of zero if it closes there."""
    names = assembly.names[assembly.members(g)]
    everything = np.ones(len(names), dtype=np.bool_)
    on_legs = np.array([name in assembly.legs for name in names])
    driven = np.array([name in assembly.actuated for name in names])
    tries = [~held for held in (on_legs, driven) if held.any() and not held.all()]
    zero = x.copy()
    zero[assembly.members(g)] = 0.0
    for m in range(int(assembly.numbers.loops[g]), int(assembly.numbers.loops[g + 1])):
        if assembly.numbers.rows[m] == 1:
            zero[assembly.numbers.sides[m, 1]] = assembly.numbers.frames[2 * m, 1]
    best = np.inf
    _, e = assembly.linear(g, zero)
    if np.abs(e).max() < ZERO_CLOSURE_TOLERANCE and _axes_are_aligned(assembly, g, zero, cuts):
        start, residual = assembly.solve(g, zero, everything)
        if assembly.is_closed(g, residual) and not _is_singular(assembly, g, start):
            for free in tries:
                reached = _continue_to(assembly, g, start, x, free)
                if reached is not None:
                    return reached
            return start, residual
    for begin in (x, zero):
        for free in (*tries, everything):
            there, residual = assembly.solve(g, begin, free)
            if assembly.is_closed(g, residual) and _axes_are_aligned(assembly, g, there, cuts):
                return there, residual
            best = min(best, residual)
    loop = cuts[0].loop
    raise ModelError(
        f"{loop.where}: loop {loop.name!r} does not close: the frames on {loop.link_a!r} and {loop.link_b!r} stay "
        f"{best * float(assembly.numbers.size[g]):.3g} m (or rad) apart near home; correct them, or "
        "leave the loop open by loops=False"
    )


def _continue_to(assembly: LoopAnalysis, g: int, start: Array, target: Array, free: Mask) -> tuple[Array, float] | None:
    """Moves the joints that are not free to their target; the free joints keep the loop closed."""
    at, x, held = assembly.members(g), start.copy(), ~free
    residual = np.inf
    for k in range(1, N_CONTINUATION_STEPS + 1):
        before = x.copy()
        x[at][held] = start[at][held] + k / N_CONTINUATION_STEPS * (target[at][held] - start[at][held])
        x, residual = assembly.solve(g, x, free)
        if not assembly.is_closed(g, residual) or np.abs(x[at] - before[at]).max() > 0.5:
            return None
    return x, residual


def _axes_are_aligned(assembly: LoopAnalysis, g: int, x: Array, cuts: Sequence[LoopCut]) -> bool:
    """Returns whether axes that must be parallel point in the same direction; e vanishes for opposite axes, too."""
    assembly.linear(g, x)
    poses, c = assembly.work.poses, assembly.numbers
    for k, cut in enumerate(cuts):
        if cut.loop.kind == "gear":
            continue
        m = int(c.loops[g]) + k
        ends = []
        for side in range(2):
            joint, frame = int(c.sides[m, side]), c.frames[2 * m + side, :9].reshape(3, 3).T
            ends.append(frame if joint < 0 else poses[joint, :9].reshape(3, 3).T @ frame)
        along = np.diag(ends[0].T @ ends[1])
        if {"point": False, "revolute": along[2] < 0.0, "weld": bool((along < 0.0).any())}[cut.loop.kind]:
            return False
    return True


def _constraint_rank(assembly: LoopAnalysis, g: int, x: Array, cuts: Sequence[LoopCut]) -> int:
    """Returns the rank of K at home; it must be well determined and equal to that of closed states nearby."""
    loop, n = cuts[0].loop, len(assembly.names[assembly.members(g)])
    here = _singular_values(assembly, g, x)
    rng, near = np.random.default_rng(0), []
    everything = np.ones(n, dtype=np.bool_)
    for _ in range(N_PERTURBATIONS):
        there = x.copy()
        there[assembly.members(g)] += PERTURBATION * rng.normal(size=n) * assembly.scale(g)
        there, residual = assembly.solve(g, there, everything)
        if assembly.is_closed(g, residual):
            near.append(_singular_values(assembly, g, there))
    ranks = [int((values > MIN_NONZERO_SINGULAR_VALUE).sum()) for values in near]
    rank = int((here > MIN_NONZERO_SINGULAR_VALUE).sum())
    if not near or max(ranks) == n:
        raise ModelError(f"{loop.where}: loop {loop.name!r} locks all of its joints; change them to fixed joints")
    if rank < max(ranks):
        raise ModelError(
            f"{loop.where}: loop {loop.name!r} is singular at home: its constraints have rank {rank} at home and "
            f"{max(ranks)} at neighboring configurations, so that its motion from home is ambiguous; pass another "
            "q_home="
        )
    max_zero = ROUNDED_RANK_TOLERANCE if g in assembly.rounded else MAX_ZERO_SINGULAR_VALUE
    unclear = here[(here > max_zero) & (here <= MIN_NONZERO_SINGULAR_VALUE)]
    if len(unclear):
        raise ModelError(
            f"{loop.where}: the rank of loop {loop.name!r} is unclear at home: a singular value of its constraints is "
            f"{unclear[0]:.2g} of the largest; correct frames that are nearly in line, or pass another q_home="
        )
    return rank


def _singular_values(assembly: LoopAnalysis, g: int, x: Array) -> Array:
    """Returns the singular values of the constraint Jacobian of loop group `g` at `x`, divided by the largest."""
    values = np.linalg.svd(assembly.linear(g, x)[0], compute_uv=False)
    return np.asarray(values / max(float(values[0]), 1e-300))


def _is_singular(assembly: LoopAnalysis, g: int, x: Array) -> bool:
    """Returns whether the rank is higher in the neighborhood."""
    rng = np.random.default_rng(1)
    there = x.copy()
    there[assembly.members(g)] += PERTURBATION * rng.normal(size=len(assembly.scale(g))) * assembly.scale(g)
    there, residual = assembly.solve(g, there, np.ones(len(assembly.scale(g)), dtype=np.bool_))
    ranks = [int((_singular_values(assembly, g, at) > 1e-3).sum()) for at in (x, there)]
    return bool(assembly.is_closed(g, residual) and ranks[0] < ranks[1])


def _mimic_joints(assembly: LoopAnalysis, g: int) -> list[str]:
    """Returns the joints of a group that mimic others."""
    c = assembly.numbers
    return [assembly.names[c.sides[m, 1]] for m in range(int(c.loops[g]), int(c.loops[g + 1])) if c.rows[m] == 1]


def _choose_dependent_joints(
    assembly: LoopAnalysis, names: Sequence[str], K: Array, rank: int, cuts: Sequence[LoopCut], mimics: Sequence[str]
) -> list[str]:
    """Returns the dependent joints: those that mimic or that loops name, else without motors, else outside legs."""
    loop = cuts[0].loop
    given = list(dict.fromkeys(name for cut in cuts for name in cut.loop.dependent))
    if given:
        given = list(dict.fromkeys((*mimics, *given)))
        if strange := [name for name in given if name not in names]:
            raise ModelError(
                f"{loop.where}: dependent: {strange[0]!r} is not a joint of loop {loop.name!r}; its joints: "
                f"{', '.join(names)}"
            )
        found = _independent_columns(K, [[names.index(name) for name in given]], rank)
        if len(given) != rank or len(found) != rank:
            raise ModelError(
                f"{loop.where}: dependent: expected {rank} joints of loop {loop.name!r} whose motion follows from "
                f"its other joints; {', '.join(given)} cannot be these; joints of the loop: {', '.join(names)}"
            )
        return [name for name in names if name in given]
    order = [
        [k for k, name in enumerate(names) if name in mimics],
        [k for k, name in enumerate(names) if name not in assembly.actuated],
        [k for k, name in enumerate(names) if name in assembly.actuated and name not in assembly.legs],
        [k for k, name in enumerate(names) if name in assembly.actuated and name in assembly.legs],
    ]
    found = _independent_columns(K, order, rank)
    return [name for k, name in enumerate(names) if k in found]


def _independent_columns(K: Array, classes: Iterable[Iterable[int]], rank: int) -> list[int]:
    """Returns up to `rank` independent columns of K, class after class, the longest remainder first."""
    rest, found = K.copy(), list[int]()
    for each in classes:
        left = list(each)
        while left and len(found) < rank:
            k = left[first_largest(np.linalg.norm(rest[:, left], axis=0))]
            length = float(np.linalg.norm(rest[:, k]))
            if length <= INDEPENDENCE_TOLERANCE * float(np.linalg.norm(K[:, k])):
                break
            rest -= np.outer(rest[:, k], rest[:, k] @ rest) / length**2
            found.append(k)
            left.remove(k)
    return found


#: Number of samples between home and an end of a joint's range, and halvings where a loop stops closing.
N_SAMPLES, N_HALVINGS = 24, 12
#: Rays to each side of the box of several joints' ranges, about: it can be narrower anywhere, not at its corners alone.
RAYS_PER_SIDE = 24.0
#: Largest number of corners of a cube of independent joints in which all of its surface is searched.
MAX_CORNERS = 64
#: Fraction of a range that stays free where it ends because a loop cannot close beyond: there G grows without bound.
RANGE_MARGIN = 0.05
#: Joints without a range are tried this far on each side of home [rad], lengths in loop sizes.
UNBOUNDED_JOINT_RANGE = 2.0 * np.pi
#: Distance beyond its range at which a joint counts as within it [rad, m]: what closing a loop leaves.
LIMIT_TOLERANCE = 1e-9
#: A range that is narrower is none [rad], or [sizes of the loop].
MIN_RANGE = 1e-3


def limit_to_closed_range(
    model: pin.Model, coupling: LoopCoupling, q: Array, joints: Mapping[str, Joint], findings: list[Finding]
) -> dict[str, Joint]:
    """Returns the independent joints of loops, their limits narrowed to where the loops close within all limits."""
    c, out = coupling.closures, {}
    names = {model.joints[i].idx_q: model.names[i] for i in range(1, model.njoints)}
    for g in range(len(c.size)):
        group = range(c.joints[g], c.joints[g + 1])
        bounds = _RangeSearch(
            coupling,
            [
                (int(c.q[i]), joints[names[int(c.q[i])]].limits)
                for i in group
                if c.own[i] < 0 and joints[names[int(c.q[i])]].mimic is None
            ],
            q,
        )  # the joint that it mimics has the range
        leaders = [(int(coupling.q_from[c.q[i]]), joints[names[int(c.q[i])]]) for i in group if c.own[i] >= 0]
        reach = np.array([_search_width(q[at], joint.limits, c.size[g], joint.type) for at, joint in leaders]).reshape(
            -1, 2
        )
        if len(leaders) == 1:
            fractions = np.array(
                [[bounds.feasible_fraction(leaders, reach, np.array([[side]])) for side in (-1.0, 1.0)]]
            )
        else:
            fractions = np.full(
                (len(leaders), 2), bounds.feasible_fraction(leaders, reach, _cube_surface(len(leaders)))
            )
        if bounds.jams and not fractions.any():
            loop = coupling.loops[c.loops[g]]
            raise ModelError(
                f"{loop.where}: loop {loop.name!r} closes only at home and not after any motion of "
                f"{' or '.join((repr(joint.name) for _, joint in leaders))}; correct the frames and axes of its "
                "joints, or leave it open by loops=False"
            )
        for (at, joint), (below, above), (left, right) in zip(leaders, reach, fractions, strict=True):
            range_text = f"[{joint.limits.lower:.4g}, {joint.limits.upper:.4g}]"
            if not joint.limits.lower - LIMIT_TOLERANCE <= q[at] <= joint.limits.upper + LIMIT_TOLERANCE:
                raise ModelError(
                    f"{joint.where}: joint {joint.name!r} must be at {q[at]:.4g} for its loops to close, which is "
                    f"outside its range {range_text}; correct the range or the frames of the loops, or leave them "
                    "open by loops=False"
                )
            lower = joint.limits.lower if left == 1.0 else float(q[at] - left * below)
            upper = joint.limits.upper if right == 1.0 else float(q[at] + right * above)
            if max(left * below, right * above) < MIN_RANGE * (1.0 if joint.type != "prismatic" else c.size[g]):
                lower = upper = float(q[at])
                reason = (
                    f"the range {range_text} of {joint.name!r} is reduced to its home position, because near home "
                    "its loops do not close elsewhere within the limits of all joints"
                )
                fix = "correct the frames of the loops, or the ranges of the joints that follow"
                findings.append(Finding("warning", joint.where, reason, fix))
            elif min(left, right) < 1.0:
                reason = (
                    f"the range {range_text} is reduced to [{lower:.4g}, {upper:.4g}], where its loop closes within "
                    "all limits"
                )
                findings.append(Finding("note", joint.where, reason))
            out[joint.name] = replace(joint, limits=replace(joint.limits, lower=lower, upper=upper))
    return out


class _RangeSearch:
    """Search along rays from home for the range in which loops close and dependent joints are within their limits."""

    def __init__(self, coupling: LoopCoupling, limits: list[tuple[int, Limits]], q: Array) -> None:
        home = coupling.configuration(q)
        self.coupling, self.q, self.jams = coupling, q, False
        # A limit that home violates is left out; validation reports it.
        self.limits = [
            (at, of) for at, of in limits if of.lower - LIMIT_TOLERANCE <= home[at] <= of.upper + LIMIT_TOLERANCE
        ]

    def feasible_fraction(self, leaders: Sequence[tuple[int, Joint]], reach: Array, rays: Array) -> float:
        """Returns the fraction of the rays that is feasible; 0 if the loops jam immediately."""
        good, bad, jammed = 0.0, None, False
        for k in range(1, N_SAMPLES + 1):
            state = self.find_violation(leaders, reach, rays, k / N_SAMPLES)
            if state != "well":
                bad, jammed = k / N_SAMPLES, state == "open"
                break
            good = k / N_SAMPLES
        if bad is None:
            return 1.0
        for _ in range(N_HALVINGS):
            middle = 0.5 * (good + bad)
            state = self.find_violation(leaders, reach, rays, middle)
            if state == "well":
                good = middle
            else:
                bad, jammed = middle, state == "open"
        self.jams = self.jams or (jammed and good == 0.0)
        return good * (1.0 - RANGE_MARGIN) if jammed else good

    def find_violation(self, leaders: Sequence[tuple[int, Joint]], reach: Array, rays: Array, fraction: float) -> str:
        """Returns the first violation on the rays at a fraction, "open" or "outside", otherwise "well"."""
        for ray in rays:
            q = self.q.copy()
            for (at, _), (below, above), side in zip(leaders, reach, ray, strict=True):
                q[at] += fraction * (above if side > 0.0 else below) * side
            q_all = self.coupling.configuration(q)
            if not np.isfinite(q_all).all():
                return "open"
            if not all(of.lower - LIMIT_TOLERANCE <= q_all[at] <= of.upper + LIMIT_TOLERANCE for at, of in self.limits):
                return "outside"
        return "well"


def _cube_surface(n: int) -> Array:
    """Returns points (rays, n) on the surface of the cube [-1, 1]^n, its corners first, where loops jam soonest.

    Of a cube with more corners than `MAX_CORNERS`, these are drawn corners, the same at every call.
    """
    if 2**n > MAX_CORNERS:
        return np.random.default_rng(0).choice((-1.0, 1.0), (round(RAYS_PER_SIDE), n))
    steps = np.linspace(-1.0, 1.0, 1 + 2 * max(1, round(RAYS_PER_SIDE ** (1.0 / (n - 1)) / 2.0)))
    grid = np.stack(np.meshgrid(*[steps] * n, indexing="ij"), -1).reshape(-1, n)
    rays = grid[np.abs(grid).max(axis=1) == 1.0]
    return np.array(sorted(rays.tolist(), key=lambda ray: -sum(map(abs, ray))))


def _search_width(home: float, limits: Limits, size: float, kind: str) -> tuple[float, float]:
    """Returns the search distance below and above home."""
    far = UNBOUNDED_JOINT_RANGE if kind != "prismatic" else 4.0 * size
    ends = home - limits.lower, limits.upper - home
    below, above = (max(x, 0.0) if np.isfinite(x) else far for x in ends)
    return below, above


#: Name of each kind of loop in the file.
JOINT_TAGS = MappingProxyType({"point": "spherical", "revolute": "revolute", "weld": "fixed"})


def close_loops_of(robot: Robot, loops: Sequence[KinematicLoop], *, q_home: ArrayLike | None = None) -> Robot:
    """Returns a robot in which loops move the dependent joints.

    Args:
        robot: robot with independent joints; its existing loops are kept.
        loops: further loops to close.
        q_home: (nq,) home configuration of the closed robot, on the branch that its legs, motors or zero coordinates
            lead to.  None: the closed configuration nearest to that of the open robot.

    Raises:
        ModelError: a loop that does not close, is singular at home, or whose rank is undetermined there.
    """
    _reject_missing_ends(robot, loops)
    findings: list[Finding] = []
    q_all = robot.q_home if robot.coupling is None else robot.coupling.configuration(robot.q_home)
    tree, q_all = _merge_loops(robot, loops, q_all)
    model = _build_model(robot, tree)
    found = cut_loops(model, tree.loops)
    for cut in found:
        _reject_unsupported_shape(model, cut, tree)
    found += mimic_constraints(model, tree.joints)
    assembly = LoopAnalysis(model, found, q_all, tree.joints_by_name, robot.actuated, _leg_joints(robot))
    verdict = validate_loops(assembly)
    joints = {}
    for name, joint in tree.joints_by_name.items():
        if name in verdict.followers:
            loop = verdict.followers[name]
            if joint.damping or joint.friction:
                reason = "damping and friction of a joint that a closed loop moves are ignored"
                findings.append(Finding("warning", joint.where, reason, "assign them to the independent joints"))
            at = float(verdict.q_all[model.joints[model.getJointId(name)].idx_q])
            joint = replace(joint, loop=loop, at_home=at, damping=0.0, friction=0.0)
        joints[name] = joint
    order, numbers = make_closures(model, found, verdict.q_all, verdict.followers, joints)
    coupling = LoopCoupling([cut.loop for cut in order], verdict.followers, numbers)
    q = verdict.q_all[coupling.q_index]
    joints |= limit_to_closed_range(model, coupling, q, joints, findings)
    tree = replace(tree, joints=tuple(joints[joint.name] for joint in tree.joints))
    findings += _report_loops(tree, verdict)
    robot = _make_closed_robot(robot, tree, coupling, q, findings, verdict, model)
    return _with_legs_at_home(robot if q_home is None else _with_home(robot, q_home))


def close_frames(
    robot: Robot,
    frame_a: str | tuple[str, ArrayLike],
    frame_b: str | tuple[str, ArrayLike],
    kind: str,
    axis: ArrayLike | None,
    name: str | None,
    dependent: Iterable[str],
) -> Robot:
    """Closes a loop between two frames; see `Robot.close_loop`."""
    if kind not in JOINT_TAGS:
        raise ArgumentError(f"kind={kind!r}: expected one of {', '.join(JOINT_TAGS)}")
    if (axis is None) is (kind == "revolute"):
        raise ArgumentError(f"axis: {'required' if axis is None else 'not accepted'} with kind={kind!r}")
    taken = {loop.name for loop in robot.tree.loops}
    if left := [loop.name for loop in parse(robot.source).loops if loop.name not in taken]:
        raise ArgumentError(
            f"close_loop: the robot was loaded with loops=False, which left loop {left[0]!r} of its file open; load "
            "it without loops=False first"
        )
    name = f"loop_{len(taken) + 1}" if name is None else name
    if name in taken:
        raise ArgumentError(f"name: this robot already has a loop {name!r}; pass another name")
    names = check_sequence("dependent", dependent, "joint names")
    for joint in names:
        if joint not in robot.tree.joints_by_name:
            raise UnknownNameError("joint in dependent=", joint, robot.tree.joints_by_name)
    tag = Element("loop_joint", {"name": name, "type": JOINT_TAGS[kind]})
    if names:
        tag.set("dependent", " ".join(names))
    ends = []
    for number, (argument, frame) in enumerate((("frame_a", frame_a), ("frame_b", frame_b)), start=1):
        link, at = _resolve_frame(robot, argument, frame)
        ends.append((link, at))
        SubElement(tag, f"link{number}", {"link": link, "xyz": _format_numbers(at), "rpy": "0 0 0"})
    turn = np.eye(3)
    if axis is not None:
        along = check_vector("axis", axis, (3,), "the same in both frames")
        if not np.linalg.norm(along) > 0.0:
            raise ArgumentError("axis: expected a vector of nonzero length, got zeros")
        SubElement(tag, "axis", {"xyz": _format_numbers(along)})
        turn = rotation_of_z_to(along / np.linalg.norm(along))
    (link_a, at_a), (link_b, at_b) = ends
    where = Where("<close>", 0, f'<loop_joint name="{name}">')
    loop = KinematicLoop(name, kind, link_a, link_b, Pose.of(turn, at_a), Pose.of(turn, at_b), names, where)
    return replace(
        close_loops_of(robot, [loop]), source=insert_element(robot.source, tostring(tag, encoding="unicode"))
    )


def _resolve_frame(robot: Robot, argument: str, frame: str | tuple[str, ArrayLike]) -> tuple[str, Array]:
    """Returns the link to which a frame belongs, and the position of its point in the link [m]."""
    name, offset = (frame, (0.0, 0.0, 0.0)) if isinstance(frame, str) else frame
    point = check_vector(f"{argument}[1]", offset, (3,), "in the frame [m]")
    robot.frame_id(name)
    if name in robot.legs:
        foot = robot.legs[name].foot
        return foot.frame, foot.offset + point
    return robot.tree.joints_by_name[name].child if name in robot.tree.joints_by_name else name, point


def _format_numbers(values: Array) -> str:
    return " ".join(repr(x) for x in values.tolist())


def open_loops_of(robot: Robot) -> Robot:
    """Returns a robot with its loops cut and all joints independent; home and ranges are those of the closed robot."""
    assert robot.coupling is not None
    tree = replace(robot.tree, joints=tuple(replace(j, loop=None, mimic=None) for j in robot.tree.joints), loops=())
    q, model, independent = robot.coupling.configuration(robot.q_home), robot.model, [j for j in tree.joints if j.nv]
    lower, upper = (_stack_limits(independent, q, side) for side in ("lower", "upper"))
    damping, friction = model.damping.copy(), model.upperDryFrictionLimit.copy()
    for joint in robot.tree.joints:  # what follows has none, see `close_loops_of`
        if joint.loop is not None:
            at = model.joints[model.getJointId(joint.name)].idx_v
            damping[at] = friction[at] = 0.0
    return replace(
        robot, tree=tree, bodies=merge_fixed_links(tree), q_home=frozen(q), lower=lower, upper=upper,
        damping=frozen(damping), friction=frozen(friction), armature=frozen(model.armature), poses={},
    )  # fmt: skip


def _make_closed_robot(
    robot: Robot,
    tree: Tree,
    coupling: LoopCoupling,
    q: Array,
    findings: Sequence[Finding],
    verdict: LoopVerdict,
    model: pin.Model,
) -> Robot:
    """Returns a robot with closed loops, whose coordinates and limits are those of its independent joints.

    Args:
        robot: robot before its further loops are closed.
        tree: its tree with closed loops.
        coupling: relation between the coordinates of all joints and of the independent ones.
        q: (nq,) home configuration of the independent joints.
        findings: further findings of the report.
        verdict: result of the validation of the loops.
        model: Pinocchio model of all joints.
    """
    independent = [joint for joint in tree.joints if joint.nv and joint.independent]
    damping, friction, armature = independent_joint_losses(model, coupling)
    actuated = tuple(name for name in robot.actuated if tree.joints_by_name[name].independent)
    lower, upper = (_stack_limits(independent, q, side) for side in ("lower", "upper"))
    report = replace(
        robot.report,
        findings=tuple(sorted((*robot.report.findings, *findings), key=lambda f: f.where.line)),
        provenance={
            **robot.report.provenance,
            **{f"{name}.range": "where its loops close" for group in verdict.groups for name in group.independent},
        },
        check_results={**robot.report.check_results, "loop closure at home (m)": verdict.residual},
    )
    return replace(
        robot, tree=tree, bodies=merge_fixed_links(tree), model=model, actuated=actuated, q_home=frozen(q),
        lower=lower, upper=upper,
        velocity_limits=frozen([tree.joints_by_name[name].limits.velocity for name in actuated]),
        effort_limits=frozen([tree.joints_by_name[name].limits.effort for name in actuated]),
        damping=frozen(damping), friction=frozen(friction), armature=frozen(armature), report=report, poses={},
    )  # fmt: skip


def _with_home(robot: Robot, q_home: ArrayLike) -> Robot:
    """Returns the robot with another home configuration on the branch of the present one."""
    coupling, model, findings = robot.coupling, robot.model, list[Finding]()
    assert coupling is not None
    q = validate_home(model, robot.algorithms, robot.bodies, robot.root, np.asarray(q_home), findings)
    coupling.check(q)
    q_all = coupling.configuration(q)
    joints = [
        j if j.loop is None else replace(j, at_home=float(q_all[model.joints[model.getJointId(j.name)].idx_q]))
        for j in robot.tree.joints
    ]
    tree = replace(robot.tree, joints=tuple(joints))
    report = replace(robot.report, findings=(*robot.report.findings, *findings))
    return replace(robot, tree=tree, bodies=merge_fixed_links(tree), q_home=frozen(q), report=report)


def _with_legs_at_home(robot: Robot) -> Robot:
    """Returns the robot with its leg records evaluated at home."""
    feet = {name: leg.foot for name, leg in robot.legs.items()}
    assert robot.coupling is not None
    q_all = robot.coupling.configuration(robot.q_home)
    return replace(robot, legs=make_legs(robot.bodies, robot.root, make_limbs(robot), feet, q_all))


# -- refusals --------------------------------------------------------------------------------------------------------
def _reject_missing_ends(robot: Robot, loops: Sequence[KinematicLoop]) -> None:
    """Raises a ModelError if a loop ends at a link that the root replaces."""
    for loop in loops:
        for link in (loop.link_a, loop.link_b):
            if link not in robot.tree.links_by_name:
                raise ModelError(
                    f"{loop.where}: loop {loop.name!r} ends at {link!r}, which the {robot.root} root replaces; pass "
                    "root='fixed', or leave the loop open by loops=False"
                )


def _reject_unsupported_shape(model: pin.Model, cut: LoopCut, tree: Tree) -> None:
    """Raises a ModelError if nothing moves in a loop, or a joint of it has several degrees of freedom."""
    loop = cut.loop
    a, b, _ = loop_branches(model, cut)
    if not a and not b:
        raise ModelError(
            f"{loop.where}: loop {loop.name!r} connects links {loop.link_a!r} and {loop.link_b!r}, between which no "
            "joint moves; remove the loop"
        )
    for joint in (*a, *b):
        name = model.names[joint]
        if name not in tree.joints_by_name or tree.joints_by_name[name].nv != 1:
            what = (
                "the root"
                if name not in tree.joints_by_name
                else f"the {tree.joints_by_name[name].type} joint {name!r}"
            )
            raise ModelError(
                f"{loop.where}: loop {loop.name!r} contains {what}, but every joint of a loop must have one degree "
                "of freedom; define the loop so that it is cut at this joint, or leave the loop open by loops=False"
            )


# -- parts -----------------------------------------------------------------------------------------------------------
def _merge_loops(robot: Robot, loops: Sequence[KinematicLoop], q_all: Array) -> tuple[Tree, Array]:
    """Returns the tree with all loops and all joints independent (loop joints count turns), and its home."""
    tree = replace(robot.tree, loops=(*robot.tree.loops, *loops))
    model = robot.model
    on_loops = {
        model.names[joint]
        for cut in cut_loops(model, tree.loops)
        for side in loop_branches(model, cut)[:2]
        for joint in side
    }
    joints, q = [], [*q_all[: model.nq - sum(j.nq for j in tree.joints)]]
    for joint in tree.joints:
        if joint.nq == 0:
            joints.append(joint)
            continue
        at = model.joints[model.getJointId(joint.name)].idx_q
        here = q_all[at : at + joint.nq].tolist()
        if joint.name in on_loops and joint.type == "continuous":
            here = [float(np.arctan2(here[1], here[0]))]
            joint = replace(joint, type="revolute", limits=replace(joint.limits, lower=-np.inf, upper=np.inf))
        joints.append(replace(joint, loop=None))
        q += here
    return replace(tree, joints=tuple(joints)), np.array(q)


def _build_model(robot: Robot, tree: Tree) -> pin.Model:
    """Returns the Pinocchio model of the tree, with the inertias of the robot."""
    model = build_pinocchio_model(tree, robot.root, robot.bodies)
    add_feet(model, [leg.foot for leg in robot.legs.values()])
    return model


def _leg_joints(robot: Robot) -> set[str]:
    return {joint for leg in robot.legs.values() for joint in leg.joints}


def _stack_limits(own: Sequence[Joint], q: Array, side: str) -> Array:
    values = [[getattr(j.limits, side)] if j.nq == 1 else [np.inf if side == "upper" else -np.inf] * j.nq for j in own]
    root = len(q) - sum(map(len, values))
    return frozen([*[np.inf if side == "upper" else -np.inf] * root, *(x for each in values for x in each)])


def _report_loops(tree: Tree, verdict: LoopVerdict) -> list[Finding]:
    """Returns notes on the dependent and independent joints of each loop."""
    out = []
    for group in verdict.groups:
        for cut in group.cuts:
            loop = cut.loop
            if loop.kind == "gear":
                continue
            follow, lead = ", ".join(group.dependent), ", ".join(group.independent)
            reason = (
                f"loop {loop.name!r} ({loop.kind}) closes {loop.link_a!r} and {loop.link_b!r}: {follow} follow {lead}; "
                f"rank {group.rank} of {group.rows} constraints"
            )
            if group.gap:
                reason += f", which close up to {group.gap:.1g} m, the rounding of the file"
            out.append(Finding("note", loop.where, reason, "pass loops=False to leave it open"))
    return out
