"""`process_pool`: worker processes of this machine; a process that dies is replaced, and the others continue."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, TypeVar

from .. import operating_system
from ..errors import ArgumentError, CampaignError
from .worker_failures import WorkerDied

T = TypeVar("T")
#: One thread of linear algebra per worker: the workers use all cores, and sums do not depend on the number of threads.
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")}
#: Maximum number of attempts to start a process that is killed during its start.
_MAX_START_ATTEMPTS = 100


class ProcessPool(Executor):
    """Executor of `count` spawned processes.

    Each process belongs to a thread, which sends it one call at a time.  When a process dies, only the call that it ran
    raises `WorkerDied`, and the next call gets a new process.  The processes end with this one, however it ends; an
    exception in the ``with`` block ends them during their calls.
    """

    def __init__(self, count: int) -> None:
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise ArgumentError(f"count: expected a positive number of processes, got {count!r}")
        self.slots = count
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="campaign-worker")
        self._thread_local = threading.local()
        self._processes: weakref.WeakSet[_Process] = weakref.WeakSet()
        self._starting = threading.Lock()
        self._ended = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Calls a function in one of the processes and returns a future of its result.

        The function and its arguments are pickled.
        """
        return self._threads.submit(self._call, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Waits for the calls and ends the processes; without `wait` ends them during their calls."""
        if not wait:
            self._kill()
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        self._ended = True
        if wait:
            for process in list(self._processes):
                process.end()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._kill()
        self.shutdown(cancel_futures=kind is not None)

    def pids(self) -> list[int]:
        """Returns the ids of the present processes."""
        return [process.pid for process in list(self._processes) if process.alive]

    def _kill(self) -> None:
        """Kills all processes."""
        with self._starting:
            self._ended = True
            for process in list(self._processes):
                process.kill()

    def _call(self, fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        """Runs a call in the process of the present thread, which is started if it does not exist."""
        process: _Process | None = getattr(self._thread_local, "process", None)
        if process is None or not process.alive:
            process = self._thread_local.process = self._start()
        ok, value = process.call(fn, args, kwargs)
        if ok:
            result: T = value
            return result
        raise value

    def _start(self) -> _Process:
        """Starts a process and waits until it is ready."""
        death: WorkerDied | None = None
        for _ in range(_MAX_START_ATTEMPTS):
            with self._starting:
                if self._ended:
                    raise CampaignError("the executor was shut down; create a new one")
                process = _Process()
                self._processes.add(process)
            try:
                process.call(os.getpid, (), {})
                return process
            except WorkerDied as error:
                death = error
                if not process.killed:
                    break
        raise CampaignError(
            f"no worker process can be started: {death}. A script that starts workers must do so inside the block if "
            '__name__ == "__main__":'
        )


class _Process:
    """One spawned process, connected by a pipe."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(other_end,), daemon=True)
        with _one_thread_each(), interrupts_blocked():
            self._process.start()
        other_end.close()  # the pipe then closes when the process dies
        self.pid = self._process.pid or 0

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.is_alive()

    @property
    def killed(self) -> bool:
        """Whether a signal ended the process."""
        return (self._process.exitcode or 0) < 0

    def call(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, Any]:
        """Runs a call; returns whether it returned, and the result or the exception."""
        try:
            self._pipe.send((fn, args, kwargs))
            reply: tuple[bool, Any] = self._pipe.recv()
            return reply
        except (EOFError, ConnectionError) as error:
            self._process.join()
            code = self._process.exitcode or 0
            ending = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            raise WorkerDied(f"the worker process ended with {ending}") from error

    def kill(self) -> None:
        """Kills the process."""
        self._process.kill()

    def end(self) -> None:
        """Ends the process by closing its pipe, and waits for its end."""
        self._pipe.close()
        self._process.join()
        self._process.close()


def _serve(pipe: Connection) -> None:
    """Serves calls until the other end of the pipe is closed."""
    while True:
        try:
            fn, args, kwargs = pipe.recv()
        except (EOFError, ConnectionError):
            return
        except Exception as error:  # cannot be unpickled here
            reply: tuple[bool, Any] = (False, CampaignError(f"{type(error).__name__}: {error}"))
        else:
            try:
                reply = (True, fn(*args, **kwargs))
            except BaseException as error:
                reply = (False, error)
        try:
            pipe.send(reply)
        except ConnectionError:
            return
        except Exception as error:
            pipe.send((False, CampaignError(f"the result cannot be pickled: {type(error).__name__}: {error}")))


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Context with the environment of processes that start inside: one thread of linear algebra each."""
    previous = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Context in which new processes and threads ignore Ctrl-C; only the client handles it, and ends them."""
    resource_tracker.ensure_running()  # its start unblocks interrupts, which would otherwise affect the first process
    with operating_system.interrupts_blocked():
        yield


def process_pool(count: int | None = None) -> ProcessPool:
    """Returns an executor of processes of this machine, for a ``with`` block.

    Args:
        count: number of processes; None: one per core.
    """
    return ProcessPool(count if count is not None else operating_system.usable_processors())
