"""Clocks that loops wait on: that of the machine, and those of tests."""

from __future__ import annotations

import ctypes
import errno
import os
import time
from abc import ABC, abstractmethod

from ..errors import ArgumentError

#: Of <time.h>: the monotonic clock, and deadlines instead of durations.
CLOCK_MONOTONIC, TIMER_ABSTIME = 1, 1


class Clock(ABC):
    """Tells the time and waits for a later one; loops know no other time."""

    @property
    def step_time(self) -> float:
        """Time passes in steps of this [s]; 0 where it passes continuously."""
        return 0.0

    @abstractmethod
    def now(self) -> float:
        """[s] since some moment that does not change."""

    @abstractmethod
    def sleep_until(self, time: float) -> None:
        """Return at `time` [s], or at once where that has passed."""


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class SystemClock(Clock):
    """The machine's monotonic clock, with absolute deadlines: what is late does not make the next one late.

    Waits by ``clock_nanosleep`` with ``TIMER_ABSTIME`` where the C library has it, which a preemption between reading
    the clock and falling asleep does not delay, and by ``time.sleep`` elsewhere.
    """

    def __init__(self) -> None:
        library = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None
        self._nanosleep = getattr(library, "clock_nanosleep", None)
        if self._nanosleep is not None:
            self._nanosleep.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.POINTER(_Timespec), ctypes.c_void_p)
            self._nanosleep.restype = ctypes.c_int

    def now(self) -> float:
        """[s] since the machine was started, about."""
        return time.monotonic()

    def sleep_until(self, time: float) -> None:
        """Return at `time` [s], or at once where that has passed."""
        if self._nanosleep is None:
            _sleep_until(time)
            return
        whole = int(time)
        deadline = _Timespec(whole, int((time - whole) * 1e9))
        while self._nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, ctypes.byref(deadline), None) == errno.EINTR:
            pass  # a signal; its handler runs before the next turn


def _sleep_until(deadline: float) -> None:
    while (left := deadline - time.monotonic()) > 0.0:
        time.sleep(left)


class ManualClock(Clock):
    """A clock that moves when it is told to: for tests, and to run loops as fast as the machine can.

    Args:
        start: its first time [s].
    """

    def __init__(self, start: float = 0.0) -> None:
        self._time = float(start)

    def now(self) -> float:
        """[s]."""
        return self._time

    def sleep_until(self, time: float) -> None:
        """Be `time` [s], unless it is later already."""
        self._time = max(self._time, time)

    def advance(self, seconds: float) -> None:
        """Let time pass, as a computation does.

        Raises:
            ArgumentError: backwards.
        """
        if not seconds >= 0.0:
            raise ArgumentError(f"seconds: expected 0 or more, got {seconds}")
        self._time += seconds
