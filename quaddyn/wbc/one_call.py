"""`OneCall`: one call of a controller at a time."""

from __future__ import annotations

import threading

from ..errors import ConcurrencyError


class OneCall:
    """A lock that is not waited for: compiled code must not find other elements than it began with.

    ``with one_call("add"):`` is for calls between ticks, `begin` and `end` for the tick itself.
    """

    __slots__ = ("_acquire", "_call", "end")

    def __init__(self) -> None:
        lock = threading.Lock()
        self._acquire, self.end = lock.acquire, lock.release
        self._call = ""

    def begin(self, call: str) -> None:
        """Raise ConcurrencyError if another call is under way."""
        if not self._acquire(False):
            raise ConcurrencyError(
                f"{call}: another call of this controller is under way; use one controller per thread, and change it "
                "between ticks"
            )

    def __call__(self, call: str) -> OneCall:
        """Say which call begins."""
        self._call = call
        return self

    def __enter__(self) -> None:
        self.begin(self._call)

    def __exit__(self, *_error: object) -> None:
        self.end()
