"""Signals with handlers that raise, at random times during calls."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

import numpy as np


class Interrupt(Exception):
    """Exception raised by the handler."""


def interrupt(call: Callable[[], object], count: int, longest: float, rng: np.random.Generator) -> int:
    """Calls a function repeatedly in the main thread while signals arrive.

    Args:
        call: function to interrupt.
        count: number of signals.
        longest: largest time from the first call to the signal [s]; times are random.
        rng: generator of these times.

    Returns:
        Number of signals that interrupted a call; the others arrived between two calls.
    """
    arrived = 0

    def handler(*_: object) -> None:
        nonlocal arrived
        arrived += 1
        raise Interrupt

    within, before, hook = 0, signal.signal(signal.SIGALRM, handler), sys.unraisablehook
    sys.unraisablehook = lambda found: None if isinstance(found.exc_value, Interrupt) else hook(found)
    try:
        for number, wait in enumerate(rng.uniform(1e-6, longest, count).tolist()):
            inside = False
            try:
                signal.setitimer(signal.ITIMER_REAL, wait)
                while arrived == number:  # exceptions in destructors are ignored
                    inside = True
                    call()
                    inside = False
            except Interrupt:
                within += int(inside)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = hook
    return within
