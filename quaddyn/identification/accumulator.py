"""Least squares over data of any length in constant memory: triangular factors that absorb rows (TSQR).

Of the rows ``[H y]`` of one generalized force only the triangle R of a QR factorization is stored.  Stacking new rows
under it and factorizing again loses nothing, and there are no normal equations, which would square the condition
number.

Source: Golub and Van Loan, *Matrix Computations*, 2013, section 6.5.3; Demmel et al., *Communication-optimal parallel
and sequential QR and LU factorizations*, 2012.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..archives import read_arrays
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number
from ..robot.robot import Robot
from ..safe_files import DAMAGED_ARCHIVE_ERRORS
from ..urdf.tree import Array
from .base_parameters import BaseParameters, base_parameters, iterate_chunks, triangular_factor
from .samples import MAX_MAGNITUDE, MeasuredForces, Samples

#: Samples regressed at once: enough for blocked matrix products, little enough for the cache.
REGRESSION_CHUNK = 1024


#: Distance of a column of ones from the span of a regressor, relative to its length, below which a constant torque is
#: not distinguished from the others, such as gravity in a single posture.
MIN_OFFSET_DISTANCE = 0.02

#: Speeds are counted by powers of two, from the first of these exponents on [SI units].
MIN_SPEED_EXPONENT, N_SPEED_BINS = -40, 64
#: A joint sticks below this power of two of its largest speed in the data, or below this one of its velocity limit.
STICKING_EXPONENT, STICKING_LIMIT_EXPONENT = -6, -10


#: Lengths of the blocks of successive samples whose sums show the correlation of residuals, each divides the next.
BLOCK_LENGTHS = (4, 16, 64, 256)
#: Correlations are measured with at least this number of blocks beyond the number of parameters, where the squared sums
#: exceed those of noise by this number of standard deviations, and residuals this fraction of the measured force.
MIN_BLOCKS, SIGNIFICANT_CORRELATION, MIN_CORRELATED_FRACTION = 32, 4.0, 1e-6

#: Residuals contradict the given noise if their squared sum exceeds its mean by this number of standard deviations.
SIGNIFICANT_EXCESS = 4.0


class TriangularFactor:
    """Triangular QR factor of all rows of one equation so far.

    Each row has further columns before those of the base parameters, whose coefficients are eliminated: with these
    first, the lower right part of the triangle is the factor of the equation for their best coefficients.

    Args:
        columns: (c,) indices of the base parameters that occur in it.
        n_eliminated: number e of columns before them.

    Attributes:
        columns: as given.
        rows: number of rows so far.
        n_eliminated: as given.
    """

    def __init__(self, columns: NDArray[np.intp], n_eliminated: int = 0) -> None:
        self.columns, self.rows, self.n_eliminated = columns, 0, n_eliminated
        self._R = np.zeros((0, n_eliminated + len(columns) + 1))
        self._waiting: list[Array] = []
        self._count = 0

    def add_rows(self, rows: Array, count: int | None = None) -> None:
        """Adds rows (m, e + c + 1), which stand for `count` rows where they are a triangular factor themselves."""
        self._waiting.append(rows)
        self._count += len(rows)
        self.rows += len(rows) if count is None else count
        if self._count > 4 * self._R.shape[1]:  # few rows at a time would factorize the triangle again and again
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._R = triangular_factor(np.concatenate([self._R, *self._waiting]))
            self._waiting, self._count = [], 0

    @property
    def triangle(self) -> Array:
        """(k, e + c + 1) upper triangle of all columns, k <= e + c + 1."""
        self._flush()
        return self._R

    def eliminate(self, is_eliminated: NDArray[np.bool_]) -> Array:
        """Returns the triangle (k, c + 1) of ``[H[:, columns] y]`` without what columns before them explain.

        Args:
            is_eliminated: (e,) which of these have coefficients; those of the others are zero.
        """
        kept = np.delete(self.triangle, np.flatnonzero(~is_eliminated), axis=1)
        count = int(np.count_nonzero(is_eliminated))
        return triangular_factor(kept)[count:, count:]


class ForceFactor:
    """Triangular QR factor of all rows ``[1 t H y]`` of one generalized force, with the number t of the sample.

    The columns 1 and t show whether the residual of a fit has a mean, and whether it changes in the course of the data;
    factors of the sums of rows over blocks of successive samples show how it is correlated.

    Args:
        columns: (c,) indices of the base parameters that occur in it.
        may_have_offset: whether a constant is identified with the base parameters, such as the offset of a torque
            sensor, if the data distinguish it from them.

    Attributes:
        columns, may_have_offset: as given.
    """

    def __init__(self, columns: NDArray[np.intp], *, may_have_offset: bool) -> None:
        self.columns, self.may_have_offset = columns, may_have_offset
        self._factor = TriangularFactor(columns, 2)
        self._blocks = tuple(TriangularFactor(columns, 2) for _ in BLOCK_LENGTHS)

    @property
    def rows(self) -> int:
        """Number of rows so far."""
        return self._factor.rows

    @property
    def triangle(self) -> Array:
        """(k, c + 3) upper triangle of ``[1 t H[:, columns] y]``, k <= c + 3."""
        return self._factor.triangle

    @property
    def has_offset(self) -> bool:
        """Whether a constant is identified."""
        R = self.triangle
        if not self.may_have_offset or not len(R):
            return False
        ones, H = R[:, 0], R[:, 2:-1]
        rest = ones - H @ np.linalg.lstsq(H, ones, rcond=1e-9)[0] if H.size else ones
        return bool(np.linalg.norm(rest) > MIN_OFFSET_DISTANCE * np.linalg.norm(ones))

    def add_samples(self, H: Array, y: Array) -> None:
        """Adds m samples, which follow those so far in time.

        Args:
            H: (m, c) regressor of each sample.
            y: (m,) generalized force of each [N m or N].
        """
        t = self.rows + np.arange(len(y), dtype=np.float64)
        rows, length = np.column_stack([np.ones(len(y)), t, H, y]), 1
        self._factor.add_rows(rows)
        for block_length, factor in zip(BLOCK_LENGTHS, self._blocks, strict=True):
            ratio, length = block_length // length, block_length
            rows = rows[: len(rows) // ratio * ratio].reshape(-1, ratio, rows.shape[1]).sum(axis=1)
            factor.add_rows(rows / np.sqrt(length))

    @property
    def factors(self) -> tuple[TriangularFactor, ...]:
        """Factor of the rows, and those of the sums over blocks."""
        return (self._factor, *self._blocks)

    def add_triangles(self, triangles: Sequence[Array], counts: Sequence[int]) -> None:
        """Adds samples, which follow those so far in time, by triangles and numbers of rows of their `factors`."""
        first = self.rows
        for factor, triangle, count in zip(self.factors, triangles, counts, strict=True):
            later = triangle.copy()
            later[:, 1] += first * later[:, 0]
            factor.add_rows(later, count)

    def correlation(self, beta: Array, of_noise: float, n_parameters: float) -> float:
        """Returns the number of correlated residuals worth one independent one, see `Accumulator.correlations`.

        It is estimated by the squared sums of residuals over blocks, where these clearly exceed those of the noise.
        Mean and linear change in the course of the data do not count, see `mean_residual` and `drift`.

        Args:
            beta: (r,) base parameters.
            of_noise: value for noise without errors of the model.
            n_parameters: number of parameters that are fitted to this force.
        """
        R, out = self.triangle, of_noise
        if len(R) < 3:
            return out
        fitted = np.concatenate([-beta[self.columns], [1.0]])
        error = float(np.linalg.norm(R[2:, 2:] @ fitted))
        if not error > MIN_CORRELATED_FRACTION * float(np.linalg.norm(R[2:, -1])):
            return out
        coefficients = np.concatenate([-np.linalg.solve(R[:2, :2], R[:2, 2:] @ fitted), fitted])
        for factor in self._blocks:
            if (count := factor.rows - n_parameters) >= MIN_BLOCKS:
                found = float(np.sum((factor.triangle @ coefficients) ** 2)) / count / (error**2 / self.rows)
                if found > of_noise * (1.0 + SIGNIFICANT_CORRELATION * np.sqrt(2.0 / count)):
                    out = max(out, found)
        return out

    @property
    def R(self) -> Array:
        """(k, c + 1) rows equivalent to all rows ``[H[:, columns] y]``, with the best offset if there is one."""
        return np.delete(self.triangle[1 if self.has_offset else 0 :], (0, 1), axis=1)

    def in_all_columns(self, width: int) -> Array:
        """Returns the rows (k, width + 1) of `R` in the columns of all base parameters."""
        R = self.R
        out = np.zeros((len(R), width + 1))
        out[:, self.columns], out[:, -1] = R[:, :-1], R[:, -1]
        return out

    def residual(self, beta: Array) -> float:
        """Returns the norm of ``H beta + offset - y`` over all rows."""
        R = self.R
        return float(np.linalg.norm(R[:, :-1] @ beta[self.columns] - R[:, -1]))

    def mean_residual(self, beta: Array) -> float:
        """Returns the mean of ``y - H beta`` [N m or N]; the offset, if there is one."""
        R = self.triangle
        if not len(R):
            return 0.0
        return float((R[0, -1] - R[0, 2:-1] @ beta[self.columns]) / R[0, 0])

    def drift(self, beta: Array) -> tuple[float, float]:
        """Returns the change of ``y - H beta`` from the first sample to the last by a linear fit, and its deviation.

        The deviation is that for independent errors of the rows [N m or N].
        """
        R = self.triangle
        if len(R) < 2 or self.rows < 3:
            return 0.0, np.inf
        rest = R[1:, -1] - R[1:, 2:-1] @ beta[self.columns]
        slope, span = rest[0] / R[1, 1], float(self.rows - 1)
        noise = float(np.linalg.norm(rest[1:])) / np.sqrt(self.rows - 2)
        return float(slope * span), float(noise / abs(R[1, 1]) * span)

    def scale(self, beta: Array, is_loss: NDArray[np.bool_]) -> tuple[float, float]:
        """Returns the scale of the generalized force against parameters beta, and its correlation with them.

        Mean values, and the components that friction and rotor inertia explain, are removed before both are computed.

        Args:
            beta: (r,) base parameters.
            is_loss: (r,) which of them are friction and rotor inertia.

        Returns:
            Scale and correlation, dimensionless; 0 where the parameters predict no change.
        """
        R = self.triangle[1:]
        torques = np.column_stack([R[:, 2:-1] @ beta[self.columns], R[:, -1]])
        losses = R[:, 2:-1][:, is_loss[self.columns]]
        if losses.any():
            torques = torques - losses @ np.linalg.lstsq(losses, torques, rcond=None)[0]
        (square, product), (_, measured) = (torques.T @ torques).tolist()  # sums of squares and of products
        return (product / square, product / np.sqrt(square * measured)) if min(square, measured) > 0.0 else (0.0, 0.0)


class Accumulator:
    """Accumulated samples for a fit, in memory that does not grow with their number.

    It stores one triangular factor per generalized force, in the base parameters that the force depends on.  The torque
    of a joint of a leg depends on this leg alone, so that this costs a fraction of one dense factorization, and rows
    can be weighted afterwards.  With `force_noise` one more factor stores the rows of each sample whitened together,
    since the noise of one contact force enters many rows.

    Torques of motors have a constant offset each, of the sensor or of a spring, which is identified with the base
    parameters; a torque of gravity that no motion changes cannot be told from it.

    An accumulator is not safe for concurrent use: make one per thread or process, and combine them by `merge`.

    Args:
        base: a robot, or its `base_parameters`.
        torque_noise: standard deviation of the measured torques, (nu,) or one for all [N m, N]; unknown by default.
        force_noise: standard deviation of each component of the measured contact forces [N] and, where measured, of
            their torques [N m], one number for both; needs `torque_noise`.  By default forces count as exact.
        root_noise: standard deviation of unmodeled forces on each generalized coordinate without a motor [N, N m]; by
            default the mean of `torque_noise`, which it needs.
        offsets: whether each actuated joint has a constant torque offset.

    Attributes:
        robot: the robot.
        base: its base parameters.
        samples: number of samples added.
        effective_samples: number of independent samples with as much noise, see `Samples.noise_bandwidth`.
    """

    def __init__(
        self,
        base: Robot | BaseParameters,
        *,
        torque_noise: Array | float | None = None,
        force_noise: float | None = None,
        root_noise: float | None = None,
        offsets: bool = True,
    ) -> None:
        self.base = base if isinstance(base, BaseParameters) else base_parameters(base)
        self.robot = robot = self.base.robot
        self._regressor, self._measured = self.base.regressor(), MeasuredForces(robot)
        self.samples, self.effective_samples = 0, 0.0
        self._speed_counts = np.zeros((robot.nv, N_SPEED_BINS))
        for name, value in (("force_noise", force_noise), ("root_noise", root_noise)):
            if value is not None and torque_noise is None:
                raise ArgumentError(
                    f"{name}: requires torque_noise, because measurements are weighted by both; pass torque_noise="
                )
        self.noise: Array | None = None
        if torque_noise is not None:
            try:
                motors = np.asarray(torque_noise, dtype=np.float64)
            except (TypeError, ValueError):
                raise ArgumentTypeError(
                    f"torque_noise: expected a number or {robot.nu} numbers, got {type(torque_noise).__name__}"
                ) from None
            if motors.shape not in ((), (robot.nu,)):
                raise ArgumentError(f"torque_noise: expected a number or {robot.nu} numbers, got shape {motors.shape}")
            rest = float(motors.mean()) if root_noise is None else check_number("root_noise", root_noise)
            self.noise = np.full(robot.nv, rest)
            self.noise[robot.actuated_index] = motors
            if not (
                1.0 / MAX_MAGNITUDE <= rest <= MAX_MAGNITUDE
                and ((self.noise >= 1.0 / MAX_MAGNITUDE) & (self.noise <= MAX_MAGNITUDE)).all()
            ):
                raise ArgumentError(
                    f"torque_noise, root_noise: expected positive numbers, {1.0 / MAX_MAGNITUDE:g} to "
                    f"{MAX_MAGNITUDE:g}, got "
                    f"{torque_noise}, {root_noise}"
                )
        if force_noise is not None and not 0.0 <= check_number("force_noise", force_noise) <= MAX_MAGNITUDE:
            raise ArgumentError(f"force_noise: expected a number from 0 to {MAX_MAGNITUDE:g}, got {force_noise}")
        self.force_noise = force_noise or 0.0
        width = self.base.size
        supports = [np.flatnonzero(row) for row in self._regressor.support]
        self.offsets, is_offset = bool(offsets), np.zeros(robot.nv, dtype=bool)
        is_offset[robot.actuated_index] = self.offsets
        self.rows = tuple(
            ForceFactor(columns, may_have_offset=bool(own)) for columns, own in zip(supports, is_offset, strict=True)
        )
        self._offset_columns = np.eye(robot.nv)[:, is_offset]  # of the rows of one sample
        self.whitened = TriangularFactor(np.arange(width), self._offset_columns.shape[1])

    def add(self, samples: Samples) -> None:
        """Adds samples.

        Raises:
            ArgumentError: they are not samples of this robot; then nothing is added.
            ArgumentTypeError: not `Samples`.
        """
        if not isinstance(samples, Samples):
            raise ArgumentTypeError(f"samples: expected Samples, got {type(samples).__name__}")
        samples.check(self.robot)
        for part in iterate_chunks(len(samples), REGRESSION_CHUNK):
            self._add(samples[part])

    def _add(self, samples: Samples) -> None:
        robot = self.robot
        H, y = self._regressor(*samples.states), self._measured.generalized_forces(samples)
        if self.base.inertial:  # friction and rotor inertia count as known
            direction = np.sign(samples.v) if samples.direction is None else samples.direction
            y -= robot.damping * samples.v + robot.friction * direction + robot.armature * samples.a
        exponents = np.frexp(samples.v)[1] + np.where(samples.v == 0.0, MIN_SPEED_EXPONENT, 0) - MIN_SPEED_EXPONENT
        for counts, column in zip(self._speed_counts, np.clip(exponents, 0, N_SPEED_BINS - 1).T, strict=True):
            counts += np.bincount(column, minlength=N_SPEED_BINS)
        for j, row in enumerate(self.rows):
            row.add_samples(H[:, j, row.columns], y[:, j])
        self.samples += len(samples)
        self.effective_samples += len(samples) * samples.noise_bandwidth
        if not self.force_noise:
            return
        assert self.noise is not None
        offsets = np.broadcast_to(self._offset_columns, (len(samples), *self._offset_columns.shape))
        together = np.concatenate([offsets, H, y[:, :, None]], axis=2)
        if samples.forces:
            J = self._measured.jacobians(samples)
            S = np.einsum("nij,nik->njk", J, J) * self.force_noise**2
            S[:, np.arange(self.robot.nv), np.arange(self.robot.nv)] += self.noise**2
            white = np.linalg.solve(np.linalg.cholesky(S), together)
        else:
            white = together / self.noise[:, None]
        self.whitened.add_rows(white.reshape(-1, together.shape[2]))

    def merge(self, other: Accumulator) -> None:
        """Adds the samples of another accumulator of the same robot and noise, as those that follow in time.

        Raises:
            ArgumentError: it is of another robot, of other parameters or of other noise.
        """
        mine, theirs = self.base, other.base
        same = mine.names == theirs.names and np.array_equal(mine.K, theirs.K) and self.force_noise == other.force_noise
        same = same and self.offsets == other.offsets
        noises = [np.zeros(0) if x.noise is None else x.noise for x in (self, other)]
        if not same or not np.array_equal(noises[0], noises[1]):
            raise ArgumentError("other: expected an Accumulator of the same robot, base parameters and noise")
        for to, of in zip(self.rows, other.rows, strict=True):
            to.add_triangles([x.triangle for x in of.factors], [x.rows for x in of.factors])
        self.whitened.add_rows(other.whitened.triangle, other.whitened.rows)
        self._speed_counts += other._speed_counts
        self.samples += other.samples
        self.effective_samples += other.effective_samples

    def dump(self) -> bytes:
        """Returns the accumulated data as bytes, for `merge_dump` in another process."""
        arrays = {f"R {i}": triangle for i, triangle in enumerate(self._triangles())}
        counts = np.array([self.samples, *(x.rows for row in self.rows for x in row.factors), self.whitened.rows])
        file = io.BytesIO()
        effective = np.array(self.effective_samples)
        np.savez(
            file, allow_pickle=False, counts=counts, speeds=self._speed_counts, effective_samples=effective, **arrays
        )
        return file.getvalue()

    def _triangles(self) -> list[Array]:
        """Returns the triangles of all factors."""
        return [*(x.triangle for row in self.rows for x in row.factors), self.whitened.triangle]

    def load(self, data: bytes) -> None:
        """Adds the samples of another accumulator of the same robot and noise, given by its `dump`.

        Raises:
            ArgumentError: it is of another robot, or not a dump.
        """
        try:
            arrays = read_arrays(io.BytesIO(data))
            samples, *counts = (int(n) for n in arrays["counts"])
            found = [np.asarray(arrays[f"R {i}"], dtype=np.float64) for i in range(len(counts))]
            speeds = np.asarray(arrays["speeds"], dtype=np.float64)
            effective = float(arrays["effective_samples"])
            sound = (
                np.isfinite(speeds).all()
                and 0.0 <= effective <= samples
                and min(samples, *counts) >= 0
                and all(R.ndim == 2 and np.isfinite(R).all() for R in found)
            )
        except DAMAGED_ARCHIVE_ERRORS:
            sound = False
        if not sound:
            raise ArgumentError(
                "data: expected the bytes that Accumulator.dump returns, but they are of another kind or damaged"
            ) from None
        shapes = [triangle.shape[1:] for triangle in self._triangles()]
        if [R.shape[1:] for R in found] != shapes or speeds.shape != self._speed_counts.shape:
            raise ArgumentError("data: expected the dump of an Accumulator of the same robot and base parameters")
        first = 0
        for to in self.rows:
            last = first + len(to.factors)
            to.add_triangles(found[first:last], counts[first:last])
            first = last
        self.whitened.add_rows(found[-1], counts[-1])
        self._speed_counts += speeds
        self.samples += samples
        self.effective_samples += effective

    def weighted_factor(self, noise: Array) -> Array:
        """Returns the triangular factor of all rows, each divided by the noise (nv,) of its generalized force."""
        return self._scaled_factor(1.0 / noise)

    def _scaled_factor(self, factors: Array) -> Array:
        """Returns the triangular factor of all rows, each times the factor (nv,) of its generalized force."""
        parts = [row.in_all_columns(self.base.size) * s for row, s in zip(self.rows, factors, strict=True)]
        return triangular_factor(np.concatenate(parts))

    def whitened_factor(self) -> Array:
        """Returns the triangular factor of all rows, whitened by the noise of torques and contact forces."""
        return self.whitened.eliminate(
            np.array([row.has_offset for row in self.rows if row.may_have_offset], dtype=bool)
        )

    def force_scale(self, beta: Array) -> float:
        """Returns the root mean square of the largest generalized force, measured or predicted with beta [N m, N]."""
        both = [max(float(np.linalg.norm(x.R[:, :-1] @ beta[x.columns])), x.residual(0.0 * beta)) for x in self.rows]
        return max(both) / float(np.sqrt(max(self.samples, 1)))

    def torque_offsets(self, beta: Array) -> Array:
        """Returns the offset (nv,) of each generalized force for parameters beta [N m, N]; zero where there is none."""
        return np.array([row.mean_residual(beta) if row.has_offset else 0.0 for row in self.rows])

    def sticking_fractions(self) -> dict[str, float]:
        """Returns by actuated joint the fraction of samples in which the joint hardly moves or not at all.

        That is below 1/64 of its largest speed or below 1/1024 of its velocity limit, to the next power of two.
        """
        out = {}
        for joint, i, limit in zip(
            self.robot.actuated, self.robot.actuated_index, self.robot.velocity_limits, strict=True
        ):
            counts = self._speed_counts[i]
            end = int(np.flatnonzero(counts)[-1]) + 1 + STICKING_EXPONENT if counts.any() else 0
            if 0.0 < limit < np.inf:
                end = max(end, int(np.frexp(limit)[1]) + STICKING_LIMIT_EXPONENT - MIN_SPEED_EXPONENT)
            out[joint] = float(counts[: max(end, 1)].sum()) / max(self.samples, 1)
        return out

    def mean_residuals(self, beta: Array) -> Array:
        """Returns the mean (nv,) of ``y - Hb beta - offset`` in each generalized force [N m, N]."""
        return np.array([0.0 if row.has_offset else row.mean_residual(beta) for row in self.rows])

    def drifts(self, beta: Array) -> Array:
        """Returns change and deviation (nv, 2) of each residual in the course of the data, see `ForceFactor.drift`."""
        return np.array([row.drift(beta) for row in self.rows])

    def filter_correlation(self) -> float:
        """Returns the number of filtered samples that are worth one independent sample; 1 without a filter."""
        return self.samples / self.effective_samples if self.samples else 1.0

    def correlations(self, beta: Array) -> Array:
        """Returns the number (nv,) of correlated residuals worth one independent one, by generalized force.

        That is the variance of the mean of successive residuals, relative to that of as many independent ones; 1 for
        white noise. Parameters of motion that is slow compared with the noise have a variance larger by this factor. It
        is `filter_correlation`, or more where the residuals show it, such as those of friction or contacts that differ
        from the model; among several lengths of the mean, the largest value counts.
        """
        of_noise, n_parameters = self.filter_correlation(), self.base.size / self.robot.nv
        return np.array([row.correlation(beta, of_noise, n_parameters) for row in self.rows])

    def torque_scales(self, beta: Array) -> Array:
        """Returns scale and correlation (nv, 2) of each generalized force against beta, see `ForceFactor.scale`."""
        names = np.array(self.base.names)[self.base.independent]
        is_loss = np.array([name.startswith(("fv ", "fc ", "Ia ")) for name in names], dtype=bool)
        return np.array([row.scale(beta, is_loss) for row in self.rows])

    def noise_levels(self, beta: Array) -> Array:
        """Returns the standard deviation (nv,) of independent errors with the effect of the residuals.

        For residuals that a low-pass has left that is the noise before the low-pass [N m, N].
        """
        return np.asarray(self.residuals(beta) * np.sqrt(self.correlations(beta)))

    def noise_ratios(self, beta: Array) -> Array:
        """Returns the ratio (nv,) of noise levels to the given noise, where it is significantly above 1, otherwise 1.

        With `force_noise`, the noise of several generalized forces is compared together, and the ratio is the same.
        """
        assert self.noise is not None
        counts = np.maximum(self.samples / self.correlations(beta) - self.base.size / self.robot.nv, 1.0)
        squares, tolerance = self.samples * (self.residuals(beta) / self.noise) ** 2, np.sqrt(2.0 / counts)
        if self.force_noise:
            R = self.whitened_factor()
            squares[:] = np.sum((R[:, :-1] @ beta - R[:, -1]) ** 2) / self.robot.nv
            counts[:], tolerance[:] = counts.mean(), np.sqrt(2.0 / counts.sum())
        return np.asarray(
            np.sqrt(np.where(squares > counts * (1.0 + SIGNIFICANT_EXCESS * tolerance), squares / counts, 1.0))
        )

    def excess_noise_factor(self, ratios: Array) -> Array:
        """Returns the triangular factor of all rows, weighted by the excess of the noise, by its ratios (nv,)."""
        assert self.noise is not None
        excess = np.sqrt(ratios**2 - 1.0)
        return excess[0] * self.whitened_factor() if self.force_noise else self._scaled_factor(excess / self.noise)

    def residuals(self, beta: Array) -> Array:
        """Returns the root mean square (nv,) of ``Hb beta + offset - y`` in each generalized force [N m, N]."""
        norms = np.array([row.residual(beta) for row in self.rows])
        return np.asarray(norms / np.sqrt(max(self.samples, 1)))
