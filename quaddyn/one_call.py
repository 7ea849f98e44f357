"""`OneCall`: one call of a controller or a plant at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .errors import ConcurrencyError


class OneCall:
    """A lock that is not waited for: compiled code must not find other things than it began with.

    ``with one_call("add"):`` is for calls between ticks, `begin` and `end` for what runs every tick.

    Args:
        of: what it is of, such as "controller", for the error.
    """

    __slots__ = ("_acquire", "_of", "end")

    def __init__(self, of: str) -> None:
        lock = threading.Lock()
        self._of = of
        self._acquire, self.end = lock.acquire, lock.release

    def begin(self, call: str) -> None:
        """Raise ConcurrencyError if another call is under way."""
        if not self._acquire(False):
            of = self._of
            raise ConcurrencyError(f"{call}: another call of this {of} is under way; use one {of} per thread")

    @contextmanager
    def __call__(self, call: str) -> Iterator[None]:
        """A call, from its beginning to its end."""
        self.begin(call)
        try:
            yield
        finally:
            self.end()
