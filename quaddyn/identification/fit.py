"""Least-squares fits of the parameters: plain, weighted and physically consistent; likely causes of misfits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..dynamics import Dynamics
from ..dynamics.regressor import N_COLUMNS, N_INERTIAL_COLUMNS
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number
from ..robot.robot import Robot
from ..urdf.tree import Array
from .accumulator import REGRESSION_CHUNK, Accumulator
from .base_parameters import BaseParameters, iterate_chunks
from .consistent_fit import ConsistentSolution, fit_consistent
from .identification_result import Identification, Method
from .samples import MAX_MAGNITUDE, MeasuredForces, Samples, iterate_samples

#: Rounds of estimating the noise of each torque from its residual and weighting by it.
N_REWEIGHTINGS = 5
#: No estimated noise is smaller than this fraction of the largest force: samples without noise, such as a repeated
#: posture, would otherwise have infinite weight.
MIN_NOISE_FRACTION = 1e-7

#: Least weights of the prior over the squared length of the data, tried in turn: doubles lose less beside the data.
MIN_PRIOR_WEIGHTS = (1e-15, 1e-13, 1e-11, 1e-8)

#: Weights of the prior that are tried in turn where none is given, as long as the prior shifts a base parameter by
#: more than this number of its standard deviations.
PRIOR_WEIGHTS, MAX_PRIOR_SHIFT = (1.0, 0.1, 1e-2, 1e-3), 1.0
#: Residuals that the prior causes are ignored below this fraction of the measured force.
MIN_SHIFT_RESIDUAL = 1e-3


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
    prior_weight: float | None = None,
    progress: Callable[[int], object] | None = None,
) -> Identification:
    """Identifies the parameters of a robot from measured motion.

    The data may be an iterator of chunks and are read once.

    Args:
        robot: the robot, or its `base_parameters`.
        samples: the data, at once or in chunks.
        method: "least_squares", "weighted" or "consistent", see `fit_accumulated`.
        torque_noise: (nu,) or one for all, standard deviation of the torques [N m, N], by which they are weighted.
            Where residuals are larger, standard deviations of parameters are those of the residuals.  None: unknown,
            and estimated from the residuals where it is needed.
        force_noise: standard deviation of contact forces [N, N m]; needs `torque_noise`.  None: forces count as
            exact.
        root_noise: standard deviation of unmodeled forces on unactuated coordinates [N, N m]; needs
            `torque_noise`, whose mean is the value for None.
        offsets: whether each actuated joint has a constant torque offset, which is identified with the parameters.
        prior: (n,) parameters for what the data do not determine, each in its unit.  None: those of the robot's file,
            see `fit_accumulated`.
        prior_weight: weight of the prior, dimensionless; None: chosen by the data, see `fit_accumulated`.
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
    prior_weight: float | None = None,
    tolerance: float = 1e-10,
) -> Identification:
    """Fits the parameters to accumulated samples.

    - "least_squares": every row counts the same, in its own unit.
    - "weighted": rows are divided by their noise; where it was not given, by the residuals of the last round, increased
      where these are correlated, such as by the low-pass of a log (`Accumulator.noise_levels`).
    - "consistent": as weighted, among physically consistent parameters, see `quaddyn.identification.consistent_fit`.

    Args:
        accumulator: the data.
        method: one of the above.
        prior: (n,) parameters for what the data do not determine, each in its unit.  None:
            ``Dynamics(robot).parameters()``.  With "consistent", moving bodies must have mass.
        prior_weight: weight of the divergence from the prior with "consistent", relative to half the sum of squared
            errors divided by their noise; with 1, a body twice as heavy as its prior counts like a measurement 1.6
            deviations off.  None: 1, reduced to 0.001 at the least by factors of ten as long as the prior shifts a base
            parameter by more than its standard deviation.  Where the noise is so small that the prior would be lost
            beside the data in double precision, the noise is increased: the squared data add up to 1e15 times the
            weight at most, or less if there is no convergence with that.
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
    if prior_weight is not None and not 0.0 < check_number("prior_weight", prior_weight) < np.inf:
        raise ArgumentError(f"prior_weight: expected a positive number, got {prior_weight}")
    before = (
        Dynamics(accumulator.robot).parameters(inertial=base.inertial) if prior is None else _check_prior(prior, base)
    )
    start = base.project(before)
    iterations, converged, prior_reducible = 0, True, False
    weighting = np.ones(accumulator.robot.nv)
    R = accumulator.weighted_factor(weighting)
    known = accumulator.noise is not None
    if method != "least_squares":
        if accumulator.force_noise:
            R = accumulator.whitened_factor()
        elif accumulator.noise is not None:
            R = accumulator.weighted_factor(accumulator.noise)
        else:
            least = max(MIN_NOISE_FRACTION * accumulator.force_scale(start), 1.0 / MAX_MAGNITUDE)
            for _ in range(N_REWEIGHTINGS):
                noise = accumulator.noise_levels(_solve_least_squares(R, start, tolerance)[0])
                weighting = np.maximum(noise, least)
                R = accumulator.weighted_factor(weighting)
                iterations += 1
    beta, covariance, n_identifiable, condition = _solve_least_squares(R, start, tolerance)
    hidden = [name for name, x in zip(base.groups(), covariance.diagonal(), strict=True) if not np.isfinite(x)]
    delta, shift, weight = base.nearest_parameters(beta, before), np.zeros(base.size), 0.0
    if method == "consistent":
        _check_masses(before, base)
        A, z = R[:, :-1] @ base.K, R[:, -1]
        unexcited = _find_unexcited_losses(A, base)
        A[:, unexcited] = 0.0
        deviations = np.sqrt(covariance.diagonal())
        scales = _plausible_scales(base, before, deviations)
        weights = iter(PRIOR_WEIGHTS if prior_weight is None else (prior_weight,))
        fit = _fit_with_weight(A, z, before, base, scales, next(weights))
        # with increased noise, the ratio of prior and data does not depend on the weight
        while fit.data_scale == 1.0 and np.abs(fit.shift / deviations).max(initial=0.0) > MAX_PRIOR_SHIFT:
            weight = next(weights, 0.0)
            lighter = _fit_with_weight(A, z, before, base, scales, weight or 0.1 * fit.weight, MIN_PRIOR_WEIGHTS[:1])
            if not lighter.solution.converged or (
                np.abs((lighter.beta - fit.beta) / deviations).max() <= 0.5 * MAX_PRIOR_SHIFT
            ):
                break  # the rest of the shift is due to the limits of physical bodies
            if not weight:
                prior_reducible = True
                break
            fit = lighter
        found, delta, beta, shift, weight = fit.solution, fit.solution.phi, fit.beta, fit.shift, fit.weight
        covariance = fit.covariance
        only_unexcited = ~(base.K[:, ~unexcited] != 0.0).any(axis=1)  # base parameters of unexcited ones only
        groups = base.groups()
        unknown = {name for name, is_unknown in zip(groups, only_unexcited, strict=True) if is_unknown}
        n_identifiable -= len(unknown - set(hidden))
        hidden = [name for name in groups if name in unknown or name in hidden]
        iterations, converged = found.iterations, found.converged
        shift[[name in unknown for name in groups]] = 0.0
    correlations = accumulator.correlations(beta)
    noise_ratio = np.ones(accumulator.robot.nv)
    if known and method != "least_squares":
        noise_ratio = accumulator.noise_ratios(beta - shift)  # the covariance contains the shift already
        excess = np.nan_to_num(covariance, posinf=0.0) @ accumulator.excess_noise_factor(noise_ratio)[:, :-1].T
        covariance = covariance + excess @ excess.T
    else:
        n_offsets = accumulator.robot.nu if accumulator.offsets else 0
        count = float(np.sum(accumulator.samples / correlations))  # of independent residuals
        freedom = max(count - n_identifiable - n_offsets, 1.0)
        covariance = covariance * float(np.mean((accumulator.noise_levels(beta) / weighting) ** 2)) * count / freedom
    return Identification(
        base,
        method,
        beta,
        covariance + np.outer(shift, shift),
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
        accumulator.drifts(beta) * np.column_stack([np.ones_like(correlations), np.sqrt(correlations)]),
        shift,
        weight,
        _shift_residuals(accumulator, beta, beta - shift),
        accumulator.sticking_fractions(),
        correlations,
        accumulator.filter_correlation(),
        prior_reducible,
        noise_ratio,
        accumulator.torque_scales(base.project(Dynamics(accumulator.robot).parameters(inertial=base.inertial))),
    )


def _shift_residuals(accumulator: Accumulator, beta: Array, best: Array) -> Array:
    """Returns root mean squares (nv,) of the part of the residuals that the prior causes.

    Parts below `MIN_SHIFT_RESIDUAL` of the measured generalized force are zero.
    """
    part = np.sqrt(np.maximum(accumulator.residuals(beta) ** 2 - accumulator.residuals(best) ** 2, 0.0))
    return np.where(part > MIN_SHIFT_RESIDUAL * accumulator.residuals(np.zeros_like(beta)), part, 0.0)


class _WeightedFit(NamedTuple):
    """Consistent fit with one weight of the prior."""

    solution: ConsistentSolution  # result of `fit_consistent`
    weight: float  # weight of the prior
    beta: Array  # (r,) base parameters
    covariance: Array  # (r, r) their covariance for unit noise, with the prior as a measurement
    # (r,) difference from the parameters that fit the data best, without prior and limits of physical bodies
    shift: Array
    data_scale: float  # factor of the data, below 1 where the noise was increased, see `fit_accumulated`


def _fit_with_weight(
    A: Array,
    z: Array,
    prior: Array,
    base: BaseParameters,
    scales: Array,
    weight: float,
    least_weights: Sequence[float] = MIN_PRIOR_WEIGHTS,
) -> _WeightedFit:
    """Fits physically consistent parameters to ``A phi = z``.

    Args:
        A: (m, n) regressor of all parameters, rows divided by the noise.
        z: (m,) measured generalized forces, divided by the noise.
        prior: (n,) parameters of the prior.
        base: base parameters.
        scales: (r,) plausible magnitudes of base parameters.  A shift that would be larger is reduced, as the data do
            not determine it.
        weight: weight of the prior.
        least_weights: as `MIN_PRIOR_WEIGHTS`, tried in turn until the fit converges.
    """
    width = N_INERTIAL_COLUMNS if base.inertial else N_COLUMNS
    length = max(float(z @ z), float(np.sum((A @ prior) ** 2)))
    for least in least_weights:
        # of the two, the data give way: the unit of a prior of zero is what they could just see
        data_scale = min(1.0, float(np.sqrt(weight / (least * length)))) if length > 0.0 else 1.0
        found = fit_consistent(data_scale * A, data_scale * z, prior, width=width, weight=weight)
        if found.converged:
            break
    beta = base.project(found.phi)
    half = data_scale * np.linalg.solve(found.factor.T, (base.K @ found.jacobian).T)
    A = A[:, base.independent]
    scales = np.maximum(scales, np.abs(beta))
    scales = np.where(scales > 0.0, scales, scales.max(initial=1e-300))
    # the minimum of the data alone, from here, with a penalty that bounds steps by the scales
    rows = np.concatenate([A * scales, np.eye(base.size)])
    right = np.concatenate([A @ beta - z, np.zeros(base.size)])
    shift = scales * np.linalg.lstsq(rows, right, rcond=None)[0]
    return _WeightedFit(found, weight, beta, half.T @ half, shift, data_scale)


def _plausible_scales(base: BaseParameters, prior: Array, deviations: Array) -> Array:
    """Returns magnitudes (r,) up to which base parameters are plausible, each in its unit.

    That is the largest mass, first moment or second moment of a body in the prior; for friction and rotor inertia, of
    which files contain arbitrary values, also the standard deviation (r,) with which the data determine it.
    """
    kinds = np.array([name.partition(" ")[0].rstrip("xyz") for name in base.names])
    largest = {kind: float(np.abs(prior[kinds == kind]).max()) for kind in set(kinds)}
    own = kinds[base.independent]
    is_loss = np.isin(own, ("fv", "fc", "Ia")) & np.isfinite(deviations)
    return np.maximum([largest[kind] for kind in own], np.where(is_loss, deviations, 0.0))


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


#: Correlation of two torques above which one is taken for the other.
MIN_CORRELATION = 0.8
#: Cause if neither order nor sign of the torques is.
UNKNOWN_CAUSE = "check order, signs and units of the positions, and that positions and torques have the same times"


def likely_causes(base: BaseParameters, samples: Samples | Iterable[Samples], joints: Sequence[str]) -> tuple[str, ...]:
    """Compares measured torques with those of the model in the robot's file, and states likely errors of the data.

    The comparison uses correlations, which masses that differ from the file hardly change.

    Args:
        base: base parameters of the robot.
        samples: the data, at once or in chunks.
        joints: actuated joints whose torque is not explained.

    Returns:
        Sentences without a period, at least one.
    """
    robot = base.robot
    measured, regressor = MeasuredForces(robot), base.regressor()
    beta = base.project(Dynamics(robot).parameters(inertial=base.inertial))
    n, index = robot.nu, robot.actuated_index
    count, means, products = 0, np.zeros(2 * n), np.zeros((2 * n, 2 * n))
    for part in iterate_samples(samples):
        for piece in iterate_chunks(len(part), REGRESSION_CHUNK):
            some = part[piece]
            y = measured.generalized_forces(some)[:, index]
            rows = np.concatenate([y, (regressor(*some.states) @ beta)[:, index]], axis=1)
            count, means, products = count + len(some), means + rows.sum(axis=0), products + rows.T @ rows
    means, products = means / max(count, 1), products / max(count, 1)
    deviation = np.sqrt(np.maximum(products.diagonal() - means**2, 0.0))
    scale = np.where(deviation > 0.0, deviation, np.inf)
    correlation = ((products - np.outer(means, means)) / np.outer(scale, scale))[:n, n:]
    flipped, swapped = list[str](), list[str]()
    for joint in joints:
        i = robot.actuated.index(joint)
        own, best = correlation[i, i], int(np.argmax(correlation[i]))
        if own < -MIN_CORRELATION:
            flipped.append(joint)
        elif best != i and correlation[i, best] > max(MIN_CORRELATION, own + 1.0 - MIN_CORRELATION):
            swapped.append(f"{joint} is that of {robot.actuated[best]}")
    out = [f"the torque of {', '.join(flipped)} has the opposite sign"] if flipped else []
    out += [f"the order of the joints is another one: the torque of {', of '.join(swapped)}"] if swapped else []
    return tuple(out) or (UNKNOWN_CAUSE,)
