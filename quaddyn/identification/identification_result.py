"""`Identification`: the result of a fit, with its uncertainty and predictions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from ..deprecation import renamed_attributes
from ..dynamics.regressor import N_COLUMNS, N_INERTIAL_COLUMNS
from ..errors import ArgumentError
from ..robot.arguments import check_positive
from ..robot.inertial_update import with_inertials
from ..robot.robot import Robot
from ..safe_files import file_errors, read_regular_file
from ..simulation import Actuators
from ..simulation.mujoco_model import update_mjcf, write_mjcf
from ..urdf.tree import Array, FrozenArrays, Inertial
from ..wbc import ParameterEllipsoid
from .accumulator import REGRESSION_CHUNK
from .base_parameters import BaseParameters, iterate_chunks
from .consistent_fit import inertial_of, is_consistent
from .samples import MeasuredForces, Samples, iterate_samples

Method = Literal["least_squares", "weighted", "consistent"]

#: Maximum size of an MJCF file [bytes].
MAX_MJCF_SIZE = 1 << 26
#: Offsets, means and drifts are reported beyond this multiple of their standard deviation and of the noise.
SIGNIFICANT_DEVIATIONS, MIN_NOISE_RATIO = 6.0, 0.5
#: Shifts by the prior are reported beyond this multiple of the standard deviation without the shift.
SIGNIFICANT_SHIFT = 3.0
#: Residuals that the prior causes are reported beyond this fraction of the residuals.
MIN_SHIFT_NOISE_RATIO = 0.1
#: Correlations of residuals are reported beyond this multiple of that of noise.
MIN_CORRELATION_RATIO = 2.0
#: Ratio of the noise of residuals to the given noise above which a remark reports it.
MIN_NOISE_EXCESS = 1.2
#: Friction of a joint that hardly moves in more than this fraction of the samples is not identified: static friction
#: has any value and sign.
MAX_STICKING_FRACTION = 0.3
#: Ratio of the torques of the data to those of the robot's file above which, or below whose inverse, they have another
#: scale, if their correlation is above the second number.  The gear ratios of legs are 6 and more.
MAX_TORQUE_SCALE, MIN_SCALE_CORRELATION = 3.0, 0.9
#: A combination of parameters is determined if base parameters yield its coefficients to this error.
MAX_COMBINATION_ERROR = 1e-6
#: How many bodies `print` lists.
MAX_PRINTED_BODIES = 18
#: How many shifted base parameters a remark lists.
MAX_LISTED_SHIFTS = 3
#: Maximum number of joints with another scale that a remark lists.
MAX_LISTED_SCALES = 6


@dataclass(frozen=True, slots=True, eq=False)
class Validation(FrozenArrays):
    """Prediction errors of a fit.

    Attributes:
        error: (nv,) root mean square of prediction minus measurement [N m, N].
        signal: (nv,) root mean square of the measurement [N m, N].
        samples: number of samples.
    """

    error: Array
    signal: Array
    samples: int


@renamed_attributes(
    shown="n_identifiable",
    hidden="unidentifiable",
    inconsistent="inconsistent_bodies",
    losses="joint_losses",
    band="prediction_std",
)
@dataclass(frozen=True, slots=True, eq=False)
class Identification(FrozenArrays):
    """Identified parameters of one robot, their uncertainty, and their predictions.

    Attributes:
        base: the identifiable base parameters.
        method: "least_squares", "weighted" or "consistent".
        beta: (r,) base parameters, each in its unit.
        covariance: (r, r) covariance of beta, in products of its units; inf on the diagonal for what the data do not
            determine.
        delta: (n,) all parameters, each in its unit, with ``base.project(delta) = beta``: with the method "consistent"
            those of a physical robot, with the others the nearest to the prior.
        noise: (nv,) root mean square of the residual of each generalized force [N m, N].
        samples: number of fitted samples.
        n_identifiable: how many of the r base parameters the data determine; the others are those of the prior.
        condition: condition number of the stacked regressor in base parameters, rows divided by the noise.
        converged: whether the method reached its tolerance (always, for linear ones).
        iterations: steps of the method "consistent", or rounds of weighting.
        unidentifiable: names of the base parameters that the data alone do not determine; see `BaseParameters.groups`.
        offset: (nv,) constant part of each measured generalized force that the parameters do not explain [N m, N], such
            as the offset of a torque sensor; zero where none is identified.
        mean_residual: (nv,) mean residual of each generalized force without an identified offset [N m, N].
        drift: (nv, 2) change of each residual from the first sample to the last by a linear fit, and the standard
            deviation of that change [N m, N].
        shift: (r,) difference of beta from the parameters that fit the data best, due to the prior and to the limits of
            physical bodies, each in its unit; zero for methods without them, and where the data determine nothing.
            `covariance` contains its square.
        prior_weight: weight of the prior with the method "consistent"; 0 with others.
        shift_residual: (nv,) root mean square of the part of `noise` that is due to `shift` [N m, N].
        sticking: by actuated joint the fraction of samples in which it hardly moves, see
            `Accumulator.sticking_fractions`.
        correlation: (nv,) number of correlated residuals of each generalized force worth one independent one, see
            `Accumulator.correlations`, for which `covariance` accounts.
        prior_reducible: whether a smaller weight of the prior would change the base parameters noticeably.
        filter_correlation: the same number of residuals for noise alone, which the filter of the samples correlates.
        noise_ratio: (nv,) noise that the residuals show, divided by the given `torque_noise` and `force_noise`, where
            it is significantly larger; otherwise 1. `covariance` accounts for it.
        torque_scale: (nv, 2) scale of each measured generalized force against that of the robot's file, and their
            correlation, dimensionless; see `Accumulator.torque_scales`.
    """

    base: BaseParameters
    method: Method
    beta: Array
    covariance: Array
    delta: Array
    noise: Array
    samples: int
    n_identifiable: int
    condition: float
    converged: bool
    iterations: int
    unidentifiable: tuple[str, ...]
    offset: Array
    mean_residual: Array
    drift: Array
    shift: Array
    prior_weight: float
    shift_residual: Array
    sticking: Mapping[str, float]
    correlation: Array
    filter_correlation: float
    prior_reducible: bool
    noise_ratio: Array
    torque_scale: Array

    @property
    def torque_offsets(self) -> dict[str, float]:
        """Identified constant torque offset by actuated joint [N m, N], see `offset`."""
        robot = self.base.robot
        return dict(zip(robot.actuated, self.offset[robot.actuated_index].tolist(), strict=True))

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences about what the data do not explain or determine.

        These are torque offsets, mean residuals and drifts that are larger than the noise explains, correlated
        residuals, residuals beyond the given noise, joints that stick, base parameters that the prior shifts, and
        masses that show another unit.
        """
        robot = self.base.robot
        names = {robot.velocity_index(joint): joint for joint in robot.actuated}
        error = SIGNIFICANT_DEVIATIONS * self.noise * np.sqrt(self.correlation / max(self.samples, 1))
        drift, drift_error = self.drift[:, 0], SIGNIFICANT_DEVIATIONS * self.drift[:, 1]
        out = []
        for text, values, limit in (
            ("constant torque offsets", self.offset, error),
            ("a constant is missing, such as the offset of a sensor, since residuals have the mean", self.mean_residual,
             error),
            ("residuals change in the course of the data, such as by a warming sensor or gear, by", drift, drift_error),
        ):  # fmt: skip
            large = np.flatnonzero(np.abs(values) > np.maximum(MIN_NOISE_RATIO * self.noise, limit)).tolist()
            if large:
                words = (f"{names.get(i, f'root component {i}')} {values[i]:.3g}" for i in large)
                out.append(f"{text} [N m, N]: {', '.join(words)}")
        correlated = np.flatnonzero(self.correlation > MIN_CORRELATION_RATIO * self.filter_correlation).tolist()
        if correlated:
            correlated.sort(key=lambda i: -float(self.correlation[i]))
            listed = ", ".join(
                f"{names.get(i, f'root component {i}')} {self.correlation[i]:.0f}"
                for i in correlated[:MAX_LISTED_SHIFTS]
            )
            out.append(
                f"residuals of {len(correlated)} generalized forces are not noise but correlated (number of "
                f"samples worth one independent one: {listed}; of noise: {self.filter_correlation:.0f}); friction, "
                "contacts, transmissions or times differ from the model; standard deviations are increased "
                "accordingly, but they do not contain errors of the model that the parameters compensate"
            )
        noisy = [i for i in np.argsort(-self.noise_ratio).tolist() if self.noise_ratio[i] > MIN_NOISE_EXCESS]
        if noisy:
            words = (
                f"{names.get(i, f'root component {i}')} {self.noise_ratio[i]:.2g}" for i in noisy[:MAX_LISTED_SHIFTS]
            )
            out.append(
                f"residuals of {len(noisy)} generalized forces are larger than the given noise (ratio: "
                f"{', '.join(words)}); standard deviations are increased accordingly; without torque_noise "
                "(--torque-noise), torques are weighted by their residuals"
            )
        if self.sticking_joints:
            words = (f"{joint} {self.sticking[joint]:.0%}" for joint in self.sticking_joints)
            out.append(
                "friction of joints that hardly move is not identified (marked ?), because static friction has any "
                f"value, and files keep that of the robot; fraction of the samples: {', '.join(words)}; move them more"
            )
        raised = np.flatnonzero(self.shift_residual > MIN_SHIFT_NOISE_RATIO * self.noise).tolist()
        without = np.sqrt(np.maximum(self.deviation**2 - self.shift**2, np.finfo(float).tiny))
        order = np.argsort(-np.abs(self.shift) / without).tolist()
        shifted = [i for i in order if abs(self.shift[i]) > SIGNIFICANT_SHIFT * without[i]]
        if raised and shifted:
            groups = self.base.groups()
            forces = ", ".join(
                f"{names.get(i, f'root component {i}')} {self.shift_residual[i]:.2g} of {self.noise[i]:.2g}"
                for i in raised[:MAX_LISTED_SHIFTS]
            )
            listed = ", ".join(f"{groups[i]} by {self.shift[i]:.2g}" for i in shifted[:MAX_LISTED_SHIFTS])
            out.append(
                f"the robot's file (prior weight {self.prior_weight:g}) and the limits of physical bodies raise "
                f"residuals [N m, N]: {forces}; they shift {len(shifted)} base parameters from the best fit, such as "
                f"{listed}, which their standard deviations contain; "
                + (
                    "pass a smaller prior weight, which changes them"
                    if self.prior_reducible
                    else "a smaller prior weight does not change them; look for friction, elasticity or kinematics "
                    "that differ from the model"
                )
            )
        if text := self._describe_scale():
            out.append(text)
        return tuple(out)

    @property
    def scaled_torques(self) -> dict[str, float]:
        """Scale of the torques by actuated joint, where they seem to be in another unit or before the gears.

        The torques of these joints differ from those of the robot's file by a factor of more than three.  If more than
        half of the joints differ in the same direction, these are listed.  Otherwise only joints that carry a joint
        without such a difference are listed, since masses that differ from the file change the torques of the last
        joints most.
        """
        robot, joints = self.base.robot, self.base.robot.actuated
        scales = dict(zip(joints, self.torque_scale[robot.actuated_index].tolist(), strict=True))
        correlated = {
            joint: scale for joint, (scale, correlation) in scales.items() if correlation > MIN_SCALE_CORRELATION
        }
        small = {joint: scale for joint, scale in correlated.items() if scale < 1.0 / MAX_TORQUE_SCALE}
        large = {joint: scale for joint, scale in correlated.items() if scale > MAX_TORQUE_SCALE}
        for found in (small, large):
            if len(found) > max(1, len(correlated) / 2):
                return found
        model, unscaled = robot.model, correlated.keys() - small.keys() - large.keys()
        return {
            joint: scale
            for joint, scale in (small | large).items()
            if unscaled & {model.names[i] for i in model.subtrees[model.getJointId(joint)]}
        }

    def _describe_scale(self) -> str:
        """Returns a sentence about `scaled_torques`; "" if there are none."""
        if not (scales := self.scaled_torques):
            return ""
        words = [f"{joint} {scale:.2g}" for joint, scale in scales.items()]
        more = f" and {len(words) - MAX_LISTED_SCALES} more" if len(words) > MAX_LISTED_SCALES else ""
        before_gears = np.median(list(scales.values())) < 1.0
        cause = "those of the motors before the gears (gear ratio)" if before_gears else "not in N m"
        listed = ", ".join(words[:MAX_LISTED_SCALES])
        return (
            f"torques have another scale than in the robot's file (ratio: {listed}{more}): likely they are {cause}, or "
            "torques, positions or masses of the file have other units or another order"
        )

    @property
    def sticking_joints(self) -> tuple[str, ...]:
        """Actuated joints whose friction is not identified, because they hardly move in most samples."""
        losses = {f"{kind} {joint}": joint for joint in self.sticking for kind in ("fv", "fc")}
        fitted = {losses[name] for name in self._separate_parameters() if name in losses}
        return tuple(j for j, fraction in self.sticking.items() if j in fitted and fraction > MAX_STICKING_FRACTION)

    @property
    def deviation(self) -> Array:
        """(r,) standard deviation of each base parameter."""
        return np.sqrt(self.covariance.diagonal())

    @property
    def determined_parameters(self) -> frozenset[str]:
        """Names of the parameters that the data determine each by itself, see ``base.names``.

        The data determine the others only in combination (`BaseParameters.groups`) or not at all (`unidentifiable`).
        """
        sticking = {f"{kind} {joint}" for joint in self.sticking_joints for kind in ("fv", "fc")}
        return self._separate_parameters() - sticking

    def _separate_parameters(self) -> frozenset[str]:
        """Names of the parameters that are base parameters by themselves and that the data excite."""
        return frozenset(self.base.names).intersection(self.base.groups()) - frozenset(self.unidentifiable)

    @property
    def total_mass(self) -> tuple[float, float] | None:
        """Sum of the masses of all bodies and its standard deviation [kg]; None if the data do not determine it."""
        masses = np.array([name.startswith("m ") for name in self.base.names], dtype=np.float64)
        c = masses[self.base.independent]
        covariance = self.covariance[np.ix_(c != 0.0, c != 0.0)]
        if np.abs(c @ self.base.K - masses).max() > MAX_COMBINATION_ERROR or not np.isfinite(covariance).all():
            return None
        return float(c @ self.beta), float(np.sqrt(covariance.sum()))

    @property
    def ambiguity(self) -> str:
        """Sentence about the values marked * in printed tables; "" if no value is marked."""
        marked = frozenset(self.base.names) - self._separate_parameters()
        if not any(name.startswith(("m ", "fv ", "fc ", "Ia ")) for name in marked):
            return ""
        text = (
            f"* also depends on the robot's file: the data determine {self.n_identifiable} combinations of parameters, "
            "but not this parameter alone"
        )
        if (total := self.total_mass) is not None:
            before = sum(body.inertial.mass for body in self.base.robot.bodies)
            text += f"; the sum of all masses is {total[0]:.4g} +- {total[1]:.1g} kg ({before:.4g} kg in the file)"
        return text

    def mark_mass(self, body: str) -> str:
        """Returns the mark "*" of a mass that is not determined by itself, otherwise " ", see `ambiguity`."""
        return self._mark(f"m {body}")

    def mark_com(self, body: str) -> str:
        """Returns the mark "*" of a center of mass that is not determined by itself, otherwise " "."""
        return self._mark(*(f"{parameter} {body}" for parameter in ("m", "lx", "ly", "lz")))

    def mark_losses(self, joint: str) -> list[str]:
        """Returns the marks (3) of `joint_losses` of a joint: "*", see `ambiguity`, "?" if it sticks, or " "."""
        marks = [self._mark(f"{parameter} {joint}") for parameter in ("fv", "fc", "Ia")]
        return ["?", "?", marks[2]] if joint in self.sticking_joints else marks

    def _mark(self, *names: str) -> str:
        return " " if self.determined_parameters.issuperset(names) else "*"

    @property
    def inertials(self) -> dict[str, Inertial]:
        """By body name mass [kg], center of mass [m] and inertia about it [kg m^2], in the axes of its joint frame."""
        return {body.name: inertial_of(p) for body, p in zip(self.base.robot.bodies, self._bodies(), strict=True)}

    @property
    def joint_losses(self) -> dict[str, Array]:
        """By joint (3,) viscous friction [N m s/rad], Coulomb friction [N m] and rotor inertia [kg m^2].

        Sliding joints: [N s/m], [N], [kg].  Empty where inertias alone were identified.
        """
        if self.base.inertial:
            return {}
        rows = self.delta.reshape(-1, N_COLUMNS)[:, N_INERTIAL_COLUMNS:]
        pairs = zip(self.base.robot.bodies, rows, strict=True)
        return {b.joint.name: row for b, row in pairs if b.joint is not None and b.joint.nv == 1}

    @property
    def inconsistent_bodies(self) -> tuple[str, ...]:
        """Names of moving bodies whose parameters no mass distribution has; empty with the method "consistent"."""
        bodies, fixed = self.base.robot.bodies, self.base.robot.root == "fixed"
        pairs = zip(bodies, self._bodies(), strict=True)
        wrong = {b.name for b, p in pairs if not (fixed and b.joint is None) and not is_consistent(p)}
        wrong |= {
            name.split(maxsplit=1)[1] for name, x in zip(self.base.names, self.delta, strict=True) if _bad(name, x)
        }
        return tuple(sorted(wrong))

    @property
    def ok(self) -> bool:
        """Whether the method converged to physically consistent parameters."""
        return self.converged and not self.inconsistent_bodies

    def identified_robot(self) -> Robot:
        """Returns the robot with the identified inertias, friction and rotor inertia; all else is unchanged.

        Friction of joints that stick (`sticking_joints`) is that of the robot's file.

        Raises:
            ModelError: the parameters are not physically consistent, which methods other than "consistent" do not
                ensure.
        """
        return with_inertials(self.base.robot, self._fitted(), self._usable_losses(), said="identified")

    def save_urdf(self, path: str | os.PathLike[str]) -> Path:
        """Writes a URDF of the robot with the identified parameters, and returns the path.

        The inertia of links attached by fixed joints is merged into the body that carries them, as only their sum can
        be identified; rotor inertia is the attribute ``armature`` of ``<dynamics>``.  Friction and limits given to
        `load` are in the file too; feet, actuated joints and the root must be given again.  Paths of meshes are
        unchanged.

        Raises:
            ModelError: the parameters are not physically consistent.
            OSError: the file cannot be written.
        """
        found, file = self.identified_robot(), Path(path)
        assert isinstance(found.source, str)
        with file_errors():
            file.write_text(found.source, encoding="utf-8")
        return file

    def save_mjcf(self, path: str | os.PathLike[str], source: str | os.PathLike[str] | None = None) -> Path:
        """Writes an MJCF with the identified inertias and the joint attributes damping, frictionloss and armature.

        Args:
            path: of the MJCF file.
            source: MJCF file from which the robot was loaded, whose attributes are replaced; None: a new document
                without meshes (extra: mujoco).

        Returns:
            The path of the file.

        Raises:
            ModelError: the parameters are not physically consistent, MuJoCo is needed and not installed, or the source
                is not an MJCF.
            ArgumentError: a body or joint of the robot is not in the source.
            OSError: a file cannot be read or written.
        """
        found, losses = self.identified_robot(), self._usable_losses()
        text = (
            write_mjcf(found, losses)
            if source is None
            else update_mjcf(read_regular_file(source, MAX_MJCF_SIZE), found, self._fitted(), losses)
        )
        with file_errors():
            Path(path).write_text(text, encoding="utf-8")
        return Path(path)

    def actuators(self, robot: Robot | None = None) -> Actuators:
        """Returns actuators with the identified friction and rotor inertia, in addition to those of a robot.

        `Actuators.save` writes them to a file.

        Args:
            robot: robot with the same joints for which the actuators are used, such as one without friction; None: the
                robot that was identified, as it was loaded.

        Raises:
            ArgumentError: another robot, or one with more friction or rotor inertia than identified.
        """
        robot = self.base.robot if robot is None else robot
        if robot.actuated != self.base.robot.actuated:
            raise ArgumentError(
                f"robot: expected the joints of {self.base.robot.name!r}; those of {robot.name!r} differ"
            )
        losses, rows = self._usable_losses(), []
        for name, i in zip(robot.actuated, robot.actuated_index, strict=True):
            own = np.array([robot.damping[i], robot.friction[i], robot.armature[i]])
            row = losses.get(name, own) - own
            if (row < -1e-9).any():
                k = int(row.argmin())
                what = ("damping", "friction", "armature")[k]
                raise ArgumentError(
                    f"robot: {what} of joint {name!r} is {own[k]:g}, more than the identified {losses[name][k]:g}; "
                    f"load the robot with {what}=0"
                )
            rows.append(np.maximum(row, 0.0))
        viscous, coulomb, rotor_inertia = np.reshape(rows, (-1, 3)).T
        return Actuators(robot, viscous=viscous, coulomb=coulomb, rotor_inertia=rotor_inertia)

    def _usable_losses(self) -> dict[str, Array]:
        """Returns `joint_losses` with the friction of the file for joints whose friction is not identified."""
        joints = {body.joint.name: body.joint for body in self.base.robot.bodies if body.joint is not None}
        losses = self.joint_losses
        for name in self.sticking_joints:
            losses[name] = np.array([joints[name].damping, joints[name].friction, losses[name][2]])
        return losses

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
            + (f", prior weight {self.prior_weight:g}" if self.prior_weight not in (0.0, 1.0) else "")
            + ("" if self.converged else ", NOT CONVERGED")
            + (f", not physical: {_several(self.inconsistent_bodies)}" if self.inconsistent_bodies else ""),
            f"residual [N m, N]: {np.sqrt(np.mean(noise**2)):.3g} on average, {noise[worst]:.3g} of "
            f"{names.get(worst, 'the root')}",
            f"{self.n_identifiable} of {self.base.size} base parameters identifiable, condition {self.condition:.3g}",
            f"{'body':<22}{'mass [kg]':>10}{'in the file':>12}   {'com [m]':<27}"
            + ("" if self.base.inertial else f"{'viscous':>9} {'Coulomb':>9} {'rotor':>9}"),
        ]
        found, losses = self.inertials, self.joint_losses
        moving = [body for body in robot.bodies if body.joint is not None or robot.root != "fixed"]
        for body in moving[:MAX_PRINTED_BODIES]:
            com = ", ".join(f"{round(x, 4) + 0.0:+.4f}" for x in found[body.name].com.tolist())
            mass, before = f"{found[body.name].mass:.4g}{self.mark_mass(body.name)}", body.inertial.mass
            com += self.mark_com(body.name)
            joint = body.joint.name if body.joint is not None else ""
            own = zip(losses[joint].tolist(), self.mark_losses(joint), strict=True) if joint in losses else ()
            lines.append(
                f"{body.name[:21]:<22}{mass:>11}{before:>11.4g}   {com:<27}"
                + "".join(f"{f'{x:.3g}{mark}':>10}" for x, mark in own)
            )
        if len(moving) > MAX_PRINTED_BODIES:
            lines.append(f"and {len(moving) - MAX_PRINTED_BODIES} more bodies, see .inertials")
        if self.ambiguity:
            lines.append(self.ambiguity)
        if self.unidentifiable:
            lines.append(
                f"{len(self.unidentifiable)} parameters are not identifiable from the data and kept from the file, "
                "see .unidentifiable"
            )
        lines += self.remarks
        return "\n".join(line.rstrip() for line in lines)

    def _bodies(self) -> Array:
        width = N_INERTIAL_COLUMNS if self.base.inertial else N_COLUMNS
        return np.asarray(self.delta.reshape(-1, width)[:, :N_INERTIAL_COLUMNS])

    def predict(self, q: Array, v: Array, a: Array, direction: Array | None = None) -> Array:
        """Predicts the generalized forces of N states, friction and rotor inertia included, torque offsets not.

        Args:
            q: (N, nq) configurations.
            v: (N, nv) velocities [rad/s, m/s].
            a: (N, nv) accelerations [rad/s^2, m/s^2].
            direction: (N, nv) filtered signs of the velocities for filtered torques, see `Samples`; None: signs of v.

        Returns:
            (N, nv) generalized forces [N m, N].

        Raises:
            ArgumentError: wrong shapes or entries.
        """
        return np.asarray(self.base.regressor()(q, v, a, direction) @ self.beta + _known(self.base, v, a, direction))

    def prediction_std(self, q: Array, v: Array, a: Array) -> Array:
        """Returns the standard deviation (N, nv) of `predict` due to the uncertainty of the parameters [N m, N].

        Directions that the data do not determine keep the prior and count as certain; see `n_identifiable`.
        """
        H = self.base.regressor()(q, v, a)
        C = np.where(np.isfinite(self.covariance), self.covariance, 0.0)
        return np.asarray(np.sqrt(np.maximum(np.einsum("nij,jk,nik->ni", H, C, H, optimize=True), 0.0)))

    def parameter_band(self, deviations: float = 3.0) -> ParameterEllipsoid:
        """Returns the parameters within `deviations` standard deviations, for `quaddyn.wbc.RobustLimits`.

        Any generalized force differs by at most `deviations` times its `band` within it.  Directions that the
        data do not determine keep the values of the prior and are treated as certain.

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
        """Compares predictions with other samples of the robot.

        Raises:
            ArgumentError: they are not samples of this robot, or there are none.
        """
        measured, count = MeasuredForces(self.base.robot), 0
        error, signal = np.zeros(self.base.robot.nv), np.zeros(self.base.robot.nv)
        for part in iterate_samples(samples):
            part.check(self.base.robot)
            for piece in iterate_chunks(len(part), REGRESSION_CHUNK):
                some = part[piece]
                y = measured.generalized_forces(some)
                error += ((self.predict(*some.states) + self.offset - y) ** 2).sum(axis=0)
                signal += (y**2).sum(axis=0)
            count += len(part)
        if count == 0:
            raise ArgumentError("samples: expected at least one sample, got none")
        return Validation(np.sqrt(error / count), np.sqrt(signal / count), count)

    def to_json(self) -> dict[str, object]:
        """Returns the result in plain types for JSON."""
        deviation = [x if np.isfinite(x) else None for x in self.deviation.tolist()]
        names, groups = self.base.names, self.base.groups()
        return {
            "robot": self.base.robot.name,
            "method": self.method,
            "samples": self.samples,
            "shown": self.n_identifiable,
            "condition": self.condition if np.isfinite(self.condition) else None,
            "converged": self.converged,
            "noise": self.noise.tolist(),
            "correlation": self.correlation.tolist(),
            "base_parameters": [
                {"group": g, "value": b, "deviation": d, "shift": s}
                for g, b, d, s in zip(groups, self.beta.tolist(), deviation, self.shift.tolist(), strict=True)
            ],
            "parameters": dict(zip(names, self.delta.tolist(), strict=True)),
            "prior_weight": self.prior_weight,
            "sticking": dict(self.sticking),
            "sticking_joints": list(self.sticking_joints),
            "hidden": list(self.unidentifiable),
            "torque_offsets": self.torque_offsets,
            "remarks": list(self.remarks),
            "inconsistent": list(self.inconsistent_bodies),
        }


def _known(base: BaseParameters, v: Array, a: Array, direction: Array | None) -> Array:
    """Returns torques (N, nv) of friction and rotors where these are not identified, from the robot's file."""
    robot = base.robot
    if not base.inertial:
        return np.zeros_like(v)
    signs = np.sign(v) if direction is None else direction
    return np.asarray(robot.damping * v + robot.friction * signs + robot.armature * a)


def _several(names: tuple[str, ...], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _bad(name: str, value: float) -> bool:
    return name.startswith(("fv ", "fc ", "Ia ")) and value < 0.0
