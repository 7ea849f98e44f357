"""Waiting for what another thread, process or page does."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_for(true: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Waits for a condition; returns whether it became true."""
    deadline = time.monotonic() + seconds
    while not (reached := true()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return reached
