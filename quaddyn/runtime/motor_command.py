"""`MotorCommand`: feed-forward torques and PD targets for the motors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..deprecation import renamed_attributes, renamed_parameters
from ..errors import ArgumentError
from ..robot.arguments import Numbers, check_vector
from ..urdf.tree import Array, FrozenArrays, frozen

FLOAT = np.dtype(np.float64)


@renamed_attributes(
    off="zero",
    damp="from_damping",
    follow="from_targets",
    torques="from_torques",
    checked="validated",
    torque_at="compute_torque",
)
@dataclass(frozen=True, slots=True, eq=False)
class MotorCommand(FrozenArrays):
    """Command of all motors until the next one: torque ``tau + kp (q* - q) + kd (v* - v)``, within the motor limits.

    The order is that of torques, ``robot.actuated``.  The constructor does not validate, since loops make one command
    per tick; receivers call `validated`.

    Attributes:
        tau: (nu,) feed-forward torque [N m or N].
        position: (nu,) desired position q* [rad or m].
        velocity: (nu,) desired velocity v* [rad/s or m/s].
        stiffness: (nu,) gain kp [N m/rad or N/m].
        damping: (nu,) gain kd [N m s/rad or N s/m].
    """

    tau: Array
    position: Array
    velocity: Array
    stiffness: Array
    damping: Array

    @classmethod
    def from_torques(cls, tau: Numbers) -> MotorCommand:
        """Returns a command of torques (nu,) [N m] without PD terms."""
        tau = frozen(tau)
        zero = frozen(np.zeros(len(tau)))
        return cls(tau, zero, zero, zero, zero)

    @classmethod
    def zero(cls, nu: int) -> MotorCommand:
        """Returns a command of zero torque on `nu` motors."""
        return cls.from_torques(np.zeros(nu))

    @classmethod
    def from_damping(cls, damping: Numbers) -> MotorCommand:
        """Returns a command of pure damping (nu,) [N m s/rad]."""
        damping = frozen(damping)
        zero = frozen(np.zeros(len(damping)))
        return cls(zero, zero, zero, zero, damping)

    @classmethod
    def from_targets(
        cls,
        position: Numbers,
        velocity: Numbers,
        stiffness: Numbers,
        damping: Numbers,
        *,
        tau: Numbers | None = None,
    ) -> MotorCommand:
        """Returns PD targets (nu,) with gains (nu,), plus feed-forward torques `tau` (nu,) [N m]; None: zero."""
        feedforward = np.zeros(len(position)) if tau is None else tau
        return cls(frozen(feedforward), frozen(position), frozen(velocity), frozen(stiffness), frozen(damping))

    def validated(self, nu: int) -> MotorCommand:
        """Returns the command with fields of shape (nu,), finite, and gains that are not negative.

        Raises:
            ArgumentError: names the invalid field.
        """
        fields = self.tau, self.position, self.velocity, self.stiffness, self.damping
        if all([type(x) is np.ndarray and x.dtype is FLOAT and x.shape == (nu,) for x in fields]):
            flat = np.concatenate(fields)
            if math.isfinite(np.vdot(flat, flat)) and min(flat[3 * nu :].tolist(), default=0.0) >= 0.0:
                return self  # fast path of every tick; an invalid command is diagnosed below
        vectors = {
            name: check_vector(name, getattr(self, name), (nu,), "the actuated joints") for name in self.__slots__
        }
        for name in ("stiffness", "damping"):
            if (vectors[name] < 0.0).any():
                raise ArgumentError(f"{name}: expected gains of 0 or more, got {vectors[name].min():g}")
        return MotorCommand(**vectors)

    @renamed_parameters(turning="is_continuous")
    def compute_torque(self, position: Array, velocity: Array, is_continuous: NDArray[np.bool_] | None = None) -> Array:
        """Returns the torques (nu,) that the command produces at measured positions and velocities [N m].

        Args:
            position: (nu,) measured positions [rad or m].
            velocity: (nu,) measured velocities [rad/s or m/s].
            is_continuous: (nu,) which joints are continuous and take the shorter way to q*; None: no joint.
        """
        error = self.position - position
        if is_continuous is not None:
            error = np.where(is_continuous, np.remainder(error + np.pi, 2.0 * np.pi) - np.pi, error)
        return np.asarray(self.tau + self.stiffness * error + self.damping * (self.velocity - velocity))
