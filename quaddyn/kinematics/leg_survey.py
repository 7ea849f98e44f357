"""`survey_leg`: reach and accuracy of a leg's kinematics; `reachable_curve`: a closed curve for its foot."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

import numpy as np

from ..deprecation import renamed_fields
from ..errors import ArgumentError
from ..robot.legs import make_limbs
from ..robot.limbs import forward_and_left
from ..urdf.tree import Array
from .leg_kinematics import LIMIT_TOLERANCE, LegKinematics

#: Range to each side of a joint without limits: half a turn, or half a meter [rad or m].
_DEFAULT_ANGLE_RANGE, _DEFAULT_SLIDE_RANGE = np.pi, 0.5
#: Time for which the computation is repeated to measure its duration [s].
_TIMING_DURATION = 0.05
#: Sizes of the curve that are tried, as fractions of the leg's length.
_CURVE_SIZE_FRACTIONS = (0.25, 0.18, 0.12, 0.08, 0.05, 0.02)
#: Number of points at which a curve is tested, and number of centers that are tried.
_N_TRIAL_POINTS, _N_TRIAL_CENTERS = 24, 12


@dataclass(frozen=True, slots=True)
class IkBranch:
    """Reachable fraction of a branch of the inverse kinematics.

    Attributes:
        knee: "forward" or "backward".
        hip: "below" or "above"; None for a leg whose hip has no choice.
        contains_home: whether the robot's home configuration is on the branch.
        reached_fraction: fraction of the targets that it reaches, without regard to limits.
        fraction_within_limits: fraction of the targets that it reaches within the joint limits.
    """

    knee: str
    hip: str | None
    contains_home: bool
    reached_fraction: float
    fraction_within_limits: float

    @property
    def name(self) -> str:
        """Name of the branch, such as "knee backward, hip below"."""
        return f"knee {self.knee}" + (f", hip {self.hip}" if self.hip is not None else "")


@renamed_fields(held="fixed_joints", reached="n_reached", error="max_error", seconds="seconds_per_target")
@dataclass(frozen=True, slots=True, eq=False)
class LegSurvey:
    """Result of `survey_leg`.

    Attributes:
        leg: name of the leg.
        joints: names of the joints, from hip to ankle.
        fixed_joints: names of the joints beyond the knee that are at home in all targets, see
            `LegKinematics.fixed_joints`.
        closed_form: whether the inverse kinematics has a closed form.
        segments: (n,) distances from joint to joint, the last one to the foot, at the zero pose [m].
        lower, upper: (n,) joint limits [rad, m for prismatic joints]; infinite where the file has none.
        hip: (3,) origin of the first joint, base frame [m].
        nearest, farthest: (3,) position of the foot nearest to `hip` and farthest from it within the limits, base frame
            [m].
        branches: all branches.
        samples: number of targets: positions of the foot at random joint values within the limits, `fixed_joints` at
            home.
        n_reached: number of targets that some branch reaches; less than `samples` only where an iteration does not
            converge.
        max_error: largest distance from a target to the foot at the joint values of the best branch [m].
        seconds_per_target: computing time per target, on the home branch, for all targets in one call [s].
        seed: seed of the targets.
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
    """Measures a leg: its reach, and every branch on random targets that it can reach.

    Args:
        leg: kinematics of the leg.
        samples: number of targets.
        seed: seed of the targets.

    Raises:
        ArgumentError: fewer than one sample.
    """
    if samples < 1:
        raise ArgumentError(f"samples: expected at least 1, got {samples}")
    rng = np.random.default_rng(seed)
    joint_values = _random_joint_values(leg, samples, rng)
    targets = leg.forward(np.where(np.isin(leg.joints, leg.fixed_joints), leg.q_home, joint_values))
    smallest_error = np.full(samples, np.inf)
    reached = np.zeros(samples, dtype=np.bool_)
    knee_at_home = home_knee(leg)
    hips = {hip for _, hip in leg.branches}
    branches = []
    for knee, hip in leg.branches:
        solution = leg.inverse(targets, knee=knee, hip=hip)
        # The error is measured from the joint values, independently of the one that the solver reports.
        error = np.linalg.norm(leg.forward(solution.q) - targets, axis=1)
        smallest_error = np.minimum(smallest_error, error)
        branch_reached = np.asarray(solution.reached)
        reached |= branch_reached
        within_limits = ((solution.q >= leg.lower - LIMIT_TOLERANCE) & (solution.q <= leg.upper + LIMIT_TOLERANCE)).all(
            axis=1
        )
        hip_name = hip if len(hips) > 1 else None
        at_home = knee == knee_at_home and hip == "below"
        branches.append(
            IkBranch(
                knee, hip_name, at_home, float(branch_reached.mean()), float((branch_reached & within_limits).mean())
            )
        )
    start_time, n_runs = time.perf_counter(), 0
    while not n_runs or (leg.closed_form and time.perf_counter() - start_time < _TIMING_DURATION):
        leg.inverse(targets)
        n_runs += 1
    seconds = (time.perf_counter() - start_time) / (n_runs * samples)
    joint_values = np.vstack((joint_values, np.clip(leg.q_home, leg.lower, leg.upper)))
    return LegSurvey(
        leg=leg.name,
        joints=leg.joints,
        fixed_joints=leg.fixed_joints,
        closed_form=leg.closed_form,
        segments=leg.segments,
        lower=leg.lower,
        upper=leg.upper,
        hip=leg.hip,
        nearest=_extreme_foot_position(leg, joint_values, 1.0),
        farthest=_extreme_foot_position(leg, joint_values, -1.0),
        branches=tuple(branches),
        samples=samples,
        n_reached=int(reached.sum()),
        max_error=float(smallest_error.max()),
        seconds_per_target=seconds,
        seed=seed,
    )


