"""`RealTimeOptions`: options of the operating system for a real-time loop, and what was permitted."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from .. import operating_system
from ..deprecation import renamed_attributes, renamed_fields


@renamed_attributes(held="applied")
@renamed_fields(park_collector="disable_gc")
@dataclass(frozen=True, slots=True, kw_only=True)
class RealTimeOptions:
    """Options that a loop requests from the operating system while it runs; it runs without those not permitted.

    Attributes:
        priority: ``SCHED_FIFO`` priority level, 1 to 99; None: the present scheduling class.
        cpus: indices of the processors to run on; None: no restriction.
        lock_memory: whether to lock all memory against paging.
        disable_gc: whether to disable Python's garbage collection; objects that exist before are never collected.
    """

    priority: int | None = None
    cpus: Collection[int] | None = None
    lock_memory: bool = False
    disable_gc: bool = True

    @contextlib.contextmanager
    def applied(self) -> Iterator[tuple[str, ...]]:
        """Applies the options for the duration of the context; yields one line for each option with its result."""
        results: list[str] = []
        with contextlib.ExitStack() as undo:
            if self.disable_gc:
                self._disable_gc(results, undo)
            if self.cpus is not None:
                self._set_affinity(results, undo)
            if self.priority is not None:
                self._set_priority(results, undo)
            if self.lock_memory:
                self._lock_memory(results, undo)
            yield tuple(results)

    def _disable_gc(self, results: list[str], undo: contextlib.ExitStack) -> None:
        """Disables the garbage collector."""
        enabled = gc.isenabled()
        gc.collect()
        gc.freeze()
        gc.disable()
        undo.callback(gc.unfreeze)
        if enabled:
            undo.callback(gc.enable)
        results.append("garbage collector: disabled")

    def _set_affinity(self, results: list[str], undo: contextlib.ExitStack) -> None:
        """Restricts the process to `cpus`."""
        try:
            undo.callback(operating_system.set_affinity(self.cpus or ()))
        except OSError as error:
            reason = operating_system.describe_os_error(error)
            results.append(f"processors {sorted(self.cpus or ())}: not permitted ({reason})")
            return
        results.append(f"processors {sorted(self.cpus or ())}: set")

    def _set_priority(self, results: list[str], undo: contextlib.ExitStack) -> None:
        """Sets the real-time priority."""
        assert self.priority is not None
        try:
            undo.callback(operating_system.set_fifo_priority(self.priority))
        except OSError as error:
            reason = operating_system.describe_os_error(error)
            results.append(f"SCHED_FIFO {self.priority}: not permitted ({reason}); see ulimit -r, or CAP_SYS_NICE")
            return
        results.append(f"SCHED_FIFO {self.priority}: on")

    def _lock_memory(self, results: list[str], undo: contextlib.ExitStack) -> None:
        """Locks the memory against paging."""
        try:
            undo.callback(operating_system.lock_memory())
        except OSError as error:
            reason = operating_system.describe_os_error(error)
            results.append(f"mlockall: not permitted ({reason}); see ulimit -l")
            return
        results.append("mlockall: on")
