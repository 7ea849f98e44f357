"""`os.fork` in processes with threads: a fork waits until no other thread holds a lock that the child would inherit."""

from __future__ import annotations

import os
import threading
import time
from importlib import _bootstrap as bootstrap
from typing import Any

#: How long a fork waits for modules that other threads import [s].
PATIENCE = 10.0
#: Locks that the present fork holds.
_held: list[Any] = []


def is_importing() -> bool:
    """Returns whether another thread is importing a module, whose lock a forked child would wait for without end."""
    locks, me = getattr(bootstrap, "_module_locks", {}), threading.get_ident()
    return any(getattr(ref(), "owner", None) not in (None, me) for ref in list(locks.values()))


def await_imports() -> None:
    """Wait, for a while, until no other thread imports anything."""
    end = time.monotonic() + PATIENCE
    while is_importing() and time.monotonic() < end:
        time.sleep(1e-3)


def hold(lock: Any) -> None:
    """Acquires a lock, unless it is None, until the present fork is done."""
    if lock is not None:
        lock.__enter__()
        _held.append(lock)


def let_go() -> None:
    """Releases the held locks after a fork, in parent and child."""
    while _held:
        _held.pop().__exit__(None, None, None)


if hasattr(os, "register_at_fork"):
    # What is registered first is done last before a fork: nothing is waited for after imports.
    os.register_at_fork(before=await_imports, after_in_parent=let_go, after_in_child=let_go)