def home_knee(leg: LegKinematics) -> str:
    """Returns the side to which the knee bends at home: the default branch of `LegKinematics.inverse`."""
    # The foot is moved toward the hip, since a knee that is straight at home is on both branches.
    bent_position = leg.forward(leg.q_home) + 0.1 * (leg.hip - leg.forward(leg.q_home))
    default = leg.inverse(bent_position).q
    q_by_knee = {knee: leg.inverse(bent_position, knee=knee).q for knee, _ in leg.branches}
    return min(q_by_knee, key=lambda knee: float(np.abs(q_by_knee[knee] - default).max()))


def reachable_curve(leg: LegKinematics, *, knee: str | None = None, points: int = 240, seed: int = 0) -> Array:
    """Computes a smooth closed curve that the foot can follow on one branch, within the limits if they allow one.

    The curve is an ellipse about the home position of the foot, a quarter of the leg's length wide and half as high,
    with a lateral oscillation if the leg has lateral motion.  If the foot cannot follow it, smaller ones and other
    centers are tried.

    Args:
        leg: kinematics of the leg.
        knee: the branch, "forward" or "backward"; None for that of home.
        points: number of points.
        seed: seed of the other centers.

    Returns:
        (points, 3) positions of the foot, base frame [m]; the last is one step before the first.

    Raises:
        ArgumentError: fewer than three points.
    """
    if points < 3:
        raise ArgumentError(f"points: expected at least 3, got {points}")
    rng = np.random.default_rng(seed)
    home = leg.forward(leg.q_home)
    any_q = rng.uniform(-np.pi, np.pi, (200, leg.n))
    axes, size = _motion_directions(leg, any_q), float(leg.segments.sum())
    for within_limits in (True, False):  # some files have the range from 0 to 0 for every joint
        other_centers = leg.forward(_random_joint_values(leg, 200, rng) if within_limits else any_q)
        # Centers near home come first.
        centers = [
            home,
            *other_centers[np.argsort(np.linalg.norm(other_centers - home, axis=1))][
                :: len(other_centers) // _N_TRIAL_CENTERS
            ],
        ]
        for fraction, center in itertools.product(_CURVE_SIZE_FRACTIONS, centers):
            solution = leg.inverse(_ellipse(axes * fraction * size, center, _N_TRIAL_POINTS), knee=knee)
            if np.all(solution.reached) and (np.all(solution.within_limits) or not within_limits):
                return _ellipse(axes * fraction * size, center, points)
    return _ellipse(axes * _CURVE_SIZE_FRACTIONS[-1] * size, home, points)


def _ellipse(axes: Array, center: Array, points: int) -> Array:
    """Returns points (points, 3) of the curve with semi-axes (k, 3) about a center [m]."""
    t = 2.0 * np.pi * np.arange(points)[:, None] / points
    curve = center + np.cos(t) * axes[0] + (0.5 * np.sin(t) * axes[1] if len(axes) > 1 else 0.0)
    return np.asarray(curve + (0.3 * np.sin(2.0 * t) * axes[2] if len(axes) > 2 else 0.0))


def _motion_directions(leg: LegKinematics, q: Array) -> Array:
    """Returns (k, 3) orthonormal directions in which the foot can move, as near to forward, up and left as possible."""
    forward, left = forward_and_left(make_limbs(leg.robot))
    J = leg.jacobian(q)
    values, vectors = np.linalg.eigh(np.einsum("nij,nkj->ik", J, J))
    range_basis = vectors[:, values > 1e-6 * values[-1]]
    directions: list[Array] = []
    # The eigenvectors come last, for a leg whose plane is not upright.
    for direction in (forward, np.cross(forward, left), left, *range_basis.T):
        component = range_basis @ (range_basis.T @ direction)
        for axis in directions:
            component = component - (component @ axis) * axis
        length = float(np.linalg.norm(component))
        if length > 0.1 and len(directions) < range_basis.shape[1]:
            directions.append(component / length)
    return np.array(directions)


def _random_joint_values(leg: LegKinematics, count: int, rng: np.random.Generator) -> Array:
    """Returns (count, n) random joint values within the finite ranges."""
    low, high = _joint_ranges(leg)
    return rng.uniform(low, high, (count, leg.n))


def _joint_ranges(leg: LegKinematics) -> tuple[Array, Array]:
    """Returns finite bounds of every joint: its limits, or default ranges where it has none."""
    joints = {b.joint.name: b.joint for b in leg.robot.bodies[1:] if b.joint is not None}
    default_ranges = np.array(
        [_DEFAULT_SLIDE_RANGE if joints[name].type == "prismatic" else _DEFAULT_ANGLE_RANGE for name in leg.joints]
    )
    low = np.where(np.isfinite(leg.lower), leg.lower, np.minimum(-default_ranges, leg.upper - 2.0 * default_ranges))
    high = np.where(np.isfinite(leg.upper), leg.upper, np.maximum(default_ranges, leg.lower + 2.0 * default_ranges))
    return low, high


def _extreme_foot_position(leg: LegKinematics, starts: Array, sign: float) -> Array:
    """Returns the foot position (3,) nearest to the hip (sign 1) or farthest (-1), by compass search from `starts`."""
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
