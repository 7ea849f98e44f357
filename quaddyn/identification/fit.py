"""Fits: least squares, weighted and physically consistent, with the uncertainty of what they found."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from ..dynamics import Dynamics
from ..dynamics.regressor import ALL, INERTIAL
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import number
from ..robot.changed import with_inertials
from ..robot.robot import Robot
from ..urdf.tree import Array, FrozenArrays, Inertial
from .base import BaseParameters
from .consistent import minimize
from .inertia import inertial_of, is_consistent
from .regression import chunks
from .samples import LARGEST, Measured, Samples
from .streaming import CHUNK, Accumulator

Method = Literal["least_squares", "weighted", "consistent"]

#: Rounds of estimating the noise of each torque from its residual and weighting by it.
REWEIGHTINGS = 5
#: No estimated noise is smaller than this share of the largest force: samples without noise, such as one posture over
#: and over, would else count for infinitely much.
LEAST_NOISE = 1e-7

#: Least weights of the prior over the squared length of the data, tried in turn: doubles lose less beside the data.
LEAST_WEIGHTS = (1e-15, 1e-13, 1e-11, 1e-8)

#: How many bodies `print` lists.
SCREEN = 18


@dataclass(frozen=True, slots=True, eq=False)
class Validation(FrozenArrays):
    """How well a fit predicts samples.

    Attributes:
        error: (nv,) root mean square of prediction minus measurement [N m, N].
        signal: (nv,) root mean square of what was measured [N m, N].
        samples: how many.
    """

    error: Array
    signal: Array
    samples: int


@dataclass(frozen=True, slots=True, eq=False)
class Identification(FrozenArrays):
    """Identified parameters of one robot, what they are worth, and what they predict.

    Attributes:
        base: which combinations can be told apart.
        method: "least_squares", "weighted" or "consistent".
        beta: (r,) base parameters.
        covariance: (r, r) of beta; inf on the diagonal for what the data do not show at all.
        delta: (n,) all parameters with ``base.of(delta) = beta``: of the method "consistent" those of a physical robot,
            of the others the nearest to the prior.
        noise: (nv,) root mean square of the residual of each generalized force [N m, N].
        samples: how many were fitted.
        shown: how many of the r base parameters the data show; the others are kept from the prior.
        condition: condition number of the stacked regressor in base parameters, rows divided by the noise.
        converged: whether the method reached its tolerance (always, for linear ones).
        iterations: of the method "consistent", or rounds of weighting.
        hidden: names of the base parameters that the data do not show on their own; see `BaseParameters.groups`.
    """

    base: BaseParameters
    method: Method
    beta: Array
    covariance: Array
    delta: Array
    noise: Array
    samples: int
    shown: int
    condition: float
    converged: bool
    iterations: int
    hidden: tuple[str, ...]

    @property
    def deviation(self) -> Array:
        """(r,) standard deviation of each base parameter."""
        return np.sqrt(self.covariance.diagonal())

    @property
    def inertials(self) -> dict[str, Inertial]:
        """Mass, centre of mass and inertia about it of each body, in the axes of its joint frame."""
        return {body.name: inertial_of(p) for body, p in zip(self.base.robot.bodies, self._bodies(), strict=True)}

    @property
    def losses(self) -> dict[str, Array]:
        """By joint (3,) viscous friction [N m s/rad], Coulomb friction [N m] and rotor inertia [kg m^2].

        Sliding joints: [N s/m], [N], [kg].  Empty where inertias alone were identified.
        """
        if self.base.inertial:
            return {}
        rows = self.delta.reshape(-1, ALL)[:, INERTIAL:]
        pairs = zip(self.base.robot.bodies, rows, strict=True)
        return {b.joint.name: row for b, row in pairs if b.joint is not None and b.joint.nv == 1}

    @property
    def inconsistent(self) -> tuple[str, ...]:
        """Names of moving bodies whose parameters no mass distribution has; none with the method "consistent"."""
        bodies, fixed = self.base.robot.bodies, self.base.robot.root == "fixed"
        pairs = zip(bodies, self._bodies(), strict=True)
        wrong = {b.name for b, p in pairs if not (fixed and b.joint is None) and not is_consistent(p)}
        wrong |= {
            name.split(maxsplit=1)[1] for name, x in zip(self.base.names, self.delta, strict=True) if _bad(name, x)
        }
        return tuple(sorted(wrong))

    @property
    def ok(self) -> bool:
        """Whether the method converged, to parameters that a physical robot can have."""
        return self.converged and not self.inconsistent

    def robot(self) -> Robot:
        """The robot with what was identified: inertias, friction and rotor inertia; all else is as it was.

        Raises:
            ModelError: no physical robot has these parameters, as may be without the method "consistent".
        """
        return with_inertials(self.base.robot, self._fitted(), self.losses, said="identified")

    def save_urdf(self, path: str | os.PathLike[str]) -> Path:
        """Write the robot's URDF with what was identified.

        Links that hang on another by a fixed joint lose their inertia to it, as only their sum can be identified; rotor
        inertia is the attribute ``armature`` of ``<dynamics>``.  What `load` was told about friction and limits is in
        the file too; feet, actuated joints and the root are to be told again.  Paths of meshes stay as they are.

        Raises:
            ModelError: no physical robot has these parameters.
            OSError: the file cannot be written.
        """
        found, file = self.robot(), Path(path)
        assert isinstance(found.source, str)
        file.write_text(found.source, encoding="utf-8")
        return file

    def _fitted(self) -> dict[str, Inertial]:
        moving = [b for b in self.base.robot.bodies if not (self.base.robot.root == "fixed" and b.joint is None)]
        found = self.inertials
        return {body.name: found[body.name] for body in moving}

    def __str__(self) -> str:
        robot, noise = self.base.robot, self.noise
        names = {robot.velocity_index(joint): joint for joint in robot.actuated}
        worst = int(np.argmax(noise))
        lines = [
            f"{robot.name}: {self.samples} samples, {self.method}"
            + ("" if self.converged else ", NOT CONVERGED")
            + (f", not physical: {_several(self.inconsistent)}" if self.inconsistent else ""),
            f"residual [N m, N]: {np.sqrt(np.mean(noise**2)):.3g} on average, {noise[worst]:.3g} of "
            f"{names.get(worst, 'the root')}",
            f"{self.shown} of {self.base.size} base parameters shown, condition {self.condition:.3g}",
            f"{'body':<22}{'mass [kg]':>10}{'in the file':>12}   {'com [m]':<26}"
            + ("" if self.base.inertial else f"{'viscous':>9}{'Coulomb':>9}{'rotor':>9}"),
        ]
        found, losses = self.inertials, self.losses
        moving = [body for body in robot.bodies if body.joint is not None or robot.root != "fixed"]
        for body in moving[:SCREEN]:
            com = ", ".join(f"{round(x, 4) + 0.0:+.4f}" for x in found[body.name].com.tolist())
            mass, before = found[body.name].mass, body.inertial.mass
            own = losses.get(body.joint.name, ()) if body.joint is not None else ()
            lines.append(
                f"{body.name[:21]:<22}{mass:>10.4g}{before:>12.4g}   {com:<26}" + "".join(f"{x:>9.3g}" for x in own)
            )
        if len(moving) > SCREEN:
            lines.append(f"and {len(moving) - SCREEN} more bodies, see .inertials")
        if self.hidden:
            lines.append(f"kept from the file, not shown by the data: {len(self.hidden)} parameters, see .hidden")
        return "\n".join(line.rstrip() for line in lines)

    def _bodies(self) -> Array:
        width = INERTIAL if self.base.inertial else ALL
        return np.asarray(self.delta.reshape(-1, width)[:, :INERTIAL])

    def predict(self, q: Array, v: Array, a: Array) -> Array:
        """(N, nv) generalized forces of N states, friction and rotor inertia included [N m, N].

        Args:
            q: (N, nq) configurations.
            v: (N, nv) velocities.
            a: (N, nv) accelerations.

        Raises:
            ArgumentError: wrong shapes or entries.
        """
        return np.asarray(self.base.regressor()(q, v, a) @ self.beta + _known(self.base, v, a))

    def band(self, q: Array, v: Array, a: Array) -> Array:
        """(N, nv) standard deviation of `predict` that the uncertainty of the parameters causes [N m, N].

        Directions which the data do not show count as kept from the prior, hence as certain; see `shown`.

        Args:
            q: (N, nq) configurations.
            v: (N, nv) velocities.
            a: (N, nv) accelerations.
        """
        H = self.base.regressor()(q, v, a)
        C = np.where(np.isfinite(self.covariance), self.covariance, 0.0)
        return np.asarray(np.sqrt(np.maximum(np.einsum("nij,jk,nik->ni", H, C, H, optimize=True), 0.0)))

    def validate(self, samples: Samples | Iterable[Samples]) -> Validation:
        """Prediction against other samples of the robot, at once or in chunks.

        Raises:
            ArgumentError: they are no samples of this robot, or there are none.
        """
        measured, count = Measured(self.base.robot), 0
        error, signal = np.zeros(self.base.robot.nv), np.zeros(self.base.robot.nv)
        for part in _parts(samples):
            part.check(self.base.robot)
            for piece in chunks(len(part), CHUNK):
                some = part[piece]
                y = measured.force(some)
                error += ((self.predict(some.q, some.v, some.a) - y) ** 2).sum(axis=0)
                signal += (y**2).sum(axis=0)
            count += len(part)
        if count == 0:
            raise ArgumentError("samples: there are none")
        return Validation(np.sqrt(error / count), np.sqrt(signal / count), count)

    def to_json(self) -> dict[str, object]:
        """All of it in plain types."""
        deviation = [x if np.isfinite(x) else None for x in self.deviation.tolist()]
        names, groups = self.base.names, self.base.groups()
        return {
            "robot": self.base.robot.name,
            "method": self.method,
            "samples": self.samples,
            "shown": self.shown,
            "condition": self.condition if np.isfinite(self.condition) else None,
            "converged": self.converged,
            "noise": self.noise.tolist(),
            "base_parameters": [
                {"group": g, "value": b, "deviation": d}
                for g, b, d in zip(groups, self.beta.tolist(), deviation, strict=True)
            ],
            "parameters": dict(zip(names, self.delta.tolist(), strict=True)),
            "hidden": list(self.hidden),
            "inconsistent": list(self.inconsistent),
        }


def identify(
    robot: Robot | BaseParameters,
    samples: Samples | Iterable[Samples],
    *,
    method: Method = "consistent",
    torque_noise: Array | float | None = None,
    force_noise: float | None = None,
    root_noise: float | None = None,
    prior: Array | None = None,
    prior_weight: float = 1.0,
    progress: Callable[[int], object] | None = None,
) -> Identification:
    """Identify a robot from measured motion; the data may be an iterator of chunks and are seen once.

    Args:
        robot: the robot, or its `base_parameters`.
        samples: the data.
        method: see `solve`.
        torque_noise: see `Accumulator`.
        force_noise: see `Accumulator`.
        root_noise: see `Accumulator`.
        prior: see `solve`.
        prior_weight: see `solve`.
        progress: called with the number of samples taken in so far.

    Raises:
        ArgumentError: samples that are not of this robot, or another argument out of range.
    """
    gathered = Accumulator(robot, torque_noise=torque_noise, force_noise=force_noise, root_noise=root_noise)
    for part in _parts(samples):
        gathered.add(part)
        if progress is not None:
            progress(gathered.samples)
    return solve(gathered, method=method, prior=prior, prior_weight=prior_weight)


def solve(
    gathered: Accumulator,
    *,
    method: Method = "consistent",
    prior: Array | None = None,
    prior_weight: float = 1.0,
    tolerance: float = 1e-10,
) -> Identification:
    """The fit of what was gathered.

    - "least_squares": every row counts the same, in its own unit.
    - "weighted": rows divided by their noise; where the noise was not given, by the residuals of the last round.
    - "consistent": as weighted, among parameters of physical robots, see `quaddyn.identification.consistent`.

    Args:
        gathered: the data.
        method: one of the above.
        prior: (n,) parameters for what the data cannot tell; by default ``Dynamics(robot).parameters()``.  With
            "consistent", moving bodies must have mass.
        prior_weight: of the divergence from the prior with "consistent", against half the sum of squared errors over
            their noise; with 1, a body twice as heavy as its prior counts like a measurement 1.6 deviations off.
            Where the noise is so small that doubles would lose the prior beside the data, noise counts as larger: the
            squared data add up to 1e15 times the weight at most, or less if there is no convergence with that.
        tolerance: singular values of the regressor below it, relative to the largest, columns scaled to unit length,
            count as not shown by the data.

    Raises:
        ArgumentError: no samples, or an argument out of range.
    """
    base = gathered.base
    if method not in ("least_squares", "weighted", "consistent"):
        raise ArgumentError(f'method: expected "least_squares", "weighted" or "consistent", got {method!r}')
    if gathered.samples == 0:
        raise ArgumentError("samples: there are none")
    if not 0.0 < number("prior_weight", prior_weight) < np.inf:
        raise ArgumentError(f"prior_weight: expected a positive number, got {prior_weight}")
    before = Dynamics(gathered.robot).parameters(inertial=base.inertial) if prior is None else _checked(prior, base)
    start = base.of(before)
    iterations, converged = 0, True
    R = gathered.weighted(np.ones(gathered.robot.nv))
    known = gathered.noise is not None
    if method != "least_squares":
        if gathered.force_noise:
            R = gathered.whitened.R
        elif gathered.noise is not None:
            R = gathered.weighted(gathered.noise)
        else:
            least = max(LEAST_NOISE * gathered.scale(start), 1.0 / LARGEST)
            for _ in range(REWEIGHTINGS):
                noise = gathered.residuals(_linear(R, start, tolerance)[0])
                R = gathered.weighted(np.maximum(noise, least))
                iterations += 1
    beta, covariance, shown, condition = _linear(R, start, tolerance)
    hidden = [name for name, x in zip(base.groups(), covariance.diagonal(), strict=True) if not np.isfinite(x)]
    delta = base.expand(beta, before)
    if method == "consistent":
        _check_masses(before, base)
        A, z = R[:, :-1] @ base.K, R[:, -1]
        width = INERTIAL if base.inertial else ALL
        length = max(float(z @ z), float(np.sum((A @ before) ** 2)))
        for weight in LEAST_WEIGHTS:
            # of the two, the data give way: the unit of a prior of zero is what they could just see
            share = min(1.0, float(np.sqrt(prior_weight / (weight * length)))) if length > 0.0 else 1.0
            found = minimize(share * A, share * z, before, width=width, weight=prior_weight)
            if found.converged:
                break
        delta, beta = found.phi, base.of(found.phi)
        half = share * np.linalg.solve(found.factor.T, (base.K @ found.jacobian).T)
        covariance = half.T @ half
        iterations, converged = found.iterations, found.converged
    if method == "least_squares" or not known:
        freedom = max(gathered.samples * gathered.robot.nv - shown, 1)
        covariance = covariance * float(np.sum((R[:, :-1] @ beta - R[:, -1]) ** 2)) / freedom
    return Identification(
        base,
        method,
        beta,
        covariance,
        delta,
        gathered.residuals(beta),
        gathered.samples,
        shown,
        condition,
        converged,
        iterations,
        tuple(hidden),
    )


def _parts(samples: Samples | Iterable[Samples]) -> Iterator[Samples]:
    """The chunks of the data."""
    wanted = "samples: expected Samples or an iterable of them, got "
    if not isinstance(samples, Iterable | Samples):
        raise ArgumentTypeError(f"{wanted}{type(samples).__name__}")
    for part in (samples,) if isinstance(samples, Samples) else samples:
        if not isinstance(part, Samples):
            raise ArgumentTypeError(f"{wanted}{type(part).__name__}")
        yield part


def _checked(prior: Array, base: BaseParameters) -> Array:
    """A prior of the right shape."""
    try:
        out = np.array(prior, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"prior: expected an array of numbers, got {type(prior).__name__}") from None
    if out.shape != (len(base.names),) or not np.isfinite(out).all():
        got = f"shape {out.shape}" if out.shape != (len(base.names),) else f"{out[~np.isfinite(out)][0]} among them"
        raise ArgumentError(f"prior: expected {len(base.names)} finite parameters, got {got}")
    return out


def _check_masses(prior: Array, base: BaseParameters) -> None:
    """Raise for a prior that no robot has: from a body without mass no physical one can be reached."""
    bodies = base.robot.bodies
    for body, mass in zip(bodies, prior.reshape(len(bodies), -1)[:, INERTIAL - 1], strict=True):
        moves = body.joint is not None or base.robot.root != "fixed"
        if moves and (mass < 0.0 or (mass == 0.0 and body.inertial.mass > 0.0)):
            raise ArgumentError(f"prior: the mass of {body.name!r} is {mass:g} kg; expected a positive one")


def _linear(R: Array, start: Array, tolerance: float) -> tuple[Array, Array, int, float]:
    """Least squares of ``A beta = z``, ``R = [A z]``; what A does not show stays at `start`.

    Returns:
        beta, its covariance for unit noise, how many directions A shows, and its condition number.
    """
    A, z = R[:, :-1], R[:, -1]
    lengths = np.linalg.norm(A, axis=0)
    hidden = lengths <= tolerance * lengths.max(initial=0.0)
    scale = np.where(hidden, 1.0, lengths)
    U, sigma, Vt = np.linalg.svd(A / scale, full_matrices=False)
    kept = sigma > tolerance * sigma.max(initial=0.0)
    shown = int(kept.sum())
    V = Vt[kept].T / scale[:, None]
    beta = start + V @ ((U[:, kept].T @ (z - A @ start)) / sigma[kept])
    half = V / sigma[kept]
    covariance = half @ half.T
    if shown < A.shape[1]:
        loose = np.linalg.norm(Vt[kept], axis=0) < 1.0 - 1e-9  # touched by a direction that was not shown
        covariance[loose, loose] = np.inf
    values = np.linalg.svd(A, compute_uv=False)
    condition = float(values[0] / values[-1]) if shown == A.shape[1] and values[-1] > 0.0 else np.inf
    return beta, covariance, shown, condition


def _known(base: BaseParameters, v: Array, a: Array) -> Array:
    """(N, nv) torques of friction and rotors where these are not identified: as the robot's file has them."""
    robot = base.robot
    if not base.inertial:
        return np.zeros_like(v)
    return np.asarray(robot.damping * v + robot.friction * np.sign(v) + robot.armature * a)


def _several(names: tuple[str, ...], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _bad(name: str, value: float) -> bool:
    return name.startswith(("fv ", "fc ", "Ia ")) and value < 0.0
