"""`Identification`: what a fit found, what it is worth and what it predicts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from ..dynamics.regressor import N_COLUMNS, N_INERTIAL_COLUMNS
from ..errors import ArgumentError
from ..robot.arguments import check_positive
from ..robot.inertial_update import with_inertials
from ..robot.robot import Robot
from ..urdf.tree import Array, FrozenArrays, Inertial
from ..wbc import ParameterEllipsoid
from .accumulator import CHUNK
from .base_parameters import BaseParameters
from .inertia import inertial_of, is_consistent
from .samples import Measured, Samples, parts_of
from .stacked_regressor import chunks

Method = Literal["least_squares", "weighted", "consistent"]

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
        rows = self.delta.reshape(-1, N_COLUMNS)[:, N_INERTIAL_COLUMNS:]
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
        width = N_INERTIAL_COLUMNS if self.base.inertial else N_COLUMNS
        return np.asarray(self.delta.reshape(-1, width)[:, :N_INERTIAL_COLUMNS])

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

    def parameter_band(self, deviations: float = 3.0) -> ParameterEllipsoid:
        """Parameters within so many standard deviations, for `quaddyn.wbc.RobustLimits` of the identified robot.

        Any generalized force differs by at most `deviations` times its `band` within it.  Directions which the data do
        not show count as kept from the prior, hence as certain.

        Args:
            deviations: how many.

        Raises:
            ArgumentError: not a positive number.
        """
        count = check_positive("deviations", deviations)
        C = np.where(np.isfinite(self.covariance), self.covariance, 0.0)
        sizes, axes = np.linalg.eigh(C)
        bodies, width = len(self.base.robot.bodies), N_INERTIAL_COLUMNS if self.base.inertial else N_COLUMNS
        out = np.zeros((self.base.size, bodies, N_COLUMNS))
        delta = np.zeros((self.base.size, bodies * width))
        delta[:, self.base.independent] = count * np.sqrt(np.maximum(sizes, 0.0))[:, None] * axes.T
        out[:, :, :width] = delta.reshape(-1, bodies, width)
        return ParameterEllipsoid(out.reshape(self.base.size, -1))

    def validate(self, samples: Samples | Iterable[Samples]) -> Validation:
        """Prediction against other samples of the robot, at once or in chunks.

        Raises:
            ArgumentError: they are no samples of this robot, or there are none.
        """
        measured, count = Measured(self.base.robot), 0
        error, signal = np.zeros(self.base.robot.nv), np.zeros(self.base.robot.nv)
        for part in parts_of(samples):
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
