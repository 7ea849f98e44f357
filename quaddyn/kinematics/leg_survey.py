"""A leg in numbers, `survey`, and a curve that its foot can follow, `closed_curve`."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

import numpy as np

from ..errors import ArgumentError
from ..robot.legs import make_limbs
from ..robot.limbs import forward_and_left
from ..urdf.tree import Array
from .leg_kinematics import LIMIT_TOLERANCE, LegKinematics

#: Where a joint has no limits: half a turn to each side, or half a metre [rad or m].
_DEFAULT_ANGLE_RANGE, _DEFAULT_SLIDE_RANGE = np.pi, 0.5
#: Time one leg's batch is repeated for when it is quick [s].
_TIMING_DURATION = 0.05
#: Sizes of the curve that are tried, as shares of the leg's length.
_CURVE_SIZE_FRACTIONS = (0.25, 0.18, 0.12, 0.08, 0.05, 0.02)
#: Points of the curve that are tried, and centres.
_N_TRIAL_POINTS, _N_TRIAL_CENTERS = 24, 12


@dataclass(frozen=True, slots=True)
class IkBranch:
    """What a branch of the inverse kinematics is good for.

    Attributes:
        knee: "forward" or "backward".
        hip: "below" or "above"; None for a leg whose hip leaves no choice.
        home: whether the robot's home configuration is on it.
        reached: share of the targets that it reaches, limits aside.
        within_limits: share of the targets that it reaches within the joint limits.
    """

    knee: str
    hip: str | None
    contains_home: bool
    reached_fraction: float
    fraction_within_limits: float

    @property
    def name(self) -> str:
        """Such as "knee backward, hip below"."""
        return f"knee {self.knee}" + (f", hip {self.hip}" if self.hip is not None else "")


@dataclass(frozen=True, slots=True, eq=False)
class LegSurvey:
    """What `survey` found.

    Attributes:
        leg: its name.
        joints: names, hip to ankle.
        held: those beyond the knee, at home in all targets: `LegKinematics.inverse` moves them only when told how.
        closed_form: whether the inverse is one.
        segments: (n,) distances from joint to joint, the last one to the foot, at the zero pose [m].
        lower, upper: (n,) joint limits [rad, m for what slides]; infinite where the file gives none.
        hip: (3,) origin of the first joint, base frame [m].
        nearest, farthest: (3,) the foot as near to `hip` and as far from it as the limits allow, base frame [m].
        branches: all that have a name.
        samples: number of targets: the foot at random joint values within the limits, those `held` at home.
        reached: how many of them some branch reaches; fewer only where an iteration does not arrive.
        error: largest distance from a target to the foot at the joint values of the best branch [m].
        seconds: per target, on the home branch, asked for all at once [s].
        seed: of the targets.
    """

    leg: str
    joints: tuple[str, ...]
    fixed_joints: tuple[str, ...]
    closed_form: bool
    segments: Array
    lower: Array
    upper: Array
    hip: Array
    nearest: Array
    farthest: Array
    branches: tuple[IkBranch, ...]
    samples: int
    n_reached: int
    max_error: float
    seconds_per_target: float
    seed: int

    @property
    def reach(self) -> tuple[float, float]:
        """Shortest and longest distance from `hip` to the foot within the limits [m]."""
        return float(np.linalg.norm(self.nearest - self.hip)), float(np.linalg.norm(self.farthest - self.hip))


def survey_leg(leg: LegKinematics, *, samples: int = 1000, seed: int = 0) -> LegSurvey:
    """Measure a leg: its reach, and every branch on random targets that it can reach.

    Args:
        leg: any.
        samples: number of targets.
        seed: of the generator that draws them.

    Raises:
        ArgumentError: no samples.
    """
    if samples < 1:
        raise ArgumentError(f"samples: expected at least 1, got {samples}")
    rng = np.random.default_rng(seed)
    q = _random_joint_values(leg, samples, rng)
    targets = leg.forward(np.where(np.isin(leg.joints, leg.fixed_joints), leg.q_home, q))
    best = np.full(samples, np.inf)
    reached = np.zeros(samples, dtype=np.bool_)
    home = home_knee(leg)
    hips = {hip for _, hip in leg.branches}
    branches = []
    for knee, hip in leg.branches:
        found = leg.inverse(targets, knee=knee, hip=hip)
        # Measured anew, from the joint values: what the solver says of itself is not asked.
        miss = np.linalg.norm(leg.forward(found.q) - targets, axis=1)
        best = np.minimum(best, miss)
        branch_reached = np.asarray(found.reached)
        reached |= branch_reached
        within_limits = ((found.q >= leg.lower - LIMIT_TOLERANCE) & (found.q <= leg.upper + LIMIT_TOLERANCE)).all(
            axis=1
        )
        named = hip if len(hips) > 1 else None
        at_home = knee == home and hip == "below"
        branches.append(
            IkBranch(knee, named, at_home, float(branch_reached.mean()), float((branch_reached & within_limits).mean()))
        )
    start, runs = time.perf_counter(), 0
    while not runs or (leg.closed_form and time.perf_counter() - start < _TIMING_DURATION):
        leg.inverse(targets)
        runs += 1
    seconds = (time.perf_counter() - start) / (runs * samples)
    q = np.vstack((q, np.clip(leg.q_home, leg.lower, leg.upper)))
    return LegSurvey(
        leg=leg.name,
        joints=leg.joints,
        fixed_joints=leg.fixed_joints,
        closed_form=leg.closed_form,
        segments=leg.segments,
        lower=leg.lower,
        upper=leg.upper,
        hip=leg.hip,
        nearest=_extreme_foot_position(leg, q, 1.0),
        farthest=_extreme_foot_position(leg, q, -1.0),
        branches=tuple(branches),
        samples=samples,
        n_reached=int(reached.sum()),
        max_error=float(best.max()),
        seconds_per_target=seconds,
        seed=seed,
    )


def home_knee(leg: LegKinematics) -> str:
    """To which side the knee bends at home: the branch that `LegKinematics.inverse` takes when it is not told."""
    away = leg.forward(leg.q_home) + 0.1 * (leg.hip - leg.forward(leg.q_home))  # at home the knee may be straight
    default = leg.inverse(away).q
    knees = {knee: leg.inverse(away, knee=knee).q for knee, _ in leg.branches}
    return min(knees, key=lambda knee: float(np.abs(knees[knee] - default).max()))


def reachable_curve(leg: LegKinematics, *, knee: str | None = None, points: int = 240, seed: int = 0) -> Array:
    """A smooth closed curve that the foot can follow on one branch, within the limits if they allow any such.

    An ellipse about the home position of the foot, as wide as a quarter of the leg and half as high, swaying sideways
    where the leg can; smaller, or about another point, where the foot cannot follow it.

    Args:
        leg: any.
        knee: the branch that must follow, "forward" or "backward"; that of home by default.
        points: of the curve.
        seed: of the generator that draws other centres.

    Returns:
        (points, 3) positions of the foot, base frame [m]; the last is one step before the first.

    Raises:
        ArgumentError: fewer than three points.
    """
    if points < 3:
        raise ArgumentError(f"points: expected at least 3, got {points}")
    rng = np.random.default_rng(seed)
    home = leg.forward(leg.q_home)
    anywhere = rng.uniform(-np.pi, np.pi, (200, leg.n))
    axes, size = _motion_directions(leg, anywhere), float(leg.segments.sum())
    for limited in (True, False):  # some files give every joint a range from 0 to 0
        others = leg.forward(_random_joint_values(leg, 200, rng) if limited else anywhere)
        # From near home to far from it, so that the picture stays where one expects the leg.
        centers = [home, *others[np.argsort(np.linalg.norm(others - home, axis=1))][:: len(others) // _N_TRIAL_CENTERS]]
        for fraction, center in itertools.product(_CURVE_SIZE_FRACTIONS, centers):
            found = leg.inverse(_ellipse(axes * fraction * size, center, _N_TRIAL_POINTS), knee=knee)
            if np.all(found.reached) and (np.all(found.within_limits) or not limited):
                return _ellipse(axes * fraction * size, center, points)
    return _ellipse(axes * _CURVE_SIZE_FRACTIONS[-1] * size, home, points)


def _ellipse(axes: Array, center: Array, points: int) -> Array:
    t = 2.0 * np.pi * np.arange(points)[:, None] / points
    curve = center + np.cos(t) * axes[0] + (0.5 * np.sin(t) * axes[1] if len(axes) > 1 else 0.0)
    return np.asarray(curve + (0.3 * np.sin(2.0 * t) * axes[2] if len(axes) > 2 else 0.0))


def _motion_directions(leg: LegKinematics, q: Array) -> Array:
    """(k, 3) orthonormal directions in which the foot can move: forward, up and left as far as it goes."""
    forward, left = forward_and_left(make_limbs(leg.robot))
    J = leg.jacobian(q)
    values, vectors = np.linalg.eigh(np.einsum("nij,nkj->ik", J, J))
    range_basis = vectors[:, values > 1e-6 * values[-1]]
    found: list[Array] = []
    # The eigenvectors come last, for a leg whose plane is not upright.
    for direction in (forward, np.cross(forward, left), left, *range_basis.T):
        rest = range_basis @ (range_basis.T @ direction)
        for axis in found:
            rest = rest - (rest @ axis) * axis
        length = float(np.linalg.norm(rest))
        if length > 0.1 and len(found) < range_basis.shape[1]:
            found.append(rest / length)
    return np.array(found)


def _random_joint_values(leg: LegKinematics, count: int, rng: np.random.Generator) -> Array:
    low, high = _joint_ranges(leg)
    return rng.uniform(low, high, (count, leg.n))


def _joint_ranges(leg: LegKinematics) -> tuple[Array, Array]:
    """Finite bounds for every joint: its limits, or what stands for none."""
    joints = {b.joint.name: b.joint for b in leg.robot.bodies[1:] if b.joint is not None}
    wide = np.array(
        [_DEFAULT_SLIDE_RANGE if joints[name].type == "prismatic" else _DEFAULT_ANGLE_RANGE for name in leg.joints]
    )
    low = np.where(np.isfinite(leg.lower), leg.lower, np.minimum(-wide, leg.upper - 2.0 * wide))
    high = np.where(np.isfinite(leg.upper), leg.upper, np.maximum(wide, leg.lower + 2.0 * wide))
    return low, high


def _extreme_foot_position(leg: LegKinematics, starts: Array, sign: float) -> Array:
    """(3,) the foot nearest to the hip (sign 1) or farthest (-1): the best of `starts`, then a compass search."""
    low, high = _joint_ranges(leg)

    def cost(q: Array) -> Array:
        return np.asarray(sign * np.linalg.norm(leg.forward(q) - leg.hip, axis=1))

    costs = cost(starts)
    best_q, best = starts[0], np.inf
    for start in np.argsort(costs)[:4]:
        q, smallest, step = starts[start], float(costs[start]), 0.25
        while step > 1e-9:
            moves = step * (high - low) * np.vstack((np.eye(leg.n), -np.eye(leg.n)))
            trials = np.clip(q + moves, low, high)
            values = cost(trials)
            if values.min() < smallest - 1e-15:
                q, smallest = trials[values.argmin()], float(values.min())
            else:
                step /= 2.0
        if smallest < best:
            best_q, best = q, smallest
    return leg.forward(best_q)
