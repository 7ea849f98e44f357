"""`ExclusiveCall`: a lock that rejects concurrent calls of one controller or simulator."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

from .errors import ConcurrencyError


class ExclusiveCall:
    """Non-blocking lock against concurrent calls, since compiled code requires unchanged arrays during a call.

    A call during another one raises instead of waiting; only if two threads begin at the same instant may one wait for
    the other.  The context is the lock itself: the interpreter processes signals neither between its acquisition and
    the ``with`` block nor between the block and its release, so that an exception in a signal handler never leaves it
    locked.

    Args:
        of: what the lock protects, such as "controller", for the error message.
    """

    __slots__ = ("_lock", "_of")

    def __init__(self, of: str) -> None:
        self._of, self._lock = of, threading.Lock()

    def acquire(self, call: str) -> AbstractContextManager[bool]:
        """Returns the context manager of a call, ``with exclusive_call.acquire("add"):``.

        Args:
            call: name of the call, for the error message.

        Raises:
            ConcurrencyError: another call is in progress.
        """
        if self._lock.locked():
            of = self._of
            raise ConcurrencyError(f"{call}: another call of this {of} is in progress; use one {of} per thread")
        return self._lock
