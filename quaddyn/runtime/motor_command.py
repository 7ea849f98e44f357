"""`MotorCommand`: what motors are asked for, a torque of their own and a spring and damper to follow."""

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
    """What every motor does until the next command: ``tau + kp (q* - q) + kd (v* - v)``, within its own limits.

    The order is that of torques, ``robot.actuated``.  Nothing is examined here, since loops make one per tick; what
    takes commands examines them.

    Attributes:
        tau: (nu,) feed-forward torque [N m or N].
        position: (nu,) q* [rad or m].
        velocity: (nu,) v* [rad/s or m/s].
        stiffness: (nu,) kp [N m/rad or N/m].
        damping: (nu,) kd [N m s/rad or N s/m].
    """

    tau: Array
    position: Array
    velocity: Array
    stiffness: Array
    damping: Array

    @classmethod
    def from_torques(cls, tau: Numbers) -> MotorCommand:
        """Torques (nu,) alone [N m]."""
        tau = frozen(tau)
        none = frozen(np.zeros(len(tau)))
        return cls(tau, none, none, none, none)

    @classmethod
    def zero(cls, nu: int) -> MotorCommand:
        """No torque on `nu` motors."""
        return cls.from_torques(np.zeros(nu))

    @classmethod
    def from_damping(cls, damping: Numbers) -> MotorCommand:
        """Nothing but damping (nu,) [N m s/rad]."""
        damping = frozen(damping)
        none = frozen(np.zeros(len(damping)))
        return cls(none, none, none, none, damping)

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
        """A spring and damper (nu,) to a position and velocity, plus torques `tau`."""
        feedforward = np.zeros(len(position)) if tau is None else tau
        return cls(frozen(feedforward), frozen(position), frozen(velocity), frozen(stiffness), frozen(damping))

    def validated(self, nu: int) -> MotorCommand:
        """Itself with fields of shape (nu,), finite, and gains that are not negative.

        Raises:
            ArgumentError: names the field that is not so.
        """
        parts = self.tau, self.position, self.velocity, self.stiffness, self.damping
        if all([type(x) is np.ndarray and x.dtype is FLOAT and x.shape == (nu,) for x in parts]):
            flat = np.concatenate(parts)
            if math.isfinite(np.vdot(flat, flat)) and min(flat[3 * nu :].tolist(), default=0.0) >= 0.0:
                return self  # the usual case, at every tick; what fails is examined at leisure
        made = {name: check_vector(name, getattr(self, name), (nu,), "the actuated joints") for name in self.__slots__}
        for name in ("stiffness", "damping"):
            if (made[name] < 0.0).any():
                raise ArgumentError(f"{name}: expected gains of 0 or more, got {made[name].min():g}")
        return MotorCommand(**made)

    @renamed_parameters(turning="is_continuous")
    def compute_torque(self, position: Array, velocity: Array, is_continuous: NDArray[np.bool_] | None = None) -> Array:
        """The torque (nu,) that is asked for at measured positions and velocities (nu,) [N m].

        Args:
            position: (nu,) [rad or m].
            velocity: (nu,) [rad/s or m/s].
            is_continuous: (nu,) which joints turn without end; they take the shorter way to q*.
        """
        error = self.position - position
        if is_continuous is not None:
            error = np.where(is_continuous, np.remainder(error + np.pi, 2.0 * np.pi) - np.pi, error)
        return np.asarray(self.tau + self.stiffness * error + self.damping * (self.velocity - velocity))
