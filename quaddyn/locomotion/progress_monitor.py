"""`ProgressMonitor`: detection of a robot that does not follow the velocity command."""

from __future__ import annotations

from ..urdf.tree import Array
from .centroidal_state import CentroidalState
from .morphology import Morphology, make_body_parameters
from .progress_averages import AVERAGING_TIME, ProgressState, filter_command, reset_progress
from .state_fields import StateField
from .velocity_clamping import LimitReason
from .velocity_limits import NO_PROGRESS_MESSAGE


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
        state: record of the compiled functions, with all of the state.
        is_stuck: whether the command is refused.
    """

    __slots__ = ("_body", "state")

    is_stuck = StateField[bool]()

    def __init__(self, morphology: Morphology, dt: float) -> None:
        self._body, self.state = make_body_parameters(morphology), ProgressState.allocate()
        self.state.alpha = dt / (AVERAGING_TIME * morphology.time_scale)

    def reset(self) -> None:
        """Resets the averages, so that every command is accepted again."""
        reset_progress.python(self.state)

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
        followed = velocity.copy()
        if filter_command(self.state, self._body, followed, motion.state, float(yaw_rate)) == LimitReason.NONE:
            return velocity, reason
        return followed, NO_PROGRESS_MESSAGE
