"""`TickPeriodMonitor`: estimate of the time between ticks from the motion of the robot."""

from __future__ import annotations

from .centroidal_state import CentroidalState

#: Range of the ratio of the measured period to that of the controller in which they agree.
MIN_RATIO, MAX_RATIO = 0.75, 1.33
#: Minimum fraction of the squared displacements that a period must explain: a state that jumps has no period.
MIN_EXPLAINED_FRACTION = 0.95
#: Minimum time [s] and displacement [m] of the center of mass from which a period is computed.
MIN_TIME, MIN_DISPLACEMENT = 0.2, 0.003


class TickPeriodMonitor:
    """Comparison of the displacements of the center of mass between ticks with its velocity times the control period.

    Args:
        dt: control period [s].
    """

    __slots__ = ("_displacement", "_dt", "_last_motion", "_product", "_speed", "_ticks")

    def __init__(self, dt: float) -> None:
        self._dt = dt
        self.reset()

    def reset(self) -> None:
        """Resets the estimate."""
        self._last_motion: tuple[tuple[float, ...], tuple[float, ...]] | None = None  # position and velocity of the com
        self._restart()

    def _restart(self) -> None:
        """Restarts the sums of the estimate."""
        self._ticks, self._displacement, self._product, self._speed = 0, 0.0, 0.0, 0.0

    def update(self, motion: CentroidalState) -> float | None:
        """Updates the estimate by one tick.

        Returns:
            The measured period of the last fifth of a second or more [s] if it differs from that of the controller,
            else None.
        """
        last_motion, self._last_motion = self._last_motion, (motion.com, motion.velocity)
        if last_motion is None:
            return None
        for x, last_position, u, last_speed in zip(
            self._last_motion[0], last_motion[0], self._last_motion[1], last_motion[1], strict=True
        ):
            displacement, speed = x - last_position, 0.5 * (u + last_speed)
            self._displacement += displacement * displacement
            self._product += displacement * speed
            self._speed += speed * speed
        self._ticks += 1
        # The distance is at most the root of the number of displacements times the sum of their squares.
        if self._ticks * self._dt < MIN_TIME or self._ticks * self._displacement < MIN_DISPLACEMENT**2:
            return None
        is_explained = self._product**2 > MIN_EXPLAINED_FRACTION * self._speed * self._displacement
        period = self._product / self._speed if is_explained else self._dt
        self._restart()
        return None if MIN_RATIO * self._dt <= period <= MAX_RATIO * self._dt else period
