"""Measured motion: samples of configuration, velocity, acceleration, torques and contact forces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ..deprecation import renamed_attributes, renamed_parameters
from ..errors import ArgumentError, ArgumentTypeError
from ..robot.arguments import check_number
from ..robot.robot import Robot
from ..urdf.tree import Array, FrozenArrays
from .base_parameters import check_samples

#: Where contact forces act: at the origin of the named frame, or at the lowest point of the named foot's sphere.
ForceApplication = Literal["frame", "ground"]
#: No machine has an entry beyond this [SI], nor noise beyond it or below its inverse: squares of these would overflow.
MAX_MAGNITUDE = 1e15


@renamed_attributes(place="force_application")
@dataclass(frozen=True, slots=True, eq=False)
class Samples(FrozenArrays):
    """N samples of the motion of one robot, ``M a + h = S^T tau + sum_i J_i^T f_i`` plus noise.

    Args:
        q: (N, nq) configurations.
        v: (N, nv) velocities [rad/s, m/s].
        a: (N, nv) accelerations [rad/s^2, m/s^2].
        tau: (N, nu) torques of the actuated joints, in the order of ``robot.actuated`` [N m, N].
        forces: frame name -> (N, 3) forces [N] or (N, 6) forces and torques [N, N m] on the robot, world axes.
        force_application: point at which the forces act: "frame", the origin of the frame, as in `Dynamics.rnea`;
            "ground", the lowest point of the foot's sphere, as in `Simulation`.
        noise_bandwidth: noise bandwidth of the filter that the samples passed, divided by half of the sampling rate:
            the fraction of white noise that is left, so that N samples count as this fraction of N independent ones; 1
            for no filter.
        direction: (N, nv) dimensionless signs of the velocities as Coulomb friction contains them, -1 to 1 apart from
            overshoot; of filtered torques, signs that passed the same filter. None: the signs of v, for unfiltered
            torques.

    Attributes: as the arguments.

    Raises:
        ArgumentTypeError: something that is not an array.
        ArgumentError: arrays of different lengths.
    """

    q: Array
    v: Array
    a: Array
    tau: Array
    forces: Mapping[str, Array] = field(default_factory=dict)
    force_application: ForceApplication = "frame"
    noise_bandwidth: float = 1.0
    direction: Array | None = None

    def __post_init__(self) -> None:
        arrays = {"q": self.q, "v": self.v, "a": self.a, "tau": self.tau}
        arrays |= {f"forces[{name!r}]": f for name, f in self.forces.items()}
        arrays |= {} if self.direction is None else {"direction": self.direction}
        for name, x in arrays.items():
            if not isinstance(x, np.ndarray) or x.ndim == 0:
                raise ArgumentTypeError(f"{name}: expected an array of one row per sample, got {x!r:.40}")
            if len(x) != len(self.q):
                raise ArgumentError(f"{name}: expected {len(self.q)} samples, as many as q, got {len(x)}")

    def __len__(self) -> int:
        return len(self.q)

    def __getitem__(self, which: slice | NDArray[np.intp]) -> Samples:
        """Returns a selection of the samples."""
        forces = {name: f[which] for name, f in self.forces.items()}
        direction = None if self.direction is None else self.direction[which]
        q, v, a, tau = self.q[which], self.v[which], self.a[which], self.tau[which]
        return replace(self, q=q, v=v, a=a, tau=tau, forces=forces, direction=direction)

    @staticmethod
    def concatenate(parts: Sequence[Samples]) -> Samples:
        """Returns the samples of several parts of one data set, at least one, in this order."""
        q, v, a, tau = (np.concatenate([getattr(part, x) for part in parts]) for x in ("q", "v", "a", "tau"))
        forces = {name: np.concatenate([part.forces[name] for part in parts]) for name in parts[0].forces}
        filtered = [part.direction for part in parts if part.direction is not None]
        direction = np.concatenate(filtered) if filtered else None
        return replace(parts[0], q=q, v=v, a=a, tau=tau, forces=forces, direction=direction)

    @property
    def states(self) -> tuple[Array, Array, Array, Array | None]:
        """The columns q, v, a and direction, the arguments of a regressor."""
        return self.q, self.v, self.a, self.direction

    def check(self, robot: Robot) -> None:
        """Raises unless these are valid samples of a robot.

        Raises:
            ArgumentError: names the array, sample and value that are wrong.
            ArgumentTypeError: not float64 arrays.
            UnknownNameError: a force at a frame that does not exist.
        """
        check_samples(robot, q=self.q, v=self.v, a=self.a, tau=self.tau)
        if self.direction is not None:
            check_samples(robot, direction=self.direction)
        for name, x in (("q", self.q), ("v", self.v), ("a", self.a), ("tau", self.tau)):
            _check_size(name, x)
        if self.force_application not in ("frame", "ground"):
            raise ArgumentError(f'force_application: expected "frame" or "ground", got {self.force_application!r}')
        if not 0.0 < check_number("noise_bandwidth", self.noise_bandwidth) <= 1.0:
            raise ArgumentError(f"noise_bandwidth: expected a fraction in (0, 1], got {self.noise_bandwidth}")
        for name, f in self.forces.items():
            robot.frame_id(name)
            what = f"forces[{name!r}]"
            if type(f) is not np.ndarray or f.dtype != np.float64:
                raise ArgumentTypeError(f"{what}: expected a float64 numpy array, got {type(f).__name__}")
            if self.force_application == "ground" and (name not in robot.legs or f.shape[-1:] != (3,)):
                raise ArgumentError(
                    f'{what}: with force_application="ground", expected forces of shape (N, 3) at feet only; the '
                    f"feet are {robot.feet}"
                )
            if f.ndim != 2 or f.shape[0] != len(self) or f.shape[1] not in (3, 6):
                raise ArgumentError(f"{what}: expected shape ({len(self)}, 3) or ({len(self)}, 6), got {f.shape}")
            if not np.isfinite(f).all():
                row, column = np.argwhere(~np.isfinite(f))[0]
                raise ArgumentError(f"{what}: every entry must be finite, got {f[row, column]} in sample {row}")
            _check_size(what, f)


Samples.__init__ = renamed_parameters(place="force_application")(Samples.__init__)  # type: ignore[method-assign]


def _check_size(name: str, x: Array) -> None:
    """Raises if an entry is too large to be a measurement."""
    if np.abs(x).max(initial=0.0) > MAX_MAGNITUDE:
        row, column = np.argwhere(np.abs(x) > MAX_MAGNITUDE)[0]
        raise ArgumentError(
            f"{name}: expected entries of magnitude up to {MAX_MAGNITUDE:g}, got {name}[{row}, {column}] = "
            f"{x[row, column]:g}"
        )


@renamed_attributes(doubts="warnings")
class MotionRange:
    """Range of positions, velocities and torques in samples.

    It is compared with the limits of the joints to detect wrong units.

    Args:
        robot: the robot of the samples.
    """

    #: A joint may be beyond its limits by this fraction of its range, speeds and torques by this factor.
    MARGIN, FACTOR = 0.25, 3.0

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self._low, self._high = np.full(robot.nq, np.inf), np.full(robot.nq, -np.inf)
        self._v, self._tau = np.zeros(robot.nv), np.zeros(robot.nu)

    def add(self, samples: Samples) -> None:
        """Extends the range by validated samples."""
        if len(samples):
            self._low = np.minimum(self._low, samples.q.min(axis=0))
            self._high = np.maximum(self._high, samples.q.max(axis=0))
            self._v = np.maximum(self._v, np.abs(samples.v).max(axis=0))
            self._tau = np.maximum(self._tau, np.abs(samples.tau).max(axis=0))

    def warnings(self) -> tuple[str, ...]:
        """Returns a sentence for each joint whose range is implausible."""
        robot, out = self.robot, []
        for i, name in enumerate(robot.actuated):
            joint = robot.model.joints[robot.model.getJointId(name)]
            low, high, k = robot.lower[joint.idx_q], robot.upper[joint.idx_q], joint.idx_q
            slack = self.MARGIN * (high - low)
            if joint.nq == 1 and np.isfinite(slack) and (self._low[k] < low - slack or self._high[k] > high + slack):
                out.append(
                    f"q of {name} ranges from {self._low[k]:.4g} to {self._high[k]:.4g}, its limits are {low:.4g} to "
                    f"{high:.4g} (rad or m: are these degrees?)"
                )
            speed, effort = robot.velocity_limits[i], robot.effort_limits[i]
            if self._v[joint.idx_v] > self.FACTOR * speed > 0.0:
                out.append(f"v of {name} reaches {self._v[joint.idx_v]:.4g}, its limit is {speed:.4g} (rad/s or m/s)")
            if self._tau[i] > self.FACTOR * effort > 0.0:
                out.append(f"tau of {name} reaches {self._tau[i]:.4g}, its limit is {effort:.4g} (N m or N)")
        return tuple(out)


@renamed_parameters(held_out="test_fraction")
def split_samples(samples: Samples, test_fraction: float) -> tuple[Samples, Samples]:
    """Splits samples into a training part and a test part, which is the last in time.

    Args:
        samples: in the order of time; of a stream, one chunk.
        test_fraction: fraction of samples in the test part, 0 to 1.

    Returns:
        Training part, test part.

    Raises:
        ArgumentError: a fraction outside [0, 1].
    """
    if not 0.0 <= check_number("test_fraction", test_fraction) <= 1.0:
        raise ArgumentError(f"test_fraction: expected a fraction in [0, 1], got {test_fraction}")
    first = len(samples) - round(test_fraction * len(samples))
    return samples[:first], samples[first:]


class MeasuredForces:
    """Left side of the regression: generalized forces of actuators and contacts.

    Owns mutable memory: one per thread.
    """

    def __init__(self, robot: Robot) -> None:
        robot.reject_coupled_joints("identification")
        self.robot, self._model, self._data = robot, robot.model, robot.model.createData()

    def generalized_forces(self, samples: Samples) -> Array:
        """Returns ``S^T tau + sum_i J_i^T f_i`` (N, nv) [N m, N]."""
        y = np.zeros((len(samples), self.robot.nv))
        y[:, self.robot.actuated_index] = samples.tau
        if samples.forces:
            f = np.concatenate([*samples.forces.values()], axis=1)
            y += np.einsum("nij,ni->nj", self.jacobians(samples), f)
        return y

    def jacobians(self, samples: Samples) -> Array:
        """Returns the Jacobians (N, k, nv) of all force components, world axes, in the order of ``samples.forces``."""
        model, data, robot = self._model, self._data, self.robot
        sizes = [f.shape[1] for f in samples.forces.values()]
        out = np.empty((len(samples), sum(sizes), robot.nv))
        frames = [robot.frame_id(name) for name in samples.forces]
        radii = [robot.legs[n].foot.radius if samples.force_application == "ground" else 0.0 for n in samples.forces]
        for k, q in enumerate(samples.q):
            pin.computeJointJacobians(model, data, q)
            start = 0
            for frame, size, radius in zip(frames, sizes, radii, strict=True):
                pin.updateFramePlacement(model, data, frame)
                J = pin.getFrameJacobian(model, data, frame, pin.LOCAL_WORLD_ALIGNED).reshape(6, -1)
                out[k, start : start + size] = J[:size]
                if radius:  # the material point under the center, see `contact_jacobian`
                    out[k, start] -= radius * J[4]
                    out[k, start + 1] += radius * J[3]
                start += size
        return out


def iterate_samples(samples: Samples | Iterable[Samples]) -> Iterator[Samples]:
    """Yields the chunks of the data, which are one or several.

    Raises:
        ArgumentTypeError: not samples.
    """
    expected = "samples: expected Samples or an iterable of them, got "
    if not isinstance(samples, Iterable | Samples):
        raise ArgumentTypeError(f"{expected}{type(samples).__name__}")
    for part in (samples,) if isinstance(samples, Samples) else samples:
        if not isinstance(part, Samples):
            raise ArgumentTypeError(f"{expected}{type(part).__name__}")
        yield part
