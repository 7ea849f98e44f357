"""`OneCall`: one call of a controller or a plant at a time."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

from .errors import ConcurrencyError


class OneCall:
    """Lock against concurrent calls, ``with one_call("add"):``; no other call may alter the arrays of compiled code.

    A call that finds another one under way raises instead of waiting for it; only of two threads that begin at the same
    instant may one wait for the other.  The context is the lock itself: the interpreter looks for signals neither
    between taking it and the ``with`` block, nor between the block and its release, so that no exception of a signal
    handler leaves it locked.

    Args:
        of: what it is of, such as "controller", for the error.
    """

    __slots__ = ("_lock", "_of")

    def __init__(self, of: str) -> None:
        self._of, self._lock = of, threading.Lock()

    def __call__(self, call: str) -> AbstractContextManager[bool]:
        """The context of a call.

        Args:
            call: its name, for the error.

        Raises:
            ConcurrencyError: another call is under way.
        """
        if self._lock.locked():
            of = self._of
            raise ConcurrencyError(f"{call}: another call of this {of} is under way; use one {of} per thread")
        return self._lock
