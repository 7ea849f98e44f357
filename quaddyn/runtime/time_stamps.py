"""`TimeStampFilter`: decides by time stamps which readings are new, by the same rule in all interfaces."""

from __future__ import annotations

import math

from .safety_checks import is_later, is_stamp

#: Time without an accepted stamp after which the robot's clock is assumed to have restarted [s].
RESTART_TIME = 1.0
#: Rate of time stamps in each unit against a clock in seconds, factor up to which another rate belongs to the unit, and
#: number of consecutive rejected stamps that show it.
UNIT_RATES, MAX_RATE_FACTOR, MIN_REJECTED = {"milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}, 2.0, 5


class TimeStampFilter:
    """Filter of the time stamps of one robot's readings.

    A reading is accepted if its stamp is finite, not negative, and later than that of the last accepted one; with
    `bounded` it must not advance by 50 ms more than the caller's clock either (see `safety_checks.is_later`).  If none
    was accepted for a second, for example because the robot restarted, the next reading is treated as the first.

    Args:
        bounded: whether the caller's clock bounds the robot's clock, as it does in real time.
    """

    def __init__(self, *, bounded: bool = False) -> None:
        self._bounded = bounded
        self._last, self._now = -math.inf, -math.inf
        self._rejected = (-math.inf, -math.inf)  # stamp and caller's clock of the last rejected reading
        self._unit, self._count = "", 0

    def accept(self, time: float, now: float) -> bool:
        """Returns whether a reading is accepted, and stores its stamp.

        Args:
            time: time stamp of the reading, by the robot's clock [s].
            now: the caller's clock [s].
        """
        elapsed = now - self._now
        if 0.0 <= elapsed <= RESTART_TIME:
            is_new = is_later(time, self._last, elapsed if self._bounded else math.inf)
        else:  # no accepted stamp for long, or the caller's clock was reset
            is_new = is_stamp(time) and time != self._last
        if is_new:
            self._last, self._now = time, now
            self._unit, self._count = "", 0
        elif is_stamp(time) and self._count < MIN_REJECTED:
            last_stamp, last_now = self._rejected
            if now > last_now:
                rate = (time - last_stamp) / (now - last_now)  # of both clocks since the last rejected reading
                units = (x for x, y in UNIT_RATES.items() if y / MAX_RATE_FACTOR < rate < y * MAX_RATE_FACTOR)
                unit = next(units, "")
                self._count = self._count + 1 if unit == self._unit else 1
                self._unit = unit
                self._rejected = (time, now)
        return is_new

    @property
    def likely_unit(self) -> str:
        """Unit of the stamps, if rejected ones advanced a thousand times (or more) as fast as the clock; else ""."""
        return self._unit if self._count >= MIN_REJECTED else ""
