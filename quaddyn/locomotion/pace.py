"""`Pace`: how much sooner than its gait has it a robot steps that was pushed."""

from __future__ import annotations

import math

from .gait import Clock
from .proportions import Proportions

#: How far a foothold can be moved beyond what the gait asks for [l].
ROOM = 0.25
#: Most that swings are shortened.
MOST = 1.5
#: How far a foot has to go in one of them [l], and its mean speed, in leg lengths times the speed of the slowest joint:
#: the shortest-jerk path has 8/15 of its largest.
WAY, MEAN = 0.6, 8.0 / 15.0


class Pace:
    """The duration of steps as a second answer to an error of the divergent component, beside their place.

    Between steps the error e grows as ``exp(omega t)``, and each step takes back at most what a foothold can be moved
    by, b.  Steps of duration T hold what does not grow from one to the next,

        e (exp(omega T) - 1) <= b

    (Koolen et al. 2012, "Capturability-based analysis and control of legged locomotion", the limit of many steps;
    Khadiv et al. 2020, "Walking control based on step timing adaptation", where T is decided upon).  An error that the
    gait's own swings are too slow for, ``T = log(1 + b / e) / omega``, makes the whole cycle faster, as far as joints
    can follow: feet in the air land sooner, and the next ones leave sooner.  Where all feet are off the ground at a
    time, gravity decides when they land.

    Args:
        proportions: of the robot.
    """

    __slots__ = ("_p", "_swift")

    def __init__(self, proportions: Proportions) -> None:
        p = self._p = proportions
        self._swift = MEAN * p.joint_speed / WAY  # swings per second

    def adapt(self, clock: Clock, error: tuple[float, float]) -> None:
        """Set the haste of the clock.

        Args:
            clock: of the gait.
            error: of the divergent component, world [m].
        """
        p, away, haste = self._p, math.hypot(*error), 1.0
        if clock.running and away > 0.0:
            swing = clock.swing_time * clock.haste
            haste = swing * p.frequency / math.log1p(ROOM * p.length / away)
            haste = max(1.0, min(haste, MOST, swing * self._swift))
            if haste > 1.0 and not clock.thrust.steady:
                haste = 1.0
        clock.haste = haste
