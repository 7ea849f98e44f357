"""Least-squares fits of the parameters: plain, weighted and physically consistent."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from ..dynamics import Dynamics
from ..dynamics.regressor import N_COLUMNS, N_INERTIAL_COLUMNS
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number
from ..robot.robot import Robot
from ..urdf.tree import Array
from .accumulator import Accumulator
from .base_parameters import BaseParameters
from .consistent_fit import fit_consistent
from .identification_result import Identification, Method
from .samples import MAX_MAGNITUDE, Samples, iterate_samples

#: Rounds of estimating the noise of each torque from its residual and weighting by it.
N_REWEIGHTINGS = 5
#: No estimated noise is smaller than this fraction of the largest force: samples without noise, such as a repeated
#: posture, would otherwise have infinite weight.
MIN_NOISE_FRACTION = 1e-7

#: Least weights of the prior over the squared length of the data, tried in turn: doubles lose less beside the data.
MIN_PRIOR_WEIGHTS = (1e-15, 1e-13, 1e-11, 1e-8)


def identify(
    robot: Robot | BaseParameters,
    samples: Samples | Iterable[Samples],
    *,
    method: Method = "consistent",
    torque_noise: Array | float | None = None,
    force_noise: float | None = None,
    root_noise: float | None = None,
    offsets: bool = True,
    prior: Array | None = None,
    prior_weight: float = 1.0,
    progress: Callable[[int], object] | None = None,
) -> Identification:
    """Identifies the parameters of a robot from measured motion.

    The data may be an iterator of chunks and are read once.

    Args:
        robot: the robot, or its `base_parameters`.
        samples: the data, at once or in chunks.
        method: "least_squares", "weighted" or "consistent", see `fit_accumulated`.
        torque_noise: (nu,) or one for all, standard deviation of the torques [N m, N].  None: unknown, and
            estimated from the residuals where it is needed.
        force_noise: standard deviation of contact forces [N, N m]; needs `torque_noise`.  None: forces count as
            exact.
        root_noise: standard deviation of unmodeled forces on unactuated coordinates [N, N m]; needs
            `torque_noise`, whose mean is the value for None.
        offsets: whether each actuated joint has a constant torque offset, which is identified with the parameters.
        prior: (n,) parameters for what the data do not determine, each in its unit.  None: those of the robot's file,
            see `fit_accumulated`.
        prior_weight: weight of the prior, dimensionless, see `fit_accumulated`.
        progress: called with the number of samples read so far; None for no reports.

    Raises:
        ArgumentError: samples that are not of this robot, or another argument out of range.
    """
    gathered = Accumulator(
        robot, torque_noise=torque_noise, force_noise=force_noise, root_noise=root_noise, offsets=offsets
    )
    for part in iterate_samples(samples):
        gathered.add(part)
        if progress is not None:
            progress(gathered.samples)
    return fit_accumulated(gathered, method=method, prior=prior, prior_weight=prior_weight)


def fit_accumulated(
    accumulator: Accumulator,
    *,
    method: Method = "consistent",
    prior: Array | None = None,
    prior_weight: float = 1.0,
    tolerance: float = 1e-10,
) -> Identification:
    """Fits the parameters to accumulated samples.

    - "least_squares": every row counts the same, in its own unit.
    - "weighted": rows are divided by their noise; where it was not given, by the residuals of the last round.
    - "consistent": as weighted, among physically consistent parameters, see `quaddyn.identification.consistent_fit`.

    Args:
        accumulator: the data.
        method: one of the above.
        prior: (n,) parameters for what the data do not determine, each in its unit.  None:
            ``Dynamics(robot).parameters()``.  With "consistent", moving bodies must have mass.
        prior_weight: weight of the divergence from the prior with "consistent", relative to half the sum of squared
            errors divided by their noise; with 1, a body twice as heavy as its prior counts like a measurement 1.6
            deviations off.  Where the noise is so small that the prior would be lost beside the data in double
            precision, the noise is increased: the squared data add up to 1e15 times the weight at most, or less if
            there is no convergence with that.
        tolerance: singular values of the regressor below it, relative to the largest, columns scaled to unit length,
            count as not determined by the data.

    Raises:
        ArgumentError: no samples, or an argument out of range.
    """
    base = accumulator.base
    if method not in ("least_squares", "weighted", "consistent"):
        raise ArgumentError(f'method: expected "least_squares", "weighted" or "consistent", got {method!r}')
    if accumulator.samples == 0:
        raise ArgumentError("samples: expected at least one sample, got none")
    if not 0.0 < check_number("prior_weight", prior_weight) < np.inf:
        raise ArgumentError(f"prior_weight: expected a positive number, got {prior_weight}")
    before = (
        Dynamics(accumulator.robot).parameters(inertial=base.inertial) if prior is None else _check_prior(prior, base)
    )
    start = base.project(before)
    iterations, converged = 0, True
    R = accumulator.weighted_factor(np.ones(accumulator.robot.nv))
    known = accumulator.noise is not None
    if method != "least_squares":
        if accumulator.force_noise:
            R = accumulator.whitened_factor()
        elif accumulator.noise is not None:
            R = accumulator.weighted_factor(accumulator.noise)
        else:
            least = max(MIN_NOISE_FRACTION * accumulator.force_scale(start), 1.0 / MAX_MAGNITUDE)
            for _ in range(N_REWEIGHTINGS):
                noise = accumulator.residuals(_solve_least_squares(R, start, tolerance)[0])
                R = accumulator.weighted_factor(np.maximum(noise, least))
                iterations += 1
    beta, covariance, n_identifiable, condition = _solve_least_squares(R, start, tolerance)
    hidden = [name for name, x in zip(base.groups(), covariance.diagonal(), strict=True) if not np.isfinite(x)]
    delta = base.nearest_parameters(beta, before)
    if method == "consistent":
        _check_masses(before, base)
        A, z = R[:, :-1] @ base.K, R[:, -1]
        unexcited = _find_unexcited_losses(A, base)
        A[:, unexcited] = 0.0
        width = N_INERTIAL_COLUMNS if base.inertial else N_COLUMNS
        length = max(float(z @ z), float(np.sum((A @ before) ** 2)))
        for weight in MIN_PRIOR_WEIGHTS:
            # of the two, the data give way: the unit of a prior of zero is what they could just see
            data_scale = min(1.0, float(np.sqrt(prior_weight / (weight * length)))) if length > 0.0 else 1.0
            found = fit_consistent(data_scale * A, data_scale * z, before, width=width, weight=prior_weight)
            if found.converged:
                break
        delta, beta = found.phi, base.project(found.phi)
        half = data_scale * np.linalg.solve(found.factor.T, (base.K @ found.jacobian).T)
        covariance = half.T @ half
        only_unexcited = ~(base.K[:, ~unexcited] != 0.0).any(axis=1)  # base parameters of unexcited ones only
        groups = base.groups()
        unknown = {name for name, is_unknown in zip(groups, only_unexcited, strict=True) if is_unknown}
        n_identifiable -= len(unknown - set(hidden))
        hidden = [name for name in groups if name in unknown or name in hidden]
        iterations, converged = found.iterations, found.converged
    if method == "least_squares" or not known:
        n_offsets = accumulator.robot.nu if accumulator.offsets else 0
        freedom = max(accumulator.samples * accumulator.robot.nv - n_identifiable - n_offsets, 1)
        covariance = covariance * float(np.sum((R[:, :-1] @ beta - R[:, -1]) ** 2)) / freedom
    return Identification(
        base,
        method,
        beta,
        covariance,
        delta,
        accumulator.residuals(beta),
        accumulator.samples,
        n_identifiable,
        condition,
        converged,
        iterations,
        tuple(hidden),
        accumulator.torque_offsets(beta),
        accumulator.mean_residuals(beta),
        accumulator.drifts(beta),
    )


def _find_unexcited_losses(A: Array, base: BaseParameters) -> NDArray[np.bool_]:
    """Returns which parameters (n,) are friction and rotor inertia of joints that the data hardly move.

    Even the largest plausible value, with which a motor at its effort limit does not reach its velocity limit or takes
    more than a second to do so, would contribute less than one standard deviation to all data together. The data could
    otherwise be fitted by any value.
    """
    unexcited, robot = np.zeros(A.shape[1], dtype=bool), base.robot
    if base.inertial:
        return unexcited
    lengths = np.linalg.norm(A, axis=0).reshape(-1, N_COLUMNS)[:, N_INERTIAL_COLUMNS:]
    limits = dict(zip(robot.actuated, zip(robot.effort_limits, robot.velocity_limits, strict=True), strict=True))
    for body, row, found in zip(robot.bodies, lengths, unexcited.reshape(-1, N_COLUMNS), strict=True):
        effort, speed = limits.get("" if body.joint is None else body.joint.name, (np.inf, np.inf))
        if np.isfinite(effort) and np.isfinite(speed) and effort > 0.0 and speed > 0.0:
            found[N_INERTIAL_COLUMNS:] = row * [effort / speed, effort, effort / speed] < 1.0
    return unexcited


def _check_prior(prior: Array, base: BaseParameters) -> Array:
    """Returns the prior as an array of the right shape."""
    try:
        out = np.array(prior, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"prior: expected an array of numbers, got {type(prior).__name__}") from None
    if out.shape != (len(base.names),) or not np.isfinite(out).all():
        got = f"shape {out.shape}" if out.shape != (len(base.names),) else f"{out[~np.isfinite(out)][0]} among them"
        raise ArgumentError(f"prior: expected {len(base.names)} finite parameters, got {got}")
    return out


def _check_masses(prior: Array, base: BaseParameters) -> None:
    """Raises if a moving body has no mass in the prior.

    No physically consistent parameters could be reached from there.
    """
    bodies = base.robot.bodies
    for body, mass in zip(bodies, prior.reshape(len(bodies), -1)[:, N_INERTIAL_COLUMNS - 1], strict=True):
        moves = body.joint is not None or base.robot.root != "fixed"
        if moves and (mass < 0.0 or (mass == 0.0 and body.inertial.mass > 0.0)):
            raise ArgumentError(f"prior: expected positive masses, but that of {body.name!r} is {mass:g} kg")


def _solve_least_squares(R: Array, start: Array, tolerance: float) -> tuple[Array, Array, int, float]:
    """Solves ``A beta = z`` by least squares, ``R = [A z]``; directions that A does not determine stay at `start`.

    Returns:
        beta, its covariance for unit noise, the number of directions that A determines, and its condition number.
    """
    A, z = R[:, :-1], R[:, -1]
    lengths = np.linalg.norm(A, axis=0)
    hidden = lengths <= tolerance * lengths.max(initial=0.0)
    scale = np.where(hidden, 1.0, lengths)
    U, sigma, Vt = np.linalg.svd(A / scale, full_matrices=False)
    significant = sigma > tolerance * sigma.max(initial=0.0)
    n_identifiable = int(significant.sum())
    V = Vt[significant].T / scale[:, None]
    beta = start + V @ ((U[:, significant].T @ (z - A @ start)) / sigma[significant])
    half = V / sigma[significant]
    covariance = half @ half.T
    if n_identifiable < A.shape[1]:
        loose = np.linalg.norm(Vt[significant], axis=0) < 1.0 - 1e-9  # parameters with a component in the null space
        covariance[loose, loose] = np.inf
    values = np.linalg.svd(A, compute_uv=False)
    condition = float(values[0] / values[-1]) if n_identifiable == A.shape[1] and values[-1] > 0.0 else np.inf
    return beta, covariance, n_identifiable, condition
