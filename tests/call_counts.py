"""Work counted instead of timed: calls of Python and C functions do not depend on what else a machine does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls(function: Callable[[], Any]) -> int:
    """How many functions `function` calls, written in Python or C, all the way down."""
    count, before = 0, sys.getprofile()

    def seen(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count
