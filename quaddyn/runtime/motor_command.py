"""`MotorCommand`: feed-forward torques and PD targets for the motors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..deprecation import renamed_attributes, renamed_parameters
from ..errors import ArgumentError
from ..robot.arguments import Numbers, check_vector
from ..urdf.tree import Array, FrozenArrays, frozen
from .safety_filter import is_valid_command

#: Attributes of a command, in the order of `MotorCommand.packed`.
COMMAND_FIELDS = ("tau", "position", "velocity", "stiffness", "damping")


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
    _packed: Array | None = field(default=None, init=False, repr=False)

    @classmethod
    def from_packed(cls, values: Array) -> MotorCommand:
        """Returns a command whose attributes are the rows of an array (5, nu), which becomes read-only."""
        out = cls.__new__(cls)
        values.setflags(write=False)
        _set_packed(out, values)
        return out

    def packed(self, nu: int) -> Array:
        """Returns all attributes as the rows of an array (5, nu); NaN if one of them has another shape.

        Args:
            nu: number of joints.
        """
        packed = self._packed
        if packed is not None and packed.shape == (5, nu):
            return packed
        values = np.empty((5, nu))
        try:
            for row, name in zip(values, COMMAND_FIELDS, strict=True):
                row[:] = getattr(self, name)
        except (ValueError, TypeError):
            values[0] = np.nan
        return values

    def __getattr__(self, name: str) -> Any:
        """Looks up a row of a packed command at its first access; Python calls this for slots without a value."""
        values = None if name == "_packed" else self._packed
        if values is None or name not in COMMAND_FIELDS:
            raise AttributeError(f"MotorCommand has no attribute {name!r}")
        row = values[COMMAND_FIELDS.index(name)]
        object.__setattr__(self, name, row)
        return row

    @classmethod
    def from_torques(cls, tau: Numbers) -> MotorCommand:
        """Returns a command of torques (nu,) [N m] without PD terms."""
        values = np.zeros((5, len(tau)))
        values[0] = tau
        return cls.from_packed(values)

    @classmethod
    def zero(cls, nu: int) -> MotorCommand:
        """Returns a command of zero torque on `nu` motors."""
        return cls.from_torques(np.zeros(nu))

    @classmethod
    def from_damping(cls, damping: Numbers) -> MotorCommand:
        """Returns a command of pure damping (nu,) [N m s/rad]."""
        values = np.zeros((5, len(damping)))
        values[4] = damping
        return cls.from_packed(values)

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
        values = self._packed
        if values is not None and values.shape == (5, nu) and is_valid_command(values):
            return self  # every tick; an invalid command is diagnosed below
        vectors = {
            name: check_vector(name, getattr(self, name), (nu,), "the actuated joints") for name in COMMAND_FIELDS
        }
        for name in ("stiffness", "damping"):
            if (vectors[name] < 0.0).any():
                raise ArgumentError(f"{name}: expected gains of 0 or more, got {vectors[name].min():g}")
        return MotorCommand.from_packed(np.stack([*vectors.values()]))

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


#: Assignment of `MotorCommand.from_packed`; faster than ``object.__setattr__``.
_set_packed = vars(MotorCommand)["_packed"].__set__
