"""`Operator`: source of requests to a robot (stages, velocity, stop) with a dead-man timeout."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..deprecation import renamed_attributes, renamed_fields, renamed_overrides, renamed_parameters
from ..errors import ArgumentError
from ..locomotion.path_reference import as_velocity_command
from ..robot.arguments import Numbers, check_number
from ..robot.units import warn_of_time
from ..strict_attributes import StrictAttributes
from .stages import Stage

#: Largest plausible timeout of a dead-man switch [s].
MAX_PLAUSIBLE_TIMEOUT = 60.0


@renamed_fields(goal="target_stage", stop="stop_reason", reset="reset_fault")
@dataclass(frozen=True, slots=True)
class Request:
    """Request of the operator at a tick.

    Attributes:
        target_stage: OFF, DAMP or RUN, see `Stage`.
        velocity: forward and leftward velocity [m/s] and yaw rate [rad/s].
        stop_reason: reason to damp the motors at once; "" for no stop.
        reset_fault: whether a latched fault is to be cleared.
    """

    target_stage: Stage
    velocity: tuple[float, float, float]
    stop_reason: str = ""
    reset_fault: bool = False


@renamed_attributes(dead_man="deadman_timeout", run="walk", off="power_off", stop="emergency_stop")
@renamed_overrides(listen="read_device")
class Operator(StrictAttributes, fixed=("deadman_timeout",)):
    """Operator controlled by method calls, from any thread; keyboard and gamepad are subclasses.

    Args:
        deadman_timeout: time without any call after which a running robot lies down [s]; infinite by default.

    Raises:
        ArgumentError: a time that is not positive.
    """

    @renamed_parameters(dead_man="deadman_timeout")
    def __init__(self, *, deadman_timeout: float = math.inf) -> None:
        self.deadman_timeout = check_number("deadman_timeout", deadman_timeout)
        if not self.deadman_timeout > 0.0:
            raise ArgumentError(f"deadman_timeout: expected a positive time [s], got {deadman_timeout}")
        warn_of_time("deadman_timeout", self.deadman_timeout, MAX_PLAUSIBLE_TIMEOUT)
        self._target_stage, self._velocity = Stage.DAMP, (0.0, 0.0, 0.0)
        self._stop_reason, self._reset_requested, self._has_input = "", False, True
        self._last_input_time = -math.inf
        self._last_fields: tuple[Stage, tuple[float, float, float], str, bool] | None = None

    def walk(self, velocity: Numbers = (0.0, 0.0, 0.0)) -> None:
        """Requests RUN with a velocity; the robot stands up first if necessary.

        Args:
            velocity: forward and leftward velocity [m/s] and yaw rate [rad/s].

        Raises:
            ArgumentError: not three finite numbers.
        """
        x, y, turn = as_velocity_command(velocity).tolist()
        self._velocity, self._target_stage, self._has_input = (x, y, turn), Stage.RUN, True

    def damp(self) -> None:
        """Requests damping; the robot lies down first if necessary."""
        self._velocity, self._target_stage, self._has_input = (0.0, 0.0, 0.0), Stage.DAMP, True

    def power_off(self) -> None:
        """Requests zero torque; the robot lies down and is damped first if necessary."""
        self._velocity, self._target_stage, self._has_input = (0.0, 0.0, 0.0), Stage.OFF, True

    @renamed_parameters(why="reason")
    def emergency_stop(self, reason: str = "emergency stop") -> None:
        """Requests damping at once in any stage; latched until `reset`."""
        self._stop_reason, self._has_input = reason or "emergency stop", True

    def reset(self) -> None:
        """Clears a fault and requests damping; the robot stands up at the next `walk`."""
        self._stop_reason, self._reset_requested = "", True
        self.damp()

    def keep_alive(self) -> None:
        """Restarts the dead-man timeout without another effect."""
        self._has_input = True

    def read_device(self, now: float) -> None:
        """Reads the input device without waiting; the loop calls it at every tick, subclasses override it."""

    def poll(self, now: float) -> Request:
        """Returns the request at this tick; called by the loop with its time `now` [s]."""
        self.read_device(now)
        if self._has_input:
            self._has_input, self._last_input_time = False, now
        if self._target_stage is Stage.RUN and now - self._last_input_time > self.deadman_timeout:
            self._target_stage, self._velocity = Stage.DAMP, (0.0, 0.0, 0.0)
        fields = self._target_stage, self._velocity, self._stop_reason, self._reset_requested
        if fields != self._last_fields:
            self._last_fields, self._request = fields, Request(*fields)
        if self._reset_requested:
            self._reset_requested = False
        return self._request
