"""`StepTimingAdapter`: shorter steps after a push."""

from __future__ import annotations

from .gait import GaitScheduler
from .morphology import Morphology, make_body_parameters
from .step_rate import adapt_step_timing


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

    __slots__ = ("_body", "_joint_speed")

    def __init__(self, morphology: Morphology) -> None:
        self._body, self._joint_speed = make_body_parameters(morphology), morphology.joint_speed

    def adapt(self, scheduler: GaitScheduler, error: tuple[float, float]) -> None:
        """Sets the rate scale of the gait scheduler.

        Args:
            scheduler: phases of the gait.
            error: (2,) error of the divergent component, world x and y [m].
        """
        adapt_step_timing(scheduler.state, self._body, self._joint_speed, float(error[0]), float(error[1]))
