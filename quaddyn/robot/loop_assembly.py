"""Analysis of loops before they are closed: home configuration, rank of the constraints, and dependent joints."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ..errors import ModelError
from ..urdf.tree import Array, Joint, first_largest
from .loop_arrays import make_closure_workspace
from .loop_solver import loop_residual
from .loops import LoopCut, make_closures

Mask = NDArray[np.bool_]

#: Iterations of Gauss and Newton's method, the longest of its steps, and the residual at its end (of the loop's size).
MAX_ITERATIONS, MAX_STEP, CLOSURE_TOLERANCE = 200, 0.3, 1e-13
#: Residual at zero coordinates up to which a file was drawn with closed loops.
ZERO_CLOSURE_TOLERANCE = 1e-6
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
            closed = size <= CLOSURE_TOLERANCE  # and once more, to the last digit
            move = -np.linalg.pinv(K[:, free], rcond=1e-9) @ e
            move *= min(1.0, MAX_STEP / max(float(np.abs(move).max()), 1e-300))
            part[free] += move * self.scale(g)[free]
        return x, best


@dataclass(frozen=True)
class ClosedGroup:
    """Loops that share joints: names of their dependent and independent joints, rank, and number of constraints."""

    cuts: tuple[LoopCut, ...]
    dependent: tuple[str, ...]
    independent: tuple[str, ...]
    rank: int
    rows: int


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
        x, residual = _find_home(assembly, g, x, cuts)
        worst = max(worst, residual * float(c.size[g]))
        names = assembly.names[assembly.members(g)]
        rank = _constraint_rank(assembly, g, x, cuts)
        K, _ = assembly.linear(g, x)
        chosen = _choose_dependent_joints(assembly, names, K, rank, cuts, _mimic_joints(assembly, g))
        followers |= dict.fromkeys(chosen, cuts[0].loop.name)
        others = tuple(name for name in names if name not in chosen)
        found.append(ClosedGroup(cuts, tuple(chosen), others, rank, assembly.rows(g)))
    q_all = assembly.q_all.copy()
    q_all[c.q] = x
    return LoopVerdict(q_all, followers, tuple(found), worst)


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
        if residual <= CLOSURE_TOLERANCE and not _is_singular(assembly, g, start):
            for free in tries:
                reached = _continue_to(assembly, g, start, x, free)
                if reached is not None:
                    return reached
            return start, residual
    for begin in (x, zero):
        for free in (*tries, everything):
            there, residual = assembly.solve(g, begin, free)
            if residual <= CLOSURE_TOLERANCE and _axes_are_aligned(assembly, g, there, cuts):
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
        if residual > CLOSURE_TOLERANCE or np.abs(x[at] - before[at]).max() > 0.5:
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
        if residual <= CLOSURE_TOLERANCE:
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
    unclear = here[(here > MAX_ZERO_SINGULAR_VALUE) & (here <= MIN_NONZERO_SINGULAR_VALUE)]
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
    return bool(residual <= CLOSURE_TOLERANCE and ranks[0] < ranks[1])


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
