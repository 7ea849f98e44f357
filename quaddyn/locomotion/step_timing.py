"""`StepTimingAdapter`: shorter steps after a push."""

from __future__ import annotations

import math

from .gait import GaitScheduler
from .morphology import Morphology

#: Maximum shift of a foothold from that of the gait [l].
MAX_FOOTHOLD_SHIFT = 0.25
#: Maximum factor by which the cycle is accelerated.
MAX_RATE_SCALE = 1.5
#: Length of a swing [l], and mean speed divided by peak speed of a minimum-jerk path: leg length times the speed of the
#: slowest joint bounds the peak speed.
SWING_LENGTH, MEAN_TO_PEAK_SPEED = 0.6, 8.0 / 15.0


class StepTimingAdapter:
    """Adaptation of step durations to an error of the divergent component, beside the adaptation of the footholds.

    Between steps the error e grows as ``exp(omega t)``, and each step can correct at most the maximum shift b of a
    foothold.  Steps of duration T keep the error bounded if

        e (exp(omega T) - 1) <= b

    (Koolen et al. 2012, "Capturability-based analysis and control of legged locomotion", the limit of many steps;
    Khadiv et al. 2020, "Walking control based on step timing adaptation", where T is optimized).  If the swings of the
    gait are too slow for an error, ``T = log(1 + b / e) / omega`` accelerates the whole cycle, as far as the joints
    allow: swing feet land sooner, and the next ones lift off sooner.  In gaits with flight phases the ballistic flight
    determines the timing, and the cycle is not changed.

    Args:
        morphology: lengths and units of the robot.
    """

    __slots__ = ("_max_swing_rate", "_morphology")

    def __init__(self, morphology: Morphology) -> None:
        p = self._morphology = morphology
        self._max_swing_rate = MEAN_TO_PEAK_SPEED * p.joint_speed / SWING_LENGTH  # swings per second

    def adapt(self, scheduler: GaitScheduler, error: tuple[float, float]) -> None:
        """Sets the rate scale of the gait scheduler.

        Args:
            scheduler: phases of the gait.
            error: (2,) error of the divergent component, world x and y [m].
        """
        p, error_size, rate_scale = self._morphology, math.hypot(*error), 1.0
        if scheduler.is_running and error_size > 0.0:
            swing_time = scheduler.swing_time * scheduler.rate_scale
            rate_scale = swing_time * p.natural_frequency / math.log1p(MAX_FOOTHOLD_SHIFT * p.length / error_size)
            rate_scale = max(1.0, min(rate_scale, MAX_RATE_SCALE, swing_time * self._max_swing_rate))
            if rate_scale > 1.0 and not scheduler.has_constant_force:
                rate_scale = 1.0
        scheduler.rate_scale = rate_scale
