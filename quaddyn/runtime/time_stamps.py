"""`Stamps`: which readings count, by their time stamps; the same everywhere."""

from __future__ import annotations

import math

from .safety_checks import is_later, is_stamp

#: How long stamps may be refused before the robot's clock is taken to have been set anew [s].
REFUSED = 1.0


class Stamps:
    """The time stamps of one robot's readings, as they come.

    A reading counts if its stamp is finite, not negative, and later than that of the last one that counted; where
    `bounded`, it must not go on by 50 ms more than the caller's clock either (see `safety_checks.is_later`).  After a
    second in which none counted, such as of a robot that began anew, the next one is a first one.

    Args:
        bounded: whether the caller's clock bounds the robot's, as it does that of a robot in real time.
    """

    def __init__(self, *, bounded: bool = False) -> None:
        self._bounded = bounded
        self._last, self._now = -math.inf, -math.inf

    def accept(self, time: float, now: float) -> bool:
        """Whether a reading counts; from then on it is the last one.

        Args:
            time: its stamp, by the robot's clock [s].
            now: the caller's clock [s].
        """
        passed = now - self._now
        if 0.0 <= passed <= REFUSED:
            counts = is_later(time, self._last, passed if self._bounded else math.inf)
        else:  # nothing counted for long, or the caller's clock began anew
            counts = is_stamp(time) and time != self._last
        if counts:
            self._last, self._now = time, now
        return counts
