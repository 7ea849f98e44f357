"""Base parameters: the combinations of parameters that motion and torque determine.

`base_parameters` computes them for any robot, with a certificate of their number.

Source: fast inverse dynamics of a serial robot (the patent), step 3; Gautier, *Numerical calculation of the base
inertial parameters of robots*, 1991.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..deprecation import renamed_attributes
from ..errors import ArgumentError
from ..robot.arguments import check_number
from ..robot.robot import Robot
from ..urdf.tree import Array, FrozenArrays
from .stacked_regressor import StackedRegressor, parameter_names, random_states

#: Singular values between these, relative to the largest, are neither clearly there nor clearly rounding.
AMBIGUOUS_RANGE = (1e-12, 1e-3)

#: A column is a pivot if its remainder is at least this fraction of the largest remainder.  Among these the first in
#: the robot's order is used, so that the choice is the same on all machines.
PIVOT_FRACTION = 0.5


@renamed_attributes(certain="is_unambiguous")
@dataclass(frozen=True, slots=True, eq=False)
class RankCertificate(FrozenArrays):
    """Evidence for the number of base parameters.

    Attributes:
        rank: number of singular values above `tolerance`.
        columns: number of parameters.
        singular_values: (columns,) singular values of the stacked regressor with columns scaled to unit length, divided
            by the largest; dimensionless.
        gap: ratio of the smallest singular value above `tolerance` to the largest below it; inf if none is below.
        ambiguous: (k,) relative singular values within 1e-12 to 1e-3, and lengths of columns treated as zero that are
            above 1e-12 of the longest: nearly aligned axes, as tilts of a micro- to a milliradian make them; empty on
            exact geometry.
        residual: largest entry of the dependent columns minus their expression in the independent ones, divided by the
            unit length of the columns (dimensionless): the check of ``tau = Hb K delta``.
        samples: number of random states that were stacked.
        seed: seed of the states.
        tolerance: threshold of the singular values, relative to the largest.
    """

    rank: int
    columns: int
    singular_values: Array
    gap: float
    ambiguous: Array
    residual: float
    samples: int
    seed: int
    tolerance: float

    @property
    def is_unambiguous(self) -> bool:
        """Whether no singular value is ambiguous."""
        return self.ambiguous.size == 0

    def __str__(self) -> str:
        doubt = (
            ""
            if self.is_unambiguous
            else f"; {self.ambiguous.size} ambiguous, {_format_range(self.ambiguous)} of the largest"
        )
        gap = "nothing dropped" if not np.isfinite(self.gap) else f"gap of {np.log10(self.gap):.1f} decades"
        return f"rank {self.rank} of {self.columns}, {gap}{doubt} ({self.samples} states, seed {self.seed})"


@dataclass(frozen=True, slots=True, eq=False)
class BaseParameters(FrozenArrays):
    """Base parameters ``beta = K delta``: the combinations of the parameters delta that determine all torques.

    With the regressor H of all parameters and its independent columns ``Hb = H[:, independent]``, the torques are
    ``H delta = Hb beta`` in every state.

    With P the permutation that puts the independent columns first, ``P = [Pb Pd]``, ``Hd = Hb Kd`` and
    ``K = Pb^T + Kd Pd^T`` (source C, step 3).  Each base parameter is an independent parameter plus a combination of
    dependent ones.

    Attributes:
        robot: the robot.
        inertial: whether delta has ten parameters a body instead of 13.
        names: (n,) names of all parameters, see `parameter_names`.
        independent: (r,) indices of the independent columns, ascending.
        dependent: (n - r,) indices of the others, ascending.
        Kd: (r, n - r) coefficients of the dependent parameters in each base parameter.
        K: (r, n) map from parameters to base parameters, each in its unit, see `names`.
        certificate: evidence for the rank r.
    """

    robot: Robot
    inertial: bool
    names: tuple[str, ...]
    independent: NDArray[np.intp]
    dependent: NDArray[np.intp]
    Kd: Array
    K: Array
    certificate: RankCertificate

    @property
    def size(self) -> int:
        """Number r of base parameters."""
        return len(self.independent)

    @property
    def P(self) -> Array:
        """(n, n) permutation ``[Pb Pd]``: ``H @ P`` has the independent columns first."""
        return np.eye(len(self.names))[:, np.concatenate([self.independent, self.dependent])]

    def project(self, delta: Array) -> Array:
        """Returns the base parameters (r,) of parameters delta (n,)."""
        delta = np.asarray(delta)
        if delta.dtype.kind not in "fiu" or delta.shape != (len(self.names),):
            raise ArgumentError(f"delta: expected {len(self.names)} numbers, got shape {delta.shape} of {delta.dtype}")
        return np.asarray(self.K @ delta)

    def nearest_parameters(self, beta: Array, prior: Array) -> Array:
        """Returns the parameters with given base parameters that are nearest to a prior.

        Args:
            beta: (r,) base parameters.
            prior: (n,) parameters, such as `Dynamics.parameters`; the distance is measured in each parameter's own
                unit.

        Returns:
            (n,) delta with ``K delta = beta``, not necessarily physically consistent: see `fit_consistent`.
        """
        beta = np.asarray(beta)
        if beta.dtype.kind not in "fiu" or beta.shape != (self.size,):
            raise ArgumentError(f"beta: expected {self.size} numbers, got shape {beta.shape} of {beta.dtype}")
        correction = np.linalg.lstsq(self.K, beta - self.project(prior), rcond=None)[0]
        return np.asarray(prior + correction, dtype=np.float64)

    def regressor(self) -> StackedRegressor:
        """Returns the function that computes Hb, regressors in the independent columns only."""
        return StackedRegressor(self.robot, inertial=self.inertial, columns=self.independent)

    def groups(self, *, digits: int = 6) -> tuple[str, ...]:
        """Returns each base parameter (r,) as text, such as "Lzz link1 + Ia joint1 + 0.25 m link2".

        Args:
            digits: significant digits of the coefficients; those below ``10^-digits`` are left out.
        """
        out = []
        for i, own in enumerate(self.independent):
            words = [self.names[own]]
            for j in np.flatnonzero(np.abs(self.Kd[i]) > 10.0**-digits):
                factor, name = self.Kd[i, j], self.names[self.dependent[j]]
                size = "" if abs(abs(factor) - 1.0) < 10.0**-digits else f"{abs(factor):.{digits}g} "
                words.append(f"{'-' if factor < 0.0 else '+'} {size}{name}")
            out.append(" ".join(words))
        return tuple(out)


def base_parameters(
    robot: Robot, *, inertial: bool = False, samples: int | None = None, seed: int = 0, tolerance: float = 1e-9
) -> BaseParameters:
    """Computes the base parameters of any robot by column-pivoted QR of a stacked random regressor.

    The regressor of `samples` random states is stacked and its columns are scaled to unit length, since units such as
    kg m^2 and kg do not determine what is measurable.  Singular values determine the rank; Householder QR with column
    pivoting selects the independent columns (Golub and Van Loan 2013, section 5.4.2).

    Args:
        robot: any robot.
        inertial: ten parameters a body instead of 13 with friction and rotor inertia.
        samples: number of random states; by default four times as many rows as columns, and at least 60 states.
        seed: seed of the states.
        tolerance: threshold of the singular values, relative to the largest, and of the lengths of columns, relative to
            the longest.

    Raises:
        ArgumentError: fewer rows than columns, or a tolerance outside (0, 1).
    """
    if not 0.0 < check_number("tolerance", tolerance) < 1.0:
        raise ArgumentError(f"tolerance: expected a fraction in (0, 1), got {tolerance}")
    stacked = StackedRegressor(robot, inertial=inertial)
    names = parameter_names(robot, inertial=inertial)
    n = len(names)
    count = max(60, -(-4 * n // max(robot.nv, 1))) if samples is None else samples
    if count * robot.nv < n:
        raise ArgumentError(
            f"samples: expected enough states for at least {n} rows, the number of parameters; {count} states give "
            f"{count * robot.nv} rows"
        )
    rng = np.random.default_rng(seed)
    R = np.zeros((0, n))
    for start in range(0, count, 64):
        H = stacked(*random_states(robot, min(64, count - start), rng))
        R = triangular_factor(np.concatenate([R, H.reshape(-1, n)]))
    lengths = np.linalg.norm(R, axis=0)
    short = lengths / max(lengths.max(initial=0.0), np.finfo(float).tiny)
    R[:, short <= tolerance] = 0.0  # rounding, which must not be scaled up
    lengths[short <= tolerance] = 1.0
    R = R / lengths
    sigma = np.linalg.svd(R, compute_uv=False)
    sigma = sigma / max(sigma[0], np.finfo(float).tiny)
    r = int(np.count_nonzero(sigma > tolerance))
    independent = np.sort(_select_pivot_columns(R, r))
    dependent = np.setdiff1d(np.arange(n), independent)
    Kd, residual = np.zeros((r, n - r)), 0.0
    if n > r:
        Kd = np.linalg.lstsq(R[:, independent], R[:, dependent], rcond=None)[0]
        residual = float(np.abs(R[:, dependent] - R[:, independent] @ Kd).max())
        # What rounding leaves of exact zeros would read as tiny groupings.
        Kd[np.abs(Kd) < 1e-13 * np.abs(Kd).max(initial=1.0)] = 0.0
        Kd = Kd * lengths[dependent] / lengths[independent, None]
    K = np.zeros((r, n))
    K[np.arange(r), independent] = 1.0
    K[:, dependent] = Kd
    doubtful = np.concatenate([sigma, short[short <= tolerance]])
    ambiguous = doubtful[(doubtful > AMBIGUOUS_RANGE[0]) & (doubtful < AMBIGUOUS_RANGE[1])]
    gap = float(sigma[r - 1] / max(sigma[r], np.finfo(float).tiny)) if 0 < r < n else np.inf
    certificate = RankCertificate(r, n, sigma, gap, ambiguous, residual, count, seed, tolerance)
    return BaseParameters(robot, inertial, names, independent, dependent, Kd, K, certificate)


def _select_pivot_columns(R: Array, rank: int) -> NDArray[np.intp]:
    """Returns the indices of `rank` well-conditioned columns of R, by Householder QR with column pivoting."""
    R = R.copy()
    left = np.arange(R.shape[1])
    taken: list[int] = []
    for k in range(rank):
        news = (R[k:, left] ** 2).sum(axis=0)
        best = int(np.argmax(news >= PIVOT_FRACTION**2 * news.max()))
        column = int(left[best])
        left = np.delete(left, best)
        taken.append(column)
        x = R[k:, column].copy()
        x[0] += np.copysign(np.linalg.norm(x), x[0])
        x /= np.linalg.norm(x)
        R[k:, left] -= 2.0 * np.outer(x, x @ R[k:, left])
    return np.array(taken, dtype=np.intp)


def triangular_factor(A: Array) -> Array:
    """Returns the upper triangle R of the factorization ``A = Q R``."""
    return np.asarray(np.linalg.qr(A, mode="r"), dtype=np.float64)


def _format_range(values: Array) -> str:
    return f"{values.min():.0e} to {values.max():.0e}"
