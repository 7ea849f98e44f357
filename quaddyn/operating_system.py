"""Calls of the operating system that not every system has: Linux, macOS and Windows behind one interface.

Other modules use such calls only where a test allows it, as `forks` does behind ``hasattr``.  Where a system lacks a
call, the function here either has a portable substitute, or raises an `OSError` that names it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import signal
import stat
import subprocess
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

#: Class of the paths of this system, for subclasses.
if TYPE_CHECKING:
    SystemPath = Path
else:
    SystemPath = type(Path())

#: Flags of ``mlockall`` of <sys/mman.h>.
MCL_CURRENT, MCL_FUTURE = 1, 2
#: Bytes that are written at a time where space in a file cannot be reserved.
_ZEROS = bytes(1 << 20)


def describe_os_error(error: OSError) -> str:
    """Returns the text of an error of the operating system with the file concerned, without the number of the error."""
    if error.strerror is None:
        return str(error)
    words = error.strerror[:1].lower() + error.strerror[1:]
    return words if error.filename is None else f"{error.filename}: {words}"


# -- processors and threads -------------------------------------------------------------------------------------------
def usable_processors() -> int:
    """Returns the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_name() -> str:
    """Returns the name of the processor, or that of its architecture."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def set_affinity(cpus: Collection[int]) -> Callable[[], None]:
    """Restricts the calling thread to some processors; returns a function that restores the present ones.

    Raises:
        OSError: a processor does not exist, or the system has no such restriction.
    """
    if not hasattr(os, "sched_setaffinity"):
        raise OSError(errno.ENOSYS, "this system cannot restrict a process to processors")
    previous = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cpus)
    except ValueError as error:
        raise OSError(errno.EINVAL, str(error)) from None
    return lambda: os.sched_setaffinity(0, previous)


def set_fifo_priority(priority: int) -> Callable[[], None]:
    """Sets the ``SCHED_FIFO`` priority of the calling thread; returns a function that restores its scheduling class.

    Raises:
        OSError: not permitted, or the system has no such priority.
    """
    if not hasattr(os, "sched_setscheduler"):
        raise OSError(errno.ENOSYS, "this system has no SCHED_FIFO")
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except ValueError as error:
        raise OSError(errno.EINVAL, str(error)) from None
    return lambda: os.sched_setscheduler(0, policy, parameters)


def c_library() -> Any:
    """Returns the C library of this process, or None on a system where it has no common interface."""
    return ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None


def lock_memory() -> Callable[[], None]:
    """Locks the memory of this process against paging; returns a function that unlocks it.

    Raises:
        OSError: not permitted, or the system has no such lock.
    """
    library = c_library()
    if not hasattr(library, "mlockall"):
        raise OSError(errno.ENOSYS, "this system has no mlockall")
    if library.mlockall(MCL_CURRENT | MCL_FUTURE):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return lambda: library.munlockall()


# -- files ------------------------------------------------------------------------------------------------------------
def open_flags(*names: str) -> int:
    """Returns the flags of `os.open` of these names, as far as the system has them, and that of binary files."""
    flags = getattr(os, "O_BINARY", 0)
    for name in names:
        flags |= getattr(os, name, 0)
    return flags


def reserve_space(file: int, size: int) -> None:
    """Extends an empty file to `size` bytes of zeros, for which the disk has space.

    Raises:
        OSError: there is no space.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
        return
    while size > 0:
        size -= os.write(file, _ZEROS[:size])


def read_at(file: int, size: int, offset: int) -> bytes:
    """Returns up to `size` bytes of a file from `offset` on; moves its position where the system has no ``pread``."""
    if hasattr(os, "pread"):
        return os.pread(file, size, offset)
    os.lseek(file, offset, os.SEEK_SET)
    return os.read(file, size)


def effective_user() -> int | None:
    """Returns the number of the user of this process; None on a system without such numbers."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def is_writable_by_others(status: os.stat_result) -> bool:
    """Returns whether the mode of a file or folder allows its group or everybody to write to it.

    Where users have no numbers, modes do not describe access, and nothing is found.
    """
    return effective_user() is not None and bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def shared_memory_folder() -> str | None:
    """Returns the folder of files that are never written to a disk, or None if the system has none."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


# -- processes --------------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Context in which new processes and threads inherit that Ctrl-C is blocked, where the system has signal masks."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)


def end_with_children(process: subprocess.Popen[Any], timeout: float) -> None:
    """Ends a process that was started with ``start_new_session=True``, and the processes that it has started.

    Args:
        process: the process.
        timeout: time to wait after each of the two signals [s].
    """
    if hasattr(os, "killpg"):
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout)
    process.kill()
    process.wait()


def parent_process() -> int | None:
    """Returns the number of the parent process, which changes when it ends; None on a system where it does not."""
    return os.getppid() if os.name == "posix" else None
