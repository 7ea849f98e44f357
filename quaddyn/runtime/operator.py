"""`Operator`: what a person wants of a robot, and whether that person is still there."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..deprecation import renamed_attributes, renamed_fields, renamed_overrides, renamed_parameters
from ..errors import ArgumentError
from ..locomotion.path_reference import as_velocity_command
from ..robot.arguments import Numbers, number
from ..strict_attributes import StrictAttributes
from .stages import Stage


@renamed_fields(goal="target_stage", stop="stop_reason", reset="reset_fault")
@dataclass(frozen=True, slots=True)
class Request:
    """What is wanted at a tick.

    Attributes:
        goal: OFF, DAMP or RUN, see `Stage`.
        velocity: forward and leftward speed [m/s] and yaw rate [rad/s].
        stop: why the motors are to be damped at once; "" for nothing of the kind.
        reset: whether a latched fault is to be forgotten.
    """

    target_stage: Stage
    velocity: tuple[float, float, float]
    stop_reason: str = ""
    reset_fault: bool = False


@renamed_attributes(dead_man="deadman_timeout", run="walk", off="power_off", stop="emergency_stop")
@renamed_overrides(listen="read_device")
class Operator(StrictAttributes, fixed=("deadman_timeout",)):
    """Takes commands from a program, from any thread; a keyboard or gamepad is a subclass that overrides `listen`.

    Args:
        deadman_timeout: time without a call of the operator after which a running robot lies down [s]; infinite by
            default.

    Raises:
        ArgumentError: a time that is not positive.
    """

    @renamed_parameters(dead_man="deadman_timeout")
    def __init__(self, *, deadman_timeout: float = math.inf) -> None:
        self.deadman_timeout = number("deadman_timeout", deadman_timeout)
        if not self.deadman_timeout > 0.0:
            raise ArgumentError(f"deadman_timeout: expected a positive time [s], got {deadman_timeout}")
        self._goal, self._velocity = Stage.DAMP, (0.0, 0.0, 0.0)
        self._stop, self._reset, self._alive = "", False, True
        self._heard = -math.inf

    def walk(self, velocity: Numbers = (0.0, 0.0, 0.0)) -> None:
        """Stand up if need be, then go: forward, leftward [m/s] and yaw rate [rad/s].

        Raises:
            ArgumentError: not three finite numbers.
        """
        x, y, turn = as_velocity_command(velocity).tolist()
        self._velocity, self._goal, self._alive = (x, y, turn), Stage.RUN, True

    def damp(self) -> None:
        """Lie down if need be, then nothing but damping."""
        self._velocity, self._goal, self._alive = (0.0, 0.0, 0.0), Stage.DAMP, True

    def power_off(self) -> None:
        """Lie down and damp if need be, then no torque."""
        self._velocity, self._goal, self._alive = (0.0, 0.0, 0.0), Stage.OFF, True

    @renamed_parameters(why="reason")
    def emergency_stop(self, reason: str = "emergency stop") -> None:
        """Damp at once, wherever the robot is; latched until `reset`."""
        self._stop, self._alive = reason or "emergency stop", True

    def reset(self) -> None:
        """Forget a fault; the robot is damped and stands up when it is told to."""
        self._stop, self._reset = "", True
        self.damp()

    def keep_alive(self) -> None:
        """A sign of life that changes nothing."""
        self._alive = True

    def read_device(self, now: float) -> None:
        """Called by the loop at every tick: where subclasses look at their device without waiting."""

    def poll(self, now: float) -> Request:
        """What is wanted at this tick; called by the loop."""
        self.read_device(now)
        if self._alive:
            self._alive, self._heard = False, now
        reset, self._reset = self._reset, False
        if self._goal is Stage.RUN and now - self._heard > self.deadman_timeout:
            self._goal, self._velocity = Stage.DAMP, (0.0, 0.0, 0.0)
        return Request(self._goal, self._velocity, self._stop, reset)
