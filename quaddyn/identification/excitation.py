"""Exciting trajectories: periodic motions within limits that make the parameters well identifiable.

Source: Swevers, Ganseman, Tukel, De Schutter, Van Brussel, *Optimal robot excitation and identification*, 1997 (finite
Fourier series); Gautier and Khalil, *Exciting trajectories for the identification of base inertial parameters*, 1992
(the condition number as criterion).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..deprecation import renamed_attributes
from ..dynamics import Dynamics
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number
from ..robot.robot import Robot
from ..urdf.tree import Array, FrozenArrays
from .base_parameters import AMBIGUOUS_RANGE, BaseParameters, RankCertificate, base_parameters

#: Range of motion [rad or m] and speed [rad/s or m/s] of a joint whose file gives none.
DEFAULT_RANGE, DEFAULT_SPEED = np.pi, 3.0

#: Number of bisection steps in the search for the largest amplitude within the effort limits.
EFFORT_BISECTIONS = 8

#: Instants per period of the highest harmonic at which limits are checked; the fraction by which extrema between them
#: could exceed a limit, (pi / 40)^2 / 2, is kept free.
SAMPLES_PER_HARMONIC = 40


@renamed_attributes(at="sample")
@dataclass(frozen=True, slots=True, eq=False)
class FourierTrajectory(FrozenArrays):
    """A periodic motion of all joints, ``q_j = c_j + sum_k (s_jk sin(k w t) + r_jk (cos(k w t) - 1))``.

    It starts and ends each period in the configuration `start` at rest and without acceleration, so that it can be
    entered and left between any two periods.

    Attributes:
        robot: the robot, whose root is fixed.
        period: period of the motion [s].
        start: (nv,) joint coordinates at t = 0 [rad or m].
        sines: (nv, harmonics) coefficients s [rad or m].
        cosines: (nv, harmonics) coefficients r [rad or m].
        condition: condition number of the stacked base regressor, each row divided by the effort limit of its joint
            where there is one.
        initial_condition: condition number of the best random candidate, from which the search began.
        seed: seed of the search.
        effort_fractions: (nv,) largest torque of each joint that the motion needs according to the robot's file,
            divided by its effort limit; 0 where the file gives no limit.
        certificate: evidence for the number of base parameters to which `condition` refers.
    """

    robot: Robot
    period: float
    start: Array
    sines: Array
    cosines: Array
    condition: float
    initial_condition: float
    seed: int
    effort_fractions: Array
    certificate: RankCertificate

    def sample(self, t: Array) -> tuple[Array, Array, Array]:
        """Returns the states at N instants.

        Args:
            t: (N,) instants [s].

        Returns:
            q (N, nq), v (N, nv) [rad/s or m/s], a (N, nv) [rad/s^2 or m/s^2].
        """
        x, v, a = _evaluate_series(np.asarray(t, dtype=np.float64), self.period, self.start, self.sines, self.cosines)
        return _to_configurations(self.robot, x), v, a


def exciting_trajectory(
    robot: Robot | BaseParameters,
    *,
    period: float = 10.0,
    harmonics: int = 5,
    samples: int = 100,
    iterations: int = 300,
    margin: float = 0.05,
    acceleration: float = 20.0,
    seed: int = 0,
    progress: Callable[[float], object] | None = None,
) -> FourierTrajectory:
    """Computes a trajectory of all joints of a robot with a fixed root, within its limits, of small condition number.

    An evolution strategy with one parent changes the Fourier coefficients of one joint after the other, by steps that
    adapt joint by joint (Rechenberg's one-fifth rule).  Every candidate is scaled to the limits of position, velocity,
    acceleration and effort, so that all are feasible.  The same seed gives the same motion.

    Base parameters that are ambiguous, because the axes in the file are rounded, are not excited.

    Args:
        robot: a robot with a fixed root (for a legged robot: its trunk on a stand), or its `base_parameters`.
        period: period of the motion [s].
        harmonics: number of harmonics of each joint; at least 3, since rest at the start takes three coefficients.
        samples: instants of a period at which the regressor is stacked.
        iterations: number of candidates after 20 random ones.
        margin: fraction of the range of position, velocity and effort that is not used, 0 to 1.
        acceleration: largest acceleration of any joint [rad/s^2 or m/s^2].
        seed: seed of the search.
        progress: called with the fraction done, 0 to 1; None for no reports.

    Raises:
        ArgumentError: a root that is not fixed, joints that cannot move or hold the robot in the middle of their range,
            or an argument out of range.

    Warns:
        RuntimeWarning: the given base parameters are ambiguous, and fewer are excited.
    """
    base = robot if isinstance(robot, BaseParameters) else base_parameters(robot)
    if not base.certificate.is_unambiguous:
        given, base = base, base_parameters(base.robot, inertial=base.inertial, tolerance=AMBIGUOUS_RANGE[1])
        if given is robot and base.size < given.size:
            warnings.warn(
                f"robot: {given.size - base.size} of the {given.size} base parameters exist only because axes in the "
                f"file of {base.robot.name} are rounded; the motion excites the other {base.size}",
                RuntimeWarning,
                stacklevel=2,
            )
    machine = base.robot
    if machine.root != "fixed":
        raise ArgumentError(
            f"robot: {machine.name} has a {machine.root} root, whose motion cannot be commanded; load it with "
            'root="fixed", as on a stand'
        )
    if machine.nu != machine.nv or any(j.nv != 1 for j in list(machine.model.joints)[1:]):
        raise ArgumentError(
            f"robot: {machine.name} has joints without a motor, whose motion cannot be commanded; load it with "
            'root="fixed" and motors at all joints'
        )
    for name, count in (("harmonics", harmonics), ("samples", samples), ("iterations", iterations), ("seed", seed)):
        if isinstance(count, bool) or not isinstance(count, int | np.integer):
            raise ArgumentTypeError(f"{name}: expected an int, got {type(count).__name__}")
    if seed < 0:
        raise ArgumentError(f"seed: expected at least 0, got {seed}")
    if harmonics < 3 or samples * machine.nv < base.size or iterations < 0:
        raise ArgumentError(
            f"harmonics, samples, iterations: expected at least 3, {-(-base.size // machine.nv)} and 0, "
            f"got {harmonics}, {samples}, {iterations}"
        )
    for name, value in (("period", period), ("acceleration", acceleration)):
        if not 0.0 < check_number(name, value) < np.inf:
            raise ArgumentError(f"{name}: expected a positive number, got {value}")
    if not 0.0 <= check_number("margin", margin) < 1.0:
        raise ArgumentError(f"margin: expected a fraction in [0, 1), got {margin}")
    search = _TrajectorySearch(base, period, harmonics, samples, margin, acceleration)
    rng = np.random.default_rng(seed)
    shape = (2, machine.nv, harmonics)
    candidates = [rng.standard_normal(shape) for _ in range(20)]
    costs = [search.cost(x) for x in candidates]
    best = int(np.argmin(costs))
    if not np.isfinite(costs[best]):
        raise ArgumentError(
            f"robot: within the limits of {machine.name}, with period={period} s and acceleration={acceleration}, no "
            "motion was found that makes all of its base parameters identifiable"
        )
    x, cost, first = candidates[best], costs[best], costs[best]
    # Scaling to the limits makes the length of a joint's coefficients meaningless: it is kept at one.
    x = x / np.sqrt((x**2).mean(axis=(0, 2), keepdims=True))
    steps = np.full(machine.nv, 0.5)
    for k in range(iterations):
        j, trial = k % machine.nv, x.copy()
        trial[:, j] += steps[j] * rng.standard_normal(trial[:, j].shape)
        trial[:, j] /= np.sqrt((trial[:, j] ** 2).mean())
        new = search.cost(trial)
        if new < cost:
            x, cost, steps[j] = trial, new, min(1.5 * steps[j], 2.0)
        else:
            steps[j] = max(steps[j] * 1.5**-0.25, 1e-2)
        if progress is not None:
            progress((k + 1) / iterations)
    start, sines, cosines = search.scale_to_limits(x)
    conditions, fractions = (float(np.exp(cost)), float(np.exp(first))), search.effort_fractions(start, sines, cosines)
    return FourierTrajectory(machine, period, start, sines, cosines, *conditions, seed, fractions, base.certificate)


class _TrajectorySearch:
    """Scaling of candidates to the limits, and their cost."""

    def __init__(
        self, base: BaseParameters, period: float, harmonics: int, samples: int, margin: float, acceleration: float
    ) -> None:
        robot = base.robot
        self._robot, self._period, self._regressor = robot, period, base.regressor()
        lower, upper = np.full(robot.nv, -DEFAULT_RANGE), np.full(robot.nv, DEFAULT_RANGE)
        for i, joint in enumerate(list(robot.model.joints)[1:]):
            if joint.nq == 1:
                low, high = robot.lower[joint.idx_q], robot.upper[joint.idx_q]
                if np.isfinite(low) or np.isfinite(high):
                    lower[i] = low if np.isfinite(low) else high - 2.0 * DEFAULT_RANGE
                    upper[i] = high if np.isfinite(high) else low + 2.0 * DEFAULT_RANGE
        # margin for extrema between samples
        usable_fraction = (1.0 - margin) / (1.0 + 0.5 * (np.pi / SAMPLES_PER_HARMONIC) ** 2)
        self._middle, self._reach = 0.5 * (lower + upper), 0.5 * usable_fraction * (upper - lower)
        speeds = np.full(robot.nv, DEFAULT_SPEED)
        speeds[robot.actuated_index] = np.where(
            np.isfinite(robot.velocity_limits), robot.velocity_limits, DEFAULT_SPEED
        )
        self._speed = usable_fraction * speeds
        self._acceleration = acceleration / (1.0 + 0.5 * (np.pi / SAMPLES_PER_HARMONIC) ** 2)
        if not (self._reach > 0.0).all() or not (self._speed > 0.0).all():
            stuck = [
                n for n, r, s in zip(robot.actuated, self._reach, self._speed, strict=True) if not (r > 0 and s > 0)
            ]
            raise ArgumentError(f"robot: the limits of {', '.join(stuck)} leave no range of motion")
        self._fine_times = np.linspace(0.0, period, SAMPLES_PER_HARMONIC * harmonics, endpoint=False)
        self._times = np.linspace(0.0, period, samples, endpoint=False)
        efforts = np.ones(robot.nv)
        finite = np.isfinite(robot.effort_limits) & (robot.effort_limits > 0.0)
        efforts[robot.actuated_index] = np.where(finite, robot.effort_limits, 1.0)
        self._weights = 1.0 / efforts[:, None]
        self._dynamics, self._max_effort_fraction = Dynamics(robot), 1.0 - margin
        self._efforts = np.full(robot.nv, np.inf)
        self._efforts[robot.actuated_index] = np.where(finite, robot.effort_limits, np.inf)
        zero = np.zeros((robot.nv, harmonics))
        at_rest = self.effort_fractions(self._middle, zero, zero)
        worst = int(np.argmax(at_rest))
        if at_rest[worst] >= self._max_effort_fraction:
            raise ArgumentError(
                f"robot: {robot.actuated[worst]!r} of {robot.name} needs {at_rest[worst] * self._efforts[worst]:.3g} "
                f"N m (or N) in the middle of the range of motion, but its effort limit is {self._efforts[worst]:.3g} "
                f"(margin {margin:g}); correct the limits in the file"
            )

    def scale_to_limits(self, x: Array) -> tuple[Array, Array, Array]:
        """Returns start, sines and cosines of the largest motion of this shape within the limits, from rest to rest."""
        k = np.arange(1, x.shape[2] + 1)
        sines = x[0] / k - ((x[0] @ np.ones(len(k))) / (k @ k))[:, None] * k  # v(0) = 0: sum of k s_k
        cosines = x[1] / k**2 - ((x[1] @ np.ones(len(k))) / (k**2 @ k**2))[:, None] * k**2  # a(0) = 0: sum of k^2 r_k
        y, v, a = _evaluate_series(self._fine_times, self._period, np.zeros(len(sines)), sines, cosines)
        half = 0.5 * (y.max(axis=0) - y.min(axis=0))
        tiny = np.finfo(float).tiny
        factors = (
            self._reach / np.maximum(half, tiny),
            self._speed / np.maximum(np.abs(v).max(axis=0), tiny),
            self._acceleration / np.maximum(np.abs(a).max(axis=0), tiny),
        )
        scale = np.minimum.reduce(factors)
        # Small motions stay away from the stops, large ones fill the range; both are centered.
        offset = scale * 0.5 * (y.max(axis=0) + y.min(axis=0))
        sines, cosines = sines * scale[:, None], cosines * scale[:, None]
        low, high, fraction = 0.0, 1.0, 1.0  # scales of all amplitudes: feasible, infeasible or 1, and the next one
        for _ in range(EFFORT_BISECTIONS):
            effort_fractions = self.effort_fractions(
                self._middle - fraction * offset, fraction * sines, fraction * cosines
            )
            if effort_fractions.max(initial=0.0) <= self._max_effort_fraction:
                low = fraction
                if fraction == 1.0:
                    break
            else:
                high = fraction
            fraction = 0.5 * (low + high)
        return self._middle - low * offset, low * sines, low * cosines

    def effort_fractions(self, start: Array, sines: Array, cosines: Array) -> Array:
        """Returns the largest torques (nv,) of a motion divided by the effort limits; 0 where there is no limit."""
        x, v, a = _evaluate_series(self._fine_times, self._period, start, sines, cosines)
        q = _to_configurations(self._robot, x)
        tau = np.array([self._dynamics.rnea(*state) for state in zip(q, v, a, strict=True)])
        return np.asarray((np.abs(tau) / self._efforts).max(axis=0, initial=0.0))

    def cost(self, x: Array) -> float:
        """Returns the logarithm of the condition number of a candidate; inf where the rank is not full."""
        y, v, a = _evaluate_series(self._times, self._period, *self.scale_to_limits(x))
        H = self._regressor(_to_configurations(self._robot, y), v, a) * self._weights
        sigma = np.linalg.svd(np.linalg.qr(H.reshape(-1, H.shape[2]), mode="r"), compute_uv=False)
        if sigma[-1] <= np.finfo(float).eps * sigma[0]:
            return np.inf
        return float(np.log(sigma[0] / sigma[-1]))


def _evaluate_series(t: Array, period: float, start: Array, sines: Array, cosines: Array) -> tuple[Array, Array, Array]:
    """Returns joint coordinates, velocities and accelerations (N, nv) of Fourier series."""
    w = 2.0 * np.pi / period * np.arange(1, sines.shape[1] + 1)
    s, c = np.sin(np.outer(t, w)), np.cos(np.outer(t, w))
    x = start + s @ sines.T + (c - 1.0) @ cosines.T
    v = (c * w) @ sines.T - (s * w) @ cosines.T
    a = -(s * w**2) @ sines.T - (c * w**2) @ cosines.T
    return x, v, a


def _to_configurations(robot: Robot, x: Array) -> Array:
    """Returns configurations (N, nq) of joint coordinates (N, nv); a continuous joint takes (cos, sin)."""
    q = np.empty((len(x), robot.nq))
    for i, joint in enumerate(list(robot.model.joints)[1:]):
        if joint.nq == 1:
            q[:, joint.idx_q] = x[:, i]
        else:
            q[:, joint.idx_q], q[:, joint.idx_q + 1] = np.cos(x[:, i]), np.sin(x[:, i])
    return q
