"""`os.fork` in processes with threads: a fork waits until no other thread holds a lock that the child would inherit."""

from __future__ import annotations

import os
import threading
import time
from importlib import _bootstrap as bootstrap
from typing import Any

#: Longest time that a fork waits for modules that other threads import [s].
IMPORT_WAIT_TIME = 10.0
#: Locks held during the current fork.
_held_locks: list[Any] = []


def is_importing() -> bool:
    """Returns whether another thread imports a module, whose lock a forked child would wait for forever."""
    locks, me = getattr(bootstrap, "_module_locks", {}), threading.get_ident()
    return any(getattr(ref(), "owner", None) not in (None, me) for ref in list(locks.values()))


def wait_for_imports() -> None:
    """Waits until no other thread imports a module, at most `IMPORT_WAIT_TIME`."""
    end = time.monotonic() + IMPORT_WAIT_TIME
    while is_importing() and time.monotonic() < end:
        time.sleep(1e-3)


def hold_lock(lock: Any) -> None:
    """Acquires a lock, unless it is None, until the current fork is finished."""
    if lock is not None:
        lock.__enter__()
        _held_locks.append(lock)


def release_locks() -> None:
    """Releases the held locks after a fork, in parent and child."""
    while _held_locks:
        _held_locks.pop().__exit__(None, None, None)


if hasattr(os, "register_at_fork"):
    # The first registered function runs last before a fork: waiting for imports is the last step.
    os.register_at_fork(before=wait_for_imports, after_in_parent=release_locks, after_in_child=release_locks)
