"""Counts of calls of Python and C functions, a measure of work that does not depend on the load of the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_calls(function: Callable[[], Any]) -> int:
    """Number of calls of Python and C functions during `function()`, nested calls included."""
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
