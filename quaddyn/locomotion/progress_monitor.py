"""`ProgressMonitor`: detection of a robot that does not follow the velocity command."""

from __future__ import annotations

import math

import numpy as np

from ..urdf.tree import Array
from .centroidal_state import CentroidalState
from .morphology import Morphology

#: Reason reported for a refused command.
NO_PROGRESS_MESSAGE = "no progress: stopped"
#: Time constant of the speed averages [sqrt(l/g)], and fraction of the commanded speed below which there is no
#: progress.
AVERAGING_TIME, MIN_PROGRESS_FRACTION = 20.0, 0.1
#: Minimum average of the commanded speed, as a fraction of the present one, at which progress is evaluated.
MIN_AVERAGING_FRACTION = 1.0 - math.exp(-1.0)
#: Minimum commanded speed at which progress is evaluated [sqrt(g l)]: below it the sway of the trunk dominates.
MIN_MONITORED_SPEED = 0.01
#: Relative change of the command above which it counts as a new one.
COMMAND_CHANGE_FRACTION = 0.5


class ProgressMonitor:
    """Comparison of the robot's velocity with the commanded one, averaged over the last steps.

    Both are averaged with the time constant `AVERAGING_TIME`.  The speed is ``|(v_x, v_y, l omega)|``; of the robot's
    velocity only the component along the command counts.  A robot below `MIN_PROGRESS_FRACTION` of the commanded speed
    is stuck: its trunk rests on an obstacle, a wall blocks it, or its feet slip.  The command is then refused, and the
    robot stands instead of stepping in place, until the direction or the size of the command changes.

    Args:
        morphology: lengths and units of the robot.
        dt: control period [s].

    Attributes:
        is_stuck: whether the command is refused.
    """

    __slots__ = ("_alpha", "_command", "_mean_commanded", "_mean_measured", "_morphology", "is_stuck")

    def __init__(self, morphology: Morphology, dt: float) -> None:
        self._morphology, self._alpha = morphology, dt / (AVERAGING_TIME * morphology.time_scale)
        self.reset()

    def reset(self) -> None:
        """Resets the averages, so that every command is accepted again."""
        self._restart((0.0, 0.0, 0.0))

    def _restart(self, command: tuple[float, float, float]) -> None:
        """Restarts the averages for another command (3,) [m/s]."""
        self._mean_commanded = self._mean_measured = 0.0
        self._command, self.is_stuck = command, False

    def filter_command(
        self, velocity: Array, reason: str, motion: CentroidalState, yaw_rate: float
    ) -> tuple[Array, str]:
        """Updates the averages by one tick, and returns the velocity to follow (3,) with the reason for its limit.

        Args:
            velocity: (3,) forward and leftward speed [m/s] and yaw rate [rad/s], heading frame, clamped so far.
            reason: reason for which it was clamped so far, else "".
            motion: present state of center of mass and trunk.
            yaw_rate: measured yaw rate [rad/s].
        """
        p, (x, y, commanded_yaw_rate) = self._morphology, velocity.tolist()
        command = x, y, p.length * commanded_yaw_rate
        speed = math.hypot(*command)
        if math.dist(command, self._command) > COMMAND_CHANGE_FRACTION * math.hypot(*self._command):
            self._restart(command)
        if self.is_stuck:
            return np.zeros(3), NO_PROGRESS_MESSAGE
        if speed < MIN_MONITORED_SPEED * p.speed_scale:
            return velocity, reason
        c, s, (u, v, _) = math.cos(motion.yaw), math.sin(motion.yaw), motion.velocity
        measured = c * u + s * v, c * v - s * u, p.length * yaw_rate
        progress = sum(a * b for a, b in zip(measured, command, strict=True)) / speed
        self._mean_commanded += (speed - self._mean_commanded) * self._alpha
        self._mean_measured += (progress - self._mean_measured) * self._alpha
        self.is_stuck = (
            self._mean_commanded >= MIN_AVERAGING_FRACTION * speed
            and self._mean_measured < MIN_PROGRESS_FRACTION * self._mean_commanded
        )
        return (np.zeros(3), NO_PROGRESS_MESSAGE) if self.is_stuck else (velocity, reason)
