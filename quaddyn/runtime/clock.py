"""Clocks of control loops: the system clock, and clocks for tests and simulation."""

from __future__ import annotations

import ctypes
import errno
import time
from abc import ABC, abstractmethod

from ..errors import ArgumentError, ArgumentTypeError
from ..operating_system import c_library

#: Constants of <time.h>: identifier of the monotonic clock, and flag for absolute deadlines.
CLOCK_MONOTONIC, TIMER_ABSTIME = 1, 1


class Clock(ABC):
    """Time source of a loop, which can wait for a later time.

    A clock of your own, such as that of a simulator, is derived from this class and implements `now` and
    `sleep_until`, and `step_time` if its time advances in steps.
    """

    @property
    def step_time(self) -> float:
        """Step in which time advances [s]; 0 for a continuous clock."""
        return 0.0

    @abstractmethod
    def now(self) -> float:
        """Returns the time since a fixed instant [s]."""

    @abstractmethod
    def sleep_until(self, time: float) -> None:
        """Returns at `time` [s], or at once if that has passed."""


def check_clock(clock: object) -> Clock:
    """Returns the clock of a loop, the system clock for None; raises ArgumentTypeError if it is not a `Clock`."""
    if clock is None:
        return SystemClock()
    if not isinstance(clock, Clock):
        missing = [f"{name}()" for name in ("now", "sleep_until") if not callable(getattr(clock, name, None))]
        lack = f" without {' and '.join(missing)}" if missing else ""
        raise ArgumentTypeError(
            f"clock: expected a Clock, got {type(clock).__name__}{lack}; derive its class from quaddyn.runtime.Clock, "
            "with the methods now() and sleep_until(time)"
        )
    return clock


class _Timespec(ctypes.Structure):
    """C structure ``timespec``."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class SystemClock(Clock):
    """Monotonic clock of the system with absolute deadlines, so that a late tick does not delay the next one.

    Waits by ``clock_nanosleep`` with ``TIMER_ABSTIME`` where the C library has it, so that a preemption between reading
    the clock and sleeping causes no delay, and by ``time.sleep`` elsewhere.
    """

    def __init__(self) -> None:
        self._nanosleep = getattr(c_library(), "clock_nanosleep", None)
        if self._nanosleep is not None:
            self._nanosleep.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.POINTER(_Timespec), ctypes.c_void_p)
            self._nanosleep.restype = ctypes.c_int

    def now(self) -> float:
        """Returns the time since about the start of the system [s]."""
        return time.monotonic()

    def sleep_until(self, time: float) -> None:
        """Returns at `time` [s], or at once if that has passed."""
        if self._nanosleep is None:
            _sleep_until(time)
            return
        whole = int(time)
        deadline = _Timespec(whole, int((time - whole) * 1e9))
        while self._nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, ctypes.byref(deadline), None) == errno.EINTR:
            pass  # interrupted by a signal, whose handler runs before the next iteration


def _sleep_until(deadline: float) -> None:
    """Sleeps until a time of the monotonic clock [s] by ``time.sleep``."""
    while (remaining := deadline - time.monotonic()) > 0.0:
        time.sleep(remaining)


class ManualClock(Clock):
    """Clock that advances only by calls: for tests, and to run loops as fast as possible.

    Args:
        start: initial time [s].
    """

    def __init__(self, start: float = 0.0) -> None:
        self._time = float(start)

    def now(self) -> float:
        """Returns the present time [s]."""
        return self._time

    def sleep_until(self, time: float) -> None:
        """Sets the time to `time` [s] unless it is later already."""
        self._time = max(self._time, time)

    def advance(self, seconds: float) -> None:
        """Advances the time, as a computation would.

        Args:
            seconds: time to add, 0 or more [s].

        Raises:
            ArgumentError: a negative time.
        """
        if not seconds >= 0.0:
            raise ArgumentError(f"seconds: expected 0 or more, got {seconds}")
        self._time += seconds
