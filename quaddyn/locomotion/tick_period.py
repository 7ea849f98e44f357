"""`TickPeriodMonitor`: estimate of the time between ticks from the motion of the robot."""

from __future__ import annotations

from .centroidal_state import CentroidalState
from .tick_displacements import TickDisplacements, measure_tick_period, reset_tick_period


class TickPeriodMonitor:
    """Comparison of the displacements of the center of mass between ticks with its velocity times the control period.

    Args:
        dt: control period [s].

    Attributes:
        state: record of the compiled functions, with the sums.
    """

    __slots__ = ("state",)

    def __init__(self, dt: float) -> None:
        self.state = TickDisplacements.allocate()
        self.state.dt = dt

    def reset(self) -> None:
        """Resets the estimate."""
        reset_tick_period(self.state)

    def update(self, motion: CentroidalState) -> float | None:
        """Updates the estimate by one tick.

        Returns:
            The measured period of the last fifth of a second or more [s] if it differs from that of the controller,
            else None.
        """
        return measure_tick_period(self.state, motion.state) or None
