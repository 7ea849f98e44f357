"""Compiled adaptation of step durations to an error of the divergent component: shorter steps after a push."""

import math

from ..compiler import entry
from .gait import GaitState
from .morphology import BodyParameters

#: Maximum shift of a foothold from that of the gait [l].
MAX_FOOTHOLD_SHIFT = 0.25
#: Maximum factor by which the cycle is accelerated.
MAX_RATE_SCALE = 1.5
#: Length of a swing [l], and mean speed divided by peak speed of a minimum-jerk path: leg length times the speed of the
#: slowest joint bounds the peak speed.
SWING_LENGTH, MEAN_TO_PEAK_SPEED = 0.6, 8.0 / 15.0


@entry("step timing")
def adapt_step_timing(g: GaitState, body: BodyParameters, joint_speed: float, error_x: float, error_y: float) -> None:
    """Sets the rate scale of the gait for an error of the divergent component, beside the adaptation of the footholds.

    Between steps the error e grows as ``exp(omega t)``, and each step can correct at most the maximum shift b of a
    foothold.  Steps of duration T keep the error bounded if

        e (exp(omega T) - 1) <= b

    (Koolen et al. 2012, "Capturability-based analysis and control of legged locomotion", the limit of many steps;
    Khadiv et al. 2020, "Walking control based on step timing adaptation", where T is optimized).  If the swings of the
    gait are too slow for an error, ``T = log(1 + b / e) / omega`` accelerates the whole cycle, as far as the joints
    allow: swing feet land sooner, and the next ones lift off sooner.  In gaits with flight phases the ballistic flight
    determines the timing, and the cycle is not changed.

    Args:
        g: state of the gait.
        body: parameters of the robot.
        joint_speed: smallest velocity limit of the leg joints [rad/s or m/s]; inf where there is none.
        error_x: error of the divergent component along world x [m].
        error_y: error along world y [m].
    """
    error, rate_scale = math.sqrt(error_x * error_x + error_y * error_y), 1.0
    if g.is_running and error > 0.0 and g.force_profile.is_constant:
        swing_time = (1.0 - g.duty_factor) * g.nominal_period
        required = swing_time * body.natural_frequency / math.log1p(MAX_FOOTHOLD_SHIFT * body.length / error)
        max_swing_rate = MEAN_TO_PEAK_SPEED * joint_speed / SWING_LENGTH  # swings per second
        rate_scale = max(1.0, min(required, MAX_RATE_SCALE, swing_time * max_swing_rate))
    g.rate_scale = rate_scale
