"""Signals whose handler raises, at random moments of calls."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

import numpy as np


class Interrupt(Exception):
    """What the handler raises."""


def interrupt(call: Callable[[], object], count: int, longest: float, rng: np.random.Generator) -> int:
    """Call again and again, in the main thread, while signals arrive.

    Args:
        call: what is interrupted.
        count: signals.
        longest: time until one arrives after calls began [s]; random below it.
        rng: of these times.

    Returns:
        How many interrupted a call; the others came between two.
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
                while arrived == number:  # in a destructor an exception ends nothing
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
